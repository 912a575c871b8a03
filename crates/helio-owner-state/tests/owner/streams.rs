//! Generators.

use std::sync::Arc;

use helio_owner_state::{Event, TaskSpec};
use helio_proto::peer::{Frame, Returned, STREAMING, Value};
use helio_proto::template::Template;
use helio_types::{DeathCause, DeathKind, LeaseId};

use super::{Play, call, from, inline, node, object, reference, stored_on, task};

fn item(index: u32, returned: Returned) -> Event {
    from(2, Frame::Item { task: task(1), index, returned })
}

fn ended(items: u32) -> Event {
    let returns = vec![inline("")];
    from(
        2,
        Frame::Reply {
            task: task(1),
            failed: false,
            retryable: false,
            leaving: false,
            items,
            returns,
        },
    )
}

fn begin(play: &mut Play) {
    play.submit(TaskSpec { returns: STREAMING, ..call(1, 0, &[]) }, &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
}

#[test]
fn items_come_in_order_and_the_unread_ones_go_with_the_stream() {
    let mut play = Play::new();
    begin(&mut play);
    play.check(item(0, inline("a")), &[]);
    play.check(item(1, inline("b")), &[]);
    // A second attempt repeats what the first had yielded.
    play.check(item(0, inline("again")), &[]);
    play.check(Event::StreamRead { task: task(1), index: 0 }, &[]);
    assert_eq!(play.value(object(1, 2)), "a");
    play.check(ended(2), &["w2: ReturnsHeld t1"]);
    play.check(Event::StreamDropped { task: task(1) }, &[]);
    assert!(play.owner.object(&object(1, 3)).is_none(), "LIMIT-1: nobody read it");
    play.drop_ref(object(1, 2), &[]);
    play.drop_ref(object(1, 1), &[]);
    play.linger(&["return 5"]);
    play.is_empty();
}

#[test]
fn a_stream_is_cancelled_when_its_reader_leaves_it() {
    let mut play = Play::new();
    begin(&mut play);
    play.check(item(0, inline("a")), &[]);
    play.check(Event::StreamRead { task: task(1), index: 0 }, &[]);
    play.check(Event::StreamDropped { task: task(1) }, &["w2: Cancel t1"]);
}

#[test]
fn a_stream_that_was_never_read_runs_to_its_end() {
    let mut play = Play::new();
    begin(&mut play);
    play.check(item(0, inline("a")), &[]);
    play.check(Event::StreamDropped { task: task(1) }, &[]);
    play.check(item(1, inline("b")), &[]);
    play.check(ended(2), &["w2: ReturnsHeld t1"]);
    play.drop_ref(object(1, 1), &[]);
    play.linger(&["return 5"]);
    play.is_empty();
}

#[test]
fn references_in_items_are_held_and_their_executor_may_let_go_at_the_end() {
    let mut play = Play::new();
    begin(&mut play);
    let with = Returned { value: Value::Inline(b"a".to_vec()), contained: vec![reference(9, 3)] };
    play.check(item(0, with), &["w3: AddBorrow t9.1 as 1"]);
    play.check(ended(1), &[]);
    play.check(from(3, Frame::BorrowAdded { number: 1 }), &["w2: ReturnsHeld t1"]);
}

#[test]
fn a_second_attempt_hears_how_far_the_reader_has_come() {
    let mut play = Play::new();
    let bounded = Arc::new(Template { name: "f".into(), backpressure: 2, ..Template::default() });
    let spec = TaskSpec { returns: STREAMING, template: bounded, ..call(1, 3, &[]) };
    play.submit(spec, &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.check(item(0, inline("a")), &[]);
    play.check(Event::StreamRead { task: task(1), index: 0 }, &["w2: Consumed 1"]);
    play.check(item(1, inline("b")), &[]);
    let cause = DeathCause::new(DeathKind::Signaled, "killed");
    let lost =
        Event::LeaseLost { node: node(1).node_id, lease: LeaseId(5), cause: Box::new(cause) };
    play.check(lost, &["ask for lease 2"]);
    play.granted(2, 6, 2, &["w2: begin lease", "w2: run t1 again"]);
    play.check(item(0, inline("a")), &["w2: Consumed 1"]);
    play.check(Event::StreamRead { task: task(1), index: 1 }, &["w2: Consumed 2"]);
    // An item that the first attempt had stored elsewhere is one more copy, freed with the rest.
    play.check(item(1, stored_on(4)), &["w2: Consumed 2"]);
    play.check(item(2, stored_on(4)), &[]);
    // More may lie where the first attempt ran: nobody has heard of it.
    play.check(ended(3), &["free t1.5 and what follows on 1", "w2: ReturnsHeld t1"]);
}

/// OWN-1: the line broke while the generator ran, and its end came over the next one. A reader would wait
/// for the items in between for ever (simulated seed 325087).
#[test]
fn a_generator_whose_items_were_lost_on_the_way_is_run_again() {
    let mut play = Play::new();
    play.submit(TaskSpec { returns: STREAMING, ..call(1, 1, &[]) }, &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.check(item(0, inline("a")), &[]);
    play.check(item(2, inline("c")), &[]);
    play.check(ended(3), &["w2: run t1 again", "w2: ReturnsHeld t1"]);
    play.check(item(1, inline("b")), &[]);
    // Once more, and no retry is left. What it has written of which the news was lost goes.
    play.check(ended(3), &["free t1.2 and what follows on 1", "w2: ReturnsHeld t1"]);
    assert_eq!(play.value(object(1, 4)), "WorkerCrashed");
}

/// OWN-1: the generator that still runs does not yield it once more, and may not run again (simulated seed
/// 311258). It may wait for its reader, and its reader for the item (simulated seed 11026248).
#[test]
fn a_lost_item_of_a_running_generator_without_retries_is_given_up_at_once() {
    let mut play = Play::new();
    begin(&mut play);
    play.check(item(0, stored_on(4)), &[]);
    play.check(Event::StreamRead { task: task(1), index: 0 }, &[]);
    play.check(Event::LocationLost { id: object(1, 2), node: node(4).node_id }, &[]);
    assert_eq!(play.value(object(1, 2)), "ReconstructionFailed");
    play.check(ended(1), &["w2: ReturnsHeld t1"]);
    play.drop_ref(object(1, 2), &["free t1.2 on 1"]);
    play.check(Event::StreamDropped { task: task(1) }, &[]);
    play.drop_ref(object(1, 1), &[]);
    play.linger(&["return 5"]);
    play.is_empty();
}

/// An item of a generator that still runs, and may not run once more, is an argument of a call that does.
#[test]
fn an_item_that_is_there_serves_the_call_that_is_made_again() {
    let mut play = Play::new();
    begin(&mut play);
    play.check(item(0, stored_on(3)), &[]);
    play.check(Event::StreamRead { task: task(1), index: 0 }, &[]);
    play.submit(call(2, 2, &[object(1, 2)]), &["ask for lease 2"]);
    play.granted(2, 6, 4, &["w4: begin lease", "w4: run t2"]);
    play.check(from(4, super::reply(2, vec![stored_on(4)])), &[]);
    let lost = Event::LocationLost { id: object(2, 1), node: node(4).node_id };
    play.check(lost, &["w4: run t2 again"]);
    assert!(play.value(object(1, 2)).contains("Stores"));
}
