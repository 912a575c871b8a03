//! An actor's life.
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
//! An incarnation is one making of its process, counted from 0; a message about another incarnation,
//! or from a node where the actor is not, is about the past and ignored.

use std::collections::{BTreeMap, BTreeSet};

use helio_config::control::{DEAD_ACTORS_MAX, UNKNOWN_ACTOR_MS_MAX};
use helio_proto::cluster::{ActorEnded, ActorStarted, RunningActor, StopActor};
use helio_proto::control::{ActorPhase, ActorSpec, KillActor};
use helio_scheduler::taken;
use helio_types::{
    ActorId, DeathCause, DeathKind, JobId, NodeId, ResourceSet, WorkerAddress, WorkerId,
};

use crate::Control;
use crate::placing::Promised;

/// Where an actor is in its life.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum State {
    /// In `Control::waiting`.
    Waiting { since_ms: u64 },
    /// Sent to the node.
    Starting { node_id: NodeId },
    /// Takes calls.
    Alive { address: WorkerAddress, pid: u32 },
    /// This service started anew and waits for the nodes to say who has it.
    Recovering,
    /// Over.
    Dead,
}

/// An actor.
#[derive(Debug)]
pub(crate) struct Actor {
    pub(crate) spec: ActorSpec,
    pub(crate) state: State,
    pub(crate) incarnation: u32,
    /// The node that this incarnation was sent to last; `NIL` before.
    pub(crate) home: NodeId,
    /// Why it, or its last incarnation, ended.
    pub(crate) cause: DeathCause,
    /// While it waits: what for.
    pub(crate) why: String,
    /// Its followers know `why`.
    pub(crate) told: bool,
    /// The driver was warned that it cannot be placed.
    pub(crate) warned: bool,
    /// Its last handle is gone: its end is no crash, whatever it looks like.
    pub(crate) ending: bool,
    /// It was killed in order to be restarted: its end is a crash, whatever it looks like.
    pub(crate) reviving: bool,
    /// Who is told of changes.
    pub(crate) followers: BTreeSet<(NodeId, WorkerId)>,
}

/// Followers of an actor whose creation has not arrived: its handle was faster.
#[derive(Debug)]
pub(crate) struct Unknown {
    pub(crate) since_ms: u64,
    pub(crate) followers: BTreeSet<(NodeId, WorkerId)>,
}

impl Actor {
    pub(crate) fn new(spec: ActorSpec, state: State) -> Self {
        Self {
            spec,
            state,
            incarnation: 0,
            home: NodeId::NIL,
            cause: DeathCause::default(),
            why: String::new(),
            told: false,
            warned: false,
            ending: false,
            reviving: false,
            followers: BTreeSet::new(),
        }
    }

    /// The node that has its process.
    pub(crate) fn node_id(&self) -> Option<NodeId> {
        match &self.state {
            State::Starting { node_id } => Some(*node_id),
            State::Alive { address, .. } => Some(address.node_id),
            State::Waiting { .. } | State::Recovering | State::Dead => None,
        }
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.state == State::Dead
    }

    pub(crate) fn phase(&self) -> ActorPhase {
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

    fn may_restart(&self, cause: &DeathCause) -> bool {
        let left =
            self.spec.max_restarts < 0 || i64::from(self.incarnation) < self.spec.max_restarts;
        let final_end = cause.is_intended()
            || matches!(cause.kind, DeathKind::InitFailed | DeathKind::StartFailed);
        left && !self.ending && (self.reviving || !final_end)
    }
}

impl Control {
    /// Takes in a new actor; its name and the limits were checked.
    pub(crate) fn add_actor(&mut self, spec: ActorSpec) {
        let actor_id = spec.actor_id;
        if !spec.name.is_empty() {
            self.names.insert((spec.namespace.clone(), spec.name.clone()), actor_id);
        }
        if !spec.detached {
            self.owned.entry(spec.owner.worker_id).or_default().insert(actor_id);
        }
        let mut actor = Actor::new(spec, State::Waiting { since_ms: self.now_ms });
        if let Some(early) = self.unknown.remove(&actor_id) {
            actor.followers = early.followers;
        }
        self.persist_spec(&actor);
        self.persist_incarnation(&actor);
        self.actors.insert(actor_id, actor);
        self.join_group(actor_id);
        if !self.actors[&actor_id].is_dead() {
            self.wait(actor_id);
        }
    }

