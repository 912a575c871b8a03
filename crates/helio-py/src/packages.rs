//! Packages of code, between a session's folder and the head.

use std::path::PathBuf;

use helio_worker::chunks;
use helio_worker::packages::Head;
use pyo3::exceptions::PyConnectionError;
use pyo3::prelude::*;

use crate::gil::{GilSite, detached};

/// The chunks of a file, cut by content: (name, size) of each.
#[pyfunction]
pub(crate) fn _cut_file(py: Python<'_>, path: PathBuf) -> PyResult<Vec<(String, u32)>> {
    let chunks = detached(py, GilSite::Connect, |_| chunks::cut(&path))??;
    let hex = |digest: chunks::Digest| digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(chunks.into_iter().map(|(digest, size)| (hex(digest), size)).collect())
}

/// The name of the chunk that these bytes are.
#[pyfunction]
pub(crate) fn _chunk_name(data: &[u8]) -> String {
    chunks::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Has the head's package written to a file.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "arguments of the Python function, packed at once")]
pub(crate) fn _take_package(
    py: Python<'_>,
    session_dir: PathBuf,
    host: &str,
    port: u16,
    token: &str,
    entrance: u16,
    name: &str,
    to: PathBuf,
) -> PyResult<()> {
    let head = Head { session_dir: &session_dir, host, port, token, entrance };
    detached(py, GilSite::Connect, |_| head.take(name, &to))?
        .map_err(|error| PyConnectionError::new_err(error.to_string()))
}

/// Brings a package to the head, unless that has it.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "arguments of the Python function, packed at once")]
pub(crate) fn _give_package(
    py: Python<'_>,
    session_dir: PathBuf,
    host: &str,
    port: u16,
    token: &str,
    entrance: u16,
    name: &str,
    from: PathBuf,
) -> PyResult<()> {
    let head = Head { session_dir: &session_dir, host, port, token, entrance };
    detached(py, GilSite::Connect, |_| head.give(name, &from))?
        .map_err(|error| PyConnectionError::new_err(error.to_string()))
}
