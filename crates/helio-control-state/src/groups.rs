//! A placement group's life.
//!
//! ```text
//!            a node for each bundle      all nodes hold theirs
//!   Waiting ─────────────────────▶ Trying ─────────────────────▶ Placed
//!      ▲                             │                             │
//!      └─────────────────────────────┘ one refuses, or dies        │ a node dies: its bundles
//!      ▲                                                           │ wait, the others stay
//!      └───────────────────────────────────────────────────────────┘
//!   from everywhere: Removed, by request, with its job, or with the actor that made it
//! ```
//! Which bundles wait, is what `places` lacks; who is asked to hold them, is in `trying` (`bundles`).
//! A group belongs to its job, and if an actor made it, to that actor too: it ends when both have.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use helio_config::control::{BUNDLES_MAX, GROUPS_MAX, LIST_ROWS_MAX, REMOVED_GROUPS_MAX};
use helio_proto::cluster::{ClusterView, ControlToNode};
use helio_proto::control::{ControlResponse, Empty, Failure, FailureKind, PendingDemand, Strategy};
use helio_proto::encode;
use helio_proto::group::{
    AskGroup, GetGroup, GroupInfo, GroupNews, GroupPhase, GroupSpec, Groups as List, Place,
};
use helio_scheduler::{InGroup, Wanted, why_group};
use helio_types::{ActorId, DeathCause, DeathKind, JobId, NodeId, PlacementGroupId};

use crate::Control;
use crate::actors::State;
use crate::bundles::{Asked, Trying};
use crate::requests::Asker;

/// A placement group.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) spec: GroupSpec,
    pub(crate) is_removed: bool,
    /// The node of each bundle that has one. Of a removed group: those that it had.
    pub(crate) places: BTreeMap<u32, NodeId>,
    /// Nodes are asked to hold the other bundles.
    pub(crate) trying: Option<Trying>,
    /// After a restart: who was asked last, and may hold its bundles.
    pub(crate) asked: Option<Asked>,
    /// How often nodes were asked.
    pub(crate) attempts: u32,
    since_ms: u64,
    /// How long it took until all was placed for the first time.
    pub(crate) took_ms: Option<u64>,
    /// What it waits for.
    why: String,
    is_hopeless: bool,
    /// Its driver was warned that it cannot be placed.
    warned: bool,
    /// Who is answered when it is placed or gone.
    pub(crate) waiters: BTreeSet<Asker>,
    /// Nodes on which requests wait for it.
    askers: BTreeSet<NodeId>,
    /// Derived from the actors: those that live in it, or are to.
    pub(crate) users: BTreeSet<ActorId>,
}

/// All groups.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub(crate) all: BTreeMap<PlacementGroupId, Group>,
    pub(crate) removed: VecDeque<PlacementGroupId>,
    /// Derived: names that are taken, by namespace.
    pub(crate) names: BTreeMap<(String, String), PlacementGroupId>,
    /// Derived: those that wait for room, by what they ask for; a number is a place in the queue.
    pub(crate) waiting: BTreeMap<Vec<u8>, BTreeMap<u64, PlacementGroupId>>,
    /// Derived: where each waiting group stands.
    pub(crate) queued: BTreeMap<PlacementGroupId, (Vec<u8>, u64)>,
    pub(crate) next: u64,
    /// Derived: actors that made groups, while they live.
    pub(crate) creators: BTreeSet<ActorId>,
    /// Derived: groups with waiters.
    pub(crate) awaited: BTreeSet<PlacementGroupId>,
}

impl Group {
    pub(crate) fn new(spec: GroupSpec, since_ms: u64) -> Self {
        Self {
            spec,
            is_removed: false,
            places: BTreeMap::new(),
            trying: None,
            asked: None,
            attempts: 0,
            since_ms,
            took_ms: None,
            why: String::new(),
            is_hopeless: false,
            warned: false,
            waiters: BTreeSet::new(),
            askers: BTreeSet::new(),
            users: BTreeSet::new(),
        }
    }

    pub(crate) fn is_placed(&self) -> bool {
        !self.is_removed && self.trying.is_none() && self.places.len() == self.spec.bundles.len()
    }

