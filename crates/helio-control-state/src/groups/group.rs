//! A placement group: which of its bundles have nodes, and which nodes are asked to hold the others.
//!
//! ```text
//!            a node for each bundle      all nodes hold theirs
//!   Waiting ─────────────────────▶ Attempt ────────────────────▶ Placed
//!      ▲                             │                             │
//!      └─────────────────────────────┘ one refuses, or dies        │ a node dies: its bundles
//!      ▲                                                           │ wait, the others stay
//!      └───────────────────────────────────────────────────────────┘
//!   from everywhere: Removed, by request, with its job, or with the actor that made it
//! ```
//! The bundles that wait are those that `places` lacks.
//!
//! An attempt has two steps:
//!
//! 1. *Reserve*: every node of the plan takes the resources out of its own. A node that cannot refuses;
//!    then the others give theirs back and the group waits again.
//! 2. *Commit*: when all nodes hold theirs, the places are made durable (STATE-2) and the nodes are told
//!    that the bundles can be used. The group is placed when all have confirmed that.
//!
//! A plan of one node does both at once. An answer to an older attempt is about the past and ignored: its
//! node has been told to give the bundles back.

use std::collections::{BTreeMap, BTreeSet};

use helio_proto::encode;
use helio_proto::group::{BundlesHeld, GroupInfo, GroupPhase, GroupSpec, Place};
use helio_scheduler::{Wanted, lent_by_bundle};
use helio_types::{ActorId, NodeId, PlacementGroupId, ResourceSet};

use crate::event::Requester;

/// A node for each of some bundles.
pub(crate) type Plan = BTreeMap<u32, NodeId>;

/// The nodes that were asked to hold bundles before this service started anew.
#[derive(Debug)]
struct FormerAttempt {
    number: u32,
    plan: Plan,
}

impl FormerAttempt {
    /// The node that was asked, if it was one alone: it was to use the bundles at once.
    fn only_node(&self) -> Option<NodeId> {
        let first = self.plan.values().next().copied();
        first.filter(|first| self.plan.values().all(|at| at == first))
    }
}

/// Nodes are asked to hold bundles.
#[derive(Debug)]
struct Attempt {
    number: u32,
    plan: Plan,
    /// The nodes that have not answered the present step.
    open: BTreeSet<NodeId>,
    /// The second step: all nodes hold their bundles.
    is_committing: bool,
}

impl Attempt {
    fn nodes(&self) -> BTreeSet<NodeId> {
        self.plan.values().copied().collect()
    }

    fn bundles_of(&self, node_id: NodeId) -> Vec<u32> {
        self.plan.iter().filter(|(_, at)| **at == node_id).map(|(bundle, _)| *bundle).collect()
    }
}

/// The present step of an attempt, as one node is told.
pub(crate) struct Step {
    pub(crate) attempt: u32,
    pub(crate) bundles: Vec<u32>,
    pub(crate) is_committing: bool,
    /// The node is the only one: it commits at once.
    pub(crate) is_only: bool,
}

/// The meaning of a node's answer.
pub(crate) enum Answer {
    /// The answer is about the past, or others have not answered yet.
    Nothing,
    /// The attempt has failed.
    Refused,
    /// All nodes hold their bundles: the places become durable, then these nodes are told to commit.
    AllHold(BTreeSet<NodeId>),
    /// The node lends its bundles.
    Usable {
        lent: ResourceSet,
        /// All nodes have confirmed: the attempt is over. The group is placed, unless it lost other bundles
        /// meanwhile.
        is_last: bool,
        /// Only this node was asked, so that the places need not be durable at once.
        is_only: bool,
    },
}

/// An attempt that was given up: what each node of it gives back.
pub(crate) struct GivenUp {
    pub(crate) bundles: Vec<(NodeId, Vec<u32>)>,
    /// The places were durable already.
    pub(crate) was_durable: bool,
}

/// A placement group.
#[derive(Debug)]
pub(crate) struct Group {
    spec: GroupSpec,
    is_removed: bool,
    /// The node of each bundle that has one. Of a removed group: those that it had.
    places: Plan,
    attempt: Option<Attempt>,
    /// After a restart: who was asked last, and may hold its bundles.
    former: Option<FormerAttempt>,
    /// Number of rounds in which nodes were asked.
    attempts: u32,
    since_ms: u64,
    /// Milliseconds until all bundles were placed for the first time.
    took_ms: Option<u64>,
    /// The reason why the group waits.
    why: String,
    is_hopeless: bool,
    /// The driver was warned that the group cannot be placed.
    was_warned: bool,
    /// Requests that are answered when it is placed or removed.
    waiters: BTreeSet<Requester>,
    /// Nodes on which requests wait for it.
    askers: BTreeSet<NodeId>,
    /// Derived from the actors: those that live in it, or will.
    users: BTreeSet<ActorId>,
}

