//! Tests of the nodes that bundles get, and of the explanations when they get none.

use std::collections::BTreeMap;

use helio_proto::control::Label;
use helio_proto::group::{Bundle, GroupSpec, GroupStrategy};
use helio_scheduler::{NodeView, Wanted, plan_group, why_group};
use helio_types::{NodeAddress, NodeId, ResourceSet};
use proptest::prelude::*;

fn id(number: u8) -> NodeId {
    NodeId([number; 28])
}

fn set(units: &[(&str, f64)]) -> ResourceSet {
    ResourceSet::from_units(units.iter().copied())
}

fn node(number: u8, total: &[(&str, f64)], free: &[(&str, f64)]) -> NodeView {
    NodeView {
        address: NodeAddress { node_id: id(number), host: format!("10.0.0.{number}"), port: 7 },
        alive: true,
        is_draining: false,
        is_guest: false,
        total: set(total),
        available: set(free),
        labels: BTreeMap::from([("side".to_owned(), format!("s{}", number % 2))]),
    }
}

fn spec(strategy: GroupStrategy, bundles: &[&[(&str, f64)]]) -> GroupSpec {
    let bundle = |units: &&[(&str, f64)]| Bundle { resources: set(units), labels: Vec::new() };
    GroupSpec { strategy, bundles: bundles.iter().map(bundle).collect(), ..GroupSpec::default() }
}

/// The nodes of the bundles, by bundle; empty when there is no room.
fn plan(nodes: &[NodeView], spec: &GroupSpec) -> Vec<u8> {
    let missing: Vec<u32> = (0..spec.bundles.len() as u32).collect();
    let mut plan =
        plan_group(nodes, Wanted { spec, missing: &missing, held: &[] }).unwrap_or_default();
    plan.sort_unstable();
    plan.into_iter().map(|(_, node_id)| node_id.0[0]).collect()
}

fn why(nodes: &[NodeView], spec: &GroupSpec) -> (String, bool) {
    let missing: Vec<u32> = (0..spec.bundles.len() as u32).collect();
    why_group(nodes, Wanted { spec, missing: &missing, held: &[] })
}

const CPU: &[(&str, f64)] = &[("CPU", 1.0)];
const GPU: &[(&str, f64)] = &[("GPU", 1.0)];
const FOUR: &[(&str, f64)] = &[("CPU", 4.0)];
const TWO: &[(&str, f64)] = &[("CPU", 2.0)];

#[test]
fn packing_takes_few_nodes_and_spreading_many() {
    let nodes = [node(1, TWO, TWO), node(2, FOUR, FOUR), node(3, TWO, TWO)];
    assert_eq!(plan(&nodes, &spec(GroupStrategy::Pack, &[CPU; 4])), [2; 4]);
    let six = plan(&nodes, &spec(GroupStrategy::Pack, &[CPU; 6]));
    assert_eq!(six.iter().filter(|node| **node == 2).count(), 4);
    assert_eq!(plan(&nodes, &spec(GroupStrategy::StrictPack, &[CPU; 3])), [2; 3]);
    let mut three = plan(&nodes, &spec(GroupStrategy::Spread, &[CPU; 3]));
    three.sort_unstable();
    assert_eq!(three, [1, 2, 3]);
    assert_eq!(plan(&nodes, &spec(GroupStrategy::Spread, &[CPU; 8])).len(), 8);
    assert_eq!(plan(&nodes, &spec(GroupStrategy::Spread, &[CPU; 9])), []);
    assert_eq!(plan(&nodes, &spec(GroupStrategy::StrictSpread, &[CPU; 4])), []);
}

#[test]
fn a_matching_is_found_where_taking_the_first_would_fail() {
    let both: &[(&str, f64)] = &[("CPU", 1.0), ("GPU", 1.0)];
    let nodes = [node(1, both, both), node(2, CPU, CPU)];
    assert_eq!(plan(&nodes, &spec(GroupStrategy::StrictSpread, &[CPU, GPU])), [2, 1]);
    assert_eq!(plan(&nodes, &spec(GroupStrategy::Pack, &[CPU, GPU])), [1, 1]);
    assert_eq!(plan(&nodes, &spec(GroupStrategy::Pack, &[CPU])), [2], "GPUs are spared");
}

#[test]
fn labels_and_topologies_narrow_the_nodes() {
    let nodes = [node(1, TWO, TWO), node(2, FOUR, FOUR), node(3, TWO, TWO)];
    let mut on = spec(GroupStrategy::Pack, &[CPU, CPU]);
    on.bundles[1].labels = vec![Label { key: "side".into(), value: "s0".into() }];
    on.bundles[0].labels = vec![Label { key: "side".into(), value: "!s0".into() }];
    let found = plan(&nodes, &on);
    assert_eq!(found[1], 2);
    assert_ne!(found[0], 2);
    let mut together = spec(GroupStrategy::Spread, &[CPU; 4]);
    together.topology = vec![Label { key: "side".into(), value: "STRICT_PACK".into() }];
    let sides: Vec<u8> = plan(&nodes, &together).iter().map(|node| node % 2).collect();
    assert!(sides == [0; 4] || sides == [1; 4], "{sides:?}");
    together.topology[0].key = "floor".into();
    assert_eq!(plan(&nodes, &together), [], "no node has that label");
}

