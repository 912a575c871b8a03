//! The executor: what this process runs for others. Calls wait in the inbox for their arguments, are
//! handed out to the front, and are answered when the front reports how they went.

mod explain;
mod inbox;
mod recent;
mod rows;
mod running;
mod work;

use std::collections::BTreeSet;
use std::sync::Arc;

use helio_proto::control::ActorSpec;
use helio_proto::peer::Reference;
use helio_proto::template::Template;
use helio_types::{ActorId, IdMap, ObjectId, TaskId, WorkerAddress, WorkerId, mutant};

use crate::value::{Bytes, Payload};
use inbox::Inbox;
pub(crate) use inbox::{Input, Item, Waiting};
use recent::Recent;
pub(crate) use work::Awaited;
pub use work::{Call, Construct, Lease, Work};

/// A call and its caller.
pub(crate) type CallOf = (TaskId, Arc<WorkerAddress>);

/// The outcome of cancelling a call of this process.
pub(crate) enum Cancelled {
    /// The call had not begun and never will.
    NotBegun(Arc<WorkerAddress>),
    /// The call runs and is to be interrupted.
    Running,
    /// The call is not here, or has ended.
    Unknown,
}

/// The actor that this process is, if it is one.
#[derive(Debug, Default)]
struct Identity {
    /// The name of the actor's class; empty if this worker is not an actor.
    class: String,
    /// Whether its calls run side by side.
    is_concurrent: bool,
    /// Nil: no actor.
    actor: ActorId,
}

/// The calls of others that this process runs: the inbox, and what running calls and blocked threads wait for.
#[derive(Debug)]
pub(crate) struct Executor<P> {
    inbox: Inbox<P>,
    /// Tasks that have room for their arguments or wait for it, by the request for it.
    rooms: IdMap<TaskId, u64>,
    /// Number of items that the callers of our generators have read, by call.
    consumed: IdMap<TaskId, u32>,
    /// The call handed out last that has not ended: the parent of what is submitted meanwhile.
    current: TaskId,
    /// Threads that wait while calls run.
    blocked: BTreeSet<u64>,
    /// The object that each waiting thread lacks, the latest wait last.
    waits: Vec<(u64, ObjectId)>,
    identity: Identity,
    serves_actor: bool,
    recent: Recent,
}

impl<P> Default for Executor<P> {
    fn default() -> Self {
        Self {
            inbox: Inbox::default(),
            rooms: IdMap::default(),
            consumed: IdMap::default(),
            current: TaskId::NIL,
            blocked: BTreeSet::new(),
            waits: Vec::new(),
            identity: Identity::default(),
            serves_actor: false,
            recent: Recent::default(),
        }
    }
}

impl<P: Clone> Executor<P> {
    pub(crate) fn push(&mut self, waiting: Waiting<P>) {
        self.inbox.push(waiting);
    }

    /// A call that this process makes of itself.
    pub(crate) fn push_own(&mut self, waiting: Waiting<P>) {
        self.inbox.push_own(waiting);
    }

    /// Work that goes before everything else: cancellations and the end.
    pub(crate) fn push_urgent(&mut self, work: Work<P>) {
        self.inbox.push_urgent(work);
    }

    /// The order to end after the calls that arrived before it.
    pub(crate) fn push_exit(&mut self, reason: String) {
        let exit = Work::Exit { reason, drain: true };
        // With nothing here it need not queue; behind calls it waits for them.
        if self.inbox.is_empty() {
            self.inbox.push_urgent(exit);
        } else {
            let item = Item::Other(exit);
            self.inbox.push(Waiting { item, body: None, inputs: Vec::new() });
        }
    }

    /// Whether the order to end has waited for what ran, and is next.
    pub(crate) fn may_end(&self) -> bool {
        self.inbox.may_end()
    }

    /// The process is about to become an actor.
    pub(crate) fn serve_actor(&mut self) {
        self.serves_actor = true;
    }

    pub(crate) fn serves_actor(&self) -> bool {
        self.serves_actor
    }

    pub(crate) fn has_work(&self) -> bool {
        self.inbox.has_work()
    }

    /// Returns the caller of the next work, if that is a task.
    pub(crate) fn caller_of_next_task(&self) -> Option<WorkerId> {
        self.inbox.caller_of_next_task()
    }

    /// The next thing to do, if one is complete.
    pub(crate) fn next(&mut self, now: u64) -> Option<Work<P>> {
        let work = self.inbox.pop(now, !self.identity.is_concurrent)?;
        match &work {
            Work::Call(call) => self.current = call.task,
            Work::Construct(construct) => self.identity = Identity::of(&construct.spec),
            Work::Cancel(_) | Work::Exit { .. } => {}
        }
        Some(work)
    }

    /// A call of an actor that runs several at once has found its place among them.
    pub(crate) fn on_runs(&mut self, task: TaskId, now: u64) {
        self.inbox.runs(task, now);
    }

    /// The call has ended; its caller, unless the call is not known here.
    pub(crate) fn finish(
        &mut self,
        task: TaskId,
        failed: bool,
        now: u64,
    ) -> Option<Arc<WorkerAddress>> {
        self.consumed.remove(&task);
        self.inbox.forget_cancelled(task);
        let begun = self.inbox.finished(task)?;
        let caller = begun.caller.clone();
        self.recent.add(begun, failed, now);
        self.current = self.inbox.running().last().map_or(TaskId::NIL, |call| call.task);
        Some(caller)
    }

    pub(crate) fn current(&self) -> TaskId {
        self.current
    }

