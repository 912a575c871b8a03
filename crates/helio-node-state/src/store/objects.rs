//! The table of objects: which object is where, who may write it, and how often it is pinned.
//!
//! **SHM-1** An extent belongs to its creator until it is sealed, and then nobody writes to it; it is
//! given to another object only when no pin is left. A *primary* copy stays until its owner frees it, in
//! memory or on disk; a *secondary* one, brought here for a reader, gives way when room is needed and
//! nobody reads it, the least recently used first.

use std::collections::{BTreeMap, BTreeSet};

use helio_types::{JobId, NodeId, ObjectId, WorkerId, mutant};

use super::allocator::{Allocator, Extent};
use super::disk_file::DiskFile;
use crate::event::Conn;

/// The owner of an object: the object goes with that process. Nil: not known here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) struct Owner {
    pub(crate) worker_id: WorkerId,
    /// The node on which the owner lives.
    pub(crate) node_id: NodeId,
}

#[derive(Debug)]
pub(super) struct Object {
    /// `None`: the object is on disk only.
    extent: Option<Extent>,
    size: u64,
    is_primary: bool,
    file: File,
    /// The owner let go of the object: it goes with its last pin.
    is_freed: bool,
    /// The checksum of what was written to disk.
    checksum: u32,
    /// Pins of clients, and of daemons that are reading the object.
    pins: u32,
    owner: Owner,
    /// The number of the object's last use, counted over all objects.
    used: u64,
}

impl Object {
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn owner(&self) -> Owner {
        self.owner
    }

    pub(super) fn is_in_memory(&self) -> bool {
        self.extent.is_some()
    }

    /// Whether the disk has a whole copy.
    pub(super) fn is_on_disk(&self) -> bool {
        matches!(self.file, File::Written | File::Reading)
    }

    /// Returns the number of bytes of memory that the object takes.
    pub(super) fn memory(&self) -> u64 {
        self.extent.map_or(0, |extent| extent.length)
    }
}

/// Whether an object is on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum File {
    /// The object is not on disk.
    None,
    /// The object is being written to disk; its memory stays until then.
    Writing,
    /// The object is on disk; its memory can be had by forgetting the copy there.
    Written,
    /// The object is being read from disk.
    Reading,
}

#[derive(Debug)]
struct Unsealed {
    extent: Extent,
    size: u64,
    owner: Owner,
    /// The owner let go of the object before the news of its sealing came: other connections may be
    /// faster.
    is_freed: bool,
}

/// The objects of this node, by id, and the order in which secondary copies give way.
#[derive(Debug)]
pub(super) struct Objects {
    memory: Allocator,
    disk: DiskFile,
    sealed: BTreeMap<ObjectId, Object>,
    unsealed: BTreeMap<(ObjectId, Conn), Unsealed>,
    /// Unpinned copies that another node or the disk has, too, the least recently used first.
    evictable: BTreeSet<(u64, ObjectId)>,
    evictable_bytes: u64,
    /// Unpinned primary copies that are in memory only, the least recently used first.
    spillable: BTreeSet<(u64, ObjectId)>,
    /// Files that are not needed any more.
    removals: Vec<ObjectId>,
    /// The owners whose objects have come since the last look.
    seen: Vec<Owner>,
    /// Room has come since the queue for it was served last.
    has_new_room: bool,
    /// The number of uses so far.
    clock: u64,
}

impl Objects {
    /// Makes a store of `size` bytes of memory, and `disk_size` bytes on disk.
    pub(super) fn new(size: u64, disk_size: u64) -> Self {
        Self {
            memory: Allocator::new(size),
            disk: DiskFile::new(size, disk_size),
            sealed: BTreeMap::new(),
            unsealed: BTreeMap::new(),
            evictable: BTreeSet::new(),
            evictable_bytes: 0,
            spillable: BTreeSet::new(),
            removals: Vec::new(),
            seen: Vec::new(),
            has_new_room: false,
            clock: 0,
        }
    }

    // Sizes.

    pub(super) fn memory_size(&self) -> u64 {
        self.memory.size()
    }

    pub(super) fn memory_used(&self) -> u64 {
        self.memory.used()
    }

    pub(super) fn memory_free(&self) -> u64 {
        self.memory.free_bytes()
    }

