//! Requests of drivers, workers and observers to the control service. Requests travel through the node's daemon, which
//! passes them on unread ([`crate::node::ControlCall`]).

use helio_types::{
    ActorId, Assigned, DeathCause, JobId, NodeAddress, NodeId, PlacementGroupId, ResourceSet,
    WorkerAddress, WorkerId,
};

use crate::environment::RuntimeEnv;
use crate::group::{AwaitGroup, GetGroup, GroupInfo, GroupSpec, Groups, ListGroups, RemoveGroup};
use crate::wire::{messages, numbers};

pub use crate::labels::{Label, Selectors};

/// The words in a reason why something waits that say that other work holds what it needs. A process that reads them
/// adds what it runs itself.
pub const WAITS_FOR_OTHER_WORK: &str = "waiting for other work to end";

numbers! {
    /// The kind of a placement strategy.
    pub enum StrategyKind {
        /// Local first, then the best of the others.
        #[default]
        Default = 0,
        /// Goes round the nodes.
        Spread = 1,
        /// Goes to a named node.
        NodeAffinity = 2,
        /// In a bundle of a placement group.
        PlacementGroup = 3,
    }
}

numbers! {
    /// An actor's place in its life.
    pub enum ActorPhase {
        /// Waits for a node, a worker or its constructor.
        #[default]
        Pending = 0,
        /// The actor takes calls.
        Alive = 1,
        /// The actor's process ended and another is being made.
        Restarting = 2,
        /// The actor has ended and will not be restarted.
        Dead = 3,
    }
}

impl ActorPhase {
    /// The name that Ray's state API gives it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "PENDING_CREATION",
            Self::Alive => "ALIVE",
            Self::Restarting => "RESTARTING",
            Self::Dead => "DEAD",
        }
    }
}

