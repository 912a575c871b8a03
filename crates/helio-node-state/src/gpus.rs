//! Measurements of the machine's GPUs, under the names that Ray's users know.

use helio_proto::control::GpuUse;
use helio_proto::inspect::{Metric, Series};

const MIB: f64 = (1 << 20) as f64;

/// The latest reading of the machine's GPUs.
#[derive(Debug, Default)]
pub(crate) struct Gpus(Vec<GpuUse>);

impl Gpus {
    pub(crate) fn on_gpus_read(&mut self, gpus: Vec<GpuUse>) {
        self.0 = gpus;
    }

    pub(crate) fn all(&self) -> &[GpuUse] {
        &self.0
    }

    /// The node's measurements of its GPUs; none where it has none.
    pub(crate) fn measurements(&self) -> Vec<Metric> {
        measurements(&self.0)
    }
}

fn measurements(gpus: &[GpuUse]) -> Vec<Metric> {
    if gpus.is_empty() {
        return Vec::new();
    }
    let each = |value: fn(&GpuUse) -> Option<f64>| {
        let series = |gpu: &GpuUse| {
            let index = gpu.index.to_string();
            Some(Series::of(value(gpu)?, [("GpuIndex", &index), ("GpuDeviceName", &gpu.name)]))
        };
        gpus.iter().filter_map(series).collect::<Vec<Series>>()
    };
    let mut found = vec![
        Metric::gauge("node_gpus_available", "GPUs of the node", each(|_| Some(1.0))),
        Metric::gauge(
            "node_gpus_utilization",
            "Percentage of the last second during which a GPU ran a kernel",
            each(|gpu| gpu.has_utilization.then_some(f64::from(gpu.utilization))),
        ),
        Metric::gauge(
            "node_gram_used",
            "MiB of a GPU's memory in use",
            each(|gpu| Some(gpu.memory_used as f64 / MIB)),
        ),
        Metric::gauge(
            "node_gram_available",
            "MiB of a GPU's memory that are free",
            each(|gpu| Some(gpu.memory_total.saturating_sub(gpu.memory_used) as f64 / MIB)),
        ),
        Metric::gauge(
            "node_gpu_power_milliwatts",
            "What a GPU draws",
            each(|gpu| (gpu.power_mw > 0).then_some(f64::from(gpu.power_mw))),
        ),
        Metric::gauge(
            "node_gpu_temperature_celsius",
            "How warm a GPU is",
            each(|gpu| (gpu.temperature > 0).then_some(f64::from(gpu.temperature))),
        ),
    ];
    assert_eq!(found[0].series.len(), gpus.len(), "a GPU would be missing that is there");
    let is_once = found.iter().all(|metric| metric.series.len() <= gpus.len());
    assert!(is_once, "a GPU would be counted twice");
    found.retain(|metric| !metric.series.is_empty());
    found
}
