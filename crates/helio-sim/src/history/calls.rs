//! The history of calls.

use helio_types::{ActorId, NodeId, ObjectId, PlacementGroupId, TaskId, WorkerId};

use super::{Call, History};

/// Microseconds that a task waits after its worker was ended for want of memory for the first time.
const OOM_DELAY_US: u64 = 1_000_000;
/// The longest such wait.
const OOM_DELAY_US_MAX: u64 = 60_000_000;

use crate::ops::{Env, Needs, Target};

impl History {
    /// A process made a call, inside another one or in a driver's program.
    pub fn submitted(
        &mut self,
        task: TaskId,
        owner: WorkerId,
        parent: TaskId,
        retries: i32,
        (group, takes): (PlacementGroupId, u32),
    ) {
        self.owners.insert(task, owner);
        self.calls.insert(task, Call { owner, retries, group, takes, ..Call::default() });
        if !parent.is_nil() {
            self.parents.insert(task, parent);
        }
    }

    /// The call raises each time, and is tried again each time.
    pub fn raises_again(&mut self, task: TaskId) {
        self.raise_again.insert(task);
    }

    /// Returns the number of tries of a call that raises each time, and the number that it had to
    /// have.
    #[must_use]
    pub fn raised_after(&self, task: TaskId) -> Option<(usize, usize)> {
        let call = self.calls.get(&task).filter(|_| self.raise_again.contains(&task))?;
        Some((self.tries(task), call.retries as usize + 1))
    }

    /// A task is to run there; on which node, where it is one.
    pub fn targeted(&mut self, task: TaskId, target: Target, node: NodeId) {
        if target != Target::Anywhere {
            self.targets.insert(task, (target, node));
        }
    }

    /// Returns the target of a task, and its node where it is one.
    #[must_use]
    pub fn target(&self, task: TaskId) -> (Target, NodeId) {
        self.targets.get(&task).copied().unwrap_or_default()
    }

    /// Whether the only node on which a task may run was lost, or takes no work any more.
    #[must_use]
    pub fn lost_target(&self, task: TaskId) -> bool {
        self.is_target_lost(self.target(task))
    }

    /// Whether what may run on one node alone has lost it, or that takes no work any more.
    pub(super) fn is_target_lost(&self, (target, node): (Target, NodeId)) -> bool {
        matches!(target, Target::Here | Target::There)
            && (self.drained.contains(&node) || self.nodes_lost.contains(&node))
    }

    /// Whether no node was lost so far, or told to leave.
    #[must_use]
    pub fn has_all_nodes(&self) -> bool {
        self.nodes_lost.is_empty() && self.drained.is_empty()
    }

    /// Notes the needs of a call besides a CPU.
    pub(crate) fn call_needs(&mut self, task: TaskId, needs: Needs) {
        self.calls.entry(task).or_default().needs = needs;
    }

    /// Returns the needs of a call, or of an actor, besides a CPU.
    pub(crate) fn needs(&self, task: TaskId) -> Needs {
        self.calls.get(&task).map(|call| call.needs).unwrap_or_default()
    }

    /// A call's reply has arrived at its caller.
    pub fn answered(&mut self, task: TaskId, may_run_again: bool) {
        if let Some(call) = self.calls.get_mut(&task) {
            (call.is_answered, call.may_run_again) = (true, may_run_again);
        }
    }

    /// Returns the number of a process's calls to an actor that have no reply.
    #[must_use]
    pub fn unanswered(&self, caller: WorkerId, actor: ActorId) -> usize {
        let of_actor = self.calls.iter().filter(|(task, call)| {
            task.actor() == actor && call.owner == caller && !call.is_answered
        });
        of_actor.count()
    }

    /// Returns the number of calls and actors that need the runtime environment that can never be
    /// made.
    #[must_use]
    pub fn asked_for_broken_env(&self) -> usize {
        let calls = self.calls.values().map(|call| call.needs);
        let actors = self.actors.values().map(|actor| actor.needs);
        calls.chain(actors).filter(|needs| needs.env == Env::Broken).count()
    }

    /// Whether the runtime environment of a call or an actor can never be made.
    #[must_use]
    pub fn has_broken_env(&self, task: TaskId, actor: ActorId) -> bool {
        self.needs(task).env == Env::Broken || self.actor_needs_of(actor).env == Env::Broken
    }

    /// A call went to a worker.
    pub fn sent(&mut self, task: TaskId, to: WorkerId) {
        self.calls.entry(task).or_default().sent.push(to);
    }

