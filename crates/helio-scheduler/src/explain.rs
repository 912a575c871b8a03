//! **WHY-1** Sentences about what a request waits for.

use helio_proto::control::{Strategy, StrategyKind, WAITS_FOR_OTHER_WORK};
use helio_types::{Quantity, ResourceSet};

use crate::NodeView;
use crate::bundle::{GroupBundle, is_of_bundle};
use crate::labels::{all_match, parse_all};

/// Returns the reason why a request of `need` ([`taken`](crate::taken)) waits, as a sentence without a final dot.
#[must_use]
pub fn why(nodes: &[NodeView], need: &ResourceSet, strategy: &Strategy) -> String {
    in_its_place(why_not(nodes, need, strategy), strategy)
}

/// Explains why no node could ever hold the request.
#[must_use]
pub fn why_infeasible(nodes: &[NodeView], need: &ResourceSet, strategy: &Strategy) -> String {
    in_its_place(infeasible(nodes, need, strategy), strategy)
}

fn in_its_place(text: String, strategy: &Strategy) -> String {
    match GroupBundle::of(strategy) {
        Some(place) => format!("{place}: {text}"),
        None => text,
    }
}

fn why_not(nodes: &[NodeView], need: &ResourceSet, strategy: &Strategy) -> String {
    let selectors = parse_all(&strategy.labels);
    let bound = strategy.kind == StrategyKind::NodeAffinity;
    let fits = |node: &&NodeView| {
        node.is_open() && node.total.covers(need) && all_match(&selectors, &node.labels)
    };
    let mut feasible: Vec<&NodeView> = nodes.iter().filter(fits).collect();
    if bound {
        let target: Vec<&NodeView> = feasible
            .iter()
            .filter(|node| node.address.node_id == strategy.node_id)
            .copied()
            .collect();
        if !target.is_empty() || !strategy.soft {
            feasible = target;
        }
    }
    if feasible.is_empty() {
        return infeasible(nodes, need, strategy);
    }
    // With room somewhere the request was granted: what it waits for is a process.
    if feasible.iter().any(|node| node.available.covers(need)) {
        return format!("a worker with {} is being prepared", list(need));
    }
    let short = scarcest(&feasible, need);
    let free = feasible.iter().map(|node| node.available.get(short)).max().unwrap_or_default();
    let free = amount(short, Quantity(free.0.max(0)));
    let wanted = list(need);
    match feasible.as_slice() {
        [node] => format!(
            "node {} has {free} of {} {} free and {wanted} is needed: {WAITS_FOR_OTHER_WORK}",
            node.address.host,
            amount(short, node.total.get(short)),
            plain_name(short),
        ),
        _ => format!(
            "{} nodes could hold {wanted} but are in use (the freest has {free} {} free): \
             {WAITS_FOR_OTHER_WORK}",
            feasible.len(),
            plain_name(short),
        ),
    }
}

/// The first of the filters that leaves no node.
fn infeasible(nodes: &[NodeView], need: &ResourceSet, strategy: &Strategy) -> String {
    let mut left: Vec<&NodeView> = nodes.iter().filter(|node| node.is_open()).collect();
    let is_chosen = strategy.kind == StrategyKind::NodeAffinity && !strategy.soft;
    if is_chosen {
        left.retain(|node| node.address.node_id == strategy.node_id);
        if left.is_empty() {
            return format!(
                "node {} is not in the cluster any more, or never was: name another node, or use soft=True",
                strategy.node_id
            );
        }
    }
    if left.is_empty() {
        return "the cluster has no node".to_owned();
    }
    let selectors = parse_all(&strategy.labels);
    left.retain(|node| all_match(&selectors, &node.labels));
    if left.is_empty() {
        let wanted: Vec<String> =
            strategy.labels.iter().map(|label| format!("{}={}", label.key, label.value)).collect();
        let wanted = wanted.join(", ");
        return format!(
            "no node has the labels {wanted}: ask for others, or start a node with them"
        );
    }
    // One resource that no node has enough of explains more than the sum of all.
    for (name, quantity) in need.iter() {
        let largest = left.iter().map(|node| node.total.get(name)).max().unwrap_or_default();
        if largest < quantity {
            let hint = meant(nodes, name).map(|meant| format!("; did you mean {meant}?"));
            let hint = hint.unwrap_or_default();
            let largest = match largest.0 {
                ..=0 if is_chosen => format!("it has none{hint}"),
                _ if is_chosen => format!("it has {}", amount(name, largest)),
                ..=0 => format!("none has any{hint}"),
                _ => format!("the largest has {}", amount(name, largest)),
            };
            let (quantity, name) = (amount(name, quantity), plain_name(name));
            if is_chosen {
                let node = strategy.node_id;
                return format!(
                    "node {node}, the one it is to run on, has no {quantity} {name} ({largest}): \
                     ask for less, or name another node"
                );
            }
            return format!(
                "no node has {quantity} {name} ({largest}): ask for less, or start a node with that much"
            );
        }
    }
    format!("no single node has {} together: ask for less, or start a larger node", list(need))
}

