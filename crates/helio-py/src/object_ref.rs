//! `ObjectRef`: one counted reference to an object.

use std::cell::RefCell;
use std::hash::{Hash, Hasher};

use helio_config::table::ALLOW_OUT_OF_BAND_OBJECT_REF_SERIALIZATION;
use helio_proto::peer::{self, Reference};
use helio_types::{ObjectId, WorkerAddress};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyTuple, PyType};

use crate::ids::{self, JobID, TaskID};
use crate::session::Session;
use crate::{exceptions, session};

/// A reference to an object, which may not be there yet. ``ray.get`` gives its value.
///
/// Calls and ``ray.put`` return references. A reference keeps its object alive while some process holds it.
/// One among the arguments of a call arrives as the value; one inside a list or another object arrives as a
/// reference. ``await ref`` gives the value in ``async`` code.
///
/// Examples:
///     >>> import ray
///     >>> ref = ray.put([1, 2])
///     >>> ray.get(ref)
///     [1, 2]
///     >>> @ray.remote
///     ... def total(numbers):
///     ...     return sum(numbers)
///     >>> ray.get(total.remote(ref))  # an argument that is a reference arrives as its value
///     3
// `mapping`: what can be indexed is no sequence for all that, and cannot be iterated.
#[pyclass(frozen, freelist = 1024, weakref, mapping, module = "heliostat._heliostat")]
pub(crate) struct ObjectRef {
    id: ObjectId,
    /// The session in which this reference is counted; 0: it is not counted.
    epoch: u32,
}

fn without_items() -> PyErr {
    PyTypeError::new_err(
        "this is an ObjectRef, which has no items. Call ray.get(ref) for its value, or pass the ObjectRef to a \
         remote function, which gets the value.",
    )
}

/// Has `iter(ref)` raise what `ref[0]` does. There is no method `__iter__`, by which a reference would count as
/// an iterable, for `isinstance` and for libraries that look into lists: the type's slot alone is filled.
pub(crate) fn refuse_iteration(py: Python<'_>) {
    extern "C" fn refuse(_: *mut ffi::PyObject) -> *mut ffi::PyObject {
        Python::attach(|py| without_items().restore(py));
        std::ptr::null_mut()
    }
    let made = py.get_type::<ObjectRef>().as_type_ptr();
    // SAFETY: the type is a mutable one of this module, which is being made: no other thread has it, and no
    // class is derived from it yet.
    unsafe { (*made).tp_iter = Some(refuse) };
}

impl Drop for ObjectRef {
    fn drop(&mut self) {
        if self.epoch != 0 {
            session::in_epoch(self.epoch, |session| session.runtime.drop_ref(self.id));
        }
    }
}

