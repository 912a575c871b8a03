//! Room in the memory file, and the disk behind it.
//!
//! Room comes from frees, from forgetting copies that can be had again, and from writing primary copies to
//! disk, the least recently used first. Writing begins already when the memory is four fifths full, so
//! that most clients find room at once: an object that is on disk as well is forgotten without further
//! ado. Pins keep objects in memory; when that is in the way, clients are asked for those that they hold
//! only to have the object at hand. When that does not help, objects that are to be read or written are laid
//! on disk (`disk_file`). Where the disk takes nothing either, readers and writers wait on while tasks run
//! here that read from the store, or begin as soon as their worker has started, for they end. Between two
//! such tasks nothing tells that the next one comes: so it takes a while without room before readers and
//! writers are told that there is none.
//!
//! **SHM-1** An object's memory stays its own until its file is whole, and a pinned object is not
//! written out at all.

use std::collections::{BTreeSet, VecDeque};

use helio_proto::control::{Failure, FailureKind};
use helio_proto::node::{ObjectCreated, ObjectRefused, RoomWanted};
use helio_types::{ObjectId, mutant};

use super::Store;
use super::allocator::Extent;
use super::env::Env;
use super::explain::ADVICE;
use super::room::{Reservation, Waiting, Wants};
use crate::event::{Action, Conn, DiskError};
use crate::limits::{PINS_ASK_MS, READ_ROOM_MS_MAX};
use crate::timers::Timer;

impl Store {
    /// Queues for room; the first in the queue gets it at once if there is some.
    pub(super) fn want_room(
        &mut self,
        object_id: ObjectId,
        size: u64,
        wants: Wants,
        env: &mut Env<'_>,
    ) {
        let wait_ms = match self.objects.has_disk_file() {
            // The ones before it found no room either.
            true if self.objects.is_disk_file_used() => PINS_ASK_MS,
            true => READ_ROOM_MS_MAX,
            false => env.ctx.setup().room_ms_max,
        };
        let since = env.ctx.now();
        let until = since + wait_ms;
        self.queue(Waiting { object_id, size, wants, since, until }, env);
    }

    fn queue(&mut self, waiting: Waiting, env: &mut Env<'_>) {
        let until = waiting.until;
        self.room.push(waiting);
        self.give_room(env);
        if self.room.waits_until(until) {
            env.ctx.set_timer(until, Timer::Room);
        }
    }

    /// Serves the queue for room if some has come since it was served last.
    pub(crate) fn give_new_room(&mut self, env: &mut Env<'_>) {
        if self.objects.has_new_room() {
            self.give_room(env);
            env.ctx.status_changed();
        }
    }

    /// Gives room to those that wait for it, in their order; a large one does not hold up the small ones
    /// behind it. For those that find none, objects are written to disk.
    fn give_room(&mut self, env: &mut Env<'_>) {
        // Room that comes while the queue is served is to serve it once more.
        self.objects.clear_new_room();
        for waiting in self.room.take_queue() {
            let Waiting { object_id, size, wants, .. } = waiting;
            let Some(extent) = self.objects.allocate(size) else {
                self.room.push(waiting);
                continue;
            };
            env.ctx.status_changed();
            self.on_room(object_id, extent, size, wants, env);
        }
        if let Some(first) = self.room.first() {
            let wanted = first.size;
            self.write_out(wanted, env);
            self.ask_for_pins(env);
        }
    }

    /// An object has got its room.
    fn on_room(
        &mut self,
        object_id: ObjectId,
        extent: Extent,
        size: u64,
        wants: Wants,
        env: &mut Env<'_>,
    ) {
        match wants {
            Wants::Create { conn, request_id, owner } => {
                assert!(size <= extent.length, "a client would write over the next object");
                self.objects.begin_write(object_id, conn, extent, size, owner);
                env.ctx.send(conn, ObjectCreated { request_id, offset: extent.offset });
            }
            Wants::Pull => self.let_pull(object_id, extent, size, env),
            Wants::Restore => {
                if self.objects.place_restored(object_id, extent) {
                    let offset = extent.offset;
                    assert!(size <= extent.length, "a file would be read over the next object");
                    env.ctx.push(Action::Restore { object_id, offset, size });
                }
            }
        }
    }

    /// Asks all clients that have pins for those that they can do without, when nothing else gives room soon.
    fn ask_for_pins(&mut self, env: &mut Env<'_>) {
        if !self.room.asks_for_pins(env.ctx.now()) {
            return;
        }
        env.ctx.set_timer(env.ctx.now() + PINS_ASK_MS, Timer::Room);
        for (conn, _) in self.pins.holders() {
            env.ctx.send(conn, RoomWanted {});
        }
    }

    /// The clients that wait for the object.
    fn waiters(&self, object_id: ObjectId, wants: Wants) -> Vec<Conn> {
        match wants {
            Wants::Create { conn, .. } => vec![conn],
            Wants::Pull | Wants::Restore => self.pulls.readers(object_id),
        }
    }

