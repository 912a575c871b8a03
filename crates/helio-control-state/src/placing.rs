//! Where actors go.
//!
//! Actors that wait are grouped by shape (what they need and where they may go): if the oldest of a
//! shape finds no room, none of the shape does, so a pass over a long queue costs one placement a
//! shape.
//!
//! What a launched actor will take, or a bundle that is being reserved, is promised in the node's view, so that a burst is spread. A
//! reservation ends with the node's next status, which knows better, and at the latest after
//! [`RESERVATION_MS_MAX`]: a node may lend an actor's resources on while its constructor waits, and
//! another actor may be what it waits for.

use std::collections::BTreeMap;

use helio_config::control::{HEARTBEAT_MS, LIST_ROWS_MAX, WHY_AFTER_MS};
use helio_proto::cluster::ControlToNode;
use helio_proto::control::{ActorLaunch, PendingDemand, Strategy};
use helio_proto::encode;
use helio_scheduler::{Placement, fails_when_infeasible, place, taken, why};
use helio_types::{
    ActorId, Assigned, DeathCause, DeathKind, NodeId, PlacementGroupId, ResourceSet,
};

use crate::Control;
use crate::actors::State;
use crate::durable::incarnation;

/// How long a reservation lasts, in milliseconds.
pub(crate) const RESERVATION_MS_MAX: u64 = 200;

/// What resources were promised to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Promised {
    /// An actor that was sent to the node.
    Actor(ActorId),
    /// Bundles of a placement group that the node was asked to hold.
    Group(PlacementGroupId),
}

/// A need and a strategy, in a form that can be compared.
type Shape = (ResourceSet, Vec<u8>);

/// The actors that wait for a node.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    queues: BTreeMap<Shape, Queue>,
    /// Where each actor stands: its shape and its number there.
    places: BTreeMap<ActorId, (Shape, u64)>,
    /// Numbers actors in the order in which they began to wait.
    next: u64,
    /// How many were placed: the turns of [`place`].
    placed: u64,
}

#[derive(Debug)]
struct Queue {
    strategy: Strategy,
    actors: BTreeMap<u64, ActorId>,
}

impl Waiting {
    pub(crate) fn contains(&self, actor_id: ActorId) -> bool {
        self.places.contains_key(&actor_id)
    }

    fn remove(&mut self, actor_id: ActorId) {
        let Some((shape, number)) = self.places.remove(&actor_id) else { return };
        if let Some(queue) = self.queues.get_mut(&shape) {
            queue.actors.remove(&number);
            if queue.actors.is_empty() {
                self.queues.remove(&shape);
            }
        }
    }
}

impl Control {
    /// The actor, whose state is `Waiting`, joins the queue; it may leave it at once.
    pub(crate) fn wait(&mut self, actor_id: ActorId) {
        let Some(actor) = self.actors.get(&actor_id) else { return };
        let strategy = actor.spec.strategy.clone();
        let need = taken(&actor.spec.placement_resources, &strategy).into_owned();
        let shape = (need, encode(&strategy));
        self.waiting.next += 1;
        let number = self.waiting.next;
        self.waiting.places.insert(actor_id, (shape.clone(), number));
        let queue = self.waiting.queues.entry(shape.clone());
        let queue = queue.or_insert_with(|| Queue { strategy, actors: BTreeMap::new() });
        queue.actors.insert(number, actor_id);
        let is_first = queue.actors.len() == 1;
        if is_first {
            self.place_shape(&shape);
        }
        let Some(queue) = self.waiting.queues.get(&shape) else { return };
        let oldest = queue.actors.first_key_value().and_then(|(_, id)| self.actors.get(id));
        let told =
            oldest.map(|oldest| oldest.why.clone()).filter(|told| !told.is_empty() && !is_first);
        let text = told.unwrap_or_else(|| self.why_shape(&shape, &queue.strategy));
        if let Some(actor) = self.actors.get_mut(&actor_id) {
            actor.why = text;
        }
    }

