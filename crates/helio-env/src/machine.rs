//! What the machine has, by cheap means: a few files are read, nothing is started.

use std::fs;

/// How many CPUs this process may use (affinity and control groups count).
#[must_use]
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The memory that this process may use, in bytes: the machine's, or its control group's bound.
#[must_use]
pub fn memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib: Option<u64> =
        total.and_then(|rest| rest.trim().trim_end_matches(" kB").trim().parse().ok());
    let machine = kib.map_or(4 << 30, |kib| kib << 10);
    let group = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        .iter()
        .find_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok());
    group.map_or(machine, |bound: u64| bound.min(machine))
}

/// The machine's name.
#[must_use]
pub fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The indices of the GPUs that this process may use: those in `CUDA_VISIBLE_DEVICES` where it is
/// set, else those that the NVIDIA driver shows. Asking the driver's library would be exact and take
/// a second.
#[must_use]
pub fn gpus() -> Vec<u32> {
    let present = match fs::read_dir("/proc/driver/nvidia/gpus") {
        Ok(dir) => dir.count(),
        Err(_) => {
            (0..64).take_while(|index| fs::metadata(format!("/dev/nvidia{index}")).is_ok()).count()
        }
    };
    match std::env::var("CUDA_VISIBLE_DEVICES") {
        // CUDA ignores everything from the first wrong entry on; entries that name a device by its
        // unique id are counted by their position.
        Ok(list) => list
            .split(',')
            .map(str::trim)
            .take_while(|entry| !entry.is_empty() && *entry != "-1" && *entry != "NoDevFiles")
            .enumerate()
            .map(|(position, entry)| entry.parse().unwrap_or(position as u32))
            .take(present)
            .collect(),
        Err(_) => (0..present as u32).collect(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_machine_has_a_name_and_memory_and_a_cpu() {
        assert!(super::cpus() > 0 && super::memory() > 1 << 20 && !super::hostname().is_empty());
    }
}