    /// A worker begins a call.
    pub fn begun(&mut self, task: TaskId, at: WorkerId) {
        self.calls.entry(task).or_default().begun.push(at);
    }

    /// A worker has come to a call's end.
    pub fn call_ended(&mut self, task: TaskId, at: WorkerId, has_value: bool) {
        let call = self.calls.entry(task).or_default();
        call.ended.insert(at);
        if has_value {
            call.done.insert(at);
        }
    }

    /// A call is made with references to these objects.
    pub fn takes(&mut self, task: TaskId, objects: &[ObjectId]) {
        for object in objects {
            if let Some(call) = self.calls.get_mut(&object.task()) {
                call.takers.insert(task);
            }
        }
    }

    /// Whether a call has its result, and nothing is known that could have taken it away: nobody is to run it again.
    #[must_use]
    pub fn is_done(&self, task: TaskId) -> bool {
        self.calls.get(&task).is_some_and(|call| !call.done.is_empty()) && !self.is_undone(task)
    }

    /// Whether what a call made may be lost, with its job too, or what a call made that took it: nobody may hold an
    /// argument any more when its taker is run again.
    fn is_undone(&self, task: TaskId) -> bool {
        let Some(call) = self.calls.get(&task) else { return false };
        let is_home_lost =
            |at: &WorkerId| self.homes.get(at).is_some_and(|home| self.nodes_lost.contains(home));
        let is_unheard =
            |at: &WorkerId| self.is_lost(at) || self.is_apart(call.owner, *at) || is_home_lost(at);
        let mut made = self.written.keys().filter(|object| object.task() == task);
        self.jobs_over.contains(&task.job())
            || call.done.iter().any(is_unheard)
            || made.any(|object| self.object_lost(*object))
            || call.takers.iter().any(|taker| self.is_undone(*taker))
    }

    /// Notes that a call was cancelled, and with `is_deep` those that it made.
    pub fn cancelled(&mut self, task: TaskId, is_deep: bool) {
        *self.cancelled.entry(task).or_default() |= is_deep;
    }

    /// Whether a call was cancelled, or one above it, with those that they made.
    #[must_use]
    pub fn was_cancelled_deep(&self, task: TaskId) -> bool {
        let mut at = Some(&task);
        while let Some(task) = at {
            if self.cancelled.get(task) == Some(&true) {
                return true;
            }
            at = self.parents.get(task);
        }
        false
    }

    /// Whether a process may ask another one to stop a call: it was cancelled, or is a generator that its reader has left.
    #[must_use]
    pub fn may_be_stopped(&self, task: TaskId) -> bool {
        self.was_cancelled(task) || self.left.contains(&task)
    }

    /// The owner of a call is told to stop it: what runs goes on until it hears of that, and what was sent may have begun;
    /// nothing else of it begins any more.
    pub fn stopped(&mut self, task: TaskId, is_sent: bool) {
        let has_begun = self.runs_now(task);
        let Some(call) = self.calls.get_mut(&task).filter(|call| !call.is_answered) else { return };
        let more = usize::from(is_sent && !has_begun);
        call.begun_max.get_or_insert(call.begun.len() + more);
    }

    /// Whether the attempt of a call that its owner waits for has begun, as far as one can know.
    pub(super) fn runs_now(&self, task: TaskId) -> bool {
        let Some(call) = self.calls.get(&task) else { return false };
        let Some(at) = call.sent.last().filter(|at| call.begun.last() == Some(at)) else {
            return false;
        };
        let times = |list: &[WorkerId]| list.iter().filter(|worker| *worker == at).count();
        let is_there = !self.is_lost(at) && !self.is_apart(call.owner, *at);
        is_there && !call.ended.contains(at) && times(&call.sent) == times(&call.begun)
    }

    /// The calls that run in a process, as far as one can know.
    pub(crate) fn runs_at(&self, at: WorkerId) -> impl Iterator<Item = TaskId> {
        let runs = move |call: &Call| call.begun.last() == Some(&at) && !call.ended.contains(&at);
        self.calls.iter().filter(move |(_, call)| runs(call)).map(|(task, _)| *task)
    }

    /// Whether all calls that may run in the same workers as this one are tried again without end, or none is ever;
    /// `None`: neither.
    pub(crate) fn are_retried(&self, task: TaskId) -> Option<bool> {
        let key = |task: &TaskId, call: &Call| {
            (call.owner, call.group, call.takes, call.needs, self.target(*task), task.actor())
        };
        let class = key(&task, self.calls.get(&task)?);
        let mut of_class = self.calls.iter().filter(|(task, call)| key(task, call) == class);
        let retries = of_class.next()?.1.retries;
        let is_plain = self.calls.get(&task).is_some_and(|call| !self.is_lost(&call.owner));
        let are_alike = is_plain && of_class.all(|(_, call)| call.retries == retries);
        (are_alike && retries <= 0).then_some(retries < 0)
    }

