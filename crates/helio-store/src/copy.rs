//! Copies into shared memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rustix::mm::Advice;

/// From this size on a copy is divided among threads, in bytes: below it, starting them costs more
/// than they save.
pub const PARALLEL_COPY_MIN: usize = 8 << 20;

/// More threads than this no memory bus rewards.
const THREADS_MAX: usize = 6;

/// Memory that this process has not written yet is mapped in pieces of this size, each just before it
/// is written: the kernel does it in half the time of a fault for every page, and the piece, which it
/// has cleared, is still in the cache.
const PIECE: usize = 256 << 10;

/// Which pieces of a mapping this process has written: a bit for each.
#[derive(Debug)]
pub(crate) struct Touched(Vec<AtomicU64>);

impl Touched {
    pub(crate) fn none_of(size: usize) -> Self {
        Self((0..=size / PIECE / 64).map(|_| AtomicU64::new(0)).collect())
    }

    fn has(&self, piece: usize) -> bool {
        self.0[piece / 64].load(Ordering::Relaxed) & (1 << (piece % 64)) != 0
    }

    fn set(&self, piece: usize) {
        self.0[piece / 64].fetch_or(1 << (piece % 64), Ordering::Relaxed);
    }
}

/// A place in a mapping.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    /// Where the mapping begins.
    pub(crate) base: *mut u8,
    /// Where in it.
    pub(crate) offset: usize,
    pub(crate) touched: &'a Touched,
}
// SAFETY: each thread gets the start of a range that is its own.
unsafe impl Send for Target<'_> {}

/// Copies `bytes` to `to`.
///
/// # Safety
/// The mapping is valid for writes of `bytes.len()` bytes at the offset and does not overlap with
/// `bytes` there; `touched` was made for it.
pub(crate) unsafe fn copy(bytes: &[u8], to: Target<'_>) {
    let threads = match bytes.len() {
        ..PARALLEL_COPY_MIN => 1,
        _ => thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX),
    };
    if threads < 2 {
        // SAFETY: the caller's promise.
        unsafe { copy_part(bytes, to) };
        return;
    }
    // Whole pieces, so that no two threads map the same one.
    let part = (bytes.len() / threads).next_multiple_of(PIECE);
    let first = part - to.offset % PIECE;
    thread::scope(|scope| {
        let mut at = 0;
        while at < bytes.len() {
            let length = if at == 0 { first } else { part }.min(bytes.len() - at);
            let chunk = &bytes[at..at + length];
            let target = Target { offset: to.offset + at, ..to };
            at += length;
            // SAFETY: the chunks are disjoint parts of the caller's range.
            scope.spawn(move || unsafe { copy_part(chunk, target) });
        }
    });
}

/// # Safety
/// See [`copy`].
unsafe fn copy_part(bytes: &[u8], to: Target<'_>) {
    let mut at = 0;
    while at < bytes.len() {
        let offset = to.offset + at;
        let left = bytes.len() - at;
        let is_new = |piece: usize| !to.touched.has(piece);
        let length = if left >= PIECE && offset.is_multiple_of(PIECE) && is_new(offset / PIECE) {
            // SAFETY: the piece is inside the caller's range, and populating does not change what the
            // memory holds.
            let mapped = unsafe {
                let start = to.base.add(offset).cast();
                rustix::mm::madvise(start, PIECE, Advice::LinuxPopulateWrite)
            };
            // A kernel that cannot leaves it to the faults.
            if mapped.is_ok() {
                to.touched.set(offset / PIECE);
            }
            PIECE
        } else {
            // What was written before goes in one piece: for long ones the C library has stores that
            // pass the cache by.
            let pieces = (offset / PIECE + 1..).map(|piece| (piece, piece * PIECE - offset));
            pieces
                .take_while(|(_, length)| *length < left)
                .find(|(piece, length)| left - length >= PIECE && is_new(*piece))
                .map_or(left, |(_, length)| length)
        };
        // SAFETY: the caller's promise; `length` is at most what is left.
        unsafe {
            let from = bytes.as_ptr().add(at);
            std::ptr::copy_nonoverlapping(from, to.base.add(offset), length);
        }
        at += length;
    }
}
