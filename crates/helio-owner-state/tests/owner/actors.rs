//! Actors: creation, restarts, ends.

use std::sync::Arc;

use helio_owner_state::{CallArgs, Creation, Event, Retry, Target, TaskSpec, handle_object};
use helio_proto::control::{ActorPhase, ActorSpec};
use helio_proto::template::{CallKind, Template};
use helio_types::ObjectId;

use super::{Play, actor, call, create_actor, from, inline, news, object, reply, worker};

fn method(play: &mut Play, number: u64, retries: i32, expected: &[&str]) {
    let spec = TaskSpec {
        target: Target::Actor(actor()),
        retry: Retry { max: retries, on_error: false },
        handle: Some(handle_object(actor())),
        ..call(number, 0, &[])
    };
    play.check(Event::Submit { spec: Arc::new(spec) }, expected);
}

#[test]
fn calls_wait_for_the_actor_and_run_in_order() {
    let mut play = Play::new();
    let handle = create_actor(&mut play);
    method(&mut play, 1, 0, &[]);
    method(&mut play, 2, 0, &[]);
    play.check(news(ActorPhase::Alive, 0, 2), &["w2: run t1", "w2: run t2"]);
    // The last handle goes; the calls keep the actor.
    play.drop_ref(handle, &[]);
    play.check(from(2, reply(1, vec![inline("one")])), &[]);
    play.check(from(2, reply(2, vec![inline("two")])), &["KillActor"]);
    play.check(news(ActorPhase::Dead, 0, 2), &["UnsubscribeActor"]);
    play.drop_ref(object(1, 1), &[]);
    play.drop_ref(object(2, 1), &[]);
    play.is_empty();
}

#[test]
fn a_restart_runs_again_what_has_retries_before_what_was_never_sent() {
    let mut play = Play::new();
    create_actor(&mut play);
    play.check(news(ActorPhase::Alive, 0, 2), &[]);
    method(&mut play, 1, 0, &["w2: run t1"]);
    method(&mut play, 2, 1, &["w2: run t2"]);
    play.check(news(ActorPhase::Restarting, 1, 2), &[]);
    assert_eq!(play.value(object(1, 1)), "ActorUnavailable", "no retries");
    method(&mut play, 3, 1, &[]);
    play.check(news(ActorPhase::Alive, 1, 4), &["w4: run t2 again", "w4: run t3"]);
}

/// OWN-1: what was to go over a connection that could not be made has not begun. `make chaos` found that: the machine of the
/// driver was cut off for 3.9 s.
#[test]
fn calls_wait_while_no_connection_can_be_made_to_their_actor() {
    let mut play = Play::new();
    create_actor(&mut play);
    play.check(news(ActorPhase::Alive, 0, 2), &[]);
    method(&mut play, 1, 0, &["w2: run t1"]);
    method(&mut play, 2, 0, &["w2: run t2"]);
    play.check(Event::PeerUnreached { peer: worker(2).worker_id }, &[]);
    play.check(Event::PeerLost { peer: worker(2) }, &["subscribe", "does w2 live"]);
    method(&mut play, 3, 0, &[]);
    play.now += 5_000_000;
    play.check(Event::Tick, &["w2: run t1", "w2: run t2", "w2: run t3"]);
    // Over the connection that breaks now they can have arrived.
    play.check(Event::PeerLost { peer: worker(2) }, &["subscribe"]);
    play.check(Event::PeerUnreached { peer: worker(2).worker_id }, &[]);
    play.now += 5_000_000;
    play.check(Event::Tick, &[]);
    assert_eq!(play.value(object(1, 1)), "ActorUnavailable");
}

#[test]
fn calls_without_retries_do_not_wait_for_a_restart() {
    let mut play = Play::new();
    create_actor(&mut play);
    // The first start is none.
    method(&mut play, 1, 0, &[]);
    play.check(news(ActorPhase::Alive, 0, 2), &["w2: run t1"]);
    awaited(&mut play);
    let waits = |number| called(number, 0, &[object(9, 1)], Template::default());
    play.check(Event::Submit { spec: waits(2) }, &[]);
    method(&mut play, 3, 0, &[]);
    method(&mut play, 4, -1, &[]);
    // One waits for an argument and holds back the others; all but it can be judged.
    play.check(news(ActorPhase::Restarting, 1, 2), &[]);
    assert_eq!(play.value(object(1, 1)), "ActorUnavailable", "it ran");
    assert_eq!(play.value(object(3, 1)), "ActorUnavailable", "it would have to wait");
    method(&mut play, 5, 0, &[]);
    assert_eq!(play.value(object(5, 1)), "ActorUnavailable");
    play.check(from(7, reply(9, vec![inline("nine")])), &[]);
    assert_eq!(play.value(object(2, 1)), "ActorUnavailable", "its argument came meanwhile");
    play.check(news(ActorPhase::Alive, 1, 4), &["w4: run t4"]);
    method(&mut play, 6, 0, &["w4: run t6"]);
}

