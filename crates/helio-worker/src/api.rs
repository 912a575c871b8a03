//! What the language front sees.

use std::path::PathBuf;
use std::sync::Arc;

use helio_proto::control::{ActorSpec, Failure};
use helio_proto::node::JobConfig;
use helio_proto::peer::Template;
use helio_store::ArenaSlice;
use helio_types::{ActorId, Assigned, ObjectId, TaskId, WorkerId};
use parking_lot::Mutex;

/// How a process joins its node.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The daemon's socket.
    pub node_socket: PathBuf,
    /// The cluster's token.
    pub token: String,
    /// The node's address, where this process listens for those on other machines; empty: none but
    /// this machine.
    pub host: String,
    /// This process; `NIL` (drivers): a fresh id.
    pub worker_id: WorkerId,
    /// Whether this is a driver.
    pub is_driver: bool,
    /// The driver's namespace; empty: a random one.
    pub namespace: String,
    /// The driver's command line, for the list of jobs.
    pub entrypoint: String,
    /// Whether log lines of workers come here.
    pub log_to_driver: bool,
    /// The daemon ends with this driver.
    pub owns_cluster: bool,
    /// Drivers: what workers need to run this job's code (the job id is filled in).
    pub job: JobConfig,
    /// How many bytes the calls that are remembered, to make lost objects again, may take; `None`: the
    /// default.
    pub lineage_bytes_max: Option<usize>,
}

/// A serialized value: `is_error` when reading it raises.
#[derive(Clone, Debug)]
pub struct Payload {
    /// The bytes, in the front's own encoding, or (errors) see [`helio_proto::error`].
    pub bytes: Bytes,
    /// Whether reading it raises.
    pub is_error: bool,
}

/// Bytes that are here to be read: in this process's memory, or pinned in the object store until
/// the last clone is dropped.
#[derive(Clone, Debug)]
pub enum Bytes {
    /// In this process's memory.
    Memory(Arc<Vec<u8>>),
    /// In the object store.
    Pinned(Arc<Pin>),
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Memory(bytes) => bytes,
            Self::Pinned(pin) => pin.slice.as_slice(),
        }
    }
}

/// What keeps a range of the object store from being reused (SHM-1): the daemon frees an object only
/// when every pin has been given back.
#[derive(Debug)]
pub struct Pin {
    pub(crate) id: ObjectId,
    pub(crate) slice: ArenaSlice,
    pub(crate) returned: Arc<Mutex<Vec<ObjectId>>>,
}

impl Drop for Pin {
    /// Only notes that the pin is free: the next thread that polls tells the daemon.
    fn drop(&mut self) {
        self.returned.lock().push(self.id);
    }
}

pub use helio_owner_state::{CallArgs, Outcome, Outgoing, OutgoingValue, Retry};

/// Something for the main loop of a worker to do.
#[derive(Debug)]
pub enum Work {
    /// Run a call.
    Call(Box<Call>),
    /// Become this actor: construct it, then report with [`Runtime::actor_ready`].
    Construct(Box<Construct>),
    /// Cancel a call that was handed out (its id is in `running`).
    Cancel(TaskId),
    /// The process is to end; with `drain` after what was handed out.
    Exit {
        /// Why, for the log.
        reason: String,
        /// Whether to finish what runs.
        drain: bool,
    },
}

/// A call to run.
#[derive(Debug)]
pub struct Call {
    /// The call.
    pub task: TaskId,
    /// Who calls.
    pub caller: WorkerId,
    /// What it calls. Templates of equal calls are the same allocation: cache by pointer.
    pub template: Arc<Template>,
    /// The serialized arguments.
    pub body: Bytes,
    /// The values of the arguments that were references, in placeholder order.
    pub deps: Vec<Payload>,
    /// How many values to return; [`helio_proto::peer::STREAMING`] for a generator.
    pub returns: u32,
    /// Which attempt, from 0.
    pub attempt: u32,
    /// The lease it runs under; `None` for methods.
    pub lease: Option<Arc<Lease>>,
}

/// A lease this worker serves.
#[derive(Debug, Default)]
pub struct Lease {
    /// Resources and devices.
    pub assigned: Assigned,
    /// The job's configuration.
    pub job: JobConfig,
}

/// An actor to become.
#[derive(Debug)]
pub struct Construct {
    /// The specification.
    pub spec: ActorSpec,
    /// The class.
    pub template: Arc<Template>,
    /// From 0; above it, the process was made again.
    pub incarnation: u32,
    /// Resources and devices.
    pub assigned: Assigned,
    /// The job's configuration.
    pub job: JobConfig,
    /// The constructor's arguments.
    pub body: Bytes,
    /// The values of the arguments that were references.
    pub deps: Vec<Payload>,
}

/// Why a call of [`Runtime`] failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The time is up.
    #[error("the time is up")]
    Timeout,
    /// `get`: this is what reading one of the objects raises.
    #[error("an object holds an exception")]
    Raised(Payload),
    /// `interrupt` said so (a signal arrived).
    #[error("interrupted")]
    Interrupted,
    /// The runtime was shut down, or its daemon is gone.
    #[error("{0}")]
    Disconnected(String),
    /// The daemon or the control service said no.
    #[error("{}", .0.message)]
    Refused(Failure),
    /// The call makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// The operating system said no.
    #[error("{0}")]
    Io(String),
}

/// Checked between waits; `true` ends the wait with [`Error::Interrupted`].
pub type Interrupt<'a> = &'a mut dyn FnMut() -> bool;

/// What [`crate::Runtime::stream_next`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamNext {
    /// The next item; one handle of it is held.
    Item(ObjectId),
    /// There are no more.
    End,
}

/// What [`crate::Runtime::create_actor`] made or found.
#[derive(Debug, Clone, Default)]
pub struct ActorCreated {
    /// The actor.
    pub actor: ActorId,
    /// The object that stands for its handles, one handle held; `NIL` when it is detached or was
    /// there already.
    pub handle: ObjectId,
    /// `get_if_exists` found an actor of that name: its serialized handle.
    pub existing: Option<Vec<u8>>,
}
