//! The facts that the checkers go by: the faults of the run, the acknowledged requests, the calls that ran.

use std::collections::{BTreeMap, BTreeSet};

use helio_types::{ActorId, JobId, NodeId, PlacementGroupId, TaskId, WorkerId};

use crate::evidence::GroupPromise;
use crate::history::History;

/// The record of the run that the checkers read.
#[derive(Debug, Default)]
pub struct Facts {
    /// The violations that were found; empty in a good run.
    pub violations: Vec<String>,
    /// The history of each process, call and actor.
    pub history: History,
    /// Number of things that were done, by name.
    pub counts: BTreeMap<&'static str, u64>,
    /// Nodes whose connection to another one, or to the control service, broke.
    pub nodes_cut: BTreeSet<usize>,
    /// Nodes that were not heard for so long that they may have been taken for dead.
    pub silenced: BTreeSet<usize>,
    /// Actors that were asked for while the head's disk had no room.
    pub refusable_actors: BTreeSet<ActorId>,
    /// Keys of the key-value table that were to change while the head's disk had no room.
    pub refusable_keys: BTreeSet<Vec<u8>>,
    /// Whether the end of the cluster was asked for.
    pub is_stopped: bool,
    /// Number of times that the environment was tried that can never be made.
    pub environments_broken: usize,
    /// Drivers whose job has begun.
    pub drivers_with_jobs: BTreeSet<WorkerId>,
    /// The name that each named actor was made with.
    pub names: BTreeMap<ActorId, String>,
    /// The job for which each process has run something.
    pub served: BTreeMap<WorkerId, JobId>,
    /// The time at which each driver ended.
    pub drivers_ended: BTreeMap<WorkerId, u64>,
    /// Restarts of the control service.
    pub control_restarts: u64,
    /// The promise about each placement group.
    pub groups: BTreeMap<PlacementGroupId, GroupPromise>,
    /// Nodes that were asked for bundles.
    pub nodes_with_bundles: BTreeSet<NodeId>,
    /// Detached groups that are left.
    pub groups_left: BTreeSet<PlacementGroupId>,
    /// Number of times that each call was begun.
    pub begun: BTreeMap<TaskId, u32>,
    /// The last acknowledged write of each key of the key-value table; `None`: it was deleted.
    pub kv: BTreeMap<Vec<u8>, Option<u64>>,
    /// The last write of each key, acknowledged or not: it may have been done before its writer died.
    pub kv_sent: BTreeMap<Vec<u8>, Option<u64>>,
    /// Detached actors whose creation was asked for; it may have been done before its asker died.
    pub detached_sent: BTreeSet<ActorId>,
    /// Detached actors whose creation was acknowledged.
    pub detached: BTreeMap<String, ActorId>,
}

impl Facts {
    /// Counts one more of the things of that name.
    pub fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Whether a daemon that is told to end has been away: cut off, unheard, or unknown to a control
    /// service that started again.
    #[must_use]
    pub fn was_away(&self, node: usize) -> bool {
        self.control_restarts > 0 || self.nodes_cut.contains(&node) || self.silenced.contains(&node)
    }

    /// A process runs something for a job.
    ///
    /// # Errors
    /// When it has run something for another one.
    pub fn serves(&mut self, process: WorkerId, job: JobId) -> Result<(), String> {
        match *self.served.entry(process).or_insert(job) {
            of if of == job => Ok(()),
            of => Err(format!("{process} runs what is of {job}, and has run what is of {of}")),
        }
    }

    /// A call begins on some worker: one without retries does so once at most, and none at once where memory was short.
    ///
    /// # Errors
    /// When it has begun too often.
    pub fn begins(&mut self, task: TaskId, at: WorkerId, now: u64) -> Result<(), String> {
        if self.history.is_done(task) {
            return Err(format!("{task:?} is begun again, and nothing took its result away"));
        }
        if let Some(earliest) =
            self.history.begins_again_at(task).filter(|earliest| now < *earliest)
        {
            let early_ms = (earliest - now) / 1_000;
            return Err(format!(
                "{task:?} begins again {early_ms} ms too early: its worker was ended for want of memory"
            ));
        }
        self.history.begun(task, at);
        let times = self.begun.entry(task).or_default();
        *times += 1;
        if self.history.begun_max(task).is_some_and(|most| *times as usize > most) {
            return Err(format!("{task:?} is begun, and its owner had stopped it"));
        }
        // A worker that is ended for want of memory costs its call no retry.
        let extra = self.history.times_starved(task);
        match self.history.retries(task) {
            Some(0) if *times > 1 => {
                Err(format!("{task:?} has no retries and was begun {times} times"))
            }
            Some(retries) if retries > 0 && *times as usize > retries as usize + 1 + extra => {
                Err(format!("{task:?} has {retries} retries and was begun {times} times"))
            }
            _ => Ok(()),
        }
    }
}
