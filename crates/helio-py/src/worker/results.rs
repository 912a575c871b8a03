//! Values on their way back to the caller.

use helio_types::ObjectId;
use helio_worker::{Outgoing, OutgoingValue};
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;

use super::failure;
use super::functions::Entry;
use crate::codec::{self, Purpose};
use crate::current;
use crate::errors;
use crate::gil::GilSite;
use crate::object_ref::ObjectRef;
use crate::objects;
use crate::session::Session;

/// Values that are ready to be sent; the references in them are held until they are.
#[derive(Default)]
pub(super) struct Results {
    pub(super) values: Vec<Outgoing>,
    /// The exception that a generator raised after these values.
    pub(super) broken: Option<PyErr>,
    held: Vec<Py<ObjectRef>>,
}

impl Results {
    /// Adds a value, which becomes the object `id`.
    pub(super) fn add(
        &mut self,
        session: &Session,
        value: &Bound<'_, PyAny>,
        id: ObjectId,
        name: &str,
    ) -> PyResult<()> {
        let py = value.py();
        let mut encoded = codec::encode(value, Purpose::Result(name))?;
        let contained = encoded.contained(py);
        let placed = codec::place_as(py, &session.runtime, id, GilSite::Put, &mut encoded.sink)?;
        self.values.push(Outgoing { value: placed, contained });
        self.held.append(&mut encoded.refs);
        Ok(())
    }
}

/// Returns the result of a call as the `returns` values that the caller asked for.
pub(super) fn of_call(
    session: &Session,
    entry: &Entry,
    result: &Bound<'_, PyAny>,
    first: impl Fn(u32) -> ObjectId,
    returns: u32,
) -> PyResult<Results> {
    let name = &entry.template.front.function_name;
    let mut results = Results::default();
    match returns {
        0 => {}
        1 if entry.template.front.is_dynamic => {
            let items = dynamic(session, entry, result)?;
            results.add(session, &items, first(1), name)?;
        }
        1 => match results.add(session, result, first(1), name) {
            // No generator can be pickled, so that nothing has to be asked of other results.
            Err(_) if is_generator(result)? => {
                add_several(session, entry, result, &first, 1, &mut results)?;
            }
            added => added?,
        },
        n => add_several(session, entry, result, &first, n, &mut results)?,
    }
    Ok(results)
}

fn is_generator(result: &Bound<'_, PyAny>) -> PyResult<bool> {
    let types = result.py().import(intern!(result.py(), "types"))?;
    result.is_instance(&types.getattr(intern!(result.py(), "GeneratorType"))?)
}

fn add_several(
    session: &Session,
    entry: &Entry,
    result: &Bound<'_, PyAny>,
    first: &impl Fn(u32) -> ObjectId,
    n: u32,
    results: &mut Results,
) -> PyResult<()> {
    let (given, broken) = several(entry, result, n)?;
    results.broken = broken;
    for (index, value) in (1..).zip(&given) {
        results.add(session, value, first(index), &entry.template.front.function_name)?;
    }
    Ok(())
}

/// `n` values of something that can be counted or, as a generator, iterated; of a generator that raises
/// those before, and the error.
fn several<'py>(
    entry: &Entry,
    result: &Bound<'py, PyAny>,
    n: u32,
) -> PyResult<(Vec<Bound<'py, PyAny>>, Option<PyErr>)> {
    let wrong = |given: usize| {
        PyValueError::new_err(format!("Task returned {given} objects, but num_returns={n}."))
    };
    if !result.hasattr(intern!(result.py(), "__next__"))? {
        let given = result.len()?;
        if given != n as usize {
            return Err(wrong(given));
        }
    }
    let mut values = Vec::with_capacity(n as usize);
    // A generator may have more to give; nobody asked for it.
    for item in result.try_iter()?.take(n as usize) {
        match item {
            Ok(item) => values.push(item),
            Err(error) if ends_here(entry, result, &error) => return Ok((values, Some(error))),
            Err(error) => return Err(error),
        }
    }
    if values.len() < n as usize { Err(wrong(values.len())) } else { Ok((values, None)) }
}

/// Whether the error takes the place of a generator's items from there on: neither is the call run again,
/// nor was it interrupted.
fn ends_here(entry: &Entry, items: &Bound<'_, PyAny>, error: &PyErr) -> bool {
    error.is_instance_of::<PyException>(items.py())
        && !failure::is_retryable(items.py(), entry, error)
}

/// `num_returns="dynamic"`: the items are put here, and the list of references is the value. An error is
/// the last of them.
fn dynamic<'py>(
    session: &Session,
    entry: &Entry,
    items: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = items.py();
    let mut refs = Vec::new();
    for item in items.try_iter()? {
        let purpose = Purpose::Result(&entry.template.front.function_name);
        match item.and_then(|item| objects::store(py, session, &item, purpose)) {
            Ok(item) => refs.push(item),
            Err(error) if ends_here(entry, items, &error) => {
                let Some(running) = current::running(py) else { return Err(error) };
                let payload = failure::payload(py, &running, error, "task_error");
                let id = session.runtime.put(OutgoingValue::Error(payload), Vec::new());
                let id = id.map_err(|error| errors::raise(py, error))?;
                refs.push(ObjectRef::counted(py, id, session.epoch)?);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    py.import("heliostat.core.worker.main_loop")?.getattr("dynamic_refs")?.call1((refs,))
}
