//! The end that user code or a signal asks for while calls run: nothing more begins, what runs on other
//! threads or tasks finishes, then the process ends.

use std::time::Duration;

use helio_config::table::ACTOR_GRACEFUL_SHUTDOWN_TIMEOUT_MS;
use helio_proto::error::{ErrorKind, SystemError};
use helio_types::{DeathCause, DeathKind};
use helio_worker::Outcome;
use parking_lot::Mutex;
use pyo3::prelude::*;

use super::blocking::is_concurrent;
use super::{outcomes, pool};
use crate::current::{self, Running};
use crate::session::{self, Session};

/// An end that was asked for.
struct Ending {
    cause: DeathCause,
    /// The daemon knows.
    is_announced: bool,
}

static ENDING: Mutex<Option<Ending>> = Mutex::new(None);

/// Has the main thread end the process; the first one who asks says why, and in which call.
pub(super) fn ask(session: &Session, cause: DeathCause) {
    let cause = DeathCause { pid: std::process::id(), ..cause };
    ENDING.lock().get_or_insert(Ending { cause, is_announced: false });
    pool::close();
    session.runtime.ask_exit("the process was asked to end");
}

/// Has the main thread end the process, of whose end the daemon knows.
pub(super) fn ask_announced(session: &Session, code: i32) {
    let cause = DeathCause { code, ..DeathCause::default() };
    ENDING.lock().get_or_insert(Ending { cause, is_announced: true });
    pool::close();
    session.runtime.ask_exit("the process was asked to end");
}

/// Returns the answer to the caller of a call that has left: the process may live on until others finish.
pub(super) fn outcome(running: &Running, returns: u32) -> Outcome {
    let cause = ENDING.lock().as_ref().map(|ending| ending.cause.clone()).unwrap_or_default();
    // Several may ask for it, each for its own good.
    let cause = DeathCause { by: running.task, ..cause };
    let actor = current::actor();
    let error = SystemError {
        task: running.task,
        actor: actor.as_ref().map(|actor| actor.spec.actor_id).unwrap_or_default(),
        name: actor.map(|actor| actor.spec.class_name.clone()).unwrap_or_default(),
        cause: cause.clone(),
        ..SystemError::new(ErrorKind::ActorDied, cause.message)
    };
    outcomes::failed(error.to_payload(), returns, false)
}

/// The code to leave with, if somebody asked for the end.
pub(super) fn asked() -> Option<i32> {
    ENDING.lock().as_ref().map(|ending| ending.cause.code)
}

/// Tells the daemon why the process ends, if somebody asked for it and it was not told yet.
pub(super) fn announce(session: &Session) {
    let mut ending = ENDING.lock();
    let Some(ending) = ending.as_mut().filter(|ending| !ending.is_announced) else { return };
    ending.is_announced = true;
    session.runtime.leaving(ending.cause.clone());
}

/// Returns the cause of an end of the process with that code.
pub(super) fn exit_cause(code: i32) -> (DeathKind, String) {
    let is_actor = current::actor().is_some();
    let kind = if is_actor && code == 0 { DeathKind::UserExit } else { DeathKind::Exited };
    let message = if kind == DeathKind::UserExit {
        "Worker exits by an user request. Worker exits with an exit code 0.".to_owned()
    } else {
        let signal = if code == 128 + libc::SIGTERM { " (SIGTERM)" } else { "" };
        format!("Worker exits unexpectedly. Worker exits with an exit code {code}{signal}.")
    };
    (kind, message)
}

/// End with `code` once the calls that run are over, if this is an actor that runs several at once;
/// whether it is.
#[pyfunction]
pub(crate) fn _ask_to_leave(code: i32) -> bool {
    let (true, Some(session)) = (is_concurrent(), session::present()) else { return false };
    let (kind, message) = exit_cause(code);
    ask(&session, DeathCause { code, ..DeathCause::new(kind, message) });
    true
}

/// The exit code, if the end was asked for from within.
#[pyfunction]
pub(crate) fn _asked_to_leave() -> Option<i32> {
    asked()
}

/// End the process with `code` when what user code does at its end takes too long, even if it keeps the GIL.
#[pyfunction]
pub(crate) fn _end_in_time(code: i32) {
    // The value of the setting was checked when the session began.
    let limit_ms = helio_env::settings::read(&ACTOR_GRACEFUL_SHUTDOWN_TIMEOUT_MS).unwrap_or(30_000);
    let watch = move || {
        std::thread::sleep(Duration::from_millis(limit_ms));
        eprintln!(
            "This worker ends now: what user code does at its end (__ray_shutdown__, __del__, atexit, child processes) was \
             not done within {} s. actor_graceful_shutdown_timeout_ms sets the time.",
            Duration::from_millis(limit_ms).as_secs_f64()
        );
        // SAFETY: runs no handlers and touches no memory of this process.
        unsafe { libc::_exit(code) }
    };
    // Where no thread can be started, little else can.
    let _ = std::thread::Builder::new().name("heliostat-end".to_owned()).spawn(watch);
}

/// Has the main thread look whether it is to end.
#[pyfunction]
pub(crate) fn _look_again() {
    if let Some(session) = session::present() {
        session.runtime.ask_exit("the last call is over");
    }
}
