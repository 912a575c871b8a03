//! The life of actors.

use super::harness::{Harness, actor, info, job, node, spec, worker};
use helio_control_state::Event;
use helio_proto::cluster::{
    ActorEnded, ControlToNode, RegisterNode, RunningActor, StatusUnchanged,
};
use helio_proto::control::{
    ActorPhase, ActorSpec, ControlRequest, ControlResponse, DrainNode, FailureKind, GetNamedActor,
    KillActor, ListNamedActors, ListNodes, NodeInfo, Strategy, StrategyKind,
};
use helio_types::{DeathCause, DeathKind, ResourceSet, WorkerAddress};

const CPUS: &[(&str, f64)] = &[("CPU", 4.0)];

fn failure(response: ControlResponse) -> (FailureKind, String) {
    match response {
        ControlResponse::Failed(failure) => (failure.kind, failure.message),
        other => panic!("it should have failed: {other:?}"),
    }
}

#[test]
fn an_actor_is_placed_started_and_those_who_hold_it_are_told() {
    let mut harness = Harness::with_driver(2.0);
    assert!(matches!(harness.create(spec(1, 1)), ControlResponse::Actor(_)));
    assert_eq!(harness.launches(), [(1, 1, 0)]);
    harness.follow(1, 1, 1);
    harness.follow(1, 1, 9);
    harness.started(1, 1, 0);
    assert_eq!(harness.updates(), [(1, 1, "ALIVE", 0), (9, 1, "ALIVE", 0)]);
    let info = harness.info(1);
    assert_eq!((info.pid, info.address.worker_id, info.node_id), (9, worker(101), node(1)));
    // A follower that has ended is told no more.
    harness.client_gone(1, 9, false);
    harness.ended(1, 1, 0, DeathKind::Signaled);
    assert_eq!(harness.updates(), [(1, 1, "DEAD", 0)]);
    assert_eq!(harness.info(1).cause.message, "it ended");
}

#[test]
fn creating_the_same_actor_again_changes_nothing() {
    let mut harness = Harness::with_driver(2.0);
    harness.create(spec(1, 1));
    harness.started(1, 1, 0);
    harness.launches();
    let ControlResponse::Actor(info) = harness.create(spec(1, 1)) else { panic!("not an actor") };
    assert_eq!((info.phase, harness.launches().len()), (ActorPhase::Alive, 0));
}

#[test]
fn it_is_restarted_as_often_as_allowed() {
    let mut harness = Harness::with_driver(2.0);
    harness.create(ActorSpec { max_restarts: 2, ..spec(1, 1) });
    harness.follow(1, 1, 1);
    for incarnation in 0..3 {
        assert_eq!(harness.launches(), [(1, 1, incarnation)]);
        harness.started(1, 1, incarnation);
        assert_eq!(harness.updates(), [(1, 1, "ALIVE", incarnation)]);
        // A message about an older incarnation is about the past.
        harness.ended(1, 1, incarnation.wrapping_sub(1), DeathKind::Signaled);
        assert_eq!(harness.updates(), []);
        harness.ended(1, 1, incarnation, DeathKind::Signaled);
        let next = incarnation + 1;
        if next <= 2 {
            // The first update says that the actor restarts, the second one where.
            assert_eq!(harness.updates(), [(1, 1, "RESTARTING", next); 2]);
        } else {
            assert_eq!(harness.updates(), [(1, 1, "DEAD", 2)]);
        }
    }
    assert_eq!(harness.launches(), []);
}

#[test]
fn some_ends_are_final() {
    for kind in
        [DeathKind::Intended, DeathKind::UserExit, DeathKind::InitFailed, DeathKind::StartFailed]
    {
        let mut harness = Harness::with_driver(2.0);
        harness.create(ActorSpec { max_restarts: -1, ..spec(1, 1) });
        harness.started(1, 1, 0);
        harness.ended(1, 1, 0, kind);
        assert_eq!(harness.info(1).phase, ActorPhase::Dead, "{kind:?}");
    }
}