    /// The bundles that have no node and are not being reserved.
    pub(crate) fn missing(&self) -> Vec<u32> {
        (0..self.spec.bundles.len() as u32).filter(|b| !self.places.contains_key(b)).collect()
    }

    pub(crate) fn held(&self) -> Vec<NodeId> {
        self.places.values().copied().collect()
    }

    /// What groups that ask for the same have in common.
    fn shape(&self) -> Vec<u8> {
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
            _ if self.trying.as_ref().is_some_and(|trying| trying.is_committing) => {
                GroupPhase::Prepared
            }
            _ => GroupPhase::Pending,
        }
    }

    fn info(&self) -> GroupInfo {
        let place =
            |(bundle, node_id): (&u32, &NodeId)| Place { bundle: *bundle, node_id: *node_id };
        GroupInfo {
            spec: self.spec.clone(),
            phase: self.phase() as u32,
            places: self.places.iter().map(place).collect(),
            why: self.why.clone(),
            attempts: self.attempts,
            took_ms: self.took_ms.unwrap_or(0),
            infeasible: self.is_hopeless,
        }
    }
}

/// What is said to those who wait for a group that is gone.
fn gone(group_id: PlacementGroupId) -> Failure {
    let text = format!("the placement group {group_id} was removed, or never was");
    Failure::new(FailureKind::GroupRemoved, text)
}

impl Control {
    /// The group, unless it is over.
    pub(crate) fn group(&self, group_id: PlacementGroupId) -> Option<&Group> {
        self.groups.all.get(&group_id).filter(|group| !group.is_removed)
    }

    pub(crate) fn group_mut(&mut self, group_id: PlacementGroupId) -> Option<&mut Group> {
        self.groups.all.get_mut(&group_id).filter(|group| !group.is_removed)
    }

    pub(crate) fn create_group(&mut self, spec: GroupSpec) -> ControlResponse {
        let group_id = spec.group_id;
        // A node that lost its connection asks again.
        if self.groups.all.contains_key(&group_id) {
            return Empty {}.into();
        }
        let refuse = |kind, text: String| Failure::new(kind, text).into();
        let name = (spec.namespace.clone(), spec.name.clone());
        if group_id.is_nil() || spec.bundles.is_empty() || spec.bundles.len() > BUNDLES_MAX {
            let text = format!("a placement group has an id and 1 to {BUNDLES_MAX} bundles");
            return refuse(FailureKind::Invalid, text);
        }
        if !spec.name.is_empty() && self.groups.names.contains_key(&name) {
            let text = format!(
                "the name '{}' is taken by another placement group of the namespace: remove that one, or \
                 get it by `get_placement_group`",
                spec.name
            );
            return refuse(FailureKind::System, text);
        }
        if self.groups.all.len() - self.groups.removed.len() >= GROUPS_MAX {
            let text = format!("the cluster has {GROUPS_MAX} placement groups, the most it can");
            return refuse(FailureKind::System, text);
        }
        if !self.outlives(&spec) {
            return refuse(FailureKind::System, "its job is over".to_owned());
        }
        self.persist_group(&spec);
        if !spec.name.is_empty() {
            self.groups.names.insert(name, group_id);
        }
        if !spec.creator.is_nil() {
            self.groups.creators.insert(spec.creator);
        }
        self.groups.all.insert(group_id, Group::new(spec, self.now_ms));
        self.wait_for_room(group_id);
        Empty {}.into()
    }

    /// Whether what made the group is still there.
    fn outlives(&self, spec: &GroupSpec) -> bool {
        let creator = self.actors.get(&spec.creator).is_some_and(|actor| !actor.is_dead());
        spec.detached || creator || self.jobs.running.contains_key(&spec.job_id)
    }