    pub(crate) fn caller_of(&self, task: TaskId) -> Option<&Arc<WorkerAddress>> {
        self.inbox.running().get(task).map(|call| &call.caller)
    }

    pub(crate) fn cancel(&mut self, task: TaskId) -> Cancelled {
        match self.inbox.remove(task) {
            Some(caller) => Cancelled::NotBegun(caller),
            None if self.caller_of(task).is_some() => Cancelled::Running,
            None => Cancelled::Unknown,
        }
    }

    /// A running call is to be interrupted.
    pub(crate) fn interrupt(&mut self, task: TaskId) {
        self.inbox.cancel(task);
        self.inbox.push_urgent(Work::Cancel(task));
    }

    pub(crate) fn is_cancelled(&self, task: TaskId) -> bool {
        self.inbox.is_cancelled(task)
    }

    /// Whether any call runs here.
    pub(crate) fn runs_calls(&self) -> bool {
        !self.inbox.running().is_empty()
    }

    /// Whether a call of that process runs here.
    pub(crate) fn runs_for(&self, caller: WorkerId) -> bool {
        self.inbox.running().of_caller(caller)
    }

    /// Drops and returns the calls of a dead caller that have not begun. Running ones go on, although nobody gets
    /// their answers.
    pub(crate) fn caller_gone(&mut self, caller: WorkerId) -> Vec<TaskId> {
        self.inbox.caller_gone(caller)
    }
}

/// Items of generators.
impl<P: Clone> Executor<P> {
    pub(crate) fn was_consumed(&mut self, task: TaskId, count: u32) {
        let read = self.consumed.entry(task).or_default();
        // A count that comes late takes nothing back.
        *read = count.max(*read);
    }

    /// Whether a generator that made the item `index` may go on: its caller has fewer than `bound` unread
    /// items, or is gone.
    pub(crate) fn may_yield(&self, task: TaskId, index: u32, bound: u32) -> bool {
        let made = index + 1;
        let read = self.consumed.get(&task).copied().unwrap_or(0).min(made);
        // Nobody reads for a caller that is gone: the generator is to come to its end.
        self.caller_of(task).is_none()
            || made - read < bound
            || mutant!("generator-ignores-its-bound")
    }
}

/// Arguments that are brought to this node.
impl<P: Clone> Executor<P> {
    /// Notes the task's request for room for its arguments. Returns its earlier request, if there is one.
    pub(crate) fn asks_for_room(&mut self, task: TaskId, request: u64) -> Option<u64> {
        self.rooms.insert(task, request)
    }

    /// The request by which the task has room or waits for it.
    pub(crate) fn room_of(&self, task: TaskId) -> Option<u64> {
        self.rooms.get(&task).copied()
    }

    /// Notes that the task needs no room for arguments any more. Returns its request.
    pub(crate) fn needs_no_room(&mut self, task: TaskId) -> Option<u64> {
        if self.rooms.is_empty() { None } else { self.rooms.remove(&task) }
    }

    /// The object is here, or `payload` is the error in its place.
    pub(crate) fn arrived(&mut self, id: ObjectId, payload: &Payload<P>) {
        self.inbox.arrived(id, payload);
    }

    /// The reference by which a waiting call knows an object that it lacks.
    pub(crate) fn lacks(&self, id: ObjectId) -> Option<&Reference> {
        self.inbox.lacks(id)
    }

    /// Takes out the tasks (not methods) that lack the object.
    pub(crate) fn take_lacking(&mut self, id: ObjectId) -> Vec<CallOf> {
        self.inbox.take_lacking(id)
    }

    /// Takes out tasks (not methods) that were not handed out, the last `max` of them.
    pub(crate) fn take_unstarted(&mut self, max: usize) -> Vec<CallOf> {
        self.inbox.unstarted(max)
    }
}

/// Threads of this process that wait while they run calls.
impl<P: Clone> Executor<P> {
    /// Whether tasks go back to their callers at once: what this process waits for may be among them.
    pub(crate) fn refuses_tasks(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// Notes that a thread waits. Returns whether it is the first one, and the process runs a call.
    pub(crate) fn block(&mut self, thread: u64, awaited: Option<ObjectId>) -> bool {
        self.waits.extend(awaited.map(|id| (thread, id)));
        // A driver, or a thread beside the calls: no CPU is lent for it.
        if self.inbox.running().is_empty() {
            return false;
        }
        self.blocked.insert(thread);
        // The daemon lends one CPU for the process, however many of its threads wait.
        self.blocked.len() == 1
    }

    /// Notes that a thread waits no longer. Returns whether it was the last one.
    pub(crate) fn unblock(&mut self, thread: u64) -> bool {
        self.waits.retain(|(waiting, _)| *waiting != thread);
        self.blocked.remove(&thread) && self.blocked.is_empty()
    }
}

impl Identity {
    fn of(spec: &ActorSpec) -> Self {
        let groups = !spec.concurrency_groups.is_empty();
        let is_concurrent = spec.is_async || spec.max_concurrency > 1 || groups;
        Self { class: spec.class_name.clone(), is_concurrent, actor: spec.actor_id }
    }

    /// A call by the name that users know.
    fn title(&self, template: &Template) -> String {
        match self.class.as_str() {
            "" => template.name.clone(),
            class => format!("{class}.{}", template.name),
        }
    }
}

/// An argument that arrived inside the call.
pub(crate) fn here<P>(bytes: Vec<u8>, is_error: bool) -> Input<P> {
    Input::Here(Payload { bytes: Bytes::of(bytes), is_error })
}
