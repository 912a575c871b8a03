//! Requests for workers, and leases: where a request goes, and what follows the end of a lease.

use helio_proto::control::{Failure, FailureKind};
use helio_proto::node::{
    LeaseClass, LeaseLost, LeaseRefused, LeaseSpillback, RequestLease, ReturnLease,
};
use helio_scheduler::{GroupBundle, Placement, fails_when_infeasible, taken};
use helio_types::{Assigned, DeathCause, LeaseId, NodeId, ResourceSet, WorkerId, mutant};

use super::Node;
use crate::clients::Client;
use crate::event::Conn;
use crate::keys::Demand;
use crate::leases::{Lease, Need};
use crate::limits::VIEW_LAG_MS_MAX;
use crate::timers::Timer;

/// The outcome of a try to serve the first request of a class.
enum Outcome {
    /// The request left the queue.
    Served,
    /// The request waits; `is_feasible`: a node, and maybe this one, could hold it when others give way.
    Waits { is_feasible: bool },
}

impl Node {
    pub(super) fn on_request_lease(&mut self, conn: Conn, request: RequestLease) {
        let is_remote = self.clients.is_remote(conn);
        let asked = self.leases.on_request(conn, request, is_remote, &mut self.ctx);
        self.close_on_violation(conn, asked);
    }

    pub(super) fn on_cancel_lease(&mut self, conn: Conn, request_id: u64) {
        if let Some(lease_id) = self.leases.on_cancel(conn, request_id, &mut self.ctx) {
            self.drop_unserved_lease(lease_id);
        }
    }

    /// Gives a place to each that can have one, actors first: they were promised theirs. Returns whether a
    /// request left the queue.
    pub(super) fn dispatch(&mut self) -> bool {
        self.place_actors();
        self.set_room_of_tasks();
        let mut short: Vec<Need> =
            self.actors.needs().map(|resources| Need { class: None, resources }).collect();
        let mut has_served = false;
        loop {
            let mut progress = false;
            short.truncate(self.actors.waiting_count());
            for number in self.leases.in_turn() {
                match self.try_first(number) {
                    Outcome::Served => {
                        progress = true;
                        self.leases.on_served(number);
                    }
                    Outcome::Waits { is_feasible: false } => {}
                    Outcome::Waits { is_feasible: true } => short.extend(self.leases.need(number)),
                }
            }
            if !progress {
                break;
            }
            has_served = true;
        }
        // Resources that are kept free are for others than the requests that wait here.
        let kept = self.kept.resources(self.ctx.now()).cloned();
        short.extend(kept.map(|resources| Need { class: None, resources }));
        // Only after everybody was served: a lease that is asked back stops work of others.
        for need in short {
            let (free, pool) = (self.ledger.available().clone(), &self.pool);
            self.leases.ask_back(&need, free, |id| pool.is_blocked(id), &mut self.ctx);
        }
        if self.groups.len() > 0 {
            let leases = &self.leases;
            self.groups.retain(|group_id| leases.waits_for_group(group_id));
        }
        has_served
    }

    fn set_room_of_tasks(&mut self) {
        let room = self.kept.left_of(self.ledger.available(), self.ctx.now());
        self.cluster.set_own_available(&room);
    }

    /// Actors or groups wait for this much. What only other actors or blocked workers hold is not waited for.
    pub(super) fn on_keep_free(&mut self, resources: ResourceSet) {
        let mut could_be_free = self.ledger.available().clone();
        for (_, lease) in self.leases.iter() {
            if !lease.worker().is_some_and(|worker_id| self.pool.is_blocked(worker_id)) {
                could_be_free.add(&lease.takes());
            }
        }
        if could_be_free.covers(&resources) {
            self.kept.keep(resources, &mut self.ctx);
        }
    }

    fn try_first(&mut self, number: u64) -> Outcome {
        let Some(request) = self.leases.candidate(number) else {
            return Outcome::Waits { is_feasible: false };
        };
        let strategy = &request.class.strategy;
        let now = self.ctx.now();
        let is_wish = request.is_wish;
        // A request that this node could never serve need not wait here.
        let may_spill = request.may_spill_at <= now || !self.cluster.own().0.covers(request.takes);
        match self.cluster.place(request.takes, strategy, may_spill, request.touched, now) {
            Placement::On(node_id) if node_id == self.ctx.node_id() => {
                let nothing = ResourceSet::default();
                let needs = match mutant!("calls-take-nothing") {
                    true => &nothing,
                    false => &request.class.resources,
                };
                match self.ledger.take(needs, strategy) {
                    Some(assigned) => {
                        self.set_room_of_tasks();
                        self.grant(number, assigned);
                        Outcome::Served
                    }
                    // Enough is free in sum, but no single device has that part of a GPU.
                    None => Outcome::Waits { is_feasible: true },
                }
            }
            Placement::On(node_id) => {
                self.spill_request(number, node_id);
                Outcome::Served
            }
            Placement::Busy => {
                // The client may have other workers for it meanwhile.
                self.leases.tell_first(number, &mut self.ctx);
                Outcome::Waits { is_feasible: !is_wish }
            }
            Placement::Infeasible(why) => match GroupBundle::of(strategy) {
                Some(place) => {
                    let is_connected = self.control.is_connected();
                    self.groups.ask(place.group_id, is_connected, &mut self.ctx);
                    // Else the group is not placed, or nobody has said so yet.
                    match self.groups.is_placed(place.group_id) {
                        true => self.on_infeasible(number, why),
                        false => Outcome::Waits { is_feasible: false },
                    }
                }
                None => self.on_infeasible(number, why),
            },
        }
    }

