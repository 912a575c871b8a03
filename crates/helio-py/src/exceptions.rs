//! The classes of `heliostat.exceptions`, by name.

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
