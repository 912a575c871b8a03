//! The policies.

use std::cmp::Ordering;

use helio_proto::control::{Label, Strategy, StrategyKind};
use helio_types::{NodeId, Quantity, ResourceSet, mutant};

use crate::explain::why_infeasible;
use crate::labels::{all_match, parse_all};
use crate::{NodeView, Placement};

/// Below this use a node counts as idle: work is packed onto the preferred nodes until there.
const PACK_UNTIL: f64 = 0.5;

/// Picks a node for a request of `need`: one that fits the strategy's labels, or else the first of its
/// fallbacks for which there is one.
///
/// `local` is the node where the request arose, and `cursor` a number that the caller raises from call to
/// call. `touched` are nodes with which it has to do already: by the policy "spread" those where its sender
/// keeps workers, and another is wanted; else those that hold most of its arguments, the best first. The
/// order of `nodes` should stay the same between calls, or "the next in turn" means nothing.
#[must_use]
pub fn place(
    nodes: &[NodeView],
    local: Option<NodeId>,
    need: &ResourceSet,
    strategy: &Strategy,
    cursor: u64,
    touched: &[NodeId],
) -> Placement {
    let by = |labels: &[Label]| by_labels(nodes, local, need, strategy, labels, cursor, touched);
    let mut answer = by(&strategy.labels);
    for fallback in &strategy.fallbacks {
        // A later fallback is worse than an earlier one: the first with room ends the search.
        let is_settled = matches!(answer, Choice::On(_)) && !mutant!("fallback-first");
        if is_settled || mutant!("fallback-ignored") {
            break;
        }
        match by(&fallback.labels) {
            Choice::Infeasible => {}
            better => answer = better,
        }
    }
    match answer {
        Choice::On(node_id) => Placement::On(node_id),
        Choice::Busy => Placement::Busy,
        Choice::Infeasible => Placement::Infeasible(why_infeasible(nodes, need, strategy)),
    }
}

/// The place of a request, without an explanation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// The node has room for the request now.
    On(NodeId),
    /// Nowhere now; a node that could hold it is full.
    Busy,
    /// Nowhere, however long it waits, unless a node joins.
    Infeasible,
}

/// Whether the node could hold a request of `need` that asks for these labels.
pub(crate) fn feasible_target(node: &NodeView, need: &ResourceSet, labels: &[Label]) -> bool {
    node.is_open() && node.total.covers(need) && all_match(&parse_all(labels), &node.labels)
}

fn by_labels(
    nodes: &[NodeView],
    local: Option<NodeId>,
    need: &ResourceSet,
    strategy: &Strategy,
    labels: &[Label],
    cursor: u64,
    touched: &[NodeId],
) -> Choice {
    let kind = strategy.kind;
    if kind == StrategyKind::NodeAffinity && !mutant!("affinity-ignored") {
        let is_target = |node: &&NodeView| {
            node.address.node_id == strategy.node_id && feasible_target(node, need, labels)
        };
        match nodes.iter().find(is_target) {
            Some(node) if node.available.covers(need) => {
                return Choice::On(node.address.node_id);
            }
            Some(_) => return Choice::Busy,
            None if strategy.soft => {}
            None => return Choice::Infeasible,
        }
    }
    let nodes: Vec<&NodeView> = nodes.iter().collect();
    choose_among(&nodes, local, need, kind, labels, cursor, touched)
}

/// Chooses among nodes by looking at each of them.
pub(crate) fn choose_among(
    nodes: &[&NodeView],
    local: Option<NodeId>,
    need: &ResourceSet,
    kind: StrategyKind,
    labels: &[Label],
    cursor: u64,
    touched: &[NodeId],
) -> Choice {
    let selectors = parse_all(labels);
    let fits = |node: &&&NodeView| {
        node.is_open() && node.total.covers(need) && all_match(&selectors, &node.labels)
    };
    let feasible: Vec<&NodeView> = nodes.iter().filter(fits).copied().collect();
    if feasible.is_empty() {
        return Choice::Infeasible;
    }
    let picked = match kind {
        StrategyKind::Spread if !mutant!("spread-tasks-packed") => {
            next_in_turn(&feasible, need, cursor, touched)
        }
        StrategyKind::Spread
        | StrategyKind::Default
        | StrategyKind::NodeAffinity
        | StrategyKind::PlacementGroup => best(&feasible, local, need, cursor, touched),
    };
    picked.map_or(Choice::Busy, |node| Choice::On(node.address.node_id))
}

fn next_in_turn<'a>(
    feasible: &[&'a NodeView],
    need: &ResourceSet,
    cursor: u64,
    touched: &[NodeId],
) -> Option<&'a NodeView> {
    let start = turn(cursor, feasible.len());
    let (before, from) = feasible.split_at(start);
    let is_new = |node: &&&NodeView| !touched.contains(&node.address.node_id);
    from.iter().chain(before).filter(is_new).find(|node| node.available.covers(need)).copied()
}

fn best<'a>(
    feasible: &[&'a NodeView],
    local: Option<NodeId>,
    need: &ResourceSet,
    cursor: u64,
    touched: &[NodeId],
) -> Option<&'a NodeView> {
    let mut free: Vec<&NodeView> =
        feasible.iter().filter(|node| node.available.covers(need)).copied().collect();
    let has_gpu = |node: &&NodeView| node.total.get("GPU") > Quantity(0);
    // Nodes with GPUs are left to requests for them, as long as others have room.
    if need.get("GPU") == Quantity(0) && !free.iter().all(has_gpu) {
        free.retain(|node| !has_gpu(node));
    }
    let start = turn(cursor, free.len());
    let n_free = free.len();
    let rank = |index: usize, node: &NodeView| {
        let used = packed_use(node);
        let id = node.address.node_id;
        let held = touched.iter().position(|holder| *holder == id).unwrap_or(touched.len());
        // Equal nodes are taken in turn, so that requests of several origins do not all meet on one.
        let in_turn = (index + n_free - start) % n_free;
        (held, used, local != Some(id), in_turn)
    };
    let ranked = free.iter().enumerate().map(|(index, node)| (rank(index, node), *node));
    ranked
        .min_by(|(a, _), (b, _)| a.partial_cmp(b).unwrap_or(Ordering::Equal))
        .map(|(_, node)| node)
}

/// Returns the use that packing counts for a node: idle until it is half used.
pub(crate) fn packed_use(node: &NodeView) -> f64 {
    let used = used_part(node);
    if used < PACK_UNTIL { 0.0 } else { used }
}

/// The resources by which a node counts as used.
pub(crate) const USED_BY: [&str; 3] = ["CPU", "GPU", "memory"];

/// Returns the lent part of a node's scarcest predefined resource, from 0 to 1 (more when lent
/// twice).
pub(crate) fn used_part(node: &NodeView) -> f64 {
    let part = |name: &str| {
        let total = node.total.get(name).to_f64();
        if total <= 0.0 { 0.0 } else { (total - node.available.get(name).to_f64()) / total }
    };
    USED_BY.into_iter().map(part).fold(0.0, f64::max)
}

fn turn(cursor: u64, n: usize) -> usize {
    if n == 0 { 0 } else { (cursor % n as u64) as usize }
}