#[test]
fn calls_wait_for_a_first_constructor_that_begins_again() {
    let mut play = Play::new();
    create_actor(&mut play);
    method(&mut play, 1, 0, &[]);
    play.check(news(ActorPhase::Restarting, 1, 2), &[]);
    method(&mut play, 2, 0, &[]);
    assert_eq!(play.value(object(2, 1)), "ActorUnavailable", "it was called after the end");
    play.check(news(ActorPhase::Alive, 1, 4), &["w4: run t1"]);
    play.check(news(ActorPhase::Restarting, 2, 4), &[]);
    assert_eq!(play.value(object(1, 1)), "ActorUnavailable", "it ran");
}

/// Task 9 runs.
fn awaited(play: &mut Play) {
    play.submit(call(9, 0, &[]), &["ask for lease 1"]);
    play.granted(1, 5, 7, &["w7: begin lease", "w7: run t9"]);
}

fn called(number: u64, retries: i32, deps: &[ObjectId], template: Template) -> Arc<TaskSpec> {
    Arc::new(TaskSpec {
        target: Target::Actor(actor()),
        retry: Retry { max: retries, on_error: false },
        handle: Some(handle_object(actor())),
        template: Arc::new(Template { kind: CallKind::Method, ..template }),
        ..call(number, 0, deps)
    })
}

#[test]
fn a_call_that_lacks_its_argument_holds_back_no_other_of_an_actor_in_any_order() {
    let unordered = || Template { is_unordered: true, ..Template::default() };
    let mut play = Play::new();
    create_actor(&mut play);
    play.check(news(ActorPhase::Alive, 0, 2), &[]);
    awaited(&mut play);
    play.check(Event::Submit { spec: called(1, 1, &[object(9, 1)], unordered()) }, &[]);
    play.check(Event::Submit { spec: called(2, 1, &[], unordered()) }, &["w2: run t2"]);
    play.check(from(7, reply(9, vec![inline("nine")])), &["w2: run t1"]);
    // Calls that were sent go again in the order in which they were sent.
    play.check(news(ActorPhase::Restarting, 1, 2), &[]);
    play.check(news(ActorPhase::Alive, 1, 4), &["w4: run t2 again", "w4: run t1 again"]);
}

#[test]
fn a_call_that_lacks_its_argument_holds_back_its_concurrency_group() {
    let group = |name: &str| Template { concurrency_group: name.to_owned(), ..Template::default() };
    let mut play = Play::new();
    create_actor(&mut play);
    play.check(news(ActorPhase::Alive, 0, 2), &[]);
    awaited(&mut play);
    play.check(Event::Submit { spec: called(1, 0, &[object(9, 1)], group("io")) }, &[]);
    play.check(Event::Submit { spec: called(2, 0, &[], group("")) }, &["w2: run t2"]);
    play.check(Event::Submit { spec: called(3, 0, &[], group("io")) }, &[]);
    play.check(Event::Submit { spec: called(4, 0, &[], group("cpu")) }, &["w2: run t4"]);
    play.check(from(7, reply(9, vec![inline("nine")])), &["w2: run t1", "w2: run t3"]);
}

#[test]
fn a_cancelled_call_that_holds_back_no_other_leaves_nothing() {
    let unordered = Template { is_unordered: true, ..Template::default() };
    let mut play = Play::new();
    create_actor(&mut play);
    play.check(news(ActorPhase::Alive, 0, 2), &[]);
    awaited(&mut play);
    play.check(Event::Submit { spec: called(1, 0, &[object(9, 1)], unordered) }, &[]);
    let cancel = Event::Cancel { object: object(1, 1), force: false, recursive: false };
    play.check(cancel, &[]);
    assert_eq!(play.value(object(1, 1)), "TaskCancelled");
    let left = play.owner.actor(&actor()).map(helio_owner_state::Actor::pending_calls);
    assert_eq!(left, Some(0));
}

#[test]
fn nothing_is_sent_to_an_actor_that_was_killed_from_here() {
    let mut play = Play::new();
    create_actor(&mut play);
    play.check(news(ActorPhase::Alive, 0, 2), &[]);
    method(&mut play, 1, 3, &["w2: run t1"]);
    play.check(Event::KillActor { actor: actor(), no_restart: true }, &["KillActor"]);
    method(&mut play, 2, 3, &[]);
    play.check(news(ActorPhase::Alive, 0, 2), &[]);
    play.check(news(ActorPhase::Dead, 0, 2), &[]);
    assert_eq!(play.value(object(1, 1)), "ActorDied");
    assert_eq!(play.value(object(2, 1)), "ActorDied");
}

#[test]
fn a_kill_that_may_restart_holds_nothing_back() {
    let mut play = Play::new();
    create_actor(&mut play);
    play.check(news(ActorPhase::Alive, 0, 2), &[]);
    play.check(Event::KillActor { actor: actor(), no_restart: false }, &["KillActor"]);
    method(&mut play, 1, 0, &["w2: run t1"]);
}

