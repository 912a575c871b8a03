//! Actors as their callers see them, and their creation.
//!
//! Calls are sent in the order they were made; one that waits for an argument holds back those
//! of its concurrency group behind it, unless the actor takes its calls in any order ([`Template::is_unordered`]): then such a
//! call is queued when its arguments are known. What was sent to a process that ended is tried again at
//! the front of the queue if its retries allow, else it fails: with `ActorUnavailableError` while the
//! actor restarts, with `ActorDiedError` when it is dead. Calls that were not sent before a restart wait
//! for its end if they have retries, and fail as if they had been sent if they have none. Where the process
//! ended in the first constructor, the calls that the creator had made wait all the same.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use helio_proto::control::{
    ActorInfo, ActorPhase, ActorSpec, ControlRequest, ControlResponse, FailureKind, KillActor,
    UnsubscribeActor,
};
use helio_proto::error::{ErrorKind, SystemError};
use helio_proto::template::Template;
use helio_types::{
    ActorId, DeathCause, DeathKind, IdMap, NodeId, ObjectId, TaskId, WorkerAddress, WorkerId,
    mutant,
};

use crate::Owner;
use crate::event::Action;
use crate::object::Stored;
use crate::task::{CallArgs, State, Target, Task, TaskSpec};

/// How long an actor whose connection broke may be said to live before what was sent to it is given
/// up, in microseconds.
const BROKEN_WAIT_US: u64 = 5_000_000;

/// An actor to be made.
#[derive(Debug)]
pub struct Creation {
    /// Its specification; the arguments are filled in when they are known.
    pub spec: ActorSpec,
    /// The constructor's arguments.
    pub args: CallArgs,
    /// The object that stands for its handles; `None`: it is detached, its life is its own.
    pub handle: Option<ObjectId>,
}

/// One actor as its callers in this process see it: its phase, its place, and the calls not sent yet.
#[derive(Debug, Default)]
pub struct Actor {
    phase: ActorPhase,
    incarnation: u32,
    address: Option<Arc<WorkerAddress>>,
    cause: DeathCause,
    /// The reason why the actor waits, while it is pending.
    pub why: String,
    /// Where it is being made; nil: nowhere yet.
    home: NodeId,
    /// Its process, while it is alive; 0: not known.
    pub(crate) pid: u32,
    class_name: String,
    subscribed: bool,
    /// Not sent yet, in order.
    queue: VecDeque<TaskId>,
    /// Calls that lack arguments and hold back no others: those of an actor that takes its calls in any
    /// order, and those that ran and run once more because their results were lost (what waits in `queue`
    /// may need these results).
    lacking: BTreeSet<TaskId>,
    /// Some of its calls run in a concurrency group that has a name.
    has_groups: bool,
    /// Calls that were sent, in order.
    sent: VecDeque<TaskId>,
    sequence: u64,
    /// When the first of `sent` was replied to last.
    replied: u64,
    broken: Option<u64>,
    /// We make it: what its creation still needs.
    creation: Option<Box<Creation>>,
    /// How many of the constructor's arguments are not known yet.
    missing: u32,
    /// The constructor's arguments, held as long as it may be restarted.
    held: Vec<ObjectId>,
    handle: Option<ObjectId>,
    /// This process created it, and stands by it until it is dead.
    is_ours: bool,
    /// The actor was seen alive.
    has_lived: bool,
    /// The actor was killed from here for good: calls from now on do not run, however long the news of its end takes.
    killed: bool,
    /// The control service refused to make it, and why it says so.
    refused: Option<(FailureKind, String)>,
}

impl Actor {
    /// Where it is in its life.
    #[must_use]
    pub fn phase(&self) -> ActorPhase {
        self.phase
    }

    /// Where it takes calls, while it does.
    #[must_use]
    pub fn address(&self) -> Option<Arc<WorkerAddress>> {
        self.address.clone()
    }

    /// Returns the cause of its end.
    #[must_use]
    pub fn cause(&self) -> &DeathCause {
        &self.cause
    }

    /// The object that stands for its handles, if its life hangs on them.
    #[must_use]
    pub fn handle(&self) -> Option<ObjectId> {
        self.handle
    }

