//! Bounds of a driver or a worker.

/// How much memory a process spends on remembering finished calls, unless MAX_LINEAGE_BYTES says another
/// size, in bytes; the oldest are forgotten.
pub const LINEAGE_BYTES_MAX: usize = 1 << 30;
