//! The history of each process, call, object, actor and node, so that an error is accepted only where this one had a
//! cause, and a promise counts as kept only where it was kept for this one.

mod actors;
mod calls;
mod objects;

use std::collections::{BTreeMap, BTreeSet};

use crate::ops::{Needs, Target};
use helio_node_state::limits::WORKER_START_FAILURES_MAX;
use helio_types::{ActorId, JobId, NodeId, ObjectId, PlacementGroupId, TaskId, WorkerId};

/// A call: what it was promised, and where it has been.
#[derive(Debug, Default)]
struct Call {
    owner: WorkerId,
    /// The retries that the call was made with.
    retries: i32,
    group: PlacementGroupId,
    /// The part of a CPU, or of its bundle, that the call uses while it runs, in hundredths.
    takes: u32,
    /// The workers to which the call was sent, in order.
    sent: Vec<WorkerId>,
    /// The workers that were gone before the call was sent to them, in order.
    missed: Vec<WorkerId>,
    /// The workers that began the call, in order.
    begun: Vec<WorkerId>,
    /// The processes in which the call came to an end.
    ended: BTreeSet<WorkerId>,
    /// The processes in which the call ended with a value.
    done: BTreeSet<WorkerId>,
    needs: Needs,
    /// A node has told its owner that it makes no process for what waits.
    is_refused: bool,
    /// The caller has the reply.
    is_answered: bool,
    /// Whether that reply was an error after which it is tried again, if tries are left.
    may_run_again: bool,
    /// Calls that were made with a reference to a result of it.
    takers: BTreeSet<TaskId>,
    /// Number of times that the call may have begun in all, once its owner was told to stop it.
    begun_max: Option<usize>,
}

/// An actor: what it was promised, and its lives.
#[derive(Debug, Default)]
struct Actor {
    creator: WorkerId,
    max_restarts: i64,
    /// The actor outlives its creator.
    is_detached: bool,
    group: PlacementGroupId,
    /// Hundredths of a slot or, in a group, of its bundles that the actor takes.
    takes: u32,
    target: (Target, NodeId),
    needs: Needs,
    /// The processes that have begun its constructor, in that order.
    constructed: Vec<WorkerId>,
    /// The processes that became it, or were to.
    lives: BTreeSet<WorkerId>,
    /// The nodes on which the actor was to be made, by incarnation.
    places: BTreeSet<(u32, NodeId)>,
    /// The last handle of the actor is gone.
    is_unheld: bool,
    /// The actor may be over for good: it was killed for good, its constructor raised, or no process could be made.
    is_over: bool,
    /// A program ended a process of it.
    was_hit: bool,
    /// A program killed it for good.
    was_killed: bool,
}

/// The record of deaths, losses and retries, by process, call, object, actor and node.
#[derive(Debug, Default)]
pub struct History {
    /// Processes that ended, other than workers that had nothing to do and owned nothing.
    ended: BTreeSet<WorkerId>,
    /// The processes that have ended.
    gone: BTreeSet<WorkerId>,
    /// Jobs whose driver ended.
    jobs_over: BTreeSet<JobId>,
    /// Processes whose node was not heard for so long that it may have been taken for dead.
    silent: BTreeSet<WorkerId>,
    /// Processes, and those of whose end their daemon has told them.
    told_gone: BTreeSet<(WorkerId, WorkerId)>,
    /// Nodes whose daemon stood still: their workers go on, whatever the others think.
    hung: BTreeSet<NodeId>,
    /// Processes that ended because their machine was short of memory, and when they were to.
    starved: BTreeMap<WorkerId, u64>,
    /// The node of each process.
    homes: BTreeMap<WorkerId, NodeId>,
    /// Processes between which a connection broke.
    apart: BTreeSet<(WorkerId, WorkerId)>,
    /// Processes, and nodes to whose daemons their connection broke.
    parted: BTreeSet<(WorkerId, NodeId)>,
    /// Number of processes that could not be made on each node.
    starts_failed: BTreeMap<NodeId, u32>,
    calls: BTreeMap<TaskId, Call>,
    /// The owner of each call and each `put`.
    owners: BTreeMap<TaskId, WorkerId>,
    /// The call in which a call was made.
    parents: BTreeMap<TaskId, TaskId>,
    /// Calls that raise each time, and are tried again each time.
    raise_again: BTreeSet<TaskId>,
    /// The target of each call that has one, with its node.
    targets: BTreeMap<TaskId, (Target, NodeId)>,
    /// Calls that somebody cancelled, and whether with those that they made.
    cancelled: BTreeMap<TaskId, bool>,
    actors: BTreeMap<ActorId, Actor>,
    /// The maker of each placement group that ends with its maker; `None`: it is detached.
    group_makers: BTreeMap<PlacementGroupId, Option<WorkerId>>,
    /// Placement groups that a program removed, or that the control service may have refused.
    removed: BTreeSet<PlacementGroupId>,
    /// Placement groups that the control service may have refused.
    groups_refused: BTreeSet<PlacementGroupId>,
    /// The placement group of each object that becomes ready with one.
    ready_with: BTreeMap<ObjectId, PlacementGroupId>,
    /// Nodes that died, were not heard, or whose connection to the control service broke.
    nodes_lost: BTreeSet<NodeId>,
    /// Objects that processes have asked their nodes for, by the number of the question.
    asked: BTreeMap<(WorkerId, u64), ObjectId>,
    /// Objects for which a node that was asked for them had no room.
    without_room: BTreeSet<ObjectId>,
    /// The time at which each process was told last that there is no room for an object.
    refused_at: BTreeMap<(WorkerId, ObjectId), u64>,
    /// Nodes that were told to hand over what they have, and to leave.
    drained: BTreeSet<NodeId>,
    /// Objects that a disk did not give back.
    unreadable: BTreeSet<ObjectId>,
    /// The nodes on which each object was written.
    written: BTreeMap<ObjectId, BTreeSet<NodeId>>,
    /// The number of items that readers have taken, of each generator whose items are bound.
    taken: BTreeMap<TaskId, u32>,
    /// Generators of which an item that is an error was taken.
    failed_streams: BTreeSet<TaskId>,
    /// The generators of these whose reader may have left.
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
        self.gone.insert(process);
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
    pub fn process_starved(&mut self, process: WorkerId, now: u64) {
        self.starved.insert(process, now);
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

    /// A node tells a process that it makes none for its calls, of which some wait.
    ///
    /// # Errors
    /// When it could make enough of them.
    pub fn refused(&mut self, process: WorkerId, by: NodeId) -> Result<(), String> {
        let waits = self.calls.iter().filter(|(task, call)| {
            let waits = !call.is_answered || call.may_run_again;
            call.owner == process && waits && !self.runs_now(**task)
        });
        let waits: Vec<TaskId> = waits.map(|(task, _)| *task).collect();
        for task in waits {
            self.calls.entry(task).or_default().is_refused = true;
        }
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

    /// Whether a process ended, or may have been taken for dead.
    pub(crate) fn is_lost(&self, process: &WorkerId) -> bool {
        self.ended.contains(process) || self.silent.contains(process)
    }

    fn is_apart(&self, one: WorkerId, other: WorkerId) -> bool {
        self.apart.contains(&(one, other))
            || self.homes.get(&other).is_some_and(|node| self.parted.contains(&(one, *node)))
    }
}
