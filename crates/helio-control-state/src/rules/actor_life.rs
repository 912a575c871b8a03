//! An actor's life, except where it goes: see [`crate::actors`] for its states.

use std::collections::BTreeSet;

use helio_proto::cluster::{ActorEnded, ActorStarted, ControlToNode, RunningActor, StopActor};
use helio_proto::control::{ActorLaunch, ActorSpec, KillActor};
use helio_scheduler::{GroupBundle, taken};
use helio_types::{
    ActorId, Assigned, DeathCause, DeathKind, JobId, NodeId, PlacementGroupId, ResourceSet,
    WorkerId, mutant,
};

use super::Control;
use crate::actors::{Actor, State};
use crate::durable;
use crate::event::Note;
use crate::nodes::ReservedFor;

impl Control {
    /// Takes in a new actor; its name and the limits were checked. It is not in the queue yet.
    pub(crate) fn add_actor(&mut self, spec: ActorSpec) {
        let actor_id = spec.actor_id;
        // The handle may have been faster than the creation: who asked before hears of it from now
        // on.
        self.subscriptions.now_known(actor_id);
        if !mutant!("actor-not-persisted") {
            self.out.persist(durable::actor(&spec));
        }
        // Its first incarnation, which has no node yet, is what an actor without a record of that has.
        let now_ms = self.now_ms();
        self.actors.insert(spec, State::Waiting { since_ms: now_ms }, now_ms);
        self.join_group(actor_id);
    }

    pub(crate) fn on_actor_started(&mut self, node_id: NodeId, started: ActorStarted) {
        let ActorStarted { actor_id, incarnation, address, pid } = started;
        let is_expected = self.actors.get(actor_id).is_some_and(|actor| {
            actor.incarnation == incarnation && actor.state == State::Starting { node_id }
        });
        // The actor was given to another node meanwhile, or has ended: a second life would run
        // beside the first.
        if !is_expected {
            self.stop_stray(node_id, actor_id, incarnation);
            return;
        }
        let ending_and_held = self.actors.update(actor_id, |actor| {
            actor.state = State::Alive { address, pid };
            actor.why.clear();
            let held = taken(&actor.spec.resources, &actor.spec.strategy).into_owned();
            (actor.is_ending, held)
        });
        let Some((is_ending, held)) = ending_and_held else { return };
        self.nodes.settle(node_id, ReservedFor::Actor(actor_id), held);
        self.publish_actor(actor_id);
        // The order to end found no process that could have taken it, and is given now.
        if is_ending {
            self.stop_process(actor_id, "its last handle is gone", true);
        }
        // The node was told to leave while the constructor ran.
        if self.nodes.is_draining(node_id) {
            self.move_actor(actor_id);
        }
        self.follow_ups.has_room = true;
    }

    pub(crate) fn on_actor_ended(&mut self, node_id: NodeId, ended: ActorEnded) {
        let ActorEnded { actor_id, incarnation, cause, retry, attempt } = ended;
        let Some(actor) = self.actors.get(actor_id) else { return };
        // The end of an earlier life may be told late, when the next one runs already.
        let is_this = actor.incarnation == incarnation || mutant!("old-life-taken-for-the-new-one");
        if !is_this || actor.node_id() != Some(node_id) {
            return;
        }
        if retry && attempt != actor.attempt {
            // Of an older launch: it was heard before.
            return;
        }
        let is_starting = matches!(actor.state, State::Starting { .. });
        if retry && is_starting && !actor.is_ending {
            // The node was fuller than it seemed: what the actor needs stays reserved there until the
            // node reports more.
            let spec = &actor.spec;
            let need = taken(&spec.placement_resources, &spec.strategy).into_owned();
            let now_ms = self.now_ms();
            self.nodes.reserve(node_id, ReservedFor::Actor(actor_id), need, now_ms);
            self.wait_again(actor_id);
            return;
        }
        self.nodes.settle(node_id, ReservedFor::Actor(actor_id), ResourceSet::default());
        self.process_ended(actor_id, cause);
        self.follow_ups.has_room = true;
    }

