//! Events of actors that were sent here.

use helio_proto::cluster::{RunningActor, StopActor};
use helio_proto::control::ActorLaunch;
use helio_proto::node::ActorReady;
use helio_scheduler::taken;
use helio_types::{DeathCause, DeathKind};

use super::Node;
use crate::actors::{Stop, tell_ended};
use crate::clients::Client;
use crate::event::Conn;
use crate::keys::{ActorKey, Demand};
use crate::pool::Use;

impl Node {
    pub(super) fn on_launch_actor(&mut self, launch: ActorLaunch) {
        let spec = &launch.spec;
        self.kept.on_used(&taken(&spec.placement_resources, &spec.strategy));
        self.actors.on_launch(launch, self.ledger.total(), &mut self.ctx);
    }

    /// Gives room to the actors that wait for it, in their order; a large one does not hold up the
    /// small ones behind it.
    pub(super) fn place_actors(&mut self) {
        for key in self.actors.take_queue() {
            if let Some(pool_key) = self.actors.place(key, &mut self.ledger) {
                self.need_worker(pool_key, Demand::Actor(key));
            }
        }
    }

    pub(super) fn on_actor_ready(&mut self, conn: Conn, ready: ActorReady) {
        let Some(worker_id) = self.clients.get(conn).map(Client::worker_id) else { return };
        let Some(Use::Actor(key)) = self.pool.usage(worker_id) else {
            return self.violation(conn, "an actor's readiness from a process that is none");
        };
        let worker = (self.address_of(conn), self.clients.pid(conn));
        match self.actors.on_ready(key, worker, ready, &mut self.ctx) {
            Ok(true) => {}
            Ok(false) => {
                let reason = "Its constructor raised.";
                self.pool.ask_to_exit(worker_id, reason, false, &mut self.ctx);
            }
            Err(violation) => self.close_on_violation(conn, Err(violation)),
        }
    }

    pub(super) fn on_stop_actor(&mut self, stop: StopActor) {
        let cause = DeathCause::new(DeathKind::Intended, stop.reason);
        self.stop_actor((stop.actor_id, stop.incarnation), cause, stop.drain);
    }

    pub(super) fn stop_actor(&mut self, key: ActorKey, cause: DeathCause, drain: bool) {
        match self.actors.on_stop(key, cause, drain, &mut self.ctx) {
            Stop::Done => {}
            Stop::Unstarted(cause) => {
                self.pool.drop_demand(Demand::Actor(key));
                self.on_actor_gone(key, cause, false);
            }
            Stop::Kill(worker_id, cause)
                if self.jobs.is_finished(key.0.job()) && !self.actors.is_detached(key) =>
            {
                self.pool.end_at_once(worker_id, cause, &mut self.ctx);
            }
            Stop::Kill(worker_id, cause) => self.kill_worker(worker_id, Some(cause)),
        }
    }

    /// The actor's process has ended, or it will get none.
    pub(super) fn on_actor_gone(&mut self, key: ActorKey, cause: DeathCause, cpu_was_lent: bool) {
        let Some(gone) = self.actors.on_gone(key, cause) else { return };
        if let Some((assigned, strategy)) = &gone.held {
            self.ledger.give_back(assigned, strategy, cpu_was_lent);
            self.end_unused_bundles();
        }
        if let Some(cause) = gone.cause {
            tell_ended(key, cause, &mut self.ctx);
        }
        self.ctx.capacity_changed();
    }

    /// The actors that live here, for a control service that has to learn of them again.
    #[must_use]
    pub fn running_actors(&self) -> Vec<RunningActor> {
        let running = |(key, conn): (ActorKey, Conn)| RunningActor {
            actor_id: key.0,
            incarnation: key.1,
            address: self.address_of(conn),
            pid: self.clients.pid(conn),
        };
        self.actors.alive().map(running).collect()
    }
}
