//! The present call of each thread, and the actor that the process is.
//!
//! Only pointers are set per call; the dictionary is made when somebody asks.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use helio_proto::control::{ActorSpec, Strategy, StrategyKind};
use helio_proto::template::{CallKind, FrontOptions, Template};
use helio_types::{Assigned, PlacementGroupId, TaskId};
use helio_worker::Lease;
use parking_lot::RwLock;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::rows;
use crate::session::{self, Session};
use crate::worker::devices;

/// A call that runs here.
pub(crate) struct Running {
    pub(crate) task: TaskId,
    pub(crate) template: Arc<Template>,
    /// `None` for methods.
    pub(crate) lease: Option<Arc<Lease>>,
    /// Whether the call has called `exit_actor()`: its caller learns that the actor has ended, whatever the call
    /// returns.
    left: AtomicBool,
}

impl Running {
    pub(crate) fn new(
        task: TaskId,
        template: Arc<Template>,
        lease: Option<Arc<Lease>>,
    ) -> Arc<Self> {
        Arc::new(Self { task, template, lease, left: AtomicBool::new(false) })
    }

    pub(crate) fn leave(&self) {
        self.left.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }

    fn is_constructor(&self) -> bool {
        self.template.kind == CallKind::Constructor
    }
}

/// The value in the `ContextVar` of an async actor: the base of `_RunningCall`.
#[pyclass(frozen, subclass, name = "_PresentCall", module = "heliostat._heliostat")]
pub(crate) struct PresentCall {
    running: Arc<Running>,
}

impl PresentCall {
    pub(crate) fn new(running: Arc<Running>) -> Self {
        Self { running }
    }
}

/// The actor that this process is.
pub(crate) struct Actor {
    pub(crate) spec: ActorSpec,
    pub(crate) template: Arc<Template>,
    pub(crate) incarnation: u32,
    pub(crate) assigned: Assigned,
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Running>>> = const { RefCell::new(None) };
}

/// The call that the main thread runs: for threads that user code starts.
static MAIN: RwLock<Option<Arc<Running>>> = RwLock::new(None);
static ACTOR: RwLock<Option<Arc<Actor>>> = RwLock::new(None);
static INSTANCE: RwLock<Option<Py<PyAny>>> = RwLock::new(None);
/// In an async actor, the `ContextVar` that holds the task's [`PresentCall`].
static VARIABLE: RwLock<Option<Py<PyAny>>> = RwLock::new(None);

/// Makes `running` the present call of this thread until the guard goes.
pub(crate) fn enter(running: Arc<Running>, on_main: bool) -> Scope {
    if on_main {
        *MAIN.write() = Some(Arc::clone(&running));
    }
    let before = CURRENT.with_borrow_mut(|current| current.replace(running));
    Scope { before }
}

/// The time for which a call is current; see [`enter`].
pub(crate) struct Scope {
    before: Option<Arc<Running>>,
}

impl Drop for Scope {
    fn drop(&mut self) {
        let before = self.before.take();
        CURRENT.with_borrow_mut(|current| *current = before);
    }
}

/// The present call, as seen from this thread, which may be one that user code has started.
pub(crate) fn running(py: Python<'_>) -> Option<Arc<Running>> {
    running_here(py).or_else(|| MAIN.read().clone())
}

