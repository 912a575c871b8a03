//! Actors: placed, started, ended.

use helio_proto::cluster::{ControlToNode, KeepFree, NodeToControl, StopActor};
use helio_proto::node::{ActorReady, Leaving, NodeToClient};
use helio_types::{ActorId, DeathCause, DeathKind, ResourceSet};

use super::World;
use crate::limits::{ACTOR_PLACEMENT_MS_MAX, KEPT_FREE_MS_MAX};
use crate::{Event, Exit};

fn ready(actor_id: ActorId) -> ActorReady {
    ActorReady { actor_id, ..ActorReady::default() }
}

fn stop(actor_id: ActorId, drain: bool) -> Event {
    let stop = StopActor { actor_id, incarnation: 1, reason: "killed by ray.kill".into(), drain };
    Event::ControlSaid(stop.into())
}

#[test]
fn an_actor_gets_a_process_of_its_own_and_reports_its_start() {
    let mut world = World::new(&[("CPU", 2.0), ("GPU", 2.0)]);
    let driver = world.driver();
    let class = world.class(1, &[("CPU", 1.0)]);
    world.request(driver, 1, class);
    let used = world.granted(driver).unwrap();
    world.give_back(driver, &used);
    let actor_id = world.launch(1, 1, &[("CPU", 1.0), ("GPU", 1.0)], false);
    let conn = world.actor_conn(actor_id).unwrap();
    assert_ne!(
        world.worker_at(conn),
        used.worker.worker_id,
        "a worker that ran tasks is not fresh"
    );
    let gpus = world.take(conn, |message| match message {
        NodeToClient::StartActor(launch) => Some(launch.assigned.devices["GPU"].clone()),
        _ => None,
    });
    assert_eq!(gpus.unwrap(), [0]);
    assert_eq!(world.node.running_actors(), []);
    world.say(conn, ready(actor_id));
    let started = world.control.iter().any(|message| {
        matches!(message, NodeToControl::ActorStarted(started) if started.actor_id == actor_id && started.address.port == 7)
    });
    assert!(started);
    assert_eq!(world.node.running_actors().len(), 1);
    world.close(driver);
    world.assert_nothing_leaked();
}

#[test]
fn a_constructor_that_raises_ends_the_process_and_is_no_death() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.driver();
    let actor_id = world.launch(1, 1, &[("CPU", 1.0)], false);
    let conn = world.actor_conn(actor_id).unwrap();
    let raised =
        ActorReady { actor_id, error: b"pickle".to_vec(), message: "ValueError: x".into() };
    world.say(conn, raised);
    let ended = world.actor_ended(actor_id).unwrap();
    assert_eq!(
        (ended.cause.kind, ended.cause.error, ended.retry),
        (DeathKind::InitFailed, b"pickle".to_vec(), false)
    );
    assert_eq!(world.actor_ended(actor_id), None, "told once");
    assert_eq!(world.cpus_free(), 1.0);
}

#[test]
fn an_actor_that_dies_is_reported_with_its_cause() {
    let mut world = World::new(&[("CPU", 4.0)]);
    world.driver();
    let crashed = world.launch(1, 1, &[("CPU", 1.0)], false);
    let conn = world.actor_conn(crashed).unwrap();
    world.say(conn, ready(crashed));
    let worker_id = world.worker_at(conn);
    world.worker_ends(worker_id, Exit::Code(7));
    world.pass(0);
    let cause = world.actor_ended(crashed).unwrap().cause;
    assert_eq!((cause.kind, cause.code, cause.log_tail.as_str()), (DeathKind::Exited, 7, "tail"));
    assert!(cause.message.contains("exited with code 7"), "{cause:?}");

    let left = world.launch(2, 1, &[("CPU", 1.0)], false);
    let conn = world.actor_conn(left).unwrap();
    world.say(conn, ready(left));
    let worker_id = world.worker_at(conn);
    world.say(
        conn,
        Leaving {
            cause: DeathCause::new(DeathKind::UserExit, "exit_actor() was called"),
            is_needed: false,
        },
    );
    world.worker_ends(worker_id, Exit::Code(0));
    world.pass(0);
    let cause = world.actor_ended(left).unwrap().cause;
    assert_eq!(cause.kind, DeathKind::UserExit);
    assert_ne!(cause.pid, 0);
}

#[test]
fn an_actor_is_stopped_wherever_it_is() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.starts_at_once = false;
    world.driver();
    let starting = world.launch(1, 1, &[("CPU", 1.0)], false);
    let queued = world.launch(2, 1, &[("CPU", 1.0)], false);
    world.feed(stop(queued, false));
    assert_eq!(world.actor_ended(queued).unwrap().cause.kind, DeathKind::Intended);
    world.feed(stop(starting, true));
    assert_eq!(world.actor_ended(starting).unwrap().cause.kind, DeathKind::Intended);
    assert_eq!(world.cpus_free(), 1.0);

    world.starts_at_once = true;
    let spare = world.spawned[0].worker_id;
    world.register_worker(spare);
    world.pass(0);
    for (n, drain) in [(3, false), (4, true)] {
        let actor_id = world.launch(n, 1, &[("CPU", 1.0)], false);
        let conn = world.actor_conn(actor_id).unwrap();
        world.say(conn, ready(actor_id));
        world.feed(stop(actor_id, drain));
        let ended = world.actor_ended(actor_id).unwrap();
        assert_eq!((ended.cause.kind, ended.retry), (DeathKind::Intended, false));
        assert!(ended.cause.message.contains("ray.kill"), "{ended:?}");
    }
    world.assert_nothing_leaked();
}

