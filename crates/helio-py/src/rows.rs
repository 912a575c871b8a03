//! Rows of the core as dictionaries (`heliostat.core.native_types`).

use helio_proto::control::{ActorInfo, JobInfo, Label, NodeInfo};
use helio_types::ResourceSet;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// A dictionary of quantities.
pub(crate) fn resources<'py>(py: Python<'py>, set: &ResourceSet) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, quantity) in set.iter() {
        dict.set_item(name, quantity.to_f64())?;
    }
    Ok(dict)
}

/// A dictionary of labels.
pub(crate) fn labels<'py>(py: Python<'py>, labels: &[Label]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for label in labels {
        dict.set_item(&label.key, &label.value)?;
    }
    Ok(dict)
}

/// A `native_types.ActorRow`.
pub(crate) fn actor<'py>(py: Python<'py>, info: &ActorInfo) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    let phase = info.phase;
    row.set_item("actor_id", info.actor_id.hex())?;
    row.set_item("state", phase.name())?;
    row.set_item("incarnation", info.incarnation)?;
    row.set_item("restarts", info.restarts)?;
    row.set_item("name", &info.name)?;
    row.set_item("namespace", &info.namespace)?;
    row.set_item("class_name", &info.class_name)?;
    row.set_item("job_id", info.job_id.hex())?;
    row.set_item(
        "node_id",
        if info.node_id.is_nil() { String::new() } else { info.node_id.hex() },
    )?;
    row.set_item("pid", info.pid)?;
    row.set_item("detached", info.detached)?;
    row.set_item("why", &info.why)?;
    row.set_item("death_cause", info.cause.to_string())?;
    row.set_item("resources", resources(py, &info.resources)?)?;
    row.set_item("max_task_retries", info.max_task_retries)?;
    Ok(row)
}

/// A `native_types.NodeRow`.
pub(crate) fn node<'py>(py: Python<'py>, info: &NodeInfo) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("node_id", info.address.node_id.hex())?;
    row.set_item("alive", info.alive)?;
    row.set_item("host", &info.address.host)?;
    row.set_item("port", info.address.port)?;
    row.set_item("hostname", &info.hostname)?;
    row.set_item("name", &info.name)?;
    row.set_item("total", resources(py, &info.total)?)?;
    row.set_item("available", resources(py, &info.available)?)?;
    row.set_item("labels", labels(py, &info.labels)?)?;
    row.set_item("pid", info.pid)?;
    row.set_item("is_head", info.is_head)?;
    row.set_item("session_dir", &info.session_dir)?;
    row.set_item("cause", &info.cause)?;
    row.set_item("workers", info.workers)?;
    row.set_item("metrics_port", info.metrics_port)?;
    row.set_item("is_draining", info.is_draining)?;
    row.set_item("drain_deadline_ms", info.drain_deadline_ms)?;
    row.set_item("drain_reason", &info.drain_reason)?;
    let pending = PyList::empty(py);
    for demand in &info.pending {
        let entry = PyDict::new(py);
        entry.set_item("resources", resources(py, &demand.resources)?)?;
        entry.set_item("count", demand.count)?;
        entry.set_item("why", &demand.why)?;
        pending.append(entry)?;
    }
    row.set_item("pending", pending)?;
    Ok(row)
}

/// A `native_types.JobRow`.
pub(crate) fn job<'py>(py: Python<'py>, info: &JobInfo) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("job_id", info.job_id.hex())?;
    row.set_item("driver_id", info.driver.hex())?;
    row.set_item("node_id", info.node_id.hex())?;
    row.set_item("alive", info.alive)?;
    row.set_item("entrypoint", &info.entrypoint)?;
    row.set_item("namespace", &info.namespace)?;
    row.set_item("pid", info.pid)?;
    row.set_item("started_ms", info.started_ms)?;
    row.set_item("ended_ms", info.ended_ms)?;
    Ok(row)
}
