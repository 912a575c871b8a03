//! From messages to rows.

use std::collections::BTreeMap;

use helio_proto::control::{ActorInfo, ActorPhase, JobInfo, NodeInfo};
use helio_proto::group::{GroupInfo, GroupPhase};
use helio_proto::inspect::{Answer, TaskPhase};
use helio_types::{ResourceSet, WorkerId};
use serde_json::{Value, json};

use crate::Row;

fn row(value: Value) -> Row {
    match value {
        Value::Object(row) => row,
        _ => Row::new(),
    }
}

/// `None` for an id that names nothing.
macro_rules! hex {
    ($id:expr) => {
        if $id.is_nil() { Value::Null } else { Value::String($id.hex()) }
    };
}

fn text(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { Value::String(text.to_owned()) }
}

fn resources(set: &ResourceSet) -> Value {
    let all = set.iter().map(|(name, quantity)| (name.to_owned(), json!(quantity.to_f64())));
    Value::Object(all.collect())
}

fn ms(us: u64) -> Value {
    if us == 0 { Value::Null } else { json!(us / 1000) }
}

/// Calls, of the answers about tasks; `processes` are answers about workers, for the numbers of
/// processes. Besides the columns a row has `start_us` and `end_us`.
#[must_use]
pub fn tasks(answers: &[Answer], processes: &[Answer]) -> Vec<Row> {
    let mut pids: BTreeMap<WorkerId, u32> = BTreeMap::new();
    for answer in processes.iter().chain(answers) {
        pids.insert(answer.worker_id, answer.pid);
        pids.extend(answer.workers.iter().map(|worker| (worker.worker_id, worker.pid)));
    }
    let rows =
        answers.iter().flat_map(|answer| answer.tasks.iter().map(move |task| (answer, task)));
    let rows = rows.map(|(answer, task)| {
        let is_method = !task.actor_id.is_nil();
        row(json!({
            "task_id": task.task_id.hex(),
            "attempt_number": task.attempt,
            "name": task.name,
            "state": TaskPhase::from_number(task.phase).name(),
            "job_id": answer.job_id.hex(),
            "actor_id": hex!(task.actor_id),
            "type": if is_method { "ACTOR_TASK" } else { "NORMAL_TASK" },
            "func_or_class_name": task.name,
            "parent_task_id": hex!(task.parent),
            "node_id": hex!(task.node_id),
            "worker_id": hex!(task.worker_id),
            "worker_pid": pids.get(&task.worker_id).filter(|pid| **pid > 0),
            "error_type": text(&task.error_type),
            "language": "PYTHON",
            "required_resources": resources(&task.resources),
            "creation_time_ms": task.created_ms,
            "start_time_ms": ms(task.started_us),
            "end_time_ms": ms(task.ended_us),
            "error_message": text(&task.error_message),
            "why": text(&task.why),
            "start_us": task.started_us,
            "end_us": task.ended_us,
        }))
    });
    rows.collect()
}

/// References, of the answers about objects.
#[must_use]
pub fn objects(answers: &[Answer]) -> Vec<Row> {
    let rows =
        answers.iter().flat_map(|answer| answer.objects.iter().map(move |one| (answer, one)));
    let rows = rows.map(|(answer, object)| {
        let reference = if object.is_handle {
            "ACTOR_HANDLE"
        } else if object.is_pinned {
            "PINNED_IN_MEMORY"
        } else if object.local > 0 {
            "LOCAL_REFERENCE"
        } else if object.uses > 0 && !object.is_ready {
            "USED_BY_PENDING_TASK"
        } else if object.uses > 0 {
            "CAPTURED_IN_OBJECT"
        } else {
            "UNKNOWN_STATUS"
        };
        let status = match (object.is_ready, object.is_error) {
            (true, true) => "FAILED",
            (true, false) => "FINISHED",
            (false, _) => "PENDING",
        };
        row(json!({
            "object_id": object.object_id.hex(),
            "object_size": object.size,
            "task_status": status,
            "attempt_number": object.attempt + 1,
            "reference_type": reference,
            "call_site": "disabled",
            "type": if answer.is_driver { "DRIVER" } else { "WORKER" },
            "pid": answer.pid,
            "ip": answer.host,
            "is_stored": object.is_stored,
            "node_id": answer.node_id.hex(),
        }))
    });
    rows.collect()
}

