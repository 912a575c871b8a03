//! The table of settings, as Python reads it.

use std::collections::HashMap;

use helio_config::setting::{Names, Value};
use helio_config::table;
use pyo3::IntoPyObjectExt as _;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The value of a setting in an environment, or its default.
#[pyfunction]
pub(crate) fn read_setting(
    py: Python<'_>,
    name: &str,
    environment: &Bound<'_, PyAny>,
) -> PyResult<Py<PyAny>> {
    let row = table::find(name)
        .ok_or_else(|| PyKeyError::new_err(format!("{name} is not a setting of the table")))?;
    let given = PyDict::new(py);
    for variable in row.variables() {
        given.set_item(&variable, environment.call_method1("get", (&variable,))?)?;
    }
    let variable = |wanted: &str| given.get_item(wanted).ok()??.extract::<String>().ok();
    match row.read(&variable).map_err(PyValueError::new_err)? {
        Value::Whole(number) => number.into_py_any(py),
        Value::Number(number) => number.into_py_any(py),
        Value::Flag(flag) => flag.into_py_any(py),
        Value::Text(text) => text.into_py_any(py),
    }
}

/// Refuses values that settings cannot have; a sentence for each variable that is set in vain.
#[pyfunction]
pub(crate) fn check_settings(environment: &Bound<'_, PyDict>) -> PyResult<Vec<String>> {
    // Variables that are no UTF-8 are no settings.
    let environment: HashMap<String, String> = environment
        .iter()
        .filter_map(|(name, text)| Some((name.extract().ok()?, text.extract().ok()?)))
        .collect();
    let variable = |name: &str| environment.get(name).cloned();
    for row in table::table() {
        // A level that there is not is warned of.
        if row.name != table::BACKEND_LOG_LEVEL.row.name {
            row.read(&variable).map_err(PyValueError::new_err)?;
        }
    }
    if let Some(why) = helio_config::refusal(&variable) {
        return Err(PyValueError::new_err(why));
    }
    Ok(helio_config::warnings(environment.keys().map(String::as_str), &variable))
}

/// Names of Ray's configuration that act.
#[pyfunction]
pub(crate) fn knobs() -> Vec<&'static str> {
    table::table().filter(|row| row.names == Names::Knob).map(|row| row.name).collect()
}
