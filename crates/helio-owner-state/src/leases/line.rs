//! The calls of one kind that wait for a worker, in their order, by the node on which each is best run.

use std::collections::{BTreeMap, VecDeque};

use helio_types::{NodeAddress, NodeId, TaskId};

/// Number of calls for which an empty queue keeps room.
const QUEUE_KEPT: usize = 1 << 15;

/// A call, and its place among all that wait.
type Waiting = (i64, TaskId);

/// The calls that are best run on one node, because it holds most of their large arguments.
#[derive(Debug)]
struct Near {
    address: NodeAddress,
    calls: VecDeque<Waiting>,
    room: Room,
}

/// The room on a node for which calls wait, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Room {
    /// A worker there may come at any moment.
    Unknown,
    /// The node's daemon reported no room. Calls wait for it until this time, because the daemon asks
    /// for idle workers back.
    Short(u64),
    /// The node has had no room for a while, or its daemon has sent a request on.
    None,
}

/// The waiting calls of one kind: those that may run anywhere, and those that have a best node.
#[derive(Debug, Default)]
pub(super) struct Line {
    anywhere: VecDeque<Waiting>,
    near: BTreeMap<NodeId, Near>,
    /// The place of the first call, and one more than that of the last.
    ends: (i64, i64),
}

impl Line {
    pub(super) fn len(&self) -> usize {
        self.anywhere.len() + self.near.values().map(|near| near.calls.len()).sum::<usize>()
    }

    pub(super) fn is_empty(&self) -> bool {
        // A node is listed only while calls are.
        self.anywhere.is_empty() && self.near.is_empty()
    }

    /// Returns the number of waiting calls that are best run on the node; for `None`, of those that
    /// may run anywhere.
    pub(super) fn len_of(&self, node: Option<NodeId>) -> usize {
        match node {
            None => self.anywhere.len(),
            Some(node) => self.near.get(&node).map_or(0, |near| near.calls.len()),
        }
    }

    fn calls_mut(&mut self, near: Option<NodeAddress>) -> &mut VecDeque<Waiting> {
        let Some(address) = near else { return &mut self.anywhere };
        let new = || Near { address: address.clone(), calls: VecDeque::new(), room: Room::Unknown };
        &mut self.near.entry(address.node_id).or_insert_with(new).calls
    }

    pub(super) fn push_back(&mut self, near: Option<NodeAddress>, id: TaskId) {
        let place = self.ends.1;
        self.ends.1 += 1;
        let calls = self.calls_mut(near);
        let is_last = calls.back().is_none_or(|(last, _)| *last < place);
        assert!(is_last, "a call would wait before one that was made earlier");
        calls.push_back((place, id));
    }

    pub(super) fn push_front(&mut self, near: Option<NodeAddress>, id: TaskId) {
        self.ends.0 -= 1;
        let place = self.ends.0;
        let calls = self.calls_mut(near);
        let is_first = calls.front().is_none_or(|(first, _)| *first > place);
        assert!(is_first, "a call that came back would wait behind one that was made later");
        calls.push_front((place, id));
    }

    /// The first call that may run anywhere, if only such calls wait.
    pub(super) fn only_anywhere(&self) -> Option<TaskId> {
        let first = self.anywhere.front().filter(|_| self.near.is_empty());
        first.map(|(_, id)| *id)
    }

    /// The first of all calls.
    pub(super) fn first(&self) -> Option<TaskId> {
        self.fronts().first().map(|(_, id)| *id)
    }

    /// The first call for each node, and the first that may run anywhere, in their order.
    pub(super) fn fronts(&self) -> Vec<(Option<NodeId>, TaskId)> {
        let anywhere = self.anywhere.front().map(|first| (None, first));
        let near = self.near.iter();
        let near = near.filter_map(|(node, near)| Some((Some(*node), near.calls.front()?)));
        let mut fronts: Vec<_> = anywhere.into_iter().chain(near).collect();
        fronts.sort_unstable_by_key(|(_, (place, _))| *place);
        fronts.into_iter().map(|(node, (_, id))| (node, *id)).collect()
    }

    pub(super) fn pop_front(&mut self, node: Option<NodeId>) -> Option<TaskId> {
        let Some(node) = node else {
            let first = Self::pop(&mut self.anywhere);
            // A burst of a million calls is not to keep its memory for the rest of the session.
            if self.anywhere.is_empty() && self.anywhere.capacity() > QUEUE_KEPT {
                self.anywhere = VecDeque::new();
            }
            return first;
        };
        let first = Self::pop(&mut self.near.get_mut(&node)?.calls);
        self.forget_if_empty(node);
        first
    }

    fn forget_if_empty(&mut self, node: NodeId) {
        if self.len_of(Some(node)) == 0 {
            self.near.remove(&node);
        }
    }

    /// The call that waits as number `n`, from 0, for the node.
    pub(super) fn nth(&self, node: Option<NodeId>, n: usize) -> Option<TaskId> {
        let calls = match node {
            None => &self.anywhere,
            Some(node) => &self.near.get(&node)?.calls,
        };
        calls.get(n).map(|(_, id)| *id)
    }

    /// Takes the first of these calls.
    fn pop(calls: &mut VecDeque<Waiting>) -> Option<TaskId> {
        let (place, id) = calls.pop_front()?;
        let is_first = calls.front().is_none_or(|(next, _)| *next > place);
        assert!(is_first, "a call would be sent before one that was made earlier");
        Some(id)
    }

