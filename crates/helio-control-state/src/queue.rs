//! The actors that wait for a node.
//!
//! The actors are grouped by shape (what they need and where they may go): if the oldest of a shape finds no
//! room, none of the shape does, so a pass over a long queue costs one placement a shape.

use std::collections::BTreeMap;

use helio_config::control::LIST_ROWS_MAX;
use helio_proto::control::{ActorSpec, Strategy};
use helio_proto::encode;
use helio_scheduler::taken;
use helio_types::{ActorId, ResourceSet, mutant};

/// A need and a strategy, in a form that can be compared.
pub(crate) type Shape = (ResourceSet, Vec<u8>);

/// The queue of each shape.
#[derive(Debug, Default)]
pub(crate) struct ActorQueue {
    queues: BTreeMap<Shape, Queue>,
    /// The shape of each actor and its number in the queue.
    places: BTreeMap<ActorId, (Shape, u64)>,
    /// Numbers actors in the order in which they began to wait.
    next: u64,
}

#[derive(Debug)]
struct Queue {
    strategy: Strategy,
    actors: BTreeMap<u64, ActorId>,
}

impl ActorQueue {
    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(crate) fn contains(&self, actor_id: ActorId) -> bool {
        self.places.contains_key(&actor_id)
    }

    /// The actor joins the queue; its shape, and whether it is the only one of it.
    pub(crate) fn push(&mut self, actor_id: ActorId, spec: &ActorSpec) -> (Shape, bool) {
        let need = taken(&spec.placement_resources, &spec.strategy).into_owned();
        let shape = (need, encode(&spec.strategy));
        self.next += 1;
        let before = self.places.insert(actor_id, (shape.clone(), self.next));
        assert!(before.is_none(), "an actor that waits twice is placed twice");
        let queue = self
            .queues
            .entry(shape.clone())
            .or_insert_with(|| Queue { strategy: spec.strategy.clone(), actors: BTreeMap::new() });
        queue.actors.insert(self.next, actor_id);
        let is_first = queue.actors.len() == 1;
        (shape, is_first)
    }

    pub(crate) fn remove(&mut self, actor_id: ActorId) {
        let Some((shape, number)) = self.places.remove(&actor_id) else { return };
        if let Some(queue) = self.queues.get_mut(&shape) {
            let removed = queue.actors.remove(&number);
            assert_eq!(removed, Some(actor_id), "another actor would wait for ever");
            if queue.actors.is_empty() {
                self.queues.remove(&shape);
            }
        }
    }

    /// The actor of a shape that waits longest, and its strategy.
    pub(crate) fn first(&self, shape: &Shape) -> Option<(ActorId, &Strategy)> {
        let queue = self.queues.get(shape)?;
        let first = match mutant!("newest-actor-first") {
            true => queue.actors.last_key_value(),
            false => queue.actors.first_key_value(),
        };
        first.map(|(_, actor_id)| (*actor_id, &queue.strategy))
    }

    /// The shapes, the one whose oldest actor waits longest first.
    pub(crate) fn shapes(&self) -> Vec<Shape> {
        let mut order: Vec<(u64, &Shape)> = Vec::with_capacity(self.queues.len());
        for (shape, queue) in &self.queues {
            if let Some((number, _)) = queue.actors.first_key_value() {
                order.push((*number, shape));
            }
        }
        order.sort_unstable();
        order.into_iter().map(|(_, shape)| shape.clone()).collect()
    }

    /// The queues in the order of their shapes: what is needed, the strategy, the actors.
    pub(crate) fn queues(
        &self,
    ) -> impl Iterator<Item = (&Shape, &Strategy, impl ExactSizeIterator<Item = ActorId>)> {
        self.queues
            .iter()
            .map(|(shape, queue)| (shape, &queue.strategy, queue.actors.values().copied()))
    }

    /// The queues of a listing, no more than it has rows.
    pub(crate) fn listed(
        &self,
    ) -> impl Iterator<Item = (&Shape, &Strategy, impl ExactSizeIterator<Item = ActorId>)> {
        self.queues().take(LIST_ROWS_MAX)
    }
}