    pub(crate) fn remove_group(&mut self, group_id: PlacementGroupId, reason: &str) {
        let Some(group) = self.group(group_id) else { return };
        let users = group.users.clone();
        for actor_id in users {
            self.end_actor_of_group(actor_id, group_id, reason);
        }
        self.no_longer_queued(group_id);
        self.return_bundles(group_id);
        let Some(group) = self.group_mut(group_id) else { return };
        group.is_removed = true;
        group.why.clear();
        let (name, space) = (group.spec.name.clone(), group.spec.namespace.clone());
        let askers = std::mem::take(&mut group.askers);
        let waiters = std::mem::take(&mut group.waiters);
        self.groups.awaited.remove(&group_id);
        if self.groups.names.get(&(space.clone(), name.clone())) == Some(&group_id) {
            self.groups.names.remove(&(space, name));
        }
        self.forget_group(group_id);
        for node_id in askers {
            self.send(node_id, GroupNews { group_id, removed: true, why: String::new() });
        }
        for asker in waiters {
            self.reply(asker, gone(group_id));
        }
        self.groups.removed.push_back(group_id);
        if self.groups.removed.len() > REMOVED_GROUPS_MAX
            && let Some(oldest) = self.groups.removed.pop_front()
        {
            self.groups.all.remove(&oldest);
        }
    }

    fn end_actor_of_group(&mut self, actor_id: ActorId, group_id: PlacementGroupId, reason: &str) {
        let sentence = format!("its placement group {group_id} was removed: {reason}");
        let mut cause = DeathCause::new(DeathKind::GroupRemoved, sentence);
        if let Some(actor) = self.actors.get(&actor_id)
            && let State::Alive { pid, .. } = actor.state
        {
            cause.pid = pid;
        }
        self.kill(actor_id, cause);
    }

    /// A new actor is to live in a group; one that is gone takes it along.
    pub(crate) fn join_group(&mut self, actor_id: ActorId) {
        let Some(actor) = self.actors.get(&actor_id) else { return };
        let Some(place) = InGroup::of(&actor.spec.strategy) else { return };
        match self.group_mut(place.group_id) {
            Some(group) => {
                group.users.insert(actor_id);
            }
            None => self.end_actor_of_group(actor_id, place.group_id, "before it was created"),
        }
    }

    pub(crate) fn leave_group(&mut self, actor_id: ActorId, strategy: &Strategy) {
        if let Some(place) = InGroup::of(strategy)
            && let Some(group) = self.groups.all.get_mut(&place.group_id)
        {
            group.users.remove(&actor_id);
        }
    }

    /// The groups of a job that is over, except those that outlive it.
    pub(crate) fn end_groups_of_job(&mut self, job_id: JobId) {
        let of_job = |group: &&Group| !group.is_removed && group.spec.job_id == job_id;
        let over = |group: &&Group| of_job(group) && !self.outlives(&group.spec);
        let over: Vec<PlacementGroupId> =
            self.groups.all.values().filter(over).map(|group| group.spec.group_id).collect();
        for group_id in over {
            self.remove_group(group_id, "its job is over: the driver has ended");
        }
    }

    /// The actor is over; what it made goes with it, unless their job still runs.
    pub(crate) fn end_groups_of_actor(&mut self, actor_id: ActorId) {
        let made_some = self.groups.creators.remove(&actor_id);
        if made_some && !self.jobs.running.contains_key(&actor_id.job()) {
            self.end_groups_of_job(actor_id.job());
        }
    }

    /// After a restart: what had places keeps them until its nodes say otherwise. Where a single node was
    /// asked for the rest it may hold that ([`Control::adopt`]), and is waited for.
    pub(crate) fn resume_groups(&mut self) {
        let members: Vec<ActorId> = self.actors.keys().copied().collect();
        for actor_id in members {
            self.join_group(actor_id);
        }
        let creators = self.groups.all.values().map(|group| group.spec.creator);
        self.groups.creators = creators.filter(|id| self.actors.contains_key(id)).collect();
        for group in self.groups.all.values_mut() {
            let is_placed = group.is_placed();
            // What several nodes were asked for is durable as soon as they may use it.
            group.asked =
                group.asked.take().filter(|asked| !is_placed && asked.node_id().is_some());
            if group.asked.is_some() {
                "the control service has started anew and waits for its node"
                    .clone_into(&mut group.why);
            }
        }
        self.place_resumed_groups(|asked| asked.is_none());
    }

