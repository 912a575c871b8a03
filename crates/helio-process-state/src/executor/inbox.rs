//! The inbox: work that arrived and was not handed out. The calls that were handed out are in `running`.
//!
//! Calls are handed out in the order in which they arrived. A call whose arguments are still being
//! brought to this node holds back the calls behind it: an actor's calls keep their order, and a task's
//! successor on the same lease was sent ahead only because its predecessor was expected to be short. An
//! actor's call holds back calls of its concurrency group only. A call of an actor that takes its calls in
//! any order ([`Template::is_unordered`]) is queued when its arguments are here. An actor's call that had ended
//! and is made again, because its value was lost or it raised an exception that is retried, goes before the calls that
//! have not: they may need its value, as an argument or when they run. Those of one caller that are made again keep the order in
//! which they had ended, in which none needs a later one.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use helio_proto::peer::Reference;
use helio_proto::template::Template;
use helio_types::{ObjectId, TaskId, WorkerAddress, WorkerId, mutant};

use super::running::{Begun, Running};
use super::work::{Call, Construct, Lease, Work};
use crate::value::{Bytes, Payload};

/// A value that a call needs.
#[derive(Debug)]
pub(crate) enum Input<P> {
    Here(Payload<P>),
    /// Being fetched into this node's store.
    Fetching(Reference),
}

/// An entry of the queue, which may wait for its inputs.
#[derive(Debug)]
pub(crate) enum Item<P> {
    Call {
        task: TaskId,
        caller: Arc<WorkerAddress>,
        template: Arc<Template>,
        returns: u32,
        attempt: u32,
        /// For a call that had ended and runs again: its position among its caller's calls that had
        /// ended.
        remade: Option<u64>,
        lease: Option<Arc<Lease>>,
    },
    Construct(Box<Construct<P>>),
    /// Work without inputs.
    Other(Work<P>),
}

#[derive(Debug)]
pub(crate) struct Waiting<P> {
    pub(crate) item: Item<P>,
    /// `None`: the body lies in the object store and is the first input.
    pub(crate) body: Option<Bytes<P>>,
    pub(crate) inputs: Vec<Input<P>>,
}

/// The queue of calls that arrived, and the table of those that run.
#[derive(Debug)]
pub(crate) struct Inbox<P> {
    queue: VecDeque<Waiting<P>>,
    /// Calls that lack arguments and hold back no others, in the order they came.
    lacking: Vec<Waiting<P>>,
    /// Set once a call named a concurrency group.
    has_groups: bool,
    /// Some calls in the queue may be calls that run again.
    has_remade: bool,
    /// Calls handed out and not finished.
    running: Running,
    /// Running calls that were cancelled.
    cancelled: BTreeSet<TaskId>,
    /// Work that goes before everything else: cancellations and the end.
    urgent: VecDeque<Work<P>>,
}

impl<P> Default for Inbox<P> {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            lacking: Vec::new(),
            has_groups: false,
            has_remade: false,
            running: Running::default(),
            cancelled: BTreeSet::new(),
            urgent: VecDeque::new(),
        }
    }
}

impl<P: Clone> Inbox<P> {
    /// The calls handed out and not finished.
    pub(crate) fn running(&self) -> &Running {
        &self.running
    }

    /// A call was cancelled.
    pub(crate) fn cancel(&mut self, task: TaskId) {
        self.cancelled.insert(task);
    }

    /// Whether a running call was cancelled.
    pub(crate) fn is_cancelled(&self, task: TaskId) -> bool {
        self.cancelled.contains(&task)
    }

    /// A call that may have been cancelled has ended.
    pub(crate) fn forget_cancelled(&mut self, task: TaskId) {
        self.cancelled.remove(&task);
    }

    pub(crate) fn push(&mut self, waiting: Waiting<P>) {
        self.has_remade |= waiting.is_remade();
        self.has_groups |= waiting.group().is_some_and(|group| !group.is_empty());
        let is_aside = waiting.is_unordered() && !mutant!("unordered-call-holds-back-others");
        // One that has its arguments takes its turn like all others.
        if is_aside && !waiting.is_complete() {
            self.lacking.push(waiting);
        } else {
            self.queue.push_back(waiting);
        }
    }

