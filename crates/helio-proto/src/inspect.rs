//! Questions to processes about themselves: what they own, do and measure.
//!
//! Nobody tells what nobody asks: rows are made when a [`Question`] arrives. A client asks its own
//! node's daemon ([`Inspect`]), which asks the processes of its node ([`Asked`]) and, unless told
//! otherwise, the other nodes' daemons, and puts the answers together ([`Inspected`]). Who does not
//! answer in time is counted as silent. A process that ends leaves its rows of calls with its daemon
//! ([`LastWords`]).

use helio_types::{ActorId, JobId, NodeId, ObjectId, ResourceSet, TaskId, WorkerId};

use crate::raw::Raw;
use crate::wire::{messages, numbers};

numbers! {
    /// The topic of a question.
    pub enum Topic {
        /// Calls that a process has made: unfinished ones, and the latest of those that ended.
        #[default]
        Tasks = 1,
        /// Objects to which a process holds references.
        Objects = 2,
        /// Processes; daemons answer.
        Workers = 3,
        /// The reason why the thing with the id waits (WHY-1).
        Why = 4,
        /// The current values of all measurements.
        Metrics = 5,
        /// The locations of given objects: their owners answer, and daemons for the copies that they have.
        Places = 6,
    }
}

/// Maximum number of rows of one kind that a process gives; it says how many it has.
pub const ROWS_MAX: u32 = 10_000;

/// The description of the measurement `actors`, which processes and the head make.
pub const ACTORS: &str =
    "Actors by state: as the head knows them, and as the processes in which they live do";

/// Number of rows of calls that a process leaves behind when it ends.
pub const LAST_ROWS_MAX: u32 = 1_000;

