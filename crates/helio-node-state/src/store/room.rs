//! The queue for room: creations, objects on their way from other nodes, and objects on their way back
//! from disk; first come, first served. Beside it, the ranges of the disk file that were asked for, and the
//! spills under way.

use std::collections::{BTreeMap, VecDeque};

use helio_types::{ObjectId, mutant};

use super::allocator::Extent;
use super::objects::Owner;
use crate::event::{Conn, DiskError};
use crate::limits::{DISK_RETRY_MS, PINS_ASK_MS};

/// The purpose that room is needed for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wants {
    /// A client will write an object.
    Create { conn: Conn, request_id: u64, owner: Owner },
    /// The object comes from another node.
    Pull,
    /// The object comes from this node's disk.
    Restore,
}

impl Wants {
    /// Whether a client is to write `of`: that object, if one is named.
    fn is_creation(self, conn: Conn, object_id: Option<ObjectId>, of: ObjectId) -> bool {
        matches!(self, Self::Create { conn: creator, .. } if creator == conn)
            && object_id.is_none_or(|id| id == of)
    }
}

/// A place in the queue.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) object_id: ObjectId,
    pub(super) size: u64,
    pub(super) wants: Wants,
    /// The time at which room was asked for, or was seen to come later than now.
    pub(super) since: u64,
    /// The time at which the object is laid on disk, or its writer is told that there is no room.
    pub(super) until: u64,
}

/// A range of the disk file that the disk was asked for.
#[derive(Debug)]
pub(super) struct Reservation {
    pub(super) object_id: ObjectId,
    pub(super) extent: Extent,
    pub(super) size: u64,
    /// The time since which the room is wanted; see [`Waiting::since`].
    pub(super) since: u64,
    /// `None`: nobody wants the range any more.
    pub(super) wants: Option<Wants>,
}

/// The queue of creations and incoming objects that wait for room, and the traffic with the disk.
#[derive(Debug, Default)]
pub(super) struct Room {
    waiting: VecDeque<Waiting>,
    /// The reservations, by the offsets at which their ranges begin.
    reservations: BTreeMap<u64, Reservation>,
    /// Number of objects that are being written to disk.
    spills: usize,
    /// Bytes of these objects.
    spilling_bytes: u64,
    /// The disk did not take an object, and until when it is not tried again.
    disk_error: Option<(DiskError, u64)>,
    /// The time at which clients were asked for their pins last.
    asked_at: u64,
}

