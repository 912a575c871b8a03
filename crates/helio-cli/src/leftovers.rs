//! Workers that outlive their daemon.
//!
//! A daemon that is killed takes its workers with it: the processes that fork them see it and kill them. Should
//! those have been killed or stopped as well, workers that are stopped see nothing, and hold memory and devices for
//! ever. Whoever finds the folder of a session without a daemon ends them.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use helio_env::process;

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The script that such a process runs, and what it calls itself once it has work.
const SCRIPT: &[u8] = b"heliostat/core/worker/zygote.py";
const TITLE: &[u8] = b"ray::";

/// Kills the processes of a session whose daemon is gone. Returns how many there were.
pub(crate) fn end(session_dir: &Path) -> usize {
    let mark = format!("HELIOSTAT_SESSION_DIR={}", session_dir.display());
    let left = of(&mark);
    for pid in &left {
        process::kill(*pid);
        // A worker leads a group once it has work.
        process::kill_group(*pid);
    }
    left.len()
}

/// Waits for the workers of a daemon that has just ended, kills those that are left, and removes their files, if
/// nothing hinders that.
pub(crate) fn end_after(session_dir: &Path, at_most: Duration) {
    let mark = format!("HELIOSTAT_SESSION_DIR={}", session_dir.display());
    let until = Instant::now() + at_most;
    while !of(&mark).is_empty() && Instant::now() < until {
        thread::sleep(LOOK_EVERY);
    }
    end(session_dir);
}

/// Returns the ids of the workers and zygotes with that mark in their environment. The script or the title is checked,
/// too: a program that a task has started inherits the variable, and may have to outlive the worker.
fn of(mark: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_left = |pid: &u32| {
        let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let command = read("cmdline");
        let is_ours = command.starts_with(TITLE)
            || command.split(|byte| *byte == 0).any(|part| part.ends_with(SCRIPT));
        is_ours && read("environ").split(|byte| *byte == 0).any(|one| one == mark.as_bytes())
    };
    pids.filter(is_left).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command};

    use super::*;

    fn start(title: &str, variable: &str, dir: &Path) -> Child {
        let mut command = Command::new("/bin/sleep");
        command.arg0(title).arg("1000").env(variable, dir).process_group(0).spawn().unwrap()
    }

    #[test]
    fn workers_of_that_session_end_and_nothing_else() {
        let dir = std::env::temp_dir().join(format!("left-{}", std::process::id()));
        let mut left = start("ray::Actor.method", "HELIOSTAT_SESSION_DIR", &dir);
        let stopped = rustix::process::Pid::from_child(&left);
        rustix::process::kill_process(stopped, rustix::process::Signal::STOP).unwrap();
        let mut others = [
            start("sleep", "HELIOSTAT_SESSION_DIR", &dir),
            start("ray::Actor.method", "HELIOSTAT_SESSION_DIR", &dir.join("other")),
            start("ray::Actor.method", "OTHER", &dir),
        ];
        // A child has its own environment once it runs its own program.
        while of(&format!("HELIOSTAT_SESSION_DIR={}", dir.display())).is_empty() {
            thread::yield_now();
        }
        assert_eq!(end(&dir), 1);
        assert!(!left.wait().unwrap().success());
        for other in &mut others {
            assert!(other.try_wait().unwrap().is_none());
            other.kill().unwrap();
            other.wait().unwrap();
        }
    }
}