messages! {
    pub struct Question {
        1 topic: Topic,
        /// For [`Topic::Why`]: a task or an object.
        2 id: Vec<u8>,
        /// Rows of each process at most; 0: [`ROWS_MAX`].
        3 limit: u32,
        /// For [`Topic::Places`].
        4 objects: Vec<ObjectId>,
        /// For [`Topic::Tasks`]: only calls that were made, sent or over within so many milliseconds, what is over
        /// first; 0: all.
        5 within_ms: u32,
        /// For [`Topic::Tasks`]: who asks again and again, by a number of its own. A process that was asked by it before
        /// goes by that moment instead of `within_ms`, and one that was not tells of all; 0: nobody.
        6 follower: u64,
        /// For [`Topic::Tasks`], with `within_ms`: all calls that are not over as well, and counts of those without a row.
        7 is_open: bool,
    }
    /// A client asks.
    pub struct Inspect {
        1 request_id: u64,
        2 question: Question,
        /// Only the processes of this node.
        3 own_node_only: bool,
    }
    /// A process is about to end: what it knows of calls.
    pub struct LastWords { 1 answer: Answer }
    /// A daemon asks a process, or another daemon.
    pub struct Asked { 1 request_id: u64, 2 question: Question }
    /// A process answers its daemon, which passes the answer on.
    pub struct Answered { 1 request_id: u64, 2 answer: Raw<Answer> }
    /// A daemon answers.
    pub struct Inspected {
        1 request_id: u64,
        2 answers: Vec<Raw<Answer>>,
        /// Number of processes and daemons that did not answer in time.
        3 silent: u32,
    }
    /// The answer of one process.
    pub struct Answer {
        1 worker_id: WorkerId,
        2 node_id: NodeId,
        3 host: String,
        4 pid: u32,
        5 is_driver: bool,
        6 job_id: JobId,
        7 tasks: Vec<TaskRow>,
        8 objects: Vec<ObjectRow>,
        9 workers: Vec<WorkerRow>,
        10 metrics: Vec<Metric>,
        /// The reason why the thing asked for waits; empty: this process does not know it.
        11 why: String,
        /// Number of rows before the limit.
        12 total: u64,
        /// A daemon speaks, of its node.
        13 is_daemon: bool,
        /// The process has ended, and its daemon tells what it said last.
        14 is_over: bool,
        /// Calls of others that were sent here and have not begun, the first ones: those who made the calls
        /// cannot tell them from calls that run.
        15 queued: Vec<TaskId>,
        /// Calls of which there are no rows, counted: those beyond the limit, and those that are forgotten.
        16 more: Vec<TaskCount>,
        /// More calls have changed within the time of the question than there are rows of.
        17 is_gapped: bool,
        /// The environments on the node, of daemons, with [`Topic::Workers`].
        18 environments: Vec<EnvironmentRow>,
        /// The usage of the machine, of daemons, with [`Topic::Workers`].
        19 machine: MachineUse,
    }
    /// The usage of a machine in the last seconds.
    pub struct MachineUse {
        /// CPUs; 0: nothing is known of it.
        1 cpus: u32,
        /// The usage of all CPUs together, in tenths of a percent.
        2 cpu_permille: u32,
        /// The machine's memory, in bytes.
        3 memory: u64,
        4 memory_used: u64,
        /// Bytes a second.
        5 disk_read_per_s: u64,
        6 disk_written_per_s: u64,
        7 received_per_s: u64,
        8 sent_per_s: u64,
    }
    /// A runtime environment in which workers of a node were started, or were to be.
    pub struct EnvironmentRow {
        /// The document of the environment; see [`crate::environment::RuntimeEnv::document`].
        1 runtime_env: String,
        /// Milliseconds until the first worker was ready; 0: none was.
        2 made_in_ms: u64,
        /// Number of workers that were started in the environment.
        3 starts: u64,
        /// The reason why the last worker did not start; empty: it did.
        4 error: String,
        /// The bytes that its packages and folders take on the disk, as far as workers have told.
        5 size: u64,
    }
    /// The number of calls of one name in one phase.
    pub struct TaskCount {
        /// The name of the function or the method; empty: of several.
        1 name: String,
        /// The actor of a method; nil for plain tasks.
        2 actor_id: ActorId,
        3 phase: TaskPhase,
        4 count: u64,
    }
    /// A call.
    pub struct TaskRow {
        1 task_id: TaskId,
        /// Number of earlier attempts of the call.
        2 attempt: u32,
        3 name: String,
        4 phase: TaskPhase,
        /// The actor of a method; nil for plain tasks.
        5 actor_id: ActorId,
        6 parent: TaskId,
        /// The node on which the call runs or ran; nil: none yet.
        7 node_id: NodeId,
        8 worker_id: WorkerId,
        /// Milliseconds since 1970; 0: not yet.
        9 created_ms: u64,
        10 started_us: u64,
        11 ended_us: u64,
        /// The kind of the call's error, in the name of Ray's state API; empty: it did not fail.
        12 error_type: String,
        13 error_message: String,
        /// The reason why the call waits, as far as its owner knows (WHY-1).
        14 why: String,
        15 resources: ResourceSet,
        /// Told by the process that runs or ran it, since the one that made it is gone. Who made it in which
        /// call, and when, is not known.
        16 is_hearsay: bool,
        /// The process that made the call, of hearsay.
        17 maker: WorkerId,
    }
    /// A reference to an object.
    pub struct ObjectRow {
        1 object_id: ObjectId,
        /// Bytes; 0: not known yet.
        2 size: u64,
        /// Handles in the process.
        3 local: u32,
        /// Arguments of unfinished calls, values that contain it.
        4 uses: u32,
        5 borrowers: u32,
        /// Whether another process owns it.
        6 is_borrowed: bool,
        7 is_ready: bool,
        8 is_error: bool,
        /// The value is in an object store.
        9 is_stored: bool,
        /// The object stands for an actor's handles.
        10 is_handle: bool,
        /// Mapped by the process.
        11 is_pinned: bool,
        12 attempt: u32,
        /// The nodes that have the value, as far as the process knows.
        13 nodes: Vec<NodeId>,
        /// A daemon speaks: it has the value on disk.
        14 is_on_disk: bool,
        /// The place in the user's code that made the object; empty: that was not recorded.
        15 call_site: String,
    }
    /// A process of a node.
    pub struct WorkerRow {
        1 worker_id: WorkerId,
        2 pid: u32,
        3 is_alive: bool,
        4 is_driver: bool,
        5 job_id: JobId,
        /// `starting`, `idle`, `leased`, `actor`, `ending`; empty for drivers and the dead.
        6 usage: String,
        /// The kind of the worker's end.
        7 exit_type: String,
        8 exit_detail: String,
        9 resources: ResourceSet,
        /// [`crate::environment::RuntimeEnv::document`]; empty: none.
        10 runtime_env: String,
        /// Milliseconds from the worker's end to the answer; 0: it has not ended, or that is unknown.
        20 ended_ago_ms: u64,
        /// The time at which the worker was begun, in milliseconds since 1970; 0: not known.
        21 begun_ms: u64,
        /// The time at which the worker said that it serves, in milliseconds since 1970; 0: not known, or not yet.
        22 serving_ms: u64,
    }
    /// A measurement and all its series.
    pub struct Metric {
        1 name: String,
        2 description: String,
        3 kind: MetricKind,
        /// Upper bounds of a histogram's buckets.
        4 boundaries: Vec<f64>,
        5 series: Vec<Series>,
    }
    pub struct Series {
        1 tags: Vec<Tag>,
        /// The value, or a histogram's sum.
        2 value: f64,
        /// Number of values in each bucket, the last one without an upper bound.
        3 counts: Vec<u64>,
    }
    pub struct Tag { 1 key: String, 2 value: String }
}

