//! Between daemons, and between a daemon and the control service.

use helio_types::{
    ActorId, DeathCause, JobId, NodeAddress, NodeId, ObjectId, ResourceSet, WorkerAddress, WorkerId,
};

use crate::control::{ActorLaunch, NodeInfo};
use crate::group::{
    AskGroup, BundlesHeld, CommitBundles, GroupNews, HeldBundle, ReserveBundles, ReturnBundles,
};
use crate::inspect::{Asked, Inspected};
use crate::node::{ControlCall, LogLines, NodeToClient};
use crate::wire::messages;

messages! {
    /// A node joins, or comes back after its connection or the control service was lost.
    pub struct RegisterNode {
        1 info: NodeInfo,
        /// The actors that live here already.
        2 actors: Vec<RunningActor>,
        /// The drivers and workers that live here; those that the control service knew and that are
        /// not among them have ended while it was away.
        3 clients: Vec<WorkerId>,
        /// Whether `clients` was filled in.
        4 clients_known: bool,
        /// The bundles of placement groups that it holds.
        40 bundles: Vec<HeldBundle>,
        /// The time at which the message was sent, by the node's clock, in milliseconds: the answer
        /// repeats it.
        41 sent_ms: u64,
        /// The session that the node has joined: another one may have begun at the same address since. Empty: any.
        42 session_name: String,
    }
    pub struct RunningActor { 1 actor_id: ActorId, 2 incarnation: u32, 3 address: WorkerAddress, 4 pid: u32 }
    /// The node's present resources, sent once a second when they changed.
    pub struct NodeStatus { 1 info: NodeInfo, 2 sent_ms: u64 }
    /// The heartbeat of a node whose newest status, or registration, on this connection still holds.
    pub struct StatusUnchanged { 1 sent_ms: u64 }
    pub struct FromClient { 1 worker_id: WorkerId, 2 call: ControlCall }
    /// A driver or worker of this node has ended: what it owned is over.
    pub struct ClientGone { 1 worker_id: WorkerId, 2 is_driver: bool, 3 cause: DeathCause }
    /// The actor takes calls.
    pub struct ActorStarted { 1 actor_id: ActorId, 2 incarnation: u32, 3 address: WorkerAddress, 4 pid: u32 }
    /// The actor could not be started here, or its process ended. `retry` says whether another try, here or elsewhere,
    /// could do better without counting as a restart (the node was full after all); then `attempt` is the number of the
    /// launch that is given back.
    pub struct ActorEnded { 1 actor_id: ActorId, 2 incarnation: u32, 3 cause: DeathCause, 4 retry: bool, 5 attempt: u32 }
    /// Log lines for the driver of a job, wherever it is.
    pub struct JobLogs { 1 job_id: JobId, 2 lines: LogLines }
    /// A driver waits for all that its workers have printed: to the control service, and on to the other nodes.
    pub struct FlushJobLogs {
        1 job_id: JobId,
        2 driver: WorkerId,
        /// The driver's number.
        3 request_id: u64,
        /// The driver's node.
        4 node_id: NodeId,
    }
    /// The answer of a node, behind the lines.
    pub struct JobLogsFlushed { 1 driver: WorkerId, 2 request_id: u64, 3 node_id: NodeId }
    pub enum NodeToControl {
        1 Register(RegisterNode),
        2 Status(NodeStatus),
        3 FromClient(FromClient),
        4 ClientGone(ClientGone),
        5 ActorStarted(ActorStarted),
        6 ActorEnded(ActorEnded),
        7 JobLogs(JobLogs),
        8 Leaving(NodeLeaving),
        9 Probed(Probed),
        10 Unchanged(StatusUnchanged),
        11 Preempted(NodePreempted),
        12 FlushLogs(FlushJobLogs),
        13 LogsFlushed(JobLogsFlushed),
        40 BundlesHeld(BundlesHeld),
        41 AskGroup(AskGroup),
    }
    /// The node's machine will be taken away: it takes no new work, and leaves within the grace.
    pub struct NodePreempted {
        1 reason: String,
        /// Milliseconds that the work there goes on.
        2 grace_ms: u64,
    }
    /// The node ends of its own will.
    pub struct NodeLeaving {
        1 reason: String,
        /// The node that has its objects now; nil: nobody.
        2 heir: NodeAddress,
    }
    /// The answer to [`Probe`].
    pub struct Probed { 1 node_id: NodeId, 2 is_reached: bool }

    pub struct NodeAccepted {
        1 refused: String,
        2 session_name: String,
        /// Milliseconds between two heartbeats of the node; 0: the default.
        3 heartbeat_ms: u64,
        /// Milliseconds of silence after which a node may be declared dead; 0: the default.
        4 silence_ms: u64,
        /// The refused node may start anew and join under a new id.
        5 may_rejoin: bool,
        /// The time at which the node had sent its registration.
        6 sent_ms: u64,
        /// The number of this head among the heads that have led the cluster: a later head has a higher number; 0: the
        /// cluster has had no other.
        7 epoch: u64,
    }
    pub struct ToClient { 1 worker_id: WorkerId, 2 message: NodeToClient }
    pub struct StopActor {
        1 actor_id: ActorId,
        2 incarnation: u32,
        3 reason: String,
        /// Let it finish what it was sent.
        4 drain: bool,
    }
    /// The nodes that changed; those that died stay in it, not alive, so that everyone learns of it.
    pub struct ClusterView { 1 nodes: Vec<NodeInfo> }
    /// The job is over: its workers and leases end, except detached actors.
    pub struct JobFinished { 1 job_id: JobId, 2 driver: WorkerId }
    pub struct ShutDown {
        1 reason: String,
        /// The node was declared dead: it may start anew and join under a new id.
        2 may_rejoin: bool,
    }
    /// The answer to a heartbeat: the control service hears this node, at least since that was sent.
    pub struct Heard { 1 sent_ms: u64 }
    /// Asks a node whether it reaches another one, of which the control service hears nothing.
    pub struct Probe { 1 node: NodeAddress }
    /// Take no new work, hand over what there is, and leave.
    pub struct Drain {
        1 reason: String,
        /// Milliseconds that the work may go on; 0: until it has ended.
        2 grace_ms: u64,
        /// Stay after all, unless objects are being handed over already.
        3 is_cancelled: bool,
    }
    /// Actors or placement groups wait for this much, which the node's tasks have: it asks that back and keeps it
    /// free for a while.
    pub struct KeepFree { 1 resources: ResourceSet }
    pub enum ControlToNode {
        1 Accepted(NodeAccepted),
        2 ToClient(ToClient),
        3 LaunchActor(ActorLaunch),
        4 StopActor(StopActor),
        5 View(ClusterView),
        6 JobFinished(JobFinished),
        7 ShutDown(ShutDown),
        8 Heard(Heard),
        9 Probe(Probe),
        10 Drain(Drain),
        11 FlushLogs(FlushJobLogs),
        40 ReserveBundles(ReserveBundles),
        41 CommitBundles(CommitBundles),
        42 ReturnBundles(ReturnBundles),
        43 GroupNews(GroupNews),
        44 KeepFree(KeepFree),
    }

    /// Asks for an object's bytes.
    pub struct PullObject { 1 request_id: u64, 2 object_id: ObjectId }
    /// The object's bytes follow, in `PullChunk`s, or wait to be taken.
    pub struct PullStart {
        1 request_id: u64,
        2 size: u64,
        /// The receiver takes the bytes over a connection to `Destination::Objects`, see [`TakeBytes`].
        3 is_bulk: bool,
    }
    pub struct PullChunk { 1 request_id: u64, 2 offset: u64, 3 bytes: Vec<u8> }
    pub struct PullFailed { 1 request_id: u64, 2 reason: String }
    pub struct CancelPull { 1 request_id: u64 }
    pub struct DropObject {
        1 object_id: ObjectId,
        /// The process whose later items of the same generator are dropped, too; nil: this object
        /// alone.
        2 rest_of: WorkerId,
    }
    /// A copy that was made for a reader there is to stay until it is dropped.
    pub struct KeepCopy { 1 object_id: ObjectId }
    /// The sender leaves: the object is to be fetched from it and kept.
    pub struct Inherit {
        1 object_id: ObjectId,
        2 from: NodeAddress,
        /// The owner of the object, and the node on which that process lives. Nil: not known.
        3 owner: WorkerId,
        4 owner_node: NodeId,
    }
    /// The answer.
    pub struct Inherited {
        1 object_id: ObjectId,
        /// Empty, or why it is not kept.
        2 refused: String,
    }
    pub struct AskLiveness { 1 request_id: u64, 2 worker_id: WorkerId }
    pub struct TellLiveness { 1 request_id: u64, 2 dead: bool, 3 cause: DeathCause }
    /// Asks whether the other daemon is there and reads what it is sent.
    pub struct Ping {}
    /// The answer.
    pub struct Pong {}
    /// A head that has taken the cluster over, to a node of before: the control service is there now.
    pub struct HeadMoved {
        1 host: String,
        2 port: u32,
        /// The number of the head, as in [`NodeAccepted`].
        3 epoch: u64,
    }
    pub enum NodeToNode {
        1 Pull(PullObject),
        2 PullStart(PullStart),
        3 PullChunk(PullChunk),
        4 PullFailed(PullFailed),
        5 CancelPull(CancelPull),
        6 Drop(DropObject),
        7 AskLiveness(AskLiveness),
        8 TellLiveness(TellLiveness),
        9 Ping(Ping),
        10 Pong(Pong),
        11 Keep(KeepCopy),
        12 Inherit(Inherit),
        13 Inherited(Inherited),
        14 HeadMoved(HeadMoved),
        30 Asked(Asked),
        31 Inspected(Inspected),
    }
    /// Asks for the bytes of the pull of that number, over a connection to `Destination::Objects`.
    pub struct TakeBytes { 1 request_id: u64 }
    /// The answer; so many bytes follow, in no frame.
    pub struct BytesFollow {
        /// Empty, or why no bytes follow.
        1 refused: String,
        2 size: u64,
    }
    /// All bytes have come.
    pub struct BytesTaken {}
    /// The answer: the object was pinned until now, so what has come is what it is.
    pub struct BytesStood {}

    /// Asks for a package of code, or brings one: the only request over a connection to `Destination::Packages`.
    pub struct PackageRequest {
        1 name: String,
        /// The sender brings the package, unless the daemon has it; else the sender asks for it.
        2 is_brought: bool,
        /// The size of the package that is brought, in bytes.
        3 size: u64,
    }
    /// The answer: so many bytes follow, in no frame; or what is brought is awaited, and once it has come, is there.
    pub struct PackageAnswer {
        /// Empty, or why no bytes follow or are taken.
        1 refused: String,
        2 size: u64,
        3 is_there: bool,
    }

    /// The greeting of a daemon to another daemon.
    pub struct Peer { 1 address: NodeAddress, 2 node_id: NodeId }
}
