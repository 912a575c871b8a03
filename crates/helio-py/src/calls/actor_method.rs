//! Actor methods: `MethodSlot`, what a method is called with, found on the handle's class; and `ActorMethod`, a method of
//! one handle.

use std::sync::Arc;

use helio_proto::template::{CallKind, FrontOptions, Template};
use helio_worker::Retry;
use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};

use super::actor_handle::ActorHandleBase;
use super::arity::Arity;
use super::options::{MethodOptions, Value as _};
use super::returns::Returns;
use super::spans::{self, Called};
use crate::codec::args::{Passed, pack};
use crate::{errors, exceptions, session};

/// The template and options of one actor method: a descriptor that gives an `ActorMethod`.
#[pyclass(subclass, frozen, module = "heliostat._heliostat")]
pub(crate) struct MethodSlot {
    template: Arc<Template>,
    method: String,
    arity: Arity,
    returns: Returns,
    retry: Retry,
    max_pending_calls: i64,
    on_options: Option<Py<PyAny>>,
    on_bind: Option<Py<PyAny>>,
    on_reduce: Option<Py<PyAny>>,
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

/// A method of an actor's handle. It keeps the handle; called without ``.remote`` it raises TypeError.
///
/// Examples:
///     >>> import ray
///     >>> @ray.remote
///     ... class Counter:
///     ...     def __init__(self):
///     ...         self.n = 0
///     ...     def add(self, n):
///     ...         self.n += n
///     ...         return self.n
///     >>> add = Counter.remote().add
///     >>> isinstance(add, ray.actor.ActorMethod)
///     True
///     >>> ray.get([add.remote(1), add.options(name="more").remote(2)])
///     [1, 3]
#[pyclass(frozen, freelist = 64, module = "heliostat._heliostat")]
pub(crate) struct ActorMethod {
    handle: Py<ActorHandleBase>,
    slot: Py<MethodSlot>,
}

impl ActorMethod {
    fn of<'py>(
        handle: &Bound<'py, ActorHandleBase>,
        slot: &Bound<'py, MethodSlot>,
    ) -> PyResult<Bound<'py, Self>> {
        Bound::new(
            handle.py(),
            Self { handle: handle.clone().unbind(), slot: slot.clone().unbind() },
        )
    }
}

#[pymethods]
impl ActorMethod {
    #[getter]
    fn handle(&self, py: Python<'_>) -> Py<ActorHandleBase> {
        self.handle.clone_ref(py)
    }

    #[getter]
    fn slot(&self, py: Python<'_>) -> Py<MethodSlot> {
        self.slot.clone_ref(py)
    }

    #[getter]
    fn _method_name(&self, py: Python<'_>) -> String {
        self.slot.bind(py).get().method.clone()
    }

    /// The answer of `inspect.signature`: any arguments.
    #[getter]
    fn __signature__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("heliostat.core.calls.signature")?.getattr("ANY")
    }

    /// Call the method. Returns at once; calls of one caller run in the order in which they were made.
    ///
    /// Args:
    ///     *args: Positional arguments. References among them become values.
    ///     **kwargs: Keyword arguments.
    ///
    /// Returns:
    ///     A reference, a list of as many as ``num_returns`` says, ``None`` for 0, or a generator of
    ///     references.
    ///
    /// Raises:
    ///     TypeError: The arguments do not fit the method.
    ///     PendingCallsLimitExceeded: ``max_pending_calls`` calls of the handle have not ended.
    #[pyo3(signature = (*args, **kwargs))]
    pub(crate) fn remote<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let session = session::active(py)?;
        let slot = self.slot.bind(py).get();
        let actor = self.handle.bind(py).get().id_in(py, &session)?;
        slot.arity.check(args, kwargs)?;
        // A negative number means no limit.
        if let Ok(max) = usize::try_from(slot.max_pending_calls)
            && max > 0
            && session.runtime.actor_pending_calls(actor) >= max
        {
            let message = format!(
                "The task {} could not be submitted to the actor {} because more than {max} calls are queued on it. \
                 This limit can be adjusted with the `max_pending_calls` actor option.",
                slot.method,
                actor.hex()
            );
            return Err(exceptions::named(py, "PendingCallsLimitExceeded", &message));
        }
        let called = || Called::Method(&slot.template.front.function_name, actor.hex());
        let spanned = spans::begin(py, called, kwargs)?;
        let kwargs = spanned.as_ref().map(|spanned| &spanned.kwargs).or(kwargs);
        let packed = pack(&session, &Passed { args, kwargs, name: &slot.method })?;
        let ids = session
            .runtime
            .call_actor(actor, &slot.template, packed.args, slot.returns.on_wire(), slot.retry)
            .map_err(|error| errors::raise(py, error))?;
        slot.returns.to_python(py, &ids, session.epoch)
    }

    /// The same method with other options.
    ///
    /// Args:
    ///     **options: ``num_returns``, ``name``, ``concurrency_group``, ``max_task_retries``,
    ///         ``retry_exceptions`` and ``enable_task_events``, as of ``ray.method``.
    ///
    /// Returns:
    ///     What has ``remote(...)`` and ``bind(...)``, with these options.
    #[pyo3(signature = (**options))]
    fn options<'py>(
        slf: &Bound<'py, Self>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        match &slf.get().slot.bind(py).get().on_options {
            Some(hook) => hook.bind(py).call((slf,), options),
            None => Err(PyAttributeError::new_err("this method has no options")),
        }
    }

    /// A node of a graph that calls the method when the graph is executed.
    ///
    /// Args:
    ///     *args: Positional arguments, which may be nodes.
    ///     **kwargs: Keyword arguments, likewise.
    ///
    /// Returns:
    ///     A node.
    #[pyo3(signature = (*args, **kwargs))]
    fn bind<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let kwargs = kwargs.cloned().unwrap_or_else(|| PyDict::new(py));
        match &slf.get().slot.bind(py).get().on_bind {
            Some(hook) => hook.bind(py).call1((slf, args, kwargs)),
            None => Err(PyAttributeError::new_err("this method cannot be bound")),
        }
    }

    #[pyo3(signature = (*args, **kwargs))]
    fn __call__(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let _ = (args, kwargs);
        let name = &self.slot.bind(py).get().method;
        Err(PyTypeError::new_err(format!(
            "Actor methods cannot be called directly. Instead of running 'object.{name}()', try \
             'object.{name}.remote()'."
        )))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        match &slf.get().slot.bind(py).get().on_reduce {
            Some(hook) => hook.bind(py).call1((slf,)),
            None => Err(PyTypeError::new_err("this method cannot be pickled")),
        }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let handle = self.handle.bind(py).repr()?;
        Ok(format!("ActorMethod({}, {handle})", self.slot.bind(py).get().method))
    }
}
