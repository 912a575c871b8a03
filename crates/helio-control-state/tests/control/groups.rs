//! Placement groups: planned, held, lost, removed, and back after a restart.

use helio_proto::cluster::{ControlToNode, FromClient, NodeLeaving, RegisterNode};
use helio_proto::control::{ControlRequest, ControlResponse, FailureKind, Strategy, StrategyKind};
use helio_proto::group::{
    AskGroup, AwaitGroup, Bundle, BundlesHeld, GetGroup, GroupInfo, GroupPhase, GroupSpec,
    GroupStrategy, HeldBundle, RemoveGroup,
};
use helio_proto::node::{ControlCall, NodeToClient};
use helio_types::{DeathKind, PlacementGroupId, ResourceSet};

use crate::harness::{Harness, actor, info, job, node, spec, worker};

const TWO: &[(&str, f64)] = &[("CPU", 2.0)];

fn group(number: u8) -> PlacementGroupId {
    let mut id = [number; PlacementGroupId::LEN];
    id[14..].copy_from_slice(&job(1).0);
    PlacementGroupId(id)
}

fn wanted(number: u8, strategy: GroupStrategy, cpus: &[f64]) -> GroupSpec {
    let bundle = |cpu: &f64| Bundle {
        resources: ResourceSet::from_units([("CPU", *cpu)]),
        labels: Vec::new(),
    };
    GroupSpec {
        group_id: group(number),
        job_id: job(1),
        namespace: "ns".into(),
        strategy,
        bundles: cpus.iter().map(bundle).collect(),
        ..GroupSpec::default()
    }
}

/// Two nodes of two CPUs, and driver 1 on the first.
fn harness() -> Harness {
    let mut harness = Harness::with_driver(2.0);
    harness.register(2, TWO);
    harness.sent.clear();
    harness
}

impl Harness {
    fn make(&mut self, spec: GroupSpec) {
        let done = self.ask(1, 1, ControlRequest::CreateGroup(spec));
        assert!(matches!(done, ControlResponse::Done(_)), "{done:?}");
    }

    fn remove(&mut self, number: u8) {
        let group_id = group(number);
        self.ask(1, 1, ControlRequest::RemoveGroup(RemoveGroup { group_id }));
    }

    fn group(&mut self, number: u8) -> GroupInfo {
        let get = GetGroup { group_id: group(number), ..GetGroup::default() };
        match self.ask(1, 200, ControlRequest::GetGroup(get)) {
            ControlResponse::Group(info) => info,
            other => panic!("{other:?}"),
        }
    }

    fn phase(&mut self, number: u8) -> GroupPhase {
        self.group(number).phase
    }

    /// Takes the orders about bundles: R(eserve), O (reserve and commit), C(ommit) or B(ack), with the node and the
    /// bundles.
    fn orders(&mut self) -> Vec<(char, u8, Vec<u32>)> {
        self.take(|to, message| match message {
            ControlToNode::ReserveBundles(order) => {
                let bundles = order.bundles.iter().map(|bundle| bundle.bundle).collect();
                Some((if order.commit { 'O' } else { 'R' }, to.0[0], bundles))
            }
            ControlToNode::CommitBundles(_) => Some(('C', to.0[0], vec![])),
            ControlToNode::ReturnBundles(order) => Some(('B', to.0[0], order.bundles.clone())),
            _ => None,
        })
    }

    fn held(&mut self, on: u8, number: u8, attempt: u32, committed: bool) {
        let held =
            BundlesHeld { group_id: group(number), attempt, committed, refused: String::new() };
        self.say(on, held);
    }

    /// Bundles 0 and 1 on nodes 1 and 2, both lending.
    fn spread(&mut self, cpus: f64) {
        self.make(wanted(1, GroupStrategy::StrictSpread, &[cpus, cpus]));
        for committed in [false, true] {
            self.held(1, 1, 1, committed);
            self.held(2, 1, 1, committed);
        }
        self.sent.clear();
    }
}

