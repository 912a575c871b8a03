//! The calls of an async actor. `heliostat.core.aio.async_actor` owns the event loop and the order of
//! things; here are the calls it handles.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use helio_proto::control::ActorSpec;
use helio_proto::peer::STREAMING;
use helio_worker::{Call, Error, LoopTurn, Outcome, Outgoing, OutgoingValue, Work};
use parking_lot::Mutex;
use pyo3::exceptions::{PyConnectionError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::execute::{self, apply, is_actor_exit};
use super::failure::{self, Failure};
use super::flow::Flow;
use super::functions::{self, Entry};
use super::printing::end_lines;
use super::title::{self, Shown};
use super::{ending, leftovers, outcomes, results, stream};
use crate::codec::args;
use crate::current::{PresentCall, Running};
use crate::errors;
use crate::gil::{GilSite, detached};
use crate::session;

/// The calls run on the loop that polls: it writes their answers when it looks around.
static POLLS: AtomicBool = AtomicBool::new(false);

/// Makes the event loops, before the constructor asks for one.
pub(super) fn prepare(py: Python<'_>, spec: &ActorSpec) -> PyResult<()> {
    POLLS.store(spec.concurrency_groups.is_empty(), Ordering::Relaxed);
    let groups = PyDict::new(py);
    for group in &spec.concurrency_groups {
        groups.set_item(&group.name, group.max_concurrency)?;
    }
    let prepare = py.import("heliostat.core.aio.async_actor")?.getattr("prepare")?;
    prepare.call1((spec.max_concurrency, groups)).map(drop)
}

/// Gives the main thread to the event loops, until the process is to end.
pub(super) fn serve(py: Python<'_>) -> PyResult<Flow> {
    let serve = py.import("heliostat.core.aio.async_actor")?.getattr("serve")?;
    let code: i32 = serve.call0()?.extract()?;
    Ok(if code < 0 { Flow::Die(-1 - code) } else { Flow::Leave(code) })
}

/// A call of an async actor's method, from its arrival to its answer.
#[pyclass(frozen, extends = PresentCall, name = "_RunningCall", module = "heliostat._heliostat")]
pub(crate) struct RunningCall {
    running: Arc<Running>,
    entry: Arc<Entry>,
    returns: u32,
    /// The call to unpack, until it is unpacked.
    call: Mutex<Option<Call>>,
    /// The title that is shown while the call runs.
    shown: Mutex<Option<Shown>>,
}

impl RunningCall {
    fn make(py: Python<'_>, call: Call) -> PyResult<Bound<'_, Self>> {
        let entry = functions::method(py, &call.template)?;
        let template = Arc::clone(&call.template);
        let running = Running::new(call.task, template, None);
        let present = PresentCall::new(Arc::clone(&running));
        let returns = call.returns;
        let (call, shown) = (Mutex::new(Some(call)), Mutex::default());
        Bound::new(py, (Self { running, entry, returns, call, shown }, present))
    }

    fn finish_with(&self, py: Python<'_>, outcome: Outcome) -> PyResult<()> {
        end_lines(py);
        let left = self.running.has_left().then(|| ending::outcome(&self.running, self.returns));
        let (task, outcome) = (self.running.task, left.unwrap_or(outcome));
        let session = session::connected(py)?;
        if POLLS.load(Ordering::Relaxed) {
            session.runtime.finish_on_loop(task, outcome);
        } else {
            session.runtime.finish(task, outcome);
        }
        *self.shown.lock() = None;
        leftovers::call_ended(py);
        Ok(())
    }
}

#[pymethods]
impl RunningCall {
    #[getter]
    fn task<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.running.task.0)
    }

    #[getter]
    fn name(&self) -> &str {
        &self.running.template.name
    }

    #[getter]
    fn group(&self) -> &str {
        &self.running.template.concurrency_group
    }

    #[getter]
    fn is_streaming(&self) -> bool {
        self.returns == STREAMING
    }

    #[getter]
    fn backpressure(&self) -> u32 {
        self.running.template.backpressure
    }

    /// Calls the method; what comes back may be something to await.
    fn invoke<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let call = self.call.lock().take();
        let call = call.ok_or_else(|| PyRuntimeError::new_err("the call was invoked already"))?;
        session::connected(py)?.runtime.runs(call.task);
        *self.shown.lock() = Some(title::show_of_loop(&self.entry.title));
        let unpacked = args::unpack(py, &call.body, &call.deps)?;
        apply(py, &self.entry, &unpacked)
    }

    /// Sends an item of a generator; may block while the caller has too many unread ones.
    fn send(&self, index: u32, item: &Bound<'_, PyAny>) -> PyResult<()> {
        let session = session::connected(item.py())?;
        stream::send(&session, self.running.task, &self.entry, index, item)
    }

    /// Answers with the value.
    fn finish(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = value.py();
        let session = session::connected(py)?;
        let task = self.running.task;
        let mut made = results::of_call(
            &session,
            &self.entry,
            value,
            |index| task.object(index),
            self.returns,
        )?;
        let returns = std::mem::take(&mut made.values);
        if let Some(error) = made.broken.take() {
            let entry = Some(&*self.entry);
            // An exception that would end the process is not stored in place of an item.
            let judged = failure::judge(py, &session, &self.running, entry, error, self.returns);
            let Failure::Failed(outcome) = judged else { return Ok(()) };
            return self.finish_with(py, outcomes::after(returns, outcome));
        }
        self.finish_with(py, Outcome { returns, ..Outcome::default() })
    }

    /// Answers that the generator has ended after so many items.
    fn finish_items(&self, py: Python<'_>, items: u32) -> PyResult<()> {
        let end = Outgoing { value: OutgoingValue::Inline(vec![0]), contained: Vec::new() };
        self.finish_with(py, Outcome { returns: vec![end], items, ..Outcome::default() })
    }

    /// Answers with what was raised. If that ends the process, the exit code.
    fn fail(&self, py: Python<'_>, error: &Bound<'_, PyAny>) -> PyResult<Option<i32>> {
        let session = session::connected(py)?;
        let error = PyErr::from_value(error.clone());
        if is_actor_exit(py, &error) {
            // The exception may come from another thread.
            self.running.leave();
            return self.finish_with(py, Outcome::default()).map(|()| None);
        }
        match failure::judge(py, &session, &self.running, Some(&self.entry), error, self.returns) {
            Failure::Failed(outcome) => self.finish_with(py, outcome).map(|()| None),
            Failure::Exit(code) => {
                execute::exit(&session, code, self.running.task);
                Ok(Some(code))
            }
        }
    }
}

