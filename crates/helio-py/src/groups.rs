//! Placement groups: questions to the control service, and answers that become objects.

use helio_proto::control::{ControlRequest, ControlResponse, Failure, FailureKind, Label};
use helio_proto::group::{
    AwaitGroup, Bundle, GetGroup, GroupInfo, GroupSpec, GroupStrategy, ListGroups, RemoveGroup,
};
use helio_types::{NodeId, PlacementGroupId, Quantity, ResourceSet};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::codec::{self, Purpose};
use crate::control::{ask, unexpected};
use crate::ids::PlacementGroupID;
use crate::object_ref::ObjectRef;
use crate::{current, errors, rows, session};

/// Ask for a group; the ref is ready when the control service knows it, or an error when it refuses.
#[pyfunction]
pub(crate) fn create_group<'py>(
    py: Python<'py>,
    plan: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, ObjectRef>> {
    let session = session::active(py)?;
    let spec = spec(plan, &session.namespace())?;
    let none = codec::encode(&py.None().into_bound(py), Purpose::Value)?.sink.take();
    let promise = session.runtime.promise(ControlRequest::CreateGroup(spec), none);
    ObjectRef::counted(py, promise.map_err(|error| errors::raise(py, error))?, session.epoch)
}

/// The ref becomes `value` when every bundle is reserved, or an error when the group is gone.
#[pyfunction]
pub(crate) fn await_group<'py>(
    py: Python<'py>,
    group_id: &Bound<'py, PlacementGroupID>,
    value: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, ObjectRef>> {
    let session = session::active(py)?;
    let kept = codec::encode(value, Purpose::Value)?.sink.take();
    let request = AwaitGroup { group_id: PlacementGroupID::id(group_id) };
    let promise = session.runtime.promise(ControlRequest::AwaitGroup(request), kept);
    ObjectRef::counted(py, promise.map_err(|error| errors::raise(py, error))?, session.epoch)
}

/// Give a group back.
#[pyfunction]
pub(crate) fn remove_group(py: Python<'_>, group_id: &Bound<'_, PlacementGroupID>) -> PyResult<()> {
    let request = RemoveGroup { group_id: PlacementGroupID::id(group_id) };
    session::active(py)?
        .runtime
        .tell_control(ControlRequest::RemoveGroup(request))
        .map_err(|error| errors::raise(py, error))
}

/// A `native_types.GroupRow` by id, or by name; `None`: there is no such group.
#[pyfunction]
#[pyo3(signature = (group_id, name = String::new(), namespace = String::new()))]
pub(crate) fn get_group<'py>(
    py: Python<'py>,
    group_id: Option<&Bound<'py, PlacementGroupID>>,
    name: String,
    namespace: String,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let session = session::active(py)?;
    let namespace = if namespace.is_empty() { session.namespace() } else { namespace };
    let group_id = group_id.map_or(PlacementGroupId::NIL, PlacementGroupID::id);
    let request = ControlRequest::GetGroup(GetGroup { group_id, name, namespace });
    let answer = crate::gil::detached(py, crate::gil::GilSite::Control, |interrupt| {
        session.runtime.control(request, None, interrupt)
    })?;
    match answer {
        Ok(ControlResponse::Group(info)) => row(py, &info).map(Some),
        Ok(ControlResponse::Failed(failure)) if is_absent(&failure) => Ok(None),
        Ok(other) => Err(unexpected(py, &other)),
        Err(error) => Err(errors::raise(py, error)),
    }
}

fn is_absent(failure: &Failure) -> bool {
    matches!(failure.kind, FailureKind::NotFound | FailureKind::GroupRemoved)
}

/// A `native_types.GroupRow` of each group.
#[pyfunction]
pub(crate) fn list_groups(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    groups(py)?.iter().map(|info| row(py, info)).collect()
}

/// Every group that is known.
pub(crate) fn groups(py: Python<'_>) -> PyResult<Vec<GroupInfo>> {
    match ask(py, ControlRequest::ListGroups(ListGroups {}))? {
        ControlResponse::Groups(list) => Ok(list.groups),
        other => Err(unexpected(py, &other)),
    }
}

/// Reads a `native_types.GroupPlan`.
fn spec(plan: &Bound<'_, PyDict>, namespace: &str) -> PyResult<GroupSpec> {
    let need = |name: &str| {
        plan.get_item(name)?
            .ok_or_else(|| PyValueError::new_err(format!("the plan of a group lacks {name:?}")))
    };
    let group_id = PlacementGroupID::id(need("group_id")?.cast()?);
    let strategy: String = need("strategy")?.extract()?;
    let strategy = GroupStrategy::from_name(&strategy)
        .ok_or_else(|| PyValueError::new_err(format!("no strategy is named {strategy:?}")))?;
    let mut bundles = Vec::new();
    for item in need("bundles")?.cast::<PyList>()? {
        let mut resources = ResourceSet::default();
        for (name, amount) in item.cast::<PyDict>()? {
            let (name, amount): (String, f64) = (name.extract()?, amount.extract()?);
            resources.set(&name, Quantity::from_f64(amount));
        }
        bundles.push(Bundle { resources, labels: Vec::new() });
    }
    for (bundle, wanted) in bundles.iter_mut().zip(need("labels")?.cast::<PyList>()?) {
        bundle.labels = labels(wanted.cast()?)?;
    }
    let target: String = need("target")?.extract()?;
    let target = match target.as_str() {
        "" => NodeId::NIL,
        hex => NodeId::from_hex(hex).map_err(|e| PyValueError::new_err(e.to_string()))?,
    };
    Ok(GroupSpec {
        group_id,
        job_id: group_id.job(),
        name: need("name")?.extract()?,
        namespace: namespace.to_owned(),
        strategy,
        detached: need("detached")?.extract()?,
        bundles,
        creator: current::actor().map(|actor| actor.spec.actor_id).unwrap_or_default(),
        target,
        topology: labels(need("topology")?.cast()?)?,
        made_ms: 0,
    })
}

fn labels(given: &Bound<'_, PyDict>) -> PyResult<Vec<Label>> {
    let label = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        Ok(Label { key: key.extract()?, value: value.extract()? })
    };
    given.iter().map(label).collect()
}

/// A `native_types.GroupRow`.
fn row<'py>(py: Python<'py>, info: &GroupInfo) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    let spec = &info.spec;
    row.set_item("group_id", PlacementGroupID::of(py, spec.group_id)?)?;
    row.set_item("name", &spec.name)?;
    row.set_item("namespace", &spec.namespace)?;
    row.set_item("strategy", spec.strategy.name())?;
    row.set_item("state", info.phase.name())?;
    row.set_item("detached", spec.detached)?;
    let bundles = PyList::empty(py);
    let wanted = PyList::empty(py);
    for bundle in &spec.bundles {
        bundles.append(rows::resources(py, &bundle.resources)?)?;
        wanted.append(rows::labels(py, &bundle.labels)?)?;
    }
    row.set_item("bundles", bundles)?;
    row.set_item("labels", wanted)?;
    let places = PyDict::new(py);
    for place in &info.places {
        places.set_item(place.bundle, place.node_id.hex())?;
    }
    row.set_item("places", places)?;
    row.set_item("why", &info.why)?;
    row.set_item("infeasible", info.infeasible)?;
    row.set_item("attempts", info.attempts)?;
    row.set_item("took_ms", info.took_ms)?;
    Ok(row)
}
