//! Jobs: one driver's run each.

use std::collections::{BTreeMap, VecDeque};

use helio_config::control::{FINISHED_JOBS_MAX, JOBS_MAX};
use helio_proto::cluster::{ClientGone, JobFinished, JobLogs};
use helio_proto::control::{ControlResponse, Failure, FailureKind, JobInfo, StartJob};
use helio_types::{JobId, NodeId, WorkerId};

use crate::Control;
use crate::requests::Asker;

/// A node that comes back is told of jobs that ended this recently, in milliseconds: longer than a node
/// may be away.
const REMIND_MS_MAX: u64 = 60_000;

/// All jobs.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    /// The number of the newest job.
    pub(crate) newest: u32,
    /// Those whose driver is there.
    pub(crate) running: BTreeMap<JobId, JobInfo>,
    /// Those that ended, the newest last.
    pub(crate) finished: VecDeque<JobInfo>,
}

/// Job ids count as Ray's do: 01000000, 02000000, …
pub(crate) fn job_id(number: u32) -> JobId {
    JobId(number.to_le_bytes())
}

/// The namespace of a driver that names none: its own alone. Written as a UUID, as Ray's are, and made
/// of the driver's id, which is random already.
fn anonymous_namespace(driver: WorkerId) -> String {
    let mut text = driver.hex();
    text.truncate(32);
    for dash in [20, 16, 12, 8] {
        text.insert(dash, '-');
    }
    text
}

impl Control {
    pub(crate) fn start_job(&mut self, asker: Asker, request: StartJob) {
        // A node that lost its connection asks again.
        if let Some(job) = self.jobs.running.values().find(|job| job.driver == request.driver) {
            let job = job.clone();
            self.reply(asker, job);
            return;
        }
        if self.jobs.running.len() >= JOBS_MAX {
            let full = format!("the cluster runs {JOBS_MAX} jobs, the most it can");
            self.reply(asker, Failure::new(FailureKind::System, full));
            return;
        }
        self.jobs.newest += 1;
        let namespace = match request.namespace {
            none if none.is_empty() => anonymous_namespace(request.driver),
            named => named,
        };
        let job = JobInfo {
            job_id: job_id(self.jobs.newest),
            driver: request.driver,
            node_id: asker.node_id,
            alive: true,
            entrypoint: request.entrypoint,
            started_ms: self.now_ms,
            ended_ms: 0,
            namespace,
            pid: request.pid,
        };
        self.persist_job(&job);
        self.jobs.running.insert(job.job_id, job.clone());
        self.reply(asker, ControlResponse::Job(job));
    }

    pub(crate) fn on_client_gone(&mut self, node_id: NodeId, gone: &ClientGone) {
        self.drop_follower(node_id, gone.worker_id);
        self.drop_waiter(|asker| asker.worker_id == gone.worker_id);
        if gone.is_driver {
            self.driver_gone(gone.worker_id);
        }
        let cause = if gone.is_driver {
            "its owner, the driver, has ended".to_owned()
        } else {
            format!("its owner, worker {}, has ended: {}", gone.worker_id, gone.cause.message)
        };
        self.end_owned_by(gone.worker_id, &cause);
    }

    /// Ends the driver's job: its actors first, then the workers, so that no node reports the end of an
    /// actor that nobody here knows to be over.
    pub(crate) fn driver_gone(&mut self, driver: WorkerId) {
        let job = self.jobs.running.values().find(|job| job.driver == driver).map(|job| job.job_id);
        let Some(mut job) = job.and_then(|id| self.jobs.running.remove(&id)) else { return };
        job.alive = false;
        job.ended_ms = self.now_ms;
        self.end_actors_of_job(job.job_id);
        self.end_groups_of_job(job.job_id);
        self.persist_job(&job);
        let all: Vec<NodeId> = self.views.iter().map(|view| view.address.node_id).collect();
        for node_id in all {
            self.send(node_id, JobFinished { job_id: job.job_id, driver });
        }
        self.jobs.finished.push_back(job);
        if self.jobs.finished.len() > FINISHED_JOBS_MAX
            && let Some(oldest) = self.jobs.finished.pop_front()
        {
            self.forget_job(oldest.job_id);
        }
    }

    pub(crate) fn on_job_logs(&mut self, logs: JobLogs) {
        if let Some((node_id, driver)) = self.driver_of(logs.job_id) {
            self.send_to_client(node_id, driver, logs.lines);
        }
    }

    /// Tells a node that was away which jobs ended meanwhile.
    pub(crate) fn remind(&mut self, node_id: NodeId) {
        let recent = |job: &&JobInfo| job.ended_ms + REMIND_MS_MAX > self.now_ms;
        let recent = self.jobs.finished.iter().rev().take_while(recent);
        let ended: Vec<JobFinished> =
            recent.map(|job| JobFinished { job_id: job.job_id, driver: job.driver }).collect();
        for message in ended {
            self.send(node_id, message);
        }
    }
}