    /// Whether a call runs in a placement group on a node, or an actor lives in it there.
    pub(crate) fn runs_in(&self, group: PlacementGroupId, node: NodeId) -> bool {
        let is_there = |at: &WorkerId| self.homes.get(at) == Some(&node) && !self.gone.contains(at);
        let mut calls = self.calls.values().filter(|call| call.group == group);
        let mut actors = self.actors.values().filter(|actor| actor.group == group);
        calls.any(|call| {
            call.begun.last().is_some_and(|at| is_there(at) && !call.ended.contains(at))
        }) || actors.any(|actor| actor.constructed.last().is_some_and(is_there))
    }

    /// The calls that a process has made in that call.
    #[must_use]
    pub fn made_in(&self, parent: TaskId, owner: WorkerId) -> Vec<TaskId> {
        let is_it = |task: &TaskId| self.owners.get(task) == Some(&owner);
        let children = self.parents.iter().filter(|(task, above)| **above == parent && is_it(task));
        children.map(|(task, _)| *task).collect()
    }

    /// Returns the number of times that a call may have begun whose owner was told to stop it.
    #[must_use]
    pub fn begun_max(&self, task: TaskId) -> Option<usize> {
        self.calls.get(&task)?.begun_max
    }

    /// Whether a call that is tried again has its place in the order of its caller's calls: it had not ended
    /// anywhere, is begun here for the first time, and its caller was not cut off.
    #[must_use]
    pub fn keeps_its_place(&self, task: TaskId, at: WorkerId) -> bool {
        self.calls.get(&task).is_some_and(|call| {
            let here = call.begun.iter().filter(|worker| **worker == at).count();
            call.ended.is_empty()
                && here == 1
                && !self.apart.iter().any(|(one, _)| *one == call.owner)
        })
    }

    /// The placement group that a call runs in, and how many hundredths it takes of its bundles.
    pub(crate) fn takes_of_group(&self, task: TaskId) -> Option<(PlacementGroupId, u32)> {
        let call = self.calls.get(&task).filter(|call| !call.group.is_nil())?;
        Some((call.group, call.takes))
    }

    /// Returns the number of retries of a call; `None`: it is not a call.
    #[must_use]
    pub fn retries(&self, task: TaskId) -> Option<i32> {
        self.calls.get(&task).map(|call| call.retries)
    }

    /// Returns the hundredths of a CPU that a call takes which runs in no placement group.
    #[must_use]
    pub fn takes_cpu(&self, task: TaskId) -> u32 {
        let call = self.calls.get(&task).filter(|call| call.group.is_nil());
        call.map_or(0, |call| call.takes)
    }

    /// Whether the call came to an end anywhere.
    #[must_use]
    pub fn has_ended(&self, task: TaskId) -> bool {
        self.calls.get(&task).is_some_and(|call| !call.ended.is_empty())
    }

    /// A call was to be sent to a worker, and that was not there any more.
    pub fn missed(&mut self, task: TaskId, to: WorkerId) {
        self.calls.entry(task).or_default().missed.push(to);
    }

    /// Returns the number of tries of a call that count: those on a worker that was lost since, or that came to
    /// their end.
    #[must_use]
    pub fn tries(&self, task: TaskId) -> usize {
        let Some(call) = self.calls.get(&task) else { return 0 };
        let counts = |to: &&WorkerId| {
            self.is_lost(to) || self.is_apart(call.owner, **to) || call.ended.contains(to)
        };
        call.sent.iter().filter(counts).count() + call.missed.len()
    }

    /// Returns the number of times that a call was begun by a worker that ended for want of memory.
    #[must_use]
    pub fn times_starved(&self, task: TaskId) -> usize {
        let Some(call) = self.calls.get(&task) else { return 0 };
        call.begun.iter().filter(|at| self.starved.contains_key(at)).count()
    }