    /// Queues a call that this process makes of itself: before the order to end, if that is queued.
    pub(crate) fn push_own(&mut self, waiting: Waiting<P>) {
        let is_aside = waiting.is_unordered() && !waiting.is_complete();
        // The end waits for what runs, which may wait for a call that it makes of its own actor.
        match self.place_of_end() {
            Some(end) if !is_aside => {
                self.queue.insert(end, waiting);
            }
            _ => self.push(waiting),
        }
    }

    /// Whether the order to end is first, and nothing is left that it waits for.
    pub(crate) fn may_end(&self) -> bool {
        let is_first = self.queue.front().is_some_and(Waiting::is_end);
        is_first && self.lacking.is_empty() && self.running.is_empty()
    }

    fn place_of_end(&self) -> Option<usize> {
        self.queue.iter().position(Waiting::is_end)
    }

    pub(crate) fn push_urgent(&mut self, work: Work<P>) {
        self.urgent.push_back(work);
    }

    /// Whether [`Inbox::pop`] would give something.
    pub(crate) fn has_work(&self) -> bool {
        !self.urgent.is_empty() || self.next_place().is_some()
    }

    /// Returns the caller of the next work, if that is a task (not a method).
    pub(crate) fn caller_of_next_task(&self) -> Option<WorkerId> {
        if !self.urgent.is_empty() {
            return None;
        }
        match &self.queue.get(self.next_place()?)?.item {
            Item::Call { caller, lease: Some(_), .. } => Some(caller.worker_id),
            Item::Call { .. } | Item::Construct(_) | Item::Other(_) => None,
        }
    }

    /// The place in the queue of the next entry that can be handed out. An order to end waits for everything that
    /// was sent before it.
    fn next_place(&self) -> Option<usize> {
        let first = self.queue.front()?;
        if mutant!("last-call-first") && self.queue.back().is_some_and(Waiting::is_complete) {
            return Some(self.queue.len() - 1);
        }
        if first.is_end() {
            return self.may_end().then_some(0);
        }
        if self.has_remade
            && let Some(place) = self.overtaking()
        {
            return Some(place);
        }
        if first.is_complete() {
            return Some(0);
        }
        if !self.has_groups || mutant!("other-concurrency-groups-wait") {
            return None;
        }
        let mut blocked = Vec::new();
        for (place, waiting) in self.queue.iter().enumerate() {
            // What is no call, such as a constructor, is overtaken by nothing.
            let group = waiting.group()?;
            if blocked.contains(&group) {
                continue;
            }
            if waiting.is_complete() {
                return Some(place);
            }
            // A call keeps those of its own group in their order, and holds up no other group.
            blocked.push(group);
        }
        None
    }

    /// The place of a repeated call that has all its arguments and may go first, because only calls that may need
    /// its result stand before it.
    fn overtaking(&self) -> Option<usize> {
        let calls = || self.queue.iter().take_while(|waiting| waiting.group().is_some());
        calls().enumerate().position(|(place, waiting)| {
            waiting.is_remade()
                && waiting.is_complete()
                && calls().take(place).all(|before| waiting.overtakes(before))
        })
    }

    /// The calls that are here and do not run: they wait behind others, for arguments, or for a place.
    pub(super) fn queued(&self) -> impl Iterator<Item = TaskId> {
        let handed_out = self.running.iter().filter(|begun| !begun.is_running).map(|one| one.task);
        let waiting = self.queue.iter().chain(&self.lacking).filter_map(|one| match &one.item {
            Item::Call { task, .. } => Some(*task),
            Item::Construct(_) | Item::Other(_) => None,
        });
        handed_out.chain(waiting)
    }

    /// Returns the next work; a call counts as running from `now` on, at once if `runs_at_once`.
    pub(crate) fn pop(&mut self, now: u64, runs_at_once: bool) -> Option<Work<P>> {
        if let Some(work) = self.urgent.pop_front() {
            return Some(work);
        }
        if !runs_at_once && !self.running.is_empty() && mutant!("coroutines-one-at-a-time") {
            return None;
        }
        let waiting = self.queue.remove(self.next_place()?)?;
        assert!(waiting.is_complete(), "a call would begin without its arguments");
        // Not counted: the flag only spares the common case a look through the queue.
        self.has_remade &= !self.queue.is_empty() || !self.lacking.is_empty();
        if let Item::Call { task, caller, template, .. } = &waiting.item {
            self.running.add(Begun {
                task: *task,
                caller: caller.clone(),
                at: now,
                template: template.clone(),
                is_running: runs_at_once,
            });
        }
        Some(waiting.into_work())
    }

