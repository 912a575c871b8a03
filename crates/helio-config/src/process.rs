//! Bounds of a driver or a worker.

/// Bytes of memory that a process spends on remembering finished calls, unless MAX_LINEAGE_BYTES says
/// another number; the oldest are forgotten.
pub const LINEAGE_BYTES_MAX: usize = 1 << 30;
