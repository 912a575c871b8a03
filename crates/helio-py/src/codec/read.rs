//! Bytes to values.

use std::ops::Range;

use helio_proto::document::{Part, tag};
use helio_proto::{document, references};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString};

use super::layout::{damaged, sound};
use super::source::Source;
use super::view::View;
use super::{ndarray, pickle, refs, tree};

/// Smaller pickles are copied for the unpickler, which is quicker than a view.
const VIEW_MIN: usize = 1 << 10;

/// Walks through a document.
pub(super) struct Cursor<'a> {
    pub(super) source: &'a Source,
    pub(super) document: document::Cursor<'a>,
}

/// The value in a document.
pub(crate) fn decode(py: Python<'_>, source: Source) -> PyResult<Bound<'_, PyAny>> {
    let source = match source.first() {
        Some(&tag::PICKLE_BUFFERS | &tag::NDARRAY | &tag::WITH_REFS) => source.aligned(),
        _ => source,
    };
    let has_refs = source.first() == Some(&tag::WITH_REFS);
    let mut cursor = Cursor::new(&source, usize::from(has_refs));
    if !has_refs {
        return cursor.value(py);
    }
    let table = references::get(&source).ok_or_else(damaged)?;
    refs::reading(py, table, || cursor.value(py))
}

impl<'a> Cursor<'a> {
    fn new(source: &'a Source, at: usize) -> Self {
        Self { source, document: document::Cursor::new(source, at) }
    }

    fn view(&self, place: Range<usize>) -> View {
        View::new(self.source, place)
    }

    /// The value that begins here; the cursor ends up behind it.
    pub(super) fn value<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match sound(self.document.part())? {
            Part::None => py.None().into_bound(py),
            Part::Bool(value) => PyBool::new(py, value).to_owned().into_any(),
            Part::Int(number) => PyInt::new(py, number).into_any(),
            Part::Float(number) => PyFloat::new(py, number).into_any(),
            Part::Text(text) => PyString::new(py, text).into_any(),
            Part::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
            Part::Pickle(place) => pickle::loads(py, &self.pickle(py, place)?, Vec::new())?,
            Part::PickleBuffers(place, buffers) => {
                let views = buffers.into_iter().map(|place| self.view(place)).collect();
                pickle::loads(py, &self.pickle(py, place)?, views)?
            }
            Part::Array(head, place) => ndarray::make(py, &head, self.view(place))?,
            Part::References { first, count } => {
                refs::taken(py, first, count).ok_or_else(damaged)??.into_any()
            }
            Part::Tree => {
                let rest = self.document.rest();
                let (value, taken) = tree::read(py, rest)?;
                sound(self.document.take(taken))?;
                value
            }
        })
    }

    fn pickle<'py>(&self, py: Python<'py>, place: Range<usize>) -> PyResult<Bound<'py, PyAny>> {
        if place.len() < VIEW_MIN {
            return Ok(PyBytes::new(py, &self.source[place]).into_any());
        }
        Ok(Bound::new(py, self.view(place))?.into_any())
    }
}