    /// Takes a call out of the line. Returns whether it was in it.
    pub(super) fn remove(&mut self, id: TaskId) -> bool {
        let all = [&mut self.anywhere].into_iter();
        let all = all.chain(self.near.values_mut().map(|near| &mut near.calls));
        let mut removed = false;
        for calls in all {
            if let Some(place) = calls.iter().position(|(_, waiting)| *waiting == id) {
                removed = calls.remove(place).is_some();
                break;
            }
        }
        self.near.retain(|_, near| !near.calls.is_empty());
        removed
    }

    fn all(&self) -> impl Iterator<Item = (Option<NodeId>, Waiting)> + '_ {
        let near = self.near.iter();
        let near = near.flat_map(|(node, near)| near.calls.iter().map(|one| (Some(*node), *one)));
        self.anywhere.iter().map(|one| (None, *one)).chain(near)
    }

    /// Whether the calls stand in the order of their places, and each node in the list has some.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.near.values().any(|near| near.calls.is_empty()) {
            return Err("a node is listed for which no call waits".to_owned());
        }
        let lines = self.near.values().map(|near| &near.calls).chain([&self.anywhere]);
        for calls in lines {
            let is_ordered =
                calls.iter().zip(calls.iter().skip(1)).all(|(one, next)| one.0 < next.0);
            let is_within =
                calls.iter().all(|(place, _)| (self.ends.0..self.ends.1).contains(place));
            if !is_ordered || !is_within {
                return Err("calls wait out of their order".to_owned());
            }
        }
        Ok(())
    }

    /// Returns the number of calls before this one, and the node for which it waits.
    pub(super) fn position(&self, id: TaskId) -> Option<(usize, Option<NodeId>)> {
        let (node, (own, _)) = self.all().find(|(_, (_, waiting))| *waiting == id)?;
        Some((self.all().filter(|(_, (place, _))| *place < own).count(), node))
    }

    /// All calls in their order, each with the node for which it waits.
    pub(super) fn in_order(&self) -> Vec<(Option<NodeId>, TaskId)> {
        let mut all: Vec<_> = self.all().collect();
        all.sort_unstable_by_key(|(_, (place, _))| *place);
        all.into_iter().map(|(node, (_, id))| (node, id)).collect()
    }

    pub(super) fn contains(&self, id: TaskId) -> bool {
        self.all().any(|(_, (_, waiting))| waiting == id)
    }

    /// Takes all calls, in their order.
    pub(super) fn take_all(&mut self) -> Vec<TaskId> {
        let all = self.in_order();
        *self = Self::default();
        all.into_iter().map(|(_, id)| id).collect()
    }

    /// The node is gone: the calls that were for it may run anywhere.
    pub(super) fn on_node_gone(&mut self, node: NodeId) {
        if let Some(near) = self.near.remove(&node) {
            self.anywhere.extend(near.calls);
            // Their places say where they stand among those that were there.
            self.anywhere.make_contiguous().sort_unstable();
        }
    }

    /// The nodes for which calls wait.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &NodeAddress> {
        self.near.values().map(|near| &near.address)
    }

    pub(super) fn room(&self, node: NodeId) -> Room {
        self.near.get(&node).map_or(Room::Unknown, |near| near.room)
    }

    /// Notes the room of a node, of which there is news.
    pub(super) fn set_room(&mut self, node: NodeId, room: Room) {
        if let Some(near) = self.near.get_mut(&node) {
            near.room = room;
        }
    }

    /// A node's daemon says that it has no room: calls wait for it until then.
    pub(super) fn on_full(&mut self, node: NodeId, until: u64) {
        // A daemon that says so again does not prolong the wait.
        if self.room(node) == Room::Unknown {
            self.set_room(node, Room::Short(until));
        }
    }

    /// Returns the earliest time at which calls stop waiting for a node without room.
    pub(super) fn next_patience(&self) -> Option<u64> {
        let until = |near: &Near| match near.room {
            Room::Short(until) => Some(until),
            Room::Unknown | Room::None => None,
        };
        self.near.values().filter_map(until).min()
    }

    /// Ends the waits for nodes without room that are over. Returns whether there was one.
    pub(super) fn end_patience(&mut self, now: u64) -> bool {
        let mut has_ended = false;
        for near in self.near.values_mut() {
            if matches!(near.room, Room::Short(until) if until <= now) {
                (near.room, has_ended) = (Room::None, true);
            }
        }
        has_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_types::{ActorId, JobId};

    fn id(number: u64) -> TaskId {
        TaskId::new(number, ActorId::new([7; 12], JobId([1, 0, 0, 0])))
    }

    fn node(number: u8) -> NodeAddress {
        NodeAddress { node_id: NodeId([number; 28]), ..NodeAddress::default() }
    }

    #[test]
    fn calls_keep_their_order_whatever_they_wait_for() {
        let mut line = Line::default();
        line.push_back(Some(node(1)), id(1));
        line.push_back(None, id(2));
        line.push_back(Some(node(2)), id(3));
        line.push_back(Some(node(1)), id(4));
        line.push_front(None, id(0));
        let near = |number| Some(node(number).node_id);
        assert_eq!(line.fronts(), [(None, id(0)), (near(1), id(1)), (near(2), id(3))]);
        assert_eq!(line.position(id(4)), Some((4, near(1))));
        line.on_full(node(1).node_id, 5);
        assert!(line.next_patience() == Some(5) && !line.end_patience(4) && line.end_patience(5));
        assert_eq!((line.room(node(1).node_id), line.next_patience()), (Room::None, None));
        assert!(line.remove(id(3)) && !line.remove(id(3)));
        line.on_node_gone(node(1).node_id);
        assert_eq!(line.only_anywhere(), Some(id(0)));
        assert_eq!(line.take_all(), [id(0), id(1), id(2), id(4)]);
        assert!(line.is_empty());
    }
}
