//! Calls: from submission to their returns.
//!
//! ```text
//! Waiting ──deps ready──► Queued ──a lease has room──► Running ──reply──► done
//!    │                      ▲                             │
//!    └──a dep is an error   └──worker died, retries left──┘──none left──► done, with an error
//! ```
//! A call whose worker was ended for want of memory waits a while before it is `Queued` again.
//! Calls of actors go from `Waiting` straight into their actor's queue (module [`crate::actor`]).

use std::cmp::Reverse;
use std::sync::Arc;

use helio_proto::error::{ErrorKind, SystemError};
use helio_proto::frame::INLINE_MAX;
use helio_proto::node::LeaseClass;
use helio_proto::peer::{self, Frame, Returned, STREAMING, Value, ValueRef};
use helio_proto::reader::put_bytes;
use helio_proto::template::Template;
use helio_types::{
    ActorId, DeathCause, DeathKind, NodeAddress, NodeId, ObjectId, TaskId, WorkerAddress, WorkerId,
    mutant,
};

use crate::Owner;
use crate::cancel::cancelled_error;
use crate::copies::{add_each, node_of};
use crate::event::Action;
use crate::hash::shrink;
use crate::lineage::Final;
use crate::object::Stored;
use crate::past::Past;
use crate::stream::FIRST_ITEM;

/// A call goes to where so many bytes of its arguments are, even if that takes a worker there: values of this
/// size lie in object stores.
const LARGE_BYTES: u64 = INLINE_MAX as u64;

/// An argument that is a reference takes about so many bytes in a call, beside its value.
const ARGUMENT_BYTES: usize = 128;

/// A call's arguments, as the front serialized them.
#[derive(Clone, Debug, Default)]
pub struct CallArgs {
    /// Placeholders stand where an argument is itself a reference.
    pub body: Vec<u8>,
    /// When the body is larger than fits a frame: it was put as this object, and `body` is empty.
    pub stored_body: Option<ObjectId>,
    /// The arguments that are references, in placeholder order.
    pub deps: Vec<ObjectId>,
    /// References inside other arguments.
    pub contained: Vec<ObjectId>,
}

/// How a call is tried again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retry {
    /// After the worker died (or, with `on_error`, the call raised): so often, -1 for no end.
    pub max: i32,
    /// Whether an exception counts; the executor decides which (see [`Outcome::retryable`]).
    pub on_error: bool,
}

/// A value on its way out, with the references inside it.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The serialized value.
    pub value: OutgoingValue,
    /// References inside the value; the front holds a handle of each for the time being.
    pub contained: Vec<ObjectId>,
}

/// Where the bytes of an outgoing value are.
#[derive(Clone, Debug)]
pub enum OutgoingValue {
    /// At most [`helio_proto::frame::INLINE_MAX`] bytes.
    Inline(Vec<u8>),
    /// A serialized exception.
    Error(Vec<u8>),
    /// In this node's object store.
    Stored {
        /// The length of the value, in bytes.
        size: u64,
        /// The address of this node.
        location: NodeAddress,
    },
}

/// How a call ended.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The value of each return.
    pub returns: Vec<Outgoing>,
    /// Whether it raised (then each return is the error).
    pub failed: bool,
    /// Whether the exception is one that the call's options retry.
    pub retryable: bool,
    /// The worker takes no more tasks (its `max_calls` are done).
    pub leaving: bool,
    /// Streaming: how many items there were.
    pub items: u32,
}

/// Where a call runs.
#[derive(Clone, Debug)]
pub enum Target {
    /// On any worker of this class.
    Class(Arc<LeaseClass>),
    /// The call runs in this actor.
    Actor(ActorId),
}

