//! The cost of a real control service at rest: the one that ships, in a process of its own, with a connection to each
//! of up to 10,000 pretended nodes ([`crowd`]).
//!
//! Its CPU time is that of its process, told by itself, with what the operating system did for it. So
//! other work on the machine counts only as far as it takes the processor's caches.

mod crowd;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use helio_control::{Health, Options, run};
use helio_storage::Memory;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::spread::Spread;
use crowd::{Beats, Crowd};

/// Descriptors of a process that are not connections of nodes.
const DESCRIPTORS: usize = 64;

/// Time that answers may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Number of heartbeats of a hundred that may stay without an answer, because two of a node came close
/// together.
const UNANSWERED_MAX: u64 = 5;

/// From one round to the next when most heartbeats are to stay without an answer: nodes are told that they
/// are heard twice a second at most.
const UNANSWERED: Duration = Duration::from_millis(100);

/// The cost of an idle cluster of some size for a real control service.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Idle {
    /// Number of nodes.
    pub n_nodes: usize,
    /// CPU time of one second in which connections are open and no heartbeat comes, in nanoseconds.
    pub ticks_ns: Spread,
    /// Additional CPU time of each heartbeat with its answer, in nanoseconds, when heartbeats come one by one.
    pub beat_ns: Spread,
    /// Additional CPU time of each heartbeat when the heartbeats of all nodes come at once.
    pub gathered_ns: Spread,
}

/// The cost of one message for a real control service that is awake, in nanoseconds; the machine's part is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Message {
    /// A heartbeat that needs no answer.
    pub receive_ns: f64,
    /// The answer to a heartbeat.
    pub answer_ns: f64,
}

/// The length of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The length of one reading, in seconds.
    pub seconds: usize,
    /// Number of readings: the median counts, and half of them tell the spread.
    pub readings: usize,
    /// The nodes have been told of each other when nothing has come for so long.
    pub quiet: Duration,
}

impl Plan {
    /// The plan for the page.
    #[must_use]
    pub fn long() -> Self {
        Self { seconds: 6, readings: 5, quiet: Duration::from_secs(3) }
    }
}

/// The child: a control service at this socket. Each line that it reads is answered with its CPU time in
/// nanoseconds; it ends with its input.
///
/// # Errors
/// When the service cannot run.
pub fn serve(socket: &Path) -> Result<(), String> {
    let options = Options {
        socket: socket.to_owned(),
        host: [127, 0, 0, 1].into(),
        port: 0,
        token: crowd::TOKEN.to_owned(),
        identity: None,
        session_name: "session_scale".to_owned(),
        health: Health::default(),
        storage: Box::new(Memory::forgetful()),
        gone: Vec::new(),
    };
    let (ready, is_ready) = mpsc::channel();
    let service = std::thread::spawn(move || {
        run(options, |it| {
            let _ = ready.send(it.handle);
        })
    });
    if let Ok(handle) = is_ready.recv() {
        answer_lines().map_err(|error| error.to_string())?;
        handle.stop("the measurement is over");
    }
    let ended = service.join().map_err(|_| "the control service panicked".to_owned())?;
    ended.map_err(|error| error.to_string())
}

fn answer_lines() -> std::io::Result<()> {
    let mut answers = std::io::stdout().lock();
    writeln!(answers, "ready")?;
    for line in std::io::stdin().lock().lines() {
        line?;
        let time = clock_gettime(ClockId::ProcessCPUTime);
        writeln!(answers, "{}", time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)?;
        answers.flush()?;
    }
    Ok(())
}

/// A control service in a process of its own.
struct Service {
    child: Child,
    lines: ChildStdin,
    answers: BufReader<ChildStdout>,
    folder: PathBuf,
}

impl Service {
    /// `program` is this one.
    fn start(program: &Path) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", program.display());
        static STARTED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = STARTED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("helio-scale-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let mut child = Command::new(program)
            .arg("control")
            .arg(folder.join("control.sock"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (Some(lines), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the control service has no pipes".to_owned());
        };
        let mut service = Self { child, lines, answers: BufReader::new(answers), folder };
        match service.answer()?.as_str() {
            "ready" => Ok(service),
            other => Err(format!("the control service said {other:?} instead of being ready")),
        }
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("control.sock")
    }

    fn answer(&mut self) -> Result<String, String> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line).map_err(|error| error.to_string())?;
        match read {
            0 => Err("the control service ended".to_owned()),
            _ => Ok(line.trim().to_owned()),
        }
    }

