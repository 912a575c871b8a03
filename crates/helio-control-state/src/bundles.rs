//! Who holds which bundle: from a plan to nodes that hold it, in two steps.
//!
//! 1. *Reserve*: every node of the plan takes the resources out of its own. One that cannot says so;
//!    then the others give theirs back and the group waits again.
//! 2. *Commit*: when all have said yes, the places are made durable (STATE-2) and the nodes are told
//!    that the bundles can be used. The group is placed when all have heard it.
//!
//! A plan of one node does both at once. What a node answers to an older try is about the past and
//! ignored: it has been told to give that back. A node that comes back says what it holds, and is told
//! what of it is not wanted ([`Control::reconcile_bundles`]).

use std::collections::{BTreeMap, BTreeSet};

use helio_proto::group::{
    BundlesHeld, CommitBundles, HeldBundle, NumberedBundle, ReserveBundles, ReturnBundles,
};
use helio_scheduler::{Wanted, lent_by_bundle, plan_group};
use helio_types::{NodeId, PlacementGroupId, ResourceSet};

use crate::Control;
use crate::groups::Group;
use crate::placing::Promised;

/// What nodes were asked to hold before this service started anew.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Which try it was.
    pub(crate) number: u32,
    pub(crate) plan: BTreeMap<u32, NodeId>,
}

impl Asked {
    /// The one node that was asked, if it was one: it was to use the bundles at once.
    pub(crate) fn node_id(&self) -> Option<NodeId> {
        let first = self.plan.values().next().copied();
        first.filter(|first| self.plan.values().all(|at| at == first))
    }
}

/// Nodes are asked to hold bundles.
#[derive(Debug)]
pub(crate) struct Trying {
    /// Which try it is.
    number: u32,
    plan: BTreeMap<u32, NodeId>,
    /// The nodes that have not answered.
    open: BTreeSet<NodeId>,
    /// All have said yes.
    pub(crate) is_committing: bool,
}

impl Trying {
    fn of_node(&self, node_id: NodeId) -> Vec<u32> {
        self.plan.iter().filter(|(_, at)| **at == node_id).map(|(bundle, _)| *bundle).collect()
    }

    pub(crate) fn nodes(&self) -> BTreeSet<NodeId> {
        self.plan.values().copied().collect()
    }
}

impl Control {
    /// The group joins the queue; it may leave it at once.
    pub(crate) fn wait_for_room(&mut self, group_id: PlacementGroupId) {
        self.queue_group(group_id);
        let Some((shape, _)) = self.groups.queued.get(&group_id) else { return };
        // Those of its shape that came before it have found none.
        let is_first = self.groups.waiting.get(shape).is_some_and(|queue| queue.len() == 1);
        if !(is_first && self.try_group(group_id)) {
            self.explain_group_now(group_id);
        }
    }

    /// Something has become free: the shape whose oldest group waits longest goes first.
    pub(crate) fn place_groups(&mut self) {
        let mut order: Vec<(u64, Vec<u8>)> = Vec::with_capacity(self.groups.waiting.len());
        for (shape, queue) in &self.groups.waiting {
            if let Some((number, _)) = queue.first_key_value() {
                order.push((*number, shape.clone()));
            }
        }
        order.sort_unstable();
        for (_, shape) in order {
            while let Some(queue) = self.groups.waiting.get(&shape) {
                let Some(group_id) = queue.first_key_value().map(|(_, id)| *id) else { break };
                if !self.try_group(group_id) {
                    break;
                }
            }
        }
    }

    fn try_group(&mut self, group_id: PlacementGroupId) -> bool {
        let Some(group) = self.group(group_id) else { return false };
        let (missing, held) = (group.missing(), group.held());
        let wanted = Wanted { spec: &group.spec, missing: &missing, held: &held };
        let Some(plan) = plan_group(&self.views, wanted) else { return false };
        self.no_longer_queued(group_id);
        let Some(group) = self.group_mut(group_id) else { return false };
        group.attempts += 1;
        let plan: BTreeMap<u32, NodeId> = plan.into_iter().collect();
        let nodes: BTreeSet<NodeId> = plan.values().copied().collect();
        let number = group.attempts;
        let asked = Asked { number, plan: plan.clone() };
        group.trying = Some(Trying { number, plan, open: nodes.clone(), is_committing: false });
        self.persist_asked(group_id, &asked);
        for node_id in nodes {
            self.promise_bundles(node_id, group_id);
            self.send_step(node_id, group_id);
        }
        true
    }

    /// What the node is asked for counts as taken there.
    fn promise_bundles(&mut self, node_id: NodeId, group_id: PlacementGroupId) {
        let Some(group) = self.group(group_id) else { return };
        let mut need = ResourceSet::default();
        for number in group.trying.iter().flat_map(|trying| trying.of_node(node_id)) {
            need.add(&group.spec.bundles[number as usize].resources);
        }
        self.reserve(node_id, Promised::Group(group_id), need);
    }

