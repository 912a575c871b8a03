//! Events of workers, from their start to their end, and whom they are given to.

use std::sync::Arc;

use helio_proto::cluster::ClientGone;
use helio_proto::control::{Failure, FailureKind};
use helio_proto::node::{Expect, Expected, LeaseGranted, Leaving};
use helio_types::{DeathCause, DeathKind, JobId, LeaseId, WorkerAddress, WorkerId};

use super::Node;
use crate::clients::Client;
use crate::event::{Action, Conn, Exit};
use crate::keys::{Demand, PoolKey};
use crate::limits::WORKERS_AHEAD_MAX;
use crate::pool::{Gone, Stay, Use};

impl Node {
    /// Finds a worker for a lease or an actor: an idle one at once, else one is started.
    pub(super) fn need_worker(&mut self, key: PoolKey, demand: Demand) {
        let wants_preloaded = match demand {
            Demand::Lease(_) => self.preload.serves_lease(&key, &self.ctx),
            Demand::Actor(actor) => {
                self.preload.serves_actor(&key, self.actors.modules(actor), &mut self.ctx)
            }
        };
        match self.pool.find(key, demand, wants_preloaded) {
            Some(worker_id) => self.assign(worker_id, demand),
            None => self.start_workers(),
        }
    }

    /// Starts as many workers as are waited for and not starting yet.
    fn start_workers(&mut self) {
        for (key, is_preloaded, count) in self.pool.missing(self.ctx.setup().starts_max) {
            for _ in 0..count {
                self.start_worker(&key, is_preloaded, false);
            }
        }
    }

    fn start_worker(&mut self, key: &PoolKey, is_preloaded: bool, is_ahead: bool) {
        if let Err(failure) = self.pool.start(key, is_preloaded, is_ahead, &mut self.ctx) {
            self.fail_demands(key, &failure);
        }
    }

    /// A client may come to need workers: they are started ahead, and modules loaded.
    pub(super) fn on_expect(&mut self, conn: Conn, expect: Expect) {
        let Some(job_id) = self.clients.get(conn).map(Client::job_id) else { return };
        // A guest runs no work: its workers would wait for nothing.
        let is_moot = self.ctx.setup().is_guest;
        if is_moot || job_id == JobId::NIL || self.jobs.is_finished(job_id) {
            if expect.request_id != 0 {
                let answer = Expected { request_id: expect.request_id, ..Expected::default() };
                self.ctx.send(conn, answer);
            }
            return;
        }
        let key = (job_id, Arc::new(expect.runtime_env));
        let count = expect.workers.min(WORKERS_AHEAD_MAX) as usize;
        for _ in 0..self.pool.missing_ahead(&key, count, self.ctx.setup().starts_max) {
            self.start_worker(&key, false, true);
        }
        self.preload.expect(&key, &expect.modules, &mut self.ctx);
        let missing = self.pool.starting_of(&key);
        self.preload.await_workers(key, conn, expect.request_id, missing, &mut self.ctx);
    }

    pub(super) fn on_worker_registered(&mut self, conn: Conn, worker_id: WorkerId) {
        if self.pool.on_registered(worker_id, conn, self.clients.pid(conn), self.ctx.now()) {
            if let Some(worker) = self.pool.get(worker_id)
                && let (Some(begun), Some(serving)) = (worker.life().begun, worker.life().serving)
            {
                let size =
                    self.clients.get(conn).map_or(0, |it| it.registration().environment_size);
                let took = serving.saturating_sub(begun);
                self.environments.on_start(worker.runtime_env(), took, size);
            }
            self.send_registered(conn, String::new());
            self.on_worker_free(worker_id);
        }
    }

