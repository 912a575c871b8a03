//! `TaskCaller`: `.remote` of one function with one set of options.

use std::sync::Arc;

use helio_proto::node::LeaseClass;
use helio_proto::template::{CallKind, FrontOptions, Template};
use helio_types::ResourceSet;
use helio_worker::Retry;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::arity::Arity;
use super::plan::Plan;
use super::returns::Returns;
use crate::codec::args::{Passed, pack};
use crate::errors;
use crate::session::{self, Session};

/// `.remote` of one function with one set of options.
#[pyclass(frozen, module = "heliostat._heliostat")]
pub(crate) struct TaskCaller {
    prepare: Py<PyAny>,
    arity: Arity,
    /// Replaced under the GIL; the lock is held for no wait.
    ready: Mutex<Option<Arc<Ready>>>,
}

/// What all calls share until the session or the captured placement group changes.
struct Ready {
    epoch: u32,
    template: Arc<Template>,
    class: Arc<LeaseClass>,
    returns: Returns,
    retry: Retry,
}

#[pymethods]
impl TaskCaller {
    #[new]
    #[pyo3(signature = (prepare, check = None, min_args = 0, max_args = -1))]
    fn new(prepare: Py<PyAny>, check: Option<Py<PyAny>>, min_args: usize, max_args: i64) -> Self {
        Self { prepare, arity: Arity::new(check, min_args, max_args), ready: Mutex::new(None) }
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
        let packed = pack(&session, &Passed { args, kwargs, name: &ready.template.name })?;
        let returns = ready.returns;
        let ids = session
            .runtime
            .submit(&ready.template, &ready.class, packed.args, returns.on_wire(), ready.retry)
            .map_err(|error| errors::raise(py, error))?;
        returns.to_python(py, &ids, session.epoch)
    }

    fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        visit.call(&self.prepare)?;
        self.arity.traverse(&visit)
    }
}

impl TaskCaller {
    fn ready(&self, py: Python<'_>, session: &Session) -> PyResult<Arc<Ready>> {
        let epoch = session::plans_epoch();
        if let Some(ready) = self.ready.lock().as_ref().filter(|ready| ready.epoch == epoch) {
            return Ok(Arc::clone(ready));
        }
        let plan = self.prepare.bind(py).call0()?;
        let ready = Arc::new(Ready::of(&Plan(plan.cast::<PyDict>()?), session, epoch)?);
        *self.ready.lock() = Some(Arc::clone(&ready));
        Ok(ready)
    }
}

impl Ready {
    fn of(plan: &Plan<'_, '_>, session: &Session, epoch: u32) -> PyResult<Self> {
        let function = plan.definition("function")?;
        let function = function.get();
        let name: String = plan.or("name", "function".to_owned())?;
        let returns = plan
            .find("num_returns")?
            .map_or(Ok(Returns::Count(1)), |value| Returns::from_python(&value))?;
        let mut resources = plan.resources("resources")?;
        if plan.find("resources")?.is_none() {
            resources = ResourceSet::from_units([("CPU", 1.0)]);
        }
        let strategy = plan.strategy()?;
        let runtime_env = plan.runtime_env()?;
        let mut front = FrontOptions {
            function_name: plan.or("function_name", name.clone())?,
            placement_group: strategy.placement_group,
            capture_children: strategy.capture_children,
            runtime_env: runtime_env.document.clone(),
            is_dynamic: returns == Returns::Dynamic,
            per_yield: plan.or("per_yield", 0)?,
            ..FrontOptions::default()
        };
        let on_error = plan.retry_exceptions(&mut front)?;
        let max_calls: u32 = plan.or("max_calls", 0)?;
        let template = Template {
            kind: CallKind::Task,
            function_id: function.id.clone(),
            function: function.pickle.clone(),
            name: name.clone(),
            max_calls,
            is_generator: returns == Returns::Streaming,
            backpressure: plan.or("backpressure", 0)?,
            front,
            is_unlisted: plan.or("is_unlisted", false)?,
            ..Template::default()
        };
        let class = LeaseClass {
            job_id: session.runtime.job().job_id,
            exclusive: max_calls > 0 || resources.get("GPU").0 > 0,
            resources,
            strategy,
            runtime_env,
            name,
        };
        let retry = Retry { max: plan.or("max_retries", 3)?, on_error };
        Ok(Self { epoch, template: Arc::new(template), class: Arc::new(class), returns, retry })
    }
}