    /// Tells a node the present step.
    fn send_step(&mut self, node_id: NodeId, group_id: PlacementGroupId) {
        let Some(group) = self.group(group_id) else { return };
        let Some(trying) = &group.trying else { return };
        let attempt = trying.number;
        if trying.is_committing {
            return self.send(node_id, CommitBundles { group_id, attempt });
        }
        let bundles = trying.of_node(node_id).into_iter().map(|bundle| NumberedBundle {
            bundle,
            resources: group.spec.bundles[bundle as usize].resources.clone(),
        });
        let bundles = bundles.collect();
        let commit = trying.nodes().len() == 1;
        self.send(node_id, ReserveBundles { group_id, attempt, bundles, commit });
    }

    pub(crate) fn on_bundles_held(&mut self, node_id: NodeId, said: BundlesHeld) {
        let group_id = said.group_id;
        let Some(group) = self.group_mut(group_id) else { return };
        let Some(trying) = &mut group.trying else { return };
        let expected = trying.number == said.attempt && trying.open.contains(&node_id);
        if !expected {
            return;
        }
        if !said.refused.is_empty() {
            // The node was fuller than it seemed: what was promised to the group there stays promised
            // until the node says more.
            self.give_up_try(group_id, Some(node_id));
            self.wait_for_room(group_id);
            return;
        }
        let is_one = trying.nodes().len() == 1;
        if trying.is_committing && !said.committed {
            // The answer to a step that was repeated.
            return;
        }
        trying.open.remove(&node_id);
        let all_said = trying.open.is_empty();
        if !trying.is_committing && all_said {
            let plan = trying.plan.clone();
            if is_one {
                group.places.extend(plan);
            } else {
                trying.is_committing = true;
                trying.open = trying.nodes();
                let nodes = trying.nodes();
                group.places.extend(plan);
                self.persist_places(group_id);
                for node_id in nodes {
                    self.send_step(node_id, group_id);
                }
                return;
            }
        }
        if said.committed {
            self.bundles_usable(node_id, group_id);
        }
        if all_said && said.committed {
            if let Some(group) = self.group_mut(group_id) {
                group.trying = None;
            }
            if is_one {
                self.persist_places_soon(group_id);
            }
            self.group_is_placed(group_id);
            self.place_waiting();
        }
    }

    /// The node lends what its new bundles have. Its next status will say so too; until then this is
    /// what is known of it.
    fn bundles_usable(&mut self, node_id: NodeId, group_id: PlacementGroupId) {
        let Some(group) = self.group(group_id) else { return };
        let mut lent = ResourceSet::default();
        for number in group.trying.iter().flat_map(|trying| trying.of_node(node_id)) {
            let resources = &group.spec.bundles[number as usize].resources;
            lent.add(&lent_by_bundle(group_id, number, resources));
        }
        if let Some(node) = self.nodes.get_mut(&node_id).filter(|node| node.info.alive) {
            // A repeated answer may follow a status that has it.
            if !node.info.total.covers(&lent) {
                node.info.total.add(&lent);
                node.info.available.add(&lent);
            }
            self.refresh_view(node_id);
        }
    }

    /// The try has failed: who holds something of it gives it back.
    fn give_up_try(&mut self, group_id: PlacementGroupId, refuser: Option<NodeId>) {
        let Some(group) = self.group_mut(group_id) else { return };
        let Some(trying) = group.trying.take() else { return };
        let was_durable = trying.is_committing;
        if was_durable {
            group.places.retain(|bundle, _| !trying.plan.contains_key(bundle));
        }
        for node_id in trying.nodes().into_iter().filter(|id| Some(*id) != refuser) {
            let bundles = trying.of_node(node_id);
            self.send(node_id, ReturnBundles { group_id, bundles, removed: false });
            self.settle(node_id, Promised::Group(group_id), ResourceSet::default());
        }
        if was_durable {
            self.persist_places(group_id);
        }
    }

    /// The group is over: all that is held for it is given back.
    pub(crate) fn return_bundles(&mut self, group_id: PlacementGroupId) {
        let Some(group) = self.group_mut(group_id) else { return };
        let mut held: BTreeMap<NodeId, BTreeSet<u32>> = BTreeMap::new();
        let tried = group.trying.take().map(|trying| trying.plan).unwrap_or_default();
        for (bundle, node_id) in tried.iter().chain(&group.places) {
            held.entry(*node_id).or_default().insert(*bundle);
        }
        for (node_id, bundles) in held {
            let bundles = bundles.into_iter().collect();
            self.send(node_id, ReturnBundles { group_id, bundles, removed: true });
            self.settle(node_id, Promised::Group(group_id), ResourceSet::default());
        }
    }

    /// A node is gone, and with it the bundles that it held.
    pub(crate) fn bundles_on_node_gone(&mut self, node_id: NodeId) {
        let touched = |group: &&Group| {
            let tries = group.trying.as_ref().is_some_and(|t| t.nodes().contains(&node_id));
            !group.is_removed && (tries || group.places.values().any(|at| *at == node_id))
        };
        self.place_resumed_groups(|asked| asked.is_some_and(|a| a.node_id() == Some(node_id)));
        let touched: Vec<PlacementGroupId> =
            self.groups.all.values().filter(touched).map(|group| group.spec.group_id).collect();
        for group_id in touched {
            self.bundles_lost(group_id, |_, at| at == node_id);
        }
    }

