//! From a plan for the bundles of a group to nodes that hold them; the steps are in [`crate::groups`].
//! A node that registers again tells what it holds, and is told what of it is not wanted.

use std::collections::{BTreeMap, BTreeSet};

use helio_proto::group::{
    BundlesHeld, CommitBundles, HeldBundle, NumberedBundle, ReserveBundles, ReturnBundles,
};
use helio_types::{NodeId, PlacementGroupId, ResourceSet, mutant};

use super::Control;
use crate::durable;
use crate::groups::{Answer, Group};
use crate::nodes::ReservedFor;

impl Control {
    /// The group joins the queue; it may leave it at once.
    pub(crate) fn enqueue_group(&mut self, group_id: PlacementGroupId) {
        self.groups.enqueue(group_id);
        // Groups of its shape that came before it have found no room.
        let is_first = self.groups.is_only_of_shape(group_id);
        if !(is_first && self.try_group(group_id)) {
            self.set_why_group_waits(group_id);
        }
    }

    /// Places waiting groups after something has become free: the shape whose oldest group waits
    /// longest goes first.
    pub(crate) fn place_groups(&mut self) {
        for shape in self.groups.shapes() {
            while let Some(group_id) = self.groups.first(&shape) {
                if !self.try_group(group_id) {
                    break;
                }
            }
        }
    }

    fn try_group(&mut self, group_id: PlacementGroupId) -> bool {
        let Some(group) = self.groups.get(group_id) else { return false };
        let plan = group.with_wanted(|wanted| self.nodes.plan_group(wanted));
        let Some(plan) = plan else { return false };
        self.groups.dequeue(group_id);
        let plan: BTreeMap<u32, NodeId> = plan.into_iter().collect();
        let nodes: BTreeSet<NodeId> = plan.values().copied().collect();
        let Some(number) = self.groups.begin_attempt(group_id, plan.clone()) else { return false };
        // Before a node hears of it: after a restart the service knows which nodes may hold
        // bundles.
        self.out.persist(durable::attempt(group_id, number, &plan));
        for node_id in nodes {
            self.reserve_bundles(node_id, group_id);
            self.send_step(node_id, group_id);
        }
        true
    }

    /// Reserves the bundles that the node is asked for.
    fn reserve_bundles(&mut self, node_id: NodeId, group_id: PlacementGroupId) {
        let Some(group) = self.groups.get(group_id) else { return };
        let bundles = group.step(node_id).map(|step| step.bundles).unwrap_or_default();
        let need = group.resources_of(&bundles);
        self.nodes.reserve(node_id, ReservedFor::Group(group_id), need, self.out.now_ms());
    }

    /// Tells a node the present step of the attempt.
    fn send_step(&mut self, node_id: NodeId, group_id: PlacementGroupId) {
        let Some(group) = self.groups.get(group_id) else { return };
        let Some(step) = group.step(node_id) else { return };
        let attempt = step.attempt;
        if step.is_committing {
            return self.out.send(node_id, CommitBundles { group_id, attempt });
        }
        let numbered = |bundle: u32| NumberedBundle {
            bundle,
            resources: group.spec().bundles[bundle as usize].resources.clone(),
        };
        let bundles = step.bundles.into_iter().map(numbered).collect();
        self.out.send(node_id, ReserveBundles { group_id, attempt, bundles, commit: step.is_only });
    }

    pub(crate) fn on_bundles_held(&mut self, node_id: NodeId, held: &BundlesHeld) {
        let group_id = held.group_id;
        match self.groups.on_held(node_id, held) {
            Answer::Nothing => {}
            Answer::Refused => {
                // The node was fuller than it seemed: what was reserved for the group there stays
                // reserved until the node reports more.
                self.give_up_attempt(group_id, Some(node_id));
                self.enqueue_group(group_id);
            }
            Answer::AllHold(nodes) => {
                self.persist_places(group_id);
                for node_id in nodes {
                    self.send_step(node_id, group_id);
                }
            }
            Answer::Usable { lent, is_last, is_only } => {
                self.nodes.add_lent(node_id, &lent);
                if is_last {
                    self.attempt_is_over(group_id, is_only);
                }
            }
        }
    }

    /// All nodes of the attempt lend their bundles. A node that died meanwhile may have taken others with
    /// it, which were not asked for: these are looked for now.
    fn attempt_is_over(&mut self, group_id: PlacementGroupId, is_only: bool) {
        self.follow_ups.has_room = true;
        if self.groups.get(group_id).is_some_and(Group::is_placed) {
            if is_only {
                self.persist_places_later(group_id);
            }
            return self.group_is_placed(group_id);
        }
        // The next attempt takes the place of this one in the durable log.
        self.persist_places(group_id);
        self.enqueue_group(group_id);
    }

    fn settle_group(&mut self, node_id: NodeId, group_id: PlacementGroupId) {
        self.nodes.settle(node_id, ReservedFor::Group(group_id), ResourceSet::default());
    }

    fn give_up_attempt(&mut self, group_id: PlacementGroupId, refuser: Option<NodeId>) {
        let Some(given_up) = self.groups.give_up_attempt(group_id, refuser) else { return };
        for (node_id, bundles) in given_up.bundles {
            self.out.send(node_id, ReturnBundles { group_id, bundles, removed: false });
            self.settle_group(node_id, group_id);
        }
        if given_up.was_durable {
            self.persist_places(group_id);
        }
    }

