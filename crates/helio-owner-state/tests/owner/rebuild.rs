//! Objects whose copies are lost.

use std::sync::Arc;

use helio_owner_state::{Event, OutgoingValue, Target, TaskSpec};
use helio_proto::peer::Frame;

use super::{Play, call, from, inline, node, object, reference, reply, stored_on, task};

fn lost(number: u64, on: u8) -> Event {
    Event::LocationLost { id: object(number, 1), node: node(on).node_id }
}

#[test]
fn a_lost_return_is_made_again_by_its_call() {
    let mut play = Play::new();
    play.submit(call(1, 1, &[]), &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.check(from(2, reply(1, vec![stored_on(3)])), &[]);
    play.check(lost(1, 3), &["w2: run t1 again"]);
    play.check(from(2, reply(1, vec![stored_on(4)])), &[]);
    play.now += 1_000_000;
    // Its retries are used up.
    play.check(lost(1, 4), &[]);
    assert_eq!(play.value(object(1, 1)), "ReconstructionFailed");
    play.drop_ref(object(1, 1), &["free t1.1 on 2"]);
    play.linger(&["return 5"]);
    play.is_empty();
}

/// OWN-1: two readers missed the same copy, and one of them says so when it has been made again there.
#[test]
fn late_news_of_a_lost_copy_is_not_about_the_one_made_since() {
    let mut play = Play::new();
    play.submit(call(1, 1, &[]), &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.check(from(2, reply(1, vec![stored_on(3)])), &[]);
    let missed = || Frame::LocationLost { object: object(1, 1), node: node(3).node_id };
    play.check(from(4, missed()), &["w2: run t1 again"]);
    play.check(from(2, reply(1, vec![stored_on(3)])), &[]);
    play.check(from(5, missed()), &[]);
    play.check(lost(1, 3), &[]);
    assert!(
        play.value(object(1, 1)).contains("Stores"),
        "its retries are used up, but it is there"
    );
    // A process that does not find this copy either says so again.
    play.now += 1_000_000;
    play.check(from(5, missed()), &[]);
    assert_eq!(play.value(object(1, 1)), "ReconstructionFailed");
}

#[test]
fn a_call_that_was_about_to_be_sent_waits_for_the_rebuilt_argument() {
    let mut play = Play::new();
    play.submit(call(1, 1, &[]), &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.check(from(2, reply(1, vec![stored_on(3)])), &[]);
    play.linger(&["return 5"]);
    play.submit(call(2, 0, &[object(1, 1)]), &["ask for lease 2"]);
    play.check(lost(1, 3), &["ask for lease 3"]);
    // The lease that was meant for the second call serves the rebuilding of its argument.
    play.granted(2, 6, 2, &["w2: begin lease", "w2: run t1 again", "cancel lease 3"]);
    play.check(from(2, reply(1, vec![inline("one")])), &["w2: run t2"]);
}

#[test]
fn a_put_cannot_be_made_again_and_a_broken_line_does_not_lose_it() {
    let mut play = Play::new();
    let value = OutgoingValue::Stored { size: 9, location: node(3) };
    play.check(Event::Put { id: object(1, 1), value, contained: vec![] }, &[]);
    // The connection to the node's daemon is gone; the only copy may well be there.
    play.check(Event::NodeLost { node: node(3).node_id }, &[]);
    assert!(play.value(object(1, 1)).contains("Stores"), "OWN-1");
    play.check(lost(1, 3), &[]);
    assert_eq!(play.value(object(1, 1)), "ReconstructionFailed");
}

/// F3.04: who has read an object has a copy, which is used when the one that is kept for the owner is lost.
#[test]
fn a_readers_copy_stands_in_for_a_lost_one() {
    let mut play = Play::new();
    let value = OutgoingValue::Stored { size: 9, location: node(3) };
    play.check(Event::Put { id: object(1, 1), value, contained: vec![] }, &[]);
    let copied = |on: u8| Frame::LocationAdded { object: object(1, 1), node: node(on) };
    play.check(from(4, copied(4)), &[]);
    play.check(from(5, copied(5)), &[]);
    play.check(from(5, copied(3)), &[]);
    // Only a connection is lost: the copies may have given way to others, so the kept one is not given up.
    play.check(Event::NodeLost { node: node(3).node_id }, &[]);
    play.check(Event::NodeDied { node: node(3).node_id, heir: None }, &["n4: keep t1.1"]);
    play.check(lost(1, 4), &["n5: keep t1.1"]);
    play.drop_ref(object(1, 1), &["free t1.1 on 2"]);
    play.is_empty();
}

/// F5.06: a node that was drained has given what it kept to another one; the copies of readers there are gone.
#[test]
fn what_a_node_kept_that_has_left_is_with_its_heir() {
    let mut play = Play::new();
    let put = |number, on: u8| {
        let value = OutgoingValue::Stored { size: 9, location: node(on) };
        Event::Put { id: object(number, 1), value, contained: vec![] }
    };
    play.check(put(1, 3), &[]);
    play.check(put(2, 4), &[]);
    let copied =
        |number, on: u8| Frame::LocationAdded { object: object(number, 1), node: node(on) };
    play.check(from(4, copied(1, 4)), &[]);
    play.check(from(4, copied(2, 3)), &[]);
    play.check(Event::NodeDied { node: node(3).node_id, heir: Some(node(4)) }, &[]);
    for number in [1, 2] {
        play.check(Event::NodeLost { node: node(4).node_id }, &[]);
        play.drop_ref(object(number, 1), &[&format!("free t{number}.1 on 1")]);
    }
    play.is_empty();
}

/// Copies of the lost value do not count as copies of the value that the next attempt makes.
#[test]
fn copies_of_a_value_that_was_lost_are_not_those_of_the_next() {
    let mut play = Play::new();
    play.submit(call(1, 2, &[]), &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.check(from(2, reply(1, vec![stored_on(3)])), &[]);
    let copied = |on: u8| Frame::LocationAdded { object: object(1, 1), node: node(on) };
    play.check(from(4, copied(4)), &[]);
    play.check(lost(1, 3), &["n4: keep t1.1"]);
    play.check(lost(1, 4), &["w2: run t1 again"]);
    play.check(from(5, copied(5)), &[]);
    play.check(from(2, reply(1, vec![stored_on(4)])), &[]);
    play.check(from(5, copied(5)), &[]);
    play.drop_ref(object(1, 1), &["free t1.1 on 3"]);
    play.linger(&["return 5"]);
    play.is_empty();
}

/// OWN-1: its worker found the argument gone and gave the call back.
#[test]
fn a_call_that_comes_back_for_want_of_an_argument_waits_until_it_is_made_again() {
    let mut play = Play::new();
    play.submit(call(1, 1, &[]), &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.check(from(2, reply(1, vec![stored_on(3)])), &[]);
    play.submit(call(2, 0, &[object(1, 1)]), &["w2: run t2"]);
    let lost = Frame::LocationLost { object: object(1, 1), node: node(3).node_id };
    play.check(from(2, lost), &["w2: run t1 again"]);
    play.check(from(2, Frame::Unstarted { tasks: vec![task(2)] }), &["ask for lease 2"]);
    play.check(from(2, reply(1, vec![stored_on(4)])), &["cancel lease 2", "w2: run t2"]);
}

/// OWN-1: what cannot go back, an actor's call, has its worker ask the argument's owner.
#[test]
fn an_argument_is_recovered_through_its_owner() {
    let mut play = Play::new();
    let recover =
        || Event::Recover { reference: Box::new(reference(1, 3)), gone: vec![node(9).node_id] };
    play.check(
        recover(),
        &["w3: AddBorrow t1.1 as 1", "w3: LocationLost t1.1", "w3: Resolve t1.1"],
    );
    play.check(from(3, Frame::BorrowAdded { number: 1 }), &[]);
    let answer = |on| Frame::Resolved { object: object(1, 1), returned: Some(stored_on(on)) };
    play.check(from(3, answer(8)), &[]);
    assert!(play.value(object(1, 1)).contains("Stores"), "OWN-1");
    // That copy is gone as well by the time it is fetched.
    let gone = Event::LocationLost { id: object(1, 1), node: node(8).node_id };
    play.check(gone, &["w3: LocationLost t1.1", "w3: Resolve t1.1"]);
    play.check(from(3, answer(7)), &[]);
    play.drop_ref(object(1, 1), &["w3: RemoveBorrow t1.1 as 1"]);
    play.is_empty();
}

/// A cancellation may cross a call that comes back.
#[test]
fn a_cancelled_call_that_comes_back_is_not_sent_again() {
    let mut play = Play::new();
    play.submit(call(1, 0, &[]), &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    let cancel = Event::Cancel { object: object(1, 1), force: false, recursive: false };
    play.check(cancel, &["w2: Cancel t1"]);
    play.check(from(2, Frame::Unstarted { tasks: vec![task(1)] }), &[]);
    assert_eq!(play.value(object(1, 1)), "TaskCancelled");
}

/// A chain of calls: what lies between its ends is made by calls that are remembered, and needs no room.
#[test]
fn the_bytes_between_the_calls_of_a_chain_go_and_are_made_again_in_order() {
    let mut play = Play::new();
    play.submit(call(1, 2, &[]), &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.check(from(2, reply(1, vec![stored_on(3)])), &[]);
    play.submit(call(2, 2, &[object(1, 1)]), &["w2: run t2"]);
    play.check(from(2, reply(2, vec![stored_on(3)])), &[]);
    play.drop_ref(object(1, 1), &["free t1.1 on 2"]);
    play.check(lost(2, 3), &["w2: run t1 again"]);
    play.check(from(2, reply(1, vec![stored_on(4)])), &["w2: run t2 again"]);
    play.check(from(2, reply(2, vec![stored_on(4)])), &["free t1.1 on 2"]);
    assert!(play.value(object(2, 1)).contains("Stores"));
    play.drop_ref(object(2, 1), &["free t2.1 on 2", "free t1.1 on 0"]);
    play.linger(&["return 5"]);
    play.is_empty();
}

/// A value that was put is kept for the calls that took it, and goes with them.
#[test]
fn what_was_put_for_a_call_stays_while_the_call_may_run_again() {
    let mut play = Play::new();
    let value = OutgoingValue::Stored { size: 9, location: node(3) };
    let of_put = task(9).object(helio_types::id::PUT_INDEX_BASE + 1);
    play.check(Event::Put { id: of_put, value, contained: vec![] }, &[]);
    play.submit(call(1, 2, &[of_put]), &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.check(from(2, reply(1, vec![stored_on(3)])), &[]);
    play.drop_ref(of_put, &[]);
    play.check(lost(1, 3), &["w2: run t1 again"]);
    play.check(from(2, reply(1, vec![stored_on(4)])), &[]);
    play.check(
        Event::DropRef { id: object(1, 1) },
        &["free t1.1 on 2", &format!("free {} on 2", super::o(of_put))],
    );
    play.linger(&["return 5"]);
    play.is_empty();
}

#[test]
fn a_long_chain_is_forgotten_without_a_deep_stack() {
    const N: u64 = 100_000;
    let mut play = Play::new();
    play.submit(call(1, 2, &[]), &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.check(from(2, reply(1, vec![stored_on(3)])), &[]);
    for number in 2..=N {
        let before = object(number - 1, 1);
        let spec = call(number, 2, &[before]);
        let target = Target::Class(play.class.clone());
        let spec = Arc::new(TaskSpec { target, ..spec });
        play.owner.apply(Event::Submit { spec }, play.now);
        play.owner.apply(Event::DropRef { id: before }, play.now);
        play.owner.apply(from(2, reply(number, vec![stored_on(3)])), play.now);
    }
    play.owner.apply(Event::DropRef { id: object(N, 1) }, play.now);
    play.linger(&["return 5"]);
    play.is_empty();
}

/// The reason says what kept the object from being made again.
#[test]
fn why_an_object_cannot_be_made_again_is_said() {
    let mut play = Play::new();
    let value = OutgoingValue::Stored { size: 9, location: node(3) };
    let of_put = task(9).object(helio_types::id::PUT_INDEX_BASE + 1);
    play.check(Event::Put { id: of_put, value, contained: vec![] }, &[]);
    play.check(Event::LocationLost { id: of_put, node: node(3).node_id }, &[]);
    assert!(play.reason(of_put).contains("`put`"), "{}", play.reason(of_put));
    for (number, retries, words) in [(1, 0, "max_retries=0"), (2, 1, "used up its retries")] {
        play.submit(call(number, retries, &[]), &[&format!("ask for lease {number}")]);
        play.granted(number, 5, 2, &["w2: begin lease", &format!("w2: run t{number}")]);
        play.check(from(2, reply(number, vec![stored_on(3)])), &[]);
        if retries > 0 {
            play.check(lost(number, 3), &[&format!("w2: run t{number} again")]);
            play.check(from(2, reply(number, vec![stored_on(3)])), &[]);
            play.now += 1_000_000;
        }
        play.check(lost(number, 3), &[]);
        let reason = play.reason(object(number, 1));
        assert!(reason.contains(words), "{reason}");
        play.linger(&["return 5"]);
    }
}

/// LIMIT-1: the remembered calls take so many bytes, then the oldest is forgotten.
#[test]
fn the_oldest_call_is_forgotten_when_the_remembered_ones_take_too_much() {
    for (bytes, forgotten) in [(usize::MAX, false), (1500, true), (0, true)] {
        let mut play = Play::new();
        play.owner.limit_lineage(bytes);
        play.submit(call(1, 1, &[]), &["ask for lease 1"]);
        play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
        play.check(from(2, reply(1, vec![stored_on(3)])), &[]);
        play.submit(call(2, 1, &[]), &["w2: run t2"]);
        play.check(from(2, reply(2, vec![stored_on(3)])), &[]);
        let again: &[&str] = if forgotten { &[] } else { &["w2: run t1 again"] };
        play.check(lost(1, 3), again);
        let failed = play.value(object(1, 1)) == "ReconstructionFailed";
        assert_eq!(failed, forgotten, "{bytes}");
    }
}
