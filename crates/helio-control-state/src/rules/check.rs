//! Whether the parts agree with each other and with what they are derived from; for tests and the simulator.

use helio_proto::control::ControlResponse;
use helio_scheduler::GroupBundle;
use helio_types::{NodeId, PlacementGroupId};

use super::Control;
use crate::check::Census;

impl Control {
    /// Counts the things that it holds for others.
    #[must_use]
    pub fn census(&self) -> Census {
        Census {
            jobs: self.jobs.n_running(),
            actors: self.actors.n_living(),
            names: self.actors.n_names(),
            owners: self.actors.n_owners(),
            unknown: self.subscriptions.n_unknown(),
            reservations: self.nodes.n_reservations(),
            groups: self.groups.len(),
            awaited: self.groups.n_awaited(),
        }
    }

    /// The count of [`helio_proto::control::Changes`], and lists that stay the same as long as it does.
    #[must_use]
    pub fn listed(&self) -> (u64, [ControlResponse; 3]) {
        let lists = [self.actors.rows().into(), self.jobs.rows().into(), self.groups.rows().into()];
        (self.n_changes, lists)
    }

    /// Whether derived state agrees with what it is derived from, in each part and between the parts.
    ///
    /// # Errors
    /// The first disagreement, in a sentence.
    pub fn check(&self) -> Result<(), String> {
        self.nodes.check()?;
        self.jobs.check()?;
        self.actors.check()?;
        self.kv.check()?;
        self.groups.check(self.is_recovering())?;
        self.subscriptions.check(|actor_id| self.actors.is_living(actor_id))?;
        for (actor_id, actor) in self.actors.iter() {
            if actor.is_waiting() != self.queue.contains(actor_id) {
                let is_queued = self.queue.contains(actor_id);
                return Err(format!(
                    "{actor_id} is {:?}, and in the queue: {is_queued}",
                    actor.state
                ));
            }
            if actor.node_id().is_some_and(|node_id| !self.nodes.is_alive(node_id)) {
                return Err(format!("{actor_id} is on a node that is not alive"));
            }
            let Some(place) = GroupBundle::of(&actor.spec.strategy) else { continue };
            let group = self.groups.get(place.group_id);
            let lives_there = group.is_some_and(|group| group.users().contains(&actor_id));
            if lives_there == actor.is_dead() {
                return Err(format!(
                    "{actor_id} is {:?}, and in its group: {lives_there}",
                    actor.state
                ));
            }
        }
        if !self.is_recovering() {
            let gone = |node_id: &&NodeId| !self.nodes.is_alive(**node_id);
            for (group_id, group) in self.groups.iter() {
                if let Some(node_id) = group.places().values().find(gone) {
                    return Err(format!(
                        "group {group_id} has a bundle on {node_id}, which is gone"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Every bundle that has a node, for a comparison with what the nodes hold.
    #[must_use]
    pub fn bundle_places(&self) -> Vec<(PlacementGroupId, u32, NodeId)> {
        let places = self.groups.iter().flat_map(|(group_id, group)| {
            group.places().iter().map(move |(bundle, node_id)| (group_id, *bundle, *node_id))
        });
        places.collect()
    }
}