    /// Groups without all of their places whose node of before is not waited for (any more).
    pub(crate) fn place_resumed_groups(&mut self, is_due: impl Fn(Option<&Asked>) -> bool) {
        let waits = |group: &&Group| {
            !group.is_removed
                && group.trying.is_none()
                && !group.is_placed()
                && is_due(group.asked.as_ref())
        };
        let open: Vec<PlacementGroupId> =
            self.groups.all.values().filter(waits).map(|group| group.spec.group_id).collect();
        for group_id in open {
            if let Some(group) = self.group_mut(group_id) {
                group.asked = None;
            }
            if !self.groups.queued.contains_key(&group_id) {
                self.wait_for_room(group_id);
            }
        }
    }

    pub(crate) fn await_group(&mut self, asker: Asker, group_id: PlacementGroupId) {
        let Some(group) = self.group_mut(group_id) else {
            return self.reply(asker, gone(group_id));
        };
        if group.is_placed() {
            return self.reply(asker, Empty {});
        }
        group.waiters.insert(asker);
        self.groups.awaited.insert(group_id);
    }

    /// A process that waited is gone.
    pub(crate) fn drop_waiter(&mut self, gone: impl Fn(&Asker) -> bool) {
        let groups = &mut self.groups.all;
        self.groups.awaited.retain(|group_id| {
            let Some(group) = groups.get_mut(group_id) else { return false };
            group.waiters.retain(|asker| !gone(asker));
            !group.waiters.is_empty()
        });
    }

    /// All bundles are held: whoever waited for that goes on.
    pub(crate) fn group_is_placed(&mut self, group_id: PlacementGroupId) {
        let now_ms = self.now_ms;
        let Some(group) = self.group_mut(group_id) else { return };
        let since_ms = group.since_ms;
        group.took_ms.get_or_insert(now_ms.saturating_sub(since_ms));
        group.why.clear();
        group.is_hopeless = false;
        group.warned = false;
        let waiters = std::mem::take(&mut group.waiters);
        let askers = std::mem::take(&mut group.askers);
        self.groups.awaited.remove(&group_id);
        for asker in waiters {
            self.reply(asker, Empty {});
        }
        for node_id in askers {
            self.tell_where(node_id, group_id);
        }
    }

    pub(crate) fn on_ask_group(&mut self, node_id: NodeId, ask: &AskGroup) {
        let group_id = ask.group_id;
        let Some(group) = self.group_mut(group_id) else {
            return self.send(node_id, GroupNews { group_id, removed: true, why: String::new() });
        };
        if group.is_placed() {
            return self.tell_where(node_id, group_id);
        }
        group.askers.insert(node_id);
        let why = group.why.clone();
        self.send(node_id, GroupNews { group_id, removed: false, why });
    }

    /// The nodes that hold the group's bundles, without waiting for the next round of views.
    fn tell_where(&mut self, to: NodeId, group_id: PlacementGroupId) {
        let Some(group) = self.group(group_id) else { return };
        let holders: BTreeSet<NodeId> = group.places.values().copied().collect();
        let alive = holders.iter().filter_map(|id| self.nodes.get(id)).filter(|n| n.info.alive);
        let nodes = alive.map(|node| node.info.clone()).collect();
        self.send(to, ControlToNode::View(ClusterView { nodes }));
        self.send(to, GroupNews { group_id, removed: false, why: String::new() });
    }

    pub(crate) fn get_group(&self, get: &GetGroup) -> ControlResponse {
        let by_name = || self.groups.names.get(&(get.namespace.clone(), get.name.clone()));
        let group_id = if get.group_id.is_nil() { by_name() } else { Some(&get.group_id) };
        match group_id.and_then(|id| self.groups.all.get(id)) {
            Some(group) => group.info().into(),
            None if get.group_id.is_nil() => {
                let text = format!(
                    "Failed to look up placement group with name: {} (namespace {})",
                    get.name, get.namespace
                );
                Failure::new(FailureKind::NotFound, text).into()
            }
            None => gone(get.group_id).into(),
        }
    }

    pub(crate) fn list_groups(&self) -> ControlResponse {
        let alive = self.groups.all.values().filter(|group| !group.is_removed);
        let removed = self.groups.removed.iter().rev().filter_map(|id| self.groups.all.get(id));
        let rows = alive.chain(removed).take(LIST_ROWS_MAX);
        List { groups: rows.map(Group::info).collect() }.into()
    }

