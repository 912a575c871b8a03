//! The calls of this process that have not ended.
//!
//! ```text
//! Waiting ──deps ready──► Queued ──a lease has room──► Running ──reply──► done
//!    │                      ▲                             │
//!    └──a dep is an error   └──worker died, retries left──┘──none left──► done, with an error
//! ```
//! Calls of actors go from `Waiting` straight into their actor's queue (module [`crate::actors`]).
//!
//! A call whose worker was ended for want of memory waits a while before it is `Queued` again: at once, the memory
//! monitor would have to end the next worker as well. Such an attempt does not count against the call's retries. The
//! time between attempts doubles.

use std::collections::BTreeSet;
use std::sync::Arc;

use helio_proto::peer::STREAMING;
use helio_types::{
    DeathCause, IdMap, NodeAddress, NodeId, TaskId, WorkerAddress, WorkerId, mutant,
};

use crate::context::Context;
use crate::past::Past;
use crate::room::shrink;
use crate::spec::{FIRST_ITEM, TaskSpec};
use crate::value::{add_each, node_of};

/// The first wait of a call whose worker was ended for want of memory, in microseconds.
const OOM_DELAY_US: u64 = 1_000_000;
/// The longest such wait.
const OOM_DELAY_US_MAX: u64 = 60_000_000;

/// The state of a call that has not ended.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum State {
    /// The call waits for that number of dependencies.
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

/// An attempt of a call, as it begins.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) spec: Arc<TaskSpec>,
    /// The number of the attempt, from 0.
    pub(crate) number: u32,
    pub(crate) retries_left: i32,
    pub(crate) past: Past,
}

/// A call on its way to the process that runs it.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) spec: Arc<TaskSpec>,
    /// The number of the attempt, from 0.
    pub(crate) attempt: u32,
    /// For a method's call that had ended and runs again: its position in the order in which calls
    /// ended.
    pub(crate) remade: Option<u64>,
}

/// A call that has not ended.
#[derive(Debug)]
pub(crate) struct Task {
    spec: Arc<TaskSpec>,
    state: State,
    attempt: u32,
    retries_left: i32,
    cancelled: bool,
    /// The process to which it was sent last.
    at: Option<Arc<WorkerAddress>>,
    /// The time at which the call was sent last, in microseconds; 0 if never.
    sent: u64,
    /// For a generator: the number of items that the present attempt has yielded.
    yielded: u32,
    past: Past,
}

impl Task {
    pub(crate) fn spec(&self) -> &Arc<TaskSpec> {
        &self.spec
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// The number of the present attempt, from 0.
    pub(crate) fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Returns the number of retries left; negative means no limit.
    pub(crate) fn retries_left(&self) -> i32 {
        self.retries_left
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    /// The process to which it was sent last.
    pub(crate) fn at(&self) -> Option<&Arc<WorkerAddress>> {
        self.at.as_ref()
    }

    /// Returns the time at which the call was sent last, in microseconds; 0 if never.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    pub(crate) fn past(&self) -> &Past {
        &self.past
    }

    /// Whether it went to a worker or an actor and has not come back.
    pub(crate) fn is_sent(&self) -> bool {
        matches!(self.state, State::OnLease(_) | State::OnActor)
    }

    /// Whether later calls of its actor may overtake this one while it lacks arguments.
    pub(crate) fn is_unordered(&self) -> bool {
        self.spec.template.is_unordered || self.past.earlier.is_remade
    }

    /// Whether the object is an item that its present attempt has yielded, and yields no second time.
    pub(crate) fn has_yielded(&self, index: u32) -> bool {
        self.spec.returns == STREAMING && index < FIRST_ITEM + self.yielded
    }

    /// Whether the call's values are not wanted any more. Items of a generator that were read are still wanted
    /// after its reader has left it.
    pub(crate) fn is_unwanted(&self) -> bool {
        self.cancelled && !self.past.earlier.is_left
    }

    /// Whether the call may run once more for what it has made.
    pub(crate) fn may_run_again(&self) -> bool {
        self.retries_left != 0 && !self.is_unwanted()
    }

    /// Whether its present attempt is that process's.
    pub(crate) fn is_at(&self, worker: WorkerId) -> bool {
        self.at.as_ref().is_some_and(|at| at.worker_id == worker)
    }

    /// The attempt after this one, which failed for that reason.
    pub(crate) fn into_next(self, failure: &str) -> Attempt {
        let mut past = self.past;
        past.earlier.failure = Some(failure.into());
        let (number, retries_left) = (self.attempt + 1, self.retries_left);
        Attempt { spec: self.spec, number, retries_left, past }
    }

    /// Notes the nodes on which a given-up attempt may still leave values, since it may have begun.
    fn stray(&mut self) {
        if let Some(at) = &self.at
            && !mutant!("abandoned-copy-forgotten")
        {
            add_each(&mut self.past.earlier.strays, vec![node_of(at)]);
        }
    }
}

/// The calls of this process that have not ended.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    all: IdMap<TaskId, Task>,
    /// Calls that wait for the time of their next attempt; some may have been cancelled meanwhile.
    delayed: BTreeSet<(u64, TaskId)>,
}

