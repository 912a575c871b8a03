//! Runs calls on the thread at hand: tasks, and the methods of a plain or threaded actor.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use helio_proto::peer::STREAMING;
use helio_types::{DeathCause, DeathKind, PlacementGroupId, TaskId};
use helio_worker::{Call, Outcome, Outgoing, OutgoingValue};
use parking_lot::Mutex;
use pyo3::exceptions::{PyAttributeError, PySystemExit, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::blocking::{ASYNC, is_concurrent};
use super::ending::exit_cause;
use super::failure::{self, Failure};
use super::flow::{Flow, leaving, linger};
use super::functions::{self, Callable, Entry, Target};
use super::printing::end_lines;
use super::{cancel, ending, job, leftovers, outcomes, results, stream, title};
use crate::calls;
use crate::codec::args::{self, Unpacked};
use crate::current::{self, Running};
use crate::session::{self, Session};

/// Runs a call on the main thread.
pub(super) fn run(py: Python<'_>, session: &Session, call: Call) -> PyResult<Flow> {
    match call.lease.clone() {
        Some(lease) => {
            job::serve(py, &lease)?;
            run_task(py, session, call)
        }
        None => run_method(py, session, call, true),
    }
}

fn running(call: &Call) -> Arc<Running> {
    Running::new(call.task, Arc::clone(&call.template), call.lease.clone())
}

fn run_task(py: Python<'_>, session: &Session, call: Call) -> PyResult<Flow> {
    let loaded = functions::task(py, &call.template);
    let (entry, problem) = match loaded {
        Ok(entry) => (Some(entry), None),
        Err(error) => (None, Some(error)),
    };
    let running = running(&call);
    capture(&running);
    let scope = current::enter(Arc::clone(&running), true);
    let shown = entry.as_ref().map(|entry| title::show(&entry.title));
    let (outcome, was_interrupted) =
        cancel::interruptible(py, session, call.task, || match (&entry, problem) {
            (Some(entry), None) => invoke(py, session, &call, entry),
            (_, problem) => Err(problem.unwrap_or_else(|| PyTypeError::new_err("no function"))),
        });
    // Wherever the interrupt struck, in the middle of an import perhaps, it left what it left: nobody
    // else is to run there.
    let last = functions::is_last(&call.template) || was_interrupted;
    let flow = finish(py, session, &call, &running, entry.as_deref(), outcome, last);
    drop((scope, shown));
    Ok(flow)
}

/// Runs a task of which nobody hears.
pub(super) fn rehearse(py: Python<'_>, session: &Session, call: &Call) -> PyResult<()> {
    let entry = functions::task(py, &call.template)?;
    let scope = current::enter(running(call), true);
    let run = || invoke(py, session, call, &entry);
    let (outcome, _) = cancel::interruptible(py, session, call.task, run);
    drop(scope);
    outcome.map(drop)
}

/// Runs a method; `on_main`: threads that user code starts belong to it.
pub(super) fn run_method(
    py: Python<'_>,
    session: &Session,
    call: Call,
    on_main: bool,
) -> PyResult<Flow> {
    let entry = functions::method(py, &call.template)?;
    let running = running(&call);
    let scope = current::enter(Arc::clone(&running), on_main);
    let shown = title::show(&entry.title);
    let outcome = invoke(py, session, &call, &entry);
    let flow = finish(py, session, &call, &running, Some(&entry), outcome, false);
    drop((scope, shown));
    Ok(flow)
}

/// Calls, and makes the outcome of what comes back.
fn invoke(
    py: Python<'_>,
    session: &Session,
    call: &Call,
    entry: &Entry,
) -> PyResult<(Outcome, results::Results)> {
    let unpacked = args::unpack(py, &call.body, &call.deps)?;
    let result = apply(py, entry, &unpacked)?;
    if call.returns == STREAMING {
        let items = stream::run(session, call.task, entry, &result)?;
        let end = Outgoing { value: OutgoingValue::Inline(vec![0]), contained: Vec::new() };
        return Ok((
            Outcome { returns: vec![end], items, ..Outcome::default() },
            results::Results::default(),
        ));
    }
    let mut made =
        results::of_call(session, entry, &result, |index| call.task.object(index), call.returns)?;
    let returns = std::mem::take(&mut made.values);
    Ok((Outcome { returns, ..Outcome::default() }, made))
}

/// Calls the function or method.
pub(super) fn apply<'py>(
    py: Python<'py>,
    entry: &Entry,
    unpacked: &Unpacked<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let Unpacked { args, kwargs } = unpacked;
    match &entry.target {
        Target::Function(function) => calls::call(function.bind(py), args, kwargs.as_ref()),
        Target::Method(method) => {
            let instance = current::instance(py).ok_or_else(|| {
                PyTypeError::new_err("a method call reached a process that is not an actor")
            })?;
            let instance = instance.into_bound(py);
            match method.of(&instance) {
                Ok(Callable::Function(function)) if args.is_empty() && kwargs.is_none() => {
                    function.call1((instance,))
                }
                Ok(Callable::Function(function)) => {
                    let all = std::iter::once(instance.clone()).chain(args.iter());
                    let all = PyTuple::new(py, all.collect::<Vec<_>>())?;
                    calls::call(&function, &all, kwargs.as_ref())
                }
                Ok(Callable::Bound(bound)) => calls::call(&bound, args, kwargs.as_ref()),
                Err(error) if error.is_instance_of::<PyAttributeError>(py) => {
                    built_in(&instance, &entry.template.name, args, unpacked).unwrap_or(Err(error))
                }
                Err(error) => Err(error),
            }
        }
    }
}

