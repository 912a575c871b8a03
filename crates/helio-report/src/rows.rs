//! From messages to rows.

use std::collections::{BTreeMap, BTreeSet};

use helio_proto::control::{ActorInfo, ActorPhase, JobInfo, KvPair, Label, NodeInfo};
use helio_proto::group::GroupInfo;
use helio_proto::inspect::{Answer, TaskCount, TaskPhase, TaskRow};
use helio_scheduler::{as_asked, without_bundles};
use helio_types::{ActorId, DeathKind, JobId, ResourceSet, TaskId, WorkerId};
use serde_json::{Map, Value, json};

use crate::Row;
use crate::summary::More;
use crate::tellers::Tellers;

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
    let all = as_asked(set);
    let all = all.iter().map(|(name, quantity)| (name.to_owned(), json!(quantity.to_f64())));
    Value::Object(all.collect())
}

/// A time in milliseconds.
fn time(ms: u64) -> Value {
    if ms == 0 { Value::Null } else { json!(ms) }
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
    let known = Tellers::of(answers);
    let queued: BTreeSet<TaskId> = answers
        .iter()
        .filter(|one| !one.is_over)
        .flat_map(|one| one.queued.iter().copied())
        .collect();
    let rows =
        answers.iter().flat_map(|answer| answer.tasks.iter().map(move |task| (answer, task)));
    let rows = rows.filter_map(move |(answer, task)| {
        if !known.are_best(answer, task) {
            return None;
        }
        Some((answer, task, known.origin(answer, task)))
    });
    let rows = rows.map(move |(answer, task, (job_id, maker, created_ms))| {
        call(&Told {
            task,
            is_over: answer.is_over,
            is_queued: queued.contains(&task.task_id),
            job_id,
            maker,
            created_ms,
            class: classes.get(&task.actor_id).copied(),
            pid: pids.get(&task.worker_id).copied(),
        })
    });
    rows.chain(actors.iter().filter(|actor| !actor.is_unlisted).map(constructor))
}

/// What is known of a call: its row as a process told it, and what others say of it.
pub(crate) struct Told<'a> {
    pub(crate) task: &'a TaskRow,
    /// The process that tells of it has ended.
    pub(crate) is_over: bool,
    /// It was sent to a process that has not begun it.
    pub(crate) is_queued: bool,
    pub(crate) job_id: JobId,
    /// The call that made it.
    pub(crate) maker: Option<TaskId>,
    pub(crate) created_ms: u64,
    /// The class of its actor.
    pub(crate) class: Option<&'a str>,
    pub(crate) pid: Option<u32>,
}

/// How a call stands, as far as it is known: whoever sent it does not know whether it has begun.
pub(crate) fn standing(phase: TaskPhase, is_queued: bool, is_method: bool) -> TaskPhase {
    match (phase, is_queued) {
        (TaskPhase::Sent, true) if is_method => TaskPhase::WaitsForActor,
        (TaskPhase::Sent, true) => TaskPhase::WaitsForWorker,
        (phase, _) => phase,
    }
}

/// The name of a method has its class in front.
pub(crate) fn call_name(name: &str, class: Option<&str>) -> String {
    match class {
        Some(class) if !class.is_empty() => format!("{class}.{name}"),
        _ => name.to_owned(),
    }
}

