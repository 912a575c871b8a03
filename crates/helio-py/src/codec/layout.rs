//! The layout that all documents share, and the error for one that breaks it.

use pyo3::PyErr;
use pyo3::exceptions::PyValueError;

/// Where buffers begin: a multiple of this from the document's begin.
pub(super) const ALIGNMENT: usize = 64;

/// Returns the error of a document that ends early or has an unknown tag.
pub(super) fn damaged() -> PyErr {
    PyValueError::new_err("the serialized value is damaged: it ends early or has an unknown tag")
}
