//! F3.13: lost items of generators, lost results of methods, and calls with values of both kinds.

use std::sync::Arc;

use helio_owner_state::{Event, Retry, Target, TaskSpec};
use helio_proto::control::ActorPhase;
use helio_proto::peer::{Frame, Returned, STREAMING, Value};
use helio_proto::template::Template;
use helio_types::ObjectId;

use super::{
    Play, actor, call, create_actor, from, inline, news, node, object, reply, stored_on, task,
};

fn item(index: u32, returned: Returned) -> Event {
    from(2, Frame::Item { task: task(1), index, returned })
}

fn ended(items: u32) -> Event {
    end(items, false, inline(""))
}

fn end(items: u32, failed: bool, value: Returned) -> Event {
    let (retryable, leaving) = (false, false);
    let returns = vec![value];
    from(2, Frame::Reply { task: task(1), failed, retryable, leaving, items, returns })
}

fn lost(id: ObjectId, on: u8) -> Event {
    Event::LocationLost { id, node: node(on).node_id }
}

fn generator(play: &mut Play, retries: i32, backpressure: u32) {
    let template = Arc::new(Template { name: "f".into(), backpressure, ..Template::default() });
    let spec = TaskSpec { returns: STREAMING, template, ..call(1, retries, &[]) };
    play.submit(spec, &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
}

/// A generator that has ended, with two stored items that were read and one small one that was not.
fn finished(play: &mut Play, retries: i32) {
    generator(play, retries, 0);
    play.check(item(0, stored_on(3)), &[]);
    play.check(item(1, stored_on(3)), &[]);
    play.check(item(2, inline("c")), &[]);
    play.check(ended(3), &["w2: ReturnsHeld t1"]);
    for index in 0..2 {
        play.check(Event::StreamRead { task: task(1), index }, &[]);
    }
}

/// The call has ended by its cancellation.
fn cancelled() -> Event {
    end(0, true, Returned { value: Value::Error(b"cancelled".to_vec()), contained: vec![] })
}

#[test]
fn a_finished_generator_runs_again_for_the_items_that_were_lost() {
    for reader_is_gone in [false, true] {
        let mut play = Play::new();
        finished(&mut play, 1);
        if reader_is_gone {
            play.check(Event::StreamDropped { task: task(1) }, &[]);
            play.drop_ref(object(1, 1), &[]);
        }
        play.check(lost(object(1, 2), 3), &["w2: run t1 again"]);
        // The other copy is found to be lost while the generator runs.
        play.check(lost(object(1, 3), 3), &[]);
        play.check(item(0, stored_on(4)), &[]);
        play.check(item(1, stored_on(4)), &[]);
        play.check(item(2, inline("c")), &[]);
        // The call yields more than it did: nobody is told of that.
        play.check(item(3, stored_on(4)), &["free t1.5 on 1"]);
        play.check(ended(4), &["w2: ReturnsHeld t1"]);
        assert!(play.value(object(1, 2)).contains("Stores"));
        assert!(play.value(object(1, 3)).contains("Stores"));
        let total = play.owner.stream(&task(1)).map(|stream| (stream.arrived, stream.total));
        assert_eq!(total, (!reader_is_gone).then_some((3, Some(3))));
        // Its retry is used up.
        play.now += 1_000_000;
        play.check(lost(object(1, 3), 4), &[]);
        let reason = play.reason(object(1, 3));
        assert!(reason.contains("used up its retries"), "{reason}");
        play.drop_ref(object(1, 2), &["free t1.2 on 2"]);
        play.drop_ref(object(1, 3), &["free t1.3 on 2"]);
        if !reader_is_gone {
            play.check(Event::StreamDropped { task: task(1) }, &[]);
            play.drop_ref(object(1, 1), &[]);
        }
        play.linger(&["return 5"]);
        play.is_empty();
    }
}

#[test]
fn what_is_remembered_of_a_generator_goes_with_its_last_stored_item() {
    let mut play = Play::new();
    finished(&mut play, 1);
    assert_eq!(play.owner.tables().lineages, 1);
    play.drop_ref(object(1, 2), &["free t1.2 on 1"]);
    play.drop_ref(object(1, 1), &[]);
    assert_eq!(play.owner.tables().lineages, 1);
    play.drop_ref(object(1, 3), &["free t1.3 on 1"]);
    assert_eq!(play.owner.tables().lineages, 0, "LIMIT-1");
    play.check(Event::StreamDropped { task: task(1) }, &[]);
    play.linger(&["return 5"]);
    play.is_empty();
}

#[test]
fn a_generator_without_retries_says_so_of_its_items() {
    let mut play = Play::new();
    finished(&mut play, 0);
    play.check(lost(object(1, 2), 3), &[]);
    let reason = play.reason(object(1, 2));
    assert!(reason.contains("max_retries=0"), "{reason}");
}

#[test]
fn a_cancelled_generator_does_not_run_again() {
    let mut play = Play::new();
    generator(&mut play, 3, 0);
    play.check(item(0, stored_on(3)), &[]);
    play.check(Event::StreamRead { task: task(1), index: 0 }, &[]);
    let cancel = Event::Cancel { object: object(1, 1), force: false, recursive: false };
    play.check(cancel, &["w2: Cancel t1"]);
    play.check(end(1, true, inline("cancelled")), &["w2: ReturnsHeld t1"]);
    play.check(lost(object(1, 2), 3), &[]);
    let reason = play.reason(object(1, 2));
    assert!(reason.contains("cancelled"), "{reason}");
}

/// A generator that raised at its end gives its items again, and its error is where it was.
#[test]
fn a_generator_that_raised_runs_again_for_its_items() {
    let mut play = Play::new();
    generator(&mut play, 1, 0);
    let raised = || Returned { value: Value::Error(b"raised".to_vec()), contained: vec![] };
    play.check(item(0, stored_on(3)), &[]);
    play.check(end(0, true, raised()), &["w2: ReturnsHeld t1"]);
    play.check(lost(object(1, 2), 3), &["w2: run t1 again"]);
    play.check(item(0, stored_on(4)), &[]);
    play.check(end(0, true, raised()), &["w2: ReturnsHeld t1"]);
    assert!(play.value(object(1, 2)).contains("Stores"));
    assert_eq!(play.value(object(1, 3)), "user error");
    let stream = play.owner.stream(&task(1)).map(|stream| (stream.arrived, stream.total));
    assert_eq!(stream, Some((2, Some(2))));
}

/// The exception of a generator's second attempt stands for the items that the attempt did not come to.
#[test]
fn a_generator_that_raises_when_it_runs_again_fails_the_items_it_does_not_bring() {
    for (failed, expected) in [(true, "user error"), (false, "ReconstructionFailed")] {
        let mut play = Play::new();
        finished(&mut play, -1);
        play.check(lost(object(1, 2), 3), &["w2: run t1 again"]);
        play.check(lost(object(1, 3), 3), &[]);
        play.check(item(0, stored_on(4)), &[]);
        let value = Returned { value: Value::Error(b"raised".to_vec()), contained: vec![] };
        let value = if failed { value } else { inline("") };
        play.check(end(1, failed, value), &["w2: ReturnsHeld t1"]);
        assert!(play.value(object(1, 2)).contains("Stores"));
        assert_eq!(play.value(object(1, 3)), expected, "and it is not run for ever");
    }
}

/// An item came and was lost again before the generator's end.
#[test]
fn an_item_that_was_lost_while_its_generator_ran_is_made_again_after_its_end() {
    let mut play = Play::new();
    generator(&mut play, 1, 0);
    play.check(item(0, stored_on(4)), &[]);
    play.check(Event::StreamRead { task: task(1), index: 0 }, &[]);
    play.check(lost(object(1, 2), 4), &[]);
    play.check(ended(1), &["w2: run t1 again", "w2: ReturnsHeld t1"]);
    play.check(item(0, stored_on(3)), &[]);
    play.check(ended(1), &["w2: ReturnsHeld t1"]);
    assert!(play.value(object(1, 2)).contains("Stores"));
}

/// OWN-1: the reader waits for the item, which comes when the generator runs again, and the generator would
/// wait for its reader. A broken line to the item's node alone is no loss.
#[test]
fn a_generator_does_not_wait_for_a_reader_whose_item_was_lost() {
    let mut play = Play::new();
    generator(&mut play, 1, 1);
    play.check(item(0, stored_on(4)), &[]);
    play.check(Event::StreamRead { task: task(1), index: 0 }, &["w2: Consumed 1"]);
    play.check(item(1, stored_on(4)), &[]);
    play.check(Event::NodeLost { node: node(4).node_id }, &[]);
    assert!(play.value(object(1, 2)).contains("Stores"));
    play.check(lost(object(1, 2), 4), &["w2: Consumed 4294967295"]);
    play.check(ended(2), &["w2: run t1 again", "w2: ReturnsHeld t1"]);
    play.check(item(0, stored_on(3)), &["w2: Consumed 1"]);
    assert!(play.value(object(1, 2)).contains("Stores"));
}

/// OWN-1: the same, when it is a later attempt that has yielded the item. An item that this attempt has not
/// come to loosens nothing: it comes.
#[test]
fn a_later_attempt_does_not_wait_for_a_reader_whose_item_it_has_yielded() {
    let mut play = Play::new();
    generator(&mut play, 3, 1);
    for index in 0..2 {
        play.check(item(index, stored_on(4)), &[]);
        let consumed = format!("w2: Consumed {}", index + 1);
        play.check(Event::StreamRead { task: task(1), index }, &[&consumed]);
    }
    play.check(lost(object(1, 2), 4), &["w2: Consumed 4294967295"]);
    play.check(ended(2), &["w2: run t1 again", "w2: ReturnsHeld t1"]);
    play.check(item(0, stored_on(3)), &["w2: Consumed 1"]);
    play.check(lost(object(1, 3), 4), &[]);
    // From now on it is no late news of the copy before.
    play.now += 1_000_000;
    play.check(lost(object(1, 2), 3), &["w2: Consumed 4294967295"]);
}

/// A generator that runs again has no reader that frees places, so it must not wait for one.
#[test]
fn a_generator_that_waits_for_its_reader_runs_through_when_it_runs_again() {
    let mut play = Play::new();
    generator(&mut play, 1, 1);
    for index in 0..2 {
        play.check(item(index, stored_on(3)), &[]);
        let consumed = format!("w2: Consumed {}", index + 1);
        play.check(Event::StreamRead { task: task(1), index }, &[&consumed]);
    }
    play.check(ended(2), &["w2: ReturnsHeld t1"]);
    play.check(Event::StreamDropped { task: task(1) }, &[]);
    play.check(lost(object(1, 3), 3), &["w2: run t1 again"]);
    play.check(item(0, stored_on(3)), &["w2: Consumed 1"]);
    play.check(item(1, stored_on(4)), &["w2: Consumed 2"]);
    play.check(ended(2), &["w2: ReturnsHeld t1"]);
    assert!(play.value(object(1, 3)).contains("Stores"));
}

/// OWN-1: what was read of a generator is held, although its reader has left it (simulated seed 24165380). It is
/// asked for what was held, and may yield for ever.
#[test]
fn a_generator_that_its_reader_has_left_runs_again_for_what_was_read() {
    let mut play = Play::new();
    generator(&mut play, 2, 0);
    for index in 0..2 {
        play.check(item(index, stored_on(3)), &[]);
        play.check(Event::StreamRead { task: task(1), index }, &[]);
    }
    let cancel = "w2: Cancel t1";
    play.check(Event::StreamDropped { task: task(1) }, &[cancel]);
    play.check(cancelled(), &["w2: ReturnsHeld t1"]);
    for lost_on in 3..5 {
        play.now += 1_000_000;
        play.check(lost(object(1, 2), lost_on), &["w2: run t1 again"]);
        play.check(item(0, stored_on(lost_on + 1)), &[]);
        // The second one has its copy still.
        play.check(item(1, stored_on(lost_on + 1)), &[cancel]);
        let more = item(2, stored_on(lost_on + 1));
        play.check(more, &["free t1.4 on 1"]);
        play.check(cancelled(), &["w2: ReturnsHeld t1"]);
        assert!(play.value(object(1, 2)).contains("Stores"));
        assert!(play.value(object(1, 3)).contains("Stores"));
    }
    play.now += 1_000_000;
    play.check(lost(object(1, 2), 5), &[]);
    let reason = play.reason(object(1, 2));
    assert!(reason.contains("used up its retries"), "{reason}");
}

/// The generator yields less than it did: running once more would give no more.
#[test]
fn a_generator_that_its_reader_has_left_is_not_run_for_what_it_does_not_yield() {
    let mut play = Play::new();
    generator(&mut play, -1, 0);
    for index in 0..2 {
        play.check(item(index, stored_on(3)), &[]);
        play.check(Event::StreamRead { task: task(1), index }, &[]);
    }
    play.check(Event::StreamDropped { task: task(1) }, &["w2: Cancel t1"]);
    play.check(cancelled(), &["w2: ReturnsHeld t1"]);
    play.now += 1_000_000;
    play.check(lost(object(1, 3), 3), &["w2: run t1 again"]);
    play.check(item(0, stored_on(4)), &[]);
    play.check(ended(1), &["w2: ReturnsHeld t1"]);
    let reason = play.reason(object(1, 3));
    assert!(reason.contains("the generator that yielded it has ended"), "{reason}");
}

/// The user does not want it at all.
#[test]
fn a_generator_that_was_cancelled_does_not_run_again() {
    let mut play = Play::new();
    generator(&mut play, -1, 0);
    play.check(item(0, stored_on(3)), &[]);
    play.check(Event::StreamRead { task: task(1), index: 0 }, &[]);
    let cancel = Event::Cancel { object: object(1, 2), force: false, recursive: false };
    play.check(cancel, &["w2: Cancel t1"]);
    play.check(cancelled(), &["w2: ReturnsHeld t1"]);
    play.check(lost(object(1, 2), 3), &[]);
    let reason = play.reason(object(1, 2));
    assert!(reason.contains("cancelled"), "{reason}");
}

/// A small return that is dropped says nothing of the large one beside it.
#[test]
fn a_call_is_remembered_for_its_stored_return_when_the_small_one_is_gone() {
    let mut play = Play::new();
    play.submit(TaskSpec { returns: 2, ..call(1, 1, &[]) }, &["ask for lease 1"]);
    play.granted(1, 5, 2, &["w2: begin lease", "w2: run t1"]);
    play.check(from(2, reply(1, vec![inline("small"), stored_on(3)])), &[]);
    play.drop_ref(object(1, 1), &[]);
    play.check(lost(object(1, 2), 3), &["w2: run t1 again"]);
    play.check(from(2, reply(1, vec![inline("small"), stored_on(4)])), &[]);
    play.drop_ref(object(1, 2), &["free t1.2 on 2"]);
    play.linger(&["return 5"]);
    play.is_empty();
}

/// An actor in `w2`, and a method of it with that many retries.
fn method(play: &mut Play, retries: i32) -> ObjectId {
    let handle = create_actor(play);
    let spec = TaskSpec {
        target: Target::Actor(actor()),
        retry: Retry { max: retries, on_error: false },
        handle: Some(handle),
        ..call(1, 0, &[])
    };
    play.check(Event::Submit { spec: Arc::new(spec) }, &[]);
    play.check(news(ActorPhase::Alive, 0, 2), &["w2: run t1"]);
    play.check(from(2, reply(1, vec![stored_on(3)])), &[]);
    handle
}

#[test]
fn a_lost_result_of_a_method_is_made_again_by_the_restarted_actor() {
    let mut play = Play::new();
    let handle = method(&mut play, -1);
    play.check(news(ActorPhase::Restarting, 1, 2), &[]);
    play.check(lost(object(1, 1), 3), &[]);
    play.check(news(ActorPhase::Alive, 1, 3), &["w3: run t1 again"]);
    play.check(from(3, reply(1, vec![stored_on(4)])), &[]);
    assert!(play.value(object(1, 1)).contains("Stores"));
    // The record of its call does not keep the actor.
    play.drop_ref(handle, &["KillActor"]);
    play.check(news(ActorPhase::Dead, 1, 3), &["UnsubscribeActor"]);
    play.drop_ref(object(1, 1), &["free t1.1 on 2"]);
    play.is_empty();
}

/// OWN-1: the method would run again behind the one that reads its value, and that one would wait for it
/// (simulated seed 11030674).
#[test]
fn a_broken_line_does_not_lose_the_result_of_a_method() {
    let mut play = Play::new();
    method(&mut play, -1);
    play.check(Event::NodeLost { node: node(3).node_id }, &[]);
    assert!(play.value(object(1, 1)).contains("Stores"));
    play.check(lost(object(1, 1), 3), &["w2: run t1 again"]);
}

#[test]
fn a_lost_result_of_a_method_without_retries_says_why() {
    let mut play = Play::new();
    method(&mut play, 0);
    play.check(lost(object(1, 1), 3), &[]);
    let reason = play.reason(object(1, 1));
    assert!(reason.contains("max_task_retries=0"), "{reason}");
}

#[test]
fn a_lost_result_of_an_actor_that_is_over_is_the_actors_end() {
    for handle_is_gone in [false, true] {
        let mut play = Play::new();
        let handle = method(&mut play, -1);
        if handle_is_gone {
            play.drop_ref(handle, &["KillActor"]);
            play.check(news(ActorPhase::Dead, 0, 2), &["UnsubscribeActor"]);
            play.check(lost(object(1, 1), 3), &["subscribe"]);
            play.check(news(ActorPhase::Dead, 0, 2), &["UnsubscribeActor"]);
        } else {
            play.check(news(ActorPhase::Dead, 0, 2), &[]);
            play.check(lost(object(1, 1), 3), &[]);
        }
        assert_eq!(play.value(object(1, 1)), "ActorDied");
    }
}

/// Simulated seed 625: the actor's next call takes the lost result. Nothing would ever run if that call
/// held up the one that makes its argument again.
#[test]
fn a_result_is_made_again_before_the_call_of_the_same_actor_that_needs_it() {
    let mut play = Play::new();
    let handle = method(&mut play, -1);
    let spec = |number, deps: &[ObjectId]| {
        let target = Target::Actor(actor());
        let retry = Retry { max: -1, on_error: false };
        Arc::new(TaskSpec { target, retry, handle: Some(handle), ..call(number, 0, deps) })
    };
    play.check(Event::Submit { spec: spec(2, &[object(1, 1)]) }, &["w2: run t2"]);
    play.check(from(2, reply(2, vec![stored_on(3)])), &[]);
    play.check(news(ActorPhase::Restarting, 1, 2), &[]);
    // A call that waits for what is lost; then what makes it, and what that takes.
    play.check(Event::Submit { spec: spec(3, &[object(2, 1)]) }, &[]);
    play.check(lost(object(1, 1), 3), &[]);
    play.check(lost(object(2, 1), 3), &[]);
    play.check(news(ActorPhase::Alive, 1, 3), &["w3: run t1 again"]);
    play.check(from(3, reply(1, vec![stored_on(4)])), &["w3: run t2 again"]);
    // The actor dies meanwhile: the order does not matter to what runs again.
    play.check(news(ActorPhase::Restarting, 2, 3), &[]);
    play.check(news(ActorPhase::Alive, 2, 4), &["w4: run t2 again"]);
    play.check(from(4, reply(2, vec![stored_on(4)])), &["w4: run t3"]);
}

/// The second call reads the first one's result inside, so it waits for it while it runs: the actor would
/// stand still for ever if it were made again first. Found by the simulator.
#[test]
fn results_of_one_actor_are_made_again_in_the_order_in_which_they_were_made() {
    for order in [[1, 2], [2, 1]] {
        let mut play = Play::new();
        let handle = method(&mut play, -1);
        let mut reads = call(2, 0, &[]);
        reads.args.contained = vec![object(1, 1)];
        let target = Target::Actor(actor());
        let retry = Retry { max: -1, on_error: false };
        let spec = TaskSpec { target, retry, handle: Some(handle), ..reads };
        play.check(Event::Submit { spec: Arc::new(spec) }, &["w2: run t2"]);
        play.check(from(2, reply(2, vec![stored_on(3)])), &[]);
        play.check(news(ActorPhase::Restarting, 1, 2), &[]);
        for number in order {
            play.check(lost(object(number, 1), 3), &[]);
        }
        let again = ["w3: run t1 again", "w3: run t2 again"];
        play.check(news(ActorPhase::Alive, 1, 3), &again);
        // Nor does another death of the actor turn the order round.
        play.check(news(ActorPhase::Restarting, 2, 3), &[]);
        let again = ["w4: run t1 again", "w4: run t2 again"];
        play.check(news(ActorPhase::Alive, 2, 4), &again);
    }
}
