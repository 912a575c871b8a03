//! The processes that borrow objects of ours, and the owners of those that this process borrows.

use helio_types::{ObjectId, WorkerId, mutant};

use super::{Object, Objects};
use crate::value::Stored;

impl Objects {
    /// A peer announces under `number` that it borrows an object of ours.
    pub(crate) fn add_borrower(&mut self, peer: WorkerId, id: ObjectId, number: u64) {
        let Some(object) = self.all.get_mut(&id).filter(|object| object.owner.is_none()) else {
            return;
        };
        if mutant!("borrow-not-counted") {
            return;
        }
        match object.relations.borrowers.iter_mut().find(|(borrower, _)| *borrower == peer) {
            Some((_, latest)) => *latest = number.max(*latest),
            None => object.relations.borrowers.push((peer, number)),
        }
    }

    /// The borrow announced under `number` is over; a later one of the same peer is not. Returns whether nobody
    /// holds the object because of that.
    pub(crate) fn remove_borrower(&mut self, peer: WorkerId, id: ObjectId, number: u64) -> bool {
        let Some(object) = self.all.get_mut(&id) else { return false };
        let Some(relations) = object.relations.present() else { return false };
        let before = relations.borrowers.len();
        relations.borrowers.retain(|(borrower, latest)| *borrower != peer || *latest > number);
        before != relations.borrowers.len() && !object.is_held()
    }

    /// Voids a peer's announcements before number `since`; a dead peer's announcements are all void. Returns the
    /// objects that nobody holds because of that.
    pub(crate) fn void_borrows(&mut self, peer: WorkerId, since: u64) -> Vec<ObjectId> {
        let mut loose = Vec::new();
        for (id, object) in &mut self.all {
            let Some(relations) = object.relations.present() else { continue };
            if since == u64::MAX {
                relations.resolvers.retain(|resolver| resolver.worker_id != peer);
            }
            let before = relations.borrowers.len();
            relations.borrowers.retain(|(borrower, latest)| *borrower != peer || *latest >= since);
            if before != relations.borrowers.len() && !object.is_held() {
                loose.push(*id);
            }
        }
        // The table's order is not part of the state; actions must be.
        loose.sort_unstable();
        loose
    }

    /// The objects of that owner of which the bytes were not read.
    pub(crate) fn unread_of(&self, owner: WorkerId) -> Vec<ObjectId> {
        let of_all = mutant!("owners-death-reaches-what-others-own");
        let is_its = |object: &Object| object.is_of(owner) || of_all && object.owner.is_some();
        let unread =
            self.all.iter().filter(|(_, object)| is_its(object)).filter(|(_, object)| {
                matches!(object.value, Stored::Pending | Stored::Stores { .. })
            });
        let mut unread: Vec<ObjectId> = unread.map(|(id, _)| *id).collect();
        unread.sort_unstable();
        unread
    }

    /// The objects of that owner of which the value was asked for and has not come.
    pub(crate) fn asked_of(&self, owner: WorkerId) -> Vec<ObjectId> {
        let borrowed = self.borrowed_of(owner).into_iter();
        borrowed.filter_map(|(id, waits)| waits.then_some(id)).collect()
    }

    /// The objects that are borrowed of that owner; with each whether its value was asked for and has not come.
    pub(crate) fn borrowed_of(&self, owner: WorkerId) -> Vec<(ObjectId, bool)> {
        let borrowed = self.all.iter().filter(|(_, object)| object.is_of(owner));
        let mut borrowed: Vec<_> =
            borrowed.map(|(id, object)| (*id, object.asked && !object.is_ready())).collect();
        borrowed.sort_unstable();
        borrowed
    }

    /// Whether the object is borrowed, and was announced under that number.
    pub(crate) fn is_borrowed_as(&self, id: ObjectId, number: u64) -> bool {
        let object = self.all.get(&id);
        object.is_some_and(|object| object.owner.is_some() && object.announced == number)
    }

    /// The owner was told once more that the object is borrowed.
    pub(crate) fn announced_anew(&mut self, id: ObjectId, number: u64) {
        if let Some(object) = self.all.get_mut(&id) {
            object.announced = number;
        }
    }
}
