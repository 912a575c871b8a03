//! Notes that errors were raised here, for `heliostat.core.worker.error_frames`, which collects what they keep.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;

use crate::session;

/// An error was raised in this process since the last collection was asked for.
static RAISED: AtomicBool = AtomicBool::new(false);

/// An error was raised: by user code, or to it.
#[pyfunction]
pub(crate) fn _note_error() {
    RAISED.store(true, Ordering::Relaxed);
}

/// A call of this worker has ended.
pub(super) fn call_ended(py: Python<'_>) {
    if RAISED.load(Ordering::Relaxed) && RAISED.swap(false, Ordering::Relaxed) {
        let asked = py
            .import("heliostat.core.worker.error_frames")
            .and_then(|module| module.getattr("collect_soon")?.call0());
        if let Err(error) = asked {
            error.write_unraisable(py, None);
        }
    }
}

/// Whether calls run in this process.
#[pyfunction]
pub(crate) fn _runs_calls() -> bool {
    session::present().is_some_and(|session| session.runtime.runs_calls())
}
