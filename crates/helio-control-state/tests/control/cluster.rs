//! Nodes, jobs, the key-value table, and restarts of the service.

use super::harness::{Harness, actor, info, job, node, spec, worker};
use helio_config::control::{LATE_NODES_MS, RECONNECT_MS_MAX};
use helio_control_state::{Action, Event, Health};
use helio_proto::cluster::{
    ControlToNode, JobLogs, NodeLeaving, NodeStatus, NodeToControl, RegisterNode, RunningActor,
    StatusUnchanged,
};
use helio_proto::control::{
    ActorPhase, ActorSpec, ControlResponse, FailureKind, GetNamedActor, KvDel, KvGet, KvKeys,
    KvPut, ListActors, ListJobs, ListNodes, StartJob, StopCluster,
};
use helio_proto::node::{LogLine, LogLines, NodeToClient};
use helio_types::{DeathKind, NodeId, WorkerAddress};
use proptest::prelude::*;

const CPUS: &[(&str, f64)] = &[("CPU", 4.0)];

/// The nodes that `to` was told of, with whether they are alive.
fn views(harness: &mut Harness, to: u8) -> Vec<(u8, bool)> {
    let views = harness.take(|at, message| match message {
        ControlToNode::View(view) if at == node(to) => Some(view.nodes.clone()),
        _ => None,
    });
    views.into_iter().flatten().map(|info| (info.address.node_id.0[0], info.alive)).collect()
}

fn refusals(harness: &mut Harness) -> Vec<(NodeId, String)> {
    harness.take(|to, message| match message {
        ControlToNode::Accepted(accepted) => Some((to, accepted.refused.clone())),
        _ => None,
    })
}

#[test]
fn nodes_learn_of_each_other() {
    let mut harness = Harness::new();
    harness.register(1, CPUS);
    assert_eq!(refusals(&mut harness), [(node(1), String::new())]);
    assert_eq!(views(&mut harness, 1), [(1, true)]);
    harness.register(2, CPUS);
    assert_eq!(views(&mut harness, 2), [(1, true), (2, true)]);
    assert_eq!(views(&mut harness, 1), [(2, true)]);
    harness.status(2, CPUS, &[("CPU", 1.0)]);
    assert_eq!(views(&mut harness, 1), [], "changes are gathered");
    harness.pass(100, &[]);
    assert_eq!(views(&mut harness, 1), [(2, true)]);
    assert_eq!(views(&mut harness, 2), [], "nobody is told of itself");
    // Resources that were lent and given back between two messages of the node are news for the nodes that sent
    // requests there.
    let lent_meanwhile =
        helio_proto::control::NodeInfo { version: 9, ..info(2, CPUS, &[("CPU", 1.0)]) };
    harness.say(2, NodeStatus { info: lent_meanwhile, sent_ms: 0 });
    harness.pass(100, &[]);
    assert_eq!(views(&mut harness, 1), [(2, true)]);
}

/// CTL-1: a cluster at work costs the control service a heartbeat a node and nothing else.
#[test]
fn a_heartbeat_causes_nothing() {
    let mut harness = Harness::with_driver(4.0);
    harness.create(spec(1, 1));
    harness.started(1, 1, 0);
    harness.status(1, CPUS, CPUS);
    harness.pass(1000, &[]);
    harness.sent.clear();
    let status = NodeStatus { info: info(1, CPUS, CPUS), sent_ms: 7 };
    for message in [status.into(), StatusUnchanged { sent_ms: 7 }.into()] {
        let heartbeat = Event::Node { node_id: node(1), message };
        let actions = harness.control.apply(heartbeat, harness.now_ms * 1000);
        let heard = helio_proto::cluster::Heard { sent_ms: 7 }.into();
        assert_eq!(actions, [Action::Send { node_id: node(1), message: heard }]);
        harness.pass(1000, &[]);
    }
    harness.pass(4000, &[1]);
    assert_eq!(harness.sent, []);
    let in_a_second = Some((harness.now_ms + 1_000) * 1_000);
    assert_eq!(harness.control.next_tick(), in_a_second, "and it sleeps for a second at a time");
}

