//! A contiguous buffer that a Python object has exported.
//!
//! PyO3's own refuses arrays without dimensions, whose shape is null.

use std::ffi::CStr;

use pyo3::ffi;
use pyo3::prelude::*;

/// Memory that stays put until this is dropped, which wants the GIL.
pub(crate) struct Exported(Box<ffi::Py_buffer>);

impl Exported {
    /// The object's memory; an error if it has none, or not in one piece.
    pub(super) fn get(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        // Boxed: some exporters keep its address.
        let mut view = Box::new(ffi::Py_buffer::new());
        let flags = ffi::PyBUF_ANY_CONTIGUOUS | ffi::PyBUF_FORMAT;
        // SAFETY: the object is alive, and `view` is ours to fill.
        let rc = unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags) };
        if rc == 0 { Ok(Self(view)) } else { Err(PyErr::fetch(object.py())) }
    }

    /// The memory, in the order in which it lies.
    pub(super) fn bytes(&self) -> &[u8] {
        if self.0.len <= 0 || self.0.buf.is_null() {
            return &[];
        }
        // SAFETY: the buffer is contiguous (it was asked for so) and exported, so that its owner may
        // not move or free it. A thread that writes to it meanwhile tears the copy only, as it would
        // tear a pickle.
        unsafe { std::slice::from_raw_parts(self.0.buf.cast_const().cast(), self.0.len as usize) }
    }

    /// The type of its elements, in the language of `struct`.
    pub(super) fn format(&self) -> &CStr {
        if self.0.format.is_null() {
            return c"B";
        }
        // SAFETY: the exporter gave a string that lives as long as the export.
        unsafe { CStr::from_ptr(self.0.format) }
    }

    pub(super) fn shape(&self) -> &[ffi::Py_ssize_t] {
        if self.0.shape.is_null() || self.0.ndim <= 0 {
            return &[];
        }
        // SAFETY: the shape has as many entries as there are dimensions, and lives as long.
        unsafe { std::slice::from_raw_parts(self.0.shape, self.0.ndim as usize) }
    }

    /// Whether the last index moves fastest.
    pub(super) fn is_c_contiguous(&self) -> bool {
        // SAFETY: only reads the view.
        unsafe { ffi::PyBuffer_IsContiguous(&raw const *self.0, b'C' as std::ffi::c_char) != 0 }
    }
}

impl Drop for Exported {
    fn drop(&mut self) {
        // SAFETY: filled by `PyObject_GetBuffer` and released once; values of the codec are dropped
        // where they were made, with the GIL.
        unsafe { ffi::PyBuffer_Release(&raw mut *self.0) };
    }
}