    /// Whether an object of `size` bytes fits into an empty memory.
    pub(super) fn fits(&self, size: u64) -> bool {
        Allocator::footprint(size) <= self.memory.size()
    }

    /// Returns the number of bytes of memory that are taken by objects that nothing else has.
    pub(super) fn needed(&self) -> u64 {
        self.memory.used() - self.evictable_bytes
    }

    /// Returns the number of bytes of memory that readers keep.
    pub(super) fn pinned(&self) -> u64 {
        self.sealed.values().filter(|object| object.pins > 0).map(Object::memory).sum()
    }

    pub(super) fn sealed_len(&self) -> usize {
        self.sealed.len()
    }

    pub(super) fn len(&self) -> usize {
        self.sealed.len() + self.unsealed.len()
    }

    /// Bytes of the objects that are not in memory.
    pub(super) fn on_disk(&self) -> u64 {
        self.sealed.values().filter(|object| !object.is_in_memory()).map(Object::size).sum()
    }

    /// Objects that are more than cached copies, pins, and the bytes of those objects.
    pub(super) fn held(&self) -> (usize, u32, u64) {
        // Copies for readers give way by themselves: nobody has to let go of them.
        let kept = self.sealed.values().filter(|object| object.is_primary || object.pins > 0);
        let pins = self.sealed.values().map(|object| object.pins).sum();
        let bytes = kept.clone().map(Object::memory).sum::<u64>()
            + self.unsealed.values().map(|unsealed| unsealed.extent.length).sum::<u64>();
        (kept.count() + self.unsealed.len(), pins, bytes)
    }

    // Objects.

    /// The sealed object.
    pub(super) fn get(&self, object_id: ObjectId) -> Option<&Object> {
        self.sealed.get(&object_id)
    }

    /// Whether somebody on this node is writing the object now.
    pub(super) fn is_being_written(&self, object_id: ObjectId) -> bool {
        self.unsealed.range((object_id, Conn(0))..=(object_id, Conn(u64::MAX))).next().is_some()
    }

    /// Whether this client is writing the object.
    pub(super) fn is_writing(&self, object_id: ObjectId, conn: Conn) -> bool {
        self.unsealed.contains_key(&(object_id, conn))
    }

    /// Whether the object is not in memory yet, but will be without the help of others.
    pub(super) fn must_await(&self, object_id: ObjectId) -> bool {
        match self.sealed.get(&object_id) {
            Some(object) => object.extent.is_none() || object.file == File::Reading,
            None => self.is_being_written(object_id),
        }
    }

    /// The objects that a client is writing.
    pub(super) fn written_by(&self, conn: Conn) -> Vec<ObjectId> {
        let its = self.unsealed.keys().filter(|(_, writer)| *writer == conn);
        its.map(|(object_id, _)| *object_id).collect()
    }

    /// The objects of processes.
    pub(super) fn owned(&self, is_theirs: impl Fn(Owner) -> bool) -> Vec<ObjectId> {
        let owned = self.sealed.iter().filter(|(_, object)| is_theirs(object.owner));
        owned.map(|(id, _)| *id).collect()
    }

    /// Returns the owners of the objects.
    pub(super) fn owners(&self) -> BTreeSet<Owner> {
        self.sealed.values().map(|object| object.owner).collect()
    }

    /// Returns the owners whose objects have come since the last call.
    pub(super) fn take_seen(&mut self) -> Vec<Owner> {
        std::mem::take(&mut self.seen)
    }

    /// The objects of a job, and whose they are.
    pub(super) fn of_job(&self, job_id: JobId) -> Vec<(ObjectId, Owner)> {
        let of_job = self.sealed.iter().filter(|(id, _)| id.task().job() == job_id);
        of_job.map(|(id, object)| (*id, object.owner)).collect()
    }

    /// The objects that stay until they are freed, except those of these processes.
    pub(super) fn kept(&self, without: impl Fn(WorkerId) -> bool) -> Vec<(ObjectId, Owner)> {
        let stays = |object: &Object| {
            object.is_primary && !object.is_freed && !without(object.owner.worker_id)
        };
        let kept = self.sealed.iter().filter(|(_, object)| stays(object));
        kept.map(|(id, object)| (*id, object.owner)).collect()
    }

