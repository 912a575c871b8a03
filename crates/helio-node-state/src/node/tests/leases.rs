//! Lease requests: granted, queued, sent on, refused, asked back.

use helio_proto::cluster::{NodeToControl, StatusUnchanged};
use helio_proto::control::{FailureKind, Strategy, StrategyKind};
use helio_proto::node::{
    Blocked, CancelLease, LeaseClass, LeaseGranted, LeaseLost, NodeToClient, RequestLease,
    ReturnLease, Unblocked, Why,
};
use helio_types::{DeathCause, DeathKind};

use super::{World, address, node_id};
use crate::limits::{SPILL_AGAIN_MS, VIEW_LAG_MS_MAX};
use crate::{Conn, Exit};

fn is_revoke(message: &NodeToClient) -> bool {
    matches!(message, NodeToClient::RevokeLease(_))
}

fn lost(world: &mut World, conn: Conn) -> LeaseLost {
    let lost = world.take(conn, |message| match message {
        NodeToClient::LeaseLost(lost) => Some(lost.clone()),
        _ => None,
    });
    lost.unwrap()
}

/// A worker that the driver leased, and one that this worker leased in turn.
fn nested(world: &mut World, driver: Conn, class: &LeaseClass) -> (LeaseGranted, LeaseGranted) {
    world.request(driver, 1, class.clone());
    let outer = world.granted(driver).unwrap();
    let lessee = world.conn_of(&outer);
    world.request(lessee, 1, class.clone());
    let inner = world.granted(lessee).unwrap();
    (outer, inner)
}

#[test]
fn requests_of_a_class_are_served_in_their_order() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let driver = world.driver();
    let class = world.class(1, &[("CPU", 1.0)]);
    for request_id in 1..=3 {
        world.request(driver, request_id, class.clone());
    }
    for request_id in 1..=3 {
        let granted = world.granted(driver).unwrap();
        assert_eq!(granted.request_id, request_id);
        assert_eq!(world.granted(driver), None, "one CPU, one lease");
        world.give_back(driver, &granted);
    }
    assert_eq!(world.spawned.len(), 1, "the worker stayed warm");
    world.close(driver);
    world.assert_nothing_leaked();
}

#[test]
fn classes_take_turns() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let driver = world.driver();
    let (a, b) = (world.class(1, &[("CPU", 1.0)]), world.class(1, &[("CPU", 0.9)]));
    for request_id in 1..=3 {
        world.request(driver, request_id, a.clone());
    }
    world.request(driver, 10, b);
    let mut order = Vec::new();
    while let Some(granted) = world.granted(driver) {
        order.push(granted.request_id);
        world.give_back(driver, &granted);
    }
    assert_eq!(order, [1, 2, 10, 3], "the first was served before the others came");
}

#[test]
fn a_waiting_class_has_leases_of_others_asked_back_each_once() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let driver = world.driver();
    let one = world.class(1, &[("CPU", 1.0)]);
    world.request(driver, 1, one.clone());
    world.request(driver, 2, one.clone());
    let (first, second) = (world.granted(driver).unwrap(), world.granted(driver).unwrap());
    world.request(driver, 3, one);
    assert!(!world.took(driver, is_revoke), "its own class waits for itself");
    let other = world.class(1, &[("CPU", 0.5)]);
    world.request(driver, 4, other.clone());
    assert!(world.took(driver, is_revoke), "one is enough");
    assert!(!world.took(driver, is_revoke));
    world.request(driver, 5, other);
    assert!(!world.took(driver, is_revoke), "it was asked for already");
    world.give_back(driver, &first);
    world.give_back(driver, &second);
    world.close(driver);
    world.assert_nothing_leaked();
}

