use std::collections::{BTreeMap, HashMap};

use helio_proto::control::{ActorInfo, ActorPhase};
use helio_proto::inspect::{Answer, TaskPhase, TaskRow};
use helio_types::resources::Quantity;
use helio_types::{ActorId, JobId, NodeId, ResourceSet, TaskId, WorkerAddress, WorkerId};
use serde_json::{Value, json};

use super::*;
use crate::{Row, rows, summary};

fn worker(number: u8) -> WorkerId {
    WorkerId([number; WorkerId::LEN])
}

fn task(number: u64, name: &str, phase: TaskPhase) -> TaskRow {
    let mut resources = ResourceSet::default();
    resources.set("CPU", Quantity::from_f64(1.0));
    TaskRow {
        task_id: TaskId::new(number, ActorId([3; ActorId::LEN])),
        name: name.to_owned(),
        phase,
        actor_id: ActorId::NIL,
        parent: TaskId::NIL,
        node_id: NodeId([5; NodeId::LEN]),
        worker_id: worker(9),
        created_ms: 1_000 + number,
        started_us: 2_000_000 + number,
        ended_us: if phase.is_over() { 3_000_000 + number } else { 0 },
        resources,
        ..TaskRow::default()
    }
}

fn answers() -> (Vec<Answer>, Vec<Answer>, Vec<ActorInfo>) {
    let actor_id = ActorId([7; ActorId::LEN]);
    let failed = TaskRow {
        error_type: "TASK_EXECUTION_EXCEPTION".to_owned(),
        error_message: "ValueError: no".to_owned(),
        ..task(3, "f", TaskPhase::Failed)
    };
    let own = vec![
        task(1, "f", TaskPhase::Finished),
        TaskRow { attempt: 1, ..task(1, "f", TaskPhase::Finished) },
        task(2, "g", TaskPhase::Sent),
        failed,
        task(4, "g", TaskPhase::Sent),
        TaskRow {
            why: "no worker".to_owned(),
            worker_id: WorkerId::NIL,
            ..task(5, "g", TaskPhase::WaitsForWorker)
        },
        TaskRow { actor_id, ..task(6, "add", TaskPhase::Finished) },
    ];
    let heard = |number, maker, phase| TaskRow {
        is_hearsay: true,
        maker: worker(maker),
        ..task(number, "h", phase)
    };
    let driver = Answer {
        worker_id: worker(1),
        pid: 11,
        job_id: JobId([1; JobId::LEN]),
        tasks: own,
        ..Answer::default()
    };
    let runner = Answer {
        worker_id: worker(9),
        pid: 99,
        queued: vec![task(4, "g", TaskPhase::Sent).task_id],
        tasks: vec![heard(8, 66, TaskPhase::Finished), heard(10, 2, TaskPhase::Finished)],
        ..Answer::default()
    };
    let over = Answer {
        worker_id: worker(2),
        pid: 22,
        is_over: true,
        tasks: vec![task(9, "h", TaskPhase::Sent), task(10, "h", TaskPhase::Sent)],
        ..Answer::default()
    };
    let info = ActorInfo {
        actor_id,
        class_name: "Counter".to_owned(),
        phase: ActorPhase::Alive,
        pid: 44,
        address: WorkerAddress { worker_id: worker(4), ..WorkerAddress::default() },
        ..ActorInfo::default()
    };
    let daemon = Answer { pid: 77, ..Answer::default() };
    (vec![driver, runner, over], vec![daemon], vec![info])
}

fn of(calls: &Calls) -> Vec<Row> {
    calls.all().map(|call| call.row()).collect()
}

fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    let key = |row: &Row| format!("{} {}", row["task_id"], row["attempt_number"]);
    rows.sort_by_key(key);
    rows
}

