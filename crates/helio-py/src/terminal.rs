//! Text for the driver to print: lines of its workers, and notices.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::gil::{GilSite, detached};
use crate::session;

/// (pid, host, name, is_stderr, text)
type Line = (u32, String, String, bool, String);

fn seconds(timeout: f64) -> Duration {
    Duration::try_from_secs_f64(timeout.max(0.0)).unwrap_or(Duration::MAX)
}

/// Lines that workers printed; blocks until some come or the time is up.
#[pyfunction]
pub(crate) fn take_logs(py: Python<'_>, timeout: f64) -> PyResult<Vec<Line>> {
    let session = session::connected(py)?;
    let lines = detached(py, GilSite::Logs, |_| session.runtime.take_logs(seconds(timeout)))?;
    Ok(lines
        .into_iter()
        .map(|line| (line.pid, line.host, line.name, line.is_stderr, line.text))
        .collect())
}

/// (is_warning, text)
#[pyfunction]
pub(crate) fn take_notices(py: Python<'_>) -> PyResult<Vec<(bool, String)>> {
    let notices = session::connected(py)?.runtime.take_notices();
    Ok(notices.into_iter().map(|notice| (notice.is_warning, notice.text)).collect())
}

/// Errors, serialized, of calls whose references went before anybody had read them.
#[pyfunction]
pub(crate) fn take_unhandled(py: Python<'_>) -> PyResult<Vec<Py<PyBytes>>> {
    let unseen = session::connected(py)?.runtime.take_unseen();
    Ok(unseen.iter().map(|payload| PyBytes::new(py, payload).unbind()).collect())
}

/// Wait until what the workers have printed so far is here.
#[pyfunction]
pub(crate) fn flush_logs(py: Python<'_>, timeout: f64) -> PyResult<()> {
    let session = session::connected(py)?;
    detached(py, GilSite::Logs, |_| session.runtime.flush_logs(seconds(timeout)))
}
