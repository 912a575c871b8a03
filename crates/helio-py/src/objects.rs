//! `get`, `put`, `wait`, `cancel`: the user's own functions, with Ray's argument errors.

use std::time::{Duration, Instant};

use helio_types::ObjectId;
use helio_worker::{Payload, Readiness};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::codec::{self, Purpose, Source};
use crate::generator::ObjectRefGenerator;
use crate::gil::{GilSite, detached};
use crate::inspect::{fetch, fetch_for_user};
use crate::object_ref::ObjectRef;
use crate::session::{self, Session};
use crate::worker::blocking::warn_if_blocking;
use crate::{errors, exceptions, sites, timeouts};

/// The value of an object, or what reading it raises.
fn value(py: Python<'_>, payload: Payload) -> PyResult<Bound<'_, PyAny>> {
    if payload.is_error {
        Err(errors::from_payload(py, &payload))
    } else {
        codec::decode(py, Source::Shared(payload.bytes))
    }
}

/// Flags may be anything that is true or false.
fn truth(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    value.is_truthy()
}

/// A number that is too large is one that there cannot be.
fn count(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    match value.extract::<i64>() {
        Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => Ok(i64::MAX),
        result => result,
    }
}

/// Wait for objects and return their values.
///
/// Arrays come without a copy from this node's store and are read-only. A task that waits here gives its CPUs
/// back meanwhile. In ``async`` code write ``await ref`` instead.
///
/// Args:
///     object_refs: An ``ObjectRef``, or a list of them, which may repeat.
///     timeout: Seconds to wait for all of them. Default ``None``: without end; 0: take what is there
///         now.
///
/// Returns:
///     The value, or a list of values in the order of the references.
///
/// Raises:
///     GetTimeoutError: A value was not there in time. The calls go on. It is a ``TimeoutError``, too.
///     RayTaskError: The call that makes the value raised. The error is an instance of the class of the
///         call's own exception, too, and has the remote traceback.
///     WorkerCrashedError: The process of the task died, and no retries are left.
///     ActorDiedError: The actor of the call has ended.
///     TaskCancelledError: The call was cancelled.
///     ObjectLostError: The value was lost and cannot be made again.
///     ValueError: ``object_refs`` is neither a reference nor a list.
///     TypeError: The list has something else in it.
///
/// Examples:
///     >>> import ray
///     >>> @ray.remote
///     ... def square(x):
///     ...     return x * x
///     >>> ray.get(square.remote(4))
///     16
///     >>> ray.get([square.remote(i) for i in range(3)], timeout=60)
///     [0, 1, 4]
#[pyfunction]
#[pyo3(signature = (object_refs, *, timeout = None, _use_object_store = false))]
pub(crate) fn get<'py>(
    py: Python<'py>,
    object_refs: &Bound<'py, PyAny>,
    timeout: Option<f64>,
    _use_object_store: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let session = session::active(py)?;
    if let Ok(reference) = object_refs.cast_exact::<ObjectRef>() {
        let id = reference.get().known(&session)?;
        if let Some(payload) = session.runtime.try_get_inline(id) {
            return value(py, payload);
        }
        return only(py, fetch_for_user(py, &session, &[id], timeout)?);
    }
    let Ok(list) = object_refs.cast::<PyList>() else {
        if object_refs.is_exact_instance_of::<ObjectRefGenerator>() {
            return Ok(object_refs.clone());
        }
        return Err(PyValueError::new_err(format!(
            "Invalid type of object refs, {}, is given. 'object_refs' must either be an ObjectRef or a list of ObjectRefs. ",
            object_refs.get_type()
        )));
    };
    let mut ids = Vec::with_capacity(list.len());
    for item in list {
        let Ok(reference) = item.cast_exact::<ObjectRef>() else {
            let message = format!(
                "Attempting to call `get` on the value {item}, which is not an ray.ObjectRef."
            );
            return Err(PyTypeError::new_err(message));
        };
        ids.push(reference.get().known(&session)?);
    }
    let payloads = fetch_for_user(py, &session, &ids, timeout)?;
    let values =
        payloads.into_iter().map(|payload| value(py, payload)).collect::<PyResult<Vec<_>>>()?;
    Ok(PyList::new(py, values)?.into_any())
}