    /// A worker has nothing to do: the first that waits for its kind gets it.
    pub(super) fn on_worker_free(&mut self, worker_id: WorkerId) {
        let Some(freed) = self.pool.on_free(worker_id) else { return };
        if let Some(conn) = freed.registered {
            let address = self.address_of(conn);
            self.preload.on_worker(&freed.key, &address, &mut self.ctx);
        }
        if let Some(demand) = self.pool.take_demand(&freed) {
            self.assign(worker_id, demand);
        // A detached actor's demand comes first: it may outlive the job.
        } else if self.jobs.is_finished(freed.key.0) {
            let reason = "The job that it belonged to has ended.";
            return self.pool.end(worker_id, reason, &mut self.ctx);
        } else {
            self.pool.set_idle(worker_id, &freed, &mut self.ctx);
        }
        // Its place among those that may start is free.
        self.start_workers();
    }

    fn assign(&mut self, worker_id: WorkerId, demand: Demand) {
        let Some(conn) = self.pool.conn(worker_id) else { return };
        self.pool.assign(worker_id, demand);
        match demand {
            Demand::Lease(lease_id) => {
                let worker = self.address_of(conn);
                let Some(lease) = self.leases.on_worker(lease_id, worker_id) else {
                    // The lease was withdrawn meanwhile: the worker is for the next one.
                    return self.on_worker_free(worker_id);
                };
                if let Some(lessee) = lease.lessee() {
                    let (request_id, assigned) = (lease.request_id(), lease.assigned().clone());
                    self.ctx.send(lessee, LeaseGranted { request_id, lease_id, worker, assigned });
                }
            }
            Demand::Actor(key) => self.actors.on_worker(key, worker_id, conn, &mut self.ctx),
        }
        self.pool.on_assigned(worker_id);
    }

    /// A worker waits for others: its CPU is lent. Or it goes on, and takes the CPU back.
    pub(super) fn on_blocked(&mut self, conn: Conn, is_blocked: bool) {
        // A worker that waits for room for what it makes is not about to let others run.
        let is_aside = is_blocked && !self.store.waits_to_write(conn);
        self.arguments.on_blocked(conn, is_aside, &mut self.ctx);
        let Some(worker_id) = self.clients.get(conn).map(Client::worker_id) else { return };
        let assigned = match self.pool.blocking(worker_id, is_blocked) {
            Some(Use::Leased(lease_id)) => {
                self.leases.get(lease_id).map(|lease| (lease.assigned(), lease.strategy()))
            }
            Some(Use::Actor(key)) => self.actors.assigned(key),
            _ => None,
        };
        let Some((assigned, strategy)) = assigned else { return };
        self.pool.set_blocked(worker_id, is_blocked);
        if is_blocked {
            self.ledger.lend_cpu(assigned, strategy);
        } else {
            self.ledger.retake_cpu(assigned, strategy);
        }
        self.ctx.capacity_changed();
    }

    /// A worker that was asked to end is needed still.
    pub(super) fn on_stays(&mut self, conn: Conn) {
        let Some(worker_id) = self.clients.get(conn).map(Client::worker_id) else { return };
        match self.pool.on_stays(worker_id) {
            Stay::Ignored => return,
            Stay::Stays(None) => {}
            Stay::Stays(Some(lease_id)) => {
                let job_id = self.pool.job_of(worker_id);
                if job_id.is_some_and(|job_id| self.jobs.is_finished(job_id)) {
                    // Its objects are gone with its job, and it may have calls that need them.
                    return self.kill_worker(worker_id, None);
                }
                if self.leases.get(lease_id).is_none_or(|lease| lease.lessee().is_some()) {
                    return;
                }
                self.end_lease_of(worker_id, lease_id);
            }
        }
        self.pool.keep(worker_id);
        self.on_worker_free(worker_id);
    }

    /// A worker says why it is about to end.
    pub(super) fn on_leaving(&mut self, conn: Conn, leaving: Leaving) {
        let Some(worker_id) = self.clients.get(conn).map(Client::worker_id) else { return };
        // Its lease may have been given back before, and may be waited for by the calls it waits for.
        if let Some(lease_id) = self.pool.on_leaving(worker_id, leaving)
            && self.leases.get(lease_id).is_some_and(|lease| lease.lessee().is_none())
        {
            self.end_lease_of(worker_id, lease_id);
        }
    }

