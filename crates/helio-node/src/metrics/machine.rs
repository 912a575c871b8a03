//! The usage of the node's machine and processes, as measurements under the names of Ray's dashboards.
//!
//! Rates are those between two scrapes: nothing is read between them. A scrape soon after another one
//! gives the rates of that one again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use helio_env::memory::Meter;
use helio_env::usage::{self, Machine, Used};
use helio_proto::inspect::{Answer, Metric, Series};

use crate::gpus::Parts;

/// Readings that are closer than this make no rate.
const APART_MIN: Duration = Duration::from_millis(500);

/// Number of kinds of processes that are told apart; the others are one kind (LIMIT-1).
const COMPONENTS_MAX: usize = 100;

const MIB: f64 = (1 << 20) as f64;

/// The machine, and what it was like at the scrape before.
#[derive(Debug)]
pub(super) struct Watch {
    /// The folder whose disk counts.
    folder: PathBuf,
    is_head: bool,
    gpu_parts: Parts,
    meter: Meter,
    before: Mutex<Before>,
}

/// The readings that rates are counted from, and the rates of the latest scrape.
#[derive(Debug)]
struct Before {
    at: Instant,
    machine: Machine,
    /// CPU seconds of each process.
    processes: BTreeMap<u32, f64>,
    rates: Rates,
}

#[derive(Clone, Debug, Default)]
struct Rates {
    /// Percent of all CPUs.
    cpu: f64,
    disk_read: f64,
    disk_written: f64,
    disk_reads: f64,
    disk_writes: f64,
    received: f64,
    sent: f64,
    /// Percent of one CPU, by process.
    processes: BTreeMap<u32, f64>,
}

/// The usage of a node's processes of one kind together.
#[derive(Clone, Copy, Debug, Default)]
struct Component {
    cpu: f64,
    resident: u64,
    shared: u64,
    uses_gpus: bool,
    /// Percent of one GPU.
    gpu: f64,
    /// Memory of GPUs, in bytes.
    gpu_memory: u64,
}

impl Watch {
    /// Rates are counted from now on.
    pub(super) fn new(folder: PathBuf, is_head: bool, gpu_parts: Parts) -> Self {
        let before = Before {
            at: Instant::now(),
            machine: usage::machine(),
            processes: BTreeMap::new(),
            rates: Rates::default(),
        };
        let meter = Meter::of_this_process();
        Self { folder, is_head, gpu_parts, meter, before: Mutex::new(before) }
    }

    /// Reads the machine, and the processes that answered. It takes some milliseconds where there are many.
    pub(super) fn measure(&self, answers: &[Answer]) -> Vec<Metric> {
        let machine = usage::machine();
        let processes: Vec<(&Answer, Used)> = answers
            .iter()
            .filter_map(|answer| Some((answer, usage::process(answer.pid)?)))
            .collect();
        let rates = self.rates(machine, &processes);
        let mut found = self.levels(&machine, &rates);
        found.extend(components(&processes, &rates, &self.gpu_parts));
        found
    }

    fn rates(&self, machine: Machine, processes: &[(&Answer, Used)]) -> Rates {
        let mut before = self.before.lock().expect("no reader has panicked with it");
        let passed = before.at.elapsed();
        if passed >= APART_MIN {
            let cpu = processes.iter().map(|(answer, used)| (answer.pid, used.cpu)).collect();
            before.rates = between(&before, &machine, &cpu, passed.as_secs_f64());
            (before.at, before.machine, before.processes) = (Instant::now(), machine, cpu);
        }
        before.rates.clone()
    }

