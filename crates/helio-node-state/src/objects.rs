//! The object store's book: which object is where in the memory file, who may write it and who reads it.
//!
//! **SHM-1** An extent belongs to its creator until it is sealed, then to nobody's pen; it is given to
//! another object only when no pin is left. What a dead client had pinned or not yet sealed comes
//! back. A *primary* copy stays until its owner frees it; a *secondary* one, brought here for a
//! reader, gives way when room is needed and nobody reads it, the least recently used first.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use helio_proto::cluster::{DropObject, NodeToNode};
use helio_proto::control::{Failure, FailureKind};
use helio_proto::node::{
    CreateObject, FreeObject, ObjectCreated, ObjectFetched, ObjectRefused, ReleaseObject,
};
use helio_types::id::PUT_INDEX_BASE;
use helio_types::{JobId, ObjectId, WorkerId};

use crate::clients::Client;
use crate::extents::{Extent, Extents};
use crate::limits::{CREATE_MS_MAX, CREATES_MAX, OBJECTS_MAX};
use crate::pool::Use;
use crate::timers::Timer;
use crate::{Action, Conn, Node};

#[derive(Debug)]
struct Object {
    extent: Extent,
    size: u64,
    is_primary: bool,
    /// Its owner let go of it: it goes with its last pin.
    is_freed: bool,
    /// Pins of clients, and of peers that are reading it.
    pins: u32,
    creator: WorkerId,
    /// When it was used last, in uses.
    used: u64,
}

#[derive(Debug)]
struct Unsealed {
    extent: Extent,
    size: u64,
    /// Its owner let go of it before the news of its sealing came: other connections may be faster.
    is_freed: bool,
}

/// A creation that waits for room.
#[derive(Debug)]
struct Waiting {
    conn: Conn,
    create: CreateObject,
    until: u64,
}

#[derive(Debug)]
pub(crate) struct Objects {
    extents: Extents,
    sealed: BTreeMap<ObjectId, Object>,
    unsealed: BTreeMap<(ObjectId, Conn), Unsealed>,
    /// Unpinned secondary copies, the least recently used first.
    evictable: BTreeSet<(u64, ObjectId)>,
    waiting: VecDeque<Waiting>,
    /// Counts uses.
    clock: u64,
    /// An extent came back since the last creation was tried.
    has_room: bool,
}

impl Objects {
    pub(crate) fn new(size: u64) -> Self {
        Self {
            extents: Extents::new(size),
            sealed: BTreeMap::new(),
            unsealed: BTreeMap::new(),
            evictable: BTreeSet::new(),
            waiting: VecDeque::new(),
            clock: 0,
            has_room: false,
        }
    }

    pub(crate) fn used(&self) -> u64 {
        self.extents.used()
    }

    /// Whether someone on this node is writing the object now.
    pub(crate) fn is_being_written(&self, object_id: ObjectId) -> bool {
        self.unsealed.range((object_id, Conn(0))..=(object_id, Conn(u64::MAX))).next().is_some()
    }

    /// Whether it is not here yet, but is being written.
    pub(crate) fn must_await(&self, object_id: ObjectId) -> bool {
        !self.sealed.contains_key(&object_id) && self.is_being_written(object_id)
    }

    /// Room for `size` bytes, secondary copies giving way where need be.
    pub(crate) fn allocate(&mut self, size: u64) -> Option<Extent> {
        if Extents::footprint(size) > self.extents.size() {
            return None;
        }
        loop {
            if let Some(extent) = self.extents.allocate(size) {
                return Some(extent);
            }
            let (_, object_id) = self.evictable.pop_first()?;
            let object = self.sealed.remove(&object_id).expect("what can be evicted is there");
            self.extents.free(object.extent);
        }
    }

    pub(crate) fn give_back(&mut self, extent: Extent) {
        self.extents.free(extent);
        self.has_room = true;
    }