    /// The control service refused to make it, and why.
    #[must_use]
    pub fn refused(&self) -> Option<&(FailureKind, String)> {
        self.refused.as_ref()
    }

    /// Whether this process made it.
    pub(crate) fn is_ours(&self) -> bool {
        self.is_ours
    }

    /// Its class, for people.
    pub(crate) fn class_name(&self) -> &str {
        &self.class_name
    }

    /// Where its process is being made.
    pub(crate) fn home(&self) -> Option<NodeId> {
        (!self.home.is_nil()).then_some(self.home)
    }

    pub(crate) fn name(&self) -> &str {
        if self.class_name.is_empty() { "The actor" } else { &self.class_name }
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.killed
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// How many calls wait here before that one.
    pub(crate) fn place_of(&self, task: TaskId) -> Option<usize> {
        self.queue.iter().position(|queued| *queued == task)
    }

    pub(crate) fn first_queued(&self) -> Option<TaskId> {
        self.queue.front().copied()
    }

    pub(crate) fn first_sent(&self) -> Option<TaskId> {
        self.sent.front().copied()
    }

    /// Returns how many arguments its constructor waits for, and all of its arguments.
    pub(crate) fn awaited(&self) -> Option<(u32, &[ObjectId])> {
        self.creation.as_ref().map(|_| (self.missing, &self.held[..]))
    }

    /// Returns the objects that the constructor's arguments hold.
    pub(crate) fn held(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.held.iter().copied()
    }

    /// Calls that have not ended.
    #[must_use]
    pub fn pending_calls(&self) -> usize {
        let sent = if mutant!("sent-call-not-pending") { 0 } else { self.sent.len() };
        let more = usize::from(mutant!("one-call-too-few-ahead"));
        self.queue.len() + self.lacking.len() + sent + more
    }
}

/// The stand-in "task" under which a constructor waits for its arguments.
/// The place of a call that is made again, among the calls that had ended; `None` for others.
fn remade_place(tasks: &IdMap<TaskId, Task>, id: &TaskId) -> Option<u64> {
    tasks.get(id).filter(|task| task.past.earlier.is_remade).map(|task| task.past.earlier.ended)
}

fn creation_task(actor: ActorId) -> TaskId {
    TaskId::new(0, actor)
}

/// The object that stands for an actor's handles.
#[must_use]
pub fn handle_object(actor: ActorId) -> ObjectId {
    creation_task(actor).object(0)
}

/// The actor for whose handles an object stands, if it does.
pub(crate) fn actor_of_handle(object: ObjectId) -> Option<ActorId> {
    let actor = object.task().actor();
    (object == handle_object(actor)).then_some(actor)
}

impl Owner {
    /// Returns the state of an actor.
    #[must_use]
    pub fn actor(&self, id: &ActorId) -> Option<&Actor> {
        self.actors.get(id)
    }

    pub(crate) fn has_queued_call(&self, target: &Target, task: TaskId) -> bool {
        let Target::Actor(id) = target else { return false };
        self.actors.get(id).is_some_and(|actor| actor.queue.contains(&task))
    }

    /// Whether a call of an actor that waits for arguments stands where its order demands.
    pub(crate) fn has_waiting_call(&self, task: &Task) -> bool {
        let Target::Actor(id) = task.spec.target else { return true };
        self.actors.get(&id).is_some_and(|actor| {
            actor.lacking.contains(&task.spec.id) == task.is_unordered()
                && actor.queue.contains(&task.spec.id) != task.is_unordered()
        })
    }

