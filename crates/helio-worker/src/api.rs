//! The types that the language front sees.

use std::path::PathBuf;

use helio_proto::control::Failure;
use helio_proto::hello::Refusal;
use helio_proto::node::JobConfig;
use helio_types::{ActorId, ObjectId, WorkerId};

use crate::memory::Pin;

/// The settings with which a process joins its node.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The daemon's socket.
    pub node_socket: PathBuf,
    /// The cluster's token.
    pub token: String,
    /// The id of this process; `NIL` (drivers): a fresh id is made.
    pub worker_id: WorkerId,
    /// Whether this is a driver.
    pub is_driver: bool,
    /// The port of this machine through which other machines are reached, for a driver outside the cluster; 0: directly.
    pub entrance: u16,
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
    /// Bytes that the remembered calls may take, by which lost objects are made again; `None`: the
    /// default.
    pub lineage_bytes_max: Option<usize>,
}

/// A serialized value, or the exception that reading it raises.
pub type Payload = helio_process_state::Payload<Pin>;
/// Bytes that can be read: in this process's memory, or pinned in the object store until the last clone is
/// dropped.
pub type Bytes = helio_process_state::Bytes<Pin>;
/// The work for the main loop of a worker.
pub type Work = helio_process_state::Work<Pin>;
/// A call to run.
pub type Call = helio_process_state::Call<Pin>;
/// The actor that this process is to become.
pub type Construct = helio_process_state::Construct<Pin>;

pub use helio_owner_state::{CallArgs, Outcome, Outgoing, OutgoingValue, Retry};

/// The reason why a call of [`Runtime`] failed.
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
    /// The daemon, or the head for packages, does not let this process in.
    #[error("{0}")]
    Unwelcome(Refusal),
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

/// The outcome of [`crate::Runtime::stream_next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamNext {
    /// The next item; one handle of it is held.
    Item(ObjectId),
    /// The generator has made its last item.
    End,
}

/// The actor that [`crate::Runtime::create_actor`] made or found.
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
