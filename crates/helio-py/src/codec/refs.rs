//! References inside values.
//!
//! While a value is pickled, `ObjectRef.__reduce__` hands the reference to the thread's collector and
//! leaves only its position in the pickle; a list of nothing but references needs no pickle. The document
//! ends with the table of what was collected ([`references`]). Before it is read, all of them are made anew and their owners are
//! told; `_take_ref(position)` in the pickle picks one.

use std::cell::RefCell;

use helio_proto::peer;
use helio_proto::reader::Reader;
use helio_proto::references::{self, Table};
use helio_types::ObjectId;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::sink::Sink;
use crate::object_ref::ObjectRef;
use crate::session;

thread_local! {
    /// The references of each document that this thread is reading.
    static READING: RefCell<Vec<Vec<Py<ObjectRef>>>> = const { RefCell::new(Vec::new()) };
}

/// Appends the table of `refs` and where it begins.
pub(super) fn write_table(py: Python<'_>, sink: &mut Sink, refs: &[Py<ObjectRef>]) {
    let begin = sink.len() as u64;
    let rows = refs.iter().map(|held| held.bind(py).get().reference());
    sink.append(|out| references::put(out, rows));
    sink.u64(begin);
}

/// Makes the references of `table` those that `_take_ref` gives while `load` runs.
pub(super) fn reading<T>(
    py: Python<'_>,
    table: Table,
    load: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    let epoch = ObjectRef::adopt_all(table.owned);
    let made = table.ids.into_iter().map(|id| ObjectRef::counted(py, id, epoch).map(Bound::unbind));
    let refs = made.collect::<PyResult<_>>()?;
    READING.with_borrow_mut(|stack| stack.push(refs));
    let value = load();
    // Dropped outside of the borrow: the end of a reference that nobody took may run any code.
    let refs = READING.with_borrow_mut(Vec::pop);
    drop(refs);
    value
}

/// The list of `n` references from that position on; `None` when there are not so many.
pub(super) fn taken(py: Python<'_>, begin: usize, n: usize) -> Option<PyResult<Bound<'_, PyList>>> {
    READING.with_borrow(|stack| {
        let refs = stack.last()?.get(begin..begin.checked_add(n)?)?;
        Some(PyList::new(py, refs))
    })
}

/// The reference at that position of the document that is being read.
#[pyfunction]
pub(crate) fn _take_ref(py: Python<'_>, position: usize) -> PyResult<Py<ObjectRef>> {
    READING
        .with_borrow(|stack| Some(stack.last()?.get(position)?.clone_ref(py)))
        .ok_or_else(|| PyRuntimeError::new_err("a reference outside of a document"))
}

/// A reference that was pickled by somebody else.
#[pyfunction]
pub(crate) fn _restore_ref<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, ObjectRef>> {
    if let Ok(id) = ObjectId::try_from(data) {
        return ObjectRef::uncounted(py, id);
    }
    let reference = peer::get_reference(&mut Reader::new(data))
        .map_err(|_| PyValueError::new_err("these bytes are not a pickled ObjectRef"))?;
    session::active(py)?;
    ObjectRef::adopt(py, reference)
}