    /// Returns the CPU time of the service until now, in nanoseconds.
    fn cpu_ns(&mut self) -> Result<u64, String> {
        writeln!(self.lines).map_err(|error| format!("the control service ended: {error}"))?;
        self.answer()?.parse().map_err(|_| "the control service answered nonsense".to_owned())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Nothing that it has is needed any more; it may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Returns the number of nodes that the limit of descriptors allows; the limit is raised as far as
/// this process may.
#[must_use]
pub fn nodes_max() -> usize {
    let limit = getrlimit(Resource::Nofile);
    // Where it cannot be raised, it stays as it is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let most = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |most| most as usize);
    most.saturating_sub(DESCRIPTORS)
}

/// A control service, and nodes that have registered with it.
pub struct Cluster {
    service: Service,
    crowd: Crowd,
    n_nodes: usize,
    ticks_ns: Spread,
    plan: Plan,
}

impl Cluster {
    /// Starts it; `program` is this one.
    ///
    /// # Errors
    /// When a process or a connection fails.
    pub fn start(program: &Path, n_nodes: usize, plan: Plan) -> Result<Self, String> {
        let service = Service::start(program)?;
        let failed = |error: std::io::Error| format!("a node could not connect: {error}");
        let crowd = Crowd::connect(&service.socket(), n_nodes).map_err(failed)?;
        let mut cluster = Self { service, crowd, n_nodes, ticks_ns: Spread::default(), plan };
        cluster.ticks_ns = Spread::of(cluster.readings_ns(|_| {
            std::thread::sleep(Duration::from_secs(plan.seconds as u64));
            Ok(())
        })?);
        cluster.crowd.register(plan.quiet)?;
        cluster.crowd.take_traffic();
        Ok(cluster)
    }

    /// The CPU of each second while `act` lasts, in nanoseconds: some readings.
    fn readings_ns(
        &mut self,
        act: impl Fn(&mut Crowd) -> Result<(), String>,
    ) -> Result<Vec<f64>, String> {
        let mut readings = Vec::new();
        for _ in 0..self.plan.readings {
            let before = self.service.cpu_ns()?;
            act(&mut self.crowd)?;
            readings.push((self.service.cpu_ns()? - before) as f64 / self.plan.seconds as f64);
        }
        Ok(readings)
    }

    /// Lets each node send heartbeats until one is answered; how many were, in time.
    ///
    /// # Errors
    /// When the service ends.
    pub fn be_answered(&mut self) -> Result<usize, String> {
        self.crowd.be_answered(PATIENCE)
    }

    /// CPU of each heartbeat of a node that sends one a second, with its answer, in nanoseconds.
    fn beat_ns(&mut self, are_spread: bool) -> Result<Spread, String> {
        self.crowd.take_traffic();
        let beats = Beats { are_spread, ..Beats::usual(self.plan.seconds) };
        let seconds_ns = self.readings_ns(|crowd| crowd.beat(beats))?;
        let traffic = self.crowd.take_traffic();
        if traffic.answers * 100 < traffic.beats * (100 - UNANSWERED_MAX) {
            return Err(format!(
                "{} of {} heartbeats were answered: this machine is too busy for {} nodes",
                traffic.answers, traffic.beats, self.n_nodes
            ));
        }
        let (ticks_ns, n_nodes) = (self.ticks_ns.middle, self.n_nodes as f64);
        Ok(Spread::of(seconds_ns.iter().map(|second_ns| (second_ns - ticks_ns) / n_nodes)))
    }

    /// Measures the cost of the nodes at rest.
    ///
    /// # Errors
    /// When the service ends, or too few heartbeats are answered.
    pub fn idle(&mut self) -> Result<Idle, String> {
        let (n_nodes, ticks_ns) = (self.n_nodes, self.ticks_ns);
        let (beat_ns, gathered_ns) = (self.beat_ns(true)?, self.beat_ns(false)?);
        Ok(Idle { n_nodes, ticks_ns, beat_ns, gathered_ns })
    }

    /// Derives the cost of a message from that of heartbeats that come at once: with few answers, and (`gathered_ns`)
    /// with an answer to each.
    ///
    /// # Errors
    /// When the service ends.
    pub fn message(&mut self, gathered_ns: f64) -> Result<Message, String> {
        self.crowd.take_traffic();
        let seconds = Duration::from_secs(self.plan.seconds as u64);
        let rounds = (seconds.as_nanos() / UNANSWERED.as_nanos()) as usize;
        let beats = Beats { rounds, every: UNANSWERED, are_spread: false };
        let second_ns = Spread::of(self.readings_ns(|crowd| crowd.beat(beats))?).middle;
        let traffic = self.crowd.take_traffic();
        let each_ns = (second_ns - self.ticks_ns.middle) * seconds.as_secs_f64()
            / (rounds * self.n_nodes) as f64;
        let answered = traffic.answers as f64 / traffic.beats.max(1) as f64;
        // each = receive + answered * answer, and gathered = receive + answer.
        let answer_ns = (gathered_ns - each_ns) / (1.0 - answered);
        Ok(Message { receive_ns: gathered_ns - answer_ns, answer_ns })
    }
}