    pub(crate) fn create_actor(&mut self, creation: Creation) {
        let id = creation.spec.actor_id;
        let handle = creation.handle;
        if let Some(handle) = handle {
            let object = self.expect(handle, 1);
            object.relations.handle_of = Some(id);
        }
        let args = &creation.args;
        let held: Vec<ObjectId> =
            args.stored_body.iter().chain(&args.deps).chain(&args.contained).copied().collect();
        let awaited: Vec<ObjectId> = args.stored_body.iter().chain(&args.deps).copied().collect();
        for object in &held {
            self.hold(*object);
        }
        let mut missing = 0;
        for dep in awaited {
            if let Some(object) = self.objects.get_mut(&dep)
                && !object.is_ready()
            {
                object.relations.dependents.push(creation_task(id));
                missing += 1;
                self.watch(dep);
            }
        }
        let actor = self.actors.entry(id).or_default();
        actor.class_name.clone_from(&creation.spec.class_name);
        actor.held = held;
        actor.handle = handle;
        actor.is_ours = true;
        actor.missing = missing;
        actor.creation = Some(Box::new(creation));
        if missing == 0 {
            self.request_creation(id);
        }
    }

    /// Whether `task` is a constructor's stand-in, which has one argument fewer to wait for now.
    pub(crate) fn creation_dependency_ready(&mut self, task: TaskId) -> bool {
        let id = task.actor();
        if task != creation_task(id) {
            return false;
        }
        if let Some(actor) = self.actors.get_mut(&id)
            && actor.creation.is_some()
        {
            assert!(
                actor.missing > 0,
                "a constructor would be asked for without one of its arguments"
            );
            actor.missing -= 1;
            if actor.missing == 0 {
                self.request_creation(id);
            }
        }
        true
    }

    fn request_creation(&mut self, id: ActorId) {
        let Some(actor) = self.actors.get_mut(&id) else { return };
        let Some(creation) = actor.creation.take() else { return };
        actor.subscribed = true;
        let (args, _) = self.encode_args(&creation.args);
        let spec = ActorSpec { args, ..creation.spec };
        self.ctx.push(Action::CreateActor {
            actor: id,
            request: Box::new(ControlRequest::CreateActor(spec)),
        });
        self.ctx.push(Action::Subscribe(id));
    }

    pub(crate) fn actor_created(&mut self, id: ActorId, response: ControlResponse) {
        match response {
            ControlResponse::Failed(failure) => {
                let kind = failure.kind;
                if let Some(actor) = self.actors.get_mut(&id) {
                    actor.refused = Some((kind, failure.message.clone()));
                }
                self.end(id, DeathCause::new(DeathKind::StartFailed, failure.message));
            }
            ControlResponse::Actor(info) => self.actor_update(&info),
            ControlResponse::NamedActor(_) => {
                self.end(id, DeathCause::new(DeathKind::Intended, "another actor has its name"));
            }
            _ => {}
        }
        self.ctx.push(Action::ActorChanged(id));
    }

    pub(crate) fn know_actor(&mut self, id: ActorId, handle: Option<ObjectId>) {
        // **LIMIT-1** Of one behind a weak handle nothing is known until it is called; nobody says when such
        // a handle is dropped.
        if handle.is_some() {
            let actor = self.actors.entry(id).or_default();
            actor.handle = actor.handle.or(handle);
        }
    }

    /// `ray.kill`: what is called after it does not run.
    pub(crate) fn kill_actor(&mut self, id: ActorId, no_restart: bool) {
        let mut hears = true;
        if no_restart {
            let actor = self.actors.entry(id).or_default();
            actor.killed = true;
            if actor.creation.take().is_some() {
                // The control service was never asked for the actor: its constructor still waited for arguments.
                let cause = DeathCause::new(DeathKind::Intended, "it was killed by `ray.kill`");
                self.end(id, cause);
                self.ctx.push(Action::ActorChanged(id));
                return;
            }
            hears = std::mem::replace(&mut actor.subscribed, true);
        }
        let request = KillActor { actor_id: id, no_restart, out_of_scope: false };
        self.ctx.push(Action::Control(Box::new(request.into())));
        // **LIMIT-1** One that was looked up and never called is forgotten with the news of its end.
        if !hears {
            self.ctx.push(Action::Subscribe(id));
        }
    }

