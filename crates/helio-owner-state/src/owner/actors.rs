//! Actors and their calls: creation, news of them, and the order in which calls are sent.

use std::sync::Arc;

use helio_proto::control::{ActorInfo, ActorSpec, ControlRequest, ControlResponse, KillActor};
use helio_proto::error::ErrorKind;
use helio_proto::template::Template;
use helio_types::{
    ActorId, DeathCause, DeathKind, LeaseId, ObjectId, TaskId, WorkerAddress, WorkerId, mutant,
};

use super::Owner;
use crate::actors::{Turn, Unheld};
use crate::calls::State;
use crate::event::Action;
use crate::spec::{Creation, Target, TaskSpec, creation_task};

impl Owner {
    pub(super) fn on_create_actor(&mut self, creation: Creation) {
        let id = creation.spec.actor_id;
        if let Some(handle) = creation.handle {
            self.objects.expect_handle(handle, id);
        }
        let held: Vec<ObjectId> = creation.args.held().collect();
        // As long as the actor may be restarted: each restart runs the constructor again.
        for object in &held {
            self.objects.hold(*object);
        }
        let awaited = creation.args.awaited();
        let missing = self.objects.await_args(creation_task(id), awaited, &mut self.ctx);
        self.actors.on_create(creation, held, missing);
        if missing == 0 {
            self.request_creation(id);
        }
    }

    /// Whether `task` is a constructor's stand-in, which has one argument fewer to wait for now.
    pub(super) fn on_creation_dependency_ready(&mut self, task: TaskId) -> bool {
        let id = task.actor();
        if task != creation_task(id) {
            return false;
        }
        if self.actors.on_arg_ready(id) {
            self.request_creation(id);
        }
        true
    }

    fn request_creation(&mut self, id: ActorId) {
        let Some(creation) = self.actors.take_creation(id) else { return };
        let (args, _) = self.objects.encode_args(&creation.args, self.ctx.me());
        let spec = ActorSpec { args, ..creation.spec };
        let request = Box::new(ControlRequest::CreateActor(spec));
        self.ctx.push(Action::CreateActor { actor: id, request });
        self.ctx.push(Action::Subscribe(id));
    }

    pub(super) fn on_actor_created(&mut self, id: ActorId, response: ControlResponse) {
        match response {
            ControlResponse::Failed(failure) => {
                self.actors.on_refused(id, failure.kind, &failure.message);
                self.end(id, DeathCause::new(DeathKind::StartFailed, failure.message));
            }
            ControlResponse::Actor(info) => self.on_actor_update(&info),
            ControlResponse::NamedActor(_) => {
                // `get_if_exists`: the front goes on with the other actor, and this one is never made.
                self.end(id, DeathCause::new(DeathKind::Intended, "another actor has its name"));
            }
            _ => {}
        }
        self.ctx.push(Action::ActorChanged(id));
    }

    /// `ray.kill`: what is called after it does not run.
    pub(super) fn on_kill_actor(&mut self, id: ActorId, no_restart: bool) {
        let mut hears = true;
        if no_restart {
            if self.actors.kill(id) {
                // The control service was never asked for the actor: its constructor still waited for arguments.
                self.end(id, DeathCause::new(DeathKind::Intended, "it was killed by `ray.kill`"));
                self.ctx.push(Action::ActorChanged(id));
                return;
            }
            hears = self.actors.subscribe(id);
        }
        let request = KillActor { actor_id: id, no_restart, out_of_scope: false };
        self.ctx.push(Action::Control(Box::new(request.into())));
        // **LIMIT-1** One that was looked up and never called is forgotten with the news of its end.
        if !hears {
            self.ctx.push(Action::Subscribe(id));
        }
    }

    /// The last handle anywhere is gone.
    pub(super) fn on_handles_gone(&mut self, id: ActorId) {
        match self.actors.on_unheld(id) {
            Unheld::Unknown => {}
            // The control service has not heard of it, so nobody but this process has to be told.
            Unheld::NeverMade => {
                for object in self.actors.take_held(id) {
                    self.unhold(object);
                }
                self.actors.remove(id);
            }
            Unheld::Lives => {
                let request = KillActor { actor_id: id, no_restart: true, out_of_scope: true };
                self.ctx.push(Action::Control(Box::new(request.into())));
            }
            Unheld::Dead => self.actors.retire(id, &self.objects, &mut self.ctx),
        }
    }

    /// Sends a call of an actor whose arguments have become known, or fails it.
    pub(super) fn dispatch_call(&mut self, id: ActorId, spec: &TaskSpec) {
        match self.actors.on_args_known(id, spec, &self.calls) {
            None => {}
            Some(true) => {
                let value = self.actors.dead_error(id, ErrorKind::ActorUnavailable);
                self.fail(spec.id, &value);
            }
            Some(false) => self.pump_actor(id),
        }
    }

    /// Fails the calls that could be sent; of an actor that is only unavailable those without retries.
    fn fail_queued(&mut self, id: ActorId, kind: ErrorKind) {
        let value = self.actors.dead_error(id, kind);
        for task in self.actors.queued(id) {
            // A call that still waits for arguments comes to its end in `dispatch_call`, when they are known.
            if let Some(call) = self.calls.get(task)
                && call.state() == State::Queued
                && (kind == ErrorKind::ActorDied
                    || call.spec().retry.max == 0
                    || mutant!("method-does-not-wait-for-a-restart"))
            {
                self.fail(task, &value);
            }
        }
    }

