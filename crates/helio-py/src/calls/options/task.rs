//! The options of a task, each given or by default.

use helio_types::ResourceSet;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{IntoPyObjectExt as _, PyTraverseError, PyVisit};

use super::common::{dict, resource_set, unknown};
use super::table::{self, Shared, Task};
use super::value::Value as _;
use crate::calls::returns::Returns;

/// The options of a task, each given or by default.
#[pyclass(frozen, module = "heliostat._heliostat")]
pub(crate) struct TaskOptions {
    pub(crate) shared: Shared,
    pub(crate) own: Task,
    is_generator: bool,
}

#[pymethods]
impl TaskOptions {
    #[new]
    fn new(given: &Bound<'_, PyDict>, is_generator: bool) -> PyResult<Self> {
        Ok(Self { shared: Shared::read(given)?, own: Task::read(given)?, is_generator })
    }

    /// The value of an option that calls are made with.
    fn __getitem__<'py>(&self, py: Python<'py>, keyword: &str) -> PyResult<Bound<'py, PyAny>> {
        match keyword {
            "max_calls" => self.max_calls().into_bound_py_any(py),
            "max_retries" => self.own.max_retries()?.into_bound_py_any(py),
            "num_returns" => self.returns().show(py),
            _ => match self.own.show(py, keyword)? {
                Some(value) => Ok(value),
                None => self.shared.show(py, keyword)?.ok_or_else(|| unknown(keyword)),
            },
        }
    }

    #[staticmethod]
    fn keywords() -> Vec<&'static str> {
        [Task::KEYWORDS, Shared::KEYWORDS].concat()
    }

    /// The resources that a call holds while it runs.
    #[getter]
    fn resources<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        dict(py, &self.shared.needs(self.own.num_cpus))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.shared.traverse(&visit)?;
        self.own.traverse(&visit)
    }
}

impl TaskOptions {
    pub(crate) fn returns(&self) -> Returns {
        table::returns(self.own.num_returns, self.is_generator)
    }

    pub(crate) fn max_calls(&self) -> u32 {
        self.own.max_calls(&self.shared)
    }

    /// Returns the number of items that a generator may be ahead of its reader; 0: no bound.
    pub(crate) fn items_ahead(&self) -> u32 {
        table::items_ahead(self.own.backpressure)
    }

    /// Returns the number of items in each value of a generator; 0: the value is the item.
    pub(crate) fn per_yield(&self) -> u32 {
        if self.own.per_yield > 1 { self.own.per_yield } else { 0 }
    }

    pub(crate) fn resource_set(&self) -> ResourceSet {
        resource_set(&self.shared.needs(self.own.num_cpus))
    }

    /// The name that was given to the calls.
    pub(crate) fn name(&self) -> Option<&String> {
        self.shared.name.as_ref().filter(|name| !name.is_empty())
    }
}
