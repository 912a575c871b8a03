//! Every option of tasks, actors and methods, and the only place where their defaults stand: `table`.
//!
//! Python checks what users write and merges `.options()` over the decoration
//! (`heliostat.core.calls.options`); what it hands on is what was given. `None` stands for the default, except for
//! `placement_group`. What Python has to decide or to show it asks the types of this module, by keyword.

mod actor;
mod method;
mod placement;
mod table;
mod task;
mod value;

use helio_types::{Quantity, ResourceSet};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

pub(crate) use actor::ActorOptions;
pub(crate) use method::MethodOptions;
pub(crate) use placement::Placement;
pub(crate) use task::TaskOptions;
pub(crate) use value::Value;

fn unknown(keyword: &str) -> PyErr {
    PyKeyError::new_err(format!("{keyword} is not an option of these calls"))
}

fn resource_set(needs: &[(String, f64)]) -> ResourceSet {
    let mut set = ResourceSet::default();
    for (name, quantity) in needs {
        set.set(name, Quantity::from_f64(*quantity));
    }
    set
}

fn dict<'py>(py: Python<'py>, needs: &[(String, f64)]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, quantity) in needs {
        dict.set_item(name, quantity)?;
    }
    Ok(dict)
}
