//! The text of `status`: a pure function of the nodes, in Ray's layout.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use helio_proto::control::{GpuUse, NodeInfo, Nodes, PendingDemand};
use helio_report::{as_asked, in_bundles, without_bundles};
use helio_types::ResourceSet;

use crate::kubernetes::NODE_GROUP;
use crate::plans::Plans;

const RULE: &str = "---------------------------------------------------------------";

/// Maximum number of dead nodes that are shown.
const FAILURES_MAX: usize = 20;

/// The report on a cluster; `verbose` adds each node's resources. **WHY-1** What a demand waits
/// for stands under it.
pub(crate) fn report(when: &str, nodes: &Nodes, plans: &Plans, verbose: bool) -> String {
    let heading = format!("======== Autoscaler status: {when} ========");
    let mut text = format!("{heading}\nNode status\n{RULE}\n");
    members(&mut text, &nodes.nodes, plans);
    let alive: Vec<&NodeInfo> = nodes.nodes.iter().filter(|node| node.alive).collect();
    let _ = write!(text, "\nResources\n{RULE}\nTotal Usage:\n");
    let mut total = ResourceSet::default();
    let mut available = ResourceSet::default();
    for node in &alive {
        total.add(&node.total);
        available.add(&node.available);
    }
    let stored = alive.iter().map(|node| node.object_store_used).sum();
    usage(&mut text, " ", &total, &available, stored);
    text.push_str("\nFrom request_resources:\n");
    lines(&mut text, &plans.requested(), "(none)");
    text.push_str("Pending Demands:\n");
    demands(&mut text, nodes, plans);
    if verbose {
        for node in alive {
            let id = node.address.node_id;
            let name = if node.name.is_empty() { &node.address.host } else { &node.name };
            let _ = write!(text, "\nNode: {id} ({name})\n Usage:\n");
            usage(&mut text, "  ", &node.total, &node.available, node.object_store_used);
            gpus(&mut text, &node.gpus);
        }
    }
    text
}

/// A line each, or what is said where there is none.
fn lines(text: &mut String, lines: &[String], none: &str) {
    for line in lines {
        let _ = writeln!(text, " {line}");
    }
    if lines.is_empty() {
        let _ = writeln!(text, " {none}");
    }
}

fn members(text: &mut String, nodes: &[NodeInfo], plans: &Plans) {
    text.push_str("Active:\n");
    let mut types: BTreeMap<&str, usize> = BTreeMap::new();
    let mut others = Vec::new();
    for node in nodes.iter().filter(|node| node.alive) {
        match node.labels.iter().find(|label| label.key == NODE_GROUP) {
            Some(group) => *types.entry(&group.value).or_default() += 1,
            None => others.push(format!("1 node_{}", node.address.node_id)),
        }
    }
    let active: Vec<String> =
        types.iter().map(|(group, count)| format!("{count} {group}")).chain(others).collect();
    lines(text, &active, "(no active nodes)");
    text.push_str("Pending:\n");
    lines(text, &plans.pending(), "(no pending nodes)");
    text.push_str("Recent failures:\n");
    let mut dead: Vec<&NodeInfo> = nodes.iter().filter(|node| !node.alive).collect();
    let missing = plans.failures();
    if dead.is_empty() || !missing.is_empty() {
        lines(text, &missing, "(no failures)");
    }
    // Versions rise with time, so the last to die come first.
    dead.sort_by_key(|node| std::cmp::Reverse(node.version));
    for node in dead.into_iter().take(FAILURES_MAX) {
        let _ = writeln!(
            text,
            " node_{} (ip: {}): {}",
            node.address.node_id, node.address.host, node.cause
        );
    }
}

/// The used part of a quantity. Quantities have four places: 1.3 less 0.7 is 0.6, without the rest that binary fractions
/// leave.
fn less(all: f64, free: f64) -> f64 {
    ((all - free).max(0.0) * 10_000.0).round() / 10_000.0
}

fn usage(
    text: &mut String,
    indent: &str,
    total: &ResourceSet,
    available: &ResourceSet,
    stored: u64,
) {
    // Bundles of placement groups put parts of these under names of their own.
    let own = without_bundles(total);
    let (reserved, unused) = (in_bundles(total), in_bundles(available));
    let all: BTreeMap<&str, f64> =
        own.iter().map(|(name, quantity)| (name, quantity.to_f64())).collect();
    // Every machine has these for itself; they are no resources to plan with.
    for (name, has) in all.into_iter().filter(|(name, _)| !name.starts_with("node:")) {
        let used = less(has, available.get(name).to_f64());
        let _ = match name {
            "memory" => writeln!(text, "{indent}{}/{} {name}", bytes(used), bytes(has)),
            "object_store_memory" => {
                writeln!(text, "{indent}{}/{} {name}", bytes(stored as f64), bytes(has))
            }
            _ => {
                let held = reserved.get(name).to_f64();
                let in_use = less(held, unused.get(name).to_f64());
                let of_groups = match held {
                    0.0 => String::new(),
                    held => format!(" ({in_use:?} used of {held:?} reserved in placement groups)"),
                };
                writeln!(text, "{indent}{used:?}/{has:?} {name}{of_groups}")
            }
        };
    }
}

