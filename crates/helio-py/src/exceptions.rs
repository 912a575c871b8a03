//! The classes of `heliostat.exceptions`, by name, and the exceptions of a process that is not let in.

use helio_proto::hello::Refusal;
use helio_worker::Error;
use pyo3::exceptions::PyConnectionError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyModule;

/// `heliostat.exceptions`.
pub(crate) fn module(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    MODULE
        .get_or_try_init(py, || PyModule::import(py, "heliostat.exceptions").map(Bound::unbind))
        .map(|module| module.bind(py))
}

/// An exception of `heliostat.exceptions`, by name, with a message.
pub(crate) fn named(py: Python<'_>, class: &str, message: &str) -> PyErr {
    let made = module(py).and_then(|module| module.getattr(class)?.call1((message,)));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// Returns the exception for a process that is not let in; Python chooses the class by the kind.
pub(crate) fn unwelcome(py: Python<'_>, refusal: &Refusal) -> PyErr {
    let made = (|| {
        py.import("heliostat.core.errors")?
            .getattr("unwelcome")?
            .call1((refusal.kind.name(), &refusal.text))
    })();
    made.map_or_else(|error| error, PyErr::from_value)
}

/// Returns the exception for a runtime that did not begin, or a head that was not reached.
pub(crate) fn connecting(py: Python<'_>, error: &Error) -> PyErr {
    match error {
        Error::Unwelcome(refusal) => unwelcome(py, refusal),
        other => PyConnectionError::new_err(other.to_string()),
    }
}
