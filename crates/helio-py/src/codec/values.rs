//! Values on their way into the object store, and as bytes for Python.

use std::sync::Arc;

use helio_proto::document::Piece;
use helio_proto::frame::INLINE_MAX;
use helio_types::ObjectId;
use helio_worker::{Created, Error, OutgoingValue, Runtime};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::purpose::Purpose;
use super::read::decode;
use super::sink::Sink;
use super::source::Source;
use super::write::encode;
use crate::errors;
use crate::gil::{GilSite, detached};

/// Puts an encoded value on its own feet: a small one in this process, a large one straight into the
/// object store.
pub(crate) fn put(
    py: Python<'_>,
    runtime: &Arc<Runtime>,
    site: GilSite,
    sink: &mut Sink,
    contained: Vec<ObjectId>,
) -> PyResult<ObjectId> {
    let stored = if sink.len() <= INLINE_MAX {
        runtime.put(OutgoingValue::Inline(sink.take()), contained)
    } else {
        let (len, pieces) = (sink.len() as u64, sink.pieces());
        detached(py, site, |interrupt| {
            let mut created = runtime.create(len, interrupt)?;
            fill(&mut created, &pieces)?;
            runtime.put_created(created, contained)
        })?
    };
    stored.map_err(|error| errors::raise(py, error))
}

/// Makes an encoded value ready to be sent as the object `id`.
pub(crate) fn place_as(
    py: Python<'_>,
    runtime: &Arc<Runtime>,
    id: ObjectId,
    site: GilSite,
    sink: &mut Sink,
) -> PyResult<OutgoingValue> {
    if sink.len() <= INLINE_MAX {
        return Ok(OutgoingValue::Inline(sink.take()));
    }
    let (len, pieces) = (sink.len() as u64, sink.pieces());
    let stored = detached(py, site, |interrupt| {
        runtime.store_as(id, len, |created| fill(created, &pieces), interrupt)
    })?;
    stored.map_err(|error| errors::raise(py, error))
}

fn fill(created: &mut Created, pieces: &[Piece<'_>]) -> Result<(), Error> {
    pieces.iter().try_for_each(|piece| created.copy_in(piece.offset, piece.bytes))
}

/// The bytes that would be stored. References inside are pinned for good.
#[pyfunction]
pub(crate) fn serialize<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let py = value.py();
    let mut encoded = encode(value, Purpose::Value)?;
    for held in &encoded.refs {
        held.bind(py).get().pin();
    }
    Ok(PyBytes::new(py, &encoded.sink.take()))
}

/// Back again; raises when `is_error`.
#[pyfunction]
#[pyo3(signature = (data, is_error = false))]
pub(crate) fn deserialize<'py>(
    py: Python<'py>,
    data: &[u8],
    is_error: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let source = Source::copied(data);
    if is_error { Err(errors::from_bytes(py, source)) } else { decode(py, source) }
}
