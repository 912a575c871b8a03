//! What only the head knows: actors, placement groups and nodes of the whole cluster.

use std::collections::BTreeMap;

use helio_observer::Asker;
use helio_proto::control::{ControlResponse, ListActors, NodeInfo};
use helio_proto::group::ListGroups;
use helio_proto::inspect::{ACTORS, Metric, Series};
use helio_scheduler::is_of_bundle;

/// The label by which whoever starts machines tells their kinds apart.
const GROUP_LABEL: &str = "ray.io/node-group";

/// Asks the control service; what it does not answer is left out.
pub(super) async fn measure(asker: &Asker) -> Vec<Metric> {
    let mut found = Vec::new();
    if let Ok(ControlResponse::Actors(list)) = asker.ask(ListActors {}).await {
        let listed = list.actors.iter().filter(|actor| !actor.is_unlisted);
        let states = counted(listed.map(|actor| actor.phase.name()));
        let each = |(state, n): (&str, f64)| {
            Series::of(n, [("Name", ""), ("State", state), ("Source", "gcs")])
        };
        found.push(Metric::gauge("actors", ACTORS, states.into_iter().map(each).collect()));
    }
    if let Ok(ControlResponse::Groups(list)) = asker.ask(ListGroups {}).await {
        let states = counted(list.groups.iter().map(|group| group.phase.name()));
        let each = |(state, n): (&str, f64)| Series::of(n, [("State", state)]);
        let series = states.into_iter().map(each).collect();
        found.push(Metric::gauge("placement_groups", "Placement groups by state", series));
    }
    if let Ok(nodes) = asker.nodes().await {
        found.extend(of_nodes(&nodes.nodes));
    }
    found
}

fn counted<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, f64> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1.0;
    }
    counts
}

fn of_nodes(nodes: &[NodeInfo]) -> Vec<Metric> {
    let kind = |node: &NodeInfo| {
        let label = node.labels.iter().find(|label| label.key == GROUP_LABEL);
        let unnamed = if node.is_head { "head" } else { "worker" };
        label.map_or(unnamed, |label| &label.value).to_owned()
    };
    let mut active: BTreeMap<String, f64> = BTreeMap::new();
    let mut resources: BTreeMap<&str, f64> = BTreeMap::new();
    for node in nodes.iter().filter(|node| node.alive) {
        *active.entry(kind(node)).or_default() += 1.0;
        for (name, quantity) in node.total.iter().filter(|(name, _)| !is_of_bundle(name)) {
            if !name.starts_with("node:") {
                *resources.entry(name).or_default() += quantity.to_f64();
            }
        }
    }
    vec![
        Metric::gauge(
            "autoscaler_active_nodes",
            "Nodes that are alive, by kind",
            active.iter().map(|(kind, n)| Series::of(*n, [("NodeType", kind)])).collect(),
        ),
        Metric::gauge(
            "autoscaler_cluster_resources",
            "Resources of all living nodes",
            resources.iter().map(|(name, n)| Series::of(*n, [("resource", name)])).collect(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use helio_proto::control::Label;
    use helio_types::ResourceSet;

    use super::*;

    #[test]
    fn living_nodes_count_by_their_kind() {
        let node = |alive: bool, labels: Vec<Label>| NodeInfo {
            alive,
            labels,
            total: ResourceSet::from_units([("CPU", 4.0), ("node:10.0.0.1", 1.0)]),
            ..NodeInfo::default()
        };
        let label = Label { key: GROUP_LABEL.to_owned(), value: "gpus".to_owned() };
        let nodes = [node(true, vec![label]), node(true, vec![]), node(false, vec![])];
        let found = of_nodes(&nodes);
        assert_eq!(
            found[0].series,
            [Series::of(1.0, [("NodeType", "gpus")]), Series::of(1.0, [("NodeType", "worker")]),]
        );
        assert_eq!(found[1].series, [Series::of(8.0, [("resource", "CPU")])]);
    }
}