    /// Tasks (not methods) that were not handed out, the last `max` of them, to go back.
    pub(crate) fn unstarted(&mut self, max: usize) -> Vec<(TaskId, Arc<WorkerAddress>)> {
        let mut back = Vec::new();
        // From the end: what was sent last waits longest here.
        while back.len() < max {
            match self.queue.back() {
                Some(Waiting { item: Item::Call { task, caller, lease: Some(_), .. }, .. }) => {
                    let runs = self.running.get(*task).is_some();
                    assert!(!runs, "a call would run here and where it is handed back to");
                    back.push((*task, caller.clone()));
                    if mutant!("handed-back-call-begins-too") {
                        break;
                    }
                    self.queue.pop_back();
                }
                // A call of an actor, or the order to end: what stands before it was here first.
                _ => break,
            }
        }
        back.reverse();
        back
    }

    /// Takes out the tasks (not methods) that lack the object.
    pub(crate) fn take_lacking(&mut self, id: ObjectId) -> Vec<(TaskId, Arc<WorkerAddress>)> {
        let mut taken = Vec::new();
        self.queue.retain(|waiting| match &waiting.item {
            Item::Call { task, caller, lease: Some(_), .. } if waiting.lacks(id).is_some() => {
                taken.push((*task, caller.clone()));
                false
            }
            _ => true,
        });
        taken
    }

    /// The reference by which what waits here knows the object that it lacks.
    pub(crate) fn lacks(&self, id: ObjectId) -> Option<&Reference> {
        self.queue.iter().chain(&self.lacking).find_map(|waiting| waiting.lacks(id))
    }

    /// An object is here (or lost: then `payload` is the error).
    pub(crate) fn arrived(&mut self, id: ObjectId, payload: &Payload<P>) {
        for waiting in self.queue.iter_mut().chain(&mut self.lacking) {
            for input in &mut waiting.inputs {
                // Several calls may wait for one object, and one call for it twice.
                if matches!(input, Input::Fetching(wanted) if wanted.id == id) {
                    *input = Input::Here(payload.clone());
                }
            }
        }
        // Before the end, if that was ordered: it waits for them.
        let place = self.place_of_end().unwrap_or(self.queue.len());
        let complete = self.lacking.extract_if(.., |waiting| waiting.is_complete());
        for (nth, waiting) in complete.enumerate() {
            self.queue.insert(place + nth, waiting);
        }
    }

    /// Notes that the call has found its place among the calls that run side by side.
    pub(crate) fn runs(&mut self, task: TaskId, at: u64) {
        if let Some(begun) = self.running.get_mut(task) {
            (begun.at, begun.is_running) = (at, true);
        }
    }

    /// The calls of the same group that run, and how many were handed out before this one and do not.
    pub(crate) fn beside(&self, task: TaskId) -> (Vec<&Begun>, usize) {
        let Some(own) = self.running.get(task) else { return (Vec::new(), 0) };
        let group = &own.template.concurrency_group;
        let of_group =
            || self.running.iter().filter(|one| one.template.concurrency_group == *group);
        let before = of_group().take_while(|one| one.task != task).filter(|one| !one.is_running);
        (of_group().filter(|one| one.is_running).collect(), before.count())
    }

    /// The call that has run for longest.
    pub(crate) fn begun_first(&self) -> Option<&Begun> {
        self.running.iter().find(|begun| begun.is_running)
    }

    /// Returns the number of calls that wait before that call, and the first argument that it
    /// lacks.
    pub(crate) fn place_of(&self, task: TaskId) -> Option<(usize, Option<ObjectId>)> {
        if let Some(waiting) = self.lacking.iter().find(|waiting| waiting.is_call(task)) {
            return Some((0, waiting.first_lacked()));
        }
        let place = self.queue.iter().position(|waiting| waiting.is_call(task))?;
        Some((place, self.queue[place].first_lacked()))
    }

