//! What a worker takes over from the driver that it works for: where its code is, and which devices.

use std::sync::Arc;

use helio_proto::node::JobConfig;
use helio_types::JobId;
use helio_worker::Lease;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::{devices, process, threads};

/// The job whose configuration is in force.
static PRESENT: Mutex<Option<JobId>> = Mutex::new(None);
/// The lease whose devices are visible. The pointer is only compared; it is kept so that its address
/// is not used again.
static LEASE: Mutex<Option<Arc<Lease>>> = Mutex::new(None);

/// Makes a lease's job and devices the process's.
pub(super) fn serve(py: Python<'_>, lease: &Arc<Lease>) -> PyResult<()> {
    let before = LEASE.lock().replace(Arc::clone(lease));
    if before.is_none() {
        process::serve_tasks();
    }
    if before.is_some_and(|before| Arc::ptr_eq(&before, lease)) {
        return Ok(());
    }
    apply(py, &lease.job)?;
    threads::limit(py, &lease.assigned.resources)?;
    devices::show(py, &lease.assigned.devices)
}

/// Makes the driver's modules importable and its working directory ours.
pub(super) fn apply(py: Python<'_>, job: &JobConfig) -> PyResult<()> {
    if PRESENT.lock().replace(job.job_id) == Some(job.job_id) {
        return Ok(());
    }
    let path = py.import("sys")?.getattr("path")?.cast_into::<PyList>()?;
    // A working directory of the environment was entered before this process began, and stays in front.
    let entered = py.import("heliostat.core.worker_main")?.getattr("working_dir")?;
    let mut at = if entered.is_none() { 0 } else { path.index(&entered).map_or(0, |at| at + 1) };
    for entry in &job.sys_path {
        if !path.contains(entry)? {
            path.insert(at, entry)?;
            at += 1;
        }
    }
    if !job.cwd.is_empty() && entered.is_none() {
        // On another machine the folder may not be there.
        let _ = std::env::set_current_dir(&job.cwd);
    }
    Ok(())
}