#[test]
fn a_blocked_worker_counts_for_nothing_when_leases_are_asked_back() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let (first, second) = (world.driver(), world.driver());
    let one = world.class(1, &[("CPU", 1.0)]);
    world.request(first, 1, one.clone());
    let outer = world.granted(first).unwrap();
    let worker = world.conn_of(&outer);
    world.request(worker, 1, one.clone());
    assert!(world.took(first, is_revoke), "the lease of the one who asks, but nobody knows that");
    world.say(worker, Blocked {});
    let nested = world.granted(worker).unwrap();
    world.request(second, 1, one);
    assert!(world.took(worker, is_revoke), "only this one has a CPU to give");
    world.give_back(worker, &nested);
    assert!(world.granted(second).is_some());
}

#[test]
fn leases_that_would_not_help_are_not_asked_back() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let driver = world.driver();
    world.launch(1, 1, &[("CPU", 1.0)], false);
    let one = world.class(1, &[("CPU", 1.0)]);
    world.request(driver, 1, one);
    world.granted(driver).unwrap();
    let both = world.class(1, &[("CPU", 2.0)]);
    world.request(driver, 2, both);
    assert!(!world.took(driver, is_revoke), "the actor holds the other CPU");
}

#[test]
fn a_blocked_worker_lends_its_cpu_and_takes_it_back() {
    let mut world = World::new(&[("CPU", 1.0), ("GPU", 1.0)]);
    let driver = world.driver();
    let outer = world.class(1, &[("CPU", 1.0), ("GPU", 1.0)]);
    world.request(driver, 1, outer);
    let lease = world.granted(driver).unwrap();
    assert_eq!(lease.assigned.devices["GPU"], [0]);
    let worker = world.conn_of(&lease);
    let inner = world.class(1, &[("CPU", 1.0)]);
    world.request(worker, 1, inner);
    assert_eq!(world.granted(worker), None);
    world.say(worker, Blocked {});
    let nested = world.granted(worker).unwrap();
    assert_eq!(world.node.info().available.get("GPU").0, 0, "only the CPU is lent");
    world.say(worker, Unblocked {});
    assert_eq!(world.cpus_free(), -1.0);
    world.give_back(worker, &nested);
    assert_eq!(world.cpus_free(), 0.0);
    world.say(worker, Blocked {});
    world.close(driver);
    world.assert_nothing_leaked();
}

#[test]
fn what_does_not_fit_here_is_sent_on() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let driver = world.driver();
    world.view(&[(2, true, 4.0)]);
    let two = world.class(1, &[("CPU", 2.0)]);
    for request_id in 1..=3 {
        world.request(driver, request_id, two.clone());
    }
    let spilled = |message: &NodeToClient| match message {
        NodeToClient::LeaseSpillback(spill) => Some((spill.request_id, spill.node.clone())),
        _ => None,
    };
    assert_eq!(world.take(driver, spilled), Some((1, address(2))));
    assert_eq!(world.take(driver, spilled), Some((2, address(2))));
    assert_eq!(world.take(driver, spilled), None, "4 CPUs are taken until news come");
    world.pass(VIEW_LAG_MS_MAX);
    assert_eq!(world.take(driver, spilled), Some((3, address(2))), "no news are news, too");
    world.request(driver, 4, two.clone());
    world.request(driver, 5, two.clone());
    assert_eq!(world.take(driver, spilled), Some((4, address(2))));
    let request =
        RequestLease { request_id: 9, class: two, spilled: true, ..RequestLease::default() };
    world.say(driver, request);
    assert_eq!(world.take(driver, spilled), None, "it has just been sent on");
    world.now += 1;
    world.view(&[(2, true, 4.0)]);
    assert_eq!(world.take(driver, spilled), Some((5, address(2))));
    world.pass(SPILL_AGAIN_MS);
    assert_eq!(
        world.take(driver, spilled),
        Some((9, address(2))),
        "it does not wait here for ever"
    );
}

