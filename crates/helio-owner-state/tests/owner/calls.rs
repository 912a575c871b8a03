//! Submission to reply, and what can come between.

use std::sync::Arc;

use helio_owner_state::{Action, Event, TaskSpec};
use helio_proto::control::{Failure, FailureKind};
use helio_proto::node::LeaseClass;
use helio_proto::peer::{Frame, Returned, Value};
use helio_proto::template::Template;
use helio_types::{DeathCause, DeathKind, LeaseId};

use super::{Play, call, from, inline, node, object, put, reply, stored_on, task, worker};

fn cause() -> DeathCause {
    DeathCause::new(DeathKind::Signaled, "killed")
}

fn lost(lease: u64) -> Event {
    Event::LeaseLost { node: node(1).node_id, lease: LeaseId(lease), cause: Box::new(cause()) }
}

/// LIMIT-1: an attempt that was given up may have written what it returns: it is freed there, too.
#[test]
fn what_an_abandoned_attempt_has_written_is_freed_with_the_result() {
    let mut play = Play::new();
    play.submit(call(1, 1, &[]), &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.check(lost(5), &["ask for lease 2"]);
    play.granted(2, 6, 3, &["w3: begin lease", "w3: run t1 again"]);
    play.check(from(3, reply(1, vec![stored_on(2)])), &[]);
    play.drop_ref(object(1, 1), &["free t1.1 on 2"]);
}

#[test]
fn a_call_gets_a_lease_runs_and_leaves_nothing_behind() {
    let mut play = Play::new();
    play.submit(call(1, 0, &[]), &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.check(from(2, reply(1, vec![inline("one")])), &[]);
    assert_eq!(play.value(object(1, 1)), "one", "OWN-1");
    // The lease serves the next call without a question.
    play.submit(call(2, 0, &[]), &["w2: run t2"]);
    play.check(from(2, reply(2, vec![stored_on(3)])), &[]);
    play.drop_ref(object(1, 1), &[]);
    play.drop_ref(object(2, 1), &["free t2.1 on 1"]);
    play.linger(&["return 5"]);
    play.is_empty();
}

#[test]
fn a_grant_that_comes_too_late_goes_back() {
    let mut play = Play::new();
    play.submit(call(1, 0, &[]), &["ask for lease 1"]);
    play.check(
        Event::Cancel { object: object(1, 1), force: false, recursive: false },
        &["cancel lease 1"],
    );
    play.granted(1, 5, 2, &["return 5"]);
    play.drop_ref(object(1, 1), &[]);
    play.is_empty();
}

#[test]
fn a_call_waits_for_its_arguments_and_fails_with_theirs() {
    let mut play = Play::new();
    play.submit(call(1, 0, &[]), &["ask for lease 1"]);
    play.submit(call(2, 0, &[object(1, 1)]), &[]);
    let refused = Failure::new(FailureKind::Unschedulable, "no node has it");
    play.check(Event::LeaseRefused { request: 1, failure: refused }, &[]);
    assert_eq!(play.value(object(1, 1)), "TaskUnschedulable");
    play.drop_ref(object(1, 1), &[]);
    play.drop_ref(object(2, 1), &[]);
    play.is_empty();
}

#[test]
fn an_argument_that_is_put_is_held_until_the_reply() {
    let mut play = Play::new();
    play.check(put(9, "x", &[]), &[]);
    play.submit(call(1, 0, &[object(9, 1)]), &["ask for lease 1"]);
    play.drop_ref(object(9, 1), &[]);
    assert_eq!(play.value(object(9, 1)), "x", "OWN-1: the call holds it");
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.check(from(2, reply(1, vec![inline("one")])), &[]);
    assert!(play.owner.object(&object(9, 1)).is_none());
}

#[test]
fn a_lost_worker_costs_the_begun_call_a_retry_and_the_others_nothing() {
    let mut play = Play::new();
    // Short calls: several are sent ahead.
    play.submit(call(1, 0, &[]), &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.check(from(2, reply(1, vec![inline("one")])), &[]);
    play.submit(call(2, 1, &[]), &["w2: run t2"]);
    play.submit(call(3, 0, &[]), &["w2: run t3"]);
    play.check(Event::PeerLost { peer: worker(2) }, &["does w2 live"]);
    play.check(lost(5), &["ask for lease 2", "ask for lease 3"]);
    play.granted(
        2,
        6,
        3,
        &["w3: begin lease", "w3: run t2 again", "w3: run t3 again", "cancel lease 3"],
    );
    // The second death finds no retry of the first call.
    play.check(Event::PeerLost { peer: worker(3) }, &["does w3 live"]);
    play.check(lost(6), &["ask for lease 4"]);
    assert_eq!(play.value(object(2, 1)), "WorkerCrashed");
    assert!(!play.owner.object(&object(3, 1)).unwrap().is_ready(), "it had not begun");
}

/// OWN-1: it died while its lease was on the way (simulated seed 13048606).
#[test]
fn a_worker_that_died_before_it_was_reached_costs_no_call_a_retry() {
    let mut play = Play::new();
    play.submit(call(1, 0, &[]), &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.check(Event::PeerUnreached { peer: worker(2).worker_id }, &[]);
    play.check(Event::PeerLost { peer: worker(2) }, &["does w2 live"]);
    play.check(lost(5), &["ask for lease 2"]);
    play.granted(2, 6, 3, &["w3: begin lease", "w3: run t1 again"]);
    // Over the connection that breaks now the call can have arrived.
    play.check(Event::PeerLost { peer: worker(3) }, &["does w3 live"]);
    play.check(Event::PeerUnreached { peer: worker(3).worker_id }, &[]);
    play.check(lost(6), &[]);
    assert_eq!(play.value(object(1, 1)), "WorkerCrashed");
}

/// OWN-1: the reply of the first call may be lost, and then the second has begun (simulated seed 30002834).
#[test]
fn calls_whose_replies_may_be_lost_count_as_begun() {
    let mut play = Play::new();
    play.submit(call(1, 0, &[]), &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.check(from(2, reply(1, vec![inline("one")])), &[]);
    play.submit(call(2, 1, &[]), &["w2: run t2"]);
    play.submit(call(3, 0, &[]), &["w2: run t3"]);
    play.check(Event::PeerTorn { peer: worker(2).worker_id }, &[]);
    play.check(Event::PeerLost { peer: worker(2) }, &["does w2 live"]);
    play.check(lost(5), &["ask for lease 2"]);
    assert_eq!(play.value(object(3, 1)), "WorkerCrashed");
    play.granted(2, 6, 3, &["w3: begin lease", "w3: run t2 again"]);
}

/// OWN-1: only the connection to the daemon broke. What its worker has not begun comes back before it runs
/// elsewhere, and what it has begun it may finish (simulated seeds 306701, 313248).
#[test]
fn a_worker_behind_a_lost_daemon_gives_back_what_it_has_not_begun() {
    let mut play = Play::new();
    play.submit(call(1, 0, &[]), &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.check(from(2, reply(1, vec![inline("one")])), &[]);
    for number in 2..=4 {
        play.submit(call(number, 0, &[]), &[&format!("w2: run t{number}")]);
    }
    play.check(Event::NodeLost { node: node(1).node_id }, &["w2: Steal 4294967295"]);
    play.check(from(2, reply(2, vec![inline("two")])), &[]);
    assert_eq!(play.value(object(2, 1)), "two");
    play.check(from(2, Frame::Unstarted { tasks: vec![task(4)] }), &["ask for lease 2"]);
    play.granted(2, 6, 3, &["w3: begin lease", "w3: run t4"]);
    // Now its daemon has ended it; nobody says why.
    play.check(Event::PeerLost { peer: worker(2) }, &["does w2 live"]);
    assert_eq!(play.value(object(3, 1)), "NodeDied", "it had begun, and has no retries");
}

/// OWN-1: the daemon hangs, and its worker lives on.
#[test]
fn calls_on_a_node_that_was_declared_dead_end_at_once() {
    let mut play = Play::new();
    play.submit(call(1, 0, &[]), &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.check(from(2, reply(1, vec![inline("one")])), &[]);
    play.submit(call(2, 0, &[]), &["w2: run t2"]);
    play.submit(call(3, 0, &[]), &["w2: run t3"]);
    play.submit(call(4, 1, &[]), &["w2: run t4"]);
    play.check(Event::NodeDied { node: node(1).node_id, heir: None }, &["ask for lease 2"]);
    assert_eq!(play.value(object(2, 1)), "NodeDied");
    assert!(play.reason(object(2, 1)).contains(&node(1).node_id.to_string()));
    assert_eq!(play.value(object(3, 1)), "NodeDied", "it may begin though the node is dead");
    // The connection to the daemon is closed for that.
    play.check(Event::NodeLost { node: node(1).node_id }, &[]);
    play.granted(2, 6, 3, &["w3: begin lease", "w3: run t4 again"]);
    for number in 2..=4 {
        let late = reply(number, vec![inline("late")]);
        play.check(from(2, late), &[&format!("w2: ReturnsHeld t{number}")]);
    }
    assert_eq!(play.value(object(2, 1)), "NodeDied");
    assert!(!play.owner.object(&object(4, 1)).unwrap().is_ready());
    play.check(from(3, reply(4, vec![inline("four")])), &[]);
    assert_eq!(play.value(object(4, 1)), "four", "OWN-1");
}

/// OWN-1: a worker that was given up raises after all: that is not how the second attempt ended, and the
/// second worker has not become free (simulated seed 303180).
#[test]
fn a_worker_whose_lease_was_lost_does_not_answer_for_the_next_one() {
    let mut play = Play::new();
    play.submit(call(1, 1, &[]), &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.check(Event::PeerLost { peer: worker(2) }, &["does w2 live"]);
    play.check(Event::NodeLost { node: node(1).node_id }, &["ask for lease 2"]);
    play.granted(2, 6, 3, &["w3: begin lease", "w3: run t1 again"]);
    let raised = Returned { value: Value::Error(b"raised".to_vec()), contained: vec![] };
    let late = Frame::Reply {
        task: task(1),
        failed: true,
        retryable: true,
        leaving: false,
        items: 0,
        returns: vec![raised],
    };
    play.check(from(2, late), &["w2: ReturnsHeld t1"]);
    play.check(from(2, Frame::Unstarted { tasks: vec![task(1)] }), &[]);
    assert!(!play.owner.object(&object(1, 1)).unwrap().is_ready());
    play.submit(call(2, 0, &[]), &["ask for lease 3"]);
    play.check(from(3, reply(1, vec![inline("one")])), &["w3: run t2", "cancel lease 3"]);
    assert_eq!(play.value(object(1, 1)), "one", "OWN-1");
}

#[test]
fn an_idle_worker_takes_calls_from_a_full_one() {
    let mut play = Play::new();
    play.submit(call(1, 0, &[]), &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.check(from(2, reply(1, vec![inline("one")])), &[]);
    for number in 2..=4 {
        play.submit(call(number, 0, &[]), &[&format!("w2: run t{number}")]);
    }
    play.check(
        from(2, Frame::Unstarted { tasks: vec![task(3), task(4)] }),
        &["ask for lease 2", "ask for lease 3"],
    );
    play.granted(2, 6, 3, &["w3: begin lease", "w3: run t3", "w3: run t4", "cancel lease 3"]);
}

#[test]
fn what_waits_behind_a_long_call_is_taken_back() {
    let mut play = Play::new();
    play.submit(call(1, 0, &[]), &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.check(from(2, reply(1, vec![inline("one")])), &[]);
    play.submit(call(2, 0, &[]), &["w2: run t2"]);
    play.submit(call(3, 0, &[]), &["w2: run t3"]);
    play.now += 20_000;
    play.check(Event::Tick, &["w2: Steal 4294967295"]);
    play.check(Event::Tick, &[]);
    // Calls of this kind are long now: nothing is sent ahead any more.
    play.check(from(2, Frame::Unstarted { tasks: vec![task(3)] }), &["ask for lease 2"]);
}

#[test]
fn a_revoked_lease_takes_back_what_has_not_begun_and_ends_with_what_has() {
    let mut play = Play::new();
    play.submit(call(1, 0, &[]), &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.check(from(2, reply(1, vec![inline("one")])), &[]);
    play.submit(call(2, 0, &[]), &["w2: run t2"]);
    play.submit(call(3, 0, &[]), &["w2: run t3"]);
    let revoked = Event::LeaseRevoked { node: node(1).node_id, lease: LeaseId(5) };
    play.check(revoked, &["w2: Steal 4294967295"]);
    play.check(from(2, Frame::Unstarted { tasks: vec![task(3)] }), &["ask for lease 2"]);
    play.check(from(2, reply(2, vec![inline("two")])), &["return 5"]);
}

#[test]
fn a_cancelled_call_is_stopped_where_it_is() {
    let mut play = Play::new();
    play.submit(call(1, 3, &[]), &["ask for lease 1"]);
    let cancel =
        |number| Event::Cancel { object: object(number, 1), force: false, recursive: false };
    play.check(cancel(1), &["cancel lease 1"]);
    assert_eq!(play.value(object(1, 1)), "TaskCancelled");
    play.submit(call(2, 3, &[]), &["ask for lease 2"]);
    play.granted(2, 5, 2, &["w2: begin lease", "w2: run t2"]);
    play.check(cancel(2), &["w2: Cancel t2"]);
    // The call is not tried again, although its worker died and it has retries.
    play.check(lost(5), &[]);
    assert_eq!(play.value(object(2, 1)), "TaskCancelled");
}

#[test]
fn whoever_holds_what_a_call_returns_may_cancel_it() {
    let mut play = Play::new();
    play.submit(call(1, 3, &[]), &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    let cancel = Frame::Cancel { task: task(1), force: true, recursive: true };
    play.check(from(3, cancel), &["w2: Cancel t1"]);
    play.check(lost(5), &[]);
    assert_eq!(play.value(object(1, 1)), "TaskCancelled");
}

/// LIMIT-1: kinds of calls that are over make room for others.
#[test]
fn more_kinds_of_calls_come_than_are_kept() {
    let mut play = Play::new();
    for number in 1..1_200 {
        let resources = helio_types::ResourceSet::from_units([("CPU", number as f64)]);
        play.class = Arc::new(LeaseClass { resources, ..LeaseClass::default() });
        play.submit(call(number, 0, &[]), &[&format!("ask for lease {number}")]);
        let run = format!("w2: run t{number}");
        play.granted(number, number, 2, &["w2: begin lease", &run]);
        play.check(from(2, reply(number, vec![inline("1")])), &[]);
        play.drop_ref(object(number, 1), &[]);
        play.linger(&[&format!("return {number}")]);
    }
    play.is_empty();
}

/// LIMIT-1: what many objects took is given back when they are gone.
#[test]
fn many_objects_leave_no_room_behind() {
    let mut play = Play::new();
    let puts = (1..100_000).map(|number| put(number, "", &[]));
    let drops = (1..100_000).map(|number| Event::DropRef { id: object(number, 1) });
    let mut freed = 0;
    for event in puts.chain(drops) {
        let out = play.owner.apply(event, play.now);
        freed += out.iter().filter(|action| matches!(action, Action::MemoryFreed)).count();
    }
    assert!((1..10).contains(&freed), "LIMIT-1: {freed}");
    play.is_empty();
}

/// LIMIT-1: calls that ended are remembered without what their functions hold.
#[test]
fn a_large_function_goes_with_its_last_call() {
    let mut play = Play::new();
    let template =
        Template { name: "f".into(), function: vec![0; 1 << 20].into(), ..Template::default() };
    let template = Arc::new(template);
    play.submit(TaskSpec { template: template.clone(), ..call(1, 0, &[]) }, &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.check(from(2, reply(1, vec![inline("one")])), &[]);
    assert_eq!(play.owner.task_rows(0, 1, play.now, |at| at).0[0].name, "f");
    assert_eq!(Arc::strong_count(&template), 1);
}