#[test]
fn a_placement_that_turns_out_not_to_fit_is_given_back_to_be_tried_elsewhere() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let driver = world.driver();
    let class = world.class(1, &[("CPU", 1.0)]);
    world.request(driver, 1, class);
    let lease = world.granted(driver).unwrap();
    let first = world.launch(1, 1, &[("CPU", 1.0)], false);
    let revoked = world.took(driver, |message| matches!(message, NodeToClient::RevokeLease(_)));
    assert!(revoked, "leases make room for an actor that was placed here");
    assert!(world.node.info().pending[0].why.contains("CPU"), "WHY-1");
    world.give_back(driver, &lease);
    assert!(world.actor_conn(first).is_some());
    let second = world.launch(2, 1, &[("CPU", 1.0)], false);
    world.pass(ACTOR_PLACEMENT_MS_MAX);
    assert!(world.actor_ended(second).unwrap().retry);
    let huge = world.launch(3, 1, &[("CPU", 8.0)], false);
    assert!(world.actor_ended(huge).unwrap().retry);
    assert_eq!(world.actor_ended(first), None);
}

#[test]
fn detached_actors_outlive_their_job_and_others_do_not() {
    let mut world = World::new(&[("CPU", 4.0)]);
    let driver = world.driver();
    let (detached, plain) =
        (world.launch(1, 1, &[("CPU", 1.0)], true), world.launch(2, 1, &[("CPU", 1.0)], false));
    let conn = world.actor_conn(detached).unwrap();
    world.say(conn, ready(detached));
    world.close(driver);
    assert_eq!(world.actor_ended(plain).unwrap().cause.kind, DeathKind::Intended);
    assert_eq!(world.actor_ended(detached), None);
    // The actor's calls still run, though its job is over.
    let class = world.class(1, &[("CPU", 1.0)]);
    world.request(conn, 1, class);
    let lease = world.granted(conn).unwrap();
    world.give_back(conn, &lease);
    assert!(
        world.forgotten.contains(&lease.worker.worker_id),
        "no worker idles for a finished job"
    );
    world.feed(stop(detached, false));
    world.assert_nothing_leaked();
}

/// STATE-2: the news of its end may be lost with the connection to the control service, which then sends
/// the launch again.
#[test]
fn an_actor_that_has_ended_is_not_begun_again() {
    let mut world = World::new(&[("CPU", 4.0)]);
    world.driver();
    let actor_id = world.launch(1, 1, &[("CPU", 1.0)], false);
    let conn = world.actor_conn(actor_id).unwrap();
    world.say(conn, ready(actor_id));
    let worker_id = world.worker_at(conn);
    world.worker_ends(worker_id, Exit::Code(7));
    world.pass(0);
    assert_eq!(world.actor_ended(actor_id).unwrap().cause.code, 7);
    world.sent.clear();
    world.launch(1, 1, &[("CPU", 1.0)], false);
    assert_eq!(world.actor_conn(actor_id), None);
    let ended = world.actor_ended(actor_id).unwrap();
    assert_eq!((ended.cause.kind, ended.cause.code, ended.retry), (DeathKind::Exited, 7, false));
    assert_eq!(world.cpus_free(), 4.0);
}

fn keep_free(cpus: f64) -> Event {
    let resources = ResourceSet::from_units([("CPU", cpus)]);
    Event::ControlSaid(ControlToNode::KeepFree(KeepFree { resources }))
}

#[test]
fn what_is_kept_free_goes_to_no_task_until_it_is_used_or_its_time_is_over() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let driver = world.driver();
    let class = world.class(1, &[("CPU", 1.0)]);
    let lend = |world: &mut World, request_id| {
        world.request(driver, request_id, class.clone());
        world.granted(driver)
    };
    let (first, second) = (lend(&mut world, 1).unwrap(), lend(&mut world, 2).unwrap());
    world.feed(keep_free(1.0));
    let revoked = world.took(driver, |message| matches!(message, NodeToClient::RevokeLease(_)));
    assert!(revoked, "leases make room for what waits in the cluster");
    assert_eq!(lend(&mut world, 3), None);
    world.give_back(driver, &first);
    assert_eq!(world.granted(driver), None, "the task behind it does not take what was made free");
    assert_eq!(world.cpus_free(), 1.0, "the control service sees it");
    world.launch(1, 1, &[("CPU", 1.0)], false);
    world.give_back(driver, &second);
    let third = world.granted(driver).expect("no more is kept than was used");

    world.feed(keep_free(1.0));
    assert_eq!(lend(&mut world, 4), None);
    world.give_back(driver, &third);
    assert_eq!(world.granted(driver), None);
    world.pass(KEPT_FREE_MS_MAX);
    assert!(world.granted(driver).is_some(), "nothing came for it");
}

#[test]
fn what_actors_hold_is_not_kept_free() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let driver = world.driver();
    world.launch(1, 1, &[("CPU", 1.0)], false);
    world.feed(keep_free(2.0));
    let class = world.class(1, &[("CPU", 1.0)]);
    world.request(driver, 1, class);
    assert!(world.granted(driver).is_some());
    assert!(!world.took(driver, |message| matches!(message, NodeToClient::RevokeLease(_))));
}
