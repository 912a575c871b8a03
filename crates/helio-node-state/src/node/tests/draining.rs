//! The order to leave.

use helio_proto::cluster::{ControlToNode, Drain, Inherit, Inherited, NodeToControl, NodeToNode};
use helio_proto::cluster::{PullChunk, PullStart};
use helio_proto::node::{CreateObject, FreeObject, NodeToClient, SealObject};
use helio_types::id::PUT_INDEX_BASE;
use helio_types::{NodeAddress, NodeId, ObjectId};

use super::{World, address, node_id, object};
use crate::{Conn, Event};

impl World {
    fn drain(&mut self, grace_ms: u64) {
        let order = Drain { reason: "maintenance".into(), grace_ms, is_cancelled: false };
        self.feed(Event::ControlSaid(ControlToNode::Drain(order)));
    }

    fn make(&mut self, conn: Conn, object_id: ObjectId) {
        self.say(
            conn,
            CreateObject { request_id: 1, object_id, size: 100, ..CreateObject::default() },
        );
        self.say(conn, SealObject { object_id });
    }

    /// Makes an object as [`Self::make`] does, for the other client as its owner.
    pub(super) fn make_for(&mut self, owner: Conn, conn: Conn, object_id: ObjectId) {
        let client = self.node.clients.get(owner).unwrap();
        let (owner, owner_node) = (client.worker_id(), client.node_id());
        self.say(conn, CreateObject { request_id: 1, object_id, size: 100, owner, owner_node });
        self.say(conn, SealObject { object_id });
    }

    /// The objects that were offered to a node.
    fn offers(&mut self, to: u8) -> Vec<ObjectId> {
        let mut offered = Vec::new();
        self.asked.retain(|(node, message)| match message {
            NodeToNode::Inherit(offer) if *node == node_id(to) => {
                offered.push(offer.object_id);
                false
            }
            _ => true,
        });
        offered
    }

    fn heard(&mut self, from: u8, message: NodeToNode) {
        let conn = Conn(900 + u64::from(from));
        self.feed(Event::PeerSaid { conn, node_id: node_id(from), message });
    }

    fn inherited(&mut self, from: u8, object_id: ObjectId, refused: &str) {
        let answer = Inherited { object_id, refused: refused.into() };
        self.heard(from, NodeToNode::Inherited(answer));
    }
}

#[test]
fn a_node_that_leaves_hands_its_objects_over_first() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let driver = world.driver();
    world.view(&[(2, true, 1.0)]);
    let (one, two, three) = (object(1, 1, 1), object(1, 2, 1), object(1, 3, 1));
    for id in [one, two, three] {
        world.make(driver, id);
    }
    world.drain(0);
    assert!(world.node.info().is_draining);
    assert_eq!(world.offers(2), [one, two, three]);
    world.inherited(3, one, "");
    world.inherited(2, one, "");
    world.inherited(2, two, "its store is full");
    assert_eq!(world.offers(2), [two], "it is offered again");
    world.say(
        driver,
        FreeObject { object_id: one, locations: vec![address(1)], ..FreeObject::default() },
    );
    let dropped = world.asked.pop();
    assert!(
        matches!(dropped, Some((to, NodeToNode::Drop(_))) if to == node_id(2)),
        "the heir's too"
    );
    world.inherited(2, two, "");
    assert_eq!(world.left_to, None, "one is under way");
    world.inherited(2, three, "");
    assert_eq!(world.left_to, Some(node_id(2)));
}

#[test]
fn another_node_takes_everything_when_the_heir_dies() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let driver = world.driver();
    world.view(&[(2, true, 1.0)]);
    let (one, two) = (object(1, 1, 1), object(1, 2, 1));
    world.make(driver, one);
    world.make(driver, two);
    world.drain(0);
    world.inherited(2, one, "");
    world.offers(2);
    world.view(&[(2, false, 0.0), (3, true, 1.0)]);
    assert_eq!(world.offers(3), [one, two]);
    world.inherited(3, one, "");
    world.inherited(3, two, "");
    assert_eq!(world.left_to, Some(node_id(3)));
}

#[test]
fn what_runs_has_its_grace_and_a_node_alone_leaves_with_nothing() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let driver = world.driver();
    let class = world.class(1, &[("CPU", 1.0)]);
    world.request(driver, 1, class);
    assert!(world.granted(driver).is_some());
    world.drain(5_000);
    let asked_back = world.took(driver, |message| matches!(message, NodeToClient::RevokeLease(_)));
    assert!(asked_back);
    assert_eq!(world.left_to, None, "a task runs");
    world.pass(5_000);
    assert_eq!(world.left_to, Some(NodeId::NIL));
}

#[test]
fn a_node_stays_when_the_order_is_taken_back_in_time() {
    let cancel = || Event::ControlSaid(Drain { is_cancelled: true, ..Drain::default() }.into());
    let mut world = World::new(&[("CPU", 1.0)]);
    let driver = world.driver();
    let class = world.class(1, &[("CPU", 1.0)]);
    world.request(driver, 1, class.clone());
    assert!(world.granted(driver).is_some());
    world.drain(5_000);
    world.feed(cancel());
    assert!(!world.node.info().is_draining);
    world.pass(6_000);
    assert_eq!(world.left_to, None, "the deadline of an order that was taken back");
    world.view(&[(2, true, 1.0)]);
    let kept = object(1, 1, 1);
    world.make(driver, kept);
    world.drain(1);
    world.pass(2);
    assert_eq!(world.offers(2), [kept]);
    world.feed(cancel());
    assert!(world.node.info().is_draining, "its objects are on their way already");
}