    /// Frees the lease of a worker that does not end with it at once.
    pub(super) fn end_lease_of(&mut self, worker_id: WorkerId, lease_id: LeaseId) {
        let is_blocked = self.pool.is_blocked(worker_id);
        self.release_lease(lease_id, is_blocked);
    }

    pub(super) fn kill_worker(&mut self, worker_id: WorkerId, cause: Option<DeathCause>) {
        self.pool.kill(worker_id, cause, &mut self.ctx);
    }

    pub(super) fn on_worker_not_started(&mut self, worker_id: WorkerId, why: &str) {
        let message = format!("A worker process could not be started: {why}.");
        self.on_worker_gone(worker_id, DeathCause::new(DeathKind::StartFailed, message));
    }

    pub(super) fn on_worker_exited(&mut self, worker_id: WorkerId, exit: Exit, log_tail: String) {
        if let Some(cause) = self.pool.on_exited(worker_id, exit, log_tail, &mut self.ctx) {
            self.on_worker_gone(worker_id, cause);
        }
    }

    /// The worker's process has ended and its connection should have, too.
    pub(super) fn on_drain_timer(&mut self, worker_id: WorkerId) {
        if let Some(conn) = self.pool.undrained(worker_id) {
            self.ctx.push(Action::ReadOut { conn });
        }
    }

    pub(super) fn on_worker_disconnected(&mut self, worker_id: WorkerId) {
        if let Some(cause) = self.pool.on_disconnected(worker_id, &mut self.ctx) {
            self.on_worker_gone(worker_id, cause);
        }
    }

    /// Handles the end of a worker, once both its process and its connection have ended.
    fn on_worker_gone(&mut self, worker_id: WorkerId, cause: DeathCause) {
        let Some(Gone { key, usage, is_blocked, life }) =
            self.pool.remove(worker_id, &mut self.ctx)
        else {
            return;
        };
        // An actor was told to end, and its process says no more than that it did.
        let told = match usage {
            Use::Actor(key) => self.actors.told_to_end(key).cloned(),
            _ => None,
        };
        // Which process it was is known from its end alone.
        let known = told.map(|told| DeathCause { pid: cause.pid, ..told });
        self.remember_exit(worker_id, known.unwrap_or_else(|| cause.clone()), false, life);
        self.ctx.tell_control(ClientGone { worker_id, is_driver: false, cause: cause.clone() });
        match usage {
            Use::Starting => self.on_start_failed(&key, &cause),
            Use::Leased(lease_id) => self.on_lease_lost(lease_id, worker_id, cause, is_blocked),
            Use::Actor(key) => self.on_actor_gone(key, cause, is_blocked),
            // The worker was killed because its start took too long.
            Use::Ending if cause.kind == DeathKind::StartFailed => {
                self.on_start_failed(&key, &cause)
            }
            Use::Idle { .. } | Use::Ending => {}
        }
        self.start_workers();
        self.ctx.capacity_changed();
    }

    fn on_start_failed(&mut self, key: &PoolKey, cause: &DeathCause) {
        self.preload.on_worker(key, &WorkerAddress::default(), &mut self.ctx);
        if let Some(failure) = self.pool.on_start_failed(key, cause) {
            self.environments.on_failure(&key.1, &failure.message);
            self.fail_demands(key, &failure);
        }
    }

    /// Tells all that wait for a worker of this kind that there will be none.
    fn fail_demands(&mut self, key: &PoolKey, failure: &Failure) {
        for demand in self.pool.take_demands(key) {
            match demand {
                Demand::Lease(lease_id) => self.refuse_lease(lease_id, failure),
                Demand::Actor(actor) => {
                    let kind = if failure.kind == FailureKind::RuntimeEnv {
                        DeathKind::EnvFailed
                    } else {
                        DeathKind::StartFailed
                    };
                    let cause = DeathCause::new(kind, failure.message.clone());
                    self.on_actor_gone(actor, cause, false);
                }
            }
        }
        self.ctx.capacity_changed();
    }
}
