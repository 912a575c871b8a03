//! Leases: workers lent to owners of tasks, and the requests that wait for one.
//!
//! When something waits for resources that leases of others hold, those are asked back, each once: their
//! holder asks again and takes its turn.

mod queue;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use helio_proto::control::{Failure, FailureKind, Strategy, StrategyKind};
use helio_proto::node::{LeaseClass, LeasePending, LeaseRefused, RequestLease, RevokeLease};
use helio_scheduler::{GroupBundle, taken};
use helio_types::{Assigned, LeaseId, NodeId, PlacementGroupId, ResourceSet, WorkerId};

use crate::context::{Context, Violation};
use crate::event::Conn;
use crate::keys::{ClassKey, PoolKey};
use crate::limits::{REQUESTS_MAX, SPILL_AGAIN_MS};
use crate::timers::Timer;
use queue::{Queue, Request};

/// A worker that is lent, or will be when there is one.
#[derive(Debug)]
pub(crate) struct Lease {
    /// The client that has it; `None`: nobody any more, and it lasts only until its worker has ended.
    lessee: Option<Conn>,
    request_id: u64,
    class: Arc<LeaseClass>,
    key: ClassKey,
    assigned: Assigned,
    /// `None` until there is one.
    worker: Option<WorkerId>,
    is_revoked: bool,
    /// The first task of the lease may be tried again.
    is_retriable: bool,
}

impl Lease {
    pub(crate) fn lessee(&self) -> Option<Conn> {
        self.lessee
    }

    pub(crate) fn request_id(&self) -> u64 {
        self.request_id
    }

    pub(crate) fn class(&self) -> &LeaseClass {
        &self.class
    }

    pub(crate) fn assigned(&self) -> &Assigned {
        &self.assigned
    }

    pub(crate) fn worker(&self) -> Option<WorkerId> {
        self.worker
    }

    pub(crate) fn is_retriable(&self) -> bool {
        self.is_retriable
    }

    pub(crate) fn strategy(&self) -> &Strategy {
        &self.class.strategy
    }

    /// Returns the resources that the lease takes from the node.
    pub(crate) fn takes(&self) -> Cow<'_, ResourceSet> {
        taken(&self.assigned.resources, self.strategy())
    }
}

/// The leases and the open requests of a client.
#[derive(Debug, Default)]
pub(crate) struct OfClient {
    pub(crate) leases: BTreeSet<LeaseId>,
    /// The numbers of its requests that are not over.
    pub(crate) requests: BTreeSet<u64>,
}

/// The need of somebody who waits, for which leases are asked back.
#[derive(Debug)]
pub(crate) struct Need {
    /// The class of the request, whose own leases are not asked back from the same client; `None`
    /// for an actor.
    pub(crate) class: Option<(ClassKey, Option<Conn>)>,
    pub(crate) resources: ResourceSet,
}

/// The request whose turn it is in a class, for the decision where it goes.
#[derive(Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) class: &'a LeaseClass,
    /// The resources that a lease of the class takes from a node.
    pub(crate) takes: &'a ResourceSet,
    /// The time from which on the request may be sent on to another node.
    pub(crate) may_spill_at: u64,
    pub(crate) touched: &'a [NodeId],
    /// Whether the request is a wish; see [`queue::Class`].
    pub(crate) is_wish: bool,
    pub(crate) since: u64,
}

/// The leases of this node, and the requests that wait for one.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    queue: Queue,
    all: BTreeMap<LeaseId, Lease>,
    /// The last number given.
    count: u64,
    of_clients: BTreeMap<Conn, OfClient>,
}