    /// Takes a call out before it was handed out.
    pub(crate) fn remove(&mut self, task: TaskId) -> Option<Arc<WorkerAddress>> {
        let removed = match self.lacking.iter().position(|waiting| waiting.is_call(task)) {
            Some(place) => self.lacking.remove(place),
            None => {
                let place = self.queue.iter().position(|waiting| waiting.is_call(task))?;
                self.queue.remove(place)?
            }
        };
        match removed.item {
            Item::Call { caller, .. } => Some(caller),
            Item::Construct(_) | Item::Other(_) => None,
        }
    }

    /// The call is over.
    pub(crate) fn finished(&mut self, task: TaskId) -> Option<Begun> {
        self.running.remove(task)
    }

    /// Drops what a lost caller sent; these calls. Its running calls go on; their replies go nowhere.
    pub(crate) fn caller_gone(&mut self, caller: WorkerId) -> Vec<TaskId> {
        let mut dropped = Vec::new();
        let mut is_kept = |waiting: &Waiting<P>| match &waiting.item {
            Item::Call { task, caller: other, .. }
                if other.worker_id == caller && !mutant!("dead-callers-call-begins") =>
            {
                dropped.push(*task);
                false
            }
            _ => true,
        };
        self.queue.retain(&mut is_kept);
        self.lacking.retain(&mut is_kept);
        dropped
    }

    /// Whether nothing is here, and nothing runs.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.lacking.is_empty() && self.running.is_empty()
    }
}

impl<P: Clone> Waiting<P> {
    fn lacks(&self, id: ObjectId) -> Option<&Reference> {
        self.inputs.iter().find_map(|input| match input {
            Input::Fetching(wanted) if wanted.id == id => Some(wanted),
            _ => None,
        })
    }

    fn is_call(&self, task: TaskId) -> bool {
        matches!(&self.item, Item::Call { task: own, .. } if *own == task)
    }

    /// The concurrency group of a call.
    fn group(&self) -> Option<&str> {
        match &self.item {
            Item::Call { template, .. } => Some(&template.concurrency_group),
            Item::Construct(_) | Item::Other(_) => None,
        }
    }

    /// Whether this call is a repeated one whose result the other call may need.
    fn overtakes(&self, other: &Self) -> bool {
        let Some((caller, Some(own))) = self.remade() else { return false };
        match other.remade() {
            Some((of, Some(place))) if of == caller => own < place,
            _ => true,
        }
    }

    /// The caller of a call, and, if it is a repeated one, its place among that caller's repeated calls.
    fn remade(&self) -> Option<(WorkerId, Option<u64>)> {
        match &self.item {
            Item::Call { caller, remade, .. } => Some((caller.worker_id, *remade)),
            Item::Construct(_) | Item::Other(_) => None,
        }
    }

    /// Whether it is a call that had ended, and is made again.
    fn is_remade(&self) -> bool {
        matches!(&self.item, Item::Call { remade: Some(_), .. })
    }

    fn is_unordered(&self) -> bool {
        matches!(&self.item, Item::Call { template, .. } if template.is_unordered)
    }

    /// The order to end after what came before.
    fn is_end(&self) -> bool {
        matches!(&self.item, Item::Other(Work::Exit { .. }))
    }

    fn first_lacked(&self) -> Option<ObjectId> {
        self.inputs.iter().find_map(|input| match input {
            Input::Fetching(wanted) => Some(wanted.id),
            Input::Here(_) => None,
        })
    }

    fn is_complete(&self) -> bool {
        self.inputs.iter().all(|input| matches!(input, Input::Here(_)))
    }

