//! Room in the memory file, and the disk behind it.
//!
//! Who needs room waits in one queue: creations, objects on their way from other nodes, objects on
//! their way back from disk. Room comes from frees, from forgetting what can be had again, and from
//! writing primary copies to disk, the least recently used first. Writing begins already when the
//! memory is four fifths full, so that most who come find room at once: an object that is on disk as
//! well is forgotten without further ado. Pins keep objects in memory; when that is in the way, clients
//! are asked for those that they hold only to have the object at hand. When that does not help, what is
//! to be read or written is laid on disk ([`crate::overflow`]). Where the disk takes nothing either, who reads
//! or writes waits on while tasks run here that read from the store, for they end; else there is no room,
//! and the one who waits is told so.
//!
//! **SHM-1** An object's memory stays its own until its file is whole, and a pinned object is not
//! written out at all.

use std::collections::{BTreeSet, VecDeque};

use helio_proto::control::{Failure, FailureKind};
use helio_proto::node::{ObjectRefused, RoomWanted};
use helio_types::ObjectId;

use crate::extents::Extent;
use crate::limits::{DISK_RETRY_MS, PINS_ASK_MS, READ_ROOM_MS_MAX, ROOM_MS_MAX};
use crate::objects::File;
use crate::timers::Timer;
use crate::{Action, Conn, DiskError, Node};

/// Who needs room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wants {
    /// A client that will write an object.
    Create { conn: Conn, request_id: u64 },
    /// An object that another node has.
    Pull,
    /// An object that is on this node's disk.
    Restore,
}

impl Wants {
    /// Whether a client is to write `of`: that object, if one is named.
    pub(crate) fn is_creation(self, conn: Conn, object_id: Option<ObjectId>, of: ObjectId) -> bool {
        matches!(self, Self::Create { conn: creator, .. } if creator == conn)
            && object_id.is_none_or(|id| id == of)
    }
}

#[derive(Debug)]
struct Waiting {
    object_id: ObjectId,
    size: u64,
    wants: Wants,
    /// When the object is laid on disk, or its writer is told that there is no room.
    until: u64,
}

/// The queue for room.
#[derive(Debug, Default)]
pub(crate) struct Room {
    waiting: VecDeque<Waiting>,
    /// Room has come since the queue was looked at.
    pub(crate) is_new: bool,
    /// How many objects are being written to disk, and how many bytes.
    spills: usize,
    spilling_bytes: u64,
    /// The disk did not take an object, and until when it is not tried again.
    disk_error: Option<(DiskError, u64)>,
    /// When clients were asked for their pins last.
    asked_at: u64,
}

impl Room {
    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// A client does not want to write the object, or any, after all.
    pub(crate) fn forget_create(&mut self, conn: Conn, object_id: Option<ObjectId>) {
        let is_it = |one: &Waiting| one.wants.is_creation(conn, object_id, one.object_id);
        self.waiting.retain(|waiting| !is_it(waiting));
    }

    /// Nobody reads the object any more.
    pub(crate) fn forget_pull(&mut self, object_id: ObjectId) {
        self.waiting
            .retain(|waiting| waiting.wants != Wants::Pull || waiting.object_id != object_id);
    }

    /// How many bytes are waited for to read an object here.
    pub(crate) fn wanted(&self, object_id: ObjectId) -> Option<u64> {
        let reads = |waiting: &&Waiting| matches!(waiting.wants, Wants::Pull | Wants::Restore);
        let mut reads = self.waiting.iter().filter(reads);
        reads.find(|waiting| waiting.object_id == object_id).map(|waiting| waiting.size)
    }

    /// How many bytes somebody waits for to write the object.
    pub(crate) fn wanted_to_write(&self, object_id: ObjectId) -> Option<u64> {
        let is_it = |waiting: &&Waiting| {
            waiting.object_id == object_id && matches!(waiting.wants, Wants::Create { .. })
        };
        self.waiting.iter().find(is_it).map(|waiting| waiting.size)
    }

    /// Who waits, and for which object.
    fn all(&self) -> impl Iterator<Item = (ObjectId, Wants)> {
        self.waiting.iter().map(|waiting| (waiting.object_id, waiting.wants))
    }

    fn disk_error(&self, now: u64) -> Option<&DiskError> {
        self.disk_error.as_ref().filter(|(_, until)| *until > now).map(|(error, _)| error)
    }
}

impl Node {
    /// Queues for room; who is first and finds some has it at once.
    pub(crate) fn want_room(&mut self, object_id: ObjectId, size: u64, wants: Wants) {
        let until = self.ctx.now()
            + match self.objects.overflow.is_there() {
                // Those before it found none either.
                true if self.objects.overflow.is_used() => PINS_ASK_MS,
                true => READ_ROOM_MS_MAX,
                false => ROOM_MS_MAX,
            };
        self.want_room_until(object_id, size, wants, until);
    }

