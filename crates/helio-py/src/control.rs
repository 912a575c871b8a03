//! Questions to the control service.

use helio_proto::control::{
    ActorInfo, AwaitNodes, ControlRequest, ControlResponse, GetNamedActor, JobInfo, KvDel,
    KvEntries, KvGet, KvKeys, KvPair, KvPut, ListActors, ListJobs, ListNamedActors, ListNodes,
    NodeInfo,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::codec::{self, Purpose};
use crate::gil::{GilSite, detached};
use crate::ids::ActorID;
use crate::object_ref::ObjectRef;
use crate::{errors, exceptions, rows, session};

/// Asks, without the GIL; a refusal is raised.
pub(crate) fn ask(py: Python<'_>, request: ControlRequest) -> PyResult<ControlResponse> {
    let session = session::active(py)?;
    let answer = detached(py, GilSite::Control, |interrupt| {
        session.runtime.control(request, None, interrupt)
    })?;
    match answer {
        Ok(ControlResponse::Failed(failure)) => {
            Err(errors::raise(py, helio_worker::Error::Refused(failure)))
        }
        Ok(response) => Ok(response),
        Err(error) => Err(errors::raise(py, error)),
    }
}

pub(crate) fn unexpected(py: Python<'_>, response: &ControlResponse) -> PyErr {
    exceptions::named(
        py,
        "RaySystemError",
        &format!("the control service gave an unexpected answer: {response:?}"),
    )
}

/// A named actor's id and handle.
#[pyfunction]
#[pyo3(signature = (name, namespace = ""))]
pub(crate) fn get_named_actor<'py>(
    py: Python<'py>,
    name: &str,
    namespace: &str,
) -> PyResult<Option<(Bound<'py, ActorID>, Bound<'py, PyBytes>)>> {
    let session = session::active(py)?;
    let namespace = if namespace.is_empty() { session.namespace() } else { namespace.to_owned() };
    let request = ControlRequest::GetNamedActor(GetNamedActor { name: name.to_owned(), namespace });
    let answer = detached(py, GilSite::Control, |interrupt| {
        session.runtime.control(request, None, interrupt)
    })?;
    match answer {
        Ok(ControlResponse::NamedActor(found)) => {
            session.runtime.know_actor(found.actor_id, None);
            Ok(Some((ActorID::of(py, found.actor_id)?, PyBytes::new(py, &found.handle))))
        }
        // There is no such actor to be had, whatever the control service refuses here.
        Ok(ControlResponse::Failed(_)) | Err(helio_worker::Error::Refused(_)) => Ok(None),
        Ok(response) => Err(unexpected(py, &response)),
        Err(error) => Err(errors::raise(py, error)),
    }
}

/// (name, namespace) of each named actor.
#[pyfunction]
#[pyo3(signature = (all_namespaces = false))]
pub(crate) fn list_named_actors(
    py: Python<'_>,
    all_namespaces: bool,
) -> PyResult<Vec<(String, String)>> {
    let namespace = session::active(py)?.namespace();
    match ask(py, ControlRequest::ListNamedActors(ListNamedActors { all_namespaces, namespace }))? {
        ControlResponse::NamedActors(list) => {
            Ok(list.actors.into_iter().map(|actor| (actor.name, actor.namespace)).collect())
        }
        other => Err(unexpected(py, &other)),
    }
}

/// Every node that is or was.
pub(crate) fn nodes(py: Python<'_>) -> PyResult<Vec<NodeInfo>> {
    match ask(py, ControlRequest::ListNodes(ListNodes {}))? {
        ControlResponse::Nodes(list) => Ok(list.nodes),
        other => Err(unexpected(py, &other)),
    }
}

/// A `native_types.NodeRow` of each node, and the number of the latest change of who they are.
#[pyfunction]
pub(crate) fn list_members(py: Python<'_>) -> PyResult<(u64, Vec<Bound<'_, PyDict>>)> {
    match ask(py, ControlRequest::ListNodes(ListNodes {}))? {
        ControlResponse::Nodes(list) => {
            let found: PyResult<_> = list.nodes.iter().map(|node| rows::node(py, node)).collect();
            Ok((list.membership, found?))
        }
        other => Err(unexpected(py, &other)),
    }
}

