//! Lists, tuples and dictionaries of plain values, without the pickler.
//!
//! Each value is a kind and its payload, containers before what is in them. A pickle remembers every text
//! and every container that it writes, in case they come again; most never do. Whether one *can* come again
//! is told by its reference count: what only its container refers to is not remembered here. Texts that
//! others refer to as well (keys, labels) have one of 256 places by their address, and while they keep it
//! they are written once and read as one object. A container that comes again is left to the pickler, which
//! keeps its identity; so is everything that holds something else than plain values.

use std::collections::HashSet;

use helio_proto::reader;
use pyo3::ffi;
use pyo3::prelude::*;

use super::layout::{damaged, sound};

mod kind {
    pub(super) const NONE: u8 = 0;
    pub(super) const FALSE: u8 = 1;
    pub(super) const TRUE: u8 = 2;
    /// `int`: one byte without sign, 32 bits, 64 bits.
    pub(super) const INT_8: u8 = 3;
    pub(super) const INT_32: u8 = 4;
    pub(super) const INT_64: u8 = 5;
    pub(super) const FLOAT: u8 = 6;
    /// `str`: `u8` or `u32` length, UTF-8.
    pub(super) const SHORT_STR: u8 = 7;
    pub(super) const STR: u8 = 8;
    /// `u8` place, then like `STR`: the place is this text's from now on.
    pub(super) const KEPT_STR: u8 = 9;
    /// `u8` place: the text that has it.
    pub(super) const SAME_STR: u8 = 10;
    /// `u32` length, bytes.
    pub(super) const BYTES: u8 = 11;
    /// `u32` items, or pairs.
    pub(super) const LIST: u8 = 12;
    pub(super) const TUPLE: u8 = 13;
    pub(super) const DICT: u8 = 14;
}

const PLACES: usize = 256;
/// Deeper values are the pickler's.
const DEPTH_MAX: usize = 64;

