//! `CUDA_VISIBLE_DEVICES`: a call sees the GPUs that were assigned to it.

use std::sync::OnceLock;

use pyo3::prelude::*;
use pyo3::types::PyList;

const VARIABLE: &str = "CUDA_VISIBLE_DEVICES";
/// Users who manage devices themselves turn it off with this.
const LEAVE_ALONE: &str = "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES";

/// With this, a call that has no GPU sees none, whatever the node shows.
const OVERRIDE_ON_ZERO: &str = "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO";

/// What the variable was when the process started: the names of the node's GPUs, by index.
static ORIGINAL: OnceLock<Option<Vec<String>>> = OnceLock::new();

/// Notes the variable before anything changes it.
pub(super) fn remember() {
    ORIGINAL.get_or_init(|| {
        let names = std::env::var(VARIABLE).ok()?;
        let names: Vec<_> = names
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect();
        (!names.is_empty()).then_some(names)
    });
}

fn name(index: u32) -> Option<&'static str> {
    ORIGINAL.get()?.as_ref()?.get(index as usize).map(String::as_str)
}

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Lets the process see these GPUs and no others.
pub(super) fn show(py: Python<'_>, gpus: &[u32]) -> PyResult<()> {
    if is_set(LEAVE_ALONE) {
        return Ok(());
    }
    let environ = py.import("os")?.getattr("environ")?;
    if gpus.is_empty() && is_set(OVERRIDE_ON_ZERO) {
        return environ.set_item(VARIABLE, "");
    }
    if gpus.is_empty() {
        // Nothing was asked for: the process sees what it was started with.
        return match ORIGINAL.get().and_then(Option::as_ref) {
            Some(names) => environ.set_item(VARIABLE, names.join(",")),
            None => environ.call_method1("pop", (VARIABLE, py.None())).map(drop),
        };
    }
    let names: Vec<_> =
        gpus.iter().map(|gpu| name(*gpu).map_or_else(|| gpu.to_string(), str::to_owned)).collect();
    environ.set_item(VARIABLE, names.join(","))
}

/// The GPUs as `get_gpu_ids` shows them: numbers, or the names that the variable had given them.
pub(crate) fn shown<'py>(py: Python<'py>, gpus: &[u32]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for gpu in gpus {
        match name(*gpu) {
            Some(name) => list.append(name)?,
            None => list.append(gpu)?,
        }
    }
    Ok(list)
}
