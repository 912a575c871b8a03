//! Values on their way back to the caller.

use helio_types::ObjectId;
use helio_worker::{Outcome, Outgoing, OutgoingValue};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;

use super::functions::Entry;
use crate::codec::{self, Purpose};
use crate::gil::GilSite;
use crate::object_ref::ObjectRef;
use crate::session::Session;

/// Values that are ready to be sent; the references in them are held until they are.
#[derive(Default)]
pub(super) struct Results {
    pub(super) values: Vec<Outgoing>,
    held: Vec<Py<ObjectRef>>,
}

impl Results {
    /// One value more, which becomes the object `id`.
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

/// What a call returned, as the `returns` values it was to return.
pub(super) fn of_call(
    session: &Session,
    entry: &Entry,
    result: &Bound<'_, PyAny>,
    first: impl Fn(u32) -> ObjectId,
    returns: u32,
) -> PyResult<Results> {
    let name = &entry.extra.function_name;
    let mut results = Results::default();
    match returns {
        0 => {}
        1 if entry.extra.dynamic => {
            let items = dynamic(session, result, name)?;
            results.add(session, &items, first(1), name)?;
        }
        1 => results.add(session, result, first(1), name)?,
        n => {
            let given = several(result, n)?;
            for (index, value) in (1..).zip(&given) {
                results.add(session, value, first(index), name)?;
            }
        }
    }
    Ok(results)
}

/// `n` values of something that can be counted or, as a generator, iterated.
fn several<'py>(result: &Bound<'py, PyAny>, n: u32) -> PyResult<Vec<Bound<'py, PyAny>>> {
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
        values.push(item?);
    }
    if values.len() < n as usize { Err(wrong(values.len())) } else { Ok(values) }
}

/// `num_returns="dynamic"`: the items are put here, and the list of references is the value.
fn dynamic<'py>(
    session: &Session,
    items: &Bound<'py, PyAny>,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let py = items.py();
    let mut refs = Vec::new();
    for item in items.try_iter()? {
        refs.push(crate::objects::store(py, session, &item?, Purpose::Result(name))?);
    }
    py.import("heliostat.core.worker_main")?.getattr("dynamic_refs")?.call1((refs,))
}

/// The outcome of a call that raised: the error in place of each value.
pub(super) fn failed(error: Vec<u8>, returns: u32, retryable: bool) -> Outcome {
    let n = if returns == helio_proto::peer::STREAMING { 1 } else { returns as usize };
    let value = Outgoing { value: OutgoingValue::Error(error), contained: Vec::new() };
    Outcome { returns: vec![value; n], failed: true, retryable, ..Outcome::default() }
}