/// The row of a call.
pub(crate) fn call(told: &Told<'_>) -> Row {
    let task = told.task;
    let (phase, error_type, error_message) = outcome(told.is_over, task);
    let is_method = !task.actor_id.is_nil();
    let state = standing(phase, told.is_queued, is_method);
    let started_us = if state == phase { task.started_us } else { 0 };
    let name = call_name(&task.name, told.class.filter(|_| is_method));
    row(json!({
        "task_id": task.task_id.hex(),
        "attempt_number": task.attempt,
        "name": name,
        "state": state.name(),
        "job_id": told.job_id.hex(),
        "actor_id": hex!(task.actor_id),
        "type": if is_method { "ACTOR_TASK" } else { "NORMAL_TASK" },
        "func_or_class_name": name,
        "parent_task_id": told.maker.map(|maker| parent(maker, told.job_id)),
        "node_id": hex!(task.node_id),
        "worker_id": hex!(task.worker_id),
        "worker_pid": told.pid.filter(|pid| *pid > 0),
        "error_type": text(error_type),
        "language": "PYTHON",
        "required_resources": resources(&task.resources),
        "creation_time_ms": Some(told.created_ms).filter(|at| *at > 0),
        "start_time_ms": ms(started_us),
        "end_time_ms": ms(task.ended_us),
        "error_message": text(error_message),
        "events": way(started_us, task.ended_us, state, told.created_ms),
        "why": text(&task.why),
        "start_us": started_us,
        "end_us": task.ended_us,
    }))
}

/// Counts of calls of which there are no rows, of the answers about tasks.
#[must_use]
pub fn more(answers: &[Answer], actors: &[ActorInfo]) -> Vec<More> {
    let classes: BTreeMap<ActorId, &str> =
        actors.iter().map(|actor| (actor.actor_id, actor.class_name.as_str())).collect();
    let of_answer = |answer: &Answer| {
        let one = |count: &TaskCount| {
            let is_method = !count.actor_id.is_nil();
            let class = classes.get(&count.actor_id).copied().filter(|_| is_method);
            let name = match class {
                None | Some("") if count.name.is_empty() => "(others)".to_owned(),
                class => call_name(&count.name, class),
            };
            // What a process that has ended did not finish, nobody will.
            let is_lost = answer.is_over && !count.phase.is_over();
            let state = if is_lost { TaskPhase::Failed } else { count.phase };
            More {
                name,
                kind: if is_method { "ACTOR_TASK" } else { "NORMAL_TASK" },
                state: state.name(),
                count: count.count,
            }
        };
        answer.more.iter().map(one).collect::<Vec<_>>()
    };
    answers.iter().flat_map(of_answer).collect()
}

/// How a call stands. What a process that has ended did not finish, nobody will.
pub(crate) fn outcome(is_over: bool, task: &TaskRow) -> (TaskPhase, &str, &str) {
    let phase = task.phase;
    if !is_over || phase.is_over() {
        return (phase, &task.error_type, &task.error_message);
    }
    // One word for both, as on Ray: which of the two is heard may be chance.
    let message = match task.is_hearsay {
        true => "the process that ran the call has ended",
        false => "the process that made the call has ended",
    };
    (TaskPhase::Failed, "WORKER_DIED", message)
}

/// The call that made it; a driver's code counts as one.
pub(crate) fn parent(task: TaskId, job: JobId) -> String {
    if task.is_nil() { driver_task(job) } else { task.hex() }
}

fn driver_task(job: JobId) -> String {
    format!("{}{}", "ff".repeat(20), job.hex())
}

/// What is known of a call's way: when it was made, sent, and over.
fn way(started_us: u64, ended_us: u64, phase: TaskPhase, created_ms: u64) -> Value {
    let mut events = Vec::new();
    if created_ms > 0 {
        events.push(json!({ "state": "PENDING_ARGS_AVAIL", "created_ms": created_ms }));
    }
    if started_us > 0 {
        events.push(json!({ "state": "RUNNING", "created_ms": started_us / 1000 }));
    }
    if phase.is_over() && ended_us > 0 {
        events.push(json!({ "state": phase.name(), "created_ms": ended_us / 1000 }));
    }
    json!(events)
}

/// The constructor of an actor as a call.
pub(crate) fn constructor(info: &ActorInfo) -> Row {
    let phase = info.phase;
    // Its exception, or that there never was a process for it.
    let never_ran = !info.cause.error.is_empty()
        || matches!(info.cause.kind, DeathKind::StartFailed | DeathKind::EnvFailed);
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
            "call_site": if object.call_site.is_empty() { "disabled" } else { &object.call_site },
            "type": if answer.is_driver { "DRIVER" } else { "WORKER" },
            "pid": answer.pid,
            "ip": answer.host,
            "is_stored": object.is_stored,
            "node_id": answer.node_id.hex(),
        }))
    })
}