#[test]
fn one_node_holds_and_lends_at_once() {
    let mut harness = harness();
    harness.make(wanted(1, GroupStrategy::StrictPack, &[1.0, 1.0]));
    let orders = harness.orders();
    assert_eq!(orders.len(), 1);
    let (kind, on, bundles) = orders[0].clone();
    assert_eq!((kind, bundles), ('O', vec![0, 1]));
    assert_eq!(harness.phase(1), GroupPhase::Pending);
    harness.held(on, 1, 1, true);
    assert_eq!(harness.phase(1), GroupPhase::Created);
    assert_eq!(harness.group(1).places.len(), 2);
}

#[test]
fn several_nodes_hold_first_and_lend_when_all_do() {
    let mut harness = harness();
    harness.make(wanted(1, GroupStrategy::StrictSpread, &[1.0, 1.0]));
    assert_eq!(harness.orders().iter().map(|order| order.0).collect::<String>(), "RR");
    harness.held(1, 1, 1, false);
    assert_eq!(harness.orders(), [], "the other has not answered");
    harness.held(2, 1, 1, false);
    assert_eq!(harness.orders(), [('C', 1, vec![]), ('C', 2, vec![])]);
    assert_eq!(harness.phase(1), GroupPhase::Prepared);
    harness.held(1, 1, 1, true);
    harness.held(2, 1, 1, true);
    assert_eq!(harness.phase(1), GroupPhase::Created);
}

#[test]
fn a_refusal_gives_the_others_back_and_the_group_waits() {
    let mut harness = harness();
    harness.make(wanted(1, GroupStrategy::StrictSpread, &[2.0, 2.0]));
    let first = harness.orders();
    harness.held(1, 1, 1, false);
    let refused = "it is full".to_owned();
    harness.say(2, BundlesHeld { group_id: group(1), attempt: 1, committed: false, refused });
    let on_first: Vec<u32> =
        first.iter().filter(|order| order.1 == 1).flat_map(|order| order.2.clone()).collect();
    assert_eq!(harness.orders(), [('B', 1, on_first)]);
    let info = harness.group(1);
    assert_eq!(info.phase, GroupPhase::Pending);
    assert!(info.why.contains("beside the other bundle"), "WHY-1: {}", info.why);
    // An answer to the try that is over changes nothing.
    harness.held(1, 1, 1, false);
    assert_eq!(harness.orders(), []);
    harness.status(1, TWO, TWO);
    harness.status(2, TWO, TWO);
    assert_eq!(harness.orders().iter().map(|order| order.0).collect::<String>(), "RR");
}

#[test]
fn a_lost_node_takes_its_bundles_and_leaves_the_others() {
    let mut harness = harness();
    harness.spread(2.0);
    harness.say(2, NodeLeaving { reason: "it was told to".to_owned(), ..NodeLeaving::default() });
    assert_eq!(harness.phase(1), GroupPhase::Rescheduling);
    assert_eq!(harness.group(1).places.len(), 1);
    harness.register(3, TWO);
    let orders = harness.orders();
    assert_eq!(orders.len(), 1, "{orders:?}");
    assert_eq!((orders[0].0, orders[0].1), ('O', 3));
    harness.held(3, 1, 2, true);
    assert_eq!(harness.phase(1), GroupPhase::Created);
}

/// A group that has lost both its nodes, one after the other, is not placed with the bundle that was asked
/// for in between.
#[test]
fn a_bundle_that_is_lost_while_another_is_asked_for_is_asked_for_next() {
    let mut harness = Harness::with_driver(0.0);
    for number in [2, 3] {
        harness.register(number, TWO);
    }
    harness.make(wanted(1, GroupStrategy::StrictSpread, &[2.0, 2.0]));
    for committed in [false, true] {
        harness.held(2, 1, 1, committed);
        harness.held(3, 1, 1, committed);
    }
    harness.register(4, TWO);
    harness.sent.clear();
    let leaves = || NodeLeaving { reason: "it was told to".to_owned(), ..NodeLeaving::default() };
    harness.say(2, leaves());
    let orders = harness.orders();
    assert!(matches!(orders[..], [('O', 4, _)]), "{orders:?}");
    harness.say(3, leaves());
    harness.held(4, 1, 2, true);
    assert_eq!(harness.group(1).places.len(), 1);
    assert_eq!(harness.phase(1), GroupPhase::Rescheduling);
    harness.register(5, TWO);
    let orders = harness.orders();
    assert!(matches!(orders[..], [('O', 5, _)]), "{orders:?}");
    harness.held(5, 1, 3, true);
    assert_eq!(harness.phase(1), GroupPhase::Created);
}