    /// The last handle anywhere is gone.
    pub(crate) fn handles_gone(&mut self, id: ActorId) {
        let Some(actor) = self.actors.get_mut(&id) else { return };
        if actor.creation.take().is_some() {
            // The control service was never asked for the actor: its constructor still waited for arguments.
            for object in std::mem::take(&mut actor.held) {
                self.unhold(object);
            }
            self.actors.remove(&id);
        } else if actor.phase != ActorPhase::Dead {
            let request = KillActor { actor_id: id, no_restart: true, out_of_scope: true };
            self.ctx.push(Action::Control(Box::new(request.into())));
        } else {
            self.retire_actor(id);
        }
    }

    /// **LIMIT-1** Forgets an actor that nobody here can call any more: its handles are gone, and so is
    /// what was called. Its creator remembers it until it is dead, and so does who has a weak handle.
    pub(crate) fn retire_actor(&mut self, id: ActorId) {
        let Some(actor) = self.actors.get(&id) else { return };
        let has_handles = actor.handle.is_some_and(|handle| self.objects.contains_key(&handle));
        let is_borrowed = actor.handle.is_some() && !actor.is_ours;
        let is_over = is_borrowed || actor.phase == ActorPhase::Dead;
        if has_handles || !is_over || actor.creation.is_some() || actor.pending_calls() > 0 {
            return;
        }
        if actor.subscribed {
            let request = UnsubscribeActor { actor_id: id };
            self.ctx.push(Action::Control(Box::new(request.into())));
        }
        self.actors.remove(&id);
        self.broken_actors.remove(&id);
    }

    /// A call was made; one that holds back others has its place in the queue from now on.
    pub(crate) fn enqueue_call(&mut self, id: ActorId, spec: &TaskSpec, is_remade: bool) {
        let actor = self.actors.entry(id).or_default();
        actor.has_groups |= !spec.template.concurrency_group.is_empty();
        if spec.template.is_unordered || is_remade {
            actor.lacking.insert(spec.id);
        } else {
            actor.queue.push_back(spec.id);
        }
    }

    /// The arguments of a call are known. Without retries it does not wait for the end of a restart.
    pub(crate) fn dispatch_call(&mut self, id: ActorId, spec: &TaskSpec) {
        let Some(actor) = self.actors.get_mut(&id) else { return };
        if actor.lacking.remove(&spec.id) {
            let ended = |id: &TaskId| remade_place(&self.tasks, id);
            // Calls that wait in the queue may need its result, and so may those among them that are made
            // again because what they made was lost, if they ended after it.
            let place = match ended(&spec.id) {
                Some(own) => {
                    let earlier = |id: &&TaskId| ended(id).is_some_and(|other| other < own);
                    actor.queue.iter().take_while(earlier).count()
                }
                None => actor.queue.len(),
            };
            actor.queue.insert(place, spec.id);
        }
        if actor.phase == ActorPhase::Restarting && spec.retry.max == 0 {
            let value = self.dead_error(id, ErrorKind::ActorUnavailable);
            self.fail(spec.id, &value);
        } else {
            self.pump_actor(id);
        }
    }

    /// Fails the calls that could be sent; of an actor that is only unavailable those without retries.
    fn fail_queued(&mut self, id: ActorId, kind: ErrorKind) {
        let Some(actor) = self.actors.get(&id) else { return };
        let queue: Vec<TaskId> = actor.queue.iter().copied().collect();
        let value = self.dead_error(id, kind);
        for task in queue {
            if let Some(call) = self.tasks.get(&task)
                && call.state == State::Queued
                && (kind == ErrorKind::ActorDied
                    || call.spec.retry.max == 0
                    || mutant!("method-does-not-wait-for-a-restart"))
            {
                self.fail(task, &value);
            }
        }
    }

