//! The options of an actor's method, each given, the actor's, or by default.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{IntoPyObjectExt as _, PyTraverseError, PyVisit};

use super::actor::ActorOptions;
use super::common::unknown;
use super::table::{self, Method};
use super::value::Value as _;
use crate::calls::returns::Returns;

/// The options of an actor's method, each given, the actor's, or by default.
#[pyclass(frozen, module = "heliostat._heliostat")]
pub(crate) struct MethodOptions {
    pub(crate) own: Method,
    actor: Py<ActorOptions>,
    is_generator: bool,
}

#[pymethods]
impl MethodOptions {
    #[new]
    fn new(
        given: &Bound<'_, PyDict>,
        actor: Py<ActorOptions>,
        is_generator: bool,
    ) -> PyResult<Self> {
        Ok(Self { own: Method::read(given)?, actor, is_generator })
    }

    /// The value of an option that calls are made with.
    fn __getitem__<'py>(&self, py: Python<'py>, keyword: &str) -> PyResult<Bound<'py, PyAny>> {
        match keyword {
            "num_returns" => self.returns().show(py),
            "max_task_retries" => self.max_task_retries().into_bound_py_any(py),
            "_generator_backpressure_num_objects" => self.backpressure().into_bound_py_any(py),
            "enable_task_events" => self.is_listed().into_bound_py_any(py),
            _ => self.own.show(py, keyword)?.ok_or_else(|| unknown(keyword)),
        }
    }

    #[staticmethod]
    fn keywords() -> Vec<&'static str> {
        Method::KEYWORDS.to_vec()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.actor)?;
        self.own.traverse(&visit)
    }
}

impl MethodOptions {
    pub(crate) fn actor(&self) -> &ActorOptions {
        self.actor.get()
    }

    pub(crate) fn returns(&self) -> Returns {
        table::returns(self.own.num_returns, self.is_generator)
    }

    pub(crate) fn max_task_retries(&self) -> i32 {
        self.own.max_task_retries.unwrap_or(self.actor().own.max_task_retries)
    }

    /// Returns the number of items that a generator may be ahead of its reader; 0: no bound.
    pub(crate) fn items_ahead(&self) -> u32 {
        table::items_ahead(self.backpressure())
    }

    /// Whether those who list tasks are told of its calls.
    pub(crate) fn is_listed(&self) -> bool {
        self.own.enable_task_events.unwrap_or(self.actor().shared.enable_task_events)
    }

    fn backpressure(&self) -> i64 {
        self.own.backpressure.unwrap_or(self.actor().own.backpressure)
    }
}
