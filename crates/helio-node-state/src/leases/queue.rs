//! The requests that wait for a lease. Those of a class wait first come, first served; classes take turns.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use helio_proto::control::{Strategy, StrategyKind};
use helio_proto::node::LeaseClass;
use helio_scheduler::{GroupBundle, taken};
use helio_types::{NodeId, PlacementGroupId, ResourceSet};

use crate::event::Conn;
use crate::keys::ClassKey;

/// A request that waits.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) conn: Conn,
    pub(super) request_id: u64,
    pub(super) since: u64,
    /// The earliest time at which the request may be sent on to another node. One that came from another node
    /// waits here first, so that no request circulates.
    pub(super) may_spill_at: u64,
    /// Nodes that the request touches; see [`helio_proto::node::RequestLease`].
    pub(super) touched: Vec<NodeId>,
    /// The client was told that no node can hold the request.
    pub(super) is_warned: bool,
    /// Whether the client need not be told that no node has room: it was told, or has no other way.
    pub(super) is_told: bool,
    pub(super) is_retriable: bool,
}

/// The requests that are alike.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) key: ClassKey,
    pub(super) spec: Arc<LeaseClass>,
    /// The resources that a lease of the class takes from a node.
    pub(super) takes: ResourceSet,
    /// Whether the requests are only for workers on additional nodes: the requester has workers already, and
    /// nobody else is asked to give a worker back for them.
    pub(super) is_wish: bool,
    waiting: VecDeque<Request>,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Classes in which someone waits.
    classes: BTreeMap<u64, Class>,
    numbers: HashMap<ClassKey, u64>,
    /// The last number given.
    count: u64,
    /// The class that was served last.
    turn: u64,
    /// Number of waiting requests.
    waiting: usize,
}

impl Class {
    /// The request whose turn it is.
    pub(super) fn first(&self) -> Option<&Request> {
        self.waiting.front()
    }

    /// Returns the number of requests before this one.
    pub(super) fn position(&self, conn: Conn, request_id: u64) -> Option<usize> {
        let is_it = |request: &Request| request.conn == conn && request.request_id == request_id;
        self.waiting.iter().position(is_it)
    }
}

impl Queue {
    pub(super) fn push(&mut self, mut spec: LeaseClass, request: Request) {
        let name = std::mem::take(&mut spec.name);
        let mut content = helio_proto::encode(&spec);
        spec.name = name;
        let is_wish = spec.strategy.kind == StrategyKind::Spread && !request.touched.is_empty();
        if is_wish {
            // The request waits for other nodes than the others of its kind.
            request.touched.iter().for_each(|node_id| content.extend_from_slice(&node_id.0));
        }
        let key = ClassKey::from(content);
        let number = *self.numbers.entry(Arc::clone(&key)).or_insert_with(|| {
            self.count += 1;
            self.count
        });
        let new = || {
            let takes = taken(&spec.resources, &spec.strategy).into_owned();
            Class { key, spec: Arc::new(spec), takes, is_wish, waiting: VecDeque::new() }
        };
        self.classes.entry(number).or_insert_with(new).waiting.push_back(request);
        self.waiting += 1;
    }

    pub(super) fn pop(&mut self, number: u64) -> Option<(ClassKey, Arc<LeaseClass>, Request)> {
        let class = self.classes.get_mut(&number)?;
        let request = class.waiting.pop_front()?;
        let (key, spec) = (Arc::clone(&class.key), Arc::clone(&class.spec));
        assert!(self.waiting > 0, "a request that waits was counted");
        self.waiting -= 1;
        self.forget_if_empty(number);
        Some((key, spec, request))
    }

    pub(super) fn remove(&mut self, conn: Conn, request_id: u64) -> bool {
        let before = self.waiting;
        for class in self.classes.values_mut() {
            class
                .waiting
                .retain(|request| request.conn != conn || request.request_id != request_id);
        }
        self.waiting = self.classes.values().map(|class| class.waiting.len()).sum();
        let empty: Vec<u64> = self
            .classes
            .iter()
            .filter(|(_, class)| class.waiting.is_empty())
            .map(|(number, _)| *number)
            .collect();
        for number in empty {
            self.forget_if_empty(number);
        }
        self.waiting < before
    }

