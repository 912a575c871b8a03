//! Exceptions of user code, as the bytes that take the place of a call's values.

use helio_proto::error::{ErrorKind, SystemError, TAG, told};
use pyo3::exceptions::{PyException, PyKeyboardInterrupt, PySystemExit};
use pyo3::prelude::*;

use super::functions::Entry;
use super::{leftovers, outcomes};
use crate::codec::{self, Purpose};
use crate::current::Running;
use crate::session::Session;
use helio_worker::Outcome;

/// The consequence of an exception.
pub(super) enum Failure {
    /// The call failed.
    Failed(Outcome),
    /// The process is to end, with this code.
    Exit(i32),
}

/// Judges what a call raised.
pub(super) fn judge(
    py: Python<'_>,
    session: &Session,
    running: &Running,
    entry: Option<&Entry>,
    error: PyErr,
    returns: u32,
) -> Failure {
    if error.is_instance_of::<PySystemExit>(py) {
        return Failure::Exit(exit_code(py, &error));
    }
    leftovers::_note_error();
    let cancelled = session.runtime.is_cancelled(running.task);
    if cancelled && (error.is_instance_of::<PyKeyboardInterrupt>(py) || is_cancellation(py, &error))
    {
        return Failure::Failed(outcomes::failed(cancelled_payload(running), returns, false));
    }
    let retryable = entry.is_some_and(|entry| is_retryable(py, entry, &error));
    let line = error.to_string();
    let payload = match payload(py, running, error, "task_error") {
        system if system.first() == Some(&TAG) => system,
        raised => told(line.lines().next().unwrap_or_default(), &raised),
    };
    Failure::Failed(outcomes::failed(payload, returns, retryable))
}

fn cancelled_payload(running: &Running) -> Vec<u8> {
    let error = SystemError::new(ErrorKind::TaskCancelled, "the task was cancelled while it ran");
    SystemError { task: running.task, name: running.template.name.clone(), ..error }.to_payload()
}

/// `asyncio.CancelledError`, which a cancelled coroutine ends with.
fn is_cancellation(py: Python<'_>, error: &PyErr) -> bool {
    !error.is_instance_of::<PyException>(py)
        && error
            .get_type(py)
            .name()
            .is_ok_and(|name| name.to_cow().is_ok_and(|name| name == "CancelledError"))
}

pub(super) fn is_retryable(py: Python<'_>, entry: &Entry, error: &PyErr) -> bool {
    if entry.template.front.retries_all {
        return true;
    }
    entry
        .retry
        .as_ref()
        .is_some_and(|classes| error.value(py).is_instance(classes.bind(py)).unwrap_or(false))
}

/// The serialized `RayTaskError`; `maker` is the function of `main_loop` that makes it.
pub(super) fn payload(py: Python<'_>, running: &Running, error: PyErr, maker: &str) -> Vec<u8> {
    let made = py.import("heliostat.core.worker.main_loop").and_then(|module| {
        let raised = error.clone_ref(py).into_value(py);
        let made = module.getattr(maker)?.call1((
            raised,
            &running.template.front.function_name,
            &running.template.name,
        ))?;
        let mut encoded = codec::encode(&made, Purpose::Value)?;
        // An error names no references on its way: those inside it stay for good.
        encoded.refs.iter().for_each(|held| held.bind(py).get().pin());
        Ok(encoded.sink.take())
    });
    made.unwrap_or_else(|second| {
        // Neither the exception nor its stand-in could be sent: its text can.
        let text = format!("{error}; and making its report failed: {second}");
        SystemError {
            name: running.template.name.clone(),
            ..SystemError::new(ErrorKind::System, text)
        }
        .to_payload()
    })
}

/// The code of `SystemExit`, as the interpreter reads it.
pub(super) fn exit_code(py: Python<'_>, error: &PyErr) -> i32 {
    match error.value(py).getattr("code") {
        Ok(code) if code.is_none() => 0,
        Ok(code) => code.extract().unwrap_or(1),
        Err(_) => 1,
    }
}
