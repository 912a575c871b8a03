//! Values to bytes.

use helio_proto::document::{put_pickle_head, tag};
use helio_types::ObjectId;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use super::ndarray;
use super::pickle::{self, Pickled};
use super::purpose::Purpose;
use super::refs;
use super::sink::{Held, Sink};
use super::tree;
use crate::object_ref::{Collected, ObjectRef, collect, collecting};

/// A value on its way out, and the references inside it, which are held until it is gone.
pub(crate) struct Encoded {
    pub(crate) sink: Sink,
    pub(crate) refs: Vec<Py<ObjectRef>>,
}

impl Encoded {
    /// Returns the ids of the objects that the value refers to.
    pub(crate) fn contained(&self, py: Python<'_>) -> Vec<ObjectId> {
        self.refs.iter().map(|held| held.bind(py).get().id()).collect()
    }
}

/// A value ready to be written.
pub(super) enum Ready<'py> {
    /// A list of references: their number, and the position of the first in the table.
    Refs(usize, usize),
    Array(ndarray::Array),
    Pickled(Pickled<'py>),
}

/// A value that has a short form of its own.
enum Native<'py> {
    Plain(u8),
    Int(i64),
    Float(f64),
    Str(&'py str),
    Bytes(Bound<'py, PyBytes>),
}

/// Encodes a value as a document.
pub(crate) fn encode(value: &Bound<'_, PyAny>, purpose: Purpose<'_>) -> PyResult<Encoded> {
    let py = value.py();
    let mut sink = Sink::default();
    if plain(value, &mut sink) {
        return Ok(Encoded { sink, refs: Vec::new() });
    }
    let (ready, refs) = collecting(|collected| ready(value, collected, purpose));
    let (ready, refs) = (ready?, refs);
    if refs.is_empty() {
        ready.write(&mut sink);
    } else {
        sink.u8(tag::WITH_REFS);
        ready.write(&mut sink);
        refs::write_table(py, &mut sink, &refs);
    }
    Ok(Encoded { sink, refs })
}

/// Writes a plain value, or a container of plain values; whether it is one.
pub(super) fn plain(value: &Bound<'_, PyAny>, sink: &mut Sink) -> bool {
    if let Some(native) = native(value) {
        native.write(sink);
        return true;
    }
    let tree = |out: &mut Vec<u8>| {
        out.push(tag::TREE);
        tree::write(value, out)
    };
    tree::is_container(value) && sink.try_append(tree).is_some()
}

/// Turns a value that has no short form into what can be written.
pub(super) fn ready<'py>(
    value: &Bound<'py, PyAny>,
    collected: &Collected,
    purpose: Purpose<'_>,
) -> PyResult<Ready<'py>> {
    if let Some(refs) = list_of_refs(value, collected) {
        return Ok(refs);
    }
    if let Some(array) = ndarray::array(value) {
        return Ok(Ready::Array(array));
    }
    pickle::dumps(value, collected, purpose).map(Ready::Pickled)
}

/// Encodes a list of references, the usual form in which calls hand on references; as a pickle, each reference would
/// cost a call of Python's.
fn list_of_refs<'py>(value: &Bound<'py, PyAny>, collected: &Collected) -> Option<Ready<'py>> {
    let list = value.cast_exact::<PyList>().ok().filter(|list| !list.is_empty())?;
    let begin = collected.mark();
    for item in list {
        let Ok(reference) = item.cast_exact::<ObjectRef>() else {
            collected.back_to(begin);
            return None;
        };
        collect(reference);
    }
    Some(Ready::Refs(begin, collected.mark() - begin))
}

/// The short form of exact built-in values.
fn native<'py>(value: &Bound<'py, PyAny>) -> Option<Native<'py>> {
    let object = value.as_ptr();
    // SAFETY: the object is alive; the calls only look at its type, or at its value once the type is
    // known to be the exact one.
    unsafe {
        let class = ffi::Py_TYPE(object);
        if object == ffi::Py_None() {
            Some(Native::Plain(tag::NONE))
        } else if class == &raw mut ffi::PyBool_Type {
            Some(Native::Plain(if object == ffi::Py_True() { tag::TRUE } else { tag::FALSE }))
        } else if class == &raw mut ffi::PyLong_Type {
            let mut overflow = 0;
            let number = ffi::PyLong_AsLongLongAndOverflow(object, &raw mut overflow);
            (overflow == 0).then_some(Native::Int(number))
        } else if class == &raw mut ffi::PyFloat_Type {
            Some(Native::Float(ffi::PyFloat_AS_DOUBLE(object)))
        } else if class == &raw mut ffi::PyUnicode_Type {
            let mut len = 0;
            let start = ffi::PyUnicode_AsUTF8AndSize(object, &raw mut len);
            if start.is_null() {
                // Lone surrogates: pickle knows what to do with them.
                ffi::PyErr_Clear();
                return None;
            }
            let bytes = std::slice::from_raw_parts(start.cast(), len as usize);
            // The string caches its UTF-8 form and lives as long as `'py` in its caller's hands.
            Some(Native::Str(std::str::from_utf8_unchecked(bytes)))
        } else if class == &raw mut ffi::PyBytes_Type {
            Some(Native::Bytes(value.cast_unchecked::<PyBytes>().clone()))
        } else {
            None
        }
    }
}

impl Native<'_> {
    fn write(self, sink: &mut Sink) {
        match self {
            Self::Plain(tag) => sink.u8(tag),
            Self::Int(number) => sink.tagged(tag::INT, number as u64),
            Self::Float(number) => sink.tagged(tag::FLOAT, number.to_bits()),
            Self::Str(text) => {
                sink.tagged(tag::STR, text.len() as u64);
                sink.bytes(text.as_bytes());
            }
            Self::Bytes(bytes) => {
                sink.tagged(tag::BYTES, bytes.as_bytes().len() as u64);
                sink.memory(Held::Bytes(bytes.unbind()));
            }
        }
    }
}

impl Ready<'_> {
    /// Whether reading wants aligned bytes.
    pub(super) fn has_buffers(&self) -> bool {
        match self {
            Self::Refs(..) => false,
            Self::Array(_) => true,
            Self::Pickled(pickled) => !pickled.buffers.is_empty(),
        }
    }

    pub(super) fn write(self, sink: &mut Sink) {
        match self {
            Self::Refs(begin, n) => {
                sink.u8(tag::REFS);
                sink.u32(begin as u32);
                sink.u32(n as u32);
            }
            Self::Array(array) => array.write(sink),
            Self::Pickled(Pickled { data, buffers }) => {
                let lengths: Vec<usize> = buffers.iter().map(|one| one.bytes().len()).collect();
                sink.append(|out| put_pickle_head(out, data.as_bytes().len(), &lengths));
                sink.memory(Held::Bytes(data.unbind()));
                for buffer in buffers {
                    sink.align();
                    sink.memory(Held::Buffer(buffer));
                }
            }
        }
    }
}