impl Calls {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn contains(&self, id: TaskId) -> bool {
        self.all.contains_key(&id)
    }

    pub(crate) fn get(&self, id: TaskId) -> Option<&Task> {
        self.all.get(&id)
    }

    /// All calls, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Task> {
        self.all.values()
    }

    /// All calls, in the order of their ids.
    pub(crate) fn in_order(&self) -> Vec<&Task> {
        let mut tasks: Vec<&Task> = self.all.values().collect();
        tasks.sort_unstable_by_key(|task| task.spec.id);
        tasks
    }

    /// Begins an attempt that lacks `missing` arguments.
    pub(crate) fn enter(&mut self, attempt: Attempt, missing: u32) {
        let Attempt { spec, number, retries_left, past } = attempt;
        let (id, cancelled) = (spec.id, false);
        let state = if missing == 0 { State::Queued } else { State::Waiting(missing) };
        let (at, sent, yielded) = (None, 0, 0);
        let task =
            Task { spec, state, attempt: number, retries_left, cancelled, at, sent, yielded, past };
        assert!(self.all.insert(id, task).is_none(), "an attempt under way would be forgotten");
    }

    /// An argument is known. Returns the call if it was the last one that it lacked.
    pub(crate) fn on_arg_ready(&mut self, id: TaskId) -> Option<Arc<TaskSpec>> {
        let task = self.all.get_mut(&id)?;
        let State::Waiting(missing) = &mut task.state else { return None };
        assert!(*missing > 0, "a call that lacks nothing does not wait");
        *missing -= 1;
        if *missing > 0 {
            return None;
        }
        task.state = State::Queued;
        Some(task.spec.clone())
    }

    /// Arguments of a queued call were lost meanwhile: it waits for so many.
    pub(crate) fn wait_again(&mut self, id: TaskId, missing: u32) {
        if let Some(task) = self.all.get_mut(&id) {
            task.state = State::Waiting(missing);
        }
    }

    /// The call goes to a process: under a lease, or to its actor.
    pub(crate) fn send(
        &mut self,
        id: TaskId,
        state: State,
        to: &Arc<WorkerAddress>,
        now: u64,
    ) -> Option<Sending> {
        let task = self.all.get_mut(&id)?;
        assert!(
            task.state == State::Queued || state == State::OnActor,
            "a call would run at two workers at once"
        );
        task.state = state;
        task.at = Some(to.clone());
        task.sent = now;
        let earlier = &task.past.earlier;
        let remade = earlier.is_remade.then_some(earlier.ended);
        Some(Sending { spec: task.spec.clone(), attempt: task.attempt, remade })
    }

    /// Notes when the call can have begun: a worker runs calls in the order sent, so not before the previous one ended.
    pub(crate) fn has_begun(&mut self, id: TaskId, began: u64) {
        if let Some(task) = self.all.get_mut(&id) {
            task.sent = task.sent.max(began);
        }
    }

    /// A worker hands the call back, which it has not begun: it is queued again. Returns its lease's request.
    pub(crate) fn on_handed_back(&mut self, id: TaskId, from: WorkerId) -> Option<u64> {
        let task = self.all.get_mut(&id).filter(|task| task.is_at(from))?;
        let State::OnLease(request) = task.state else { return None };
        task.state = State::Queued;
        Some(request)
    }

    /// A call that was sent to its actor has not arrived, and is queued again, which costs no retry. Whether it is
    /// wanted still.
    pub(crate) fn take_back_unsent(&mut self, id: TaskId) -> bool {
        let Some(task) = self.all.get_mut(&id).filter(|task| !task.cancelled) else { return false };
        (task.state, task.at) = (State::Queued, None);
        true
    }

    /// The process of its actor ended: the call is queued again, as another attempt.
    pub(crate) fn attempt_again(&mut self, id: TaskId, failure: &str) {
        if let Some(task) = self.all.get_mut(&id) {
            task.attempt += 1;
            // The next attempt yields its items from the first one on.
            task.yielded = 0;
            task.state = State::Queued;
            task.past.earlier.failure = Some(failure.into());
        }
    }

    /// The place of a method's call that is made again, among the calls that had ended; `None` for others.
    pub(crate) fn remade_place(&self, id: TaskId) -> Option<u64> {
        let earlier = &self.all.get(&id)?.past.earlier;
        earlier.is_remade.then_some(earlier.ended)
    }

    /// Counts a retry if one is left.
    pub(crate) fn take_retry(&mut self, id: TaskId) -> bool {
        let Some(task) = self.all.get_mut(&id) else { return false };
        match task.retries_left {
            0 => false,
            n => {
                // A negative number has no end, and stays.
                let counts = n > 0 && !mutant!("retry-not-counted");
                task.retries_left = if counts { n - 1 } else { n };
                true
            }
        }
    }

    /// Notes the nodes on which a given-up attempt of that call may still leave values.
    pub(crate) fn stray(&mut self, id: TaskId) {
        if let Some(task) = self.all.get_mut(&id) {
            task.stray();
        }
    }

    /// An attempt that was given up has left values on these nodes.
    pub(crate) fn add_strays(&mut self, id: TaskId, nodes: Vec<NodeAddress>) {
        if let Some(task) = self.all.get_mut(&id) {
            add_each(&mut task.past.earlier.strays, nodes);
        }
    }

    /// Forgets stray values on a node that has died.
    pub(crate) fn forget_strays(&mut self, node: NodeId) {
        for earlier in self.all.values_mut().filter_map(|task| task.past.earlier.present()) {
            earlier.strays.retain(|stray| stray.node_id != node);
        }
    }

    /// A generator has yielded an item.
    pub(crate) fn on_item(&mut self, id: TaskId, index: u32, is_stored: bool) {
        let Some(task) = self.all.get_mut(&id) else { return };
        if index > task.yielded {
            // Those between were lost on the way, and may lie there.
            task.stray();
        }
        task.yielded = task.yielded.max(index + 1);
        // Nobody holds what comes when the reader has left.
        if is_stored && !task.past.earlier.is_left {
            task.past.earlier.items = task.past.earlier.items.max(index + 1);
        }
    }

    /// Whether a generator that has yielded `items` items has yielded some that this process has not heard of.
    pub(crate) fn has_unheard(&self, id: TaskId, items: u32) -> bool {
        self.all.get(&id).is_some_and(|task| task.yielded < items)
    }

    /// Whether a generator that its reader has left was run again to make lost items, and the item `index` was the
    /// last of them.
    pub(crate) fn has_made_all(&self, id: TaskId, index: u32) -> bool {
        self.all.get(&id).is_some_and(|task| {
            let earlier = &task.past.earlier;
            earlier.is_left && !task.cancelled && index + 1 >= earlier.items
        })
    }

    /// The call is not wanted any more, or (`is_left`) its reader has left it. Returns where it is on its way.
    pub(crate) fn cancel(&mut self, id: TaskId, is_left: bool) -> Option<(Arc<TaskSpec>, State)> {
        let task = self.all.get_mut(&id)?;
        task.cancelled = true;
        // Most calls have no past: writing to it allocates one.
        if task.past.earlier.is_left != is_left {
            task.past.earlier.is_left = is_left;
        }
        Some((task.spec.clone(), task.state))
    }

    /// The calls that were made in that call.
    pub(crate) fn children_of(&self, parent: TaskId) -> Vec<TaskId> {
        let made = self.all.iter().filter(|(_, task)| task.spec.parent == parent);
        let mut children: Vec<TaskId> = made.map(|(child, _)| *child).collect();
        // The table has no order of its own, and equal histories are to give equal actions (STATE-1).
        children.sort_unstable();
        children
    }

    /// The call has ended.
    pub(crate) fn end(&mut self, id: TaskId, ctx: &mut Context) -> Option<Task> {
        let task = self.all.remove(&id)?;
        shrink(&mut self.all, ctx);
        Some(task)
    }

    /// The present attempt has ended, and another one follows.
    pub(crate) fn end_attempt(&mut self, id: TaskId) -> Option<Task> {
        self.all.remove(&id)
    }

    /// The call's worker was ended for want of memory: it is tried again later.
    pub(crate) fn delay(&mut self, id: TaskId, cause: &DeathCause, now: u64) {
        let Some(task) = self.all.get_mut(&id) else { return };
        let waits = matches!(task.state, State::Delayed(_));
        assert!(!waits, "a call would be tried again twice");
        let delay =
            OOM_DELAY_US.saturating_mul(1 << task.past.earlier.ooms.min(16)).min(OOM_DELAY_US_MAX);
        let delay = if mutant!("out-of-memory-tried-again-at-once") { 0 } else { delay };
        task.past.earlier.ooms += 1;
        // Further lines list processes and advice, which the error of the last attempt has, too.
        let first_line = cause.message.lines().next().unwrap_or_default();
        task.past.earlier.failure = Some(first_line.into());
        task.state = State::Delayed(now + delay);
        self.delayed.insert((now + delay, id));
    }

    /// Returns the earliest time at which a delayed call is tried again.
    pub(crate) fn next_tick(&self) -> Option<u64> {
        self.delayed.first().map(|(at, _)| *at)
    }

    /// The next call whose wait is over, with the reason why its last attempt ended.
    pub(crate) fn take_due(&mut self, now: u64) -> Option<(TaskId, Arc<str>)> {
        while let Some(&(at, id)) = self.delayed.first()
            && at <= now
        {
            self.delayed.pop_first();
            let is_next = self.delayed.first().is_none_or(|(next, _)| *next >= at);
            assert!(is_next, "a call would wait longer than one that came later");
            // The call may have been cancelled meanwhile.
            let task = self.all.get(&id).filter(|task| task.state == State::Delayed(at));
            if let Some(task) = task {
                return Some((id, task.past.earlier.failure.clone().unwrap_or_default()));
            }
        }
        None
    }
}