/// The call that this thread or asyncio task runs.
pub(crate) fn running_here(py: Python<'_>) -> Option<Arc<Running>> {
    let variable = VARIABLE.read().as_ref().map(|variable| variable.clone_ref(py));
    if let Some(variable) = variable
        && let Ok(call) = variable.bind(py).call_method1(intern!(py, "get"), (py.None(),))
        && let Ok(call) = call.cast::<PresentCall>()
    {
        return Some(Arc::clone(&call.get().running));
    }
    CURRENT.with_borrow(Clone::clone)
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

/// The process ends: the actor is to go before the interpreter does, so that its `__del__` runs.
#[pyfunction]
pub(crate) fn _drop_actor() {
    let old = INSTANCE.write().take();
    drop(old);
}

pub(crate) fn instance(py: Python<'_>) -> Option<Py<PyAny>> {
    INSTANCE.read().as_ref().map(|instance| instance.clone_ref(py))
}

/// Returns the strategy of a call that names no place itself: its parent's placement group, if that
/// captures.
pub(crate) fn placed(strategy: Strategy) -> Strategy {
    if strategy.kind != StrategyKind::Default {
        return strategy;
    }
    let of_call = CURRENT
        .with_borrow(|current| current.as_ref().map(|running| captured(&running.template.front)));
    let group =
        of_call.flatten().or_else(|| actor().and_then(|actor| captured(&actor.template.front)));
    match group {
        Some(placement_group) => Strategy {
            kind: StrategyKind::PlacementGroup,
            placement_group,
            bundle: -1,
            capture_children: true,
            ..strategy
        },
        None => strategy,
    }
}

/// The group that children go into.
pub(crate) fn captured(front: &FrontOptions) -> Option<PlacementGroupId> {
    (front.capture_children && !front.placement_group.is_nil()).then_some(front.placement_group)
}

/// The `ContextVar` that tells an async actor's calls apart.
#[pyfunction]
pub(crate) fn _set_call_variable(variable: Py<PyAny>) {
    let old = VARIABLE.write().replace(variable);
    drop(old);
}

/// The running call, or the driver, at the moment that it was asked for; a fact is made when it is read.
///
/// Ids are hex, or `None` where there is none.
#[pyclass(frozen, module = "heliostat._heliostat")]
pub(crate) struct Current {
    session: Arc<Session>,
    running: Option<Arc<Running>>,
    actor: Option<Arc<Actor>>,
}

#[pyfunction]
pub(crate) fn current(py: Python<'_>) -> PyResult<Current> {
    Ok(Current { session: session::active(py)?, running: running(py), actor: actor() })
}

impl Current {
    fn front(&self) -> Option<&FrontOptions> {
        match (&self.actor, &self.running) {
            (Some(actor), _) => Some(&actor.template.front),
            (None, Some(running)) => Some(&running.template.front),
            (None, None) => None,
        }
    }

    fn assigned(&self) -> Assigned {
        let lease = self.running.as_ref().and_then(|running| running.lease.as_ref());
        match (&self.actor, lease) {
            (Some(actor), _) => actor.assigned.clone(),
            (None, Some(lease)) => lease.assigned.clone(),
            (None, None) => Assigned::default(),
        }
    }
}

#[pymethods]
impl Current {
    #[getter]
    fn is_driver(&self) -> bool {
        self.session.is_driver
    }

    #[getter]
    fn task_id(&self) -> Option<String> {
        self.running.as_ref().map(|running| running.task.hex())
    }

    /// `Class.method`, or what the option `name` says; of a constructor `name:Class.__init__`.
    #[getter]
    fn task_name(&self) -> Option<String> {
        let running = self.running.as_ref()?;
        Some(match &self.actor {
            None => running.template.name.clone(),
            Some(actor) if running.is_constructor() => {
                let (name, class) = (&actor.spec.name, &actor.spec.class_name);
                let separator = if name.is_empty() { "" } else { ":" };
                format!("{name}{separator}{class}.__init__")
            }
            Some(_) if running.template.front.function_name.is_empty() => {
                running.template.name.clone()
            }
            Some(_) => running.template.front.function_name.clone(),
        })
    }

    /// `module.function`, of an actor `module.Class.method`, whatever the option `name` says.
    #[getter]
    fn function_name(&self) -> Option<String> {
        let running = self.running.as_ref()?;
        Some(match &self.actor {
            None => running.template.front.function_name.clone(),
            Some(actor) => {
                let (module, class) = (&actor.template.front.module, &actor.spec.class_name);
                let separator = if module.is_empty() { "" } else { "." };
                let method =
                    if running.is_constructor() { "__init__" } else { &running.template.name };
                format!("{module}{separator}{class}.{method}")
            }
        })
    }

    #[getter]
    fn actor_id(&self) -> Option<String> {
        self.actor.as_ref().map(|actor| actor.spec.actor_id.hex())
    }

    #[getter]
    fn actor_name(&self) -> Option<&str> {
        self.actor.as_ref().map(|actor| actor.spec.name.as_str())
    }

    #[getter]
    fn actor_class(&self) -> Option<&str> {
        self.actor.as_ref().map(|actor| actor.spec.class_name.as_str())
    }

    #[getter]
    fn resources<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        rows::resources(py, &self.assigned().resources)
    }

    #[getter]
    fn gpu_ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(devices::gpus(py, &self.assigned().devices)?.into_any())
    }

    /// Devices by their kind.
    #[getter]
    fn accelerator_ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        devices::by_kind(py, &self.assigned().devices)
    }

    #[getter]
    fn placement_group_id(&self) -> Option<String> {
        let group = self.front().map(|front| front.placement_group);
        group.filter(|group| !group.is_nil()).map(|group| group.hex())
    }

    #[getter]
    fn capture_children(&self) -> bool {
        self.front().is_some_and(|front| front.capture_children)
    }

    /// The document of the runtime environment; empty: none.
    #[getter]
    fn runtime_env(&self) -> String {
        match self.front().map(|front| &front.runtime_env).filter(|env| !env.is_empty()) {
            Some(of_call) => of_call.clone(),
            None => self.session.runtime.job().runtime_env.document,
        }
    }

    #[getter]
    fn namespace(&self) -> String {
        self.session.namespace()
    }

    /// Whether somebody has cancelled the call.
    #[getter]
    fn is_canceled(&self) -> bool {
        self.running.as_ref().is_some_and(|running| self.session.runtime.is_cancelled(running.task))
    }

    /// Whether the actor's process is not its first.
    #[getter]
    fn reconstructed(&self) -> bool {
        self.actor.as_ref().is_some_and(|actor| actor.incarnation > 0)
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
