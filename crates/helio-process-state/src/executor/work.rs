//! Work that the machine hands out to the front.

use std::sync::Arc;

use helio_proto::control::ActorSpec;
use helio_proto::node::JobConfig;
use helio_proto::template::Template;
use helio_types::{Assigned, ObjectId, TaskId, WorkerId};

use crate::value::Payload;

/// The work for the main loop of a worker.
#[derive(Debug)]
pub enum Work<P> {
    /// Run a call.
    Call(Box<Call<P>>),
    /// Become this actor: construct it, then report with `ActorReady`.
    Construct(Box<Construct<P>>),
    /// Cancel a call that was handed out.
    Cancel(TaskId),
    /// End the process; with `drain` after the calls that were handed out.
    Exit {
        /// The reason, for the log.
        reason: String,
        /// Whether to finish running calls.
        drain: bool,
    },
}

/// A call to run.
#[derive(Debug)]
pub struct Call<P> {
    /// The call.
    pub task: TaskId,
    /// The caller.
    pub caller: WorkerId,
    /// The template of the call. Templates of equal calls are the same allocation: cache by pointer.
    pub template: Arc<Template>,
    /// The serialized arguments; an error where they lay in the object store and are lost.
    pub body: Payload<P>,
    /// The values of the arguments that were references, in placeholder order.
    pub deps: Vec<Payload<P>>,
    /// Number of values to return; [`helio_proto::peer::STREAMING`] for a generator.
    pub returns: u32,
    /// The number of the attempt, from 0.
    pub attempt: u32,
    /// The lease it runs under; `None` for methods.
    pub lease: Option<Arc<Lease>>,
}

/// A lease that this worker serves.
#[derive(Debug, Default)]
pub struct Lease {
    /// Resources and devices.
    pub assigned: Assigned,
    /// The job's configuration.
    pub job: JobConfig,
}

/// The actor that this process is to become.
#[derive(Debug)]
pub struct Construct<P> {
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
    /// The constructor's serialized arguments; an error where they are lost.
    pub body: Payload<P>,
    /// The values of the arguments that were references.
    pub deps: Vec<Payload<P>>,
}

/// The thing that a call waits for, besides the text about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Awaited {
    /// The call waits for nothing of which another machine could say more.
    Nothing,
    /// The call runs, and may wait for anything that this process waits for.
    Running,
    /// The call runs and reads this object.
    Get(ObjectId),
    /// Room for its arguments, by this request.
    Room(u64),
    /// The argument that is being brought to the node.
    Argument(ObjectId),
}
