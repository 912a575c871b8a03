//! The table of actors.
//!
//! ```text
//!             placed              ActorStarted
//!   Waiting ─────────▶ Starting ───────────────▶ Alive
//!      ▲                  │                        │
//!      │ restarts left    │ ended, or node gone    │
//!      └──────────────────┴────────────────────────┤
//!                                                  ▼ none left, intended, constructor raised
//!   Recovering (after a restart of this service:  Dead
//!   some node may have it) ─▶ Alive, or as if its node were gone
//! ```
//!
//! An incarnation is one making of the actor's process, counted from 0; a message about another
//! incarnation, or from a node where the actor is not, is about the past and ignored.
//!
//! Indexes find the actors of a node, of a job and of an owner, so that no event walks over all actors. They are hashed:
//! in a tree of a million random ids a search waits for memory at every step.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use helio_config::control::{ACTORS_MAX, DEAD_ACTORS_MAX, LIST_ROWS_MAX};
use helio_proto::control::{
    ActorInfo, ActorPhase, ActorSpec, Actors as Rows, ListNamedActors, NamedActor,
};
use helio_types::{
    ActorId, DeathCause, DeathKind, IdMap, JobId, NodeId, WorkerAddress, WorkerId, mutant,
};

use crate::sets::Sets;
use crate::specs::{self, OwnSpec, Specs};

/// The stage of an actor's life.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum State {
    /// The actor has no node; it is in the queue, or will be at the end of this event.
    Waiting { since_ms: u64 },
    /// The actor was sent to the node.
    Starting { node_id: NodeId },
    /// The actor's process takes calls at this address.
    Alive { address: WorkerAddress, pid: u32 },
    /// The control service started again and waits for the nodes to tell which of them has the actor.
    Recovering,
    /// The actor has ended and is not restarted.
    Dead,
}

/// An actor.
#[derive(Debug)]
pub(crate) struct Actor {
    pub(crate) actor_id: ActorId,
    /// The part of the spec that the actor has in common with others: without id, name, arguments, and with a handle
    /// that is not complete. See [`Actor::whole_spec`].
    pub(crate) spec: Arc<ActorSpec>,
    own: OwnSpec,
    pub(crate) state: State,
    pub(crate) incarnation: u32,
    /// The node that this incarnation was sent to last; `NIL` before.
    pub(crate) home: NodeId,
    /// Number of times that the actor was given to a node.
    pub(crate) attempt: u32,
    /// Number of restarts that moved the actor off drained nodes.
    pub(crate) moves: u32,
    /// The cause of the end of the actor, or of its last incarnation.
    pub(crate) cause: Option<Box<DeathCause>>,
    /// The reason why the actor waits, while it waits.
    pub(crate) why: String,
    /// The actor's subscribers know `why`.
    pub(crate) is_explained: bool,
    /// The driver was warned that the actor cannot be placed.
    pub(crate) was_warned: bool,
    /// The last handle of the actor is gone: its end is not a crash, whatever its process says.
    pub(crate) is_ending: bool,
    /// The actor was killed in order to be restarted: its end is a crash, whatever its process says.
    pub(crate) is_reviving: bool,
    /// The actor's node is drained: it starts again elsewhere, and that uses up no restart.
    pub(crate) is_moving: bool,
    /// The time at which the actor was made, in milliseconds since 1970.
    pub(crate) made_ms: u64,
    /// Likewise of its end; 0: it lives.
    ended_ms: u64,
}

impl Actor {
    fn new(
        actor_id: ActorId,
        spec: Arc<ActorSpec>,
        own: OwnSpec,
        state: State,
        made_ms: u64,
    ) -> Self {
        Self {
            actor_id,
            spec,
            own,
            state,
            incarnation: 0,
            home: NodeId::NIL,
            attempt: 0,
            moves: 0,
            cause: None,
            why: String::new(),
            is_explained: false,
            was_warned: false,
            is_ending: false,
            is_reviving: false,
            is_moving: false,
            made_ms,
            ended_ms: 0,
        }
    }