    pub(crate) fn no_longer_waits(&mut self, actor_id: ActorId) {
        self.waiting.remove(actor_id);
    }

    /// Something has become free: the shape whose oldest actor waits longest goes first.
    pub(crate) fn place_waiting(&mut self) {
        self.place_groups();
        let mut order: Vec<(u64, Shape)> = Vec::with_capacity(self.waiting.queues.len());
        for (shape, queue) in &self.waiting.queues {
            if let Some((number, _)) = queue.actors.first_key_value() {
                order.push((*number, shape.clone()));
            }
        }
        order.sort_unstable();
        for (_, shape) in order {
            self.place_shape(&shape);
        }
    }

    fn place_shape(&mut self, shape: &Shape) {
        while let Some(queue) = self.waiting.queues.get(shape) {
            let Some(actor_id) = queue.actors.first_key_value().map(|(_, id)| *id) else { return };
            let creator = self.actors.get(&actor_id).map(|actor| actor.spec.owner.node_id);
            let cursor = self.waiting.placed;
            match place(&self.views, creator, &shape.0, &queue.strategy, cursor, &[]) {
                Placement::On(node_id) => {
                    self.waiting.placed += 1;
                    self.launch(node_id, actor_id);
                }
                Placement::Busy => return,
                Placement::Infeasible(reason) if fails_when_infeasible(&queue.strategy) => {
                    // Until all nodes of before are back, none can be said to be gone.
                    if self.recovering_until_ms.is_some() {
                        return;
                    }
                    let sentence = format!("it cannot be placed: {reason}");
                    self.end_actor(actor_id, DeathCause::new(DeathKind::StartFailed, sentence));
                }
                Placement::Infeasible(_) => return,
            }
        }
    }

    fn launch(&mut self, node_id: NodeId, actor_id: ActorId) {
        self.waiting.remove(actor_id);
        let Some(actor) = self.actors.get_mut(&actor_id) else { return };
        actor.state = State::Starting { node_id };
        actor.home = node_id;
        let host = self.nodes.get(&node_id).map_or("", |node| node.info.address.host.as_str());
        actor.why = format!("it is being made on node {host}");
        // Whoever was told that it waits, or that it is being restarted, hears where it is made.
        let was_told = std::mem::take(&mut actor.told) || actor.incarnation > 0;
        let mut takes = actor.spec.placement_resources.clone();
        for (name, quantity) in actor.spec.resources.iter() {
            takes.set(name, takes.get(name).max(quantity));
        }
        let takes = taken(&takes, &actor.spec.strategy).into_owned();
        let change = incarnation(actor);
        self.persist(change);
        self.reserve(node_id, Promised::Actor(actor_id), takes);
        self.send_launch(node_id, actor_id);
        if was_told {
            self.publish(actor_id);
        }
    }

    pub(crate) fn send_launch(&mut self, node_id: NodeId, actor_id: ActorId) {
        let Some(actor) = self.actors.get(&actor_id) else { return };
        // Which devices it gets is the node's to say.
        let assigned = Assigned { resources: actor.spec.resources.clone(), ..Assigned::default() };
        let launch =
            ActorLaunch { spec: actor.spec.clone(), incarnation: actor.incarnation, assigned };
        self.send(node_id, ControlToNode::LaunchActor(launch));
    }

    pub(crate) fn reserve(&mut self, node_id: NodeId, to: Promised, resources: ResourceSet) {
        let Some(node) = self.nodes.get_mut(&node_id) else { return };
        let before = node.reserved.insert(to, (resources.clone(), self.now_ms));
        self.adjust_view(node_id, before.map(|(before, _)| before), &resources);
    }

    /// It has started and holds so much, or has ended and holds nothing. If the node has not spoken since
    /// the promise, this replaces what was reserved for it; else the node counts it.
    pub(crate) fn settle(&mut self, node_id: NodeId, to: Promised, holds: ResourceSet) {
        let Some(node) = self.nodes.get_mut(&node_id) else { return };
        if let Some(reserved) = node.reserved.get_mut(&to) {
            let before = std::mem::replace(&mut reserved.0, holds.clone());
            self.adjust_view(node_id, Some(before), &holds);
        }
    }

