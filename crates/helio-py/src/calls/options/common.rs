//! Functions that the options of tasks and of actors share.

use helio_types::{Quantity, ResourceSet};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Returns the error for an option that there is not.
pub(super) fn unknown(keyword: &str) -> PyErr {
    PyKeyError::new_err(format!("{keyword} is not an option of these calls"))
}

pub(super) fn resource_set(needs: &[(String, f64)]) -> ResourceSet {
    let mut set = ResourceSet::default();
    for (name, quantity) in needs {
        set.set(name, Quantity::from_f64(*quantity));
    }
    set
}

pub(super) fn dict<'py>(py: Python<'py>, needs: &[(String, f64)]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, quantity) in needs {
        dict.set_item(name, quantity)?;
    }
    Ok(dict)
}
