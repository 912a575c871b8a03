//! What happens to a node and what it does about it.

use std::collections::BTreeMap;

use helio_proto::cluster::{ControlToNode, NodeToControl, NodeToNode};
use helio_proto::control::GpuUse;
use helio_proto::hello::Role;
use helio_proto::inspect::Answer;
use helio_proto::node::{ClientToNode, LogLine, NodeToClient};
use helio_types::{JobId, NodeAddress, NodeId, ObjectId, WorkerId};

use crate::memory::MemoryUse;

/// A connection that was accepted, by a client or another daemon; the shell counts them and never
/// uses a number twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Conn(pub u64);

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Nobody saw.
    Unknown,
}

/// Why the disk did not do it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskError {
    /// There is no room on it.
    pub is_full: bool,
    /// A sentence.
    pub text: String,
}

/// What happens.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A driver, worker or observer has passed the handshake.
    ClientOpened {
        /// Its connection.
        conn: Conn,
        /// What it says it is.
        role: Role,
        /// The node it runs on.
        node_id: NodeId,
        /// Whether it came over the UNIX socket.
        is_local: bool,
    },
    /// It sent a message.
    ClientSaid {
        /// Its connection.
        conn: Conn,
        /// The message.
        message: ClientToNode,
    },
    /// Its connection ended.
    ClientClosed {
        /// Which.
        conn: Conn,
    },
    /// A process was made for the worker.
    WorkerStarted {
        /// Which.
        worker_id: WorkerId,
        /// The process.
        pid: u32,
    },
    /// None could be made.
    WorkerNotStarted {
        /// Which.
        worker_id: WorkerId,
        /// Why.
        why: String,
    },
    /// The worker's process ended.
    WorkerExited {
        /// Which.
        worker_id: WorkerId,
        /// How.
        exit: Exit,
        /// The last lines that it wrote.
        log_tail: String,
    },
    /// A worker wrote lines.
    WorkerWrote {
        /// Which.
        worker_id: WorkerId,
        /// The lines, without `host`.
        lines: Vec<LogLine>,
    },
    /// The control service was reached and will answer the registration.
    ControlConnected,
    /// It sent a message.
    ControlSaid(ControlToNode),
    /// The connection to it ended.
    ControlLost,
    /// Its machine is there, and nobody listens at its port.
    ControlRefused,
    /// Another daemon sent a message.
    PeerSaid {
        /// Over this connection.
        conn: Conn,
        /// Who.
        node_id: NodeId,
        /// The message.
        message: NodeToNode,
    },
    /// A connection to another daemon ended, or could not be made.
    PeerLost {
        /// The connection; `None`: none could be made.
        conn: Option<Conn>,
        /// To whom.
        node_id: NodeId,
    },
    /// An object was read out, or its reader is gone.
    Served {
        /// The reader's connection.
        conn: Conn,
        /// Its request.
        request_id: u64,
    },
    /// An object was written to disk, or not.
    Spilled {
        /// Which.
        object_id: ObjectId,
        /// Why not.
        outcome: Result<(), DiskError>,
    },
    /// An object was read from disk, or not.
    Restored {
        /// Which.
        object_id: ObjectId,
        /// Why not.
        outcome: Result<(), DiskError>,
    },
    /// The disk keeps room for a range of the overflow file, or has none.
    Reserved {
        /// Where the range begins.
        offset: u64,
        /// Why not.
        outcome: Result<(), DiskError>,
    },
    /// The process that has modules loaded is ready to fork, or gone.
    Loaded {
        /// Whether it is ready.
        is_ready: bool,
    },
    /// Somebody wants the measurements of the node and its processes; [`Action::Scraped`] follows.
    Scrape {
        /// Echoed.
        number: u64,
    },
    /// What the machine's memory is used for, while workers run something.
    MemoryRead(MemoryUse),
    /// How busy the machine's GPUs are, in place of what was known of them.
    GpusRead(Vec<GpuUse>),
    /// Time has passed; see [`crate::Node::deadline`].
    Tick,
}