#[test]
fn rows_of_the_table_are_those_that_are_made_of_the_answers() {
    let (answers, processes, actors) = answers();
    let expected = sorted(rows::tasks(&answers, &processes, &actors).collect());
    let mut calls = Calls::default();
    calls.set_actors(&actors);
    calls.add_processes(&processes);
    calls.add(&answers, true);
    assert_eq!(sorted(of(&calls)), expected);
    let waits = expected.iter().find(|row| row["why"] == "no worker").unwrap();
    assert_eq!(waits["worker_pid"], Value::Null, "the daemon's number is not that of a worker");
    assert_eq!(calls.summary(), summary::tasks(&expected, &[]));
    // Answers of one process after the other make no difference, nor does hearing them twice.
    let mut calls = Calls::default();
    calls.set_actors(&actors);
    for answer in answers.iter().chain(&answers) {
        calls.add(std::slice::from_ref(answer), false);
    }
    assert_eq!(sorted(of(&calls)), expected);
}

#[test]
fn fields_say_what_rows_say() {
    let (answers, _, actors) = answers();
    let mut calls = Calls::default();
    calls.set_actors(&actors);
    calls.add(&answers, true);
    let mut shared: HashMap<(&str, u32), Value> = HashMap::new();
    for call in calls.all() {
        let row = call.row();
        for (column, value) in &row {
            match call.field(Of::named(column)) {
                Field::Number(number) => assert_eq!(json!(number), *value, "{column}"),
                Field::Shared(number) => {
                    let column: &str = crate::Resource::Tasks
                        .names(true)
                        .into_iter()
                        .find(|name| name == column)
                        .unwrap();
                    let before = shared.entry((column, number)).or_insert(value.clone());
                    assert_eq!(before, value, "{column}");
                }
                Field::InRow => {}
            }
        }
    }
}

#[test]
fn what_is_over_stays_and_what_is_open_is_told_anew() {
    let answer = |tasks| Answer { worker_id: worker(1), tasks, ..Answer::default() };
    let mut calls = Calls::default();
    calls.add(&[answer(vec![task(1, "f", TaskPhase::Sent), task(2, "f", TaskPhase::Sent)])], true);
    calls.add(&[answer(vec![task(1, "f", TaskPhase::Finished)])], false);
    let phases = |calls: &Calls| {
        let phases: BTreeMap<Key, TaskPhase> =
            calls.all().map(|call| (call.key, call.phase())).collect();
        phases.into_values().collect::<Vec<_>>()
    };
    assert_eq!(phases(&calls), [TaskPhase::Finished, TaskPhase::Sent]);
    // Late news of a call that is over changes nothing.
    calls.add(&[answer(vec![task(1, "f", TaskPhase::Sent)])], false);
    calls.add(&[answer(vec![task(3, "f", TaskPhase::Sent)])], true);
    assert_eq!(phases(&calls), [TaskPhase::Finished, TaskPhase::Sent]);
    assert!(calls.of(task(2, "f", TaskPhase::Sent).task_id).next().is_none());
}

fn counts(calls: &Calls) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (name, of) in json!(calls.summary())["summary"].as_object().unwrap() {
        for (state, count) in of["state_counts"].as_object().unwrap() {
            counts.insert(format!("{name} {state}"), count.as_u64().unwrap());
        }
    }
    counts
}

#[test]
fn what_a_process_has_forgotten_is_counted_once() {
    use helio_proto::inspect::TaskCount;

    let count = |name: &str, phase, count| TaskCount {
        name: name.to_owned(),
        phase,
        count,
        ..TaskCount::default()
    };
    let answer = |numbers: std::ops::Range<u64>, more| Answer {
        worker_id: worker(1),
        tasks: numbers.map(|n| task(n, "f", TaskPhase::Finished)).collect(),
        more,
        ..Answer::default()
    };
    let mut calls = Calls::default();
    // Three are forgotten before anybody asks, and then four that were told of.
    calls.add(&[answer(3..10, vec![count("f", TaskPhase::Finished, 3)])], true);
    assert_eq!(counts(&calls), BTreeMap::from([("f FINISHED".to_owned(), 10)]));
    calls.add(&[answer(7..12, vec![count("f", TaskPhase::Finished, 7)])], true);
    assert_eq!(counts(&calls), BTreeMap::from([("f FINISHED".to_owned(), 12)]));
    assert_eq!((calls.len(), calls.more()[0].count), (9, 3));
    // The process counts several functions as one in the end: the calls that the table has are not counted again.
    let more = vec![count("", TaskPhase::Finished, 9), count("g", TaskPhase::Failed, 2)];
    calls.add(&[answer(10..14, more)], true);
    let expected = [("(others) FINISHED", 2), ("f FINISHED", 11), ("g FAILED", 2)];
    let expected = expected.map(|(name, count)| (name.to_owned(), count));
    assert_eq!(counts(&calls), BTreeMap::from(expected));
}