#[test]
fn a_control_service_that_stood_still_blames_nobody_for_the_silence() {
    let mut harness = Harness::with_driver(0.0);
    harness.register(2, CPUS);
    // The process is stopped, or its machine suspended.
    harness.now_ms += 60_000;
    harness.apply(Event::Tick);
    harness.pass(4_000, &[1]);
    assert!(views(&mut harness, 1).iter().all(|(_, alive)| *alive));
    harness.pass(2_000, &[1]);
    assert_eq!(
        views(&mut harness, 1).last(),
        Some(&(2, false)),
        "from then on it was silent itself"
    );
}

/// Seed 3032172 of the simulator: the head's machine stood still for little more than a second while its own
/// daemon was about to connect again, and its daemon was declared dead.
#[test]
fn a_control_service_that_stood_still_gives_lost_nodes_their_time() {
    let mut harness = Harness::with_driver(0.0);
    harness.register(2, CPUS);
    harness.pass(2_000, &[1, 2]);
    harness.apply(Event::Disconnected { node_id: node(2) });
    harness.pass(200, &[1]);
    harness.now_ms += 1_200;
    harness.apply(Event::Tick);
    harness.pass(900, &[1]);
    assert!(views(&mut harness, 1).iter().all(|(_, alive)| *alive), "nothing could come meanwhile");
    harness.pass(200, &[1]);
    assert_eq!(views(&mut harness, 1).last(), Some(&(2, false)));
}

#[test]
fn how_long_a_node_may_be_silent_is_a_setting() {
    let mut harness = Harness::with_driver(0.0);
    harness.control.set_health(Health {
        heartbeat_ms: 200,
        silence_ms_max: 1_000,
        first_silence_ms: 20_000,
        ..Health::default()
    });
    harness.register(2, CPUS);
    harness.apply(Event::Tick);
    assert_eq!(harness.control.next_tick(), Some((harness.now_ms + 200) * 1_000));
    let accepted = harness.sent.iter().any(|(to, message)| {
        *to == node(2)
            && matches!(message, ControlToNode::Accepted(accepted) if accepted.heartbeat_ms == 200)
    });
    assert!(accepted, "the node learns how often it is to say that it is there");
    harness.pass(19_000, &[1]);
    assert!(views(&mut harness, 1).iter().all(|(_, alive)| *alive), "it has just joined");
    harness.say(2, NodeToControl::Unknown);
    let pass = |harness: &mut Harness, ms: u64| {
        for _ in 0..ms / 100 {
            harness.say(1, NodeToControl::Unknown);
            harness.pass(100, &[1]);
        }
    };
    pass(&mut harness, 800);
    assert!(views(&mut harness, 1).iter().all(|(_, alive)| *alive));
    pass(&mut harness, 400);
    assert_eq!(views(&mut harness, 1).last(), Some(&(2, false)));
}

#[test]
fn a_silent_node_is_given_up_and_its_actors_live_elsewhere() {
    let mut harness = Harness::with_driver(0.0);
    harness.register(2, CPUS);
    harness.create(ActorSpec { max_restarts: 1, ..spec(1, 1) });
    harness.create(spec(2, 1));
    harness.started(2, 1, 0);
    harness.started(2, 2, 0);
    harness.register(3, CPUS);
    harness.launches();
    harness.follow(2, 1, 1);
    views(&mut harness, 1);
    harness.pass(5500, &[1, 3]);
    assert_eq!(views(&mut harness, 1).last(), Some(&(2, false)));
    assert_eq!(harness.launches(), [(3, 1, 1)]);
    let dead = harness.info(2);
    assert_eq!((dead.phase, dead.cause.kind), (ActorPhase::Dead, DeathKind::NodeDied));
    assert!(
        dead.cause.message.contains("10.0.0.2") && dead.cause.message.contains("silent"),
        "{}",
        dead.cause
    );
    // The node wakes up: it must not go on.
    harness.sent.clear();
    harness.status(2, CPUS, CPUS);
    assert!(matches!(&harness.sent[..], [(to, ControlToNode::ShutDown(_))] if *to == node(2)));
    harness.register(2, CPUS);
    assert!(refusals(&mut harness)[0].1.contains("declared dead"));
    // The node may come back as another one.
    harness.register(22, CPUS);
    assert_eq!(refusals(&mut harness), [(node(22), String::new())]);
}

