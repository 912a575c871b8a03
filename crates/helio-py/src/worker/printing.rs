//! The output of user code: which call prints it, and whether its last line has ended.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;

use crate::current;

/// Set while text was printed that does not end its line.
static LINE_IS_OPEN: AtomicBool = AtomicBool::new(false);

/// Notes that the text that was printed last has no end of its line.
#[pyfunction]
pub(crate) fn _line_is_open() {
    LINE_IS_OPEN.store(true, Ordering::Relaxed);
}

/// A call is over: its last line is shown, also without an end.
pub(super) fn end_lines(py: Python<'_>) {
    if LINE_IS_OPEN.load(Ordering::Relaxed) && LINE_IS_OPEN.swap(false, Ordering::Relaxed) {
        let end = || py.import("heliostat.core.worker.main_loop")?.getattr("end_lines")?.call0();
        if let Err(error) = end() {
            error.write_unraisable(py, None);
        }
    }
}

/// Returns the id of the task that prints now, in hex; empty: none.
#[pyfunction]
pub(crate) fn _printing_task(py: Python<'_>) -> String {
    current::running(py).map_or_else(String::new, |running| running.task.hex())
}

/// Returns the name of the call that prints now; empty: none.
#[pyfunction]
pub(crate) fn _display_name() -> String {
    current::display_name().map(|template| template.name.clone()).unwrap_or_default()
}