    /// The group is over: every node that holds bundles of it gives them back.
    pub(crate) fn return_bundles(&mut self, group_id: PlacementGroupId) {
        for (node_id, bundles) in self.groups.take_held(group_id) {
            if mutant!("bundles-not-given-back") {
                continue;
            }
            let bundles = bundles.into_iter().collect();
            self.out.send(node_id, ReturnBundles { group_id, bundles, removed: true });
            self.settle_group(node_id, group_id);
        }
    }

    /// A node is gone, and with it the bundles that it held.
    pub(crate) fn lose_bundles_on(&mut self, node_id: NodeId) {
        self.enqueue_resumed_groups(|former| former == Some(node_id));
        for group_id in self.groups.on_node(node_id) {
            let moves_all = mutant!("whole-group-moves-with-one-node");
            self.lose_bundles(group_id, |_, at| at == node_id || moves_all);
        }
    }

    /// Takes lost bundles off their nodes: they wait for other nodes, the rest stays where it is.
    fn lose_bundles(&mut self, group_id: PlacementGroupId, is_lost: impl Fn(u32, NodeId) -> bool) {
        if self.groups.get(group_id).is_some_and(|group| group.asks_for_lost(&is_lost)) {
            self.give_up_attempt(group_id, None);
        }
        if self.groups.lose(group_id, &is_lost) {
            self.persist_places(group_id);
        }
        // One that waits for its node of before a restart joins the queue when that is back, or given up.
        let waits = |group: &Group| group.is_waiting() && group.former_node().is_none();
        if self.groups.get(group_id).is_some_and(waits) && !mutant!("lost-bundle-not-placed-again")
        {
            self.groups.dequeue(group_id);
            self.enqueue_group(group_id);
        }
    }

    /// After a restart: groups without all of their places whose former node is not waited for, or not
    /// any more.
    pub(crate) fn enqueue_resumed_groups(&mut self, is_gone: impl Fn(Option<NodeId>) -> bool) {
        for group_id in self.groups.take_resumed(is_gone) {
            if !self.groups.is_queued(group_id) {
                self.enqueue_group(group_id);
            }
        }
    }

    /// After a restart: what this node alone was asked to hold is placed if it does, though that was not
    /// durable yet, and waits for room if it does not.
    fn adopt_bundles(&mut self, node_id: NodeId, held: &[HeldBundle]) {
        let is_former = |group: &Group| group.former_node() == Some(node_id);
        for group_id in self.groups.on_node(node_id) {
            if !self.groups.get(group_id).is_some_and(is_former) {
                continue;
            }
            let is_held = |bundle: u32, attempt: u32| {
                held.iter().any(|one| {
                    (one.group_id, one.bundle, one.attempt) == (group_id, bundle, attempt)
                        && one.committed
                })
            };
            if self.groups.adopt(group_id, is_held) {
                self.persist_places_later(group_id);
            }
            if self.groups.get(group_id).is_some_and(Group::is_placed) {
                self.group_is_placed(group_id);
            } else {
                // Its registration ends with a look at the queue.
                self.groups.enqueue(group_id);
                self.set_why_group_waits(group_id);
            }
        }
    }

    /// A node that registers again tells what it holds.
    pub(crate) fn reconcile_bundles(&mut self, node_id: NodeId, held: &[HeldBundle]) {
        self.adopt_bundles(node_id, held);
        let mut stale: BTreeMap<PlacementGroupId, Vec<u32>> = BTreeMap::new();
        let mut present: BTreeSet<(PlacementGroupId, u32)> = BTreeSet::new();
        for one in held {
            let group = self.groups.get(one.group_id);
            let is_asked =
                group.is_some_and(|group| group.is_asked(one.attempt, one.bundle, node_id));
            let is_placed =
                group.is_some_and(|group| group.places().get(&one.bundle) == Some(&node_id));
            if !is_asked && !is_placed {
                stale.entry(one.group_id).or_default().push(one.bundle);
                continue;
            }
            present.insert((one.group_id, one.bundle));
            if is_placed && !is_asked && !one.committed {
                // The order to use it was made durable, and then lost.
                let (group_id, attempt) = (one.group_id, one.attempt);
                self.out.send(node_id, CommitBundles { group_id, attempt });
            }
        }
        for (group_id, bundles) in stale {
            let removed = self.groups.get(group_id).is_none();
            self.out.send(node_id, ReturnBundles { group_id, bundles, removed });
        }
        let here = self.groups.on_node(node_id);
        for group_id in &here {
            if self.groups.get(*group_id).is_some_and(|group| group.awaits(node_id)) {
                // The order, or the answer to it, may be lost with the connection: it is given
                // again.
                self.reserve_bundles(node_id, *group_id);
                self.send_step(node_id, *group_id);
            }
        }
        for group_id in here {
            let Some(group) = self.groups.get(group_id) else { continue };
            let asked = group.asked_bundles();
            let is_lost = |bundle: u32, at: NodeId| {
                at == node_id && !asked.contains(&bundle) && !present.contains(&(group_id, bundle))
            };
            if group.places().iter().any(|(bundle, at)| is_lost(*bundle, *at)) {
                self.lose_bundles(group_id, is_lost);
            }
        }
    }
}
