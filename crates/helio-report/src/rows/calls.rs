//! Rows of calls, constructors among them.

use std::collections::{BTreeMap, BTreeSet};

use helio_proto::control::{ActorInfo, ActorPhase};
use helio_proto::inspect::{Answer, TaskCount, TaskPhase, TaskRow};
use helio_types::{ActorId, DeathKind, JobId, TaskId, WorkerId};
use serde_json::{Value, json};

use super::cells::{hex, ms, resources, row, text, time};
use crate::Row;
use crate::parts::CallStep;
use crate::summary::More;
use crate::tellers::Tellers;

/// Rows of calls from the processes' answers. `processes` are answers about workers, for process ids; `actors`
/// give class names, and the constructors' calls, which no process reports. Besides the columns a row has
/// `start_us` and `end_us`. Rows are made lazily, since there may be very many.
pub fn tasks<'a>(
    answers: &'a [Answer],
    processes: &'a [Answer],
    actors: &'a [ActorInfo],
) -> impl Iterator<Item = Row> + 'a {
    let classes: BTreeMap<ActorId, &str> =
        actors.iter().map(|actor| (actor.actor_id, actor.class_name.as_str())).collect();
    let mut pids: BTreeMap<WorkerId, u32> = BTreeMap::new();
    for answer in processes.iter().chain(answers) {
        pids.extend(process_numbers(answer));
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

/// The numbers of the processes that an answer names. A daemon answers without an id of a worker, and a call that waits has
/// none: the daemon's number is not that of the call's process.
pub(crate) fn process_numbers(answer: &Answer) -> impl Iterator<Item = (WorkerId, u32)> + '_ {
    let own = std::iter::once((answer.worker_id, answer.pid));
    let others = answer.workers.iter().map(|worker| (worker.worker_id, worker.pid));
    own.chain(others).filter(|(worker_id, _)| !worker_id.is_nil())
}

/// A call as it is known: its row as a process told it, and what others say of it.
pub(crate) struct Told<'a> {
    pub(crate) task: &'a TaskRow,
    /// The process that tells of it has ended.
    pub(crate) is_over: bool,
    /// The call was sent to a process that has not begun it.
    pub(crate) is_queued: bool,
    pub(crate) job_id: JobId,
    /// The call that made it.
    pub(crate) maker: Option<TaskId>,
    pub(crate) created_ms: u64,
    /// The class of its actor.
    pub(crate) class: Option<&'a str>,
    pub(crate) pid: Option<u32>,
}

/// Returns the phase of a call, as far as it is known: whoever sent it does not know whether it has
/// begun.
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
    // A call that was sent and stands in its process's queue has not begun there.
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
        "events": events(way(started_us, task.ended_us, state, told.created_ms)),
        "why": text(&task.why),
        "start_us": started_us,
        "end_us": task.ended_us,
    }))
}

/// The name in the row of calls that a process counts without their names.
pub(crate) const OTHERS: &str = "(others)";

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
                None | Some("") if count.name.is_empty() => OTHERS.to_owned(),
                class => call_name(&count.name, class),
            };
            // Calls that a process had not finished when it ended will never end.
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

/// Returns the phase of a call, and its error. What a process that has ended did not finish, nobody
/// will.
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

/// The states of a call with their times, in milliseconds since 1970: made, sent, and over.
pub(crate) fn way(
    started_us: u64,
    ended_us: u64,
    phase: TaskPhase,
    created_ms: u64,
) -> impl Iterator<Item = (&'static str, u64)> {
    let made = (created_ms > 0).then_some(("PENDING_ARGS_AVAIL", created_ms));
    let sent = (started_us > 0).then_some(("RUNNING", started_us / 1000));
    let over = (phase.is_over() && ended_us > 0).then(|| (phase.name(), ended_us / 1000));
    [made, sent, over].into_iter().flatten()
}

fn events(way: impl Iterator<Item = (&'static str, u64)>) -> Value {
    way.map(|(state, created_ms)| json!(CallStep { state, created_ms })).collect()
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
        "creation_time_ms": time(info.made_ms),
        "end_time_ms": time(if is_failed { info.ended_ms } else { 0 }),
        "error_type": if is_failed { json!("ACTOR_DIED") } else { Value::Null },
        "language": "PYTHON",
        "required_resources": resources(&info.resources),
        "error_message": if is_failed { text(&info.cause.to_string()) } else { Value::Null },
        "why": text(&info.why),
    }))
}

#[cfg(test)]
mod tests {
    use helio_types::DeathCause;

    use super::*;

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
}