messages! {
    /// The placement strategy of a task or actor.
    pub struct Strategy {
        1 kind: StrategyKind,
        /// For node affinity.
        2 node_id: NodeId,
        /// Whether another node will do when that one is gone or full.
        3 soft: bool,
        /// For placement groups.
        4 placement_group: PlacementGroupId,
        /// The bundle's index; -1: any.
        5 bundle: i64,
        /// Whether children go into the same group.
        6 capture_children: bool,
        /// `key=selector` pairs, in the selector grammar of Ray's `label_selector`.
        7 labels: Vec<Label>,
        /// Selectors that are tried in turn while no node fits those before.
        8 fallbacks: Vec<Selectors>,
    }
    /// A way to run one method at a time of several groups.
    pub struct ConcurrencyGroup {
        1 name: String,
        2 max_concurrency: u32,
    }
    /// All that is needed to make an actor, and to make it again.
    pub struct ActorSpec {
        1 actor_id: ActorId,
        2 job_id: JobId,
        /// Empty: no name.
        3 name: String,
        4 namespace: String,
        /// Outlives its creator.
        5 detached: bool,
        /// Number of restarts; -1: no limit.
        6 max_restarts: i64,
        /// The resources that must be free for the actor to be placed.
        7 placement_resources: ResourceSet,
        /// The resources that the actor holds while it lives.
        8 resources: ResourceSet,
        /// The name of the actor's class, for people.
        9 class_name: String,
        /// A [`crate::template::Template`] in its wire form: the pickled class.
        10 template: Vec<u8>,
        /// The constructor's arguments: a [`crate::peer::Args`] in its wire form.
        11 args: Vec<u8>,
        /// The process that created the actor.
        12 owner: WorkerAddress,
        /// Number of calls that run at once.
        13 max_concurrency: u32,
        /// Whether it runs an event loop.
        14 is_async: bool,
        15 concurrency_groups: Vec<ConcurrencyGroup>,
        16 strategy: Strategy,
        /// Empty: the job's.
        17 runtime_env: RuntimeEnv,
        /// The job's configuration: a [`crate::node::JobConfig`] in its wire form.
        18 job_config: Vec<u8>,
        /// The handle in its serialized form, for those who look the actor up by name.
        19 handle: Vec<u8>,
        /// Hand out the actor that has the name already.
        20 get_if_exists: bool,
        /// Number of retries of a call after the actor's process died; -1: no limit.
        21 max_task_retries: i64,
        /// Modules that its code imports and that take long to load: its worker is forked from a process
        /// that has them.
        30 modules: Vec<String>,
        /// The constructor is left out of lists of calls (`enable_task_events=False`).
        31 is_unlisted: bool,
    }
    /// The state of an actor; published to those who hold its handle.
    pub struct ActorInfo {
        1 actor_id: ActorId,
        2 phase: ActorPhase,
        /// Number of times that the actor's process was made; calls of an older one are lost.
        3 incarnation: u32,
        /// The address at which the actor takes calls, when alive.
        4 address: WorkerAddress,
        /// The cause of the actor's end, when dead or restarting.
        5 cause: DeathCause,
        /// The reason why the actor waits, in a sentence, while it is pending.
        6 why: String,
        7 name: String,
        8 namespace: String,
        9 class_name: String,
        10 job_id: JobId,
        11 pid: u32,
        12 restarts: u32,
        13 detached: bool,
        14 max_task_retries: i64,
        15 node_id: NodeId,
        16 resources: ResourceSet,
        /// The constructor is left out of lists of calls, as in [`ActorSpec`].
        17 is_unlisted: bool,
        /// The number of the newest [`ActorLaunch`].
        18 attempt: u32,
        /// Number of restarts that count for nothing: the actor was moved off a drained node.
        19 moves: u32,
        /// The actor's process was told to end because its node is drained, and it starts again elsewhere.
        /// Durable only.
        20 is_moving: bool,
        /// The actor's process was killed so that it starts again. Durable only.
        21 is_reviving: bool,
        /// The time at which the actor was made and that at which it ended, in milliseconds since 1970; 0: not yet.
        22 made_ms: u64,
        23 ended_ms: u64,
    }
    /// The state of a node.
    pub struct NodeInfo {
        1 address: NodeAddress,
        2 alive: bool,
        3 total: ResourceSet,
        4 available: ResourceSet,
        5 labels: Vec<Label>,
        6 name: String,
        7 pid: u32,
        8 is_head: bool,
        /// Requests that wait on this node.
        9 pending: Vec<PendingDemand>,
        10 session_dir: String,
        11 hostname: String,
        /// The reason why the node is gone, when it is not alive.
        12 cause: String,
        /// Raised with every change, so that an old view never replaces a newer one.
        13 version: u64,
        14 object_store_used: u64,
        15 workers: u32,
        /// The port of the node's measurements (HTTP); 0: there are none.
        30 metrics_port: u32,
        /// The state of the machine's GPUs as the NVIDIA driver reports it; empty without such a driver.
        31 gpus: Vec<GpuUse>,
        /// The node takes no new work, and leaves when its work is done.
        32 is_draining: bool,
        /// The node that took over the objects of this one, which has left; nil: none.
        33 heir: NodeAddress,
        /// The time at which the node was found to be gone, in milliseconds since 1970; 0: it is
        /// there.
        40 ended_ms: u64,
        /// The name of the node's machine as its launcher knows it, such as that of a pod; empty: not known.
        41 instance_id: String,
        /// Whether the node runs nothing, has no actor and holds no bundle: the machine could be given back.
        42 is_idle: bool,
        /// The time at which work here ends at the latest, with `is_draining`, in milliseconds since 1970; 0: when it
        /// is done.
        43 drain_deadline_ms: u64,
        /// The reason for the drain; empty without `is_draining`.
        44 drain_reason: String,
        /// A driver's machine outside the cluster: nothing is placed there, and it is no part of what the cluster has.
        45 is_guest: bool,
    }
    /// The load of one GPU.
    pub struct GpuUse {
        /// The position in the order of the PCI bus.
        1 index: u32,
        /// The name of the model, such as `NVIDIA H200`.
        2 name: String,
        /// Whether `utilization` is known.
        3 has_utilization: bool,
        /// The percentage of the last second during which a kernel ran.
        4 utilization: u32,
        /// The GPU's memory in use, in bytes.
        5 memory_used: u64,
        /// The GPU's memory, in bytes.
        6 memory_total: u64,
        /// The power that the GPU draws, in milliwatts; 0: not known.
        7 power_mw: u32,
        /// Degrees Celsius; 0: not known.
        8 temperature: u32,
    }
    /// A shape of request that waits, and the number of its requests.
    pub struct PendingDemand {
        1 resources: ResourceSet,
        2 count: u64,
        /// The reason why the request waits, in a sentence (WHY-1).
        3 why: String,
        /// The request may run on another node than the one that reports it.
        4 may_spill: bool,
        /// The nodes to which it may go, with `may_spill`.
        5 strategy: Strategy,
    }
    /// A job: one driver's run.
    pub struct JobInfo {
        1 job_id: JobId,
        2 driver: WorkerId,
        3 node_id: NodeId,
        4 alive: bool,
        5 entrypoint: String,
        6 started_ms: u64,
        7 ended_ms: u64,
        8 namespace: String,
        9 pid: u32,
    }
    pub struct Empty {}
    pub struct KillActor {
        1 actor_id: ActorId,
        2 no_restart: bool,
        /// The last handle is gone: let it finish what it was sent.
        3 out_of_scope: bool,
    }
    pub struct GetNamedActor { 1 name: String, 2 namespace: String }
    pub struct ListNamedActors { 1 all_namespaces: bool, 2 namespace: String }
    pub struct SubscribeActor { 1 actor_id: ActorId }
    pub struct KvPut { 1 namespace: String, 2 key: Vec<u8>, 3 value: Vec<u8>, 4 overwrite: bool }
    pub struct KvGet { 1 namespace: String, 2 key: Vec<u8> }
    pub struct KvDel { 1 namespace: String, 2 key: Vec<u8> }
    /// The keys that begin with `prefix`.
    pub struct KvKeys { 1 namespace: String, 2 prefix: Vec<u8> }
    /// Answered with [`KvPairs`].
    pub struct KvEntries { 1 namespace: String, 2 prefix: Vec<u8> }
    pub struct ListNodes {}
    /// Answered once [`Nodes::membership`] is another number than this one.
    pub struct AwaitNodes { 1 seen: u64 }
    pub struct ListActors {}
    pub struct ListJobs {}
    /// A new driver.
    pub struct StartJob {
        1 driver: WorkerId,
        2 node_id: NodeId,
        3 entrypoint: String,
        4 namespace: String,
        5 pid: u32,
    }
    /// Asks for one thing of the control service.
    pub enum ControlRequest {
        1 CreateActor(ActorSpec),
        2 KillActor(KillActor),
        3 GetNamedActor(GetNamedActor),
        4 ListNamedActors(ListNamedActors),
        /// Answered with the present [`ActorInfo`]; changes follow as `NodeToClient::ActorUpdate`.
        5 SubscribeActor(SubscribeActor),
        6 KvPut(KvPut),
        7 KvGet(KvGet),
        8 KvDel(KvDel),
        9 KvKeys(KvKeys),
        10 ListNodes(ListNodes),
        11 ListActors(ListActors),
        12 ListJobs(ListJobs),
        13 StartJob(StartJob),
        14 UnsubscribeActor(UnsubscribeActor),
        /// The whole cluster is to end; for `heliostat stop` on the head.
        15 StopCluster(StopCluster),
        16 DrainNode(DrainNode),
        17 KvEntries(KvEntries),
        18 AwaitNodes(AwaitNodes),
        /// Answered with [`Changes`]: whoever reads lists again and again asks this first.
        19 CountChanges(CountChanges),
        40 CreateGroup(GroupSpec),
        41 RemoveGroup(RemoveGroup),
        42 AwaitGroup(AwaitGroup),
        43 GetGroup(GetGroup),
        44 ListGroups(ListGroups),
    }
    pub struct UnsubscribeActor { 1 actor_id: ActorId }
    pub struct CountChanges {}
    /// A number that grows whenever actors, jobs, placement groups, the key-value table or the members of the cluster may
    /// have changed, over restarts of the control service, too. What nodes use and what waits on them is not counted.
    pub struct Changes { 1 count: u64 }
    pub struct StopCluster { 1 reason: String }
    /// A node is to hand over what it has, and to leave.
    pub struct DrainNode {
        1 node_id: NodeId,
        2 reason: String,
        /// Milliseconds that the work there may go on; 0: until it has ended.
        3 grace_ms: u64,
        /// The node is to stay after all, unless it is handing its objects over already.
        4 is_cancelled: bool,
    }
    pub struct Failure {
        1 kind: FailureKind,
        2 message: String,
    }
    pub struct NamedActor { 1 name: String, 2 namespace: String, 3 actor_id: ActorId, 4 handle: Vec<u8> }
    pub struct NamedActors { 1 actors: Vec<NamedActor> }
    pub struct KvValue { 1 found: bool, 2 value: Vec<u8> }
    pub struct KvList { 1 keys: Vec<KvValue> }
    pub struct KvPair { 1 key: Vec<u8>, 2 value: Vec<u8> }
    pub struct KvPairs { 1 pairs: Vec<KvPair> }
    pub struct Nodes {
        1 nodes: Vec<NodeInfo>,
        /// Actors that no node has been found for yet.
        2 pending: Vec<PendingDemand>,
        /// A number that changes when a node has joined, is gone, is to leave, or stays after all.
        3 membership: u64,
    }
    pub struct Actors { 1 actors: Vec<ActorInfo> }
    pub struct Jobs { 1 jobs: Vec<JobInfo> }
    /// The answer.
    pub enum ControlResponse {
        1 Done(Empty),
        2 Failed(Failure),
        3 Actor(ActorInfo),
        4 NamedActor(NamedActor),
        5 NamedActors(NamedActors),
        6 KvValue(KvValue),
        7 KvList(KvList),
        8 Nodes(Nodes),
        9 Actors(Actors),
        10 Jobs(Jobs),
        11 Job(JobInfo),
        12 KvPairs(KvPairs),
        13 Changes(Changes),
        40 Group(GroupInfo),
        41 Groups(Groups),
    }
    /// The order to a worker to become an actor.
    pub struct ActorLaunch {
        1 spec: ActorSpec,
        2 incarnation: u32,
        3 assigned: Assigned,
        /// Number of times that the actor was given to a node, this one included. What is sent again,
        /// because the first may be lost, has the same number.
        4 attempt: u32,
    }
}

numbers! {
    /// The kind of a refusal by the control service or a daemon; chooses the exception.
    pub enum FailureKind {
        /// The request makes no sense: `ValueError`.
        Invalid = 1,
        /// No such thing: `ValueError`.
        NotFound = 2,
        /// The name is taken: `ActorAlreadyExistsError`.
        AlreadyExists = 3,
        /// No node can ever have the actor or task: `ActorUnschedulableError`, `TaskUnschedulableError`.
        Unschedulable = 4,
        /// The runtime environment could not be made: `RuntimeEnvSetupError`.
        RuntimeEnv = 5,
        /// The object store is full: `ObjectStoreFullError`.
        StoreFull = 6,
        /// The disk is full: `OutOfDiskError`.
        OutOfDisk = 7,
        /// Any other failure: `RaySystemError`.
        #[default]
        System = 8,
        /// The placement group is gone: `TaskPlacementGroupRemoved`.
        GroupRemoved = 20,
    }
}

impl Failure {
    /// A refusal of that kind.
    #[must_use]
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}