    /// Sends what can be sent.
    pub(crate) fn pump_actor(&mut self, id: ActorId) {
        let Some(actor) = self.actors.get_mut(&id) else { return };
        if actor.phase == ActorPhase::Dead {
            return self.fail_queued(id, ErrorKind::ActorDied);
        }
        if !actor.subscribed && actor.creation.is_none() && !actor.queue.is_empty() {
            actor.subscribed = true;
            self.ctx.push(Action::Subscribe(id));
        }
        // Groups in which a call holds back those behind it, and how many calls are held back.
        let (mut blocked, mut place): (Vec<Arc<Template>>, usize) = (Vec::new(), 0);
        loop {
            let Some(actor) = self.actors.get(&id) else { return };
            let Some(task) = actor.queue.get(place).copied() else { return };
            let Some(to) = actor.address.clone() else { return };
            if actor.broken.is_some() || actor.killed {
                return;
            }
            let has_groups = actor.has_groups;
            let Some(call) = self.tasks.get(&task) else {
                self.dequeue(id, place);
                continue;
            };
            let (template, is_unordered) = (call.spec.template.clone(), call.is_unordered());
            if blocked.iter().any(|other| other.concurrency_group == template.concurrency_group) {
                place += 1;
                continue;
            }
            if call.state != State::Queued || self.waits_again(task) {
                if is_unordered {
                    // Its arguments were lost meanwhile.
                    self.dequeue(id, place);
                    self.actors.entry(id).or_default().lacking.insert(task);
                } else if mutant!("method-overtakes") {
                    place += 1;
                } else if has_groups {
                    blocked.push(template);
                    place += 1;
                } else {
                    return;
                }
                continue;
            }
            self.dequeue(id, place);
            self.send_to_actor(id, task, to);
        }
    }

    fn dequeue(&mut self, id: ActorId, place: usize) {
        if let Some(actor) = self.actors.get_mut(&id) {
            actor.queue.remove(place);
        }
    }

    fn send_to_actor(&mut self, id: ActorId, task: TaskId, to: Arc<WorkerAddress>) {
        let Some(actor) = self.actors.get_mut(&id) else { return };
        let Some(call) = self.tasks.get_mut(&task) else { return };
        call.state = State::OnActor;
        call.at = Some(to.clone());
        call.sent = self.ctx.now();
        let (spec, attempt, is_remade) =
            (call.spec.clone(), call.attempt, call.past.earlier.is_remade);
        let is_of_it = matches!(&spec.target, Target::Actor(actor) if *actor == id);
        assert!(is_of_it, "a call would run in an actor that was not called");
        actor.sent.push_back(task);
        actor.sequence += 1;
        let sequence = if is_remade { call.past.earlier.ended } else { actor.sequence };
        let (args, is_stored) = self.encode_args(&spec.args);
        if is_stored {
            self.copies_to_come(&spec, &to);
        }
        let lease = helio_types::LeaseId(0);
        self.ctx.push(Action::Call { to, spec, args, lease, sequence, attempt, is_remade });
    }

    /// A call was replied to; when it can have begun.
    pub(crate) fn leave_actor(&mut self, spec: &TaskSpec, task: TaskId) -> u64 {
        let mut began = 0;
        if let Target::Actor(id) = spec.target
            && let Some(actor) = self.actors.get_mut(&id)
        {
            match actor.sent.front() {
                Some(first) if *first == task => {
                    actor.sent.pop_front();
                    began = std::mem::replace(&mut actor.replied, self.ctx.now());
                }
                _ => actor.sent.retain(|sent| *sent != task),
            }
        }
        began
    }

    /// A call fails without having been replied to.
    pub(crate) fn forget_call(&mut self, id: ActorId, task: TaskId) {
        if let Some(actor) = self.actors.get_mut(&id) {
            actor.queue.retain(|queued| *queued != task);
            actor.lacking.remove(&task);
            actor.sent.retain(|sent| *sent != task);
        }
    }

