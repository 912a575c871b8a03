//! The placement of a group's bundles.
//!
//! [`plan_group`] looks for a node for every bundle that has none; it answers with all of them or not
//! at all. **WHY-1** [`why_group`] says in a sentence what stands in the way, bundle by bundle, by the
//! same steps.
//!
//! | strategy | how |
//! |---|---|
//! | pack | again and again the node that can hold most of what is left |
//! | strict pack | one node for all, the least used |
//! | spread | bundle by bundle the node that has the fewest of the group |
//! | strict spread | a matching of bundles and nodes, so that none is missed that exists |
//!
//! Bundles that fit few nodes go first, then large ones. Nodes with GPUs are left to those who need
//! them while others will do.

use std::collections::{BTreeMap, BTreeSet};

use helio_proto::control::{Label, Strategy};
use helio_proto::group::{Bundle, GroupSpec, GroupStrategy};
use helio_types::{NodeId, Quantity, ResourceSet, mutant};

use crate::explain::{scarcity, why};
use crate::labels::{Selector, all_match, parse_all};
use crate::policy::{USED_BY, used_part};
use crate::{NodeView, is_of_bundle};

/// A group, and which of its bundles are to be placed.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The specification of the group.
    pub spec: &'a GroupSpec,
    /// The bundles that have no node.
    pub missing: &'a [u32],
    /// The nodes of the others.
    pub held: &'a [NodeId],
}

/// A node for each missing bundle, or `None` when there is no room now.
#[must_use]
pub fn plan_group(nodes: &[NodeView], wanted: Wanted<'_>) -> Option<Vec<(u32, NodeId)>> {
    plan_among(all(nodes), wanted)
}

/// A node that may be used.
#[derive(Clone, Copy)]
pub(crate) struct Candidate<'a> {
    pub(crate) node: &'a NodeView,
    /// Number of nodes that the candidate stands for: itself and others that are equal to it and
    /// come behind it.
    pub(crate) weight: usize,
}

fn all(nodes: &[NodeView]) -> Vec<Candidate<'_>> {
    nodes.iter().map(|node| Candidate { node, weight: 1 }).collect()
}

/// Plans with these nodes.
pub(crate) fn plan_among(
    nodes: Vec<Candidate<'_>>,
    wanted: Wanted<'_>,
) -> Option<Vec<(u32, NodeId)>> {
    in_some_domain(&nodes, wanted, |node| &node.available).ok()
}

impl Wanted<'_> {
    /// The names of the resources and the keys of the labels that decide between nodes.
    pub(crate) fn signature(&self) -> (BTreeSet<String>, BTreeSet<String>) {
        let mut names: BTreeSet<String> = USED_BY.iter().map(|name| (*name).to_owned()).collect();
        let mut labels: BTreeSet<String> =
            self.spec.topology.iter().map(|label| label.key.clone()).collect();
        for number in self.missing {
            let bundle = bundle(*self, *number);
            names.extend(bundle.resources.iter().map(|(name, _)| name.to_owned()));
            labels.extend(bundle.labels.iter().map(|label| label.key.clone()));
        }
        (names, labels)
    }
}

/// Returns the reason why the group waits, as a sentence without a final dot, and whether it is hopeless: no node that
/// is there could ever hold it.
#[must_use]
pub fn why_group(nodes: &[NodeView], wanted: Wanted<'_>) -> (String, bool) {
    let (stuck, hopeless) = match in_some_domain(&all(nodes), wanted, |node| &node.total) {
        Err(stuck) => (stuck, true),
        Ok(_) => match in_some_domain(&all(nodes), wanted, |node| &node.available) {
            Err(stuck) => (stuck, false),
            Ok(_) => return ("its bundles are being reserved".to_owned(), false),
        },
    };
    (sentence(nodes, wanted, &stuck, hopeless), hopeless)
}

/// The bundle that found no node, and what those before it would take.
struct Stuck {
    bundle: u32,
    before: Vec<(u32, NodeId)>,
}

type Room = fn(&NodeView) -> &ResourceSet;

