//! The inputs of a daemon, from every task and thread that waits on its behalf.

use std::sync::Arc;

use helio_node_state::{Conn, DiskError, Exit};
use helio_proto::cluster::{ControlToNode, HeadMoved, NodeToNode};
use helio_proto::control::GpuUse;
use helio_proto::hello::Role;
use helio_proto::inspect::{self, MachineUse};
use helio_proto::node::ClientToNode;
use helio_rpc::service::Writer;
use helio_types::{NodeAddress, NodeId, ObjectId, WorkerId};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::zygote::{Answer, Kind};

pub(crate) type Inputs = mpsc::Sender<Input>;

/// All that can happen to a daemon.
#[derive(Debug)]
pub(crate) enum Input {
    ClientOpened {
        conn: Conn,
        writer: Writer,
        role: Role,
        node_id: NodeId,
        is_local: bool,
        /// Tells the reader to hand over what has arrived, and to end.
        read_out: Arc<Notify>,
    },
    ClientSaid {
        conn: Conn,
        message: ClientToNode,
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
    PeerSaid {
        conn: Conn,
        node_id: NodeId,
        message: NodeToNode,
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
    Served {
        conn: Conn,
        request_id: u64,
    },
    ReceivedSome {
        request_id: u64,
        received: u64,
    },
    Received {
        request_id: u64,
        outcome: Result<(), String>,
    },
    Spilled {
        object_id: ObjectId,
        outcome: Result<u32, DiskError>,
    },
    Restored {
        object_id: ObjectId,
        outcome: Result<u32, DiskError>,
    },
    Reserved {
        offset: u64,
        outcome: Result<(), DiskError>,
    },
    ControlConnected {
        writer: Writer,
    },
    ControlSaid {
        message: ControlToNode,
    },
    ControlLost,
    ControlRefused,
    /// A head that has taken over says where it is.
    HeadMoved(HeadMoved),
    Zygote(Kind, Answer),
    ZygoteLost {
        kind: Kind,
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
    /// Nothing more has come for a while.
    OutputRests {
        worker_id: WorkerId,
        is_stderr: bool,
    },
    ChildEnded,
    /// How busy the machine's GPUs are.
    GpusRead(Vec<GpuUse>),
    MachineRead(MachineUse),
    /// Somebody reads the node's measurements.
    Scrape {
        reply: oneshot::Sender<Vec<inspect::Answer>>,
    },
    /// Somebody asks whether the daemon does its work.
    Probe {
        reply: oneshot::Sender<()>,
    },
    ShutDown {
        reason: String,
    },
    /// The process was sent SIGTERM.
    Terminate,
}
