//! The inputs of a daemon, from every task and thread that waits on its behalf.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use helio_env::process::Status;
use helio_node_state::{Conn, Event, Exit};
use helio_proto::cluster::HeadMoved;
use helio_proto::hello::Role;
use helio_proto::inspect;
use helio_rpc::service::Writer;
use helio_types::{NodeAddress, NodeId, WorkerId};
use tokio::sync::{Notify, mpsc, oneshot};

pub(crate) type Inputs = mpsc::Sender<Input>;

/// All that can happen to a daemon.
#[derive(Debug)]
pub(crate) enum Input {
    /// An event that the machine takes in as it is.
    Event(Event),
    ClientOpened {
        conn: Conn,
        writer: Writer,
        role: Role,
        node_id: NodeId,
        is_local: bool,
        /// Tells the reader to hand over what has arrived, and to end.
        read_out: Arc<Notify>,
    },
    ClientClosed {
        conn: Conn,
        why: Option<String>,
    },
    PeerOpened {
        conn: Conn,
        node_id: NodeId,
        writer: Writer,
        is_made_here: bool,
    },
    PeerClosed {
        conn: Option<Conn>,
        node_id: NodeId,
    },
    /// A connection that was to be made here was not.
    PeerUnreachable {
        to: NodeAddress,
        why: helio_rpc::service::Error,
    },
    ControlConnected {
        writer: Writer,
    },
    /// A head that has taken over says where it is.
    HeadMoved(HeadMoved),
    Zygote(ZygoteKind, ZygoteAnswer),
    ZygoteLost {
        kind: ZygoteKind,
        generation: u64,
    },
    WorkerExited {
        worker_id: WorkerId,
        exit: Exit,
    },
    Output {
        worker_id: WorkerId,
        is_stderr: bool,
    },
    /// A worker's output has paused for a while.
    OutputRests {
        worker_id: WorkerId,
        is_stderr: bool,
    },
    ChildEnded,
    /// A request for the node's measurements.
    Scrape {
        reply: oneshot::Sender<Vec<inspect::Answer>>,
    },
    /// A question whether the daemon does its work.
    Probe {
        reply: oneshot::Sender<()>,
    },
    ShutDown {
        reason: String,
    },
    /// The process was sent SIGTERM.
    Terminate,
}

impl From<Event> for Input {
    fn from(event: Event) -> Self {
        Self::Event(event)
    }
}

/// The kind of a zygote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ZygoteKind {
    /// Has the package loaded and nothing else.
    Bare,
    /// Has modules loaded besides.
    Loaded,
}

/// A message of the zygote.
#[derive(Debug)]
pub(crate) enum ZygoteAnswer {
    Started {
        worker_id: WorkerId,
        pid: u32,
    },
    Failed {
        worker_id: WorkerId,
        why: String,
    },
    Exited {
        pid: u32,
        status: Status,
    },
    /// All that it was asked to load is loaded, or cannot be.
    Loaded,
}

static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

/// A number that no other connection of this process has.
pub(crate) fn next_conn() -> Conn {
    Conn(CONNECTIONS.fetch_add(1, Ordering::Relaxed))
}
