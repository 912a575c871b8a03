//! What happened to each process, call, object, actor and node, so that an error is accepted only where this one
//! had a cause, and a promise counts as kept only where it was kept for this one.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::Target;
use crate::program::{Env, Needs};
use helio_node_state::limits::WORKER_START_FAILURES_MAX;
use helio_types::{ActorId, JobId, NodeId, ObjectId, PlacementGroupId, TaskId, WorkerId};

/// A call: what it was promised, and where it has been.
#[derive(Debug, Default)]
struct Call {
    owner: WorkerId,
    /// As it was made.
    retries: i32,
    group: PlacementGroupId,
    /// What it takes while it runs, in hundredths.
    takes: u32,
    /// To whom it was sent, each time.
    sent: Vec<WorkerId>,
    /// Who was gone before it was sent there, each time.
    missed: Vec<WorkerId>,
    /// Who began it, each time.
    begun: Vec<WorkerId>,
    /// Where it came to an end.
    ended: BTreeSet<WorkerId>,
    /// Where it ended with a value.
    done: BTreeSet<WorkerId>,
    needs: Needs,
    /// Its caller has its reply.
    is_answered: bool,
    /// Calls that were made with a reference to a result of it.
    takers: BTreeSet<TaskId>,
    /// Its owner was told to stop it, and it may have begun so often all in all.
    begun_max: Option<usize>,
}

/// An actor: what it was promised, and its lives.
#[derive(Debug, Default)]
struct Actor {
    creator: WorkerId,
    max_restarts: i64,
    group: PlacementGroupId,
    needs: Needs,
    /// The processes that have begun its constructor, in that order.
    constructed: Vec<WorkerId>,
    /// The processes that became it, or were to.
    lives: BTreeSet<WorkerId>,
    /// Where it was to be made, in each incarnation.
    places: BTreeSet<(u32, NodeId)>,
    /// Its last handle is gone.
    is_let_go: bool,
    /// It may be over for good: it was killed for good, its constructor raised, or no process could be made.
    is_over: bool,
    /// A program ended a process of it.
    was_hit: bool,
    /// A program killed it for good.
    was_killed: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct History {
    /// Processes that ended, other than workers that had nothing to do and owned nothing.
    ended: BTreeSet<WorkerId>,
    /// Jobs whose driver ended.
    jobs_over: BTreeSet<JobId>,
    /// Processes whose node was not heard for so long that it may have been taken for dead.
    silent: BTreeSet<WorkerId>,
    /// Processes, and those of whose end their daemon has told them.
    told_gone: BTreeSet<(WorkerId, WorkerId)>,
    /// Nodes whose daemon stood still: their workers go on, whatever the others think.
    hung: BTreeSet<NodeId>,
    /// Processes that ended because their machine was short of memory.
    starved: BTreeSet<WorkerId>,
    /// The node of each process.
    homes: BTreeMap<WorkerId, NodeId>,
    /// Processes between which a connection broke.
    apart: BTreeSet<(WorkerId, WorkerId)>,
    /// Processes, and nodes to whose daemons their connection broke.
    parted: BTreeSet<(WorkerId, NodeId)>,
    /// How many processes could not be made on each node.
    starts_failed: BTreeMap<NodeId, u32>,
    /// Processes that a node has told that it makes none for them.
    refused: BTreeSet<WorkerId>,
    calls: BTreeMap<TaskId, Call>,
    /// Whose each call and each `put` is.
    owners: BTreeMap<TaskId, WorkerId>,
    /// The call in which a call was made.
    parents: BTreeMap<TaskId, TaskId>,
    /// Calls that raise each time, and are tried again each time.
    raise_again: BTreeSet<TaskId>,
    /// Where a call is to run, if that matters.
    targets: BTreeMap<TaskId, Target>,
    /// Calls that somebody cancelled.
    cancelled: BTreeSet<TaskId>,
    actors: BTreeMap<ActorId, Actor>,
    /// Who made each placement group.
    group_makers: BTreeMap<PlacementGroupId, WorkerId>,
    /// Placement groups that a program removed, or that the control service may have refused.
    removed: BTreeSet<PlacementGroupId>,
    /// Those that it may have refused.
    groups_refused: BTreeSet<PlacementGroupId>,
    /// What becomes ready with a placement group.
    ready_with: BTreeMap<ObjectId, PlacementGroupId>,
    /// Nodes that died, were not heard, or whose connection to the control service broke.
    nodes_lost: BTreeSet<NodeId>,
    /// Nodes whose disk was full, or whose memory was short, for a while.
    full: BTreeSet<NodeId>,
    /// Nodes that were told to hand over what they have, and to leave.
    drained: BTreeSet<NodeId>,
    /// Objects that a disk did not give back.
    unreadable: BTreeSet<ObjectId>,
    /// Where each object was written.
    written: BTreeMap<ObjectId, BTreeSet<NodeId>>,
    /// Of the generators whose items are bound: how many their readers have taken.
    taken: BTreeMap<TaskId, u32>,
    /// Of these, those whose reader may have left.
    left: BTreeSet<TaskId>,
}

/// Processes and connections.
impl History {
    /// A process lives on that node.
    pub fn process_began(&mut self, process: WorkerId, node: NodeId) {
        self.homes.insert(process, node);
    }

