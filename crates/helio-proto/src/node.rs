//! Between a driver or worker and a node's daemon.
//!
//! A client registers with the daemon of its own node over the UNIX socket; the answer carries the
//! object store's memory file. It may also lease workers of another node, over that daemon's TCP
//! port, after a [`LeaseSpillback`]; such a client registers with `remote` set and gets no memory.
//!
//! A client that closes its connection gives everything back: its leases' workers end, its pins and
//! unsealed objects are dropped. A daemon that closes it is gone, and its local clients exit.

use helio_types::{
    ActorId, Assigned, DeathCause, JobId, LeaseId, NodeAddress, NodeId, ObjectId, ResourceSet,
    WorkerAddress, WorkerId,
};

use crate::control::{
    ActorInfo, ActorLaunch, ControlRequest, ControlResponse, Failure, Label, Strategy,
};
use crate::environment::RuntimeEnv;
use crate::inspect::{Answered, Asked, Inspect, Inspected, LastWords};
use crate::wire::messages;

messages! {
    /// The configuration that a worker needs to run a job's code.
    pub struct JobConfig {
        1 job_id: JobId,
        /// The driver's `sys.path`, its script's folder first.
        2 sys_path: Vec<String>,
        /// The driver's working directory.
        3 cwd: String,
        4 namespace: String,
        5 runtime_env: RuntimeEnv,
        /// The driver's script, for by-value pickling rules; empty in a notebook.
        6 script: String,
    }
    /// The first message of a client.
    pub struct Register {
        1 worker_id: WorkerId,
        3 pid: u32,
        /// A driver starts a job; a worker was started by the daemon under this `worker_id`.
        4 is_driver: bool,
        /// The client lives on another node and only leases workers here.
        5 remote: bool,
        6 namespace: String,
        7 entrypoint: String,
        /// Whether log lines of the job's workers come to this driver.
        8 log_to_driver: bool,
        /// A command-line observer: asks the control service, owns nothing.
        9 observer: bool,
        /// The daemon ends when this driver does (it was started by the driver's `init`).
        10 owns_cluster: bool,
        /// The bytes on the disk of those parts of its environment that this process found or made.
        11 environment_size: u64,
    }
    /// The answer; on a UNIX socket the store's memory file comes with it.
    pub struct Registered {
        1 node_id: NodeId,
        2 job_id: JobId,
        /// The host of this node's address.
        3 host: String,
        4 session_dir: String,
        5 session_name: String,
        /// The memory file's length in bytes; 0 for a remote client or an observer.
        6 arena_size: u64,
        /// `host:port` of the control service.
        7 control_address: String,
        8 namespace: String,
        9 labels: Vec<Label>,
        10 total: ResourceSet,
        11 temp_dir: String,
        12 failure: Failure,
        13 failed: bool,
        /// The node's TCP port, behind which its drivers and workers are; 0: no other machine reaches them.
        14 port: u32,
        /// The file for what finds no room in the memory file, from [`overflow_start`] on; empty: none.
        15 overflow_path: String,
    }
    /// The requirements that tasks have in common; tasks of one class share leases.
    pub struct LeaseClass {
        1 job_id: JobId,
        2 resources: ResourceSet,
        3 strategy: Strategy,
        /// Empty: the job's.
        4 runtime_env: RuntimeEnv,
        /// Each lease runs one task: device ids, or a worker that ends after so many calls.
        5 exclusive: bool,
        /// For `name pid=` of waits and warnings: the function that is waiting.
        6 name: String,
    }
    /// Asks for a worker.
    pub struct RequestLease {
        1 request_id: u64,
        2 class: LeaseClass,
        /// Number of tasks that wait for workers of the class.
        3 backlog: u64,
        /// Came here by a spill-back: grant or queue, send on no more.
        4 spilled: bool,
        /// Nodes that hold the bytes of the first task's arguments. With the strategy "spread": where the
        /// sender has workers of the class, and another node is wanted.
        5 touched: Vec<NodeId>,
        /// The first task may be tried again; the memory monitor ends such first.
        6 is_retriable: bool,
    }
    pub struct CancelLease { 1 request_id: u64 }
    pub struct ReturnLease {
        1 lease_id: LeaseId,
        /// The worker is not to be used again (it broke, or has done its `max_calls`).
        2 discard: bool,
    }
    pub struct CreateObject {
        1 request_id: u64,
        2 object_id: ObjectId,
        3 size: u64,
        /// The owner of the object, and the node on which that process lives. Nil: the sender's.
        4 owner: WorkerId,
        5 owner_node: NodeId,
    }
    pub struct SealObject { 1 object_id: ObjectId }
    pub struct AbortObject { 1 object_id: ObjectId }
    /// Asks for an object's bytes on this node; brings them here if need be, and pins them.
    pub struct FetchObject {
        1 request_id: u64,
        2 object_id: ObjectId,
        3 locations: Vec<NodeAddress>,
        /// The owner of the object, and the node on which that process lives: the copy that is made goes with the
        /// owner. Nil: not known.
        4 owner: WorkerId,
        5 owner_node: NodeId,
    }
    pub struct CancelFetch { 1 request_id: u64 }
    /// An argument that is to be read from the object store.
    pub struct StoredArgument { 1 object_id: ObjectId, 2 size: u64 }
    /// A task is to run here that has these arguments: asks for a place among those of running tasks.
    /// Answered with [`ArgumentsAdmitted`]; over with [`ReleaseArguments`].
    pub struct AdmitArguments { 1 request_id: u64, 2 arguments: Vec<StoredArgument> }
    /// The task has ended, or does not run here after all.
    pub struct ReleaseArguments { 1 request_id: u64 }
    /// The client's last view of the object is gone: `pins` of its pins end.
    pub struct ReleaseObject { 1 object_id: ObjectId, 2 pins: u32 }
    /// The owner's last reference is gone.
    pub struct FreeObject {
        1 object_id: ObjectId,
        2 locations: Vec<NodeAddress>,
        /// The process whose later items of the same generator are freed, too; nil: this object alone.
        3 rest_of: WorkerId,
    }
    /// A copy that the node made for a reader is to stay until it is freed: its owner knows no other.
    pub struct KeepObject { 1 object_id: ObjectId, 2 at: NodeAddress }
    pub struct ControlCall { 1 request_id: u64, 2 request: ControlRequest }
    /// Asks whether a process is alive.
    pub struct Liveness { 1 request_id: u64, 2 worker: WorkerAddress }
    pub struct FlushLogs { 1 request_id: u64 }
    /// The actor's constructor has returned, or raised.
    pub struct ActorReady {
        1 actor_id: ActorId,
        /// Empty: it is alive. Else the serialized exception.
        2 error: Vec<u8>,
        /// The exception's text.
        3 message: String,
    }
    /// The process is about to end of its own will; once nobody needs it any more, if `is_needed`: others
    /// hold what it owns, or calls that it made have not ended. It takes no work meanwhile.
    pub struct Leaving { 1 cause: DeathCause, 2 is_needed: bool }
    /// The worker stays and may have work: it was asked to end if nobody needs it, but is needed; or its lessee is gone
    /// and none of the lessee's calls run here.
    pub struct Stays {}
    pub struct Blocked {}
    pub struct Unblocked {}
    /// End the node (and on the head the cluster); from the driver that started it, or `stop`.
    pub struct StopNode { 1 reason: String }
    /// Asks what a thing waits for (WHY-1).
    pub struct Why {
        1 request_id: u64,
        2 lease_request_id: u64,
        /// An object that is being brought here; nil: a lease request is asked about.
        3 object_id: ObjectId,
        /// An actor that is being made here, unless nil.
        4 actor_id: ActorId,
        /// Nodes that hold the object's value, as its owner says.
        5 nodes: Vec<NodeId>,
        /// Unless 0: [`AdmitArguments`] of this number is asked about.
        6 arguments_request_id: u64,
    }
    /// Work of this kind comes soon: what its start needs is made ready. It promises nothing.
    pub struct Expect {
        /// The runtime environment, as in [`LeaseClass`].
        1 runtime_env: RuntimeEnv,
        /// Number of workers to start ahead.
        2 workers: u32,
        /// Not 0: to be answered with [`Expected`] when the last of the workers is there, or cannot be;
        /// 0 stands in the answers for the others.
        3 request_id: u64,
        /// Modules that actors and tasks of this driver are likely to use.
        4 modules: Vec<String>,
    }

    pub enum ClientToNode {
        1 Register(Register),
        2 RequestLease(RequestLease),
        3 CancelLease(CancelLease),
        4 ReturnLease(ReturnLease),
        5 Blocked(Blocked),
        6 Unblocked(Unblocked),
        7 CreateObject(CreateObject),
        8 SealObject(SealObject),
        9 AbortObject(AbortObject),
        10 FetchObject(FetchObject),
        11 CancelFetch(CancelFetch),
        12 ReleaseObject(ReleaseObject),
        13 FreeObject(FreeObject),
        14 Control(ControlCall),
        15 Liveness(Liveness),
        16 FlushLogs(FlushLogs),
        17 ActorReady(ActorReady),
        18 Leaving(Leaving),
        19 StopNode(StopNode),
        20 Why(Why),
        21 Stays(Stays),
        22 AdmitArguments(AdmitArguments),
        23 ReleaseArguments(ReleaseArguments),
        24 KeepObject(KeepObject),
        30 Inspect(Inspect),
        31 Answered(Answered),
        32 LastWords(LastWords),
        40 Expect(Expect),
    }

    pub struct LeaseGranted {
        1 request_id: u64,
        2 lease_id: LeaseId,
        3 worker: WorkerAddress,
        4 assigned: Assigned,
    }
    pub struct LeaseRefused { 1 request_id: u64, 2 failure: Failure }
    /// Ask that node instead.
    pub struct LeaseSpillback { 1 request_id: u64, 2 node: NodeAddress }
    /// The lease request waits, and why; sent when the reason changes to one worth a warning.
    pub struct LeasePending { 1 request_id: u64, 2 why: String, 3 infeasible: bool }
    /// The lessee is to give the lease back when its task is done: others wait for what it holds.
    pub struct RevokeLease { 1 lease_id: LeaseId }
    /// The leased worker has ended.
    pub struct LeaseLost { 1 lease_id: LeaseId, 2 worker_id: WorkerId, 3 cause: DeathCause }
    /// The place to write to; the extent is this client's until sealed or aborted.
    pub struct ObjectCreated { 1 request_id: u64, 2 offset: u64 }
    pub struct ObjectRefused { 1 request_id: u64, 2 failure: Failure }
    pub struct ObjectFetched { 1 request_id: u64, 2 offset: u64, 3 size: u64 }
    /// No location has the object; `gone` are those that said so or are dead.
    pub struct ObjectMissing { 1 request_id: u64, 2 gone: Vec<NodeId>, 3 reason: String }
    /// The answer that a task's arguments may be fetched, because there is room for them.
    pub struct ArgumentsAdmitted { 1 request_id: u64 }
    pub struct ControlReply { 1 request_id: u64, 2 response: ControlResponse }
    pub struct LivenessReply { 1 request_id: u64, 2 dead: bool, 3 cause: DeathCause }
    pub struct LogLine {
        1 pid: u32,
        /// Empty when the worker is on the driver's own node.
        2 host: String,
        /// The task's function or the actor.
        3 name: String,
        4 is_stderr: bool,
        5 text: String,
    }
    pub struct LogLines { 1 lines: Vec<LogLine> }
    pub struct LogsFlushed { 1 request_id: u64 }
    /// End now: finish what runs if `drain`, else at once. With `unless_needed` the answer may be
    /// [`Stays`].
    pub struct Exit { 1 reason: String, 2 drain: bool, 3 unless_needed: bool }
    /// The process that leased this worker is gone: end at once if a call of that process runs here, else
    /// forget that process, take no call of that lease any more, and answer [`Stays`].
    pub struct LesseeGone { 1 worker_id: WorkerId, 2 reason: String, 3 lease_id: LeaseId }
    /// A sentence for the driver's terminal (an infeasible request, a lost node).
    pub struct Notice { 1 is_warning: bool, 2 text: String }
    pub struct WhyReply { 1 request_id: u64, 2 why: String }
    /// A worker of those that were expected is ready; nil: as many are ready as will be.
    pub struct Expected { 1 request_id: u64, 2 worker: WorkerAddress }
    /// The client is to give up pins that it holds only to have objects at hand: others wait for
    /// room in the store.
    pub struct RoomWanted {}
    /// The control service has declared another node dead. Connections to its daemon or its processes may
    /// live on, if it only hangs; nothing is waited for there any more.
    pub struct NodeDied {
        1 node_id: NodeId,
        /// The node that has the objects that it kept; nil: nobody.
        2 heir: NodeAddress,
    }

    pub enum NodeToClient {
        1 Registered(Registered),
        2 LeaseGranted(LeaseGranted),
        3 LeaseRefused(LeaseRefused),
        4 LeaseSpillback(LeaseSpillback),
        5 LeasePending(LeasePending),
        6 RevokeLease(RevokeLease),
        7 LeaseLost(LeaseLost),
        8 ObjectCreated(ObjectCreated),
        9 ObjectRefused(ObjectRefused),
        10 ObjectFetched(ObjectFetched),
        11 ObjectMissing(ObjectMissing),
        12 ControlReply(ControlReply),
        13 LivenessReply(LivenessReply),
        14 LogLines(LogLines),
        15 LogsFlushed(LogsFlushed),
        16 Exit(Exit),
        17 StartActor(ActorLaunch),
        18 ActorUpdate(ActorInfo),
        19 Notice(Notice),
        20 WhyReply(WhyReply),
        21 RoomWanted(RoomWanted),
        22 NodeDied(NodeDied),
        23 LesseeGone(LesseeGone),
        24 ArgumentsAdmitted(ArgumentsAdmitted),
        30 Asked(Asked),
        31 Inspected(Inspected),
        40 Expected(Expected),
    }
}

/// Returns the first offset of the overflow file, beyond those of a memory file of that size.
#[must_use]
pub const fn overflow_start(arena_size: u64) -> u64 {
    arena_size.next_multiple_of(2 << 20)
}