/// The nodes that may be used, and what the group's own bundles have taken of each so far.
struct Board<'a> {
    nodes: Vec<Candidate<'a>>,
    room: Room,
    taken: BTreeMap<usize, ResourceSet>,
    /// Number of the group's bundles on each node.
    counts: BTreeMap<usize, usize>,
    placed: Vec<(u32, NodeId)>,
}

impl Board<'_> {
    fn fits(&self, index: usize, need: &ResourceSet) -> bool {
        let (room, taken) = ((self.room)(self.nodes[index].node), self.taken.get(&index));
        need.iter().all(|(name, quantity)| {
            room.get(name).0 - taken.map_or(0, |taken| taken.get(name).0) >= quantity.0
        })
    }

    fn may_hold(&self, index: usize, bundle: &Bundle) -> bool {
        self.fits(index, &bundle.resources)
            && all_match(&parse_all(&bundle.labels), &self.nodes[index].node.labels)
    }

    fn take(&mut self, index: usize, number: u32, need: &ResourceSet) {
        self.taken.entry(index).or_default().add(need);
        *self.counts.entry(index).or_default() += 1;
        self.placed.push((number, self.nodes[index].node.address.node_id));
    }

    /// Nodes that should be taken before others come first.
    fn rank(&self, index: usize, need: &ResourceSet) -> (bool, f64) {
        let node = self.nodes[index].node;
        let wasted = need.get("GPU").0 == 0 && node.total.get("GPU").0 > 0;
        (wasted, used_part(node))
    }

    fn count(&self, index: usize) -> usize {
        self.counts.get(&index).copied().unwrap_or(0)
    }

    fn first(&self, candidates: impl Iterator<Item = usize>, need: &ResourceSet) -> Option<usize> {
        candidates.min_by(|a, b| {
            let (a, b) = (self.rank(*a, need), self.rank(*b, need));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        })
    }
}

/// Tries the nodes of each value of the labels that the group is to share; without any, all nodes.
fn in_some_domain(
    nodes: &[Candidate<'_>],
    wanted: Wanted<'_>,
    room: Room,
) -> Result<Vec<(u32, NodeId)>, Stuck> {
    let mut stuck = None;
    for label in &wanted.spec.topology {
        let strategy = GroupStrategy::from_name(&label.value).unwrap_or_default();
        if !matches!(strategy, GroupStrategy::Pack | GroupStrategy::StrictPack) {
            continue;
        }
        for value in domains(nodes, wanted, label) {
            let inside = |one: &&Candidate<'_>| one.node.labels.get(&label.key) == Some(value);
            match assign(nodes.iter().filter(inside).copied(), wanted, room) {
                Ok(plan) => return Ok(plan),
                Err(error) => stuck = Some(error),
            }
        }
        if strategy == GroupStrategy::StrictPack {
            let first = wanted.missing.first().copied().unwrap_or(0);
            return Err(stuck.unwrap_or(Stuck { bundle: first, before: Vec::new() }));
        }
    }
    assign(nodes.iter().copied(), wanted, room)
}

/// The values of a label that nodes have; those of the nodes that hold bundles already, if any do.
fn domains<'a>(
    nodes: &[Candidate<'a>],
    wanted: Wanted<'_>,
    label: &Label,
) -> impl Iterator<Item = &'a String> + use<'a> {
    let holds = |node: &NodeView| wanted.held.contains(&node.address.node_id);
    let of = |node: &'a NodeView| node.labels.get(&label.key);
    let nodes = || nodes.iter().map(|one| one.node);
    let held: BTreeSet<&String> = nodes().filter(|node| holds(node)).filter_map(of).collect();
    let all = || nodes().filter(|node| node.is_open()).filter_map(of).collect();
    if held.is_empty() { all() } else { held }.into_iter()
}

fn assign<'a>(
    nodes: impl Iterator<Item = Candidate<'a>>,
    wanted: Wanted<'_>,
    room: Room,
) -> Result<Vec<(u32, NodeId)>, Stuck> {
    let nodes: Vec<Candidate<'_>> = nodes.filter(|one| one.node.is_open()).collect();
    let mut board =
        Board { nodes, room, taken: BTreeMap::new(), counts: BTreeMap::new(), placed: Vec::new() };
    // Bundles that are placed already count: the others go beside them, or away from them.
    for (index, one) in board.nodes.iter().enumerate() {
        let node_id = one.node.address.node_id;
        let held = wanted.held.iter().filter(|held| **held == node_id).count();
        if held > 0 {
            board.counts.insert(index, held);
        }
    }
    let outcome = match wanted.spec.strategy {
        GroupStrategy::StrictSpread if mutant!("strict-spread-packed") => {
            packed(&mut board, wanted)
        }
        GroupStrategy::StrictPack if mutant!("strict-pack-spread") => spread(&mut board, wanted),
        GroupStrategy::Spread if mutant!("spread-packed") => packed(&mut board, wanted),
        GroupStrategy::Pack if mutant!("pack-spread") => spread(&mut board, wanted),
        GroupStrategy::StrictPack => on_one(&mut board, wanted),
        GroupStrategy::Pack => packed(&mut board, wanted),
        GroupStrategy::Spread => spread(&mut board, wanted),
        GroupStrategy::StrictSpread => one_each(&mut board, wanted),
    };
    match outcome {
        Ok(()) => Ok(board.placed),
        Err(bundle) => Err(Stuck { bundle, before: board.placed }),
    }
}