    /// Adds a copy that was brought here.
    pub(crate) fn add_secondary(&mut self, object_id: ObjectId, extent: Extent, size: u64) {
        if self.sealed.contains_key(&object_id) {
            // It was made here again in the meantime.
            return self.give_back(extent);
        }
        let object = Object {
            extent,
            size,
            is_primary: false,
            is_freed: false,
            pins: 0,
            creator: WorkerId::NIL,
            used: 0,
        };
        self.sealed.insert(object_id, object);
        self.settle(object_id);
    }

    /// Pins an object; where it is and how long.
    pub(crate) fn pin(&mut self, object_id: ObjectId) -> Option<(u64, u64)> {
        let object = self.sealed.get_mut(&object_id)?;
        self.evictable.remove(&(object.used, object_id));
        object.pins += 1;
        self.clock += 1;
        object.used = self.clock;
        Some((object.extent.offset, object.size))
    }

    pub(crate) fn unpin(&mut self, object_id: ObjectId, pins: u32) {
        let Some(object) = self.sealed.get_mut(&object_id) else { return };
        assert!(object.pins >= pins, "an object was released more often than pinned");
        object.pins -= pins;
        self.settle(object_id);
    }

    fn free(&mut self, object_id: ObjectId) {
        if let Some(object) = self.sealed.get_mut(&object_id) {
            object.is_freed = true;
            self.settle(object_id);
        }
        let all = (object_id, Conn(0))..=(object_id, Conn(u64::MAX));
        for (_, unsealed) in self.unsealed.range_mut(all) {
            unsealed.is_freed = true;
        }
    }

    /// Deletes the object, or lets it be evicted, when nothing speaks against it.
    fn settle(&mut self, object_id: ObjectId) {
        let Some(object) = self.sealed.get(&object_id) else { return };
        if object.pins > 0 {
            return;
        }
        if object.is_freed {
            self.evictable.remove(&(object.used, object_id));
            let extent = object.extent;
            self.sealed.remove(&object_id);
            self.give_back(extent);
        } else if !object.is_primary {
            self.evictable.insert((object.used, object_id));
            self.has_room = true;
        }
    }

    /// Why there is no room, in a sentence.
    fn full(&self, size: u64) -> String {
        let pinned: u64 = self
            .sealed
            .values()
            .filter(|object| object.pins > 0)
            .map(|object| object.extent.length)
            .sum();
        let total = self.extents.size();
        format!(
            "the object store is full: the object needs {size} bytes, {} of {total} are free, {pinned} are pinned by \
             readers",
            total - self.extents.used()
        )
    }

    /// Objects, pins, and the bytes of what is no cached copy.
    pub(crate) fn held(&self) -> (usize, u32, u64) {
        let kept = self.sealed.values().filter(|object| object.is_primary || object.pins > 0);
        let pins = self.sealed.values().map(|object| object.pins).sum();
        let n_objects = kept.clone().count() + self.unsealed.len() + self.waiting.len();
        let bytes = kept.map(|object| object.extent.length).sum::<u64>()
            + self.unsealed.values().map(|unsealed| unsealed.extent.length).sum::<u64>();
        (n_objects, pins, bytes)
    }

    #[cfg(test)]
    pub(crate) fn counts(&self) -> (usize, usize, u32) {
        (
            self.sealed.len(),
            self.unsealed.len(),
            self.sealed.values().map(|object| object.pins).sum(),
        )
    }
}

