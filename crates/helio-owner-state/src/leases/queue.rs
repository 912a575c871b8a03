//! The calls that wait for a worker, by kind: they go to leases with room, and more leases are asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use helio_proto::control::StrategyKind;
use helio_proto::node::LeaseClass;
use helio_types::{LeaseId, NodeAddress, NodeId, TaskId, WorkerAddress};

use super::env::Env;
use super::line::Line;
use super::requests::{REQUESTS_MAX, follows_arguments};
use super::{CLASSES_MAX, Class, Leases};

/// Number of remembered addresses of class descriptions; at this number all are forgotten.
const POINTERS_MAX: usize = 10_000;

impl Class {
    /// Whether its calls go round the nodes on which it has leases.
    pub(super) fn is_in_turn(&self) -> bool {
        self.class.strategy.kind == StrategyKind::Spread && !self.class.exclusive
    }
}

impl Leases {
    /// The index of a class. Equal classes have the same one, even if they are separate allocations, and so share
    /// leases.
    fn class(&mut self, class: &Arc<LeaseClass>) -> usize {
        let pointer = Arc::as_ptr(class) as usize;
        if let Some(index) = self.by_pointer.get(&pointer)
            && (Arc::ptr_eq(&self.classes[*index].class, class)
                || *self.classes[*index].class == **class)
        {
            return *index;
        }
        // The name says which function waits; it does not tell classes apart.
        let content = helio_proto::encode(&LeaseClass { name: String::new(), ..(**class).clone() });
        let index = match self.by_content.get(&content) {
            Some(index) => *index,
            None => self.add_class(class, content),
        };
        // Descriptions come and go, and their addresses with them.
        if self.by_pointer.len() >= POINTERS_MAX {
            self.by_pointer.clear();
        }
        self.by_pointer.insert(pointer, index);
        index
    }

    /// **LIMIT-1** One more kind of calls.
    fn add_class(&mut self, class: &Arc<LeaseClass>, content: Vec<u8>) -> usize {
        let class = Class {
            class: class.clone(),
            queue: Line::default(),
            idle: Vec::new(),
            leases: Vec::new(),
            requests: BTreeMap::new(),
            call_us: 0,
            turn: 0,
            turns: BTreeMap::new(),
        };
        let is_unused = |class: &Class| {
            class.queue.is_empty() && class.leases.is_empty() && class.requests.is_empty()
        };
        let is_full = self.classes.len() >= CLASSES_MAX;
        let index = match is_full.then(|| self.classes.iter().position(is_unused)).flatten() {
            Some(unused) => {
                // Whatever named the old class must not find the new one.
                self.by_content.retain(|_, index| *index != unused);
                self.by_pointer.retain(|_, index| *index != unused);
                let has_idle = !self.classes[unused].idle.is_empty();
                assert!(!has_idle, "workers of one kind of calls would be sent those of another");
                self.classes[unused] = class;
                self.pauses.clear(unused);
                unused
            }
            None => {
                self.classes.push(class);
                self.classes.len() - 1
            }
        };
        self.by_content.insert(content, index);
        index
    }
}

impl Leases {
    /// The call waits for a worker; `is_stored`: some of its arguments lie in object stores. Returns its class, if
    /// calls of that may be sent or workers asked for.
    pub(crate) fn enqueue(
        &mut self,
        class: &Arc<LeaseClass>,
        task: TaskId,
        is_stored: bool,
        env: &Env<'_>,
    ) -> Option<usize> {
        let index = self.class(class);
        let near = if is_stored { self.best_node(index, task, env) } else { None };
        let node = near.as_ref().map(|near| near.node_id);
        let class = &mut self.classes[index];
        class.queue.push_back(near, task);
        // Behind others it changes nothing: there was no room for them, and whatever makes room pumps. Behind many
        // it is not even counted what was asked for.
        let waiting = class.queue.len_of(node);
        let may_help = waiting == 1 || (waiting <= REQUESTS_MAX && class.lacks_requests(node));
        may_help.then_some(index)
    }

    /// Puts a call that came back in front of the others of its class.
    pub(super) fn enqueue_again(&mut self, index: usize, task: TaskId, env: &Env<'_>) {
        let near = self.best_node(index, task, env);
        self.classes[index].queue.push_front(near, task);
    }

    /// Returns the node on which a call of the class is best run, according to its arguments.
    pub(super) fn best_node(
        &self,
        index: usize,
        task: TaskId,
        env: &Env<'_>,
    ) -> Option<NodeAddress> {
        let is_free = follows_arguments(&self.classes[index].class);
        let task = env.calls.get(task).filter(|_| is_free)?;
        env.objects.holder_of_most(task.spec(), env.ctx.node_id())
    }

    /// Takes a call out of its class's queue, if it is in one; the class.
    pub(crate) fn unqueue(&mut self, task: TaskId) -> Option<usize> {
        self.classes.iter_mut().position(|class| class.queue.remove(task))
    }

    /// Takes the first call of that line out of the queue.
    pub(crate) fn pop_front(&mut self, index: usize, line: Option<NodeId>) {
        self.classes[index].queue.pop_front(line);
    }

    /// Puts a lease back among the idle ones.
    pub(crate) fn leave_idle(&mut self, index: usize, request: u64) {
        self.classes[index].idle.push(request);
    }

    /// All that could be sent was sent: withdraws requests whose calls are gone, and asks for workers for those that are
    /// left.
    pub(crate) fn ask_for_rest(&mut self, index: usize, env: &mut Env<'_>) {
        self.cancel_useless(index, env.ctx);
        if self.classes[index].queue.is_empty() {
            self.pauses.clear(index);
        } else if !self.pauses.holds(index) {
            self.ask(index, env);
        }
    }

    /// A call is sent to the lease's worker. Returns that and the daemon's number for the lease.
    pub(crate) fn on_sent(
        &mut self,
        request: u64,
        task: TaskId,
        now: u64,
    ) -> Option<(Arc<WorkerAddress>, LeaseId)> {
        let lease = self.leases.get_mut(&request)?;
        lease.is_fresh = false;
        let is_alone = !self.classes[lease.class].class.exclusive || lease.sent.is_empty();
        assert!(is_alone, "a worker that is to run one call would get a second one");
        // Behind others it begins later: when the one before it is replied to.
        if lease.sent.is_empty() {
            lease.began = now;
        }
        lease.sent.push_back(task);
        Some((lease.worker.clone(), lease.id))
    }
}