    /// Whether room will come although nobody gives any now: objects are being written to disk, tasks begin,
    /// or tasks run that read from the store and do not wait themselves. `lacking`: what finds no room.
    fn room_will_come(&self, lacking: &[(ObjectId, Wants)], env: &Env<'_>) -> bool {
        // A task that begins takes its arguments, and gives them back when it ends.
        if self.room.spills() > 0 || env.node.task_begins_soon() {
            return true;
        }
        let stuck: BTreeSet<Conn> = self
            .room
            .all()
            .chain(lacking.iter().copied())
            .flat_map(|(object_id, wants)| self.waiters(object_id, wants))
            .collect();
        let mut readers = self.pins.holders();
        // A task that waits for room itself gives none back: only one that does not wait will end.
        readers.any(|(conn, _)| env.node.runs_with_arguments(conn) && !stuck.contains(&conn))
    }

    /// Objects that waited long enough for room, unless the disk is just making some, are laid on disk,
    /// where they can be had while readers keep the memory. Without a file for that, they are refused when
    /// no room will come.
    pub(crate) fn on_room_timer(&mut self, env: &mut Env<'_>) {
        let is_coming = self.room.spills() > 0;
        let has_disk = self.objects.has_disk_file();
        let will_come = is_coming || (!has_disk && self.room_will_come(&[], env));
        let (now, room_ms_max) = (env.ctx.now(), env.ctx.setup().room_ms_max);
        let mut kept = VecDeque::new();
        for mut waiting in self.room.take_queue() {
            let Waiting { object_id, size, wants, since, until } = waiting;
            if until > now {
                kept.push_back(waiting);
            } else if will_come {
                // Its time begins anew: as long as others move, a full store is slow and not stuck.
                (waiting.since, waiting.until) = (now, now + READ_ROOM_MS_MAX);
                env.ctx.set_timer(waiting.until, Timer::Room);
                kept.push_back(waiting);
            } else if !has_disk && now < since + room_ms_max {
                waiting.until = since + room_ms_max;
                env.ctx.set_timer(waiting.until, Timer::Room);
                kept.push_back(waiting);
            } else if has_disk {
                self.lay_on_disk(object_id, size, wants, since, env);
            } else {
                let failure = self.explain_refusal(size, env);
                self.refuse(object_id, wants, &failure, env);
            }
        }
        // They have waited longest.
        self.room.put_first(kept);
        self.give_room(env);
    }

    /// Explains why an object finds no room in memory, where no file on disk stands behind the
    /// memory.
    fn explain_refusal(&self, size: u64, env: &Env<'_>) -> Failure {
        let full = self.explain_full(size, env.node);
        let error = self.room.disk_error(env.ctx.now());
        match error.filter(|_| self.objects.has_spillable()) {
            Some(DiskError { is_full, text }) => {
                let text = format!("{full}, and the disk takes no more: {text}");
                Failure::new(kind_of(*is_full), text)
            }
            None => Failure::new(FailureKind::StoreFull, full),
        }
    }

    /// Writes to disk the objects beyond four fifths of the memory that cannot be had again.
    pub(super) fn spill_ahead(&mut self, env: &mut Env<'_>) {
        // The last fifth is what writers find while the disk is at work.
        let limit = self.objects.memory_size() / 5 * 4;
        let over = self.objects.needed().saturating_sub(limit);
        if over > 0 {
            self.write_out(over, env);
        }
    }

    /// Has objects of `wanted` bytes in sum written to disk, those that are being written among them.
    fn write_out(&mut self, wanted: u64, env: &mut Env<'_>) {
        // A disk that failed just now would fail again, at the cost of writing the object.
        if self.room.disk_error(env.ctx.now()).is_some() {
            return;
        }
        while self.room.spilling_bytes() < wanted && self.room.spills() < env.ctx.setup().spills_max
        {
            let Some((object_id, extent, size)) = self.objects.begin_spill() else { return };
            self.room.on_spill_begun(extent.length);
            env.ctx.push(Action::Spill { object_id, offset: extent.offset, size });
        }
    }

    /// An object was written to disk, or could not be.
    pub(crate) fn on_spilled(
        &mut self,
        object_id: ObjectId,
        outcome: Result<u32, DiskError>,
        env: &mut Env<'_>,
    ) {
        let mut written = outcome.as_ref().ok().copied();
        if mutant!("failed-write-taken-for-done") {
            written = written.or(Some(0));
        }
        let Some(length) = self.objects.end_spill(object_id, written) else { return };
        self.room.on_spill_ended(length);
        if let Err(error) = outcome {
            self.room.on_disk_error(error, env.ctx.now());
        }
        self.objects.settle(object_id);
        // Those that wait come first; what is spilled ahead is for those who have not asked yet.
        self.give_room(env);
        self.spill_ahead(env);
    }

