//! Nodes that join, die, are to leave or stay after all, and who waits to hear of it.

use helio_control_state::Event;
use helio_proto::cluster::{
    ControlToNode, Drain, NodePreempted, NodeStatus, NodeToControl, RegisterNode,
};
use helio_proto::control::{
    ActorSpec, AwaitNodes, ControlResponse, DrainNode, ListNodes, NodeInfo,
};
use helio_proto::node::NodeToClient;
use helio_types::{NodeId, ResourceSet};

use crate::harness::{Harness, info, node, spec, worker};

const CPUS: &[(&str, f64)] = &[("CPU", 1.0)];

fn drain(number: u8, grace_ms: u64) -> DrainNode {
    DrainNode {
        node_id: node(number),
        reason: "a spot machine".into(),
        grace_ms,
        is_cancelled: false,
    }
}

impl Harness {
    fn members(&mut self) -> (u64, Vec<NodeInfo>) {
        match self.ask(1, 1, ListNodes {}) {
            ControlResponse::Nodes(list) => (list.membership, list.nodes),
            other => panic!("no nodes: {other:?}"),
        }
    }

    fn member(&mut self, number: u8) -> NodeInfo {
        let mut nodes = self.members().1.into_iter();
        nodes.find(|info| info.address.node_id == node(number)).expect("it is known")
    }

    /// Has driver 1 wait for what comes after all that is known.
    fn wait(&mut self) {
        let seen = self.members().0;
        self.await_from(seen);
        assert!(!self.is_told(), "nothing has happened");
    }

    fn await_from(&mut self, seen: u64) {
        let call =
            helio_proto::node::ControlCall { request_id: 5, request: AwaitNodes { seen }.into() };
        self.say(1, helio_proto::cluster::FromClient { worker_id: worker(1), call });
    }

    /// Whether driver 1 has got its answer.
    fn is_told(&mut self) -> bool {
        let told = self.take(|_, message| match message {
            ControlToNode::ToClient(to) => match &to.message {
                NodeToClient::ControlReply(reply) => {
                    (to.worker_id == worker(1) && reply.request_id == 5).then_some(())
                }
                _ => None,
            },
            _ => None,
        });
        assert!(told.len() < 2, "one question has one answer");
        !told.is_empty()
    }

    fn drain_orders(&mut self) -> Vec<(u8, Drain)> {
        self.take(|to, message| match message {
            ControlToNode::Drain(order) => Some((to.0[0], order.clone())),
            _ => None,
        })
    }
}

#[test]
fn who_waits_hears_of_every_change_of_the_nodes_and_of_nothing_else() {
    let mut harness = Harness::with_driver(1.0);
    harness.wait();
    harness.status(1, CPUS, &[]);
    assert!(!harness.is_told(), "what is free is no such change");
    harness.register(2, CPUS);
    assert!(harness.is_told(), "a node joins");
    harness.wait();
    harness.register(2, CPUS);
    assert!(!harness.is_told(), "it only comes back");
    harness.ask(1, 1, drain(2, 9_000));
    assert!(harness.is_told(), "it is to leave");
    harness.wait();
    harness.ask(1, 1, DrainNode { is_cancelled: true, ..drain(2, 0) });
    assert!(harness.is_told(), "it stays after all");
    let seen = harness.members().0;
    harness.await_from(seen - 1);
    assert!(harness.is_told(), "what happened before the question counts");
    harness.wait();
    harness.pass(60_000, &[1]);
    assert!(harness.is_told(), "it died");
}

#[test]
fn a_process_that_has_ended_waits_for_nothing() {
    let mut harness = Harness::with_driver(1.0);
    harness.wait();
    harness.client_gone(1, 1, true);
    harness.register(2, CPUS);
    assert!(!harness.is_told());
}

/// F5.11
#[test]
fn a_node_that_is_to_leave_says_until_when_and_why() {
    let mut harness = Harness::with_driver(1.0);
    harness.register(2, CPUS);
    harness.ask(1, 1, drain(2, 9_000));
    let draining = harness.member(2);
    assert_eq!(draining.drain_deadline_ms, harness.now_ms + 9_000);
    assert_eq!(draining.drain_reason, "a spot machine");
    harness.status(2, CPUS, CPUS);
    assert_eq!(harness.member(2).drain_deadline_ms, draining.drain_deadline_ms);
    assert!(harness.member(2).is_draining, "a status from before says nothing against it");
}

/// F5.11
#[test]
fn a_node_whose_machine_is_taken_away_gets_no_work() {
    let mut harness = Harness::with_driver(0.0);
    harness.register(2, CPUS);
    harness.say(2, NodePreempted { reason: "SIGTERM".into(), grace_ms: 500 });
    assert_eq!(harness.member(2).drain_deadline_ms, harness.now_ms + 500);
    harness.create(spec(1, 1));
    assert_eq!(harness.launches(), []);
}

