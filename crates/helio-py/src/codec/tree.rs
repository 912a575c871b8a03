//! Lists, tuples and dictionaries of plain values, without the pickler ([`helio_proto::document::tree`]).
//!
//! Whether a text or a container *can* come again is told by its reference count: what only its container refers to is
//! not shared. A container that comes again is left to the pickler, which keeps its identity; so is everything that
//! holds something else than plain values.

use helio_proto::document::tree::{self, Container, Item, PLACES};
use pyo3::ffi;
use pyo3::prelude::*;

use super::layout::{damaged, sound};

/// Appends the value; `None` if it is not a container of plain values: what was appended is of no use.
pub(super) fn write(value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Option<()> {
    let mut writer = Writer { tree: tree::Writer::new(out) };
    // SAFETY: the value is alive and so is all that it holds: this runs under the GIL, and looking at exact
    // built-in types runs no code that could change them.
    unsafe { writer.value(value.as_ptr(), 0) }
}

/// Whether the value is a container that [`write`] may know.
pub(super) fn is_container(value: &Bound<'_, PyAny>) -> bool {
    let class = value.get_type_ptr();
    class == &raw mut ffi::PyDict_Type
        || class == &raw mut ffi::PyList_Type
        || class == &raw mut ffi::PyTuple_Type
}

struct Writer<'a> {
    tree: tree::Writer<'a>,
}

impl Writer<'_> {
    /// # Safety
    /// The object is alive and is not changed meanwhile.
    unsafe fn value(&mut self, object: *mut ffi::PyObject, depth: usize) -> Option<()> {
        // SAFETY: as promised by the caller; each accessor is used on the exact type that it is for.
        unsafe {
            let class = ffi::Py_TYPE(object);
            if class == &raw mut ffi::PyUnicode_Type {
                self.text(object)?;
            } else if class == &raw mut ffi::PyLong_Type {
                self.int(object)?;
            } else if class == &raw mut ffi::PyFloat_Type {
                let number = ffi::PyFloat_AS_DOUBLE(object);
                self.tree.float(number);
            } else if class == &raw mut ffi::PyDict_Type {
                self.container(object, Container::Dict, ffi::PyDict_Size(object), depth)?;
                let (mut at, mut key) = (0, std::ptr::null_mut());
                let mut value = std::ptr::null_mut();
                while ffi::PyDict_Next(object, &raw mut at, &raw mut key, &raw mut value) != 0 {
                    self.value(key, depth + 1)?;
                    self.value(value, depth + 1)?;
                }
            } else if class == &raw mut ffi::PyList_Type {
                let n = ffi::PyList_GET_SIZE(object);
                self.container(object, Container::List, n, depth)?;
                (0..n).try_for_each(|i| self.value(ffi::PyList_GET_ITEM(object, i), depth + 1))?;
            } else if class == &raw mut ffi::PyTuple_Type {
                let n = ffi::PyTuple_GET_SIZE(object);
                self.container(object, Container::Tuple, n, depth)?;
                (0..n).try_for_each(|i| self.value(ffi::PyTuple_GET_ITEM(object, i), depth + 1))?;
            } else if object == ffi::Py_None() {
                self.tree.none();
            } else if class == &raw mut ffi::PyBool_Type {
                self.tree.bool(object == ffi::Py_True());
            } else if class == &raw mut ffi::PyBytes_Type {
                let n = ffi::PyBytes_Size(object);
                let bytes = ffi::PyBytes_AS_STRING(object).cast::<u8>();
                self.tree.bytes(std::slice::from_raw_parts(bytes, n as usize))?;
            } else {
                return None;
            }
        }
        Some(())
    }

    /// The head of a container of `n` items.
    ///
    /// # Safety
    /// The object is alive.
    unsafe fn container(
        &mut self,
        object: *mut ffi::PyObject,
        container: Container,
        n: isize,
        depth: usize,
    ) -> Option<()> {
        // SAFETY: as promised by the caller.
        let is_shared = unsafe { ffi::Py_REFCNT(object) } > 1;
        self.tree.container(container, n as usize, depth, is_shared.then_some(object as usize))
    }

    /// # Safety
    /// The object is alive, and exactly a `str`.
    unsafe fn text(&mut self, object: *mut ffi::PyObject) -> Option<()> {
        let identity = object as usize;
        // SAFETY: as promised by the caller.
        let is_shared = unsafe { ffi::Py_REFCNT(object) } > 1;
        if is_shared && self.tree.same_text(identity) {
            return Some(());
        }
        let mut n = 0;
        // SAFETY: as promised by the caller; the text keeps its UTF-8 form as long as it lives.
        let utf8 = unsafe {
            let start = ffi::PyUnicode_AsUTF8AndSize(object, &raw mut n);
            if start.is_null() {
                // Lone surrogates: pickle knows what to do with them.
                ffi::PyErr_Clear();
                return None;
            }
            std::slice::from_raw_parts(start.cast::<u8>(), n as usize)
        };
        self.tree.text(identity, is_shared, utf8)
    }

    /// # Safety
    /// The object is alive, and exactly an `int`.
    unsafe fn int(&mut self, object: *mut ffi::PyObject) -> Option<()> {
        let mut overflow = 0;
        // SAFETY: as promised by the caller.
        let number = unsafe { ffi::PyLong_AsLongLongAndOverflow(object, &raw mut overflow) };
        if overflow != 0 {
            return None;
        }
        self.tree.int(number);
        Some(())
    }
}

