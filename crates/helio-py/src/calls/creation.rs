//! Making actors, and what can be done to one besides calling it.

use std::sync::Arc;
use std::time::Duration;

use helio_proto::control::{ActorSpec, ConcurrencyGroup};
use helio_proto::node::Expect;
use helio_proto::template::{CallKind, FrontOptions, Template};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use super::plan::Plan;
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

/// Make an actor; a `plans.ActorCreated`.
#[pyfunction]
pub(crate) fn create_actor<'py>(
    py: Python<'py>,
    plan: &Bound<'py, PyDict>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyDict>> {
    let session = session::active(py)?;
    let plan = Plan(plan);
    let spec = spec(&plan, &session.namespace())?;
    let template = Arc::new(template(&plan, &spec)?);
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
        module: plan.or("module", String::new())?,
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

fn spec(plan: &Plan<'_, '_>, namespace: &str) -> PyResult<ActorSpec> {
    let own_namespace: String = plan.or("namespace", String::new())?;
    let mut groups = Vec::new();
    if let Some(given) = plan.find("concurrency_groups")? {
        for item in given.call_method0("items")?.try_iter()? {
            let (name, max_concurrency) = item?.extract()?;
            groups.push(ConcurrencyGroup { name, max_concurrency });
        }
    }
    Ok(ActorSpec {
        actor_id: ActorID::id(plan.need("actor_id")?.cast()?),
        name: plan.or("name", String::new())?,
        namespace: if own_namespace.is_empty() { namespace.to_owned() } else { own_namespace },
        detached: plan.or("detached", false)?,
        max_restarts: plan.or("max_restarts", 0)?,
        placement_resources: plan.resources("placement_resources")?,
        resources: plan.resources("resources")?,
        class_name: plan.or("class_name", String::new())?,
        max_concurrency: plan.or("max_concurrency", 1)?,
        is_async: plan.or("is_async", false)?,
        concurrency_groups: groups,
        strategy: plan.strategy()?,
        runtime_env: plan.runtime_env()?,
        handle: plan.bytes("handle")?,
        get_if_exists: plan.or("get_if_exists", false)?,
        max_task_retries: plan.or("max_task_retries", 0)?,
        modules: plan.or("modules", Vec::new())?,
        is_unlisted: plan.or("is_unlisted", false)?,
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
