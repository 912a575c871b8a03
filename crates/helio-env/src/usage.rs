//! The usage of the machine and its processes, from the files of `/proc`: counts that only grow, of which two readings
//! make a rate, and levels. A reading takes some 100 µs, and nothing runs between two.

use std::fs;
use std::path::Path;

use procfs::net::DeviceStatus;
use procfs::process::Process;
use procfs::{Current, CurrentSI, DiskStat, KernelStats, Meminfo};

/// Bytes of a sector in `/proc/diskstats`, whatever the disk's own have.
const SECTOR_BYTES: u64 = 512;

/// A reading of the machine.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Machine {
    /// CPUs that are switched on.
    pub cpus: usize,
    /// Seconds of all CPUs since the machine was started.
    pub cpu_all: f64,
    /// The seconds of `cpu_all` in which a CPU worked.
    pub cpu_busy: f64,
    /// Bytes of memory.
    pub memory_total: u64,
    /// Bytes of memory that programs can still get.
    pub memory_available: u64,
    /// Bytes of memory that several processes share.
    pub memory_shared: u64,
    /// Bytes and requests of all disks since the machine was started.
    pub disk: Disk,
    /// Bytes that all network devices but the loopback have received.
    pub received: u64,
    /// Bytes that they have sent.
    pub sent: u64,
}

/// Counts of the disks' work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Disk {
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Requests to read.
    pub reads: u64,
    /// Requests to write.
    pub writes: u64,
}

/// Reads the machine; what cannot be read is zero.
#[must_use]
pub fn machine() -> Machine {
    let mut found = Machine::default();
    if let Ok(stats) = KernelStats::current() {
        let all = &stats.total;
        let idle = all.idle_ms() + all.iowait_ms().unwrap_or_default();
        let busy = all.user_ms()
            + all.nice_ms()
            + all.system_ms()
            + all.irq_ms().unwrap_or_default()
            + all.softirq_ms().unwrap_or_default()
            + all.steal_ms().unwrap_or_default();
        found.cpus = stats.cpu_time.len();
        (found.cpu_all, found.cpu_busy) = ((busy + idle) as f64 / 1e3, busy as f64 / 1e3);
    }
    if let Ok(memory) = Meminfo::current() {
        found.memory_total = memory.mem_total;
        found.memory_available = memory.mem_available.unwrap_or(memory.mem_free);
        found.memory_shared = memory.shmem.unwrap_or_default();
    }
    found.disk = disks(&procfs::diskstats().unwrap_or_default(), Path::new("/sys/block"));
    for device in procfs::net::dev_status().unwrap_or_default().values() {
        let DeviceStatus { name, recv_bytes, sent_bytes, .. } = device;
        // What a machine says to itself uses no network.
        if name != "lo" {
            found.received += recv_bytes;
            found.sent += sent_bytes;
        }
    }
    found
}

/// The sum over whole disks: what a partition, a volume or a loop device does, its disk does, too.
fn disks(all: &[DiskStat], folder: &Path) -> Disk {
    let is_disk = |one: &&DiskStat| folder.join(&one.name).join("device").exists();
    all.iter().filter(is_disk).fold(Disk::default(), |sum, one| Disk {
        read_bytes: sum.read_bytes + one.sectors_read * SECTOR_BYTES,
        written_bytes: sum.written_bytes + one.sectors_written * SECTOR_BYTES,
        reads: sum.reads + one.reads,
        writes: sum.writes + one.writes,
    })
}

/// A reading of a process.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Used {
    /// Seconds of CPU since it began.
    pub cpu: f64,
    /// Bytes in memory.
    pub resident: u64,
    /// Bytes of `resident` that other processes may have, too.
    pub shared: u64,
    /// The title that `ps` shows.
    pub title: String,
}

/// Reads a process; `None`: it has ended, or may not be read.
#[must_use]
pub fn process(pid: u32) -> Option<Used> {
    let process = Process::new(i32::try_from(pid).ok()?).ok()?;
    let (stat, memory) = (process.stat().ok()?, process.statm().ok()?);
    let page = procfs::page_size();
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let title = line.split(|byte| *byte == 0).next().unwrap_or_default();
    Some(Used {
        cpu: (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64,
        resident: memory.resident * page,
        shared: memory.shared * page,
        title: String::from_utf8_lossy(title).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_and_this_process_use_something() {
        let found = machine();
        assert!(found.cpus > 0 && found.cpu_busy > 0.0 && found.cpu_busy <= found.cpu_all);
        assert!(found.memory_available > 0 && found.memory_available < found.memory_total);
        let own = process(std::process::id()).unwrap();
        assert!(own.resident > own.shared && !own.title.is_empty());
        assert_eq!(process(u32::MAX), None);
    }

    #[test]
    fn what_a_partition_does_is_counted_once() {
        let root = std::env::temp_dir().join(format!("heliostat-disks-{}", std::process::id()));
        fs::create_dir_all(root.join("sda/device")).unwrap();
        fs::create_dir_all(root.join("loop0")).unwrap();
        let line = |name: &str| format!("8 0 {name} 3 0 10 0 4 0 20 0 0 0 0");
        let all: Vec<DiskStat> = ["sda", "sda1", "loop0"]
            .iter()
            .map(|name| DiskStat::from_line(&line(name)).unwrap())
            .collect();
        let sum = Disk { read_bytes: 5120, written_bytes: 10240, reads: 3, writes: 4 };
        assert_eq!(disks(&all, &root), sum);
        fs::remove_dir_all(&root).unwrap();
    }
}
