//! The choice among the leases that are kept: by turns among the nodes, or where a call's arguments are.

use std::sync::Arc;

use helio_owner_state::{Event, OutgoingValue};
use helio_proto::control::{Strategy, StrategyKind};
use helio_proto::node::LeaseClass;
use helio_types::LeaseId;

use super::{Play, call, from, inline, node, object, reply};

fn spread() -> Play {
    let strategy = Strategy { kind: StrategyKind::Spread, ..Strategy::default() };
    Play { class: Arc::new(LeaseClass { strategy, ..LeaseClass::default() }), ..Play::new() }
}

/// The worker replies to its call, and the result is dropped.
fn replied(play: &mut Play, worker: u8, number: u64, expected: &[&str]) {
    play.now += 2_000;
    play.check(from(worker, reply(number, vec![inline("x")])), expected);
    play.drop_ref(object(number, 1), &[]);
}

/// A first lease on node 1 and a second one on node 2, each of which has run a call.
fn two_nodes() -> Play {
    let mut play = spread();
    play.submit(call(1, 0, &[]), &["ask for lease 1"]);
    play.granted_on(1, 1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    replied(&mut play, 2, 1, &[]);
    // There may be room on another node: the kept lease waits for the answer.
    play.submit(call(2, 0, &[]), &["ask for lease 2"]);
    let spilled = Event::LeaseSpilled { request: 2, node: node(2) };
    play.check(spilled, &["ask for lease 2 on n2"]);
    play.granted_on(2, 2, 6, 3, &["w3: begin lease", "w3: run t2"]);
    replied(&mut play, 3, 2, &[]);
    play
}

#[test]
fn calls_go_round_the_nodes_and_no_node_is_left_out() {
    let mut play = two_nodes();
    play.submit(call(3, 0, &[]), &["ask for lease 3"]);
    // No third node has room: from now on the two take turns, without a question.
    play.check(Event::LeasePending { request: 3 }, &["w2: run t3"]);
    replied(&mut play, 2, 3, &[]);
    for (number, worker, run) in [(4, 3, "w3: run t4"), (5, 2, "w2: run t5"), (6, 3, "w3: run t6")]
    {
        play.submit(call(number, 0, &[]), &[run]);
        replied(&mut play, worker, number, &[]);
    }
    play.linger(&["return 5", "cancel lease 3", "return 6"]);
    play.is_empty();
}

#[test]
fn a_node_that_gets_room_joins_the_round() {
    let mut play = two_nodes();
    play.submit(call(3, 0, &[]), &["ask for lease 3"]);
    play.check(Event::LeasePending { request: 3 }, &["w2: run t3"]);
    replied(&mut play, 2, 3, &[]);
    // Nobody waits: the next call asks for a worker there.
    play.check(Event::LeaseSpilled { request: 3, node: node(3) }, &[]);
    play.submit(call(4, 0, &[]), &["ask for lease 4"]);
    let spilled = Event::LeaseSpilled { request: 4, node: node(3) };
    play.check(spilled, &["ask for lease 4 on n3"]);
    play.granted_on(3, 4, 7, 4, &["w4: begin lease", "w4: run t4"]);
}

#[test]
fn a_node_that_takes_its_worker_back_is_asked_again() {
    let mut play = two_nodes();
    play.submit(call(3, 0, &[]), &["ask for lease 3"]);
    play.check(Event::LeasePending { request: 3 }, &["w2: run t3"]);
    replied(&mut play, 2, 3, &[]);
    let revoked = Event::LeaseRevoked { node: node(2).node_id, lease: LeaseId(6) };
    play.check(revoked, &["cancel lease 3", "return 6"]);
    play.submit(call(4, 0, &[]), &["ask for lease 4"]);
    play.check(Event::LeasePending { request: 4 }, &["w2: run t4"]);
}

/// A value of a megabyte that the node keeps.
fn large_on(play: &mut Play, number: u64, at: u8) {
    let value = OutgoingValue::Stored { size: 1 << 20, location: node(at) };
    play.check(Event::Put { id: object(number, 1), value, contained: vec![] }, &[]);
}

/// A kept lease on node 1, and large values on nodes 1 and 2.
fn with_large_values() -> Play {
    let mut play = Play::new();
    play.submit(call(1, 0, &[]), &["ask for lease 1"]);
    play.granted_on(1, 1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    replied(&mut play, 2, 1, &[]);
    large_on(&mut play, 101, 1);
    large_on(&mut play, 102, 2);
    play
}

#[test]
fn calls_go_where_most_of_their_large_arguments_are() {
    let mut play = with_large_values();
    play.submit(call(2, 0, &[object(102, 1)]), &["ask for lease 2 on n2"]);
    play.submit(call(3, 0, &[object(101, 1)]), &["w2: run t3"]);
    play.granted_on(2, 2, 6, 3, &["w3: begin lease", "w3: run t2"]);
    replied(&mut play, 3, 2, &[]);
    play.submit(call(4, 0, &[object(102, 1)]), &["w3: run t4"]);
    // A call without arguments goes to the worker that has least to do.
    replied(&mut play, 2, 3, &[]);
    play.submit(call(5, 0, &[]), &["w2: run t5"]);
}

#[test]
fn a_call_moves_when_the_node_of_its_arguments_stays_full() {
    let mut play = with_large_values();
    play.submit(call(2, 0, &[object(102, 1)]), &["ask for lease 2 on n2"]);
    // The node may get idle workers of others back.
    play.check(Event::LeasePending { request: 2 }, &[]);
    play.submit(call(3, 0, &[]), &["w2: run t3"]);
    play.now += 150_000;
    replied(&mut play, 2, 3, &[]);
    play.now += 100_000;
    play.check(Event::Tick, &["w2: run t2", "cancel lease 2 on n2"]);
}

#[test]
fn a_call_waits_for_the_workers_there_while_that_is_not_long() {
    let mut play = with_large_values();
    play.submit(call(2, 0, &[object(102, 1)]), &["ask for lease 2 on n2"]);
    play.granted_on(2, 2, 6, 3, &["w3: begin lease", "w3: run t2"]);
    replied(&mut play, 3, 2, &[]);
    play.submit(call(3, 0, &[object(102, 1)]), &["w3: run t3"]);
    play.submit(call(4, 0, &[object(102, 1)]), &["ask for lease 3 on n2"]);
    play.check(Event::LeasePending { request: 3 }, &[]);
    play.submit(call(5, 0, &[]), &["w2: run t5"]);
    play.now += 20_000;
    replied(&mut play, 2, 5, &[]);
    // A worker elsewhere is of no use meanwhile.
    play.check(Event::LeaseSpilled { request: 3, node: node(3) }, &["ask for lease 4 on n2"]);
    // Calls on that node take long by now.
    play.submit(call(6, 0, &[]), &["w2: run t6"]);
    play.now += 1_500_000;
    play.drop_ref(object(6, 1), &[]);
    play.check(from(2, reply(6, vec![inline("x")])), &["w2: run t4", "cancel lease 4 on n2"]);
}