    /// A process ended. One that ended because it was idle owned nothing that anybody holds: what it owned
    /// all the same was lost without a cause.
    pub fn process_ended(&mut self, process: WorkerId, was_idle: bool) {
        if !was_idle {
            self.ended.insert(process);
        }
    }

    /// A driver ended, and with it what its job has, but detached actors.
    pub fn job_ended(&mut self, job: JobId) {
        self.jobs_over.insert(job);
    }

    /// Whether the object ended with its job, and the process that reads it is about to.
    #[must_use]
    pub fn ended_with_job(&self, object: ObjectId, reader: WorkerId) -> bool {
        self.jobs_over.contains(&object.task().job()) && self.actors_in(reader).next().is_none()
    }

    /// A process lives on a node that is not heard.
    pub fn process_silent(&mut self, process: WorkerId) {
        self.silent.insert(process);
    }

    /// A process is told that another one is gone.
    pub fn told_gone(&mut self, process: WorkerId, gone: WorkerId) {
        self.told_gone.insert((process, gone));
    }

    /// Whether a process ended and that one knows it.
    #[must_use]
    pub fn knows_gone(&self, process: WorkerId, gone: WorkerId) -> bool {
        self.ended.contains(&gone) && self.told_gone.contains(&(process, gone))
    }

    /// A node's daemon stands still.
    pub fn node_hung(&mut self, node: NodeId) {
        self.hung.insert(node);
    }

    /// Whether a node's daemon stood still.
    #[must_use]
    pub fn was_hung(&self, node: NodeId) -> bool {
        self.hung.contains(&node)
    }

    /// A process is to end for want of memory.
    pub fn process_starved(&mut self, process: WorkerId) {
        self.starved.insert(process);
    }

    /// The connection between two processes broke.
    pub fn link_cut(&mut self, one: WorkerId, other: WorkerId) {
        self.apart.insert((one, other));
        self.apart.insert((other, one));
    }

    /// The connection of a process to another node's daemon broke.
    pub fn daemon_cut(&mut self, process: WorkerId, node: NodeId) {
        self.parted.insert((process, node));
    }

    /// A process could not be made on that node.
    pub fn start_failed(&mut self, node: NodeId) {
        *self.starts_failed.entry(node).or_default() += 1;
    }

    /// Whether a node may say that it cannot make processes.
    #[must_use]
    pub fn may_refuse(&self, node: NodeId) -> bool {
        self.starts_failed.get(&node).is_some_and(|times| *times >= WORKER_START_FAILURES_MAX)
    }

    /// A node tells a process that it makes none for its calls.
    ///
    /// # Errors
    /// When it could make enough of them.
    pub fn refused(&mut self, process: WorkerId, by: NodeId) -> Result<(), String> {
        self.refused.insert(process);
        match self.may_refuse(by) {
            true => Ok(()),
            false => Err(format!("node {by} refuses a lease, and could make processes")),
        }
    }

    /// A node died, was not heard, or its connection to the control service broke.
    pub fn node_lost(&mut self, node: NodeId) {
        self.nodes_lost.insert(node);
    }

    /// A node is to hand over what it has, and to leave.
    pub fn node_drained(&mut self, node: NodeId) {
        self.drained.insert(node);
    }

