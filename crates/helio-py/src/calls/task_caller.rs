//! `TaskCaller`: `.remote` of one function with one set of options.

use std::sync::Arc;

use helio_proto::node::LeaseClass;
use helio_proto::template::{CallKind, FrontOptions, Template};
use helio_worker::Retry;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::arity::Arity;
use super::options::{Placement, TaskOptions};
use super::plan::Plan;
use super::returns::Returns;
use super::spans::{self, Called};
use crate::codec::args::{Passed, pack};
use crate::errors;
use crate::session::{self, Session};

/// `.remote` of one function with one set of options.
#[pyclass(frozen, module = "heliostat._heliostat")]
pub(crate) struct TaskCaller {
    options: Py<TaskOptions>,
    placement: Py<Placement>,
    prepare: Py<PyAny>,
    arity: Arity,
    /// Replaced under the GIL; the lock is held for no wait.
    ready: Mutex<Option<Arc<Ready>>>,
}

/// The parts that all calls share until the session or the captured placement group changes.
struct Ready {
    /// The epochs of the session and of plans.
    epochs: (u32, u32),
    template: Arc<Template>,
    class: Arc<LeaseClass>,
    returns: Returns,
    retry: Retry,
}

#[pymethods]
impl TaskCaller {
    #[new]
    fn new(
        options: Py<TaskOptions>,
        placement: Py<Placement>,
        prepare: Py<PyAny>,
        check: Option<Py<PyAny>>,
        min_args: usize,
        max_args: i64,
    ) -> Self {
        let arity = Arity::new(check, min_args, max_args);
        Self { options, placement, prepare, arity, ready: Mutex::new(None) }
    }

    /// Submit a call.
    #[pyo3(signature = (*args, **kwargs))]
    fn remote<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let session = session::active(py)?;
        let ready = self.ready(py, &session)?;
        self.arity.check(args, kwargs)?;
        let called = || Called::Function(&ready.template.front.function_name);
        let spanned = spans::begin(py, called, kwargs)?;
        let kwargs = spanned.as_ref().map(|spanned| &spanned.kwargs).or(kwargs);
        let packed = pack(&session, &Passed { args, kwargs, name: &ready.template.name })?;
        let returns = ready.returns;
        let ids = session
            .runtime
            .submit(&ready.template, &ready.class, packed.args, returns.on_wire(), ready.retry)
            .map_err(|error| errors::raise(py, error))?;
        returns.to_python(py, &ids, session.epoch)
    }

    fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        visit.call(&self.options)?;
        visit.call(&self.prepare)?;
        self.arity.traverse(&visit)
    }
}

impl TaskCaller {
    fn ready(&self, py: Python<'_>, session: &Session) -> PyResult<Arc<Ready>> {
        let epochs = (session.epoch, session::plans_epoch());
        if let Some(ready) = self.ready.lock().as_ref().filter(|ready| ready.epochs == epochs) {
            return Ok(Arc::clone(ready));
        }
        let plan = self.prepare.bind(py).call0()?;
        let ready = Arc::new(self.settle(py, &Plan(plan.cast::<PyDict>()?), session, epochs)?);
        *self.ready.lock() = Some(Arc::clone(&ready));
        Ok(ready)
    }

    fn settle(
        &self,
        py: Python<'_>,
        plan: &Plan<'_, '_>,
        session: &Session,
        epochs: (u32, u32),
    ) -> PyResult<Ready> {
        let options = self.options.get();
        let function = plan.definition("function")?;
        let function = function.get();
        let name = match options.name() {
            Some(name) => name.clone(),
            None => plan.text("name")?,
        };
        let returns = options.returns();
        let strategy = self.placement.get().strategy();
        let runtime_env = plan.runtime_env()?;
        let mut front = FrontOptions {
            function_name: plan.text("function_name")?,
            placement_group: strategy.placement_group,
            capture_children: strategy.capture_children,
            runtime_env: runtime_env.document.clone(),
            is_dynamic: returns == Returns::Dynamic,
            per_yield: options.per_yield(),
            ..FrontOptions::default()
        };
        let on_error = options.own.retry_exceptions.write(py, &mut front)?;
        let max_calls = options.max_calls();
        let template = Template {
            kind: CallKind::Task,
            function_id: function.id.clone(),
            function: function.pickle.clone(),
            name: name.clone(),
            max_calls,
            is_generator: returns == Returns::Streaming,
            backpressure: options.items_ahead(),
            front,
            is_unlisted: !options.shared.enable_task_events,
            ..Template::default()
        };
        let resources = options.resource_set();
        let class = LeaseClass {
            job_id: session.runtime.job().job_id,
            // A device is lent for one call, and a worker that counts its calls may end after any
            // of them.
            exclusive: max_calls > 0 || resources.get("GPU").0 > 0,
            resources,
            strategy,
            runtime_env,
            name,
        };
        let retry = Retry { max: options.own.max_retries()?, on_error };
        Ok(Ready { epochs, template: Arc::new(template), class: Arc::new(class), returns, retry })
    }
}
