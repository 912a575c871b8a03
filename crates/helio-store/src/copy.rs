//! Copies into shared memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rustix::mm::Advice;

/// From this size on a copy is divided among threads, in bytes: below it, starting them costs more
/// than they save. What has been written before is then written past the caches, too: it would not stay
/// in them, and reading a line only to overwrite it is a third of the traffic. The C library does that
/// only from three quarters of the cache on that all cores share, which may be hundreds of megabytes.
pub const PARALLEL_COPY_MIN: usize = 8 << 20;

/// More threads than this no memory bus rewards.
const THREADS_MAX: usize = 6;

/// Memory that this process has not written yet is mapped in pieces of this size, each just before it
/// is written: the kernel does it in half the time of a fault for every page, and the piece, which it
/// has cleared, is still in the cache.
const PIECE: usize = 256 << 10;

/// The pieces of a mapping that this process has written: a bit for each.
#[derive(Debug)]
pub(crate) struct Touched(Vec<AtomicU64>);

impl Touched {
    pub(crate) fn none_of(size: usize) -> Self {
        Self((0..=size / PIECE / 64).map(|_| AtomicU64::new(0)).collect())
    }

    fn has(&self, piece: usize) -> bool {
        self.0[piece / 64].load(Ordering::Relaxed) & (1 << (piece % 64)) != 0
    }

    /// Returns the number of bytes, of `length` from `offset` on, that were written before the first
    /// piece that was not.
    pub(crate) fn run(&self, offset: usize, length: usize) -> usize {
        let mut at = 0;
        while at < length && self.has((offset + at) / PIECE) {
            at = (offset + at + 1).next_multiple_of(PIECE) - offset;
        }
        at.min(length)
    }

    /// Maps each piece in in which some of a range lies, of a mapping of `size` bytes.
    ///
    /// # Safety
    /// `base` is where the mapping begins, it has `size` bytes, and the range lies in it.
    pub(crate) unsafe fn map_in_all(
        &self,
        base: *mut u8,
        size: usize,
        offset: usize,
        length: usize,
    ) {
        assert!(offset + length <= size, "memory behind the mapping would be mapped in");
        for piece in offset / PIECE..(offset + length).div_ceil(PIECE) {
            let start = piece * PIECE;
            if !self.has(piece) && start + PIECE <= size {
                // SAFETY: the caller's promise; the piece lies in the mapping.
                unsafe { self.map_in(piece, base.add(start)) };
            }
        }
    }

    /// Maps a piece that is about to be written; a kernel that cannot leaves it to the faults.
    ///
    /// # Safety
    /// `start` is where the piece begins, and all of it is mapped memory.
    unsafe fn map_in(&self, piece: usize, start: *mut u8) {
        // SAFETY: the caller's promise; what the memory holds does not change.
        let mapped =
            unsafe { rustix::mm::madvise(start.cast(), PIECE, Advice::LinuxPopulateWrite) };
        if mapped.is_ok() {
            self.0[piece / 64].fetch_or(1 << (piece % 64), Ordering::Relaxed);
        }
    }
}

/// A place in a mapping.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    /// The address at which the mapping begins.
    pub(crate) base: *mut u8,
    /// The place in the mapping, in bytes from its beginning.
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
    let is_large = bytes.len() >= PARALLEL_COPY_MIN;
    let threads = match is_large {
        true => thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX),
        false => 1,
    };
    if threads < 2 {
        // SAFETY: the caller's promise.
        unsafe { copy_part(bytes, to, is_large) };
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
            scope.spawn(move || unsafe { copy_part(chunk, target, is_large) });
        }
    });
}

/// # Safety
/// See [`copy`].
unsafe fn copy_part(bytes: &[u8], to: Target<'_>, is_large: bool) {
    let mut at = 0;
    while at < bytes.len() {
        let offset = to.offset + at;
        let (length, is_new) = next_run(bytes.len() - at, offset, to.touched);
        let (from, target) = (&bytes[at..at + length], to.base.wrapping_add(offset));
        assert!(length > 0, "a copy would never end");
        at += length;
        // SAFETY: the caller's promise; `length` is at most what is left.
        unsafe {
            // A piece that is new here has just been cleared, and is in the cache: plain stores
            // cost least there.
            match is_large && !is_new {
                true => stream(from, target),
                false => {
                    if is_new {
                        to.touched.map_in(offset / PIECE, target);
                    }
                    std::ptr::copy_nonoverlapping(from.as_ptr(), target, length);
                }
            }
        }
    }
}

/// Returns the length of the next part of a copy of `left` bytes to `offset`, and whether it is
/// new: one piece that is new here, or all before the next of those.
fn next_run(left: usize, offset: usize, touched: &Touched) -> (usize, bool) {
    let is_new = |at: usize| left - at >= PIECE && !touched.has((offset + at) / PIECE);
    let mut at = offset.next_multiple_of(PIECE) - offset;
    if at == 0 && left > 0 && is_new(0) {
        return (PIECE, true);
    }
    while at < left && !is_new(at) {
        at += PIECE;
    }
    (at.min(left), false)
}

/// Copies with stores that do not read the lines which they fill, of four pages by turns: with one
/// page after the other a fifth of the speed is lost.
///
/// # Safety
/// See [`copy`].
#[cfg(target_arch = "x86_64")]
unsafe fn stream(bytes: &[u8], to: *mut u8) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const LINE: usize = 64;
    const PAGE: usize = 4096;
    const PAGES: usize = 4;
    let head = to.align_offset(LINE).min(bytes.len());
    let blocks = (bytes.len() - head) / (PAGES * PAGE);
    let tail = head + blocks * PAGES * PAGE;
    let from = bytes.as_ptr();
    // SAFETY: the three ranges are the parts of `bytes`; the middle one begins where `to` is aligned
    // and is whole blocks. The fence makes the stores visible before whatever says that they happened.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, head);
        for block in 0..blocks {
            for line in 0..PAGE / LINE {
                for page in 0..PAGES {
                    let at = head + (block * PAGES + page) * PAGE + line * LINE;
                    let source = from.add(at).cast::<__m128i>();
                    let target = to.add(at).cast::<__m128i>();
                    let parts = [
                        _mm_loadu_si128(source),
                        _mm_loadu_si128(source.add(1)),
                        _mm_loadu_si128(source.add(2)),
                        _mm_loadu_si128(source.add(3)),
                    ];
                    _mm_stream_si128(target, parts[0]);
                    _mm_stream_si128(target.add(1), parts[1]);
                    _mm_stream_si128(target.add(2), parts[2]);
                    _mm_stream_si128(target.add(3), parts[3]);
                }
            }
        }
        _mm_sfence();
        std::ptr::copy_nonoverlapping(from.add(tail), to.add(tail), bytes.len() - tail);
    }
}

/// Copies by the C library, where there are no instructions of x86-64.
///
/// # Safety
/// See [`copy`].
#[cfg(not(target_arch = "x86_64"))]
unsafe fn stream(bytes: &[u8], to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
}
