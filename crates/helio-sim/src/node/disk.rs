//! The disk of a node: it takes its time, may be full or broken, and may change what it holds.

use helio_node_state::limits::{DISK_RETRY_MS, READ_ROOM_MS_MAX};
use helio_node_state::{DiskError, Event};
use helio_proto::control::FailureKind;
use helio_proto::node::ObjectRefused;
use helio_types::ObjectId;

use super::{NodeHost, ROOM_MS_MAX};
use crate::core::{Core, Event as Next};
use crate::rng::hash;

/// Returns a checksum: texts that differ in one byte have different ones.
fn checksum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(8).map(|chunk| {
        chunk.iter().fold(chunk.len() as u64, |word, byte| word << 8 | u64::from(*byte))
    });
    hash(words) as u32
}

fn broken_disk() -> DiskError {
    DiskError { is_full: false, text: "input/output error".to_owned() }
}

impl NodeHost {
    pub(super) fn disk_turn(
        &mut self,
        core: &mut Core,
        object: ObjectId,
        (offset, size): (u64, u64),
        is_write: bool,
    ) {
        let delay = core.rng.range(10, 5_000);
        core.note(|| {
            format!("node {} disk: write {is_write} {object:?} {offset}+{size}", self.index)
        });
        core.facts.count(if is_write { "written to disk" } else { "read from disk" });
        let refused_at = self.disk_refused_at.filter(|_| is_write);
        if refused_at.is_some_and(|at| core.now >= at + DISK_RETRY_MS * 1_000) {
            core.facts.count("disks tried again");
        }
        core.after(delay, Next::Disk { node: self.index, object, offset, size, is_write });
    }

    /// Returns the outcome of a write.
    fn written(&mut self, now: u64) -> Result<(), DiskError> {
        let full = || DiskError { is_full: true, text: "no space left on device".to_owned() };
        if !self.disk_is_broken && !self.disk_is_full {
            return Ok(());
        }
        self.disk_refused_at = Some(now);
        if self.disk_is_broken {
            return Err(broken_disk());
        }
        self.disk_full_at = Some(now);
        Err(full())
    }

    /// An object finds no room here only when the disk has not taken something a moment ago: memory and disk hold all that
    /// programs make. A disk that fails is not one that is full.
    pub(super) fn check_refusal(&self, core: &mut Core, refused: &ObjectRefused) {
        let is_of_room =
            matches!(refused.failure.kind, FailureKind::StoreFull | FailureKind::OutOfDisk);
        // So long a disk that has refused an object is left alone, and an object waits for room.
        let lasts_us = (DISK_RETRY_MS + ROOM_MS_MAX + READ_ROOM_MS_MAX) * 1000;
        let is_fresh = |at: Option<u64>| at.is_some_and(|at| core.now - at <= lasts_us);
        let (has_refused, was_full) = (is_fresh(self.disk_refused_at), is_fresh(self.disk_full_at));
        if is_of_room {
            core.facts.count("reads refused for want of room");
        }
        if refused.failure.kind == FailureKind::OutOfDisk && has_refused && !was_full {
            core.violation(format!(
                "node {} says that its disk is full, and it was not: {}",
                self.index, refused.failure.message
            ));
        }
        if is_of_room && !has_refused {
            core.violation(format!(
                "node {} has no room for an object, and its disk took all that it was given: {}",
                self.index, refused.failure.message
            ));
        }
    }

    /// The disk keeps room for a range of the overflow file.
    pub(crate) fn reserved(&mut self, core: &mut Core, offset: u64) {
        let outcome = self.written(core.now);
        self.apply(core, Event::Reserved { offset, outcome });
    }

    /// The disk has written or read an object.
    pub(crate) fn disk_done(
        &mut self,
        core: &mut Core,
        object_id: ObjectId,
        (offset, size): (u64, u64),
        is_write: bool,
    ) {
        core.note(|| {
            format!("node {} disk done: write {is_write} {object_id:?} {offset}+{size}", self.index)
        });
        let arena = &mut core.daemons[self.index].arena[offset as usize..(offset + size) as usize];
        if is_write {
            let outcome = self.written(core.now).map(|()| checksum(arena));
            if outcome.is_ok() {
                self.disk.insert(object_id, arena.to_vec());
            }
            return self.apply(core, Event::Spilled { object_id, outcome });
        }
        if self.disk_is_broken {
            core.facts.count("lost on a disk that fails");
            core.facts.history.object_unreadable(object_id);
            let outcome = Err(broken_disk());
            return self.apply(core, Event::Restored { object_id, outcome });
        }
        let outcome = match self.disk.get(&object_id) {
            Some(bytes) if bytes.len() == arena.len() => {
                arena.copy_from_slice(bytes);
                Ok(checksum(bytes))
            }
            _ => {
                core.violation(format!(
                    "node {} reads an object from disk that is not there",
                    self.index
                ));
                Err(DiskError { is_full: false, text: "no such file".to_owned() })
            }
        };
        self.apply(core, Event::Restored { object_id, outcome });
    }

    /// A byte of some file changes: what lies there is lost when it is read.
    pub(crate) fn damage_file(&mut self, core: &mut Core) {
        let files: Vec<ObjectId> = self.disk.keys().copied().collect();
        let Some(object_id) = core.rng.pick(&files).copied() else { return };
        let Some(bytes) = self.disk.get_mut(&object_id).filter(|bytes| !bytes.is_empty()) else {
            return;
        };
        let place = core.rng.below(bytes.len() as u64) as usize;
        bytes[place] ^= 1 << core.rng.below(8);
        core.note(|| format!("node {}: byte {place} of {object_id:?} changes", self.index));
        core.facts.count("faults: damaged file");
        core.facts.history.object_unreadable(object_id);
    }
}
