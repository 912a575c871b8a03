//! The placement of actors, and the explanations for those that wait.

use std::borrow::Cow;

use helio_config::control::{HEARTBEAT_MS, LIST_ROWS_MAX, WHY_AFTER_MS};
use helio_proto::control::{ActorSpec, PendingDemand, Strategy};
use helio_scheduler::{Choice, GroupBundle, fails_when_infeasible, taken, why, why_infeasible};
use helio_types::{ActorId, DeathCause, DeathKind, NodeId, ResourceSet, mutant};

use super::Control;
use crate::actors::State;
use crate::durable;
use crate::nodes::ReservedFor;
use crate::queue::Shape;

impl Control {
    /// The actor, whose state is `Waiting`, joins the queue; it may leave it at once.
    pub(crate) fn enqueue_actor(&mut self, actor_id: ActorId) {
        let Some(actor) = self.actors.get(actor_id).filter(|actor| actor.is_waiting()) else {
            return;
        };
        let spec = actor.spec.clone();
        // The common case, of which there may be thousands in a second.
        if self.queue.is_empty() && self.place_at_once(actor_id, &spec) {
            return;
        }
        let (shape, is_first) = self.queue.push(actor_id, &spec);
        if is_first {
            self.place_shape(&shape);
        }
        let Some((oldest, strategy)) = self.queue.first(&shape) else { return };
        // To look at every node for each of a thousand equal actors would take longer than placing them.
        let said = self.actors.get(oldest).map(|oldest| oldest.why.clone());
        let text = said
            .filter(|said| !said.is_empty() && !is_first)
            .unwrap_or_else(|| self.why_shape(&shape, strategy));
        self.actors.update(actor_id, |actor| actor.why = text);
    }

    /// Places an actor where there is room, without a place in the queue, because no other waits. Returns whether there
    /// was room.
    fn place_at_once(&mut self, actor_id: ActorId, spec: &ActorSpec) -> bool {
        let need = taken(&spec.placement_resources, &spec.strategy);
        let creator = Some(spec.owner.node_id);
        let Choice::On(node_id) = self.choose(creator, &need, &spec.strategy) else { return false };
        self.launch_actor(node_id, actor_id);
        true
    }

    /// A node for the next actor.
    fn choose(
        &mut self,
        creator: Option<NodeId>,
        need: &ResourceSet,
        strategy: &Strategy,
    ) -> Choice {
        let none = Strategy::default();
        let strategy = if mutant!("actors-strategy-ignored") { &none } else { strategy };
        let choice = self.nodes.choose(creator, need, strategy, self.n_placed);
        self.n_placed += u64::from(matches!(choice, Choice::On(_)));
        choice
    }

    /// Places waiting actors after something has become free: the shape whose oldest actor waits
    /// longest goes first.
    pub(crate) fn place_actors(&mut self) {
        for shape in self.queue.shapes() {
            self.place_shape(&shape);
        }
    }

    fn place_shape(&mut self, shape: &Shape) {
        while let Some((actor_id, strategy)) = self.queue.first(shape) {
            // Where nothing speaks for another node, an actor is made beside its creator.
            let creator = self.actors.get(actor_id).map(|actor| actor.spec.owner.node_id);
            let strategy = &strategy.clone();
            match self.choose(creator, &shape.0, strategy) {
                Choice::On(node_id) => self.launch_actor(node_id, actor_id),
                Choice::Busy => return,
                // Until all nodes of before are back, none counts as gone.
                Choice::Infeasible
                    if fails_when_infeasible(strategy) && self.recovering_until_ms.is_none() =>
                {
                    let reason = why_infeasible(self.nodes.views(), &shape.0, strategy);
                    let sentence = format!("it cannot be placed: {reason}");
                    self.end_actor(actor_id, DeathCause::new(DeathKind::StartFailed, sentence));
                }
                Choice::Infeasible => return,
            }
        }
    }