impl Node {
    pub(crate) fn create_object(&mut self, conn: Conn, create: CreateObject) {
        let CreateObject { request_id, object_id, size, .. } = create;
        let refuse = |kind, message: String| ObjectRefused {
            request_id,
            failure: Failure::new(kind, message),
        };
        if self.objects.sealed.contains_key(&object_id) {
            // A second attempt of the call that returns it: the first one's copy is as good, and it is
            // wanted again if it was freed.
            if let Some(object) = self.objects.sealed.get_mut(&object_id) {
                self.objects.evictable.remove(&(object.used, object_id));
                (object.is_primary, object.is_freed) = (true, false);
            }
            return self.send(
                conn,
                refuse(FailureKind::AlreadyExists, "the object is in the store already".into()),
            );
        }
        if self.objects.unsealed.contains_key(&(object_id, conn)) {
            return self.violation(conn, "an object is created twice");
        }
        let count = self.objects.sealed.len() + self.objects.unsealed.len();
        if count >= OBJECTS_MAX || self.objects.waiting.len() >= CREATES_MAX {
            let message =
                format!("the object store holds {count} objects; it keeps at most {OBJECTS_MAX}");
            return self.send(conn, refuse(FailureKind::StoreFull, message));
        }
        if Extents::footprint(size) > self.objects.extents.size() {
            let message = self.objects.full(size);
            return self.send(conn, refuse(FailureKind::StoreFull, message));
        }
        let until = self.now + CREATE_MS_MAX;
        self.objects.waiting.push_back(Waiting { conn, create, until });
        self.retry_creates();
        if self.objects.waiting.iter().any(|waiting| waiting.until == until) {
            self.timers.set(until, Timer::Creates);
        }
    }

    /// Gives room to the creations that wait for it, in their order; a large one does not hold up the
    /// small ones behind it.
    pub(crate) fn retry_creates(&mut self) {
        self.objects.has_room = false;
        for waiting in std::mem::take(&mut self.objects.waiting) {
            let CreateObject { request_id, object_id, size, .. } = waiting.create;
            match self.objects.allocate(size) {
                Some(extent) => {
                    self.objects.unsealed.insert(
                        (object_id, waiting.conn),
                        Unsealed { extent, size, is_freed: false },
                    );
                    self.send(waiting.conn, ObjectCreated { request_id, offset: extent.offset });
                    self.out.push(Action::Created { offset: extent.offset, size });
                    self.status_changed = true;
                }
                None => self.objects.waiting.push_back(waiting),
            }
        }
    }

    fn retry_creates_if_room(&mut self) {
        if self.objects.has_room {
            self.retry_creates();
            self.status_changed = true;
        }
    }

    pub(crate) fn refuse_late_creates(&mut self) {
        let mut kept = VecDeque::new();
        for waiting in std::mem::take(&mut self.objects.waiting) {
            if waiting.until > self.now {
                kept.push_back(waiting);
                continue;
            }
            let CreateObject { request_id, size, .. } = waiting.create;
            let failure = Failure::new(FailureKind::StoreFull, self.objects.full(size));
            self.send(waiting.conn, ObjectRefused { request_id, failure });
        }
        self.objects.waiting = kept;
    }

    pub(crate) fn seal_object(&mut self, conn: Conn, object_id: ObjectId) {
        let Some(unsealed) = self.objects.unsealed.remove(&(object_id, conn)) else {
            return self.violation(conn, "an object is sealed that was not created");
        };
        let Unsealed { extent, size, is_freed } = unsealed;
        let Some(client) = self.clients.get(conn) else { return };
        let creator = client.worker_id;
        match self.objects.sealed.entry(object_id) {
            // Another attempt was faster. Readers have that copy; this one was never shown to any.
            Entry::Occupied(_) => self.objects.give_back(extent),
            Entry::Vacant(entry) => {
                entry.insert(Object {
                    extent,
                    size,
                    is_primary: true,
                    is_freed,
                    pins: 0,
                    creator,
                    used: 0,
                });
            }
        }
        self.serve_waiting_fetches(object_id);
        self.objects.settle(object_id);
        self.retry_creates_if_room();
    }

    pub(crate) fn abort_object(&mut self, conn: Conn, object_id: ObjectId) {
        self.objects
            .waiting
            .retain(|waiting| waiting.conn != conn || waiting.create.object_id != object_id);
        if let Some(unsealed) = self.objects.unsealed.remove(&(object_id, conn)) {
            self.objects.give_back(unsealed.extent);
            self.writing_was_given_up(object_id);
            self.retry_creates_if_room();
        }
    }

