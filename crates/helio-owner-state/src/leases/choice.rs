//! The choice of the call and the lease, among those kept, that go together.
//!
//! Calls go to the node that holds most of their large arguments, as long as it has room; where its daemon
//! says that it has none, a call moves if the workers there would let it wait for long. Calls with the
//! strategy "spread" go round the nodes on which there are leases, and no node is left out while it has room:
//! before a lease takes a second call, this node's daemon is asked for one on another node. While none has
//! room that request waits, and is granted when one has.

use helio_types::{NodeId, TaskId};

use super::env::Env;
use super::goal::Goal;
use super::line::Room;
use super::{Class, Lease, Leases, slots};

/// Microseconds that calls wait for a worker on a node that reported no room: its daemon first asks for
/// idle workers back.
pub(super) const PATIENCE_US: u64 = 200_000;
/// A call moves to another node if it would wait for longer than this and the copy of its arguments take.
const MOVE_US: u64 = 1_000_000;
/// Bytes that a copy between nodes is assumed to move per microsecond.
const COPIED_PER_US: u64 = 1_000;

/// A call, the line in which it waits, and the lease that takes it.
pub(crate) type Pair = (Option<NodeId>, TaskId, u64);

impl Lease {
    /// Whether it takes calls at all.
    pub(super) fn is_open(&self) -> bool {
        !self.revoked && self.broken.is_none()
    }
}