#[test]
fn an_actor_that_waits_for_its_arguments_can_be_killed() {
    let mut play = Play::new();
    play.check(Event::Expect { id: object(9, 0) }, &[]);
    let spec = ActorSpec { actor_id: actor(), ..ActorSpec::default() };
    let args = CallArgs { deps: vec![object(9, 0)], ..CallArgs::default() };
    let creation = Creation { spec, args, handle: Some(handle_object(actor())) };
    play.check(Event::CreateActor { creation: Box::new(creation) }, &[]);
    method(&mut play, 1, 0, &[]);
    play.check(Event::KillActor { actor: actor(), no_restart: true }, &[]);
    assert_eq!(play.value(object(1, 1)), "ActorDied");
}

#[test]
fn a_dead_actor_fails_its_calls_and_is_forgotten_with_its_handle() {
    let mut play = Play::new();
    let handle = create_actor(&mut play);
    play.check(news(ActorPhase::Alive, 0, 2), &[]);
    method(&mut play, 1, -1, &["w2: run t1"]);
    play.check(news(ActorPhase::Dead, 0, 2), &[]);
    assert_eq!(play.value(object(1, 1)), "ActorDied", "OWN-1");
    method(&mut play, 2, 0, &[]);
    assert_eq!(play.value(object(2, 1)), "ActorDied");
    play.drop_ref(object(1, 1), &["free t1.1 on 1"]);
    play.drop_ref(object(2, 1), &[]);
    play.drop_ref(handle, &["UnsubscribeActor"]);
    play.is_empty();
}

#[test]
fn a_borrowed_handle_leaves_nothing_behind() {
    let mut play = Play::new();
    let handle = handle_object(actor());
    let adopted = Event::Adopt { owner: worker(5), ids: vec![handle] };
    play.check(adopted, &["w5: AddBorrow t0.0 as 1"]);
    play.check(Event::KnowActor { actor: actor(), handle: Some(handle) }, &[]);
    play.check(from(5, helio_proto::peer::Frame::BorrowAdded { number: 1 }), &[]);
    play.drop_ref(handle, &["w5: RemoveBorrow t0.0 as 1"]);
    play.is_empty();
}

/// LIMIT-1
#[test]
fn an_actor_that_was_looked_up_and_killed_is_forgotten_with_its_end() {
    let mut play = Play::new();
    play.check(Event::KnowActor { actor: actor(), handle: None }, &[]);
    let kill = Event::KillActor { actor: actor(), no_restart: true };
    play.check(kill, &["KillActor", "subscribe"]);
    play.check(news(ActorPhase::Alive, 0, 2), &[]);
    let target = Target::Actor(actor());
    play.check(Event::Submit { spec: Arc::new(TaskSpec { target, ..call(1, 3, &[]) }) }, &[]);
    play.check(news(ActorPhase::Dead, 0, 2), &["UnsubscribeActor"]);
    assert_eq!(play.value(object(1, 1)), "ActorDied");
    play.drop_ref(object(1, 1), &[]);
    play.is_empty();
}

/// LIMIT-1
#[test]
fn an_actor_that_was_looked_up_and_not_called_leaves_nothing_behind() {
    let mut play = Play::new();
    play.check(Event::KnowActor { actor: actor(), handle: None }, &[]);
    play.is_empty();
}

/// A cancelled call held back those behind it, and nothing else would have sent them (simulated seed 326150).
#[test]
fn calls_behind_a_cancelled_one_that_waited_for_its_arguments_go_on() {
    let mut play = Play::new();
    create_actor(&mut play);
    play.check(news(ActorPhase::Alive, 0, 2), &[]);
    play.submit(call(9, 0, &[]), &["ask for lease 1"]);
    let target = Target::Actor(actor());
    let waits = TaskSpec { target, ..call(1, 0, &[object(9, 1)]) };
    play.check(Event::Submit { spec: Arc::new(waits) }, &[]);
    method(&mut play, 2, 0, &[]);
    let cancel = Event::Cancel { object: object(1, 1), force: false, recursive: false };
    play.check(cancel, &["w2: run t2"]);
    assert_eq!(play.value(object(1, 1)), "TaskCancelled");
}

/// OWN-1: the control service was restarted, and knows of an actor that had been restarted only that it is
/// over.
#[test]
fn calls_of_a_forgotten_actor_end_though_it_was_restarted() {
    let mut play = Play::new();
    let handle = create_actor(&mut play);
    play.check(news(ActorPhase::Alive, 0, 2), &[]);
    play.check(news(ActorPhase::Alive, 1, 4), &[]);
    method(&mut play, 1, 0, &["w4: run t1"]);
    play.check(news(ActorPhase::Dead, 0, 4), &[]);
    assert_eq!(play.value(object(1, 1)), "ActorDied");
    play.drop_ref(object(1, 1), &["free t1.1 on 1"]);
    play.drop_ref(handle, &["UnsubscribeActor"]);
    play.is_empty();
}