/// A call.
#[derive(Debug)]
pub struct TaskSpec {
    /// Its id.
    pub id: TaskId,
    /// The template: the function or method that is called.
    pub template: Arc<Template>,
    /// The actor, or the kind of worker, that runs the call.
    pub target: Target,
    /// The arguments.
    pub args: CallArgs,
    /// How many values it returns, or [`STREAMING`].
    pub returns: u32,
    /// How it is tried again.
    pub retry: Retry,
    /// The call in which it was made, for recursive cancellation.
    pub parent: TaskId,
    /// Methods: the object that stands for the actor's handles. A call keeps its actor alive even if
    /// the handle is dropped at once.
    pub handle: Option<ObjectId>,
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum State {
    /// The call waits for so many dependencies.
    Waiting(u32),
    /// In its class's queue, or its actor's.
    Queued,
    /// On a lease, by the request it was granted for.
    OnLease(u64),
    /// The call was sent to its actor.
    OnActor,
    /// The call waits until this time, when it is tried again.
    Delayed(u64),
}

#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) spec: Arc<TaskSpec>,
    pub(crate) state: State,
    pub(crate) attempt: u32,
    pub(crate) retries_left: i32,
    pub(crate) cancelled: bool,
    /// The process to which it was sent last.
    pub(crate) at: Option<Arc<WorkerAddress>>,
    /// When it was sent.
    pub(crate) sent: u64,
    /// Of a generator: how many items its present attempt has yielded.
    pub(crate) yielded: u32,
    pub(crate) past: Past,
}

impl Task {
    /// Whether it holds back no other call of its actor while it lacks arguments.
    pub(crate) fn is_unordered(&self) -> bool {
        self.spec.template.is_unordered || self.past.earlier.is_remade
    }

    /// Whether the object is an item that its present attempt has yielded, and yields no second time.
    pub(crate) fn has_yielded(&self, id: ObjectId) -> bool {
        self.spec.returns == STREAMING && id.index() < FIRST_ITEM + self.yielded
    }

    /// Whether its values are not wanted any more. The items that were read of a generator are, although its
    /// reader has left it.
    fn is_unwanted(&self) -> bool {
        self.cancelled && !self.past.earlier.is_left
    }

    /// Whether the call may run once more for what it has made.
    pub(crate) fn may_run_again(&self) -> bool {
        self.retries_left != 0 && !self.is_unwanted()
    }

    /// Its present attempt is given up after it may have begun.
    pub(crate) fn stray(&mut self) {
        if let Some(at) = &self.at
            && !mutant!("abandoned-copy-forgotten")
        {
            add_each(&mut self.past.earlier.strays, vec![node_of(at)]);
        }
    }

    /// Whether its present attempt is that process's.
    pub(crate) fn is_at(&self, worker: WorkerId) -> bool {
        self.at.as_ref().is_some_and(|at| at.worker_id == worker)
    }
}

impl CallArgs {
    pub(crate) fn held(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.stored_body.iter().chain(&self.deps).chain(&self.contained).copied()
    }
}

impl TaskSpec {
    /// How many of its objects are known from the start.
    pub(crate) fn return_count(&self) -> u32 {
        if self.returns == STREAMING { 1 } else { self.returns }
    }

    pub(crate) fn return_ids(&self) -> impl Iterator<Item = ObjectId> + use<> {
        let task = self.id;
        (1..=self.return_count()).map(move |index| task.object(index))
    }

    /// Its returns and, of a generator, so many items.
    pub(crate) fn made(&self, items: u32) -> impl Iterator<Item = ObjectId> + use<> {
        let task = self.id;
        self.return_ids().chain((0..items).map(move |index| task.object(FIRST_ITEM + index)))
    }

    pub(crate) fn held(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.args.held().chain(self.handle)
    }

    pub(crate) fn is_method(&self) -> bool {
        matches!(self.target, Target::Actor(_))
    }

    pub(crate) fn awaited(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.args.stored_body.iter().chain(&self.args.deps).copied()
    }
}

impl Owner {
    /// A call that has not ended yet, and whether it waits for arguments.
    #[must_use]
    pub fn is_unfinished(&self, task: &TaskId) -> bool {
        self.tasks.contains_key(task)
    }

    pub(crate) fn submit(&mut self, spec: Arc<TaskSpec>) {
        for id in spec.return_ids() {
            self.expect(id, 1);
        }
        if spec.returns == STREAMING {
            self.stream_opened(spec.id);
        }
        for id in spec.held() {
            self.hold(id);
        }
        let retries_left = spec.retry.max;
        let past = Past { created: self.ctx.now(), ..Past::default() };
        self.enter(spec, 0, retries_left, past);
    }