#[test]
fn removal_is_told_to_holders_waiters_and_askers() {
    let mut harness = harness();
    harness.make(wanted(1, GroupStrategy::Pack, &[5.0]));
    harness.say(2, AskGroup { group_id: group(1) });
    let wait = ControlRequest::AwaitGroup(AwaitGroup { group_id: group(1) });
    let call = ControlCall { request_id: 5, request: wait };
    harness.say(1, FromClient { worker_id: worker(3), call });
    harness.sent.clear();
    harness.remove(1);
    let told = harness.take(|to, message| match message {
        ControlToNode::GroupNews(news) => Some((to.0[0], news.removed)),
        _ => None,
    });
    assert_eq!(told, [(2, true)]);
    let answers = harness.take(|_, message| match message {
        ControlToNode::ToClient(to) => match &to.message {
            NodeToClient::ControlReply(reply) if reply.request_id == 5 => {
                Some(reply.response.clone())
            }
            _ => None,
        },
        _ => None,
    });
    match answers.as_slice() {
        [ControlResponse::Failed(failure)] => {
            assert_eq!(failure.kind, FailureKind::GroupRemoved);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(harness.phase(1), GroupPhase::Removed);
    assert!(!harness.disk.keys().any(|key| key.starts_with(b"g/")), "nothing durable is left");
}

#[test]
fn an_actor_of_a_group_waits_for_it_and_ends_with_it() {
    let mut harness = harness();
    harness.make(wanted(1, GroupStrategy::Pack, &[5.0]));
    let mut inside = spec(4, 1);
    inside.strategy = Strategy {
        kind: StrategyKind::PlacementGroup,
        placement_group: group(1),
        bundle: 0,
        ..Strategy::default()
    };
    harness.create(inside.clone());
    let why = harness.info(4).why;
    assert!(why.contains("placement group"), "WHY-1: {why}");
    harness.remove(1);
    assert_eq!(harness.info(4).cause.kind, DeathKind::GroupRemoved);
    inside.actor_id = actor(5);
    harness.create(inside);
    assert_eq!(harness.info(5).cause.kind, DeathKind::GroupRemoved, "it came too late");
}

#[test]
fn groups_end_with_their_job_and_detached_ones_do_not() {
    let mut harness = harness();
    harness.make(wanted(1, GroupStrategy::Pack, &[1.0]));
    let mut kept = wanted(2, GroupStrategy::Pack, &[1.0]);
    kept.detached = true;
    harness.make(kept);
    harness.client_gone(1, 1, true);
    assert_eq!(harness.phase(1), GroupPhase::Removed);
    assert_ne!(harness.phase(2), GroupPhase::Removed);
}

/// STATE-2
#[test]
fn a_restarted_service_takes_over_what_nodes_hold() {
    let mut harness = harness();
    harness.make(wanted(1, GroupStrategy::StrictSpread, &[1.0, 1.0]));
    harness.held(1, 1, 1, false);
    harness.held(2, 1, 1, false);
    let places = harness.control.bundle_places();
    let at_first = places.iter().find(|(_, _, at)| *at == node(1)).map(|(_, bundle, _)| *bundle);
    harness.sent.clear();
    harness.make(wanted(2, GroupStrategy::StrictPack, &[1.0]));
    let on = harness.orders()[0].1;
    harness.held(on, 2, 1, true);
    // That the first may be used was not heard, where the second is was not written down.
    harness.restart();
    assert!(!harness.disk.contains_key(&[b"h/".as_slice(), &group(2).0].concat()));
    for number in [1, 2] {
        let held = |number: u8, bundle, committed| HeldBundle {
            group_id: group(number),
            bundle,
            attempt: 1,
            committed,
        };
        let bundle = if number == 1 { at_first.unwrap() } else { 1 - at_first.unwrap() };
        let mut bundles = vec![held(1, bundle, false), held(7, 0, true)];
        if on == number {
            bundles.push(held(2, 0, true));
        }
        let info = info(number, TWO, TWO);
        harness.say(number, RegisterNode { info, bundles, ..RegisterNode::default() });
        assert_eq!(
            harness.orders(),
            [('C', number, vec![]), ('B', number, vec![0])],
            "the first may be used, nobody knows the seventh"
        );
    }
    assert_eq!(harness.phase(1), GroupPhase::Created);
    assert_eq!(harness.phase(2), GroupPhase::Created);
}

#[test]
fn a_group_that_waited_waits_on_after_a_restart() {
    let mut harness = harness();
    harness.make(wanted(1, GroupStrategy::Pack, &[5.0]));
    harness.restart();
    harness.register(1, TWO);
    harness.register(2, TWO);
    assert_eq!(harness.orders(), []);
    harness.register(3, &[("CPU", 8.0)]);
    assert_eq!(harness.orders(), [('O', 3, vec![0])], "no node was asked for it before");
}

/// STATE-2: the one node that was asked is waited for, and no longer.
#[test]
fn a_group_that_was_asked_for_is_placed_when_its_node_is_back() {
    let mut harness = harness();
    let spec = wanted(1, GroupStrategy::StrictPack, &[1.0]);
    harness.make(GroupSpec { detached: true, ..spec });
    let on = harness.orders()[0].1;
    harness.restart();
    harness.register(3 - on, TWO);
    assert_eq!(harness.orders(), [], "the other one may hold it");
    harness.register(on, TWO);
    let orders = harness.orders();
    assert!(matches!(orders[..], [('O', _, _)]), "it does not: {orders:?}");
    let again = orders[0].1;
    harness.held(again, 1, 1, true);
    assert_eq!(harness.phase(1), GroupPhase::Pending, "an answer to the try of before");
    harness.held(again, 1, 2, true);
    assert_eq!(harness.phase(1), GroupPhase::Created);
    harness.restart();
    harness.pass(11_000, &[]);
    harness.register(3, TWO);
    assert_eq!(harness.orders(), [('O', 3, vec![0])], "its node never came back");
    harness.ask(3, 1, ControlRequest::RemoveGroup(RemoveGroup { group_id: group(1) }));
    assert!(!harness.disk.keys().any(|key| key.ends_with(&group(1).0)), "LIMIT-1");
}

/// STATE-2: the node of one bundle is gone with the restart, the one that was asked for the other is back.
#[test]
fn a_group_that_waits_for_its_node_of_before_is_queued_once() {
    let mut harness = harness();
    harness.register(3, TWO);
    let spec = wanted(1, GroupStrategy::StrictSpread, &[1.0, 1.0]);
    harness.make(GroupSpec { detached: true, ..spec });
    let first: Vec<u8> = harness.orders().iter().map(|order| order.1).collect();
    for committed in [false, true] {
        first.iter().for_each(|on| harness.held(*on, 1, 1, committed));
    }
    harness.orders();
    let reason = "it was told to".to_owned();
    harness.say(first[0], NodeLeaving { reason, ..NodeLeaving::default() });
    let asked = harness.orders()[0].1;
    harness.restart_without(&[node(first[1])]);
    harness.register(asked, TWO);
    assert_eq!(harness.orders(), [], "there is one node for two bundles that keep apart");
    harness.register(4, TWO);
    assert_eq!(harness.orders().iter().map(|order| order.0).collect::<String>(), "RR");
}

#[test]
fn news_of_unknown_groups_do_nothing() {
    let mut harness = harness();
    harness.held(1, 6, 1, true);
    harness.say(1, AskGroup { group_id: group(6) });
    assert_eq!(harness.control.census().groups, 0);
    assert_eq!(harness.control.census().awaited, 0);
}

#[test]
fn nodes_full_of_tasks_are_asked_for_room_for_a_group() {
    let mut harness = harness();
    for node in [1, 2] {
        harness.status(node, TWO, &[]);
    }
    harness.make(wanted(1, GroupStrategy::StrictSpread, &[2.0, 1.0]));
    assert_eq!(harness.orders(), []);
    harness.pass(2_000, &[1, 2]);
    let mut asked = harness.take(|node_id, message| match message {
        ControlToNode::KeepFree(order) => {
            Some((node_id.0[0], order.resources.get("CPU").to_f64() as u32))
        }
        _ => None,
    });
    asked.sort_unstable();
    asked.dedup();
    let cpus: Vec<u32> = asked.iter().map(|(_, cpus)| *cpus).collect();
    assert!(cpus == [1, 2] || cpus == [2, 1], "{asked:?}");
}
