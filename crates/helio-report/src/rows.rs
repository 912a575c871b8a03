//! From messages to rows.

use std::collections::{BTreeMap, BTreeSet};

use helio_proto::control::{ActorInfo, JobInfo, KvPair, Label, NodeInfo};
use helio_proto::group::{Bundle, GroupInfo};
use helio_proto::inspect::Answer;
use helio_scheduler::without_bundles;
use serde_json::{Map, Value, json};

use crate::Row;
use crate::parts::{BundleId, DeathCause, DiedActor, GroupBundle, GroupStats};

mod calls;
mod cells;

use cells::{hex, quantities, row, text, time};

pub(crate) use calls::process_numbers;
pub(crate) use calls::{
    OTHERS, Told, call, call_name, constructor, outcome, parent, standing, way,
};
pub use calls::{more, tasks};
pub(crate) use cells::resources;

/// The variable in which a worker finds what to do to itself; of no interest to its user.
const WORKER_SETUP: &str = "HELIOSTAT_WORKER_SETUP";

/// References, of the answers about objects; made as they are taken.
pub fn objects(answers: &[Answer]) -> impl Iterator<Item = Row> + '_ {
    let rows =
        answers.iter().flat_map(|answer| answer.objects.iter().map(move |one| (answer, one)));
    rows.map(|(answer, object)| {
        // Several may hold at once, and Ray has one type a reference.
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
            // Ray counts the attempts of an object from one, and those of a task from zero.
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

/// Environments, of what daemons say of them, and of submitted jobs whose entry points run in one: each once
/// for a node.
#[must_use]
pub fn environments(answers: &[Answer], submissions: &[KvPair]) -> Vec<Row> {
    let mut rows = Vec::new();
    for daemon in answers.iter().filter(|answer| answer.is_daemon) {
        let mut users: BTreeMap<&str, u64> = BTreeMap::new();
        for worker in daemon.workers.iter().filter(|worker| worker.is_alive) {
            *users.entry(&worker.runtime_env).or_default() += 1;
        }
        for told in &daemon.environments {
            let env = of_user(&told.runtime_env);
            // Workers without an environment run in that of the node, which nobody made.
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
                "size": (told.size > 0).then_some(told.size),
            })));
        }
    }
    add_entry_points(&mut rows, submissions);
    rows
}

/// Adds the environments of entry points. Where workers of the node run in the same, their row says all.
fn add_entry_points(rows: &mut Vec<Row>, submissions: &[KvPair]) {
    let of_workers = rows.len();
    let jobs = submissions.iter().filter_map(|pair| serde_json::from_slice(&pair.value).ok());
    let mut jobs: Vec<Value> = jobs.collect();
    // The row of an environment is told by its last job, so jobs are taken in order of time.
    jobs.sort_by_key(|job| job["start_time"].as_u64());
    for job in jobs {
        let env = of_user(&job["runtime_env"].to_string());
        let has_failed = job["error_type"] == "RUNTIME_ENV_SETUP_FAILURE";
        let is_pending = job["status"] == "PENDING";
        if env.as_object().is_none_or(Map::is_empty) || is_pending {
            continue;
        }
        let node_id = job["driver_node_id"].as_str().unwrap_or_default();
        let same = |row: &Row| row["runtime_env"] == env && row["node_id"] == node_id;
        let at = rows.iter().position(same);
        if at.is_some_and(|at| at < of_workers) {
            continue;
        }
        let earlier = |name| at.and_then(|at| rows[at][name].as_u64()).unwrap_or_default();
        let told = row(json!({
            "runtime_env": env,
            "success": !has_failed,
            "creation_time_ms": if has_failed { &Value::Null } else { &job["environment_ms"] },
            "node_id": node_id,
            "ref_cnt": earlier("ref_cnt") + u64::from(job["status"] == "RUNNING"),
            "error": if has_failed { &job["message"] } else { &Value::Null },
            "starts": earlier("starts") + u64::from(!has_failed),
            "size": job["environment_size"],
        }));
        match at {
            Some(at) => rows[at] = told,
            None => rows.push(told),
        }
    }
}

/// An environment without what its user has not said.
fn of_user(env: &str) -> Value {
    let mut env: Value = serde_json::from_str(env).unwrap_or_default();
    if let Some(fields) = env.as_object_mut() {
        // `init` puts the format of records there for workers.
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

/// Returns the failures that rows of workers and nodes tell of.
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
    // The newest stands first.
    all.sort_by_key(|one| std::cmp::Reverse(one["end_ms"].as_u64()));
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
            "creation_time_ms": time(info.made_ms),
            "end_time_ms": time(info.ended_ms),
        }))
    });
    rows.collect()
}