#[test]
fn kill_ends_it_and_kill_with_restart_makes_it_anew() {
    let mut harness = Harness::with_driver(2.0);
    harness.create(ActorSpec { max_restarts: 1, ..spec(1, 1) });
    harness.started(1, 1, 0);
    harness.launches();
    let kill =
        |no_restart, out_of_scope| KillActor { actor_id: actor(1), no_restart, out_of_scope };
    harness.ask(1, 1, kill(false, false));
    assert_eq!(harness.stops(), [(1, 1, false)]);
    harness.ended(1, 1, 0, DeathKind::Intended);
    assert_eq!(harness.launches(), [(1, 1, 1)]);
    harness.started(1, 1, 1);
    harness.ask(1, 1, kill(true, false));
    assert_eq!(harness.stops(), [(1, 1, false)]);
    let info = harness.info(1);
    assert_eq!(
        (info.phase, info.cause.message.as_str()),
        (ActorPhase::Dead, "it was killed by `ray.kill`")
    );
    // Its end is reported later and means nothing new.
    harness.ended(1, 1, 1, DeathKind::Intended);
    assert_eq!(harness.launches(), []);
}

/// F5.11: the move off a drained node uses up no restart, also where none is left.
#[test]
fn an_actor_of_a_drained_node_moves_and_keeps_its_restarts() {
    let drain = |number| DrainNode { node_id: node(number), ..DrainNode::default() };
    let mut harness = Harness::with_driver(0.0);
    harness.register(2, CPUS);
    harness.create(ActorSpec { max_restarts: 1, ..spec(1, 1) });
    harness.create(ActorSpec { max_restarts: 0, ..spec(2, 1) });
    assert_eq!(harness.launches(), [(2, 1, 0), (2, 2, 0)]);
    harness.started(2, 1, 0);
    harness.started(2, 2, 0);
    harness.register(3, CPUS);
    harness.ask(1, 1, drain(2));
    assert_eq!(harness.stops(), [(2, 1, true)], "the other one may not be made again");
    harness.ended(2, 1, 0, DeathKind::Intended);
    assert_eq!(harness.launches(), [(3, 1, 1)]);
    harness.started(3, 1, 1);
    assert_eq!((harness.info(1).restarts, harness.info(1).moves), (1, 1));
    harness.restart();
    harness.register(1, &[]);
    harness.register(3, CPUS);
    assert_eq!(harness.launches(), [(3, 1, 1)], "the launch may be lost");
    harness.started(3, 1, 1);
    harness.ended(3, 1, 1, DeathKind::Signaled);
    assert_eq!(harness.launches(), [(3, 1, 2)], "its restart is left to it");
    harness.started(3, 1, 2);
    harness.register(4, CPUS);
    harness.ask(1, 1, drain(3));
    assert_eq!(harness.stops(), [(3, 1, true)], "it moves, though it has none left");
    harness.ended(3, 1, 2, DeathKind::Intended);
    assert_eq!(harness.launches(), [(4, 1, 3)]);
    harness.started(4, 1, 3);
    harness.ended(4, 1, 3, DeathKind::Signaled);
    assert_eq!(harness.info(1).phase, ActorPhase::Dead);
}

/// A control service that starts anew learns from a drained node that it is to leave, and does not take the end of
/// an actor that was told to move for one that costs a restart.
#[test]
fn an_actor_moves_off_a_drained_node_also_when_the_control_service_restarts_meanwhile() {
    let mut harness = Harness::with_driver(0.0);
    harness.register(2, CPUS);
    harness.create(ActorSpec { max_restarts: 1, ..spec(1, 1) });
    harness.started(2, 1, 0);
    harness.register(3, CPUS);
    harness.ask(1, 1, DrainNode { node_id: node(2), ..DrainNode::default() });
    assert_eq!(harness.stops(), [(2, 1, true)]);
    harness.restart();
    harness.register(1, &[]);
    harness.register(3, CPUS);
    let address =
        WorkerAddress { worker_id: worker(101), node_id: node(2), ..WorkerAddress::default() };
    let running = RunningActor { actor_id: actor(1), incarnation: 0, address, pid: 9 };
    let draining = NodeInfo { is_draining: true, ..info(2, CPUS, CPUS) };
    harness
        .say(2, RegisterNode { info: draining, actors: vec![running], ..RegisterNode::default() });
    harness.launches();
    harness.ended(2, 1, 0, DeathKind::Intended);
    assert_eq!(harness.launches(), [(3, 1, 1)]);
    harness.started(3, 1, 1);
    assert_eq!((harness.info(1).restarts, harness.info(1).moves), (1, 1));
    harness.ended(3, 1, 1, DeathKind::Signaled);
    assert_eq!(harness.launches(), [(3, 1, 2)], "its restart is left to it");
}

