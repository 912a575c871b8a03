//! References between processes: OWN-1.

use std::sync::Arc;

use helio_owner_state::{Event, Outcome};
use helio_proto::peer::{Frame, Reference, Returned, Value};

use super::{
    Play, call, from, inline, object, outgoing, put, reference, reply, stored_on, task, worker,
};

fn adopt(number: u64, owner: u8) -> Event {
    let Reference { id, owner } = reference(number, owner);
    Event::Adopt { owner: Arc::new(owner), ids: vec![id] }
}

fn added(number: u64) -> Frame<'static> {
    Frame::BorrowAdded { number }
}

fn finished(number: u64, caller: u8, returned: &[helio_types::ObjectId]) -> Event {
    let outcome = Outcome { returns: vec![outgoing("r", returned)], ..Outcome::default() };
    Event::Finished { task: task(number), caller: worker(caller), outcome }
}

#[test]
fn a_borrowed_reference_is_announced_resolved_and_given_back() {
    let mut play = Play::new();
    play.check(adopt(1, 2), &["w2: AddBorrow t1.1 as 1"]);
    play.check(Event::Watch { id: object(1, 1) }, &["w2: Resolve t1.1"]);
    play.check(from(2, added(1)), &[]);
    let resolved = Frame::Resolved { object: object(1, 1), returned: Some(inline("v")) };
    play.check(from(2, resolved), &[]);
    assert_eq!(play.value(object(1, 1)), "v");
    play.drop_ref(object(1, 1), &["w2: RemoveBorrow t1.1 as 1"]);
    play.is_empty();
}

#[test]
fn the_call_behind_a_borrowed_reference_is_cancelled_by_its_owner() {
    let mut play = Play::new();
    play.check(adopt(1, 2), &["w2: AddBorrow t1.1 as 1"]);
    let cancel = Event::Cancel { object: object(1, 1), force: false, recursive: true };
    play.check(cancel, &["w2: Cancel t1"]);
}

#[test]
fn an_owner_keeps_what_is_borrowed() {
    let mut play = Play::new();
    play.check(put(1, "v", &[]), &[]);
    play.check(
        from(2, Frame::AddBorrow { number: 7, object: object(1, 1) }),
        &["w2: BorrowAdded 7"],
    );
    play.drop_ref(object(1, 1), &[]);
    play.check(from(2, Frame::Resolve { object: object(1, 1) }), &["w2: Resolved t1.1"]);
    // The end of an older announcement is not the end of this one.
    play.check(from(2, Frame::RemoveBorrow { objects: vec![(object(1, 1), 6)] }), &[]);
    assert_eq!(play.value(object(1, 1)), "v", "OWN-1");
    play.check(from(2, Frame::RemoveBorrow { objects: vec![(object(1, 1), 7)] }), &[]);
    play.check(from(2, Frame::Resolve { object: object(1, 1) }), &["w2: Resolved t1.1 unknown"]);
    play.is_empty();
}

#[test]
fn a_reply_waits_until_a_third_partys_object_is_known_to_be_borrowed() {
    let mut play = Play::new();
    // A call of w3 brought a reference to an object of w2, and this process keeps it.
    play.check(adopt(1, 2), &["w2: AddBorrow t1.1 as 1"]);
    play.check(finished(5, 3, &[]), &[]);
    // A frame to w2 itself is behind the announcement on the same line.
    play.check(finished(6, 2, &[]), &["w2: Reply t6"]);
    // Frames to w3 keep their order, even one that has nothing to wait for itself.
    play.check(finished(7, 3, &[]), &[]);
    play.check(from(2, added(1)), &["w3: Reply t5", "w3: Reply t7"]);
}

/// A process that exits before its replies are written would make its caller take the call for
/// lost, and run it again.
#[test]
fn a_process_is_needed_until_its_answers_have_left() {
    let mut play = Play::new();
    play.check(adopt(1, 2), &["w2: AddBorrow t1.1 as 1"]);
    play.check(finished(5, 3, &[]), &[]);
    play.drop_ref(object(1, 1), &["w2: RemoveBorrow t1.1 as 1"]);
    assert!(play.owner.is_needed());
    play.check(from(2, added(1)), &["w3: Reply t5"]);
    assert!(!play.owner.is_needed());
    play.is_empty();
}

