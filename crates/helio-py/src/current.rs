//! What runs here: the present call of each thread, and the actor that the process is.
//!
//! Only pointers are set per call; the dictionary is made when somebody asks.

use std::cell::RefCell;
use std::sync::Arc;

use helio_proto::control::{ActorSpec, Strategy, StrategyKind};
use helio_proto::peer::Template;
use helio_types::{Assigned, PlacementGroupId, TaskId};
use helio_worker::Lease;
use parking_lot::RwLock;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::calls::Extra;
use crate::worker::{RunningCall, devices};
use crate::{rows, session};

/// A call that runs here.
pub(crate) struct Running {
    pub(crate) task: TaskId,
    pub(crate) template: Arc<Template>,
    pub(crate) extra: Arc<Extra>,
    pub(crate) attempt: u32,
    /// `None` for methods.
    pub(crate) lease: Option<Arc<Lease>>,
}

/// The actor that this process is.
pub(crate) struct Actor {
    pub(crate) spec: ActorSpec,
    pub(crate) extra: Extra,
    pub(crate) incarnation: u32,
    pub(crate) assigned: Assigned,
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Running>>> = const { RefCell::new(None) };
}

/// What the main thread runs: for threads that user code starts.
static MAIN: RwLock<Option<Arc<Running>>> = RwLock::new(None);
static ACTOR: RwLock<Option<Arc<Actor>>> = RwLock::new(None);
static INSTANCE: RwLock<Option<Py<PyAny>>> = RwLock::new(None);
/// In an async actor, the `ContextVar` that holds the task's `RunningCall`.
static VARIABLE: RwLock<Option<Py<PyAny>>> = RwLock::new(None);

/// Makes `running` the present call of this thread until the guard goes.
pub(crate) fn enter(running: Arc<Running>, on_main: bool) -> Scope {
    if on_main {
        *MAIN.write() = Some(Arc::clone(&running));
    }
    let before = CURRENT.with_borrow_mut(|current| current.replace(running));
    Scope { before }
}

/// See [`enter`].
pub(crate) struct Scope {
    before: Option<Arc<Running>>,
}

impl Drop for Scope {
    fn drop(&mut self) {
        let before = self.before.take();
        CURRENT.with_borrow_mut(|current| *current = before);
    }
}

/// The present call, as seen from this thread.
pub(crate) fn running(py: Python<'_>) -> Option<Arc<Running>> {
    let variable = VARIABLE.read().as_ref().map(|variable| variable.clone_ref(py));
    if let Some(variable) = variable
        && let Ok(call) = variable.bind(py).call_method1(intern!(py, "get"), (py.None(),))
        && let Ok(call) = call.cast::<RunningCall>()
    {
        return Some(call.get().running());
    }
    CURRENT.with_borrow(Clone::clone).or_else(|| MAIN.read().clone())
}

/// The name that the log shows for what is printed now.
pub(crate) fn display_name() -> Option<Arc<Template>> {
    CURRENT
        .with_borrow(Clone::clone)
        .or_else(|| MAIN.read().clone())
        .map(|running| Arc::clone(&running.template))
}

pub(crate) fn actor() -> Option<Arc<Actor>> {
    ACTOR.read().clone()
}

/// The process has become an actor.
pub(crate) fn become_actor(actor: Arc<Actor>) {
    *ACTOR.write() = Some(actor);
}

pub(crate) fn set_instance(instance: Py<PyAny>) {
    let old = INSTANCE.write().replace(instance);
    drop(old);
}

pub(crate) fn instance(py: Python<'_>) -> Option<Py<PyAny>> {
    INSTANCE.read().as_ref().map(|instance| instance.clone_ref(py))
}

/// Where a call goes that names no place itself: into its parent's placement group, if that captures.
pub(crate) fn placed(strategy: Strategy) -> Strategy {
    if strategy.kind != StrategyKind::Default as u32 {
        return strategy;
    }
    let of_call =
        CURRENT.with_borrow(|current| current.as_ref().map(|running| captured(&running.extra)));
    let group = of_call.flatten().or_else(|| actor().and_then(|actor| captured(&actor.extra)));
    match group {
        Some(placement_group) => Strategy {
            kind: StrategyKind::PlacementGroup as u32,
            placement_group,
            bundle: -1,
            capture_children: true,
            ..strategy
        },
        None => strategy,
    }
}

