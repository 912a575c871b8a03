//! Becoming an actor.

use std::sync::Arc;

use helio_types::TaskId;
use helio_worker::Construct;
use pyo3::prelude::*;

use super::blocking::{ASYNC, THREADED};
use super::execute::is_actor_exit;
use super::printing::end_lines;
use super::title::Title;
use super::{asynchronous, devices, failure, functions, job, pool, process, threads, title};
use crate::calls;
use crate::codec::args;
use crate::current::{self, Actor, Running};
use crate::session::{self, Session};

/// The outcome of a construction.
pub(super) enum Made {
    /// An actor whose calls run one after another.
    Plain,
    /// An actor whose calls run in pools of threads.
    Threaded,
    /// An actor whose calls run on event loops.
    Async,
    /// The constructor raised, which was reported.
    Failed,
}

/// Constructs the actor and reports how it went.
pub(super) fn run(py: Python<'_>, session: &Session, construct: Construct) -> PyResult<Made> {
    process::serve_actor();
    job::apply(py, &construct.job)?;
    threads::limit(py, &construct.assigned.resources)?;
    devices::show(py, &construct.assigned.devices)?;
    let Construct { spec, template, incarnation, assigned, body, deps, .. } = construct;
    let (actor_id, concurrency, is_async) = (spec.actor_id, spec.max_concurrency, spec.is_async);
    let threaded = concurrency > 1 || !spec.concurrency_groups.is_empty();
    let task = TaskId::new(0, actor_id);
    let running = Running::new(task, Arc::clone(&template), None);
    title::become_actor(&spec.class_name);
    // Threads that are started from here on have that name.
    title::rest();
    if is_async {
        asynchronous::prepare(py, &spec)?;
    }
    let shown = title::show(&Title::new(&format!("{}.__init__", spec.class_name)));
    current::become_actor(Arc::new(Actor {
        spec,
        template: Arc::clone(&template),
        incarnation,
        assigned,
    }));
    session::forget_plans();
    let scope = current::enter(Arc::clone(&running), true);
    let made = instance(py, &template, &body, &deps, is_async);
    end_lines(py);
    drop((scope, shown));
    title::rest();
    match made {
        Ok(_) if running.has_left() => Ok(Made::Failed),
        Ok(instance) => {
            current::set_instance(instance.unbind());
            py.import("heliostat.core.worker.main_loop")?.getattr("actor_is_made")?.call0()?;
            // Announced last: from here on calls may come.
            if is_async {
                ASYNC.store(true, std::sync::atomic::Ordering::Relaxed);
            } else if threaded {
                pool::open()?;
                THREADED.store(true, std::sync::atomic::Ordering::Relaxed);
            }
            session.runtime.actor_ready(actor_id, Ok(()));
            Ok(if is_async {
                Made::Async
            } else if threaded {
                Made::Threaded
            } else {
                Made::Plain
            })
        }
        Err(error) if is_actor_exit(py, &error) => Ok(Made::Failed),
        Err(error) => {
            let text = error.to_string();
            let payload = failure::payload(py, &running, error, "init_error");
            session.runtime.actor_ready(actor_id, Err((payload, text)));
            Ok(Made::Failed)
        }
    }
}

fn instance<'py>(
    py: Python<'py>,
    template: &helio_proto::template::Template,
    body: &helio_worker::Payload,
    deps: &[helio_worker::Payload],
    is_async: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let class = functions::function(py, template)?;
    let unpacked = args::unpack(py, body, deps)?;
    if is_async {
        let construct = py.import("heliostat.core.aio.async_actor")?.getattr("construct")?;
        return construct.call1((class.bind(py), unpacked.args, unpacked.kwargs));
    }
    calls::call(class.bind(py), &unpacked.args, unpacked.kwargs.as_ref())
}
