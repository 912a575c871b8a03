//! Jobs: a driver's run, and what ends with it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use helio_proto::cluster::{JobFinished, JobLogs};
use helio_proto::node::{LogLine, LogLines};
use helio_types::{DeathCause, DeathKind, JobId, WorkerId};

use crate::limits::JOBS_FINISHED_MAX;
use crate::{Action, Conn, Node};

#[derive(Debug, Default)]
pub(crate) struct Jobs {
    /// The drivers on this node, and whether they show their workers' lines.
    drivers: BTreeMap<JobId, (Conn, bool)>,
    finished: BTreeSet<JobId>,
    finished_order: VecDeque<JobId>,
}

impl Jobs {
    pub(crate) fn add_driver(&mut self, job_id: JobId, conn: Conn, shows_logs: bool) {
        self.drivers.insert(job_id, (conn, shows_logs));
    }

    pub(crate) fn is_finished(&self, job_id: JobId) -> bool {
        self.finished.contains(&job_id)
    }

    fn finish(&mut self, job_id: JobId) {
        self.drivers.remove(&job_id);
        if self.finished.insert(job_id) {
            self.finished_order.push_back(job_id);
        }
        if self.finished_order.len() > JOBS_FINISHED_MAX
            && let Some(oldest) = self.finished_order.pop_front()
        {
            self.finished.remove(&oldest);
        }
    }
}

impl Node {
    /// A driver anywhere has ended. Its leases end with its connection; here end its actors that are
    /// not detached and its idle workers. What detached actors of the job still run, goes on; it ends
    /// with them, link by link, as each holder of leases goes.
    pub(crate) fn job_finished(&mut self, finished: &JobFinished) {
        let job_id = finished.job_id;
        self.jobs.finish(job_id);
        let drivers: Vec<Conn> = self.clients.of_worker_id(finished.driver).collect();
        for conn in drivers {
            if self.clients.is_remote(conn) {
                self.out.push(Action::Close { conn, why: String::new() });
                self.client_closed(conn);
            }
        }
        self.end_job(job_id);
    }

    pub(crate) fn end_job(&mut self, job_id: JobId) {
        self.jobs.finish(job_id);
        self.job_expects_nothing(job_id);
        let reason = "The job that it belonged to has ended.";
        for key in self.actors.of_job(job_id) {
            if !self.actors.is_detached(key) {
                self.stop_actor(key, DeathCause::new(DeathKind::Intended, reason), false);
            }
        }
        let idle: Vec<WorkerId> = self.pool.idle_of_job(job_id);
        for worker_id in idle {
            self.kill_worker(worker_id, Some(DeathCause::new(DeathKind::Intended, reason)));
        }
        self.drop_objects_of_job(job_id);
        self.is_dirty = true;
    }

    /// Lines go to the job's driver: here, or wherever the control service knows it to be.
    pub(crate) fn worker_wrote(&mut self, worker_id: WorkerId, lines: Vec<LogLine>) {
        let Some(job_id) = self.pool.job_of(worker_id) else { return };
        match self.jobs.drivers.get(&job_id) {
            Some((conn, true)) => self.send(*conn, LogLines { lines }),
            Some((_, false)) => {}
            None if self.jobs.is_finished(job_id) => {}
            None => {
                let host = &self.setup.address.host;
                let lines =
                    lines.into_iter().map(|line| LogLine { host: host.clone(), ..line }).collect();
                self.tell_control(JobLogs { job_id, lines: LogLines { lines } });
            }
        }
    }
}
