//! From messages to rows.

use std::collections::BTreeMap;

use helio_proto::control::{ActorInfo, ActorPhase, JobInfo, Label, NodeInfo};
use helio_proto::group::{GroupInfo, GroupPhase};
use helio_proto::inspect::{Answer, TaskPhase, TaskRow};
use helio_types::{ActorId, DeathKind, JobId, ResourceSet, TaskId, WorkerId};
use serde_json::{Value, json};

use crate::Row;

/// The variable in which a worker finds what to do to itself; of no interest to its user.
const WORKER_SETUP: &str = "HELIOSTAT_WORKER_SETUP";

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
/// processes; `actors` for the names of classes, and for the constructors, which nobody calls. Besides
/// the columns a row has `start_us` and `end_us`. Rows are made as they are taken: there may be a great many.
pub fn tasks<'a>(
    answers: &'a [Answer],
    processes: &'a [Answer],
    actors: &'a [ActorInfo],
) -> impl Iterator<Item = Row> + 'a {
    let classes: BTreeMap<ActorId, &str> =
        actors.iter().map(|actor| (actor.actor_id, actor.class_name.as_str())).collect();
    let mut pids: BTreeMap<WorkerId, u32> = BTreeMap::new();
    for answer in processes.iter().chain(answers) {
        pids.insert(answer.worker_id, answer.pid);
        pids.extend(answer.workers.iter().map(|worker| (worker.worker_id, worker.pid)));
    }
    let rows =
        answers.iter().flat_map(|answer| answer.tasks.iter().map(move |task| (answer, task)));
    let rows = rows.map(move |(answer, task)| {
        let is_method = !task.actor_id.is_nil();
        let name = match classes.get(&task.actor_id) {
            Some(class) if is_method && !class.is_empty() => format!("{class}.{}", task.name),
            _ => task.name.clone(),
        };
        row(json!({
            "task_id": task.task_id.hex(),
            "attempt_number": task.attempt,
            "name": name,
            "state": TaskPhase::from_number(task.phase).name(),
            "job_id": answer.job_id.hex(),
            "actor_id": hex!(task.actor_id),
            "type": if is_method { "ACTOR_TASK" } else { "NORMAL_TASK" },
            "func_or_class_name": name,
            "parent_task_id": parent(task.parent, answer.job_id),
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
            "events": way(task),
            "why": text(&task.why),
            "start_us": task.started_us,
            "end_us": task.ended_us,
        }))
    });
    rows.chain(actors.iter().map(constructor))
}

/// The call that made it; a driver's code counts as one.
fn parent(task: TaskId, job: JobId) -> String {
    if task.is_nil() { driver_task(job) } else { task.hex() }
}

fn driver_task(job: JobId) -> String {
    format!("{}{}", "ff".repeat(20), job.hex())
}

/// What is known of a call's way: when it was made, sent, and over.
fn way(task: &TaskRow) -> Value {
    let phase = TaskPhase::from_number(task.phase);
    let mut events = vec![json!({ "state": "PENDING_ARGS_AVAIL", "created_ms": task.created_ms })];
    if task.started_us > 0 {
        events.push(json!({ "state": "RUNNING", "created_ms": task.started_us / 1000 }));
    }
    if phase.is_over() {
        events.push(json!({ "state": phase.name(), "created_ms": task.ended_us / 1000 }));
    }
    json!(events)
}