/// LIMIT-1: the grace is over and a worker still has what it put; with its owner gone, nobody would free that at the
/// heir (chaos seed 11).
#[test]
fn what_a_worker_has_put_ends_with_it_and_is_not_handed_over() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.view(&[(2, true, 1.0)]);
    let driver = world.driver();
    let class = world.class(1, &[("CPU", 1.0)]);
    world.request(driver, 1, class);
    let lease = world.granted(driver).unwrap();
    let worker = world.conn_of(&lease);
    let (returned, put) = (object(1, 1, 1), object(1, 1, PUT_INDEX_BASE));
    world.make_for(driver, worker, returned);
    world.make(worker, put);
    let of_driver = object(1, 2, PUT_INDEX_BASE);
    world.make(driver, of_driver);
    world.drain(1);
    world.pass(2);
    assert_eq!(world.offers(2), [returned, of_driver]);
}

/// LIMIT-1: a free that is on its way to a node as that leaves reaches its heir (simulated seed 1853).
#[test]
fn what_is_freed_as_its_node_leaves_is_freed_at_the_heir() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.view(&[(2, true, 1.0), (3, true, 1.0), (4, true, 1.0)]);
    let driver = world.driver();
    let (of_left, of_dead) = (object(1, 1, 1), object(1, 2, 1));
    let drops = |world: &mut World| {
        let asked = std::mem::take(&mut world.asked);
        let drops = asked.into_iter().filter_map(|(to, message)| match message {
            NodeToNode::Drop(drop) => Some((to, drop.object_id)),
            _ => None,
        });
        drops.collect::<Vec<_>>()
    };
    world.say(
        driver,
        FreeObject { object_id: of_left, locations: vec![address(2)], ..FreeObject::default() },
    );
    world.say(
        driver,
        FreeObject { object_id: of_dead, locations: vec![address(3)], ..FreeObject::default() },
    );
    assert_eq!(drops(&mut world), [(node_id(2), of_left), (node_id(3), of_dead)]);
    let left = helio_proto::control::NodeInfo {
        address: address(2),
        heir: address(4),
        version: 100,
        ..helio_proto::control::NodeInfo::default()
    };
    let view = helio_proto::cluster::ClusterView { nodes: vec![left] };
    world.feed(Event::ControlSaid(ControlToNode::View(view)));
    world.view(&[(3, false, 1.0)]);
    assert_eq!(drops(&mut world), [(node_id(4), of_left)]);
}

#[test]
fn a_machine_that_is_taken_away_drains_itself_and_says_so() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let driver = world.driver();
    let class = world.class(1, &[("CPU", 1.0)]);
    world.request(driver, 1, class);
    assert!(world.granted(driver).is_some());
    world.feed(Event::Preempted { reason: "SIGTERM".into(), grace_ms: 4_000 });
    let told = world.control.iter().find_map(|message| match message {
        NodeToControl::Preempted(told) => Some(told.grace_ms),
        _ => None,
    });
    assert_eq!(told, Some(3_000), "the rest is for objects");
    assert!(world.node.info().is_draining);
    world.pass(2_999);
    assert_eq!(world.left_to, None, "a task runs");
    world.pass(2);
    assert_eq!(world.left_to, Some(NodeId::NIL));
}

#[test]
fn what_another_node_leaves_is_fetched_and_kept() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.view(&[(2, true, 1.0)]);
    let id = object(9, 1, 1);
    let offer =
        || NodeToNode::Inherit(Inherit { object_id: id, from: address(2), ..Inherit::default() });
    world.heard(2, offer());
    let asked = world.asked.pop();
    let Some((_, NodeToNode::Pull(pull))) = asked else { panic!("{asked:?}") };
    let request_id = pull.request_id;
    world.heard(2, PullStart { request_id, size: 10, is_bulk: false }.into());
    world.heard(2, PullChunk { request_id, offset: 0, bytes: vec![0; 10] }.into());
    let is_kept = |(to, message): &(NodeId, NodeToNode)| {
        *to == node_id(2) && matches!(message, NodeToNode::Inherited(it) if it.refused.is_empty())
    };
    assert!(world.asked.iter().any(is_kept), "{:?}", world.asked);
    world.asked.clear();
    world.heard(2, offer());
    assert!(is_kept(&world.asked[0]), "it is there already");
    let other = object(9, 2, 1);
    let offer = Inherit {
        object_id: other,
        from: NodeAddress { port: 1, ..address(3) },
        ..Inherit::default()
    };
    world.asked.clear();
    world.heard(3, NodeToNode::Inherit(offer));
    let asked = world.asked.pop();
    let Some((_, NodeToNode::Pull(pull))) = asked else { panic!("{asked:?}") };
    let reason = "it is gone".to_owned();
    let failed = helio_proto::cluster::PullFailed { request_id: pull.request_id, reason };
    world.heard(3, failed.into());
    let told = world.asked.pop();
    assert!(
        matches!(&told, Some((_, NodeToNode::Inherited(it))) if !it.refused.is_empty()),
        "{told:?}"
    );
}