/// Processes, of the daemons' answers about workers.
#[must_use]
pub fn workers(answers: &[Answer]) -> Vec<Row> {
    let rows =
        answers.iter().flat_map(|answer| answer.workers.iter().map(move |one| (answer, one)));
    let rows = rows.map(|(answer, worker)| {
        row(json!({
            "worker_id": worker.worker_id.hex(),
            "is_alive": worker.is_alive,
            "worker_type": if worker.is_driver { "DRIVER" } else { "WORKER" },
            "exit_type": text(&worker.exit_type),
            "node_id": answer.node_id.hex(),
            "ip": answer.host,
            "pid": worker.pid,
            "exit_detail": text(&worker.exit_detail),
            "job_id": hex!(worker.job_id),
            "usage": text(&worker.usage),
            "required_resources": resources(&worker.resources),
        }))
    });
    rows.collect()
}

/// Actors, of the control service's list.
#[must_use]
pub fn actors(infos: &[ActorInfo]) -> Vec<Row> {
    let rows = infos.iter().map(|info| {
        row(json!({
            "actor_id": info.actor_id.hex(),
            "class_name": info.class_name,
            "state": ActorPhase::from_number(info.phase).name(),
            "job_id": info.job_id.hex(),
            "name": text(&info.name),
            "node_id": hex!(info.node_id),
            "pid": info.pid,
            "ray_namespace": info.namespace,
            "required_resources": resources(&info.resources),
            "death_cause": text(&info.cause.to_string()),
            "is_detached": info.detached,
            "num_restarts": info.restarts,
            "why": info.why,
        }))
    });
    rows.collect()
}

/// Nodes, of the control service's list.
#[must_use]
pub fn nodes(infos: &[NodeInfo]) -> Vec<Row> {
    let rows = infos.iter().map(|info| {
        let labels: Row =
            info.labels.iter().map(|label| (label.key.clone(), json!(label.value))).collect();
        row(json!({
            "node_id": info.address.node_id.hex(),
            "node_ip": info.address.host,
            "is_head_node": info.is_head,
            "state": if info.alive { "ALIVE" } else { "DEAD" },
            "state_message": text(&info.cause),
            "node_name": if info.name.is_empty() { &info.address.host } else { &info.name },
            "resources_total": resources(&info.total),
            "labels": labels,
        }))
    });
    rows.collect()
}

/// Placement groups, of the control service's list.
#[must_use]
pub fn groups(infos: &[GroupInfo]) -> Vec<Row> {
    let rows = infos.iter().map(|info| {
        let spec = &info.spec;
        let node = |index: usize| {
            let place = info.places.iter().find(|place| place.bundle as usize == index);
            place.map_or(Value::Null, |place| Value::String(place.node_id.hex()))
        };
        let bundles: Vec<Value> = spec
            .bundles
            .iter()
            .enumerate()
            .map(|(index, bundle)| {
                json!({
                    "bundle_id": { "placement_group_id": spec.group_id.hex(), "bundle_index": index },
                    "unit_resources": resources(&bundle.resources),
                    "node_id": node(index),
                })
            })
            .collect();
        row(json!({
            "placement_group_id": spec.group_id.hex(),
            "name": spec.name,
            "creator_job_id": spec.job_id.hex(),
            "state": GroupPhase::from_number(info.phase).name(),
            "bundles": bundles,
            "is_detached": spec.detached,
            "stats": { "scheduling_attempt": info.attempts, "end_to_end_creation_latency_ms": info.took_ms },
            "why": text(&info.why),
        }))
    });
    rows.collect()
}

/// Jobs, of the control service's list.
#[must_use]
pub fn jobs(infos: &[JobInfo]) -> Vec<Row> {
    let rows = infos.iter().map(|info| {
        row(json!({
            "job_id": info.job_id.hex(),
            "submission_id": Value::Null,
            "entrypoint": info.entrypoint,
            "type": "DRIVER",
            "status": if info.alive { "RUNNING" } else { "SUCCEEDED" },
            "start_time": info.started_ms,
            "end_time": if info.ended_ms == 0 { Value::Null } else { json!(info.ended_ms) },
            "driver_info": { "id": info.job_id.hex(), "pid": info.pid },
            "metadata": {},
        }))
    });
    rows.collect()
}
