//! What the checkers go by: what was done to the cluster, what was acknowledged, what ran.
//!
//! Each rule is a plain function of facts, so that assertions elsewhere can share it.

use std::collections::{BTreeMap, BTreeSet};

use helio_proto::error::{ErrorKind, SystemError};
use helio_types::id::PUT_INDEX_BASE;
use helio_types::{ActorId, ObjectId, PlacementGroupId, TaskId, WorkerId};

use crate::history::History;

/// See the module.
#[derive(Debug, Default)]
pub struct Facts {
    /// What is wrong; empty in a good run.
    pub violations: Vec<String>,
    /// What happened to each process, call and actor.
    pub history: History,
    /// How much was done, by name.
    pub counts: BTreeMap<&'static str, u64>,
    /// Worker processes that were killed, or ended on their own.
    pub workers_killed: u64,
    /// Nodes that died.
    pub nodes_killed: u64,
    /// Drivers that were killed.
    pub drivers_killed: u64,
    /// Connections between processes, or to other nodes' daemons, that broke.
    pub links_cut: u64,
    /// Connections between daemons, or to the control service, that broke.
    pub daemon_links_cut: u64,
    /// Nodes that were not heard for so long that they may have been taken for dead.
    pub silenced: BTreeSet<usize>,
    /// Disks that were full for a while.
    pub disks_full: u64,
    /// Times that a machine was short of memory.
    pub memory_short: u64,
    /// Restarts of the control service.
    pub control_restarts: u64,
    /// Worker processes that could not be made.
    pub starts_failed: u64,
    /// Processes that held references and were ended as their program wanted it.
    pub owners_ended: u64,
    /// Placement groups that a program, or the end of one, removed.
    pub groups_removed: u64,
    /// Detached groups that are left.
    pub groups_left: BTreeSet<PlacementGroupId>,
    /// Calls that somebody cancelled.
    pub cancels: u64,
    /// Actors that a program killed, or that died by their own method or constructor.
    pub actors_ended: BTreeSet<ActorId>,
    /// Submitted calls: their retries.
    pub submitted: BTreeMap<TaskId, i32>,
    /// How often each call was begun.
    pub begun: BTreeMap<TaskId, u32>,
    /// Acknowledged writes to the key-value table.
    pub kv: BTreeMap<Vec<u8>, u64>,
    /// The last write of each key, acknowledged or not: it may have been done before its writer died.
    pub kv_sent: BTreeMap<Vec<u8>, u64>,
    /// Detached actors whose creation was asked for; it may have been done before its asker died.
    pub detached_sent: BTreeSet<ActorId>,
    /// Detached actors whose creation was acknowledged.
    pub detached: BTreeMap<String, ActorId>,
}

impl Facts {
    /// One more of the things of that name was done.
    pub fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Whether something happened that can end a process.
    fn processes_died(&self) -> bool {
        let killed = self.workers_killed + self.groups_removed + self.memory_short;
        killed + self.nodes_lost() + self.drivers_killed > 0
    }

    /// Nodes that died, or may have been taken for dead.
    fn nodes_lost(&self) -> u64 {
        self.nodes_killed + self.silenced.len() as u64
    }

    /// Whether a daemon that is told to end has been away: cut off, unheard, or unknown to a control
    /// service that started again.
    #[must_use]
    pub fn was_away(&self, node: usize) -> bool {
        self.daemon_links_cut + self.control_restarts > 0 || self.silenced.contains(&node)
    }

    /// Whether an actor that is always restarted may be over all the same: it was ended, or it was told
    /// that no process can be made for it.
    #[must_use]
    pub fn may_have_ended(&self, actor: ActorId) -> bool {
        self.actors_ended.contains(&actor) || self.starts_failed > 0
    }

    /// **OWN-1** Whether an error of the system that a reader met is owed to something that was done to
    /// the cluster; without a cause every read gives the value.
    #[must_use]
    pub fn explains(&self, error: &SystemError, reader: WorkerId) -> bool {
        let kind = error.kind;
        // An actor that is over may still begin: its process is told right behind its launch, and what it
        // was to read is let go.
        if kind == ErrorKind::ObjectLost && self.reads_for_ended_actor(reader) {
            return true;
        }
        self.has_cause(kind) && self.has_own_cause(kind, error, reader)
    }