    // Room.

    /// Room for `size` bytes, copies that can be had again giving way where need be.
    pub(super) fn allocate(&mut self, size: u64) -> Option<Extent> {
        if !self.fits(size) {
            return None;
        }
        loop {
            if let Some(extent) = self.memory.allocate(size) {
                return Some(extent);
            }
            // One at a time, and tried anew: a gap of that size is wanted, not a sum of free bytes.
            let object_id = self.evictable.first()?.1;
            self.forget_place(object_id);
            let object = self.sealed.get_mut(&object_id).expect("what can be evicted is there");
            let extent = object.extent.take().expect("what can be evicted is in memory");
            // A primary copy that can be evicted is on disk, and stays known as that.
            if !object.is_primary {
                self.sealed.remove(&object_id);
            }
            self.memory.free(extent);
        }
    }

    /// Whether there is a file on disk behind the memory.
    pub(super) fn has_disk_file(&self) -> bool {
        self.disk.is_there()
    }

    pub(super) fn is_disk_file_used(&self) -> bool {
        self.disk.is_used()
    }

    pub(super) fn allocate_on_disk(&mut self, size: u64) -> Option<Extent> {
        self.disk.allocate(size)
    }

    /// Ranges of the disk file that were freed since the last call.
    pub(super) fn take_holes(&mut self) -> Vec<Extent> {
        self.disk.take_holes()
    }

    pub(super) fn give_back(&mut self, extent: Extent) {
        // A range of the disk file is no room in memory, for which the queue waits.
        if self.disk.has(extent) {
            return self.disk.free(extent);
        }
        self.memory.free(extent);
        self.has_new_room = true;
    }

    pub(super) fn has_new_room(&self) -> bool {
        self.has_new_room
    }

    /// The queue for room is being served.
    pub(super) fn clear_new_room(&mut self) {
        self.has_new_room = false;
    }

    // Writing.

    pub(super) fn begin_write(
        &mut self,
        object_id: ObjectId,
        conn: Conn,
        extent: Extent,
        size: u64,
        owner: Owner,
    ) {
        let unsealed = Unsealed { extent, size, owner, is_freed: false };
        self.unsealed.insert((object_id, conn), unsealed);
    }

    /// Seals the object. Returns whether this client was writing it.
    pub(super) fn seal(&mut self, object_id: ObjectId, conn: Conn) -> bool {
        let Some(unsealed) = self.unsealed.remove(&(object_id, conn)) else { return false };
        let Unsealed { extent, size, owner, is_freed } = unsealed;
        if self.sealed.contains_key(&object_id) {
            // Another attempt was faster. Readers have that copy; this one was never shown to any.
            self.give_back(extent);
        } else {
            self.add(object_id, extent, size, owner, true).is_freed = is_freed;
        }
        true
    }

    /// The client does not write the object after all. Returns whether it was writing it.
    pub(super) fn abort(&mut self, object_id: ObjectId, conn: Conn) -> bool {
        let Some(unsealed) = self.unsealed.remove(&(object_id, conn)) else { return false };
        self.give_back(unsealed.extent);
        true
    }

    /// A second attempt of the call that returns the object makes it again: the first one's copy is as good,
    /// and it is wanted again if it was freed. Returns whether there is such a copy.
    pub(super) fn revive(&mut self, object_id: ObjectId) -> bool {
        let Some(object) = self.sealed.get_mut(&object_id) else { return false };
        // The owner counts on this copy from now on, also where it had been brought for a reader.
        (object.is_primary, object.is_freed) = (true, false);
        self.forget_place(object_id);
        self.settle(object_id);
        true
    }

    /// A copy that was made for a reader stays until it is freed.
    pub(super) fn keep(&mut self, object_id: ObjectId) {
        let Some(object) = self.sealed.get_mut(&object_id) else { return };
        // What its owner has freed must not stay, whoever asks for it: that message was under way longer.
        if object.is_primary || object.is_freed {
            return;
        }
        self.forget_place(object_id);
        if let Some(object) = self.sealed.get_mut(&object_id) {
            object.is_primary = true;
        }
        self.settle(object_id);
    }