    /// Classes are remembered only while someone waits in them, so that their number is bounded.
    fn forget_if_empty(&mut self, number: u64) {
        if self.classes.get(&number).is_some_and(|class| class.waiting.is_empty())
            && let Some(class) = self.classes.remove(&number)
        {
            let removed = self.numbers.remove(&class.key);
            assert_eq!(removed, Some(number), "requests would wait among those of another kind");
        }
    }

    /// Returns the number of waiting requests.
    pub(super) fn len(&self) -> usize {
        self.waiting
    }

    pub(super) fn class(&self, number: u64) -> Option<&Class> {
        self.classes.get(&number)
    }

    pub(super) fn classes(&self) -> impl Iterator<Item = &Class> {
        self.classes.values()
    }

    /// The first request of a class.
    pub(super) fn first_mut(&mut self, number: u64) -> Option<&mut Request> {
        self.classes.get_mut(&number)?.waiting.front_mut()
    }

    /// The class was served: the others come first now.
    pub(super) fn set_turn(&mut self, number: u64) {
        self.turn = number;
    }

    /// The numbers of the classes, beginning after the one that was served last.
    pub(super) fn in_turn(&self) -> Vec<u64> {
        let after = self.classes.range(self.turn + 1..).map(|(number, _)| *number);
        after.chain(self.classes.range(..=self.turn).map(|(number, _)| *number)).collect()
    }

    /// Returns the shapes that wait, with the number of requests of each; wishes are left out.
    pub(super) fn demand(&self) -> impl Iterator<Item = (&LeaseClass, usize)> {
        let needed = self.classes.values().filter(|class| !class.is_wish);
        needed.map(|class| (&*class.spec, class.waiting.len()))
    }

    /// The classes that a placement group's requests are in.
    pub(super) fn of_group(&self, group_id: PlacementGroupId) -> impl Iterator<Item = u64> {
        let inside = move |class: &Class| in_group(&class.spec.strategy, group_id);
        self.classes.iter().filter(move |(_, class)| inside(class)).map(|(number, _)| *number)
    }
}

fn in_group(strategy: &Strategy, group_id: PlacementGroupId) -> bool {
    GroupBundle::of(strategy).is_some_and(|place| place.group_id == group_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, cpus: f64) -> LeaseClass {
        let resources = ResourceSet::from_units([("CPU", cpus)]);
        LeaseClass { name: name.to_owned(), resources, ..LeaseClass::default() }
    }

    fn request(request_id: u64) -> Request {
        Request {
            conn: Conn(1),
            request_id,
            since: 0,
            may_spill_at: 0,
            touched: Vec::new(),
            is_warned: false,
            is_told: false,
            is_retriable: false,
        }
    }

    #[test]
    fn requests_are_alike_whatever_their_name_and_wait_in_their_order() {
        let mut queue = Queue::default();
        queue.push(class("f", 1.0), request(1));
        queue.push(class("g", 1.0), request(2));
        queue.push(class("h", 2.0), request(3));
        let numbers = queue.in_turn();
        assert_eq!((numbers.len(), queue.len()), (2, 3));
        let position = |number, id| queue.class(number).and_then(|one| one.position(Conn(1), id));
        assert_eq!(position(numbers[0], 2), Some(1));
        let popped = |queue: &mut Queue| queue.pop(numbers[0]).map(|one| one.2.request_id);
        assert_eq!(
            [popped(&mut queue), popped(&mut queue), popped(&mut queue)],
            [Some(1), Some(2), None]
        );
        assert_eq!(queue.in_turn(), numbers[1..], "a class without requests is forgotten");
    }

    #[test]
    fn classes_take_turns() {
        let mut queue = Queue::default();
        for cpus in 1..4 {
            queue.push(class("f", f64::from(cpus)), request(cpus as u64));
        }
        let numbers = queue.in_turn();
        queue.set_turn(numbers[0]);
        assert_eq!(queue.in_turn(), [numbers[1], numbers[2], numbers[0]]);
    }

    #[test]
    fn a_request_is_withdrawn_once() {
        let mut queue = Queue::default();
        queue.push(class("f", 1.0), request(1));
        assert!(!queue.remove(Conn(2), 1));
        assert!(queue.remove(Conn(1), 1) && !queue.remove(Conn(1), 1));
        assert_eq!((queue.len(), queue.demand().count()), (0, 0));
    }
}
