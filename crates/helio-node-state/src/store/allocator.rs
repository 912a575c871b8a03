//! The allocator of extents of the memory file. It is pure: its metadata never lies in shared
//! memory (**SHM-1**).
//!
//! Best fit, so that a freed extent is reused by the next object of its size, on pages that are
//! resident and hot; among equal ones the one freed last. Extents are aligned to a cache line, large
//! ones to a huge page so that their pages can be collapsed, where that leaves room for them at all.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Every extent begins at a multiple of it.
const LINE: u64 = 64;

/// Extents of at least [`ALIGNED_MIN`] bytes begin at a multiple of it when there is room at one. For
/// smaller ones the gaps before them would cost too much of the memory.
const HUGE: u64 = 2 << 20;
const ALIGNED_MIN: u64 = 8 * HUGE;

/// Number of free extents that are tried for an aligned best fit before one that is surely large
/// enough is taken.
const TRIES_MAX: usize = 32;

/// A part of the memory file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    /// The begin of the extent, in bytes from the begin of the arena.
    pub(crate) offset: u64,
    /// Length of the extent with padding, in bytes; the requested size is at most this.
    pub(crate) length: u64,
}

/// The allocator.
#[derive(Debug)]
pub(crate) struct Allocator {
    size: u64,
    used: u64,
    /// Free extents by offset, with their length and when they were freed. No two touch.
    free: BTreeMap<u64, (u64, u64)>,
    /// The free extents in the order in which they are tried.
    order: BTreeSet<(u64, Reverse<u64>, u64)>,
    /// The number of frees so far.
    clock: u64,
}

impl Allocator {
    /// A memory file of that size, all free.
    #[must_use]
    pub(crate) fn new(size: u64) -> Self {
        let mut allocator =
            Self { size, used: 0, free: BTreeMap::new(), order: BTreeSet::new(), clock: 0 };
        if size > 0 {
            allocator.insert(0, size, 0);
        }
        allocator
    }

    /// The size of the whole memory in bytes.
    #[must_use]
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the number of bytes that are taken.
    #[must_use]
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// The bytes that no extent covers.
    #[must_use]
    pub(crate) fn free_bytes(&self) -> u64 {
        self.size - self.used
    }

    /// Returns the number of bytes that an object of `size` takes.
    #[must_use]
    pub(crate) fn footprint(size: u64) -> u64 {
        size.max(1).checked_next_multiple_of(LINE).unwrap_or(u64::MAX)
    }

    /// Takes an extent for `size` bytes; `None` when no free one is large enough.
    pub(crate) fn allocate(&mut self, size: u64) -> Option<Extent> {
        let length = Self::footprint(size);
        let align = if length >= ALIGNED_MIN { HUGE } else { LINE };
        // Huge pages are a gain, not a need: without a free place for them, any place will do.
        let (start, free, offset) = self
            .find(length, align)
            .or_else(|| self.find(length, LINE).filter(|_| align > LINE))?;
        let (_, stamp) = self.remove(start);
        if offset > start {
            self.insert(start, offset - start, stamp);
        }
        let rest = start + free - (offset + length);
        if rest > 0 {
            self.insert(offset + length, rest, stamp);
        }
        self.used += length;
        Some(Extent { offset, length })
    }

    /// The start and length of the free extent to use, and the aligned position in it.
    fn find(&self, length: u64, align: u64) -> Option<(u64, u64, u64)> {
        let fits = |&(free, _, start): &(u64, Reverse<u64>, u64)| {
            let offset = start.next_multiple_of(align);
            (offset.checked_add(length)? <= start + free).then_some((start, free, offset))
        };
        let from = (length, Reverse(u64::MAX), 0);
        self.order.range(from..).take(TRIES_MAX).find_map(fits).or_else(|| {
            let sure = (length.checked_add(align)?, Reverse(u64::MAX), 0);
            self.order.range(sure..).find_map(fits)
        })
    }