    /// Adds a copy that was brought here; its readers come before [`Objects::settle`].
    pub(super) fn add_secondary(
        &mut self,
        object_id: ObjectId,
        extent: Extent,
        size: u64,
        owner: Owner,
    ) {
        if self.sealed.contains_key(&object_id) {
            // The object was made here again in the meantime.
            return self.give_back(extent);
        }
        self.add(object_id, extent, size, owner, false);
    }

    fn add(
        &mut self,
        object_id: ObjectId,
        extent: Extent,
        size: u64,
        owner: Owner,
        is_primary: bool,
    ) -> &mut Object {
        self.clock += 1;
        let object = Object {
            extent: Some(extent),
            size,
            is_primary,
            file: File::None,
            checksum: 0,
            is_freed: false,
            pins: 0,
            owner,
            used: self.clock,
        };
        // A process that puts many objects in a row is looked up once.
        if self.seen.last() != Some(&owner) {
            self.seen.push(owner);
        }
        self.sealed.entry(object_id).insert_entry(object).into_mut()
    }

    // Reading.

    /// Pins an object that is in memory; where it is and how long.
    pub(super) fn pin(&mut self, object_id: ObjectId) -> Option<(u64, u64)> {
        // While it is read from disk it has its place, but not its bytes yet.
        let in_memory = |object: &&Object| object.file != File::Reading;
        let offset = self.sealed.get(&object_id).filter(in_memory)?.extent?.offset;
        self.forget_place(object_id);
        self.clock += 1;
        let object = self.sealed.get_mut(&object_id)?;
        object.pins += u32::from(!mutant!("pin-forgotten"));
        object.used = self.clock;
        Some((offset, object.size))
    }

    pub(super) fn unpin(&mut self, object_id: ObjectId, pins: u32) {
        let Some(object) = self.sealed.get_mut(&object_id) else { return };
        assert!(object.pins >= pins, "an object was released more often than pinned");
        object.pins -= pins;
        self.settle(object_id);
    }

    /// A copy that nobody reads goes.
    pub(super) fn forget_copy(&mut self, object_id: ObjectId) {
        if self.sealed.get(&object_id).is_some_and(|object| !object.is_primary && object.pins == 0)
        {
            self.free(object_id);
        }
    }

    /// The owner lets go of the object.
    pub(super) fn free(&mut self, object_id: ObjectId) {
        if let Some(object) = self.sealed.get_mut(&object_id) {
            object.is_freed = !mutant!("free-ignored");
            self.settle(object_id);
        }
        let all = (object_id, Conn(0))..=(object_id, Conn(u64::MAX));
        // The news of its sealing may still be on another connection: it goes when that has come.
        for (_, unsealed) in self.unsealed.range_mut(all) {
            unsealed.is_freed = true;
        }
    }

    /// Deletes the object, or lets its memory be had, when nothing speaks against it.
    pub(super) fn settle(&mut self, object_id: ObjectId) {
        let Some(object) = self.sealed.get(&object_id) else { return };
        // SHM-1: neither readers nor the disk may see the bytes of another object there.
        if object.pins > 0 || matches!(object.file, File::Writing | File::Reading) {
            return;
        }
        let (extent, used) = (object.extent, object.used);
        if object.is_freed {
            if object.file == File::Written && !mutant!("file-not-removed") {
                self.removals.push(object_id);
            }
            self.remove(object_id);
        } else if let Some(extent) = extent {
            let is_elsewhere = !object.is_primary || object.file == File::Written;
            if self.disk.has(extent) {
                // The copy was there for readers, who have read it, or it was made there and stays.
                if is_elsewhere {
                    self.leave_disk_file(object_id);
                }
            } else if object.is_primary && object.file == File::None {
                self.spillable.insert((used, object_id));
                self.has_new_room = true;
            } else if self.evictable.insert((used, object_id)) {
                self.evictable_bytes += extent.length;
                self.has_new_room = true;
            }
        }
    }

    /// The readers of a copy in the disk file are gone: the object is in its own file, or on another node.
    fn leave_disk_file(&mut self, object_id: ObjectId) {
        let Some(object) = self.sealed.get_mut(&object_id) else { return };
        let (extent, is_primary) = (object.extent.take(), object.is_primary);
        if !is_primary {
            self.sealed.remove(&object_id);
        }
        if let Some(extent) = extent {
            self.give_back(extent);
        }
    }

