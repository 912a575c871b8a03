//! Events and actions of an owner.

use std::sync::Arc;

use helio_proto::control::{ActorInfo, ControlRequest, ControlResponse, Failure};
use helio_proto::node::{LeaseClass, LeaseGranted};
use helio_proto::peer::{Frame, Reference};
use helio_types::{
    ActorId, DeathCause, LeaseId, NodeAddress, NodeId, ObjectId, TaskId, WorkerAddress, WorkerId,
};

use crate::spec::{Creation, Outcome, Outgoing, OutgoingValue, TaskSpec};

/// An event, as the process machine or its shell tells the owner.
#[derive(Debug)]
pub enum Event {
    /// The front put a value; it holds one reference to it.
    Put {
        /// A fresh id.
        id: ObjectId,
        /// The value.
        value: OutgoingValue,
        /// References inside it.
        contained: Vec<ObjectId>,
    },
    /// The front was promised a value; it holds one reference to it. [`Event::Resolve`] brings it.
    Expect {
        /// A fresh id.
        id: ObjectId,
    },
    /// A promised value is here.
    Resolve {
        /// The object.
        id: ObjectId,
        /// The value of the object.
        value: OutgoingValue,
    },
    /// The process made one more handle of the object.
    AddRef {
        /// The object that gains a handle.
        id: ObjectId,
    },
    /// The process dropped one handle of the object.
    DropRef {
        /// The object that loses a handle.
        id: ObjectId,
    },
    /// References arrived in a value; the front holds one handle for each.
    Adopt {
        /// The owner of the objects.
        owner: Arc<WorkerAddress>,
        /// The objects.
        ids: Vec<ObjectId>,
    },
    /// The front has read the error that the object holds.
    ErrorRead {
        /// The object that holds the error.
        id: ObjectId,
    },
    /// The object is waited for: find out its value if it is not ours.
    Watch {
        /// The object that is waited for.
        id: ObjectId,
    },
    /// An argument of a call that waits here is not where its caller said. Its owner is told, and finds
    /// another copy or makes it again; one handle is held until then.
    Recover {
        /// The lost object, and its owner.
        reference: Box<Reference>,
        /// The nodes that do not have the object.
        gone: Vec<NodeId>,
    },
    /// A call; the front holds one handle of each return.
    Submit {
        /// The call: function or method, arguments, retries.
        spec: Arc<TaskSpec>,
    },
    /// Stop the call of one's own or somebody else's that returns an object.
    Cancel {
        /// An object that the call returns.
        object: ObjectId,
        /// Even if its process must end.
        force: bool,
        /// Whether the calls that it made are cancelled, too.
        recursive: bool,
    },
    /// Make an actor.
    CreateActor {
        /// The actor's spec, arguments and template.
        creation: Box<Creation>,
    },
    /// End an actor, for good or with a restart.
    KillActor {
        /// The actor to end.
        actor: ActorId,
        /// The actor is not to come back.
        no_restart: bool,
    },
    /// The control service answered an [`Action::CreateActor`].
    ActorCreated {
        /// The actor that the request named.
        actor: ActorId,
        /// The answer of the control service.
        response: Box<ControlResponse>,
    },
    /// A handle of an actor arrived.
    KnowActor {
        /// The actor of the handle.
        actor: ActorId,
        /// The object that stands for its handles; `None`: the handle is weak.
        handle: Option<ObjectId>,
    },
    /// News of an actor.
    ActorUpdate {
        /// The actor's state, as the control service knows it.
        info: Box<ActorInfo>,
    },
    /// The executor has run a call.
    Finished {
        /// The call that has ended.
        task: TaskId,
        /// The process that is replied to.
        caller: Arc<WorkerAddress>,
        /// The outcome of the call.
        outcome: Outcome,
    },
    /// A generator made an item.
    ItemMade {
        /// The generator's call.
        task: TaskId,
        /// The process to which the item is sent.
        caller: Arc<WorkerAddress>,
        /// The index of the item, from 0.
        index: u32,
        /// The item.
        item: Outgoing,
    },
    /// The front took an item of a stream; it holds one handle of it.
    StreamRead {
        /// The call.
        task: TaskId,
        /// The index of the item, from 0.
        index: u32,
    },
    /// The front reads no more of a stream.
    StreamDropped {
        /// The call.
        task: TaskId,
    },
    /// A peer sent a frame. Calls, templates, leases and steals are the executor's, not the owner's.
    Frame {
        /// The sender.
        from: WorkerId,
        /// The frame, as it was sent.
        frame: Frame<'static>,
    },
    /// No connection to a peer could be made: nothing that was sent to the peer since the last one broke has
    /// arrived. [`Event::PeerLost`] follows.
    PeerUnreached {
        /// The process at the other end.
        peer: WorkerId,
    },
    /// The connection to a peer broke before all that the peer had sent was read. [`Event::PeerLost`] follows.
    PeerTorn {
        /// The process at the other end.
        peer: WorkerId,
    },
    /// The connection to a peer broke or could not be made.
    PeerLost {
        /// The process at the other end.
        peer: Arc<WorkerAddress>,
    },
    /// The answer to [`Action::AskLiveness`].
    Liveness {
        /// The process that was asked about.
        worker: WorkerId,
        /// Whether it is gone for good.
        dead: bool,
    },
    /// A worker is ours.
    LeaseGranted {
        /// The grant.
        grant: Box<LeaseGranted>,
        /// The node of the daemon that granted it.
        node: NodeId,
    },
    /// The request for a worker is refused for good.
    LeaseRefused {
        /// The number of the request, as in [`Action::RequestLease`].
        request: u64,
        /// The error for calls that wait for such a worker.
        failure: Failure,
    },
    /// The request is to go to another daemon.
    LeaseSpilled {
        /// The number of the request, as in [`Action::RequestLease`].
        request: u64,
        /// The daemon that may have a worker.
        node: NodeAddress,
    },
    /// No node that would do has room for it at present.
    LeasePending {
        /// The number of the request, as in [`Action::RequestLease`].
        request: u64,
    },
    /// The lease is to be given back when its worker is idle.
    LeaseRevoked {
        /// The node of the daemon that asks it back.
        node: NodeId,
        /// The daemon's number for the lease.
        lease: LeaseId,
    },
    /// The worker of a lease has ended.
    LeaseLost {
        /// The node of the daemon that lent the worker.
        node: NodeId,
        /// The daemon's number for the lease.
        lease: LeaseId,
        /// The cause of the worker's death.
        cause: Box<DeathCause>,
    },
    /// A daemon that we lease from is gone.
    NodeLost {
        /// The daemon's node.
        node: NodeId,
    },
    /// A node was declared dead.
    NodeDied {
        /// The node that is no member any more.
        node: NodeId,
        /// The node that took over the objects of the dead one, if that has left in order.
        heir: Option<NodeAddress>,
    },
    /// A node that should have an object does not have it.
    LocationLost {
        /// The object.
        id: ObjectId,
        /// The node that was taken for a location.
        node: NodeId,
    },
    /// A node has a copy of an object of ours, made for a reader there.
    Copied {
        /// The object.
        id: ObjectId,
        /// The node that holds the copy.
        node: NodeAddress,
    },
    /// Time has passed.
    Tick,
}

