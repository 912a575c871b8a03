//! Calls of this process, from submission to their returns, and values that calls of others return here.

use std::sync::Arc;

use helio_proto::error::{ErrorKind, SystemError};
use helio_proto::peer::{Frame, Returned, STREAMING, Value};
use helio_types::{DeathCause, DeathKind, TaskId, WorkerAddress, WorkerId, mutant};

use super::Owner;
use crate::calls::{Attempt, State};
use crate::event::Action;
use crate::objects::Final;
use crate::past::Past;
use crate::spec::{Outcome, Outgoing, OutgoingValue, Target, TaskSpec};
use crate::value::{Stored, cancelled_error};

impl Owner {
    pub(super) fn on_submit(&mut self, spec: Arc<TaskSpec>) {
        for id in spec.return_ids() {
            self.objects.on_expect(id);
        }
        if spec.returns == STREAMING {
            self.streams.open(spec.id);
        }
        // The arguments stay until the call is over: another attempt needs them, too.
        for id in spec.held() {
            self.objects.hold(id);
        }
        let retries_left = spec.retry.max;
        let past = Past { created: self.ctx.now(), ..Past::default() };
        self.enter(Attempt { spec, number: 0, retries_left, past });
    }

    /// Waits for the dependencies that are missing, or goes on at once.
    pub(super) fn enter(&mut self, attempt: Attempt) {
        let spec = attempt.spec.clone();
        let missing = self.objects.await_args(spec.id, spec.awaited(), &mut self.ctx);
        // A method takes its place in the actor's queue also while arguments are missing: calls run in the order in
        // which they were made.
        if let Target::Actor(actor) = spec.target {
            self.actors.on_call(actor, &spec, attempt.past.earlier.is_remade);
        }
        self.calls.enter(attempt, missing);
        if missing == 0 {
            self.dispatch(&spec);
        }
    }

    pub(super) fn on_dependency_ready(&mut self, id: TaskId) {
        if self.on_creation_dependency_ready(id) {
            return;
        }
        if let Some(spec) = self.calls.on_arg_ready(id) {
            self.dispatch(&spec);
        }
    }

    /// All dependencies are known: fail with theirs, or go where the call runs.
    fn dispatch(&mut self, spec: &TaskSpec) {
        let id = spec.id;
        let is_stored = match self.objects.error_among(spec) {
            Ok(is_stored) => is_stored,
            Err(bytes) => {
                // The call's own error tells of this one: nobody is warned of an argument that nobody has read.
                for dep in spec.awaited() {
                    self.objects.on_error_read(dep);
                }
                let error = helio_proto::error::through(&spec.template.name, &bytes);
                self.fail(id, &Stored::Error(Arc::new(error)));
                // The call has left the actor's queue, in which it held back those behind it.
                if let Target::Actor(actor) = spec.target {
                    self.pump_actor(actor);
                }
                return;
            }
        };
        match &spec.target {
            Target::Class(class) => {
                let (leases, env) = self.leases();
                if let Some(index) = leases.enqueue(class, id, is_stored, &env) {
                    self.pump(index);
                }
            }
            Target::Actor(actor) => self.dispatch_call(*actor, spec),
        }
    }