    /// The spec that it was created from.
    pub(crate) fn whole_spec(&self) -> ActorSpec {
        specs::join(self.actor_id, &self.spec, &self.own)
    }

    /// The node that has its process.
    pub(crate) fn node_id(&self) -> Option<NodeId> {
        match &self.state {
            State::Starting { node_id } => Some(*node_id),
            State::Alive { address, .. } => Some(address.node_id),
            State::Waiting { .. } | State::Recovering | State::Dead => None,
        }
    }

    /// The node that has its process, or may have it.
    fn place(&self) -> Option<NodeId> {
        // If that node dies before it has registered again, the actor is lost with it.
        let may_be_there = self.state == State::Recovering && !self.home.is_nil();
        self.node_id().or(may_be_there.then_some(self.home))
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.state == State::Dead
    }

    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting { .. })
    }

    fn phase(&self) -> ActorPhase {
        match self.state {
            State::Alive { .. } => ActorPhase::Alive,
            State::Dead => ActorPhase::Dead,
            State::Waiting { .. } | State::Starting { .. } | State::Recovering
                if self.incarnation > 0 =>
            {
                ActorPhase::Restarting
            }
            State::Waiting { .. } | State::Starting { .. } | State::Recovering => {
                ActorPhase::Pending
            }
        }
    }

    /// Whether it may be restarted at all.
    pub(crate) fn is_restartable(&self) -> bool {
        self.spec.max_restarts != 0
    }

    /// Whether another restart is left to it, or it moves.
    fn has_restarts(&self) -> bool {
        // A move to another node is not the actor's failure.
        let n_restarts = i64::from(self.incarnation - self.moves);
        let most = match self.spec.max_restarts {
            1 if mutant!("one-restart-refused") => 0,
            most if most > 0 && mutant!("one-restart-too-many") => most + 1,
            most => most,
        };
        let is_left = most < 0 || n_restarts < most;
        is_left || self.is_moving && self.is_restartable()
    }

    pub(crate) fn may_restart(&self, cause: &DeathCause) -> bool {
        // What failed in its constructor, or could not be started, would fail in the same way again.
        let final_end = cause.is_intended()
            || matches!(
                cause.kind,
                DeathKind::InitFailed | DeathKind::StartFailed | DeathKind::EnvFailed
            );
        // A kill that restarts and a move end the process on purpose: that is not the end of the actor.
        let is_to_live = self.is_reviving
            || self.is_moving
            || !final_end
            || mutant!("failed-constructor-tried-again");
        self.has_restarts() && !self.is_ending && is_to_live
    }

    pub(crate) fn info(&self) -> ActorInfo {
        let (address, pid) = match &self.state {
            State::Alive { address, pid } => (address.clone(), *pid),
            _ => Default::default(),
        };
        ActorInfo {
            actor_id: self.actor_id,
            phase: self.phase(),
            incarnation: self.incarnation,
            address,
            cause: self.cause.as_deref().cloned().unwrap_or_default(),
            why: self.why.clone(),
            name: self.own.name().to_owned(),
            namespace: self.spec.namespace.clone(),
            class_name: self.spec.class_name.clone(),
            job_id: self.spec.job_id,
            pid,
            restarts: self.incarnation,
            detached: self.spec.detached,
            max_task_retries: self.spec.max_task_retries,
            // Of a dead one the node on which it was last.
            node_id: self.node_id().or(self.is_dead().then_some(self.home)).unwrap_or_default(),
            resources: self.spec.resources.clone(),
            is_unlisted: self.spec.is_unlisted,
            attempt: self.attempt,
            moves: self.moves,
            made_ms: self.made_ms,
            ended_ms: self.ended_ms,
            ..ActorInfo::default()
        }
    }

    /// The answer to who looks the actor up by name.
    pub(crate) fn named(&self) -> NamedActor {
        NamedActor {
            name: self.own.name().to_owned(),
            namespace: self.spec.namespace.clone(),
            actor_id: self.actor_id,
            handle: specs::handle(self.actor_id, &self.spec, &self.own),
        }
    }
}