#[test]
fn a_node_that_others_reach_is_given_all_patience() {
    let mut harness = Harness::with_driver(0.0);
    harness.is_reached = true;
    harness.register(2, CPUS);
    harness.register(3, CPUS);
    views(&mut harness, 1);
    harness.pass(60_000, &[1, 3]);
    assert!(views(&mut harness, 1).iter().all(|(_, alive)| *alive));
    harness.pass(6_000, &[1, 3]);
    assert_eq!(views(&mut harness, 1).last(), Some(&(2, false)));
}

#[test]
fn a_head_that_misses_most_nodes_declares_nobody_dead() {
    let mut harness = Harness::with_driver(0.0);
    for number in 2..=5 {
        harness.register(number, CPUS);
    }
    views(&mut harness, 1);
    harness.pass(60_000, &[1, 2]);
    assert_eq!(harness.control.n_nodes(), 5);
    // The cable is in again.
    harness.pass(10_000, &[1, 2, 3, 4, 5]);
    assert_eq!(harness.control.n_nodes(), 5);
    // Two of five others: that is their machines' affair.
    harness.pass(6_000, &[1, 2, 3]);
    assert_eq!(harness.control.n_nodes(), 3);
}

#[test]
fn a_head_whose_link_is_down_declares_nobody_dead() {
    let mut harness = Harness::with_driver(0.0);
    harness.register(2, CPUS);
    harness.apply(Event::Link { is_up: false });
    harness.pass(60_000, &[1]);
    assert_eq!(harness.control.n_nodes(), 2);
    harness.apply(Event::Link { is_up: true });
    harness.pass(4_000, &[1]);
    assert_eq!(harness.control.n_nodes(), 2, "its silence counts from now on");
    harness.pass(2_000, &[1]);
    assert_eq!(harness.control.n_nodes(), 1);
}

#[test]
fn a_broken_connection_is_given_a_moment() {
    let mut harness = Harness::with_driver(4.0);
    harness.create(ActorSpec { max_restarts: 1, ..spec(1, 1) });
    harness.create(spec(2, 1));
    harness.create(spec(3, 1));
    harness.started(1, 1, 0);
    harness.started(1, 2, 0);
    harness.launches();
    harness.apply(Event::Disconnected { node_id: node(1) });
    harness.pass(500, &[]);
    // Actor 2 died meanwhile, 3 is still starting, and there is one that nobody knows.
    let running = |number: u8| RunningActor {
        actor_id: actor(number),
        incarnation: 0,
        address: WorkerAddress {
            worker_id: worker(100 + number),
            node_id: node(1),
            ..WorkerAddress::default()
        },
        pid: 9,
    };
    harness.say(
        1,
        RegisterNode {
            info: info(1, CPUS, CPUS),
            actors: vec![running(1), running(8)],
            clients: vec![worker(1)],
            clients_known: true,
            bundles: Vec::new(),
            sent_ms: 0,
            session_name: String::new(),
        },
    );
    assert_eq!(harness.launches(), [(1, 3, 0)], "the launch may have been lost");
    assert_eq!(harness.stops(), [(1, 8, false)]);
    assert_eq!(harness.info(1).phase, ActorPhase::Alive);
    assert_eq!(harness.info(2).phase, ActorPhase::Dead);
    harness.pass(3000, &[1]);
    assert_eq!(harness.control.n_nodes(), 1);
    harness.apply(Event::Disconnected { node_id: node(1) });
    harness.pass(1100, &[]);
    assert_eq!(harness.control.n_nodes(), 0, "it did not come back");
}

#[test]
fn clients_that_ended_unnoticed_are_missed() {
    let mut harness = Harness::with_driver(4.0);
    harness.create(spec(1, 5));
    harness.started(1, 1, 0);
    harness.apply(Event::Disconnected { node_id: node(1) });
    harness.say(
        1,
        RegisterNode { info: info(1, CPUS, CPUS), clients_known: true, ..RegisterNode::default() },
    );
    assert_eq!(harness.info(1).phase, ActorPhase::Dead);
    let ControlResponse::Jobs(jobs) = harness.ask(1, 200, ListJobs {}) else { panic!("no jobs") };
    assert_eq!(jobs.jobs.iter().map(|job| job.alive).collect::<Vec<_>>(), [false]);
}