/// The constructor of an actor as a call.
fn constructor(info: &ActorInfo) -> Row {
    let phase = ActorPhase::from_number(info.phase);
    // Its exception, or that there never was a process for it.
    let never_ran = !info.cause.error.is_empty() || info.cause.kind == DeathKind::StartFailed;
    let state = match phase {
        ActorPhase::Alive => "FINISHED",
        ActorPhase::Dead if never_ran => "FAILED",
        ActorPhase::Dead => "FINISHED",
        ActorPhase::Pending | ActorPhase::Restarting => "PENDING_NODE_ASSIGNMENT",
    };
    let name = format!("{}.__init__", info.class_name);
    let is_failed = state == "FAILED";
    row(json!({
        "task_id": format!("{}{}", "ff".repeat(8), info.actor_id.hex()),
        "attempt_number": info.restarts,
        "name": name,
        "state": state,
        "job_id": info.job_id.hex(),
        "actor_id": info.actor_id.hex(),
        "type": "ACTOR_CREATION_TASK",
        "func_or_class_name": name,
        "parent_task_id": driver_task(info.job_id),
        "node_id": hex!(info.node_id),
        "worker_id": hex!(info.address.worker_id),
        "worker_pid": Some(info.pid).filter(|pid| *pid > 0),
        "error_type": if is_failed { json!("ACTOR_DIED") } else { Value::Null },
        "language": "PYTHON",
        "required_resources": resources(&info.resources),
        "error_message": if is_failed { text(&info.cause.to_string()) } else { Value::Null },
        "why": text(&info.why),
    }))
}

/// References, of the answers about objects; made as they are taken.
pub fn objects(answers: &[Answer]) -> impl Iterator<Item = Row> + '_ {
    let rows =
        answers.iter().flat_map(|answer| answer.objects.iter().map(move |one| (answer, one)));
    rows.map(|(answer, object)| {
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
            _ if object.is_handle => "NIL",
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
    })
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
            "runtime_env": text(&worker.runtime_env),
            "required_resources": resources(&worker.resources),
        }))
    });
    rows.collect()
}

/// Environments, of rows of workers: each once for a node.
#[must_use]
pub fn environments(workers: &[Row]) -> Vec<Row> {
    let column = |row: &Row, name: &str| row.get(name).and_then(Value::as_str).map(str::to_owned);
    let mut all: BTreeMap<(String, String), u64> = BTreeMap::new();
    for worker in workers {
        if let (Some(node), Some(env)) = (column(worker, "node_id"), column(worker, "runtime_env"))
        {
            *all.entry((node, env)).or_default() += 1;
        }
    }
    let rows = all.into_iter().filter_map(|((node, env), users)| {
        let env = of_user(&env);
        let says_something = env.as_object().is_some_and(|fields| !fields.is_empty());
        says_something.then(|| {
            row(json!({
                "runtime_env": env,
                "success": true,
                "creation_time_ms": Value::Null,
                "node_id": node,
                "ref_cnt": users,
                "error": Value::Null,
            }))
        })
    });
    rows.collect()
}

/// An environment without what its user has not said.
fn of_user(env: &str) -> Value {
    let mut env: Value = serde_json::from_str(env).unwrap_or_default();
    if let Some(fields) = env.as_object_mut() {
        fields.remove("_logging");
        if let Some(variables) = fields.get_mut("env_vars").and_then(Value::as_object_mut) {
            variables.retain(|name, _| name != WORKER_SETUP);
            if variables.is_empty() {
                fields.remove("env_vars");
            }
        }
    }
    env
}

/// What went wrong, of rows of workers and nodes.
#[must_use]
pub fn events(workers: &[Row], nodes: &[Row]) -> Vec<Row> {
    let is =
        |row: &Row, column: &str, value: &str| row.get(column).is_some_and(|found| found == value);
    let event = |source: &str, id: &str, message: &str, from: &Row| {
        row(json!({
            "severity": "ERROR",
            "time": "",
            "source_type": source,
            "message": from.get(message),
            "event_id": from.get(id),
            "custom_fields": { "node_id": from.get("node_id"), "pid": from.get("pid") },
        }))
    };
    let died = workers.iter().filter(|worker| is(worker, "exit_type", "SYSTEM_ERROR"));
    let lost = nodes.iter().filter(|node| is(node, "state", "DEAD"));
    let died = died.map(|worker| event("RAYLET", "worker_id", "exit_detail", worker));
    died.chain(lost.map(|node| event("GCS", "node_id", "state_message", node))).collect()
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
            "name": info.name,
            "node_id": hex!(info.node_id),
            "pid": info.pid,
            "ray_namespace": info.namespace,
            "required_resources": resources(&info.resources),
            "death_cause": death(info),
            "is_detached": info.detached,
            "num_restarts": info.restarts,
            "num_restarts_due_to_lineage_reconstruction": 0,
            "num_restarts_due_to_node_preemption": 0,
            "why": info.why,
        }))
    });
    rows.collect()
}

