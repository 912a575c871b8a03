//! The policies, by example and by property.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use helio_proto::control::{Label, Strategy as Plan, StrategyKind};
use helio_scheduler::{NodeView, Placement, fails_when_infeasible, place, why};
use helio_types::{NodeAddress, NodeId, ResourceSet};
use proptest::prelude::*;

fn node(number: u8, total: &[(&str, f64)], free: &[(&str, f64)]) -> NodeView {
    NodeView {
        address: NodeAddress { node_id: id(number), host: format!("10.0.0.{number}"), port: 1 },
        alive: true,
        is_draining: false,
        is_guest: false,
        total: ResourceSet::from_units(total.iter().copied()),
        available: ResourceSet::from_units(free.iter().copied()),
        labels: BTreeMap::from([("zone".to_owned(), format!("z{}", number % 2))]),
    }
}

fn id(number: u8) -> NodeId {
    NodeId([number; 28])
}

fn need(units: &[(&str, f64)]) -> ResourceSet {
    ResourceSet::from_units(units.iter().copied())
}

fn of_kind(kind: StrategyKind) -> Plan {
    Plan { kind, ..Plan::default() }
}

fn cpus(number: u8, total: f64, free: f64) -> NodeView {
    node(number, &[("CPU", total)], &[("CPU", free)])
}

#[test]
fn local_until_half_used_then_the_least_used() {
    let plan = Plan::default();
    let one = need(&[("CPU", 1.0)]);
    let nodes = [cpus(1, 4.0, 4.0), cpus(2, 4.0, 3.0)];
    assert_eq!(place(&nodes, Some(id(2)), &one, &plan, 0, &[]), Placement::On(id(2)));
    let nodes = [cpus(1, 4.0, 4.0), cpus(2, 4.0, 2.0)];
    assert_eq!(place(&nodes, Some(id(2)), &one, &plan, 0, &[]), Placement::On(id(1)));
    let nodes = [cpus(1, 4.0, 1.0), cpus(2, 4.0, 2.0)];
    assert_eq!(place(&nodes, Some(id(1)), &one, &plan, 0, &[]), Placement::On(id(2)));
    // A node that holds the arguments goes before the node that asks.
    let nodes = [cpus(1, 4.0, 4.0), cpus(2, 4.0, 4.0)];
    assert_eq!(place(&nodes, Some(id(1)), &one, &plan, 0, &[id(2)]), Placement::On(id(2)));
}

#[test]
fn the_machine_of_a_driver_outside_the_cluster_gets_nothing() {
    let guest = NodeView { is_guest: true, ..cpus(1, 4.0, 4.0) };
    let nothing = need(&[]);
    for kind in StrategyKind::ALL {
        let plan = Plan { node_id: id(1), ..of_kind(kind) };
        let alone = place(std::slice::from_ref(&guest), Some(id(1)), &nothing, &plan, 0, &[]);
        assert!(matches!(alone, Placement::Infeasible(_)), "{kind:?}: {alone:?}");
    }
    let nodes = [guest, cpus(2, 4.0, 0.0)];
    let plan = Plan::default();
    assert_eq!(place(&nodes, Some(id(1)), &nothing, &plan, 0, &[id(1)]), Placement::On(id(2)));
}

#[test]
fn work_without_gpu_leaves_gpu_nodes_alone_while_it_can() {
    let gpu = node(1, &[("CPU", 8.0), ("GPU", 2.0)], &[("CPU", 8.0), ("GPU", 2.0)]);
    let nodes = [gpu.clone(), cpus(2, 2.0, 1.0)];
    let one = need(&[("CPU", 1.0)]);
    assert_eq!(place(&nodes, Some(id(1)), &one, &Plan::default(), 0, &[]), Placement::On(id(2)));
    let nodes = [gpu, cpus(2, 2.0, 0.0)];
    assert_eq!(place(&nodes, None, &one, &Plan::default(), 0, &[]), Placement::On(id(1)));
}

