//! Questions why something waits, and explanations that others continue.

use std::sync::Arc;

use helio_types::{ActorId, ObjectId, TaskId, WorkerAddress, WorkerId};

/// The largest number of processes that an explanation passes through.
pub(crate) const HOPS_MAX: u8 = 4;
/// Number of processes to which a question of the daemon may go on; the daemon counts as one of
/// them.
pub(crate) const HOPS_OF_NODE: u8 = 3;

/// The subject of a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// An object, by a reference.
    Object(ObjectId),
    /// A call of this process.
    Task(TaskId),
    /// An actor that this process made or calls.
    Actor(ActorId),
    /// A call that this process runs for another.
    Running(TaskId),
}

/// The origin of a question.
#[derive(Clone, Debug)]
pub(crate) enum Asker {
    /// A thread, by its request.
    Thread(u64),
    /// A process, by its number for the question.
    Peer(Arc<WorkerAddress>, u64),
    /// The daemon of this node, by its request.
    Node(u64),
}

/// An explanation that others continue.
#[derive(Debug)]
pub(crate) struct Explanation {
    pub(crate) asker: Asker,
    /// The text so far.
    pub(crate) text: String,
    /// The process that was asked; `None`: a daemon.
    pub(crate) asked: Option<WorkerId>,
    /// Calls of this process that may hold what is waited for; named if something does.
    pub(crate) running: String,
}
