//! The table of jobs: one driver's run each.

use std::collections::{BTreeMap, VecDeque};

use helio_config::control::{FINISHED_JOBS_MAX, JOBS_MAX, LIST_ROWS_MAX};
use helio_proto::cluster::JobFinished;
use helio_proto::control::{Failure, FailureKind, JobInfo, Jobs as Rows, StartJob};
use helio_types::{JobId, NodeId, WorkerId, mutant};

/// A node that registers again is told of jobs that ended this recently, in milliseconds: longer than a
/// node may be away.
const REMIND_MS_MAX: u64 = 60_000;

/// The table of jobs.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    /// The number of the newest job.
    newest: u32,
    /// The jobs whose driver is alive.
    running: BTreeMap<JobId, JobInfo>,
    /// Derived from `running`: the job of each driver.
    drivers: BTreeMap<(NodeId, WorkerId), JobId>,
    /// The jobs that ended, the newest last.
    finished: VecDeque<JobInfo>,
}

/// Job ids count as Ray's do: 01000000, 02000000, …
fn job_id(number: u32) -> JobId {
    JobId(number.to_le_bytes())
}

/// The namespace of a driver that names none: its own alone. It is written as a UUID, as Ray's are, and
/// made of the driver's id, which is random already.
fn anonymous_namespace(driver: WorkerId) -> String {
    let mut text = driver.hex();
    text.truncate(32);
    for dash in [20, 16, 12, 8] {
        text.insert(dash, '-');
    }
    text
}

impl Jobs {
    pub(crate) fn is_running(&self, job_id: JobId) -> bool {
        self.running.contains_key(&job_id)
    }

    pub(crate) fn n_running(&self) -> usize {
        self.running.len()
    }

    /// The node and the driver of a running job.
    pub(crate) fn driver_of(&self, job_id: JobId) -> Option<(NodeId, WorkerId)> {
        self.running.get(&job_id).map(|job| (job.node_id, job.driver))
    }

    /// The running job of a driver.
    pub(crate) fn of_driver(&self, driver: WorkerId) -> Option<&JobInfo> {
        self.running.values().find(|job| job.driver == driver)
    }

    /// The drivers on a node.
    pub(crate) fn drivers_on(&self, node_id: NodeId) -> Vec<WorkerId> {
        let (first, last) = (WorkerId([0; WorkerId::LEN]), WorkerId([u8::MAX; WorkerId::LEN]));
        let here = self.drivers.range((node_id, first)..=(node_id, last));
        here.map(|((_, driver), _)| *driver).collect()
    }

    /// The nodes that have drivers.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.drivers.keys().map(|(node_id, _)| *node_id)
    }

    /// Begins a job, unless there are too many.
    pub(crate) fn start(
        &mut self,
        node_id: NodeId,
        request: StartJob,
        now_ms: u64,
    ) -> Result<JobInfo, Failure> {
        if self.running.len() >= JOBS_MAX {
            let full = format!("the cluster runs {JOBS_MAX} jobs, the most it can");
            return Err(Failure::new(FailureKind::System, full));
        }
        // Numbers are never used again, also not after a restart: ids of actors and tasks begin
        // with the job's.
        self.newest += 1;
        assert!(
            !self.running.contains_key(&job_id(self.newest)),
            "two jobs would share their workers"
        );
        let namespace = match request.namespace {
            none if none.is_empty() => anonymous_namespace(request.driver),
            named => named,
        };
        let job = JobInfo {
            job_id: job_id(self.newest),
            driver: request.driver,
            node_id,
            alive: true,
            entrypoint: request.entrypoint,
            started_ms: now_ms,
            ended_ms: 0,
            namespace,
            pid: request.pid,
        };
        self.insert_running(job.clone());
        Ok(job)
    }

    fn insert_running(&mut self, job: JobInfo) {
        self.drivers.insert((job.node_id, job.driver), job.job_id);
        self.running.insert(job.job_id, job);
    }

    /// The driver has ended; its job does not run any more. Call [`Self::finish`] with it.
    pub(crate) fn end(&mut self, driver: WorkerId, now_ms: u64) -> Option<JobInfo> {
        let job_id = self.of_driver(driver)?.job_id;
        let mut job = self.running.remove(&job_id)?;
        let of_driver = self.drivers.remove(&(job.node_id, job.driver));
        assert_eq!(of_driver, Some(job_id), "a driver's end would end the job of another one");
        (job.alive, job.ended_ms) = (mutant!("ended-job-listed-as-running"), now_ms);
        Some(job)
    }

    /// Remembers a job that ended; answers the job that is forgotten instead.
    pub(crate) fn finish(&mut self, job: JobInfo) -> Option<JobId> {
        if mutant!("ended-job-not-listed") {
            return Some(job.job_id);
        }
        self.finished.push_back(job);
        if self.finished.len() <= FINISHED_JOBS_MAX {
            return None;
        }
        self.finished.pop_front().map(|oldest| oldest.job_id)
    }

    /// Takes in a job of before a restart.
    pub(crate) fn restore(&mut self, job: JobInfo) {
        // Numbers of jobs that have ended count, too: workers and ids of theirs may still be about.
        if !mutant!("jobs-number-given-twice") {
            self.newest = self.newest.max(u32::from_le_bytes(job.job_id.0));
        }
        if job.alive {
            self.insert_running(job);
        } else {
            // Keys of jobs are not in the order of time.
            let later = self.finished.partition_point(|other| other.ended_ms <= job.ended_ms);
            self.finished.insert(later, job);
        }
    }

    /// The jobs of which a node that was away may not know that they ended.
    pub(crate) fn recently_finished(&self, now_ms: u64) -> Vec<JobFinished> {
        let recent = |job: &&JobInfo| job.ended_ms + REMIND_MS_MAX > now_ms;
        let recent = self.finished.iter().rev().take_while(recent);
        recent.map(|job| JobFinished { job_id: job.job_id, driver: job.driver }).collect()
    }

    pub(crate) fn rows(&self) -> Rows {
        let all = self.running.values().chain(self.finished.iter().rev());
        Rows { jobs: all.take(LIST_ROWS_MAX).cloned().collect() }
    }

    /// Whether the index of drivers agrees with the jobs.
    pub(crate) fn check(&self) -> Result<(), String> {
        let indexed = self
            .running
            .values()
            .all(|job| self.drivers.get(&(job.node_id, job.driver)) == Some(&job.job_id));
        if indexed && self.drivers.len() == self.running.len() {
            Ok(())
        } else {
            Err("the index of drivers is not that of the jobs".to_owned())
        }
    }
}