#[test]
fn spread_takes_turns_and_skips_full_nodes() {
    let nodes = [cpus(1, 4.0, 4.0), cpus(2, 4.0, 0.0), cpus(3, 4.0, 4.0)];
    let plan = of_kind(StrategyKind::Spread);
    let picks: Vec<Placement> = (0..4)
        .map(|cursor| place(&nodes, Some(id(1)), &need(&[("CPU", 1.0)]), &plan, cursor, &[]))
        .collect();
    assert_eq!(picks, [id(1), id(3), id(3), id(1)].map(Placement::On));
}

#[test]
fn affinity_waits_for_its_node_and_fails_without_it() {
    let nodes = [cpus(1, 2.0, 2.0), cpus(2, 2.0, 0.0)];
    let one = need(&[("CPU", 1.0)]);
    let to = |number: u8, soft: bool| Plan {
        node_id: id(number),
        soft,
        ..of_kind(StrategyKind::NodeAffinity)
    };
    assert_eq!(place(&nodes, None, &one, &to(1, false), 0, &[]), Placement::On(id(1)));
    assert_eq!(place(&nodes, None, &one, &to(2, false), 0, &[]), Placement::Busy);
    assert_eq!(place(&nodes, None, &one, &to(2, true), 0, &[]), Placement::Busy);
    assert_eq!(place(&nodes, None, &one, &to(9, true), 0, &[]), Placement::On(id(1)));
    assert!(matches!(place(&nodes, None, &one, &to(9, false), 0, &[]), Placement::Infeasible(_)));
    assert!(fails_when_infeasible(&to(9, false)) && !fails_when_infeasible(&to(9, true)));
}

#[test]
fn labels_narrow_the_nodes() {
    let nodes = [cpus(1, 2.0, 2.0), cpus(2, 2.0, 2.0)];
    let with = |value: &str| Plan {
        labels: vec![Label { key: "zone".into(), value: value.into() }],
        ..Plan::default()
    };
    let check = |value: &str, expect: Placement| {
        assert_eq!(
            place(&nodes, None, &need(&[("CPU", 1.0)]), &with(value), 0, &[]),
            expect,
            "{value}"
        );
    };
    check("z1", Placement::On(id(1)));
    check("!z1", Placement::On(id(2)));
    check("in(z0,z7)", Placement::On(id(2)));
    check("!in(z0)", Placement::On(id(1)));
    check(
        "z9",
        Placement::Infeasible(
            "no node has the labels zone=z9: ask for others, or start a node with them".into(),
        ),
    );
}

/// WHY-1: each state of a waiting request has its own sentence.
#[test]
fn waits_are_explained() {
    let nodes = [node(1, &[("CPU", 4.0), ("GPU", 1.0)], &[("CPU", 0.5)]), cpus(2, 8.0, 1.0)];
    let check = |units: &[(&str, f64)], expect: &str| {
        assert_eq!(why(&nodes, &need(units), &Plan::default()), expect);
    };
    check(
        &[("GPU", 2.0)],
        "no node has 2 GPU (the largest has 1): ask for less, or start a node with that much",
    );
    check(
        &[("TPU", 1.0)],
        "no node has 1 TPU (none has any): ask for less, or start a node with that much",
    );
    check(
        &[("CPU", 8.0), ("GPU", 1.0)],
        "no single node has 8 CPU, 1 GPU together: ask for less, or start a larger node",
    );
    check(
        &[("CPU", 4.0)],
        "2 nodes could hold 4 CPU but are in use (the freest has 1 CPU free): waiting for other work to end",
    );
    check(
        &[("GPU", 1.0)],
        "node 10.0.0.1 has 0 of 1 GPU free and 1 GPU is needed: waiting for other work to end",
    );
    check(&[("CPU", 1.0)], "a worker with 1 CPU is being prepared");
    assert_eq!(why(&[], &need(&[]), &Plan::default()), "the cluster has no node");
}

