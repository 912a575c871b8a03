//! References inside values.
//!
//! While a value is pickled, `ObjectRef.__reduce__` hands the reference to the thread's collector and
//! leaves only its position in the pickle; a list of nothing but references needs no pickle. The document
//! ends with the table of what was collected: `u32` owners, each an address; `u32` references, each an id
//! and the `u32` number of its owner. Before it is read, all of them are made anew and their owners are
//! told; `_take_ref(position)` in the pickle picks one.

use std::cell::RefCell;

use helio_proto::peer::{self, Reference};
use helio_proto::reader::Reader;
use helio_types::{ObjectId, WorkerAddress};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::sink::Sink;
use crate::object_ref::ObjectRef;
use crate::session;

thread_local! {
    /// One list per value that this thread is pickling; an object's `__reduce__` may put another.
    static COLLECTING: RefCell<Vec<Vec<Py<ObjectRef>>>> = const { RefCell::new(Vec::new()) };
    /// The references of each document that this thread is reading.
    static READING: RefCell<Vec<Vec<Py<ObjectRef>>>> = const { RefCell::new(Vec::new()) };
}

/// A document's references: by owner, and in the order of their positions.
pub(super) struct Table {
    owned: Vec<(WorkerAddress, Vec<ObjectId>)>,
    ids: Vec<ObjectId>,
}

/// Proof that a collector is open, and a way to take back what a failed attempt collected.
pub(super) struct Collected(());

impl Collected {
    /// How many references there are so far.
    pub(super) fn mark(&self) -> usize {
        COLLECTING.with_borrow(|stack| stack.last().map_or(0, Vec::len))
    }

    /// Forgets what came after the mark.
    pub(super) fn back_to(&self, mark: usize) {
        // Dropped outside of the borrow: a reference's end may run code that pickles.
        let dropped =
            COLLECTING.with_borrow_mut(|stack| stack.last_mut().map(|list| list.split_off(mark)));
        drop(dropped);
    }
}

/// Opens a collector around `pickle`; what it collected comes out too, in order.
pub(super) fn collecting<T>(pickle: impl FnOnce(&Collected) -> T) -> (T, Vec<Py<ObjectRef>>) {
    COLLECTING.with_borrow_mut(|stack| stack.push(Vec::new()));
    let value = pickle(&Collected(()));
    let refs = COLLECTING.with_borrow_mut(Vec::pop).unwrap_or_default();
    (value, refs)
}

/// Hands a reference to the thread's collector and returns its position; `None` when none is open.
pub(crate) fn collect(reference: &Bound<'_, ObjectRef>) -> Option<usize> {
    COLLECTING.with_borrow_mut(|stack| {
        let list = stack.last_mut()?;
        list.push(reference.clone().unbind());
        Some(list.len() - 1)
    })
}

/// Appends the table of `refs` and where it begins.
pub(super) fn write_table(py: Python<'_>, sink: &mut Sink, refs: &[Py<ObjectRef>]) {
    let begin = sink.len() as u64;
    let mut owners: Vec<WorkerAddress> = Vec::new();
    let mut rows = Vec::with_capacity(refs.len());
    for held in refs {
        let Reference { id, owner } = held.bind(py).get().reference();
        // The last owner first: references of one value mostly come from one process.
        let number = owners.iter().rposition(|known| *known == owner).unwrap_or_else(|| {
            owners.push(owner);
            owners.len() - 1
        });
        rows.push((id, number as u32));
    }
    sink.append(|out| {
        out.extend_from_slice(&(owners.len() as u32).to_le_bytes());
        owners.iter().for_each(|owner| peer::put_worker(out, owner));
        out.extend_from_slice(&(rows.len() as u32).to_le_bytes());
        for (id, number) in rows {
            out.extend_from_slice(&id.0);
            out.extend_from_slice(&number.to_le_bytes());
        }
    });
    sink.u64(begin);
}

/// Reads the table at the end of a document.
pub(super) fn read_table(document: &[u8]) -> Option<Table> {
    let (rest, begin) = document.split_last_chunk::<8>()?;
    let begin = usize::try_from(u64::from_le_bytes(*begin)).ok()?;
    let mut reader = Reader::new(rest.get(begin..)?);
    let n_owners = reader.u32().ok()?;
    let mut owned = (0..n_owners)
        .map(|_| Some((peer::get_worker(&mut reader).ok()?, Vec::new())))
        .collect::<Option<Vec<_>>>()?;
    let n_refs = reader.u32().ok()?;
    let ids = (0..n_refs)
        .map(|_| {
            let id = ObjectId(reader.array().ok()?);
            owned.get_mut(reader.u32().ok()? as usize)?.1.push(id);
            Some(id)
        })
        .collect::<Option<Vec<_>>>()?;
    Some(Table { owned, ids })
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
