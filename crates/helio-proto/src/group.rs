//! Placement groups: what is asked for, what is known of them, and how control and nodes agree on
//! who holds which bundle.
//!
//! ```text
//!   control              node                       one node:        Reserve(commit) ─▶ Held(committed)
//!      ─ Reserve ─▶  takes the resources            several nodes:   Reserve ─▶ Held, from all, then
//!      ◀─ Held ─                                                     Commit ─▶ Held(committed), from all
//!      ─ Commit ─▶   the bundle can be used
//!      ─ Return ─▶   gives them back; who uses them ends
//! ```
//! Every message may be heard twice and means the same then.

use helio_types::{ActorId, JobId, NodeId, PlacementGroupId, ResourceSet};

use crate::labels::Label;
use crate::wire::{messages, numbers};

numbers! {
    /// The strategy by which the bundles of a group lie on the nodes.
    pub enum GroupStrategy {
        /// On as few nodes as possible.
        #[default]
        Pack = 0,
        /// On as many as possible.
        Spread = 1,
        /// All bundles on one node, or the group waits.
        StrictPack = 2,
        /// Each on a node of its own.
        StrictSpread = 3,
    }
}

impl GroupStrategy {
    /// Returns the name of the strategy in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pack => "PACK",
            Self::Spread => "SPREAD",
            Self::StrictPack => "STRICT_PACK",
            Self::StrictSpread => "STRICT_SPREAD",
        }
    }

    /// The strategy of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.name() == name)
    }
}

numbers! {
    /// A group's place in its life.
    pub enum GroupPhase {
        /// Waits for room.
        #[default]
        Pending = 0,
        /// Nodes have been asked to hold its bundles.
        Prepared = 1,
        /// Every bundle is held.
        Created = 2,
        /// The group was removed, by its creator or with its job.
        Removed = 3,
        /// A node died with bundles of it, and others are looked for.
        Rescheduling = 4,
    }
}

impl GroupPhase {
    /// The name that Ray's table gives it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Prepared => "PREPARED",
            Self::Created => "CREATED",
            Self::Removed => "REMOVED",
            Self::Rescheduling => "RESCHEDULING",
        }
    }
}

messages! {
    /// Resources that are reserved together on one node.
    pub struct Bundle {
        1 resources: ResourceSet,
        /// `key=selector` pairs that its node must fit.
        2 labels: Vec<Label>,
    }
    /// The request for a placement group.
    pub struct GroupSpec {
        1 group_id: PlacementGroupId,
        2 job_id: JobId,
        /// Empty: no name.
        3 name: String,
        4 namespace: String,
        5 strategy: GroupStrategy,
        /// Outlives its creator.
        6 detached: bool,
        7 bundles: Vec<Bundle>,
        /// The actor that made it; `NIL`: the job's driver or a task.
        8 creator: ActorId,
        /// For `STRICT_PACK`: the node that is tried first.
        9 target: NodeId,
        /// Labels whose values the nodes of a group share (`PACK`, `STRICT_PACK`) or do not
        /// (`SPREAD`, `STRICT_SPREAD`).
        10 topology: Vec<Label>,
        /// The time at which the control service took the group in, in milliseconds since 1970; 0: not yet.
        11 made_ms: u64,
    }
    /// The node of a bundle.
    pub struct Place { 1 bundle: u32, 2 node_id: NodeId }
    /// The state of a placement group.
    pub struct GroupInfo {
        1 spec: GroupSpec,
        2 phase: GroupPhase,
        /// The bundles that have a node.
        3 places: Vec<Place>,
        /// The reason why the group waits, in a sentence (WHY-1).
        4 why: String,
        /// Number of rounds in which nodes were asked.
        5 attempts: u32,
        /// From its creation until all bundles were held, in milliseconds.
        6 took_ms: u64,
        /// No node could ever hold what it asks for.
        7 infeasible: bool,
    }
    pub struct RemoveGroup { 1 group_id: PlacementGroupId }
    /// Answered when every bundle is held, or when the group is gone.
    pub struct AwaitGroup { 1 group_id: PlacementGroupId }
    /// Asks for a group by id, or by name when the id is `NIL`.
    pub struct GetGroup { 1 group_id: PlacementGroupId, 2 name: String, 3 namespace: String }
    pub struct ListGroups {}
    pub struct Groups { 1 groups: Vec<GroupInfo> }

    /// A bundle and what it holds.
    pub struct NumberedBundle { 1 bundle: u32, 2 resources: ResourceSet }
    /// Hold these bundles, all of them or none.
    pub struct ReserveBundles {
        1 group_id: PlacementGroupId,
        /// Counts the tries to place the group; the answer carries it.
        2 attempt: u32,
        3 bundles: Vec<NumberedBundle>,
        /// No other node takes part: they can be used at once.
        4 commit: bool,
    }
    /// All nodes of the attempt hold theirs: they can be used.
    pub struct CommitBundles { 1 group_id: PlacementGroupId, 2 attempt: u32 }
    /// Give these bundles back.
    pub struct ReturnBundles {
        1 group_id: PlacementGroupId,
        2 bundles: Vec<u32>,
        /// The whole group is gone: who waits for it here is told so.
        3 removed: bool,
    }
    /// The answer to a reservation (`committed` false) or a commit.
    pub struct BundlesHeld {
        1 group_id: PlacementGroupId,
        2 attempt: u32,
        3 committed: bool,
        /// The reason why the node holds none of them; empty: it holds them.
        4 refused: String,
    }
    /// A bundle that a node holds when it registers.
    pub struct HeldBundle {
        1 group_id: PlacementGroupId,
        2 bundle: u32,
        3 attempt: u32,
        4 committed: bool,
    }
    /// Requests wait for a group that this node knows nothing of.
    pub struct AskGroup { 1 group_id: PlacementGroupId }
    /// The answer, repeated when it changes. Where a placed group is, says a `ClusterView`.
    pub struct GroupNews {
        1 group_id: PlacementGroupId,
        2 removed: bool,
        /// The reason why the group waits; empty: it is placed.
        3 why: String,
    }
}
