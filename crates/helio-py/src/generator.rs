//! `ObjectRefGenerator`: the items of a streaming call, as references, in order.

use std::time::Duration;

use helio_types::ObjectId;
use helio_worker::StreamNext;
use parking_lot::Mutex;
use pyo3::exceptions::{PyStopAsyncIteration, PyStopIteration};
use pyo3::intern;
use pyo3::prelude::*;

use crate::gil::{GilSite, detached};
use crate::ids::TaskID;
use crate::object_ref::ObjectRef;
use crate::session::{self, Session};
use crate::{errors, exceptions, timeouts};

/// Item 0's index among the call's returns; the generator itself has index 1.
pub(crate) const FIRST_ITEM: u32 = 2;

/// The items of a streaming call, as references, in order. Calls of generator functions return it.
///
/// Examples:
///     >>> import ray
///     >>> @ray.remote
///     ... def count(n):
///     ...     yield from range(n)
///     >>> [ray.get(ref) for ref in count.remote(3)]
///     [0, 1, 2]
#[pyclass(frozen, weakref, module = "heliostat._heliostat")]
pub(crate) struct ObjectRefGenerator {
    /// The call's own object: ready when the call has ended.
    id: ObjectId,
    epoch: u32,
    /// Changed under the GIL only; the lock is for the compiler, and held for no wait.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Number of items that were read.
    read: u32,
    finished: bool,
}

impl Drop for ObjectRefGenerator {
    fn drop(&mut self) {
        if let Some(session) = session::of_epoch(self.epoch) {
            session.runtime.stream_drop(self.id);
            session.runtime.drop_ref(self.id);
        }
    }
}

/// The outcome of asking for the next item.
enum Step<'py> {
    Item(Bound<'py, ObjectRef>),
    End,
    NotYet,
}

impl ObjectRefGenerator {
    /// Takes over the reference that the runtime handed out with the call.
    pub(crate) fn make(py: Python<'_>, id: ObjectId, epoch: u32) -> PyResult<Bound<'_, Self>> {
        Bound::new(py, Self { id, epoch, state: Mutex::default() })
    }

    pub(crate) fn id(&self) -> ObjectId {
        self.id
    }

    /// The next item's id; it exists once the call has made it, or has ended.
    pub(crate) fn next_id(&self) -> ObjectId {
        self.id.task().object(FIRST_ITEM + self.state.lock().read)
    }

    fn session(&self, py: Python<'_>) -> PyResult<std::sync::Arc<Session>> {
        session::of_epoch(self.epoch).ok_or_else(|| {
            exceptions::named(py, "RaySystemError", "the session of this generator has ended")
        })
    }

    fn step<'py>(&self, py: Python<'py>, timeout: Option<Duration>) -> PyResult<Step<'py>> {
        // The lock is dropped before the wait: another thread may read, or drop, the generator.
        let index = {
            let state = self.state.lock();
            if state.finished {
                return Ok(Step::End);
            }
            state.read
        };
        let session = self.session(py)?;
        let next = detached(py, GilSite::Stream, |interrupt| {
            session.runtime.stream_next(self.id, index, timeout, interrupt)
        })?;
        match next {
            Ok(StreamNext::Item(id)) => {
                self.state.lock().read = index + 1;
                ObjectRef::counted(py, id, session.epoch).map(Step::Item)
            }
            Ok(StreamNext::End) => {
                self.state.lock().finished = true;
                Ok(Step::End)
            }
            Err(helio_worker::Error::Timeout) => Ok(Step::NotYet),
            Err(error) => Err(errors::raise(py, error)),
        }
    }
}