#[test]
fn a_node_that_leaves_takes_its_drivers_along() {
    let mut harness = Harness::with_driver(0.0);
    harness.register(2, CPUS);
    harness.create(ActorSpec { max_restarts: -1, ..spec(1, 1) });
    harness.started(2, 1, 0);
    harness.say(1, NodeLeaving { reason: "stopped".into(), ..NodeLeaving::default() });
    assert_eq!(harness.stops(), [(2, 1, false)]);
    let finished = harness.take(|to, message| match message {
        ControlToNode::JobFinished(finished) => Some((to.0[0], finished.job_id)),
        _ => None,
    });
    assert_eq!(finished, [(2, job(1))]);
}

#[test]
fn a_driver_that_names_no_namespace_has_its_own() {
    let mut harness = Harness::with_driver(0.0);
    let mut namespace = |driver: u8| {
        let request = StartJob { driver: worker(driver), ..StartJob::default() };
        match harness.ask(1, driver, request) {
            ControlResponse::Job(job) => job.namespace,
            other => panic!("no job: {other:?}"),
        }
    };
    assert_eq!(namespace(0xab), "abababab-abab-abab-abab-abababababab");
    assert_ne!(namespace(3), namespace(4));
}

#[test]
fn lines_find_their_driver() {
    let mut harness = Harness::with_driver(0.0);
    harness.register(2, CPUS);
    harness.sent.clear();
    let lines = LogLines { lines: vec![LogLine { text: "hello".into(), ..LogLine::default() }] };
    harness.say(2, JobLogs { job_id: job(1), lines: lines.clone() });
    harness.say(2, JobLogs { job_id: job(7), lines: lines.clone() });
    let [(to, ControlToNode::ToClient(message))] = &harness.sent[..] else { panic!("one message") };
    assert_eq!(
        (*to, message.worker_id, &message.message),
        (node(1), worker(1), &NodeToClient::LogLines(lines))
    );
}

#[test]
fn the_key_value_table() {
    let mut harness = Harness::with_driver(0.0);
    let put = |key: &str, value: &str, overwrite| KvPut {
        namespace: "n".into(),
        key: key.into(),
        value: value.into(),
        overwrite,
    };
    let found = |response| match response {
        ControlResponse::KvValue(value) => (value.found, String::from_utf8(value.value).unwrap()),
        other => panic!("not a value: {other:?}"),
    };
    let get = |key: &str| KvGet { namespace: "n".into(), key: key.into() };
    assert_eq!(found(harness.ask(1, 1, put("ab", "1", false))), (false, String::new()));
    assert_eq!(found(harness.ask(1, 1, put("ab", "2", false))), (true, String::new()));
    assert_eq!(found(harness.ask(1, 1, get("ab"))), (true, "1".to_owned()));
    harness.ask(1, 1, put("ab", "3", true));
    harness.ask(1, 1, put("ac", "4", true));
    harness.ask(1, 1, put("b", "5", true));
    harness.restart();
    harness.register(1, CPUS);
    assert_eq!(found(harness.ask(1, 1, get("ab"))), (true, "3".to_owned()), "STATE-2");
    let keys = KvKeys { namespace: "n".into(), prefix: b"a".to_vec() };
    let ControlResponse::KvList(list) = harness.ask(1, 1, keys) else { panic!("no list") };
    assert_eq!(list.keys.iter().map(|key| key.value.clone()).collect::<Vec<_>>(), [b"ab", b"ac"]);
    assert_eq!(
        found(harness.ask(1, 1, KvDel { namespace: "n".into(), key: b"ab".to_vec() })),
        (true, String::new())
    );
    assert_eq!(found(harness.ask(1, 1, get("ab"))), (false, String::new()));
    let other = KvGet { namespace: "other".into(), key: b"b".to_vec() };
    assert!(!found(harness.ask(1, 1, other)).0);
}