/// Returns the number of calls that are not over.
fn open(calls: &Calls) -> usize {
    calls.all().filter(|call| !call.phase().is_over()).count()
}

/// A million calls, of which a tenth are here: none is looked at but those that are wanted.
#[test]
fn what_failed_and_what_ended_lately_is_found_by_its_time() {
    let mut calls = Calls::default();
    let phase = |n: u64| match n % 1_000 {
        0 => TaskPhase::Failed,
        1 => TaskPhase::Sent,
        _ => TaskPhase::Finished,
    };
    let tasks = (0..100_000).map(|n| task(n, "f", phase(n))).collect();
    calls.add(&[Answer { worker_id: worker(1), tasks, ..Answer::default() }], true);
    let failed: Vec<u64> = calls.failed(2).iter().map(|call| call.times_us().1).collect();
    assert_eq!(failed, [3_099_000, 3_098_000]);
    let late = calls.stream(3_099_990, None, 4_000).calls;
    let late = late.iter().filter(|call| call.times_us().1 > 0).count();
    assert_eq!((late, open(&calls)), (10, 100));
    let all = [("f FAILED", 100), ("f FINISHED", 99_800), ("f RUNNING", 100)];
    assert_eq!(counts(&calls), BTreeMap::from(all.map(|(name, count)| (name.to_owned(), count))));
    // Told once more, it is no news.
    let version = calls.version();
    let tasks = (0..100_000).map(|n| task(n, "f", phase(n))).collect();
    calls.add(&[Answer { worker_id: worker(1), tasks, ..Answer::default() }], true);
    assert_eq!(calls.version(), version);
}

#[test]
fn of_too_many_those_that_are_over_are_counted_and_what_is_open_stays() {
    let answer = |tasks| [Answer { worker_id: worker(1), tasks, ..Answer::default() }];
    let mut calls = Calls::default();
    let waits = |n| task(n, "waits", TaskPhase::WaitsForWorker);
    calls.add(&answer((0..10).map(waits).collect()), true);
    let many = CALLS_MAX as u64 * 2;
    for from in (10..many).step_by(10_000) {
        let to = many.min(from + 10_000);
        let over = |n| task(n, "f", TaskPhase::Finished);
        calls.add(&answer((from..to).map(over).collect()), false);
        assert!(calls.len() <= CALLS_MAX);
    }
    let all = [("f FINISHED", many - 10), ("waits PENDING_NODE_ASSIGNMENT", 10)];
    assert_eq!(counts(&calls), BTreeMap::from(all.map(|(name, n)| (name.to_owned(), n))));
    assert_eq!(open(&calls), 10);
    assert!(calls.of(waits(3).task_id).next().is_some());
    assert!(calls.of(task(11, "f", TaskPhase::Finished).task_id).next().is_none());
    assert_eq!(calls.all().count(), calls.len());
    // Each attempt has a slot of its own.
    let again = |attempt| TaskRow { attempt, ..task(5, "waits", TaskPhase::Finished) };
    calls.add(&answer(vec![again(2), again(1), again(0)]), false);
    let attempts = calls.of(again(0).task_id).map(|call| (call.key.1, call.phase()));
    let attempts: BTreeMap<u32, TaskPhase> = attempts.collect();
    assert_eq!(attempts.into_values().collect::<Vec<_>>(), [TaskPhase::Finished; 3]);
    // The ninth of those that wait is not told of any more.
    calls.begin_round();
    calls.add_open(&answer((0..8).map(waits).collect()));
    assert_eq!(open(&calls), 7, "the fifth is over, and so is its news");
    assert!(calls.of(waits(9).task_id).next().is_none());
}