/// Store a value in this node's object store.
///
/// NumPy arrays and other buffers are copied once; readers on this node share that copy, read-only. Use it
/// for a value that several calls take; an argument of one call needs no ``put``.
///
/// Args:
///     value: Anything that can be pickled, but no reference.
///
/// Returns:
///     A reference to the value. This process owns the object: it is lost when the process ends.
///
/// Raises:
///     TypeError: ``value`` is a reference, or cannot be pickled; the error names the part that cannot.
///     ObjectStoreFullError: There is room neither in the store nor on the disk.
///
/// Examples:
///     >>> import ray
///     >>> ref = ray.put([1, 2, 3])
///     >>> ray.get(ref)
///     [1, 2, 3]
#[pyfunction]
#[pyo3(signature = (value, *, _owner = None, _tensor_transport = None))]
pub(crate) fn put<'py>(
    py: Python<'py>,
    value: &Bound<'py, PyAny>,
    _owner: Option<&Bound<'py, PyAny>>,
    _tensor_transport: Option<&str>,
) -> PyResult<Bound<'py, ObjectRef>> {
    let session = session::active(py)?;
    if value.is_exact_instance_of::<ObjectRef>() {
        return Err(PyTypeError::new_err(
            "Calling 'put' on an ray.ObjectRef is not allowed. If you really want to do this, you can wrap the \
             ray.ObjectRef in a list and call 'put' on it.",
        ));
    }
    if _owner.is_some() {
        return Err(PyValueError::new_err(
            "`_owner` is no longer supported: the process that puts owns the object.",
        ));
    }
    if !matches!(_tensor_transport, None | Some("object_store" | "OBJECT_STORE")) {
        return Err(PyValueError::new_err(
            "_tensor_transport: tensors go through the object store only",
        ));
    }
    store(py, &session, value, Purpose::Put)
}

/// Stores a value of this process.
pub(crate) fn store<'py>(
    py: Python<'py>,
    session: &Session,
    value: &Bound<'py, PyAny>,
    purpose: Purpose<'_>,
) -> PyResult<Bound<'py, ObjectRef>> {
    let mut encoded = codec::encode(value, purpose)?;
    let contained = encoded.contained(py);
    let id = codec::put(py, &session.runtime, GilSite::Put, &mut encoded.sink, contained)?;
    sites::note(py, &[id], "(put object)");
    ObjectRef::counted(py, id, session.epoch)
}

/// Wait until some of several objects are there, and say which.
///
/// Use it to work on results as they come, or to bound how many calls are under way.
///
/// Args:
///     ray_waitables: A list of different references, or of generators, whose next item counts.
///     num_returns: How many are waited for: from 1 to the length of the list. Default 1.
///     timeout: Seconds to wait. Default ``None``: without end; 0: look and return.
///     fetch_local: Wait until a value is on this node. Default True; False: anywhere in the cluster.
///
/// Returns:
///     ``(ready, rest)``: a list of at most ``num_returns`` that are ready, and a list of the others,
///     both in the order given. A call that failed is ready, too: ``get`` of it raises.
///
/// Raises:
///     TypeError: ``ray_waitables`` is not a list, or has something else in it.
///     ValueError: A reference is there twice, ``timeout`` is negative, or ``num_returns`` is below 1
///         or above the length of the list.
///
/// Examples:
///     >>> import ray
///     >>> import time
///     >>> @ray.remote
///     ... def nap(seconds):
///     ...     time.sleep(seconds)
///     ...     return seconds
///     >>> ready, rest = ray.wait([nap.remote(600), nap.remote(0)])
///     >>> ray.get(ready)
///     [0]
///     >>> ray.cancel(rest[0], force=True)
#[pyfunction]
#[pyo3(signature = (ray_waitables, *, num_returns = 1, timeout = None, fetch_local = true))]
pub(crate) fn wait<'py>(
    py: Python<'py>,
    ray_waitables: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = count)] num_returns: i64,
    timeout: Option<f64>,
    #[pyo3(from_py_with = truth)] fetch_local: bool,
) -> PyResult<Bound<'py, PyTuple>> {
    let session = session::active(py)?;
    if ray_waitables.is_instance_of::<ObjectRef>()
        || ray_waitables.is_instance_of::<ObjectRefGenerator>()
    {
        return Err(PyTypeError::new_err(format!(
            "wait() expected a list of ray.ObjectRef or ray.ObjectRefGenerator, got a single ray.ObjectRef or \
             ray.ObjectRefGenerator {ray_waitables}"
        )));
    }
    let Ok(list) = ray_waitables.cast::<PyList>() else {
        return Err(PyTypeError::new_err(format!(
            "wait() expected a list of ray.ObjectRef or ray.ObjectRefGenerator, got {}",
            ray_waitables.get_type()
        )));
    };
    if let Some(seconds) = timeout.filter(|seconds| *seconds < 0.0) {
        let shown = pyo3::types::PyFloat::new(py, seconds);
        return Err(PyValueError::new_err(format!(
            "The 'timeout' argument must be nonnegative. Received {shown}"
        )));
    }
    let mut ids = Vec::with_capacity(list.len());
    let mut streams = Vec::new();
    for item in list {
        if let Ok(reference) = item.cast_exact::<ObjectRef>() {
            ids.push(reference.get().known(&session)?);
        } else if let Ok(generator) = item.cast::<ObjectRefGenerator>() {
            streams.push((ids.len(), generator.clone()));
            ids.push(generator.get().next_id());
        } else {
            return Err(PyTypeError::new_err(format!(
                "wait() expected a list of ray.ObjectRef or ray.ObjectRefGenerator, got list containing {}",
                item.get_type()
            )));
        }
    }
    if ids.is_empty() {
        return PyTuple::new(py, [PyList::empty(py), PyList::empty(py)]);
    }
    if has_duplicates(&ids) {
        return Err(PyValueError::new_err("Wait requires a list of unique ray_waitables."));
    }
    if num_returns <= 0 {
        return Err(PyValueError::new_err(format!(
            "Invalid number of objects to return {num_returns}."
        )));
    }
    let count = num_returns as usize;
    if count > ids.len() {
        return Err(PyValueError::new_err(
            "num_returns cannot be greater than the number of ray_waitables provided to ray.wait.",
        ));
    }
    warn_if_blocking(py, "wait", timeout)?;
    let within = timeouts::timeout(timeout)?;
    let flags = if streams.is_empty() {
        wait_for(py, &session, &ids, count, within, fetch_local)?
    } else {
        wait_for_streams(py, &session, ids, &streams, Wanted { count, within, fetch_local })?
    };
    split(list, &flags, count)
}