/// An effect, for the process machine or its shell to carry out.
#[derive(Debug)]
pub enum Action {
    /// The object's value, or its error, is known.
    Ready(ObjectId),
    /// An exception of the user's code went away without anybody having seen it.
    UnseenError(Arc<Vec<u8>>),
    /// A stream has news.
    StreamChanged(TaskId),
    /// News of an actor that the front may wait for.
    ActorChanged(ActorId),
    /// Send a frame.
    Send {
        /// The receiver.
        to: Arc<WorkerAddress>,
        /// The frame; never one that borrows.
        frame: Frame<'static>,
    },
    /// Send a call, its template first if the peer has not had it.
    Call {
        /// The worker that is to run the call.
        to: Arc<WorkerAddress>,
        /// The call.
        spec: Arc<TaskSpec>,
        /// Values of its dependencies, encoded: a [`helio_proto::peer::Args`] in wire form.
        args: Vec<u8>,
        /// The lease under which the call is sent; 0 for methods.
        lease: LeaseId,
        /// The call's position among our calls to the actor; for a call that runs again, among those that
        /// had ended.
        sequence: u64,
        /// The number of the attempt, from 0.
        attempt: u32,
        /// The call is a method's that had ended, and runs again: its results were lost, or it raised.
        is_remade: bool,
    },
    /// Tell a worker that it is ours.
    BeginLease {
        /// The leased worker.
        to: Arc<WorkerAddress>,
        /// The grant.
        grant: Box<LeaseGranted>,
    },
    /// Ask a daemon for a worker.
    RequestLease {
        /// The daemon; `None`: our own node's.
        node: Option<NodeAddress>,
        /// Echoed in the answer.
        request: u64,
        /// The resources, strategy and environment that the worker needs.
        class: Arc<LeaseClass>,
        /// Number of calls that wait.
        backlog: u64,
        /// Nodes that hold the first call's arguments. For calls that go round the nodes: nodes on which
        /// there are leases already, so that another node is chosen.
        touched: Vec<NodeId>,
        /// Whether the first call may be tried again.
        is_retriable: bool,
    },
    /// No worker is needed any more.
    CancelLease {
        /// The node of the daemon; `None`: our own node's.
        node: Option<NodeAddress>,
        /// The number of the request, as in [`Action::RequestLease`].
        request: u64,
    },
    /// Give a worker back.
    ReturnLease {
        /// The node of the daemon that lent it.
        node: NodeId,
        /// The daemon's number for the lease.
        lease: LeaseId,
        /// The worker is of no more use.
        discard: bool,
    },
    /// Much memory is free that was in use: the system can have it back.
    MemoryFreed,
    /// The object's copies can go.
    Free {
        /// The object that nobody holds any more.
        id: ObjectId,
        /// The nodes that have copies.
        locations: Vec<NodeAddress>,
    },
    /// The items of a generator from that one on can go: nobody has heard of them.
    FreeRest {
        /// The first such item.
        id: ObjectId,
        /// The nodes where the generator ran.
        locations: Vec<NodeAddress>,
    },
    /// The object is held by nobody here any more, and nothing of it is to be freed from here.
    Forget(ObjectId),
    /// A copy that was made for a reader is to stay until it is freed: there is no other.
    Keep {
        /// The object.
        id: ObjectId,
        /// The node that has the copy.
        at: NodeAddress,
    },
    /// Ask the control service to make an actor; its answer is [`Event::ActorCreated`].
    CreateActor {
        /// The actor to be made.
        actor: ActorId,
        /// The request, with the actor's specification.
        request: Box<ControlRequest>,
    },
    /// Ask the control service for something whose answer does not matter.
    Control(Box<ControlRequest>),
    /// Ask for news of an actor, now and from now on.
    Subscribe(ActorId),
    /// Ask whether a peer lives.
    AskLiveness(Arc<WorkerAddress>),
    /// A call that this process runs for somebody is not wanted any more.
    CancelRunning {
        /// The call to be stopped.
        task: TaskId,
        /// Even if the process must end.
        force: bool,
    },
}