#[test]
fn written_rows_are_the_rows() {
    let (answers, processes, actors) = answers();
    let mut calls = Calls::default();
    calls.set_actors(&actors);
    calls.add_processes(&processes);
    calls.add(&answers, true);
    let odd = TaskRow {
        name: "say \"hé\\\n\u{1}\"".to_owned(),
        error_type: "TASK_EXECUTION_EXCEPTION".to_owned(),
        error_message: "line\none".to_owned(),
        parent: task(1, "f", TaskPhase::Sent).task_id,
        resources: ResourceSet::from_units([("CPU", 0.25), ("memory", 1e9)]),
        ..task(77, "", TaskPhase::Failed)
    };
    let bare =
        TaskRow { task_id: TaskId::new(78, ActorId([3; ActorId::LEN])), ..TaskRow::default() };
    calls.add(
        &[Answer { worker_id: worker(1), tasks: vec![odd, bare], ..Answer::default() }],
        false,
    );
    let mut columns = crate::Resource::Tasks.names(true);
    columns.push("colour");
    assert!(calls.len() > 8);
    for call in calls.all() {
        let mut written = String::new();
        call.write(&columns, &mut written);
        let written: Row = serde_json::from_str(&written).unwrap();
        let row = call.row();
        let column =
            |name: &&str| ((*name).to_owned(), row.get(*name).cloned().unwrap_or_default());
        assert_eq!(written, columns.iter().map(column).collect::<Row>());
    }
}

/// A busy minute: 100,000 calls that ended one after the other, and one that runs since its beginning.
#[test]
fn the_task_stream_is_what_runs_and_the_latest_and_nothing_else_is_looked_at() {
    let answer = |tasks| [Answer { worker_id: worker(1), tasks, ..Answer::default() }];
    let phase = |n| if n == 7 { TaskPhase::Sent } else { TaskPhase::Finished };
    let mut calls = Calls::default();
    calls.add(&answer((0..100_000).map(|n| task(n, "f", phase(n))).collect()), true);
    let numbers = |stream: &Stream<'_>| -> Vec<u64> {
        stream.calls.iter().map(|call| call.times_us().0 - 2_000_000).collect()
    };
    let stream = calls.stream(1, None, 4);
    assert_eq!((numbers(&stream), stream.is_cut), (vec![7, 99_997, 99_998, 99_999], true));
    assert!(stream.looked_at <= 2 * slots::BLOCK, "{}", stream.looked_at);
    // What is not left out: all that ended since then, and what runs.
    let stream = calls.stream(3_099_998, None, 4);
    assert_eq!((numbers(&stream), stream.is_cut), (vec![7, 99_998, 99_999], false));
    let other = calls.stream(1, Some(JobId([9; JobId::LEN])), 4);
    assert!(other.calls.is_empty() && !other.is_cut);
    let none = calls.stream(1, None, 0);
    assert!(none.calls.is_empty() && none.is_cut);
}

#[test]
fn calls_whose_ids_have_the_same_word_are_told_apart_and_counted() {
    // More than there are words in tests.
    const ALL: u64 = 40_000;
    let mut calls = Calls::default();
    let told = |phase| Answer {
        worker_id: worker(1),
        tasks: (0..ALL).map(|number| task(number, "f", phase)).collect(),
        ..Answer::default()
    };
    let count = |calls: &Calls| -> Vec<_> {
        calls.groups().iter().map(|group| (group.of.state, group.of.count)).collect()
    };
    calls.add(&[told(TaskPhase::Sent)], false);
    assert_eq!(count(&calls), [(TaskPhase::Sent.name(), ALL)]);
    calls.add(&[told(TaskPhase::Finished)], false);
    assert_eq!(count(&calls), [(TaskPhase::Finished.name(), ALL)]);
    for number in 0..ALL {
        let id = task(number, "f", TaskPhase::Finished).task_id;
        assert!(calls.all.of(id).map(|call| call.key).eq([(id, 0)]));
    }
    assert!(calls.all.of(task(ALL, "f", TaskPhase::Sent).task_id).next().is_none());
}