/// A worker process to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spawn {
    /// Which.
    pub worker_id: WorkerId,
    /// Whose code it will run.
    pub job_id: JobId,
    /// Environment variables of its runtime environment.
    pub env: BTreeMap<String, String>,
    /// Where it runs; `None`: in the session's folder.
    pub cwd: Option<String>,
    /// Whether to fork it from the process that has modules loaded.
    pub is_loaded: bool,
}

/// What is to be done.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Send to a client.
    Send {
        /// Its connection.
        conn: Conn,
        /// The message; the store's memory file goes with a `Registered` whose `arena_size` is set.
        message: NodeToClient,
    },
    /// End a connection after what was sent; [`Event::ClientClosed`] follows.
    Close {
        /// Which.
        conn: Conn,
        /// The protocol violation to log; empty: none.
        why: String,
    },
    /// Send to the control service; kept while it cannot be reached.
    Control(NodeToControl),
    /// Send to another daemon, connecting to it if need be.
    Ask {
        /// Whom.
        to: NodeAddress,
        /// The message.
        message: NodeToNode,
    },
    /// Send to another daemon over the connection on which it asked.
    Answer {
        /// The connection.
        conn: Conn,
        /// The message.
        message: NodeToNode,
    },
    /// Stream an object's bytes to another daemon; [`Event::Served`] follows.
    Serve {
        /// Its connection.
        conn: Conn,
        /// Its request.
        request_id: u64,
        /// Where the bytes are.
        offset: u64,
        /// How many.
        size: u64,
    },
    /// Stop streaming; [`Event::Served`] follows all the same.
    StopServing {
        /// The reader's connection.
        conn: Conn,
        /// Its request.
        request_id: u64,
    },
    /// Write into the store's memory.
    Write {
        /// Where.
        offset: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// Write an object to disk; [`Event::Spilled`] follows.
    Spill {
        /// Which.
        object_id: ObjectId,
        /// Where its bytes are.
        offset: u64,
        /// How many.
        size: u64,
    },
    /// Read an object from disk; [`Event::Restored`] follows.
    Restore {
        /// Which.
        object_id: ObjectId,
        /// Where its bytes go.
        offset: u64,
        /// How many.
        size: u64,
    },
    /// Have the disk keep room for a range of the overflow file; [`Event::Reserved`] follows.
    Reserve {
        /// Where it begins.
        offset: u64,
        /// How long it is.
        size: u64,
    },
    /// A range of the overflow file is not needed any more.
    Punch {
        /// Where it begins.
        offset: u64,
        /// How long it is.
        size: u64,
    },
    /// The object's file is not needed any more.
    RemoveFile {
        /// Which.
        object_id: ObjectId,
    },
    /// Make a worker process.
    Spawn(Spawn),
    /// Have a process that has these modules loaded, to fork workers from; [`Event::Loaded`] follows.
    Load {
        /// Which, in the order in which they are loaded.
        modules: Vec<String>,
    },
    /// That process is not needed any more.
    Unload,
    /// Kill a worker's process at once.
    Kill {
        /// Which.
        worker_id: WorkerId,
    },
    /// Everything about the worker is over: its socket file and pipes can go.
    Forget {
        /// Which.
        worker_id: WorkerId,
    },
    /// Read all that these workers have written so far, then answer the request.
    FlushLogs {
        /// Who asks.
        conn: Conn,
        /// Its request.
        request_id: u64,
        /// Whose lines.
        workers: Vec<WorkerId>,
    },
    /// The measurements.
    Scraped {
        /// The number of the question.
        number: u64,
        /// One for each process that answered, the node's own first.
        answers: Vec<Answer>,
    },
    /// [`crate::Node::info`] has changed.
    StatusChanged,
    /// Try a new connection to the control service beside the one that is silent.
    ReachControl,
    /// Stop all workers where they stand, those that are just being made too.
    Suspend,
    /// Let them go on.
    Resume,
    /// End like [`Action::ShutDown`], then start anew as another node.
    Rejoin {
        /// Why.
        reason: String,
    },
    /// End the daemon.
    ShutDown {
        /// Why.
        reason: String,
    },
}