/// The resources that every node may have.
const COMMON: [&str; 4] = ["CPU", "GPU", "memory", "object_store_memory"];

/// The resource whose name differs from this one only in capitals, a plural or the prefix of an option (`num_cpus`).
/// Any name may be a resource that a node brings later, so the request waits all the same.
fn meant<'a>(nodes: &'a [NodeView], name: &str) -> Option<&'a str> {
    let name = plain_name(name);
    let spelt = bare(name);
    let offered = nodes.iter().flat_map(|node| node.total.iter().map(|(name, _)| plain_name(name)));
    let mut known = COMMON.into_iter().chain(offered);
    known.find(|known| *known != name && bare(known) == spelt)
}

/// A name without what people spell in different ways.
fn bare(name: &str) -> String {
    let name = name.to_lowercase();
    let name = name.strip_prefix("num_").unwrap_or(&name);
    name.strip_suffix('s').unwrap_or(name).to_owned()
}

/// [`scarcest`], when anything is needed.
pub(crate) fn scarcity<'a>(nodes: &[&NodeView], need: &'a ResourceSet) -> Option<&'a str> {
    (!need.is_empty()).then(|| scarcest(nodes, need))
}

/// The resource of which the nodes have the least free, measured by what is needed of it.
fn scarcest<'a>(nodes: &[&NodeView], need: &'a ResourceSet) -> &'a str {
    let covered = |name: &str, quantity: Quantity| {
        let free = nodes.iter().map(|node| node.available.get(name)).max().unwrap_or_default();
        free.to_f64() / quantity.to_f64()
    };
    need.iter()
        .min_by(|a, b| covered(a.0, a.1).total_cmp(&covered(b.0, b.1)))
        .map_or("CPU", |(name, _)| name)
}

fn list(need: &ResourceSet) -> String {
    if need.is_empty() {
        return "no resources".to_owned();
    }
    // In a group everything is asked for under two names, and the bundle itself too.
    let mut parts: Vec<String> = Vec::new();
    for (name, quantity) in need.iter() {
        let plain = plain_name(name);
        let part = format!("{} {plain}", amount(plain, quantity));
        if !(is_of_bundle(name) && (plain == "bundle" || parts.contains(&part))) {
            parts.push(part);
        }
    }
    if parts.is_empty() { "no resources".to_owned() } else { parts.join(", ") }
}

/// The name that the user gave a resource.
#[must_use]
pub fn plain_name(name: &str) -> &str {
    if is_of_bundle(name) {
        name.rsplit_once("_group_").map_or(name, |(plain, _)| plain)
    } else {
        name
    }
}

/// A quantity for people: bytes as GiB.
fn amount(name: &str, quantity: Quantity) -> String {
    match name {
        "memory" | "object_store_memory" => {
            format!("{:.2}GiB", quantity.to_f64() / f64::from(1 << 30))
        }
        _ => quantity.to_string(),
    }
}
