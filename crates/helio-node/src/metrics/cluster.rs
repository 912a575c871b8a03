//! Measurements that only the head can make: actors, placement groups and nodes of the whole cluster.

use std::collections::BTreeMap;

use helio_observer::Asker;
use helio_proto::control::{ControlResponse, KvGet, ListActors, NodeInfo};
use helio_proto::group::ListGroups;
use helio_proto::inspect::{ACTORS, Metric, Series};
use helio_scheduler::is_of_bundle;
use serde_json::Value;

/// The label by which whoever starts machines tells their kinds apart.
const GROUP_LABEL: &str = "ray.io/node-group";

/// For so long a node that was lost, or could not be had, counts.
const FAILED_MS: u64 = 3_600_000;

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
    // The autoscaler writes its plans into the table itself, as JSON; without an autoscaler there is no entry.
    let get = KvGet { namespace: "autoscaler".to_owned(), key: b"report".to_vec() };
    let report: Value = match asker.ask(get).await {
        Ok(ControlResponse::KvValue(found)) => {
            serde_json::from_slice(&found.value).unwrap_or_default()
        }
        _ => Value::Null,
    };
    found.extend(planned(&report));
    if let Ok(nodes) = asker.nodes().await {
        let now_ms = helio_env::clock::unix_ms();
        found.extend(of_nodes(&nodes.nodes));
        found.push(failed(&nodes.nodes, &report, now_ms));
    }
    found
}

/// Returns the nodes and resources that the autoscaler has asked for and has not got yet.
fn planned(report: &Value) -> Vec<Metric> {
    let mut nodes: BTreeMap<&str, f64> = BTreeMap::new();
    let mut resources: BTreeMap<&str, f64> = BTreeMap::new();
    for row in report["pending"].as_array().into_iter().flatten() {
        let (Some(kind), Some(count)) = (row["type"].as_str(), row["count"].as_f64()) else {
            continue;
        };
        *nodes.entry(kind).or_default() += count;
        for (name, quantity) in row["resources"].as_object().into_iter().flatten() {
            *resources.entry(name).or_default() += count * quantity.as_f64().unwrap_or_default();
        }
    }
    if report.is_null() {
        return Vec::new();
    }
    vec![
        Metric::gauge(
            "autoscaler_pending_nodes",
            "Nodes that were asked for and have not come, by kind",
            nodes.iter().map(|(kind, n)| Series::of(*n, [("NodeType", kind)])).collect(),
        ),
        Metric::gauge(
            "autoscaler_pending_resources",
            "Resources of nodes that were asked for and have not come",
            resources.iter().map(|(name, n)| Series::of(*n, [("resource", name)])).collect(),
        ),
    ]
}

/// Nodes that were lost, and those that could not be had.
fn failed(nodes: &[NodeInfo], report: &Value, now_ms: u64) -> Metric {
    let mut counts: BTreeMap<String, f64> = BTreeMap::new();
    let is_late = |ms: u64| now_ms.saturating_sub(ms) < FAILED_MS;
    // One that was drained has left as it should.
    let lost = nodes.iter().filter(|node| !node.alive && !node.is_draining && !node.is_guest);
    for node in lost.filter(|node| is_late(node.ended_ms)) {
        *counts.entry(kind(node)).or_default() += 1.0;
    }
    for row in report["failures"].as_array().into_iter().flatten() {
        if let (Some(kind), Some(at)) = (row["type"].as_str(), row["at_ms"].as_u64())
            && is_late(at)
        {
            *counts.entry(kind.to_owned()).or_default() += 1.0;
        }
    }
    let series = counts.iter().map(|(kind, n)| Series::of(*n, [("NodeType", kind)])).collect();
    let about = "Nodes that were lost or could not be had within an hour, by kind";
    Metric::gauge("autoscaler_recently_failed_nodes", about, series)
}

fn kind(node: &NodeInfo) -> String {
    let label = node.labels.iter().find(|label| label.key == GROUP_LABEL);
    let unnamed = if node.is_head { "head" } else { "worker" };
    label.map_or(unnamed, |label| &label.value).to_owned()
}

fn counted<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, f64> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1.0;
    }
    counts
}

fn of_nodes(nodes: &[NodeInfo]) -> Vec<Metric> {
    let mut active: BTreeMap<String, f64> = BTreeMap::new();
    let mut resources: BTreeMap<&str, f64> = BTreeMap::new();
    for node in nodes.iter().filter(|node| node.alive && !node.is_guest) {
        *active.entry(kind(node)).or_default() += 1.0;
        // Bundles and names of nodes are made of resources that are counted already.
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
    use serde_json::json;

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

    #[test]
    fn what_is_coming_and_what_was_lost_count_by_kind() {
        let report = json!({
            "pending": [
                { "type": "small", "count": 2, "resources": { "CPU": 4.0 } },
                { "type": "large", "count": 1, "resources": { "CPU": 16.0, "GPU": 1.0 } },
            ],
            "failures": [
                { "type": "large", "why": "no room", "at_ms": 9_000_000 },
                { "type": "large", "why": "no room", "at_ms": 1_000 },
            ],
        });
        let found = planned(&report);
        let kinds =
            [Series::of(1.0, [("NodeType", "large")]), Series::of(2.0, [("NodeType", "small")])];
        assert_eq!(found[0].series, kinds);
        let resources =
            [Series::of(24.0, [("resource", "CPU")]), Series::of(1.0, [("resource", "GPU")])];
        assert_eq!(found[1].series, resources);
        assert!(planned(&Value::Null).is_empty(), "no autoscaler, no plans");

        let dead =
            |ended_ms, is_draining| NodeInfo { ended_ms, is_draining, ..NodeInfo::default() };
        let nodes = [dead(9_000_000, false), dead(1_000, false), dead(9_000_000, true)];
        assert_eq!(
            failed(&nodes, &report, 9_500_000).series,
            [Series::of(1.0, [("NodeType", "large")]), Series::of(1.0, [("NodeType", "worker")])]
        );
    }
}