    pub(crate) fn on_actor_started(&mut self, node_id: NodeId, started: ActorStarted) {
        let ActorStarted { actor_id, incarnation, address, pid } = started;
        let actor = self.actors.get_mut(&actor_id);
        let current = actor.filter(|actor| {
            actor.incarnation == incarnation && actor.state == State::Starting { node_id }
        });
        let Some(actor) = current else {
            self.stop_stray(node_id, actor_id, incarnation);
            return;
        };
        actor.state = State::Alive { address, pid };
        actor.why.clear();
        let ending = actor.ending;
        let held = taken(&actor.spec.resources, &actor.spec.strategy).into_owned();
        self.settle(node_id, Promised::Actor(actor_id), held);
        self.publish(actor_id);
        if ending {
            self.stop(actor_id, "its last handle is gone", true);
        }
        self.place_waiting();
    }

    pub(crate) fn on_actor_ended(&mut self, node_id: NodeId, ended: ActorEnded) {
        let ActorEnded { actor_id, incarnation, cause, retry } = ended;
        let Some(actor) = self.actors.get_mut(&actor_id) else { return };
        if actor.incarnation != incarnation || actor.node_id() != Some(node_id) {
            return;
        }
        let starting = matches!(actor.state, State::Starting { .. });
        if retry && starting && !actor.ending {
            // The node was fuller than it seemed: believe it until it says more.
            actor.state = State::Waiting { since_ms: self.now_ms };
            let spec = &actor.spec;
            let need = taken(&spec.placement_resources, &spec.strategy).into_owned();
            self.reserve(node_id, Promised::Actor(actor_id), need);
            self.wait(actor_id);
            return;
        }
        self.settle(node_id, Promised::Actor(actor_id), ResourceSet::default());
        self.process_ended(actor_id, cause);
        self.place_waiting();
    }

    /// The actor's process is no more: makes another, or ends it.
    pub(crate) fn process_ended(&mut self, actor_id: ActorId, cause: DeathCause) {
        let Some(actor) = self.actors.get_mut(&actor_id) else { return };
        if !actor.may_restart(&cause) {
            self.end_actor(actor_id, cause);
            return;
        }
        actor.incarnation += 1;
        actor.home = NodeId::NIL;
        actor.reviving = false;
        actor.cause = cause;
        actor.state = State::Waiting { since_ms: self.now_ms };
        let actor = &self.actors[&actor_id];
        let change = crate::durable::incarnation(actor);
        self.persist(change);
        self.publish(actor_id);
        self.wait(actor_id);
    }

    /// The actor is over for good. Its process, if any, is the caller's to stop.
    pub(crate) fn end_actor(&mut self, actor_id: ActorId, cause: DeathCause) {
        self.no_longer_waits(actor_id);
        let Some(actor) = self.actors.get_mut(&actor_id).filter(|actor| !actor.is_dead()) else {
            return;
        };
        actor.state = State::Dead;
        actor.cause = cause;
        actor.why.clear();
        // What made it is not needed any more, and may be large.
        actor.spec.template = Vec::new();
        actor.spec.args = Vec::new();
        actor.spec.handle = Vec::new();
        actor.spec.job_config = Vec::new();
        actor.spec.runtime_env = String::new();
        actor.spec.modules = Vec::new();
        let name = (actor.spec.namespace.clone(), actor.spec.name.clone());
        let owner = actor.spec.owner.worker_id;
        let strategy = actor.spec.strategy.clone();
        self.leave_group(actor_id, &strategy);
        if self.names.get(&name) == Some(&actor_id) {
            self.names.remove(&name);
        }
        if let Some(owned) = self.owned.get_mut(&owner) {
            owned.remove(&actor_id);
            if owned.is_empty() {
                self.owned.remove(&owner);
            }
        }
        self.forget_actor(actor_id);
        self.publish(actor_id);
        self.end_groups_of_actor(actor_id);
        self.dead_actors.push_back(actor_id);
        if self.dead_actors.len() > DEAD_ACTORS_MAX
            && let Some(oldest) = self.dead_actors.pop_front()
        {
            self.actors.remove(&oldest);
        }
    }

    /// Ends the actor and its process.
    pub(crate) fn kill(&mut self, actor_id: ActorId, cause: DeathCause) {
        self.stop(actor_id, &cause.message, false);
        if let Some(node_id) = self.actors.get(&actor_id).and_then(Actor::node_id) {
            self.settle(node_id, Promised::Actor(actor_id), ResourceSet::default());
        }
        self.end_actor(actor_id, cause);
    }

