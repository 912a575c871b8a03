//! The settings that a worker takes over from its driver: where the driver's code is, and which devices it sees.

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
    let entered = py.import("heliostat.core.worker.main_loop")?.getattr("working_dir")?;
    let first = if entered.is_none() { 0 } else { path.index(&entered).map_or(0, |at| at + 1) };
    // The driver's packages do not come before the standard library, nor before what this interpreter alone has.
    let own = py.import("heliostat.core.worker.preparation")?.getattr("own_packages")?.call0()?;
    let own = own.extract::<Vec<String>>()?;
    for (at, entry) in merged(&path.extract::<Vec<String>>()?, first, &job.sys_path, &own) {
        path.insert(at, entry)?;
    }
    if !job.cwd.is_empty() && entered.is_none() {
        // On another machine the folder may not be there.
        let _ = std::env::set_current_dir(&job.cwd);
    }
    Ok(())
}

/// The places at which entries of the driver's path enter the worker's, in order: behind what stands before them
/// there as well, and behind what is the worker's own wherever anything of the driver's path is there already.
fn merged(
    path: &[String],
    first: usize,
    driver: &[String],
    own: &[String],
) -> Vec<(usize, String)> {
    let mut path = path.to_vec();
    let own_end = path.iter().rposition(|entry| own.contains(entry)).map_or(0, |at| at + 1);
    let (mut at, mut own_end, mut inserts) = (first, own_end, Vec::new());
    for entry in driver {
        if let Some(found) = path.iter().position(|known| known == entry) {
            at = at.max(found + 1).max(own_end);
            continue;
        }
        path.insert(at, entry.clone());
        inserts.push((at, entry.clone()));
        at += 1;
        if at <= own_end {
            own_end += 1;
        }
    }
    inserts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(worker: &str, own: &str, driver: &str, expect: &str) {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let mut path = words(worker);
        for (at, entry) in merged(&path.clone(), 0, &words(driver), &words(own)) {
            path.insert(at, entry);
        }
        assert_eq!(path, words(expect), "{worker} with {driver}");
    }

    #[test]
    fn the_drivers_entries_keep_their_order_and_the_workers_own_packages_come_first() {
        check("std dyn site", "", "script std dyn site", "script std dyn site");
        check("std dyn site", "", "script std dyn venv", "script std dyn venv site");
        check("std dyn env site", "env", "script std dyn site", "script std dyn env site");
        check(
            "std dyn env site",
            "env",
            "script std dyn venv more",
            "script std dyn env venv more site",
        );
        check("std dyn env site", "env", "script other", "script other std dyn env site");
        check("", "", "a b", "a b");
    }
}
