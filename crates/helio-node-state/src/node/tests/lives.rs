//! Clients, workers and jobs: how they come and go, and who is told.

use helio_proto::cluster::{
    AskLiveness, FlushJobLogs, NodeAccepted, NodeToControl, NodeToNode, TellLiveness,
};
use helio_proto::control::{FailureKind, KvGet};
use helio_proto::environment::RuntimeEnv;
use helio_proto::hello::Role;
use helio_proto::node::{
    ControlCall, Exit as ExitMessage, FlushLogs, Liveness, LogLine, NodeToClient, Register,
    SealObject, StopNode,
};
use helio_types::{DeathCause, DeathKind, JobId, WorkerAddress, WorkerId};

use super::{World, node_id};
use crate::limits::{
    LIVENESS_MS, NODE_ABSENT_MS_MAX, OWNER_MS_MAX, WORKER_IDLE_MS_MAX, WORKER_START_MS_MAX,
};
use crate::{Conn, Event, Exit, Setup};

fn liveness(world: &mut World, conn: Conn) -> Option<(bool, DeathCause)> {
    world.take(conn, |message| match message {
        NodeToClient::LivenessReply(reply) => Some((reply.dead, reply.cause.clone())),
        _ => None,
    })
}

fn at(node: u8, worker_id: WorkerId) -> WorkerAddress {
    WorkerAddress { worker_id, node_id: node_id(node), ..WorkerAddress::default() }
}

#[test]
fn who_breaks_the_protocol_is_disconnected_and_harms_nobody() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let driver = world.driver();
    let early = world.open(Role::Driver, node_id(1), true);
    world.say(early, SealObject::default());
    let observer = world.open(Role::Observer, node_id(1), true);
    world.say(observer, Register { observer: true, ..Register::default() });
    let class = world.class(1, &[("CPU", 1.0)]);
    world.request(observer, 1, class.clone());
    let far = world.open(Role::Driver, node_id(2), false);
    world.say(far, Register { is_driver: true, ..Register::default() });
    let stranger = world.open(Role::Worker, node_id(1), true);
    world.say(stranger, Register { worker_id: WorkerId([77; 28]), ..Register::default() });
    let closed: Vec<Conn> = world.closed.iter().map(|(conn, _)| *conn).collect();
    assert_eq!(closed, [early, observer, far, stranger]);
    world.request(driver, 1, class);
    assert!(world.granted(driver).is_some());
}

#[test]
fn idle_workers_beyond_the_kept_ones_end_after_a_while() {
    let mut world = World::new(&[("CPU", 4.0)]);
    let driver = world.driver();
    let class = world.class(1, &[("CPU", 1.0)]);
    for request_id in 1..=4 {
        world.request(driver, request_id, class.clone());
    }
    let leases: Vec<_> = (0..4).map(|_| world.granted(driver).unwrap()).collect();
    for lease in &leases {
        world.give_back(driver, lease);
    }
    world.pass(WORKER_IDLE_MS_MAX - 1);
    assert_eq!(world.workers.len(), 4);
    world.pass(1);
    assert_eq!(world.workers.len(), 2, "LIMIT-1");
    world.close(driver);
    assert_eq!(world.workers.len(), 0, "none idles for a finished job");
}

#[test]
fn starts_are_bounded_and_go_on_as_workers_register() {
    let mut world = World::new(&[("CPU", 8.0)]);
    world.starts_at_once = false;
    let driver = world.driver();
    let class = world.class(1, &[("CPU", 1.0)]);
    for request_id in 1..=8 {
        world.request(driver, request_id, class.clone());
    }
    assert_eq!(world.spawned.len(), 4, "LIMIT-1");
    for n in 0..8 {
        let worker_id = world.spawned[n].worker_id;
        world.register_worker(worker_id);
        world.pass(0);
        assert!(world.granted(driver).is_some());
    }
    assert_eq!(world.spawned.len(), 8);
}

fn refused(world: &mut World, conn: Conn) -> Option<(FailureKind, String)> {
    world.take(conn, |message| match message {
        NodeToClient::LeaseRefused(refused) => {
            Some((refused.failure.kind, refused.failure.message.clone()))
        }
        _ => None,
    })
}