#[test]
fn the_impossible_waits_with_a_reason_or_is_refused_when_bound_to_a_node() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let driver = world.driver();
    let gpu = world.class(1, &[("GPU", 1.0)]);
    world.request(driver, 1, gpu.clone());
    let pending = |message: &NodeToClient| match message {
        NodeToClient::LeasePending(pending) => Some((pending.request_id, pending.why.clone())),
        _ => None,
    };
    assert_eq!(world.take(driver, pending), None, "a node that has it may just have joined");
    world.pass(VIEW_LAG_MS_MAX);
    let (request_id, why) = world.take(driver, pending).unwrap();
    assert!(request_id == 1 && why.contains("GPU"), "WHY-1: {why}");
    world.view(&[(2, true, 1.0)]);
    assert_eq!(world.take(driver, pending), None, "told once");

    let kind = StrategyKind::NodeAffinity;
    let strategy = Strategy { kind, node_id: node_id(7), ..Strategy::default() };
    let mut bound = world.class(1, &[("CPU", 1.0)]);
    bound.strategy = strategy;
    world.request(driver, 2, bound);
    world.pass(VIEW_LAG_MS_MAX);
    let refused = world.take(driver, |message| match message {
        NodeToClient::LeaseRefused(refused) => Some(refused.clone()),
        _ => None,
    });
    assert_eq!(refused.unwrap().failure.kind, FailureKind::Unschedulable);

    world.say(driver, Why { request_id: 77, lease_request_id: 1, ..Why::default() });
    let why = world.take(driver, |message| match message {
        NodeToClient::WhyReply(reply) => Some(reply.why.clone()),
        _ => None,
    });
    assert!(why.unwrap().contains("GPU"), "WHY-1");
    let pending = world.node.info().pending;
    assert!(pending.len() == 1 && pending[0].count == 1 && !pending[0].why.is_empty(), "WHY-1");
    world.say(driver, CancelLease { request_id: 1 });
    assert_eq!(world.node.info().pending, []);
}

#[test]
fn a_cancelled_request_gives_back_what_was_set_aside_for_it() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.starts_at_once = false;
    let driver = world.driver();
    let class = world.class(1, &[("CPU", 1.0)]);
    world.request(driver, 1, class);
    assert_eq!(world.cpus_free(), 0.0);
    world.say(driver, CancelLease { request_id: 1 });
    assert_eq!(world.cpus_free(), 1.0);
    let worker_id = world.spawned[0].worker_id;
    world.register_worker(worker_id);
    world.pass(0);
    assert_eq!(world.granted(driver), None);
    world.close(driver);
    world.assert_nothing_leaked();
}

#[test]
fn a_dead_worker_is_reported_with_its_cause_and_frees_its_resources() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let driver = world.driver();
    let class = world.class(1, &[("CPU", 1.0)]);
    world.request(driver, 1, class);
    let lease = world.granted(driver).unwrap();
    world.worker_ends(lease.worker.worker_id, Exit::Signal(11));
    world.pass(0);
    let lost = lost(&mut world, driver);
    assert_eq!(
        (lost.lease_id, lost.cause.kind, lost.cause.code),
        (lease.lease_id, DeathKind::Signaled, 11)
    );
    assert!(
        lost.cause.message.contains("SIGSEGV") && lost.cause.log_tail == "tail",
        "{:?}",
        lost.cause
    );
    assert_eq!(world.cpus_free(), 1.0);
}

#[test]
fn a_discarded_worker_keeps_its_gpus_until_its_process_has_ended() {
    let mut world = World::new(&[("CPU", 2.0), ("GPU", 1.0)]);
    let driver = world.driver();
    let class = world.class(1, &[("CPU", 1.0), ("GPU", 1.0)]);
    world.request(driver, 1, class.clone());
    let lease = world.granted(driver).unwrap();
    // Its process takes its time.
    let worker_id = lease.worker.worker_id;
    let conn = world.workers.insert(worker_id, None).unwrap();
    world.say(driver, ReturnLease { lease_id: lease.lease_id, discard: true });
    world.request(driver, 2, class);
    assert_eq!(world.granted(driver), None);
    world.workers.insert(worker_id, conn);
    world.worker_ends(worker_id, Exit::Code(0));
    world.pass(0);
    assert!(world.granted(driver).is_some());
}