/// Returns the cause of an actor's death, in the form of Ray's state API.
fn death(info: &ActorInfo) -> Value {
    match info.cause.to_string().as_str() {
        "" => Value::Null,
        cause => json!(DeathCause {
            actor_died_error_context: DiedActor {
                error_message: cause.to_owned(),
                actor_id: info.actor_id.hex(),
                class_name: info.class_name.clone(),
                name: info.name.clone(),
                ray_namespace: info.namespace.clone(),
                pid: info.pid,
            }
        }),
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
            place.map(|place| place.node_id.hex())
        };
        let bundle = |(index, bundle): (usize, &Bundle)| GroupBundle {
            bundle_id: BundleId {
                placement_group_id: spec.group_id.hex(),
                bundle_index: index as u64,
            },
            unit_resources: quantities(&bundle.resources),
            node_id: node(index),
            label_selector: selector(&bundle.labels),
        };
        let bundles: Vec<_> = spec.bundles.iter().enumerate().map(bundle).collect();
        row(json!({
            "placement_group_id": spec.group_id.hex(),
            "name": spec.name,
            "creator_job_id": spec.job_id.hex(),
            "state": info.phase.name(),
            "bundles": bundles,
            "is_detached": spec.detached,
            "stats": GroupStats {
                scheduling_attempt: info.attempts,
                end_to_end_creation_latency_ms: info.took_ms,
            },
            "why": text(&info.why),
            "creation_time_ms": time(spec.made_ms),
        }))
    });
    rows.collect()
}

fn selector(labels: &[Label]) -> BTreeMap<String, String> {
    labels.iter().map(|label| (label.key.clone(), label.value.clone())).collect()
}

/// Jobs: drivers, of the control service's list, and those that were submitted, of what the head's server keeps of
/// each (`submissions`); `drivers` are the keys `<submission id>/<job id>` of the drivers that entry points started,
/// which are not rows of their own.
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
        // The list of environments tells of these.
        kept.retain(|name, _| !name.starts_with("environment_"));
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
    use helio_types::{JobId, NodeId};

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
        assert_eq!(
            times,
            ["2000-02-29 00:00:00 UTC", "2000-02-28 00:00:00 UTC"],
            "the newest first"
        );
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
            size: if error.is_empty() { 5 } else { 0 },
        };
        let daemon = Answer {
            is_daemon: true,
            workers: vec![worker(variables), worker(variables), worker(none)],
            environments: vec![told(variables, 4, ""), told(setup, 0, "no"), told(none, 1, "")],
            ..Answer::default()
        };
        let node_id = NodeId::default().hex();
        let job = |id: &str, env: Value, status: &str, error: Option<&str>| KvPair {
            key: id.into(),
            value: json!({
                "runtime_env": env, "status": status, "driver_node_id": node_id, "message": "why",
                "error_type": error, "environment_ms": 40, "environment_size": 9,
            })
            .to_string()
            .into(),
        };
        let failed = Some("RUNTIME_ENV_SETUP_FAILURE");
        let jobs = [
            job("1", json!({"pip": ["b"]}), "FAILED", failed),
            job("2", json!({"uv": ["c"]}), "SUCCEEDED", None),
            job("3", json!({"uv": ["c"]}), "RUNNING", None),
            job("4", json!({"uv": ["d"]}), "PENDING", None),
            job("5", json!({"env_vars": {"A": "1"}}), "RUNNING", None),
            job("6", json!({}), "RUNNING", None),
        ];
        let found = environments(&[daemon, Answer::default()], &jobs);
        let found: Vec<_> = found.into_iter().map(Value::Object).collect();
        let made = json!({
            "runtime_env": {"env_vars": {"A": "1"}}, "success": true, "creation_time_ms": 300,
            "node_id": node_id, "ref_cnt": 2, "error": null, "starts": 4, "size": 5,
        });
        let failed = json!({
            "runtime_env": {"pip": ["a"]}, "success": false, "creation_time_ms": null,
            "node_id": node_id, "ref_cnt": 0, "error": "no", "starts": 0, "size": null,
        });
        let of_job = json!({
            "runtime_env": {"pip": ["b"]}, "success": false, "creation_time_ms": null,
            "node_id": node_id, "ref_cnt": 0, "error": "why", "starts": 0, "size": 9,
        });
        let of_two = json!({
            "runtime_env": {"uv": ["c"]}, "success": true, "creation_time_ms": 40,
            "node_id": node_id, "ref_cnt": 1, "error": null, "starts": 2, "size": 9,
        });
        assert_eq!(found, [made, failed, of_job, of_two]);
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
