//! Bundles of placement groups: held, lent, given back.

use helio_proto::cluster::NodeToControl;
use helio_proto::control::{FailureKind, Strategy, StrategyKind};
use helio_proto::group::{
    BundlesHeld, CommitBundles, GroupNews, NumberedBundle, ReserveBundles, ReturnBundles,
};
use helio_proto::node::{Blocked, LeaseClass, LeaseLost, NodeToClient};
use helio_types::{DeathKind, PlacementGroupId};

use super::{World, resources};
use crate::limits::GROUP_ASK_MS;
use crate::{Conn, Event, Exit};

const GROUP: PlacementGroupId = PlacementGroupId([7; PlacementGroupId::LEN]);

impl World {
    /// Orders the node to hold bundles of these numbers of CPUs, numbered from 0. Returns its
    /// answer.
    fn reserve(&mut self, attempt: u32, cpus: &[f64], commit: bool) -> BundlesHeld {
        let bundle = |(bundle, cpus): (u32, &f64)| NumberedBundle {
            bundle,
            resources: resources(&[("CPU", *cpus)]),
        };
        let bundles = (0..).zip(cpus).map(bundle).collect();
        let order = ReserveBundles { group_id: GROUP, attempt, bundles, commit };
        self.order(helio_proto::cluster::ControlToNode::ReserveBundles(order));
        self.held().unwrap()
    }

    fn order(&mut self, message: helio_proto::cluster::ControlToNode) {
        self.feed(Event::ControlSaid(message));
        self.node.check().unwrap();
    }

    fn held(&mut self) -> Option<BundlesHeld> {
        let last = self.control.iter().rposition(|m| matches!(m, NodeToControl::BundlesHeld(_)))?;
        match self.control.remove(last) {
            NodeToControl::BundlesHeld(held) => Some(held),
            _ => None,
        }
    }

    fn give_bundles_back(&mut self, bundles: &[u32], removed: bool) {
        let order = ReturnBundles { group_id: GROUP, bundles: bundles.to_vec(), removed };
        self.order(order.into());
    }

    fn inside(&self, bundle: i64, cpus: f64) -> LeaseClass {
        let strategy = Strategy {
            kind: StrategyKind::PlacementGroup,
            placement_group: GROUP,
            bundle,
            ..Strategy::default()
        };
        LeaseClass { strategy, ..self.class(1, &[("CPU", cpus)]) }
    }

    fn questions(&mut self) -> usize {
        let before = self.control.len();
        self.control.retain(|message| !matches!(message, NodeToControl::AskGroup(_)));
        before - self.control.len()
    }

    fn refusal(&mut self, conn: Conn) -> Option<FailureKind> {
        self.take(conn, |message| match message {
            NodeToClient::LeaseRefused(refused) => Some(refused.failure.kind),
            _ => None,
        })
    }
}

#[test]
fn a_held_bundle_is_out_of_reach_until_it_lends() {
    let mut world = World::new(&[("CPU", 3.0)]);
    let driver = world.driver();
    assert_eq!(world.reserve(1, &[1.0, 1.0], false).refused, "");
    assert_eq!(world.cpus_free(), 1.0);
    let class = world.inside(0, 1.0);
    world.request(driver, 1, class);
    assert_eq!(world.granted(driver), None);
    world.order(CommitBundles { group_id: GROUP, attempt: 1 }.into());
    assert!(world.held().unwrap().committed);
    let granted = world.granted(driver).unwrap();
    assert_eq!(granted.assigned.resources, resources(&[("CPU", 1.0)]), "by their plain names");
    assert_eq!(world.cpus_free(), 1.0, "it takes of its bundle");
    world.give_back(driver, &granted);
    world.give_bundles_back(&[0, 1], true);
    assert_eq!(world.cpus_free(), 3.0);
    world.close(driver);
    world.assert_nothing_leaked();
}

#[test]
fn all_bundles_or_none() {
    let mut world = World::new(&[("CPU", 3.0)]);
    let refused = world.reserve(1, &[2.0, 2.0], true);
    assert!(refused.refused.contains("bundle 1"), "{}", refused.refused);
    assert!(!refused.committed);
    assert_eq!(world.cpus_free(), 3.0);
    assert!(world.reserve(2, &[2.0, 1.0], true).committed);
    assert!(world.reserve(2, &[2.0, 1.0], true).committed, "heard twice, done once");
    assert_eq!(world.node.held_bundles().len(), 2);
    world.give_bundles_back(&[0, 1], true);
    world.assert_nothing_leaked();
}

