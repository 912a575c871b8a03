//! What happened to each process, call and actor, so that an error is accepted only where this one had a
//! cause.

use std::collections::{BTreeMap, BTreeSet};

use helio_types::{ActorId, NodeId, ObjectId, PlacementGroupId, TaskId, WorkerId};

/// See the module.
#[derive(Debug, Default)]
pub struct History {
    /// Processes that ended, other than workers that had nothing to do and owned nothing.
    ended: BTreeSet<WorkerId>,
    /// Processes whose node was not heard for so long that it may have been taken for dead.
    silent: BTreeSet<WorkerId>,
    /// Processes between which a connection broke.
    apart: BTreeSet<(WorkerId, WorkerId)>,
    /// Processes that did not reach a worker that they were given.
    unreached: BTreeSet<WorkerId>,
    /// Which workers each call was sent to, and by whom.
    sent: BTreeMap<TaskId, BTreeSet<(WorkerId, WorkerId)>>,
    /// Whose each call and each `put` is.
    owners: BTreeMap<TaskId, WorkerId>,
    /// The call in which a call was made.
    parents: BTreeMap<TaskId, TaskId>,
    /// Calls that somebody cancelled.
    cancelled: BTreeSet<TaskId>,
    /// Which process made each actor.
    creators: BTreeMap<ActorId, WorkerId>,
    /// Which processes became each actor, or were to.
    lives: BTreeMap<ActorId, BTreeSet<WorkerId>>,
    /// Which nodes each actor was to be made on.
    places: BTreeMap<ActorId, BTreeSet<NodeId>>,
    /// The placement group of each actor that was made in one.
    groups: BTreeMap<ActorId, PlacementGroupId>,
    /// Placement groups that a program removed.
    removed: BTreeSet<PlacementGroupId>,
    /// Nodes that died, were not heard, or whose connection to the control service broke.
    nodes_lost: BTreeSet<NodeId>,
}

impl History {
    /// A process ended. One that ended because it was idle owned nothing that anybody holds: what it owned
    /// all the same was lost without a cause.
    pub fn process_ended(&mut self, process: WorkerId, was_idle: bool) {
        if !was_idle {
            self.ended.insert(process);
        }
    }

    /// A process lives on a node that is not heard.
    pub fn process_silent(&mut self, process: WorkerId) {
        self.silent.insert(process);
    }

    /// The connection between two processes broke.
    pub fn link_cut(&mut self, one: WorkerId, other: WorkerId) {
        self.apart.insert((one, other));
        self.apart.insert((other, one));
    }

    /// A process could not connect to another one.
    pub fn unreached(&mut self, from: WorkerId) {
        self.unreached.insert(from);
    }

    /// A process made a call, inside another one or in a driver's program.
    pub fn submitted(&mut self, task: TaskId, owner: WorkerId, parent: TaskId) {
        self.owners.insert(task, owner);
        if !parent.is_nil() {
            self.parents.insert(task, parent);
        }
    }

    /// A process put an object.
    pub fn put(&mut self, object: ObjectId, owner: WorkerId) {
        self.owners.insert(object.task(), owner);
    }

    /// A call went to a worker.
    pub fn sent(&mut self, task: TaskId, from: WorkerId, to: WorkerId) {
        self.sent.entry(task).or_default().insert((from, to));
    }

    /// Somebody cancelled a call, and so those that it made.
    pub fn cancelled(&mut self, task: TaskId) {
        self.cancelled.insert(task);
    }

    /// A process made an actor, in a placement group or in none.
    pub fn actor_made(&mut self, actor: ActorId, creator: WorkerId, group: PlacementGroupId) {
        self.creators.insert(actor, creator);
        if !group.is_nil() {
            self.groups.insert(actor, group);
        }
    }

    /// A program removed a placement group.
    pub fn group_removed(&mut self, group: PlacementGroupId) {
        self.removed.insert(group);
    }

    /// Whether the actor ended with its placement group. A control service that died meanwhile does not
    /// know the actor any more, and cannot say so.
    pub fn actor_lost_group(&self, actor: ActorId) -> bool {
        self.groups.get(&actor).is_some_and(|group| self.removed.contains(group))
    }

    /// A node is to make an actor.
    pub fn actor_placed(&mut self, actor: ActorId, node: NodeId) {
        self.places.entry(actor).or_default().insert(node);
    }

    /// A node died, was not heard, or its connection to the control service broke.
    pub fn node_lost(&mut self, node: NodeId) {
        self.nodes_lost.insert(node);
    }

    /// A process became an actor, or was to.
    pub fn actor_lives(&mut self, actor: ActorId, process: WorkerId) {
        self.lives.entry(actor).or_default().insert(process);
    }

    /// The actors that the process became, or was to.
    pub fn actors_in(&self, process: WorkerId) -> impl Iterator<Item = ActorId> {
        let here = self.lives.iter().filter(move |(_, processes)| processes.contains(&process));
        here.map(|(actor, _)| *actor)
    }

    fn is_lost(&self, process: &WorkerId) -> bool {
        self.ended.contains(process) || self.silent.contains(process)
    }

    /// Whether a worker that this call was sent to ended, or was cut off from the call's owner, or was
    /// gone before the owner had reached it.
    #[must_use]
    pub fn call_lost_worker(&self, task: TaskId) -> bool {
        let mut workers = self.sent.get(&task).into_iter().flatten();
        workers.any(|(from, to)| self.is_lost(to) || self.apart.contains(&(*from, *to)))
            || self.owners.get(&task).is_some_and(|owner| self.unreached.contains(owner))
    }

    /// Whether the owner of an object ended, or was cut off from the process that reads it.
    #[must_use]
    pub fn owner_lost(&self, object: ObjectId, reader: WorkerId) -> bool {
        self.owners.get(&object.task()).is_none_or(|owner| {
            self.is_lost(owner) || self.is_lost(&reader) || self.apart.contains(&(*owner, reader))
        })
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

    /// Whether a process or node of this actor ended or was cut off from somebody, or the process that
    /// made it ended.
    #[must_use]
    pub fn actor_lost_process(&self, actor: ActorId) -> bool {
        let lives = self.lives.get(&actor);
        lives.is_some_and(|lives| {
            let is_apart = |life: &WorkerId| self.apart.iter().any(|(one, _)| one == life);
            lives.iter().any(|life| self.is_lost(life) || is_apart(life))
        }) || self.places.get(&actor).is_some_and(|nodes| !nodes.is_disjoint(&self.nodes_lost))
            || self.creators.get(&actor).is_none_or(|creator| self.is_lost(creator))
    }
}
