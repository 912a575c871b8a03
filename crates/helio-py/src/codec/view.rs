//! A read-only view of a part of an object's bytes, for pickle and numpy; holds the object.

use std::ffi::{c_int, c_void};
use std::ops::Range;

use pyo3::ffi;
use pyo3::prelude::*;

use super::source::Source;

/// Bytes of an object, for the buffer protocol.
#[pyclass(frozen, module = "heliostat._heliostat", name = "_View")]
pub(crate) struct View {
    source: Source,
    offset: usize,
    len: usize,
}

impl View {
    /// The bytes at that place, which the caller has found to be there.
    pub(crate) fn new(source: &Source, place: Range<usize>) -> Self {
        debug_assert!(place.end <= source.len());
        Self { source: source.clone(), offset: place.start, len: place.len() }
    }
}

#[pymethods]
impl View {
    fn __len__(&self) -> usize {
        self.len
    }

    /// # Safety
    /// Called by the interpreter, with a `Py_buffer` to fill.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        let bytes = &this.source[this.offset..this.offset + this.len];
        let start = bytes.as_ptr().cast_mut().cast::<c_void>();
        // SAFETY: `view` is the interpreter's; the bytes live as long as `slf`, which the filled view
        // holds; read-only is stated, so that nobody writes through the pointer.
        let rc = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, this.len as ffi::Py_ssize_t, 1, flags)
        };
        if rc == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}