impl Leases {
    /// The nodes on which the class has leases that take calls.
    pub(super) fn nodes_of(&self, index: usize) -> Vec<NodeId> {
        let leases = self.classes[index].leases.iter().filter_map(|one| self.leases.get(one));
        let mut nodes: Vec<NodeId> =
            leases.filter(|lease| lease.is_open()).map(|lease| lease.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// A lease of the class that takes one more call: an idle one, else the emptiest. `node`: on that one.
    pub(super) fn with_room(&mut self, index: usize, node: Option<NodeId>) -> Option<u64> {
        let Self { classes, leases, .. } = self;
        let class = &mut classes[index];
        let is_there = |lease: &Lease| node.is_none_or(|node| lease.node == node);
        let is_idle = |request: &u64| {
            let lease = leases.get(request);
            lease.is_some_and(|one| one.sent.is_empty() && one.is_open() && is_there(one))
        };
        // The one used last: those that are not needed stay idle until they are given back.
        if let Some(place) = class.idle.iter().rposition(is_idle) {
            return Some(class.idle.remove(place));
        }
        let slots = class.slots();
        let mut emptiest: Option<(usize, u64)> = None;
        for request in &class.leases {
            let Some(lease) = leases.get_mut(request) else { continue };
            let takes = lease.is_open() && !lease.stealing && is_there(lease);
            let sent = lease.sent.len();
            if takes && lease.refill(slots) && emptiest.is_none_or(|(least, _)| sent < least) {
                emptiest = Some((sent, *request));
            }
        }
        emptiest.map(|(_, request)| request)
    }

    /// The lease of a class of calls that go round whose turn it is: on the node that was given one longest
    /// ago. Says also whether it was never given any.
    fn in_turn(&mut self, index: usize) -> Option<(u64, bool)> {
        let Self { classes, leases, .. } = self;
        let class = &mut classes[index];
        let slots = class.slots();
        let mut next: Option<((u64, usize), u64, bool)> = None;
        for request in &class.leases {
            let Some(lease) = leases.get_mut(request) else { continue };
            if !lease.is_open() || lease.stealing || !lease.refill(slots) {
                continue;
            }
            let turn = class.turns.get(&lease.node).copied().unwrap_or_default();
            // The turn comes first: calls go round the nodes even where one of them is quicker.
            let rank = (turn, lease.sent.len());
            if next.is_none_or(|(least, _, _)| rank < least) {
                next = Some((rank, *request, lease.is_fresh));
            }
        }
        next.map(|(_, request, is_fresh)| (request, is_fresh))
    }

    /// Returns the earliest time at which calls stop waiting for a node without room.
    pub(super) fn next_patience(&self) -> Option<u64> {
        self.classes.iter().filter_map(|class| class.queue.next_patience()).min()
    }

    /// Ends the waits for nodes without room that are over. Returns the classes of their calls.
    pub(crate) fn end_patience(&mut self, now: u64) -> Vec<usize> {
        let classes = self.classes.iter_mut().enumerate();
        classes.filter_map(|(index, one)| one.queue.end_patience(now).then_some(index)).collect()
    }
}

impl Class {
    /// Returns the number of calls that may be sent ahead to one lease of the class.
    fn slots(&self) -> usize {
        if self.class.exclusive { 1 } else { slots(self.call_us) }
    }

    /// Whether a worker on any node may be requested. Calls that go round the nodes (`SPREAD`) wait for the
    /// requests under way.
    pub(super) fn may_ask_any(&self) -> bool {
        !self.is_in_turn() || self.queue.len() > self.open_requests()
    }
}

impl Leases {
    /// The next call that is to be sent, and to which lease.
    pub(crate) fn next_pair(&mut self, index: usize, env: &mut Env<'_>) -> Option<Pair> {
        let class = &self.classes[index];
        if class.is_in_turn() {
            return self.next_in_turn(index, env);
        }
        // The common case: no call has a best node, so the first one goes to any lease.
        if let Some(task) = class.queue.only_anywhere() {
            return Some((None, task, self.with_room(index, None)?));
        }
        for (node, task) in class.queue.fronts() {
            let mut lease = self.with_room(index, node);
            if lease.is_none() && node.is_some_and(|node| self.may_move(index, node, task, env)) {
                lease = self.with_room(index, None);
            }
            if let Some(lease) = lease {
                return Some((node, task, lease));
            }
        }
        None
    }

    /// Whether a call, the first that waits for a node without room, is better run on another one.
    pub(super) fn may_move(&self, index: usize, node: NodeId, task: TaskId, env: &Env<'_>) -> bool {
        let class = &self.classes[index];
        let room = class.queue.room(node);
        // A worker may come at any moment: the call waits where its arguments are.
        if room == Room::Unknown {
            return false;
        }
        let leases = class.leases.iter().filter_map(|request| self.leases.get(request));
        let there = leases.filter(|lease| lease.node == node && lease.is_open());
        let ages: Vec<u64> = there.map(|lease| env.ctx.now().saturating_sub(lease.began)).collect();
        // There is no worker there to wait for: the call moves once the wait for room is over.
        let Some(youngest) = ages.iter().min() else { return room == Room::None };
        // A call that has run for long may run for as long again.
        let call_us = class.call_us.max(*youngest);
        let waits = class.queue.len_of(Some(node)) as u64 * call_us / ages.len() as u64;
        let bytes = env.calls.get(task).map_or(0, |task| env.objects.bytes_on(task.spec(), node));
        // To move costs the copy of its arguments, for this call and the room that the copy takes.
        waits > MOVE_US + bytes / COPIED_PER_US
    }

    fn next_in_turn(&mut self, index: usize, env: &mut Env<'_>) -> Option<Pair> {
        let task = self.classes[index].queue.only_anywhere()?;
        let (lease, is_fresh) = self.in_turn(index)?;
        if !is_fresh && !self.pauses.holds(index) {
            let class = &self.classes[index];
            if !class.knows_no_room() && class.open_requests() == 0 {
                self.request(index, Goal::Another, None, env);
            }
            // A worker that was requested has a call to run when it comes.
            let class = &self.classes[index];
            if class.queue.len() <= class.open_requests() {
                return None;
            }
        }
        let class = &mut self.classes[index];
        class.idle.retain(|idle| *idle != lease);
        class.turn += 1;
        if let Some(node) = self.leases.get(&lease).map(|lease| lease.node) {
            class.turns.insert(node, class.turn);
        }
        Some((None, task, lease))
    }
}