    /// The time before which a task is not to begin again: its last attempt ran in a worker that was ended for want of
    /// memory, and the time that it waits doubles with each such attempt.
    #[must_use]
    pub fn begins_again_at(&self, task: TaskId) -> Option<u64> {
        let call = self.calls.get(&task).filter(|_| !self.actors.contains_key(&task.actor()))?;
        let last = call.begun.last()?;
        let starved_at = self.starved.get(last)?;
        let home = self.homes.get(last)?;
        let is_told =
            !self.nodes_lost.contains(home) && !self.parted.contains(&(call.owner, *home));
        let is_cut = call.ended.contains(last) || self.is_apart(call.owner, *last);
        let delay = OOM_DELAY_US << (self.times_starved(task) - 1).min(16);
        (is_told && !is_cut).then_some(starved_at + delay.min(OOM_DELAY_US_MAX))
    }

    /// Whether a node told the call's owner that it makes no processes, while the call waited for one.
    #[must_use]
    pub fn call_refused(&self, task: TaskId) -> bool {
        self.calls.get(&task).is_some_and(|call| call.is_refused)
    }

    /// Whether a worker that this call was sent to ended, or was cut off from the call's owner, or was
    /// gone before the owner had reached it.
    #[must_use]
    pub fn call_lost_worker(&self, task: TaskId) -> bool {
        self.calls.get(&task).is_some_and(|call| {
            let is_lost = |to: &WorkerId| self.is_lost(to) || self.is_apart(call.owner, *to);
            call.sent.iter().any(is_lost) || !call.missed.is_empty()
        })
    }

    /// Whether a worker that this call was sent to was on a node that was lost, or from whose daemon the owner
    /// was cut off.
    #[must_use]
    pub fn call_lost_node(&self, task: TaskId) -> bool {
        let Some(call) = self.calls.get(&task) else { return false };
        let tried = call.sent.iter().chain(&call.missed);
        tried.filter_map(|to| self.homes.get(to)).any(|node| {
            self.nodes_lost.contains(node) || self.parted.contains(&(call.owner, *node))
        })
    }

    /// Whether a worker that this call was sent to ended for want of memory.
    #[must_use]
    pub fn call_starved(&self, task: TaskId) -> bool {
        self.calls.get(&task).is_some_and(|call| {
            call.sent.iter().chain(&call.missed).any(|to| self.starved.contains_key(to))
        })
    }

    /// The call that kept a call from being begun where it was sent last, all the time until its worker ended: it
    /// was sent there earlier by the same process, begun there, and not at its end.
    #[must_use]
    pub fn kept_behind(&self, task: TaskId) -> Option<TaskId> {
        let call = self.calls.get(&task)?;
        let last = *call.sent.last()?;
        if call.begun.contains(&last)
            || self.is_apart(call.owner, last)
            || self.silent.contains(&last)
        {
            return None;
        }
        let is_before = |other: &(&TaskId, &Call)| {
            other.1.owner == call.owner
                && *other.0 != task
                && other.1.begun.contains(&last)
                && !other.1.ended.contains(&last)
        };
        self.calls.iter().find(is_before).map(|(id, _)| *id)
    }

    /// Whether this call was cancelled, or one in which it was made, with those that it made.
    #[must_use]
    pub fn was_cancelled(&self, task: TaskId) -> bool {
        self.cancelled.contains_key(&task) || self.was_cancelled_deep(task)
    }

    /// Notes that the reader of a generator has taken so many items.
    pub fn items_taken(&mut self, task: TaskId, count: u32) {
        let taken = self.taken.entry(task).or_default();
        *taken = count.max(*taken);
    }

    /// The reader of a generator has taken an item that is an error.
    pub fn item_failed(&mut self, task: TaskId) {
        self.failed_streams.insert(task);
    }

    /// Whether it has.
    #[must_use]
    pub fn has_failed_item(&self, task: TaskId) -> bool {
        self.failed_streams.contains(&task)
    }

    /// The reader of a generator lets go of it, or of one of its items: it may be made again for nobody.
    pub fn stream_left(&mut self, task: TaskId) {
        self.left.insert(task);
    }

    /// Returns the number of items of a generator that has made so many which nobody has taken; 0 where
    /// nobody is to take any.
    #[must_use]
    pub fn items_unread(&self, task: TaskId, made: u32) -> u32 {
        let Some(call) = self.calls.get(&task) else { return 0 };
        let mut written = self.written.keys().filter(|object| object.task() == task);
        // Where one of its items is lost, nobody can read, and it goes on to its end.
        if written.any(|object| self.object_lost(*object))
            || self.left.contains(&task)
            || self.is_lost(&call.owner)
            || self.was_cancelled(task)
        {
            return 0;
        }
        made.saturating_sub(self.taken.get(&task).copied().unwrap_or(0))
    }
}