    pub(crate) fn actor_update(&mut self, info: &ActorInfo) {
        let id = info.actor_id;
        let Some(actor) = self.actors.get_mut(&id) else { return };
        let phase = info.phase;
        // Nothing comes after its death. Who does not know the actor any more does not know how often it
        // was restarted, either.
        let is_old = info.incarnation < actor.incarnation && phase != ActorPhase::Dead;
        if is_old || actor.phase == ActorPhase::Dead {
            return;
        }
        if !info.class_name.is_empty() {
            actor.class_name.clone_from(&info.class_name);
        }
        actor.why.clone_from(&info.why);
        (actor.home, actor.pid) = (info.node_id, info.pid);
        match phase {
            ActorPhase::Pending => {}
            ActorPhase::Alive => {
                let again = info.incarnation > actor.incarnation;
                if again {
                    self.incarnation_lost(id, &info.cause);
                }
                if let Some(actor) = self.actors.get_mut(&id) {
                    actor.phase = phase;
                    actor.has_lived = true;
                    actor.incarnation = info.incarnation;
                    actor.address = Some(Arc::new(info.address.clone()));
                    if again {
                        actor.broken = None;
                        actor.sequence = 0;
                    }
                }
                self.pump_actor(id);
            }
            ActorPhase::Restarting => {
                actor.phase = phase;
                actor.cause = info.cause.clone();
                // Calls that its creator made before the end of its first constructor wait for the next one.
                let is_new = actor.is_ours && !actor.has_lived;
                self.incarnation_lost(id, &info.cause);
                if !is_new {
                    self.fail_queued(id, ErrorKind::ActorUnavailable);
                }
            }
            ActorPhase::Dead => self.end(id, info.cause.clone()),
        }
        self.ctx.push(Action::ActorChanged(id));
    }

    /// The actor's process ended, and there is or will be another.
    fn incarnation_lost(&mut self, id: ActorId, cause: &DeathCause) {
        let Some(actor) = self.actors.get_mut(&id) else { return };
        actor.address = None;
        actor.broken = None;
        if cause.kind != DeathKind::Unknown {
            actor.cause = cause.clone();
        }
        let sent = std::mem::take(&mut actor.sent);
        let (mut remade, mut again) = (Vec::new(), VecDeque::new());
        let mut failed = Vec::new();
        for task in sent {
            if let Some(call) = self.tasks.get_mut(&task) {
                call.stray();
            }
            let cancelled = self.tasks.get(&task).is_none_or(|task| task.cancelled);
            if !cancelled && !mutant!("method-not-retried") && self.take_retry(task) {
                let Some(call) = self.tasks.get_mut(&task) else { continue };
                self.history.add_attempt(call, ("ACTOR_DIED", &cause.message), self.ctx.now());
                call.attempt += 1;
                call.yielded = 0;
                call.state = State::Queued;
                call.past.earlier.failure = Some(cause.message.as_str().into());
                if call.past.earlier.is_remade {
                    remade.push(task);
                } else {
                    again.push_back(task);
                }
            } else {
                failed.push(task);
            }
        }
        self.put_back(id, remade, again);
        let value = self.dead_error(id, ErrorKind::ActorUnavailable);
        for task in failed {
            self.fail(task, &value);
        }
    }

    /// Calls that had left the queue are at its front again: those that are made again in the order in which they had
    /// ended, then the others.
    fn put_back(&mut self, id: ActorId, mut remade: Vec<TaskId>, mut again: VecDeque<TaskId>) {
        let Some(actor) = self.actors.get_mut(&id) else { return };
        let tasks = &self.tasks;
        let waiting = actor.queue.iter().take_while(|id| remade_place(tasks, id).is_some()).count();
        remade.extend(actor.queue.drain(..waiting));
        remade.sort_by_key(|id| remade_place(tasks, id));
        if mutant!("retried-methods-come-last") {
            std::mem::swap(&mut again, &mut actor.queue);
        }
        again.append(&mut actor.queue);
        actor.queue = remade.into_iter().chain(again).collect();
    }

    /// No connection to a process could be made. If it is an actor's, the calls that were to go over it have not begun:
    /// they wait for the next one, which costs no retry.
    pub(crate) fn actors_unreached(&mut self, worker: WorkerId) {
        // Calls that were sent over a connection that broke since may have begun.
        let is_it = |actor: &Actor| {
            actor.broken.is_none()
                && actor.address.as_ref().is_some_and(|at| at.worker_id == worker)
        };
        let unreached = self.actors.iter().filter(|(_, actor)| is_it(actor)).map(|(id, _)| *id);
        for id in unreached.collect::<Vec<ActorId>>() {
            let Some(actor) = self.actors.get_mut(&id) else { continue };
            let sent = std::mem::take(&mut actor.sent);
            let (mut remade, mut again) = (Vec::new(), VecDeque::new());
            for task in sent {
                match self.tasks.get_mut(&task).filter(|call| !call.cancelled) {
                    Some(call) if !mutant!("unsent-method-given-up") => {
                        (call.state, call.at) = (State::Queued, None);
                        if call.past.earlier.is_remade {
                            remade.push(task);
                        } else {
                            again.push_back(task);
                        }
                    }
                    _ => self.actors.entry(id).or_default().sent.push_back(task),
                }
            }
            self.put_back(id, remade, again);
        }
    }