    /// The disk has no room either, but there will be some.
    pub(crate) fn want_room_again(&mut self, object_id: ObjectId, size: u64, wants: Wants) {
        self.want_room_until(object_id, size, wants, self.ctx.now() + READ_ROOM_MS_MAX);
    }

    fn want_room_until(&mut self, object_id: ObjectId, size: u64, wants: Wants, until: u64) {
        self.objects.room.waiting.push_back(Waiting { object_id, size, wants, until });
        self.give_room();
        if self.objects.room.waiting.iter().any(|waiting| waiting.until == until) {
            self.ctx.set_timer(until, Timer::Room);
        }
    }

    pub(crate) fn give_room_if_new(&mut self) {
        if self.objects.room.is_new {
            self.give_room();
            self.ctx.status_changed();
        }
    }

    /// Gives room to those who wait for it, in their order; a large one does not hold up the small ones
    /// behind it. For those that find none, objects are written to disk.
    pub(crate) fn give_room(&mut self) {
        self.objects.room.is_new = false;
        for waiting in std::mem::take(&mut self.objects.room.waiting) {
            let Waiting { object_id, size, wants, .. } = waiting;
            let Some(extent) = self.objects.allocate(size) else {
                self.objects.room.waiting.push_back(waiting);
                continue;
            };
            self.ctx.status_changed();
            match wants {
                Wants::Create { conn, request_id } => {
                    self.may_write(conn, request_id, object_id, extent, size)
                }
                Wants::Pull => self.may_pull(object_id, extent, size),
                Wants::Restore => self.read_back(object_id, extent, size),
            }
        }
        if let Some(first) = self.objects.room.waiting.front() {
            let wanted = first.size;
            self.write_out(wanted);
            self.refuse_if_hopeless();
            self.ask_for_pins();
        }
    }

    /// Nothing else gives room soon: asks all who have pins for those that they can do without.
    fn ask_for_pins(&mut self) {
        let room = &mut self.objects.room;
        if room.waiting.is_empty()
            || room.spills > 0
            || room.asked_at + PINS_ASK_MS > self.ctx.now()
        {
            return;
        }
        room.asked_at = self.ctx.now();
        self.ctx.set_timer(self.ctx.now() + PINS_ASK_MS, Timer::Room);
        let holders = self.clients.iter().filter(|(_, client)| !client.pins.is_empty());
        for conn in holders.map(|(conn, _)| conn).collect::<Vec<Conn>>() {
            self.ctx.send(conn, RoomWanted {});
        }
    }

    /// The clients that wait for the object.
    fn waiters(&self, object_id: ObjectId, wants: Wants) -> Vec<Conn> {
        match wants {
            Wants::Create { conn, .. } => vec![conn],
            Wants::Pull | Wants::Restore => self.pulls.readers(object_id),
        }
    }

    /// Whether the client waits for room to write an object.
    pub(crate) fn waits_to_write(&self, conn: Conn) -> bool {
        let mut all = self.objects.room.all().chain(self.objects.overflow.all());
        all.any(|(object_id, wants)| wants.is_creation(conn, None, object_id))
    }

    /// Whether room will come although nobody gives any now: objects are being written to disk, or tasks
    /// run that read from the store and do not wait themselves. `lacking`: what finds no room.
    pub(crate) fn room_will_come(&self, lacking: &[(ObjectId, Wants)]) -> bool {
        if self.objects.room.spills > 0 {
            return true;
        }
        let all = self.objects.room.all().chain(self.objects.overflow.all());
        let stuck: BTreeSet<Conn> = all
            .chain(lacking.iter().copied())
            .flat_map(|(object_id, wants)| self.waiters(object_id, wants))
            .collect();
        self.clients.iter().any(|(conn, client)| {
            !client.pins.is_empty()
                && self.arguments.has(conn)
                && !self.is_blocked(client.worker_id())
                && !stuck.contains(&conn)
        })
    }

    /// Those that waited long enough, unless the disk is just making room, are laid on disk, where they can be
    /// had while others keep the memory. Without a file for that, they are refused when no room will come.
    pub(crate) fn room_is_late(&mut self) {
        let is_coming = self.objects.room.spills > 0;
        let has_disk = self.objects.overflow.is_there();
        let will_come = is_coming || (!has_disk && self.room_will_come(&[]));
        let mut kept = VecDeque::new();
        for mut waiting in std::mem::take(&mut self.objects.room.waiting) {
            let Waiting { object_id, size, wants, until } = waiting;
            if until > self.ctx.now() {
                kept.push_back(waiting);
            } else if will_come {
                waiting.until = self.ctx.now() + READ_ROOM_MS_MAX;
                self.ctx.set_timer(waiting.until, Timer::Room);
                kept.push_back(waiting);
            } else if has_disk {
                self.lay_on_disk(object_id, size, wants);
            } else {
                let failure = Failure::new(FailureKind::StoreFull, self.full(size));
                self.no_place(object_id, wants, &failure);
            }
        }
        kept.append(&mut self.objects.room.waiting);
        self.objects.room.waiting = kept;
        self.give_room();
    }