    /// What a client asked for: `ray.kill`, or the last handle is gone.
    pub(crate) fn kill_on_request(&mut self, request: &KillActor) {
        let actor_id = request.actor_id;
        let Some(actor) = self.actors.get_mut(&actor_id).filter(|actor| !actor.is_dead()) else {
            return;
        };
        if request.out_of_scope {
            actor.ending = true;
            let cause = DeathCause::new(DeathKind::Intended, "all handles of it went out of scope");
            match actor.state {
                // It will be told when it has started: until then it could not take what it was sent.
                State::Starting { .. } | State::Recovering => {}
                State::Alive { .. } => self.stop(actor_id, &cause.message, true),
                State::Waiting { .. } | State::Dead => self.end_actor(actor_id, cause),
            }
        } else if request.no_restart {
            let cause = DeathCause::new(DeathKind::Intended, "it was killed by `ray.kill`");
            self.kill(actor_id, cause);
        } else if actor.node_id().is_some() {
            actor.reviving = true;
            self.stop(actor_id, "it was killed by `ray.kill(no_restart=False)`", false);
        }
        self.place_waiting();
    }

    fn stop(&mut self, actor_id: ActorId, reason: &str, drain: bool) {
        let Some(actor) = self.actors.get(&actor_id) else { return };
        let Some(node_id) = actor.node_id() else { return };
        let incarnation = actor.incarnation;
        self.send(node_id, StopActor { actor_id, incarnation, reason: reason.to_owned(), drain });
    }

    /// A node runs something that should not be there.
    fn stop_stray(&mut self, node_id: NodeId, actor_id: ActorId, incarnation: u32) {
        let known = self.actors.get(&actor_id);
        if known.is_some_and(|actor| {
            actor.incarnation == incarnation && actor.node_id() == Some(node_id)
        }) {
            return;
        }
        let reason = "the control service does not want it here (any more)".to_owned();
        self.send(node_id, StopActor { actor_id, incarnation, reason, drain: false });
    }

    /// Ends the actors that a process created and that are not detached.
    pub(crate) fn end_owned_by(&mut self, owner: WorkerId, why: &str) {
        for actor_id in self.owned.remove(&owner).unwrap_or_default() {
            self.kill(actor_id, DeathCause::new(DeathKind::Intended, why));
        }
        self.place_waiting();
    }

    /// The same for all owners on a node that `is_gone` names.
    pub(crate) fn end_owned_on(
        &mut self,
        node_id: NodeId,
        is_gone: impl Fn(WorkerId) -> bool,
        why: &str,
    ) {
        let owners: BTreeSet<WorkerId> = self
            .actors
            .values()
            .filter(|actor| !actor.is_dead() && actor.spec.owner.node_id == node_id)
            .map(|actor| actor.spec.owner.worker_id)
            .filter(|owner| is_gone(*owner))
            .collect();
        for owner in owners {
            self.end_owned_by(owner, why);
        }
    }

    /// Ends the actors of a job, except detached ones and what these own, directly or not.
    pub(crate) fn end_actors_of_job(&mut self, job_id: JobId) {
        let hosts: BTreeMap<WorkerId, ActorId> = self
            .actors
            .iter()
            .filter_map(|(id, actor)| match &actor.state {
                State::Alive { address, .. } => Some((address.worker_id, *id)),
                _ => None,
            })
            .collect();
        let over = |(_, actor): &(&ActorId, &Actor)| {
            !actor.is_dead() && actor.spec.job_id == job_id && !self.outlives_job(actor, &hosts)
        };
        let over: Vec<ActorId> = self.actors.iter().filter(over).map(|(id, _)| *id).collect();
        for actor_id in over {
            self.kill(
                actor_id,
                DeathCause::new(DeathKind::Intended, "its job is over: the driver has ended"),
            );
        }
    }

    /// Whether an actor is detached, or lives in a chain of owners that begins at a detached one. The
    /// chain has no circle, as each owner was alive before what it created.
    fn outlives_job(&self, actor: &Actor, hosts: &BTreeMap<WorkerId, ActorId>) -> bool {
        let mut link = actor;
        while !link.spec.detached {
            let owner = hosts.get(&link.spec.owner.worker_id).and_then(|id| self.actors.get(id));
            match owner.filter(|owner| owner.spec.actor_id != actor.spec.actor_id) {
                Some(owner) => link = owner,
                None => return false,
            }
        }
        true
    }

    /// Their node is gone.
    pub(crate) fn actors_on_node_ended(&mut self, node_id: NodeId, cause: &DeathCause) {
        let here = |actor: &Actor| {
            let may_be_here = actor.state == State::Recovering && actor.home == node_id;
            may_be_here || actor.node_id() == Some(node_id)
        };
        let ended: Vec<ActorId> =
            self.actors.iter().filter(|(_, actor)| here(actor)).map(|(id, _)| *id).collect();
        for actor_id in ended {
            self.process_ended(actor_id, cause.clone());
        }
    }