    fn end(&mut self, id: ActorId, cause: DeathCause) {
        let Some(actor) = self.actors.get_mut(&id) else { return };
        actor.phase = ActorPhase::Dead;
        actor.address = None;
        actor.cause = cause;
        let sent: Vec<TaskId> = actor.sent.drain(..).collect();
        let held = std::mem::take(&mut actor.held);
        let value = self.dead_error(id, ErrorKind::ActorDied);
        for task in sent {
            if let Some(call) = self.tasks.get_mut(&task) {
                call.stray();
            }
            self.fail(task, &value);
        }
        self.pump_actor(id);
        for object in held {
            self.unhold(object);
        }
        self.retire_actor(id);
    }

    fn dead_error(&self, id: ActorId, kind: ErrorKind) -> Stored {
        let Some(actor) = self.actors.get(&id) else { return Stored::Pending };
        let kind = match &actor.refused {
            Some((FailureKind::Unschedulable, _)) => ErrorKind::ActorUnschedulable,
            Some((FailureKind::RuntimeEnv, _)) => ErrorKind::RuntimeEnvSetup,
            _ if actor.cause.kind == DeathKind::GroupRemoved => ErrorKind::ActorGroupRemoved,
            _ if actor.cause.kind == DeathKind::EnvFailed => ErrorKind::RuntimeEnvSetup,
            _ => kind,
        };
        let error = SystemError {
            kind,
            message: actor.cause.message.clone(),
            cause: actor.cause.clone(),
            actor: id,
            name: actor.class_name.clone(),
            ..SystemError::default()
        };
        Stored::Error(Arc::new(error.to_payload()))
    }

    /// The connection to a process broke: if it is an actor's, news will come, or time will tell.
    pub(crate) fn actors_broken(&mut self, worker: &WorkerAddress) {
        let mut broken: Vec<ActorId> = self
            .actors
            .iter()
            .filter(|(_, actor)| {
                actor.address.as_ref().is_some_and(|a| a.worker_id == worker.worker_id)
            })
            .map(|(id, _)| *id)
            .collect();
        broken.sort_unstable();
        for id in broken {
            if let Some(actor) = self.actors.get_mut(&id) {
                actor.broken.get_or_insert(self.ctx.now());
                self.broken_actors.insert(id);
                self.ctx.push(Action::Subscribe(id));
            }
        }
    }

    pub(crate) fn next_actor_tick(&self) -> Option<u64> {
        let broken = self.broken_actors.iter().filter_map(|id| self.actors.get(id)?.broken);
        broken.map(|at| at + BROKEN_WAIT_US).min()
    }

    pub(crate) fn tick_actors(&mut self) {
        let broken_at = |id: &ActorId| self.actors.get(id).and_then(|actor| actor.broken);
        let mended: Vec<ActorId> =
            self.broken_actors.iter().copied().filter(|id| broken_at(id).is_none()).collect();
        let over =
            |id: &ActorId| broken_at(id).is_some_and(|at| self.ctx.now() >= at + BROKEN_WAIT_US);
        let over: Vec<ActorId> = self.broken_actors.iter().copied().filter(over).collect();
        for id in mended {
            self.broken_actors.remove(&id);
        }
        for id in over {
            // The actor lives behind a broken line: calls that were sent may or may not have run.
            let address = self.actors.get(&id).and_then(Actor::address);
            let cause = DeathCause::new(DeathKind::Unknown, "the connection to the actor broke");
            self.incarnation_lost(id, &cause);
            if let Some(actor) = self.actors.get_mut(&id) {
                actor.address = address;
            }
            self.pump_actor(id);
        }
    }
}
