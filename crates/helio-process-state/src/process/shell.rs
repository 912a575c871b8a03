//! Work, ids, effects and facts, as the shell takes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use helio_owner_state::Owner;
use helio_proto::inspect::TaskRow;
use helio_proto::node::{AbortObject, JobConfig};
use helio_types::{ActorId, NodeAddress, ObjectId, TaskId, WorkerAddress};

use super::Process;
use crate::event::{Action, Signals};
use crate::executor::Work;
use crate::links::Links;
use crate::requests::Answer;
use crate::value::Memory;

impl<M: Memory> Process<M> {
    /// The next thing to do, if one is complete.
    pub fn next_work(&mut self, now: u64) -> Option<Work<M::Pin>> {
        self.awaits_answer = self.must_answer_first();
        if self.awaits_answer { None } else { self.executor.next(now) }
    }

    /// Whether the next task has to wait, because an answer to its caller does, for a borrow to be confirmed.
    /// A caller takes only the first call without an answer for one that has begun: if this process died now,
    /// a task without retries would begin a second time.
    pub(super) fn must_answer_first(&self) -> bool {
        let next = || self.executor.caller_of_next_task();
        self.owner.has_unsent() && next().is_some_and(|caller| self.owner.holds_back(caller))
    }

    /// Whether [`Process::next_work`] has something.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.executor.has_work() && !self.must_answer_first()
    }

    /// Whether this process is, or is about to become, an actor.
    #[must_use]
    pub fn serves_actor(&self) -> bool {
        self.executor.serves_actor()
    }

    /// The call handed out last that has not ended.
    #[must_use]
    pub fn current_task(&self) -> TaskId {
        self.executor.current()
    }

    /// Whether calls were handed out that have not ended.
    #[must_use]
    pub fn runs_calls(&self) -> bool {
        self.executor.runs_calls()
    }

    /// Whether the running call was cancelled.
    #[must_use]
    pub fn is_cancelled(&self, task: TaskId) -> bool {
        self.executor.is_cancelled(task)
    }

    /// Whether a generator that made the item `index` may go on, when its caller allows `bound` unread
    /// items.
    #[must_use]
    pub fn may_yield(&self, task: TaskId, index: u32, bound: u32) -> bool {
        self.executor.may_yield(task, index, bound)
    }

    pub(super) fn work_arrived(&mut self) {
        self.signals.news = true;
        self.signals.work = true;
    }
}

impl<M: Memory> Process<M> {
    /// A number for a request of the front.
    pub fn mint_request(&mut self) -> u64 {
        self.requests.mint()
    }

    /// The answer to a request, once.
    pub fn take_answer(&mut self, request: u64) -> Option<Answer> {
        self.requests.take(request)
    }

    /// Forgets a request that no thread waits for any more.
    pub fn forget_request(&mut self, request: u64) {
        self.awaited_creations.retain(|_, waiting| *waiting != request);
        if let Some(object_id) = self.requests.forget(request) {
            self.store.end_writing(object_id);
            self.links.tell_node(AbortObject { object_id });
        }
    }

    /// A fresh task.
    pub fn new_task(&mut self) -> TaskId {
        self.ids.task(self.job.job_id)
    }

    /// A fresh call of an actor's method.
    pub fn new_method_call(&mut self, actor: ActorId) -> TaskId {
        self.ids.method(actor)
    }

    /// A fresh object of `put`.
    pub fn new_put(&mut self) -> ObjectId {
        self.ids.put(self.job.job_id)
    }

    /// A fresh actor.
    pub fn new_actor(&mut self) -> ActorId {
        self.ids.actor(self.job.job_id)
    }

    /// A number that no other process of the session mints.
    pub fn unique(&mut self) -> u64 {
        self.ids.unique()
    }

    /// The actions that follow from what the shell has read or called since, in order.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Takes the changes for waiting threads since the shell looked last.
    pub fn take_signals(&mut self) -> Signals {
        std::mem::take(&mut self.signals)
    }

    /// The links, whose output the shell writes.
    pub fn links(&mut self) -> &mut Links {
        &mut self.links
    }

    /// The owner machine, to be read.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The job that this process serves; a driver's own.
    #[must_use]
    pub fn job(&self) -> &JobConfig {
        &self.job
    }

    /// The job in wire form.
    #[must_use]
    pub fn job_wire(&self) -> &[u8] {
        &self.job_wire
    }

    /// Returns the reason why the session is over for this process; `None` while it goes on.
    #[must_use]
    pub fn ended(&self) -> Option<&str> {
        self.ended.as_deref()
    }

    /// Rows of calls that ran here for those who cannot tell of them any more; with `all` for every caller,
    /// as they may be ending, too. `wall` makes microseconds since 1970 of the machine's time.
    #[must_use]
    pub fn rows_of_others(&self, all: bool, wall: impl Fn(u64) -> u64) -> Vec<TaskRow> {
        let me = self.owner.address();
        let is_gone = |caller: &WorkerAddress| {
            caller.worker_id != me.worker_id && self.links.to_process(caller.worker_id).is_none()
        };
        self.executor.rows(me, |caller| all || is_gone(caller), wall)
    }

    /// The class of the actor that lives here ("": none does), and how many calls of each name run.
    #[must_use]
    pub fn running_calls(&self) -> (&str, BTreeMap<&str, u64>) {
        self.executor.running_calls()
    }

    /// Calls that were sent here and do not run.
    pub fn queued_calls(&self) -> impl Iterator<Item = TaskId> {
        self.executor.queued()
    }

    /// Returns the time at which [`Event::Tick`] is due, in microseconds of the machine's clock;
    /// `None` if time does not matter at present.
    #[must_use]
    pub fn next_tick(&self) -> Option<u64> {
        let parts = [self.owner.next_tick(), self.next_drain(), self.strangers.next_tick()];
        parts.into_iter().flatten().min()
    }

    /// Returns the address of this node's daemon.
    #[must_use]
    pub fn node_address(&self) -> NodeAddress {
        let me = self.owner.address();
        NodeAddress { node_id: me.node_id, host: me.host.clone(), port: me.port }
    }

    /// Returns the address of this process.
    #[must_use]
    pub fn address(&self) -> &Arc<WorkerAddress> {
        self.owner.address()
    }

    /// Requests without an answer and answers that no thread took, in words; none at rest.
    #[must_use]
    pub fn open_requests(&self) -> Vec<String> {
        self.requests.open()
    }

    /// Whether the daemon brings an object of another node, whose owner is told of the copy.
    #[must_use]
    pub fn awaits_a_copy(&self) -> bool {
        self.requests.has_copies()
    }
}