    /// Waits for the dependencies that are missing, or goes on at once.
    #[allow(clippy::too_many_arguments, reason = "the fields of a task")]
    pub(crate) fn enter(
        &mut self,
        spec: Arc<TaskSpec>,
        attempt: u32,
        retries_left: i32,
        past: Past,
    ) {
        let id = spec.id;
        let missing = self.await_args(id, &spec);
        if let Target::Actor(actor) = spec.target {
            self.enqueue_call(actor, &spec, past.earlier.is_remade);
        }
        let state = if missing == 0 { State::Queued } else { State::Waiting(missing) };
        let task = Task {
            spec: spec.clone(),
            state,
            attempt,
            retries_left,
            cancelled: false,
            at: None,
            sent: 0,
            yielded: 0,
            past,
        };
        assert!(self.tasks.insert(id, task).is_none(), "an attempt under way would be forgotten");
        if missing == 0 {
            self.dispatch(&spec);
        }
    }

    pub(crate) fn dependency_ready(&mut self, id: TaskId) {
        if self.creation_dependency_ready(id) {
            return;
        }
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let State::Waiting(missing) = &mut task.state else { return };
        assert!(*missing > 0, "a call that lacks nothing is no call that waits");
        *missing -= 1;
        if *missing == 0 {
            task.state = State::Queued;
            let spec = task.spec.clone();
            self.dispatch(&spec);
        }
    }

    /// All dependencies are known: fail with theirs, or go where the call runs.
    fn dispatch(&mut self, spec: &TaskSpec) {
        let id = spec.id;
        let mut is_stored = false;
        let failed = spec.awaited().find_map(|dep| match &self.objects.get(&dep)?.value {
            Stored::Error(bytes) => Some(bytes.clone()),
            value => {
                is_stored |= matches!(value, Stored::Stores { .. });
                None
            }
        });
        if let Some(bytes) = failed {
            for dep in spec.awaited() {
                self.error_read(dep);
            }
            let error = helio_proto::error::through(&spec.template.name, &bytes);
            self.fail(id, &Stored::Error(Arc::new(error)));
            if let Target::Actor(actor) = spec.target {
                self.pump_actor(actor);
            }
            return;
        }
        match &spec.target {
            Target::Class(class) => self.enqueue(class, id, is_stored),
            Target::Actor(actor) => self.dispatch_call(*actor, spec),
        }
    }

    /// The arguments in wire form: [`peer::Args::put`] without the copies. Returns also whether some of them lie in
    /// object stores.
    pub(crate) fn encode_args(&self, args: &CallArgs) -> (Vec<u8>, bool) {
        let n = args.deps.len() + usize::from(args.stored_body.is_some());
        let mut bytes = Vec::with_capacity(16 + args.body.len() + n * ARGUMENT_BYTES);
        bytes.push(u8::from(args.stored_body.is_some()));
        put_bytes(&mut bytes, &args.body);
        bytes.extend_from_slice(&(n as u32).to_le_bytes());
        let mut is_stored = false;
        for dep in args.stored_body.iter().chain(&args.deps) {
            let object = self.objects.get(dep);
            let owner = object.and_then(|object| object.owner.as_ref()).unwrap_or(self.ctx.me());
            if let Some(value) = object.and_then(|object| object.value.as_wire()) {
                is_stored |= matches!(value, ValueRef::Stored { .. });
                peer::put_dependency(&mut bytes, *dep, owner, value);
                continue;
            }
            let text = "an argument was lost before its call was sent";
            let error =
                SystemError { object: *dep, ..SystemError::new(ErrorKind::ObjectLost, text) };
            peer::put_dependency(&mut bytes, *dep, owner, ValueRef::Error(&error.to_payload()));
        }
        (bytes, is_stored)
    }

    /// The nodes that hold a call's stored arguments, with how many bytes of them, most first.
    fn holders(&self, spec: &TaskSpec) -> Vec<(NodeAddress, u64)> {
        let mut holders: Vec<(NodeAddress, u64)> = Vec::new();
        for dep in spec.awaited() {
            let value = self.objects.get(&dep).map(|object| &object.value);
            let Some(Stored::Stores { size, locations }) = value else { continue };
            for location in locations {
                match holders.iter_mut().find(|(node, _)| node.node_id == location.node_id) {
                    Some((_, bytes)) => *bytes += size,
                    None => holders.push((location.clone(), *size)),
                }
            }
        }
        // Of equal ones this node comes first.
        let own = self.ctx.me().node_id;
        holders.sort_by_key(|(node, bytes)| (Reverse(*bytes), node.node_id != own));
        holders
    }

