//! The object store's book: which object is where in the memory file, who may write it and who reads it.
//!
//! **SHM-1** An extent belongs to its creator until it is sealed, then to nobody's pen; it is given to
//! another object only when no pin is left. What a dead client had pinned or not yet sealed comes
//! back. A *primary* copy stays until its owner frees it, in memory or on disk ([`crate::spill`]); a
//! *secondary* one, brought here for a reader, gives way when room is needed and nobody reads it, the
//! least recently used first.

use std::collections::{BTreeMap, BTreeSet};

use helio_proto::cluster::{DropObject, NodeToNode};
use helio_proto::control::{Failure, FailureKind};
use helio_proto::node::{
    CreateObject, FreeObject, ObjectCreated, ObjectFetched, ObjectRefused, ReleaseObject,
};
use helio_types::id::PUT_INDEX_BASE;
use helio_types::{JobId, ObjectId, WorkerId};

use crate::clients::Client;
use crate::extents::{Extent, Extents};
use crate::limits::{OBJECTS_MAX, ROOM_WAITS_MAX};
use crate::overflow::Overflow;
use crate::pool::Use;
use crate::spill::{Room, Wants};
use crate::{Action, Conn, Node};

#[derive(Debug)]
pub(crate) struct Object {
    /// `None`: it is on disk only.
    pub(crate) extent: Option<Extent>,
    pub(crate) size: u64,
    pub(crate) is_primary: bool,
    pub(crate) file: File,
    /// Its owner let go of it: it goes with its last pin.
    is_freed: bool,
    /// Pins of clients, and of peers that are reading it.
    pins: u32,
    creator: WorkerId,
    /// When it was used last, in uses.
    used: u64,
}

impl Object {
    /// How many bytes of memory it takes.
    pub(crate) fn in_memory(&self) -> u64 {
        self.extent.map_or(0, |extent| extent.length)
    }
}

/// Whether an object is on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum File {
    /// It is not.
    None,
    /// It is being written there; its memory stays until then.
    Writing,
    /// It is; memory can be had by forgetting its copy there.
    Written,
    /// It is being read from there.
    Reading,
}

#[derive(Debug)]
struct Unsealed {
    extent: Extent,
    size: u64,
    /// Its owner let go of it before the news of its sealing came: other connections may be faster.
    is_freed: bool,
}

#[derive(Debug)]
pub(crate) struct Objects {
    pub(crate) extents: Extents,
    pub(crate) sealed: BTreeMap<ObjectId, Object>,
    unsealed: BTreeMap<(ObjectId, Conn), Unsealed>,
    /// Unpinned copies that another node or the disk has, too, the least recently used first.
    evictable: BTreeSet<(u64, ObjectId)>,
    evictable_bytes: u64,
    /// Unpinned primary copies that are in memory only, the least recently used first.
    pub(crate) spillable: BTreeSet<(u64, ObjectId)>,
    pub(crate) room: Room,
    pub(crate) overflow: Overflow,
    /// Files that are not needed any more.
    pub(crate) removals: Vec<ObjectId>,
    /// Counts uses.
    clock: u64,
}

impl Objects {
    pub(crate) fn new(size: u64, overflow_size: u64) -> Self {
        Self {
            extents: Extents::new(size),
            sealed: BTreeMap::new(),
            unsealed: BTreeMap::new(),
            evictable: BTreeSet::new(),
            evictable_bytes: 0,
            spillable: BTreeSet::new(),
            room: Room::default(),
            overflow: Overflow::new(size, overflow_size),
            removals: Vec::new(),
            clock: 0,
        }
    }

    pub(crate) fn used(&self) -> u64 {
        self.extents.used()
    }

    /// Whether someone on this node is writing the object now.
    pub(crate) fn is_being_written(&self, object_id: ObjectId) -> bool {
        self.unsealed.range((object_id, Conn(0))..=(object_id, Conn(u64::MAX))).next().is_some()
    }