/// WHY-1: a name that is spelt otherwise waits, as any resource may come, and its sentence names the one that is there.
#[test]
fn a_resource_that_is_spelt_otherwise_is_named() {
    let nodes =
        [node(1, &[("CPU", 4.0), ("Lift", 1.0)], &[]), node(2, &[("tape_group_0_ab", 1.0)], &[])];
    let check = |nodes: &[NodeView], name: &str, meant: Option<&str>| {
        let text = why(nodes, &need(&[(name, 1.0)]), &Plan::default());
        let hint = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
        let advice = "ask for less, or start a node with that much";
        assert_eq!(text, format!("no node has 1 {name} (none has any{hint}): {advice}"));
    };
    for name in ["cpu", "Cpu", "CPUs", "cpus", "num_cpus"] {
        check(&nodes, name, Some("CPU"));
    }
    // Of what every node may have, whether one has it or not; of the rest, what is there.
    check(&nodes, "gpu", Some("GPU"));
    check(&nodes, "num_gpus", Some("GPU"));
    check(&nodes, "lift", Some("Lift"));
    check(&nodes, "lifts", Some("Lift"));
    check(&nodes[1..], "lift", None);
    // Accelerators have names that differ in a letter.
    for name in ["GPU", "TPU", "NPU", "unobtainium", "s", "num_"] {
        check(&nodes, name, None);
    }
    let bound = Plan { node_id: id(2), ..of_kind(StrategyKind::NodeAffinity) };
    let text = why(&nodes, &need(&[("cpu", 1.0)]), &bound);
    assert!(text.contains("has no 1 cpu (it has none; did you mean CPU?)"), "{text}");
}

fn views() -> impl Strategy<Value = Vec<NodeView>> {
    let one = (0u32..5, 0u32..5, 0u32..3, 0u32..3, any::<bool>());
    proptest::collection::vec(one, 0..6).prop_map(|all| {
        let build =
            |(number, (cpu, free, gpu, free_gpu, alive)): (usize, (u32, u32, u32, u32, bool))| {
                NodeView {
                    alive,
                    is_draining: false,
                    ..node(
                        number as u8 + 1,
                        &[("CPU", f64::from(cpu)), ("GPU", f64::from(gpu))],
                        &[("CPU", f64::from(free.min(cpu))), ("GPU", f64::from(free_gpu.min(gpu)))],
                    )
                }
            };
        all.into_iter().enumerate().map(build).collect()
    })
}

fn plans() -> impl Strategy<Value = Plan> {
    (0usize..StrategyKind::ALL.len(), 1u8..7, any::<bool>(), proptest::option::of("!?z[0-2]"))
        .prop_map(|(kind, target, soft, zone)| Plan {
            kind: StrategyKind::ALL[kind],
            node_id: id(target),
            soft,
            labels: zone.into_iter().map(|value| Label { key: "zone".into(), value }).collect(),
            ..Plan::default()
        })
}

proptest! {
    /// A pick always has room; "busy" means that one could hold it; "infeasible" that none could.
    #[test]
    fn the_answer_is_true(
        nodes in views(), plan in plans(), cpu in 0u32..5, gpu in 0u32..3, cursor in any::<u64>(), local in 0u8..7,
    ) {
        let need = need(&[("CPU", f64::from(cpu)), ("GPU", f64::from(gpu))]);
        let alone = |node: &NodeView| place(std::slice::from_ref(node), None, &need, &plan, 0, &[]);
        match place(&nodes, Some(id(local)), &need, &plan, cursor, &[id(local)]) {
            Placement::On(picked) => {
                let node = nodes.iter().find(|node| node.address.node_id == picked);
                let node = node.expect("the pick is one of the nodes");
                prop_assert!(node.alive && node.available.covers(&need));
            }
            Placement::Busy => {
                prop_assert!(nodes.iter().any(|node| node.alive && node.total.covers(&need)));
                prop_assert!(!why(&nodes, &need, &plan).is_empty());
            }
            Placement::Infeasible(reason) => {
                prop_assert!(nodes.iter().all(|node| !matches!(alone(node), Placement::On(_))));
                prop_assert_eq!(why(&nodes, &need, &plan), reason);
            }
        }
    }
}
