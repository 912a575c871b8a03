//! Reads the machine's GPUs from time to time, on a thread of its own: the driver's library blocks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use helio_env::nvml::{Gpu, LIBRARIES, Nvml, Part};
use helio_node_state::Event;
use helio_proto::control::GpuUse;

use crate::input::Inputs;

/// Time between two readings.
const READ_EVERY: Duration = Duration::from_secs(5);

/// The part of all GPUs together that each process used at the last reading.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts(Arc<Mutex<BTreeMap<u32, Part>>>);

impl Parts {
    /// The process's part; none where it uses no GPU.
    pub(crate) fn of(&self, pid: u32) -> Option<Part> {
        self.0.lock().expect("no writer has panicked with it").get(&pid).copied()
    }

    /// Replaces the parts by those of this reading.
    pub(crate) fn replace(&self, gpus: &[Gpu]) {
        let mut sums: BTreeMap<u32, Part> = BTreeMap::new();
        for part in gpus.iter().flat_map(|gpu| &gpu.processes) {
            let sum = sums.entry(part.pid).or_default();
            sum.pid = part.pid;
            sum.memory += part.memory;
            sum.utilization += part.utilization;
        }
        *self.0.lock().expect("no reader has panicked with it") = sums;
    }
}

/// Starts to read the GPUs; the thread ends where there is no NVIDIA driver, and with the daemon.
pub(crate) fn watch(inputs: Inputs, parts: Parts) {
    let read = move || {
        let Some(nvml) = LIBRARIES.into_iter().find_map(Nvml::open) else { return };
        loop {
            let gpus = nvml.read();
            parts.replace(&gpus);
            let told = Event::GpusRead(gpus.into_iter().map(wire).collect()).into();
            if inputs.blocking_send(told).is_err() {
                return;
            }
            std::thread::sleep(READ_EVERY);
        }
    };
    if let Err(error) = std::thread::Builder::new().name("gpus".to_owned()).spawn(read) {
        tracing::warn!(%error, "the GPUs are not measured: no thread for it");
    }
}

fn wire(gpu: Gpu) -> GpuUse {
    GpuUse {
        index: gpu.index,
        name: gpu.name,
        has_utilization: gpu.utilization.is_some(),
        utilization: gpu.utilization.unwrap_or_default(),
        memory_used: gpu.memory_used,
        memory_total: gpu.memory_total,
        power_mw: gpu.power.unwrap_or_default(),
        temperature: gpu.temperature.unwrap_or_default(),
    }
}
