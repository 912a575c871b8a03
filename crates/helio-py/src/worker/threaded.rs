//! The calls of a threaded actor. The main thread hands them to the pools; a thread is started when a call comes and
//! none is idle.

use helio_worker::Call;
use pyo3::prelude::*;

use super::flow::Flow;
use super::pool::find;
use super::{ending, execute};
use crate::gil::{GilSite, detached};
use crate::session::{self, Session};

/// Hands a call to its group.
pub(super) fn submit(py: Python<'_>, session: &Session, call: Call) -> PyResult<()> {
    let group = call.template.concurrency_group.clone();
    let Some(pool) = find(&group) else {
        session.runtime.runs(call.task);
        return execute::run_method(py, session, call, true).map(drop);
    };
    if pool.push(call) {
        py.import("heliostat.core.worker.main_loop")?
            .getattr("start_pool_thread")?
            .call1((group,))?;
    }
    Ok(())
}

/// A pool thread's life.
#[pyfunction]
pub(crate) fn _serve_pool(py: Python<'_>, group: &str) -> PyResult<()> {
    let (Some(pool), Some(session)) = (find(group), session::present()) else { return Ok(()) };
    loop {
        // A thread that keeps the GIL between two calls runs both without a change of threads.
        let call = match pool.try_next() {
            Some(call) => call,
            None => match detached(py, GilSite::Pool, |_| pool.next())? {
                Some(call) => call,
                None => return Ok(()),
            },
        };
        session.runtime.runs(call.task);
        let flow = execute::run_method(py, &session, call, false);
        pool.done();
        if let Flow::Leave(code) | Flow::Die(code) = flow? {
            ending::ask_announced(&session, code);
        }
    }
}
