//! Plain numpy arrays without pickle: `u8` order (`C` or `F`), `u8` length and text of the type
//! (`<f8`), `u8` dimensions, a `u64` each, and the data from the next multiple of 64.
//!
//! Numpy is never imported for writing: a process that has not loaded it has no arrays.

use std::sync::atomic::{AtomicBool, Ordering};

use helio_proto::document::{ArrayHead, DIMENSIONS_MAX, dtype_of, tag};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};

use super::exported::Exported;
use super::pickle::loaded;
use super::sink::{Held, Sink};
use super::view::View;

/// An array whose memory is held.
pub(super) struct Array {
    buffer: Exported,
    dtype: &'static str,
}

/// Off while the user has a serializer of their own for arrays.
static ENABLED: AtomicBool = AtomicBool::new(true);

#[pyfunction]
pub(crate) fn _use_numpy_fast_path(enabled: bool) {
    ENABLED.store(enabled, Ordering::Relaxed);
}

/// The array in `value`, if it is one of this form.
pub(super) fn array(value: &Bound<'_, PyAny>) -> Option<Array> {
    if !is_array(value) || !ENABLED.load(Ordering::Relaxed) {
        return None;
    }
    let buffer = match Exported::get(value) {
        Ok(buffer) => buffer,
        // Dates, objects and other types that have no buffer form.
        Err(_) => return None,
    };
    let dtype = dtype_of(buffer.format().to_bytes())?;
    (buffer.shape().len() <= DIMENSIONS_MAX).then_some(Array { buffer, dtype })
}

fn is_array(value: &Bound<'_, PyAny>) -> bool {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = value.py();
    if let Some(class) = CLASS.get(py) {
        return value.get_type().is(class.bind(py));
    }
    let Ok(Some(numpy)) = loaded(py, intern!(py, "numpy")) else { return false };
    // Absent while numpy is half imported.
    let Ok(class) = numpy.getattr(intern!(py, "ndarray")) else { return false };
    let Ok(class) = class.cast_into::<PyType>() else { return false };
    let same = value.get_type().is(&class);
    let _ = CLASS.set(py, class.unbind());
    same
}

impl Array {
    pub(super) fn write(self, sink: &mut Sink) {
        sink.u8(tag::NDARRAY);
        let head = ArrayHead {
            is_fortran: !self.buffer.is_c_contiguous(),
            dtype: self.dtype,
            shape: self.buffer.shape().iter().map(|n| *n as usize).collect(),
        };
        sink.append(|out| head.put(out));
        sink.align();
        sink.memory(Held::Buffer(self.buffer));
    }
}

/// Python objects that make arrays, looked up once.
struct Tools {
    ndarray: Py<PyAny>,
    dtype: Py<PyAny>,
    /// `dtype` objects by name.
    dtypes: Py<PyDict>,
}

fn tools(py: Python<'_>) -> PyResult<&Tools> {
    static TOOLS: PyOnceLock<Tools> = PyOnceLock::new();
    TOOLS.get_or_try_init(py, || {
        let numpy = py.import("numpy")?;
        Ok(Tools {
            ndarray: numpy.getattr("ndarray")?.unbind(),
            dtype: numpy.getattr("dtype")?.unbind(),
            dtypes: PyDict::new(py).unbind(),
        })
    })
}

/// A read-only array over the view.
pub(super) fn make<'py>(
    py: Python<'py>,
    head: &ArrayHead<'_>,
    data: View,
) -> PyResult<Bound<'py, PyAny>> {
    let dtype = head.dtype;
    let order = if head.is_fortran { "F" } else { "C" };
    let tools = tools(py)?;
    let dtypes = tools.dtypes.bind(py);
    let dtype = match dtypes.get_item(dtype)? {
        Some(known) => known,
        None => {
            let made = tools.dtype.bind(py).call1((dtype,))?;
            dtypes.set_item(dtype, &made)?;
            made
        }
    };
    let shape = PyTuple::new(py, &head.shape)?;
    tools.ndarray.bind(py).call1((shape, dtype, Bound::new(py, data)?, 0, py.None(), order))
}
