//! The object store of the node: which object lies where, who may write it, who reads it, and how it
//! comes here.
//!
//! ```text
//!   clients ──Create, Seal, Fetch, Release, Free─►┌──────────────────────────────┐──ObjectFetched─► clients
//!   daemons ──Pull, PullStart, PullChunk, Drop───►│ objects  what lies where     │──Ask, Answer, Serve───────────► daemons
//!   disk ─────Spilled, Restored, Reserved────────►│ room     who waits for room  │──Spill, Restore, Reserve──────► disk
//!                                                 │ pulls    what comes here     │
//!                                                 │ serves   what others read    │
//!                                                 │ pins     what clients hold   │
//!                                                 └──────────────────────────────┘
//! ```
//!
//! The tables know nothing of each other. [`Store`] carries events between them: here those of clients,
//! in `transfers` those of other daemons, in `spilling` those of the disk. `explain` says what an object
//! waits for.

mod allocator;
mod disk_file;
mod drops;
mod ended;
mod env;
mod explain;
mod objects;
mod pins;
mod pulls;
mod room;
mod serves;
mod spilling;
mod transfers;

use std::collections::{BTreeMap, BTreeSet};

use helio_proto::cluster::{DropObject, Inherit, Inherited, KeepCopy, NodeToNode};
use helio_proto::control::{Failure, FailureKind};
use helio_proto::node::{
    CreateObject, FetchObject, KeepObject, ObjectFetched, ObjectRefused, ReleaseObject,
};
use helio_types::{JobId, NodeAddress, ObjectId, WorkerId, mutant};

use crate::context::Violation;
use crate::event::Conn;
use crate::limits::{FETCHES_MAX, OBJECTS_MAX, ROOM_WAITS_MAX};
use drops::Drops;
use ended::Ended;
use objects::Objects;
pub(crate) use objects::Owner;
use pins::Pins;
use pulls::Pulls;
use room::{Room, Wants};
use serves::Serves;

pub(crate) use env::{Env, Surroundings};

/// The state of the object store: its sub-machines, and the objects to be inherited from nodes that leave.
#[derive(Debug)]
pub(crate) struct Store {
    objects: Objects,
    room: Room,
    pulls: Pulls,
    serves: Serves,
    pins: Pins,
    drops: Drops,
    ended: Ended,
    /// Objects that come from nodes that leave, to be kept here.
    inherits: BTreeMap<ObjectId, NodeAddress>,
    count_inherits: u64,
}

/// The reader of an object that comes to be kept.
const NOBODY: Conn = Conn(u64::MAX);

/// Counts of the things that a store holds for others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Held {
    /// Objects, sealed or being written, and creations that wait.
    pub(crate) objects: usize,
    pub(crate) pins: u32,
    /// Bytes of memory in use by primary copies and writers.
    pub(crate) bytes: u64,
    /// Reads that wait, and reads by other daemons.
    pub(crate) pulls: usize,
}

impl Store {
    /// Makes a store of `size` bytes of memory, and `disk_size` bytes in a file on disk behind it.
    pub(crate) fn new(size: u64, disk_size: u64) -> Self {
        Self {
            objects: Objects::new(size, disk_size),
            room: Room::default(),
            pulls: Pulls::default(),
            serves: Serves::default(),
            pins: Pins::default(),
            drops: Drops::default(),
            ended: Ended::default(),
            inherits: BTreeMap::new(),
            count_inherits: 0,
        }
    }

