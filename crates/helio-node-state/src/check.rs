//! What is true between any two events, and what is left at the end; for tests and the simulator.

use helio_proto::control::Strategy;
use helio_scheduler::{lent_by_bundle, taken};
use helio_types::ResourceSet;

use crate::Node;
use crate::bundles::Stage;
use crate::pool::Use;
use crate::store::Held;

/// What a node holds for others. All zero when nobody uses it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Registered connections.
    pub clients: usize,
    /// Workers that are lent.
    pub leases: usize,
    /// Requests for workers that wait.
    pub requests: usize,
    /// Worker processes.
    pub workers: usize,
    /// Actors, in whatever state.
    pub actors: usize,
    /// Objects, sealed or being written, and creations that wait.
    pub objects: usize,
    /// Pins on objects.
    pub pins: u32,
    /// Bytes of the object store in use by primary copies and writers.
    pub bytes: u64,
    /// Reads that wait, and reads by other daemons.
    pub pulls: usize,
    /// Tasks that have a place for their arguments or wait for one.
    pub arguments: usize,
    /// Calls to the control service without an answer.
    pub calls: usize,
    /// Followers of actors.
    pub subscriptions: usize,
    /// Questions whether a process lives.
    pub questions: usize,
    /// Bundles of placement groups, in whatever state, and questions about groups.
    pub bundles: usize,
    /// What is lent of the resources.
    pub lent: ResourceSet,
}

impl Census {
    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Node {
    /// What the node holds.
    #[must_use]
    pub fn census(&self) -> Census {
        let mut lent = self.ledger.total().clone();
        lent.subtract(self.ledger.available());
        let Held { objects, pins, bytes, pulls } = self.store.held();
        Census {
            clients: self.clients.len(),
            leases: self.leases.len(),
            requests: self.queue.len(),
            workers: self.pool.workers.len(),
            actors: self.actors.len(),
            objects,
            pins,
            bytes,
            pulls,
            arguments: self.arguments.len(),
            calls: self.control.len(),
            subscriptions: self.control.subscriptions_count(),
            questions: self.liveness.len() + self.inspections.len(),
            bundles: self.bundles.all.len() + self.bundles.questions_count(),
            lent,
        }
    }

    /// Whether the tables agree with each other.
    ///
    /// # Errors
    /// The first disagreement, in a sentence.
    pub fn check(&self) -> Result<(), String> {
        let mut lent = ResourceSet::default();
        for (lease_id, lease) in &self.leases {
            let worker = lease.worker.and_then(|worker_id| self.pool.workers.get(&worker_id));
            if lease.worker.is_some()
                && worker.is_none_or(|worker| worker.usage != Use::Leased(*lease_id))
            {
                return Err(format!("{lease_id:?} names a worker that does not serve it"));
            }
            let is_blocked = worker.is_some_and(|worker| worker.is_blocked);
            add(&mut lent, &lease.assigned.resources, lease.strategy(), is_blocked);
        }
        for (assigned, strategy, key) in self.actors.placed() {
            let mut workers = self.pool.workers.values();
            let is_blocked =
                workers.any(|worker| worker.usage == Use::Actor(key) && worker.is_blocked);
            add(&mut lent, &assigned.resources, strategy, is_blocked);
        }
        let mut total = self.ctx.setup().total.clone();
        let mut free = total.clone();
        for ((group_id, number), bundle) in &self.bundles.all {
            lent.add(&bundle.assigned.resources);
            let lends = lent_by_bundle(*group_id, *number, &bundle.assigned.resources);
            if bundle.stage != Stage::Held {
                free.add(&lends);
            }
            if bundle.stage == Stage::Lends {
                total.add(&lends);
            }
        }
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
        for (worker_id, worker) in &self.pool.workers {
            if let Use::Leased(lease_id) = worker.usage
                && self.leases.get(&lease_id).and_then(|lease| lease.worker) != Some(*worker_id)
            {
                return Err(format!(
                    "worker {worker_id} serves {lease_id:?}, which does not name it"
                ));
            }
        }
        self.arguments.check()?;
        self.check_clients()
    }

    fn check_clients(&self) -> Result<(), String> {
        for (conn, client) in self.clients.iter() {
            for lease_id in &client.leases {
                if self.leases.get(lease_id).and_then(|lease| lease.lessee) != Some(conn) {
                    return Err(format!("{conn:?} has {lease_id:?}, which is not lent to it"));
                }
            }
        }
        self.store.check()
    }
}

/// What an assignment takes; a worker that waits has lent its CPU on.
fn add(lent: &mut ResourceSet, resources: &ResourceSet, strategy: &Strategy, is_blocked: bool) {
    let mut resources = resources.clone();
    if is_blocked {
        resources.set("CPU", helio_types::Quantity(0));
    }
    lent.add(&taken(&resources, strategy));
}