impl Group {
    pub(crate) fn new(spec: GroupSpec, since_ms: u64) -> Self {
        Self {
            spec,
            is_removed: false,
            places: Plan::new(),
            attempt: None,
            former: None,
            attempts: 0,
            since_ms,
            took_ms: None,
            why: String::new(),
            is_hopeless: false,
            was_warned: false,
            waiters: BTreeSet::new(),
            askers: BTreeSet::new(),
            users: BTreeSet::new(),
        }
    }

    pub(crate) fn spec(&self) -> &GroupSpec {
        &self.spec
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.is_removed
    }

    pub(crate) fn places(&self) -> &Plan {
        &self.places
    }

    /// The time at which the group was made.
    pub(crate) fn since_ms(&self) -> u64 {
        self.since_ms
    }

    pub(crate) fn why(&self) -> &str {
        &self.why
    }

    pub(crate) fn users(&self) -> &BTreeSet<ActorId> {
        &self.users
    }

    pub(crate) fn has_waiters(&self) -> bool {
        !self.waiters.is_empty()
    }

    pub(crate) fn is_placed(&self) -> bool {
        !self.is_removed && self.attempt.is_none() && self.places.len() == self.spec.bundles.len()
    }

    /// Whether it lacks nodes and asks none.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.is_removed && self.attempt.is_none() && !self.is_placed()
    }

    /// The bundles that have no node.
    pub(crate) fn missing(&self) -> Vec<u32> {
        (0..self.spec.bundles.len() as u32).filter(|b| !self.places.contains_key(b)).collect()
    }

    /// The nodes that have bundles of it, were asked to hold some, or may hold some.
    pub(crate) fn nodes(&self) -> BTreeSet<NodeId> {
        let attempt = self.attempt.iter().flat_map(|attempt| attempt.plan.values());
        let former = self.former.iter().flat_map(|former| former.plan.values());
        self.places.values().chain(attempt).chain(former).copied().collect()
    }

    /// Asks `ask` what it thinks of the bundles that have no node.
    pub(crate) fn with_wanted<R>(&self, ask: impl FnOnce(Wanted<'_>) -> R) -> R {
        let missing = self.missing();
        let held: Vec<NodeId> = self.places.values().copied().collect();
        ask(Wanted { spec: &self.spec, missing: &missing, held: &held })
    }

    /// Returns the part of the spec that groups which ask for the same have in common, encoded.
    pub(crate) fn shape(&self) -> Vec<u8> {
        let spec = GroupSpec {
            strategy: self.spec.strategy,
            bundles: self.spec.bundles.clone(),
            target: self.spec.target,
            topology: self.spec.topology.clone(),
            // One that is placed in part has needs of its own.
            group_id: match self.places.is_empty() {
                true => PlacementGroupId::NIL,
                false => self.spec.group_id,
            },
            ..GroupSpec::default()
        };
        encode(&spec)
    }

    fn phase(&self) -> GroupPhase {
        match self {
            _ if self.is_removed => GroupPhase::Removed,
            _ if self.is_placed() => GroupPhase::Created,
            _ if self.took_ms.is_some() => GroupPhase::Rescheduling,
            _ if self.attempt.as_ref().is_some_and(|attempt| attempt.is_committing) => {
                GroupPhase::Prepared
            }
            _ => GroupPhase::Pending,
        }
    }

    pub(crate) fn info(&self) -> GroupInfo {
        let place =
            |(bundle, node_id): (&u32, &NodeId)| Place { bundle: *bundle, node_id: *node_id };
        GroupInfo {
            spec: self.spec.clone(),
            phase: self.phase(),
            places: self.places.iter().map(place).collect(),
            why: self.why.clone(),
            attempts: self.attempts,
            took_ms: self.took_ms.unwrap_or(0),
            infeasible: self.is_hopeless,
        }
    }

    /// The resources of some of its bundles together.
    pub(crate) fn resources_of(&self, bundles: &[u32]) -> ResourceSet {
        let mut sum = ResourceSet::default();
        for number in bundles {
            sum.add(&self.spec.bundles[*number as usize].resources);
        }
        sum
    }

    fn lent_by(&self, bundles: &[u32]) -> ResourceSet {
        let mut lent = ResourceSet::default();
        for number in bundles {
            let resources = &self.spec.bundles[*number as usize].resources;
            lent.add(&lent_by_bundle(self.spec.group_id, *number, resources));
        }
        lent
    }

    pub(super) fn add_user(&mut self, actor_id: ActorId) {
        self.users.insert(actor_id);
    }

    pub(super) fn remove_user(&mut self, actor_id: ActorId) {
        self.users.remove(&actor_id);
    }

    pub(super) fn add_waiter(&mut self, requester: Requester) {
        self.waiters.insert(requester);
    }

    /// Whether any waiter is left.
    pub(super) fn retain_waiters(&mut self, keep: impl Fn(&Requester) -> bool) -> bool {
        self.waiters.retain(keep);
        !self.waiters.is_empty()
    }

    pub(crate) fn add_asker(&mut self, node_id: NodeId) {
        self.askers.insert(node_id);
    }

    /// Takes the requests that wait for the group, and the nodes on which requests wait for it: they are told something
    /// now.
    pub(super) fn take_waiters(&mut self) -> (BTreeSet<Requester>, BTreeSet<NodeId>) {
        (std::mem::take(&mut self.waiters), std::mem::take(&mut self.askers))
    }

    pub(super) fn mark_removed(&mut self) {
        self.is_removed = true;
        self.why.clear();
    }

    /// All bundles are held.
    pub(super) fn mark_placed(&mut self, now_ms: u64) {
        let since_ms = self.since_ms;
        self.took_ms.get_or_insert(now_ms.saturating_sub(since_ms));
        self.why.clear();
        self.is_hopeless = false;
        self.was_warned = false;
    }

    pub(crate) fn set_why(&mut self, why: &str, is_hopeless: bool) {
        why.clone_into(&mut self.why);
        self.is_hopeless = is_hopeless;
    }

    /// The nodes that hear what it waits for, if that is news to them.
    pub(crate) fn explain(&mut self, why: &str, is_hopeless: bool) -> BTreeSet<NodeId> {
        let is_news = self.why != why;
        self.set_why(why, is_hopeless);
        if is_news { self.askers.clone() } else { BTreeSet::new() }
    }

    /// Whether its driver is warned now that it cannot be placed.
    pub(crate) fn warn_once(&mut self) -> bool {
        self.is_hopeless && !std::mem::replace(&mut self.was_warned, true)
    }

    /// Nodes are asked to hold the missing bundles; the attempt's number.
    pub(super) fn begin_attempt(&mut self, plan: Plan) -> u32 {
        assert!(self.attempt.is_none(), "what nodes hold for the attempt before would stay theirs");
        let is_placed = plan.keys().any(|bundle| self.places.contains_key(bundle));
        assert!(!is_placed, "two nodes would hold one bundle");
        self.attempts += 1;
        let open = plan.values().copied().collect();
        let number = self.attempts;
        self.attempt = Some(Attempt { number, plan, open, is_committing: false });
        number
    }

    /// The present step, for one node of the attempt.
    pub(crate) fn step(&self, node_id: NodeId) -> Option<Step> {
        let attempt = self.attempt.as_ref()?;
        Some(Step {
            attempt: attempt.number,
            bundles: attempt.bundles_of(node_id),
            is_committing: attempt.is_committing,
            is_only: attempt.nodes().len() == 1,
        })
    }

    /// Whether the node has not answered the present step.
    pub(crate) fn awaits(&self, node_id: NodeId) -> bool {
        self.attempt.as_ref().is_some_and(|attempt| attempt.open.contains(&node_id))
    }

    /// Whether the node is asked to hold the bundle, in the attempt of that number.
    pub(crate) fn is_asked(&self, number: u32, bundle: u32, node_id: NodeId) -> bool {
        self.attempt.as_ref().is_some_and(|attempt| {
            attempt.number == number && attempt.plan.get(&bundle) == Some(&node_id)
        })
    }

    /// The bundles that nodes are asked to hold.
    pub(crate) fn asked_bundles(&self) -> BTreeSet<u32> {
        self.attempt.iter().flat_map(|attempt| attempt.plan.keys().copied()).collect()
    }

    pub(super) fn on_held(&mut self, node_id: NodeId, held: &BundlesHeld) -> Answer {
        let Some(attempt) = &mut self.attempt else { return Answer::Nothing };
        // An answer to an attempt that was given up, or a second one to a step that was repeated.
        if attempt.number != held.attempt || !attempt.open.contains(&node_id) {
            return Answer::Nothing;
        }
        if !held.refused.is_empty() {
            return Answer::Refused;
        }
        if attempt.is_committing && !held.committed {
            // The answer to a step that was repeated.
            return Answer::Nothing;
        }
        let is_only = attempt.nodes().len() == 1;
        attempt.open.remove(&node_id);
        let is_last = attempt.open.is_empty();
        if !attempt.is_committing && is_last {
            self.places.extend(attempt.plan.clone());
            // A single node holds and commits in one step: nobody else can refuse.
            if !is_only {
                attempt.is_committing = true;
                attempt.open = attempt.nodes();
                return Answer::AllHold(attempt.nodes());
            }
        }
        if !held.committed {
            return Answer::Nothing;
        }
        let bundles = attempt.bundles_of(node_id);
        if is_last {
            self.attempt = None;
        }
        Answer::Usable { lent: self.lent_by(&bundles), is_last, is_only }
    }

    /// The attempt has failed: every node of it except the one that refused gives its bundles back.
    pub(super) fn give_up_attempt(&mut self, refuser: Option<NodeId>) -> Option<GivenUp> {
        let attempt = self.attempt.take()?;
        let was_durable = attempt.is_committing;
        if was_durable {
            // They became durable with the commit, before all nodes had answered it.
            self.places.retain(|bundle, _| !attempt.plan.contains_key(bundle));
        }
        // The one that refused holds nothing.
        let others = attempt.nodes().into_iter().filter(|id| Some(*id) != refuser);
        let bundles = others.map(|node_id| (node_id, attempt.bundles_of(node_id))).collect();
        Some(GivenUp { bundles, was_durable })
    }

    /// Whether nodes are asked to hold bundles that are lost.
    pub(crate) fn asks_for_lost(&self, is_lost: &impl Fn(u32, NodeId) -> bool) -> bool {
        let attempt = self.attempt.as_ref();
        attempt.is_some_and(|attempt| attempt.plan.iter().any(|(b, at)| is_lost(*b, *at)))
    }

    /// Bundles are lost; whether it had any of them.
    pub(super) fn lose(&mut self, is_lost: &impl Fn(u32, NodeId) -> bool) -> bool {
        let before = self.places.len();
        self.places.retain(|bundle, at| !is_lost(*bundle, *at));
        self.places.len() < before
    }

    /// The group is over: returns the bundles that each node gives back.
    pub(super) fn take_held(&mut self) -> BTreeMap<NodeId, BTreeSet<u32>> {
        let mut held: BTreeMap<NodeId, BTreeSet<u32>> = BTreeMap::new();
        let asked = self.attempt.take().map(|attempt| attempt.plan).unwrap_or_default();
        for (bundle, node_id) in asked.iter().chain(&self.places) {
            held.entry(*node_id).or_default().insert(*bundle);
        }
        held
    }

    fn known(&self, places: &[Place]) -> Plan {
        let n_bundles = self.spec.bundles.len();
        // What another release wrote is not trusted to fit the group.
        let known = places.iter().filter(|place| (place.bundle as usize) < n_bundles);
        known.map(|place| (place.bundle, place.node_id)).collect()
    }

    /// After a restart: the places that were durable.
    pub(super) fn restore_places(&mut self, places: &[Place]) {
        self.places = self.known(places);
        // How long it took is not kept; that it was placed once is what counts.
        self.took_ms = Some(0);
    }

    /// After a restart: takes over the attempt to place the group that was durable.
    pub(super) fn restore_attempt(&mut self, number: u32, places: &[Place]) {
        self.attempts = number;
        self.former = Some(FormerAttempt { number, plan: self.known(places) });
    }

    /// After a restart: where a single node was asked it may hold the bundles, and is waited for. What
    /// several nodes were asked for is durable as soon as they may use it.
    pub(super) fn resume(&mut self) {
        let is_placed = self.is_placed();
        self.former =
            self.former.take().filter(|former| !is_placed && former.only_node().is_some());
        if self.former.is_some() {
            "the control service has started anew and waits for its node".clone_into(&mut self.why);
        }
    }

    /// After a restart: the node that may hold the bundles of the former attempt.
    pub(crate) fn former_node(&self) -> Option<NodeId> {
        self.former.as_ref().and_then(FormerAttempt::only_node)
    }

    /// After a restart: the node of the former attempt is not waited for any more.
    pub(super) fn forget_former(&mut self) {
        self.former = None;
    }

    /// After a restart: its node has registered. If it holds all bundles of the former attempt, these
    /// are placed, though that was not durable yet; whether it does.
    pub(super) fn adopt(&mut self, is_held: impl Fn(u32, u32) -> bool) -> bool {
        let Some(FormerAttempt { number, plan }) = self.former.take() else { return false };
        let holds = plan.keys().all(|bundle| is_held(*bundle, number));
        if holds {
            self.places.extend(plan);
        }
        holds
    }
}