impl Room {
    /// Returns the number of objects that wait in the queue.
    pub(super) fn queue_len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the number of objects that wait in the queue or for the disk.
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.reservations.len()
    }

    pub(super) fn push(&mut self, waiting: Waiting) {
        self.waiting.push_back(waiting);
    }

    /// Takes the whole queue, to look at each place in it once.
    pub(super) fn take_queue(&mut self) -> VecDeque<Waiting> {
        std::mem::take(&mut self.waiting)
    }

    /// Puts places before those that came meanwhile.
    pub(super) fn put_first(&mut self, mut kept: VecDeque<Waiting>) {
        kept.append(&mut self.waiting);
        self.waiting = kept;
    }

    pub(super) fn first(&self) -> Option<&Waiting> {
        self.waiting.front()
    }

    pub(super) fn waits_until(&self, until: u64) -> bool {
        self.waiting.iter().any(|waiting| waiting.until == until)
    }

    pub(super) fn add_reservation(&mut self, reservation: Reservation) {
        let before = self.reservations.insert(reservation.extent.offset, reservation);
        assert!(before.is_none(), "two objects would be written into one place of the disk file");
    }

    pub(super) fn take_reservation(&mut self, offset: u64) -> Option<Reservation> {
        self.reservations.remove(&offset)
    }

    /// A client does not want to write the object, or any, after all.
    pub(super) fn forget_create(&mut self, conn: Conn, object_id: Option<ObjectId>) {
        let is_it = |wants: Wants, of: ObjectId| wants.is_creation(conn, object_id, of);
        self.waiting.retain(|waiting| !is_it(waiting.wants, waiting.object_id));
        for one in self.reservations.values_mut() {
            // The disk is still at it: the range comes back when it has answered.
            one.wants = one.wants.filter(|wants| !is_it(*wants, one.object_id));
        }
    }

    /// Withdraws the wait for room of an object that was to come from another node, because no client reads it any
    /// more.
    pub(super) fn forget_pull(&mut self, object_id: ObjectId) {
        self.waiting
            .retain(|waiting| waiting.wants != Wants::Pull || waiting.object_id != object_id);
        for one in self.reservations.values_mut().filter(|one| one.object_id == object_id) {
            one.wants = one.wants.filter(|wants| *wants != Wants::Pull);
        }
    }

    /// The objects that wait for room, in the queue or for the disk.
    pub(super) fn all(&self) -> impl Iterator<Item = (ObjectId, Wants)> {
        let queued = self.waiting.iter().map(|waiting| (waiting.object_id, waiting.wants));
        let reserving = self.reservations.values();
        queued.chain(reserving.filter_map(|one| Some((one.object_id, one.wants?))))
    }

    /// Whether the client waits for room to write the object, or any.
    pub(super) fn waits_to_write(&self, conn: Conn, object_id: Option<ObjectId>) -> bool {
        self.all().any(|(of, wants)| wants.is_creation(conn, object_id, of))
    }

    /// Returns the number of bytes that the object waits for in order to be read here.
    pub(super) fn wanted_to_read(&self, object_id: ObjectId) -> Option<u64> {
        let is_it = |waiting: &&Waiting| {
            waiting.object_id == object_id && matches!(waiting.wants, Wants::Pull | Wants::Restore)
        };
        self.waiting.iter().find(is_it).map(|waiting| waiting.size)
    }

    /// Returns the number of bytes that a client waits for in order to write the object.
    pub(super) fn wanted_to_write(&self, object_id: ObjectId) -> Option<u64> {
        let is_it = |waiting: &&Waiting| {
            waiting.object_id == object_id && matches!(waiting.wants, Wants::Create { .. })
        };
        self.waiting.iter().find(is_it).map(|waiting| waiting.size)
    }

    pub(super) fn on_spill_begun(&mut self, bytes: u64) {
        self.spills += 1;
        self.spilling_bytes += bytes;
    }

    pub(super) fn on_spill_ended(&mut self, bytes: u64) {
        let is_counted = self.spills > 0 && self.spilling_bytes >= bytes;
        assert!(is_counted, "a write to disk ends once, with the bytes that it began with");
        self.spills -= 1;
        self.spilling_bytes -= bytes;
    }

    /// Returns the number of objects that are being written to disk.
    pub(super) fn spills(&self) -> usize {
        self.spills
    }

    /// Returns the number of bytes that are being written to disk.
    pub(super) fn spilling_bytes(&self) -> u64 {
        self.spilling_bytes
    }

    /// The disk did not take an object: it is left alone for a while.
    pub(super) fn on_disk_error(&mut self, error: DiskError, now: u64) {
        self.disk_error = Some((error, now + DISK_RETRY_MS));
    }

    /// Returns the reason why the disk takes nothing now.
    pub(super) fn disk_error(&self, now: u64) -> Option<&DiskError> {
        let is_fresh = |until: u64| until > now || mutant!("disk-left-alone-for-ever");
        self.disk_error.as_ref().filter(|(_, until)| is_fresh(*until)).map(|(error, _)| error)
    }

    /// Whether clients are to be asked for the pins that they can do without: somebody waits, nothing else
    /// gives room soon, and they were not asked a moment ago. Counts as asked.
    pub(super) fn asks_for_pins(&mut self, now: u64) -> bool {
        // Pins are asked back as the last means: their objects have to be fetched again.
        if self.waiting.is_empty() || self.spills > 0 || self.asked_at + PINS_ASK_MS > now {
            return false;
        }
        self.asked_at = now;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(n: u8) -> ObjectId {
        ObjectId([n; 28])
    }

    fn waiting(n: u8, wants: Wants) -> Waiting {
        Waiting { object_id: object(n), size: u64::from(n), wants, since: 0, until: 100 }
    }

    const CREATE: Wants = Wants::Create { conn: Conn(1), request_id: 1, owner: OWNER };
    const OWNER: Owner =
        Owner { worker_id: helio_types::WorkerId::NIL, node_id: helio_types::NodeId::NIL };

    fn room() -> Room {
        let mut room = Room::default();
        room.push(waiting(1, CREATE));
        room.push(waiting(2, Wants::Pull));
        room.push(waiting(3, Wants::Restore));
        let extent = Extent { offset: 9, length: 64 };
        let wants = Some(CREATE);
        room.add_reservation(Reservation {
            object_id: object(4),
            extent,
            size: 4,
            since: 0,
            wants,
        });
        room
    }

    #[test]
    fn a_client_that_is_gone_writes_nothing() {
        let mut room = room();
        assert!(room.waits_to_write(Conn(1), None));
        room.forget_create(Conn(1), Some(object(1)));
        assert_eq!(room.wanted_to_write(object(1)), None);
        assert!(room.waits_to_write(Conn(1), None), "it waits for the disk, too");
        room.forget_create(Conn(1), None);
        assert!(!room.waits_to_write(Conn(1), None));
        assert_eq!(room.len(), 3, "the disk answers all the same");
        assert!(room.take_reservation(9).is_some_and(|one| one.wants.is_none()));
    }

    #[test]
    fn readers_are_told_how_much_is_missing() {
        let mut room = room();
        assert_eq!(room.wanted_to_read(object(1)), None, "that one is written");
        assert_eq!(room.wanted_to_read(object(2)), Some(2));
        assert_eq!(room.wanted_to_read(object(3)), Some(3));
        room.forget_pull(object(2));
        room.forget_pull(object(3));
        assert_eq!(room.wanted_to_read(object(2)), None);
        assert_eq!(
            room.wanted_to_read(object(3)),
            Some(3),
            "an object of this node is wanted still"
        );
    }

    #[test]
    fn pins_are_asked_for_when_nothing_else_gives_room_and_not_too_often() {
        let mut room = room();
        room.on_spill_begun(10);
        assert!(!room.asks_for_pins(1_000), "the disk gives room soon");
        room.on_spill_ended(10);
        assert!(room.asks_for_pins(1_000));
        assert!(!room.asks_for_pins(1_000 + PINS_ASK_MS - 1));
        assert!(room.asks_for_pins(1_000 + PINS_ASK_MS));
        room.take_queue();
        assert!(!room.asks_for_pins(10_000), "nobody waits");
    }

    #[test]
    fn a_disk_that_failed_is_left_alone_for_a_while() {
        let mut room = room();
        room.on_disk_error(DiskError { is_full: true, text: String::new() }, 5);
        assert!(room.disk_error(5 + DISK_RETRY_MS - 1).is_some());
        assert!(room.disk_error(5 + DISK_RETRY_MS).is_none());
    }
}
