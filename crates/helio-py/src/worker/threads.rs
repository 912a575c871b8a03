//! `OMP_NUM_THREADS`: numerical libraries use as many threads as a call has CPUs, unless the user says
//! otherwise. Left alone, each worker would start one for every CPU of the machine, and they would get
//! in each other's way.

use std::sync::atomic::{AtomicU32, Ordering};

use helio_types::ResourceSet;
use pyo3::prelude::*;
use pyo3::types::PyDict;

const VARIABLE: &str = "OMP_NUM_THREADS";

/// The number of threads that this module set last; 0: none.
static OURS: AtomicU32 = AtomicU32::new(0);

pub(super) fn limit(py: Python<'_>, assigned: &ResourceSet) -> PyResult<()> {
    let before = OURS.load(Ordering::Relaxed);
    let environ = py.import("os")?.getattr("environ")?;
    let present: Option<String> = environ.call_method1("get", (VARIABLE,))?.extract()?;
    if present.is_some_and(|value| before == 0 || value != before.to_string()) {
        return Ok(());
    }
    let threads = (assigned.get("CPU").to_f64() as u32).max(1);
    if threads == before {
        return Ok(());
    }
    OURS.store(threads, Ordering::Relaxed);
    environ.set_item(VARIABLE, threads.to_string())?;
    // The variable is read when the library is loaded, which may be over.
    let modules = py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?;
    if let Some(torch) = modules.get_item("torch")? {
        // Another thread may be in the middle of loading it.
        if let Ok(set) = torch.getattr("set_num_threads") {
            set.call1((threads,))?;
        }
    }
    Ok(())
}
