//! The operations of simulated user code, and what they name: slots, needs, targets.

use helio_proto::group::GroupStrategy;
use helio_types::{ActorId, PlacementGroupId};

use crate::rng::Rng;

/// The name of the resource of most bundles, of which nodes have little.
pub(crate) const ROOM: &str = "room";

/// Number of groups that a driver leaves.
pub(crate) const KEPT_MAX: u32 = 2;

/// The nodes on which a task is to run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Target {
    /// On any node: the task has no scheduling strategy.
    #[default]
    Anywhere,
    /// Anywhere, each on another node.
    Spread,
    /// On nodes of the head's zone.
    Zone,
    /// On the node of its caller and nowhere else.
    Here,
    /// On the node of its caller if that may be.
    RatherHere,
    /// On a node of the caller's choice and nowhere else.
    There,
    /// On the node of the caller's choice if that may be.
    RatherThere,
    /// On nodes outside the head's zone.
    OtherZone,
    /// On nodes of some zone.
    AnyZone,
    /// On nodes of a zone that is nowhere, or else of the head's.
    NoZoneOrHeads,
    /// On nodes outside the head's zone while they have room, or else in it.
    OtherZoneOrHeads,
}

impl Target {
    /// The name of the count of things that go there.
    pub(crate) fn counted(self) -> &'static str {
        match self {
            Self::Anywhere => "without a strategy",
            Self::Spread => "strategies: SPREAD",
            Self::Here => "strategies: one's own node",
            Self::RatherHere => "strategies: rather one's own node",
            Self::There => "strategies: another node",
            Self::RatherThere => "strategies: rather another node",
            Self::Zone | Self::AnyZone => "strategies: a label",
            Self::OtherZone => "strategies: not that label",
            Self::NoZoneOrHeads | Self::OtherZoneOrHeads => "strategies: labels in turn",
        }
    }

    /// Whether it is one node.
    pub(crate) fn is_node(self) -> bool {
        matches!(self, Self::Here | Self::RatherHere | Self::There | Self::RatherThere)
    }
}

/// A variable of a frame.
pub(crate) type Slot = u32;

/// The work of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Job {
    /// Returns a small value.
    Leaf,
    /// Returns a value that lies in the object store.
    Big,
    /// Returns what it got inside a value, and a reference of its own.
    Wrap,
    /// Submits calls and waits for them.
    Nest,
    /// Submits calls and returns their references.
    Spawn,
    /// Reads what it got inside its arguments.
    Read,
    /// Raises an exception.
    Raise,
    /// Raises at its first attempt.
    Flaky,
    /// Yields the items of a stream.
    Stream,
    /// Takes a long time.
    Slow,
    /// Method: keeps what it got.
    Keep,
    /// Method: reads what is kept.
    Look,
    /// Method: drops what is kept.
    Forget,
    /// Method: returns what is kept.
    Give,
    /// Method: ends the process.
    Crash,
    /// Constructor that returns.
    Construct,
    /// Constructor that raises.
    ConstructFails,
    /// Calls the actors whose handles it got, and waits for that.
    Ask,
    /// Makes an actor, calls it and waits for that.
    Hire,
}

use Job::{
    Ask, Big, Construct, ConstructFails, Crash, Flaky, Forget, Give, Hire, Keep, Leaf, Look, Nest,
    Raise, Read, Slow, Spawn, Stream, Wrap,
};

impl Job {
    const ALL: [Self; 19] = [
        Leaf,
        Big,
        Wrap,
        Nest,
        Spawn,
        Read,
        Raise,
        Flaky,
        Stream,
        Slow,
        Keep,
        Look,
        Forget,
        Give,
        Crash,
        Construct,
        ConstructFails,
        Ask,
        Hire,
    ];

    pub(crate) fn of(kind: u32) -> Self {
        Self::ALL.get(kind as usize).copied().unwrap_or(Leaf)
    }
}

/// A runtime environment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Env {
    /// The job's, which is none.
    #[default]
    Job,
    /// An environment with a variable of its own.
    Own,
    /// An environment that can never be made.
    Broken,
}

/// The rare needs of calls and actors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Needs {
    /// Hundredths of a GPU.
    pub(crate) gpu: u32,
    pub(crate) env: Env,
    /// The number of calls of one caller that may be under way to the actor of a method (`max_pending_calls`); 0 sets
    /// no bound.
    pub(crate) pending_max: u32,
}

/// A call to be made.
#[derive(Clone, Debug)]
pub(crate) struct CallOp {
    pub(crate) job: Job,
    pub(crate) salt: u64,
    /// Arguments that are references.
    pub(crate) deps: Vec<Slot>,
    /// References inside other arguments.
    pub(crate) inner: Vec<Slot>,
    /// Returns, items or children.
    pub(crate) count: u32,
    pub(crate) depth: u32,
    pub(crate) retries: i32,
    /// The body lies in the object store.
    pub(crate) is_stored: bool,
    /// The actor; `None`: a task.
    pub(crate) actor: Option<Slot>,
    /// Hundredths of a CPU.
    pub(crate) cpu: u32,
    /// For a generator: the number of unread items that are allowed.
    pub(crate) backpressure: u32,
    /// The slots for the returns, or for the stream.
    pub(crate) to: Vec<Slot>,
    /// The placement group that it runs in.
    pub(crate) place: Option<GroupBundle>,
    /// The nodes on which the call runs if it runs in no group.
    pub(crate) target: Target,
    pub(crate) needs: Needs,
}

