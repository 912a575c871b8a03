//! Making actors, and what can be done to one besides calling it.

use std::sync::Arc;
use std::time::Duration;

use helio_proto::control::{ActorSpec, Strategy};
use helio_proto::node::Expect;
use helio_proto::template::{CallKind, FrontOptions, Template};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use super::options::{ActorOptions, Placement};
use super::plan::Plan;
use super::spans::{self, Called};
use crate::codec::args::{Passed, pack};
use crate::gil::{GilSite, detached};
use crate::ids::ActorID;
use crate::object_ref::ObjectRef;
use crate::{environment, errors, session};

/// A fresh id.
#[pyfunction]
pub(crate) fn new_actor_id(py: Python<'_>) -> PyResult<Bound<'_, ActorID>> {
    ActorID::of(py, session::active(py)?.runtime.new_actor_id())
}

/// Have the daemon start workers ahead, and load modules that they are likely to use.
#[pyfunction]
#[pyo3(signature = (runtime_env, workers, modules, wait = None))]
pub(crate) fn expect(
    py: Python<'_>,
    runtime_env: String,
    workers: u32,
    modules: Vec<String>,
    wait: Option<f64>,
) -> PyResult<()> {
    let session = session::active(py)?;
    let runtime_env = environment::read(&runtime_env)?;
    let wait = wait.map(Duration::from_secs_f64);
    let expect = Expect { runtime_env, workers, modules, ..Expect::default() };
    detached(py, GilSite::Control, |_| session.runtime.expect(expect, wait))
}

/// Make an actor; a `native_types.ActorCreated`.
#[pyfunction]
pub(crate) fn create_actor<'py>(
    py: Python<'py>,
    options: &ActorOptions,
    placement: &Placement,
    plan: &Bound<'py, PyDict>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyDict>> {
    let session = session::active(py)?;
    let plan = Plan(plan);
    let spec = spec(options, placement.strategy(), &plan, session.namespace())?;
    let template = Arc::new(template(&plan, &spec)?);
    let spanned = spans::begin(py, || Called::Constructor(&spec.class_name), Some(kwargs))?;
    let kwargs = spanned.as_ref().map_or(kwargs, |spanned| &spanned.kwargs);
    let packed = pack(&session, &Passed { args, kwargs: Some(kwargs), name: &spec.class_name })?;
    let args = packed.args;
    let created = detached(py, GilSite::Control, |interrupt| {
        session.runtime.create_actor(spec, &template, args, interrupt)
    })?
    .map_err(|error| errors::raise(py, error))?;
    let dict = PyDict::new(py);
    dict.set_item("actor_id", ActorID::of(py, created.actor)?)?;
    let reference = if created.handle.is_nil() {
        None
    } else {
        Some(ObjectRef::counted(py, created.handle, session.epoch)?)
    };
    dict.set_item("ref", reference)?;
    dict.set_item("existing", created.existing.map(|handle| PyBytes::new(py, &handle)))?;
    Ok(dict)
}

fn template(plan: &Plan<'_, '_>, spec: &ActorSpec) -> PyResult<Template> {
    let class = plan.definition("cls")?;
    let class = class.get();
    let front = FrontOptions {
        function_name: spec.class_name.clone(),
        module: plan.text("module")?,
        placement_group: spec.strategy.placement_group,
        capture_children: spec.strategy.capture_children,
        runtime_env: spec.runtime_env.document.clone(),
        ..FrontOptions::default()
    };
    Ok(Template {
        kind: CallKind::Constructor,
        function_id: class.id.clone(),
        function: class.pickle.clone(),
        name: spec.class_name.clone(),
        front,
        ..Template::default()
    })
}

fn spec(
    options: &ActorOptions,
    strategy: Strategy,
    plan: &Plan<'_, '_>,
    session_namespace: String,
) -> PyResult<ActorSpec> {
    let (shared, own) = (&options.shared, &options.own);
    let namespace = own.namespace.clone().filter(|given| !given.is_empty());
    Ok(ActorSpec {
        actor_id: ActorID::id(plan.need("actor_id")?.cast()?),
        name: shared.name.clone().unwrap_or_default(),
        namespace: namespace.unwrap_or(session_namespace),
        detached: plan.need("detached")?.extract()?,
        max_restarts: own.max_restarts,
        placement_resources: options.placing_set(),
        resources: options.held_set(),
        class_name: plan.text("class_name")?,
        max_concurrency: options.max_concurrency(),
        is_async: options.is_async,
        concurrency_groups: own.concurrency_groups.0.clone(),
        strategy,
        runtime_env: plan.runtime_env()?,
        handle: plan.bytes("handle")?,
        get_if_exists: own.get_if_exists,
        max_task_retries: own.max_task_retries.into(),
        modules: plan.need("modules")?.extract()?,
        is_unlisted: !shared.enable_task_events,
        ..ActorSpec::default()
    })
}

/// A handle arrived from elsewhere.
#[pyfunction]
#[pyo3(signature = (actor_id, r#ref = None))]
pub(crate) fn know_actor(
    py: Python<'_>,
    actor_id: &Bound<'_, ActorID>,
    r#ref: Option<&Bound<'_, ObjectRef>>,
) -> PyResult<()> {
    let handle = r#ref.map(|held| held.get().id());
    session::active(py)?.runtime.know_actor(ActorID::id(actor_id), handle);
    Ok(())
}

/// End an actor.
#[pyfunction]
#[pyo3(signature = (actor_id, no_restart = true))]
pub(crate) fn kill_actor(
    py: Python<'_>,
    actor_id: &Bound<'_, ActorID>,
    no_restart: bool,
) -> PyResult<()> {
    let session = session::active(py)?;
    session
        .runtime
        .kill_actor(ActorID::id(actor_id), no_restart)
        .map_err(|error| errors::raise(py, error))
}

#[pyfunction]
pub(crate) fn actor_pending_calls(
    py: Python<'_>,
    actor_id: &Bound<'_, ActorID>,
) -> PyResult<usize> {
    Ok(session::active(py)?.runtime.actor_pending_calls(ActorID::id(actor_id)))
}