/// Appends the value; `None` if it is not a container of plain values: what was appended is of no use.
pub(super) fn write(value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Option<()> {
    let mut writer = Writer { out, texts: [0; PLACES], containers: HashSet::new() };
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
    out: &'a mut Vec<u8>,
    /// The address of the text that has each place.
    texts: [usize; PLACES],
    /// The addresses of containers to which more than their own container refers.
    containers: HashSet<usize>,
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
                self.tagged(kind::FLOAT, number.to_bits().to_le_bytes());
            } else if class == &raw mut ffi::PyDict_Type {
                self.container(object, kind::DICT, ffi::PyDict_Size(object), depth)?;
                let (mut at, mut key) = (0, std::ptr::null_mut());
                let mut value = std::ptr::null_mut();
                while ffi::PyDict_Next(object, &raw mut at, &raw mut key, &raw mut value) != 0 {
                    self.value(key, depth + 1)?;
                    self.value(value, depth + 1)?;
                }
            } else if class == &raw mut ffi::PyList_Type {
                let n = ffi::PyList_GET_SIZE(object);
                self.container(object, kind::LIST, n, depth)?;
                (0..n).try_for_each(|i| self.value(ffi::PyList_GET_ITEM(object, i), depth + 1))?;
            } else if class == &raw mut ffi::PyTuple_Type {
                let n = ffi::PyTuple_GET_SIZE(object);
                self.container(object, kind::TUPLE, n, depth)?;
                (0..n).try_for_each(|i| self.value(ffi::PyTuple_GET_ITEM(object, i), depth + 1))?;
            } else if object == ffi::Py_None() {
                self.out.push(kind::NONE);
            } else if class == &raw mut ffi::PyBool_Type {
                self.out.push(if object == ffi::Py_True() { kind::TRUE } else { kind::FALSE });
            } else if class == &raw mut ffi::PyBytes_Type {
                let n = ffi::PyBytes_Size(object);
                self.tagged(kind::BYTES, u32::try_from(n).ok()?.to_le_bytes());
                let bytes = ffi::PyBytes_AS_STRING(object).cast::<u8>();
                self.out.extend_from_slice(std::slice::from_raw_parts(bytes, n as usize));
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
        kind: u8,
        n: isize,
        depth: usize,
    ) -> Option<()> {
        // SAFETY: as promised by the caller.
        let is_shared = unsafe { ffi::Py_REFCNT(object) } > 1;
        let comes_again = is_shared && !self.containers.insert(object as usize);
        // There is one empty tuple for all.
        if (comes_again && !(kind == kind::TUPLE && n == 0)) || depth >= DEPTH_MAX {
            return None;
        }
        self.tagged(kind, u32::try_from(n).ok()?.to_le_bytes());
        Some(())
    }

    /// # Safety
    /// The object is alive, and exactly a `str`.
    unsafe fn text(&mut self, object: *mut ffi::PyObject) -> Option<()> {
        let address = object as usize;
        let place = (address >> 4) % PLACES;
        // SAFETY: as promised by the caller.
        let is_shared = unsafe { ffi::Py_REFCNT(object) } > 1;
        if is_shared && self.texts[place] == address {
            self.out.extend_from_slice(&[kind::SAME_STR, place as u8]);
            return Some(());
        }
        let mut n = 0;
        // SAFETY: as promised by the caller; the text keeps its UTF-8 form as long as it lives.
        let bytes = unsafe {
            let start = ffi::PyUnicode_AsUTF8AndSize(object, &raw mut n);
            if start.is_null() {
                // Lone surrogates: pickle knows what to do with them.
                ffi::PyErr_Clear();
                return None;
            }
            std::slice::from_raw_parts(start.cast::<u8>(), n as usize)
        };
        if is_shared {
            self.texts[place] = address;
            self.out.extend_from_slice(&[kind::KEPT_STR, place as u8]);
            self.out.extend_from_slice(&u32::try_from(n).ok()?.to_le_bytes());
        } else if let Ok(n) = u8::try_from(n) {
            self.out.extend_from_slice(&[kind::SHORT_STR, n]);
        } else {
            self.tagged(kind::STR, u32::try_from(n).ok()?.to_le_bytes());
        }
        self.out.extend_from_slice(bytes);
        Some(())
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
        if let Ok(number) = u8::try_from(number) {
            self.out.extend_from_slice(&[kind::INT_8, number]);
        } else if let Ok(number) = i32::try_from(number) {
            self.tagged(kind::INT_32, number.to_le_bytes());
        } else {
            self.tagged(kind::INT_64, number.to_le_bytes());
        }
        Some(())
    }

    /// In one piece, which is quicker than two.
    fn tagged<const N: usize>(&mut self, kind: u8, payload: [u8; N]) {
        let mut piece = [kind; 9];
        piece[1..=N].copy_from_slice(&payload);
        self.out.extend_from_slice(&piece[..=N]);
    }
}

/// Reads what [`write`] wrote; the value, and how many bytes it took.
pub(super) fn read<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<(Bound<'py, PyAny>, usize)> {
    let from = reader::Reader::new(bytes);
    let mut reader = Reader { py, bytes: from, texts: [const { None }; PLACES] };
    let value = reader.value(0)?;
    Ok((value, bytes.len() - reader.bytes.rest().len()))
}

struct Reader<'a, 'py> {
    py: Python<'py>,
    bytes: reader::Reader<'a>,
    texts: [Option<Bound<'py, PyAny>>; PLACES],
}

impl<'a, 'py> Reader<'a, 'py> {
    fn take(&mut self, n: usize) -> PyResult<&'a [u8]> {
        sound(self.bytes.take(n))
    }

    fn array<const N: usize>(&mut self) -> PyResult<[u8; N]> {
        sound(self.bytes.array())
    }

    fn u8(&mut self) -> PyResult<u8> {
        sound(self.bytes.u8())
    }

    fn u32(&mut self) -> PyResult<usize> {
        Ok(sound(self.bytes.u32())? as usize)
    }