    /// Returns the nodes that hold a call's stored arguments, those with most bytes first.
    pub(crate) fn locality(&self, spec: &TaskSpec) -> Vec<NodeId> {
        self.holders(spec).into_iter().map(|(node, _)| node.node_id).collect()
    }

    /// The node that holds most bytes of a call's arguments, if they are large.
    pub(crate) fn holder_of_most(&self, spec: &TaskSpec) -> Option<NodeAddress> {
        let (node, bytes) = self.holders(spec).into_iter().next()?;
        (bytes >= LARGE_BYTES).then_some(node)
    }

    /// How many bytes of a call's stored arguments a node holds.
    pub(crate) fn bytes_on(&self, spec: &TaskSpec, node: NodeId) -> u64 {
        let mut holders = self.holders(spec).into_iter();
        holders.find(|(holder, _)| holder.node_id == node).map_or(0, |(_, bytes)| bytes)
    }

    /// A worker's reply.
    #[allow(clippy::too_many_arguments, reason = "the fields of one frame")]
    pub(crate) fn replied(&mut self, from: WorkerId, id: TaskId, frame: Frame<'static>) {
        let Frame::Reply { failed, retryable, leaving, items, returns, .. } = frame else { return };
        let Some(task) = self.tasks.get_mut(&id) else {
            self.discard(from, id, returns);
            return;
        };
        // A process whose lease was lost may have run the call to its end all the same; what runs now is
        // another attempt, in another process.
        let is_current = task.is_at(from);
        let (state, spec, cancelled) = (task.state, task.spec.clone(), task.cancelled);
        // The items of a generator may have brought references long before its reply, and for those of
        // an attempt that is given up nobody else lets go.
        let brings =
            spec.returns == STREAMING || returns.iter().any(|one| !one.contained.is_empty());
        match state {
            State::OnLease(request) if is_current => {
                let began = self.leave_lease(request, id, leaving);
                self.has_begun(id, began);
            }
            State::OnActor if is_current => {
                let began = self.leave_actor(&spec, id);
                self.has_begun(id, began);
            }
            // A reply of an attempt that was given up: the next one will bring the values.
            _ => {
                self.discard(from, id, returns);
                return;
            }
        }
        let may_retry = retryable && !cancelled && !mutant!("raised-call-not-retried");
        if failed && may_retry && self.take_retry(id) {
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
        } else if !failed && self.has_lost_items(id, items) {
            let text = "items of the generator were lost with a connection that broke";
            self.worker_lost(id, true, &DeathCause::new(DeathKind::Unknown, text));
        } else {
            self.complete(id, failed, items, returns);
        }
        if brings {
            self.say_held(from, id);
        }
    }

    /// Notes when the call can have begun: a worker runs calls in the order sent, so not before the previous one ended.
    fn has_begun(&mut self, id: TaskId, began: u64) {
        if let Some(task) = self.tasks.get_mut(&id) {
            task.sent = task.sent.max(began);
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
            match self.tasks.get_mut(&id) {
                Some(task) => add_each(&mut task.past.earlier.strays, locations),
                None => self.strayed(id.object(index), &locations),
            }
        }
        self.say_held(from, id);
    }

    /// Values of a call that gets others.
    fn free_unread(&mut self, id: TaskId, returns: Vec<Returned>) {
        for (index, returned) in (1u32..).zip(returns) {
            let object = id.object(index);
            if let Value::Stored { locations, .. } = returned.value
                && !self.objects.get(&object).is_some_and(crate::Object::is_ready)
            {
                self.ctx.push(Action::Free { id: object, locations });
            }
        }
    }