fn bundle(wanted: Wanted<'_>, number: u32) -> &Bundle {
    &wanted.spec.bundles[number as usize]
}

fn sum<'a>(bundles: impl Iterator<Item = &'a Bundle>) -> ResourceSet {
    let mut sum = ResourceSet::default();
    for bundle in bundles {
        sum.add(&bundle.resources);
    }
    sum
}

fn on_one(board: &mut Board<'_>, wanted: Wanted<'_>) -> Result<(), u32> {
    let all = || wanted.missing.iter().map(|number| bundle(wanted, *number));
    let need = sum(all());
    let fits = |index: &usize| {
        // Where some bundles are placed, only their node will do for the rest.
        let is_open = wanted.held.is_empty() || board.count(*index) > 0;
        is_open
            && board.fits(*index, &need)
            && all().all(|bundle| {
                all_match(&parse_all(&bundle.labels), &board.nodes[*index].node.labels)
            })
    };
    let open: Vec<usize> = (0..board.nodes.len()).filter(fits).collect();
    let is_target =
        |index: &&usize| board.nodes[**index].node.address.node_id == wanted.spec.target;
    let target = open.iter().find(is_target).copied();
    let Some(index) = target.or_else(|| board.first(open.into_iter(), &need)) else {
        return Err(wanted.missing.first().copied().unwrap_or(0));
    };
    for number in wanted.missing {
        board.take(index, *number, &bundle(wanted, *number).resources);
    }
    Ok(())
}

/// The bundles in the order in which they look for nodes: the hard ones first.
fn ordered(board: &Board<'_>, wanted: Wanted<'_>) -> Vec<u32> {
    let size = |bundle: &Bundle| {
        let gpus = bundle.resources.get("GPU").0;
        let rest = bundle.resources.iter().map(|(_, quantity)| quantity.0).max().unwrap_or(0);
        (gpus, bundle.resources.get("CPU").0, rest)
    };
    let key = |number: &u32| {
        let bundle = bundle(wanted, *number);
        let open = (0..board.nodes.len()).filter(|index| board.may_hold(*index, bundle));
        let open: usize = open.map(|index| board.nodes[index].weight).sum();
        (open, std::cmp::Reverse(size(bundle)), *number)
    };
    let mut order = wanted.missing.to_vec();
    order.sort_by_cached_key(key);
    order
}