/// STATE-2: the process of an actor ends as it was told, because its node is drained or to be made again, while there
/// is no control service: the next one does not take that for the actor's own end.
#[test]
fn an_actor_that_is_to_start_again_does_so_also_when_its_process_ends_unseen() {
    let orders: [ControlRequest; 2] = [
        DrainNode { node_id: node(2), ..DrainNode::default() }.into(),
        KillActor { actor_id: actor(1), no_restart: false, out_of_scope: false }.into(),
    ];
    for order in orders {
        let mut harness = Harness::with_driver(0.0);
        harness.register(2, CPUS);
        harness.create(ActorSpec { max_restarts: 1, ..spec(1, 1) });
        harness.started(2, 1, 0);
        harness.ask(1, 1, order);
        assert_eq!(harness.stops().len(), 1);
        harness.restart();
        harness.register(1, &[]);
        harness.register(2, CPUS);
        assert_eq!(harness.launches(), [(2, 1, 0)], "the node says what came of it");
        harness.register(3, CPUS);
        harness.ended(2, 1, 0, DeathKind::Intended);
        assert_eq!(harness.info(1).phase, ActorPhase::Restarting);
        let launched = harness.launches();
        assert!(matches!(launched[..], [(_, 1, 1)]), "STATE-2: {launched:?}");
    }
}

/// The order to leave is lost with the connection of a node, which says when it comes again that it has not heard it.
#[test]
fn a_drained_node_that_connects_again_is_told_again_to_leave() {
    let orders = |harness: &mut Harness| {
        harness.take(|to, message| matches!(message, ControlToNode::Drain(_)).then_some(to))
    };
    let mut harness = Harness::with_driver(0.0);
    harness.register(2, CPUS);
    harness.ask(1, 1, DrainNode { node_id: node(2), ..DrainNode::default() });
    assert_eq!(orders(&mut harness), [node(2)]);
    harness.apply(Event::Disconnected { node_id: node(2) });
    harness.register(2, CPUS);
    assert_eq!(orders(&mut harness), [node(2)]);
    harness.create(spec(1, 1));
    assert_eq!(harness.launches(), [], "it takes no new work");
    harness.apply(Event::Disconnected { node_id: node(2) });
    let draining = NodeInfo { is_draining: true, ..info(2, CPUS, CPUS) };
    harness.say(2, RegisterNode { info: draining, ..RegisterNode::default() });
    assert_eq!(orders(&mut harness), [], "it knows");
}

#[test]
fn when_its_last_handle_is_gone_it_finishes_what_it_was_sent() {
    let kill = KillActor { actor_id: actor(1), no_restart: true, out_of_scope: true };
    let mut harness = Harness::with_driver(2.0);
    harness.create(ActorSpec { max_restarts: -1, ..spec(1, 1) });
    harness.ask(1, 1, kill.clone());
    assert_eq!(harness.stops(), [], "it cannot drain before it has started");
    harness.started(1, 1, 0);
    assert_eq!(harness.stops(), [(1, 1, true)]);
    harness.ended(1, 1, 0, DeathKind::Signaled);
    assert_eq!(harness.info(1).phase, ActorPhase::Dead, "it is not restarted");

    let mut harness = Harness::with_driver(0.0);
    harness.create(spec(1, 1));
    harness.ask(1, 1, kill);
    assert_eq!(harness.info(1).phase, ActorPhase::Dead, "it was never placed");
}

