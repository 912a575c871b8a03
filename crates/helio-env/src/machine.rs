//! The hardware of the machine, by cheap means: a few files are read, nothing is started.

use std::fs;
use std::path::Path;

use helio_types::devices::{AMD_GPU, DEVICE_KINDS, DeviceKind, INTEL_GPU};

/// Returns the number of CPUs that this process may use: affinity and control groups count, and within a job of
/// Slurm what the job was given on this machine, which Slurm says also where it binds nothing.
#[must_use]
pub fn cpus() -> usize {
    let usable = std::thread::available_parallelism().map_or(1, usize::from);
    let given = slurm("SLURM_CPUS_ON_NODE").and_then(|text| text.parse().ok());
    given.map_or(usable, |given: usize| given.clamp(1, usable))
}

/// A variable of Slurm's, within a job of it.
fn slurm(name: &str) -> Option<String> {
    std::env::var_os("SLURM_JOB_ID")?;
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The memory that this process may use, in bytes: the machine's, or the least bound of its control groups, or what
/// a job of Slurm was given on this machine.
#[must_use]
pub fn memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib: Option<u64> =
        total.and_then(|rest| rest.trim().trim_end_matches(" kB").trim().parse().ok());
    let machine = kib.map_or(4 << 30, |kib| kib << 10);
    let own_groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = group_memory(Path::new("/sys/fs/cgroup"), &own_groups);
    let job = slurm("SLURM_MEM_PER_NODE").and_then(|mib| mib.parse::<u64>().ok());
    let job = job.filter(|mib| *mib > 0).map(|mib| mib << 20);
    [group, job].into_iter().flatten().fold(machine, u64::min)
}

/// The least bound on the memory of the groups that a process is in, which `/proc/self/cgroup` names: each group is
/// bound by all those around it. In a container the names may be those of the host, and only the root is there.
fn group_memory(root: &Path, own_groups: &str) -> Option<u64> {
    let bounds = own_groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, group) = (parts.next()?, Path::new(parts.next()?));
        let (folder, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            named if named.split(',').any(|name| name == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let bound = |group: &Path| -> Option<u64> {
            let path = folder.join(group.strip_prefix("/").ok()?).join(file);
            fs::read_to_string(path).ok()?.trim().parse().ok()
        };
        group.ancestors().filter_map(bound).min()
    });
    bounds.min()
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
    visible_list(kind).map(|value| kind.names(&value))
}

/// The variable of that kind of device. Where it is not set within a job of Slurm, the GPUs that Slurm gave.
fn visible_list(kind: &DeviceKind) -> Option<String> {
    let set = std::env::var(kind.variable).ok();
    let given = || slurm("SLURM_STEP_GPUS").or_else(|| slurm("SLURM_JOB_GPUS"));
    set.or_else(|| given().filter(|_| kind.resource == "GPU"))
}

/// Returns the kind of the machine's GPUs, and their number.
fn gpu_kind(root: &Path) -> (DeviceKind, usize) {
    let all = counts(root);
    all.into_iter().find(|(_, count)| *count > 0).unwrap_or(all[0])
}

fn counts(root: &Path) -> [(DeviceKind, usize); 3] {
    [
        (DEVICE_KINDS[0], present(root)),
        (AMD_GPU, present_amd(root)),
        (INTEL_GPU, present_intel(root)),
    ]
}

/// Returns the number of GPUs of each maker that the drivers show.
#[must_use]
pub fn gpu_counts() -> [(DeviceKind, usize); 3] {
    counts(Path::new("/"))
}

/// The indices of the GPUs that this process may use: those that the variable of their kind names where it is
/// set, else those that the driver shows. Asking the driver's library would be exact and take a second.
#[must_use]
pub fn gpus() -> Vec<u32> {
    let (kind, present) = gpu_kind(Path::new("/"));
    match visible_list(&kind) {
        // CUDA ignores everything from the first wrong entry on; entries that name a device by its
        // unique id are counted by their position.
        Some(list) => list
            .split(',')
            .map(str::trim)
            .take_while(|entry| !entry.is_empty() && *entry != "-1" && *entry != "NoDevFiles")
            .enumerate()
            .map(|(position, entry)| entry.parse().unwrap_or(position as u32))
            .take(present)
            .collect(),
        None => (0..present as u32).collect(),
    }
}

/// Returns the number of GPUs that the driver of AMD shows: nodes of its topology that are not
/// CPUs.
fn present_amd(root: &Path) -> usize {
    let nodes = fs::read_dir(root.join("sys/class/kfd/kfd/topology/nodes"));
    let is_gpu = |node: &fs::DirEntry| {
        let id = fs::read_to_string(node.path().join("gpu_id")).unwrap_or_default();
        id.trim().parse::<u64>().is_ok_and(|id| id > 0)
    };
    nodes.into_iter().flatten().flatten().filter(is_gpu).count()
}

/// Returns the number of GPUs of Intel on cards of their own; those inside a CPU are on the first
/// bus.
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

/// Returns the number of GPUs that the driver of NVIDIA shows below this root. A container has device files for
/// its own GPUs only, with gaps in their numbers, while the driver's folder may list all of the machine's;
/// without a container the folder is right before the first program has made the device files.
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
    fn the_memory_is_what_the_tightest_group_leaves() {
        let root = std::env::temp_dir().join(format!("heliostat-groups-{}", std::process::id()));
        let bound = |group: &str, file: &str, text: &str| {
            let folder = root.join(group);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(file), text).unwrap();
        };
        let found = |own: &str| super::group_memory(&root, own);
        assert_eq!(found("0::/slurm/job_1/step_0\n"), None, "no group has a bound");
        bound("slurm/job_1/step_0", "memory.max", "max\n");
        bound("slurm/job_1", "memory.max", "3000\n");
        bound("slurm", "memory.max", "9000\n");
        assert_eq!(found("0::/slurm/job_1/step_0\n"), Some(3000));
        assert_eq!(found("0::/slurm\n"), Some(9000));
        bound("", "memory.max", "2000\n");
        assert_eq!(found("0::/\n"), Some(2000));
        assert_eq!(found("0::/of/the/host\n"), Some(2000), "a container sees only the root");
        bound("memory/docker", "memory.limit_in_bytes", "1000\n");
        assert_eq!(found("5:cpu,cpuacct:/docker\n4:memory:/docker\n0::/\n"), Some(1000));
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