fn packed(board: &mut Board<'_>, wanted: Wanted<'_>) -> Result<(), u32> {
    let mut left = ordered(board, wanted);
    while let Some(hardest) = left.first().copied() {
        // The hardest must go somewhere: among the nodes that can hold it, the one that holds most.
        let holds = |index: usize| {
            // A copy: what one node could hold is tried, and only the best node's trial is carried out.
            let mut trial = Board {
                nodes: board.nodes.clone(),
                room: board.room,
                taken: board.taken.get(&index).map(|t| (index, t.clone())).into_iter().collect(),
                counts: BTreeMap::new(),
                placed: Vec::new(),
            };
            for number in &left {
                if trial.may_hold(index, bundle(wanted, *number)) {
                    trial.take(index, *number, &bundle(wanted, *number).resources);
                }
            }
            trial.placed.into_iter().map(|(number, _)| number).collect::<Vec<u32>>()
        };
        let need = &bundle(wanted, hardest).resources;
        let open =
            (0..board.nodes.len()).filter(|index| board.may_hold(*index, bundle(wanted, hardest)));
        let best = open.map(|index| (index, holds(index))).max_by(|(a, of_a), (b, of_b)| {
            let (rank_a, rank_b) = (board.rank(*a, need), board.rank(*b, need));
            rank_b
                .0
                .cmp(&rank_a.0)
                .then(of_a.len().cmp(&of_b.len()))
                .then((board.count(*a) > 0).cmp(&(board.count(*b) > 0)))
                .then(rank_b.1.total_cmp(&rank_a.1))
                .then(b.cmp(a))
        });
        let Some((index, numbers)) = best else { return Err(hardest) };
        for number in &numbers {
            board.take(index, *number, &bundle(wanted, *number).resources);
        }
        left.retain(|number| !numbers.contains(number));
    }
    Ok(())
}

fn spread(board: &mut Board<'_>, wanted: Wanted<'_>) -> Result<(), u32> {
    for number in ordered(board, wanted) {
        let bundle = bundle(wanted, number);
        let open: Vec<usize> =
            (0..board.nodes.len()).filter(|index| board.may_hold(*index, bundle)).collect();
        let fewest = open.iter().map(|index| board.count(*index)).min();
        let of_those = open.into_iter().filter(|index| Some(board.count(*index)) == fewest);
        let index = board.first(of_those, &bundle.resources).ok_or(number)?;
        board.take(index, number, &bundle.resources);
    }
    Ok(())
}

