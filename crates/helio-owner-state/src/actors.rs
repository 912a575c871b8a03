//! Actors as their callers see them.
//!
//! Calls are sent in the order they were made; one that waits for an argument holds back those
//! of its concurrency group behind it, unless the actor takes its calls in any order
//! ([`Template::is_unordered`](helio_proto::template::Template::is_unordered)): then such a
//! call is queued when its arguments are known. What was sent to a process that ended is tried again at
//! the front of the queue if its retries allow, else it fails: with `ActorUnavailableError` while the
//! actor restarts, with `ActorDiedError` when it is dead. Calls that were not sent before a restart wait
//! for its end if they have retries, and fail as if they had been sent if they have none. Where the process
//! ended in the first constructor, the calls that the creator had made wait all the same.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use helio_proto::control::{ActorInfo, ActorPhase, FailureKind, UnsubscribeActor};
use helio_proto::error::{ErrorKind, SystemError};
use helio_types::{
    ActorId, DeathCause, DeathKind, IdMap, NodeId, ObjectId, TaskId, WorkerAddress, WorkerId,
    mutant,
};

use crate::calls::{Calls, Task};
use crate::context::Context;
use crate::event::Action;
use crate::objects::Objects;
use crate::spec::{Creation, Target, TaskSpec};
use crate::value::Stored;

/// Microseconds that an actor with a broken connection may still be reported alive; then the calls
/// that were sent to it are given up.
const BROKEN_WAIT_US: u64 = 5_000_000;

/// An actor as its callers in this process see it: its phase, its place, and the calls not sent yet.
#[derive(Debug, Default)]
pub struct Actor {
    phase: ActorPhase,
    incarnation: u32,
    address: Option<Arc<WorkerAddress>>,
    cause: DeathCause,
    /// The reason why the actor waits, while it is pending.
    why: String,
    /// The node that makes the actor's process; nil while no node was chosen.
    home: NodeId,
    /// The process id of the actor while it is alive; 0 if unknown.
    pid: u32,
    class_name: String,
    subscribed: bool,
    /// Calls that were not sent yet, in order.
    queue: VecDeque<TaskId>,
    /// Calls that lack arguments and hold back no others: those of an actor that takes its calls in any
    /// order, and those that ran and run once more because their results were lost (what waits in `queue`
    /// may need these results).
    lacking: BTreeSet<TaskId>,
    /// Set once a call named a concurrency group.
    has_groups: bool,
    /// Calls that were sent, in order.
    sent: VecDeque<TaskId>,
    sequence: u64,
    /// The time of the last reply, from which on the first call of `sent` can have run, in
    /// microseconds.
    replied: u64,
    broken: Option<u64>,
    /// The rest of the creation, if this process makes the actor and has not asked for it yet.
    creation: Option<Box<Creation>>,
    /// Number of the constructor's arguments that are not available yet.
    missing: u32,
    /// The constructor's arguments, held as long as it may be restarted.
    held: Vec<ObjectId>,
    handle: Option<ObjectId>,
    /// Whether this process created the actor and answers for it until it is dead.
    is_ours: bool,
    /// The actor was seen alive.
    has_lived: bool,
    /// The actor was killed from here for good: calls from now on do not run, however long the news of its end takes.
    killed: bool,
    /// The control service refused to make it, and why it says so.
    refused: Option<(FailureKind, String)>,
}

impl Actor {
    /// Returns the phase of the actor's life.
    #[must_use]
    pub fn phase(&self) -> ActorPhase {
        self.phase
    }

    /// Returns the address at which the actor takes calls; `None` while it takes none.
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