/// The group that children go into.
pub(crate) fn captured(extra: &Extra) -> Option<PlacementGroupId> {
    if !extra.capture_children {
        return None;
    }
    PlacementGroupId::from_hex(&extra.placement_group).ok()
}

/// The `ContextVar` that tells an async actor's calls apart.
#[pyfunction]
pub(crate) fn _set_call_variable(variable: Py<PyAny>) {
    let old = VARIABLE.write().replace(variable);
    drop(old);
}

/// A `plans.Current`.
#[pyfunction]
pub(crate) fn current(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let session = session::active(py)?;
    let (running, actor) = (running(py), actor());
    let job = session.runtime.job();
    let dict = PyDict::new(py);
    dict.set_item("is_driver", session.is_driver)?;
    dict.set_item("job_id", job.job_id.hex())?;
    dict.set_item("task_id", running.as_ref().map(|running| running.task.hex()))?;
    let name = running.as_ref().map(|running| shown_name(running, actor.as_deref()));
    dict.set_item("task_name", name)?;
    dict.set_item(
        "function_name",
        running.as_ref().map(|running| running.extra.function_name.clone()),
    )?;
    dict.set_item("actor_id", actor.as_ref().map(|actor| actor.spec.actor_id.hex()))?;
    dict.set_item("actor_name", actor.as_ref().map(|actor| actor.spec.name.clone()))?;
    dict.set_item("actor_class", actor.as_ref().map(|actor| actor.spec.class_name.clone()))?;
    dict.set_item("attempt", running.as_ref().map_or(0, |running| running.attempt))?;
    let lease = running.as_ref().and_then(|running| running.lease.clone());
    let assigned = match (&actor, &lease) {
        (Some(actor), _) => actor.assigned.clone(),
        (None, Some(lease)) => lease.assigned.clone(),
        (None, None) => Assigned::default(),
    };
    dict.set_item("resources", rows::resources(py, &assigned.resources)?)?;
    dict.set_item("gpu_ids", devices::shown(py, &assigned.gpus)?)?;
    let extra = match (&actor, &running) {
        (Some(actor), _) => actor.extra.clone(),
        (None, Some(running)) => (*running.extra).clone(),
        (None, None) => Extra::default(),
    };
    dict.set_item("placement_group_id", Some(extra.placement_group).filter(|id| !id.is_empty()))?;
    dict.set_item("capture_children", extra.capture_children)?;
    let runtime_env =
        if extra.runtime_env.is_empty() { job.runtime_env } else { extra.runtime_env };
    dict.set_item("runtime_env", runtime_env)?;
    dict.set_item("namespace", session.namespace())?;
    let is_canceled =
        running.as_ref().is_some_and(|running| session.runtime.is_cancelled(running.task));
    dict.set_item("is_canceled", is_canceled)?;
    dict.set_item("reconstructed", actor.is_some_and(|actor| actor.incarnation > 0))?;
    Ok(dict)
}

/// `Class.method`, or what the option `name` says.
fn shown_name(running: &Running, actor: Option<&Actor>) -> String {
    match actor {
        Some(_) if !running.extra.function_name.is_empty() => running.extra.function_name.clone(),
        _ => running.template.name.clone(),
    }
}

/// The instance that this process is.
#[pyfunction]
pub(crate) fn current_actor(py: Python<'_>) -> Option<Py<PyAny>> {
    instance(py)
}

/// The `handle` bytes that this actor was created with.
#[pyfunction]
pub(crate) fn current_actor_handle(py: Python<'_>) -> PyResult<Bound<'_, PyBytes>> {
    match actor() {
        Some(actor) => Ok(PyBytes::new(py, &actor.spec.handle)),
        None => Err(PyTypeError::new_err("this process is not an actor")),
    }
}
