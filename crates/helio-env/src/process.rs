//! Processes: watch, kill, reap.
//!
//! A daemon is the subreaper of all that it starts, directly or not. So a child whose parent died
//! becomes its own child, and [`reap`] collects every one: nothing else in the process may wait for
//! children.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

/// The end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The process ended with this exit code.
    Code(i32),
    /// The process was ended by this signal.
    Signal(i32),
}

impl Status {
    /// Reads what `wait` calls report.
    #[must_use]
    pub fn from_raw(raw: i32) -> Self {
        // The classic encoding: the signal in the low seven bits, else the code in the next byte.
        if raw & 0x7f == 0 { Self::Code(raw >> 8 & 0xff) } else { Self::Signal(raw & 0x7f) }
    }
}

/// Makes this process the parent of every descendant whose parent dies.
///
/// # Errors
/// When the kernel refuses.
pub fn become_subreaper() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// A handle that becomes readable when the process has ended, and by which it can be killed without
/// the danger of hitting another that has got its number since.
///
/// # Errors
/// When there is no such process.
pub fn watch(pid: u32) -> io::Result<OwnedFd> {
    Ok(rustix::process::pidfd_open(to_pid(pid)?, PidfdFlags::NONBLOCK)?)
}

/// Kills the watched process. One that has ended already is as good as killed.
pub fn kill_watched(handle: impl AsFd) {
    let _ = rustix::process::pidfd_send_signal(handle, Signal::KILL);
}

/// Kills the process, which must be a child of this one that was not reaped yet.
pub fn kill_child(pid: u32) {
    if let Ok(pid) = to_pid(pid) {
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

/// Kills what is left of the group that a process led: the children that it did not take along.
pub fn kill_group(leader: u32) {
    if let Ok(pid) = to_pid(leader) {
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    }
}

/// Asks a process to end.
pub fn terminate(pid: u32) {
    signal(pid, Signal::TERM);
}

/// Kills a process. Its number may go to another once it has ended, so look it up just before.
pub fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

fn signal(pid: u32, signal: Signal) {
    if let Ok(pid) = to_pid(pid) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Returns the begin of a process, in clock ticks since the machine's start; with the process id
/// this names it for good. `None`: there is no such process, or it has ended.
#[must_use]
pub fn began(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name, in parentheses and with whatever is in it.
    let mut rest = stat.rsplit_once(')')?.1.split_whitespace();
    let state = rest.next()?;
    (state != "Z").then_some(())?;
    rest.nth(18)?.parse().ok()
}

/// Stops all descendants of this process but the spared ones where they stand, those too that are forked meanwhile.
pub fn stop_descendants(spared: &[u32]) {
    let mut stopped = spared.to_vec();
    loop {
        let mut fresh = descendants(std::process::id());
        fresh.retain(|pid| !stopped.contains(pid));
        if fresh.is_empty() {
            return;
        }
        signal_each(&fresh, Signal::STOP);
        stopped.append(&mut fresh);
    }
}

/// Lets all descendants of this process go on, parents last: a parent that forks finds its children going.
pub fn continue_descendants() {
    let mut all = descendants(std::process::id());
    all.reverse();
    signal_each(&all, Signal::CONT);
}

fn signal_each(pids: &[u32], signal: Signal) {
    for pid in pids {
        self::signal(*pid, signal);
    }
}

/// The processes that a process has started, and those that these have started.
#[must_use]
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut found = children_of(&format!("/proc/{pid}/task"));
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        let more = children_of(&format!("/proc/{pid}/task"));
        found.extend(more);
        next += 1;
    }
    found
}

/// Collects the children that have ended.
#[must_use]
pub fn reap() -> Vec<(u32, Status)> {
    let mut ended = Vec::new();
    // ECHILD: there is no child at all.
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        ended.push((pid.as_raw_nonzero().get().unsigned_abs(), Status::from_raw(status.as_raw())));
    }
    ended
}

/// The children of this process.
#[must_use]
pub fn children() -> Vec<u32> {
    children_of("/proc/self/task")
}

/// The children of a process: each thread has a list of its own.
fn children_of(tasks: &str) -> Vec<u32> {
    let mut found = Vec::new();
    let mut listed = Vec::new();
    // The kernel's listing of threads passes others over when the one listed last ends. Such a
    // thread is not in the next listing: two that agree are whole. A process that begins and ends
    // threads all the time never shows two such: all that its listings name is then the answer.
    for _ in 0..16 {
        let threads = threads_of(tasks);
        if threads == listed {
            break;
        }
        for thread in &threads {
            let Ok(list) = fs::read_to_string(thread.join("children")) else { continue };
            found.extend(list.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        listed = threads;
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn threads_of(tasks: &str) -> Vec<PathBuf> {
    let Ok(tasks) = fs::read_dir(tasks) else { return Vec::new() };
    tasks.flatten().map(|task| task.path()).collect()
}

fn to_pid(pid: u32) -> io::Result<Pid> {
    i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn statuses_read_as_wait_reports_them() {
        assert_eq!(Status::from_raw(0x0700), Status::Code(7));
        assert_eq!(Status::from_raw(9), Status::Signal(9));
        assert_eq!(Status::from_raw(0x80 | 11), Status::Signal(11), "with a core dump");
    }

    #[test]
    #[allow(clippy::zombie_processes, reason = "the other test may collect it first")]
    fn a_child_is_listed_while_threads_end() {
        // A thread that ends hides those that are younger: the parent is the youngest of all.
        let listed = || {
            let ends = Barrier::new(65);
            std::thread::scope(|scope| {
                for _ in 0..64 {
                    scope.spawn(|| ends.wait());
                }
                let parent = scope.spawn(|| {
                    let child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
                    ends.wait();
                    let listed = (0..50).all(|_| children().contains(&child.id()));
                    kill_child(child.id());
                    listed
                });
                parent.join().unwrap()
            })
        };
        assert!((0..100).all(|_| listed()));
    }

    #[test]
    #[allow(clippy::zombie_processes, reason = "reap() is what is tested")]
    fn a_watched_child_is_killed_and_reaped() {
        let child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let handle = watch(child.id()).unwrap();
        assert!(children().contains(&child.id()));
        assert!(began(child.id()) >= began(std::process::id()));
        kill_watched(&handle);
        let ended = loop {
            let ended = reap();
            if ended.iter().any(|(pid, _)| *pid == child.id()) {
                break ended;
            }
            std::thread::yield_now();
        };
        assert!(ended.contains(&(child.id(), Status::Signal(9))));
        assert!(watch(child.id()).is_err() && began(child.id()).is_none());
    }
}
