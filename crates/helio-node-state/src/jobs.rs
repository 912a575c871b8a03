//! Jobs: which are over, and which driver shows the lines of its workers. **LIMIT-1**
//! [`JOBS_FINISHED_MAX`] finished jobs are remembered; the oldest are forgotten.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use helio_proto::cluster::JobLogs;
use helio_proto::node::{LogLine, LogLines};
use helio_types::JobId;

use crate::context::Context;
use crate::event::Conn;
use crate::limits::JOBS_FINISHED_MAX;

/// The drivers on this node, and the latest jobs that have finished, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    /// The drivers on this node, and whether they show the lines of their workers.
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

    pub(crate) fn finish(&mut self, job_id: JobId) {
        self.drivers.remove(&job_id);
        // Remembered: lines of its last workers, and workers that were begun for it, still come.
        if self.finished.insert(job_id) {
            self.finished_order.push_back(job_id);
        }
        let is_counted = self.finished.len() == self.finished_order.len();
        assert!(is_counted, "a job that is over would be kept for ever");
        assert!(!self.drivers.contains_key(&job_id), "lines would go to a driver that is gone");
        if self.finished_order.len() > JOBS_FINISHED_MAX
            && let Some(oldest) = self.finished_order.pop_front()
        {
            self.finished.remove(&oldest);
        }
    }

    /// A worker of the job wrote lines. They go to the job's driver: here, or wherever the control
    /// service knows it to be.
    pub(crate) fn on_worker_lines(
        &self,
        job_id: JobId,
        mut lines: Vec<LogLine>,
        ctx: &mut Context,
    ) {
        match self.drivers.get(&job_id) {
            Some((conn, true)) => ctx.send(*conn, LogLines { lines }),
            Some((_, false)) => {}
            None if self.is_finished(job_id) => {}
            None => {
                for line in &mut lines {
                    line.host.clone_from(&ctx.setup().address.host);
                }
                ctx.tell_control(JobLogs { job_id, lines: LogLines { lines } });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Action;
    use crate::setup::Setup;

    fn job(n: u32) -> JobId {
        JobId(n.to_be_bytes())
    }

    /// Returns the destinations of a line of the job's worker: a connection, the control service
    /// (`None`), or nowhere.
    fn destination(jobs: &Jobs, job_id: JobId) -> Vec<Option<Conn>> {
        let mut ctx = Context::new(Setup::default(), 0);
        jobs.on_worker_lines(job_id, vec![LogLine::default()], &mut ctx);
        let conn = |action| match action {
            Action::Send { conn, .. } => Some(conn),
            _ => None,
        };
        ctx.finish().into_iter().map(conn).collect()
    }

    #[test]
    fn lines_go_to_the_driver_wherever_it_is() {
        let mut jobs = Jobs::default();
        jobs.add_driver(job(1), Conn(5), true);
        jobs.add_driver(job(2), Conn(6), false);
        assert_eq!(destination(&jobs, job(1)), [Some(Conn(5))]);
        assert!(destination(&jobs, job(2)).is_empty(), "its driver does not show them");
        assert_eq!(destination(&jobs, job(3)), [None], "its driver is on another node");
        jobs.finish(job(1));
        assert!(destination(&jobs, job(1)).is_empty());
    }

    #[test]
    fn the_oldest_finished_jobs_are_forgotten() {
        let mut jobs = Jobs::default();
        for n in 0..=JOBS_FINISHED_MAX as u32 {
            jobs.finish(job(n));
        }
        assert!(!jobs.is_finished(job(0)));
        assert!(jobs.is_finished(job(1)) && jobs.is_finished(job(JOBS_FINISHED_MAX as u32)));
    }
}
