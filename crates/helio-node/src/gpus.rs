//! Reads the machine's GPUs from time to time, on a thread of its own: the driver's library blocks.

use std::time::Duration;

use helio_env::nvml::{Gpu, LIBRARIES, Nvml};
use helio_proto::control::GpuUse;

use crate::core::{Input, Inputs};

/// How long lies between two readings.
const READ_EVERY: Duration = Duration::from_secs(5);

/// Starts to read the GPUs; the thread ends where there is no NVIDIA driver, and with the daemon.
pub(crate) fn watch(inputs: Inputs) {
    let read = move || {
        let Some(nvml) = LIBRARIES.into_iter().find_map(Nvml::open) else { return };
        while inputs
            .blocking_send(Input::GpusRead(nvml.read().into_iter().map(wire).collect()))
            .is_ok()
        {
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
    }
}
