//! Reads what Python adds to the options of a call (`heliostat.core.native_types`).

use helio_proto::environment::RuntimeEnv;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::definition::Definition;
use crate::environment;

/// A dictionary, all entries of which have to be there.
pub(super) struct Plan<'a, 'py>(pub(super) &'a Bound<'py, PyDict>);

impl<'py> Plan<'_, 'py> {
    pub(super) fn need(&self, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let value = self.0.get_item(name)?;
        value.ok_or_else(|| PyValueError::new_err(format!("the plan has no {name:?}")))
    }

    /// The function or class that is called.
    pub(super) fn definition(&self, name: &str) -> PyResult<Py<Definition>> {
        Ok(self.need(name)?.cast_into::<Definition>()?.unbind())
    }

    pub(super) fn text(&self, name: &str) -> PyResult<String> {
        self.need(name)?.extract()
    }

    pub(super) fn bytes(&self, name: &str) -> PyResult<Vec<u8>> {
        Ok(self.need(name)?.cast::<PyBytes>()?.as_bytes().to_vec())
    }

    pub(super) fn runtime_env(&self) -> PyResult<RuntimeEnv> {
        environment::read(&self.text("runtime_env")?)
    }
}