    /// A worker's reply.
    pub(super) fn replied(&mut self, from: WorkerId, id: TaskId, frame: Frame<'static>) {
        let Frame::Reply { failed, retryable, leaving, items, returns, .. } = frame else { return };
        let Some(task) = self.calls.get(id) else {
            // The call has ended by another attempt, or failed: nobody waits for these values.
            self.discard(from, id, returns);
            return;
        };
        // A process whose lease was lost may have run the call to its end all the same; what runs now is
        // another attempt, in another process.
        let is_current = task.is_at(from);
        let (state, spec, cancelled) = (task.state(), task.spec().clone(), task.is_cancelled());
        if spec.returns == STREAMING
            && is_current
            && (self.calls.has_unheard(id, items) || self.streams.has_lost_items(id, items))
        {
            // The news of items were lost, and the items may lie in the store of the executor's node.
            self.calls.stray(id);
        }
        // The items of a generator may have brought references long before its reply, and for those of
        // an attempt that is given up nobody else lets go.
        let brings =
            spec.returns == STREAMING || returns.iter().any(|one| !one.contained.is_empty());
        match state {
            State::OnLease(request) if is_current => {
                let began = self.leave_lease(request, id, leaving);
                self.calls.has_begun(id, began);
            }
            State::OnActor if is_current => {
                let began = self.actors.on_replied(&spec, self.ctx.now());
                self.calls.has_begun(id, began);
            }
            // A reply of an attempt that was given up: the next one will bring the values.
            _ => {
                self.discard(from, id, returns);
                return;
            }
        }
        let may_retry = retryable && !cancelled && !mutant!("raised-call-not-retried");
        if failed && may_retry && self.calls.take_retry(id) {
            let line = returns.first().map_or_else(String::new, |one| match &one.value {
                Value::Error(bytes) => helio_proto::error::line(bytes),
                _ => String::new(),
            });
            let failure = match line.as_str() {
                "" => "it raised an exception that its options retry".to_owned(),
                line => format!("it raised {line}"),
            };
            self.retry(id, ("TASK_EXECUTION_EXCEPTION", &failure));
        } else if failed && cancelled {
            self.free_unread(id, returns);
            self.fail(id, &cancelled_error(id, &spec.template.name));
        } else if !failed && self.streams.has_lost_items(id, items) {
            // Nobody sends them again: the generator runs once more, as after the loss of its worker.
            let text = "items of the generator were lost with a connection that broke";
            self.worker_lost(id, true, &DeathCause::new(DeathKind::Unknown, text));
        } else {
            self.complete(id, failed, items, returns);
        }
        // Only now: the values are set, so the references inside them are held here.
        if brings {
            self.say_held(from, id);
        }
    }

    /// Tells the executor that it may let go: the references in the call's returns are held here, or not wanted.
    fn say_held(&mut self, executor: WorkerId, task: TaskId) {
        if let Some(executor) = self.peer_address(executor) {
            self.borrows.send(&executor, Frame::ReturnsHeld { task }, &mut self.ctx);
        }
    }

    /// A reply that nobody waits for: let go of what it brought.
    fn discard(&mut self, from: WorkerId, id: TaskId, returns: Vec<Returned>) {
        for (index, returned) in (1u32..).zip(returns) {
            let Value::Stored { locations, .. } = returned.value else { continue };
            if self.calls.contains(id) {
                self.calls.add_strays(id, locations);
            } else {
                self.objects.strayed(id.object(index), &locations, &mut self.ctx);
            }
        }
        self.say_held(from, id);
    }

    /// Values of a call that gets others.
    fn free_unread(&mut self, id: TaskId, returns: Vec<Returned>) {
        for (index, returned) in (1u32..).zip(returns) {
            let object = id.object(index);
            if let Value::Stored { locations, .. } = returned.value
                && !self.objects.is_ready(object)
            {
                self.ctx.push(Action::Free { id: object, locations });
            }
        }
    }

    fn complete(&mut self, id: TaskId, failed: bool, items: u32, returns: Vec<Returned>) {
        let Some(task) = self.calls.end(id, &mut self.ctx) else { return };
        self.history.add(&task, failed.then(|| returns.last()).flatten(), self.ctx.now());
        let (spec, past) = (task.spec().clone(), task.past());
        let wanted = self.items_wanted(&task, failed, items, &returns);
        let stored = |returned: &Returned| matches!(returned.value, Value::Stored { .. });
        // What came inside the reply is here as long as it is held; only values in stores can be lost before that.
        let is_stored = past.earlier.items > 0 || returns.iter().any(stored);
        if is_stored {
            let live = self.objects.count_live(&spec, past.earlier.items, &returns);
            let is_forgotten = mutant!("lineage-with-an-end-forgotten") && task.retries_left() > 0;
            if task.may_run_again() && live > 0 && !is_forgotten {
                self.remember(&task, live);
            } else {
                let why = match spec.retry.max {
                    _ if task.is_unwanted() => Final::Cancelled,
                    0 => Final::NoRetries,
                    _ => Final::UsedUp,
                };
                for object in spec.made(past.earlier.items) {
                    self.objects.mark_final(object, why);
                }
            }
        }
        for object in spec.made(past.earlier.items) {
            // Attempts that were given up may have left copies, which go with the object.
            self.objects.strayed(object, &past.earlier.strays, &mut self.ctx);
        }
        self.free_unheard(&task);
        if spec.returns == STREAMING {
            self.stream_finished(id, failed, items, returns);
            for (item, value) in wanted {
                match value {
                    Some(value) => self.set_value(item, value, &[]),
                    None => self.rebuild(item),
                }
            }
        } else {
            for (index, returned) in (1u32..).zip(returns) {
                self.set_value(id.object(index), returned.value.into(), &returned.contained);
            }
        }
        // After the values, which may contain an argument: in the other order it would be freed in between.
        self.release_args(&spec);
        if let Target::Actor(actor) = spec.target {
            // An actor without handles was remembered for the sake of this call.
            self.actors.retire(actor, &self.objects, &mut self.ctx);
        }
    }