/// Processes, of the daemons' answers about workers, which have just come: `now_ms` is the time since 1970.
#[must_use]
pub fn workers(answers: &[Answer], now_ms: u64) -> Vec<Row> {
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
            "end_time_ms": (worker.ended_ago_ms > 0).then(|| now_ms.saturating_sub(worker.ended_ago_ms)),
            "worker_launch_time_ms": time(worker.begun_ms),
            "worker_launched_time_ms": time(worker.serving_ms),
            "start_time_ms": time(worker.serving_ms),
            "job_id": hex!(worker.job_id),
            "usage": text(&worker.usage),
            "runtime_env": text(&worker.runtime_env),
            "required_resources": resources(&worker.resources),
        }))
    });
    rows.collect()
}

/// Environments, of what daemons say of them: each once for a node.
#[must_use]
pub fn environments(answers: &[Answer]) -> Vec<Row> {
    let mut rows = Vec::new();
    for daemon in answers.iter().filter(|answer| answer.is_daemon) {
        let mut users: BTreeMap<&str, u64> = BTreeMap::new();
        for worker in daemon.workers.iter().filter(|worker| worker.is_alive) {
            *users.entry(&worker.runtime_env).or_default() += 1;
        }
        for told in &daemon.environments {
            let env = of_user(&told.runtime_env);
            if env.as_object().is_none_or(Map::is_empty) {
                continue;
            }
            let is_made = told.error.is_empty();
            rows.push(row(json!({
                "runtime_env": env,
                "success": is_made,
                "creation_time_ms": (is_made && told.starts > 0).then_some(told.made_in_ms),
                "node_id": daemon.node_id.hex(),
                "ref_cnt": users.get(&*told.runtime_env).copied().unwrap_or_default(),
                "error": text(&told.error),
                "starts": told.starts,
            })));
        }
    }
    rows
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
            "time": from.get("end_time_ms").and_then(Value::as_u64).map(moment).unwrap_or_default(),
            "source_type": source,
            "message": from.get(message),
            "event_id": from.get(id),
            "custom_fields": { "node_id": from.get("node_id"), "pid": from.get("pid") },
            "end_ms": from.get("end_time_ms"),
        }))
    };
    let died = workers.iter().filter(|worker| is(worker, "exit_type", "SYSTEM_ERROR"));
    let lost = nodes.iter().filter(|node| is(node, "state", "DEAD"));
    let died = died.map(|worker| event("RAYLET", "worker_id", "exit_detail", worker));
    let lost = lost.map(|node| event("GCS", "node_id", "state_message", node));
    let mut all: Vec<Row> = died.chain(lost).collect();
    // The date stands first.
    all.sort_by(|one, other| one["time"].as_str().cmp(&other["time"].as_str()));
    all
}