#[test]
fn who_waits_for_workers_that_cannot_start_is_told() {
    let mut world = World::new(&[("CPU", 8.0)]);
    world.starts_at_once = false;
    let driver = world.driver();
    let class = world.class(1, &[("CPU", 1.0)]);
    world.request(driver, 1, class.clone());
    for n in 0..3 {
        assert_eq!(refused(&mut world, driver), None);
        let worker_id = world.spawned[n].worker_id;
        world.worker_ends(worker_id, Exit::Code(1));
        world.pass(0);
    }
    let (_, message) = refused(&mut world, driver).unwrap();
    assert!(message.contains("exited with code 1") && message.contains("tail"), "{message}");
    world.request(driver, 2, class.clone());
    for _ in 0..3 {
        world.pass(WORKER_START_MS_MAX);
    }
    let (_, message) = refused(&mut world, driver).unwrap();
    assert!(message.contains("did not register"), "{message}");
    let mut odd = class;
    odd.runtime_env = RuntimeEnv::with_variables(&[("A=B", "1")]);
    world.request(driver, 3, odd);
    assert_eq!(refused(&mut world, driver).unwrap().0, FailureKind::RuntimeEnv);
    world.close(driver);
    world.assert_nothing_leaked();
}

#[test]
fn the_environment_reaches_the_process() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let driver = world.driver();
    let mut class = world.class(1, &[("CPU", 1.0)]);
    class.runtime_env =
        RuntimeEnv { working_dir: "/srv".into(), ..RuntimeEnv::with_variables(&[("A", "1")]) };
    world.request(driver, 1, class);
    let spawn = &world.spawned[0];
    assert_eq!(
        (spawn.env.get("A").map(String::as_str), spawn.cwd.as_deref()),
        (Some("1"), Some("/srv"))
    );
}

#[test]
fn a_question_about_a_process_is_answered_when_the_news_are_there() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let driver = world.driver();
    let class = world.class(1, &[("CPU", 1.0)]);
    world.request(driver, 1, class);
    let worker_id = world.granted(driver).unwrap().worker.worker_id;
    world.say(driver, Liveness { request_id: 1, worker: at(1, worker_id) });
    assert_eq!(liveness(&mut world, driver), None, "held open for a moment");
    world.pass(LIVENESS_MS);
    assert!(!liveness(&mut world, driver).unwrap().0);
    world.say(driver, Liveness { request_id: 2, worker: at(1, worker_id) });
    world.worker_ends(worker_id, Exit::Signal(9));
    world.pass(0);
    let (dead, cause) = liveness(&mut world, driver).unwrap();
    assert!(dead && cause.kind == DeathKind::Signaled);
    world.say(driver, Liveness { request_id: 3, worker: at(1, worker_id) });
    assert!(liveness(&mut world, driver).unwrap().0, "remembered");
    world.say(driver, Liveness { request_id: 4, worker: at(1, WorkerId([3; 28])) });
    assert!(liveness(&mut world, driver).unwrap().0, "nobody of that name is here");
}

#[test]
fn another_node_answers_for_its_processes() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let driver = world.driver();
    world.view(&[(2, true, 1.0), (3, true, 1.0)]);
    let worker_id = WorkerId([5; 28]);
    world.say(driver, Liveness { request_id: 1, worker: at(2, worker_id) });
    let (to, message) = world.asked.pop().unwrap();
    let NodeToNode::AskLiveness(ask) = message else { panic!("{message:?}") };
    assert_eq!((to, ask.worker_id), (node_id(2), worker_id));
    let cause = DeathCause::new(DeathKind::Exited, "gone");
    let told = TellLiveness { request_id: ask.request_id, dead: true, cause: cause.clone() };
    world.feed(Event::PeerSaid { conn: Conn(900), node_id: node_id(2), message: told.into() });
    assert_eq!(liveness(&mut world, driver), Some((true, cause)));

    world.say(driver, Liveness { request_id: 2, worker: at(3, worker_id) });
    world.now += 1;
    world.view(&[(3, false, 0.0)]);
    assert_eq!(liveness(&mut world, driver).unwrap().1.kind, DeathKind::NodeDied);
    world.say(driver, Liveness { request_id: 3, worker: at(3, worker_id) });
    assert_eq!(liveness(&mut world, driver).unwrap().1.kind, DeathKind::NodeDied);

    let ask = AskLiveness { request_id: 8, worker_id };
    world.feed(Event::PeerSaid { conn: Conn(901), node_id: node_id(2), message: ask.into() });
    assert!(
        matches!(world.answered.pop(), Some((Conn(901), NodeToNode::TellLiveness(told))) if told.dead)
    );
}

