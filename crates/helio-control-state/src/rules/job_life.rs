//! The begin and end of jobs.

use std::collections::BTreeSet;

use helio_proto::cluster::{ClientGone, FlushJobLogs, JobFinished, JobLogs, JobLogsFlushed};
use helio_proto::control::{ControlResponse, StartJob};
use helio_proto::node::LogsFlushed;
use helio_types::{NodeId, WorkerId, mutant};

use super::Control;
use crate::durable;
use crate::event::{Note, Requester};
use crate::log_flushes::Asker;

impl Control {
    pub(crate) fn start_job(&mut self, requester: Requester, request: StartJob) -> ControlResponse {
        // A node that lost its connection asks again.
        if let Some(job) = self.jobs.of_driver(request.driver)
            && !mutant!("job-begins-with-each-question")
        {
            return job.clone().into();
        }
        match self.jobs.start(requester.node_id, request, self.now_ms()) {
            Ok(job) => {
                let node_id = requester.node_id;
                self.out.log(Note::JobStarted { job_id: job.job_id, node_id });
                if !mutant!("running-job-not-persisted") {
                    self.out.persist(durable::job(&job));
                }
                job.into()
            }
            Err(failure) => failure.into(),
        }
    }

    pub(crate) fn on_client_gone(&mut self, node_id: NodeId, gone: &ClientGone) {
        self.subscriptions.remove_process((node_id, gone.worker_id));
        self.groups.drop_waiters(|requester| requester.worker_id == gone.worker_id);
        self.nodes.drop_waiters(|requester| requester.worker_id == gone.worker_id);
        self.log_flushes.on_client_gone(gone.worker_id);
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
    /// actor that is not known to be over.
    pub(crate) fn driver_gone(&mut self, driver: WorkerId) {
        let Some(job) = self.jobs.end(driver, self.now_ms()) else { return };
        self.out.log(Note::JobEnded { job_id: job.job_id });
        self.end_actors_of_job(job.job_id);
        self.end_groups_of_job(job.job_id);
        self.out.persist(durable::job(&job));
        self.send_to_all(JobFinished { job_id: job.job_id, driver });
        if let Some(forgotten) = self.jobs.finish(job) {
            self.out.persist(durable::no_job(forgotten));
        }
    }

    /// Lines of a job's workers go to its driver.
    pub(crate) fn on_job_logs(&mut self, logs: JobLogs) {
        if let Some((node_id, driver)) = self.driver_of(logs.job_id) {
            self.out.send_to_client(node_id, driver, logs.lines);
        }
    }

    /// A driver wants all lines of its workers, of which the other nodes have those that they run.
    pub(crate) fn on_flush_logs(&mut self, node_id: NodeId, flush: FlushJobLogs) {
        let mut others: BTreeSet<NodeId> = self.nodes.alive_ids().into_iter().collect();
        others.remove(&node_id);
        let asker = (node_id, flush.driver, flush.request_id);
        if self.log_flushes.add(asker, others.clone()) {
            self.tell_flushed(asker);
        } else {
            let flush = FlushJobLogs { node_id, ..flush };
            self.out.send_to_many(others.into_iter().collect(), flush);
        }
    }

    pub(crate) fn on_logs_flushed(&mut self, node_id: NodeId, flushed: &JobLogsFlushed) {
        let asker = (flushed.node_id, flushed.driver, flushed.request_id);
        if self.log_flushes.on_flushed(node_id, asker) {
            self.tell_flushed(asker);
        }
    }

    pub(crate) fn tell_flushed(&mut self, (node_id, driver, request_id): Asker) {
        self.out.send_to_client(node_id, driver, LogsFlushed { request_id });
    }
}