    fn reads_for_ended_actor(&self, reader: WorkerId) -> bool {
        self.history
            .actors_in(reader)
            .any(|actor| self.actors_ended.contains(&actor) || self.history.actor_lost_group(actor))
    }

    /// Whether what happened to this call, object or actor explains the error.
    fn has_own_cause(&self, kind: ErrorKind, error: &SystemError, reader: WorkerId) -> bool {
        let history = &self.history;
        match kind {
            ErrorKind::WorkerCrashed if !error.task.is_nil() => {
                history.call_lost_worker(error.task)
            }
            ErrorKind::TaskCancelled if !error.task.is_nil() => history.was_cancelled(error.task),
            ErrorKind::OwnerDied if !error.object.is_nil() => {
                history.owner_lost(error.object, reader)
            }
            ErrorKind::ActorDied | ErrorKind::ActorUnavailable if !error.actor.is_nil() => {
                self.may_have_ended(error.actor)
                    || history.actor_lost_process(error.actor)
                    || (self.control_restarts > 0 && history.actor_lost_group(error.actor))
            }
            _ => true,
        }
    }

    /// Whether anything was done to the cluster that causes errors of this kind.
    fn has_cause(&self, kind: ErrorKind) -> bool {
        match kind {
            ErrorKind::WorkerCrashed => {
                self.processes_died() || self.links_cut > 0 || self.starts_failed > 0
            }
            ErrorKind::NodeDied => self.nodes_lost() + self.links_cut > 0,
            // An actor also ends with its owner and with the node it was to be placed on.
            ErrorKind::ActorDied => {
                !self.actors_ended.is_empty()
                    || self.processes_died()
                    || self.starts_failed > 0
                    || self.owners_ended > 0
            }
            ErrorKind::ActorUnavailable => {
                self.processes_died() || !self.actors_ended.is_empty() || self.links_cut > 0
            }
            ErrorKind::OwnerDied => {
                self.processes_died() || self.owners_ended > 0 || !self.actors_ended.is_empty()
            }
            // A copy that is gone is made again; if it cannot be, that is what its reader is told.
            // The workers of a client whose connection breaks are ended.
            ErrorKind::ReconstructionFailed => self.processes_died() || self.links_cut > 0,
            ErrorKind::TaskGroupRemoved | ErrorKind::ActorGroupRemoved => {
                self.groups_removed + self.drivers_killed + self.nodes_lost() > 0
            }
            ErrorKind::TaskCancelled => self.cancels > 0,
            ErrorKind::System => self.starts_failed > 0,
            ErrorKind::OutOfMemory => self.memory_short > 0,
            ErrorKind::StoreFull | ErrorKind::OutOfDisk => self.disks_full > 0,
            ErrorKind::TaskUnschedulable
            | ErrorKind::ActorUnschedulable
            | ErrorKind::RuntimeEnvSetup
            | ErrorKind::ObjectFreed => false,
            // What borrowers on a node hold that is taken for dead is let go, and they live on for a while.
            ErrorKind::ObjectLost => !self.silenced.is_empty(),
        }
    }

    /// Whether an object is what a call with retries without end made: then it is made again whenever its
    /// last copy is lost, be it a return, or an item of a generator that has ended.
    #[must_use]
    pub fn must_be_made_again(&self, object: ObjectId) -> bool {
        let retries = self.submitted.get(&object.task());
        retries == Some(&-1) && object.index() < PUT_INDEX_BASE && self.cancels == 0
    }

    /// A call begins on some worker: one without retries does so once at most.
    ///
    /// # Errors
    /// When it has begun too often.
    pub fn begins(&mut self, task: TaskId) -> Result<(), String> {
        let times = self.begun.entry(task).or_default();
        *times += 1;
        match self.submitted.get(&task) {
            Some(0) if *times > 1 => {
                Err(format!("{task:?} has no retries and was begun {times} times"))
            }
            // A worker that is ended for want of memory costs its call no retry, and one ends each time.
            Some(retries)
                if *retries > 0 && u64::from(*times) > *retries as u64 + 1 + self.memory_short =>
            {
                Err(format!("{task:?} has {retries} retries and was begun {times} times"))
            }
            _ => Ok(()),
        }
    }
}