/// OWN-1: a connection to a node that only hangs does not break by itself.
#[test]
fn the_clients_of_a_node_are_told_once_when_another_dies() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let driver = world.driver();
    let class = world.class(1, &[("CPU", 1.0)]);
    world.request(driver, 1, class);
    let lease = world.granted(driver).unwrap();
    let worker = world.conn_of(&lease);
    let died = |message: &NodeToClient| match message {
        NodeToClient::NodeDied(died) => Some(died.node_id),
        _ => None,
    };
    world.view(&[(2, true, 1.0), (3, true, 1.0)]);
    assert_eq!(world.take(driver, died), None);
    for _ in 0..2 {
        world.now += 1;
        world.view(&[(3, false, 0.0)]);
    }
    for client in [driver, worker] {
        assert_eq!(world.take(client, died), Some(node_id(3)));
        assert_eq!(world.take(client, died), None, "once");
    }
}

/// A control service that started anew does not know who died meanwhile, and tells of the others one by one.
#[test]
fn a_node_that_stood_still_does_not_take_its_sleep_for_the_others_absence() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let driver = world.driver();
    world.view(&[(2, true, 1.0)]);
    let died = |message: &NodeToClient| matches!(message, NodeToClient::NodeDied(_));
    let accepted = |world: &mut World| {
        let sent_ms = world.now;
        let accepted = NodeAccepted { silence_ms: 5_000, sent_ms, ..NodeAccepted::default() };
        world.feed(Event::ControlSaid(accepted.into()));
    };
    accepted(&mut world);
    world.pass(NODE_ABSENT_MS_MAX / 2);
    // Reached once more: the time begins anew.
    accepted(&mut world);
    let second = |world: &mut World| world.pass(1_000);
    (0..NODE_ABSENT_MS_MAX / 1_000 - 1).for_each(|_| second(&mut world));
    assert!(!world.took(driver, died));
    world.now += 2 * NODE_ABSENT_MS_MAX;
    world.feed(Event::Tick);
    assert!(!world.took(driver, died), "it stood still, or its clock was set");
    (0..2).for_each(|_| second(&mut world));
    assert!(world.took(driver, died), "nobody has spoken of it for so long");
}

#[test]
fn what_a_worker_said_last_is_heard_before_its_death_counts() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let driver = world.driver();
    let class = world.class(1, &[("CPU", 1.0)]);
    world.request(driver, 1, class);
    let lease = world.granted(driver).unwrap();
    let (worker_id, conn) = (lease.worker.worker_id, world.conn_of(&lease));
    world.feed(Event::WorkerExited { worker_id, exit: Exit::Code(1), log_tail: String::new() });
    assert!(!world.forgotten.contains(&worker_id));
    world.say(
        conn,
        helio_proto::node::Leaving {
            cause: DeathCause::new(DeathKind::UserExit, "bye"),
            is_needed: false,
        },
    );
    world.pass(100);
    assert!(
        world.forgotten.contains(&worker_id),
        "a child that keeps the socket open does not matter"
    );
    let lost = world.take(driver, |message| match message {
        NodeToClient::LeaseLost(lost) => Some(lost.cause.clone()),
        _ => None,
    });
    let cause = lost.unwrap();
    assert_eq!((cause.kind, cause.message.as_str()), (DeathKind::UserExit, "bye"));
}

#[test]
fn a_driver_that_ends_is_reported_and_its_cluster_ends_with_it() {
    let setup = Setup { has_owner: true, starts_max: 1, ..Setup::default() };
    let mut world = World::with(setup.clone());
    let driver = world.driver();
    world.pass(OWNER_MS_MAX);
    assert_eq!(world.shut_down, None);
    world.close(driver);
    assert!(world.shut_down.is_some());
    let told = |message: &NodeToControl| matches!(message, NodeToControl::ClientGone(gone) if gone.is_driver);
    assert!(world.control.iter().any(told));
    let mut alone = World::with(setup);
    alone.pass(OWNER_MS_MAX);
    assert!(alone.shut_down.is_some(), "nobody came");
}