/// STATE-2: what was acknowledged is there after a restart, and what ran goes on.
#[test]
fn a_restart_of_the_service_loses_nothing() {
    let mut harness = Harness::with_driver(0.0);
    harness.register(2, CPUS);
    harness.register(3, CPUS);
    for (number, name) in [(1, "one"), (2, "two"), (3, "three")] {
        harness.create(ActorSpec {
            name: name.into(),
            detached: true,
            max_restarts: 5,
            ..spec(number, 1)
        });
        let placed: Vec<_> = harness.launches();
        harness.started(placed[0].0, number, 0);
    }
    let home = harness.info(1).node_id.0[0];
    harness.ended(home, 1, 0, DeathKind::Signaled);
    let (again, 1, 1) = harness.launches()[0] else { panic!("a restart") };
    harness.started(again, 1, 1);
    let home = harness.info(2).node_id.0[0];
    harness.ended(home, 2, 0, DeathKind::Intended);

    harness.restart();
    harness.register(1, &[]);
    let running = RunningActor {
        actor_id: actor(1),
        incarnation: 1,
        address: WorkerAddress {
            worker_id: worker(101),
            node_id: node(again),
            ..WorkerAddress::default()
        },
        pid: 9,
    };
    harness.say(
        again,
        RegisterNode {
            info: info(again, CPUS, CPUS),
            actors: vec![running],
            ..RegisterNode::default()
        },
    );
    let get = |name: &str| GetNamedActor { name: name.into(), namespace: "ns".into() };
    assert!(
        matches!(harness.ask(1, 1, get("one")), ControlResponse::NamedActor(found) if found.actor_id == actor(1))
    );
    assert_eq!((harness.info(1).phase, harness.info(1).restarts), (ActorPhase::Alive, 1));
    assert!(matches!(harness.ask(1, 1, get("two")), ControlResponse::Failed(failure)
        if failure.kind == FailureKind::NotFound));
    assert!(
        matches!(harness.ask(1, 1, get("three")), ControlResponse::NamedActor(_)),
        "it may still come back"
    );
    assert_eq!(harness.launches(), []);
    harness.pass(11_000, &[1, again]);
    assert_eq!(harness.launches(), [(again, 3, 1)], "nobody had it");
    assert_eq!(harness.start_job(1, 9).job_id, job(2), "job ids are never given twice");
}

/// STATE-2: neither is one that was not alive yet, though it may not be restarted.
#[test]
fn what_had_not_started_starts_after_a_restart_of_the_service() {
    let mut harness = Harness::with_driver(0.0);
    harness.create(ActorSpec { detached: true, name: "a".into(), ..spec(1, 1) });
    harness.restart();
    harness.register(1, &[]);
    assert_eq!(harness.launches(), []);
    harness.register(2, CPUS);
    assert_eq!(harness.launches(), [(2, 1, 0)], "it was sent nowhere before");
    harness.restart();
    harness.register(1, &[]);
    harness.register(3, CPUS);
    assert_eq!(harness.launches(), [], "the second node may have it");
    harness.register(2, CPUS);
    assert_eq!(harness.launches(), [(2, 1, 0)], "it is asked, and ignores what it knows");
    harness.pass(11_000, &[1, 2, 3]);
    harness.started(2, 1, 0);
    assert_eq!((harness.info(1).phase, harness.info(1).restarts), (ActorPhase::Alive, 0));
    harness.restart();
    harness.register(1, &[]);
    harness.register(2, CPUS);
    harness.ended(2, 1, 0, DeathKind::Signaled);
    assert_eq!(harness.info(1).phase, ActorPhase::Dead, "it had ended meanwhile");
}

#[test]
fn what_lived_on_the_head_itself_is_made_anew_at_once() {
    let mut harness = Harness::with_driver(4.0);
    harness.create(ActorSpec { detached: true, name: "a".into(), max_restarts: 1, ..spec(1, 1) });
    harness.create(ActorSpec { max_restarts: 1, ..spec(2, 1) });
    harness.started(1, 1, 0);
    harness.started(1, 2, 0);
    harness.restart_without(&[node(1)]);
    harness.register(2, CPUS);
    assert_eq!(harness.launches(), [(2, 1, 1)], "its driver is gone, and what that owned with it");
    let ControlResponse::Actors(all) = harness.ask(2, 1, ListActors {}) else {
        panic!("no actors")
    };
    let phases: Vec<ActorPhase> = all.actors.iter().map(|info| info.phase).collect();
    assert_eq!(phases, [ActorPhase::Restarting, ActorPhase::Dead]);
}

