//! The history of objects.

use helio_types::{NodeId, ObjectId, WorkerId};

use super::History;

impl History {
    /// A process put an object.
    pub fn put(&mut self, object: ObjectId, owner: WorkerId) {
        self.owners.insert(object.task(), owner);
    }

    /// A process has written an object into its node's store.
    pub fn written(&mut self, object: ObjectId, at: WorkerId) {
        if let Some(node) = self.homes.get(&at) {
            self.written.entry(object).or_default().insert(*node);
        }
    }

    /// A node has taken an object over from one that leaves.
    pub fn inherited(&mut self, object: ObjectId, by: NodeId) {
        self.written.entry(object).or_default().insert(by);
    }

    /// A disk does not give an object back.
    pub fn object_unreadable(&mut self, object: ObjectId) {
        self.unreadable.insert(object);
    }

    /// Returns the owner of the object.
    #[must_use]
    pub fn owner(&self, object: ObjectId) -> Option<WorkerId> {
        self.owners.get(&object.task()).copied()
    }

    /// Whether a node on which the object was written, or that has inherited it, was lost, or is apart from the object's owner, or its disk did
    /// not give it back.
    #[must_use]
    pub fn object_lost(&self, object: ObjectId) -> bool {
        let owner = self.owners.get(&object.task());
        let is_lost = |node: &NodeId| {
            self.nodes_lost.contains(node)
                || owner.is_none_or(|owner| self.parted.contains(&(*owner, *node)))
        };
        self.unreadable.contains(&object)
            || self.written.get(&object).is_some_and(|nodes| nodes.iter().any(is_lost))
    }

    /// Whether the owner of an object and its reader are gone for the others.
    #[must_use]
    pub fn are_taken_for_dead(&self, object: ObjectId, reader: WorkerId) -> bool {
        let owner = self.owners.get(&object.task());
        owner.is_some_and(|owner| self.is_lost(owner)) && self.is_lost(&reader)
    }

    /// A process asks its node for an object.
    pub fn asked(&mut self, by: WorkerId, request_id: u64, object: ObjectId) {
        self.asked.insert((by, request_id), object);
    }

    /// The node has no room for it.
    pub fn found_no_room(&mut self, by: WorkerId, request_id: u64, now: u64) {
        if let Some(object) = self.asked.get(&(by, request_id)).copied() {
            self.without_room.insert(object);
            self.refused_at.insert((by, object), now);
        }
    }

    /// Whether a process was told after that moment, or never, that there is no room for an object.
    #[must_use]
    pub fn was_refused_since(&self, by: WorkerId, object: ObjectId, since: u64) -> bool {
        self.refused_at.get(&(by, object)).is_none_or(|at| *at >= since)
    }

    /// Whether a node that was asked for the object had no room for it.
    #[must_use]
    pub fn had_no_room(&self, object: ObjectId) -> bool {
        self.without_room.contains(&object)
    }

    /// Whether the owner of an object ended, or was cut off from the process that reads it.
    #[must_use]
    pub fn owner_lost(&self, object: ObjectId, reader: WorkerId) -> bool {
        self.owners.get(&object.task()).is_none_or(|owner| {
            self.is_lost(owner) || self.is_lost(&reader) || self.apart.contains(&(*owner, reader))
        })
    }
}