    /// Pins the object for the client and tells it where it is.
    pub(crate) fn hand_out(&mut self, conn: Conn, request_id: u64, object_id: ObjectId) -> bool {
        let Some((offset, size)) = self.objects.pin(object_id) else { return false };
        match self.clients.get_mut(conn) {
            Some(client) => {
                *client.pins.entry(object_id).or_default() += 1;
                self.send(conn, ObjectFetched { request_id, offset, size });
            }
            None => self.objects.unpin(object_id, 1),
        }
        true
    }

    pub(crate) fn release_object(&mut self, conn: Conn, release: &ReleaseObject) {
        let Some(client) = self.clients.get_mut(conn) else { return };
        let held = client.pins.get(&release.object_id).copied().unwrap_or(0);
        if release.pins > held {
            return self.violation(conn, "an object is released more often than it was fetched");
        }
        if release.pins == held {
            client.pins.remove(&release.object_id);
        } else {
            client.pins.insert(release.object_id, held - release.pins);
        }
        self.unpin(release.object_id, release.pins);
    }

    pub(crate) fn unpin(&mut self, object_id: ObjectId, pins: u32) {
        self.objects.unpin(object_id, pins);
        self.retry_creates_if_room();
    }

    pub(crate) fn free_object(&mut self, free: FreeObject) {
        self.drop_object(free.object_id);
        for to in free.locations {
            if to.node_id != self.setup.address.node_id {
                let message = NodeToNode::Drop(DropObject { object_id: free.object_id });
                self.out.push(Action::Ask { to, message });
            }
        }
    }

    pub(crate) fn drop_object(&mut self, object_id: ObjectId) {
        self.objects.free(object_id);
        self.retry_creates_if_room();
    }

    /// A client is gone: what it was writing, reading and waiting for comes back, and what it had put
    /// is over with it (its owner is dead).
    pub(crate) fn reclaim_objects(&mut self, conn: Conn, client: &Client) {
        self.objects.waiting.retain(|waiting| waiting.conn != conn);
        self.forget_fetches(conn);
        // In the order of their ids, so that the same events give the same extents (STATE-1).
        let pins: BTreeMap<ObjectId, u32> =
            client.pins.iter().map(|(id, pins)| (*id, *pins)).collect();
        for (object_id, pins) in pins {
            self.objects.unpin(object_id, pins);
        }
        let unsealed: Vec<ObjectId> = self
            .objects
            .unsealed
            .keys()
            .filter(|(_, writer)| *writer == conn)
            .map(|(id, _)| *id)
            .collect();
        for object_id in unsealed {
            self.abort_object(conn, object_id);
        }
        let job_is_over = self.jobs.is_finished(client.job_id);
        let created =
            |object: &Object| !client.worker_id.is_nil() && object.creator == client.worker_id;
        let orphans: Vec<ObjectId> = self
            .objects
            .sealed
            .iter()
            .filter(|(id, object)| created(object) && (job_is_over || id.index() >= PUT_INDEX_BASE))
            .map(|(id, _)| *id)
            .collect();
        for object_id in orphans {
            self.objects.free(object_id);
        }
        self.retry_creates_if_room();
    }

    fn is_detached_actor(&self, worker_id: WorkerId) -> bool {
        let usage = self.pool.workers.get(&worker_id).map(|worker| worker.usage);
        matches!(usage, Some(Use::Actor(key)) if self.actors.is_detached(key))
    }

    /// A job is over: its objects go, except those that its detached actors made.
    pub(crate) fn drop_objects_of_job(&mut self, job_id: JobId) {
        let of_job: Vec<(ObjectId, WorkerId)> = self
            .objects
            .sealed
            .iter()
            .filter(|(id, _)| id.task().job() == job_id)
            .map(|(id, object)| (*id, object.creator))
            .collect();
        for (object_id, creator) in of_job {
            if !self.is_detached_actor(creator) {
                self.objects.free(object_id);
            }
        }
        self.retry_creates_if_room();
    }
}