#[test]
fn a_lessee_that_dies_takes_its_workers_along_link_by_link() {
    let mut world = World::new(&[("CPU", 4.0)]);
    let driver = world.driver();
    let class = world.class(1, &[("CPU", 1.0)]);
    let (outer, inner) = nested(&mut world, driver, &class);
    world.close(driver);
    for lease in [outer, inner] {
        assert!(world.forgotten.contains(&lease.worker.worker_id));
    }
    world.assert_nothing_leaked();
}

/// A driver that was killed has told nobody of its calls; its workers do, unless they hang.
#[test]
fn a_worker_whose_driver_is_gone_tells_of_its_calls_before_it_ends() {
    for answers in [true, false] {
        let mut world = World::new(&[("CPU", 4.0)]);
        let driver = world.driver();
        let class = world.class(1, &[("CPU", 1.0)]);
        world.request(driver, 1, class.clone());
        let lease = world.granted(driver).unwrap();
        let worker_id = lease.worker.worker_id;
        let conn = world.workers.insert(worker_id, None).unwrap().unwrap();
        world.close(driver);
        let asked =
            |message: &NodeToClient| matches!(message, NodeToClient::Exit(exit) if !exit.drain);
        assert!(world.took(conn, asked));
        assert!(!world.forgotten.contains(&worker_id), "it is not killed before it has spoken");
        world.workers.insert(worker_id, Some(conn));
        if answers {
            world.say(conn, helio_proto::inspect::LastWords::default());
            world.worker_ends(worker_id, Exit::Signal(9));
        }
        world.pass(crate::limits::LAST_WORDS_MS_MAX);
        assert!(world.forgotten.contains(&worker_id));
        world.assert_nothing_leaked();
    }
}

/// OWN-1: what it made for others lives as long as it does.
#[test]
fn a_worker_that_runs_nothing_for_its_lessee_outlives_it() {
    let mut world = World::new(&[("CPU", 4.0)]);
    let driver = world.driver();
    let class = world.class(1, &[("CPU", 1.0)]);
    for says in [true, false] {
        let (outer, inner) = nested(&mut world, driver, &class);
        let worker_id = inner.worker.worker_id;
        // The worker answers for itself.
        let conn = world.workers.insert(worker_id, None).unwrap().unwrap();
        world.worker_ends(outer.worker.worker_id, Exit::Signal(9));
        world.pass(0);
        let asked = |message: &NodeToClient| match message {
            NodeToClient::LesseeGone(gone) => {
                (gone.worker_id, gone.lease_id) == (outer.worker.worker_id, inner.lease_id)
            }
            _ => false,
        };
        assert!(world.took(conn, asked));
        assert_eq!(world.cpus_free(), 3.0, "it may run something");
        world.workers.insert(worker_id, Some(conn));
        if says {
            world.say(conn, helio_proto::node::Stays {});
            assert_eq!(world.cpus_free(), 4.0);
            world.node.check().unwrap();
            world.pass(crate::limits::WORKER_EXIT_MS_MAX);
            world.request(driver, 2, class.clone());
            let next = world.granted(driver).unwrap();
            assert_eq!(next.worker.worker_id, worker_id);
            world.give_back(driver, &next);
        } else {
            world.pass(crate::limits::WORKER_EXIT_MS_MAX);
            assert!(world.forgotten.contains(&worker_id), "who does not answer is killed");
        }
    }
    world.close(driver);
    world.assert_nothing_leaked();
}

/// The worker has said that it ends: its answer to another question changes nothing.
#[test]
fn a_worker_that_leaves_is_not_free_when_its_lessee_goes() {
    let mut world = World::new(&[("CPU", 4.0)]);
    let driver = world.driver();
    let class = world.class(1, &[("CPU", 1.0)]);
    for is_needed in [true, false] {
        let (outer, inner) = nested(&mut world, driver, &class);
        let worker_id = inner.worker.worker_id;
        let conn = world.workers.insert(worker_id, None).unwrap().unwrap();
        world.worker_ends(outer.worker.worker_id, Exit::Signal(9));
        world.pass(0);
        let cause = DeathCause::new(DeathKind::Intended, "it has run its last task");
        world.say(conn, helio_proto::node::Leaving { cause, is_needed });
        world.say(conn, helio_proto::node::Stays {});
        world.request(driver, 2, class.clone());
        let next = world.granted(driver).unwrap();
        assert_ne!(next.worker.worker_id, worker_id);
        world.give_back(driver, &next);
        world.workers.insert(worker_id, Some(conn));
        world.worker_ends(worker_id, Exit::Code(0));
        world.pass(0);
        assert!(world.forgotten.contains(&worker_id));
    }
    world.close(driver);
    world.assert_nothing_leaked();
}