    fn launch_actor(&mut self, node_id: NodeId, actor_id: ActorId) {
        self.queue.remove(actor_id);
        let why = format!("it is being made on node {}", self.nodes.host(node_id));
        let launched = self.actors.update(actor_id, |actor| {
            assert!(actor.is_waiting(), "{actor_id} would live twice");
            actor.state = State::Starting { node_id };
            actor.home = node_id;
            actor.attempt += 1;
            actor.why = why;
            // Subscribers that were told that it waits, or restarts, are told where it is made.
            let was_told = std::mem::take(&mut actor.is_explained) || actor.incarnation > 0;
            let mut takes = actor.spec.placement_resources.clone();
            for (name, quantity) in actor.spec.resources.iter() {
                // What it needs to be placed and what it holds then may differ: neither is given to another meanwhile.
                takes.set(name, takes.get(name).max(quantity));
            }
            let in_group = match taken(&takes, &actor.spec.strategy) {
                Cow::Owned(marked) => Some(marked),
                Cow::Borrowed(_) => None,
            };
            (was_told, in_group.unwrap_or(takes), durable::incarnation(actor))
        });
        let Some((was_told, takes, entry)) = launched else { return };
        // Before the launch is sent: a service that starts anew must know where the actor may live.
        self.out.persist(entry);
        let now_ms = self.now_ms();
        self.nodes.reserve(node_id, ReservedFor::Actor(actor_id), takes, now_ms);
        self.send_launch(node_id, actor_id);
        if was_told {
            self.publish_actor(actor_id);
        }
    }

    fn why_shape(&self, shape: &Shape, strategy: &Strategy) -> String {
        let of_group = self.why_group_of(strategy);
        of_group.unwrap_or_else(|| why(self.nodes.views(), &shape.0, strategy))
    }

    /// Returns the reason why an actor of that strategy waits, if that is its group.
    fn why_group_of(&self, strategy: &Strategy) -> Option<String> {
        let place = GroupBundle::of(strategy)?;
        let group = self.groups.get(place.group_id).filter(|group| !group.is_placed())?;
        Some(format!("its placement group {} is not placed yet: {}", place.group_id, group.why()))
    }

    /// Returns the demands that wait for a node, by shape.
    pub(crate) fn pending_demands(&self) -> Vec<PendingDemand> {
        let actors = self.queue.listed().map(|(shape, strategy, actors)| PendingDemand {
            resources: shape.0.clone(),
            count: actors.len() as u64,
            why: self.why_shape(shape, strategy),
            ..PendingDemand::default()
        });
        let groups = match mutant!("groups-are-no-demand") {
            true => Vec::new(),
            false => self.groups.pending_demands(),
        };
        actors.chain(groups).take(LIST_ROWS_MAX).collect()
    }

    /// Whether a second has passed since waiting actors and groups were explained.
    pub(crate) fn is_explaining_due(&mut self) -> bool {
        let now_ms = self.now_ms();
        let is_due = now_ms.saturating_sub(self.explained_ms) >= HEARTBEAT_MS;
        if is_due {
            self.explained_ms = now_ms;
        }
        is_due
    }

    /// **WHY-1** Tells the subscribers of waiting actors what these wait for, and once, when no node could
    /// ever hold one, its driver.
    pub(crate) fn explain_actors(&mut self) {
        let now_ms = self.now_ms();
        let mut told = Vec::new();
        let is_recovering = self.is_recovering();
        for (shape, strategy, actors) in self.queue.queues() {
            let text = self.why_shape(shape, strategy);
            // Its bundle is no resource of any node yet, which looks as if none could ever hold it.
            let waits_for_group = self.why_group_of(strategy).is_some();
            let is_hopeless =
                !waits_for_group && !is_recovering && self.nodes.is_infeasible(&shape.0, strategy);
            let is_due = |actor_id: &ActorId| {
                self.actors.get(*actor_id).is_some_and(|actor| {
                    let waited = matches!(actor.state, State::Waiting { since_ms }
                        if now_ms.saturating_sub(since_ms) >= WHY_AFTER_MS);
                    let is_news = actor.why != text || !actor.is_explained;
                    is_news && (waited || is_hopeless)
                })
            };
            for actor_id in actors.filter(is_due) {
                told.push((actor_id, text.clone(), is_hopeless));
            }
        }
        for (actor_id, text, is_hopeless) in told {
            self.explain_actor(actor_id, &text, is_hopeless);
        }
    }

    fn explain_actor(&mut self, actor_id: ActorId, text: &str, is_hopeless: bool) {
        let warning = self.actors.update(actor_id, |actor| {
            text.clone_into(&mut actor.why);
            actor.is_explained = true;
            let warns = is_hopeless && !std::mem::replace(&mut actor.was_warned, is_hopeless);
            warns.then(|| {
                let sentence = format!(
                    "The actor {} ({actor_id}) cannot be placed: {text}. It waits until a node joins that can hold it.",
                    actor.spec.class_name,
                );
                (actor.spec.job_id, sentence)
            })
        });
        self.publish_actor(actor_id);
        if let Some((job_id, sentence)) = warning.flatten() {
            self.warn_driver(job_id, sentence);
        }
    }
}
