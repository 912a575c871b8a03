//! Frees that were told to other nodes of late.
//!
//! A node that is drained gives its objects to an heir and leaves. A free that is under way to it then would be lost, and
//! the heir would keep the object for ever: it is told, too.

use std::collections::VecDeque;

use helio_proto::cluster::DropObject;
use helio_types::NodeId;

/// **LIMIT-1** Number of drops that are kept; the oldest is forgotten first, and an object that its owner has
/// freed may stay.
const DROPS_MAX: usize = 10_000;

/// Milliseconds by which the news that a node has left may be late.
const DROPS_MS: u64 = 30_000;

#[derive(Debug, Default)]
pub(super) struct Drops {
    told: VecDeque<(u64, NodeId, DropObject)>,
}

impl Drops {
    pub(super) fn add(&mut self, to: NodeId, dropped: DropObject, now: u64) {
        self.forget_old(now);
        if self.told.len() == DROPS_MAX {
            self.told.pop_front();
        }
        let is_last = self.told.back().is_none_or(|(at, _, _)| *at <= now);
        assert!(is_last, "what was told long ago would be told again");
        self.told.push_back((now, to, dropped));
        assert!(self.told.len() <= DROPS_MAX, "LIMIT-1");
    }

    /// Takes what a node was told to drop, once it has left.
    pub(super) fn take(&mut self, node_id: NodeId, now: u64) -> Vec<DropObject> {
        self.forget_old(now);
        let all = std::mem::take(&mut self.told).into_iter();
        let (taken, kept): (VecDeque<_>, VecDeque<_>) = all.partition(|(_, to, _)| *to == node_id);
        self.told = kept;
        taken.into_iter().map(|(_, _, dropped)| dropped).collect()
    }

    fn forget_old(&mut self, now: u64) {
        while self.told.front().is_some_and(|(at, _, _)| at + DROPS_MS < now) {
            self.told.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use helio_types::ObjectId;

    use super::*;

    #[test]
    fn what_a_node_was_told_is_taken_once_and_forgotten_in_time() {
        let mut drops = Drops::default();
        let node = |n| NodeId([n; 28]);
        let object = |n| DropObject { object_id: ObjectId([n; 28]), ..DropObject::default() };
        drops.add(node(1), object(1), 0);
        drops.add(node(1), object(2), DROPS_MS);
        drops.add(node(2), object(3), DROPS_MS + 1);
        assert_eq!(drops.take(node(1), DROPS_MS + 1), [object(2)], "the first is too old");
        assert_eq!(drops.take(node(1), DROPS_MS + 1), []);
        assert_eq!(drops.take(node(2), DROPS_MS + 1), [object(3)]);
        for n in 0..=DROPS_MAX {
            drops.add(node(1), object((n % 250) as u8), DROPS_MS);
        }
        assert_eq!(drops.told.len(), DROPS_MAX, "LIMIT-1");
    }
}