impl ObjectRef {
    /// Takes over the one reference that the runtime handed out with `id`.
    pub(crate) fn counted(py: Python<'_>, id: ObjectId, epoch: u32) -> PyResult<Bound<'_, Self>> {
        let made = Bound::new(py, Self { id, epoch })?;
        // The reference refers to no object of Python's: the garbage collector, which would look at each of a
        // hundred thousand again and again, need not know it.
        // SAFETY: PyO3 gives each of its classes the collector's header, which this call changes.
        unsafe { ffi::PyObject_GC_UnTrack(made.as_ptr().cast()) };
        Ok(made)
    }

    /// An id in the shape of a reference.
    pub(crate) fn uncounted(py: Python<'_>, id: ObjectId) -> PyResult<Bound<'_, Self>> {
        Self::counted(py, id, 0)
    }

    /// A reference that arrived from elsewhere.
    pub(crate) fn adopt(py: Python<'_>, reference: Reference) -> PyResult<Bound<'_, Self>> {
        let epoch = Self::adopt_all(vec![(reference.owner, vec![reference.id])]);
        Self::counted(py, reference.id, epoch)
    }

    /// References that arrived from elsewhere, by owner: the epoch in which each of them counts once.
    pub(crate) fn adopt_all(owned: Vec<(WorkerAddress, Vec<ObjectId>)>) -> u32 {
        let Some(session) = session::present() else { return 0 };
        for (owner, ids) in owned {
            session.runtime.adopt(owner, ids);
        }
        session.epoch
    }

    pub(crate) fn id(&self) -> ObjectId {
        self.id
    }

    /// The id, if the session can find the object.
    #[inline]
    pub(crate) fn known(&self, session: &Session) -> PyResult<ObjectId> {
        if self.epoch == session.epoch || session.runtime.holders(self.id).is_some() {
            return Ok(self.id);
        }
        Err(PyValueError::new_err(format!(
            "An application is trying to access a Ray object whose owner is unknown ({}). Please make sure that \
             all Ray objects you are trying to access are part of the current Ray session. Note that object IDs \
             generated randomly (ObjectID.from_random()) or out-of-band (ObjectID.from_binary(...)) cannot be \
             passed as a task argument because Ray does not know which task created them.",
            self.id.hex()
        )))
    }

    /// The id and the owner, for those that it is sent to.
    pub(crate) fn reference(&self) -> Reference {
        match session::of_epoch(self.epoch) {
            Some(session) => session.runtime.reference(self.id),
            None => Reference { id: self.id, ..Reference::default() },
        }
    }

    /// Keeps the object for as long as the session lasts: somebody may come back with its bytes.
    pub(crate) fn pin(&self) {
        if let Some(session) = session::of_epoch(self.epoch) {
            session.runtime.add_ref(self.id);
        }
    }
}

thread_local! {
    /// A list for each value that this thread is pickling; an object's `__reduce__` may put
    /// another.
    static COLLECTING: RefCell<Vec<Vec<Py<ObjectRef>>>> = const { RefCell::new(Vec::new()) };
}

/// Proof that a collector is open, and a way to take back what a failed attempt collected.
pub(crate) struct Collected(());

impl Collected {
    /// Returns the number of references so far.
    pub(crate) fn mark(&self) -> usize {
        COLLECTING.with_borrow(|stack| stack.last().map_or(0, Vec::len))
    }

    /// Forgets what came after the mark.
    pub(crate) fn back_to(&self, mark: usize) {
        // Dropped outside of the borrow: a reference's end may run code that pickles.
        let dropped =
            COLLECTING.with_borrow_mut(|stack| stack.last_mut().map(|list| list.split_off(mark)));
        drop(dropped);
    }
}

/// Opens a collector around `pickle`; what it collected comes out too, in order.
pub(crate) fn collecting<T>(pickle: impl FnOnce(&Collected) -> T) -> (T, Vec<Py<ObjectRef>>) {
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

fn parse(id: &Bound<'_, PyAny>) -> PyResult<ObjectId> {
    let Ok(bytes) = id.cast::<PyBytes>() else {
        return Err(PyTypeError::new_err(format!("Unsupported type: {}", id.get_type())));
    };
    ObjectId::try_from(bytes.as_bytes()).map_err(|_| {
        let n = bytes.as_bytes().len();
        PyValueError::new_err(format!("ID string needs to have length {}, got {n}", ObjectId::LEN))
    })
}

/// `heliostat.core.aio.futures`, where references become futures.
fn aio<'py>(slf: &Bound<'py, ObjectRef>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    py.import(intern!(py, "heliostat.core.aio.futures"))?.getattr(name)?.call1((slf,))
}

/// A function of this module by name, for pickles.
fn function<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyAny>>,
    name: &str,
) -> PyResult<&'py Bound<'py, PyAny>> {
    let found = cell.get_or_try_init(py, || {
        PyResult::Ok(py.import("heliostat._heliostat")?.getattr(name)?.unbind())
    })?;
    Ok(found.bind(py))
}

/// Returns the form of a reference inside pickles that are not ours: id and owner, and it is kept
/// for good.
fn reduce_out_of_band<'py>(
    slf: &Bound<'py, ObjectRef>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
    static RESTORE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = slf.py();
    let this = slf.get();
    let is_allowed = helio_env::settings::read(&ALLOW_OUT_OF_BAND_OBJECT_REF_SERIALIZATION);
    if !is_allowed.map_err(PyValueError::new_err)? {
        let message = format!(
            "It is not allowed to serialize ray.ObjectRef {}. If you want to allow serialization, set \
             `RAY_allow_out_of_band_object_ref_serialization=1.` If you set the env var, the object is pinned \
             forever in the lifetime of the worker process and can cause Ray object leaks.",
            this.id.hex()
        );
        return Err(exceptions::named(py, "OufOfBandObjectRefSerializationException", &message));
    }
    let data = if session::of_epoch(this.epoch).is_some() {
        this.pin();
        let mut data = Vec::new();
        peer::put_reference(&mut data, &this.reference());
        PyBytes::new(py, &data)
    } else {
        PyBytes::new(py, &this.id.0)
    };
    Ok((function(py, &RESTORE, "_restore_ref")?.clone(), PyTuple::new(py, [data])?))
}

#[pymethods]
impl ObjectRef {
    #[classattr]
    const SIZE: usize = ObjectId::LEN;

