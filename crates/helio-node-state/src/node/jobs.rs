//! The end of a job, and the lines of its workers.

use helio_proto::cluster::JobFinished;
use helio_proto::node::LogLine;
use helio_types::{DeathCause, DeathKind, JobId, WorkerId};

use super::Node;
use crate::event::{Action, Conn};

impl Node {
    /// A driver anywhere has ended. Its leases end with its connection; here end its actors that are
    /// not detached and its idle workers. The work that detached actors of the job still run goes on; it
    /// ends with them, link by link, as each holder of leases goes.
    pub(super) fn on_job_finished(&mut self, finished: &JobFinished) {
        let job_id = finished.job_id;
        self.jobs.finish(job_id);
        let drivers: Vec<Conn> = self.clients.of_worker_id(finished.driver).collect();
        for conn in drivers {
            if self.clients.is_remote(conn) {
                self.ctx.push(Action::Close { conn, why: String::new() });
                self.on_client_closed(conn);
            }
        }
        self.end_job(job_id);
    }

    pub(super) fn end_job(&mut self, job_id: JobId) {
        self.jobs.finish(job_id);
        self.preload.on_job_finished(job_id, &mut self.ctx);
        let reason = "The job that it belonged to has ended.";
        for key in self.actors.of_job(job_id) {
            if !self.actors.is_detached(key) {
                self.stop_actor(key, DeathCause::new(DeathKind::Intended, reason), false);
            }
        }
        let idle: Vec<WorkerId> = self.pool.idle_of_job(job_id);
        for worker_id in idle {
            let cause = DeathCause::new(DeathKind::Intended, reason);
            self.pool.end_at_once(worker_id, cause, &mut self.ctx);
        }
        self.drop_objects_of_job(job_id);
        self.ctx.capacity_changed();
    }

    pub(super) fn on_worker_wrote(&mut self, worker_id: WorkerId, lines: Vec<LogLine>) {
        if let Some(job_id) = self.pool.job_of(worker_id) {
            self.jobs.on_worker_lines(job_id, lines, &mut self.ctx);
        }
    }
}
