//! The table of placement groups, and the queue of those that wait for room.
//!
//! A group belongs to its job, and if an actor made it, to that actor too: it ends when both have.

mod group;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use helio_config::control::{BUNDLES_MAX, GROUPS_MAX, LIST_ROWS_MAX, REMOVED_GROUPS_MAX};
use helio_proto::control::{ControlResponse, Failure, FailureKind, PendingDemand};
use helio_proto::group::{BundlesHeld, GetGroup, GroupInfo, GroupSpec, Groups as Rows};
use helio_types::{ActorId, JobId, NodeId, PlacementGroupId};

use crate::event::Requester;
use group::Plan;
pub(crate) use group::{Answer, GivenUp, Group};

/// All groups, also the newest of the removed ones.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    groups: BTreeMap<PlacementGroupId, Group>,
    /// Removed groups, the newest last.
    removed: VecDeque<PlacementGroupId>,
    /// Derived: names that are taken, by namespace.
    names: BTreeMap<(String, String), PlacementGroupId>,
    /// Derived: those that wait for room, by what they ask for; a number is a place in the queue.
    waiting: BTreeMap<Vec<u8>, BTreeMap<u64, PlacementGroupId>>,
    /// Derived: the shape and the number of each waiting group.
    queued: BTreeMap<PlacementGroupId, (Vec<u8>, u64)>,
    next: u64,
    /// Derived: actors that made groups, while they live.
    creators: BTreeSet<ActorId>,
    /// Derived: groups with waiters.
    awaited: BTreeSet<PlacementGroupId>,
    /// Derived: the groups that are not removed, by the nodes that hold or may hold bundles of them.
    on_node: BTreeSet<(NodeId, PlacementGroupId)>,
}

/// The answer to those who wait for a group that is gone.
pub(crate) fn gone(group_id: PlacementGroupId) -> Failure {
    let text = format!("the placement group {group_id} was removed, or never was");
    Failure::new(FailureKind::GroupRemoved, text)
}

impl Groups {
    /// The group, unless it is removed.
    pub(crate) fn get(&self, group_id: PlacementGroupId) -> Option<&Group> {
        self.groups.get(&group_id).filter(|group| !group.is_removed())
    }

    /// For changes that the table has no index for.
    pub(crate) fn get_mut(&mut self, group_id: PlacementGroupId) -> Option<&mut Group> {
        self.groups.get_mut(&group_id).filter(|group| !group.is_removed())
    }