#[test]
fn a_dead_owner_opens_the_gate_and_ends_its_objects() {
    let mut play = Play::new();
    play.check(adopt(1, 2), &["w2: AddBorrow t1.1 as 1"]);
    play.check(finished(5, 3, &[]), &[]);
    play.check(Event::PeerLost { peer: worker(2) }, &["does w2 live"]);
    let dead = Event::Liveness { worker: worker(2).worker_id, dead: true };
    play.check(dead, &["w3: Reply t5"]);
    assert_eq!(play.value(object(1, 1)), "OwnerDied", "OWN-1");
    play.drop_ref(object(1, 1), &["w2: RemoveBorrow t1.1 as 1"]);
    play.is_empty();
}

/// LIMIT-1: the copies of what a dead process owned are freed by those who know of them.
#[test]
fn the_copies_of_what_a_dead_process_owned_are_freed() {
    let mut play = Play::new();
    play.check(adopt(1, 2), &["w2: AddBorrow t1.1 as 1"]);
    play.check(Event::Watch { id: object(1, 1) }, &["w2: Resolve t1.1"]);
    play.check(from(2, added(1)), &[]);
    let resolved = Frame::Resolved { object: object(1, 1), returned: Some(stored_on(3)) };
    play.check(from(2, resolved), &[]);
    play.check(Event::PeerLost { peer: worker(2) }, &["does w2 live"]);
    let dead = Event::Liveness { worker: worker(2).worker_id, dead: true };
    play.check(dead, &["free t1.1 on 1"]);
    assert_eq!(play.value(object(1, 1)), "OwnerDied", "OWN-1");
}

#[test]
fn a_living_peer_is_told_everything_again() {
    let mut play = Play::new();
    play.check(adopt(1, 2), &["w2: AddBorrow t1.1 as 1"]);
    play.check(from(2, added(1)), &[]);
    play.check(Event::Watch { id: object(1, 1) }, &["w2: Resolve t1.1"]);
    play.check(Event::PeerLost { peer: worker(2) }, &["does w2 live"]);
    let alive = Event::Liveness { worker: worker(2).worker_id, dead: false };
    let again = ["w2: AddBorrow t1.1 as 2", "w2: Resolve t1.1", "w2: BorrowsComplete since 2"];
    play.check(alive, &again);
    // The peer notices later: what it had answered meanwhile went into the broken line.
    let complete = from(2, Frame::BorrowsComplete { since: 1 });
    play.check(complete, &["w2: AddBorrow t1.1 as 2", "w2: Resolve t1.1"]);
}

#[test]
fn announcements_that_are_not_repeated_are_void() {
    let mut play = Play::new();
    play.check(put(1, "v", &[]), &[]);
    play.check(
        from(2, Frame::AddBorrow { number: 1, object: object(1, 1) }),
        &["w2: BorrowAdded 1"],
    );
    play.drop_ref(object(1, 1), &[]);
    play.check(from(2, Frame::BorrowsComplete { since: 2 }), &[]);
    play.is_empty();
}

#[test]
fn what_a_return_contains_is_held_until_the_caller_holds_it() {
    let mut play = Play::new();
    play.check(put(1, "inner", &[]), &[]);
    play.check(finished(5, 3, &[object(1, 1)]), &["w3: Reply t5"]);
    play.drop_ref(object(1, 1), &[]);
    assert_eq!(play.value(object(1, 1)), "inner", "OWN-1: in transit");
    play.check(
        from(3, Frame::AddBorrow { number: 1, object: object(1, 1) }),
        &["w3: BorrowAdded 1"],
    );
    play.check(from(3, Frame::ReturnsHeld { task: task(5) }), &[]);
    assert_eq!(play.value(object(1, 1)), "inner", "OWN-1: borrowed");
    play.check(from(3, Frame::RemoveBorrow { objects: vec![(object(1, 1), 1)] }), &[]);
    play.is_empty();
}