#[pymethods]
impl ObjectRefGenerator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, ObjectRef>>> {
        Ok(match self.step(py, None)? {
            Step::Item(reference) => Some(reference),
            Step::End | Step::NotYet => None,
        })
    }

    fn __aiter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py()
            .import(intern!(slf.py(), "heliostat.core.aio.futures"))?
            .getattr("next_item")?
            .call1((slf,))
    }

    /// The next reference without waiting; `None` when there is none yet.
    fn _try_next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, ObjectRef>>> {
        match self.step(py, Some(Duration::ZERO))? {
            Step::Item(reference) => Ok(Some(reference)),
            Step::NotYet => Ok(None),
            Step::End => Err(PyStopAsyncIteration::new_err(())),
        }
    }

    /// A reference to the next item, before it is there; for watching only.
    fn _peek_next<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, ObjectRef>> {
        ObjectRef::uncounted(py, self.next_id())
    }

    /// As ``next``: the value is not sent to the call.
    ///
    /// Args:
    ///     value: Has no effect.
    #[pyo3(signature = (value))]
    fn send<'py>(
        &self,
        py: Python<'py>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, ObjectRef>> {
        let _ = value;
        self.__next__(py)?.ok_or_else(|| PyStopIteration::new_err(()))
    }

    /// Refused: the call's frame is in another process.
    ///
    /// Args:
    ///     value: Has no effect.
    ///
    /// Raises:
    ///     NotImplementedError: Always.
    fn throw<'py>(
        &self,
        py: Python<'py>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, ObjectRef>> {
        let _ = (py, value);
        Err(pyo3::exceptions::PyNotImplementedError::new_err("`gen.throw` is not supported."))
    }

    /// Refused: use ``ray.cancel``.
    ///
    /// Raises:
    ///     NotImplementedError: Always.
    fn close(&self) -> PyResult<()> {
        Err(pyo3::exceptions::PyNotImplementedError::new_err("`gen.close` is not supported."))
    }

    /// As ``anext``: the value is not sent to the call.
    ///
    /// Args:
    ///     value: Has no effect.
    fn asend<'py>(
        slf: &Bound<'py, Self>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = value;
        Self::__anext__(slf)
    }

    /// Refused: the call's frame is in another process.
    ///
    /// Args:
    ///     value: Has no effect.
    ///
    /// Raises:
    ///     NotImplementedError: Always.
    fn athrow<'py>(
        &self,
        py: Python<'py>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, ObjectRef>> {
        let _ = (py, value);
        Err(pyo3::exceptions::PyNotImplementedError::new_err("`gen.athrow` is not supported."))
    }

    /// Refused: use ``ray.cancel``.
    ///
    /// Raises:
    ///     NotImplementedError: Always.
    fn aclose(&self) -> PyResult<()> {
        Err(pyo3::exceptions::PyNotImplementedError::new_err("`gen.aclose` is not supported."))
    }

    /// A reference that is ready when the call has ended; ``get`` of it raises what the call raised.
    fn completed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, ObjectRef>> {
        let session = self.session(py)?;
        session.runtime.add_ref(self.id);
        ObjectRef::counted(py, self.id, session.epoch)
    }

    /// Whether ``next`` would return at once. False at the end.
    fn next_ready(&self, py: Python<'_>) -> PyResult<bool> {
        if self.state.lock().finished {
            return Ok(false);
        }
        let read = self.state.lock().read;
        // At its end a stream has nothing to wait for either.
        Ok(self.session(py)?.runtime.stream_ready(self.id, read) != Some(false))
    }

    /// Whether every item was read.
    fn is_finished(&self) -> bool {
        self.state.lock().finished
    }

    /// The call that makes the items.
    fn task_id<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, TaskID>> {
        TaskID::of(py, self.id.task())
    }

    fn _get_next_ref<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, ObjectRef>> {
        self._peek_next(py)
    }

    /// The next reference, or the nil one when none came in time.
    #[pyo3(signature = (timeout_s = None))]
    fn _next_sync<'py>(
        &self,
        py: Python<'py>,
        timeout_s: Option<f64>,
    ) -> PyResult<Bound<'py, ObjectRef>> {
        match self.step(py, timeouts::timeout(timeout_s)?)? {
            Step::Item(reference) => Ok(reference),
            Step::NotYet => ObjectRef::uncounted(py, ObjectId::NIL),
            Step::End => Err(PyStopIteration::new_err(())),
        }
    }

    fn __repr__(&self) -> String {
        format!("ObjectRefGenerator({})", self.id.hex())
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(pyo3::exceptions::PyTypeError::new_err(
            "You cannot return or pass a generator to other task. Serializing a ObjectRefGenerator is not allowed.",
        ))
    }
}