    /// The reason why the actor waits, while it is pending.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.why
    }

    /// Returns the process id of the actor while it is alive; 0 if unknown.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether this process made it.
    pub(crate) fn is_ours(&self) -> bool {
        self.is_ours
    }

    /// Returns the name of the actor's class, for people; empty if unknown.
    pub(crate) fn class_name(&self) -> &str {
        &self.class_name
    }

    /// Returns the node on which the actor's process is being made.
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

    /// Returns the number of queued calls before the given one; `None` if it is not queued.
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

    /// Calls that have not ended.
    #[must_use]
    pub fn pending_calls(&self) -> usize {
        let sent = if mutant!("sent-call-not-pending") { 0 } else { self.sent.len() };
        let more = usize::from(mutant!("one-call-too-few-ahead"));
        self.queue.len() + self.lacking.len() + sent + more
    }

    /// Whether it lives in that process.
    fn is_at(&self, worker: WorkerId) -> bool {
        self.address.as_ref().is_some_and(|at| at.worker_id == worker)
    }
}

/// The consequence for an actor whose last handle anywhere is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unheld {
    /// The actor is not known here.
    Unknown,
    /// The control service was never asked for the actor: its constructor still waited for arguments.
    NeverMade,
    /// The actor is to end.
    Lives,
    /// The actor has ended.
    Dead,
}

/// The consequence that news of an actor have for its calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// The news changes nothing for the actor's calls.
    Nothing,
    /// The actor takes calls; whether in another process than before.
    Alive { again: bool },
    /// The actor's process ended and is made anew; whether it never came to the end of its constructor.
    Restarting { is_new: bool },
    /// The actor is dead.
    Dead,
}

/// The actors that this process knows, by id.
#[derive(Debug, Default)]
pub(crate) struct Actors {
    all: IdMap<ActorId, Actor>,
    /// Actors whose connection broke; may name some that have been mended since.
    broken: BTreeSet<ActorId>,
}

impl Actors {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn get(&self, id: ActorId) -> Option<&Actor> {
        self.all.get(&id)
    }

