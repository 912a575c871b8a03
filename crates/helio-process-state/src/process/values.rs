//! Values, as the front reads them.

use helio_owner_state::{Event as OwnerEvent, Object, Stored};
use helio_types::{ObjectId, mutant};

use super::Process;
use crate::event::Action;
use crate::value::{Bytes, Memory, Payload};
use crate::watches::Readiness;

impl<M: Memory> Process<M> {
    /// A reader of the objects begins: an earlier reader's error for want of room is not for it.
    pub fn begin_read(&mut self, ids: &[ObjectId]) {
        self.store.begin_read(ids);
    }

    /// Returns the value of an object that is known and here. Otherwise fetches one that is known and not here.
    pub fn read(&mut self, id: ObjectId) -> Option<Payload<M::Pin>> {
        let locations = match self.owner.object(&id).map(Object::value) {
            None | Some(Stored::Pending) => return None,
            Some(Stored::Inline(bytes)) => {
                return Some(Payload::value(Bytes::Memory(bytes.clone())));
            }
            Some(Stored::Error(bytes)) => {
                return Some(Payload { bytes: Bytes::Memory(bytes.clone()), is_error: true });
            }
            Some(Stored::Stores { locations, .. }) => locations,
        };
        if let Some(payload) = self.store.payload(id) {
            return Some(payload);
        }
        // Taken: the refusal is for the readers that waited when it came, and a later one has the object fetched
        // again.
        if let Some(refusal) = self.store.take_refusal(id, self.now) {
            return Some(refusal);
        }
        if !self.store.is_fetching(id) {
            let locations = locations.clone();
            self.fetch(id, locations);
        }
        None
    }

    /// Returns the value of an object that is in this process's memory or pinned; starts nothing.
    #[must_use]
    pub fn peek(&self, id: ObjectId) -> Option<Payload<M::Pin>> {
        match self.owner.object(&id)?.value() {
            Stored::Pending => None,
            Stored::Inline(bytes) => Some(Payload::value(Bytes::Memory(bytes.clone()))),
            Stored::Error(bytes) => {
                Some(Payload { bytes: Bytes::Memory(bytes.clone()), is_error: true })
            }
            Stored::Stores { .. } => self.store.payload(id),
        }
    }

    /// Whether there was no room here for the object a moment ago.
    #[must_use]
    pub fn is_refused(&self, id: ObjectId) -> bool {
        self.store.is_refused(id, self.now)
    }

    /// Whether `wait` counts the object as ready; with `fetch_local` its bytes have to be here.
    pub fn is_ready(&mut self, id: ObjectId, fetch_local: bool) -> bool {
        match self.owner.object(&id).map(Object::value) {
            None | Some(Stored::Pending) => false,
            Some(Stored::Stores { .. }) if fetch_local => {
                // A refusal first: to read is to ask for the object again.
                let is_answered = self.is_refused(id) || self.read(id).is_some();
                is_answered || mutant!("known-counts-as-here")
            }
            Some(_) => true,
        }
    }

    /// Whether the object is still to be made.
    #[must_use]
    pub fn is_pending(&self, id: ObjectId) -> bool {
        self.owner.object(&id).is_some_and(|object| !object.is_ready())
    }

    /// Asks the owners of borrowed objects whose values are not known yet.
    pub fn watch_borrowed(&mut self, ids: &[ObjectId]) {
        for id in ids.iter().filter(|_| !mutant!("borrowed-value-not-asked-for")) {
            let object = self.owner.object(id);
            if object.is_some_and(|object| object.owner().is_some() && !object.is_ready()) {
                self.on_owner(OwnerEvent::Watch { id: *id });
            }
        }
    }

    /// Whether the object is as wished; if not, [`Process::take_ready`] gives its id once it is.
    pub fn watch(&mut self, id: ObjectId, readiness: Readiness) -> bool {
        let is_ready = self.is_ready(id, readiness == Readiness::Here);
        if !is_ready {
            self.watches.add(id, readiness);
            self.on_owner(OwnerEvent::Watch { id });
        }
        is_ready
    }

    /// Tells event loops of a changed object, if it is as ready as they asked. Otherwise it stays watched, and its
    /// bytes are fetched if only they are missing.
    pub(crate) fn look_at_watched(&mut self, id: ObjectId) {
        let Some(readiness) = self.watches.readiness(id) else { return };
        if self.is_ready(id, readiness == Readiness::Here) {
            self.watches.fulfil(id, readiness);
            self.signals.wake_loop = true;
        }
    }

    /// Watched objects that became as wished, each once. Memory can run short before the caller reads
    /// them: a value may have to be fetched again.
    pub fn take_ready(&mut self) -> Vec<ObjectId> {
        self.watches.take()
    }

    /// Whether [`Process::take_ready`] would give something.
    #[must_use]
    pub fn has_ready(&self) -> bool {
        self.watches.has_ready()
    }

    /// Returns the number of values that became known or came here so far.
    #[must_use]
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// Returns the number of times that the daemon has asked for room in the object store.
    #[must_use]
    pub fn room_wanted(&self) -> u64 {
        self.store.room_wanted()
    }

    /// Drops pins that no value or waiting call shares.
    pub fn unpin_spare(&mut self) {
        self.store.unpin_spare();
        self.actions.push(Action::CollectReleased);
    }

    /// Drops pins that were kept only for calls which have ended.
    pub fn unpin_unreferenced(&mut self) {
        let owner = &self.owner;
        self.store.unpin_unreferenced(|id| owner.object(&id).is_some());
    }

    /// Returns the number of objects that this process has pinned.
    #[must_use]
    pub fn pins_count(&self) -> usize {
        self.store.pins_count()
    }

    /// Whether the object is pinned in this process.
    #[must_use]
    pub fn is_pinned(&self, id: ObjectId) -> bool {
        self.store.is_pinned(id)
    }
}
