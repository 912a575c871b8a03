//! Copies into shared memory.

use std::thread;

/// From this size on a copy is divided among threads, in bytes: below it, starting them costs more
/// than they save.
pub const PARALLEL_COPY_MIN: usize = 8 << 20;

/// More threads than this no memory bus rewards.
const THREADS_MAX: usize = 6;

/// A pointer that may go to a scoped thread.
struct Target(*mut u8);
// SAFETY: each thread gets the start of a range that is its own.
unsafe impl Send for Target {}

/// Copies `bytes` to `to`.
///
/// # Safety
/// `to` is valid for writes of `bytes.len()` bytes and does not overlap with `bytes`.
pub(crate) unsafe fn copy(bytes: &[u8], to: *mut u8) {
    let threads = match bytes.len() {
        ..PARALLEL_COPY_MIN => 1,
        _ => thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX),
    };
    if threads < 2 {
        // SAFETY: the caller's promise.
        unsafe { copy_part(bytes, to) };
        return;
    }
    // Whole pages, so that no two threads fault on the same one.
    let part = (bytes.len() / threads + 4096) & !4095;
    thread::scope(|scope| {
        let mut offset = 0;
        for chunk in bytes.chunks(part) {
            // SAFETY: `offset` is at most `bytes.len()`, inside what the caller vouched for.
            let target = Target(unsafe { to.add(offset) });
            offset += chunk.len();
            scope.spawn(move || {
                let target = target;
                // SAFETY: the chunks are disjoint parts of the caller's range.
                unsafe { copy_part(chunk, target.0) };
            });
        }
    });
}

/// # Safety
/// See [`copy`].
unsafe fn copy_part(bytes: &[u8], to: *mut u8) {
    // SAFETY: the caller's promise. The C library chooses non-temporal stores for long copies itself.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
}
