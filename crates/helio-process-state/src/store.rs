//! The store client: which objects of the node's store this process has pinned, what it fetches, and
//! which lost arguments their owners make again.
//!
//! **SHM-1** A pin outlives every view of its object: the table's own is dropped only when no value or
//! waiting call needs the object, and the shell releases the daemon's pin with the last view.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use helio_types::{IdMap, ObjectId, mutant};

use crate::value::{Bytes, Memory, Payload};

/// Microseconds for which readers are given the error that there was no room for the object; later
/// readers have it fetched again.
const REFUSED_US: u64 = 2_000_000;

/// The reason why an object could not come here.
#[derive(Debug)]
struct Refusal {
    /// The serialized exception.
    error: Arc<Vec<u8>>,
    at: u64,
}

/// The pins, fetches and lost arguments of this process, over the memory `M`.
#[derive(Debug)]
pub(crate) struct StoreClient<M: Memory> {
    memory: M,
    /// Pins by object: one view serves all reads.
    pins: IdMap<ObjectId, M::Pin>,
    /// Objects that are being brought to this node; `true`: a reader has begun since it was asked for.
    fetching: BTreeMap<ObjectId, bool>,
    /// Objects for which there was no room here a moment ago.
    refused: BTreeMap<ObjectId, Refusal>,
    /// Objects into whose extents the front writes.
    writing: BTreeSet<ObjectId>,
    /// Lost arguments of waiting calls that their owners make again; one handle of each is held.
    recovering: BTreeSet<ObjectId>,
    /// Number of times that the daemon has asked for room.
    room_wanted: u64,
}

impl<M: Memory> StoreClient<M> {
    pub(crate) fn new(memory: M) -> Self {
        Self {
            memory,
            pins: IdMap::default(),
            fetching: BTreeMap::new(),
            refused: BTreeMap::new(),
            writing: BTreeSet::new(),
            recovering: BTreeSet::new(),
            room_wanted: 0,
        }
    }

    /// The object's value, if it is pinned.
    pub(crate) fn payload(&self, id: ObjectId) -> Option<Payload<M::Pin>> {
        self.pins.get(&id).map(|pin| Payload::value(Bytes::Pinned(pin.clone())))
    }

    pub(crate) fn pins_count(&self) -> usize {
        self.pins.len()
    }

    pub(crate) fn is_pinned(&self, id: ObjectId) -> bool {
        self.pins.contains_key(&id)
    }

    pub(crate) fn unpin(&mut self, id: ObjectId) {
        self.pins.remove(&id);
    }

    /// Drops pins that no value or waiting call shares; their objects are fetched again when needed.
    pub(crate) fn unpin_spare(&mut self) {
        self.pins.retain(|_, pin| M::is_shared(pin));
    }

    /// Drops pins that were kept only for calls: those of objects that `is_referenced` denies.
    pub(crate) fn unpin_unreferenced(&mut self, is_referenced: impl Fn(ObjectId) -> bool) {
        self.pins.retain(|id, _| is_referenced(*id));
    }

    /// The daemon has granted an extent for the object.
    pub(crate) fn begin_writing(&mut self, id: ObjectId) {
        self.writing.insert(id);
    }

    /// The object is sealed, or its extent is given back.
    pub(crate) fn end_writing(&mut self, id: ObjectId) {
        let was_written = self.writing.remove(&id);
        assert!(was_written, "SHM-1: an object is sealed or given back once");
    }

    pub(crate) fn is_fetching(&self, id: ObjectId) -> bool {
        self.fetching.contains_key(&id)
    }

    pub(crate) fn begin_fetch(&mut self, id: ObjectId) {
        let before = self.fetching.insert(id, false);
        assert!(before.is_none(), "readers of the first of two fetches would wait for the second");
    }

    /// Whether a reader has begun since the object was asked for.
    pub(crate) fn end_fetch(&mut self, id: ObjectId) -> bool {
        self.fetching.remove(&id).unwrap_or(false)
    }

    /// A reader begins: refusals of requests made before say nothing of the room there is now.
    pub(crate) fn begin_read(&mut self, ids: &[ObjectId]) {
        // The common case: a read of values that are here costs no look-up.
        if self.refused.is_empty() && self.fetching.is_empty() {
            return;
        }
        for id in ids.iter().filter(|_| !mutant!("old-refusal-for-a-new-reader")) {
            self.refused.remove(id);
            if let Some(has_new_reader) = self.fetching.get_mut(id) {
                *has_new_reader = true;
            }
        }
    }

    /// Notes that there is no room for the object here; older refusals are forgotten.
    pub(crate) fn refuse(&mut self, id: ObjectId, error: Vec<u8>, now: u64) {
        // Nobody may read them again: they go when the next one comes.
        self.refused.retain(|_, refusal| now - refusal.at <= REFUSED_US);
        self.refused.insert(id, Refusal { error: Arc::new(error), at: now });
    }

    pub(crate) fn is_refused(&self, id: ObjectId, now: u64) -> bool {
        self.refused.get(&id).is_some_and(|refusal| now - refusal.at <= REFUSED_US)
    }

    /// Returns the error that reading the object raises if there was no room for it a moment ago; the next read has it
    /// fetched again.
    pub(crate) fn take_refusal(&mut self, id: ObjectId, now: u64) -> Option<Payload<M::Pin>> {
        let refusal = self.refused.remove(&id)?;
        assert!(now >= refusal.at, "time never goes back: a refusal would be told for ever");
        let is_fresh = now - refusal.at <= REFUSED_US;
        is_fresh.then_some(Payload { bytes: Bytes::Memory(refusal.error), is_error: true })
    }

    /// The daemon has pinned the object for this process; `None`: outside the store.
    pub(crate) fn pin(&mut self, id: ObjectId, offset: u64, size: u64) -> Option<Payload<M::Pin>> {
        let pin = self.memory.pin(id, offset, size)?;
        self.pins.insert(id, pin.clone());
        Some(Payload::value(Bytes::Pinned(pin)))
    }

    /// The owner of a lost argument was asked for it; `false`: it had been asked before.
    pub(crate) fn recover(&mut self, id: ObjectId) -> bool {
        self.recovering.insert(id)
    }

    pub(crate) fn is_recovering(&self, id: ObjectId) -> bool {
        self.recovering.contains(&id)
    }

    pub(crate) fn recovered(&mut self, id: ObjectId) {
        self.recovering.remove(&id);
    }

    pub(crate) fn room_wanted(&self) -> u64 {
        self.room_wanted
    }

    /// The daemon asks for room: pins that nobody shares go.
    pub(crate) fn give_room(&mut self) {
        self.room_wanted += 1;
        self.unpin_spare();
    }
}