fn wait_for(
    py: Python<'_>,
    session: &Session,
    ids: &[ObjectId],
    count: usize,
    within: Option<Duration>,
    fetch_local: bool,
) -> PyResult<Vec<bool>> {
    detached(py, GilSite::Wait, |interrupt| {
        session.runtime.wait(ids, count, within, fetch_local, interrupt)
    })?
    .map_err(|error| errors::raise(py, error))
}

struct Wanted {
    count: usize,
    within: Option<Duration>,
    fetch_local: bool,
}

/// A stream is ready when its next item is there, or when it has ended and none will come: the call's
/// own object tells of that, so it is waited for beside the item.
fn wait_for_streams(
    py: Python<'_>,
    session: &Session,
    ids: Vec<ObjectId>,
    streams: &[(usize, Bound<'_, ObjectRefGenerator>)],
    wanted: Wanted,
) -> PyResult<Vec<bool>> {
    let n = ids.len();
    let deadline = wanted.within.map(|within| Instant::now() + within);
    let mut all = ids;
    all.extend(streams.iter().map(|(_, generator)| generator.get().id()));
    let mut flags = vec![false; all.len()];
    loop {
        // One more than is known is news; the first look only collects.
        let open: Vec<usize> = (0..all.len()).filter(|place| !flags[*place]).collect();
        let asked: Vec<ObjectId> = open.iter().map(|place| all[*place]).collect();
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let over = left.is_some_and(|left| left.is_zero());
        for (place, ready) in
            open.iter().zip(wait_for(py, session, &asked, 1, left, wanted.fetch_local)?)
        {
            flags[*place] = ready;
        }
        for (nth, (place, _)) in streams.iter().enumerate() {
            flags[*place] |= flags[n + nth];
        }
        if over || flags[..n].iter().filter(|ready| **ready).count() >= wanted.count {
            flags.truncate(n);
            return Ok(flags);
        }
    }
}

/// Whether an id is there twice. Callers wait on thousands of objects again and again, so this is an
/// open table of positions instead of a set.
fn has_duplicates(ids: &[ObjectId]) -> bool {
    let mask = (ids.len() * 2).next_power_of_two() - 1;
    let mut table = vec![u32::MAX; mask + 1];
    for (place, id) in (0u32..).zip(ids) {
        // Ids differ in their first eight bytes (the call) or in their index.
        let mut call = [0; 8];
        call.copy_from_slice(&id.0[..8]);
        let mixed = (u64::from_le_bytes(call) ^ u64::from(id.index()).rotate_left(40))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut at = (mixed >> 32) as usize & mask;
        while let Some(other) = ids.get(table[at] as usize) {
            if other == id {
                return true;
            }
            at = (at + 1) & mask;
        }
        table[at] = place;
    }
    false
}

/// The first `count` ready ones, and the others, each in the order they were given.
fn split<'py>(
    list: &Bound<'py, PyList>,
    flags: &[bool],
    count: usize,
) -> PyResult<Bound<'py, PyTuple>> {
    let py = list.py();
    let (mut ready, mut rest) = (Vec::with_capacity(count), Vec::with_capacity(list.len()));
    for (item, is_ready) in list.iter().zip(flags) {
        let side = if *is_ready && ready.len() < count { &mut ready } else { &mut rest };
        side.push(item);
    }
    PyTuple::new(py, [PyList::new(py, ready)?, PyList::new(py, rest)?])
}