#[test]
fn lines_go_to_the_driver_wherever_it_is() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let driver = world.driver();
    let remote = world.open(Role::Driver, node_id(2), false);
    world.say(
        remote,
        Register {
            worker_id: WorkerId([8; 28]),
            remote: true,
            is_driver: true,
            ..Register::default()
        },
    );
    let (here, there) = (world.class(1, &[("CPU", 1.0)]), world.class(9, &[("CPU", 1.0)]));
    world.request(driver, 1, here);
    world.request(remote, 1, there);
    let (ours, theirs) = (world.granted(driver).unwrap(), world.granted(remote).unwrap());
    for worker_id in [ours.worker.worker_id, theirs.worker.worker_id] {
        let line = LogLine { text: "hello".into(), ..LogLine::default() };
        world.feed(Event::WorkerWrote { worker_id, lines: vec![line] });
    }
    assert!(world.took(driver, |message| matches!(message, NodeToClient::LogLines(_))));
    let host = world.control.iter().find_map(|message| match message {
        NodeToControl::JobLogs(logs) => Some(logs.lines.lines[0].host.clone()),
        _ => None,
    });
    assert_eq!(host.as_deref(), Some("10.0.0.1"));
    world.job_finished(9, WorkerId([8; 28]));
    assert!(world.forgotten.contains(&theirs.worker.worker_id), "the remote driver's leases end");
}

#[test]
fn a_driver_gets_the_lines_of_its_workers_on_all_nodes() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let driver = world.driver();
    let class = world.class(1, &[("CPU", 1.0)]);
    world.request(driver, 1, class);
    let worker = world.granted(driver).unwrap().worker.worker_id;
    let answered = |world: &mut World| {
        assert_eq!(std::mem::take(&mut world.flushed), [worker]);
        world.took(driver, |message| matches!(message, NodeToClient::LogsFlushed(_)))
    };
    world.say(driver, FlushLogs { request_id: 5 });
    assert!(answered(&mut world), "there is no other node");
    world.view(&[(2, true, 2.0)]);
    world.say(driver, FlushLogs { request_id: 6 });
    assert!(!answered(&mut world), "the control service answers");
    let asked = |message: &NodeToControl| matches!(message, NodeToControl::FlushLogs(flush) if flush.request_id == 6);
    assert!(world.control.iter().any(asked));
    // A driver of another node, whose worker this is as far as this node knows.
    let flush =
        FlushJobLogs { job_id: JobId([0, 0, 0, 1]), request_id: 7, ..FlushJobLogs::default() };
    world.feed(Event::ControlSaid(flush.into()));
    assert!(!answered(&mut world));
    let flushed = |message: &NodeToControl| matches!(message, NodeToControl::LogsFlushed(flushed) if flushed.request_id == 7);
    assert!(world.control.iter().any(flushed));
    // Nobody waits for a control service that is away.
    world.feed(Event::ControlLost);
    world.say(driver, FlushLogs { request_id: 8 });
    assert!(answered(&mut world));
}

#[test]
fn calls_to_a_lost_control_service_are_asked_again() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let driver = world.driver();
    let asked = |world: &mut World| {
        let number = |message: NodeToControl| match message {
            NodeToControl::FromClient(from) => Some(from.call.request_id),
            _ => None,
        };
        std::mem::take(&mut world.control).into_iter().filter_map(number).collect::<Vec<u64>>()
    };
    asked(&mut world);
    world.say(driver, ControlCall { request_id: 5, request: KvGet::default().into() });
    world.feed(Event::ControlLost);
    assert_eq!(asked(&mut world), [5]);
    world.say(driver, ControlCall { request_id: 6, request: KvGet::default().into() });
    world.feed(Event::ControlConnected);
    assert_eq!(asked(&mut world), [5, 6], "once each, in their order");
}

