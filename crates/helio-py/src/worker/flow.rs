//! The worker's next step after a call, and its end.

use helio_types::{DeathCause, DeathKind, TaskId};
use helio_worker::Error;
use pyo3::prelude::*;

use crate::gil::{GilSite, detached};
use crate::session::Session;

/// The next step of the loop after a piece of work.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    /// The process ends with this code; what Python has registered with `atexit` runs.
    Leave(i32),
    /// The process ends now.
    Die(i32),
}

/// Tells the daemon that the process ends by its own will, and in which call.
pub(super) fn leaving(session: &Session, kind: DeathKind, code: i32, message: String, by: TaskId) {
    let pid = std::process::id();
    session.runtime.leaving(DeathCause { kind, code, pid, message, by, ..DeathCause::default() });
}

/// Takes no work any more, and ends when nobody needs what the process owns or has begun.
pub(super) fn linger(py: Python<'_>, session: &Session, message: &str) -> Flow {
    loop {
        let pid = std::process::id();
        let cause = DeathCause { pid, ..DeathCause::new(DeathKind::Intended, message) };
        let lingered =
            detached(py, GilSite::Linger, |interrupt| session.runtime.linger(cause, interrupt));
        match lingered {
            Ok(Ok(())) => return Flow::Leave(0),
            Ok(Err(Error::Disconnected(_))) => return Flow::Die(0),
            // Nothing runs here that could be interrupted.
            Ok(Err(_)) | Err(_) => {}
        }
    }
}
