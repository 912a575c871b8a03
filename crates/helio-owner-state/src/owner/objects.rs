//! Objects that come, change and go, and what follows from that for calls, actors and other objects.

use std::sync::Arc;

use helio_proto::error::ErrorKind;
use helio_proto::peer::{Frame, Reference, Returned};
use helio_types::{NodeId, ObjectId, WorkerAddress, WorkerId, mutant};

use super::Owner;
use crate::event::Action;
use crate::objects::{Released, Remains};
use crate::spec::{OutgoingValue, actor_of_handle};
use crate::value::{Stored, error};

impl Owner {
    pub(super) fn on_put(&mut self, id: ObjectId, value: OutgoingValue, contained: Vec<ObjectId>) {
        for inner in &contained {
            self.objects.hold(*inner);
        }
        self.objects.put(id, value.into(), contained);
        self.ctx.push(Action::Ready(id));
    }

    pub(super) fn on_resolve(&mut self, id: ObjectId, value: OutgoingValue) {
        self.set_value(id, value.into(), &[]);
    }

    pub(super) fn on_drop_ref(&mut self, id: ObjectId) {
        let released = self.objects.drop_ref(id, &mut self.borrows, &mut self.ctx);
        self.follow(id, released);
    }

    /// Counts one use of the object less, and does what follows from its end.
    pub(super) fn unhold(&mut self, id: ObjectId) {
        let released = self.objects.unhold(id, &mut self.borrows, &mut self.ctx);
        self.follow(id, released);
    }

    /// Lets go of an object that may not be held any more.
    pub(super) fn release_if_unheld(&mut self, id: ObjectId) {
        let released = self.objects.release_if_unheld(id, &mut self.borrows, &mut self.ctx);
        self.follow(id, released);
    }

    #[inline]
    fn follow(&mut self, id: ObjectId, released: Released) {
        match released {
            Released::Kept => {}
            Released::Remembered => self.bytes_go(id),
            Released::Gone(remains) => self.on_gone(id, remains),
        }
    }

    /// Lets the bytes go of an object that is held by nobody, but was taken by a remembered call, if they can be made
    /// again.
    #[cold]
    fn bytes_go(&mut self, id: ObjectId) {
        if self.lineages.has(id) {
            for inner in self.objects.give_bytes_back(id, &mut self.ctx) {
                self.unhold(inner);
            }
        }
    }

    /// Follows up on an object that was taken out because nobody here held it any more.
    #[inline]
    fn on_gone(&mut self, id: ObjectId, mut remains: Remains) {
        for inner in remains.take_contained() {
            self.unhold(inner);
        }
        if let Some(actor) = remains.handle_of() {
            self.on_handles_gone(actor);
        } else if let Some(actor) = actor_of_handle(id) {
            self.actors.retire(actor, &self.objects, &mut self.ctx);
        }
        if remains.was_in_stores() {
            self.on_lineage_unused(id);
        }
    }

    /// A reference came in. The caller adds the handle or use for which it came.
    fn adopt(&mut self, reference: &Reference) {
        if !self.objects.contains(reference.id) {
            self.meet(reference.id, &Arc::new(reference.owner.clone()));
        }
    }

    /// References to objects of one owner came in, and a handle of each is held.
    pub(super) fn on_adopt(&mut self, owner: &Arc<WorkerAddress>, ids: Vec<ObjectId>) {
        for id in ids {
            if !self.objects.add_ref(id) {
                self.meet(id, owner);
                self.objects.add_ref(id);
            }
        }
    }

    /// An object that was not known here.
    fn meet(&mut self, id: ObjectId, owner: &Arc<WorkerAddress>) {
        if owner.worker_id == self.ctx.me().worker_id {
            self.objects.returned_too_late(id);
            self.ctx.push(Action::Ready(id));
            return;
        }
        let announced = self.borrows.announce(owner, id, &mut self.ctx);
        self.objects.borrow(id, owner.clone(), announced);
    }

    /// Looks for a lost object again; see [`crate::Event::Recover`].
    pub(super) fn on_recover(&mut self, reference: &Reference, gone: Vec<NodeId>) {
        let (id, is_known) = (reference.id, self.objects.contains(reference.id));
        self.adopt(reference);
        self.objects.add_ref(id);
        let owner = self.objects.owner_of(id).cloned();
        for node in gone {
            match &owner {
                // Its value was never asked for here.
                Some(owner) if !is_known => {
                    self.ctx.send(owner.clone(), Frame::LocationLost { object: id, node });
                }
                _ => self.on_location_lost(id, node),
            }
        }
        self.objects.on_watch(id, &mut self.ctx);
    }

    /// The value of an object of ours, or what the owner says of a borrowed one, is known.
    pub(super) fn set_value(&mut self, id: ObjectId, value: Stored, contained: &[Reference]) {
        let mut held = Vec::new();
        if !contained.is_empty() && self.objects.contains(id) {
            for reference in contained {
                self.adopt(reference);
                self.objects.hold(reference.id);
            }
            held.extend(contained.iter().map(|reference| reference.id));
        }
        let Some(news) = self.objects.set(id, value, held, &mut self.ctx) else { return };
        // After the new references are held: a value that is set again may contain the same ones.
        for inner in news.before {
            self.unhold(inner);
        }
        self.ctx.push(Action::Ready(id));
        for peer in news.resolvers {
            self.objects.tell(id, &peer, &mut self.ctx);
        }
        for task in news.dependents {
            self.on_dependency_ready(task);
        }
        // Last, since the readers above were told of the value and have to find it.
        if !news.is_held {
            self.release_if_unheld(id);
        }
    }

    /// The owner's answer for a borrowed object.
    pub(super) fn resolved(&mut self, from: WorkerId, id: ObjectId, returned: Option<Returned>) {
        if !self.objects.is_answered(id, from) {
            return;
        }
        match returned {
            Some(returned) => self.set_value(id, returned.value.into(), &returned.contained),
            None => {
                let text = "its owner does not know the object any more";
                self.set_value(id, error(ErrorKind::ObjectLost, text, id), &[]);
            }
        }
    }

    /// The borrow announced under `number` is over; a later one of the same peer is not.
    pub(super) fn borrower_removed(&mut self, peer: WorkerId, id: ObjectId, number: u64) {
        if self.objects.remove_borrower(peer, id, number) {
            self.release_if_unheld(id);
        }
    }

    /// Voids a peer's announcements before number `since`; a dead peer's announcements are all void.
    pub(super) fn borrows_void(&mut self, peer: WorkerId, since: u64) {
        for id in self.objects.void_borrows(peer, since) {
            self.release_if_unheld(id);
        }
    }

    /// An owner is dead: what we had not read of it is lost.
    pub(super) fn on_owner_gone(&mut self, peer: WorkerId) {
        if mutant!("owners-death-ignored") {
            return;
        }
        for id in self.objects.unread_of(peer) {
            // Its owner does not free the copies any more.
            if let Some(locations) = self.objects.locations(id) {
                let locations = locations.to_vec();
                self.ctx.push(Action::Free { id, locations });
            }
            let text = "the object's owner has died: the process that created the reference is gone, and with it \
                        what was known of the object";
            self.set_value(id, error(ErrorKind::OwnerDied, text, id), &[]);
        }
    }

    /// The reference as others need it.
    #[must_use]
    pub fn reference(&self, id: ObjectId) -> Reference {
        self.objects.reference(id, self.ctx.me())
    }
}