#[test]
fn a_caller_says_that_it_holds_a_third_partys_reference_when_its_owner_knows() {
    let mut play = Play::new();
    play.submit(call(1, 0, &[]), &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    let returned =
        Returned { value: Value::Inline(b"r".to_vec()), contained: vec![reference(9, 3)] };
    play.check(from(2, reply(1, vec![returned])), &["w3: AddBorrow t9.1 as 1"]);
    play.check(from(3, added(1)), &["w2: ReturnsHeld t1"]);
    play.drop_ref(object(1, 1), &["w3: RemoveBorrow t9.1 as 1"]);
    play.linger(&["return 5"]);
    play.is_empty();
}

#[test]
fn a_dead_borrower_holds_nothing() {
    let mut play = Play::new();
    play.check(put(1, "v", &[]), &[]);
    play.check(
        from(2, Frame::AddBorrow { number: 1, object: object(1, 1) }),
        &["w2: BorrowAdded 1"],
    );
    play.drop_ref(object(1, 1), &[]);
    play.check(Event::PeerLost { peer: worker(2) }, &["does w2 live"]);
    play.check(Event::Liveness { worker: worker(2).worker_id, dead: true }, &[]);
    play.is_empty();
}

/// OWN-1: the answer to a call that a caller made again after the connection broke is no answer of before.
#[test]
fn an_answer_that_waits_behind_a_borrow_outlives_the_news_that_its_caller_lives() {
    let mut play = Play::new();
    play.check(adopt(1, 2), &["w2: AddBorrow t1.1 as 1"]);
    play.check(finished(5, 3, &[]), &[]);
    play.check(Event::PeerLost { peer: worker(3) }, &["does w3 live"]);
    play.check(finished(6, 3, &[]), &[]);
    let alive = Event::Liveness { worker: worker(3).worker_id, dead: false };
    play.check(alive, &["w3: BorrowsComplete since 2"]);
    play.check(from(2, added(1)), &["w3: Reply t6"]);
    play.drop_ref(object(1, 1), &["w2: RemoveBorrow t1.1 as 1"]);
    play.is_empty();
}

/// OWN-1: the announcement was lost with the connection, so its repetition is what the answer waits for.
#[test]
fn an_answer_waits_for_a_borrow_that_is_announced_again() {
    let mut play = Play::new();
    play.check(adopt(1, 2), &["w2: AddBorrow t1.1 as 1"]);
    play.check(finished(5, 3, &[]), &[]);
    play.check(Event::PeerLost { peer: worker(2) }, &["does w2 live"]);
    let alive = Event::Liveness { worker: worker(2).worker_id, dead: false };
    play.check(alive, &["w2: AddBorrow t1.1 as 2", "w2: BorrowsComplete since 2"]);
    play.check(from(2, added(1)), &[]);
    play.check(from(2, added(2)), &["w3: Reply t5"]);
    play.drop_ref(object(1, 1), &["w2: RemoveBorrow t1.1 as 2"]);
    play.is_empty();
}

/// OWN-1: that the caller lives lets go of what it was sent before the break, and of nothing else.
#[test]
fn what_a_second_answer_contains_is_held_when_the_first_was_lost() {
    let mut play = Play::new();
    play.check(put(1, "inner", &[]), &[]);
    play.check(finished(5, 3, &[object(1, 1)]), &["w3: Reply t5"]);
    play.check(Event::PeerLost { peer: worker(3) }, &["does w3 live"]);
    play.check(finished(5, 3, &[object(1, 1)]), &["w3: Reply t5"]);
    play.drop_ref(object(1, 1), &[]);
    let alive = Event::Liveness { worker: worker(3).worker_id, dead: false };
    play.check(alive, &["w3: BorrowsComplete since 1"]);
    assert_eq!(play.value(object(1, 1)), "inner", "OWN-1: in transit");
    let add = Frame::AddBorrow { number: 1, object: object(1, 1) };
    play.check(from(3, add), &["w3: BorrowAdded 1"]);
    play.check(from(3, Frame::ReturnsHeld { task: task(5) }), &[]);
    assert_eq!(play.value(object(1, 1)), "inner", "OWN-1: borrowed");
    play.check(from(3, Frame::RemoveBorrow { objects: vec![(object(1, 1), 1)] }), &[]);
    play.is_empty();
}