/// The ref is ready, with None, once a node has joined, is gone, is to leave or stays after all since `seen`, which
/// `list_members` has given.
#[pyfunction]
pub(crate) fn await_members<'py>(py: Python<'py>, seen: u64) -> PyResult<Bound<'py, ObjectRef>> {
    let session = session::active(py)?;
    let none = codec::encode(&py.None().into_bound(py), Purpose::Value)?.sink.take();
    let promise = session.runtime.promise(ControlRequest::AwaitNodes(AwaitNodes { seen }), none);
    ObjectRef::counted(py, promise.map_err(|error| errors::raise(py, error))?, session.epoch)
}

/// Every actor that is or was.
pub(crate) fn actors(py: Python<'_>) -> PyResult<Vec<ActorInfo>> {
    match ask(py, ControlRequest::ListActors(ListActors {}))? {
        ControlResponse::Actors(list) => Ok(list.actors),
        other => Err(unexpected(py, &other)),
    }
}

/// Every job that is or was.
pub(crate) fn jobs(py: Python<'_>) -> PyResult<Vec<JobInfo>> {
    match ask(py, ControlRequest::ListJobs(ListJobs {}))? {
        ControlResponse::Jobs(list) => Ok(list.jobs),
        other => Err(unexpected(py, &other)),
    }
}

/// All entries of a namespace of the key-value table.
pub(crate) fn entries(py: Python<'_>, namespace: &str) -> PyResult<Vec<KvPair>> {
    let entries = KvEntries { namespace: namespace.to_owned(), ..KvEntries::default() };
    match ask(py, ControlRequest::KvEntries(entries))? {
        ControlResponse::KvPairs(found) => Ok(found.pairs),
        other => Err(unexpected(py, &other)),
    }
}

#[pyfunction]
pub(crate) fn list_nodes(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    nodes(py)?.iter().map(|node| rows::node(py, node)).collect()
}

#[pyfunction]
pub(crate) fn list_actors(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    actors(py)?.iter().map(|actor| rows::actor(py, actor)).collect()
}

#[pyfunction]
pub(crate) fn list_jobs(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    jobs(py)?.iter().map(|job| rows::job(py, job)).collect()
}

/// Stores a value; whether the key was there already.
#[pyfunction]
#[pyo3(signature = (key, value, *, namespace = "", overwrite = true))]
pub(crate) fn kv_put(
    py: Python<'_>,
    key: &[u8],
    value: &[u8],
    namespace: &str,
    overwrite: bool,
) -> PyResult<bool> {
    let put = KvPut {
        namespace: namespace.to_owned(),
        key: key.to_vec(),
        value: value.to_vec(),
        overwrite,
    };
    match ask(py, ControlRequest::KvPut(put))? {
        ControlResponse::KvValue(old) => Ok(old.found),
        ControlResponse::Done(_) => Ok(false),
        other => Err(unexpected(py, &other)),
    }
}

#[pyfunction]
#[pyo3(signature = (key, *, namespace = ""))]
pub(crate) fn kv_get<'py>(
    py: Python<'py>,
    key: &[u8],
    namespace: &str,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    match ask(
        py,
        ControlRequest::KvGet(KvGet { namespace: namespace.to_owned(), key: key.to_vec() }),
    )? {
        ControlResponse::KvValue(entry) => Ok(entry.found.then(|| PyBytes::new(py, &entry.value))),
        other => Err(unexpected(py, &other)),
    }
}

/// Removes a key; whether it was there.
#[pyfunction]
#[pyo3(signature = (key, *, namespace = ""))]
pub(crate) fn kv_del(py: Python<'_>, key: &[u8], namespace: &str) -> PyResult<bool> {
    match ask(
        py,
        ControlRequest::KvDel(KvDel { namespace: namespace.to_owned(), key: key.to_vec() }),
    )? {
        ControlResponse::KvValue(old) => Ok(old.found),
        ControlResponse::Done(_) => Ok(true),
        other => Err(unexpected(py, &other)),
    }
}

#[pyfunction]
#[pyo3(signature = (prefix, *, namespace = ""))]
pub(crate) fn kv_keys<'py>(
    py: Python<'py>,
    prefix: &[u8],
    namespace: &str,
) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let request = KvKeys { namespace: namespace.to_owned(), prefix: prefix.to_vec() };
    match ask(py, ControlRequest::KvKeys(request))? {
        ControlResponse::KvList(list) => {
            Ok(list.keys.iter().map(|entry| PyBytes::new(py, &entry.value)).collect())
        }
        other => Err(unexpected(py, &other)),
    }
}
