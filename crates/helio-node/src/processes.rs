//! Worker processes: their handles, their output, and how they ended.
//!
//! The end of a process is noticed by its handle at once; how it ended is known to its parent, the
//! zygote, or to this process when the zygote died first. For that is waited a moment.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use helio_env::descriptor::{AsyncFd, register};
use helio_env::process::{self, Status};
use helio_node_state::Exit;
use helio_proto::node::LogLine;
use helio_types::WorkerId;
use tokio::task::AbortHandle;

use crate::input::{Input, Inputs};
use crate::logs::{Drained, Place, Stream, Tail};
use crate::output_files::{Bounds, Shelf};

/// Time for which the status of a process that has ended is awaited.
const STATUS_WAIT: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Processes {
    inputs: Inputs,
    folder: PathBuf,
    /// The files that keep what they print.
    shelf: Shelf,
    all: HashMap<WorkerId, Process>,
    by_pid: HashMap<u32, WorkerId>,
}

#[derive(Debug)]
struct Process {
    /// 0 until the zygote has answered, or the worker has registered.
    pid: u32,
    handle: Option<Arc<AsyncFd<OwnedFd>>>,
    watcher: Option<AbortHandle>,
    /// The process was to be killed before it was there.
    is_doomed: bool,
    has_exited: bool,
    stdout: Stream,
    stderr: Stream,
    tail: Tail,
}

impl Process {
    /// Reads both streams into lines.
    fn drain(
        &mut self,
        folder: &Path,
        worker_id: WorkerId,
        to_the_end: bool,
        shelf: &mut Shelf,
    ) -> (Vec<LogLine>, Drained) {
        let mut lines = Vec::new();
        let mut outcome = Drained::Empty;
        let pid = self.pid;
        for (stream, ending) in [(&mut self.stdout, "out"), (&mut self.stderr, "err")] {
            let path = || folder.join(format!("worker-{worker_id}-{pid}.{ending}"));
            let mut place = Place { path: &path, shelf: &mut *shelf };
            loop {
                let drained = stream.drain(pid, &mut place, &mut lines);
                if drained == Drained::More {
                    if to_the_end {
                        continue;
                    }
                    outcome = Drained::More;
                }
                break;
            }
            if to_the_end {
                stream.flush(pid, &mut place, &mut lines);
            }
        }
        self.tail.add(&lines);
        (lines, outcome)
    }

    fn rest(
        &mut self,
        folder: &Path,
        worker_id: WorkerId,
        is_stderr: bool,
        shelf: &mut Shelf,
    ) -> Vec<LogLine> {
        let mut lines = Vec::new();
        let (stream, ending) =
            if is_stderr { (&mut self.stderr, "err") } else { (&mut self.stdout, "out") };
        let pid = self.pid;
        let path = || folder.join(format!("worker-{worker_id}-{pid}.{ending}"));
        stream.rest(pid, &mut Place { path: &path, shelf }, &mut lines);
        self.tail.add(&lines);
        lines
    }
}

impl Processes {
    pub(crate) fn new(folder: PathBuf, bounds: Bounds, inputs: Inputs) -> Self {
        let shelf = Shelf::new(bounds, &folder);
        Self { inputs, folder, shelf, all: HashMap::new(), by_pid: HashMap::new() }
    }

    /// Makes room for a worker; its ends of the two pipes are returned.
    pub(crate) fn prepare(&mut self, worker_id: WorkerId) -> std::io::Result<[OwnedFd; 2]> {
        let (stdout, their_stdout) = Stream::new(worker_id, false, &self.inputs)?;
        let (stderr, their_stderr) = Stream::new(worker_id, true, &self.inputs)?;
        let process = Process {
            pid: 0,
            handle: None,
            watcher: None,
            is_doomed: false,
            has_exited: false,
            stdout,
            stderr,
            tail: Tail::default(),
        };
        self.all.insert(worker_id, process);
        Ok([their_stdout, their_stderr])
    }

    /// Whether room was made for this worker and its process is not known yet.
    pub(crate) fn is_starting(&self, worker_id: WorkerId) -> bool {
        self.all.get(&worker_id).is_some_and(|process| process.pid == 0)
    }