    /// A node has no room on its disk.
    pub fn node_full(&mut self, node: NodeId) {
        self.full.insert(node);
    }

    /// Whether a process ended, or may have been taken for dead.
    pub(crate) fn is_lost(&self, process: &WorkerId) -> bool {
        self.ended.contains(process) || self.silent.contains(process)
    }

    fn is_apart(&self, one: WorkerId, other: WorkerId) -> bool {
        self.apart.contains(&(one, other))
            || self.homes.get(&other).is_some_and(|node| self.parted.contains(&(one, *node)))
    }

    /// Whether the node of a process had a full disk.
    #[must_use]
    pub fn was_full_at(&self, process: WorkerId) -> bool {
        self.homes.get(&process).is_some_and(|node| self.full.contains(node))
    }
}

/// What happens to calls.
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

    /// How often a call was tried that raises each time, and how often it had to be.
    #[must_use]
    pub fn raised_after(&self, task: TaskId) -> Option<(usize, usize)> {
        let call = self.calls.get(&task).filter(|_| self.raise_again.contains(&task))?;
        Some((self.tries(task), call.retries as usize + 1))
    }

    /// A task is to run there.
    pub fn targeted(&mut self, task: TaskId, target: Target) {
        if target != Target::Anywhere {
            self.targets.insert(task, target);
        }
    }

    /// Where a task is to run.
    #[must_use]
    pub fn target(&self, task: TaskId) -> Target {
        self.targets.get(&task).copied().unwrap_or_default()
    }

    /// Whether the only node on which a task may run was lost, or takes no work any more.
    #[must_use]
    pub fn lost_target(&self, task: TaskId) -> bool {
        let home = self.owners.get(&task).and_then(|owner| self.homes.get(owner));
        self.target(task) == Target::Here
            && home.is_none_or(|home| self.drained.contains(home) || self.nodes_lost.contains(home))
    }

    /// What a call needs besides a CPU.
    pub(crate) fn call_needs(&mut self, task: TaskId, needs: Needs) {
        self.calls.entry(task).or_default().needs = needs;
    }

    /// What a call, or an actor, needs besides a CPU.
    pub(crate) fn needs(&self, task: TaskId) -> Needs {
        self.calls.get(&task).map(|call| call.needs).unwrap_or_default()
    }

    /// A call's reply has arrived at its caller.
    pub fn answered(&mut self, task: TaskId) {
        if let Some(call) = self.calls.get_mut(&task) {
            call.is_answered = true;
        }
    }

    /// How many calls of a process to an actor have no reply.
    #[must_use]
    pub fn unanswered(&self, caller: WorkerId, actor: ActorId) -> usize {
        let of_actor = self.calls.iter().filter(|(task, call)| {
            task.actor() == actor && call.owner == caller && !call.is_answered
        });
        of_actor.count()
    }

    /// How many calls and actors need the runtime environment that can never be made.
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

