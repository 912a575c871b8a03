//! The main thread's loop.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use helio_types::WorkerId;
use helio_worker::{Error, Options, Work};
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;

use super::flow::Flow;
use super::{
    asynchronous, cancel, construct, devices, ending, execute, pool, threaded, title, warm_up,
};
use crate::errors;
use crate::gil::{GilSite, detached};
use crate::session::{self, Session};

/// The way by which calls reach the user's code here.
enum Mode {
    /// On this thread.
    Here,
    /// In the pools of a threaded actor.
    Pools,
}

fn environment(name: &str) -> PyResult<String> {
    helio_env::settings::variable(name).ok_or_else(|| {
        PyRuntimeError::new_err(format!("{name} is not set: workers are started by the daemon"))
    })
}

/// Serve until told to end: the exit code, negated (minus one) when `atexit` functions are not to run.
#[pyfunction]
pub(crate) fn run_worker(py: Python<'_>) -> PyResult<i32> {
    devices::remember();
    title::begin();
    let worker_id = WorkerId::from_hex(&environment("HELIOSTAT_WORKER_ID")?)
        .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    let options = Options {
        node_socket: PathBuf::from(environment("HELIOSTAT_NODE_SOCKET")?),
        token: environment("HELIOSTAT_AUTH_TOKEN")?,
        worker_id,
        is_driver: false,
        lineage_bytes_max: session::lineage_bytes_max()?,
        ..Options::default()
    };
    let session = session::begin(py, options)?;
    cancel::listen(&session);
    match serve(py, &session)? {
        Flow::Leave(code) => {
            tracing::info!(code, "this worker ends");
            ending::announce(&session);
            py.detach(|| session.runtime.last_words());
            Ok(code)
        }
        Flow::Die(code) => Ok(-1 - code),
        Flow::Next => Ok(0),
    }
}

fn serve(py: Python<'_>, session: &Arc<Session>) -> PyResult<Flow> {
    let mut mode = Mode::Here;
    let mut first = warm_up::unless_work_comes(py, session)?;
    loop {
        // The pools' threads hold the GIL: to let go of it for each call would be to wait for each.
        let here = match mode {
            Mode::Here => first.take(),
            Mode::Pools => {
                session.runtime.next_work(Some(Duration::ZERO), &mut || false).ok().flatten()
            }
        };
        let work = match here {
            Some(work) => work,
            None => match next(py, session)? {
                Some(work) => work,
                // The daemon is gone: there is nobody to work for.
                None => return Ok(Flow::Die(0)),
            },
        };
        let flow = match work {
            Work::Call(call) => match mode {
                Mode::Here => execute::run(py, session, *call)?,
                Mode::Pools => {
                    threaded::submit(py, session, *call)?;
                    Flow::Next
                }
            },
            Work::Construct(construct) => match construct::run(py, session, *construct)? {
                construct::Made::Plain => Flow::Next,
                construct::Made::Threaded => {
                    mode = Mode::Pools;
                    Flow::Next
                }
                construct::Made::Async => asynchronous::serve(py)?,
                construct::Made::Failed => Flow::Leave(0),
            },
            // The call was over before the word came, or it is one that only a flag tells of the end.
            Work::Cancel(_) => Flow::Next,
            Work::Exit { drain, .. } => match ending::asked() {
                Some(code) => {
                    pool::finish(py)?;
                    Flow::Leave(code)
                }
                None if drain => {
                    pool::finish(py)?;
                    Flow::Leave(0)
                }
                None => Flow::Die(0),
            },
        };
        if flow != Flow::Next {
            return Ok(flow);
        }
    }
}

/// The next piece of work; `None` when the daemon is gone. A late cancellation is no reason to stop.
fn next(py: Python<'_>, session: &Session) -> PyResult<Option<Work>> {
    loop {
        let work = detached(py, GilSite::NextWork, |interrupt| {
            session.runtime.next_work(None, &mut || {
                title::rest();
                interrupt()
            })
        });
        match work {
            Ok(Ok(Some(work))) => return Ok(Some(work)),
            Ok(Ok(None)) => {}
            Ok(Err(Error::Disconnected(_))) => return Ok(None),
            Ok(Err(error)) => return Err(errors::raise(py, error)),
            Err(error) if error.is_instance_of::<PyKeyboardInterrupt>(py) => {}
            Err(error) => return Err(error),
        }
    }
}