/// All actors, also the newest of the dead ones.
#[derive(Debug, Default)]
pub(crate) struct Actors {
    actors: IdMap<ActorId, Box<Actor>>,
    specs: Specs,
    /// Dead actors, the newest last.
    dead: VecDeque<ActorId>,
    /// Derived from living actors: names that are taken, by namespace.
    names: BTreeMap<(String, String), ActorId>,
    /// Derived from living actors that are not detached: who created them.
    owned: Sets<WorkerId>,
    /// Derived from `owned`: the owners on each node, and how many actors each owns.
    owners: BTreeMap<(NodeId, WorkerId), usize>,
    /// Derived from living actors: where their processes are or may be.
    on_node: Sets<NodeId>,
    /// Derived from living actors: their jobs.
    of_job: Sets<JobId>,
}

impl Actors {
    pub(crate) fn get(&self, actor_id: ActorId) -> Option<&Actor> {
        self.actors.get(&actor_id).map(Box::as_ref)
    }

    /// The actor, unless it is dead.
    pub(crate) fn living(&self, actor_id: ActorId) -> Option<&Actor> {
        self.get(actor_id).filter(|actor| !actor.is_dead())
    }

    pub(crate) fn is_living(&self, actor_id: ActorId) -> bool {
        self.living(actor_id).is_some()
    }

