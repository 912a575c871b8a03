//! Events that happen to a node, and its actions.

use std::collections::BTreeMap;

use helio_proto::cluster::{ControlToNode, NodeToControl, NodeToNode};
use helio_proto::control::GpuUse;
use helio_proto::hello::Role;
use helio_proto::inspect::{Answer, MachineUse};
use helio_proto::node::{ClientToNode, LogLine, NodeToClient, WhyReply};
use helio_types::{JobId, NodeAddress, NodeId, ObjectId, WorkerId};

use crate::memory::MemoryUse;

/// A connection that was accepted, by a client or another daemon; the shell counts them and never
/// uses a number twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Conn(pub u64);

/// The end of a process: its exit code, or a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// The process ended with this exit code.
    Code(i32),
    /// The process was ended by this signal.
    Signal(i32),
    /// The process is gone, and its exit status is not known.
    Unknown,
}

/// The cause for which the disk failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskError {
    /// Whether the disk has no room.
    pub is_full: bool,
    /// The system's error, in a sentence.
    pub text: String,
}

/// An event, as the shell tells the machine.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A driver, worker or observer has passed the handshake.
    ClientOpened {
        /// The client's connection.
        conn: Conn,
        /// The role that the connector claims.
        role: Role,
        /// The node it runs on.
        node_id: NodeId,
        /// Whether it came over the UNIX socket.
        is_local: bool,
    },
    /// The client sent a message.
    ClientSaid {
        /// The client's connection.
        conn: Conn,
        /// The message.
        message: ClientToNode,
    },
    /// The client's connection ended.
    ClientClosed {
        /// The connection that ended.
        conn: Conn,
    },
    /// A process was made for the worker.
    WorkerStarted {
        /// The worker's id, as in [`Action::Spawn`].
        worker_id: WorkerId,
        /// The process.
        pid: u32,
    },
    /// The shell could not make a worker process.
    WorkerNotStarted {
        /// The id of the worker that was to be.
        worker_id: WorkerId,
        /// The system's error, in a sentence.
        why: String,
    },
    /// The worker's process ended.
    WorkerExited {
        /// The id of the worker that ended.
        worker_id: WorkerId,
        /// The exit code or signal of the process.
        exit: Exit,
        /// The last lines that it wrote.
        log_tail: String,
    },
    /// A worker wrote lines.
    WorkerWrote {
        /// The worker that wrote them.
        worker_id: WorkerId,
        /// The lines, without `host`.
        lines: Vec<LogLine>,
    },
    /// The control service was reached and will answer the registration.
    ControlConnected,
    /// The control service sent a message.
    ControlSaid(ControlToNode),
    /// The connection to it ended.
    ControlLost,
    /// The control service's machine refused a connection: nobody listens at its port.
    ControlRefused,
    /// Another head has taken the cluster over.
    HeadMoved {
        /// The head's address, `host:port`.
        address: String,
    },
    /// A message of another daemon arrived.
    PeerSaid {
        /// The connection over which it came.
        conn: Conn,
        /// The sender.
        node_id: NodeId,
        /// The message.
        message: NodeToNode,
    },
    /// A connection to another daemon ended, or could not be made.
    PeerLost {
        /// The connection; `None`: none could be made.
        conn: Option<Conn>,
        /// The other daemon's node.
        node_id: NodeId,
    },
    /// An object was read out, or its reader is gone.
    Served {
        /// The reader's connection.
        conn: Conn,
        /// The reader's number for the transfer, as in [`Action::Serve`].
        request_id: u64,
    },
    /// A part of an object has been received ([`Action::Receive`]).
    ReceivedSome {
        /// The number of the pull.
        request_id: u64,
        /// The bytes that have come, in all.
        received: u64,
    },
    /// An object was received ([`Action::Receive`]), or not.
    Received {
        /// The number of the pull.
        request_id: u64,
        /// Whether all bytes came, or why some did not.
        outcome: Result<(), String>,
    },
    /// An object was written to disk, or not.
    Spilled {
        /// The object, as in [`Action::Spill`].
        object_id: ObjectId,
        /// The checksum of what was written; the disk's error if there is no copy on it.
        outcome: Result<u32, DiskError>,
    },
    /// An object was read from disk, or not.
    Restored {
        /// The object, as in [`Action::Restore`].
        object_id: ObjectId,
        /// The checksum of what was read; the disk's error if the object's bytes were not read.
        outcome: Result<u32, DiskError>,
    },
    /// The disk keeps room for a range of the overflow file, or has none.
    Reserved {
        /// The begin of the range, as an offset.
        offset: u64,
        /// The disk's error if it keeps no room.
        outcome: Result<(), DiskError>,
    },
    /// The process that has modules loaded is ready to fork, or gone.
    Loaded {
        /// Whether it is ready.
        is_ready: bool,
    },
    /// The node's machine will be taken away: it drains itself.
    Preempted {
        /// The reason, in words.
        reason: String,
        /// Milliseconds until the machine is taken away.
        grace_ms: u64,
    },
    /// The measurements of the node and its processes are asked for; [`Action::Scraped`] follows.
    Scrape {
        /// The number of the question, which the answer repeats.
        number: u64,
    },
    /// The usage of the machine's memory, while workers run something.
    MemoryRead(MemoryUse),
    /// The load of the machine's GPUs, which replaces the last reading.
    GpusRead(Vec<GpuUse>),
    /// The usage of the machine in the last seconds.
    MachineRead(MachineUse),
    /// Time has passed; see [`crate::Node::deadline`].
    Tick,
}