    /// **WHY-1** Says anew what the groups wait for, and tells those who asked. A driver is warned once
    /// of a group that no node could ever hold.
    pub(crate) fn explain_groups(&mut self) {
        let queued: Vec<PlacementGroupId> =
            self.groups.waiting.values().flat_map(BTreeMap::values).copied().collect();
        let mut said: BTreeMap<Vec<u8>, (String, bool)> = BTreeMap::new();
        for group_id in queued {
            let Some((shape, _)) = self.groups.queued.get(&group_id) else { continue };
            let shape = shape.clone();
            let (why, hopeless) = match said.get(&shape) {
                Some(said) => said.clone(),
                None => self.why_group_waits(group_id),
            };
            self.explain_group(group_id, &why, hopeless);
            said.insert(shape, (why, hopeless));
        }
    }

    fn why_group_waits(&self, group_id: PlacementGroupId) -> (String, bool) {
        let Some(group) = self.group(group_id) else { return Default::default() };
        let (missing, held) = (group.missing(), group.held());
        why_group(&self.views, Wanted { spec: &group.spec, missing: &missing, held: &held })
    }

    pub(crate) fn explain_group_now(&mut self, group_id: PlacementGroupId) {
        let (why, hopeless) = self.why_group_waits(group_id);
        if let Some(group) = self.group_mut(group_id) {
            (group.why, group.is_hopeless) = (why, hopeless);
        }
    }

    fn explain_group(&mut self, group_id: PlacementGroupId, why: &str, hopeless: bool) {
        let recovering = self.recovering_until_ms.is_some();
        let Some(group) = self.group_mut(group_id) else { return };
        group.is_hopeless = hopeless;
        let is_news = group.why != why;
        why.clone_into(&mut group.why);
        let warns = hopeless && !recovering && !std::mem::replace(&mut group.warned, hopeless);
        let (job_id, askers) = (group.spec.job_id, group.askers.clone());
        for node_id in askers.into_iter().filter(|_| is_news) {
            self.send(node_id, GroupNews { group_id, removed: false, why: why.to_owned() });
        }
        if warns {
            let text = format!(
                "The placement group {group_id} cannot be placed: {why}. It waits until a node joins that can \
                 hold it."
            );
            self.warn_driver(job_id, text);
        }
    }

    /// What an actor of that strategy waits for, if it is its group.
    pub(crate) fn why_group_of(&self, strategy: &Strategy) -> Option<String> {
        let place = InGroup::of(strategy)?;
        let group = self.group(place.group_id).filter(|group| !group.is_placed())?;
        Some(format!("its placement group {} is not placed yet: {}", place.group_id, group.why))
    }

    /// Bundles that wait for room, a row a shape.
    pub(crate) fn pending_bundles(&self) -> Vec<PendingDemand> {
        let mut rows = Vec::new();
        for queue in self.groups.waiting.values().take(LIST_ROWS_MAX) {
            let first = queue.values().next().and_then(|id| self.group(*id));
            let Some(group) = first else { continue };
            for number in group.missing().into_iter().take(LIST_ROWS_MAX - rows.len()) {
                rows.push(PendingDemand {
                    resources: group.spec.bundles[number as usize].resources.clone(),
                    count: queue.len() as u64,
                    why: group.why.clone(),
                });
            }
        }
        rows
    }

    pub(crate) fn queue_group(&mut self, group_id: PlacementGroupId) {
        let Some(group) = self.group(group_id) else { return };
        let shape = group.shape();
        self.groups.next += 1;
        let number = self.groups.next;
        self.groups.waiting.entry(shape.clone()).or_default().insert(number, group_id);
        self.groups.queued.insert(group_id, (shape, number));
    }

    pub(crate) fn no_longer_queued(&mut self, group_id: PlacementGroupId) {
        let Some((shape, number)) = self.groups.queued.remove(&group_id) else { return };
        if let Some(queue) = self.groups.waiting.get_mut(&shape) {
            queue.remove(&number);
            if queue.is_empty() {
                self.groups.waiting.remove(&shape);
            }
        }
    }
}
