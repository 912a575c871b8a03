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

/// The head as Python names it: the folder of the session here, host, port, token and entrance.
type Place = (PathBuf, String, u16, String, u16);

/// Has the head's package written to a file.
#[pyfunction]
pub(crate) fn _take_package(py: Python<'_>, head: Place, name: &str, to: PathBuf) -> PyResult<()> {
    with_head(py, head, |head| head.take(name, &to))
}

/// Brings a package to the head, unless that has it.
#[pyfunction]
pub(crate) fn _give_package(
    py: Python<'_>,
    head: Place,
    name: &str,
    from: PathBuf,
) -> PyResult<()> {
    with_head(py, head, |head| head.give(name, &from))
}

/// Connects to the head without the GIL.
fn with_head<E: std::error::Error + Send>(
    py: Python<'_>,
    (session_dir, host, port, token, entrance): Place,
    act: impl FnOnce(&Head<'_>) -> Result<(), E> + Send,
) -> PyResult<()> {
    let head = Head { session_dir: &session_dir, host: &host, port, token: &token, entrance };
    detached(py, GilSite::Connect, |_| act(&head))?
        .map_err(|error| PyConnectionError::new_err(error.to_string()))
}