    fn complete(&mut self, id: TaskId, failed: bool, items: u32, returns: Vec<Returned>) {
        let Some(task) = self.tasks.remove(&id) else { return };
        shrink(&mut self.tasks, &mut self.ctx);
        self.history.add(&task, failed.then(|| returns.last()).flatten(), self.ctx.now());
        let (spec, past) = (task.spec.clone(), &task.past);
        let wanted = self.items_wanted(&task, failed, items, &returns);
        let stored = |returned: &Returned| matches!(returned.value, Value::Stored { .. });
        let is_stored = past.earlier.items > 0 || returns.iter().any(stored);
        if is_stored {
            let live = self.count_live(&spec, past.earlier.items, &returns);
            let is_forgotten = mutant!("lineage-with-an-end-forgotten") && task.retries_left > 0;
            if task.may_run_again() && live > 0 && !is_forgotten {
                self.remember(spec.clone(), task.retries_left, live, past);
            } else {
                let why = match spec.retry.max {
                    _ if task.is_unwanted() => Final::Cancelled,
                    0 => Final::NoRetries,
                    _ => Final::UsedUp,
                };
                for object in spec.made(past.earlier.items) {
                    self.mark_final(object, why);
                }
            }
        }
        for object in spec.made(past.earlier.items) {
            self.strayed(object, &past.earlier.strays);
        }
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
        self.release_args(&spec);
        if let Target::Actor(actor) = spec.target {
            self.retire_actor(actor);
        }
    }

    /// How many of what a call made lie in object stores and are held: its items, and the returns that are
    /// about to be set.
    fn count_live(&self, spec: &TaskSpec, items: u32, returns: &[Returned]) -> u32 {
        let of_returns = spec.return_ids().zip(returns).filter(|(id, returned)| {
            matches!(returned.value, Value::Stored { .. }) && self.objects.contains_key(id)
        });
        let is_stored =
            |id: &ObjectId| matches!(self.objects.get(id), Some(object) if object.is_in_stores());
        let of_items = spec.made(items).skip(spec.return_count() as usize).filter(is_stored);
        (of_returns.count() + of_items.count()) as u32
    }

    fn release_args(&mut self, spec: &TaskSpec) {
        for id in spec.held() {
            self.unhold(id);
        }
    }

    /// Ends a call with an error in place of its values.
    pub(crate) fn fail(&mut self, id: TaskId, value: &Stored) {
        let Some(task) = self.tasks.get(&id) else { return };
        let spec = task.spec.clone();
        let Some(value) = value.to_wire() else { return };
        let returned = Returned { value, contained: Vec::new() };
        let n = spec.return_ids().count();
        if let Target::Actor(actor) = spec.target {
            self.forget_call(actor, id);
        }
        self.complete(id, true, 0, vec![returned; n]);
    }

    /// Counts a retry if one is left.
    pub(crate) fn take_retry(&mut self, id: TaskId) -> bool {
        let Some(task) = self.tasks.get_mut(&id) else { return false };
        match task.retries_left {
            0 => false,
            n => {
                let counts = n > 0 && !mutant!("retry-not-counted");
                task.retries_left = if counts { n - 1 } else { n };
                true
            }
        }
    }

    /// Sends the call on its way once more. `failure`: why the attempt before failed, by its name in Ray's state
    /// API and in words.
    pub(crate) fn retry(&mut self, id: TaskId, failure: (&'static str, &str)) {
        // An argument may have been lost with the worker: wait for it again if so.
        let Some(task) = self.tasks.remove(&id) else { return };
        self.history.add_attempt(&task, failure, self.ctx.now());
        let mut past = task.past;
        past.earlier.failure = Some(failure.1.into());
        // A method's call had ended, for when its actor does the calls go back to the queue. Calls that were made
        // after it may be at the actor already and wait for its result.
        if matches!(task.spec.target, Target::Actor(_)) && !past.earlier.is_remade {
            (past.earlier.is_remade, past.earlier.ended) = (true, self.lineages.next_ended());
        }
        self.enter(task.spec, task.attempt + 1, task.retries_left, past);
    }

    /// The worker that ran the call (or was about to) has ended.
    pub(crate) fn worker_lost(&mut self, id: TaskId, started: bool, cause: &DeathCause) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        if started {
            task.stray();
        }
        let (cancelled, name) = (task.cancelled, task.spec.template.name.clone());
        let is_oom = cause.kind == DeathKind::OutOfMemory;
        if cancelled && !mutant!("cancelled-call-retried") {
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
            let text = format!("the worker to which it was sent ended: {cause}");
            self.retry(id, (name_of_loss(cause.kind), &text));
        } else if is_oom && task.retries_left != 0 && !cause.is_final {
            self.retry_later(id, cause);
        } else if !is_oom && !mutant!("task-not-retried") && self.take_retry(id) {
            self.retry(id, (name_of_loss(cause.kind), &cause.message));
        } else {
            let kind = match cause.kind {
                DeathKind::OutOfMemory => ErrorKind::OutOfMemory,
                DeathKind::NodeDied => ErrorKind::NodeDied,
                _ => ErrorKind::WorkerCrashed,
            };
            let error = SystemError {
                cause: cause.clone(),
                task: id,
                name,
                ..SystemError::new(kind, format!("the worker that ran the task has ended: {cause}"))
            };
            self.fail(id, &Stored::Error(Arc::new(error.to_payload())));
        }
    }