/// Returns the next work: a call; the id of one to cancel; whether to drain before the end; `None` when there is
/// nothing, without `waits` at once. Raises `ConnectionError` when the daemon is gone.
#[pyfunction]
#[pyo3(signature = (waits = false))]
pub(crate) fn _next_call(py: Python<'_>, waits: bool) -> PyResult<Bound<'_, PyAny>> {
    let session = session::connected(py)?;
    let work = if waits {
        detached(py, GilSite::NextWork, |interrupt| session.runtime.next_work(None, interrupt))?
    } else {
        session.runtime.next_work(Some(Duration::ZERO), &mut || false)
    };
    match work {
        Ok(Some(Work::Call(call))) => Ok(RunningCall::make(py, *call)?.into_any()),
        Ok(Some(Work::Cancel(task))) => Ok(PyBytes::new(py, &task.0).into_any()),
        Ok(Some(Work::Exit { drain, .. })) => {
            Ok(pyo3::types::PyBool::new(py, drain).to_owned().into_any())
        }
        Ok(Some(Work::Construct(_))) => {
            Err(PyRuntimeError::new_err("this process is an actor already"))
        }
        Ok(None) => Ok(py.None().into_bound(py)),
        Err(Error::Disconnected(why)) => Err(PyConnectionError::new_err(why)),
        Err(error) => Err(errors::raise(py, error)),
    }
}

/// The file descriptor that the event loop watches between `_loop_sleeps` and `_loop_woke`.
#[pyfunction]
pub(crate) fn _loop_fd(py: Python<'_>) -> PyResult<i32> {
    Ok(session::connected(py)?.runtime.poll_fd())
}

/// The event loop is about to sleep. 0: something has come, it is not to sleep. Above 0: for at most so
/// many seconds, and `_loop_woke` follows. Below 0: as long as it likes.
#[pyfunction]
pub(crate) fn _loop_sleeps(py: Python<'_>) -> PyResult<f64> {
    let session = session::connected(py)?;
    Ok(match detached(py, GilSite::EventLoop, |_| session.runtime.loop_sleeps())? {
        LoopTurn::Look => 0.0,
        LoopTurn::Watch(limit) => {
            limit.map_or(f64::INFINITY, |limit| limit.as_secs_f64().max(1e-6))
        }
        LoopTurn::Sleep => -1.0,
    })
}

/// The event loop has slept so many seconds; whether `_loop_fd` was readable.
#[pyfunction]
pub(crate) fn _loop_woke(py: Python<'_>, slept: f64, is_readable: bool) -> PyResult<()> {
    let session = session::connected(py)?;
    let slept = Duration::from_secs_f64(slept.max(0.0));
    detached(py, GilSite::EventLoop, |_| session.runtime.loop_woke(slept, is_readable))
}

/// The event loop looks around between two pieces of work.
#[pyfunction]
pub(crate) fn _loop_passes(py: Python<'_>) -> PyResult<()> {
    let session = session::connected(py)?;
    detached(py, GilSite::EventLoop, |_| session.runtime.loop_passes())
}
