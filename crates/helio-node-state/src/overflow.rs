//! A file on disk for objects that have to be read or made while the memory is full of what readers keep.
//!
//! Whoever keeps views of a whole store and reads on would wait for ever for room that only that process
//! can give. So a reader that found none for a while has its object laid into this file, where the
//! offsets go on behind those of the memory file; the copy goes from there with its last reader. An
//! object that is made here, because the memory is full of what is being read or because the object is
//! larger than the whole memory, stays here until its owner frees it.

use std::collections::BTreeMap;

use helio_proto::control::{Failure, FailureKind};
use helio_proto::node::{ObjectRefused, overflow_start};
use helio_types::ObjectId;

use crate::extents::{Extent, Extents};
use crate::full::ADVICE;
use crate::objects::File;
use crate::spill::Wants;
use crate::{Action, Conn, DiskError, Node};

/// Ranges are whole pages, so that each can be mapped, and given back to the disk.
const PAGE: u64 = 64 << 10;

#[derive(Debug)]
struct Reserving {
    object_id: ObjectId,
    extent: Extent,
    size: u64,
    /// `None`: nobody wants it any more.
    wants: Option<Wants>,
}

#[derive(Debug)]
pub(crate) struct Overflow {
    start: u64,
    extents: Extents,
    /// Ranges for which the disk was asked, by where they begin.
    reserving: BTreeMap<u64, Reserving>,
    /// Ranges that the disk is to get back.
    holes: Vec<Extent>,
}

impl Overflow {
    pub(crate) fn new(store_size: u64, size: u64) -> Self {
        Self {
            start: overflow_start(store_size),
            extents: Extents::new(size / PAGE * PAGE),
            reserving: BTreeMap::new(),
            holes: Vec::new(),
        }
    }

    pub(crate) fn has(&self, extent: Extent) -> bool {
        extent.offset >= self.start
    }

    /// Whether there is one.
    pub(crate) fn is_there(&self) -> bool {
        self.extents.size() > 0
    }

    /// Whether something lies there.
    pub(crate) fn is_used(&self) -> bool {
        self.extents.used() > 0
    }

    /// Who waits for the disk, and for which object.
    pub(crate) fn all(&self) -> impl Iterator<Item = (ObjectId, Wants)> {
        self.reserving.values().filter_map(|one| Some((one.object_id, one.wants?)))
    }

    /// How many wait for the disk.
    pub(crate) fn waiting(&self) -> usize {
        self.reserving.len()
    }

    /// A client does not want to write the object, or any, after all.
    pub(crate) fn forget_create(&mut self, conn: Conn, object_id: Option<ObjectId>) {
        for one in self.reserving.values_mut() {
            one.wants =
                one.wants.filter(|wants| !wants.is_creation(conn, object_id, one.object_id));
        }
    }

    /// Nobody reads the object any more that was to come from another node.
    pub(crate) fn forget_pull(&mut self, object_id: ObjectId) {
        for one in self.reserving.values_mut().filter(|one| one.object_id == object_id) {
            one.wants = one.wants.filter(|wants| *wants != Wants::Pull);
        }
    }

    fn allocate(&mut self, size: u64) -> Option<Extent> {
        let extent = self.extents.allocate(size.max(1).checked_next_multiple_of(PAGE)?)?;
        Some(Extent { offset: extent.offset + self.start, ..extent })
    }

    pub(crate) fn free(&mut self, extent: Extent) {
        self.extents.free(Extent { offset: extent.offset - self.start, ..extent });
        self.holes.push(extent);
    }
}

impl Node {
    /// Has the object read into the overflow file, or written there by its maker.
    pub(crate) fn lay_on_disk(&mut self, object_id: ObjectId, size: u64, wants: Wants) {
        // Before the range can be another object's.
        self.punch_holes();
        match self.objects.overflow.allocate(size) {
            Some(extent) => {
                let Extent { offset, length } = extent;
                let one = Reserving { object_id, extent, size, wants: Some(wants) };
                self.objects.overflow.reserving.insert(offset, one);
                self.ctx.push(Action::Reserve { offset, size: length });
            }
            None => {
                let text = format!("{}. {ADVICE}", self.full(size));
                let failure = Failure::new(FailureKind::StoreFull, text);
                self.no_place(object_id, wants, &failure);
            }
        }
    }

    pub(crate) fn punch_holes(&mut self) {
        for Extent { offset, length } in std::mem::take(&mut self.objects.overflow.holes) {
            self.ctx.push(Action::Punch { offset, size: length });
        }
    }

    /// The disk keeps room for a range, or has none.
    pub(crate) fn on_reserved(&mut self, offset: u64, outcome: Result<(), DiskError>) {
        let Some(one) = self.objects.overflow.reserving.remove(&offset) else { return };
        let Reserving { object_id, extent, size, wants } = one;
        match (outcome, wants) {
            (Ok(()), Some(Wants::Pull)) => self.may_pull(object_id, extent, size),
            (Ok(()), Some(Wants::Restore)) => self.read_back(object_id, extent, size),
            (Ok(()), Some(Wants::Create { conn, request_id })) => {
                self.may_write(conn, request_id, object_id, extent, size);
            }
            (Err(error), Some(wants)) => {
                self.objects.give_back(extent);
                if self.room_will_come(&[(object_id, wants)]) {
                    return self.want_room_again(object_id, size, wants);
                }
                let kind =
                    if error.is_full { FailureKind::OutOfDisk } else { FailureKind::StoreFull };
                let text = format!(
                    "{}, and the disk has no room either: {}. {ADVICE}",
                    self.full(size),
                    error.text
                );
                self.no_place(object_id, wants, &Failure::new(kind, text));
            }
            _ => self.objects.give_back(extent),
        }
    }

    /// There is no room for the object anywhere: its readers, or its writer, are told. Other nodes that
    /// read it wait.
    pub(crate) fn no_place(&mut self, object_id: ObjectId, wants: Wants, failure: &Failure) {
        if let Wants::Create { conn, request_id } = wants {
            return self.ctx.send(conn, ObjectRefused { request_id, failure: failure.clone() });
        }
        self.refuse_readers(object_id, failure);
        if wants != Wants::Restore {
            return;
        }
        if let Some(object) = self.objects.sealed.get_mut(&object_id) {
            object.file = File::Written;
        }
        self.objects.settle(object_id);
        if self.is_awaited(object_id) {
            self.restore(object_id);
        }
    }
}
