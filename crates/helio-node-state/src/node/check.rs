//! Invariants that hold between any two events, and the state that is left at the end; for tests and the simulator.

use helio_proto::control::Strategy;
use helio_scheduler::taken;
use helio_types::{ObjectId, ResourceSet, WorkerId};

use super::Node;
use crate::census::Census;
use crate::leases::Lease;
use crate::pool::{Use, Worker};
use crate::store::Held;

impl Node {
    /// Counts the things that the node holds.
    #[must_use]
    pub fn census(&self) -> Census {
        let mut lent = self.ledger.total().clone();
        lent.subtract(self.ledger.available());
        let Held { objects, pins, bytes, pulls } = self.store.held();
        Census {
            clients: self.clients.len(),
            leases: self.leases.len(),
            requests: self.leases.waiting_len(),
            workers: self.pool.len(),
            actors: self.actors.len(),
            objects,
            pins,
            bytes,
            pulls,
            arguments: self.arguments.len(),
            calls: self.control.len(),
            subscriptions: self.control.subscriptions_count(),
            questions: self.liveness.len() + self.owners.len() + self.inspections.len(),
            bundles: self.bundles.len() + self.groups.len(),
            lent,
        }
    }

    /// Returns the objects in the store, and the owner of each.
    #[must_use]
    pub fn objects(&self) -> Vec<(ObjectId, WorkerId)> {
        self.store.objects()
    }

    /// Whether the tables agree with each other.
    ///
    /// # Errors
    /// The first disagreement, in a sentence.
    pub fn check(&self) -> Result<(), String> {
        let mut lent = ResourceSet::default();
        for (lease_id, lease) in self.leases.iter() {
            let worker = lease.worker().and_then(|worker_id| self.pool.get(worker_id));
            if lease.worker().is_some()
                && worker.is_none_or(|worker| worker.usage() != Use::Leased(lease_id))
            {
                return Err(format!("{lease_id:?} names a worker that does not serve it"));
            }
            let is_blocked = worker.is_some_and(Worker::is_blocked);
            add(&mut lent, &lease.assigned().resources, lease.strategy(), is_blocked);
        }
        for (assigned, strategy, key) in self.actors.placed() {
            let mut workers = self.pool.iter();
            let is_blocked =
                workers.any(|(_, worker)| worker.usage() == Use::Actor(key) && worker.is_blocked());
            add(&mut lent, &assigned.resources, strategy, is_blocked);
        }
        // The ledger is kept by differences; here its sums are made anew from what holds something.
        let mut total = self.ctx.setup().total.clone();
        let mut free = total.clone();
        self.bundles.add_up(&mut total, &mut free, &mut lent);
        if total != *self.ledger.total() {
            return Err(format!("{} by the ledger, {total} by its bundles", self.ledger.total()));
        }
        free.subtract(&lent);
        if free != *self.ledger.available() {
            return Err(format!(
                "{} is free by the ledger, {free} by what is lent",
                self.ledger.available()
            ));
        }
        for (worker_id, worker) in self.pool.iter() {
            if let Use::Leased(lease_id) = worker.usage()
                && self.leases.get(lease_id).and_then(Lease::worker) != Some(worker_id)
            {
                return Err(format!(
                    "worker {worker_id} serves {lease_id:?}, which does not name it"
                ));
            }
        }
        // Other nodes place by that view: a node that leaves would be sent work for ever.
        if self.cluster.is_own_open() == self.drain.is_ordered() {
            let leaves = if self.drain.is_ordered() { "is to leave" } else { "stays" };
            return Err(format!("the node {leaves}, and offers itself for work as if it did not"));
        }
        self.arguments.check()?;
        self.leases.check()?;
        self.store.check()
    }
}

/// Adds the resources that an assignment takes; a worker that waits has lent its CPU on.
fn add(lent: &mut ResourceSet, resources: &ResourceSet, strategy: &Strategy, is_blocked: bool) {
    let mut resources = resources.clone();
    if is_blocked {
        resources.set("CPU", helio_types::Quantity(0));
    }
    lent.add(&taken(&resources, strategy));
}
