//! What the machine has, by cheap means: a few files are read, nothing is started.

use std::fs;
use std::path::Path;

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
    let present = present(Path::new("/"));
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

/// How many GPUs the driver shows below this root. A container has device files for its own GPUs only,
/// with gaps in their numbers, while the driver's folder may list all of the machine's; without a container
/// the folder is right before the first program has made the device files.
fn present(root: &Path) -> usize {
    let entries = |folder: &str| fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
    let is_gpu = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("nvidia"));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    match entries("dev").filter(is_gpu).count() {
        0 => entries("proc/driver/nvidia/gpus").count(),
        devices => devices,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    #[test]
    fn a_containers_gpus_are_those_that_it_has_device_files_for() {
        let root = std::env::temp_dir().join(format!("heliostat-gpus-{}", std::process::id()));
        let make = |path: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        };
        assert_eq!(super::present(&root), 0);
        for number in 0..8 {
            make(&format!("proc/driver/nvidia/gpus/0000:{number}b:00.0"));
        }
        assert_eq!(super::present(&root), 8, "no program has used a GPU yet");
        for name in ["nvidia3", "nvidia5", "nvidiactl", "nvidia-uvm", "null"] {
            make(&format!("dev/{name}"));
        }
        assert_eq!(super::present(&root), 2);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_machine_has_a_name_and_memory_and_a_cpu() {
        assert!(super::cpus() > 0 && super::memory() > 1 << 20 && !super::hostname().is_empty());
    }
}