    /// The actor joins the queue before the event is over.
    fn wait_again(&mut self, actor_id: ActorId) {
        let since_ms = self.now_ms();
        self.actors.update(actor_id, |actor| actor.state = State::Waiting { since_ms });
        self.follow_ups.restarts.push_back(actor_id);
    }

    /// The actor's process is gone: makes another, or ends the actor.
    pub(crate) fn process_ended(&mut self, actor_id: ActorId, cause: DeathCause) {
        let Some(actor) = self.actors.get(actor_id) else { return };
        if !actor.may_restart(&cause) {
            self.end_actor(actor_id, cause);
            return;
        }
        let incarnation = actor.incarnation + 1;
        let reason = cause.message.clone();
        self.out.log(Note::ActorRestarted { actor_id, incarnation, reason });
        self.actors.update(actor_id, |actor| {
            actor.incarnation = incarnation;
            actor.home = NodeId::NIL;
            actor.is_reviving = false;
            actor.moves += u32::from(std::mem::take(&mut actor.is_moving));
            actor.cause = Some(Box::new(cause));
        });
        self.wait_again(actor_id);
        // Durable before it is told: after a restart the service must not know an older process
        // than others do.
        self.persist_incarnation(actor_id);
        self.publish_actor(actor_id);
    }

    fn persist_incarnation(&mut self, actor_id: ActorId) {
        if let Some(entry) = self.actors.get(actor_id).map(durable::incarnation)
            && !mutant!("incarnation-not-persisted")
        {
            self.out.persist(entry);
        }
    }

    /// The actor is over for good. The caller stops its process, if it has one.
    pub(crate) fn end_actor(&mut self, actor_id: ActorId, cause: DeathCause) {
        self.queue.remove(actor_id);
        let reason = cause.message.clone();
        let now_ms = self.now_ms();
        if !self.actors.end(actor_id, cause, now_ms) {
            return;
        }
        self.out.log(Note::ActorEnded { actor_id, reason });
        let place =
            self.actors.get(actor_id).and_then(|actor| GroupBundle::of(&actor.spec.strategy));
        if let Some(place) = place {
            self.groups.remove_user(place.group_id, actor_id);
        }
        if !mutant!("dead-actor-stays-durable") {
            self.persist_all(durable::no_actor(actor_id));
        }
        self.publish_actor(actor_id);
        if self.groups.remove_creator(actor_id) {
            // Not here: with its groups end actors, which may have made groups in turn.
            self.follow_ups.group_creators.push_back(actor_id);
        }
        self.actors.bound_dead(actor_id);
    }

    /// Ends the actor and its process.
    pub(crate) fn kill_actor(&mut self, actor_id: ActorId, cause: DeathCause) {
        self.stop_process(actor_id, &cause.message, false);
        if let Some(node_id) = self.actors.get(actor_id).and_then(Actor::node_id) {
            self.nodes.settle(node_id, ReservedFor::Actor(actor_id), ResourceSet::default());
        }
        self.end_actor(actor_id, cause);
    }

    /// A client asked for the end: `ray.kill`, or the last handle is gone.
    pub(crate) fn on_kill_actor(&mut self, request: &KillActor) {
        let actor_id = request.actor_id;
        let Some(actor) = self.actors.living(actor_id) else { return };
        if request.out_of_scope {
            let cause = DeathCause::new(DeathKind::Intended, "all handles of it went out of scope");
            let state = actor.state.clone();
            self.actors.update(actor_id, |actor| actor.is_ending = true);
            match state {
                // The actor is told when it has started: until then it could not take the message.
                State::Starting { .. } | State::Recovering => {}
                State::Alive { .. } => self.stop_process(actor_id, &cause.message, true),
                State::Waiting { .. } | State::Dead => self.end_actor(actor_id, cause),
            }
        } else if request.no_restart && !mutant!("killed-actor-restarted") {
            let cause = DeathCause::new(DeathKind::Intended, "it was killed by `ray.kill`");
            self.kill_actor(actor_id, cause);
        // Without a process there is nothing to kill: the actor waits to be started anyway.
        } else if actor.node_id().is_some() {
            self.actors.update(actor_id, |actor| actor.is_reviving = true);
            self.persist_incarnation(actor_id);
            self.stop_process(actor_id, "it was killed by `ray.kill(no_restart=False)`", false);
        }
        self.follow_ups.has_room = true;
    }

