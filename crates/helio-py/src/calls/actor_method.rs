//! `ActorMethod`: `handle.method`.

use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::actor_handle::ActorHandleBase;
use super::method_slot::MethodSlot;
use super::spans::{self, Called};
use crate::codec::args::{Passed, pack};
use crate::{errors, session};

/// A method of an actor's handle. It keeps the handle; called without ``.remote`` it raises TypeError.
#[pyclass(frozen, freelist = 64, module = "heliostat._heliostat")]
pub(crate) struct ActorMethod {
    handle: Py<ActorHandleBase>,
    slot: Py<MethodSlot>,
}

impl ActorMethod {
    pub(super) fn of<'py>(
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
            return Err(errors::named(py, "PendingCallsLimitExceeded", &message));
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