#[test]
fn what_is_lost_goes_beside_what_is_held() {
    let nodes = [node(1, TWO, TWO), node(2, FOUR, FOUR)];
    let strict = spec(GroupStrategy::StrictPack, &[CPU, CPU]);
    let held = [id(1)];
    let wanted = Wanted { spec: &strict, missing: &[1], held: &held };
    assert_eq!(plan_group(&nodes, wanted), Some(vec![(1, id(1))]));
    let apart = spec(GroupStrategy::StrictSpread, &[CPU, CPU]);
    let wanted = Wanted { spec: &apart, missing: &[1], held: &held };
    assert_eq!(plan_group(&nodes, wanted), Some(vec![(1, id(2))]));
}

/// WHY-1
#[test]
fn the_words_name_bundle_resource_and_nodes() {
    let nodes = [node(1, FOUR, CPU), node(2, FOUR, TWO)];
    let check = |spec: &GroupSpec, hopeless: bool, parts: &[&str]| {
        let (text, is_hopeless) = why(&nodes, spec);
        assert_eq!(is_hopeless, hopeless, "{text}");
        for part in parts {
            assert!(text.contains(part), "{part:?} is not in {text:?}");
        }
    };
    let three: &[(&str, f64)] = &[("CPU", 3.0)];
    check(&spec(GroupStrategy::Pack, &[three]), false, &["bundle 0 of 1", "10.0.0.2 2 of 4"]);
    check(&spec(GroupStrategy::Pack, &[CPU, GPU]), true, &["bundle 1 of 2", "no node has 1 GPU"]);
    check(
        &spec(GroupStrategy::StrictPack, &[TWO, TWO, TWO]),
        true,
        &["3 bundles need one node", "6 CPU"],
    );
    check(&spec(GroupStrategy::StrictSpread, &[CPU; 3]), true, &["node of its own", "2 nodes"]);
    check(
        &spec(GroupStrategy::Spread, &[FOUR; 3]),
        true,
        &["its 3 bundles need 12 CPU together, and all nodes together have 8"],
    );
}

fn nodes() -> impl Strategy<Value = Vec<NodeView>> {
    let one = (1u32..5, 0u32..3, 0u32..5, 0u32..3, any::<bool>());
    prop::collection::vec(one, 0..6).prop_map(|all| {
        let view =
            |(number, (cpu, gpu, free, free_gpu, alive)): (u8, (u32, u32, u32, u32, bool))| {
                let units = |cpu: u32, gpu: u32| [("CPU", f64::from(cpu)), ("GPU", f64::from(gpu))];
                let free = units(free.min(cpu), free_gpu.min(gpu));
                NodeView { alive, ..node(number, &units(cpu, gpu), &free) }
            };
        (1..).zip(all).map(view).collect()
    })
}

fn specs() -> impl Strategy<Value = GroupSpec> {
    let bundle = (0u32..3, 0u32..2).prop_filter("not empty", |(cpu, gpu)| cpu + gpu > 0);
    (0usize..4, prop::collection::vec(bundle, 1..5)).prop_map(|(strategy, bundles)| {
        let bundle = |(cpu, gpu): &(u32, u32)| Bundle {
            resources: set(&[("CPU", f64::from(*cpu)), ("GPU", f64::from(*gpu))]),
            labels: Vec::new(),
        };
        GroupSpec {
            strategy: GroupStrategy::ALL[strategy],
            bundles: bundles.iter().map(bundle).collect(),
            ..GroupSpec::default()
        }
    })
}

proptest! {
    /// A plan fits and keeps to its strategy; and where there is none, there are words for it.
    #[test]
    fn a_plan_fits(nodes in nodes(), spec in specs()) {
        let missing: Vec<u32> = (0..spec.bundles.len() as u32).collect();
        let wanted = Wanted { spec: &spec, missing: &missing, held: &[] };
        let Some(plan) = plan_group(&nodes, wanted) else {
            prop_assert!(!why_group(&nodes, wanted).0.is_empty());
            return Ok(());
        };
        let mut placed: Vec<u32> = plan.iter().map(|(bundle, _)| *bundle).collect();
        placed.sort_unstable();
        prop_assert_eq!(placed, missing);
        let mut taken: BTreeMap<NodeId, (usize, ResourceSet)> = BTreeMap::new();
        for (bundle, node_id) in &plan {
            let entry = taken.entry(*node_id).or_default();
            entry.0 += 1;
            entry.1.add(&spec.bundles[*bundle as usize].resources);
        }
        for (node_id, (count, sum)) in &taken {
            let node = nodes.iter().find(|node| node.address.node_id == *node_id);
            let node = node.expect("a plan names nodes that are there");
            prop_assert!(node.alive && node.available.covers(sum), "{sum} on {node:?}");
            let strict = spec.strategy == GroupStrategy::StrictSpread;
            prop_assert!(!strict || *count == 1);
        }
        prop_assert!(spec.strategy != GroupStrategy::StrictPack || taken.len() == 1);
    }
}
