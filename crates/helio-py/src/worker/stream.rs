//! Streaming: each item that a generator yields is sent at once.

use helio_types::TaskId;
use helio_worker::Outgoing;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;

use super::functions::Entry;
use super::results::Results;
use crate::errors;
use crate::generator::FIRST_ITEM;
use crate::gil::{GilSite, detached};
use crate::session::Session;

/// Runs a generator to its end. Returns the number of items.
pub(super) fn run(
    session: &Session,
    task: TaskId,
    entry: &Entry,
    result: &Bound<'_, PyAny>,
) -> PyResult<u32> {
    let py = result.py();
    let items = if result.hasattr(intern!(py, "__next__"))? {
        result.clone()
    } else if result.hasattr(intern!(py, "__anext__"))? {
        // An async generator in a task: its own event loop drives it.
        py.import("heliostat.core.aio.async_actor")?.getattr("drive")?.call1((result,))?
    } else {
        let class = result.get_type();
        return Err(PyTypeError::new_err(format!(
            "a streaming call has to return a generator, not {class}"
        )));
    };
    let mut index = 0;
    for item in items.try_iter()? {
        let item = item?;
        if entry.template.front.per_yield == 0 {
            send(session, task, entry, index, &item)?;
            index += 1;
            continue;
        }
        for part in parts(&item, entry.template.front.per_yield)? {
            send(session, task, entry, index, &part)?;
            index += 1;
        }
    }
    Ok(index)
}

/// The items in one value that was yielded.
fn parts<'py>(value: &Bound<'py, PyAny>, number: u32) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let parts: Vec<_> = value.try_iter()?.collect::<PyResult<_>>()?;
    if parts.len() == number as usize {
        return Ok(parts);
    }
    let given = parts.len();
    Err(PyValueError::new_err(format!(
        "The generator yielded {given} objects at once, but _num_objects_per_yield={number}."
    )))
}

/// Sends one item; waits while the caller has too many unread ones.
pub(super) fn send(
    session: &Session,
    task: TaskId,
    entry: &Entry,
    index: u32,
    item: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let py = item.py();
    let mut made = Results::default();
    made.add(session, item, task.object(FIRST_ITEM + index), &entry.template.front.function_name)?;
    for item in std::mem::take(&mut made.values) {
        let item: Outgoing = item;
        let bound = entry.template.backpressure;
        detached(py, GilSite::Stream, |interrupt| {
            session.runtime.item(task, index, item, bound, interrupt)
        })?
        .map_err(|error| errors::raise(py, error))?;
    }
    Ok(())
}
