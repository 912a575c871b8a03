//! A call of nothing for nobody, while a new worker has no work. The first call of a process takes several
//! times as long as the next: what it touches was never touched, and is copied from the zygote. This way
//! it is not the user's.

use std::sync::Arc;
use std::time::Duration;

use helio_proto::template::{CallKind, Template};
use helio_types::{Devices, TaskId, WorkerId};
use helio_worker::{Bytes, Call, Payload, Work};
use pyo3::prelude::*;

use super::{devices, execute, title};
use crate::gil::{GilSite, detached};
use crate::session::Session;

/// Time that a new worker waits for its first work before it warms up.
const WORK_COMES: Duration = Duration::from_micros(50);

/// In the zygote: finds out what is the same in all its copies.
#[pyfunction]
pub(crate) fn _prepare_copies() {
    title::find();
    devices::find();
}

/// Waits a moment for work and returns it; if none comes, runs the warm-up call.
pub(super) fn unless_work_comes(py: Python<'_>, session: &Session) -> PyResult<Option<Work>> {
    let work = detached(py, GilSite::NextWork, |interrupt| {
        session.runtime.next_work(Some(WORK_COMES), interrupt)
    })?;
    if let Ok(Some(work)) = work {
        return Ok(Some(work));
    }
    if let Err(error) = rehearse(py, session) {
        // Calls will say it to those whom it concerns.
        error.write_unraisable(py, None);
    }
    Ok(None)
}

fn rehearse(py: Python<'_>, session: &Session) -> PyResult<()> {
    let function = py
        .import("heliostat.core.worker.warm_up")?
        .getattr("serving")?
        .call0()?
        .extract::<Vec<u8>>()?
        .into();
    let template = Template { kind: CallKind::Task, function, ..Template::default() };
    devices::show(py, &Devices::new())?;
    // No arguments.
    let body = Payload::value(Bytes::Memory(Arc::new(vec![0; 5])));
    let call = Call {
        task: TaskId::NIL,
        caller: WorkerId::NIL,
        template: Arc::new(template),
        body,
        deps: Vec::new(),
        returns: 1,
        attempt: 0,
        lease: None,
    };
    execute::rehearse(py, session, &call)
}
