//! The zygote, seen from the daemon: a Python process that forks workers when told to.
//!
//! Requests and answers are datagrams of JSON on a SOCK_SEQPACKET pair whose other end the zygote has
//! as its standard input; `python/heliostat/core/worker/zygote.py` describes them. A zygote that ends is
//! started again; what it had not answered counts as not started, and the state machine tries again or
//! gives up.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use helio_env::descriptor::{AsyncFd, register};
use helio_env::process::{self, Status};
use helio_node_state::Spawn;
use helio_types::WorkerId;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
    SocketType,
};
use tokio::io::Interest;
use tokio::sync::mpsc;

use crate::input::{Input, Inputs, ZygoteAnswer as Answer, ZygoteKind as Kind};

/// Shortest life of a zygote that counts; after so many shorter ones in a row it is started only when
/// it is needed, and not more often than once in this time. One that dies while it loads modules is
/// not started again: workers start without them.
const LIFE_MIN: Duration = Duration::from_secs(1);
const FAILED_STARTS_MAX: u32 = 3;

/// Blanks at the end of the zygote's command line: workers write their titles there, and must not write on
/// into the environment behind it.
const TITLE_ROOM: usize = 128;

/// The longest answer.
const ANSWER_MAX: usize = 64 << 10;

#[derive(Clone, Debug)]
pub(crate) struct ZygoteOptions {
    pub(crate) python: PathBuf,
    pub(crate) script: PathBuf,
    /// Environment variables that every worker has.
    pub(crate) env: BTreeMap<String, String>,
    /// The file for the zygote's own output.
    pub(crate) log: PathBuf,
}

#[derive(Debug)]
pub(crate) struct Zygote {
    kind: Kind,
    options: ZygoteOptions,
    /// The modules that the zygote loads before it forks.
    modules: Vec<String>,
    inputs: Inputs,
    /// `None`: it could not be started, and why.
    running: Result<Running, String>,
    /// Told to start and not answered.
    unanswered: HashSet<WorkerId>,
    generation: u64,
    /// The time at which the zygote was last started.
    started_at: Option<Instant>,
    /// The zygote was told to load modules and has not answered.
    is_loading: bool,
    failed_starts: u32,
}

#[derive(Debug)]
struct Running {
    pid: u32,
    requests: mpsc::UnboundedSender<Request>,
}

#[derive(Debug)]
struct Request {
    json: Vec<u8>,
    /// A worker's output.
    streams: Option<[OwnedFd; 2]>,
}

impl Zygote {
    pub(crate) fn start(kind: Kind, options: ZygoteOptions, inputs: Inputs) -> Self {
        let mut zygote = Self::when_asked(kind, options, inputs);
        zygote.restart();
        zygote
    }

    /// Makes a zygote that is started by the first request.
    pub(crate) fn when_asked(kind: Kind, options: ZygoteOptions, inputs: Inputs) -> Self {
        Self {
            kind,
            options,
            modules: Vec::new(),
            inputs,
            running: Err(String::new()),
            unanswered: HashSet::new(),
            generation: 0,
            started_at: None,
            is_loading: false,
            failed_starts: 0,
        }
    }

    fn restart(&mut self) {
        self.generation += 1;
        self.started_at = Some(Instant::now());
        self.running = self.spawn().map_err(|error| {
            let (python, script) = (self.options.python.display(), self.options.script.display());
            format!("`{python} {script}` could not be run: {error}")
        });
        if !self.modules.is_empty() {
            self.send_modules();
        }
    }

    /// Has it load these modules before it forks again.
    pub(crate) fn load(&mut self, modules: Vec<String>) {
        self.modules = modules;
        self.send_modules();
    }

    fn send_modules(&mut self) {
        self.is_loading = true;
        let json = serde_json::json!({ "load": self.modules }).to_string().into_bytes();
        if let Ok(running) = &self.running {
            // One that has just ended is started again, and told again.
            let _ = running.requests.send(Request { json, streams: None });
        }
    }

    pub(crate) fn has_loaded(&mut self) {
        self.is_loading = false;
    }

    /// Whether its last start is long enough ago for another one.
    fn has_lived(&self) -> bool {
        self.started_at.is_none_or(|at| at.elapsed() > LIFE_MIN)
    }

    /// Whether it can be asked; one that cannot live is not.
    pub(crate) fn is_there(&self) -> bool {
        self.running.is_ok()
    }

    fn spawn(&self) -> io::Result<Running> {
        let flags = SocketFlags::CLOEXEC;
        // Packets, for each answer is read whole or not at all.
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        let log = std::fs::File::options().create(true).append(true).open(&self.options.log)?;
        let child = Command::new(&self.options.python)
            .arg(&self.options.script)
            .arg("0")
            .arg(" ".repeat(TITLE_ROOM))
            .envs(&self.options.env)
            .stdin(Stdio::from(theirs))
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let (requests, receiver) = mpsc::unbounded_channel();
        let channel = Arc::new(register(ours)?);
        tokio::spawn(send_all(Arc::clone(&channel), receiver));
        tokio::spawn(receive_all(channel, self.kind, self.generation, self.inputs.clone()));
        Ok(Running { pid: child.id(), requests })
    }