/// OWN-1: its driver's job is over by then, and what it ran lives elsewhere (simulated seed 30022271).
#[test]
fn a_node_that_comes_after_the_recovery_has_ended_is_dead() {
    let mut harness = Harness::new();
    harness.register(1, &[]);
    harness.register(2, CPUS);
    harness.start_job(2, 1);
    harness.restart();
    harness.register(1, &[]);
    harness.pass(11_000, &[1]);
    let ended =
        harness.take(|to, message| matches!(message, ControlToNode::JobFinished(_)).then_some(to));
    assert_eq!(ended, [node(1)]);
    harness.register(2, CPUS);
    let answers = harness.take(|to, message| match message {
        ControlToNode::Accepted(accepted) if to == node(2) => {
            Some((accepted.refused.contains("did not come back"), accepted.may_rejoin))
        }
        _ => None,
    });
    assert_eq!(answers, [(true, true)]);
    assert_eq!(harness.control.n_nodes(), 1);
}

#[test]
fn the_cluster_ends_when_told() {
    let mut harness = Harness::with_driver(0.0);
    harness.register(2, CPUS);
    harness.ask(1, 200, StopCluster { reason: "enough".into() });
    let told =
        harness.take(|to, message| matches!(message, ControlToNode::ShutDown(_)).then_some(to));
    assert_eq!(told, [node(1), node(2)]);
    harness.say(1, NodeLeaving::default());
    assert_eq!(harness.ended, None, "the other one may not have heard it");
    harness.say(2, NodeLeaving::default());
    assert_eq!(harness.ended.as_deref(), Some("enough"));
}

/// The refusals of a node that registers now: whether each has a reason, and whether the node may come again.
fn refused(harness: &mut Harness, number: u8) -> Vec<(bool, bool)> {
    harness.register(number, CPUS);
    harness.take(|to, message| match message {
        ControlToNode::Accepted(accepted) if to == node(number) => {
            Some((accepted.refused.contains("has ended: enough"), accepted.may_rejoin))
        }
        _ => None,
    })
}

#[test]
fn a_cluster_that_is_stopped_right_after_a_restart_waits_for_its_nodes() {
    let mut harness = Harness::with_driver(0.0);
    harness.restart();
    harness.register(1, CPUS);
    harness.pass(200, &[1]);
    harness.apply(Event::Stop { reason: "enough".into() });
    harness.say(1, NodeLeaving::default());
    assert_eq!(harness.ended, None, "nodes of before may come");
    assert_eq!(refused(&mut harness, 2), [(true, false)]);
    assert_eq!(harness.control.n_nodes(), 1);
    harness.pass(LATE_NODES_MS, &[1]);
    assert_eq!(harness.ended.take().as_deref(), Some("enough"));
    assert_eq!(refused(&mut harness, 3), [(true, false)]);
    harness.apply(Event::Stop { reason: "again".into() });
    harness.pass(2_000, &[1]);
    assert_eq!(harness.ended, None, "it ends once");
}

#[test]
fn a_cluster_that_is_stopped_waits_for_a_node_whose_connection_broke() {
    for comes in [true, false] {
        let mut harness = Harness::with_driver(0.0);
        harness.register(2, CPUS);
        harness.sent.clear();
        harness.apply(Event::Disconnected { node_id: node(2) });
        harness.ask(1, 200, StopCluster { reason: "enough".into() });
        harness.say(1, NodeLeaving::default());
        assert_eq!(harness.ended, None);
        if comes {
            assert_eq!(refused(&mut harness, 2), [(true, false)]);
        } else {
            harness.pass(RECONNECT_MS_MAX, &[1]);
        }
        assert_eq!(harness.ended.as_deref(), Some("enough"), "comes: {comes}");
    }
}