#[test]
fn names_are_unique_in_their_namespace_while_the_actor_lives() {
    let mut harness = Harness::with_driver(4.0);
    let named = |number, namespace: &str| ActorSpec {
        name: "a".into(),
        namespace: namespace.into(),
        ..spec(number, 1)
    };
    harness.create(named(1, "ns"));
    let (kind, text) = failure(harness.create(named(2, "ns")));
    assert_eq!(kind, FailureKind::AlreadyExists);
    assert!(text.contains("The name a (namespace=ns) is already taken"), "{text}");
    let ControlResponse::NamedActor(found) =
        harness.create(ActorSpec { get_if_exists: true, ..named(2, "ns") })
    else {
        panic!("it exists")
    };
    assert_eq!((found.actor_id, found.handle), (actor(1), b"handle".to_vec()));
    assert!(matches!(harness.create(named(3, "other")), ControlResponse::Actor(_)));

    let get = |namespace: &str| GetNamedActor { name: "a".into(), namespace: namespace.into() };
    assert!(
        matches!(harness.ask(1, 1, get("ns")), ControlResponse::NamedActor(found) if found.actor_id == actor(1))
    );
    assert_eq!(failure(harness.ask(1, 1, get("none"))).0, FailureKind::NotFound);
    let list = |all_namespaces| ListNamedActors { all_namespaces, namespace: "ns".into() };
    for (all, n) in [(true, 2), (false, 1)] {
        assert!(
            matches!(harness.ask(1, 1, list(all)), ControlResponse::NamedActors(found) if found.actors.len() == n)
        );
    }
    harness.ask(1, 1, KillActor { actor_id: actor(1), no_restart: true, out_of_scope: false });
    assert_eq!(failure(harness.ask(1, 1, get("ns"))).0, FailureKind::NotFound);
    assert!(
        matches!(harness.create(named(4, "ns")), ControlResponse::Actor(_)),
        "the name is free again"
    );
}

#[test]
fn an_owner_takes_its_actors_along_but_not_detached_ones() {
    let mut harness = Harness::with_driver(8.0);
    harness.create(spec(1, 5));
    harness.create(ActorSpec { detached: true, name: "d".into(), ..spec(2, 5) });
    harness.create(spec(3, 6));
    for number in 1..4 {
        harness.started(1, number, 0);
    }
    harness.client_gone(1, 5, false);
    assert_eq!(harness.stops(), [(1, 1, false)]);
    assert!(harness.info(1).cause.message.contains("owner"));
    assert_eq!(harness.info(2).phase, ActorPhase::Alive);
    assert_eq!(harness.info(3).phase, ActorPhase::Alive);
}

#[test]
fn the_end_of_a_job_ends_its_actors_but_not_what_detached_ones_made() {
    let mut harness = Harness::with_driver(8.0);
    harness.create(spec(1, 1));
    harness.create(ActorSpec { detached: true, name: "d".into(), ..spec(2, 1) });
    harness.create(spec(3, 5)); // by a task of the job
    harness.started(1, 1, 0);
    harness.started(1, 2, 0);
    harness.started(1, 3, 0);
    harness.create(spec(4, 102)); // by the detached actor
    harness.create(spec(5, 101)); // by an actor that is not
    harness.client_gone(1, 1, true);
    let phases = [1, 2, 3, 4, 5].map(|number| harness.info(number).phase);
    let (alive, pending, dead) = (ActorPhase::Alive, ActorPhase::Pending, ActorPhase::Dead);
    assert_eq!(phases, [dead, alive, dead, pending, dead]);
    let finished = harness.take(|_, message| match message {
        ControlToNode::JobFinished(finished) => Some((finished.job_id, finished.driver)),
        _ => None,
    });
    assert_eq!(finished, [(job(1), worker(1))]);
    assert_eq!(harness.start_job(1, 2).job_id, job(2), "job ids count up");
}

#[test]
fn a_burst_is_spread_and_what_finds_no_room_waits() {
    let mut harness = Harness::with_driver(2.0);
    harness.register(2, &[("CPU", 2.0)]);
    let held = ResourceSet::from_units([("CPU", 1.0)]);
    for number in 1..=6 {
        harness.create(ActorSpec { resources: held.clone(), ..spec(number, 1) });
    }
    let launches = harness.launches();
    let on = |node: u8| launches.iter().filter(|launch| launch.0 == node).count();
    assert_eq!((launches.len(), on(1), on(2)), (4, 2, 2));
    let waiting = harness.info(5);
    assert!(waiting.why.contains("in use"), "WHY-1: {}", waiting.why);
    // Reservations are taken back when the nodes do not confirm them; here they do.
    harness.status(1, &[("CPU", 2.0)], &[]);
    harness.status(2, &[("CPU", 2.0)], &[]);
    harness.pass(1000, &[1, 2]);
    assert_eq!(harness.launches(), []);
    harness.status(2, &[("CPU", 2.0)], &[("CPU", 1.0)]);
    assert_eq!(harness.launches(), [(2, 5, 0)]);
}

