//! Values as bytes, and back.
//!
//! A document begins with a tag (never 0xe0, which marks an error of the system):
//!
//! | tag | value | payload |
//! |---|---|---|
//! | 0, 1, 2 | `None`, `False`, `True` | |
//! | 3, 4 | `int` of 64 bits, `float` | 8 bytes |
//! | 5, 6 | `str`, `bytes` | `u64` length, bytes |
//! | 7 | anything, pickled | `u64` length, pickle |
//! | 8 | the same with buffers beside the pickle | `u64` length, `u32` count, a `u64` length each; pickle; each buffer from the next multiple of 64 |
//! | 9 | a plain `numpy.ndarray` | see [`ndarray`]; its data from the next multiple of 64 |
//! | 10 | an argument that is a reference: the next dependency (in arguments only) | |
//! | 11 | a document with references inside | a value; then their table, see [`refs`]; the last 8 bytes say where it begins |
//! | 12 | a `list` of nothing but references | `u32` the first's position in that table, `u32` how many follow one another there |
//! | 13 | a `list`, `tuple` or `dict` of plain values | see [`tree`] |
//!
//! Exact built-in types only take the short forms; what inherits from them is pickled. All numbers are
//! little-endian. Reading is zero-copy: buffers are read-only views that keep the bytes alive.

pub(crate) mod args;
mod exported;
mod ndarray;
mod pickle;
mod read;
pub(crate) mod refs;
mod sink;
mod source;
mod tree;
mod view;
mod write;

pub(crate) use ndarray::_use_numpy_fast_path;
pub(crate) use pickle::{_buffer_callback, _use_dispatch_table};
pub(crate) use read::decode;
pub(crate) use sink::{Piece, Sink};
pub(crate) use source::Source;
pub(crate) use view::View;
pub(crate) use write::{Purpose, encode};

use std::sync::Arc;

use helio_proto::frame::INLINE_MAX;
use helio_types::ObjectId;
use helio_worker::{Created, Error, OutgoingValue, Runtime};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;
use crate::gil::{GilSite, detached};

mod tag {
    pub(super) const NONE: u8 = 0;
    pub(super) const FALSE: u8 = 1;
    pub(super) const TRUE: u8 = 2;
    pub(super) const INT: u8 = 3;
    pub(super) const FLOAT: u8 = 4;
    pub(super) const STR: u8 = 5;
    pub(super) const BYTES: u8 = 6;
    pub(super) const PICKLE: u8 = 7;
    pub(super) const PICKLE_BUFFERS: u8 = 8;
    pub(super) const NDARRAY: u8 = 9;
    pub(super) const DEPENDENCY: u8 = 10;
    pub(super) const WITH_REFS: u8 = 11;
    pub(super) const REFS: u8 = 12;
    pub(super) const TREE: u8 = 13;
}

/// Where buffers begin: a multiple of this from the document's begin.
const ALIGNMENT: usize = 64;

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
        let pieces = sink.pieces();
        detached(py, site, |interrupt| {
            let mut created = runtime.create(sink_len(&pieces), interrupt)?;
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
    let pieces = sink.pieces();
    let stored = detached(py, site, |interrupt| {
        runtime.store_as(id, sink_len(&pieces), |created| fill(created, &pieces), interrupt)
    })?;
    stored.map_err(|error| errors::raise(py, error))
}

fn sink_len(pieces: &[Piece]) -> u64 {
    pieces.iter().map(|piece| piece.bytes().len() as u64).sum()
}

fn fill(created: &mut Created, pieces: &[Piece]) -> Result<(), Error> {
    pieces.iter().try_for_each(|piece| created.copy_in(piece.offset, piece.bytes()))
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
