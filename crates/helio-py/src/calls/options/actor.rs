//! The options of an actor, each given or by default.

use helio_types::ResourceSet;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{IntoPyObjectExt as _, PyTraverseError, PyVisit};

use super::common::{dict, resource_set, unknown};
use super::table::{Actor, Shared};

/// The options of an actor, each given or by default.
#[pyclass(frozen, module = "heliostat._heliostat")]
pub(crate) struct ActorOptions {
    pub(crate) shared: Shared,
    pub(crate) own: Actor,
    pub(crate) is_async: bool,
    /// Whether the options say what it holds, be it nothing.
    names_resources: bool,
}

#[pymethods]
impl ActorOptions {
    #[new]
    fn new(given: &Bound<'_, PyDict>, is_async: bool) -> PyResult<Self> {
        let py = given.py();
        let mut names_resources = false;
        for keyword in [intern!(py, "num_cpus"), intern!(py, "num_gpus"), intern!(py, "resources")]
        {
            names_resources |= given.get_item(keyword)?.is_some_and(|value| !value.is_none());
        }
        let (shared, own) = (Shared::read(given)?, Actor::read(given)?);
        Ok(Self { shared, own, is_async, names_resources })
    }

    /// The value of an option that the actor is made with.
    fn __getitem__<'py>(&self, py: Python<'py>, keyword: &str) -> PyResult<Bound<'py, PyAny>> {
        match keyword {
            "max_concurrency" => self.max_concurrency().into_bound_py_any(py),
            _ => match self.own.show(py, keyword)? {
                Some(value) => Ok(value),
                None => self.shared.show(py, keyword)?.ok_or_else(|| unknown(keyword)),
            },
        }
    }

    #[staticmethod]
    fn keywords() -> Vec<&'static str> {
        [Actor::KEYWORDS, Shared::KEYWORDS].concat()
    }

    /// The resources that must be free for the actor to be placed.
    #[getter]
    fn placement_resources<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        dict(py, &self.placing())
    }

    /// The resources that the actor holds while it lives.
    #[getter]
    fn resources<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        dict(py, &self.held())
    }

    /// Whether a call whose arguments are not there yet lets later ones pass.
    #[getter]
    pub(crate) fn is_unordered(&self) -> bool {
        self.is_async || self.max_concurrency() > 1 || self.own.out_of_order == Some(true)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.shared.traverse(&visit)?;
        self.own.traverse(&visit)
    }
}

impl ActorOptions {
    fn placing(&self) -> Vec<(String, f64)> {
        self.shared.needs(self.own.cpus(self.names_resources).0)
    }

    fn held(&self) -> Vec<(String, f64)> {
        self.shared.needs(self.own.cpus(self.names_resources).1)
    }

    pub(crate) fn placing_set(&self) -> ResourceSet {
        resource_set(&self.placing())
    }

    pub(crate) fn held_set(&self) -> ResourceSet {
        resource_set(&self.held())
    }

    pub(crate) fn max_concurrency(&self) -> u32 {
        self.own.max_concurrency(self.is_async)
    }
}