    /// Whether it is on this node's disk only.
    #[cfg(test)]
    pub(crate) fn is_on_disk(&self, object_id: ObjectId) -> bool {
        self.sealed.get(&object_id).is_some_and(|object| object.extent.is_none())
    }

    /// Whether it is not in memory yet, but will be without the help of others.
    pub(crate) fn must_await(&self, object_id: ObjectId) -> bool {
        match self.sealed.get(&object_id) {
            Some(object) => object.extent.is_none() || object.file == File::Reading,
            None => self.is_being_written(object_id),
        }
    }

    /// How many bytes of memory are taken by what nothing else has.
    pub(crate) fn needed(&self) -> u64 {
        self.extents.used() - self.evictable_bytes
    }

    /// Room for `size` bytes, copies that can be had again giving way where need be.
    pub(crate) fn allocate(&mut self, size: u64) -> Option<Extent> {
        if Extents::footprint(size) > self.extents.size() {
            return None;
        }
        loop {
            if let Some(extent) = self.extents.allocate(size) {
                return Some(extent);
            }
            let object_id = self.evictable.first()?.1;
            self.forget_place(object_id);
            let object = self.sealed.get_mut(&object_id).expect("what can be evicted is there");
            let extent = object.extent.take().expect("what can be evicted is in memory");
            if !object.is_primary {
                self.sealed.remove(&object_id);
            }
            self.extents.free(extent);
        }
    }

    /// Nobody reads the object any more that was to come from another node.
    pub(crate) fn forget_pull(&mut self, object_id: ObjectId) {
        self.room.forget_pull(object_id);
        self.overflow.forget_pull(object_id);
    }

    /// A client does not want to write the object, or any, after all.
    fn forget_create(&mut self, conn: Conn, object_id: Option<ObjectId>) {
        self.room.forget_create(conn, object_id);
        self.overflow.forget_create(conn, object_id);
    }

    pub(crate) fn give_back(&mut self, extent: Extent) {
        if self.overflow.has(extent) {
            return self.overflow.free(extent);
        }
        self.extents.free(extent);
        self.room.is_new = true;
    }

    /// Takes the object out of the orders in which memory is got back.
    pub(crate) fn forget_place(&mut self, object_id: ObjectId) {
        let Some(object) = self.sealed.get(&object_id) else { return };
        if self.evictable.remove(&(object.used, object_id)) {
            self.evictable_bytes -= object.extent.map_or(0, |extent| extent.length);
        }
        self.spillable.remove(&(object.used, object_id));
    }

    /// Adds a copy that was brought here; its readers come before [`Objects::settle`].
    pub(crate) fn add_secondary(&mut self, object_id: ObjectId, extent: Extent, size: u64) {
        if self.sealed.contains_key(&object_id) {
            // It was made here again in the meantime.
            return self.give_back(extent);
        }
        self.add(object_id, extent, size, WorkerId::NIL);
        if let Some(object) = self.sealed.get_mut(&object_id) {
            object.is_primary = false;
        }
    }

    fn add(&mut self, object_id: ObjectId, extent: Extent, size: u64, creator: WorkerId) {
        self.clock += 1;
        let object = Object {
            extent: Some(extent),
            size,
            is_primary: true,
            file: File::None,
            is_freed: false,
            pins: 0,
            creator,
            used: self.clock,
        };
        self.sealed.insert(object_id, object);
    }

