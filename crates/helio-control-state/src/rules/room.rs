//! Room for actors and placement groups where tasks have it all.
//!
//! A node lends its resources from task to task, and no report shows what is free for a moment in between: whoever is
//! placed by reports would wait until there are no more tasks. So nodes are told once a second what waits that they
//! could hold beside the actors and groups that they have. They ask tasks for it, and report it when it is free.

use std::collections::BTreeMap;

use helio_config::control::WHY_AFTER_MS;
use helio_proto::cluster::KeepFree;
use helio_proto::control::Strategy;
use helio_scheduler::{NodeView, Placement, place, plan_group, taken};
use helio_types::{NodeId, ResourceSet};

use super::Control;
use crate::actors::{Actor, State};

/// Maximum number of waiting actors for which room is asked at a time.
const ACTORS_MAX: usize = 64;
/// The number of placement groups for which room is asked for at a time.
const GROUPS_MAX: usize = 16;

/// The resources that nodes are asked for, and those that they could give beyond that.
struct Room {
    views: Vec<NodeView>,
    asked: BTreeMap<NodeId, ResourceSet>,
}

impl Room {
    fn ask(&mut self, node_id: NodeId, need: &ResourceSet) {
        self.asked.entry(node_id).or_default().add(need);
        for view in self.views.iter_mut().filter(|view| view.address.node_id == node_id) {
            view.available = view.available.without(need);
        }
    }
}

impl Control {
    /// Asks nodes for room for what has waited for a while.
    pub(crate) fn ask_for_room(&mut self) {
        let now_ms = self.now_ms();
        let is_due = |since_ms: u64| now_ms.saturating_sub(since_ms) >= WHY_AFTER_MS;
        let mut actors: Vec<(Option<NodeId>, ResourceSet, Strategy)> = Vec::new();
        for (shape, strategy, waiting) in self.queue.queues() {
            for actor_id in waiting.take(ACTORS_MAX - actors.len()) {
                let Some(actor) = self.actors.get(actor_id) else { continue };
                if matches!(actor.state, State::Waiting { since_ms } if is_due(since_ms)) {
                    let creator = Some(actor.spec.owner.node_id);
                    actors.push((creator, shape.0.clone(), strategy.clone()));
                }
            }
        }
        let groups = self.groups.shapes();
        let groups = groups.iter().filter_map(|shape| self.groups.first(shape));
        let groups = groups.filter_map(|group_id| self.groups.get(group_id));
        let groups: Vec<_> =
            groups.filter(|group| is_due(group.since_ms())).take(GROUPS_MAX).collect();
        if actors.is_empty() && groups.is_empty() {
            return;
        }
        let mut room = Room { views: self.views_without_tasks(), asked: BTreeMap::new() };
        for group in groups {
            let plan = group.with_wanted(|wanted| plan_group(&room.views, wanted));
            for (bundle, node_id) in plan.unwrap_or_default() {
                room.ask(node_id, &group.resources_of(&[bundle]));
            }
        }
        // After the groups: the views hold what was asked for these, so nothing is asked for twice.
        for (creator, need, strategy) in actors {
            let found = place(&room.views, creator, &need, &strategy, self.n_placed, &[]);
            if let Placement::On(node_id) = found {
                room.ask(node_id, &need);
            }
        }
        for (node_id, resources) in room.asked {
            self.out.send(node_id, KeepFree { resources });
        }
    }

    /// Returns the resources that would be free on each node if no task ran.
    fn views_without_tasks(&self) -> Vec<NodeView> {
        let mut held: BTreeMap<NodeId, ResourceSet> = BTreeMap::new();
        for actor in self.actors.unordered() {
            if let Some(holds) = holds(actor) {
                held.entry(actor.home).or_default().add(&holds);
            }
        }
        for (_, group) in self.groups.iter() {
            for (bundle, node_id) in group.places() {
                held.entry(*node_id).or_default().add(&group.resources_of(&[*bundle]));
            }
        }
        let without_tasks = |view: &NodeView| {
            let nothing = ResourceSet::default();
            let held = held.get(&view.address.node_id).unwrap_or(&nothing);
            NodeView { available: view.total.without(held), ..view.clone() }
        };
        self.nodes.views().iter().map(without_tasks).collect()
    }
}

/// Returns the resources that the actor holds on its node.
fn holds(actor: &Actor) -> Option<ResourceSet> {
    let spec = &actor.spec;
    match actor.state {
        State::Alive { .. } => Some(taken(&spec.resources, &spec.strategy).into_owned()),
        State::Starting { .. } => {
            Some(taken(&spec.placement_resources, &spec.strategy).into_owned())
        }
        State::Waiting { .. } | State::Recovering | State::Dead => None,
    }
}