    fn grant(&mut self, number: u64, assigned: Assigned) {
        if let Some((lease_id, pool_key)) = self.leases.grant(number, assigned) {
            self.need_worker(pool_key, Demand::Lease(lease_id));
        }
    }

    /// Sends the first request of a class on to another node.
    fn spill_request(&mut self, number: u64, node_id: NodeId) {
        let takes = match self.leases.candidate(number) {
            Some(request) => taken(&request.class.resources, &request.class.strategy).into_owned(),
            None => return,
        };
        let Some((conn, request_id)) = self.leases.take_spilled(number) else { return };
        let Some(node) = self.cluster.spill_to(node_id, &takes, self.ctx.now()) else { return };
        self.ctx.set_timer(self.ctx.now() + VIEW_LAG_MS_MAX, Timer::Spill);
        self.ctx.send(conn, LeaseSpillback { request_id, node });
    }

    /// No node can hold the first request of a class, as far as is known.
    fn on_infeasible(&mut self, number: u64, why: String) -> Outcome {
        let Some(request) = self.leases.candidate(number) else {
            return Outcome::Waits { is_feasible: false };
        };
        let strategy = &request.class.strategy;
        let is_dead = self.cluster.is_dead(strategy.node_id);
        let known_at = request.since + VIEW_LAG_MS_MAX;
        // News of a node that has just joined may be on their way; of one that has died they have come.
        if !self.cluster.is_known() {
            // Nothing is, before the control service has told of the other nodes.
        } else if self.ctx.now() < known_at && !is_dead {
            self.ctx.set_timer(known_at, Timer::Spill);
        } else if fails_when_infeasible(strategy) {
            let failure = Failure::new(FailureKind::Unschedulable, why);
            self.leases.refuse_first(number, failure, &mut self.ctx);
            return Outcome::Served;
        } else {
            self.leases.warn_first(number, why, &mut self.ctx);
        }
        Outcome::Waits { is_feasible: false }
    }

    pub(super) fn on_return_lease(&mut self, conn: Conn, returned: &ReturnLease) {
        let lease_id = returned.lease_id;
        let Some((worker_id, has_devices)) = self.leases.on_return(conn, lease_id) else { return };
        if self.pool.is_killed(worker_id) {
            // Its resources, and its place in the pool, become free when its process has ended.
            return;
        }
        let reason = "Its lease was given back for good.";
        if returned.discard && self.pool.lingers(worker_id) {
            return self.end_lease_of(worker_id, lease_id);
        }
        if returned.discard && has_devices {
            // The devices' memory is free only when the process has ended.
            return self.pool.ask_to_exit(worker_id, reason, false, &mut self.ctx);
        }
        self.end_lease_of(worker_id, lease_id);
        if returned.discard {
            self.pool.end(worker_id, reason, &mut self.ctx);
        } else {
            self.on_worker_free(worker_id);
        }
    }

    /// A client is gone: the workers that run its tasks end, and their resources come back with them. With a
    /// driver end all that it has leased, for its job is over.
    pub(super) fn reclaim_leases(&mut self, conn: Conn, client: &Client) {
        for (lease_id, worker) in self.leases.on_client_gone(conn) {
            let Some(worker_id) = worker else {
                self.drop_unserved_lease(lease_id);
                continue;
            };
            let job_id = self.pool.job_of(worker_id);
            let is_over = client.is_driver() || job_id.is_some_and(|id| self.jobs.is_finished(id));
            let lessee = client.worker_id();
            if self.pool.on_lessee_gone(worker_id, lease_id, lessee, is_over, &mut self.ctx) {
                self.end_lease_of(worker_id, lease_id);
            }
        }
        self.ctx.capacity_changed();
    }

    /// Ends a lease that has no worker yet.
    fn drop_unserved_lease(&mut self, lease_id: LeaseId) {
        self.pool.drop_demand(Demand::Lease(lease_id));
        self.release_lease(lease_id, false);
    }

    /// Refuses a lease for which there will be no worker.
    pub(super) fn refuse_lease(&mut self, lease_id: LeaseId, failure: &Failure) {
        let Some(lease) = self.release_lease(lease_id, false) else { return };
        if let Some(conn) = lease.lessee() {
            let (request_id, failure) = (lease.request_id(), failure.clone());
            self.ctx.send(conn, LeaseRefused { request_id, failure });
        }
    }

    /// The lease's worker has ended.
    pub(super) fn on_lease_lost(
        &mut self,
        lease_id: LeaseId,
        worker_id: WorkerId,
        cause: DeathCause,
        is_blocked: bool,
    ) {
        let Some(lease) = self.release_lease(lease_id, is_blocked) else { return };
        if let Some(conn) = lease.lessee() {
            self.ctx.send(conn, LeaseLost { lease_id, worker_id, cause });
        }
    }

    pub(super) fn release_lease(&mut self, lease_id: LeaseId, cpu_was_lent: bool) -> Option<Lease> {
        let lease = self.leases.remove(lease_id)?;
        self.ledger.give_back(lease.assigned(), lease.strategy(), cpu_was_lent);
        self.end_unused_bundles();
        if let Some(worker_id) = lease.worker() {
            self.pool.on_lease_over(worker_id, lease_id);
        }
        self.ctx.capacity_changed();
        Some(lease)
    }

    /// **WHY-1** What requests of the class wait for.
    pub(super) fn why_class(&self, class: &LeaseClass) -> String {
        self.groups.why(&class.strategy).unwrap_or_else(|| {
            self.cluster.why(&taken(&class.resources, &class.strategy), &class.strategy)
        })
    }
}