/// Reads what [`write`] wrote; the value, and how many bytes it took.
pub(super) fn read<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<(Bound<'py, PyAny>, usize)> {
    let tree = tree::Reader::new(bytes);
    let mut reader = Reader { py, tree, texts: [const { None }; PLACES] };
    let value = reader.value(0)?;
    Ok((value, bytes.len() - reader.tree.rest().len()))
}

struct Reader<'a, 'py> {
    py: Python<'py>,
    tree: tree::Reader<'a>,
    /// The text that has each place.
    texts: [Option<Bound<'py, PyAny>>; PLACES],
}

impl<'py> Reader<'_, 'py> {
    fn value(&mut self, depth: usize) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        // SAFETY: new objects, made under the GIL from plain numbers or from memory that is there.
        let made = unsafe {
            match sound(self.tree.next(depth))? {
                Item::None => return Ok(py.None().into_bound(py)),
                Item::Bool(value) => ffi::PyBool_FromLong(value.into()),
                Item::Int(number) => ffi::PyLong_FromLongLong(number),
                Item::Float(number) => ffi::PyFloat_FromDouble(number),
                Item::Bytes(bytes) => {
                    ffi::PyBytes_FromStringAndSize(bytes.as_ptr().cast(), bytes.len() as isize)
                }
                Item::Text(utf8) => return self.text(utf8),
                Item::KeptText(place, utf8) => {
                    let text = self.text(utf8)?;
                    self.texts[usize::from(place)] = Some(text.clone());
                    return Ok(text);
                }
                Item::SameText(place) => {
                    return self.texts[usize::from(place)].clone().ok_or_else(damaged);
                }
                Item::Container(Container::List, n) => return self.list(n as isize, depth),
                Item::Container(Container::Tuple, n) => return self.tuple(n as isize, depth),
                Item::Container(Container::Dict, n) => return self.dict(n, depth),
            }
        };
        // SAFETY: a new reference, or null with the error set.
        unsafe { Bound::from_owned_ptr_or_err(py, made) }
    }

    fn text(&self, utf8: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let (start, n) = (utf8.as_ptr().cast(), utf8.len() as isize);
        // SAFETY: reads `n` bytes that are there and makes a new object, or raises.
        unsafe {
            let made = ffi::PyUnicode_DecodeUTF8(start, n, c"strict".as_ptr());
            Bound::from_owned_ptr_or_err(self.py, made)
        }
    }

    fn list(&mut self, n: isize, depth: usize) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: a new list, whose items are null until they are set: the collector and its end expect that.
        unsafe {
            let list = Bound::from_owned_ptr_or_err(self.py, ffi::PyList_New(n))?;
            for i in 0..n {
                ffi::PyList_SET_ITEM(list.as_ptr(), i, self.value(depth + 1)?.into_ptr());
            }
            Ok(list)
        }
    }

    fn tuple(&mut self, n: isize, depth: usize) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: as for lists; nobody else has the tuple before it is whole.
        unsafe {
            let tuple = Bound::from_owned_ptr_or_err(self.py, ffi::PyTuple_New(n))?;
            for i in 0..n {
                ffi::PyTuple_SET_ITEM(tuple.as_ptr(), i, self.value(depth + 1)?.into_ptr());
            }
            Ok(tuple)
        }
    }

    fn dict(&mut self, n: usize, depth: usize) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: a new dictionary; it takes references of its own to what is set.
        unsafe {
            let dict = Bound::from_owned_ptr_or_err(self.py, ffi::PyDict_New())?;
            for _ in 0..n {
                let key = self.value(depth + 1)?;
                let value = self.value(depth + 1)?;
                if ffi::PyDict_SetItem(dict.as_ptr(), key.as_ptr(), value.as_ptr()) != 0 {
                    return Err(PyErr::take(self.py).unwrap_or_else(damaged));
                }
            }
            Ok(dict)
        }
    }
}