/// LIMIT-1: finished jobs and dead nodes are forgotten, the oldest first.
#[test]
fn tables_do_not_grow_with_age() {
    let mut harness = Harness::new();
    harness.register(1, &[]);
    for _ in 0..helio_config::control::FINISHED_JOBS_MAX + 10 {
        harness.start_job(1, 7);
        harness.client_gone(1, 7, true);
        harness.sent.clear();
    }
    let ControlResponse::Jobs(jobs) = harness.ask(1, 7, ListJobs {}) else { panic!("no jobs") };
    assert_eq!(jobs.jobs.len(), helio_config::control::FINISHED_JOBS_MAX);
    assert_eq!(harness.disk.len(), helio_config::control::FINISHED_JOBS_MAX);
    for number in 0..helio_config::control::DEAD_NODES_MAX + 10 {
        let mut id = node(2);
        id.0[..8].copy_from_slice(&(number as u64).to_be_bytes());
        let mut info = info(2, CPUS, CPUS);
        info.address.node_id = id;
        let register = NodeToControl::Register(RegisterNode { info, ..RegisterNode::default() });
        harness.apply(Event::Node { node_id: id, message: register });
        harness.apply(Event::Node {
            node_id: id,
            message: NodeToControl::Leaving(NodeLeaving::default()),
        });
        harness.sent.clear();
    }
    let ControlResponse::Nodes(nodes) = harness.ask(1, 7, ListNodes {}) else { panic!("no nodes") };
    assert_eq!(nodes.nodes.len(), helio_config::control::DEAD_NODES_MAX + 1);
}

/// A step of a history, in small numbers so that steps meet.
#[derive(Clone, Debug)]
enum Step {
    Register(u8, bool),
    Status(u8, u8),
    Lose(u8),
    Leave(u8),
    Job(u8, u8),
    Create { number: u8, owner: u8, on: u8, flavour: u8 },
    Kill { number: u8, how: u8 },
    Follow(u8, u8, u8),
    Started(u8, u8, u32),
    Ended { on: u8, number: u8, incarnation: u32, kind: usize, retry: bool },
    Gone(u8, u8, bool),
    Put(u8, u8),
    Pass(u64),
    Disk(bool),
    Restart,
}

fn steps() -> impl Strategy<Value = Step> {
    let (node, small, who) = (1u8..4, 1u8..7, 1u8..5);
    prop_oneof![
        (node.clone(), any::<bool>()).prop_map(|(n, known)| Step::Register(n, known)),
        (node.clone(), 0u8..5).prop_map(|(n, free)| Step::Status(n, free)),
        node.clone().prop_map(Step::Lose),
        node.clone().prop_map(Step::Leave),
        (node.clone(), who.clone()).prop_map(|(n, who)| Step::Job(n, who)),
        (small.clone(), who.clone(), node.clone(), any::<u8>())
            .prop_map(|(number, owner, on, flavour)| Step::Create { number, owner, on, flavour }),
        (small.clone(), 0u8..3).prop_map(|(number, how)| Step::Kill { number, how }),
        (small.clone(), node.clone(), who.clone()).prop_map(|(a, n, who)| Step::Follow(a, n, who)),
        (node.clone(), small.clone(), 0u32..2).prop_map(|(n, a, i)| Step::Started(n, a, i)),
        (node.clone(), small, 0u32..2, 0usize..9, any::<bool>()).prop_map(
            |(on, number, incarnation, kind, retry)| {
                Step::Ended { on, number, incarnation, kind, retry }
            }
        ),
        (node.clone(), 1u8..120, any::<bool>())
            .prop_map(|(n, who, driver)| Step::Gone(n, who, driver)),
        (0u8..3, 0u8..3).prop_map(|(key, value)| Step::Put(key, value)),
        (1u64..3000).prop_map(Step::Pass),
        any::<bool>().prop_map(Step::Disk),
        Just(Step::Restart),
    ]
}