    /// Returns the size of the memory in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.objects.memory_size()
    }

    /// Returns the number of bytes of memory in use.
    pub(crate) fn used(&self) -> u64 {
        self.objects.memory_used()
    }

    /// Returns the number of bytes of objects that are on the disk alone.
    pub(crate) fn on_disk(&self) -> u64 {
        self.objects.on_disk()
    }

    /// Returns the number of sealed objects.
    pub(crate) fn len(&self) -> usize {
        self.objects.sealed_len()
    }

    /// The objects, copies included, and whose they are.
    pub(crate) fn objects(&self) -> Vec<(ObjectId, WorkerId)> {
        self.objects
            .owned(|_| true)
            .into_iter()
            .filter_map(|id| Some((id, self.objects.get(id)?.owner().worker_id)))
            .collect()
    }

    pub(crate) fn held(&self) -> Held {
        let (objects, pins, bytes) = self.objects.held();
        let pulls = self.pulls.len() + self.serves.len();
        Held { objects: objects + self.room.len(), pins, bytes, pulls }
    }

    /// An object's size, and whether the disk has a whole copy.
    pub(crate) fn object(&self, object_id: ObjectId) -> Option<(u64, bool)> {
        let object = self.objects.get(object_id)?;
        Some((object.size(), object.is_on_disk()))
    }

    /// Whether the client waits for room to write an object.
    pub(crate) fn waits_to_write(&self, conn: Conn) -> bool {
        self.room.waits_to_write(conn, None)
    }

    /// Whether the pins of objects are those of clients and daemons.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (held, clients) = (self.objects.held().1, self.pins.total());
        let served = self.serves.streaming_len() as u32;
        if clients + served != held {
            return Err(format!(
                "{held} pins on objects, {clients} by clients and {served} by daemons"
            ));
        }
        Ok(())
    }

    pub(crate) fn on_create(
        &mut self,
        conn: Conn,
        create: CreateObject,
        owner: Owner,
        env: &mut Env<'_>,
    ) -> Result<(), Violation> {
        let CreateObject { request_id, object_id, size, .. } = create;
        let mut refuse = |kind, message: String| {
            let failure = Failure::new(kind, message);
            env.ctx.send(conn, ObjectRefused { request_id, failure });
        };
        if self.objects.revive(object_id) {
            let message = "the object is in the store already";
            refuse(FailureKind::AlreadyExists, message.to_owned());
            return Ok(());
        }
        // The client has lost the connection to its caller, and runs the caller's call again beside the
        // first attempt: what that one writes counts for both.
        let is_waiting = self.room.waits_to_write(conn, Some(object_id));
        if is_waiting || self.objects.is_writing(object_id, conn) {
            let message = "another attempt of the same call is writing the object";
            refuse(FailureKind::AlreadyExists, message.to_owned());
            return Ok(());
        }
        let count = self.objects.len();
        if count >= OBJECTS_MAX || self.room.queue_len() >= ROOM_WAITS_MAX {
            let message =
                format!("the object store holds {count} objects; it keeps at most {OBJECTS_MAX}");
            refuse(FailureKind::StoreFull, message);
            return Ok(());
        }
        let wants = Wants::Create { conn, request_id, owner };
        if self.objects.fits(size) {
            self.want_room(object_id, size, wants, env);
        } else if self.objects.has_disk_file() {
            self.lay_on_disk(object_id, size, wants, env.ctx.now(), env);
        } else {
            let failure = Failure::new(FailureKind::StoreFull, self.explain_full(size, env.node));
            env.ctx.send(conn, ObjectRefused { request_id, failure });
        }
        Ok(())
    }

    /// The client has written an object.
    pub(crate) fn on_seal(
        &mut self,
        conn: Conn,
        object_id: ObjectId,
        env: &mut Env<'_>,
    ) -> Result<(), Violation> {
        if !self.objects.seal(object_id, conn) {
            return Err(Violation("an object is sealed that was not created"));
        }
        // Before anything may take its memory back: a reader's pin keeps it.
        self.serve_readers(object_id, env);
        // Its generator's reader had left before the item was written: nobody will free it.
        if !self.ended.is_empty()
            && let Some(object) = self.objects.get(object_id)
            && self.ended.has(object_id, object.owner().worker_id)
        {
            self.objects.free(object_id);
        }
        self.objects.settle(object_id);
        self.give_new_room(env);
        self.spill_ahead(env);
        Ok(())
    }

    pub(crate) fn on_abort(&mut self, conn: Conn, object_id: ObjectId, env: &mut Env<'_>) {
        self.room.forget_create(conn, Some(object_id));
        if self.objects.abort(object_id, conn) {
            self.on_writing_given_up(object_id, env);
            self.give_new_room(env);
        }
    }

    pub(crate) fn on_fetch(
        &mut self,
        conn: Conn,
        fetch: FetchObject,
        env: &mut Env<'_>,
    ) -> Result<(), Violation> {
        let FetchObject { request_id, object_id, locations, owner, owner_node } = fetch;
        let owner = Owner { worker_id: owner, node_id: owner_node };
        if self.pulls.is_number_used(conn, request_id) {
            return Err(Violation("a request number that is in use"));
        }
        if self.hand_out(conn, request_id, object_id, env) {
            return Ok(());
        }
        if self.pulls.requests_len() >= FETCHES_MAX {
            let failure = Failure::new(
                FailureKind::System,
                format!("{FETCHES_MAX} reads wait for their object already"),
            );
            env.ctx.send(conn, ObjectRefused { request_id, failure });
            return Ok(());
        }
        // Later readers of the same object share what the first one has begun.
        if self.pulls.add_reader((conn, request_id), object_id, locations, owner) {
            if self.objects.must_await(object_id) {
                self.pulls.set_local(object_id);
                self.restore(object_id, env);
            } else {
                self.pulls.enqueue(object_id);
                self.start_pulls(env);
            }
        }
        Ok(())
    }

    pub(crate) fn on_cancel_fetch(&mut self, conn: Conn, request_id: u64, env: &mut Env<'_>) {
        let Some(object_id) = self.pulls.remove_reader(conn, request_id) else { return };
        self.stop_pull(object_id, env);
        self.pulls.take_readers(object_id);
        self.pulls.dequeue(object_id);
        self.room.forget_pull(object_id);
        self.start_pulls(env);
    }

    /// Pins the object for the client and tells it where it is. Returns whether the object is in memory.
    fn hand_out(
        &mut self,
        conn: Conn,
        request_id: u64,
        object_id: ObjectId,
        env: &mut Env<'_>,
    ) -> bool {
        if conn == NOBODY {
            self.inherited(object_id, "", env);
            return true;
        }
        let Some((offset, size)) = self.objects.pin(object_id) else { return false };
        self.pins.add(conn, object_id);
        env.ctx.send(conn, ObjectFetched { request_id, offset, size });
        true
    }

    pub(crate) fn on_release(
        &mut self,
        conn: Conn,
        release: &ReleaseObject,
        env: &mut Env<'_>,
    ) -> Result<(), Violation> {
        self.pins.remove(conn, release.object_id, release.pins)?;
        self.objects.unpin(release.object_id, release.pins);
        self.give_new_room(env);
        Ok(())
    }

    /// The owner frees what other nodes have, or may have.
    pub(crate) fn tell_freed(
        &mut self,
        dropped: &DropObject,
        locations: Vec<NodeAddress>,
        env: &mut Env<'_>,
    ) {
        for to in locations {
            // The owner may not have heard yet that the node has left.
            let to = env.node.heir(to.node_id).unwrap_or(to);
            if to.node_id != env.ctx.node_id() {
                // If the node leaves before it reads this, its heir has to be told.
                self.drops.add(to.node_id, dropped.clone(), env.ctx.now());
                env.ctx.ask_node(to, NodeToNode::Drop(dropped.clone()));
            }
        }
    }

    /// Notes that no reader wants that item of a generator, nor those after it, as far as they belong to that process.
    /// Returns those that are here.
    pub(crate) fn end_items(&mut self, first: ObjectId, owner: WorkerId) -> Vec<ObjectId> {
        self.ended.add(first, owner);
        let mut items = self.objects.owned(|of| of.worker_id == owner);
        items.retain(|id| id.task() == first.task() && id.index() >= first.index());
        items
    }

    /// The owner knows no other copy than the one that `keep.at` made for a reader.
    pub(crate) fn on_keep_object(&mut self, keep: KeepObject, env: &mut Env<'_>) {
        let KeepObject { object_id, at } = keep;
        if at.node_id == env.ctx.node_id() {
            return self.on_keep(object_id);
        }
        env.ctx.ask_node(at, NodeToNode::Keep(KeepCopy { object_id }));
    }

    /// A copy stays until it is freed. One that has gone meanwhile is missed by its next reader.
    pub(crate) fn on_keep(&mut self, object_id: ObjectId) {
        self.objects.keep(object_id);
    }

    /// The objects that stay until they are freed, and whose they are, except those of these processes.
    pub(crate) fn kept(&self, without: impl Fn(WorkerId) -> bool) -> Vec<(ObjectId, Owner)> {
        self.objects.kept(without)
    }

    /// Takes over an object of a node that leaves: this node keeps it from now on.
    pub(crate) fn on_inherit(&mut self, offer: Inherit, env: &mut Env<'_>) {
        let Inherit { object_id, from, owner, owner_node } = offer;
        let owner = Owner { worker_id: owner, node_id: owner_node };
        if self.objects.get(object_id).is_some() {
            self.objects.keep(object_id);
            let message = Inherited { object_id, refused: String::new() };
            return env.ctx.ask_node(from, NodeToNode::Inherited(message));
        }
        if self.inherits.insert(object_id, from.clone()).is_some() {
            return;
        }
        // A reader without a client: the object is pulled as for anybody else, and then kept.
        self.count_inherits += 1;
        if self.pulls.add_reader((NOBODY, self.count_inherits), object_id, vec![from], owner) {
            self.pulls.enqueue(object_id);
            self.start_pulls(env);
        }
    }

    /// An object that another node leaves behind has come, or cannot.
    pub(super) fn inherited(&mut self, object_id: ObjectId, refused: &str, env: &mut Env<'_>) {
        let Some(from) = self.inherits.remove(&object_id) else { return };
        if refused.is_empty() {
            self.objects.keep(object_id);
        }
        let message = Inherited { object_id, refused: refused.to_owned() };
        env.ctx.ask_node(from, NodeToNode::Inherited(message));
    }

    /// The owner has freed an object.
    pub(crate) fn on_drop(&mut self, object_id: ObjectId, env: &mut Env<'_>) {
        self.objects.free(object_id);
        self.give_new_room(env);
    }

    /// A client is gone: what it was writing, reading and waiting for comes back.
    pub(crate) fn on_client_gone(&mut self, conn: Conn, env: &mut Env<'_>) {
        let pins = self.pins.take(conn);
        self.room.forget_create(conn, None);
        // Its reads end before room is given: one that gets some would pin for nobody.
        for request_id in self.pulls.of_client(conn) {
            self.on_cancel_fetch(conn, request_id, env);
        }
        for (object_id, pins) in pins {
            self.objects.unpin(object_id, pins);
            // Its reader may not have told the owner of it.
            if !mutant!("copies-of-dead-readers-stay") {
                self.objects.forget_copy(object_id);
            }
        }
        for object_id in self.objects.written_by(conn) {
            self.on_abort(conn, object_id, env);
        }
        self.give_new_room(env);
    }

    /// Returns the owners of the objects here.
    pub(crate) fn owners(&self) -> BTreeSet<Owner> {
        self.objects.owners()
    }

    /// Returns the owners whose objects have come since the last call.
    pub(crate) fn take_seen(&mut self) -> Vec<Owner> {
        self.objects.take_seen()
    }

    /// Processes are dead: what they owned goes with them.
    pub(crate) fn on_owners_dead(&mut self, is_it: impl Fn(Owner) -> bool, env: &mut Env<'_>) {
        for object_id in self.objects.owned(is_it) {
            self.objects.free(object_id);
        }
        self.give_new_room(env);
    }

    /// A job is over: its objects go, except those of the processes that go on.
    pub(crate) fn on_job_finished(
        &mut self,
        job_id: JobId,
        goes_on: impl Fn(Owner) -> bool,
        env: &mut Env<'_>,
    ) {
        for (object_id, owner) in self.objects.of_job(job_id) {
            if !goes_on(owner) {
                self.objects.free(object_id);
            }
        }
        self.give_new_room(env);
    }
}

#[cfg(test)]
impl Store {
    /// Whether the object is on this node's disk only.
    pub(crate) fn is_on_disk_only(&self, object_id: ObjectId) -> bool {
        self.objects.get(object_id).is_some_and(|object| !object.is_in_memory())
    }

    /// Whether nobody reads, writes or waits.
    pub(crate) fn is_at_rest(&self) -> bool {
        let Held { pins, pulls, .. } = self.held();
        pins == 0 && pulls == 0 && self.objects.len() == self.objects.sealed_len()
    }
}