    /// Asks for a worker whose output goes to `streams`. The number of requests is bounded by how many
    /// workers may be starting.
    pub(crate) fn fork(&mut self, spawn: &Spawn, streams: [OwnedFd; 2]) {
        let json = serde_json::json!({
            "worker_id": spawn.worker_id.hex(),
            "job_id": spawn.job_id.hex(),
            "env": spawn.env,
            "cwd": spawn.cwd,
        });
        let request = Request { json: json.to_string().into_bytes(), streams: Some(streams) };
        // One that was begun just now and is gone would most likely go again.
        if self.running.is_err() && self.has_lived() {
            self.restart();
        }
        let sent = match &self.running {
            Ok(running) => {
                running.requests.send(request).map_err(|_| "the zygote has just ended".to_owned())
            }
            Err(why) => Err(why.clone()),
        };
        match sent {
            Ok(()) => {
                self.unanswered.insert(spawn.worker_id);
            }
            Err(why) => {
                let answer = Answer::Failed { worker_id: spawn.worker_id, why };
                // Told like an answer of the zygote's: the core is in the middle of another event.
                let (kind, inputs) = (self.kind, self.inputs.clone());
                tokio::spawn(async move { inputs.send(Input::Zygote(kind, answer)).await });
            }
        }
    }

    pub(crate) fn answered(&mut self, worker_id: WorkerId) {
        self.unanswered.remove(&worker_id);
    }

    /// The zygote of that generation is gone; those who were to be started by it are returned.
    pub(crate) fn lost(&mut self, generation: u64) -> Vec<WorkerId> {
        if generation != self.generation {
            return Vec::new();
        }
        self.failed_starts = if self.has_lived() { 0 } else { self.failed_starts + 1 };
        // The modules are the likely cause of its death.
        if self.failed_starts < FAILED_STARTS_MAX && !self.is_loading {
            self.restart();
        } else {
            let words = self.last_words();
            self.running = Err(format!("the process that forks workers cannot live: {words}"));
        }
        let mut lost: Vec<WorkerId> = self.unanswered.drain().collect();
        lost.sort_unstable();
        lost
    }

    /// The last words of a zygote that could not live.
    pub(crate) fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.options.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(10).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.running.as_ref().ok().map(|running| running.pid)
    }

    pub(crate) fn kill(&self) {
        if let Ok(running) = &self.running {
            process::kill_child(running.pid);
        }
    }
}

async fn send_all(channel: Arc<AsyncFd<OwnedFd>>, mut requests: mpsc::UnboundedReceiver<Request>) {
    while let Some(request) = requests.recv().await {
        let fds: Vec<_> = request.streams.iter().flatten().map(AsFd::as_fd).collect();
        let sent = channel
            .async_io(Interest::WRITABLE, |socket| {
                let mut space =
                    [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
                let mut ancillary = SendAncillaryBuffer::new(&mut space);
                if !fds.is_empty() {
                    assert!(
                        ancillary.push(SendAncillaryMessage::ScmRights(&fds)),
                        "the space was made for two"
                    );
                }
                let parts = [io::IoSlice::new(&request.json)];
                Ok(rustix::net::sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL)?)
            })
            .await;
        if let Err(error) = sent {
            // The reader notices, too, and has the zygote replaced.
            tracing::warn!(%error, "the zygote did not take a request");
            return;
        }
    }
}

async fn receive_all(channel: Arc<AsyncFd<OwnedFd>>, kind: Kind, generation: u64, inputs: Inputs) {
    let mut buffer = vec![0; ANSWER_MAX];
    loop {
        let received = channel
            .async_io(Interest::READABLE, |socket| {
                Ok(rustix::net::recv(socket, &mut buffer[..], RecvFlags::empty())?)
            })
            .await;
        let length = match received {
            Ok((0, _)) | Err(_) => break,
            Ok((length, _)) => length,
        };
        match parse(&buffer[..length]) {
            Some(answer) => {
                if inputs.send(Input::Zygote(kind, answer)).await.is_err() {
                    return;
                }
            }
            None => tracing::warn!("the zygote sent an unknown answer"),
        }
    }
    let _ = inputs.send(Input::ZygoteLost { kind, generation }).await;
}

fn parse(json: &[u8]) -> Option<Answer> {
    let value: serde_json::Value = serde_json::from_slice(json).ok()?;
    let number = |name: &str| {
        value.get(name).and_then(serde_json::Value::as_u64).and_then(|n| u32::try_from(n).ok())
    };
    if value.get("loaded").is_some() {
        return Some(Answer::Loaded);
    }
    if let Some(pid) = number("exited") {
        let raw = i32::try_from(number("status")?).ok()?;
        return Some(Answer::Exited { pid, status: Status::from_raw(raw) });
    }
    let worker_id = WorkerId::from_hex(value.get("worker_id")?.as_str()?).ok()?;
    match value.get("error").and_then(|error| error.as_str()) {
        Some(why) => Some(Answer::Failed { worker_id, why: why.to_owned() }),
        None => Some(Answer::Started { worker_id, pid: number("pid")? }),
    }
}