    /// Takes the object out of the orders in which memory is got back.
    fn forget_place(&mut self, object_id: ObjectId) {
        let Some(object) = self.sealed.get(&object_id) else { return };
        if self.evictable.remove(&(object.used, object_id)) {
            let length = object.extent.map_or(0, |extent| extent.length);
            assert!(self.evictable_bytes >= length, "memory that can be had back was counted");
            self.evictable_bytes -= length;
        }
        self.spillable.remove(&(object.used, object_id));
    }

    /// Forgets the object and gives its memory back.
    fn remove(&mut self, object_id: ObjectId) {
        self.forget_place(object_id);
        if let Some(extent) = self.sealed.remove(&object_id).and_then(|object| object.extent) {
            self.give_back(extent);
        }
    }

    // The objects' own files on disk.

    /// Whether an object could be written to disk to make room.
    pub(super) fn has_spillable(&self) -> bool {
        !self.spillable.is_empty()
    }

    /// Chooses the next object that is to be written to disk: its id, place and size.
    pub(super) fn begin_spill(&mut self) -> Option<(ObjectId, Extent, u64)> {
        loop {
            let (_, object_id) = self.spillable.pop_first()?;
            let Some(object) = self.sealed.get_mut(&object_id) else { continue };
            let Some(extent) = object.extent else { continue };
            // Not yet `Written`: until the file is whole the memory is the only copy.
            object.file = if mutant!("file-counts-before-it-is-whole") {
                File::Written
            } else {
                File::Writing
            };
            return Some((object_id, extent, object.size));
        }
    }

    /// The object was written to disk, with that checksum, or could not be. Returns its bytes of memory, if it was
    /// being written.
    pub(super) fn end_spill(&mut self, object_id: ObjectId, written: Option<u32>) -> Option<u64> {
        let object = self.sealed.get_mut(&object_id)?;
        if object.file != File::Writing {
            return None;
        }
        // Where it failed, the object is as before: it may be chosen again once the disk takes some.
        object.file = if written.is_some() { File::Written } else { File::None };
        object.checksum = written.unwrap_or_default();
        Some(object.memory())
    }

    /// The object is to be read from disk. Returns its size, if it is nowhere else.
    pub(super) fn begin_restore(&mut self, object_id: ObjectId) -> Option<u64> {
        let object = self.sealed.get_mut(&object_id)?;
        // Its memory may be there still, or a read of it under way: one is enough.
        if object.file != File::Written || object.extent.is_some() {
            return None;
        }
        object.file = File::Reading;
        Some(object.size)
    }

    /// The object has a place to be read to. Returns whether the object is still there.
    pub(super) fn place_restored(&mut self, object_id: ObjectId, extent: Extent) -> bool {
        match self.sealed.get_mut(&object_id) {
            Some(object) => {
                object.extent = Some(extent);
                true
            }
            None => {
                self.give_back(extent);
                false
            }
        }
    }

    /// The object was read from disk, or could not be. Returns the checksum of what was written, if it was being read.
    pub(super) fn end_restore(&mut self, object_id: ObjectId) -> Option<u32> {
        let object = self.sealed.get_mut(&object_id)?;
        if object.file != File::Reading || object.extent.is_none() {
            return None;
        }
        object.file = File::Written;
        Some(object.checksum)
    }

    /// Leaves the object on disk, because there is no place to read it to.
    pub(super) fn give_up_restore(&mut self, object_id: ObjectId) {
        if let Some(object) = self.sealed.get_mut(&object_id) {
            object.file = File::Written;
        }
        self.settle(object_id);
    }

    /// The object's file cannot be read: the object is lost.
    pub(super) fn lose(&mut self, object_id: ObjectId) {
        self.removals.push(object_id);
        self.remove(object_id);
    }