    /// The actor finishes what it was sent, and starts again on another node, if it may.
    pub(crate) fn move_actor(&mut self, actor_id: ActorId) {
        let Some(actor) = self.actors.get(actor_id) else { return };
        let is_alive = matches!(actor.state, State::Alive { .. });
        let may_move = actor.is_restartable() && !mutant!("actor-stays-on-a-drained-node");
        if is_alive && !actor.is_ending && may_move {
            self.actors.update(actor_id, |actor| actor.is_moving = true);
            self.persist_incarnation(actor_id);
            self.stop_process(actor_id, "its node is drained", true);
        }
    }

    fn stop_process(&mut self, actor_id: ActorId, reason: &str, drain: bool) {
        let Some(actor) = self.actors.get(actor_id) else { return };
        let Some(node_id) = actor.node_id() else { return };
        let (incarnation, reason) = (actor.incarnation, reason.to_owned());
        self.out.send(node_id, StopActor { actor_id, incarnation, reason, drain });
    }

    /// A node runs an actor that should not be there.
    fn stop_stray(&mut self, node_id: NodeId, actor_id: ActorId, incarnation: u32) {
        let known = self.actors.get(actor_id);
        if mutant!("stray-life-goes-on") {
            return;
        }
        if known.is_some_and(|actor| {
            actor.incarnation == incarnation && actor.node_id() == Some(node_id)
        }) {
            return;
        }
        let reason = "the control service does not want it here (any more)".to_owned();
        self.out.send(node_id, StopActor { actor_id, incarnation, reason, drain: false });
    }

    /// Ends the actors that a process created and that are not detached.
    pub(crate) fn end_owned_by(&mut self, owner: WorkerId, why: &str) {
        let mut owned: Vec<ActorId> = self.actors.owned_by(owner).collect();
        if mutant!("actors-outlive-their-owner") {
            owned.clear();
        }
        for actor_id in owned {
            self.kill_actor(actor_id, DeathCause::new(DeathKind::Intended, why));
        }
        self.follow_ups.has_room = true;
    }

    /// Ends the actors of all owners on a node that `is_gone` names.
    pub(crate) fn end_owned_on(
        &mut self,
        node_id: NodeId,
        is_gone: impl Fn(WorkerId) -> bool,
        why: &str,
    ) {
        let owners = self.actors.owners_on(node_id).into_iter();
        for owner in owners.filter(|owner| is_gone(*owner)) {
            self.end_owned_by(owner, why);
        }
    }

    /// Ends the actors of a job that do not outlive it.
    pub(crate) fn end_actors_of_job(&mut self, job_id: JobId) {
        for actor_id in self.actors.ending_with_job(job_id) {
            let why = "its job is over: the driver has ended";
            self.kill_actor(actor_id, DeathCause::new(DeathKind::Intended, why));
        }
    }

    /// The node of these actors is gone.
    pub(crate) fn end_processes_on(&mut self, node_id: NodeId, cause: &DeathCause) {
        for actor_id in self.actors.on_node(node_id) {
            self.process_ended(actor_id, cause.clone());
        }
    }