    /// Sends what can be sent.
    pub(super) fn pump_actor(&mut self, id: ActorId) {
        match self.actors.begin_sending(id, &mut self.ctx) {
            None => return,
            Some(true) => return self.fail_queued(id, ErrorKind::ActorDied),
            Some(false) => {}
        }
        // Groups in which a call holds back those behind it, and how many calls are held back.
        let (mut blocked, mut place): (Vec<Arc<Template>>, usize) = (Vec::new(), 0);
        while let Some((task, to)) = self.actors.next_to_send(id, place) {
            let Some(call) = self.calls.get(task) else {
                self.actors.dequeue(id, place);
                continue;
            };
            let (template, is_unordered) = (call.spec().template.clone(), call.is_unordered());
            if blocked.iter().any(|other| other.concurrency_group == template.concurrency_group) {
                place += 1;
                continue;
            }
            if call.state() != State::Queued || self.waits_again(task) {
                if is_unordered {
                    // Its arguments were lost meanwhile.
                    self.actors.set_aside(id, place, task);
                } else if mutant!("method-overtakes") {
                    place += 1;
                // Only calls of the same concurrency group wait for this one.
                } else if self.actors.has_groups(id) {
                    blocked.push(template);
                    place += 1;
                } else {
                    return;
                }
                continue;
            }
            self.actors.dequeue(id, place);
            self.send_to_actor(id, task, to);
        }
    }

    fn send_to_actor(&mut self, id: ActorId, task: TaskId, to: Arc<WorkerAddress>) {
        let sending = self.calls.send(task, State::OnActor, &to, self.ctx.now());
        let Some(sending) = sending else { return };
        let spec = sending.spec;
        let is_of_it = matches!(&spec.target, Target::Actor(actor) if *actor == id);
        assert!(is_of_it, "a call would run in an actor that was not called");
        let Some(sequence) = self.actors.on_sent(id, task) else { return };
        // A call that runs again has its old place: calls that were sent since may wait for its result.
        let sequence = sending.remade.unwrap_or(sequence);
        let (args, is_stored) = self.objects.encode_args(&spec.args, self.ctx.me());
        if is_stored {
            self.objects.copies_to_come(&spec, &to);
        }
        let (lease, attempt, is_remade) = (LeaseId(0), sending.attempt, sending.remade.is_some());
        self.ctx.push(Action::Call { to, spec, args, lease, sequence, attempt, is_remade });
    }

    pub(super) fn on_actor_update(&mut self, info: &ActorInfo) {
        let id = info.actor_id;
        match self.actors.on_news(info) {
            None => return,
            Some(Turn::Nothing) => {}
            Some(Turn::Alive { again }) => {
                if again {
                    // The news that the process before ended were overtaken by these.
                    self.incarnation_lost(id, &info.cause);
                }
                self.actors.on_alive(info, again);
                self.pump_actor(id);
            }
            Some(Turn::Restarting { is_new }) => {
                self.incarnation_lost(id, &info.cause);
                // An actor that never lived was not unavailable: its creator's calls wait for its first life.
                if !is_new {
                    self.fail_queued(id, ErrorKind::ActorUnavailable);
                }
            }
            Some(Turn::Dead) => self.end(id, info.cause.clone()),
        }
        self.ctx.push(Action::ActorChanged(id));
    }

    /// The actor's process ended, and there is or will be another.
    fn incarnation_lost(&mut self, id: ActorId, cause: &DeathCause) {
        let Some(sent) = self.actors.on_process_lost(id, cause) else { return };
        let (mut again, mut failed) = (Vec::new(), Vec::new());
        for task in sent {
            // The process may have laid results into its node's store before it ended.
            self.calls.stray(task);
            let cancelled = self.calls.get(task).is_none_or(|task| task.is_cancelled());
            if !cancelled && !mutant!("method-not-retried") && self.calls.take_retry(task) {
                let Some(call) = self.calls.get(task) else { continue };
                self.history.add_attempt(call, ("ACTOR_DIED", &cause.message), self.ctx.now());
                self.calls.attempt_again(task, &cause.message);
                again.push(task);
            } else {
                failed.push(task);
            }
        }
        self.actors.put_back(id, again, &self.calls);
        let value = self.actors.dead_error(id, ErrorKind::ActorUnavailable);
        for task in failed {
            self.fail(task, &value);
        }
    }

    /// No connection to a process could be made. If it is an actor's, the calls that were to go over it have not begun:
    /// they wait for the next one, which costs no retry.
    pub(super) fn actors_unreached(&mut self, worker: WorkerId) {
        for id in self.actors.unreached_at(worker) {
            let mut again = Vec::new();
            for task in self.actors.take_sent(id) {
                if !mutant!("unsent-method-given-up") && self.calls.take_back_unsent(task) {
                    again.push(task);
                } else {
                    self.actors.keep_sent(id, task);
                }
            }
            self.actors.put_back(id, again, &self.calls);
        }
    }

    fn end(&mut self, id: ActorId, cause: DeathCause) {
        let Some((sent, held)) = self.actors.on_dead(id, cause) else { return };
        let value = self.actors.dead_error(id, ErrorKind::ActorDied);
        for task in sent {
            self.calls.stray(task);
            self.fail(task, &value);
        }
        // Of a dead actor this fails the calls that were not sent.
        self.pump_actor(id);
        for object in held {
            self.unhold(object);
        }
        self.actors.retire(id, &self.objects, &mut self.ctx);
    }

    pub(super) fn on_actors_tick(&mut self) {
        for id in self.actors.take_due(self.ctx.now()) {
            // The actor lives behind a broken line: calls that were sent may or may not have run.
            let address = self.actors.address(id);
            let cause = DeathCause::new(DeathKind::Unknown, "the connection to the actor broke");
            self.incarnation_lost(id, &cause);
            self.actors.on_line_given_up(id, address);
            self.pump_actor(id);
        }
    }
}