    /// Returns the levels of the machine's usage.
    fn levels(&self, machine: &Machine, rates: &Rates) -> Vec<Metric> {
        let kind = if self.is_head { "head" } else { "worker" };
        let one = |value: f64| vec![Series::of(value, [("RayNodeType", kind)])];
        let gauge = |name: &str, about: &str, value: f64| Metric::gauge(name, about, one(value));
        let used = machine.memory_total.saturating_sub(machine.memory_available);
        let bound = self.meter.read().unwrap_or_default();
        let mut found = vec![
            gauge("node_cpu_count", "CPUs of the machine", machine.cpus as f64),
            gauge(
                "node_cpu_utilization",
                "Percent of the machine's CPU time since the scrape before",
                rates.cpu,
            ),
            gauge(
                "node_mem_total",
                "Bytes of memory that the node may use: the machine's, or its control group's",
                bound.total as f64,
            ),
            gauge("node_mem_used", "Bytes of that memory in use", bound.used as f64),
            gauge(
                "node_mem_available",
                "Bytes of that memory that are free",
                bound.total.saturating_sub(bound.used) as f64,
            ),
            gauge(
                "node_mem_total_host",
                "Bytes of the machine's memory",
                machine.memory_total as f64,
            ),
            gauge("node_mem_used_host", "Bytes of the machine's memory in use", used as f64),
            gauge(
                "node_mem_shared_bytes",
                "Bytes of memory that several processes share, the object store among them",
                machine.memory_shared as f64,
            ),
            gauge(
                "node_disk_io_read",
                "Bytes read from disks since the machine was started",
                machine.disk.read_bytes as f64,
            ),
            gauge(
                "node_disk_io_write",
                "Bytes written to disks since the machine was started",
                machine.disk.written_bytes as f64,
            ),
            gauge("node_disk_io_read_speed", "Bytes read from disks a second", rates.disk_read),
            gauge(
                "node_disk_io_write_speed",
                "Bytes written to disks a second",
                rates.disk_written,
            ),
            gauge("node_disk_read_iops", "Requests to read a second", rates.disk_reads),
            gauge("node_disk_write_iops", "Requests to write a second", rates.disk_writes),
            gauge(
                "node_network_received",
                "Bytes that the machine has received since it was started",
                machine.received as f64,
            ),
            gauge(
                "node_network_sent",
                "Bytes that the machine has sent since it was started",
                machine.sent as f64,
            ),
            gauge("node_network_receive_speed", "Bytes received a second", rates.received),
            gauge("node_network_send_speed", "Bytes sent a second", rates.sent),
        ];
        if bound.total > 0 && bound.total != machine.memory_total {
            let about = "Bytes of memory that the node's control group allows";
            found.push(gauge("node_cgroup_mem_total", about, bound.total as f64));
            let about = "Bytes of memory that the node's control group uses";
            found.push(gauge("node_cgroup_mem_used", about, bound.used as f64));
        }
        if let Ok(disk) = rustix::fs::statvfs(&self.folder) {
            let free = disk.f_bavail * disk.f_frsize;
            let used = disk.f_blocks.saturating_sub(disk.f_bfree) * disk.f_frsize;
            let about = "Bytes in use on the disk of the session's folder";
            found.push(gauge("node_disk_usage", about, used as f64));
            let about = "Bytes free on the disk of the session's folder";
            found.push(gauge("node_disk_free", about, free as f64));
            let percent = 100.0 * used as f64 / (used + free).max(1) as f64;
            let about = "Percent of the disk of the session's folder in use";
            found.push(gauge("node_disk_utilization_percentage", about, percent));
        }
        found
    }
}

/// Returns the rates between two readings, per second.
fn between(
    before: &Before,
    machine: &Machine,
    processes: &BTreeMap<u32, f64>,
    seconds: f64,
) -> Rates {
    let (old, new) = (&before.machine, machine);
    let part = |part: f64, whole: f64| if whole > 0.0 { part.max(0.0) / whole } else { 0.0 };
    let speed = |old: u64, new: u64| new.saturating_sub(old) as f64 / seconds;
    Rates {
        cpu: 100.0 * part(new.cpu_busy - old.cpu_busy, new.cpu_all - old.cpu_all).min(1.0),
        disk_read: speed(old.disk.read_bytes, new.disk.read_bytes),
        disk_written: speed(old.disk.written_bytes, new.disk.written_bytes),
        disk_reads: speed(old.disk.reads, new.disk.reads),
        disk_writes: speed(old.disk.writes, new.disk.writes),
        received: speed(old.received, new.received),
        sent: speed(old.sent, new.sent),
        processes: processes
            .iter()
            .map(|(pid, cpu)| {
                // Of a process that is new since the last scrape only what comes from now on
                // counts.
                let spent = cpu - before.processes.get(pid).copied().unwrap_or(*cpu);
                (*pid, 100.0 * spent.max(0.0) / seconds)
            })
            .collect(),
    }
}

