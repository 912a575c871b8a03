//! The index chooses what the linear policies choose, and looks at few nodes.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use helio_proto::control::{Label, Selectors, Strategy as Plan, StrategyKind};
use helio_proto::group::{Bundle, GroupSpec, GroupStrategy};
use helio_scheduler::{NodeIndex, NodeView, Wanted, place, plan_group};
use helio_types::{NodeAddress, NodeId, ResourceSet};
use proptest::prelude::*;

fn id(number: u16) -> NodeId {
    let mut bytes = [0; 28];
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    NodeId(bytes)
}

fn node(number: u16, total: &[(&str, f64)], free: &[(&str, f64)]) -> NodeView {
    NodeView {
        address: NodeAddress { node_id: id(number), host: format!("h{number}"), port: 1 },
        alive: true,
        is_draining: false,
        is_guest: false,
        total: ResourceSet::from_units(total.iter().copied()),
        available: ResourceSet::from_units(free.iter().copied()),
        labels: BTreeMap::from([("zone".to_owned(), format!("z{}", number % 3))]),
    }
}

/// A change of the nodes.
#[derive(Clone, Debug)]
enum Step {
    Set { number: u16, kind: u8, free: u8 },
    Take { number: u16, cpus: u8 },
    Remove { number: u16 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let number = 0u16..60;
    let step = prop_oneof![
        5 => (number.clone(), 0u8..4, 0u8..5)
            .prop_map(|(number, kind, free)| Step::Set { number, kind, free }),
        4 => (number.clone(), 0u8..3).prop_map(|(number, cpus)| Step::Take { number, cpus }),
        1 => number.prop_map(|number| Step::Remove { number }),
    ];
    proptest::collection::vec(step, 1..80)
}

fn view(number: u16, kind: u8, free: u8) -> NodeView {
    let free = f64::from(free);
    match kind {
        0 => node(number, &[("CPU", 4.0)], &[("CPU", free)]),
        1 => node(number, &[("CPU", 4.0), ("GPU", 2.0)], &[("CPU", free), ("GPU", free / 2.0)]),
        2 => {
            node(number, &[("CPU", 2.0), ("memory", 8.0)], &[("CPU", free), ("memory", 2.0 * free)])
        }
        _ => node(number, &[("CPU", 4.0), ("rare", 1.0)], &[("CPU", free), ("rare", 1.0)]),
    }
}

/// The index, and the same nodes as a plain list in the order in which they came.
#[derive(Default)]
struct Both {
    index: NodeIndex,
    list: Vec<NodeView>,
}

impl Both {
    fn step(&mut self, step: &Step) {
        match *step {
            Step::Set { number, kind, free } => {
                let view = view(number, kind, free);
                match self.list.iter_mut().find(|one| one.address.node_id == id(number)) {
                    Some(one) => one.clone_from(&view),
                    None => self.list.push(view.clone()),
                }
                self.index.set(view);
            }
            Step::Take { number, cpus } => {
                let need = ResourceSet::from_units([("CPU", f64::from(cpus))]);
                if let Some(one) =
                    self.list.iter_mut().find(|one| one.address.node_id == id(number))
                {
                    one.available.subtract(&need);
                }
                self.index.change_available(id(number), |available| available.subtract(&need));
            }
            Step::Remove { number } => {
                self.list.retain(|one| one.address.node_id != id(number));
                self.index.remove(id(number));
            }
        }
    }
}

fn labels(zone: Option<u8>) -> Vec<Label> {
    let label = |zone: u8| Label { key: "zone".into(), value: format!("z{zone}") };
    zone.map(label).into_iter().collect()
}

fn requests() -> impl Strategy<Value = (ResourceSet, Plan)> {
    let need = (0u8..3, 0u8..2, 0u8..2, 0u8..8).prop_map(|(cpu, gpu, memory, rare)| {
        ResourceSet::from_units([
            ("CPU", f64::from(cpu)),
            ("GPU", f64::from(gpu)),
            ("memory", f64::from(memory)),
            ("rare", if rare == 0 { 1.0 } else { 0.0 }),
        ])
    });
    let plan = (0u8..3, any::<bool>(), 0u16..60, proptest::option::of(0u8..4), any::<bool>());
    (need, plan).prop_map(|(need, (kind, soft, number, zone, falls_back))| {
        let kind = match kind {
            0 => StrategyKind::Default,
            1 => StrategyKind::Spread,
            _ => StrategyKind::NodeAffinity,
        };
        let fallbacks = match falls_back {
            true => vec![Selectors { labels: labels(Some(1)) }],
            false => Vec::new(),
        };
        let labels = labels(zone);
        let node_id = id(number);
        (need, Plan { kind, soft, node_id, labels, fallbacks, ..Plan::default() })
    })
}

fn groups() -> impl Strategy<Value = GroupSpec> {
    let bundle = (0u8..3, 0u8..2, proptest::option::of(0u8..3)).prop_map(|(cpu, gpu, zone)| {
        let units = [("CPU", f64::from(cpu)), ("GPU", f64::from(gpu))];
        Bundle { resources: ResourceSet::from_units(units), labels: labels(zone) }
    });
    let strategy = prop_oneof![
        Just(GroupStrategy::Pack),
        Just(GroupStrategy::StrictPack),
        Just(GroupStrategy::Spread),
        Just(GroupStrategy::StrictSpread),
    ];
    let bundles = proptest::collection::vec(bundle, 1..6);
    (strategy, bundles, 0u16..60, any::<bool>()).prop_map(|(strategy, bundles, target, by_zone)| {
        let topology = match by_zone {
            true => vec![Label { key: "zone".into(), value: "STRICT_PACK".into() }],
            false => Vec::new(),
        };
        GroupSpec { strategy, bundles, target: id(target), topology, ..GroupSpec::default() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The index chooses what the policies choose that look at every node, after any changes.
    #[test]
    fn the_index_places_as_the_linear_policy_does(
        before in steps(),
        after in steps(),
        requests in proptest::collection::vec((requests(), any::<u32>(), 0u16..60), 1..8),
    ) {
        let mut both = Both::default();
        for step in &before {
            both.step(step);
        }
        for changes in [Vec::new(), after] {
            for step in &changes {
                both.step(step);
            }
            for ((need, plan), cursor, number) in &requests {
                let cursor = u64::from(*cursor);
                let local = (number % 2 == 0).then(|| id(*number));
                let locality = [id(number / 2), id(number / 3)];
                let locality = if number % 3 == 0 { &locality[..] } else { &[] };
                let linear = place(&both.list, local, need, plan, cursor, locality);
                let indexed = both.index.place(local, need, plan, cursor, locality);
                prop_assert_eq!(linear, indexed);
            }
        }
    }

    /// And plans the bundles of a group alike.
    #[test]
    fn the_index_plans_groups_as_the_linear_policy_does(
        before in steps(),
        after in steps(),
        groups in proptest::collection::vec((groups(), 0usize..3), 1..5),
    ) {
        let mut both = Both::default();
        for changes in [before, after] {
            for step in &changes {
                both.step(step);
            }
            for (spec, n_held) in &groups {
                let n_held = (*n_held).min(spec.bundles.len() - 1).min(both.list.len());
                let missing: Vec<u32> = (n_held as u32..spec.bundles.len() as u32).collect();
                let held: Vec<NodeId> =
                    both.list.iter().take(n_held).map(|node| node.address.node_id).collect();
                let wanted = Wanted { spec, missing: &missing, held: &held };
                prop_assert_eq!(plan_group(&both.list, wanted), both.index.plan_group(wanted));
            }
        }
    }
}

/// Returns the number of nodes that are looked at for one placement after another, each of which
/// changes a node.
fn visits(n_nodes: u16, mut one: impl FnMut(&mut NodeIndex, u64) -> NodeId) -> f64 {
    const ROUNDS: u64 = 200;
    let mut index = NodeIndex::default();
    for number in 0..n_nodes {
        index.set(node(number, &[("CPU", 64.0)], &[("CPU", 64.0)]));
    }
    let need = ResourceSet::from_units([("CPU", 1.0)]);
    // The first of a shape looks at every node.
    one(&mut index, 0);
    let before = index.visited();
    for round in 1..=ROUNDS {
        let node_id = one(&mut index, round);
        index.change_available(node_id, |available| available.subtract(&need));
    }
    (index.visited() - before) as f64 / ROUNDS as f64
}

fn grows_like_the_logarithm(one: impl Fn(&mut NodeIndex, u64) -> NodeId) {
    let (few, many) = (visits(100, &one), visits(10_000, &one));
    // log 10,000 is twice log 100.
    assert!(many <= 2.5 * few + 8.0, "{few} nodes are looked at among 100, {many} among 10,000");
}

#[test]
fn a_placement_looks_at_as_many_nodes_as_the_logarithm_of_their_number() {
    for kind in [StrategyKind::Default, StrategyKind::Spread] {
        let plan = Plan { kind, ..Plan::default() };
        let need = ResourceSet::from_units([("CPU", 1.0)]);
        grows_like_the_logarithm(|index, cursor| {
            match index.place(None, &need, &plan, cursor, &[]) {
                helio_scheduler::Placement::On(node_id) => node_id,
                other => panic!("{other:?}"),
            }
        });
    }
}

#[test]
fn a_bundle_looks_at_a_few_nodes_however_many_there_are() {
    for strategy in [GroupStrategy::Pack, GroupStrategy::StrictSpread] {
        let bundle =
            Bundle { resources: ResourceSet::from_units([("CPU", 1.0)]), ..Bundle::default() };
        let spec = GroupSpec { strategy, bundles: vec![bundle; 4], ..GroupSpec::default() };
        grows_like_the_logarithm(|index, _| {
            let wanted = Wanted { spec: &spec, missing: &[0, 1, 2, 3], held: &[] };
            index.plan_group(wanted).unwrap()[0].1
        });
    }
}
