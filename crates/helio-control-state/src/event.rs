//! Events that go into the machine, and actions that come out of it.

use helio_config::control::{
    HEADLESS_MARGIN_MS, HEADLESS_MS_MAX, HEARTBEAT_MS, HEARTBEATS_MISSED_MAX,
};
use helio_proto::cluster::{ControlToNode, NodeToControl};
use helio_types::{ActorId, JobId, NodeId, WorkerId};

use crate::verdict::Patience;

/// An event for the control service.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A message of a node. The first message on each of its connections is `Register`.
    Node {
        /// The sender.
        node_id: NodeId,
        /// The node's message.
        message: NodeToControl,
    },
    /// The newest connection of a node ended.
    Disconnected {
        /// The node that lost its connection.
        node_id: NodeId,
    },
    /// The link of the head's machine came up or went down.
    Link {
        /// Whether it is up.
        is_up: bool,
    },
    /// Changes cannot be made durable any more, or again.
    Disk {
        /// The clause that says which disk is full; `None`: there is room again.
        full: Option<String>,
    },
    /// The cluster must end.
    Stop {
        /// The reason that every node is told.
        reason: String,
    },
    /// Time passed; see [`crate::Control::next_tick`].
    Tick,
}

/// An action that the shell performs for the control service.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Send the message to the node; drop it when the node is not connected.
    Send {
        /// The receiver.
        node_id: NodeId,
        /// The message.
        message: ControlToNode,
    },
    /// Send the message to each of the nodes, as [`Action::Send`] does; it is encoded once.
    SendToMany {
        /// The receivers.
        to: Vec<NodeId>,
        /// The message.
        message: ControlToNode,
    },
    /// Make the change durable before any send after it goes out.
    Persist(Change),
    /// Close the node's connection after what was sent to it.
    Disconnect {
        /// The node that loses its connection.
        node_id: NodeId,
    },
    /// The cluster is over: end when everything was sent.
    End {
        /// The reason, for the log.
        reason: String,
    },
    /// An entry of the log.
    Log(Note),
}

/// An entry for the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note {
    /// A node is a new member of the cluster.
    NodeJoined {
        /// The new member's id.
        node_id: NodeId,
        /// The address at which others reach it.
        host: String,
        /// The port of the node's daemon.
        port: u32,
    },
    /// A node was not taken in.
    NodeRefused {
        /// The id that the node gave.
        node_id: NodeId,
        /// The reason.
        reason: String,
    },
    /// A node has left, or was declared dead.
    NodeGone {
        /// The id of the former member.
        node_id: NodeId,
        /// The address at which others reached it.
        host: String,
        /// The reason.
        reason: String,
    },
    /// Whether the head itself may be cut off, so that no silent node is declared dead.
    HeadInDoubt(bool),
    /// A driver has begun a job.
    JobStarted {
        /// The job.
        job_id: JobId,
        /// The node of its driver.
        node_id: NodeId,
    },
    /// The driver of a job has ended.
    JobEnded {
        /// The job.
        job_id: JobId,
    },
    /// An actor is made again.
    ActorRestarted {
        /// The actor.
        actor_id: ActorId,
        /// Number of times that the actor was made again.
        incarnation: u32,
        /// The end of its process.
        reason: String,
    },
    /// An actor is over for good.
    ActorEnded {
        /// The actor.
        actor_id: ActorId,
        /// The end of its process.
        reason: String,
    },
    /// The disk has no room for durable state, or has again.
    DiskFull {
        /// The clause that says which disk is full; `None`: there is room again.
        why: Option<String>,
    },
    /// A durable entry cannot be read and is left out.
    EntrySkipped {
        /// The entry's key.
        key: Vec<u8>,
    },
}

/// A durable entry to write (`Some`) or to delete (`None`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The entry's key.
    pub key: Vec<u8>,
    /// The entry's new value.
    pub value: Option<Vec<u8>>,
}

/// The limits by which the control service tells whether a node is alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Health {
    /// The interval between two heartbeats of a node, in milliseconds.
    pub heartbeat_ms: u64,
    /// A node that was silent for this long is dead if others do not reach it either, in milliseconds.
    pub silence_ms_max: u64,
    /// Milliseconds that a node may be silent beyond the limit when it has just joined.
    pub first_silence_ms: u64,
    /// Milliseconds that a node may be silent which only the head misses.
    pub patience_ms: u64,
}

impl Health {
    pub(crate) fn patience(&self) -> Patience {
        Patience {
            heartbeat_ms: self.heartbeat_ms,
            silence_ms_max: self.silence_ms_max,
            patience_ms: self.patience_ms.max(self.silence_ms_max),
        }
    }
}

impl Default for Health {
    fn default() -> Self {
        let silence_ms_max = HEARTBEAT_MS * HEARTBEATS_MISSED_MAX;
        Self {
            heartbeat_ms: HEARTBEAT_MS,
            silence_ms_max,
            first_silence_ms: 0,
            patience_ms: HEADLESS_MS_MAX + HEADLESS_MARGIN_MS,
        }
    }
}

/// A process that waits for the answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Requester {
    pub(crate) node_id: NodeId,
    pub(crate) worker_id: WorkerId,
    pub(crate) request_id: u64,
}