#[test]
fn only_the_head_ends_the_cluster_with_the_node() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let driver = world.driver();
    world.say(driver, StopNode { reason: "stop".into() });
    assert_eq!(world.shut_down.as_deref(), Some("stop"));
    let mut head = World::with(Setup { is_head: true, starts_max: 1, ..Setup::default() });
    let driver = head.driver();
    head.say(driver, StopNode { reason: "stop".into() });
    assert_eq!(head.shut_down, None, "the control service decides the order");
}

#[test]
fn a_worker_that_does_not_end_when_asked_is_killed() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let driver = world.driver();
    let class = world.class(1, &[("CPU", 1.0)]);
    world.request(driver, 1, class);
    let lease = world.granted(driver).unwrap();
    let worker_id = lease.worker.worker_id;
    let conn = world.workers.insert(worker_id, None).unwrap();
    world.say(driver, helio_proto::node::ReturnLease { lease_id: lease.lease_id, discard: true });
    assert!(world.took(conn.unwrap(), |message| matches!(
        message,
        NodeToClient::Exit(ExitMessage { drain: true, .. })
    )));
    world.workers.insert(worker_id, conn);
    world.pass(crate::limits::WORKER_EXIT_MS_MAX);
    assert!(world.forgotten.contains(&worker_id));
}

#[test]
fn an_idle_worker_that_others_need_is_not_ended_and_works_again() {
    let setup = Setup {
        total: helio_types::ResourceSet::from_units([("CPU", 1.0)]),
        starts_max: 4,
        idle_max: 0,
        ..Setup::default()
    };
    let mut world = World::with(setup);
    let driver = world.driver();
    let class = world.class(1, &[("CPU", 1.0)]);
    world.request(driver, 1, class.clone());
    let lease = world.granted(driver).unwrap();
    let worker_id = lease.worker.worker_id;
    let conn = world.workers.insert(worker_id, None).unwrap().unwrap();
    world.say(driver, helio_proto::node::ReturnLease { lease_id: lease.lease_id, discard: false });
    // For longer than one that was asked to end may take.
    for _ in 0..8 {
        world.pass(WORKER_IDLE_MS_MAX);
        let asked = |message: &NodeToClient| {
            matches!(message, NodeToClient::Exit(ExitMessage { unless_needed: true, .. }))
        };
        assert!(world.took(conn, asked));
        world.say(conn, helio_proto::node::Stays {});
    }
    assert!(!world.forgotten.contains(&worker_id), "it is not killed for staying");
    world.request(driver, 2, class);
    assert_eq!(world.granted(driver).unwrap().worker.worker_id, worker_id);
}

#[test]
fn a_worker_that_is_to_end_and_is_needed_lingers_without_its_lease() {
    let mut world = World::new(&[("CPU", 2.0), ("GPU", 1.0)]);
    let driver = world.driver();
    let class = world.class(1, &[("CPU", 1.0), ("GPU", 1.0)]);
    for says_first in [true, false] {
        world.request(driver, 1, class.clone());
        let lease = world.granted(driver).unwrap();
        let worker_id = lease.worker.worker_id;
        let conn = world.workers.insert(worker_id, None).unwrap().unwrap();
        let cause = DeathCause::new(DeathKind::Intended, "it has run its last task");
        let leaving = helio_proto::node::Leaving { cause, is_needed: true };
        let back = helio_proto::node::ReturnLease { lease_id: lease.lease_id, discard: true };
        if says_first {
            world.say(conn, leaving.clone());
        }
        world.say(driver, back);
        if !says_first {
            world.say(conn, leaving);
        }
        world.request(driver, 2, class.clone());
        let next = world.granted(driver).expect("what it waits for may need the GPU");
        world.pass(crate::limits::WORKER_EXIT_MS_MAX * 2);
        assert!(!world.forgotten.contains(&worker_id), "it is waited for");
        world.workers.insert(worker_id, Some(conn));
        world.worker_ends(worker_id, Exit::Code(0));
        world.pass(crate::limits::WORKER_DRAIN_MS_MAX);
        assert!(world.forgotten.contains(&worker_id));
        world.say(
            driver,
            helio_proto::node::ReturnLease { lease_id: next.lease_id, discard: false },
        );
    }
}
