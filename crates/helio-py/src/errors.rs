//! Errors of the core as Python exceptions: one match per error type, in this file.

use helio_proto::control::{Failure, FailureKind};
use helio_proto::error::{SystemError, came_through, was_told};
use helio_types::DeathCause;
use helio_worker::{Error, Payload, sites};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::codec::read::decode;
use crate::codec::source::Source;
use crate::exceptions::{module, named, unwelcome};
use crate::worker::leftovers;

/// Returns the exception for a failed call of the runtime.
pub(crate) fn raise(py: Python<'_>, error: Error) -> PyErr {
    match error {
        Error::Timeout => named(py, "GetTimeoutError", "Get timed out: some object(s) not ready."),
        Error::Raised(payload) => from_payload(py, &payload),
        // The interrupting code kept the exception to raise; this one is for a runtime that ends its waits.
        Error::Interrupted => PyRuntimeError::new_err("the wait was interrupted"),
        Error::Disconnected(message) => named(py, "RaySystemError", &message),
        Error::Unwelcome(refusal) => unwelcome(py, &refusal),
        Error::Refused(failure) => refused(py, &failure),
        Error::Invalid(message) => PyValueError::new_err(message),
        Error::Io(message) => PyOSError::new_err(message),
    }
}

fn refused(py: Python<'_>, failure: &Failure) -> PyErr {
    let class = match failure.kind {
        FailureKind::Invalid | FailureKind::NotFound => {
            return PyValueError::new_err(failure.message.clone());
        }
        FailureKind::AlreadyExists => "ActorAlreadyExistsError",
        FailureKind::Unschedulable => "ActorUnschedulableError",
        FailureKind::RuntimeEnv => "RuntimeEnvSetupError",
        FailureKind::StoreFull => "ObjectStoreFullError",
        FailureKind::OutOfDisk => "OutOfDiskError",
        FailureKind::GroupRemoved => "TaskPlacementGroupRemoved",
        FailureKind::System => "RaySystemError",
    };
    named(py, class, &failure.message)
}

/// Returns the exception that reading a failed object raises.
pub(crate) fn from_payload(py: Python<'_>, payload: &Payload) -> PyErr {
    from_bytes(py, Source::Shared(payload.bytes.clone()))
}

/// Returns the exception that reading a stored exception raises: an instance of its cause's class too.
pub(crate) fn from_bytes(py: Python<'_>, source: Source) -> PyErr {
    leftovers::_note_error();
    let as_cause = exception_of(py, source).and_then(|stored| {
        let convert = stored.getattr_opt(pyo3::intern!(py, "as_instanceof_cause"))?;
        convert.map_or(Ok(stored), |convert| convert.call0())
    });
    as_cause.map_or_else(|error| error, PyErr::from_value)
}

/// The exception in a failed object, as it was stored.
pub(crate) fn exception_of(py: Python<'_>, source: Source) -> PyResult<Bound<'_, PyAny>> {
    if let Some((name, error)) = came_through(&source) {
        let error = exception_of(py, Source::copied(error))?;
        return py
            .import("heliostat.core.worker.main_loop")?
            .getattr("argument_error")?
            .call1((error, name));
    }
    if let Some((_, error)) = was_told(&source) {
        return decode(py, Source::copied(error));
    }
    match SystemError::from_payload(&source) {
        Some(error) => from_system(py, &error),
        None => decode(py, source),
    }
}

fn from_system<'py>(py: Python<'py>, error: &SystemError) -> PyResult<Bound<'py, PyAny>> {
    let hex = |is_nil: bool, hex: String| if is_nil { String::new() } else { hex };
    module(py)?.getattr("from_system_error")?.call1((
        error.kind as u32,
        &error.message,
        cause(py, &error.cause)?,
        hex(error.object.is_nil(), error.object.hex()),
        hex(error.actor.is_nil(), error.actor.hex()),
        hex(error.task.is_nil(), error.task.hex()),
        &error.name,
        sites::of(&error.object),
    ))
}

/// A `native_types.Cause`.
fn cause<'py>(py: Python<'py>, cause: &DeathCause) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("kind", format!("{:?}", cause.kind))?;
    dict.set_item("code", cause.code)?;
    dict.set_item("pid", cause.pid)?;
    dict.set_item("message", &cause.message)?;
    dict.set_item("log_tail", &cause.log_tail)?;
    dict.set_item("method", &cause.method)?;
    let error = if cause.error.is_empty() {
        py.None().into_bound(py)
    } else if let Some(system) = SystemError::from_payload(&cause.error) {
        from_system(py, &system)?
    } else {
        // An exception that cannot be read here must not hide the death that it explains.
        decode(py, Source::copied(&cause.error))
            .unwrap_or_else(|error| error.into_value(py).into_bound(py).into_any())
    };
    dict.set_item("error", error)?;
    Ok(dict)
}
