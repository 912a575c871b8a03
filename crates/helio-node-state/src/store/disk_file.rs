//! The file on disk behind the memory file, for objects that have to be read or made while the memory
//! is full of objects that readers keep.
//!
//! A process that keeps views of a whole store and reads on would wait for ever for room that only it can
//! give. So a reader that found no room for a while has its object laid into this file, where the
//! offsets go on behind those of the memory file; the copy goes from there with its last reader. An
//! object that is made here, because the memory is full of objects that are being read or because the
//! object is larger than the whole memory, stays here until its owner frees it.

use helio_proto::node::overflow_start;

use super::allocator::{Allocator, Extent};

/// Ranges are whole pages, so that each can be mapped, and given back to the disk.
const PAGE: u64 = 64 << 10;

/// The free and used ranges of the file on disk, and the ranges that the disk gets back.
#[derive(Debug)]
pub(super) struct DiskFile {
    start: u64,
    allocator: Allocator,
    /// Ranges that the disk is to get back.
    holes: Vec<Extent>,
}

impl DiskFile {
    /// A file of `size` bytes behind a memory file of `store_size`.
    pub(super) fn new(store_size: u64, size: u64) -> Self {
        Self {
            start: overflow_start(store_size),
            allocator: Allocator::new(size / PAGE * PAGE),
            holes: Vec::new(),
        }
    }

    /// Whether the extent is one of this file.
    pub(super) fn has(&self, extent: Extent) -> bool {
        extent.offset >= self.start
    }

    /// Whether there is such a file.
    pub(super) fn is_there(&self) -> bool {
        self.allocator.size() > 0
    }

    /// Whether something lies there.
    pub(super) fn is_used(&self) -> bool {
        self.allocator.used() > 0
    }

    pub(super) fn allocate(&mut self, size: u64) -> Option<Extent> {
        let extent = self.allocator.allocate(size.max(1).checked_next_multiple_of(PAGE)?)?;
        Some(Extent { offset: extent.offset + self.start, ..extent })
    }

    pub(super) fn free(&mut self, extent: Extent) {
        assert!(self.has(extent), "a range of the memory would be given back as one of the disk");
        assert!(extent.length.is_multiple_of(PAGE), "the disk would get back what others use");
        self.allocator.free(Extent { offset: extent.offset - self.start, ..extent });
        self.holes.push(extent);
    }

    /// The ranges that were freed since the last call.
    pub(super) fn take_holes(&mut self) -> Vec<Extent> {
        std::mem::take(&mut self.holes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_lie_behind_the_memory_and_are_given_back_whole() {
        let mut file = DiskFile::new(1 << 20, 3 * PAGE + 5);
        let first = file.allocate(PAGE + 1).unwrap();
        assert!(first.offset >= 1 << 20 && file.has(first) && file.is_used());
        assert_eq!(first.length, 2 * PAGE);
        assert!(!file.has(Extent { offset: (1 << 20) - 64, length: 64 }));
        assert_eq!(file.allocate(PAGE + 1), None, "a part of a page at the end is not used");
        file.free(first);
        assert_eq!((file.take_holes(), file.is_used()), (vec![first], false));
        assert!(file.take_holes().is_empty());
    }

    #[test]
    fn without_a_size_there_is_no_file() {
        assert!(!DiskFile::new(1 << 20, PAGE - 1).is_there());
    }
}