    /// Somebody cancelled a call, and so those that it made.
    pub fn cancelled(&mut self, task: TaskId) {
        self.cancelled.insert(task);
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
    fn runs_now(&self, task: TaskId) -> bool {
        let Some(call) = self.calls.get(&task) else { return false };
        let Some(at) = call.sent.last().filter(|at| call.begun.last() == Some(at)) else {
            return false;
        };
        let times = |list: &[WorkerId]| list.iter().filter(|worker| *worker == at).count();
        let is_there = !self.is_lost(at) && !self.is_apart(call.owner, *at);
        is_there && !call.ended.contains(at) && times(&call.sent) == times(&call.begun)
    }

    /// The calls that a process has made in that call.
    #[must_use]
    pub fn made_in(&self, parent: TaskId, owner: WorkerId) -> Vec<TaskId> {
        let is_it = |task: &TaskId| self.owners.get(task) == Some(&owner);
        let children = self.parents.iter().filter(|(task, above)| **above == parent && is_it(task));
        children.map(|(task, _)| *task).collect()
    }

    /// How often a call may have begun that its owner was told to stop.
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

    /// How often a call may be tried again; `None`: it is no call.
    #[must_use]
    pub fn retries(&self, task: TaskId) -> Option<i32> {
        self.calls.get(&task).map(|call| call.retries)
    }

    /// How many hundredths of a CPU a call takes that runs in no placement group.
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

    /// How often a call was sent to a worker that was lost since, or that came to its end: the tries that count.
    #[must_use]
    pub fn tries(&self, task: TaskId) -> usize {
        let Some(call) = self.calls.get(&task) else { return 0 };
        let counts = |to: &&WorkerId| {
            self.is_lost(to) || self.is_apart(call.owner, **to) || call.ended.contains(to)
        };
        call.sent.iter().filter(counts).count() + call.missed.len()
    }

    /// How often a call was begun by a worker that ended for want of memory.
    #[must_use]
    pub fn times_starved(&self, task: TaskId) -> usize {
        let Some(call) = self.calls.get(&task) else { return 0 };
        call.begun.iter().filter(|at| self.starved.contains(at)).count()
    }

    /// Whether a node told the call's owner that it makes no processes for its calls.
    #[must_use]
    pub fn call_refused(&self, task: TaskId) -> bool {
        self.calls.get(&task).is_some_and(|call| self.refused.contains(&call.owner))
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
            call.sent.iter().chain(&call.missed).any(|to| self.starved.contains(to))
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

    /// Whether this call was cancelled, or one in which it was made.
    #[must_use]
    pub fn was_cancelled(&self, task: TaskId) -> bool {
        let mut at = Some(&task);
        while let Some(task) = at {
            if self.cancelled.contains(task) {
                return true;
            }
            at = self.parents.get(task);
        }
        false
    }

    /// The reader of a generator has taken so many items.
    pub fn items_taken(&mut self, task: TaskId, count: u32) {
        let taken = self.taken.entry(task).or_default();
        *taken = count.max(*taken);
    }

    /// The reader of a generator lets go of it, or of one of its items: it may be made again for nobody.
    pub fn stream_left(&mut self, task: TaskId) {
        self.left.insert(task);
    }

    /// How many items of a generator that has made so many nobody has taken; 0 where nobody is to take any.
    #[must_use]
    pub fn items_unread(&self, task: TaskId, made: u32) -> u32 {
        let Some(call) = self.calls.get(&task) else { return 0 };
        let is_first = call.begun.len() < 2;
        let mut written = self.written.keys().filter(|object| object.task() == task);
        // Where one of its items is lost, nobody can read, and it goes on to its end.
        if !is_first
            || written.any(|object| self.object_lost(*object))
            || self.left.contains(&task)
            || self.is_lost(&call.owner)
            || self.was_cancelled(task)
        {
            return 0;
        }
        made.saturating_sub(self.taken.get(&task).copied().unwrap_or(0))
    }
}

/// What happens to objects.
impl History {
    /// A process put an object.
    pub fn put(&mut self, object: ObjectId, owner: WorkerId) {
        self.owners.insert(object.task(), owner);
    }

    /// A process has written an object into its node's store.
    pub fn written(&mut self, object: ObjectId, at: WorkerId) {
        if let Some(node) = self.homes.get(&at) {
            self.written.entry(object).or_default().insert(*node);
        }
    }

    /// A disk does not give an object back.
    pub fn object_unreadable(&mut self, object: ObjectId) {
        self.unreadable.insert(object);
    }

    /// Who owns the object.
    #[must_use]
    pub fn owner(&self, object: ObjectId) -> Option<WorkerId> {
        self.owners.get(&object.task()).copied()
    }

    /// Whether a node on which the object was written was lost, or is apart from the object's owner, or its disk did
    /// not give it back.
    #[must_use]
    pub fn object_lost(&self, object: ObjectId) -> bool {
        let owner = self.owners.get(&object.task());
        let is_lost = |node: &NodeId| {
            self.nodes_lost.contains(node)
                || owner.is_none_or(|owner| self.parted.contains(&(*owner, *node)))
        };
        self.unreadable.contains(&object)
            || self.written.get(&object).is_some_and(|nodes| nodes.iter().any(is_lost))
    }

    /// Whether the owner of an object and its reader are gone for the others.
    #[must_use]
    pub fn are_taken_for_dead(&self, object: ObjectId, reader: WorkerId) -> bool {
        let owner = self.owners.get(&object.task());
        owner.is_some_and(|owner| self.is_lost(owner)) && self.is_lost(&reader)
    }

    /// Whether a node on which the object was written had a full disk.
    #[must_use]
    pub fn was_full_for(&self, object: ObjectId) -> bool {
        self.written.get(&object).is_some_and(|nodes| !nodes.is_disjoint(&self.full))
    }

    /// Whether the owner of an object ended, or was cut off from the process that reads it.
    #[must_use]
    pub fn owner_lost(&self, object: ObjectId, reader: WorkerId) -> bool {
        self.owners.get(&object.task()).is_none_or(|owner| {
            self.is_lost(owner) || self.is_lost(&reader) || self.apart.contains(&(*owner, reader))
        })
    }
}

/// Actors and placement groups.
impl History {
    /// A process made an actor, in a placement group or in none.
    pub fn actor_made(
        &mut self,
        actor: ActorId,
        creator: WorkerId,
        max_restarts: i64,
        group: PlacementGroupId,
    ) {
        let made = Actor { creator, max_restarts, group, ..Actor::default() };
        self.actors.insert(actor, made);
    }

    /// What an actor needs besides a CPU.
    pub(crate) fn actor_needs(&mut self, actor: ActorId, needs: Needs) {
        self.actors.entry(actor).or_default().needs = needs;
    }

    /// What an actor needs besides a CPU.
    pub(crate) fn actor_needs_of(&self, actor: ActorId) -> Needs {
        self.actors.get(&actor).map(|known| known.needs).unwrap_or_default()
    }

    /// Whether a node was to make that life of an actor before.
    #[must_use]
    pub fn was_placed(&self, actor: ActorId, node: NodeId, incarnation: u32) -> bool {
        self.actors.get(&actor).is_some_and(|made| made.places.contains(&(incarnation, node)))
    }

    /// A node is to make an actor.
    ///
    /// # Errors
    /// When it has been made as often as it may.
    pub fn actor_placed(
        &mut self,
        actor: ActorId,
        node: NodeId,
        incarnation: u32,
    ) -> Result<(), String> {
        let Some(made) = self.actors.get_mut(&actor) else { return Ok(()) };
        made.places.insert((incarnation, node));
        // That it leaves a node which is drained costs it nothing.
        let moves = made.places.iter().filter(|(_, node)| self.drained.contains(node)).count();
        let restarts = i64::from(incarnation) - moves as i64;
        let most = made.max_restarts;
        match most >= 0 && restarts > most {
            true => {
                Err(format!("{actor} has max_restarts={most} and is restarted {restarts} times"))
            }
            false => Ok(()),
        }
    }

    /// A process became an actor, or was to.
    pub fn actor_lives(&mut self, actor: ActorId, process: WorkerId) {
        self.actors.entry(actor).or_default().lives.insert(process);
    }

    /// A process begins an actor's constructor.
    pub fn actor_constructs(&mut self, actor: ActorId, process: WorkerId) {
        self.actors.entry(actor).or_default().constructed.push(process);
    }

    /// Whether another process has begun to be the actor since this one did, although this one's daemon, which is to
    /// end or to stop it before, could do so.
    #[must_use]
    pub fn is_outlived(&self, actor: ActorId, process: WorkerId) -> bool {
        let is_latest = self
            .actors
            .get(&actor)
            .is_none_or(|known| known.constructed.last().is_none_or(|last| *last == process));
        let can_act = self.homes.get(&process).is_some_and(|node| !self.hung.contains(node));
        !is_latest && can_act
    }

    /// An actor may be over for good from now on.
    pub fn actor_over(&mut self, actor: ActorId) {
        self.actors.entry(actor).or_default().is_over = true;
    }

    /// A program kills an actor for good.
    pub fn actor_killed(&mut self, actor: ActorId) {
        let known = self.actors.entry(actor).or_default();
        (known.is_over, known.was_killed) = (true, true);
    }

    /// Whether a program killed the actor for good.
    #[must_use]
    pub fn was_killed(&self, actor: ActorId) -> bool {
        self.actors.get(&actor).is_some_and(|known| known.was_killed)
    }

    /// A program ends a process of an actor, which may be restarted.
    pub fn actor_hit(&mut self, actor: ActorId) {
        self.actors.entry(actor).or_default().was_hit = true;
    }

    /// The last handle of an actor is gone.
    pub fn actor_let_go(&mut self, actor: ActorId) {
        self.actors.entry(actor).or_default().is_let_go = true;
    }

    /// The actors that the process became, or was to.
    pub fn actors_in(&self, process: WorkerId) -> impl Iterator<Item = ActorId> {
        let here = self.actors.iter().filter(move |(_, actor)| actor.lives.contains(&process));
        here.map(|(actor, _)| *actor)
    }

    /// Whether an actor may be over for good although it lived: it was killed for good, its constructor raised, it
    /// ended with its handles, its group or its creator, or a node on which it was to live could make no process.
    #[must_use]
    pub fn actor_may_be_over(&self, actor: ActorId) -> bool {
        self.actors.get(&actor).is_none_or(|known| {
            let creator_lost = self.is_lost(&known.creator);
            let has_no_process = known.places.iter().any(|(_, node)| self.may_refuse(*node));
            known.is_over
                || known.is_let_go
                || creator_lost
                || has_no_process
                || self.actor_lost_group(actor)
        })
    }

    /// How often an actor was to begin a life, and how many lives it may have; `None`: without end.
    #[must_use]
    pub fn lives(&self, actor: ActorId) -> (i64, Option<i64>) {
        let Some(known) = self.actors.get(&actor) else { return (0, None) };
        let begun: BTreeSet<u32> = known.places.iter().map(|(number, _)| *number).collect();
        let most = (known.max_restarts >= 0).then_some(known.max_restarts + 1);
        (begun.len() as i64, most)
    }

    /// Whether a process or node of this actor ended or was cut off from that process (`None`: from anybody), or a
    /// program ended it.
    #[must_use]
    pub fn actor_lost_process(&self, actor: ActorId, caller: Option<WorkerId>) -> bool {
        let Some(known) = self.actors.get(&actor) else { return true };
        let is_caller = |other: &WorkerId| caller.is_none_or(|caller| caller == *other);
        let is_apart =
            |life: &WorkerId| self.apart.iter().any(|(one, other)| one == life && is_caller(other));
        known.was_hit
            || known.lives.iter().any(|life| self.is_lost(life) || is_apart(life))
            || known.places.iter().any(|(_, node)| self.nodes_lost.contains(node))
    }

    /// A process made a placement group.
    pub fn group_made(&mut self, group: PlacementGroupId, by: WorkerId) {
        self.group_makers.insert(group, by);
    }

    /// A program removed a placement group.
    pub fn group_removed(&mut self, group: PlacementGroupId) {
        self.removed.insert(group);
    }

    /// The control service may refuse a placement group: the head's disk has no room for it.
    pub fn group_may_be_refused(&mut self, group: PlacementGroupId) {
        self.groups_refused.insert(group);
        self.removed.insert(group);
    }

    /// An object becomes ready when a placement group is placed.
    pub fn ready_with(&mut self, object: ObjectId, group: PlacementGroupId) {
        self.ready_with.insert(object, group);
    }

    /// Whether the object was to become ready with a placement group that may have been refused; `None`: any was.
    #[must_use]
    pub fn was_group_refused(&self, object: Option<ObjectId>) -> bool {
        match object {
            Some(object) => self
                .ready_with
                .get(&object)
                .is_some_and(|group| self.groups_refused.contains(group)),
            None => !self.groups_refused.is_empty(),
        }
    }

    fn is_group_over(&self, group: PlacementGroupId) -> bool {
        let is_maker_lost = |by: &WorkerId| self.is_lost(by);
        !group.is_nil()
            && (self.removed.contains(&group)
                || self.group_makers.get(&group).is_none_or(is_maker_lost))
    }

    /// Whether the actor ended with its placement group. A control service that died meanwhile does not
    /// know the actor any more, and cannot say so.
    #[must_use]
    pub fn actor_lost_group(&self, actor: ActorId) -> bool {
        self.actors.get(&actor).is_some_and(|known| self.is_group_over(known.group))
    }

    /// Whether the call's placement group was removed, or ended with its maker.
    #[must_use]
    pub fn call_lost_group(&self, task: TaskId) -> bool {
        self.calls.get(&task).is_some_and(|call| self.is_group_over(call.group))
    }
}
