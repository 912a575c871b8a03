//! Packages of code, between a session's folder and the head.

use std::path::PathBuf;

use helio_worker::packages::Head;
use pyo3::exceptions::PyConnectionError;
use pyo3::prelude::*;

use crate::gil::{GilSite, detached};

/// Has the head's package written to a file.
#[pyfunction]
pub(crate) fn _take_package(
    py: Python<'_>,
    session_dir: PathBuf,
    host: &str,
    port: u16,
    token: &str,
    name: &str,
    to: PathBuf,
) -> PyResult<()> {
    let head = Head { session_dir: &session_dir, host, port, token };
    detached(py, GilSite::Connect, |_| head.take(name, &to))?
        .map_err(|error| PyConnectionError::new_err(error.to_string()))
}

/// Brings a package to the head, unless that has it.
#[pyfunction]
pub(crate) fn _give_package(
    py: Python<'_>,
    session_dir: PathBuf,
    host: &str,
    port: u16,
    token: &str,
    name: &str,
    from: PathBuf,
) -> PyResult<()> {
    let head = Head { session_dir: &session_dir, host, port, token };
    detached(py, GilSite::Connect, |_| head.give(name, &from))?
        .map_err(|error| PyConnectionError::new_err(error.to_string()))
}