/// Writes the usage of a node's GPUs as their driver reports it, whoever uses them.
fn gpus(text: &mut String, gpus: &[GpuUse]) {
    if !gpus.is_empty() {
        text.push_str(" GPUs:\n");
    }
    for gpu in gpus {
        let busy = if gpu.has_utilization {
            format!("{}% busy, ", gpu.utilization)
        } else {
            String::new()
        };
        let (used, has) = (bytes(gpu.memory_used as f64), bytes(gpu.memory_total as f64));
        let _ = writeln!(text, "  {} {}: {busy}{used}/{has} memory", gpu.index, gpu.name);
    }
}

fn demands(text: &mut String, nodes: &Nodes, plans: &Plans) {
    let of_nodes = nodes.nodes.iter().filter(|node| node.alive).flat_map(|node| &node.pending);
    let mut shapes: BTreeMap<String, (u64, &PendingDemand)> = BTreeMap::new();
    for demand in of_nodes.chain(&nodes.pending) {
        let parts: Vec<String> = as_asked(&demand.resources)
            .iter()
            .map(|(name, quantity)| format!("'{name}': {:?}", quantity.to_f64()))
            .collect();
        shapes.entry(format!("{{{}}}", parts.join(", "))).or_insert((0, demand)).0 += demand.count;
    }
    if shapes.is_empty() {
        text.push_str(" (no resource demands)\n");
    }
    for (shape, (count, demand)) in shapes {
        let _ = writeln!(text, " {shape}: {count}+ pending tasks/actors");
        if !demand.why.is_empty() {
            let _ = writeln!(text, "  {}", demand.why);
        }
        let as_asked = as_asked(&demand.resources);
        let quantities = as_asked.iter().map(|(name, all)| (name.to_owned(), all.to_f64().into()));
        if let Some(plan) = plans.of_shape(&quantities.collect()) {
            let _ = writeln!(text, "  {plan}");
        }
    }
}

/// `0B`, `16.17GiB`.
fn bytes(quantity: f64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.into_iter().find(|(_, bits)| quantity >= f64::from(1 << bits)) {
        Some((unit, bits)) => format!("{:.2}{unit}", quantity / f64::from(1 << bits)),
        None => format!("{quantity}B"),
    }
}

#[cfg(test)]
mod tests {
    use helio_proto::control::Label;
    use helio_types::{NodeAddress, NodeId};

    use super::*;

    fn node(number: u8, total: &[(&str, f64)], available: &[(&str, f64)]) -> NodeInfo {
        NodeInfo {
            address: NodeAddress {
                node_id: NodeId([number; 28]),
                host: format!("10.0.0.{number}"),
                port: 1,
            },
            alive: true,
            total: ResourceSet::from_units(total.iter().copied()),
            available: ResourceSet::from_units(available.iter().copied()),
            object_store_used: 3 << 20,
            ..NodeInfo::default()
        }
    }

    #[test]
    fn nodes_of_a_kind_are_counted() {
        let mut nodes = [node(1, &[], &[]), node(2, &[], &[]), node(3, &[], &[])];
        let group = Label { key: NODE_GROUP.into(), value: "small".into() };
        nodes[0].labels = vec![group.clone()];
        nodes[2].labels = vec![group];
        let nodes = Nodes { nodes: nodes.into(), ..Nodes::default() };
        let said = report("NOW", &nodes, &Plans::default(), false);
        let other = "02".repeat(28);
        assert!(said.contains(&format!("Active:\n 2 small\n 1 node_{other}\nPending:")), "{said}");
    }