/// A place in a placement group that a slot holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupBundle {
    pub(crate) slot: Slot,
    /// -1: any.
    pub(crate) bundle: i64,
    /// The name of the resource of the group's bundles.
    pub(crate) resource: &'static str,
}

/// A placement group to be made.
#[derive(Clone, Debug)]
pub(crate) struct GroupOp {
    pub(crate) to: Slot,
    /// The slot for the reference that is ready when the group is placed.
    pub(crate) ready: Slot,
    pub(crate) resource: &'static str,
    /// The amount of the resource in each bundle.
    pub(crate) bundles: Vec<u32>,
    /// Hundredths of a GPU in each bundle.
    pub(crate) gpu: u32,
    pub(crate) strategy: GroupStrategy,
    pub(crate) detached: bool,
}

/// An actor to be made.
#[derive(Clone, Debug)]
pub(crate) struct ActorOp {
    pub(crate) salt: u64,
    pub(crate) fails: bool,
    pub(crate) deps: Vec<Slot>,
    pub(crate) inner: Vec<Slot>,
    pub(crate) max_restarts: i64,
    pub(crate) concurrency: u32,
    pub(crate) slots: f64,
    /// Named and detached.
    pub(crate) name: Option<String>,
    /// The actor that has the name already will do.
    pub(crate) get_if_exists: bool,
    pub(crate) to: Slot,
    /// The placement group that it lives in.
    pub(crate) place: Option<GroupBundle>,
    /// The nodes on which the actor lives if it lives in no group.
    pub(crate) target: Target,
    /// The actor's methods are coroutines.
    pub(crate) is_async: bool,
    pub(crate) needs: Needs,
}

impl ActorOp {
    /// An actor without anything special.
    pub(crate) fn plain(rng: &mut Rng, max_restarts: i64, to: Slot) -> Self {
        Self {
            salt: rng.draw(),
            fails: false,
            deps: Vec::new(),
            inner: Vec::new(),
            max_restarts,
            concurrency: 1,
            slots: 0.0,
            name: None,
            get_if_exists: false,
            to,
            place: None,
            target: Target::Anywhere,
            is_async: false,
            needs: Needs::default(),
        }
    }
}

/// An operation.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Sleep(u64),
    /// Waits until a node that leaves hands over its objects, and looks so often.
    AwaitHandOver {
        looks: u32,
    },
    Put {
        to: Slot,
        is_big: bool,
        salt: u64,
        inner: Vec<Slot>,
    },
    Submit(Box<CallOp>),
    /// Reads, checks, and with `open` takes over the references inside.
    Get {
        slots: Vec<Slot>,
        open: bool,
    },
    /// Reads, checks, and takes over the last reference inside.
    Take {
        from: Slot,
        to: Slot,
    },
    /// Waits until so many of the values are known, or, with `fetch`, are here, for so long at most.
    Await {
        slots: Vec<Slot>,
        count: usize,
        fetch: bool,
        for_us: u64,
    },
    /// Reads and checks, and gives up after so long.
    TryGet {
        slots: Vec<Slot>,
        for_us: u64,
    },
    Drop(Slot),
    DropAll,
    Actor(Box<ActorOp>),
    Group(Box<GroupOp>),
    RemoveGroup(Slot),
    /// Ends a detached actor whose creation may or may not have been done.
    KillActorById(ActorId),
    /// Removes a detached group whose creator is gone.
    RemoveGroupById(PlacementGroupId),
    KillActor {
        slot: Slot,
        no_restart: bool,
    },
    Cancel {
        slot: Slot,
        force: bool,
        /// With the calls that it has made.
        recursive: bool,
    },
    /// Looks whether so much of these resources is among what waits for nodes.
    Demand(Vec<(&'static str, u32)>),
    Next {
        stream: Slot,
        to: Slot,
    },
    DropStream(Slot),
    KvPut {
        key: u64,
        value: u64,
    },
    /// Writes what is not there yet.
    KvPutNew {
        key: u64,
        value: u64,
    },
    KvDel {
        key: u64,
    },
    /// Lists the keys that begin with that byte, and with `is_whole` their values.
    KvList {
        prefix: u8,
        is_whole: bool,
    },
    KvGet {
        key: u64,
    },
    /// Lists the jobs.
    ListJobs,
    /// Takes the handle of a detached actor whose creation was acknowledged.
    Named {
        name: String,
        to: Slot,
    },
    /// Copies what the actor keeps into slots from here on.
    Recall(Slot),
    Keep,
    Forget,
    Item {
        index: u32,
        is_big: bool,
        give: Vec<Slot>,
    },
    Return {
        is_big: bool,
        give: Vec<Slot>,
    },
    Raise {
        retryable: bool,
    },
    Crash,
    Ready {
        fails: bool,
    },
}

/// The count of a call that raises each time, and is tried again each time.
pub(crate) const AGAIN: u32 = 100;

/// Slots of a call: what came inside its arguments, what it puts, and what its children return.
pub(crate) const PUT: Slot = 50;
pub(crate) const CHILD: Slot = 60;
pub(crate) const KEPT: Slot = 100;
/// Slots that opened values fill.
pub(crate) const OPENED: Slot = 10_000;