/// A process has a worker here and wants one on another node: the request waits until one has room, and is no
/// reason to ask others for their leases, or for more nodes.
#[test]
fn a_wish_for_another_node_is_granted_when_one_has_room() {
    let mut world = World::new(&[("CPU", 2.0)]);
    world.view(&[(2, true, 0.0)]);
    let driver = world.driver();
    let mut class = world.class(1, &[("CPU", 1.0)]);
    world.request(driver, 1, class.clone());
    let other = world.granted(driver).unwrap();
    class.strategy = Strategy { kind: StrategyKind::Spread, ..Strategy::default() };
    let touched = vec![node_id(1)];
    let wish =
        RequestLease { request_id: 2, class: class.clone(), touched, ..RequestLease::default() };
    world.say(driver, wish);
    let is_pending = |message: &NodeToClient| match message {
        NodeToClient::LeasePending(pending) => Some(pending.request_id),
        _ => None,
    };
    assert_eq!(world.take(driver, is_pending), Some(2), "there is room here, but none elsewhere");
    assert!(world.node.info().pending.is_empty() && !world.took(driver, is_revoke));
    // Others of its kind do not wait behind it.
    world.request(driver, 3, class);
    assert!(world.granted(driver).is_some());
    world.view(&[(2, true, 1.0)]);
    let spilled = |message: &NodeToClient| match message {
        NodeToClient::LeaseSpillback(spill) => Some((spill.request_id, spill.node.clone())),
        _ => None,
    };
    assert_eq!(world.take(driver, spilled), Some((2, address(2))));
    assert_eq!(world.take(driver, is_pending), None);
    world.give_back(driver, &other);
}

/// LIMIT-1: news of another node are no news of this one; else two would answer each other for ever.
#[test]
fn news_of_other_nodes_change_nothing_here() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.view(&[(2, true, 4.0)]);
    let driver = world.driver();
    let before = world.node.info();
    world.view(&[(2, true, 3.0)]);
    assert_eq!(world.node.info(), before, "what it would say is what it has said");
    // But what sends a request away leaves this node with less to do.
    world.request(driver, 1, world.class(1, &[("CPU", 2.0)]));
    world.now += VIEW_LAG_MS_MAX;
    let before = world.node.info().version;
    world.view(&[(2, true, 4.0)]);
    assert!(world.node.info().version > before);
}

/// A heartbeat has a description of the node only when there is something new to say, and the first one
/// after a message that was not taken says everything.
#[test]
fn a_heartbeat_describes_the_node_when_something_has_changed() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let info = world.node.registration(1).info;
    assert_eq!(info, world.node.info());
    assert!(info.is_idle);
    let driver = world.driver();
    let NodeToControl::Status(status) = world.node.heartbeat(2_000) else {
        panic!("a driver is here")
    };
    assert!(!status.info.is_idle);
    assert_eq!(
        world.node.heartbeat(2_000),
        NodeToControl::Unchanged(StatusUnchanged { sent_ms: 2 })
    );
    world.request(driver, 1, world.class(1, &[("CPU", 2.0)]));
    let NodeToControl::Status(status) = world.node.heartbeat(2_000) else {
        panic!("a request waits")
    };
    assert_eq!(status.info.pending.len(), 1);
    assert_eq!(
        world.node.heartbeat(2_000),
        NodeToControl::Unchanged(StatusUnchanged { sent_ms: 2 })
    );
    world.node.on_heartbeat_unsent();
    assert_eq!(world.node.heartbeat(2_000), NodeToControl::Status(status));
}