    #[test]
    fn the_layout_is_rays() {
        let gib = f64::from(1 << 30);
        let total = [
            ("CPU", 2.0),
            ("X", 1.0),
            ("memory", 16.5 * gib),
            ("object_store_memory", 2.0 * gib),
            ("node:10.0.0.1", 1.0),
        ];
        let free =
            [("CPU", 0.5), ("X", 1.0), ("memory", 16.5 * gib), ("object_store_memory", 2.0 * gib)];
        let mut dead = node(2, &[], &[]);
        dead.alive = false;
        dead.cause = "it was silent for 5 s".into();
        let demand = |cpus, count| PendingDemand {
            resources: ResourceSet::from_units([("CPU", cpus)]),
            count,
            why: "no node has it".into(),
            ..PendingDemand::default()
        };
        let mut one = node(1, &total, &free);
        one.pending = vec![demand(1.0, 2)];
        let pending = vec![demand(7.0, 1), demand(1.0, 3)];
        let nodes = Nodes { nodes: vec![one, dead], pending, ..Nodes::default() };
        let id = |pair: &str| pair.repeat(28);
        let expect = format!(
            "======== Autoscaler status: NOW ========
Node status
{RULE}
Active:
 1 node_{}
Pending:
 (no pending nodes)
Recent failures:
 node_{} (ip: 10.0.0.2): it was silent for 5 s

Resources
{RULE}
Total Usage:
 1.5/2.0 CPU
 0.0/1.0 X
 0B/16.50GiB memory
 3.00MiB/2.00GiB object_store_memory

From request_resources:
 (none)
Pending Demands:
 {{'CPU': 1.0}}: 5+ pending tasks/actors
  no node has it
 {{'CPU': 7.0}}: 1+ pending tasks/actors
  no node has it
",
            id("01"),
            id("02"),
        );
        assert_eq!(report("NOW", &nodes, &Plans::default(), false), expect);
        let verbose = report("NOW", &nodes, &Plans::default(), true);
        assert!(verbose.ends_with(&format!(
            "
Node: {} (10.0.0.1)
 Usage:
  1.5/2.0 CPU
  0.0/1.0 X
  0B/16.50GiB memory
  3.00MiB/2.00GiB object_store_memory
",
            id("01")
        )));
    }

    #[test]
    fn what_placement_groups_reserve_stands_with_its_resource() {
        let group = "ab".repeat(18);
        let (of_one, of_group) = (format!("CPU_group_0_{group}"), format!("CPU_group_{group}"));
        let (mark, marks) = (format!("bundle_group_0_{group}"), format!("bundle_group_{group}"));
        let total =
            [("CPU", 4.0), (&of_one, 2.0), (&of_group, 2.0), (&mark, 1000.0), (&marks, 1000.0)];
        let free =
            [("CPU", 1.0), (&of_one, 0.5), (&of_group, 0.5), (&mark, 999.9), (&marks, 999.9)];
        let mut one = node(1, &total, &free);
        one.pending = vec![PendingDemand {
            resources: ResourceSet::from_units([(&*of_one, 1.0), (&*of_group, 1.0), (&*mark, 0.1)]),
            count: 1,
            ..PendingDemand::default()
        }];
        let text =
            report("NOW", &Nodes { nodes: vec![one], ..Nodes::default() }, &Plans::default(), true);
        assert!(
            text.contains(" 3.0/4.0 CPU (1.5 used of 2.0 reserved in placement groups)\n"),
            "{text}"
        );
        assert!(text.contains(" {'CPU': 1.0}: 1+ pending tasks/actors\n"), "{text}");
        assert!(!text.contains("_group_"), "{text}");
    }

    #[test]
    fn gpus_stand_with_their_node() {
        let mut one = node(1, &[("GPU", 1.0)], &[("GPU", 0.5)]);
        let gpu = GpuUse {
            index: 0,
            name: "NVIDIA H200".into(),
            has_utilization: true,
            utilization: 37,
            memory_used: 3 << 30,
            memory_total: 141 << 30,
            power_mw: 350_000,
            temperature: 41,
        };
        one.gpus = vec![gpu.clone(), GpuUse { index: 1, has_utilization: false, ..gpu }];
        let nodes = Nodes { nodes: vec![one], ..Nodes::default() };
        let text = report("NOW", &nodes, &Plans::default(), true);
        let expect = " Usage:
  0.5/1.0 GPU
 GPUs:
  0 NVIDIA H200: 37% busy, 3.00GiB/141.00GiB memory
  1 NVIDIA H200: 3.00GiB/141.00GiB memory
";
        assert!(text.ends_with(expect), "{text}");
        assert!(
            !report("NOW", &nodes, &Plans::default(), false).contains("H200"),
            "the layout is Ray's"
        );
    }

    #[test]
    fn an_empty_cluster_says_so() {
        let text = report("NOW", &Nodes::default(), &Plans::default(), false);
        for part in ["(no active nodes)", "(no failures)", "(no resource demands)"] {
            assert!(text.contains(part), "{part}");
        }
    }
}