/// F5.11
#[test]
fn an_order_to_leave_can_be_taken_back() {
    let mut harness = Harness::with_driver(0.0);
    harness.register(2, CPUS);
    let cancel = || DrainNode { is_cancelled: true, ..drain(2, 0) };
    let refused = harness.ask(1, 1, cancel());
    assert!(matches!(refused, ControlResponse::Failed(_)), "{refused:?}");
    harness.ask(1, 1, drain(2, 0));
    harness.create(spec(1, 1));
    assert_eq!(harness.launches(), [], "it takes no new work");
    harness.drain_orders();
    harness.ask(1, 1, cancel());
    assert_eq!(harness.drain_orders(), [(2, Drain { is_cancelled: true, ..Drain::default() })]);
    assert_eq!(harness.launches(), [(2, 1, 0)], "what waited goes there");
    let late = NodeInfo { is_draining: true, ..info(2, CPUS, CPUS) };
    harness.say(2, NodeStatus { info: late.clone(), sent_ms: 0 });
    assert!(!harness.member(2).is_draining, "this status is from before the node heard of it");
    harness.status(2, CPUS, CPUS);
    harness.say(2, NodeStatus { info: late, sent_ms: 0 });
    assert!(harness.member(2).is_draining, "now it drains itself");
}

/// An order is lost with the connection that carried it.
#[test]
fn a_node_that_registers_again_without_having_heard_that_it_stays_is_told_again() {
    let mut harness = Harness::with_driver(1.0);
    harness.register(2, CPUS);
    harness.ask(1, 1, drain(2, 0));
    harness.ask(1, 1, DrainNode { is_cancelled: true, ..drain(2, 0) });
    harness.apply(Event::Disconnected { node_id: node(2) });
    harness.drain_orders();
    let leaves = NodeInfo { is_draining: true, ..info(2, CPUS, CPUS) };
    harness.say(2, RegisterNode { info: leaves, ..RegisterNode::default() });
    assert_eq!(harness.drain_orders(), [(2, Drain { is_cancelled: true, ..Drain::default() })]);
    assert!(!harness.member(2).is_draining);
    harness.status(2, CPUS, CPUS);
    harness.say(2, RegisterNode { info: info(2, CPUS, CPUS), ..RegisterNode::default() });
    assert_eq!(harness.drain_orders(), [], "it has said that it stays");
}

/// F8.01: its gateway ends its connection when it is to be given up.
#[test]
fn a_drivers_machine_outside_the_cluster_is_silent_as_long_as_its_connection_lives() {
    let mut harness = Harness::with_driver(1.0);
    let guest = NodeInfo { is_guest: true, ..info(2, &[], &[]) };
    harness.say(2, RegisterNode { info: guest, ..RegisterNode::default() });
    harness.pass(1_800_000, &[1]);
    let known: Vec<NodeId> = harness.members().1.iter().map(|one| one.address.node_id).collect();
    assert_eq!(known, [node(1)], "it is no part of the cluster");
    assert!(harness.take(told_to_end).is_empty());
    harness.create(ActorSpec { placement_resources: ResourceSet::default(), ..spec(1, 1) });
    assert_eq!(harness.launches(), [(1, 1, 0)], "nothing is placed there");
    harness.apply(Event::Disconnected { node_id: node(2) });
    harness.pass(2_000, &[1]);
    harness.sent.clear();
    harness.say(2, NodeToControl::Unknown);
    assert!(!harness.take(told_to_end).is_empty(), "it is gone");
}

/// F1.10: a node that has missed a stop finds another cluster at the address.
#[test]
fn a_node_of_another_session_is_refused_for_good() {
    let mut harness = Harness::with_driver(0.0);
    harness.register(2, CPUS);
    let own = harness.control.session_name().to_owned();
    for (name, is_refused) in [("earlier", true), (own.as_str(), false), ("", false)] {
        harness.sent.clear();
        let session_name = name.to_owned();
        let info = info(3, CPUS, CPUS);
        harness.say(3, RegisterNode { info, session_name, ..RegisterNode::default() });
        let answers = harness.take(|to, message| match message {
            ControlToNode::Accepted(accepted) if to == node(3) => {
                Some((accepted.refused.clone(), accepted.may_rejoin))
            }
            _ => None,
        });
        assert_eq!(answers.len(), 1);
        let (text, may_rejoin) = &answers[0];
        assert!(!may_rejoin, "it would come again and again");
        assert_eq!(text.contains("the session earlier, which has ended"), is_refused, "{text}");
        assert_eq!(text.is_empty(), !is_refused, "{text}");
        let is_there = harness.members().1.iter().any(|info| info.address.node_id == node(3));
        assert_eq!(is_there, !is_refused);
    }
}

fn told_to_end(to: NodeId, message: &ControlToNode) -> Option<()> {
    (to == node(2) && matches!(message, ControlToNode::ShutDown(_))).then_some(())
}
