//! Cancelling the task that runs on the main thread: it gets a `KeyboardInterrupt`.
//!
//! The runtime tells of a cancellation on whichever thread reads the connection. That thread takes no
//! GIL; it sends the main thread a SIGINT, which also cuts sleeps and reads short. A signal that comes
//! when the task has just ended is swallowed here, so that it cannot hit the next one.

use std::sync::atomic::{AtomicBool, Ordering};

use helio_types::TaskId;
use parking_lot::Mutex;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::session::Session;

/// The task that may be interrupted, and the thread that runs it.
static TARGET: Mutex<Option<(TaskId, libc::pthread_t)>> = Mutex::new(None);
/// A signal is on its way or has arrived.
static SENT: AtomicBool = AtomicBool::new(false);

/// Hears of cancellations from now on.
pub(super) fn listen(session: &Session) {
    session.runtime.on_cancel(Box::new(|task| {
        let target = TARGET.lock();
        if let Some((running, thread)) = *target
            && running == task
        {
            SENT.store(true, Ordering::SeqCst);
            // SAFETY: the thread is the main thread, which lives as long as the process.
            unsafe { libc::pthread_kill(thread, libc::SIGINT) };
        }
    }));
}

/// Runs `f`, which a cancellation of `task` interrupts; whether one did. A task that was cancelled
/// before does not begin.
pub(super) fn interruptible<T>(
    py: Python<'_>,
    session: &Session,
    task: TaskId,
    f: impl FnOnce() -> PyResult<T>,
) -> (PyResult<T>, bool) {
    // SAFETY: only asks who we are.
    let me = unsafe { libc::pthread_self() };
    *TARGET.lock() = Some((task, me));
    // From here on a signal is sent. The word may have come before.
    let value = match session.runtime.is_cancelled(task) {
        true => Err(PyKeyboardInterrupt::new_err(())),
        false => f(),
    };
    *TARGET.lock() = None;
    // Nobody sends from here on. What was sent has reached this thread, so its handler can be run.
    let was_sent = SENT.swap(false, Ordering::SeqCst);
    if was_sent {
        while let Err(error) = py.check_signals() {
            if !error.is_instance_of::<PyKeyboardInterrupt>(py) {
                error.write_unraisable(py, None);
            }
        }
    }
    (value, was_sent)
}