    /// A node that came back says who lives there.
    pub(crate) fn reconcile_actors(&mut self, node_id: NodeId, running: &[RunningActor]) {
        for one in running {
            let Some(actor) = self.actors.get_mut(&one.actor_id) else {
                self.stop_stray(node_id, one.actor_id, one.incarnation);
                continue;
            };
            let expected = match &actor.state {
                State::Recovering => one.incarnation >= actor.incarnation,
                State::Starting { node_id: at } => {
                    *at == node_id && one.incarnation == actor.incarnation
                }
                State::Alive { address, .. } => {
                    address.node_id == node_id && one.incarnation == actor.incarnation
                }
                State::Waiting { .. } | State::Dead => false,
            };
            if !expected {
                self.stop_stray(node_id, one.actor_id, one.incarnation);
                continue;
            }
            actor.incarnation = one.incarnation;
            let ending = actor.ending;
            actor.state = State::Alive { address: one.address.clone(), pid: one.pid };
            self.publish(one.actor_id);
            if ending {
                self.stop(one.actor_id, "its last handle is gone", true);
            }
        }
        let present: BTreeSet<ActorId> = running.iter().map(|one| one.actor_id).collect();
        let absent = |(id, actor): &(&ActorId, &Actor)| {
            let was_sent_here = actor.state == State::Recovering && actor.home == node_id;
            (was_sent_here || actor.node_id() == Some(node_id)) && !present.contains(id)
        };
        let absent: Vec<ActorId> = self.actors.iter().filter(absent).map(|(id, _)| *id).collect();
        for actor_id in absent {
            if let Some(actor) = self.actors.get_mut(&actor_id)
                && actor.state == State::Recovering
            {
                // Whether it has started there, or ended, or never came, the node knows.
                actor.state = State::Starting { node_id };
            }
            if matches!(self.actors[&actor_id].state, State::Starting { .. }) {
                // Perhaps the launch was lost with the connection; a node ignores one that it knows, and
                // says of one that ended that it did.
                self.send_launch(node_id, actor_id);
            } else {
                let lost =
                    "its process ended while its node had no connection to the control service";
                self.process_ended(actor_id, DeathCause::new(DeathKind::Unknown, lost));
            }
        }
    }

    /// After a restart: what was sent to no node waits for one as before.
    pub(crate) fn resume_actors(&mut self) {
        let unsent = |actor: &Actor| actor.state == State::Recovering && actor.home.is_nil();
        let unsent: Vec<ActorId> =
            self.actors.iter().filter(|(_, actor)| unsent(actor)).map(|(id, _)| *id).collect();
        for actor_id in unsent {
            if let Some(actor) = self.actors.get_mut(&actor_id) {
                actor.state = State::Waiting { since_ms: self.now_ms };
            }
            self.wait(actor_id);
        }
    }

    /// After a restart: what no node has claimed in time is gone.
    pub(crate) fn give_up_absent(&mut self) {
        let absent = |(_, actor): &(&ActorId, &Actor)| actor.state == State::Recovering;
        let absent: Vec<ActorId> = self.actors.iter().filter(absent).map(|(id, _)| *id).collect();
        self.place_resumed_groups(|_| true);
        for actor_id in absent {
            let gone = "its node did not come back after the control service had started anew";
            self.process_ended(actor_id, DeathCause::new(DeathKind::NodeDied, gone));
        }
        let jobs = self.jobs.running.values();
        let lost = jobs
            .map(|job| job.node_id)
            .filter(|id| !self.nodes.get(id).is_some_and(|node| node.info.alive));
        let lost: BTreeSet<NodeId> = lost.collect();
        let owners = self
            .actors
            .values()
            .filter(|actor| !actor.is_dead())
            .map(|actor| actor.spec.owner.node_id);
        let absent = owners
            .filter(|id| !id.is_nil() && !self.nodes.get(id).is_some_and(|node| node.info.alive));
        let lost: BTreeSet<NodeId> = absent.chain(lost.iter().copied()).collect();
        let holders = self.groups.all.values().filter(|group| !group.is_removed);
        let holders = holders.flat_map(|group| group.places.values().copied());
        let absent = holders.filter(|id| !self.nodes.get(id).is_some_and(|node| node.info.alive));
        let lost: BTreeSet<NodeId> = absent.chain(lost).collect();
        for node_id in lost {
            let cause = DeathCause::new(DeathKind::NodeDied, "its node did not come back");
            self.node_gone(node_id, &cause);
        }
        self.place_waiting();
    }

    /// Followers of actors that never came.
    pub(crate) fn expire_unknown(&mut self) {
        let now_ms = self.now_ms;
        let old =
            |unknown: &Unknown| now_ms.saturating_sub(unknown.since_ms) >= UNKNOWN_ACTOR_MS_MAX;
        let old: Vec<ActorId> =
            self.unknown.iter().filter(|(_, one)| old(one)).map(|(id, _)| *id).collect();
        for actor_id in old {
            self.give_up_unknown(actor_id);
        }
    }
}
