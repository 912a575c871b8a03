//! Bytes to values.

use helio_proto::document::tag;
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
    source: &'a Source,
    document: document::Cursor<'a>,
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
    pub(super) fn new(source: &'a Source, at: usize) -> Self {
        Self { source, document: document::Cursor::new(source, at) }
    }

    fn take(&mut self, n: usize) -> PyResult<&'a [u8]> {
        sound(self.document.take(n))
    }

    pub(super) fn u8(&mut self) -> PyResult<u8> {
        sound(self.document.u8())
    }

    pub(super) fn u32(&mut self) -> PyResult<u32> {
        sound(self.document.u32())
    }

    fn u64(&mut self) -> PyResult<u64> {
        sound(self.document.u64())
    }

    fn length(&mut self) -> PyResult<usize> {
        sound(self.document.length())
    }

    pub(super) fn text(&mut self, n: usize) -> PyResult<&'a str> {
        sound(self.document.text(n))
    }

    /// The next tag, without passing it.
    pub(super) fn peek(&self) -> Option<u8> {
        self.document.peek()
    }

    /// A view of the next `n` bytes.
    fn view(&mut self, n: usize) -> PyResult<View> {
        let offset = self.document.at();
        self.take(n)?;
        Ok(View::new(self.source, offset, n))
    }

    /// The value that begins here; the cursor ends up behind it.
    pub(super) fn value<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self.u8()? {
            tag::NONE => py.None().into_bound(py),
            tag::FALSE => PyBool::new(py, false).to_owned().into_any(),
            tag::TRUE => PyBool::new(py, true).to_owned().into_any(),
            tag::INT => PyInt::new(py, self.u64()? as i64).into_any(),
            tag::FLOAT => PyFloat::new(py, f64::from_bits(self.u64()?)).into_any(),
            tag::STR => {
                let n = self.length()?;
                PyString::new(py, self.text(n)?).into_any()
            }
            tag::BYTES => {
                let n = self.length()?;
                PyBytes::new(py, self.take(n)?).into_any()
            }
            tag::PICKLE => {
                let n = self.length()?;
                let data = self.pickle(py, n)?;
                pickle::loads(py, &data, Vec::new())?
            }
            tag::PICKLE_BUFFERS => {
                let (n, lengths) = sound(self.document.pickle_head())?;
                let data = self.pickle(py, n)?;
                let mut buffers = Vec::with_capacity(lengths.len());
                for length in lengths {
                    sound(self.document.align())?;
                    buffers.push(self.view(length)?);
                }
                pickle::loads(py, &data, buffers)?
            }
            tag::NDARRAY => self.ndarray(py)?,
            tag::REFS => {
                let (begin, n) = (self.u32()? as usize, self.u32()? as usize);
                refs::taken(py, begin, n).ok_or_else(damaged)??.into_any()
            }
            tag::TREE => {
                let (value, taken) = tree::read(py, self.document.rest())?;
                self.take(taken)?;
                value
            }
            _ => return Err(damaged()),
        })
    }

    fn pickle<'py>(&mut self, py: Python<'py>, n: usize) -> PyResult<Bound<'py, PyAny>> {
        if n < VIEW_MIN {
            return Ok(PyBytes::new(py, self.take(n)?).into_any());
        }
        Ok(Bound::new(py, self.view(n)?)?.into_any())
    }

    fn ndarray<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (head, size) = sound(self.document.array_head())?;
        sound(self.document.align())?;
        let data = self.view(size)?;
        ndarray::make(py, &head, data)
    }
}
