//! The worker: what `run_worker()` does on the process's main thread.
//!
//! One loop takes work from the runtime, without the GIL, and runs it: tasks and the calls of a plain
//! actor right there; the calls of a threaded actor in its pools; those of an async actor on an event
//! loop, which then takes the main loop's place. Reading order: [`main_loop`], [`execute`],
//! [`functions`], [`failure`], [`stream`], [`construct`], [`pool`], [`asynchronous`], [`ending`],
//! [`leftovers`].

mod asynchronous;
mod cancel;
mod construct;
pub(crate) mod devices;
mod ending;
mod execute;
mod failure;
mod functions;
mod job;
mod leftovers;
mod main_loop;
mod pool;
mod process;
mod rehearsal;
mod results;
mod stream;
mod threads;
mod title;

pub(crate) use asynchronous::{
    _loop_fd, _loop_passes, _loop_sleeps, _loop_woke, _next_call, RunningCall,
};
pub(crate) use ending::{_ask_to_leave, _asked_to_leave, _end_in_time, _look_again};
pub(crate) use execute::exit_actor;
pub(crate) use leftovers::{_note_error, _runs_calls};
pub(crate) use main_loop::run_worker;
pub(crate) use pool::_serve_pool;

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;

/// Whether this process is an async actor.
static ASYNC: AtomicBool = AtomicBool::new(false);
/// Whether it is a threaded one.
static THREADED: AtomicBool = AtomicBool::new(false);

/// Whether calls run here side by side.
fn is_concurrent() -> bool {
    ASYNC.load(Ordering::Relaxed) || THREADED.load(Ordering::Relaxed)
}

/// A blocking call inside an async actor holds up all its calls: the user is told once.
pub(crate) fn warn_if_blocking(py: Python<'_>, what: &str, timeout: Option<f64>) -> PyResult<()> {
    if ASYNC.load(Ordering::Relaxed) && timeout != Some(0.0) {
        py.import("heliostat.core.aio.async_actor")?.getattr("warn_blocking")?.call1((what,))?;
    }
    Ok(())
}

/// Something was printed that does not end its line.
static LINE_IS_OPEN: AtomicBool = AtomicBool::new(false);

/// Notes that the text that was printed last has no end of its line.
#[pyfunction]
pub(crate) fn _line_is_open() {
    LINE_IS_OPEN.store(true, Ordering::Relaxed);
}

/// A call is over: its last line is shown, also without an end.
fn end_lines(py: Python<'_>) {
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
    crate::current::running(py).map_or_else(String::new, |running| running.task.hex())
}

/// Returns the name of the call that prints now; empty: none.
#[pyfunction]
pub(crate) fn _display_name() -> String {
    crate::current::display_name().map(|template| template.name.clone()).unwrap_or_default()
}