/// The methods that every actor has.
fn built_in<'py>(
    instance: &Bound<'py, PyAny>,
    name: &str,
    args: &Bound<'py, PyTuple>,
    unpacked: &Unpacked<'py>,
) -> Option<PyResult<Bound<'py, PyAny>>> {
    let py = instance.py();
    match name {
        "__ray_ready__" => Some(Ok(pyo3::types::PyBool::new(py, true).to_owned().into_any())),
        "__ray_terminate__" => Some(exit_actor(py).map(|()| py.None().into_bound(py))),
        "__ray_call__" => {
            let call = || {
                let function = args.get_item(0)?;
                let mut all = vec![instance.clone()];
                all.extend(args.iter().skip(1));
                calls::call(&function, &PyTuple::new(py, all)?, unpacked.kwargs.as_ref())
            };
            Some(call())
        }
        _ => None,
    }
}

/// Reports the outcome; what to do next. After the `last` one the process ends.
fn finish(
    py: Python<'_>,
    session: &Session,
    call: &Call,
    running: &Running,
    entry: Option<&Entry>,
    outcome: PyResult<(Outcome, results::Results)>,
    last: bool,
) -> Flow {
    if session::is_forked() {
        // The user's code forked and its copy came back up to here: the call is the parent's.
        return Flow::Die(match &outcome {
            Ok(_) => 0,
            Err(error) if error.is_instance_of::<PySystemExit>(py) => failure::exit_code(py, error),
            Err(_) => 1,
        });
    }
    end_lines(py);
    let (outcome, held) = match outcome {
        Ok((outcome, mut held)) => match held.broken.take() {
            None => (Ok(outcome), held),
            // The values before the error are its caller's all the same.
            Some(error) => (Err((error, outcome.returns)), held),
        },
        Err(error) => (Err((error, Vec::new())), results::Results::default()),
    };
    let mut outcome = match outcome {
        outcome if running.has_left() || is_exit(py, &outcome) => {
            // Others may go on for long; without them the end is near and tells all callers.
            if is_concurrent() {
                session.runtime.finish(call.task, ending::outcome(running, call.returns));
            }
            return Flow::Leave(0);
        }
        Ok(outcome) => outcome,
        Err((error, before)) => {
            match failure::judge(py, session, running, entry, error, call.returns) {
                Failure::Failed(outcome) => outcomes::after(before, outcome),
                Failure::Exit(code) => return exit(session, code, call.task),
            }
        }
    };
    outcome.leaving = last;
    session.runtime.finish(call.task, outcome);
    drop(held);
    leftovers::call_ended(py);
    if last {
        return linger(py, session, "it has run its last task");
    }
    Flow::Next
}

fn is_exit<T, U>(py: Python<'_>, outcome: &Result<T, (PyErr, U)>) -> bool {
    matches!(outcome, Err((error, _)) if is_actor_exit(py, error))
}

/// `sys.exit()` in user code, in the call `by`.
pub(super) fn exit(session: &Session, code: i32, by: TaskId) -> Flow {
    let (kind, message) = exit_cause(code);
    leaving(session, kind, code, message, by);
    Flow::Leave(code)
}

/// Marks `SystemExit` of `exit_actor()`, which is not an error of the process.
const ACTOR_EXIT: &str = "_heliostat_actor_exit";

pub(super) fn is_actor_exit(py: Python<'_>, error: &PyErr) -> bool {
    error.value(py).hasattr(ACTOR_EXIT).unwrap_or(false)
}

/// End this actor after the calls that run. The caller of the present one learns that the actor has
/// ended, even if user code catches what is raised here.
#[pyfunction]
pub(crate) fn exit_actor(py: Python<'_>) -> PyResult<()> {
    if current::actor().is_none() {
        return Err(PyTypeError::new_err("exit_actor API is called on a non-actor worker."));
    }
    let running = current::running_here(py);
    if let Some(running) = &running {
        running.leave();
    }
    let method = running.as_ref().map_or_else(String::new, |call| call.template.name.to_string());
    let place = if method.is_empty() { String::new() } else { format!(", in {method}") };
    let message = format!("exit_actor() is called by the user{place}.");
    let by = running.map_or(TaskId::NIL, |call| call.task);
    let cause = DeathCause { by, method, ..DeathCause::new(DeathKind::UserExit, message) };
    ending::ask(&*session::connected(py)?, cause);
    let class = if ASYNC.load(Ordering::Relaxed) {
        py.import("heliostat.exceptions")?.getattr("AsyncioActorExit")?
    } else {
        py.get_type::<PySystemExit>().into_any()
    };
    let exit = class.call1((0,))?;
    exit.setattr(intern!(py, "_heliostat_actor_exit"), true)?;
    Err(PyErr::from_value(exit))
}

/// Calls that were prepared for another placement group are prepared again.
fn capture(running: &Running) {
    static BEFORE: Mutex<Option<PlacementGroupId>> = Mutex::new(None);
    let now = current::captured(&running.template.front);
    let mut before = BEFORE.lock();
    if *before != now {
        *before = now;
        session::forget_plans();
    }
}
