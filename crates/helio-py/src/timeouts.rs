//! Timeouts as users give them.

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Seconds as users give them; too many are no bound at all.
pub(crate) fn timeout(seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let Some(seconds) = seconds else { return Ok(None) };
    if seconds.is_nan() {
        return Err(PyValueError::new_err("the timeout is not a number"));
    }
    Ok(Duration::try_from_secs_f64(seconds.max(0.0)).ok())
}