    /// Some of a group's bundles are lost: they wait for other nodes, the rest stays where it is.
    fn bundles_lost(&mut self, group_id: PlacementGroupId, is_lost: impl Fn(u32, NodeId) -> bool) {
        let Some(group) = self.group_mut(group_id) else { return };
        if group.trying.as_ref().is_some_and(|t| t.plan.iter().any(|(b, at)| is_lost(*b, *at))) {
            self.give_up_try(group_id, None);
        }
        let Some(group) = self.group_mut(group_id) else { return };
        let before = group.places.len();
        group.places.retain(|bundle, at| !is_lost(*bundle, *at));
        if group.places.len() < before {
            self.persist_places(group_id);
        }
        let Some(group) = self.group(group_id) else { return };
        if group.trying.is_none() && !group.is_placed() {
            self.no_longer_queued(group_id);
            self.wait_for_room(group_id);
        }
    }

    /// After a restart: what this node alone was asked to hold is placed if it does, though that was not
    /// durable yet, and waits for room if it does not.
    fn adopt(&mut self, node_id: NodeId, held: &[HeldBundle]) {
        let of_node = |group: &Group| group.asked.as_ref().and_then(Asked::node_id);
        let asked = self.groups.all.values().filter(|group| of_node(group) == Some(node_id));
        let asked: Vec<PlacementGroupId> = asked.map(|group| group.spec.group_id).collect();
        for group_id in asked {
            let Some(group) = self.group_mut(group_id) else { continue };
            let Some(Asked { number, plan }) = group.asked.take() else { continue };
            let is_held = |bundle: &u32| {
                held.iter().any(|one| {
                    (one.group_id, one.bundle, one.attempt) == (group_id, *bundle, number)
                        && one.committed
                })
            };
            if plan.keys().all(is_held) {
                group.places.extend(plan);
                self.persist_places_soon(group_id);
            }
            if self.group(group_id).is_some_and(Group::is_placed) {
                self.group_is_placed(group_id);
            } else {
                // Its registration ends with a look at the queue.
                self.queue_group(group_id);
                self.explain_group_now(group_id);
            }
        }
    }

    /// A node that came back says what it holds.
    pub(crate) fn reconcile_bundles(&mut self, node_id: NodeId, held: &[HeldBundle]) {
        self.adopt(node_id, held);
        let mut stale: BTreeMap<PlacementGroupId, Vec<u32>> = BTreeMap::new();
        let mut present: BTreeSet<(PlacementGroupId, u32)> = BTreeSet::new();
        for one in held {
            let group = self.group(one.group_id);
            let is_tried = group.and_then(|group| group.trying.as_ref()).is_some_and(|trying| {
                trying.number == one.attempt && trying.plan.get(&one.bundle) == Some(&node_id)
            });
            let is_placed =
                group.is_some_and(|group| group.places.get(&one.bundle) == Some(&node_id));
            if !is_tried && !is_placed {
                stale.entry(one.group_id).or_default().push(one.bundle);
                continue;
            }
            present.insert((one.group_id, one.bundle));
            if is_placed && !is_tried && !one.committed {
                // The order to use it was made durable, and then lost.
                let (group_id, attempt) = (one.group_id, one.attempt);
                self.send(node_id, CommitBundles { group_id, attempt });
            }
        }
        for (group_id, bundles) in stale {
            let removed = self.group(group_id).is_none();
            self.send(node_id, ReturnBundles { group_id, bundles, removed });
        }
        let mut again = Vec::new();
        let mut lost = Vec::new();
        for (group_id, group) in self.groups.all.iter().filter(|(_, group)| !group.is_removed) {
            let tried = group.trying.as_ref().map(|trying| &trying.plan);
            if group.trying.as_ref().is_some_and(|trying| trying.open.contains(&node_id)) {
                again.push(*group_id);
            }
            let is_lost = |(bundle, at): (&u32, &NodeId)| {
                let is_tried = tried.is_some_and(|plan| plan.contains_key(bundle));
                *at == node_id && !is_tried && !present.contains(&(*group_id, *bundle))
            };
            if group.places.iter().any(is_lost) {
                lost.push(*group_id);
            }
        }
        for group_id in again {
            self.promise_bundles(node_id, group_id);
            self.send_step(node_id, group_id);
        }
        for group_id in lost {
            let tried: BTreeSet<u32> = self
                .group(group_id)
                .and_then(|group| group.trying.as_ref())
                .map(|trying| trying.plan.keys().copied().collect())
                .unwrap_or_default();
            self.bundles_lost(group_id, |bundle, at| {
                at == node_id && !tried.contains(&bundle) && !present.contains(&(group_id, bundle))
            });
        }
    }
}