    /// Without a disk that takes objects, creations that wait for it are refused at once.
    fn refuse_if_hopeless(&mut self) {
        let Some(error) = self.objects.room.disk_error(self.ctx.now()).cloned() else { return };
        if self.objects.spillable.is_empty() || self.room_will_come(&[]) {
            return;
        }
        let kind = if error.is_full { FailureKind::OutOfDisk } else { FailureKind::StoreFull };
        for waiting in std::mem::take(&mut self.objects.room.waiting) {
            match waiting.wants {
                Wants::Create { conn, request_id } => {
                    let text = format!(
                        "{}, and the disk takes no more: {}",
                        self.full(waiting.size),
                        error.text
                    );
                    self.ctx.send(
                        conn,
                        ObjectRefused { request_id, failure: Failure::new(kind, text) },
                    );
                }
                _ => self.objects.room.waiting.push_back(waiting),
            }
        }
    }

    /// Writes to disk what is over four fifths of the memory and cannot be had again.
    pub(crate) fn spill_ahead(&mut self) {
        let limit = self.objects.extents.size() / 5 * 4;
        let over = self.objects.needed().saturating_sub(limit);
        if over > 0 {
            self.write_out(over);
        }
    }

    /// Has objects of `wanted` bytes in sum written to disk, those that are being written among them.
    fn write_out(&mut self, wanted: u64) {
        if self.objects.room.disk_error(self.ctx.now()).is_some() {
            return;
        }
        while self.objects.room.spilling_bytes < wanted
            && self.objects.room.spills < self.ctx.setup().spills_max
        {
            let Some((_, object_id)) = self.objects.spillable.pop_first() else { return };
            let Some(object) = self.objects.sealed.get_mut(&object_id) else { continue };
            let Some(extent) = object.extent else { continue };
            object.file = File::Writing;
            let size = object.size;
            self.objects.room.spills += 1;
            self.objects.room.spilling_bytes += extent.length;
            self.ctx.push(Action::Spill { object_id, offset: extent.offset, size });
        }
    }

    /// An object was written to disk, or could not be.
    pub(crate) fn on_spilled(&mut self, object_id: ObjectId, outcome: Result<(), DiskError>) {
        let Some(object) = self.objects.sealed.get_mut(&object_id) else { return };
        if object.file != File::Writing {
            return;
        }
        object.file = if outcome.is_ok() { File::Written } else { File::None };
        let length = object.extent.map_or(0, |extent| extent.length);
        self.objects.room.spills -= 1;
        self.objects.room.spilling_bytes -= length;
        if let Err(error) = outcome {
            self.objects.room.disk_error = Some((error, self.ctx.now() + DISK_RETRY_MS));
        }
        self.objects.settle(object_id);
        self.give_room();
        self.spill_ahead();
    }

    /// Brings an object back from disk; those who wait for it are served when it is there.
    pub(crate) fn restore(&mut self, object_id: ObjectId) {
        let Some(object) = self.objects.sealed.get_mut(&object_id) else { return };
        if object.file == File::Written && object.extent.is_none() {
            object.file = File::Reading;
            let size = object.size;
            self.want_room(object_id, size, Wants::Restore);
        }
    }

    pub(crate) fn read_back(&mut self, object_id: ObjectId, extent: Extent, size: u64) {
        match self.objects.sealed.get_mut(&object_id) {
            Some(object) => {
                object.extent = Some(extent);
                self.ctx.push(Action::Restore { object_id, offset: extent.offset, size });
            }
            None => self.objects.give_back(extent),
        }
    }

    /// An object was read from disk, or could not be: then it is lost.
    pub(crate) fn on_restored(&mut self, object_id: ObjectId, outcome: Result<(), DiskError>) {
        let Some(object) = self.objects.sealed.get_mut(&object_id) else { return };
        if object.file != File::Reading || object.extent.is_none() {
            return;
        }
        object.file = File::Written;
        match outcome {
            Ok(()) => {
                self.serve_waiting_fetches(object_id);
                self.objects.settle(object_id);
            }
            Err(_) => {
                self.objects.removals.push(object_id);
                self.objects.remove(object_id);
                self.writing_was_given_up(object_id);
            }
        }
        self.give_room_if_new();
    }
}