fn components(processes: &[(&Answer, Used)], rates: &Rates, gpu_parts: &Parts) -> Vec<Metric> {
    let mut kinds: BTreeMap<&str, Component> = BTreeMap::new();
    for (answer, used) in processes {
        let mut kind = match answer {
            Answer { is_daemon: true, .. } => "raylet",
            Answer { is_driver: true, .. } => "driver",
            _ if used.title.starts_with("ray::") => &used.title,
            _ => "worker",
        };
        // **LIMIT-1** Titles are users' names of functions.
        if kinds.len() >= COMPONENTS_MAX && !kinds.contains_key(kind) {
            kind = "worker";
        }
        let sum = kinds.entry(kind).or_default();
        sum.cpu += rates.processes.get(&answer.pid).copied().unwrap_or_default();
        sum.resident += used.resident;
        sum.shared += used.shared;
        if let Some(part) = gpu_parts.of(answer.pid) {
            sum.uses_gpus = true;
            sum.gpu += f64::from(part.utilization);
            sum.gpu_memory += part.memory;
        }
    }
    let each = |value: fn(&Component) -> f64| {
        kinds.iter().map(|(kind, sum)| Series::of(value(sum), [("Component", *kind)])).collect()
    };
    let mut found = vec![
        Metric::gauge(
            "component_cpu_percentage",
            "Percent of one CPU since the scrape before, by kind of process",
            each(|sum| sum.cpu),
        ),
        Metric::gauge(
            "component_rss_bytes",
            "Bytes of memory of processes, by their kind",
            each(|sum| sum.resident as f64),
        ),
        Metric::gauge(
            "component_shared_bytes",
            "Bytes of that memory that other processes may have, too",
            each(|sum| sum.shared as f64),
        ),
        Metric::gauge(
            "component_uss_mb",
            "MiB of memory that nobody else has",
            each(|sum| sum.resident.saturating_sub(sum.shared) as f64 / MIB),
        ),
    ];
    kinds.retain(|_, sum| sum.uses_gpus);
    if !kinds.is_empty() {
        let each = |value: fn(&Component) -> f64| {
            kinds.iter().map(|(kind, sum)| Series::of(value(sum), [("Component", *kind)])).collect()
        };
        found.push(Metric::gauge(
            "component_gpu_percentage",
            "Percent of one GPU's time in which kernels of processes ran, by their kind",
            each(|sum| sum.gpu),
        ));
        found.push(Metric::gauge(
            "component_gpu_memory_mb",
            "MiB of GPUs' memory of processes, by their kind",
            each(|sum| sum.gpu_memory as f64 / MIB),
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use helio_env::nvml::{Gpu, Part};

    use super::*;

    fn watch() -> Watch {
        Watch::new(std::env::temp_dir(), true, Parts::default())
    }

    fn value(found: &[Metric], name: &str) -> f64 {
        found.iter().find(|metric| metric.name == name).unwrap().series[0].value
    }

    #[test]
    fn two_readings_make_a_rate_and_a_process_that_is_new_has_none() {
        let watch = watch();
        let mut before = watch.before.into_inner().unwrap();
        let mut now = before.machine;
        now.cpu_all += 8.0;
        now.cpu_busy += 2.0;
        now.sent += 3000;
        before.processes = [(7, 1.0)].into();
        let rates = between(&before, &now, &[(7, 2.0), (8, 50.0)].into(), 2.0);
        assert_eq!((rates.cpu, rates.sent, rates.received), (25.0, 1500.0, 0.0));
        assert_eq!(rates.processes, [(7, 50.0), (8, 0.0)].into());
        let back = between(&before, &Machine::default(), &BTreeMap::new(), 2.0);
        assert_eq!((back.cpu, back.sent), (0.0, 0.0), "a machine that was started anew");
    }

    #[test]
    fn processes_are_told_apart_by_what_they_do_up_to_a_bound() {
        let rates = Rates::default();
        let used = |title: String| Used { resident: 3, shared: 1, title, ..Used::default() };
        let (daemon, worker) = (Answer { is_daemon: true, ..Answer::default() }, Answer::default());
        let all: Vec<(&Answer, Used)> = std::iter::once((&daemon, used("heliostat".to_owned())))
            .chain((0..2 * COMPONENTS_MAX).map(|n| (&worker, used(format!("ray::f{n}")))))
            .collect();
        let found = components(&all, &rates, &Parts::default());
        let resident = &found[1];
        assert_eq!(resident.series.len(), COMPONENTS_MAX + 1, "LIMIT-1");
        let sum: f64 = resident.series.iter().map(|one| one.value).sum();
        assert_eq!(sum, 3.0 * (2 * COMPONENTS_MAX + 1) as f64);
    }

    #[test]
    fn what_processes_use_of_gpus_counts_by_their_kind() {
        let gpu = |index, processes| Gpu {
            index,
            name: String::new(),
            utilization: None,
            memory_used: 0,
            memory_total: 0,
            power: None,
            temperature: None,
            processes,
        };
        let part = |pid, memory, utilization| Part { pid, memory, utilization };
        let parts = Parts::default();
        parts.replace(&[
            gpu(0, vec![part(7, 3 << 20, 40), part(9, 1 << 30, 60)]),
            gpu(1, vec![part(7, 2 << 20, 30), part(8, 1 << 20, 5)]),
        ]);
        let worker = |pid| Answer { pid, ..Answer::default() };
        let (one, two, none) = (worker(7), worker(8), worker(6));
        let used = |title: &str| Used { title: title.to_owned(), ..Used::default() };
        let all = [(&one, used("ray::f")), (&two, used("ray::f")), (&none, used("ray::without"))];
        let found = components(&all, &Rates::default(), &parts);
        assert_eq!(value(&found, "component_gpu_percentage"), 75.0);
        assert_eq!(value(&found, "component_gpu_memory_mb"), 6.0);
        let memory = found.last().unwrap();
        assert_eq!(memory.series.len(), 1, "what uses no GPU has no series");
        let found = components(&all, &Rates::default(), &Parts::default());
        assert!(!found.iter().any(|metric| metric.name.contains("gpu")));
    }

    #[test]
    fn this_machine_is_measured() {
        let own = Answer { pid: std::process::id(), is_daemon: true, ..Answer::default() };
        let found = watch().measure(&[own]);
        for name in ["node_mem_total", "node_mem_used", "node_disk_free", "component_rss_bytes"] {
            assert!(value(&found, name) > 0.0, "{name}");
        }
        assert!(value(&found, "node_cpu_utilization") <= 100.0);
    }
}
