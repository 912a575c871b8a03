//! Reasons for waits, and calls that the memory monitor ended.

use std::sync::Arc;

use helio_owner_state::{Event, NextHop, Target, TaskSpec};
use helio_proto::inspect::TaskPhase;
use helio_proto::template::Template;
use helio_types::{DeathCause, DeathKind, LeaseId};

use super::{Play, call, from, inline, node, object, reply, task, worker};

#[track_caller]
fn says(play: &Play, number: u64, parts: &[&str]) -> Option<NextHop> {
    let why = play.owner.why_task(task(number), play.now);
    for part in parts {
        assert!(why.text.contains(part), "WHY-1: {part:?} is not in {:?}", why.text);
    }
    assert_eq!(play.owner.check_whys(play.now), Ok(()), "WHY-1");
    why.next
}

fn oom(lease: u64, is_final: bool) -> Event {
    let cause = DeathCause { is_final, ..DeathCause::new(DeathKind::OutOfMemory, "it was full") };
    Event::LeaseLost { node: node(1).node_id, lease: LeaseId(lease), cause: Box::new(cause) }
}

/// WHY-1: through every state of a call.
#[test]
fn a_call_says_what_it_waits_for() {
    let mut play = Play::new();
    play.submit(call(1, 0, &[]), &["ask for lease 1"]);
    play.submit(call(2, 0, &[]), &["ask for lease 2"]);
    play.submit(call(3, 0, &[object(1, 1)]), &[]);
    let next = says(&play, 1, &["f waits for a worker."]);
    assert_eq!(next, Some(NextHop::Daemon { node: None, request: 1, running: String::new() }));
    says(&play, 2, &["1 call of its kind comes first"]);
    says(&play, 3, &[&format!("its argument ObjectRef({}), which f makes", object(1, 1))]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.now += 2_500_000;
    let next = says(&play, 1, &["f was sent to a process on node", "2.5 s ago"]);
    assert_eq!(next, Some(NextHop::Executor { to: worker(2), task: task(1) }));
    play.check(
        from(2, reply(1, vec![inline("one")])),
        &["w2: run t2", "cancel lease 2", "ask for lease 3"],
    );
    assert!(play.owner.why_object(object(1, 1), play.now).text.contains("ready"));
}

/// Seed 1004547 of the simulator: the daemon knows only one node with the bundle, which has died, and sends
/// the request there as often as it is made. WHY-1: the call says why nothing is asked for meanwhile.
#[test]
fn a_request_that_was_lost_with_its_node_is_made_again_later_and_later() {
    let mut play = Play::new();
    let lost = || Event::NodeLost { node: node(2).node_id };
    play.submit(call(1, 0, &[]), &["ask for lease 1"]);
    for (request, pause) in [(1u64, 10_000u64), (2, 20_000), (3, 40_000)] {
        let spilled = Event::LeaseSpilled { request, node: node(2) };
        play.check(spilled, &[&format!("ask for lease {request} on n2")]);
        play.check(lost(), &[]);
        says(&play, 1, &["the node on which it was to run is out of reach"]);
        assert_eq!(play.owner.next_tick(), Some(play.now + pause));
        play.now += pause - 1;
        play.check(Event::Tick, &[]);
        play.now += 1;
        play.check(Event::Tick, &[&format!("ask for lease {}", request + 1)]);
    }
    play.granted(4, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.now += 1_000_000;
    play.check(from(2, reply(1, vec![inline("one")])), &[]);
    play.submit(call(2, 0, &[object(1, 1)]), &["w2: run t2"]);
    play.submit(call(3, 0, &[]), &["ask for lease 5"]);
    play.check(Event::LeaseSpilled { request: 5, node: node(2) }, &["ask for lease 5 on n2"]);
    play.check(lost(), &[]);
    assert_eq!(play.owner.next_tick(), Some(play.now + 10_000), "a grant ends the row");
    play.check(Event::Cancel { object: object(3, 1), force: false, recursive: false }, &[]);
    play.drop_ref(object(1, 1), &[]);
}

/// A rehearsal of the contract's F5.04: attempts that the memory monitor ended do not count, and the
/// time between them doubles.
#[test]
fn a_call_that_ran_out_of_memory_is_tried_again_later_and_later() {
    let mut play = Play::new();
    play.submit(call(1, 1, &[]), &["ask for lease 1"]);
    for (round, seconds) in [1u64, 2, 4].into_iter().enumerate() {
        let lease = 5 + round as u64;
        let request = 1 + round as u64;
        let run = if round == 0 { "w2: run t1" } else { "w2: run t1 again" };
        play.granted(request, lease, 2, &["w2: begin lease", run]);
        play.check(oom(lease, false), &[]);
        says(&play, 1, &[&format!("is tried again in {seconds}.0 s"), "ended: it was full"]);
        play.now += seconds * 1_000_000 - 1;
        play.check(Event::Tick, &[]);
        assert_eq!(play.owner.next_tick(), Some(play.now + 1));
        play.now += 1;
        play.check(Event::Tick, &[&format!("ask for lease {}", request + 1)]);
    }
    play.granted(4, 9, 2, &["w2: begin lease", "w2: run t1 again"]);
    play.check(oom(9, true), &[]);
    assert_eq!(play.value(object(1, 1)), "OutOfMemory", "another attempt makes no sense");
    play.drop_ref(object(1, 1), &["free t1.1 on 1"]);
    play.is_empty();
}

#[test]
fn a_call_without_retries_fails_at_once_and_a_delayed_one_can_be_cancelled() {
    let mut play = Play::new();
    play.submit(call(1, 0, &[]), &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.check(oom(5, false), &[]);
    assert_eq!(play.value(object(1, 1)), "OutOfMemory");
    play.submit(call(2, 3, &[]), &["ask for lease 2"]);
    play.granted(2, 6, 2, &["w2: begin lease", "w2: run t2"]);
    play.check(oom(6, false), &[]);
    play.check(Event::Cancel { object: object(2, 1), force: false, recursive: false }, &[]);
    assert_eq!(play.value(object(2, 1)), "TaskCancelled");
    play.now += 2_000_000;
    play.check(Event::Tick, &[]);
}

/// WHY-1: an answer about many calls looks their places up at once, and says what one about each says.
#[test]
fn rows_of_many_calls_say_what_each_says_alone() {
    let mut play = Play::new();
    let target = Target::Class(play.class.clone());
    for number in 1..=50 {
        // Every tenth waits for another one's return.
        let deps = [object(number - 1, 1)];
        let deps = if number % 10 == 0 { &deps[..] } else { &[] };
        let spec = TaskSpec { target: target.clone(), ..call(number, 0, deps) };
        play.owner.apply(Event::Submit { spec: Arc::new(spec) }, play.now);
    }
    let (rows, _) = play.owner.task_rows(0, 100, play.now, |at| at);
    assert_eq!(rows.len(), 50);
    for row in &rows {
        assert_eq!(row.why, play.owner.why_task(row.task_id, play.now).text);
    }
    assert!(rows.iter().any(|row| row.why.contains("calls of its kind come first")));
}

#[test]
fn rows_tell_of_calls_from_their_submission_to_their_end() {
    let mut play = Play::new();
    play.submit(call(1, 0, &[]), &["ask for lease 1"]);
    play.submit(TaskSpec { returns: 1, ..call(2, 0, &[object(1, 1)]) }, &[]);
    let phases = |play: &Play| -> Vec<TaskPhase> {
        let (rows, others) = play.owner.task_rows(0, 10, play.now, |at| at);
        let total = rows.len() + others.sum() as usize;
        assert_eq!(rows.len(), total);
        rows.iter().map(|row| row.phase).collect()
    };
    assert_eq!(phases(&play), [TaskPhase::WaitsForWorker, TaskPhase::WaitsForArgs]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.now += 500;
    play.check(from(2, reply(1, vec![inline("one")])), &["w2: run t2"]);
    assert_eq!(phases(&play), [TaskPhase::Sent, TaskPhase::Finished]);
    let (rows, others) = play.owner.task_rows(0, 1, play.now, |at| at);
    let total = rows.len() + others.sum() as usize;
    assert_eq!((rows.len(), total), (1, 2));
    assert_eq!(play.owner.calls_ended(), (1, 0));
    let (rows, _) = play.owner.object_rows(10);
    assert_eq!(rows.iter().filter(|row| row.is_ready).count(), 1);
}

#[test]
fn a_call_that_ended_its_process_well_has_finished_and_a_secret_one_is_not_listed() {
    let mut play = Play::new();
    let by = |number: u64, code: i32| DeathCause {
        by: task(number),
        code,
        ..DeathCause::new(DeathKind::Exited, "it left")
    };
    let lost = |lease: u64, cause: DeathCause| Event::LeaseLost {
        node: node(1).node_id,
        lease: LeaseId(lease),
        cause: Box::new(cause),
    };
    for (number, cause) in [(1, by(1, 0)), (2, by(2, 1)), (3, by(1, 0))] {
        play.submit(call(number, 0, &[]), &[&format!("ask for lease {number}")]);
        let run = format!("w2: run t{number}");
        play.granted(number, number + 4, 2, &["w2: begin lease", &run]);
        play.check(lost(number + 4, cause), &[]);
    }
    let (rows, _) = play.owner.task_rows(0, 10, play.now, |at| at);
    let ends: Vec<(TaskPhase, &str)> =
        rows.iter().map(|row| (row.phase, row.error_type.as_str())).collect();
    let died = (TaskPhase::Failed, "WORKER_DIED");
    assert_eq!(ends, [died, died, (TaskPhase::Finished, "")], "the latest first");
    let template = Template { is_unlisted: true, ..Template::default() };
    play.submit(TaskSpec { template: template.into(), ..call(4, 0, &[]) }, &["ask for lease 4"]);
    assert_eq!(play.owner.task_rows(0, 10, play.now, |at| at).0.len(), 3);
    play.granted(4, 9, 2, &["w2: begin lease", "w2: run t4"]);
    play.check(from(2, reply(4, vec![inline("one")])), &[]);
    assert_eq!(play.owner.task_rows(0, 10, play.now, |at| at).0.len(), 3);
}