    /// Pins an object that is in memory; where it is and how long.
    pub(crate) fn pin(&mut self, object_id: ObjectId) -> Option<(u64, u64)> {
        // While it is read from disk it has its place, but not its bytes yet.
        let in_memory = |object: &&Object| object.file != File::Reading;
        let offset = self.sealed.get(&object_id).filter(in_memory)?.extent?.offset;
        self.forget_place(object_id);
        self.clock += 1;
        let object = self.sealed.get_mut(&object_id)?;
        object.pins += 1;
        object.used = self.clock;
        Some((offset, object.size))
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

    /// Deletes the object, or lets its memory be had, when nothing speaks against it.
    pub(crate) fn settle(&mut self, object_id: ObjectId) {
        let Some(object) = self.sealed.get(&object_id) else { return };
        if object.pins > 0 || matches!(object.file, File::Writing | File::Reading) {
            return;
        }
        let (extent, used) = (object.extent, object.used);
        if object.is_freed {
            if object.file == File::Written {
                self.removals.push(object_id);
            }
            self.remove(object_id);
        } else if let Some(extent) = extent {
            let is_elsewhere = !object.is_primary || object.file == File::Written;
            if self.overflow.has(extent) {
                // It was there for those who have read it, or it was made there and stays.
                if is_elsewhere {
                    self.leave_overflow(object_id);
                }
            } else if object.is_primary && object.file == File::None {
                self.spillable.insert((used, object_id));
                self.room.is_new = true;
            } else if self.evictable.insert((used, object_id)) {
                self.evictable_bytes += extent.length;
                self.room.is_new = true;
            }
        }
    }

    /// A copy on disk for readers, who are gone: the object is in its own file, or on another node.
    fn leave_overflow(&mut self, object_id: ObjectId) {
        let Some(object) = self.sealed.get_mut(&object_id) else { return };
        let (extent, is_primary) = (object.extent.take(), object.is_primary);
        if !is_primary {
            self.sealed.remove(&object_id);
        }
        if let Some(extent) = extent {
            self.give_back(extent);
        }
    }

    /// Forgets the object and gives its memory back.
    pub(crate) fn remove(&mut self, object_id: ObjectId) {
        self.forget_place(object_id);
        if let Some(extent) = self.sealed.remove(&object_id).and_then(|object| object.extent) {
            self.give_back(extent);
        }
    }

    /// How many bytes of memory readers keep.
    pub(crate) fn pinned(&self) -> u64 {
        self.sealed.values().filter(|object| object.pins > 0).map(Object::in_memory).sum()
    }

    /// Objects, pins, and the bytes of what is no cached copy.
    pub(crate) fn held(&self) -> (usize, u32, u64) {
        let kept = self.sealed.values().filter(|object| object.is_primary || object.pins > 0);
        let pins = self.sealed.values().map(|object| object.pins).sum();
        let n_objects =
            kept.clone().count() + self.unsealed.len() + self.room.len() + self.overflow.waiting();
        let bytes =
            kept.filter_map(|object| object.extent).map(|extent| extent.length).sum::<u64>()
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
    pub(crate) fn on_create_object(&mut self, conn: Conn, create: CreateObject) {
        let CreateObject { request_id, object_id, size, .. } = create;
        let refuse = |kind, message: String| ObjectRefused {
            request_id,
            failure: Failure::new(kind, message),
        };
        if self.objects.sealed.contains_key(&object_id) {
            // A second attempt of the call that returns it: the first one's copy is as good, and it is
            // wanted again if it was freed.
            if let Some(object) = self.objects.sealed.get_mut(&object_id) {
                (object.is_primary, object.is_freed) = (true, false);
            }
            self.objects.forget_place(object_id);
            self.objects.settle(object_id);
            return self.ctx.send(
                conn,
                refuse(FailureKind::AlreadyExists, "the object is in the store already".into()),
            );
        }
        if self.objects.unsealed.contains_key(&(object_id, conn)) {
            return self.violation(conn, "an object is created twice");
        }
        let count = self.objects.sealed.len() + self.objects.unsealed.len();
        if count >= OBJECTS_MAX || self.objects.room.len() >= ROOM_WAITS_MAX {
            let message =
                format!("the object store holds {count} objects; it keeps at most {OBJECTS_MAX}");
            return self.ctx.send(conn, refuse(FailureKind::StoreFull, message));
        }
        let wants = Wants::Create { conn, request_id };
        if Extents::footprint(size) <= self.objects.extents.size() {
            self.want_room(object_id, size, wants);
        } else if self.objects.overflow.is_there() {
            self.lay_on_disk(object_id, size, wants);
        } else {
            let message = self.full(size);
            self.ctx.send(conn, refuse(FailureKind::StoreFull, message));
        }
    }

    /// There is room for a creation.
    pub(crate) fn may_write(
        &mut self,
        conn: Conn,
        request_id: u64,
        object_id: ObjectId,
        extent: Extent,
        size: u64,
    ) {
        self.objects.unsealed.insert((object_id, conn), Unsealed { extent, size, is_freed: false });
        self.ctx.send(conn, ObjectCreated { request_id, offset: extent.offset });
    }

    pub(crate) fn on_seal_object(&mut self, conn: Conn, object_id: ObjectId) {
        let Some(unsealed) = self.objects.unsealed.remove(&(object_id, conn)) else {
            return self.violation(conn, "an object is sealed that was not created");
        };
        let Unsealed { extent, size, is_freed } = unsealed;
        let Some(client) = self.clients.get(conn) else { return };
        let creator = client.worker_id();
        if self.objects.sealed.contains_key(&object_id) {
            // Another attempt was faster. Readers have that copy; this one was never shown to any.
            self.objects.give_back(extent);
        } else {
            self.objects.add(object_id, extent, size, creator);
            if let Some(object) = self.objects.sealed.get_mut(&object_id) {
                object.is_freed = is_freed;
            }
        }
        self.serve_waiting_fetches(object_id);
        self.objects.settle(object_id);
        self.give_room_if_new();
        self.spill_ahead();
    }

    pub(crate) fn on_abort_object(&mut self, conn: Conn, object_id: ObjectId) {
        self.objects.forget_create(conn, Some(object_id));
        if let Some(unsealed) = self.objects.unsealed.remove(&(object_id, conn)) {
            self.objects.give_back(unsealed.extent);
            self.writing_was_given_up(object_id);
            self.give_room_if_new();
        }
    }

    /// Pins the object for the client and tells it where it is.
    pub(crate) fn hand_out(&mut self, conn: Conn, request_id: u64, object_id: ObjectId) -> bool {
        let Some((offset, size)) = self.objects.pin(object_id) else { return false };
        match self.clients.get_mut(conn) {
            Some(client) => {
                *client.pins.entry(object_id).or_default() += 1;
                self.ctx.send(conn, ObjectFetched { request_id, offset, size });
            }
            None => self.objects.unpin(object_id, 1),
        }
        true
    }

    pub(crate) fn on_release_object(&mut self, conn: Conn, release: &ReleaseObject) {
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
        self.give_room_if_new();
    }

    pub(crate) fn on_free_object(&mut self, free: FreeObject) {
        self.drop_object(free.object_id);
        for to in free.locations {
            if to.node_id != self.ctx.setup().address.node_id {
                let message = NodeToNode::Drop(DropObject { object_id: free.object_id });
                self.ctx.push(Action::Ask { to, message });
            }
        }
    }

    pub(crate) fn drop_object(&mut self, object_id: ObjectId) {
        self.objects.free(object_id);
        self.give_room_if_new();
    }

    /// A client is gone: what it was writing, reading and waiting for comes back, and what it had put
    /// is over with it (its owner is dead).
    pub(crate) fn reclaim_objects(&mut self, conn: Conn, client: &Client) {
        self.objects.forget_create(conn, None);
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
            self.on_abort_object(conn, object_id);
        }
        let job_is_over = self.jobs.is_finished(client.job_id());
        let created =
            |object: &Object| !client.worker_id().is_nil() && object.creator == client.worker_id();
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
        self.give_room_if_new();
    }

    /// Whether the worker is a detached actor whose objects will be taken back with its connection.
    fn is_detached_actor(&self, worker_id: WorkerId) -> bool {
        let usage = self.pool.workers.get(&worker_id).map(|worker| worker.usage);
        let is_detached = matches!(usage, Some(Use::Actor(key)) if self.actors.is_detached(key));
        is_detached && self.clients.local(worker_id).is_some()
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
        self.give_room_if_new();
    }
}
