//! Bytes to values.

use helio_proto::references;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString};

use super::layout::{ALIGNMENT, damaged};
use super::source::Source;
use super::view::View;
use super::{ndarray, pickle, refs, tag, tree};

/// Smaller pickles are copied for the unpickler, which is quicker than a view.
const VIEW_MIN: usize = 1 << 10;

/// Walks through a document.
pub(super) struct Cursor<'a> {
    source: &'a Source,
    at: usize,
}

/// The value in a document.
pub(crate) fn decode(py: Python<'_>, source: Source) -> PyResult<Bound<'_, PyAny>> {
    let source = match source.first() {
        Some(&tag::PICKLE_BUFFERS | &tag::NDARRAY | &tag::WITH_REFS) => source.aligned(),
        _ => source,
    };
    let mut cursor = Cursor { source: &source, at: 0 };
    if source.first() != Some(&tag::WITH_REFS) {
        return cursor.value(py);
    }
    cursor.at = 1;
    let table = references::get(&source).ok_or_else(damaged)?;
    refs::reading(py, table, || cursor.value(py))
}

impl<'a> Cursor<'a> {
    pub(super) fn new(source: &'a Source, at: usize) -> Self {
        Self { source, at }
    }

    fn take(&mut self, n: usize) -> PyResult<&'a [u8]> {
        let end = self.at.checked_add(n).ok_or_else(damaged)?;
        let bytes = self.source.get(self.at..end).ok_or_else(damaged)?;
        self.at = end;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> PyResult<[u8; N]> {
        let bytes = self.take(N)?;
        bytes.try_into().map_err(|_| damaged())
    }

    pub(super) fn u8(&mut self) -> PyResult<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self) -> PyResult<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> PyResult<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn length(&mut self) -> PyResult<usize> {
        usize::try_from(self.u64()?).map_err(|_| damaged())
    }

    pub(super) fn text(&mut self, n: usize) -> PyResult<&'a str> {
        std::str::from_utf8(self.take(n)?).map_err(|_| damaged())
    }

    /// The next tag, without passing it.
    pub(super) fn peek(&self) -> Option<u8> {
        self.source.get(self.at).copied()
    }

    fn align(&mut self) {
        self.at = self.at.next_multiple_of(ALIGNMENT);
    }

    /// A view of the next `n` bytes.
    fn view(&mut self, n: usize) -> PyResult<View> {
        let offset = self.at;
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
                let n = self.length()?;
                let lengths =
                    (0..self.u32()?).map(|_| self.length()).collect::<PyResult<Vec<_>>>()?;
                let data = self.pickle(py, n)?;
                let mut buffers = Vec::with_capacity(lengths.len());
                for length in lengths {
                    self.align();
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
                let rest = self.source.get(self.at..).ok_or_else(damaged)?;
                let (value, taken) = tree::read(py, rest)?;
                self.at += taken;
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
        let order = if self.u8()? == b'F' { "F" } else { "C" };
        let n = usize::from(self.u8()?);
        let dtype = self.text(n)?;
        let shape = (0..self.u8()?).map(|_| self.length()).collect::<PyResult<Vec<_>>>()?;
        // The digits of `<f8` are the bytes of an element.
        let item: usize =
            dtype.get(2..).and_then(|digits| digits.parse().ok()).ok_or_else(damaged)?;
        let bytes =
            shape.iter().try_fold(item, |bytes, n| bytes.checked_mul(*n)).ok_or_else(damaged)?;
        self.align();
        let data = self.view(bytes)?;
        ndarray::make(py, order, dtype, &shape, data)
    }
}