impl Leases {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the number of waiting requests.
    pub(crate) fn waiting_len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn get(&self, lease_id: LeaseId) -> Option<&Lease> {
        self.all.get(&lease_id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (LeaseId, &Lease)> {
        self.all.iter().map(|(lease_id, lease)| (*lease_id, lease))
    }

    /// The lease that answers a client's request.
    pub(crate) fn of_request(&self, conn: Conn, request_id: u64) -> Option<(LeaseId, &Lease)> {
        let is_it = |lease: &Lease| lease.lessee == Some(conn) && lease.request_id == request_id;
        self.iter().find(|(_, lease)| is_it(lease))
    }

    /// The class of a waiting request, what its leases take, and how many requests come before it.
    pub(crate) fn waiting(
        &self,
        conn: Conn,
        request_id: u64,
    ) -> Option<(&LeaseClass, &ResourceSet, usize)> {
        let find = |class: &queue::Class| class.position(conn, request_id);
        let mut classes = self.queue.classes();
        classes.find_map(|class| find(class).map(|place| (&*class.spec, &class.takes, place)))
    }

    /// Returns the shapes that wait, with the number of requests of each.
    pub(crate) fn demand(&self) -> impl Iterator<Item = (&LeaseClass, usize)> {
        self.queue.demand()
    }

    /// Whether requests wait for the placement group.
    pub(crate) fn waits_for_group(&self, group_id: PlacementGroupId) -> bool {
        self.queue.of_group(group_id).next().is_some()
    }

    /// Whether a lease has some of the placement group.
    pub(crate) fn uses_group(&self, group_id: PlacementGroupId) -> bool {
        let uses = |lease: &Lease| {
            GroupBundle::of(lease.strategy()).is_some_and(|place| place.group_id == group_id)
        };
        self.all.values().any(uses)
    }

    /// The leases of bundles of a placement group, and their workers.
    pub(crate) fn of_bundles(
        &self,
        group_id: PlacementGroupId,
        bundles: &[u32],
    ) -> Vec<(LeaseId, Option<WorkerId>)> {
        let inside = |lease: &Lease| {
            GroupBundle::of(lease.strategy()).is_some_and(|place| {
                place.group_id == group_id
                    && place.bundle.is_none_or(|bundle| bundles.contains(&bundle))
            })
        };
        let users = self.iter().filter(|(_, lease)| inside(lease));
        users.map(|(lease_id, lease)| (lease_id, lease.worker)).collect()
    }

    // Requests.

    /// A client, which may live on another node, asks for a worker.
    pub(crate) fn on_request(
        &mut self,
        conn: Conn,
        request: RequestLease,
        is_remote: bool,
        ctx: &mut Context,
    ) -> Result<(), Violation> {
        let RequestLease { request_id, class, spilled, touched, is_retriable, .. } = request;
        if self.queue.len() >= REQUESTS_MAX {
            let failure = Failure::new(
                FailureKind::System,
                format!("{REQUESTS_MAX} lease requests wait on this node already"),
            );
            ctx.send(conn, LeaseRefused { request_id, failure });
            return Ok(());
        }
        if !self.of_clients.entry(conn).or_default().requests.insert(request_id) {
            return Err(Violation("a request number that is in use"));
        }
        let since = ctx.now();
        let mut may_spill_at = since;
        if spilled || is_remote {
            // The node that sent it here took this one for free: if both are wrong, it would go back and forth.
            may_spill_at += SPILL_AGAIN_MS;
            ctx.set_timer(may_spill_at, Timer::Spill);
        }
        // A client that asks for a certain node, or for one more, may have workers elsewhere meanwhile.
        let has_others = is_remote || !touched.is_empty();
        let is_told = !has_others && class.strategy.kind != StrategyKind::Spread;
        let is_warned = false;
        let request = Request {
            conn,
            request_id,
            since,
            may_spill_at,
            touched,
            is_warned,
            is_told,
            is_retriable,
        };
        self.queue.push(class, request);
        ctx.capacity_changed();
        Ok(())
    }

    /// A client withdraws a request. Returns its lease if that waits for a worker.
    pub(crate) fn on_cancel(
        &mut self,
        conn: Conn,
        request_id: u64,
        ctx: &mut Context,
    ) -> Option<LeaseId> {
        if !self.of_clients.get_mut(&conn)?.requests.remove(&request_id) {
            return None;
        }
        ctx.capacity_changed();
        if self.queue.remove(conn, request_id) {
            return None;
        }
        let is_it = |lease: &Lease| {
            lease.lessee == Some(conn) && lease.request_id == request_id && lease.worker.is_none()
        };
        self.iter().find(|(_, lease)| is_it(lease)).map(|(lease_id, _)| lease_id)
    }

    fn request_is_over(&mut self, conn: Conn, request_id: u64) {
        if let Some(client) = self.of_clients.get_mut(&conn) {
            client.requests.remove(&request_id);
        }
    }

    /// The numbers of the classes, beginning after the one that was served last.
    pub(crate) fn in_turn(&self) -> Vec<u64> {
        self.queue.in_turn()
    }

    /// A request of the class left the queue.
    pub(crate) fn on_served(&mut self, number: u64) {
        self.queue.set_turn(number);
    }

    /// The request whose turn it is in a class.
    pub(crate) fn candidate(&self, number: u64) -> Option<Candidate<'_>> {
        let class = self.queue.class(number)?;
        let request = class.first()?;
        Some(Candidate {
            class: &class.spec,
            takes: &class.takes,
            may_spill_at: request.may_spill_at,
            touched: &request.touched,
            is_wish: class.is_wish,
            since: request.since,
        })
    }

    /// The need of the request whose turn it is in a class.
    pub(crate) fn need(&self, number: u64) -> Option<Need> {
        let class = self.queue.class(number)?;
        let conn = class.first().map(|request| request.conn);
        Some(Need { class: Some((Arc::clone(&class.key), conn)), resources: class.takes.clone() })
    }

    /// Grants the first request of a class. Returns the lease, and the kind of worker that it needs.
    pub(crate) fn grant(&mut self, number: u64, assigned: Assigned) -> Option<(LeaseId, PoolKey)> {
        let (key, class, request) = self.queue.pop(number)?;
        self.count += 1;
        let lease_id = LeaseId(self.count);
        let pool_key = (class.job_id, Arc::new(class.runtime_env.clone()));
        let lease = Lease {
            lessee: Some(request.conn),
            request_id: request.request_id,
            class,
            key,
            assigned,
            worker: None,
            is_revoked: false,
            is_retriable: request.is_retriable,
        };
        let before = self.all.insert(lease_id, lease);
        assert!(before.is_none(), "what the first of two leases has taken is never given back");
        if let Some(client) = self.of_clients.get_mut(&request.conn) {
            client.leases.insert(lease_id);
        }
        Some((lease_id, pool_key))
    }

    /// Takes the first request of a class out of the queue, because it goes to another node.
    pub(crate) fn take_spilled(&mut self, number: u64) -> Option<(Conn, u64)> {
        let (_, _, request) = self.queue.pop(number)?;
        self.request_is_over(request.conn, request.request_id);
        Some((request.conn, request.request_id))
    }

    /// Refuses the first request of a class. Returns whether there was one.
    pub(crate) fn refuse_first(
        &mut self,
        number: u64,
        failure: Failure,
        ctx: &mut Context,
    ) -> bool {
        let Some((_, _, request)) = self.queue.pop(number) else { return false };
        self.request_is_over(request.conn, request.request_id);
        ctx.send(request.conn, LeaseRefused { request_id: request.request_id, failure });
        true
    }

    /// Tells the client of the first request of a class, once, that no node can hold it.
    pub(crate) fn warn_first(&mut self, number: u64, why: String, ctx: &mut Context) {
        let Some(request) = self.queue.first_mut(number) else { return };
        if !std::mem::replace(&mut request.is_warned, true) {
            let request_id = request.request_id;
            ctx.send(request.conn, LeasePending { request_id, why, infeasible: true });
        }
    }

    /// Tells the client of the first request of a class, once, that no node has room for it.
    pub(crate) fn tell_first(&mut self, number: u64, ctx: &mut Context) {
        let Some(request) = self.queue.first_mut(number) else { return };
        if !std::mem::replace(&mut request.is_told, true) {
            let request_id = request.request_id;
            ctx.send(request.conn, LeasePending { request_id, ..LeasePending::default() });
        }
    }

    /// The placement group is over: nobody waits for it any more.
    pub(crate) fn refuse_group(
        &mut self,
        group_id: PlacementGroupId,
        failure: &Failure,
        ctx: &mut Context,
    ) {
        for number in self.queue.of_group(group_id).collect::<Vec<u64>>() {
            while self.refuse_first(number, failure.clone(), ctx) {}
        }
    }

    // Leases.

    /// The lease has got its worker.
    pub(crate) fn on_worker(&mut self, lease_id: LeaseId, worker_id: WorkerId) -> Option<&Lease> {
        let lease = self.all.get_mut(&lease_id)?;
        let before = lease.worker.replace(worker_id);
        assert!(before.is_none(), "the first of two workers of a lease would run for nobody");
        Some(lease)
    }

    /// Asks leases of others back until `need` would be free; `free` is. The worker of a lease that
    /// `is_blocked` has given back what it held.
    pub(crate) fn ask_back(
        &mut self,
        need: &Need,
        mut free: ResourceSet,
        is_blocked: impl Fn(WorkerId) -> bool,
        ctx: &mut Context,
    ) {
        let resources = &need.resources;
        let lacks = |free: &ResourceSet, held: &ResourceSet| {
            let mut wanted = resources.iter();
            wanted.any(|(name, quantity)| free.get(name) < quantity && held.get(name).0 > 0)
        };
        let holds = |lease: &Lease| !lease.worker.is_some_and(&is_blocked);
        let leases = || self.all.iter().filter(|(_, lease)| holds(lease));
        // Leases that were asked back already, or that end anyhow, count as free.
        for (_, lease) in leases().filter(|(_, lease)| lease.is_revoked || lease.lessee.is_none()) {
            free.add(&lease.takes());
        }
        // A lessee that waits for one more worker of a kind has use for those that it has.
        let of_itself = |lease: &Lease| {
            let own = |(class, conn): &(ClassKey, Option<Conn>)| {
                lease.key == *class && lease.lessee == *conn
            };
            need.class.as_ref().is_some_and(own)
        };
        let mut asked = Vec::new();
        for (lease_id, lease) in leases() {
            // As few as will do: each that is asked back is a worker that its lessee asks for again.
            if free.covers(resources) {
                break;
            }
            let held = &*lease.takes();
            if !of_itself(lease)
                && !lease.is_revoked
                && lease.worker.is_some()
                && lacks(&free, held)
            {
                free.add(held);
                asked.push(*lease_id);
            }
        }
        if !free.covers(resources) {
            // Actors or blocked workers hold the rest: taking leases back would help nobody.
            return;
        }
        for lease_id in asked {
            let Some(lease) = self.all.get_mut(&lease_id) else { continue };
            lease.is_revoked = true;
            if let Some(conn) = lease.lessee {
                ctx.send(conn, RevokeLease { lease_id });
            }
        }
    }

    /// Asks for all leases back, because the node takes no more work: each lessee gives its lease back when its task is
    /// done.
    pub(crate) fn ask_all_back(&mut self, ctx: &mut Context) {
        for (lease_id, lease) in &mut self.all {
            if let Some(conn) = lease.lessee
                && !std::mem::replace(&mut lease.is_revoked, true)
            {
                ctx.send(conn, RevokeLease { lease_id: *lease_id });
            }
        }
    }

    /// The lessee gives the lease back. It may have been lost a moment ago: then the news are on their way.
    /// Returns its worker, and whether it has devices.
    pub(crate) fn on_return(&mut self, conn: Conn, lease_id: LeaseId) -> Option<(WorkerId, bool)> {
        let lease = self.all.get_mut(&lease_id)?;
        if lease.lessee != Some(conn) {
            return None;
        }
        // The lease stays until its worker is free: what it holds is in use that long.
        lease.lessee = None;
        let (request_id, has_devices) = (lease.request_id, !lease.assigned.devices.is_empty());
        let worker_id = lease.worker?;
        if let Some(client) = self.of_clients.get_mut(&conn) {
            client.leases.remove(&lease_id);
            client.requests.remove(&request_id);
        }
        Some((worker_id, has_devices))
    }

    /// A client is gone: nobody has its leases any more, and its requests are withdrawn. Returns the leases
    /// with their workers.
    pub(crate) fn on_client_gone(&mut self, conn: Conn) -> Vec<(LeaseId, Option<WorkerId>)> {
        let Some(OfClient { leases, requests }) = self.of_clients.remove(&conn) else {
            return Vec::new();
        };
        for request_id in requests {
            self.queue.remove(conn, request_id);
        }
        let mut left = Vec::new();
        for lease_id in leases {
            if let Some(lease) = self.all.get_mut(&lease_id) {
                lease.lessee = None;
                left.push((lease_id, lease.worker));
            }
        }
        left
    }

    /// The lease is over.
    pub(crate) fn remove(&mut self, lease_id: LeaseId) -> Option<Lease> {
        let lease = self.all.remove(&lease_id)?;
        if let Some(client) = lease.lessee.and_then(|conn| self.of_clients.get_mut(&conn)) {
            client.leases.remove(&lease_id);
            client.requests.remove(&lease.request_id);
        }
        Some(lease)
    }

    /// Whether each client's leases are lent to it.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (conn, client) in &self.of_clients {
            for lease_id in &client.leases {
                if self.all.get(lease_id).and_then(|lease| lease.lessee) != Some(*conn) {
                    return Err(format!("{conn:?} has {lease_id:?}, which is not lent to it"));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Action;
    use crate::setup::Setup;
    use helio_proto::node::NodeToClient;

    fn request(request_id: u64, cpus: f64) -> RequestLease {
        let resources = ResourceSet::from_units([("CPU", cpus)]);
        let class = LeaseClass { resources, ..LeaseClass::default() };
        RequestLease { request_id, class, ..RequestLease::default() }
    }

    /// Makes a lease of that number of CPUs for the client, with a worker of its own.
    fn lend(leases: &mut Leases, ctx: &mut Context, conn: u64, cpus: f64) -> LeaseId {
        leases.on_request(Conn(conn), request(1, cpus), false, ctx).unwrap();
        let number = leases.in_turn()[0];
        let resources = ResourceSet::from_units([("CPU", cpus)]);
        let assigned = Assigned { resources, ..Assigned::default() };
        let (lease_id, _) = leases.grant(number, assigned).unwrap();
        leases.on_worker(lease_id, WorkerId([lease_id.0 as u8; 28]));
        lease_id
    }

    fn revoked(ctx: &mut Context) -> Vec<LeaseId> {
        let one = |action| match action {
            Action::Send { message: NodeToClient::RevokeLease(revoke), .. } => {
                Some(revoke.lease_id)
            }
            _ => None,
        };
        ctx.finish().into_iter().filter_map(one).collect()
    }

    #[test]
    fn leases_of_others_are_asked_back_once_and_only_if_that_helps() {
        let (mut leases, mut ctx) = (Leases::default(), Context::new(Setup::default(), 0));
        let first = lend(&mut leases, &mut ctx, 1, 1.0);
        let second = lend(&mut leases, &mut ctx, 2, 2.0);
        let need = |cpus| Need { class: None, resources: ResourceSet::from_units([("CPU", cpus)]) };
        let free = ResourceSet::default;
        leases.ask_back(&need(4.0), free(), |_| false, &mut ctx);
        assert!(revoked(&mut ctx).is_empty(), "all of them together are not enough");
        leases.ask_back(&need(3.0), free(), |_| false, &mut ctx);
        assert_eq!(revoked(&mut ctx), [first, second]);
        leases.ask_back(&need(3.0), free(), |_| false, &mut ctx);
        assert!(revoked(&mut ctx).is_empty(), "they were asked for already");
        leases.check().unwrap();
    }

    #[test]
    fn a_class_does_not_ask_its_own_client_for_leases() {
        let (mut leases, mut ctx) = (Leases::default(), Context::new(Setup::default(), 0));
        lend(&mut leases, &mut ctx, 1, 1.0);
        leases.on_request(Conn(1), request(2, 1.0), false, &mut ctx).unwrap();
        let need = leases.need(leases.in_turn()[0]).unwrap();
        leases.ask_back(&need, ResourceSet::default(), |_| false, &mut ctx);
        assert!(revoked(&mut ctx).is_empty());
        leases.on_request(Conn(2), request(2, 1.0), false, &mut ctx).unwrap();
        leases.on_cancel(Conn(1), 2, &mut ctx);
        let need = leases.need(leases.in_turn()[0]).unwrap();
        leases.ask_back(&need, ResourceSet::default(), |_| true, &mut ctx);
        assert!(revoked(&mut ctx).is_empty(), "its worker is blocked: it holds nothing");
        leases.ask_back(&need, ResourceSet::default(), |_| false, &mut ctx);
        assert_eq!(revoked(&mut ctx).len(), 1);
    }

    #[test]
    fn a_lease_is_given_back_once_and_by_its_lessee() {
        let (mut leases, mut ctx) = (Leases::default(), Context::new(Setup::default(), 0));
        let lease_id = lend(&mut leases, &mut ctx, 1, 1.0);
        assert_eq!(leases.on_return(Conn(2), lease_id), None);
        assert!(leases.on_return(Conn(1), lease_id).is_some());
        assert_eq!(leases.on_return(Conn(1), lease_id), None);
        assert!(leases.on_client_gone(Conn(1)).is_empty());
        assert!(leases.remove(lease_id).is_some_and(|lease| lease.lessee().is_none()));
    }

    #[test]
    fn with_a_client_go_its_requests_and_nobody_has_its_leases() {
        let (mut leases, mut ctx) = (Leases::default(), Context::new(Setup::default(), 0));
        let lease_id = lend(&mut leases, &mut ctx, 1, 1.0);
        leases.on_request(Conn(1), request(2, 1.0), false, &mut ctx).unwrap();
        assert!(leases.on_request(Conn(1), request(2, 1.0), false, &mut ctx).is_err());
        let left = leases.on_client_gone(Conn(1));
        assert_eq!(left.iter().map(|(lease_id, _)| *lease_id).collect::<Vec<_>>(), [lease_id]);
        assert_eq!(leases.waiting_len(), 0);
        leases.check().unwrap();
    }

    #[test]
    fn requests_from_other_nodes_wait_a_moment_before_they_are_sent_on() {
        let (mut leases, mut ctx) = (Leases::default(), Context::new(Setup::default(), 0));
        leases.on_request(Conn(1), request(1, 1.0), true, &mut ctx).unwrap();
        let number = leases.in_turn()[0];
        assert_eq!(leases.candidate(number).map(|one| one.may_spill_at), Some(SPILL_AGAIN_MS));
        leases.warn_first(number, "why".to_owned(), &mut ctx);
        leases.warn_first(number, "why".to_owned(), &mut ctx);
        assert_eq!(ctx.finish().len(), 1, "its client is told once");
    }
}