    /// Derives the view anew from a changed reservation: quick also when a node has thousands.
    fn adjust_view(&mut self, node_id: NodeId, before: Option<ResourceSet>, now: &ResourceSet) {
        let found = self.views.binary_search_by(|view| view.address.node_id.cmp(&node_id));
        let Ok(index) = found else { return };
        let available = &mut self.views[index].available;
        if let Some(before) = before {
            available.add(&before);
        }
        available.subtract(now);
    }

    pub(crate) fn expire_reservations(&mut self) {
        let now_ms = self.now_ms;
        let is_old = |since_ms: u64| now_ms.saturating_sub(since_ms) >= RESERVATION_MS_MAX;
        let mut freed = Vec::new();
        for (node_id, node) in &mut self.nodes {
            let before = node.reserved.len();
            node.reserved.retain(|_, (_, since_ms)| !is_old(*since_ms));
            if node.reserved.len() < before {
                freed.push(*node_id);
            }
        }
        for node_id in &freed {
            self.refresh_view(*node_id);
        }
        if !freed.is_empty() {
            self.place_waiting();
        }
    }

    fn why_shape(&self, shape: &Shape, strategy: &Strategy) -> String {
        self.why_group_of(strategy).unwrap_or_else(|| why(&self.views, &shape.0, strategy))
    }

    /// What waits for a node, by shape.
    pub(crate) fn pending_demands(&self) -> Vec<PendingDemand> {
        let queues = self.waiting.queues.iter().take(LIST_ROWS_MAX);
        let demand = |(shape, queue): (&Shape, &Queue)| PendingDemand {
            resources: shape.0.clone(),
            count: queue.actors.len() as u64,
            why: self.why_shape(shape, &queue.strategy),
        };
        queues.map(demand).chain(self.pending_bundles()).take(LIST_ROWS_MAX).collect()
    }

    /// Tells those who hold handles of waiting actors what these wait for, and once, when there is no
    /// node that could ever hold one, its driver.
    pub(crate) fn explain_waits(&mut self) {
        if self.now_ms.saturating_sub(self.explained_ms) < HEARTBEAT_MS {
            return;
        }
        self.explained_ms = self.now_ms;
        self.explain_groups();
        let mut told = Vec::new();
        for (shape, queue) in &self.waiting.queues {
            let text = self.why_shape(shape, &queue.strategy);
            let of_group = self.why_group_of(&queue.strategy).is_some();
            let hopeless = !of_group
                && self.recovering_until_ms.is_none()
                && matches!(
                    place(&self.views, None, &shape.0, &queue.strategy, 0, &[]),
                    Placement::Infeasible(_)
                );
            let due = |actor_id: &&ActorId| {
                let actor = &self.actors[*actor_id];
                let waited = matches!(actor.state, State::Waiting { since_ms }
                    if self.now_ms.saturating_sub(since_ms) >= WHY_AFTER_MS);
                let is_news = actor.why != text || !actor.told;
                is_news && (waited || hopeless)
            };
            for actor_id in queue.actors.values().filter(due) {
                told.push((*actor_id, text.clone(), hopeless));
            }
        }
        for (actor_id, text, hopeless) in told {
            self.explain(actor_id, text, hopeless);
        }
    }

    fn explain(&mut self, actor_id: ActorId, text: String, hopeless: bool) {
        let Some(actor) = self.actors.get_mut(&actor_id) else { return };
        actor.why.clone_from(&text);
        actor.told = true;
        let warning = (hopeless && !actor.warned).then(|| {
            actor.warned = true;
            format!(
                "The actor {} ({actor_id}) cannot be placed: {text}. It waits until a node joins that can hold it.",
                actor.spec.class_name,
            )
        });
        let job_id = actor.spec.job_id;
        self.publish(actor_id);
        if let Some(text) = warning {
            self.warn_driver(job_id, text);
        }
    }
}