    /// All of them, in the order of ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ActorId, &Actor)> {
        let mut all: Vec<(ActorId, &Actor)> =
            self.actors.iter().map(|(actor_id, actor)| (*actor_id, actor.as_ref())).collect();
        all.sort_unstable_by_key(|(actor_id, _)| *actor_id);
        all.into_iter()
    }

    /// All of them in no order, for sums: there may be millions.
    pub(crate) fn unordered(&self) -> impl Iterator<Item = &Actor> {
        self.actors.values().map(AsRef::as_ref)
    }

    pub(crate) fn n_living(&self) -> usize {
        self.actors.len() - self.dead.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.n_living() >= ACTORS_MAX
    }

    pub(crate) fn n_names(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn n_owners(&self) -> usize {
        self.owners.len()
    }

    /// The actor that has the name.
    pub(crate) fn by_name(&self, namespace: &str, name: &str) -> Option<&Actor> {
        // Actors without a name would otherwise find each other.
        if name.is_empty() {
            return None;
        }
        if mutant!("names-known-in-every-namespace") {
            let found = self.names.iter().find(|((_, of), _)| of == name);
            return self.get(*found?.1);
        }
        let actor_id = self.names.get(&(namespace.to_owned(), name.to_owned()))?;
        self.get(*actor_id)
    }

    /// Takes in a new actor whose name is free and that waits, or one of before a restart.
    pub(crate) fn insert(&mut self, spec: ActorSpec, state: State, made_ms: u64) {
        let actor_id = spec.actor_id;
        if !spec.name.is_empty() {
            self.names.insert((spec.namespace.clone(), spec.name.clone()), actor_id);
        }
        if !spec.detached {
            self.owned.insert(spec.owner.worker_id, actor_id);
            // Counted by node, too: when a node registers again, its owners are compared with the processes that it
            // has.
            *self.owners.entry((spec.owner.node_id, spec.owner.worker_id)).or_default() += 1;
        }
        self.of_job.insert(spec.job_id, actor_id);
        let (spec, own) = self.specs.split(spec);
        self.actors.insert(actor_id, Box::new(Actor::new(actor_id, spec, own, state, made_ms)));
    }

    /// Changes an actor that exists. Only [`Self::end`] may make it dead.
    pub(crate) fn update<R>(
        &mut self,
        actor_id: ActorId,
        change: impl FnOnce(&mut Actor) -> R,
    ) -> Option<R> {
        let actor = self.actors.get_mut(&actor_id)?;
        // The indexes are derived from what changes: here alone, so that no rule can forget them.
        let (before, was_dead) = (actor.place(), actor.is_dead());
        let result = change(actor);
        let after = actor.place();
        assert!(actor.is_dead() == was_dead, "an actor is ended by `end` alone");
        if before != after {
            if let Some(node_id) = before {
                self.on_node.remove(node_id, actor_id);
            }
            if let Some(node_id) = after {
                self.on_node.insert(node_id, actor_id);
            }
        }
        Some(result)
    }

    /// The actor is over for good; whether it was alive until now.
    pub(crate) fn end(&mut self, actor_id: ActorId, cause: DeathCause, now_ms: u64) -> bool {
        let Some(actor) = self.actors.get_mut(&actor_id).filter(|actor| !actor.is_dead()) else {
            return false;
        };
        if let Some(node_id) = actor.place() {
            self.on_node.remove(node_id, actor_id);
        }
        actor.state = State::Dead;
        actor.ended_ms = now_ms;
        actor.cause = Some(Box::new(cause));
        actor.why.clear();
        let name = (actor.spec.namespace.clone(), actor.own.name().to_owned());
        let owner = (actor.spec.owner.node_id, actor.spec.owner.worker_id);
        // Millions of dead actors may be remembered: they keep what a listing shows, and not what a start needs.
        actor.spec = self.specs.of_dead(&actor.spec);
        actor.own.forget();
        self.of_job.remove(actor.spec.job_id, actor_id);
        // Another actor may have taken the name since then.
        if self.names.get(&name) == Some(&actor_id) {
            self.names.remove(&name);
        }
        if self.owned.remove(owner.1, actor_id)
            && let Some(n_owned) = self.owners.get_mut(&owner)
        {
            assert!(*n_owned > 0, "an actor's owner is counted once");
            *n_owned -= 1;
            if *n_owned == 0 {
                self.owners.remove(&owner);
            }
        }
        true
    }

    /// Remembers a dead actor, and forgets the oldest one when there are too many.
    pub(crate) fn bound_dead(&mut self, actor_id: ActorId) {
        self.dead.push_back(actor_id);
        if self.dead.len() > DEAD_ACTORS_MAX
            && let Some(oldest) = self.dead.pop_front()
        {
            self.actors.remove(&oldest);
        }
    }

    /// The living actors that a process created and that are not detached.
    pub(crate) fn owned_by(&self, owner: WorkerId) -> impl Iterator<Item = ActorId> {
        self.owned.of(owner).into_iter()
    }

    /// The processes of a node that own living actors.
    pub(crate) fn owners_on(&self, node_id: NodeId) -> Vec<WorkerId> {
        let (first, last) = (WorkerId([0; WorkerId::LEN]), WorkerId([u8::MAX; WorkerId::LEN]));
        let here = self.owners.range((node_id, first)..=(node_id, last));
        here.map(|((_, owner), _)| *owner).collect()
    }

    /// The nodes of the processes that own living actors.
    pub(crate) fn owner_nodes(&self) -> impl Iterator<Item = NodeId> {
        self.owners.keys().map(|(node_id, _)| *node_id)
    }

    /// The living actors whose processes are on the node, or may be.
    pub(crate) fn on_node(&self, node_id: NodeId) -> Vec<ActorId> {
        self.on_node.of(node_id)
    }

    /// The living actors of a job that end with it: all except detached ones and those that these own,
    /// directly or not.
    pub(crate) fn ending_with_job(&self, job_id: JobId) -> Vec<ActorId> {
        let of_job = self.of_job.of(job_id);
        let of_job: Vec<&Actor> =
            of_job.iter().map(|actor_id| self.actors[actor_id].as_ref()).collect();
        let host = |actor: &&Actor| match &actor.state {
            State::Alive { address, .. } => Some((address.worker_id, actor.actor_id)),
            _ => None,
        };
        // Actors that an actor creates belong to that actor's job.
        let hosts: BTreeMap<WorkerId, ActorId> = of_job.iter().filter_map(host).collect();
        let ends = |actor: &&&Actor| !self.outlives_job(actor, &hosts);
        of_job.iter().filter(ends).map(|actor| actor.actor_id).collect()
    }

    /// Whether an actor is detached, or lives in a chain of owners that begins at a detached one. The
    /// chain has no circle, as each owner was alive before what it created.
    fn outlives_job(&self, actor: &Actor, hosts: &BTreeMap<WorkerId, ActorId>) -> bool {
        let mut link = actor;
        while !link.spec.detached || mutant!("detached-actor-ends-with-its-job") {
            let owner = hosts.get(&link.spec.owner.worker_id).and_then(|id| self.get(*id));
            match owner.filter(|owner| owner.actor_id != actor.actor_id) {
                Some(owner) => link = owner,
                None => return false,
            }
        }
        true
    }

    pub(crate) fn rows(&self) -> Rows {
        // Not all of a million are put in order for the first few.
        let mut ids: Vec<ActorId> = self.actors.keys().copied().collect();
        ids.retain(|actor_id| self.is_living(*actor_id));
        if ids.len() > LIST_ROWS_MAX {
            ids.select_nth_unstable(LIST_ROWS_MAX);
            ids.truncate(LIST_ROWS_MAX);
        }
        ids.sort_unstable();
        let alive = ids.iter().filter_map(|id| self.get(*id));
        let dead = self.dead.iter().rev().filter_map(|id| self.get(*id));
        Rows { actors: alive.chain(dead).take(LIST_ROWS_MAX).map(Actor::info).collect() }
    }

    pub(crate) fn named_rows(&self, list: &ListNamedActors) -> Vec<NamedActor> {
        let wanted = |namespace: &str| list.all_namespaces || namespace == list.namespace;
        let ids =
            self.names.iter().filter(|((namespace, _), _)| wanted(namespace)).map(|(_, id)| id);
        let live = ids.filter_map(|id| self.get(*id)).filter(|actor| !actor.is_ending);
        let rows = live.map(|actor| NamedActor { handle: Vec::new(), ..actor.named() });
        rows.take(LIST_ROWS_MAX).collect()
    }

    /// Whether the derived tables agree with the actors.
    pub(crate) fn check(&self) -> Result<(), String> {
        let living = || self.actors.iter().filter(|(_, actor)| !actor.is_dead());
        for (actor_id, actor) in &self.actors {
            let named = (actor.spec.namespace.clone(), actor.own.name().to_owned());
            let holds_name = self.names.get(&named) == Some(actor_id);
            if holds_name != (!actor.is_dead() && !actor.own.name().is_empty()) {
                return Err(format!(
                    "{actor_id} is {:?}, and holds its name: {holds_name}",
                    actor.state
                ));
            }
        }
        let owned = || living().filter(|(_, actor)| !actor.spec.detached);
        let owned_set: Sets<_> =
            owned().map(|(id, actor)| (actor.spec.owner.worker_id, *id)).collect();
        let mut owners: BTreeMap<_, usize> = BTreeMap::new();
        for (_, actor) in owned() {
            let owner = &actor.spec.owner;
            *owners.entry((owner.node_id, owner.worker_id)).or_default() += 1;
        }
        let on_node: Sets<_> =
            living().filter_map(|(id, actor)| Some((actor.place()?, *id))).collect();
        let of_job: Sets<_> = living().map(|(id, actor)| (actor.spec.job_id, *id)).collect();
        if owned_set != self.owned
            || owners != self.owners
            || on_node != self.on_node
            || of_job != self.of_job
        {
            return Err("an index of the actors is not that of the actors".to_owned());
        }
        if self.actors.len() - living().count() != self.dead.len() {
            return Err("the tables of actors do not add up".to_owned());
        }
        Ok(())
    }
}