    fn into_work(self) -> Work<P> {
        let mut inputs: VecDeque<Payload<P>> = self
            .inputs
            .into_iter()
            .filter_map(|input| match input {
                Input::Here(payload) => Some(payload),
                Input::Fetching(_) => None,
            })
            .collect();
        let body = match self.body {
            Some(body) => Payload::value(body),
            // A large body lies in a store, as the first of the inputs.
            None => inputs.pop_front().unwrap_or_else(|| Payload::value(Bytes::of(Vec::new()))),
        };
        let deps = inputs.into();
        match self.item {
            Item::Call { task, caller, template, returns, attempt, lease, .. } => {
                Work::Call(Box::new(Call {
                    task,
                    caller: caller.worker_id,
                    template,
                    body,
                    deps,
                    returns,
                    attempt,
                    lease,
                }))
            }
            Item::Construct(construct) => {
                Work::Construct(Box::new(Construct { body, deps, ..*construct }))
            }
            Item::Other(work) => work,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use helio_types::{ActorId, JobId};

    use super::*;

    fn task(number: u64) -> TaskId {
        TaskId::new(number, ActorId::new([7; 12], JobId::default()))
    }

    fn payload() -> Payload<()> {
        Payload { bytes: Bytes::Memory(Arc::default()), is_error: false }
    }

    /// A call that lacks the object of that number; 0: nothing.
    fn call(number: u64, lacks: u64, is_unordered: bool, group: &str) -> Waiting<()> {
        let template =
            Template { is_unordered, concurrency_group: group.to_owned(), ..Template::default() };
        let wanted = Reference { id: task(lacks).object(1), ..Reference::default() };
        let inputs = if lacks == 0 { Vec::new() } else { vec![Input::Fetching(wanted)] };
        let item = Item::Call {
            task: task(number),
            caller: Arc::default(),
            template: Arc::new(template),
            returns: 1,
            attempt: 0,
            remade: None,
            lease: None,
        };
        Waiting { item, body: Some(Bytes::Memory(Arc::default())), inputs }
    }

    fn end() -> Waiting<()> {
        let exit = Work::Exit { reason: String::new(), drain: true };
        Waiting { item: Item::Other(exit), body: None, inputs: Vec::new() }
    }

    /// Returns the work that can be handed out: the numbers of the calls, 0 for the end.
    fn all(inbox: &mut Inbox<()>) -> Vec<u64> {
        let mut found = Vec::new();
        while let Some(work) = inbox.pop(0, true) {
            found.push(match work {
                Work::Call(call) => {
                    inbox.finished(call.task);
                    (1..100).find(|n| task(*n) == call.task).unwrap()
                }
                _ => 0,
            });
        }
        assert!(!inbox.has_work());
        found
    }

    #[test]
    fn a_call_whose_argument_is_on_its_way_holds_back_those_behind_it() {
        let mut inbox = Inbox::<()>::default();
        inbox.push(call(1, 50, false, ""));
        inbox.push(call(2, 0, false, ""));
        assert_eq!(all(&mut inbox), []);
        assert_eq!(inbox.place_of(task(2)), Some((1, None)));
        inbox.arrived(task(50).object(1), &payload());
        assert_eq!(all(&mut inbox), [1, 2]);
    }

    #[test]
    fn in_any_order_it_holds_back_none_and_the_end_waits_for_it() {
        let mut inbox = Inbox::<()>::default();
        inbox.push(call(1, 50, true, ""));
        inbox.push(call(2, 51, true, ""));
        inbox.push(call(3, 0, true, ""));
        inbox.push(end());
        assert_eq!(all(&mut inbox), [3]);
        assert!(!inbox.is_empty());
        assert_eq!(inbox.place_of(task(1)), Some((0, Some(task(50).object(1)))));
        inbox.arrived(task(51).object(1), &payload());
        assert_eq!(all(&mut inbox), [2]);
        inbox.arrived(task(50).object(1), &payload());
        assert_eq!(all(&mut inbox), [1, 0]);
    }

    /// A method that waits for another one of its own actor would hold a drain for ever.
    #[test]
    fn the_end_waits_for_what_running_calls_wait_for() {
        let mut inbox = Inbox::<()>::default();
        inbox.push(call(1, 0, true, ""));
        assert!(inbox.pop(0, true).is_some());
        inbox.push(end());
        inbox.push(call(2, 0, true, ""));
        assert!(!inbox.has_work(), "one call runs, and the other came after the order to end");
        inbox.push_own(call(3, 0, true, ""));
        inbox.push_own(call(4, 50, true, ""));
        assert_eq!(all(&mut inbox), [3]);
        inbox.arrived(task(50).object(1), &payload());
        assert_eq!(all(&mut inbox), [4]);
        inbox.finished(task(1));
        assert_eq!(all(&mut inbox), [0, 2]);
    }

    #[test]
    fn a_call_holds_back_those_of_its_group_only() {
        let mut inbox = Inbox::<()>::default();
        inbox.push(call(1, 50, false, "io"));
        inbox.push(call(2, 0, false, "io"));
        inbox.push(call(3, 51, false, ""));
        inbox.push(call(4, 0, false, "cpu"));
        inbox.push(end());
        assert_eq!(all(&mut inbox), [4]);
        inbox.arrived(task(51).object(1), &payload());
        assert_eq!(all(&mut inbox), [3]);
        inbox.arrived(task(50).object(1), &payload());
        assert_eq!(all(&mut inbox), [1, 2, 0]);
    }

    /// The call as it is made again: its place among those of the caller of that number that had ended.
    fn remade(mut waiting: Waiting<()>, of: u8, place: u64) -> Waiting<()> {
        if let Item::Call { caller, attempt, remade, .. } = &mut waiting.item {
            let worker_id = WorkerId([of; 28]);
            *caller = Arc::new(WorkerAddress { worker_id, ..WorkerAddress::default() });
            (*attempt, *remade) = (1, Some(place));
        }
        waiting
    }

    fn retried(mut waiting: Waiting<()>) -> Waiting<()> {
        if let Item::Call { attempt, .. } = &mut waiting.item {
            *attempt = 1;
        }
        waiting
    }

    #[test]
    fn a_call_that_is_tried_again_overtakes_none() {
        let mut inbox = Inbox::<()>::default();
        inbox.push(retried(call(1, 50, false, "")));
        inbox.push(retried(call(2, 0, false, "")));
        assert_eq!(all(&mut inbox), []);
        inbox.arrived(task(50).object(1), &payload());
        assert_eq!(all(&mut inbox), [1, 2]);
    }

    #[test]
    fn a_call_whose_value_was_lost_overtakes_those_that_may_need_it() {
        let mut inbox = Inbox::<()>::default();
        inbox.push(call(1, 50, false, ""));
        inbox.push(remade(call(2, 51, false, ""), 1, 7));
        inbox.push(remade(call(3, 0, false, ""), 1, 8));
        assert_eq!(all(&mut inbox), [], "the third may need the second's value");
        inbox.push(remade(call(4, 0, false, ""), 1, 6));
        inbox.push(remade(call(5, 0, false, ""), 2, 9));
        assert_eq!(all(&mut inbox), [4, 5], "an earlier one, and another caller's");
        inbox.arrived(task(51).object(1), &payload());
        assert_eq!(all(&mut inbox), [2, 3]);
        inbox.arrived(task(50).object(1), &payload());
        assert_eq!(all(&mut inbox), [1]);
    }

    /// OWN-1: what an earlier call lacks nothing of may read, when it runs, what another one is to make again.
    #[test]
    fn a_call_whose_value_was_lost_goes_before_those_that_could_begin() {
        let mut inbox = Inbox::<()>::default();
        inbox.push(call(1, 0, false, ""));
        inbox.push(call(2, 0, false, ""));
        inbox.push(remade(call(3, 0, false, ""), 1, 7));
        inbox.push(call(4, 0, false, ""));
        inbox.push(end());
        assert_eq!(all(&mut inbox), [3, 1, 2, 4, 0]);
        inbox.push(call(5, 0, false, ""));
        inbox.push(remade(call(6, 0, false, ""), 1, 8));
        assert_eq!(all(&mut inbox), [6, 5]);
    }

    #[test]
    fn calls_that_wait_aside_can_be_removed_and_go_with_their_caller() {
        let mut inbox = Inbox::<()>::default();
        inbox.push(call(1, 50, true, ""));
        inbox.push(call(2, 50, true, ""));
        assert!(inbox.lacks(task(50).object(1)).is_some());
        assert!(inbox.remove(task(1)).is_some());
        inbox.caller_gone(WorkerAddress::default().worker_id);
        assert!(inbox.is_empty());
        assert!(inbox.lacks(task(50).object(1)).is_none());
    }

    #[test]
    fn running_calls_are_found_whatever_order_they_finish_in() {
        let mut inbox = Inbox::<()>::default();
        for number in 1..=1000 {
            inbox.push(call(number, 0, true, ""));
        }
        assert_eq!(std::iter::from_fn(|| inbox.pop(0, false)).count(), 1000);
        inbox.runs(task(5), 7);
        assert_eq!(inbox.begun_first().map(|begun| (begun.task, begun.at)), Some((task(5), 7)));
        assert_eq!(inbox.beside(task(9)).1, 7);
        for number in (2..=1000).rev().chain([1]) {
            assert!(inbox.finished(task(number)).is_some());
            assert!(inbox.finished(task(number)).is_none());
        }
        assert!(inbox.running.is_empty());
    }
}