    /// Files that became useless since the last call.
    pub(super) fn take_removals(&mut self) -> Vec<ObjectId> {
        std::mem::take(&mut self.removals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITER: Conn = Conn(1);

    fn id(n: u8) -> ObjectId {
        ObjectId([n; 28])
    }

    fn owner(n: u8) -> Owner {
        Owner { worker_id: WorkerId([n; 28]), ..Owner::default() }
    }

    fn with_objects(count: u8, size: u64) -> Objects {
        let mut objects = Objects::new(1 << 20, 1 << 20);
        for n in 0..count {
            let extent = objects.allocate(size).unwrap();
            objects.begin_write(id(n), WRITER, extent, size, owner(1));
            assert!(objects.seal(id(n), WRITER));
            objects.settle(id(n));
        }
        objects
    }

    /// SHM-1: a pinned object keeps its place until its last pin is gone, though its owner let go of it.
    #[test]
    fn a_freed_object_goes_with_its_last_pin() {
        let mut objects = with_objects(1, 1000);
        objects.pin(id(0)).unwrap();
        objects.pin(id(0)).unwrap();
        objects.free(id(0));
        objects.unpin(id(0), 1);
        assert!(objects.get(id(0)).is_some());
        objects.unpin(id(0), 1);
        assert!(objects.get(id(0)).is_none());
        assert_eq!(objects.memory_used(), 0);
    }

    #[test]
    fn copies_that_can_be_had_again_give_way_the_least_recently_used_first() {
        let mut objects = Objects::new(4096, 0);
        for n in 0..4 {
            let extent = objects.allocate(1024).unwrap();
            objects.add_secondary(id(n), extent, 1024, owner(1));
            objects.settle(id(n));
        }
        objects.pin(id(0)).unwrap();
        objects.unpin(id(0), 1);
        assert_eq!(objects.needed(), 0);
        objects.allocate(1024).unwrap();
        assert!(objects.get(id(1)).is_none() && objects.get(id(0)).is_some());
    }

    #[test]
    fn primary_copies_give_way_only_when_the_disk_has_them() {
        let mut objects = with_objects(4, 256 << 10);
        assert!(objects.allocate(256 << 10).is_none());
        let (first, extent, _) = objects.begin_spill().unwrap();
        assert_eq!(first, id(0), "the least recently used first");
        assert!(objects.allocate(256 << 10).is_none(), "SHM-1: its file is not whole yet");
        assert_eq!(objects.end_spill(id(0), Some(7)), Some(extent.length));
        objects.settle(id(0));
        assert!(objects.allocate(256 << 10).is_some());
        assert!(objects.get(id(0)).is_some_and(|object| !object.is_in_memory()));
        assert!(objects.pin(id(0)).is_none() && objects.must_await(id(0)));
    }

    #[test]
    fn an_object_is_read_back_before_it_can_be_pinned() {
        let mut objects = with_objects(1, 1 << 20);
        objects.begin_spill().unwrap();
        objects.end_spill(id(0), Some(7));
        objects.settle(id(0));
        let other = objects.allocate(1 << 20).unwrap();
        assert_eq!(objects.begin_restore(id(0)), Some(1 << 20));
        assert_eq!(objects.begin_restore(id(0)), None, "it is being read already");
        objects.give_back(other);
        let extent = objects.allocate(1 << 20).unwrap();
        assert!(objects.place_restored(id(0), extent));
        assert!(objects.pin(id(0)).is_none(), "its bytes are not there yet");
        assert_eq!(objects.end_restore(id(0)), Some(7), "the checksum of what was written");
        assert!(objects.pin(id(0)).is_some());
    }

    #[test]
    fn the_news_of_a_free_may_come_before_the_seal() {
        let mut objects = Objects::new(1 << 20, 0);
        let extent = objects.allocate(100).unwrap();
        objects.begin_write(id(1), WRITER, extent, 100, owner(1));
        objects.free(id(1));
        assert!(objects.seal(id(1), WRITER));
        objects.settle(id(1));
        assert_eq!((objects.len(), objects.memory_used()), (0, 0));
    }

    #[test]
    fn of_two_attempts_the_first_copy_is_kept() {
        let mut objects = Objects::new(1 << 20, 0);
        for n in [1, 2] {
            let extent = objects.allocate(100).unwrap();
            objects.begin_write(id(1), Conn(n), extent, 100, owner(n as u8));
        }
        assert!(objects.seal(id(1), Conn(2)));
        assert!(objects.seal(id(1), Conn(1)));
        objects.settle(id(1));
        assert_eq!((objects.len(), objects.memory_used()), (1, 128));
        assert_eq!(objects.owned(|one| one == owner(2)), [id(1)]);
    }
}