    /// Gives an extent back.
    ///
    /// # Panics
    /// When it is not one that [`Allocator::allocate`] gave out: the state that owns it is broken.
    pub(crate) fn free(&mut self, extent: Extent) {
        let (mut start, mut length) = (extent.offset, extent.length);
        assert!(
            start.checked_add(length).is_some_and(|end| end <= self.size),
            "extent outside the store: {extent:?}"
        );
        // No two free extents touch: with its neighbours on both sides it becomes one.
        if let Some((&before, &(before_length, _))) = self.free.range(..=start).next_back() {
            assert!(before + before_length <= start, "extent freed twice: {extent:?}");
            if before + before_length == start {
                self.remove(before);
                (start, length) = (before, length + before_length);
            }
        }
        if let Some((&after, &(after_length, _))) = self.free.range(extent.offset..).next() {
            assert!(extent.offset + extent.length <= after, "extent freed twice: {extent:?}");
            if extent.offset + extent.length == after {
                self.remove(after);
                length += after_length;
            }
        }
        self.clock += 1;
        self.insert(start, length, self.clock);
        self.used -= extent.length;
    }

    fn insert(&mut self, start: u64, length: u64, stamp: u64) {
        self.free.insert(start, (length, stamp));
        self.order.insert((length, Reverse(stamp), start));
    }

    fn remove(&mut self, start: u64) -> (u64, u64) {
        let (length, stamp) =
            self.free.remove(&start).expect("the two tables hold the same extents");
        self.order.remove(&(length, Reverse(stamp), start));
        (length, stamp)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_repeated_large_put_gets_the_same_pages() {
        let mut allocator = Allocator::new(1 << 30);
        let small = allocator.allocate(100).unwrap();
        let first = allocator.allocate(300 << 20).unwrap();
        assert_eq!(first.offset % HUGE, 0);
        allocator.free(first);
        let second = allocator.allocate(300 << 20).unwrap();
        assert_eq!(first, second);
        allocator.free(second);
        allocator.free(small);
        assert_eq!(allocator.allocate(1 << 30).map(|e| e.offset), Some(0), "all merged again");
        assert_eq!(allocator.allocate(1), None);
    }

    #[test]
    fn of_equal_extents_the_one_freed_last_is_reused() {
        let mut allocator = Allocator::new(1 << 20);
        let taken: Vec<Extent> = (0..5).map(|_| allocator.allocate(4096).unwrap()).collect();
        allocator.free(taken[2]);
        allocator.free(taken[0]);
        assert_eq!(allocator.allocate(4096), Some(taken[0]));
    }

    #[test]
    fn the_memory_holds_as_much_of_large_objects_as_there_is() {
        let mut allocator = Allocator::new(80 << 20);
        let taken = (0..).map_while(|_| allocator.allocate((10 << 20) + 64)).count();
        assert_eq!(taken, 7, "more than its boundaries of huge pages give room for");
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn an_extent_is_freed_once() {
        let mut allocator = Allocator::new(1 << 20);
        let extent = allocator.allocate(64).unwrap();
        allocator.free(extent);
        allocator.free(extent);
    }

    proptest! {
        /// SHM-1: no two extents overlap, every one is inside and aligned, and nothing is lost.
        #[test]
        fn extents_never_overlap_and_all_come_back(
            steps in proptest::collection::vec((any::<bool>(), 0u64..6 << 20, any::<prop::sample::Index>()), 1..200)
        ) {
            let mut allocator = Allocator::new(64 << 20);
            let mut taken: Vec<Extent> = Vec::new();
            for (is_free, size, pick) in steps {
                if is_free && !taken.is_empty() {
                    allocator.free(taken.swap_remove(pick.index(taken.len())));
                } else if let Some(extent) = allocator.allocate(size) {
                    prop_assert!(extent.length >= size && extent.offset + extent.length <= 64 << 20);
                    prop_assert_eq!(extent.offset % LINE, 0);
                    for other in &taken {
                        prop_assert!(
                            extent.offset + extent.length <= other.offset
                                || other.offset + other.length <= extent.offset
                        );
                    }
                    taken.push(extent);
                }
                prop_assert_eq!(allocator.used(), taken.iter().map(|e| e.length).sum::<u64>());
            }
            for extent in taken {
                allocator.free(extent);
            }
            prop_assert_eq!(allocator.used(), 0);
            prop_assert_eq!(allocator.allocate(64 << 20).map(|e| e.offset), Some(0));
        }
    }
}