/// A worker process to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spawn {
    /// The id by which the process will register.
    pub worker_id: WorkerId,
    /// The job whose code the worker will run.
    pub job_id: JobId,
    /// Environment variables of its runtime environment.
    pub env: BTreeMap<String, String>,
    /// The working directory of the process; `None`: the session's folder.
    pub cwd: Option<String>,
    /// Whether to fork it from the process that has modules loaded.
    pub is_loaded: bool,
}

/// An action for the shell.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Send to a client.
    Send {
        /// The connection that the message goes to.
        conn: Conn,
        /// The message; the store's memory file goes with a `Registered` whose `arena_size` is set.
        message: NodeToClient,
    },
    /// End a connection after what was sent; [`Event::ClientClosed`] follows.
    Close {
        /// The connection to end.
        conn: Conn,
        /// The protocol violation to log; empty: none.
        why: String,
    },
    /// The process at the other end has ended: hand over what it had sent, whoever else holds its socket
    /// open. [`Event::ClientClosed`] follows.
    ReadOut {
        /// The connection to read to its end.
        conn: Conn,
    },
    /// Send to the control service; kept while it cannot be reached.
    Control(NodeToControl),
    /// Send to another daemon, connecting to it if need be.
    Ask {
        /// The other daemon.
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
        /// The connection that the object goes to.
        conn: Conn,
        /// The reader's number for the transfer.
        request_id: u64,
        /// The place of the bytes in the store's memory.
        offset: u64,
        /// The number of bytes.
        size: u64,
        /// The other daemon takes them over a connection of their own.
        is_bulk: bool,
    },
    /// Stop streaming; [`Event::Served`] follows all the same.
    StopServing {
        /// The reader's connection.
        conn: Conn,
        /// The reader's number for the transfer, as in [`Action::Serve`].
        request_id: u64,
    },
    /// Take an object's bytes from another daemon, which keeps them ready, into the store's memory;
    /// [`Event::Received`] follows.
    Receive {
        /// The daemon that has the object.
        from: NodeAddress,
        /// The number of the pull.
        request_id: u64,
        /// The place of the bytes in the arena.
        offset: u64,
        /// The object's size in bytes.
        size: u64,
    },
    /// Stop receiving: from now on nothing is written there.
    StopReceiving {
        /// The number of the pull.
        request_id: u64,
    },
    /// Write into the store's memory.
    Write {
        /// The place in the store's memory.
        offset: u64,
        /// The bytes to be written there.
        bytes: Vec<u8>,
    },
    /// Write an object to disk; [`Event::Spilled`] follows.
    Spill {
        /// The object, which names its file.
        object_id: ObjectId,
        /// The place of its bytes in the store's memory.
        offset: u64,
        /// Size of the object in bytes.
        size: u64,
    },
    /// Read an object from disk; [`Event::Restored`] follows.
    Restore {
        /// The object, which names its file.
        object_id: ObjectId,
        /// The place of the object's bytes in the arena.
        offset: u64,
        /// Size of the object in bytes.
        size: u64,
    },
    /// Say in the log that an object's file has other bytes than were written: the object is lost.
    TellDamaged {
        /// The object, which names its file.
        object_id: ObjectId,
    },
    /// Have the disk keep room for a range of the overflow file; [`Event::Reserved`] follows.
    Reserve {
        /// The begin of the range, as an offset.
        offset: u64,
        /// Length of the range in bytes.
        size: u64,
    },
    /// A range of the overflow file is not needed any more.
    Punch {
        /// The begin of the range, as an offset.
        offset: u64,
        /// Length of the range in bytes.
        size: u64,
    },
    /// The object's file is not needed any more.
    RemoveFile {
        /// The object, which names its file.
        object_id: ObjectId,
    },
    /// Make a worker process.
    Spawn(Spawn),
    /// Have a process that has these modules loaded, to fork workers from; [`Event::Loaded`] follows.
    Load {
        /// The modules, in the order in which they are loaded.
        modules: Vec<String>,
    },
    /// End the process that has modules loaded.
    Unload,
    /// Kill a worker's process at once.
    Kill {
        /// The worker whose process is killed.
        worker_id: WorkerId,
    },
    /// Drop the socket file and the pipes of a worker: nothing of it is left.
    Forget {
        /// The worker that is over.
        worker_id: WorkerId,
    },
    /// Read all that these workers have written so far, as [`Event::WorkerWrote`] tells it.
    FlushLogs {
        /// The workers whose pipes are read.
        workers: Vec<WorkerId>,
        /// The next action, behind the lines: the answer.
        then: Box<Action>,
    },
    /// Send to a client what it asked for, with how far these processes are with the environment that they make.
    TellMaking {
        /// The client's connection.
        conn: Conn,
        /// The answer as far as it is known without that.
        reply: WhyReply,
        /// The processes.
        pids: Vec<u32>,
    },
    /// The answer to a request for measurements.
    Scraped {
        /// The number of the question.
        number: u64,
        /// The answers of the processes, the node's own first.
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
        /// The cause, for the log.
        reason: String,
    },
    /// Tell the control service that the node leaves, and end the daemon.
    Leave {
        /// The cause of the order.
        reason: String,
        /// The node that took over the node's objects; nil: none.
        heir: NodeAddress,
    },
    /// End the daemon.
    ShutDown {
        /// The cause, for the log.
        reason: String,
    },
}