/// Why an actor is dead, in the form of Ray's state API.
fn death(info: &ActorInfo) -> Value {
    match info.cause.to_string().as_str() {
        "" => Value::Null,
        cause => json!({ "actor_died_error_context": {
            "error_message": cause,
            "actor_id": info.actor_id.hex(),
            "class_name": info.class_name,
            "name": info.name,
            "ray_namespace": info.namespace,
            "pid": info.pid,
        }}),
    }
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
            "resources_total": resources(&without_bundles(&info.total)),
            "labels": labels,
        }))
    });
    rows.collect()
}

/// What a node has by itself: bundles of placement groups put parts of it under names of their own.
fn without_bundles(set: &ResourceSet) -> ResourceSet {
    let own = set.iter().filter(|(name, _)| !helio_scheduler::is_of_bundle(name));
    ResourceSet::from_units(own.map(|(name, quantity)| (name, quantity.to_f64())))
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
                    "label_selector": selector(&bundle.labels),
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

fn selector(labels: &[Label]) -> Row {
    labels.iter().map(|label| (label.key.clone(), json!(label.value))).collect()
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
            "driver_info": { "id": info.job_id.hex(), "pid": info.pid.to_string() },
            "metadata": {},
        }))
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use helio_types::DeathCause;

    use super::*;

    fn actor(phase: ActorPhase, cause: DeathCause) -> Row {
        let class_name = "Counter".to_owned();
        constructor(&ActorInfo { phase: phase as u32, class_name, cause, ..ActorInfo::default() })
    }

    #[test]
    fn a_constructor_is_a_call_that_nobody_made() {
        let killed = DeathCause::new(DeathKind::Intended, "it was killed");
        let unplaced = DeathCause::new(DeathKind::StartFailed, "no node");
        let cases = [
            (ActorPhase::Alive, DeathCause::default(), "FINISHED"),
            (ActorPhase::Pending, DeathCause::default(), "PENDING_NODE_ASSIGNMENT"),
            (ActorPhase::Dead, killed, "FINISHED"),
            (ActorPhase::Dead, unplaced, "FAILED"),
        ];
        for (phase, cause, state) in cases {
            let row = actor(phase, cause);
            assert_eq!((&row["name"], &row["state"]), (&json!("Counter.__init__"), &json!(state)));
        }
    }

    #[test]
    fn environments_are_told_once_a_node_and_as_their_user_wrote_them() {
        let worker = |node: &str, env: &str| row(json!({ "node_id": node, "runtime_env": env }));
        let variables = r#"{"env_vars":{"A":"1","HELIOSTAT_WORKER_SETUP":"x"},"_logging":{}}"#;
        let setup = r#"{"env_vars":{"HELIOSTAT_WORKER_SETUP":"x"},"pip":["a"]}"#;
        let none = r#"{"_logging":{}}"#;
        let all = [
            worker("n1", variables),
            worker("n1", variables),
            worker("n2", setup),
            worker("n2", none),
            row(json!({ "node_id": "n1", "runtime_env": Value::Null })),
        ];
        let found = environments(&all);
        let told: Vec<_> = found.iter().map(|row| (&row["runtime_env"], &row["ref_cnt"])).collect();
        assert_eq!(
            told,
            [(&json!({"env_vars": {"A": "1"}}), &json!(2)), (&json!({"pip": ["a"]}), &json!(1))]
        );
    }

    #[test]
    fn what_died_is_an_event_and_what_was_ended_is_none() {
        let worker =
            |exit: &str| row(json!({ "worker_id": "w", "exit_type": exit, "exit_detail": "boom" }));
        let node =
            |state: &str| row(json!({ "node_id": "n", "state": state, "state_message": "lost" }));
        let found = events(
            &[worker("SYSTEM_ERROR"), worker("INTENDED_USER_EXIT")],
            &[node("ALIVE"), node("DEAD")],
        );
        let told: Vec<_> = found.iter().map(|row| row["message"].as_str()).collect();
        assert_eq!(told, [Some("boom"), Some("lost")]);
    }
}