/// Stop the call that makes an object. Nothing happens if it has ended.
///
/// A call that waits never runs. In a task that runs, ``KeyboardInterrupt`` is raised; in a method of an
/// ``async`` actor, ``asyncio.CancelledError``. Whoever gets the object sees ``TaskCancelledError``.
/// Returns at once; it does not wait for the end of the call.
///
/// Args:
///     ray_waitable: The ``ObjectRef`` or ``ObjectRefGenerator`` that the call gave.
///     force: End the worker's process. For tasks only. Default False.
///     recursive: Cancel the calls that it has made, too. Default True.
///
/// Raises:
///     ValueError: ``force`` with the call of an actor's method.
///     TypeError: The argument is not a reference.
///
/// Examples:
///     >>> import ray
///     >>> @ray.remote
///     ... def wait_long():
///     ...     import time
///     ...     time.sleep(600)
///     >>> ref = wait_long.remote()
///     >>> ray.cancel(ref)
///     >>> try:
///     ...     ray.get(ref)
///     ... except ray.exceptions.TaskCancelledError:
///     ...     print("cancelled")
///     cancelled
#[pyfunction]
#[pyo3(signature = (ray_waitable, *, force = false, recursive = true))]
pub(crate) fn cancel(
    py: Python<'_>,
    ray_waitable: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = truth)] force: bool,
    #[pyo3(from_py_with = truth)] recursive: bool,
) -> PyResult<()> {
    let session = session::active(py)?;
    let id = if let Ok(reference) = ray_waitable.cast::<ObjectRef>() {
        reference.get().id()
    } else if let Ok(generator) = ray_waitable.cast::<ObjectRefGenerator>() {
        generator.get().id()
    } else {
        return Err(PyTypeError::new_err(format!(
            "ray.cancel() only supported for object refs. For actors, try ray.kill(). Got: {}.",
            ray_waitable.get_type()
        )));
    };
    if force && session.runtime.knows_actor(id.task().actor()) {
        return Err(PyValueError::new_err("force=True is not supported for actor tasks."));
    }
    session.runtime.cancel(id, force, recursive).map_err(|error| errors::raise(py, error))
}

/// The value of the one object that was read.
fn only(py: Python<'_>, payloads: Vec<Payload>) -> PyResult<Bound<'_, PyAny>> {
    let payload = payloads.into_iter().next();
    value(py, payload.ok_or_else(|| exceptions::named(py, "RaySystemError", "get gave no value"))?)
}

/// The value of an object that `is_ready`, `watch` or `take_ready` has named; raises its error, and the one
/// for want of room that ended the wait.
#[pyfunction]
pub(crate) fn take<'py>(
    py: Python<'py>,
    r#ref: &Bound<'py, ObjectRef>,
) -> PyResult<Bound<'py, PyAny>> {
    let (session, id) = (session::active(py)?, r#ref.get().id());
    if let Some(payload) = session.runtime.try_get_inline(id) {
        return value(py, payload);
    }
    only(py, fetch(py, &session, &[id], None)?)
}

/// Whether `take` would return at once, for a reader that begins.
#[pyfunction]
pub(crate) fn is_ready(py: Python<'_>, r#ref: &Bound<'_, ObjectRef>) -> PyResult<bool> {
    Ok(session::active(py)?.runtime.is_here(r#ref.get().id()))
}

/// Whether `take` would return at once, or without `reads` whether the object is made; if not, `take_ready`
/// gives its id once that is so.
#[pyfunction]
#[pyo3(signature = (r#ref, reads = true))]
pub(crate) fn watch(py: Python<'_>, r#ref: &Bound<'_, ObjectRef>, reads: bool) -> PyResult<bool> {
    let readiness = if reads { Readiness::Here } else { Readiness::Made };
    Ok(session::active(py)?.runtime.watch(r#ref.get().id(), readiness))
}

/// Ids of watched objects that became as ready as their watchers asked.
#[pyfunction]
pub(crate) fn take_ready(py: Python<'_>) -> Vec<Bound<'_, pyo3::types::PyBytes>> {
    let ready = session::present().map(|session| session.runtime.take_ready()).unwrap_or_default();
    ready.iter().map(|id| pyo3::types::PyBytes::new(py, &id.0)).collect()
}

/// Clears the mark of `notify_fd`, for a reader that looks at everything afterwards.
#[pyfunction]
pub(crate) fn clear_notification() {
    if let Some(session) = session::present() {
        session.runtime.clear_notification();
    }
}

#[pyfunction]
pub(crate) fn notify_fd(py: Python<'_>) -> PyResult<i32> {
    Ok(session::active(py)?.runtime.notify_fd())
}