numbers! {
    /// The phase of a call; names are those of Ray's state API.
    pub enum TaskPhase {
        /// The call waits for arguments.
        #[default]
        WaitsForArgs = 0,
        /// The call waits for a worker.
        WaitsForWorker = 1,
        /// A method whose actor is not there yet, or that waits behind others.
        WaitsForActor = 2,
        /// A worker has it; it may have begun.
        Sent = 3,
        /// The call waits for the time of its next attempt.
        WaitsForRetry = 4,
        /// The call returned a value.
        Finished = 5,
        /// The call raised, or its worker died.
        Failed = 6,
    }
}

/// The answers to a question, of which daemons had passed the bytes on.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Answers {
    /// The answers of processes and daemons.
    pub answers: Vec<Answer>,
    /// Number of processes and daemons that did not answer in time, or not in a form that can be read.
    pub silent: u32,
}

impl Inspected {
    /// Reads the answers.
    #[must_use]
    pub fn read(&self) -> Answers {
        let answers: Vec<Answer> = self.answers.iter().filter_map(|one| one.read().ok()).collect();
        let broken = (self.answers.len() - answers.len()) as u32;
        Answers { answers, silent: self.silent + broken }
    }
}

impl TaskPhase {
    /// The name that Ray's state API gives it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::WaitsForArgs => "PENDING_ARGS_AVAIL",
            Self::WaitsForWorker | Self::WaitsForRetry => "PENDING_NODE_ASSIGNMENT",
            Self::WaitsForActor => "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY",
            Self::Sent => "RUNNING",
            Self::Finished => "FINISHED",
            Self::Failed => "FAILED",
        }
    }

    /// Whether the call is over.
    #[must_use]
    pub fn is_over(self) -> bool {
        matches!(self, Self::Finished | Self::Failed)
    }
}

numbers! {
    /// The kind of a measurement.
    pub enum MetricKind {
        /// A count of events, which never falls while the process lives.
        #[default]
        Counter = 0,
        /// A value that goes up and down.
        Gauge = 1,
        /// Counts of values between boundaries.
        Histogram = 2,
    }
}

impl Metric {
    /// A measurement that goes up and down; `name` without the prefix that all have when they are shown.
    #[must_use]
    pub fn gauge(name: &str, description: &str, series: Vec<Series>) -> Self {
        let (name, description) = (name.to_owned(), description.to_owned());
        Self { name, description, kind: MetricKind::Gauge, boundaries: Vec::new(), series }
    }

    /// A count of events.
    #[must_use]
    pub fn counter(name: &str, description: &str, series: Vec<Series>) -> Self {
        Self { kind: MetricKind::Counter, ..Self::gauge(name, description, series) }
    }
}

impl Series {
    /// A value with these tags.
    #[must_use]
    pub fn of<const N: usize>(value: f64, tags: [(&str, &str); N]) -> Self {
        let tag = |(key, value): (&str, &str)| Tag { key: key.to_owned(), value: value.to_owned() };
        Self { tags: tags.map(tag).into(), value, counts: Vec::new() }
    }
}