    /// All actors, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ActorId, &Actor)> {
        self.all.iter().map(|(id, actor)| (*id, actor))
    }

    /// The arguments of constructors, one for each use.
    pub(crate) fn held(&self) -> impl Iterator<Item = ObjectId> {
        self.all.values().flat_map(|actor| &actor.held).copied()
    }

    /// Returns the address at which the actor takes calls; `None` while it takes none.
    pub(crate) fn address(&self, id: ActorId) -> Option<Arc<WorkerAddress>> {
        self.all.get(&id)?.address.clone()
    }

    pub(crate) fn has_queued(&self, target: &Target, task: TaskId) -> bool {
        let Target::Actor(id) = target else { return false };
        self.all.get(id).is_some_and(|actor| actor.queue.contains(&task))
    }

    /// Checks that an actor's call that waits for arguments is in its actor's queue, or, if it is unordered, among
    /// those that hold back no other.
    pub(crate) fn has_waiting(&self, task: &Task) -> bool {
        let (spec, is_unordered) = (task.spec(), task.is_unordered());
        let Target::Actor(id) = spec.target else { return true };
        self.all.get(&id).is_some_and(|actor| {
            actor.lacking.contains(&spec.id) == is_unordered
                && actor.queue.contains(&spec.id) != is_unordered
        })
    }

    /// Notes an actor to be created. Its constructor holds the objects `held` and still lacks `missing` of its
    /// arguments.
    pub(crate) fn on_create(&mut self, creation: Creation, held: Vec<ObjectId>, missing: u32) {
        let actor = self.all.entry(creation.spec.actor_id).or_default();
        actor.class_name.clone_from(&creation.spec.class_name);
        actor.held = held;
        actor.handle = creation.handle;
        actor.is_ours = true;
        actor.missing = missing;
        actor.creation = Some(Box::new(creation));
    }

    /// An argument of the constructor is known. Returns whether it was the last one that it lacked.
    pub(crate) fn on_arg_ready(&mut self, id: ActorId) -> bool {
        let Some(actor) = self.all.get_mut(&id).filter(|actor| actor.creation.is_some()) else {
            return false;
        };
        assert!(actor.missing > 0, "a constructor would be asked for without one of its arguments");
        actor.missing -= 1;
        actor.missing == 0
    }

    /// The control service is about to be asked for the actor.
    pub(crate) fn take_creation(&mut self, id: ActorId) -> Option<Box<Creation>> {
        let actor = self.all.get_mut(&id)?;
        let creation = actor.creation.take()?;
        // Whoever asks for an actor to be made subscribes in the same breath.
        actor.subscribed = true;
        Some(creation)
    }

    /// The control service refuses to make the actor.
    pub(crate) fn on_refused(&mut self, id: ActorId, kind: FailureKind, message: &str) {
        if let Some(actor) = self.all.get_mut(&id) {
            actor.refused = Some((kind, message.to_owned()));
        }
    }

    /// A handle of an actor arrived.
    pub(crate) fn on_know_actor(&mut self, id: ActorId, handle: Option<ObjectId>) {
        // **LIMIT-1** Of one behind a weak handle nothing is known until it is called; nobody says when such
        // a handle is dropped.
        if handle.is_some() {
            let actor = self.all.entry(id).or_default();
            actor.handle = actor.handle.or(handle);
        }
    }

    /// Calls from now on do not run. Returns whether the control service was never asked for the actor.
    pub(crate) fn kill(&mut self, id: ActorId) -> bool {
        let actor = self.all.entry(id).or_default();
        actor.killed = true;
        actor.creation.take().is_some()
    }

    /// News of the actor are wanted; whether they were before.
    pub(crate) fn subscribe(&mut self, id: ActorId) -> bool {
        std::mem::replace(&mut self.all.entry(id).or_default().subscribed, true)
    }

    /// The last handle anywhere is gone.
    pub(crate) fn on_unheld(&mut self, id: ActorId) -> Unheld {
        let Some(actor) = self.all.get_mut(&id) else { return Unheld::Unknown };
        match actor.creation.take() {
            Some(_) => Unheld::NeverMade,
            None if actor.phase == ActorPhase::Dead => Unheld::Dead,
            None => Unheld::Lives,
        }
    }

    /// The constructor's arguments are needed no more.
    pub(crate) fn take_held(&mut self, id: ActorId) -> Vec<ObjectId> {
        self.all.get_mut(&id).map_or_else(Vec::new, |actor| std::mem::take(&mut actor.held))
    }

    pub(crate) fn remove(&mut self, id: ActorId) {
        self.all.remove(&id);
    }

    /// **LIMIT-1** Forgets an actor that nobody here can call any more: its handles are gone, and so is
    /// what was called. Its creator remembers it until it is dead, and so does who has a weak handle.
    pub(crate) fn retire(&mut self, id: ActorId, objects: &Objects, ctx: &mut Context) {
        let Some(actor) = self.all.get(&id) else { return };
        let has_handles = actor.handle.is_some_and(|handle| objects.contains(handle));
        // The creator has to answer for the constructor's arguments as long as the actor may be restarted.
        let is_borrowed = actor.handle.is_some() && !actor.is_ours;
        let is_over = is_borrowed || actor.phase == ActorPhase::Dead;
        if has_handles || !is_over || actor.creation.is_some() || actor.pending_calls() > 0 {
            return;
        }
        // The control service would send news for ever.
        if actor.subscribed {
            let request = UnsubscribeActor { actor_id: id };
            ctx.push(Action::Control(Box::new(request.into())));
        }
        self.all.remove(&id);
        self.broken.remove(&id);
    }

    /// A call was made; one that holds back others has its place in the queue from now on.
    pub(crate) fn on_call(&mut self, id: ActorId, spec: &TaskSpec, is_remade: bool) {
        let actor = self.all.entry(id).or_default();
        actor.has_groups |= !spec.template.concurrency_group.is_empty();
        if spec.template.is_unordered || is_remade {
            actor.lacking.insert(spec.id);
        } else {
            actor.queue.push_back(spec.id);
        }
    }

    /// Notes that the arguments of a call are known. Returns whether the call fails at once because it has no
    /// retries and its actor restarts; `None`: the actor is not known.
    pub(crate) fn on_args_known(
        &mut self,
        id: ActorId,
        spec: &TaskSpec,
        calls: &Calls,
    ) -> Option<bool> {
        let actor = self.all.get_mut(&id)?;
        if actor.lacking.remove(&spec.id) {
            // Calls that wait in the queue may need its result, and so may those among them that are made
            // again because what they made was lost, if they ended after it.
            let place = match calls.remade_place(spec.id) {
                Some(own) => {
                    let earlier =
                        |id: &&TaskId| calls.remade_place(**id).is_some_and(|other| other < own);
                    actor.queue.iter().take_while(earlier).count()
                }
                None => actor.queue.len(),
            };
            actor.queue.insert(place, spec.id);
        }
        // As if it had been sent before the restart: which of both came first is an accident of the arguments.
        Some(actor.phase == ActorPhase::Restarting && spec.retry.max == 0)
    }

    /// The calls that were not sent, in order.
    pub(crate) fn queued(&self, id: ActorId) -> Vec<TaskId> {
        self.all.get(&id).map_or_else(Vec::new, |actor| actor.queue.iter().copied().collect())
    }

    /// Subscribes to news of the actor when its first call is about to be sent. Returns whether the actor is dead;
    /// `None`: it is not known.
    pub(crate) fn begin_sending(&mut self, id: ActorId, ctx: &mut Context) -> Option<bool> {
        let actor = self.all.get_mut(&id)?;
        if actor.phase == ActorPhase::Dead {
            return Some(true);
        }
        if !actor.subscribed && actor.creation.is_none() && !actor.queue.is_empty() {
            actor.subscribed = true;
            ctx.push(Action::Subscribe(id));
        }
        Some(false)
    }

    /// The call at that place of the queue, and where it goes, if the actor takes calls.
    pub(crate) fn next_to_send(
        &self,
        id: ActorId,
        place: usize,
    ) -> Option<(TaskId, Arc<WorkerAddress>)> {
        let actor = self.all.get(&id)?;
        let task = actor.queue.get(place).copied()?;
        let to = actor.address.clone()?;
        // Over a broken line it is not known whether the calls before were begun, and a killed actor is to begin none.
        (actor.broken.is_none() && !actor.killed).then_some((task, to))
    }

    /// Whether some of its calls run in a concurrency group that has a name.
    pub(crate) fn has_groups(&self, id: ActorId) -> bool {
        self.all.get(&id).is_some_and(|actor| actor.has_groups)
    }

    /// Takes the call at that place out of the queue.
    pub(crate) fn dequeue(&mut self, id: ActorId, place: usize) {
        if let Some(actor) = self.all.get_mut(&id) {
            actor.queue.remove(place);
        }
    }

    /// Takes a call out of the queue because it lacks arguments again; it holds back no other call.
    pub(crate) fn set_aside(&mut self, id: ActorId, place: usize, task: TaskId) {
        self.dequeue(id, place);
        self.all.entry(id).or_default().lacking.insert(task);
    }

    /// A call is sent. Returns its place among all that were.
    pub(crate) fn on_sent(&mut self, id: ActorId, task: TaskId) -> Option<u64> {
        let actor = self.all.get_mut(&id)?;
        actor.sent.push_back(task);
        actor.sequence += 1;
        Some(actor.sequence)
    }

    /// Notes the reply to a call. Returns the earliest time at which the call can have begun.
    pub(crate) fn on_replied(&mut self, spec: &TaskSpec, now: u64) -> u64 {
        let mut began = 0;
        if let Target::Actor(id) = spec.target
            && let Some(actor) = self.all.get_mut(&id)
        {
            match actor.sent.front() {
                Some(first) if *first == spec.id => {
                    actor.sent.pop_front();
                    // The first call cannot have begun before the reply to the one that was sent before it.
                    began = std::mem::replace(&mut actor.replied, now);
                }
                // Calls of concurrency groups and async methods overtake each other.
                _ => actor.sent.retain(|sent| *sent != spec.id),
            }
        }
        began
    }

    /// A call fails without having been replied to.
    pub(crate) fn forget_call(&mut self, id: ActorId, task: TaskId) {
        if let Some(actor) = self.all.get_mut(&id) {
            actor.queue.retain(|queued| *queued != task);
            actor.lacking.remove(&task);
            actor.sent.retain(|sent| *sent != task);
        }
    }

    /// News of an actor. `None`: they are not news.
    pub(crate) fn on_news(&mut self, info: &ActorInfo) -> Option<Turn> {
        let actor = self.all.get_mut(&info.actor_id)?;
        let phase = info.phase;
        // Nothing comes after its death. Who does not know the actor any more does not know how often it
        // was restarted, either.
        let is_old = info.incarnation < actor.incarnation && phase != ActorPhase::Dead;
        if is_old || actor.phase == ActorPhase::Dead {
            return None;
        }
        if !info.class_name.is_empty() {
            actor.class_name.clone_from(&info.class_name);
        }
        actor.why.clone_from(&info.why);
        (actor.home, actor.pid) = (info.node_id, info.pid);
        Some(match phase {
            ActorPhase::Pending => Turn::Nothing,
            ActorPhase::Alive => Turn::Alive { again: info.incarnation > actor.incarnation },
            ActorPhase::Restarting => {
                actor.phase = phase;
                actor.cause = info.cause.clone();
                // Calls that its creator made before the end of its first constructor wait for the next one.
                Turn::Restarting { is_new: actor.is_ours && !actor.has_lived }
            }
            ActorPhase::Dead => Turn::Dead,
        })
    }

    /// The actor takes calls; `again`: in another process than before.
    pub(crate) fn on_alive(&mut self, info: &ActorInfo, again: bool) {
        let Some(actor) = self.all.get_mut(&info.actor_id) else { return };
        actor.phase = info.phase;
        actor.has_lived = true;
        actor.incarnation = info.incarnation;
        actor.address = Some(Arc::new(info.address.clone()));
        if again {
            actor.broken = None;
            // A new process counts the calls that it gets from the beginning.
            actor.sequence = 0;
        }
    }

    /// The actor's process ended, and there is or will be another. Returns the calls that were sent to it.
    pub(crate) fn on_process_lost(
        &mut self,
        id: ActorId,
        cause: &DeathCause,
    ) -> Option<VecDeque<TaskId>> {
        let actor = self.all.get_mut(&id)?;
        actor.address = None;
        actor.broken = None;
        // A broken line has no cause of its own: what was known before says more.
        if cause.kind != DeathKind::Unknown {
            actor.cause = cause.clone();
        }
        Some(std::mem::take(&mut actor.sent))
    }

    /// Calls that had left the queue are at its front again: those that are made again in the order in which they had
    /// ended, then the others.
    pub(crate) fn put_back(&mut self, id: ActorId, tasks: Vec<TaskId>, calls: &Calls) {
        let Some(actor) = self.all.get_mut(&id) else { return };
        let place = |id: &TaskId| calls.remade_place(*id);
        let (mut remade, again): (Vec<TaskId>, Vec<TaskId>) =
            tasks.into_iter().partition(|id| place(id).is_some());
        let mut again = VecDeque::from(again);
        // Those in the queue that run again stand at its front; together with the new ones they are put in one order.
        let waiting = actor.queue.iter().take_while(|id| place(id).is_some()).count();
        remade.extend(actor.queue.drain(..waiting));
        remade.sort_by_key(place);
        if mutant!("retried-methods-come-last") {
            std::mem::swap(&mut again, &mut actor.queue);
        }
        again.append(&mut actor.queue);
        actor.queue = remade.into_iter().chain(again).collect();
    }

    /// The actors in a process that could not be connected to. Left out are those to which calls went over a
    /// connection that has broken since: such calls may have begun.
    pub(crate) fn unreached_at(&self, worker: WorkerId) -> Vec<ActorId> {
        let is_it = |actor: &Actor| actor.broken.is_none() && actor.is_at(worker);
        self.all.iter().filter(|(_, actor)| is_it(actor)).map(|(id, _)| *id).collect()
    }

    /// Takes the calls that were sent to the actor.
    pub(crate) fn take_sent(&mut self, id: ActorId) -> VecDeque<TaskId> {
        self.all.get_mut(&id).map_or_else(VecDeque::new, |actor| std::mem::take(&mut actor.sent))
    }

    /// Counts a call as sent again, as before its actor's process was lost.
    pub(crate) fn keep_sent(&mut self, id: ActorId, task: TaskId) {
        self.all.entry(id).or_default().sent.push_back(task);
    }

    /// The actor is dead. Returns the calls that were sent to it, and its constructor's arguments.
    pub(crate) fn on_dead(
        &mut self,
        id: ActorId,
        cause: DeathCause,
    ) -> Option<(Vec<TaskId>, Vec<ObjectId>)> {
        let actor = self.all.get_mut(&id)?;
        actor.phase = ActorPhase::Dead;
        actor.address = None;
        actor.cause = cause;
        let sent = actor.sent.drain(..).collect();
        Some((sent, std::mem::take(&mut actor.held)))
    }

    /// The error of calls to an actor that is dead, or not available for now.
    pub(crate) fn dead_error(&self, id: ActorId, kind: ErrorKind) -> Stored {
        let Some(actor) = self.all.get(&id) else { return Stored::Pending };
        let kind = match &actor.refused {
            _ if mutant!("death-blamed-on-the-group") => ErrorKind::ActorGroupRemoved,
            _ if mutant!("death-blamed-on-the-environment") => ErrorKind::RuntimeEnvSetup,
            _ if mutant!("death-blamed-on-the-place") => ErrorKind::ActorUnschedulable,
            // A refusal says more than the end that follows from it.
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

    /// Notes that the connection to a process broke. If an actor lives there, news of it will come; if none does,
    /// the actor is given up after [`BROKEN_WAIT_US`].
    pub(crate) fn on_link_broken(&mut self, worker: WorkerId, ctx: &mut Context) {
        let there = self.all.iter().filter(|(_, actor)| actor.is_at(worker));
        let mut broken: Vec<ActorId> = there.map(|(id, _)| *id).collect();
        // The table has no order of its own, and equal histories are to give equal actions (STATE-1).
        broken.sort_unstable();
        for id in broken {
            if let Some(actor) = self.all.get_mut(&id) {
                // A second break does not prolong the wait.
                actor.broken.get_or_insert(ctx.now());
                self.broken.insert(id);
                ctx.push(Action::Subscribe(id));
            }
        }
    }

    /// Returns the earliest time at which the wait for news of an actor with a broken connection
    /// ends.
    pub(crate) fn next_tick(&self) -> Option<u64> {
        let broken = self.broken.iter().filter_map(|id| self.all.get(id)?.broken);
        broken.map(|at| at + BROKEN_WAIT_US).min()
    }

    /// The actors for which the wait for news after a broken connection is over.
    pub(crate) fn take_due(&mut self, now: u64) -> Vec<ActorId> {
        let Self { all, broken } = self;
        broken.retain(|id| all.get(id).is_some_and(|actor| actor.broken.is_some()));
        let is_over = |id: &&ActorId| {
            let at = all.get(*id).and_then(|actor| actor.broken);
            at.is_some_and(|at| now >= at + BROKEN_WAIT_US)
        };
        broken.iter().filter(is_over).copied().collect()
    }

    /// Keeps the address of an actor whose wait for news is over: it is called where it was.
    pub(crate) fn on_line_given_up(&mut self, id: ActorId, address: Option<Arc<WorkerAddress>>) {
        if let Some(actor) = self.all.get_mut(&id) {
            actor.address = address;
        }
    }
}