    /// The groups that are not removed.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PlacementGroupId, &Group)> {
        let alive = self.groups.iter().filter(|(_, group)| !group.is_removed());
        alive.map(|(group_id, group)| (*group_id, group))
    }

    pub(crate) fn len(&self) -> usize {
        assert!(self.groups.len() >= self.removed.len(), "a group was removed twice");
        self.groups.len() - self.removed.len()
    }

    pub(crate) fn n_awaited(&self) -> usize {
        self.awaited.len()
    }

    pub(crate) fn is_known(&self, group_id: PlacementGroupId) -> bool {
        self.groups.contains_key(&group_id)
    }

    /// Returns the reason why a new group is refused; `None` if it is accepted.
    pub(crate) fn refusal(&self, spec: &GroupSpec) -> Option<Failure> {
        let refuse = |kind, text: String| Some(Failure::new(kind, text));
        let n_bundles = spec.bundles.len();
        if spec.group_id.is_nil() || n_bundles == 0 || n_bundles > BUNDLES_MAX {
            let text = format!("a placement group has an id and 1 to {BUNDLES_MAX} bundles");
            return refuse(FailureKind::Invalid, text);
        }
        let name = (spec.namespace.clone(), spec.name.clone());
        if !spec.name.is_empty() && self.names.contains_key(&name) {
            let text = format!(
                "the name '{}' is taken by another placement group of the namespace: remove that one, or \
                 get it by `get_placement_group`",
                spec.name
            );
            return refuse(FailureKind::System, text);
        }
        if self.len() >= GROUPS_MAX {
            let text = format!("the cluster has {GROUPS_MAX} placement groups, the most it can");
            return refuse(FailureKind::System, text);
        }
        None
    }

    /// Takes in a new group, or one of before a restart.
    pub(crate) fn insert(&mut self, spec: GroupSpec, now_ms: u64) {
        let group_id = spec.group_id;
        if !spec.name.is_empty() {
            self.names.insert((spec.namespace.clone(), spec.name.clone()), group_id);
        }
        if !spec.creator.is_nil() {
            // Most actors make none: their ends need not look through all groups.
            self.creators.insert(spec.creator);
        }
        let before = self.groups.insert(group_id, Group::new(spec, now_ms));
        assert!(before.is_none(), "the bundles of a group would stay reserved for ever");
    }

    /// Changes which nodes a group is on, and derives the index of nodes anew.
    fn change<R>(
        &mut self,
        group_id: PlacementGroupId,
        change: impl FnOnce(&mut Group) -> R,
    ) -> Option<R> {
        let group = self.groups.get_mut(&group_id)?;
        // A removed group is remembered for listings, and is on no node.
        let nodes = |group: &Group| match group.is_removed() {
            true => BTreeSet::new(),
            false => group.nodes(),
        };
        let before = nodes(group);
        let result = change(group);
        let after = nodes(group);
        for node_id in before.difference(&after) {
            self.on_node.remove(&(*node_id, group_id));
        }
        for node_id in after.difference(&before) {
            self.on_node.insert((*node_id, group_id));
        }
        Some(result)
    }

    /// The groups that have bundles on a node, or may have.
    pub(crate) fn on_node(&self, node_id: NodeId) -> Vec<PlacementGroupId> {
        let first = PlacementGroupId([0; PlacementGroupId::LEN]);
        let last = PlacementGroupId([u8::MAX; PlacementGroupId::LEN]);
        let here = self.on_node.range((node_id, first)..=(node_id, last));
        here.map(|(_, group_id)| *group_id).collect()
    }

    /// The nodes that hold bundles, or may.
    pub(crate) fn nodes(&self) -> BTreeSet<NodeId> {
        self.on_node.iter().map(|(node_id, _)| *node_id).collect()
    }

    pub(crate) fn begin_attempt(&mut self, group_id: PlacementGroupId, plan: Plan) -> Option<u32> {
        self.change(group_id, |group| group.begin_attempt(plan))
    }

    pub(crate) fn on_held(&mut self, node_id: NodeId, held: &BundlesHeld) -> Answer {
        // An answer does not change which nodes the group is on.
        self.get_mut(held.group_id).map_or(Answer::Nothing, |group| group.on_held(node_id, held))
    }

    pub(crate) fn give_up_attempt(
        &mut self,
        group_id: PlacementGroupId,
        refuser: Option<NodeId>,
    ) -> Option<GivenUp> {
        self.change(group_id, |group| group.give_up_attempt(refuser)).flatten()
    }

    /// Bundles are lost; whether the group had any of them.
    pub(crate) fn lose(
        &mut self,
        group_id: PlacementGroupId,
        is_lost: &impl Fn(u32, NodeId) -> bool,
    ) -> bool {
        self.change(group_id, |group| group.lose(is_lost)).unwrap_or(false)
    }

    /// The group is over: what every node gives back.
    pub(crate) fn take_held(
        &mut self,
        group_id: PlacementGroupId,
    ) -> BTreeMap<NodeId, BTreeSet<u32>> {
        self.change(group_id, Group::take_held).unwrap_or_default()
    }

    pub(crate) fn add_user(&mut self, group_id: PlacementGroupId, actor_id: ActorId) -> bool {
        let group = self.get_mut(group_id);
        group.map(|group| group.add_user(actor_id)).is_some()
    }

    pub(crate) fn remove_user(&mut self, group_id: PlacementGroupId, actor_id: ActorId) {
        if let Some(group) = self.groups.get_mut(&group_id) {
            group.remove_user(actor_id);
        }
    }

    pub(crate) fn add_waiter(&mut self, group_id: PlacementGroupId, requester: Requester) {
        if let Some(group) = self.get_mut(group_id) {
            group.add_waiter(requester);
            self.awaited.insert(group_id);
        }
    }

    /// A process that waited is gone.
    pub(crate) fn drop_waiters(&mut self, is_gone: impl Fn(&Requester) -> bool) {
        let groups = &mut self.groups;
        self.awaited.retain(|group_id| {
            let group = groups.get_mut(group_id);
            group.is_some_and(|group| group.retain_waiters(|waiter| !is_gone(waiter)))
        });
    }

    fn take_waiters(
        &mut self,
        group_id: PlacementGroupId,
    ) -> (BTreeSet<Requester>, BTreeSet<NodeId>) {
        self.awaited.remove(&group_id);
        self.get_mut(group_id).map(Group::take_waiters).unwrap_or_default()
    }

    /// All bundles of the group are held; who is told.
    pub(crate) fn mark_placed(
        &mut self,
        group_id: PlacementGroupId,
        now_ms: u64,
    ) -> (BTreeSet<Requester>, BTreeSet<NodeId>) {
        if let Some(group) = self.get_mut(group_id) {
            group.mark_placed(now_ms);
        }
        self.take_waiters(group_id)
    }

    /// Removes a group whose bundles were returned; who is told.
    pub(crate) fn remove(
        &mut self,
        group_id: PlacementGroupId,
    ) -> (BTreeSet<Requester>, BTreeSet<NodeId>) {
        let told = self.take_waiters(group_id);
        self.change(group_id, Group::mark_removed);
        if let Some(group) = self.groups.get(&group_id) {
            let name = (group.spec().namespace.clone(), group.spec().name.clone());
            // Another group may have taken the name since then.
            if self.names.get(&name) == Some(&group_id) {
                self.names.remove(&name);
            }
        }
        self.removed.push_back(group_id);
        if self.removed.len() > REMOVED_GROUPS_MAX
            && let Some(oldest) = self.removed.pop_front()
        {
            self.groups.remove(&oldest);
        }
        told
    }

    /// An actor has ended; whether it made groups.
    pub(crate) fn remove_creator(&mut self, actor_id: ActorId) -> bool {
        self.creators.remove(&actor_id)
    }

    /// The groups of a job.
    pub(crate) fn of_job(&self, job_id: JobId) -> impl Iterator<Item = &Group> {
        self.iter().map(|(_, group)| group).filter(move |group| group.spec().job_id == job_id)
    }

    /// The group joins the queue.
    pub(crate) fn enqueue(&mut self, group_id: PlacementGroupId) {
        let Some(group) = self.get(group_id) else { return };
        let shape = group.shape();
        self.next += 1;
        self.waiting.entry(shape.clone()).or_default().insert(self.next, group_id);
        self.queued.insert(group_id, (shape, self.next));
    }

    pub(crate) fn dequeue(&mut self, group_id: PlacementGroupId) {
        let Some((shape, number)) = self.queued.remove(&group_id) else { return };
        if let Some(queue) = self.waiting.get_mut(&shape) {
            queue.remove(&number);
            if queue.is_empty() {
                self.waiting.remove(&shape);
            }
        }
    }

    pub(crate) fn is_queued(&self, group_id: PlacementGroupId) -> bool {
        self.queued.contains_key(&group_id)
    }

    pub(crate) fn shape_of(&self, group_id: PlacementGroupId) -> Option<&Vec<u8>> {
        self.queued.get(&group_id).map(|(shape, _)| shape)
    }

    /// Whether no other group of the same shape waits.
    pub(crate) fn is_only_of_shape(&self, group_id: PlacementGroupId) -> bool {
        let queue = self.shape_of(group_id).and_then(|shape| self.waiting.get(shape));
        queue.is_some_and(|queue| queue.len() == 1)
    }

    /// The group of a shape that waits longest.
    pub(crate) fn first(&self, shape: &[u8]) -> Option<PlacementGroupId> {
        self.waiting.get(shape)?.first_key_value().map(|(_, group_id)| *group_id)
    }

    /// Whether a group waits for places.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The shapes, the one whose oldest group waits longest first.
    pub(crate) fn shapes(&self) -> Vec<Vec<u8>> {
        let mut order: Vec<(u64, &Vec<u8>)> = Vec::with_capacity(self.waiting.len());
        for (shape, queue) in &self.waiting {
            if let Some((number, _)) = queue.first_key_value() {
                order.push((*number, shape));
            }
        }
        order.sort_unstable();
        order.into_iter().map(|(_, shape)| shape.clone()).collect()
    }

    /// The groups that wait, shape by shape.
    pub(crate) fn waiting(&self) -> Vec<PlacementGroupId> {
        self.waiting.values().flat_map(BTreeMap::values).copied().collect()
    }

    /// Bundles that wait for room, a row a shape.
    pub(crate) fn pending_demands(&self) -> Vec<PendingDemand> {
        let mut rows = Vec::new();
        for queue in self.waiting.values().take(LIST_ROWS_MAX) {
            let first = queue.values().next().and_then(|id| self.get(*id));
            let Some(group) = first else { continue };
            for number in group.missing().into_iter().take(LIST_ROWS_MAX - rows.len()) {
                // Groups of one shape ask for the same: one row counts them all.
                rows.push(PendingDemand {
                    resources: group.spec().bundles[number as usize].resources.clone(),
                    count: queue.len() as u64,
                    why: group.why().to_owned(),
                    ..PendingDemand::default()
                });
            }
        }
        rows
    }

    pub(crate) fn row(&self, get: &GetGroup) -> ControlResponse {
        let by_name = || self.names.get(&(get.namespace.clone(), get.name.clone()));
        let group_id = if get.group_id.is_nil() { by_name() } else { Some(&get.group_id) };
        match group_id.and_then(|id| self.groups.get(id)) {
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

    pub(crate) fn rows(&self) -> Rows {
        let alive = self.groups.values().filter(|group| !group.is_removed());
        let removed = self.removed.iter().rev().filter_map(|id| self.groups.get(id));
        Rows { groups: alive.chain(removed).take(LIST_ROWS_MAX).map(Group::info).collect() }
    }

    /// After a restart: takes over the places of a group that were durable. Returns whether the group exists.
    pub(crate) fn restore_places(&mut self, info: &GroupInfo) -> bool {
        let places = &info.places;
        self.change(info.spec.group_id, |group| group.restore_places(places)).is_some()
    }

    /// After a restart: takes over the attempt to place a group that was durable. Returns whether the group
    /// exists.
    pub(crate) fn restore_attempt(&mut self, info: &GroupInfo) -> bool {
        let (number, places) = (info.attempts, &info.places);
        self.change(info.spec.group_id, |group| group.restore_attempt(number, places)).is_some()
    }

    /// After a restart: every group keeps its places until the nodes tell otherwise.
    pub(crate) fn resume(&mut self, exists: impl Fn(ActorId) -> bool) {
        let all: Vec<PlacementGroupId> = self.groups.keys().copied().collect();
        self.creators.retain(|creator| exists(*creator));
        for group_id in all {
            self.change(group_id, Group::resume);
        }
    }

    /// After a restart: takes out the groups that lack places and either wait for no node of before or wait for
    /// one that `is_gone` names. They do not wait for it any more.
    pub(crate) fn take_resumed(
        &mut self,
        is_gone: impl Fn(Option<NodeId>) -> bool,
    ) -> Vec<PlacementGroupId> {
        let waits = |group: &Group| group.is_waiting() && is_gone(group.former_node());
        let open = self.iter().filter(|(_, group)| waits(group)).map(|(id, _)| id);
        let open: Vec<PlacementGroupId> = open.collect();
        for group_id in &open {
            self.change(*group_id, Group::forget_former);
        }
        open
    }

    /// After a restart: the node of the group's former attempt has registered; whether it holds all
    /// bundles of the attempt. `is_held` is asked for a bundle and the attempt's number.
    pub(crate) fn adopt(
        &mut self,
        group_id: PlacementGroupId,
        is_held: impl Fn(u32, u32) -> bool,
    ) -> bool {
        self.change(group_id, |group| group.adopt(is_held)).unwrap_or(false)
    }

    /// Whether the derived tables agree with the groups. While the service recovers, groups may wait
    /// outside the queue.
    pub(crate) fn check(&self, is_recovering: bool) -> Result<(), String> {
        let mut on_node = BTreeSet::new();
        for (group_id, group) in &self.groups {
            let is_queued = self.is_queued(*group_id);
            let resumes = is_recovering && !is_queued;
            if group.is_waiting() != is_queued && !resumes {
                return Err(format!("group {group_id} is in the queue: {is_queued}, wrongly"));
            }
            let named = (group.spec().namespace.clone(), group.spec().name.clone());
            let holds_name = self.names.get(&named) == Some(group_id);
            if holds_name != (!group.is_removed() && !group.spec().name.is_empty()) {
                return Err(format!("group {group_id} holds its name: {holds_name}, wrongly"));
            }
            if group.has_waiters() != self.awaited.contains(group_id) {
                return Err(format!("the index of who waits for group {group_id} is wrong"));
            }
            if !group.is_removed() {
                on_node.extend(group.nodes().into_iter().map(|node_id| (node_id, *group_id)));
            }
        }
        if on_node != self.on_node {
            return Err("the index of groups by node is not that of the groups".to_owned());
        }
        Ok(())
    }
}