    #[new]
    fn new(id: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self { id: parse(id)?, epoch: 0 })
    }

    /// As :meth:`from_hex`, from the bytes of the id.
    ///
    /// Args:
    ///     id_bytes: The bytes.
    #[classmethod]
    fn from_binary<'py>(
        cls: &Bound<'py, PyType>,
        id_bytes: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Self>> {
        Self::uncounted(cls.py(), parse(id_bytes)?)
    }

    /// A reference by id, without an owner: good for comparing, and for ``get`` in its own process.
    ///
    /// Args:
    ///     hex_id: The digits of an id.
    #[classmethod]
    fn from_hex<'py>(cls: &Bound<'py, PyType>, hex_id: &str) -> PyResult<Bound<'py, Self>> {
        let id =
            ObjectId::from_hex(hex_id).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Self::uncounted(cls.py(), id)
    }

    /// A reference to nothing.
    #[classmethod]
    fn nil<'py>(cls: &Bound<'py, PyType>) -> PyResult<Bound<'py, Self>> {
        Self::uncounted(cls.py(), ObjectId::NIL)
    }

    /// A reference with a random id, to no object.
    #[classmethod]
    fn from_random<'py>(cls: &Bound<'py, PyType>) -> PyResult<Bound<'py, Self>> {
        let mut id = ObjectId::NIL;
        ids::random(&mut id.0)?;
        Self::uncounted(cls.py(), id)
    }

    /// The length of an id in bytes.
    #[classmethod]
    fn size(_cls: &Bound<'_, PyType>) -> usize {
        ObjectId::LEN
    }

    /// The object's id as hexadecimal digits.
    fn hex(&self) -> String {
        self.id.hex()
    }

    /// The bytes of the object's id.
    fn binary<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.id.0)
    }

    /// Whether it refers to nothing.
    fn is_nil(&self) -> bool {
        self.id.is_nil()
    }

    /// The call that makes the object; of a value that was ``put``, the caller.
    fn task_id<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, TaskID>> {
        TaskID::of(py, self.id.task())
    }

    /// The job that the object belongs to.
    fn job_id<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, JobID>> {
        JobID::of(py, self.id.task().job())
    }

    /// The address of the process that owns the object, as it goes over the wire.
    fn owner_address<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let mut address = Vec::new();
        peer::put_worker(&mut address, &self.reference().owner);
        PyBytes::new(py, &address)
    }

    /// The line that made the reference, with ``RAY_record_ref_creation_sites=1``; else "".
    fn call_site(&self) -> String {
        helio_worker::sites::of(&self.id)
    }

    /// A hash of the id.
    fn redis_shard_hash(&self) -> u64 {
        self.__hash__()
    }

    /// A future of the value, for threads.
    ///
    /// Examples:
    ///     >>> import ray
    ///     >>> ray.put(3).future().result()
    ///     3
    fn future<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        aio(slf, "concurrent_future")
    }

    /// A future of the value, on the running event loop.
    fn as_future<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        aio(slf, "as_future")
    }

    /// Calls back with the value, or the exception, from a thread.
    fn _on_completed(slf: &Bound<'_, Self>, callback: Py<PyAny>) -> PyResult<()> {
        let py = slf.py();
        py.import(intern!(py, "heliostat.core.aio.futures"))?
            .getattr("on_completed")?
            .call1((slf, callback))
            .map(drop)
    }

    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        aio(slf, "as_future")?.call_method0(intern!(slf.py(), "__await__"))
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        self.id.hash(&mut hasher);
        hasher.finish()
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> Py<PyAny> {
        let py = other.py();
        let Ok(other) = other.cast::<Self>() else { return py.NotImplemented() };
        let same = op.matches(self.id.cmp(&other.get().id));
        pyo3::types::PyBool::new(py, same).to_owned().into_any().unbind()
    }

    fn __repr__(&self) -> String {
        format!("ObjectRef({})", self.id.hex())
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        static TAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let py = slf.py();
        match collect(slf) {
            Some(position) => {
                Ok((function(py, &TAKE, "_take_ref")?.clone(), PyTuple::new(py, [position])?))
            }
            None => reduce_out_of_band(slf),
        }
    }

    /// Copies are the reference itself: it never changes.
    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf
    }

    /// Says that there are no items before the value is asked for.
    fn __getitem__(&self, _item: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(without_items())
    }

    /// `ObjectRef[int]` in annotations.
    #[classmethod]
    fn __class_getitem__<'py>(
        cls: &Bound<'py, PyType>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = cls.py();
        py.import("types")?.getattr("GenericAlias")?.call1((cls, item))
    }
}