    /// Watches the process of a worker from now on; whether that is news.
    pub(crate) fn started(&mut self, worker_id: WorkerId, pid: u32) -> bool {
        let Some(process) = self.all.get_mut(&worker_id) else {
            // The worker was given up in the meantime.
            if let Ok(handle) = process::watch(pid) {
                process::kill_watched(handle);
            }
            return false;
        };
        if process.pid != 0 {
            return false;
        }
        process.pid = pid;
        self.by_pid.insert(pid, worker_id);
        // A process that has ended and was reaped has no handle; the zygote tells of its end.
        if let Some(handle) = process::watch(pid).ok().and_then(|handle| register(handle).ok()) {
            let handle = Arc::new(handle);
            if process.is_doomed {
                process::kill_watched(handle.get_ref());
            }
            process.watcher = Some(
                tokio::spawn(watch(Arc::clone(&handle), worker_id, self.inputs.clone()))
                    .abort_handle(),
            );
            process.handle = Some(handle);
        }
        true
    }

    pub(crate) fn kill(&mut self, worker_id: WorkerId) {
        let Some(process) = self.all.get_mut(&worker_id) else { return };
        match &process.handle {
            Some(handle) => process::kill_watched(handle.get_ref()),
            None => process.is_doomed = true,
        }
    }

    pub(crate) fn of_pid(&self, pid: u32) -> Option<WorkerId> {
        self.by_pid.get(&pid).copied()
    }

    /// Reads what a worker has written; whether there is more.
    pub(crate) fn read(&mut self, worker_id: WorkerId) -> (Vec<LogLine>, bool) {
        match self.all.get_mut(&worker_id) {
            // Before its number is known nothing can be said of it; it is read when it is.
            Some(process) if process.pid != 0 => {
                let (lines, outcome) =
                    process.drain(&self.folder, worker_id, false, &mut self.shelf);
                (lines, outcome == Drained::More)
            }
            _ => (Vec::new(), false),
        }
    }

    /// The unfinished line of one stream of a worker, which writes no more for now.
    pub(crate) fn rest(&mut self, worker_id: WorkerId, is_stderr: bool) -> Vec<LogLine> {
        let Some(process) = self.all.get_mut(&worker_id) else { return Vec::new() };
        if process.pid == 0 {
            return Vec::new();
        }
        process.rest(&self.folder, worker_id, is_stderr, &mut self.shelf)
    }

    /// Reads all that a worker has written, an unfinished line too.
    pub(crate) fn flush(&mut self, worker_id: WorkerId) -> Vec<LogLine> {
        let Some(process) = self.all.get_mut(&worker_id) else { return Vec::new() };
        process.drain(&self.folder, worker_id, true, &mut self.shelf).0
    }

    /// The process has ended. The first news of it returns its last lines, and the tail of its log.
    pub(crate) fn exited(&mut self, worker_id: WorkerId) -> Option<(Vec<LogLine>, String)> {
        let process = self.all.get_mut(&worker_id)?;
        if std::mem::replace(&mut process.has_exited, true) {
            return None;
        }
        // Processes that the worker left behind in its group end with it.
        process::kill_group(process.pid);
        let (lines, _) = process.drain(&self.folder, worker_id, true, &mut self.shelf);
        let tail = process.tail.text();
        Some((lines, tail))
    }

    pub(crate) fn forget(&mut self, worker_id: WorkerId) {
        if let Some(mut process) = self.all.remove(&worker_id) {
            process.stdout.close(&mut self.shelf);
            process.stderr.close(&mut self.shelf);
            self.by_pid.remove(&process.pid);
            if let Some(watcher) = process.watcher {
                watcher.abort();
            }
        }
    }

    /// Kills all.
    pub(crate) fn kill_all(&mut self) {
        let all: Vec<WorkerId> = self.all.keys().copied().collect();
        for worker_id in all {
            self.kill(worker_id);
        }
    }
}

async fn watch(handle: Arc<AsyncFd<OwnedFd>>, worker_id: WorkerId, inputs: Inputs) {
    if handle.readable().await.is_ok() {
        // The status comes from the process's parent; this is for when it does not come.
        tokio::time::sleep(STATUS_WAIT).await;
        let _ = inputs.send(Input::WorkerExited { worker_id, exit: Exit::Unknown }).await;
    }
}

/// The machine's word for a status.
pub(crate) fn exit_of(status: Status) -> Exit {
    match status {
        Status::Code(code) => Exit::Code(code),
        Status::Signal(signal) => Exit::Signal(signal),
    }
}
