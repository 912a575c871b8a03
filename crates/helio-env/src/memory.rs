//! The use of the machine's memory, or of its control group's, whichever is fuller.
//!
//! Reading takes a few small files (some 50 µs); only [`top`] looks at every process.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes in use, and bytes that there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reading {
    /// In use; what the kernel can drop at once does not count.
    pub used: u64,
    /// The memory there is: the machine's, or its control group's limit.
    pub total: u64,
}

impl Reading {
    fn part(self) -> f64 {
        self.used as f64 / self.total.max(1) as f64
    }
}

/// Reads memory.
#[derive(Clone, Debug)]
pub struct Meter {
    /// Folders of control groups that bound this process.
    groups: Vec<PathBuf>,
    /// Whether the machine counts, too.
    has_machine: bool,
}

impl Meter {
    /// The meter of this machine and of every control group that this process is in.
    #[must_use]
    pub fn of_this_process() -> Self {
        let root = Path::new("/sys/fs/cgroup");
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mut groups = Vec::new();
        for line in own.lines() {
            // "0::/a/b" is version 2; "4:memory:/a/b" is version 1.
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next(), parts.next(), parts.next());
            let (Some(controllers), Some(path)) = (controllers, path) else { continue };
            let base = match controllers {
                "" => root.to_owned(),
                "memory" => root.join("memory"),
                _ => continue,
            };
            let own = base.join(path.trim_start_matches('/'));
            // The limits of all groups above hold as well, and the tightest may be any of them.
            groups.extend(
                own.ancestors().take_while(|folder| folder.starts_with(&base)).map(Path::to_owned),
            );
        }
        groups.retain(|folder| read_group(folder).is_some());
        Self { groups, has_machine: true }
    }

    /// The meter of one control group alone, by its folder.
    #[must_use]
    pub fn of_group(folder: PathBuf) -> Self {
        Self { groups: vec![folder], has_machine: false }
    }

    /// The fullest of what bounds this process; `None` where nothing can be read.
    #[must_use]
    pub fn read(&self) -> Option<Reading> {
        let machine = self.has_machine.then(read_machine).flatten();
        let groups = self.groups.iter().filter_map(|folder| read_group(folder));
        groups.chain(machine).max_by(|a, b| a.part().total_cmp(&b.part()))
    }
}

fn read_machine() -> Option<Reading> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let field = |name: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
        rest.trim().trim_end_matches(" kB").trim().parse::<u64>().ok().map(|kib| kib << 10)
    };
    let total = field("MemTotal:")?;
    Some(Reading { used: total.saturating_sub(field("MemAvailable:")?), total })
}

/// `None` for a group without a bound.
fn read_group(folder: &Path) -> Option<Reading> {
    let number = |name: &str| -> Option<u64> {
        fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok()
    };
    let total = number("memory.max").or_else(|| number("memory.limit_in_bytes"))?;
    // Version 1 says "no bound" with the largest number of pages.
    if total > 1 << 60 {
        return None;
    }
    let current = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let cached = stat.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        matches!(name, "inactive_file" | "total_inactive_file")
            .then(|| value.parse::<u64>().ok())?
    });
    Some(Reading { used: current.saturating_sub(cached.unwrap_or(0)), total })
}

/// The largest processes that can be seen: number, resident bytes, command line.
#[must_use]
pub fn top(n: usize) -> Vec<(u32, u64, String)> {
    let page = rustix::param::page_size() as u64;
    let mut all: Vec<(u64, u32)> = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
        let resident = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
        all.push((resident.unwrap_or(0) * page, pid));
    }
    all.sort_unstable_by(|a, b| b.cmp(a));
    all.truncate(n);
    all.into_iter().map(|(bytes, pid)| (pid, bytes, command(pid))).collect()
}

/// The start of a process's command line, or its name.
fn command(pid: u32) -> String {
    const LENGTH: usize = 100;
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    let text = words.join(" ");
    let text = text.trim();
    if text.is_empty() {
        return fs::read_to_string(format!("/proc/{pid}/comm"))
            .unwrap_or_default()
            .trim()
            .to_owned();
    }
    text.chars().take(LENGTH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_read_without_what_the_kernel_can_drop() {
        let folder = std::env::temp_dir().join(format!("heliostat-group-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let meter = Meter::of_group(folder.clone());
        assert_eq!(meter.read(), None);
        for (name, text) in [
            ("memory.max", "max\n"),
            ("memory.current", "900\n"),
            ("memory.stat", "anon 5\ninactive_file 300\n"),
        ] {
            fs::write(folder.join(name), text).unwrap();
        }
        assert_eq!(meter.read(), None, "no bound");
        fs::write(folder.join("memory.max"), "1000\n").unwrap();
        assert_eq!(meter.read(), Some(Reading { used: 600, total: 1000 }));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn this_machine_has_memory_and_processes() {
        let reading = Meter::of_this_process().read().unwrap();
        assert!(reading.used > 0 && reading.used < reading.total);
        let top = top(3);
        assert!(top.len() > 1 && top[0].1 >= top[1].1 && !top[0].2.is_empty());
    }
}