#[test]
fn users_end_with_their_group_before_its_resources_come_back() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let driver = world.driver();
    world.reserve(1, &[2.0], true);
    let class = world.inside(-1, 1.0);
    for request_id in 1..=3 {
        world.request(driver, request_id, class.clone());
    }
    let runs = world.granted(driver).unwrap();
    assert!(world.granted(driver).is_some());
    assert_eq!(world.granted(driver), None, "two fit");
    world.give_bundles_back(&[0], true);
    assert_eq!(world.refusal(driver), Some(FailureKind::GroupRemoved));
    let lost: LeaseLost = world
        .take(driver, |message| match message {
            NodeToClient::LeaseLost(lost) => Some(lost.clone()),
            _ => None,
        })
        .unwrap();
    assert_eq!(lost.cause.kind, DeathKind::GroupRemoved);
    assert!(world.forgotten.contains(&runs.worker.worker_id));
    assert_eq!(world.cpus_free(), 2.0);
    world.close(driver);
    world.assert_nothing_leaked();
}

/// The lessee of such a worker may give the lease back before the news of the group reach it.
#[test]
fn a_worker_that_is_killed_with_its_group_serves_nobody_until_its_process_has_ended() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let driver = world.driver();
    world.reserve(1, &[1.0], true);
    let class = world.inside(0, 1.0);
    world.request(driver, 1, class);
    let lease = world.granted(driver).unwrap();
    // Its process takes its time.
    let worker_id = lease.worker.worker_id;
    let conn = world.workers.remove(&worker_id).unwrap();
    world.give_bundles_back(&[0], true);
    world.give_back(driver, &lease);
    let class = world.class(1, &[("CPU", 1.0)]);
    world.request(driver, 2, class);
    let next = world.granted(driver).unwrap();
    assert_ne!(next.worker.worker_id, worker_id, "it would crash the next call");
    assert_eq!(world.cpus_free(), 0.0, "what it holds comes back with its process");
    world.workers.insert(worker_id, conn);
    world.worker_ends(worker_id, Exit::Signal(9));
    world.pass(0);
    assert!(world.forgotten.contains(&worker_id));
    assert_eq!(world.cpus_free(), 1.0);
    world.node.check().unwrap();
    world.close(driver);
    world.assert_nothing_leaked();
}

#[test]
fn a_worker_that_waits_lends_its_cpu_inside_its_bundle() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let driver = world.driver();
    world.reserve(1, &[1.0], true);
    let class = world.inside(0, 1.0);
    world.request(driver, 1, class.clone());
    let first = world.granted(driver).unwrap();
    world.request(driver, 2, class);
    assert_eq!(world.granted(driver), None);
    let worker = world.conn_of(&first);
    world.say(worker, Blocked {});
    world.node.check().unwrap();
    assert!(world.granted(driver).is_some(), "what it waits for may be in its bundle too");
    assert_eq!(world.cpus_free(), 1.0);
    world.give_bundles_back(&[0], true);
    world.close(driver);
    world.assert_nothing_leaked();
}

#[test]
fn an_actor_lives_in_its_bundle_and_ends_with_it() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let driver = world.driver();
    world.reserve(1, &[1.0], true);
    let strategy = world.inside(0, 1.0).strategy;
    let actor_id = world.launch_with(1, 1, &[("CPU", 1.0)], strategy);
    assert!(world.actor_conn(actor_id).is_some());
    assert_eq!(world.cpus_free(), 1.0);
    world.give_bundles_back(&[0], true);
    assert_eq!(world.actor_ended(actor_id).unwrap().cause.kind, DeathKind::GroupRemoved);
    assert_eq!(world.cpus_free(), 2.0);
    world.close(driver);
    world.assert_nothing_leaked();
}

/// CTL-1: nobody asks who knows; WHY-1: who had to ask can say what it heard.
#[test]
fn a_group_that_no_node_holds_is_asked_for_once_a_second() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let driver = world.driver();
    let class = world.inside(0, 1.0);
    for request_id in 1..=5 {
        world.request(driver, request_id, class.clone());
    }
    assert_eq!(world.questions(), 1);
    let why = "bundle 0 of 1: no node has 100 CPU (the largest has 2)".to_owned();
    world.order(GroupNews { group_id: GROUP, removed: false, why }.into());
    assert!(world.node.info().pending[0].why.contains("no node has 100 CPU"));
    world.pass(GROUP_ASK_MS - 1);
    assert_eq!(world.questions(), 0);
    world.pass(1);
    assert_eq!(world.questions(), 1);
    world.reserve(1, &[2.0], true);
    assert!(world.granted(driver).is_some());
    assert!(world.granted(driver).is_some());
    world.pass(10 * GROUP_ASK_MS);
    assert_eq!(world.questions(), 0, "it is here");
    world.give_bundles_back(&[0], true);
    world.close(driver);
    world.assert_nothing_leaked();
}

#[test]
fn requests_for_a_removed_group_are_refused() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let driver = world.driver();
    let class = world.inside(-1, 0.0);
    world.request(driver, 1, class);
    world.order(GroupNews { group_id: GROUP, removed: true, why: String::new() }.into());
    assert_eq!(world.refusal(driver), Some(FailureKind::GroupRemoved));
    world.close(driver);
    world.assert_nothing_leaked();
}
