//! What is true between any two events; for tests and the simulator.

use std::collections::BTreeSet;

use helio_scheduler::InGroup;
use helio_types::{NodeId, PlacementGroupId};

use crate::Control;
use crate::actors::State;
use crate::members;

/// What the control service holds for others. All zero when nobody uses the cluster.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Jobs that run.
    pub jobs: usize,
    /// Actors that live or wait.
    pub actors: usize,
    /// Names that are taken.
    pub names: usize,
    /// Processes that own actors.
    pub owners: usize,
    /// Followers of actors that are not known.
    pub unknown: usize,
    /// What was promised to actors and groups.
    pub reservations: usize,
    /// Placement groups that are placed or wait.
    pub groups: usize,
    /// Groups whose end somebody waits for.
    pub awaited: usize,
}

impl Census {
    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Control {
    /// What it holds.
    #[must_use]
    pub fn census(&self) -> Census {
        Census {
            jobs: self.jobs.running.len(),
            actors: self.actors.values().filter(|actor| !actor.is_dead()).count(),
            names: self.names.len(),
            owners: self.owned.len(),
            unknown: self.unknown.len(),
            reservations: self.nodes.values().map(|node| node.reserved.len()).sum(),
            groups: self.groups.all.len() - self.groups.removed.len(),
            awaited: self.groups.awaited.len(),
        }
    }

    /// Whether derived state agrees with what it is derived from.
    ///
    /// # Errors
    /// The first disagreement, in a sentence.
    pub fn check(&self) -> Result<(), String> {
        let alive = self.nodes.values().filter(|node| node.info.alive).map(members::Node::view);
        if !alive.eq(self.views.iter().cloned()) {
            return Err(
                "the placement views are not what the nodes said and were promised".to_owned()
            );
        }
        for (actor_id, actor) in &self.actors {
            let waits = matches!(actor.state, State::Waiting { .. });
            if waits != self.waiting.contains(*actor_id) {
                return Err(format!(
                    "{actor_id} is {:?}, and in the queue: {}",
                    actor.state, !waits
                ));
            }
            let on_dead_node = actor
                .node_id()
                .is_some_and(|id| !self.nodes.get(&id).is_some_and(|node| node.info.alive));
            if on_dead_node {
                return Err(format!("{actor_id} is on a node that is not alive"));
            }
            let named = (actor.spec.namespace.clone(), actor.spec.name.clone());
            let holds_name = self.names.get(&named) == Some(actor_id);
            if holds_name != (!actor.is_dead() && !actor.spec.name.is_empty()) {
                return Err(format!(
                    "{actor_id} is {:?}, and holds its name: {holds_name}",
                    actor.state
                ));
            }
            let owned = self
                .owned
                .get(&actor.spec.owner.worker_id)
                .is_some_and(|owned| owned.contains(actor_id));
            if owned != (!actor.is_dead() && !actor.spec.detached) {
                return Err(format!("{actor_id} is {:?}, and owned: {owned}", actor.state));
            }
            if actor.is_dead() && !actor.followers.is_empty() {
                return Err(format!("{actor_id} is dead and has followers"));
            }
        }
        let known = self
            .actors
            .iter()
            .flat_map(|(id, actor)| actor.followers.iter().map(|who| (*who, *id)));
        let unknown =
            self.unknown.iter().flat_map(|(id, one)| one.followers.iter().map(|who| (*who, *id)));
        let follows: BTreeSet<_> = known.chain(unknown).collect();
        let indexed: BTreeSet<_> = self
            .followed
            .iter()
            .flat_map(|(who, actors)| actors.iter().map(|id| (*who, *id)))
            .collect();
        if follows != indexed {
            return Err("the index of followers is not that of the actors".to_owned());
        }
        let owned: usize = self.owned.values().map(BTreeSet::len).sum();
        let dead = self.actors.values().filter(|actor| actor.is_dead()).count();
        let detached =
            self.actors.values().filter(|actor| !actor.is_dead() && actor.spec.detached).count();
        if owned + detached + dead != self.actors.len() || dead != self.dead_actors.len() {
            return Err("the tables of actors do not add up".to_owned());
        }
        let kv_bytes: usize =
            self.kv.entries.iter().map(|((_, key), value)| key.len() + value.len()).sum();
        if kv_bytes != self.kv.bytes {
            return Err("the size of the key-value table is wrong".to_owned());
        }
        self.check_groups()
    }

    /// Every bundle that has a node, for a comparison with what the nodes hold.
    #[must_use]
    pub fn bundle_places(&self) -> Vec<(PlacementGroupId, u32, NodeId)> {
        let placed = self.groups.all.iter().filter(|(_, group)| !group.is_removed);
        let places = placed.flat_map(|(group_id, group)| {
            group.places.iter().map(|(bundle, node_id)| (*group_id, *bundle, *node_id))
        });
        places.collect()
    }

    fn check_groups(&self) -> Result<(), String> {
        for (group_id, group) in &self.groups.all {
            let waits = !group.is_removed && group.trying.is_none() && !group.is_placed();
            let is_queued = self.groups.queued.contains_key(group_id);
            let resumes = self.recovering_until_ms.is_some() && !is_queued;
            if waits != is_queued && !resumes {
                return Err(format!("group {group_id} is in the queue: {}, wrongly", !waits));
            }
            let named = (group.spec.namespace.clone(), group.spec.name.clone());
            let holds_name = self.groups.names.get(&named) == Some(group_id);
            if holds_name != (!group.is_removed && !group.spec.name.is_empty()) {
                return Err(format!("group {group_id} holds its name: {holds_name}, wrongly"));
            }
            if group.waiters.is_empty() == self.groups.awaited.contains(group_id) {
                return Err(format!("the index of who waits for group {group_id} is wrong"));
            }
            let gone = |id: &&NodeId| !self.nodes.get(id).is_some_and(|node| node.info.alive);
            let gone = group.places.values().find(gone).filter(|_| !group.is_removed);
            if let Some(node_id) = gone.filter(|_| self.recovering_until_ms.is_none()) {
                return Err(format!("group {group_id} has a bundle on {node_id}, which is gone"));
            }
        }
        for (actor_id, actor) in &self.actors {
            let Some(place) = InGroup::of(&actor.spec.strategy) else { continue };
            let lives_there =
                self.group(place.group_id).is_some_and(|group| group.users.contains(actor_id));
            if lives_there == actor.is_dead() {
                return Err(format!(
                    "{actor_id} is {:?}, and in its group: {lives_there}",
                    actor.state
                ));
            }
        }
        Ok(())
    }
}