#[test]
fn spread_actors_take_turns_on_any_number_of_nodes() {
    for n_nodes in 2..6u8 {
        let mut harness = Harness::with_driver(0.0);
        for number in 2..2 + n_nodes {
            harness.register(number, &[("CPU", 100.0)]);
        }
        let strategy = Strategy { kind: StrategyKind::Spread, ..Strategy::default() };
        for number in 0..2 * n_nodes {
            harness.create(ActorSpec { strategy: strategy.clone(), ..spec(number, 1) });
        }
        let mut homes: Vec<u8> = harness.launches().into_iter().map(|(home, ..)| home).collect();
        homes.sort_unstable();
        homes.dedup();
        assert_eq!(homes.len(), usize::from(n_nodes));
    }
}

#[test]
fn default_actors_hold_nothing_once_they_run() {
    let mut harness = Harness::with_driver(1.0);
    for number in 1..=3 {
        harness.create(spec(number, 1));
    }
    for number in 1..=3 {
        assert_eq!(harness.launches(), [(1, number, 0)]);
        harness.started(1, number, 0);
    }
}

/// A constructor may wait for another actor, which must not wait for the constructor.
#[test]
fn a_reservation_ends_before_a_slow_constructor_does() {
    let mut harness = Harness::with_driver(1.0);
    harness.create(spec(1, 1));
    harness.create(spec(2, 1));
    assert_eq!(harness.launches(), [(1, 1, 0)]);
    harness.pass(300, &[]);
    assert_eq!(harness.launches(), [(1, 2, 0)]);
}

/// The last status of the node holds again, as if the node had repeated it.
#[test]
fn a_heartbeat_without_news_ends_a_reservation() {
    let mut harness = Harness::with_driver(1.0);
    harness.create(spec(1, 1));
    harness.create(spec(2, 1));
    assert_eq!(harness.launches(), [(1, 1, 0)]);
    harness.say(1, StatusUnchanged::default());
    assert_eq!(harness.launches(), [(1, 2, 0)]);
}

#[test]
fn a_node_that_was_full_after_all_gives_the_actor_back() {
    let mut harness = Harness::with_driver(2.0);
    harness.register(2, &[("CPU", 1.0)]);
    harness.create(spec(1, 1));
    let [(first, 1, 0)] = harness.launches()[..] else { panic!("one launch") };
    let cause = DeathCause::new(DeathKind::StartFailed, "full");
    let given_back =
        ActorEnded { actor_id: actor(1), cause, retry: true, attempt: 1, incarnation: 0 };
    harness.say(first, given_back.clone());
    let launches = harness.launches();
    assert_eq!(launches.len(), 1);
    assert_eq!(launches[0].2, 0, "that was no restart");
    for node in [1, 2] {
        harness.say(node, given_back.clone());
    }
    assert_eq!(harness.launches(), [], "the news come a second time");
}

#[test]
fn what_no_node_can_hold_waits_and_its_driver_is_warned_once() {
    let mut harness = Harness::with_driver(2.0);
    let need = ResourceSet::from_units([("GPU", 2.0)]);
    harness.create(ActorSpec { placement_resources: need, ..spec(1, 1) });
    harness.follow(1, 1, 9);
    let why = "no node has 2 GPU (none has any): ask for less, or start a node with that much";
    assert_eq!(harness.info(1).why, why, "WHY-1");
    let ControlResponse::Nodes(nodes) = harness.ask(1, 1, ListNodes {}) else { panic!("no nodes") };
    let [demand] = &nodes.pending[..] else { panic!("one shape") };
    assert_eq!((demand.count, demand.why.as_str()), (1, why));
    harness.pass(5000, &[1]);
    let [(1, text)] = &harness.notices()[..] else { panic!("one warning for the driver") };
    assert!(
        text.contains("Counter") && text.contains("no node has 2 GPU (none has any)"),
        "{text}"
    );
    assert_eq!(harness.updates(), [(9, 1, "PENDING_CREATION", 0)]);
    harness.register(2, &[("GPU", 2.0)]);
    assert_eq!(harness.launches(), [(2, 1, 0)]);
}

#[test]
fn a_node_that_is_gone_cannot_be_insisted_on() {
    let mut harness = Harness::with_driver(2.0);
    harness.register(2, &[("CPU", 2.0)]);
    let on = |number: u8, to: u8, soft| ActorSpec {
        strategy: Strategy {
            kind: StrategyKind::NodeAffinity,
            node_id: node(to),
            soft,
            ..Strategy::default()
        },
        ..spec(number, 1)
    };
    assert_eq!(failure(harness.create(on(1, 9, false))).0, FailureKind::Unschedulable);
    harness.create(on(2, 9, true));
    harness.create(on(3, 2, false));
    assert_eq!(harness.launches().len(), 2);
    harness.status(2, &[("CPU", 2.0)], &[]);
    harness.create(on(4, 2, false));
    harness.pass(7000, &[1]);
    let ended = harness.info(4);
    assert_eq!((ended.phase, ended.cause.kind), (ActorPhase::Dead, DeathKind::StartFailed));
}