    /// The process that runs a call.
    pub(crate) fn running_at(&self, id: &TaskId) -> Option<(Arc<WorkerAddress>, Arc<TaskSpec>)> {
        let task = self.tasks.get(id)?;
        let to = match (&task.state, &task.spec.target) {
            (State::OnLease(request), _) => self.leases.worker(*request)?,
            (State::OnActor, Target::Actor(actor)) => self.actors.get(actor)?.address()?,
            _ => return None,
        };
        Some((to, task.spec.clone()))
    }

    /// The executor has run a call for a peer.
    pub(crate) fn finished(&mut self, task: TaskId, caller: &Arc<WorkerAddress>, outcome: Outcome) {
        let Outcome { returns, failed, retryable, leaving, items } = outcome;
        let returns = returns.into_iter().map(|value| self.outgoing(task, caller, value)).collect();
        self.borrows.send(
            caller,
            Frame::Reply { task, failed, retryable, leaving, items, returns },
            &mut self.ctx,
        );
    }

    /// A value on its way to `caller`: what it contains stays held until the caller holds it.
    pub(crate) fn outgoing(
        &mut self,
        task: TaskId,
        caller: &Arc<WorkerAddress>,
        value: Outgoing,
    ) -> Returned {
        let contained = value.contained.iter().map(|id| self.reference(*id)).collect();
        if !value.contained.is_empty() && !mutant!("returned-reference-not-held") {
            for id in &value.contained {
                self.hold(*id);
            }
            let held =
                self.borrows.returned.entry(task).or_insert_with(|| (caller.worker_id, Vec::new()));
            held.1.extend(value.contained);
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

    pub(crate) fn returns_held(&mut self, task: TaskId) {
        if let Some((_, held)) = self.borrows.returned.remove(&task) {
            for id in held {
                self.unhold(id);
            }
        }
    }

    /// If an argument of a queued call was lost meanwhile and is being made again, the call waits for it
    /// once more.
    pub(crate) fn waits_again(&mut self, id: TaskId) -> bool {
        let Some(spec) = self.tasks.get(&id).map(|task| task.spec.clone()) else { return false };
        let missing = self.await_args(id, &spec);
        if let Some(task) = self.tasks.get_mut(&id).filter(|_| missing > 0) {
            task.state = State::Waiting(missing);
        }
        missing > 0
    }

    /// Registers a call with those of its arguments that are not known; how many they are.
    fn await_args(&mut self, id: TaskId, spec: &TaskSpec) -> u32 {
        let mut missing = 0;
        for dep in spec.awaited() {
            if let Some(object) = self.objects.get_mut(&dep)
                && !object.is_ready()
            {
                object.relations.dependents.push(id);
                missing += 1;
                self.watch(dep);
            }
        }
        missing
    }

    /// The call whose object was lost runs again already, or it is a generator that still yields. A reader
    /// must not look for the value where it was, over and over.
    pub(crate) fn await_attempt(&mut self, id: ObjectId) {
        if let Some(object) = self.objects.get_mut(&id)
            && matches!(&object.value, Stored::Stores { locations, .. } if locations.is_empty())
        {
            object.value = Stored::Pending;
            object.relations.made_again = self.ctx.now();
        }
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