    /// A new actor will live in a group; a group that is gone takes it along.
    pub(crate) fn join_group(&mut self, actor_id: ActorId) {
        let Some(actor) = self.actors.get(actor_id) else { return };
        let Some(place) = GroupBundle::of(&actor.spec.strategy) else { return };
        if !self.groups.add_user(place.group_id, actor_id) {
            self.end_actor_of_group(actor_id, place.group_id, "before it was created");
        }
    }

    pub(crate) fn end_actor_of_group(
        &mut self,
        actor_id: ActorId,
        group_id: PlacementGroupId,
        reason: &str,
    ) {
        let sentence = format!("its placement group {group_id} was removed: {reason}");
        let mut cause = DeathCause::new(DeathKind::GroupRemoved, sentence);
        if let Some(actor) = self.actors.get(actor_id)
            && let State::Alive { pid, .. } = actor.state
        {
            cause.pid = pid;
        }
        self.kill_actor(actor_id, cause);
    }

    /// A node that registers again tells which actors it runs.
    pub(crate) fn reconcile_actors(&mut self, node_id: NodeId, running: &[RunningActor]) {
        for one in running {
            self.reconcile_running(node_id, one);
        }
        let present: BTreeSet<ActorId> = running.iter().map(|one| one.actor_id).collect();
        let here = self.actors.on_node(node_id).into_iter();
        for actor_id in here.filter(|actor_id| !present.contains(actor_id)) {
            self.reconcile_absent(node_id, actor_id);
        }
    }

    fn reconcile_running(&mut self, node_id: NodeId, one: &RunningActor) {
        let is_expected = self.actors.get(one.actor_id).is_some_and(|actor| match &actor.state {
            State::Recovering => one.incarnation >= actor.incarnation,
            State::Starting { node_id: at } => {
                *at == node_id && one.incarnation == actor.incarnation
            }
            State::Alive { address, .. } => {
                address.node_id == node_id && one.incarnation == actor.incarnation
            }
            State::Waiting { .. } | State::Dead => false,
        });
        if !is_expected {
            self.stop_stray(node_id, one.actor_id, one.incarnation);
            return;
        }
        let is_ending = self.actors.update(one.actor_id, |actor| {
            actor.incarnation = one.incarnation;
            actor.state = State::Alive { address: one.address.clone(), pid: one.pid };
            actor.is_ending
        });
        self.publish_actor(one.actor_id);
        if is_ending == Some(true) {
            self.stop_process(one.actor_id, "its last handle is gone", true);
        }
        // The order to end may be lost with the connection, or with the service that decided on it.
        if self.nodes.is_draining(node_id) {
            self.move_actor(one.actor_id);
        }
    }

    fn reconcile_absent(&mut self, node_id: NodeId, actor_id: ActorId) {
        let is_starting = self.actors.update(actor_id, |actor| {
            if actor.state == State::Recovering {
                // Only the node knows whether it has started there, or ended, or never came.
                actor.state = State::Starting { node_id };
            }
            matches!(actor.state, State::Starting { .. })
        });
        if is_starting == Some(true) {
            // Perhaps the launch was lost with the connection; a node ignores one that it knows, and
            // reports the end of one that ended.
            self.send_launch(node_id, actor_id);
        } else {
            let lost = "its process ended while its node had no connection to the control service";
            self.process_ended(actor_id, DeathCause::new(DeathKind::Unknown, lost));
        }
    }

    pub(crate) fn send_launch(&mut self, node_id: NodeId, actor_id: ActorId) {
        let Some(actor) = self.actors.get(actor_id) else { return };
        // The node decides which devices it gets.
        let assigned = Assigned { resources: actor.spec.resources.clone(), ..Assigned::default() };
        let Actor { incarnation, attempt, .. } = *actor;
        let mut spec = actor.whole_spec();
        if incarnation > 0 && mutant!("restart-without-its-environment") {
            spec.runtime_env = Default::default();
        }
        let launch = ActorLaunch { spec, incarnation, assigned, attempt };
        self.out.send(node_id, ControlToNode::LaunchActor(launch));
    }
}
