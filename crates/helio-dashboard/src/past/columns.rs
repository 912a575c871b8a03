//! The columns of a row of figures.

use std::time::Instant;

use helio_env::usage::{self, Machine};
use helio_proto::control::{NodeInfo, Nodes};

/// The names of the columns. Quantities of the whole cluster, but those of the machine, which is the head's. Percent,
/// bytes, bytes a second; what is not known is not a number.
pub(super) const COLUMNS: [&str; 22] = [
    "nodes",
    "workers",
    "waiting_requests",
    "cpus",
    "cpus_used",
    "gpus",
    "gpus_used",
    "memory",
    "memory_used",
    "object_store",
    "object_store_used",
    "gpu_percent",
    "gpu_memory",
    "gpu_memory_used",
    "machine_cpu_percent",
    "machine_memory",
    "machine_memory_used",
    "machine_disk_read_per_s",
    "machine_disk_written_per_s",
    "machine_received_per_s",
    "machine_sent_per_s",
    "machine_cpus",
];

/// The reading before, from which rates are counted.
#[derive(Debug, Default)]
pub(super) struct Readings {
    before: Option<(Instant, Machine)>,
}

impl Readings {
    /// The row of now.
    pub(super) fn row(&mut self, told: &Nodes) -> Vec<f32> {
        let machine = usage::machine();
        let now = Instant::now();
        let before = self.before.replace((now, machine));
        let mut row = of_nodes(told);
        row.extend(of_machine(&machine, before.map(|(at, old)| (now - at, old))));
        assert_eq!(row.len(), COLUMNS.len(), "a value for each column");
        row.into_iter().map(|value| value as f32).collect()
    }
}

fn of_nodes(told: &Nodes) -> Vec<f64> {
    let alive: Vec<&NodeInfo> =
        told.nodes.iter().filter(|node| node.alive && !node.is_guest).collect();
    let sum = |of: &dyn Fn(&NodeInfo) -> f64| alive.iter().map(|node| of(node)).sum::<f64>();
    let total = |name: &str| sum(&|node| node.total.get(name).to_f64());
    let used =
        |name: &str| sum(&|node| node.total.get(name).to_f64() - node.available.get(name).to_f64());
    let waiting = alive.iter().flat_map(|node| &node.pending).chain(&told.pending);
    let gpus = || alive.iter().flat_map(|node| &node.gpus);
    let counted: Vec<f64> =
        gpus().filter(|gpu| gpu.has_utilization).map(|gpu| f64::from(gpu.utilization)).collect();
    vec![
        alive.len() as f64,
        sum(&|node| f64::from(node.workers)),
        waiting.map(|demand| demand.count as f64).sum(),
        total("CPU"),
        used("CPU"),
        total("GPU"),
        used("GPU"),
        total("memory"),
        used("memory"),
        total("object_store_memory"),
        sum(&|node| node.object_store_used as f64),
        // No GPU has no mean.
        counted.iter().sum::<f64>() / counted.len() as f64,
        gpus().map(|gpu| gpu.memory_total as f64).sum(),
        gpus().map(|gpu| gpu.memory_used as f64).sum(),
    ]
}

fn of_machine(now: &Machine, before: Option<(std::time::Duration, Machine)>) -> [f64; 8] {
    let rate = |of: fn(&Machine) -> u64| {
        before.as_ref().map_or(f64::NAN, |(passed, old)| {
            of(now).saturating_sub(of(old)) as f64 / passed.as_secs_f64()
        })
    };
    let cpu = before.as_ref().map_or(f64::NAN, |(_, old)| {
        let part = (now.cpu_busy - old.cpu_busy) / (now.cpu_all - old.cpu_all);
        (100.0 * part).clamp(0.0, 100.0)
    });
    [
        cpu,
        now.memory_total as f64,
        now.memory_total.saturating_sub(now.memory_available) as f64,
        rate(|machine| machine.disk.read_bytes),
        rate(|machine| machine.disk.written_bytes),
        rate(|machine| machine.received),
        rate(|machine| machine.sent),
        now.cpus as f64,
    ]
}

#[cfg(test)]
mod tests {
    use helio_proto::control::GpuUse;
    use helio_types::ResourceSet;

    use super::*;

    fn value(row: &[f64], name: &str) -> f64 {
        row[COLUMNS.iter().position(|column| *column == name).unwrap()]
    }

    #[test]
    fn living_nodes_are_added_up() {
        let gpu = |utilization| GpuUse {
            has_utilization: true,
            utilization,
            memory_used: 3,
            memory_total: 8,
            ..GpuUse::default()
        };
        let node = |alive, gpus| NodeInfo {
            alive,
            total: ResourceSet::from_units([("CPU", 4.0)]),
            available: ResourceSet::from_units([("CPU", 1.5)]),
            workers: 2,
            gpus,
            ..NodeInfo::default()
        };
        let nodes =
            vec![node(true, vec![gpu(20), gpu(60)]), node(true, vec![]), node(false, vec![])];
        let row = of_nodes(&Nodes { nodes, ..Nodes::default() });
        for (name, expected) in [
            ("nodes", 2.0),
            ("workers", 4.0),
            ("cpus", 8.0),
            ("cpus_used", 5.0),
            ("gpu_percent", 40.0),
            ("gpu_memory", 16.0),
            ("gpu_memory_used", 6.0),
        ] {
            assert_eq!(value(&row, name), expected, "{name}");
        }
        let row = of_nodes(&Nodes::default());
        assert!(value(&row, "gpu_percent").is_nan(), "without GPUs there is no mean");
    }

    #[test]
    fn the_first_reading_has_no_rates() {
        let mut readings = Readings::default();
        let first = readings.row(&Nodes::default());
        let at = COLUMNS.iter().position(|name| *name == "machine_cpu_percent").unwrap();
        assert!(first[at].is_nan());
        assert!(first[at + 1] > 0.0, "this machine has memory");
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!readings.row(&Nodes::default())[at + 3].is_nan());
    }
}