/// `2026-01-31 23:59:59 UTC`, of milliseconds since 1970.
#[must_use]
pub fn moment(unix_ms: u64) -> String {
    let ([year, month, day], [hour, minute, second]) = parts(unix_ms);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// `2026-01-31T23:59:59.123Z`, of milliseconds since 1970.
#[must_use]
pub fn rfc3339(unix_ms: u64) -> String {
    let ([year, month, day], [hour, minute, second]) = parts(unix_ms);
    let ms = unix_ms % 1000;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

fn parts(unix_ms: u64) -> ([u64; 3], [u64; 3]) {
    let (days, seconds) = (unix_ms / 86_400_000, unix_ms / 1000 % 86_400);
    let (year, month, day) = date(days);
    ([year, month, day], [seconds / 3600, seconds / 60 % 60, seconds % 60])
}

/// The date of a day since 1970. Years begin in March here, so that a leap day is the last of its year.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

/// Actors, of the control service's list.
#[must_use]
pub fn actors(infos: &[ActorInfo]) -> Vec<Row> {
    let rows = infos.iter().map(|info| {
        row(json!({
            "actor_id": info.actor_id.hex(),
            "class_name": info.class_name,
            "state": info.phase.name(),
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
            "num_restarts_due_to_node_preemption": info.moves,
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
            "end_time_ms": Some(info.ended_ms).filter(|ended_ms| *ended_ms > 0),
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
                    "label_selector": selector(&bundle.labels),
                })
            })
            .collect();
        row(json!({
            "placement_group_id": spec.group_id.hex(),
            "name": spec.name,
            "creator_job_id": spec.job_id.hex(),
            "state": info.phase.name(),
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

/// Jobs: drivers, of the control service's list, and those that were submitted, of what the head's server keeps of
/// each (`submissions`); `drivers` are the keys `<submission id>/<job id>` of the drivers that entry points started,
/// which are no rows of their own.
#[must_use]
pub fn jobs(infos: &[JobInfo], drivers: &[Vec<u8>], submissions: &[KvPair]) -> Vec<Row> {
    let of_submissions: BTreeMap<String, String> = drivers
        .iter()
        .filter_map(|key| String::from_utf8_lossy(key).rsplit_once('/').map(owned))
        .collect();
    let info_of = |info: &JobInfo| json!({ "id": info.job_id.hex(), "pid": info.pid.to_string() });
    let mut rows: Vec<Row> = Vec::new();
    let mut taken = BTreeSet::new();
    for pair in submissions {
        let Ok(Value::Object(mut kept)) = serde_json::from_slice(&pair.value) else { continue };
        let id = String::from_utf8_lossy(&pair.key).into_owned();
        if let Some(job) = of_submissions.get(&id) {
            taken.insert(job.clone());
            kept.insert("job_id".to_owned(), json!(job));
            let driver = infos.iter().find(|info| info.job_id.hex() == *job);
            kept.insert("driver_info".to_owned(), driver.map_or(Value::Null, info_of));
        }
        rows.push(kept);
    }
    let others = infos.iter().filter(|info| !taken.contains(&info.job_id.hex()));
    rows.extend(others.map(|info| {
        row(json!({
            "job_id": info.job_id.hex(),
            "submission_id": Value::Null,
            "entrypoint": info.entrypoint,
            "type": "DRIVER",
            "status": if info.alive { "RUNNING" } else { "SUCCEEDED" },
            "start_time": info.started_ms,
            "end_time": if info.ended_ms == 0 { Value::Null } else { json!(info.ended_ms) },
            "driver_info": info_of(info),
            "metadata": {},
        }))
    }));
    rows.sort_by_key(|row| row.get("start_time").and_then(Value::as_u64));
    rows
}

fn owned((submission, job): (&str, &str)) -> (String, String) {
    (submission.to_owned(), job.to_owned())
}

#[cfg(test)]
mod tests {
    use helio_proto::inspect::{EnvironmentRow, WorkerRow};
    use helio_types::{DeathCause, NodeId};

    use super::*;

    #[test]
    fn a_submitted_job_is_one_row_with_its_driver() {
        let info = |number: u8, started_ms| JobInfo {
            job_id: JobId([number, 0, 0, 0]),
            pid: u32::from(number),
            started_ms,
            ..JobInfo::default()
        };
        let kept = |id: &str, start: u64| KvPair {
            key: id.into(),
            value: json!({"submission_id": id, "type": "SUBMISSION", "start_time": start})
                .to_string()
                .into(),
        };
        let drivers = [b"raysubmit_a/01000000".to_vec()];
        let rows = jobs(
            &[info(1, 20), info(2, 10)],
            &drivers,
            &[kept("raysubmit_a", 15), kept("raysubmit_b", 30)],
        );
        let seen: Vec<_> = rows.iter().map(|row| (&row["type"], row.get("job_id"))).collect();
        assert_eq!(
            seen,
            [
                (&json!("DRIVER"), Some(&json!("02000000"))),
                (&json!("SUBMISSION"), Some(&json!("01000000"))),
                (&json!("SUBMISSION"), None)
            ]
        );
        assert_eq!(rows[1]["driver_info"]["pid"], json!("1"));
    }

    #[test]
    fn events_have_times_and_none_is_of_a_driver_that_has_ended() {
        for (unix_ms, expect) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400_000, "2000-02-29 00:00:00 UTC"),
            (1_767_225_599_999, "2025-12-31 23:59:59 UTC"),
            (4_107_542_400_000, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(moment(unix_ms), expect);
        }
        let ended = |exit_type: &str, ended_ago_ms| WorkerRow {
            exit_type: exit_type.to_owned(),
            ended_ago_ms,
            ..WorkerRow::default()
        };
        let rows = vec![
            ended("SYSTEM_ERROR", 1000),
            ended("INTENDED_USER_EXIT", 5000),
            ended("SYSTEM_ERROR", 86_401_000),
        ];
        let answer = Answer { workers: rows, ..Answer::default() };
        let events = events(&workers(&[answer], 951_782_401_000), &[]);
        let times: Vec<&Value> = events.iter().map(|event| &event["time"]).collect();
        assert_eq!(times, ["2000-02-28 00:00:00 UTC", "2000-02-29 00:00:00 UTC"]);
    }

    fn actor(phase: ActorPhase, cause: DeathCause) -> Row {
        let class_name = "Counter".to_owned();
        constructor(&ActorInfo { phase, class_name, cause, ..ActorInfo::default() })
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
    fn of_those_who_tell_of_a_call_the_best_is_heard() {
        let call = |number: u64, phase: TaskPhase, is_hearsay: bool| TaskRow {
            task_id: TaskId::new(number, ActorId::default()),
            phase,
            is_hearsay,
            ..TaskRow::default()
        };
        let says = |teller: u8, is_over: bool, tasks: Vec<TaskRow>| Answer {
            worker_id: WorkerId([teller; 28]),
            is_over,
            tasks,
            ..Answer::default()
        };
        use TaskPhase::{Finished, Sent};
        let maker = vec![
            call(1, Sent, false),
            call(2, Sent, false),
            call(3, Sent, false),
            call(4, Finished, false),
        ];
        let gone = vec![call(2, Sent, true), call(5, Sent, true), call(6, Finished, true)];
        let lives = vec![call(1, Sent, true), call(5, Sent, false), call(4, Sent, true)];
        let answers = [says(3, false, lives), says(1, true, maker), says(2, true, gone)];
        let rows: Vec<Row> = tasks(&answers, &[], &[]).collect();
        let mut found: Vec<(String, &str, Option<&str>)> = rows
            .iter()
            .map(|row| {
                let text = |name: &str| row[name].as_str();
                (
                    text("task_id").unwrap()[..2].to_owned(),
                    text("state").unwrap(),
                    text("error_type"),
                )
            })
            .collect();
        found.sort();
        let expected = [
            ("01", "RUNNING", None),
            ("02", "FAILED", Some("WORKER_DIED")),
            ("03", "FAILED", Some("WORKER_DIED")),
            ("04", "FINISHED", None),
            ("05", "RUNNING", None),
            ("06", "FINISHED", None),
        ];
        let found: Vec<_> =
            found.iter().map(|(id, state, why)| (id.as_str(), *state, *why)).collect();
        assert_eq!(found, expected);
        let maker_of = |id: &str| {
            let row = rows.iter().find(|row| row["task_id"].as_str().unwrap().starts_with(id));
            row.unwrap()["parent_task_id"].clone()
        };
        assert!(maker_of("06").is_null());
        assert_eq!(maker_of("01"), json!(driver_task(JobId::default())), "its maker has said it");
    }

    #[test]
    fn a_call_that_its_maker_has_counted_has_no_row_by_hearsay() {
        let heard = |number: u64, maker: u8| TaskRow {
            task_id: TaskId::new(number, ActorId::default()),
            phase: TaskPhase::Finished,
            is_hearsay: true,
            maker: WorkerId([maker; 28]),
            ..TaskRow::default()
        };
        let says = |teller: u8, tasks: Vec<TaskRow>| Answer {
            worker_id: WorkerId([teller; 28]),
            is_over: true,
            tasks,
            ..Answer::default()
        };
        let own = TaskRow { is_hearsay: false, ..heard(2, 0) };
        let count = TaskCount { count: 1, phase: TaskPhase::Finished, ..TaskCount::default() };
        let spoke = Answer { more: vec![count], ..says(1, vec![own]) };
        let killed = 3;
        let worker = says(2, vec![heard(1, 1), heard(2, 1), heard(3, killed)]);
        let answers = [spoke, worker];
        let ids: Vec<String> = tasks(&answers, &[], &[])
            .map(|row| row["task_id"].as_str().unwrap()[..2].to_owned())
            .collect();
        assert_eq!(ids, ["02", "03"]);
        assert_eq!(more(&answers, &[]).iter().map(|one| one.count).sum::<u64>(), 1);
    }

    #[test]
    fn a_call_that_waits_where_it_was_sent_does_not_run() {
        let sent = |number: u64, actor: u8| TaskRow {
            task_id: TaskId::new(number, ActorId::default()),
            phase: TaskPhase::Sent,
            actor_id: ActorId([actor; 16]),
            started_us: 5_000,
            ..TaskRow::default()
        };
        let maker =
            Answer { tasks: vec![sent(1, 7), sent(2, 7), sent(3, 0xff)], ..Answer::default() };
        let queued = [2, 3].map(|number| TaskId::new(number, ActorId::default())).to_vec();
        let runner = Answer { worker_id: WorkerId([1; 28]), queued, ..Answer::default() };
        let rows: Vec<Row> = tasks(&[maker, runner], &[], &[]).collect();
        let found: Vec<_> = rows.iter().map(|row| (&row["state"], &row["start_time_ms"])).collect();
        let waits = |state: &str| (json!(state), Value::Null);
        let expected = [
            (json!("RUNNING"), json!(5)),
            waits("PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY"),
            waits("PENDING_NODE_ASSIGNMENT"),
        ];
        assert_eq!(found, expected.iter().map(|(a, b)| (a, b)).collect::<Vec<_>>());
    }

    #[test]
    fn environments_are_told_once_a_node_and_as_their_user_wrote_them() {
        let worker = |env: &str| WorkerRow {
            runtime_env: env.to_owned(),
            is_alive: true,
            ..WorkerRow::default()
        };
        let variables = r#"{"env_vars":{"A":"1","HELIOSTAT_WORKER_SETUP":"x"},"_logging":{}}"#;
        let setup = r#"{"env_vars":{"HELIOSTAT_WORKER_SETUP":"x"},"pip":["a"]}"#;
        let none = r#"{"_logging":{}}"#;
        let told = |env: &str, starts: u64, error: &str| EnvironmentRow {
            runtime_env: env.to_owned(),
            made_in_ms: 300,
            starts,
            error: error.to_owned(),
        };
        let daemon = Answer {
            is_daemon: true,
            workers: vec![worker(variables), worker(variables), worker(none)],
            environments: vec![told(variables, 4, ""), told(setup, 0, "no"), told(none, 1, "")],
            ..Answer::default()
        };
        let found = environments(&[daemon, Answer::default()]);
        let found: Vec<_> = found.into_iter().map(Value::Object).collect();
        let node_id = NodeId::default().hex();
        let made = json!({
            "runtime_env": {"env_vars": {"A": "1"}}, "success": true, "creation_time_ms": 300,
            "node_id": node_id, "ref_cnt": 2, "error": null, "starts": 4,
        });
        let failed = json!({
            "runtime_env": {"pip": ["a"]}, "success": false, "creation_time_ms": null,
            "node_id": node_id, "ref_cnt": 0, "error": "no", "starts": 0,
        });
        assert_eq!(found, [made, failed]);
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
