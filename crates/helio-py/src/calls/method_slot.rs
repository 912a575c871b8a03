//! `MethodSlot`: what an actor method is called with, found on the handle's class.

use std::sync::Arc;

use helio_proto::template::{CallKind, FrontOptions, Template};
use helio_worker::Retry;
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::actor_handle::ActorHandleBase;
use super::actor_method::ActorMethod;
use super::arity::Arity;
use super::plan;
use super::returns::Returns;

/// What one actor method is called with: a descriptor that gives an `ActorMethod`.
#[pyclass(subclass, frozen, module = "heliostat._heliostat")]
pub(crate) struct MethodSlot {
    pub(super) template: Arc<Template>,
    pub(super) method: String,
    pub(super) arity: Arity,
    pub(super) returns: Returns,
    pub(super) retry: Retry,
    pub(super) max_pending_calls: i64,
    pub(super) on_options: Option<Py<PyAny>>,
    pub(super) on_bind: Option<Py<PyAny>>,
    pub(super) on_reduce: Option<Py<PyAny>>,
}

#[pymethods]
impl MethodSlot {
    #[new]
    #[pyo3(signature = (name, *, display_name = "", num_returns = None, max_task_retries = 0, retry_exceptions = None,
        concurrency_group = "", is_unordered = false, is_unlisted = false, backpressure = 0, max_pending_calls = -1, check = None, min_args = 0, max_args = -1,
        on_options = None, on_bind = None, on_reduce = None))]
    #[expect(clippy::too_many_arguments, reason = "keywords of the Python class, packed at once")]
    fn new(
        name: &str,
        display_name: &str,
        num_returns: Option<&Bound<'_, PyAny>>,
        max_task_retries: i32,
        retry_exceptions: Option<&Bound<'_, PyAny>>,
        concurrency_group: &str,
        is_unordered: bool,
        is_unlisted: bool,
        backpressure: u32,
        max_pending_calls: i64,
        check: Option<Py<PyAny>>,
        min_args: usize,
        max_args: i64,
        on_options: Option<Py<PyAny>>,
        on_bind: Option<Py<PyAny>>,
        on_reduce: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let returns = num_returns.map_or(Ok(Returns::Count(1)), Returns::from_python)?;
        let display_name = if display_name.is_empty() { name } else { display_name };
        let mut front = FrontOptions {
            function_name: display_name.to_owned(),
            is_dynamic: returns == Returns::Dynamic,
            ..FrontOptions::default()
        };
        let on_error = retry_exceptions
            .map_or(Ok(false), |value| plan::retry_exceptions(value, &mut front))?;
        let template = Template {
            kind: CallKind::Method,
            name: name.to_owned(),
            concurrency_group: concurrency_group.to_owned(),
            is_unordered,
            is_unlisted,
            is_generator: returns == Returns::Streaming,
            backpressure,
            front,
            ..Template::default()
        };
        Ok(Self {
            template: Arc::new(template),
            method: name.to_owned(),
            arity: Arity::new(check, min_args, max_args),
            returns,
            retry: Retry { max: max_task_retries, on_error },
            max_pending_calls,
            on_options,
            on_bind,
            on_reduce,
        })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.method
    }

    #[getter]
    fn num_returns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.returns {
            Returns::Count(count) => Ok(count.into_pyobject(py)?.into_any()),
            Returns::Streaming => Ok("streaming".into_pyobject(py)?.into_any()),
            Returns::Dynamic => Ok("dynamic".into_pyobject(py)?.into_any()),
        }
    }

    fn __get__<'py>(
        slf: &Bound<'py, Self>,
        handle: Option<&Bound<'py, PyAny>>,
        owner: Option<&Bound<'py, PyType>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = owner;
        let Some(handle) = handle.filter(|handle| !handle.is_none()) else {
            return Ok(slf.clone().into_any());
        };
        let Ok(handle) = handle.cast::<ActorHandleBase>() else {
            return Err(PyAttributeError::new_err(
                "an actor method of something that is no handle",
            ));
        };
        Ok(Self::bound(slf, handle)?.into_any())
    }

    /// The method of that handle.
    fn bound<'py>(
        slf: &Bound<'py, Self>,
        handle: &Bound<'py, ActorHandleBase>,
    ) -> PyResult<Bound<'py, ActorMethod>> {
        ActorMethod::of(handle, slf)
    }

    fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        visit.call(&self.on_options)?;
        visit.call(&self.on_bind)?;
        visit.call(&self.on_reduce)?;
        self.arity.traverse(&visit)
    }
}