    /// A number of items, each of which takes at least a byte.
    fn count(&mut self) -> PyResult<isize> {
        Ok(sound(self.bytes.count(1))? as isize)
    }

    fn value(&mut self, depth: usize) -> PyResult<Bound<'py, PyAny>> {
        if depth > DEPTH_MAX {
            return Err(damaged());
        }
        let py = self.py;
        let made = match self.u8()? {
            kind::NONE => return Ok(py.None().into_bound(py)),
            kind::SAME_STR => {
                let place = usize::from(self.u8()?);
                return self.texts[place].clone().ok_or_else(damaged);
            }
            kind::KEPT_STR => {
                let place = usize::from(self.u8()?);
                let n = self.u32()?;
                let text = self.text(n)?;
                self.texts[place] = Some(text.clone());
                return Ok(text);
            }
            kind::SHORT_STR => {
                let n = self.u8()?;
                return self.text(usize::from(n));
            }
            kind::STR => {
                let n = self.u32()?;
                return self.text(n);
            }
            kind::LIST => return self.list(depth),
            kind::TUPLE => return self.tuple(depth),
            kind::DICT => return self.dict(depth),
            // SAFETY: new objects, made under the GIL from plain numbers or from memory that is there.
            kind => unsafe {
                match kind {
                    kind::FALSE => ffi::PyBool_FromLong(0),
                    kind::TRUE => ffi::PyBool_FromLong(1),
                    kind::INT_8 => ffi::PyLong_FromLong(self.u8()?.into()),
                    kind::INT_32 => ffi::PyLong_FromLong(i32::from_le_bytes(self.array()?).into()),
                    kind::INT_64 => ffi::PyLong_FromLongLong(i64::from_le_bytes(self.array()?)),
                    kind::FLOAT => ffi::PyFloat_FromDouble(f64::from_le_bytes(self.array()?)),
                    kind::BYTES => {
                        let n = self.u32()?;
                        let bytes = self.take(n)?;
                        ffi::PyBytes_FromStringAndSize(bytes.as_ptr().cast(), bytes.len() as isize)
                    }
                    _ => return Err(damaged()),
                }
            },
        };
        // SAFETY: a new reference, or null with the error set.
        unsafe { Bound::from_owned_ptr_or_err(py, made) }
    }

    fn text(&mut self, n: usize) -> PyResult<Bound<'py, PyAny>> {
        let bytes = self.take(n)?;
        // SAFETY: reads `n` bytes that are there and makes a new object, or raises.
        unsafe {
            let made =
                ffi::PyUnicode_DecodeUTF8(bytes.as_ptr().cast(), n as isize, c"strict".as_ptr());
            Bound::from_owned_ptr_or_err(self.py, made)
        }
    }

    fn list(&mut self, depth: usize) -> PyResult<Bound<'py, PyAny>> {
        let n = self.count()?;
        // SAFETY: a new list, whose items are null until they are set: the collector and its end expect that.
        unsafe {
            let list = Bound::from_owned_ptr_or_err(self.py, ffi::PyList_New(n))?;
            for i in 0..n {
                ffi::PyList_SET_ITEM(list.as_ptr(), i, self.value(depth + 1)?.into_ptr());
            }
            Ok(list)
        }
    }

    fn tuple(&mut self, depth: usize) -> PyResult<Bound<'py, PyAny>> {
        let n = self.count()?;
        // SAFETY: as for lists; nobody else has the tuple before it is whole.
        unsafe {
            let tuple = Bound::from_owned_ptr_or_err(self.py, ffi::PyTuple_New(n))?;
            for i in 0..n {
                ffi::PyTuple_SET_ITEM(tuple.as_ptr(), i, self.value(depth + 1)?.into_ptr());
            }
            Ok(tuple)
        }
    }

    fn dict(&mut self, depth: usize) -> PyResult<Bound<'py, PyAny>> {
        let n = self.count()?;
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
