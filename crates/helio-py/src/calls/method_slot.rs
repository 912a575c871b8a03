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
use super::options::{MethodOptions, Value as _};
use super::returns::Returns;

/// The template and options of one actor method: a descriptor that gives an `ActorMethod`.
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
    #[expect(clippy::too_many_arguments, reason = "keywords of the Python class, packed at once")]
    fn new(
        py: Python<'_>,
        name: String,
        full_name: String,
        options: &MethodOptions,
        check: Option<Py<PyAny>>,
        min_args: usize,
        max_args: i64,
        on_options: Option<Py<PyAny>>,
        on_bind: Option<Py<PyAny>>,
        on_reduce: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let returns = options.returns();
        let mut front = FrontOptions {
            function_name: options.own.name.clone().unwrap_or(full_name),
            is_dynamic: returns == Returns::Dynamic,
            ..FrontOptions::default()
        };
        let on_error = options.own.retry_exceptions.write(py, &mut front)?;
        let template = Template {
            kind: CallKind::Method,
            name: name.clone(),
            concurrency_group: options.own.concurrency_group.clone(),
            is_unordered: options.actor().is_unordered(),
            is_unlisted: !options.is_listed(),
            is_generator: returns == Returns::Streaming,
            backpressure: options.items_ahead(),
            front,
            ..Template::default()
        };
        Ok(Self {
            template: Arc::new(template),
            method: name,
            arity: Arity::new(check, min_args, max_args),
            returns,
            retry: Retry { max: options.max_task_retries(), on_error },
            max_pending_calls: options.actor().own.max_pending_calls,
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
        self.returns.show(py)
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
                "an actor method of something that is not a handle",
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
