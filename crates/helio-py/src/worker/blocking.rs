//! Whether calls run side by side in this process, and the warning where one blocks the others.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;

/// Whether this process is an async actor.
pub(super) static ASYNC: AtomicBool = AtomicBool::new(false);
/// Whether it is a threaded one.
pub(super) static THREADED: AtomicBool = AtomicBool::new(false);

/// Whether calls run here side by side.
pub(super) fn is_concurrent() -> bool {
    ASYNC.load(Ordering::Relaxed) || THREADED.load(Ordering::Relaxed)
}

/// A blocking call inside an async actor holds up all its calls: the user is told once.
pub(crate) fn warn_if_blocking(py: Python<'_>, what: &str, timeout: Option<f64>) -> PyResult<()> {
    if ASYNC.load(Ordering::Relaxed) && timeout != Some(0.0) {
        py.import("heliostat.core.aio.async_actor")?.getattr("warn_blocking")?.call1((what,))?;
    }
    Ok(())
}
