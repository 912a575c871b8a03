//! What the machine has, by cheap means: a few files are read, nothing is started.

use std::fs;
use std::path::Path;

use helio_types::devices::{AMD_GPU, DEVICE_KINDS, DeviceKind, INTEL_GPU};

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

/// The kind of device that `resource` is on this machine.
#[must_use]
pub fn device_kind(resource: &str) -> Option<DeviceKind> {
    if resource == "GPU" {
        return Some(gpu_kind(Path::new("/")).0);
    }
    DEVICE_KINDS.into_iter().find(|kind| kind.resource == resource)
}

/// The names that the variable of a kind gives to the machine's devices, as this process sees them; `None`: it
/// sees all.
#[must_use]
pub fn visible(kind: &DeviceKind) -> Option<Vec<String>> {
    std::env::var(kind.variable).ok().map(|value| kind.names(&value))
}

/// Whose GPUs there are, and how many.
fn gpu_kind(root: &Path) -> (DeviceKind, usize) {
    let (amd, intel) = (present_amd(root), present_intel(root));
    match (present(root), amd, intel) {
        (0, 1.., _) => (AMD_GPU, amd),
        (0, 0, 1..) => (INTEL_GPU, intel),
        (nvidia, ..) => (DEVICE_KINDS[0], nvidia),
    }
}

/// The indices of the GPUs that this process may use: those that the variable of their kind names where it is
/// set, else those that the driver shows. Asking the driver's library would be exact and take a second.
#[must_use]
pub fn gpus() -> Vec<u32> {
    let (kind, present) = gpu_kind(Path::new("/"));
    match std::env::var(kind.variable) {
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

/// How many GPUs the driver of AMD shows: nodes of its topology that are no CPUs.
fn present_amd(root: &Path) -> usize {
    let nodes = fs::read_dir(root.join("sys/class/kfd/kfd/topology/nodes"));
    let is_gpu = |node: &fs::DirEntry| {
        let id = fs::read_to_string(node.path().join("gpu_id")).unwrap_or_default();
        id.trim().parse::<u64>().is_ok_and(|id| id > 0)
    };
    nodes.into_iter().flatten().flatten().filter(is_gpu).count()
}

/// How many GPUs of Intel there are on cards of their own; those inside a CPU are on the first bus.
fn present_intel(root: &Path) -> usize {
    let cards = fs::read_dir(root.join("sys/bus/pci/drivers")).into_iter().flatten().flatten();
    let drivers = cards.filter(|driver| matches!(driver.file_name().to_str(), Some("i915" | "xe")));
    let devices =
        drivers.flat_map(|driver| fs::read_dir(driver.path()).into_iter().flatten().flatten());
    let is_card = |device: &fs::DirEntry| {
        let name = device.file_name();
        let bus = name.to_str().and_then(|name| name.split(':').nth(1));
        bus.is_some_and(|bus| bus != "00")
    };
    devices.filter(is_card).count()
}

/// How many GPUs the driver of NVIDIA shows below this root. A container has device files for its own GPUs only,
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
    fn the_machine_says_whose_gpus_there_are() {
        let root = std::env::temp_dir().join(format!("heliostat-vendors-{}", std::process::id()));
        let make = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let found = || {
            let (kind, count) = super::gpu_kind(&root);
            (kind.variable, count)
        };
        assert_eq!(found(), ("CUDA_VISIBLE_DEVICES", 0));
        make("sys/bus/pci/drivers/i915/0000:00:02.0/vendor", "0x8086");
        assert_eq!(found(), ("CUDA_VISIBLE_DEVICES", 0), "a CPU has a small one inside");
        make("sys/bus/pci/drivers/xe/0000:4d:00.0/vendor", "0x8086");
        assert_eq!(found(), ("ZE_AFFINITY_MASK", 1));
        for (node, id) in [(0, "0\n"), (1, "51234\n"), (2, "7654\n")] {
            make(&format!("sys/class/kfd/kfd/topology/nodes/{node}/gpu_id"), id);
        }
        assert_eq!(found(), ("HIP_VISIBLE_DEVICES", 2));
        make("dev/nvidia0", "");
        assert_eq!(found(), ("CUDA_VISIBLE_DEVICES", 1));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_machine_has_a_name_and_memory_and_a_cpu() {
        assert!(super::cpus() > 0 && super::memory() > 1 << 20 && !super::hostname().is_empty());
    }
}