    fn release_args(&mut self, spec: &TaskSpec) {
        for id in spec.held() {
            self.unhold(id);
        }
    }

    /// Ends a call with an error in place of its values.
    pub(super) fn fail(&mut self, id: TaskId, value: &Stored) {
        let Some(task) = self.calls.get(id) else { return };
        let spec = task.spec().clone();
        let Some(value) = value.to_wire() else { return };
        let returned = Returned { value, contained: Vec::new() };
        let n = spec.return_ids().count();
        if let Target::Actor(actor) = spec.target {
            self.actors.forget_call(actor, id);
        }
        self.complete(id, true, 0, vec![returned; n]);
    }

    /// Sends the call on its way once more. `failure`: why the attempt before failed, by its name in Ray's state
    /// API and in words.
    pub(super) fn retry(&mut self, id: TaskId, failure: (&'static str, &str)) {
        // An argument may have been lost with the worker: wait for it again if so.
        let Some(task) = self.calls.end_attempt(id) else { return };
        self.history.add_attempt(&task, failure, self.ctx.now());
        let is_method = task.spec().is_method();
        let mut attempt = task.into_next(failure.1);
        // A method's call had ended, for when its actor does the calls go back to the queue. Calls that were made
        // after it may be at the actor already and wait for its result.
        let past = &mut attempt.past;
        if is_method && !past.earlier.is_remade {
            (past.earlier.is_remade, past.earlier.ended) = (true, self.lineages.next_ended());
        }
        self.enter(attempt);
    }

    /// The worker that ran the call (or was about to) has ended.
    pub(super) fn worker_lost(&mut self, id: TaskId, started: bool, cause: &DeathCause) {
        // The attempt may have written its values before it ended.
        if started {
            self.calls.stray(id);
        }
        let Some(task) = self.calls.get(id) else { return };
        let (cancelled, name) = (task.is_cancelled(), task.spec().template.name.clone());
        let may_retry = task.retries_left() != 0;
        let is_oom = cause.kind == DeathKind::OutOfMemory;
        // A stop by force ends the worker, so this is its expected outcome; and what was cancelled does not run
        // again.
        let is_stopped = cancelled || mutant!("crash-taken-for-a-cancellation");
        if is_stopped && !mutant!("cancelled-call-retried") {
            self.fail(id, &cancelled_error(id, &name));
        } else if cause.kind == DeathKind::GroupRemoved {
            // Begun or not, there is no place any more where it could run.
            let error = SystemError {
                task: id,
                name,
                ..SystemError::new(ErrorKind::TaskGroupRemoved, cause.message.clone())
            };
            self.fail(id, &Stored::Error(Arc::new(error.to_payload())));
        } else if !started && !mutant!("unbegun-call-counts") {
            // It did not run, which costs no retry.
            let text = format!("the worker to which it was sent ended: {cause}");
            self.retry(id, (name_of_loss(cause.kind), &text));
        } else if is_oom && may_retry && !cause.is_final {
            // The want of memory is not the call's fault: no retry is taken, and the next attempt comes later.
            self.calls.delay(id, cause, self.ctx.now());
        } else if !is_oom && !mutant!("task-not-retried") && self.calls.take_retry(id) {
            self.retry(id, (name_of_loss(cause.kind), &cause.message));
        } else {
            let kind = match cause.kind {
                _ if mutant!("crash-blamed-on-memory") => ErrorKind::OutOfMemory,
                _ if mutant!("crash-blamed-on-the-node") => ErrorKind::NodeDied,
                _ if mutant!("crash-blamed-on-the-store") => ErrorKind::StoreFull,
                _ if mutant!("crash-taken-for-a-refusal") => ErrorKind::System,
                DeathKind::OutOfMemory => ErrorKind::OutOfMemory,
                DeathKind::NodeDied => ErrorKind::NodeDied,
                _ => ErrorKind::WorkerCrashed,
            };
            let error = SystemError {
                cause: cause.clone(),
                task: id,
                name,
                ..SystemError::new(kind, cause.to_string())
            };
            self.fail(id, &Stored::Error(Arc::new(error.to_payload())));
        }
    }

    /// The process that runs a call.
    pub(super) fn running_at(&self, id: TaskId) -> Option<(Arc<WorkerAddress>, Arc<TaskSpec>)> {
        let task = self.calls.get(id)?;
        let to = match (task.state(), &task.spec().target) {
            (State::OnLease(request), _) => self.leases.worker(request)?,
            (State::OnActor, Target::Actor(actor)) => self.actors.address(*actor)?,
            _ => return None,
        };
        Some((to, task.spec().clone()))
    }

    /// The executor has run a call for a peer.
    pub(super) fn on_finished(
        &mut self,
        task: TaskId,
        caller: &Arc<WorkerAddress>,
        outcome: Outcome,
    ) {
        let Outcome { returns, failed, retryable, leaving, items } = outcome;
        let returns = returns.into_iter().map(|value| self.outgoing(task, caller, value)).collect();
        // The reply lets the caller drop its references to the arguments, so it waits at the gate until the owners of
        // those that this process keeps know of that.
        self.borrows.send(
            caller,
            Frame::Reply { task, failed, retryable, leaving, items, returns },
            &mut self.ctx,
        );
    }

    /// A value on its way to `caller`: what it contains stays held until the caller holds it.
    pub(super) fn outgoing(
        &mut self,
        task: TaskId,
        caller: &Arc<WorkerAddress>,
        value: Outgoing,
    ) -> Returned {
        let contained = value.contained.iter().map(|id| self.reference(*id)).collect();
        if !value.contained.is_empty() && !mutant!("returned-reference-not-held") {
            // This process's own handles may go as soon as the call is over, before the caller has announced its
            // borrow.
            for id in &value.contained {
                self.objects.hold(*id);
            }
            self.borrows.hold_for(caller.worker_id, task, value.contained);
        }
        let value = match value.value {
            OutgoingValue::Inline(bytes) => Value::Inline(bytes),
            OutgoingValue::Error(bytes) => Value::Error(bytes),
            OutgoingValue::Stored { size, location } => {
                Value::Stored { size, locations: vec![location] }
            }
        };
        Returned { value, contained }
    }

    pub(super) fn returns_held(&mut self, task: TaskId) {
        for id in self.borrows.returns_held(task) {
            self.unhold(id);
        }
    }

    /// Returns a queued call to the waiting state if one of its arguments was lost meanwhile and is
    /// being made again.
    pub(super) fn waits_again(&mut self, id: TaskId) -> bool {
        let Some(spec) = self.calls.get(id).map(|task| task.spec().clone()) else { return false };
        let missing = self.objects.await_args(id, spec.awaited(), &mut self.ctx);
        if missing > 0 {
            self.calls.wait_again(id, missing);
        }
        missing > 0
    }
}

/// Returns the name that Ray's state API has for the loss of a worker.
fn name_of_loss(kind: DeathKind) -> &'static str {
    match kind {
        DeathKind::NodeDied => "NODE_DIED",
        DeathKind::OutOfMemory => "OUT_OF_MEMORY",
        _ => "WORKER_DIED",
    }
}