fn one_each(board: &mut Board<'_>, wanted: Wanted<'_>) -> Result<(), u32> {
    let order = ordered(board, wanted);
    let mut open: Vec<Vec<usize>> = Vec::with_capacity(order.len());
    for number in &order {
        let bundle = bundle(wanted, *number);
        let mut nodes: Vec<usize> = (0..board.nodes.len())
            .filter(|index| board.count(*index) == 0 && board.may_hold(*index, bundle))
            .collect();
        nodes.sort_by(|a, b| {
            let (a, b) = (board.rank(*a, &bundle.resources), board.rank(*b, &bundle.resources));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
        open.push(nodes);
    }
    let mut of_node: BTreeMap<usize, usize> = BTreeMap::new();
    for place in 0..order.len() {
        // The others keep their places in the explanation of what is missing.
        if !matched(place, &open, &mut of_node, &mut BTreeSet::new()) {
            let others = of_node.iter().map(|(index, other)| (*index, order[*other]));
            for (index, number) in others.collect::<Vec<_>>() {
                board.take(index, number, &bundle(wanted, number).resources);
            }
            return Err(order[place]);
        }
    }
    for (index, place) in of_node {
        board.take(index, order[place], &bundle(wanted, order[place]).resources);
    }
    Ok(())
}

/// Finds a node for a bundle, moving others where they have a choice.
fn matched(
    place: usize,
    open: &[Vec<usize>],
    of_node: &mut BTreeMap<usize, usize>,
    seen: &mut BTreeSet<usize>,
) -> bool {
    for index in &open[place] {
        // A node is tried once a round: that it cannot be freed does not change within one.
        if !seen.insert(*index) {
            continue;
        }
        let free = match of_node.get(index).copied() {
            None => true,
            Some(other) => matched(other, open, of_node, seen),
        };
        if free {
            of_node.insert(*index, place);
            return true;
        }
    }
    false
}

fn sentence(nodes: &[NodeView], wanted: Wanted<'_>, stuck: &Stuck, hopeless: bool) -> String {
    let strategy = wanted.spec.strategy;
    let n = wanted.spec.bundles.len();
    let labels = |labels: &[Label]| Strategy { labels: labels.to_vec(), ..Strategy::default() };
    if strategy == GroupStrategy::StrictPack && n > 1 {
        let need = sum(wanted.missing.iter().map(|number| bundle(wanted, *number)));
        let all: Vec<Label> = wanted
            .missing
            .iter()
            .flat_map(|number| bundle(wanted, *number).labels.clone())
            .collect();
        let here: Vec<NodeView> = nodes
            .iter()
            .filter(|n| wanted.held.is_empty() || wanted.held.contains(&n.address.node_id))
            .cloned()
            .collect();
        return format!("its {n} bundles need one node: {}", why(&here, &need, &labels(&all)));
    }
    let bundle = bundle(wanted, stuck.bundle);
    // The others of the group come first, or each takes a node for itself.
    let mut rest: Vec<NodeView> = nodes.to_vec();
    let alone = strategy == GroupStrategy::StrictSpread;
    for (number, node_id) in &stuck.before {
        let taken = &wanted.spec.bundles[*number as usize].resources;
        for node in rest.iter_mut().filter(|node| node.address.node_id == *node_id) {
            node.available.subtract(taken);
            if hopeless {
                node.total.subtract(taken);
            }
        }
    }
    let used = |id: NodeId| {
        wanted.held.contains(&id) || stuck.before.iter().any(|(_, node_id)| *node_id == id)
    };
    if alone {
        rest.retain(|node| !used(node.address.node_id));
    }
    let alone_it_fits = |node: &NodeView| node.is_open() && node.total.covers(&bundle.resources);
    if hopeless && !alone && nodes.iter().any(alone_it_fits) {
        let need = sum(wanted.missing.iter().map(|number| &wanted.spec.bundles[*number as usize]));
        let mut all = ResourceSet::default();
        for node in nodes.iter().filter(|node| node.is_open()) {
            all.add(&node.total);
        }
        if let Some((name, quantity)) =
            need.iter().find(|(name, quantity)| all.get(name) < *quantity)
        {
            return format!(
                "its {n} bundles need {quantity} {name} together, and all nodes together have {}: ask for less, or \
                 add nodes",
                all.get(name)
            );
        }
    }
    let which = format!("bundle {} of {n}", stuck.bundle);
    if alone && rest.iter().all(|node| !node.is_open()) {
        let nodes = nodes.iter().filter(|node| node.is_open()).count();
        return format!("{which} needs a node of its own, and all {nodes} nodes have one already");
    }
    let text = why(&rest, &bundle.resources, &labels(&bundle.labels));
    let others = match stuck.before.len() + wanted.held.len() {
        0 => String::new(),
        1 => " beside the other bundle".to_owned(),
        more => format!(" beside the {more} other bundles"),
    };
    format!("{which}{others}: {text}{}", free(&rest, bundle))
}

/// Returns a list of the nodes with their free quantity of the resource that the bundle lacks most.
fn free(nodes: &[NodeView], bundle: &Bundle) -> String {
    const SHOWN: usize = 5;
    let selectors: Vec<(&str, Selector)> = parse_all(&bundle.labels);
    let fit: Vec<&NodeView> =
        nodes.iter().filter(|node| node.is_open() && all_match(&selectors, &node.labels)).collect();
    let Some(short) = scarcity(&fit, &bundle.resources).filter(|_| fit.len() > 1) else {
        return String::new();
    };
    let of = |node: &&NodeView| {
        let free = Quantity(node.available.get(short).0.max(0));
        format!("{} {} of {}", node.address.host, free, Quantity(node.total.get(short).0.max(0)))
    };
    let mut shown: Vec<String> = fit.iter().take(SHOWN).map(of).collect();
    if fit.len() > SHOWN {
        shown.push(format!("{} more nodes", fit.len() - SHOWN));
    }
    debug_assert!(!is_of_bundle(short), "bundles are made of a node's own resources");
    format!(" (free {short}: {})", shown.join(", "))
}