    /// Brings an object back from disk; its readers are served when it is there.
    pub(super) fn restore(&mut self, object_id: ObjectId, env: &mut Env<'_>) {
        if let Some(size) = self.objects.begin_restore(object_id) {
            self.want_room(object_id, size, Wants::Restore, env);
        }
    }

    /// An object was read from disk, or could not be: then it is lost.
    pub(crate) fn on_restored(
        &mut self,
        object_id: ObjectId,
        outcome: Result<u32, DiskError>,
        env: &mut Env<'_>,
    ) {
        let Some(written) = self.objects.end_restore(object_id) else { return };
        let is_read = outcome.is_ok() || mutant!("failed-read-taken-for-done");
        // The file is not what was written: its bytes would be read as another value.
        let is_damaged = outcome.is_ok_and(|read| read != written);
        match is_read && (!is_damaged || mutant!("damaged-file-taken-for-whole")) {
            true => {
                self.serve_readers(object_id, env);
                self.objects.settle(object_id);
            }
            false => {
                if is_damaged {
                    env.ctx.push(Action::TellDamaged { object_id });
                }
                self.objects.lose(object_id);
                // Another node may have a copy; else the owner makes the object again.
                self.on_writing_given_up(object_id, env);
            }
        }
        self.give_new_room(env);
    }

    /// Has the object read into the disk file, or written there by its maker.
    pub(super) fn lay_on_disk(
        &mut self,
        object_id: ObjectId,
        size: u64,
        wants: Wants,
        since: u64,
        env: &mut Env<'_>,
    ) {
        // Before the range can be another object's.
        self.punch_holes(env);
        match self.objects.allocate_on_disk(size) {
            Some(extent) => {
                let Extent { offset, length } = extent;
                self.room.add_reservation(Reservation {
                    object_id,
                    extent,
                    size,
                    since,
                    wants: Some(wants),
                });
                env.ctx.push(Action::Reserve { offset, size: length });
            }
            None => {
                let text = format!("{}. {ADVICE}", self.explain_full(size, env.node));
                let failure = Failure::new(FailureKind::StoreFull, text);
                self.refuse(object_id, wants, &failure, env);
            }
        }
    }

    fn punch_holes(&mut self, env: &mut Env<'_>) {
        for Extent { offset, length } in self.objects.take_holes() {
            env.ctx.push(Action::Punch { offset, size: length });
        }
    }

    /// The event has been handled: gives ranges and files that became useless back to the disk.
    pub(crate) fn give_back_disk(&mut self, env: &mut Env<'_>) {
        self.punch_holes(env);
        for object_id in self.objects.take_removals() {
            env.ctx.push(Action::RemoveFile { object_id });
        }
    }

    /// The disk keeps room for a range, or has none.
    pub(crate) fn on_reserved(
        &mut self,
        offset: u64,
        outcome: Result<(), DiskError>,
        env: &mut Env<'_>,
    ) {
        let Some(reservation) = self.room.take_reservation(offset) else { return };
        let Reservation { object_id, extent, size, since, wants } = reservation;
        match (outcome, wants) {
            (Ok(()), Some(wants)) => self.on_room(object_id, extent, size, wants, env),
            (Err(error), Some(wants)) => {
                self.objects.give_back(extent);
                let now = env.ctx.now();
                // The object is in no queue now, and what waits for it is as stuck as the others.
                let will_come = self.room_will_come(&[(object_id, wants)], env);
                if will_come || now < since + env.ctx.setup().room_ms_max {
                    let since = if will_come { now } else { since };
                    let until = now + READ_ROOM_MS_MAX;
                    return self.queue(Waiting { object_id, size, wants, since, until }, env);
                }
                let full = self.explain_full(size, env.node);
                let text =
                    format!("{full}, and the disk has no room either: {}. {ADVICE}", error.text);
                self.refuse(object_id, wants, &Failure::new(kind_of(error.is_full), text), env);
            }
            // Whoever wanted the range is gone.
            (_, None) => self.objects.give_back(extent),
        }
    }

    /// Tells the readers of an object, or its writer, that there is no room for it anywhere. Other nodes that read it
    /// wait.
    fn refuse(&mut self, object_id: ObjectId, wants: Wants, failure: &Failure, env: &mut Env<'_>) {
        if let Wants::Create { conn, request_id, .. } = wants {
            return env.ctx.send(conn, ObjectRefused { request_id, failure: failure.clone() });
        }
        self.refuse_readers(object_id, failure, env);
        if wants != Wants::Restore {
            return;
        }
        self.objects.give_up_restore(object_id);
        // Daemons of other nodes have time: their readers are not refused for want of room here.
        if self.serves.is_awaited(object_id) {
            self.restore(object_id, env);
        }
    }
}

/// The kind of failure for a disk that refused an object.
fn kind_of(is_full: bool) -> FailureKind {
    match is_full || mutant!("broken-disk-told-as-full") {
        true => FailureKind::OutOfDisk,
        false => FailureKind::StoreFull,
    }
}