#[test]
fn a_handle_may_be_faster_than_the_creation() {
    let mut harness = Harness::with_driver(2.0);
    harness.follow(1, 1, 9);
    assert!(harness.info(1).why.contains("has not reached"));
    harness.create(spec(1, 1));
    harness.started(1, 1, 0);
    assert_eq!(harness.updates(), [(9, 1, "ALIVE", 0)]);
    harness.follow(2, 1, 9);
    harness.pass(11_000, &[1]);
    assert_eq!(harness.updates(), [(9, 2, "DEAD", 0)], "it never came");
    harness.client_gone(1, 1, true);
    assert_eq!(harness.info(3).phase, ActorPhase::Dead, "after the job's end it cannot come");
}

/// LIMIT-1: the table of the dead forgets the oldest.
#[test]
fn the_dead_are_forgotten_in_time() {
    let mut harness = Harness::with_driver(1.0);
    harness.is_checked = false;
    let n = helio_config::control::DEAD_ACTORS_MAX + 5;
    for number in 0..n {
        let mut unique = [0; 12];
        unique[..8].copy_from_slice(&(number as u64).to_le_bytes());
        let actor_id = helio_types::ActorId::new(unique, job(1));
        harness.create(ActorSpec { actor_id, ..spec(0, 1) });
        harness.ask(1, 1, KillActor { actor_id, no_restart: true, out_of_scope: false });
        harness.sent.clear();
        if number % 1000 == 0 {
            harness.control.check().unwrap();
        }
    }
    assert_eq!(harness.disk.len(), 1, "only the job is left on disk");
    assert!(
        harness.info(0).cause.message.contains("does not know it")
            || harness.info(0).why.contains("not reached")
    );
}

#[test]
fn an_owner_on_another_node_is_reached_by_its_node() {
    let mut harness = Harness::with_driver(0.0);
    harness.register(2, &[("CPU", 1.0)]);
    let owner =
        WorkerAddress { worker_id: worker(7), node_id: node(2), ..WorkerAddress::default() };
    harness.create(ActorSpec { owner, ..spec(1, 7) });
    harness.started(2, 1, 0);
    harness.pass(6000, &[1]);
    let info = harness.info(1);
    assert_eq!(info.phase, ActorPhase::Dead, "the owner's node is gone");
}

/// Takes the resources that each node was asked to keep free.
fn kept_free(harness: &mut Harness) -> Vec<(u8, f64)> {
    harness.take(|node_id, message| match message {
        ControlToNode::KeepFree(order) => Some((node_id.0[0], order.resources.get("CPU").to_f64())),
        _ => None,
    })
}

#[test]
fn a_node_full_of_tasks_is_asked_for_room_and_one_full_of_actors_is_not() {
    let mut harness = Harness::with_driver(2.0);
    harness.register(2, &[("CPU", 2.0)]);
    let whole = |number| ActorSpec {
        resources: ResourceSet::from_units([("CPU", 2.0)]),
        placement_resources: ResourceSet::from_units([("CPU", 2.0)]),
        ..spec(number, 1)
    };
    harness.create(whole(1));
    let on = harness.launches()[0].0;
    harness.started(on, 1, 0);
    let other = 3 - on;
    for node in [on, other] {
        harness.status(node, &[("CPU", 2.0)], &[]);
    }
    harness.create(whole(2));
    assert_eq!(kept_free(&mut harness), [], "the next report may show room");
    harness.pass(2_000, &[1, 2]);
    let asked = kept_free(&mut harness);
    assert!(!asked.is_empty());
    assert!(asked.iter().all(|one| *one == (other, 2.0)), "{asked:?}");
    harness.status(other, &[("CPU", 2.0)], &[("CPU", 2.0)]);
    assert_eq!(harness.launches(), [(other, 2, 0)]);
    harness.pass(2_000, &[1, 2]);
    assert_eq!(kept_free(&mut harness), [], "nobody waits any more");
}