/// Carries out a step; all actions of the machine are noted in `trace`.
fn step(harness: &mut Harness, step: &Step, trace: &mut Vec<Action>) {
    use helio_proto::cluster::{ActorEnded, ActorStarted, ClientGone, FromClient};
    use helio_proto::control::{ControlRequest, KillActor, SubscribeActor};
    use helio_proto::node::ControlCall;
    use helio_types::{DeathCause, ResourceSet};
    let call = |worker_number: u8, request: ControlRequest| {
        NodeToControl::FromClient(FromClient {
            worker_id: worker(worker_number),
            call: ControlCall { request_id: 1, request },
        })
    };
    let (from, message) = match step.clone() {
        Step::Register(number, clients_known) => {
            let info = info(number, CPUS, CPUS);
            (
                number,
                RegisterNode {
                    info,
                    clients_known,
                    clients: vec![worker(1)],
                    ..RegisterNode::default()
                }
                .into(),
            )
        }
        Step::Status(number, free) => (
            number,
            NodeStatus { info: info(number, CPUS, &[("CPU", f64::from(free))]), sent_ms: 0 }.into(),
        ),
        Step::Lose(number) => {
            let actions = harness
                .control
                .apply(Event::Disconnected { node_id: node(number) }, harness.now_ms * 1000);
            trace.extend(actions.clone());
            return harness.perform(actions);
        }
        Step::Leave(number) => (number, NodeLeaving::default().into()),
        Step::Job(number, driver) => (
            number,
            call(driver, StartJob { driver: worker(driver), ..StartJob::default() }.into()),
        ),
        Step::Create { number, owner, on, flavour } => {
            let mut spec = spec(number, owner);
            spec.owner.node_id = node(on);
            spec.detached = flavour & 1 != 0;
            spec.max_restarts = i64::from(flavour >> 1 & 3) - 1;
            spec.name = if flavour & 8 != 0 { "name".into() } else { String::new() };
            spec.placement_resources =
                ResourceSet::from_units([("CPU", f64::from(flavour >> 4 & 7))]);
            spec.resources = if flavour & 128 != 0 {
                spec.placement_resources.clone()
            } else {
                ResourceSet::default()
            };
            (on, call(owner, ControlRequest::CreateActor(spec)))
        }
        Step::Kill { number, how } => {
            let kill =
                KillActor { actor_id: actor(number), no_restart: how == 0, out_of_scope: how == 2 };
            (1, call(1, kill.into()))
        }
        Step::Follow(number, on, who) => {
            (on, call(who, SubscribeActor { actor_id: actor(number) }.into()))
        }
        Step::Started(on, number, incarnation) => {
            let address = WorkerAddress {
                worker_id: worker(100 + number),
                node_id: node(on),
                ..WorkerAddress::default()
            };
            (on, ActorStarted { actor_id: actor(number), incarnation, address, pid: 1 }.into())
        }
        Step::Ended { on, number, incarnation, kind, retry } => {
            let cause = DeathCause::new(DeathKind::ALL[kind], "x");
            (
                on,
                ActorEnded { actor_id: actor(number), incarnation, cause, retry, attempt: 1 }
                    .into(),
            )
        }
        Step::Gone(on, who, is_driver) => {
            (on, ClientGone { worker_id: worker(who), is_driver, ..ClientGone::default() }.into())
        }
        Step::Put(key, value) => {
            let put = KvPut {
                namespace: "n".into(),
                key: vec![key],
                value: vec![value],
                overwrite: true,
            };
            (1, call(1, put.into()))
        }
        Step::Pass(ms) => {
            harness.now_ms += ms;
            let actions = harness.control.apply(Event::Tick, harness.now_ms * 1000);
            trace.extend(actions.clone());
            return harness.perform(actions);
        }
        Step::Disk(is_full) => {
            let actions = harness.set_full(is_full);
            trace.extend(actions.clone());
            return harness.perform(actions);
        }
        Step::Restart => return harness.restart(),
    };
    let actions =
        harness.control.apply(Event::Node { node_id: node(from), message }, harness.now_ms * 1000);
    trace.extend(actions.clone());
    harness.perform(actions);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// STATE-1: whatever happens in whatever order, it is taken, derived state stays true, and the
    /// same events cause the same actions. STATE-2: what is on disk at the end is what is known.
    #[test]
    fn any_order_of_events_is_taken(steps in proptest::collection::vec(steps(), 1..120)) {
        let (mut one, mut two) = (Harness::new(), Harness::new());
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for s in &steps {
            step(&mut one, s, &mut first);
            step(&mut two, s, &mut second);
            prop_assert_eq!(one.control.check(), Ok(()));
        }
        prop_assert_eq!(first, second);
        let actions = one.set_full(false);
        one.perform(actions);
        one.register(9, &[]);
        let alive = |harness: &mut Harness| {
            let ControlResponse::Actors(all) = harness.ask(9, 1, ListActors {}) else { panic!("no actors") };
            let dead = ActorPhase::Dead;
            let live = all.actors.into_iter().filter(|info| info.phase != dead);
            live.map(|info| (info.actor_id, info.incarnation)).collect::<Vec<_>>()
        };
        let before = alive(&mut one);
        one.restart();
        one.register(9, &[]);
        prop_assert_eq!(before, alive(&mut one));
    }
}
