//! The calls that wait for a worker, by kind: which go to leases with room, and how many more leases are
//! asked for.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use helio_proto::control::StrategyKind;
use helio_proto::node::LeaseClass;
use helio_types::TaskId;

use super::{Class, Leases};
use crate::Owner;
use crate::event::Action;
use crate::task::State;

/// How many calls are sent ahead to one worker at most.
pub const SLOTS_MAX: usize = 32;
/// Calls are sent ahead as far as they take about this long together, in microseconds.
const AHEAD_US: u64 = 1_000;
/// How many lease requests of one class are under way at most.
const REQUESTS_MAX: usize = 16;
/// With so many kinds of calls, the next takes the place of one that has no calls and no leases; most kinds
/// of a long session are those of placement groups that are gone.
pub(super) const CLASSES_MAX: usize = 1_000;
/// How many addresses of descriptions of kinds are remembered; then all are forgotten.
const POINTERS_MAX: usize = 10_000;
/// An empty queue keeps room for so many calls.
const QUEUE_KEPT: usize = 1 << 15;

impl Class {
    /// How many requests are to be under way.
    fn requests_wanted(&self) -> usize {
        self.queue.len().min(REQUESTS_MAX)
    }

    /// Whether each call has a lease of its own: its devices or its worker's number of calls matter, or
    /// the calls are to go round the nodes, which a lease that is kept would not let them.
    pub(super) fn is_single(&self) -> bool {
        self.class.exclusive || self.class.strategy.kind == StrategyKind::Spread
    }
}

/// How many calls a worker is sent ahead.
#[must_use]
pub fn slots(call_us: u64) -> usize {
    match call_us {
        0 => 1,
        us => (AHEAD_US / us).clamp(1, SLOTS_MAX as u64) as usize,
    }
}

impl Leases {
    /// Equal classes share leases, however often they were written.
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
            queue: VecDeque::new(),
            idle: Vec::new(),
            leases: Vec::new(),
            requests: BTreeMap::new(),
            call_us: 0,
        };
        let is_unused = |class: &Class| {
            class.queue.is_empty() && class.leases.is_empty() && class.requests.is_empty()
        };
        let is_full = self.classes.len() >= CLASSES_MAX;
        let index = match is_full.then(|| self.classes.iter().position(is_unused)).flatten() {
            Some(unused) => {
                self.by_content.retain(|_, index| *index != unused);
                self.by_pointer.retain(|_, index| *index != unused);
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

impl Owner {
    pub(crate) fn enqueue(
        &mut self,
        class: &Arc<LeaseClass>,
        task: TaskId,
        now: u64,
        out: &mut Vec<Action>,
    ) {
        let index = self.leases.class(class);
        let class = &mut self.leases.classes[index];
        class.queue.push_back(task);
        // Behind others it changes nothing: there was no room for them, and whatever makes room pumps.
        if class.queue.len() == 1 || class.requests.len() < class.requests_wanted() {
            self.pump(index, now, out);
        }
    }

    /// Takes a call out of its class's queue, if it is in one; the class.
    pub(crate) fn unqueue(&mut self, task: TaskId) -> Option<usize> {
        self.leases.classes.iter_mut().position(|class| {
            let place = class.queue.iter().position(|queued| *queued == task);
            place.and_then(|place| class.queue.remove(place)).is_some()
        })
    }

    /// Sends queued calls to leases with room, and asks for more leases if calls are left.
    pub(crate) fn pump(&mut self, index: usize, now: u64, out: &mut Vec<Action>) {
        loop {
            let class = &mut self.leases.classes[index];
            let Some(task) = class.queue.front().copied() else { break };
            let Some(request) = self.lease_with_room(index) else { break };
            self.leases.classes[index].queue.pop_front();
            if self.waits_again(task, out) {
                self.leases.classes[index].idle.push(request);
                continue;
            }
            self.send(request, task, now, out);
        }
        let class = &mut self.leases.classes[index];
        if class.queue.is_empty() {
            if class.queue.capacity() > QUEUE_KEPT {
                class.queue = VecDeque::new();
            }
            for (request, node) in std::mem::take(&mut class.requests) {
                out.push(Action::CancelLease { node, request });
            }
            self.leases.pauses.clear(index);
            return;
        }
        if self.leases.pauses.holds(index) {
            return;
        }
        let wanted = class.requests_wanted();
        while self.leases.classes[index].requests.len() < wanted {
            let class = &self.leases.classes[index];
            let first = class.queue.get(class.requests.len()).or_else(|| class.queue.front());
            let first = first.and_then(|task| self.tasks.get(task));
            let is_retriable = first.is_some_and(|task| task.retries_left != 0);
            let locality = first.map(|task| self.locality(&task.spec));
            self.leases.next_request += 1;
            let request = self.leases.next_request;
            let class = &mut self.leases.classes[index];
            class.requests.insert(request, None);
            out.push(Action::RequestLease {
                node: None,
                request,
                class: class.class.clone(),
                backlog: class.queue.len() as u64,
                locality: locality.unwrap_or_default(),
                is_retriable,
            });
        }
    }

    fn lease_with_room(&mut self, index: usize) -> Option<u64> {
        let Leases { classes, leases, .. } = &mut self.leases;
        let class = &mut classes[index];
        while let Some(request) = class.idle.pop() {
            if leases.get(&request).is_some_and(|lease| {
                lease.sent.is_empty() && !lease.revoked && lease.broken.is_none()
            }) {
                return Some(request);
            }
        }
        let slots = if class.is_single() { 1 } else { slots(class.call_us) };
        let mut emptiest: Option<(usize, u64)> = None;
        for request in &class.leases {
            let Some(lease) = leases.get_mut(request) else { continue };
            let takes = !lease.revoked && lease.broken.is_none() && !lease.stealing;
            let sent = lease.sent.len();
            if takes && lease.refill(slots) && emptiest.is_none_or(|(least, _)| sent < least) {
                emptiest = Some((sent, *request));
            }
        }
        emptiest.map(|(_, request)| request)
    }

    fn send(&mut self, request: u64, id: TaskId, now: u64, out: &mut Vec<Action>) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let Some(lease) = self.leases.leases.get_mut(&request) else { return };
        task.state = State::OnLease(request);
        task.at = Some(lease.worker.clone());
        task.sent = now;
        if lease.sent.is_empty() {
            lease.began = now;
        }
        lease.sent.push_back(id);
        let (spec, attempt, to, lease) =
            (task.spec.clone(), task.attempt, lease.worker.clone(), lease.id);
        let args = self.encode_args(&spec.args);
        let (sequence, is_remade) = (0, false);
        out.push(Action::Call { to, spec, args, lease, sequence, attempt, is_remade });
    }
}
