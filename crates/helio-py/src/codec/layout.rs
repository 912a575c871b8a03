//! The error for a document that breaks the layout of [`helio_proto::document`].

use helio_proto::reader::Malformed;
use pyo3::exceptions::PyValueError;
use pyo3::{PyErr, PyResult};

/// Returns the error of a document that ends early or has an unknown tag.
pub(super) fn damaged() -> PyErr {
    PyValueError::new_err("the serialized value is damaged: it ends early or has an unknown tag")
}

/// Returns a part that was read, or the error that Python raises.
pub(super) fn sound<T>(read: Result<T, Malformed>) -> PyResult<T> {
    read.map_err(|_| damaged())
}
