//! Leases: workers lent to owners of tasks, and the requests that wait for one.
//!
//! Requests of a class (`LeaseClass`, except its name) wait first come, first served; classes take
//! turns. When something waits for what leases of others hold, those are asked back, each once: their
//! holder asks again and takes its turn.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use helio_proto::control::{Failure, FailureKind, Strategy};
use helio_proto::node::{
    LeaseClass, LeaseLost, LeasePending, LeaseRefused, LeaseSpillback, RequestLease, ReturnLease,
    RevokeLease, Why, WhyReply,
};
use helio_scheduler::{InGroup, Placement, fails_when_infeasible, taken};
use helio_types::{Assigned, DeathCause, LeaseId, NodeId, PlacementGroupId, ResourceSet, WorkerId};

use crate::clients::Client;
use crate::holders::with_env;
use crate::keys::{ClassKey, Demand};
use crate::limits::{REQUESTS_MAX, SPILL_AGAIN_MS, VIEW_LAG_MS_MAX};
use crate::pool::Use;
use crate::timers::Timer;
use crate::{Conn, Node};

#[derive(Debug)]
pub(crate) struct Lease {
    /// Who has it; `None`: nobody any more, and it lasts only until its worker has ended.
    pub(crate) lessee: Option<Conn>,
    pub(crate) request_id: u64,
    class: Arc<LeaseClass>,
    /// The class's name among classes.
    key: ClassKey,
    pub(crate) assigned: Assigned,
    /// `None` until there is one.
    pub(crate) worker: Option<WorkerId>,
    is_revoked: bool,
    /// Its first task may be tried again.
    pub(crate) is_retriable: bool,
}

impl Lease {
    pub(crate) fn strategy(&self) -> &Strategy {
        &self.class.strategy
    }

    /// What it takes from the node.
    fn takes(&self) -> Cow<'_, ResourceSet> {
        taken(&self.assigned.resources, self.strategy())
    }
}

#[derive(Debug)]
struct Request {
    conn: Conn,
    request_id: u64,
    since: u64,
    /// From when on it may be sent on to another node: what came from one waits a moment here first, so
    /// that no request goes round and round.
    may_spill_at: u64,
    locality: Vec<NodeId>,
    /// Was told that no node can hold it.
    is_warned: bool,
    is_retriable: bool,
}

#[derive(Debug)]
struct Class {
    key: ClassKey,
    spec: Arc<LeaseClass>,
    /// What a lease of it takes from a node.
    takes: ResourceSet,
    waiting: VecDeque<Request>,
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Classes in which someone waits.
    classes: BTreeMap<u64, Class>,
    numbers: HashMap<ClassKey, u64>,
    /// The last number given.
    count: u64,
    /// The class that was served last.
    turn: u64,
    /// How many requests wait.
    waiting: usize,
}

impl Queue {
    fn push(&mut self, mut spec: LeaseClass, request: Request) {
        let name = std::mem::take(&mut spec.name);
        let key = ClassKey::from(helio_proto::encode(&spec));
        spec.name = name;
        let number = *self.numbers.entry(Arc::clone(&key)).or_insert_with(|| {
            self.count += 1;
            self.count
        });
        let new = || {
            let takes = taken(&spec.resources, &spec.strategy).into_owned();
            Class { key, spec: Arc::new(spec), takes, waiting: VecDeque::new() }
        };
        self.classes.entry(number).or_insert_with(new).waiting.push_back(request);
        self.waiting += 1;
    }

    fn pop(&mut self, number: u64) -> Option<(ClassKey, Arc<LeaseClass>, Request)> {
        let class = self.classes.get_mut(&number)?;
        let request = class.waiting.pop_front()?;
        let (key, spec) = (Arc::clone(&class.key), Arc::clone(&class.spec));
        self.waiting -= 1;
        self.forget_if_empty(number);
        Some((key, spec, request))
    }

    fn remove(&mut self, conn: Conn, request_id: u64) -> bool {
        let before = self.waiting;
        for class in self.classes.values_mut() {
            class
                .waiting
                .retain(|request| request.conn != conn || request.request_id != request_id);
        }
        self.waiting = self.classes.values().map(|class| class.waiting.len()).sum();
        let empty: Vec<u64> = self
            .classes
            .iter()
            .filter(|(_, class)| class.waiting.is_empty())
            .map(|(number, _)| *number)
            .collect();
        for number in empty {
            self.forget_if_empty(number);
        }
        self.waiting < before
    }

    /// Classes are remembered only while someone waits in them, so that their number is bounded.
    fn forget_if_empty(&mut self, number: u64) {
        if self.classes.get(&number).is_some_and(|class| class.waiting.is_empty())
            && let Some(class) = self.classes.remove(&number)
        {
            self.numbers.remove(&class.key);
        }
    }

    /// How many requests wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting
    }

    /// The numbers of the classes, beginning after the one that was served last.
    fn in_turn(&self) -> Vec<u64> {
        let after = self.classes.range(self.turn + 1..).map(|(number, _)| *number);
        after.chain(self.classes.range(..=self.turn).map(|(number, _)| *number)).collect()
    }

    /// Shapes that wait, and how many of each.
    pub(crate) fn demand(&self) -> impl Iterator<Item = (&LeaseClass, usize)> {
        self.classes.values().map(|class| (&*class.spec, class.waiting.len()))
    }

    /// The classes that a placement group's requests are in.
    fn of_group(&self, group_id: PlacementGroupId) -> impl Iterator<Item = u64> {
        let inside = move |class: &Class| in_group(&class.spec.strategy, group_id);
        self.classes.iter().filter(move |(_, class)| inside(class)).map(|(number, _)| *number)
    }
}

fn in_group(strategy: &Strategy, group_id: PlacementGroupId) -> bool {
    InGroup::of(strategy).is_some_and(|place| place.group_id == group_id)
}

/// What can be said of the first request of a class.
enum Outcome {
    /// It left the queue.
    Served,
    /// It waits; whether a node, and maybe this one, could hold it when others give way.
    Waits { is_feasible: bool },
}

impl Node {
    pub(crate) fn on_request_lease(&mut self, conn: Conn, request: RequestLease) {
        let RequestLease { request_id, class, spilled, locality, is_retriable, .. } = request;
        if self.queue.waiting >= REQUESTS_MAX {
            let failure = Failure::new(
                FailureKind::System,
                format!("{REQUESTS_MAX} lease requests wait on this node already"),
            );
            return self.ctx.send(conn, LeaseRefused { request_id, failure });
        }
        let is_remote = self.clients.is_remote(conn);
        let Some(client) = self.clients.get_mut(conn) else { return };
        if !client.requests.insert(request_id) {
            return self.violation(conn, "a request number that is in use");
        }
        let mut may_spill_at = self.ctx.now();
        if spilled || is_remote {
            may_spill_at += SPILL_AGAIN_MS;
            self.ctx.set_timer(may_spill_at, Timer::Spill);
        }
        let since = self.ctx.now();
        let is_warned = false;
        let request =
            Request { conn, request_id, since, may_spill_at, locality, is_warned, is_retriable };
        self.queue.push(class, request);
        self.ctx.capacity_changed();
    }

    pub(crate) fn on_cancel_lease(&mut self, conn: Conn, request_id: u64) {
        let Some(client) = self.clients.get_mut(conn) else { return };
        if !client.requests.remove(&request_id) {
            return;
        }
        self.ctx.capacity_changed();
        if self.queue.remove(conn, request_id) {
            return;
        }
        let of_request =
            |lease: &Lease| lease.lessee == Some(conn) && lease.request_id == request_id;
        let found =
            self.leases.iter().find(|(_, lease)| of_request(lease) && lease.worker.is_none());
        if let Some(lease_id) = found.map(|(lease_id, _)| *lease_id) {
            self.drop_unserved_lease(lease_id);
        }
    }

    /// Gives a place to whoever can have one, actors first: they were promised theirs. Whether a request
    /// left the queue.
    pub(crate) fn dispatch(&mut self) -> bool {
        self.place_actors();
        self.cluster.set_own_available(self.ledger.available());
        let mut short = self.actors.waiting_for();
        let mut has_served = false;
        loop {
            let mut progress = false;
            short.truncate(self.actors.waiting_count());
            for number in self.queue.in_turn() {
                match self.try_first(number) {
                    Outcome::Served => {
                        progress = true;
                        self.queue.turn = number;
                    }
                    Outcome::Waits { is_feasible: false } => {}
                    Outcome::Waits { is_feasible: true } => {
                        if let Some(class) = self.queue.classes.get(&number) {
                            let conn = class.waiting.front().map(|request| request.conn);
                            let key = Some(Arc::clone(&class.key));
                            short.push((key, class.takes.clone(), conn));
                        }
                    }
                }
            }
            if !progress {
                break;
            }
            has_served = true;
        }
        for (class, need, conn) in short {
            self.ask_back(class.as_ref(), &need, conn);
        }
        if self.bundles.questions_count() > 0 {
            let queue = &self.queue;
            self.bundles.keep_questions(|group_id| queue.of_group(group_id).next().is_some());
        }
        has_served
    }

    fn try_first(&mut self, number: u64) -> Outcome {
        let Some(class) = self.queue.classes.get(&number) else {
            return Outcome::Waits { is_feasible: false };
        };
        let Some(request) = class.waiting.front() else {
            return Outcome::Waits { is_feasible: false };
        };
        let own = self.ctx.setup().address.node_id;
        let may_spill = request.may_spill_at <= self.ctx.now();
        match self.cluster.place(
            &class.takes,
            &class.spec.strategy,
            may_spill,
            &request.locality,
            self.ctx.now(),
        ) {
            Placement::On(node_id) if node_id == own => {
                match self.ledger.take(&class.spec.resources, &class.spec.strategy) {
                    Some(assigned) => {
                        self.cluster.set_own_available(self.ledger.available());
                        self.grant(number, assigned);
                        Outcome::Served
                    }
                    // Enough is free in sum, but no single device has that part of a GPU.
                    None => Outcome::Waits { is_feasible: true },
                }
            }
            Placement::On(node_id) => {
                self.spill(number, node_id);
                Outcome::Served
            }
            Placement::Busy => Outcome::Waits { is_feasible: true },
            Placement::Infeasible(why) => match InGroup::of(&class.spec.strategy) {
                Some(place) => {
                    self.ask_for_group(place.group_id);
                    // Else the group is not placed, or nobody has said so yet.
                    match self.is_known_to_be_placed(place.group_id) {
                        true => self.infeasible(number, why),
                        false => Outcome::Waits { is_feasible: false },
                    }
                }
                None => self.infeasible(number, why),
            },
        }
    }

    fn grant(&mut self, number: u64, assigned: Assigned) {
        let Some((key, class, request)) = self.queue.pop(number) else { return };
        self.lease_count += 1;
        let lease_id = LeaseId(self.lease_count);
        let pool_key = (class.job_id, class.runtime_env.clone());
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
        self.leases.insert(lease_id, lease);
        if let Some(client) = self.clients.get_mut(request.conn) {
            client.leases.insert(lease_id);
        }
        self.need_worker(pool_key, Demand::Lease(lease_id));
    }

    fn spill(&mut self, number: u64, node_id: NodeId) {
        let Some((_, class, request)) = self.queue.pop(number) else { return };
        let takes = taken(&class.resources, &class.strategy);
        let Some(node) = self.cluster.spill_to(node_id, &takes, self.ctx.now()) else { return };
        self.ctx.set_timer(self.ctx.now() + VIEW_LAG_MS_MAX, Timer::Spill);
        self.request_is_over(request.conn, request.request_id);
        self.ctx.send(request.conn, LeaseSpillback { request_id: request.request_id, node });
    }

    fn infeasible(&mut self, number: u64, why: String) -> Outcome {
        let Some(class) = self.queue.classes.get_mut(&number) else {
            return Outcome::Waits { is_feasible: false };
        };
        let Some(request) = class.waiting.front_mut() else {
            return Outcome::Waits { is_feasible: false };
        };
        let strategy = &class.spec.strategy;
        let is_dead = self.cluster.is_dead(strategy.node_id);
        let known_at = request.since + VIEW_LAG_MS_MAX;
        // News of a node that has just joined may be on their way; of one that has died they have come.
        if !self.cluster.is_known() {
            // Nothing is, before the control service has told of the other nodes.
        } else if self.ctx.now() < known_at && !is_dead {
            self.ctx.set_timer(known_at, Timer::Spill);
        } else if fails_when_infeasible(strategy) {
            if let Some((_, _, request)) = self.queue.pop(number) {
                self.request_is_over(request.conn, request.request_id);
                let failure = Failure::new(FailureKind::Unschedulable, why);
                self.ctx
                    .send(request.conn, LeaseRefused { request_id: request.request_id, failure });
            }
            return Outcome::Served;
        } else if !std::mem::replace(&mut request.is_warned, true) {
            let (conn, request_id) = (request.conn, request.request_id);
            self.ctx.send(conn, LeasePending { request_id, why, infeasible: true });
        }
        Outcome::Waits { is_feasible: false }
    }

    fn request_is_over(&mut self, conn: Conn, request_id: u64) {
        if let Some(client) = self.clients.get_mut(conn) {
            client.requests.remove(&request_id);
        }
    }

    /// Asks leases of others back until `need` would be free.
    fn ask_back(&mut self, class: Option<&ClassKey>, need: &ResourceSet, for_whom: Option<Conn>) {
        let mut free = self.ledger.available().clone();
        let lacks = |free: &ResourceSet, held: &ResourceSet| {
            need.iter().any(|(name, quantity)| free.get(name) < quantity && held.get(name).0 > 0)
        };
        // A worker that is blocked has given back what it held.
        let holds =
            |lease: &Lease| !lease.worker.is_some_and(|worker| self.pool.is_blocked(worker));
        let leases = || self.leases.iter().filter(|(_, lease)| holds(lease));
        // What was asked for already, and what ends anyhow, counts as free.
        for (_, lease) in leases().filter(|(_, lease)| lease.is_revoked || lease.lessee.is_none()) {
            free.add(&lease.takes());
        }
        let mut asked = Vec::new();
        for (lease_id, lease) in leases() {
            if free.covers(need) {
                break;
            }
            let of_others = Some(&lease.key) != class || lease.lessee != for_whom;
            let held = &*lease.takes();
            if of_others && !lease.is_revoked && lease.worker.is_some() && lacks(&free, held) {
                free.add(held);
                asked.push(*lease_id);
            }
        }
        if !free.covers(need) {
            // Actors or blocked workers hold the rest: taking leases back would help nobody.
            return;
        }
        for lease_id in asked {
            let Some(lease) = self.leases.get_mut(&lease_id) else { continue };
            lease.is_revoked = true;
            if let Some(conn) = lease.lessee {
                self.ctx.send(conn, RevokeLease { lease_id });
            }
        }
    }

    pub(crate) fn on_return_lease(&mut self, conn: Conn, returned: &ReturnLease) {
        // It may have been lost a moment ago: then the news is on its way.
        let Some(lease) = self.leases.get_mut(&returned.lease_id) else { return };
        if lease.lessee != Some(conn) {
            return;
        }
        lease.lessee = None;
        let (request_id, has_devices) = (lease.request_id, !lease.assigned.devices.is_empty());
        let Some(worker_id) = lease.worker else { return };
        if let Some(client) = self.clients.get_mut(conn) {
            client.leases.remove(&returned.lease_id);
            client.requests.remove(&request_id);
        }
        if self.pool.is_killed(worker_id) {
            // What it holds is free, and its place in the pool too, when its process has ended.
            return;
        }
        if returned.discard && self.lingers(worker_id) {
            return self.end_lingering(worker_id, returned.lease_id);
        }
        if returned.discard && has_devices {
            // The devices' memory is free only when the process has ended.
            return self.ask_to_exit(worker_id, "Its lease was given back for good.");
        }
        let is_blocked = self.pool.is_blocked(worker_id);
        self.release_lease(returned.lease_id, is_blocked);
        if returned.discard {
            self.end_worker(worker_id, "Its lease was given back for good.");
        } else {
            self.worker_is_free(worker_id);
        }
    }

    /// Frees the lease of a worker that does not end with it at once.
    pub(crate) fn end_lingering(&mut self, worker_id: WorkerId, lease_id: LeaseId) {
        let is_blocked = self.pool.is_blocked(worker_id);
        self.release_lease(lease_id, is_blocked);
    }

    /// A client is gone: the workers that run its tasks end, and their resources come back with them. With a
    /// driver end all that it has leased, for its job is over.
    pub(crate) fn reclaim_leases(&mut self, conn: Conn, client: &Client) {
        for request_id in &client.requests {
            self.queue.remove(conn, *request_id);
        }
        for lease_id in &client.leases {
            let Some(lease) = self.leases.get_mut(lease_id) else { continue };
            lease.lessee = None;
            match lease.worker {
                None => self.drop_unserved_lease(*lease_id),
                Some(worker_id) => self.on_lessee_gone(worker_id, *lease_id, client),
            }
        }
        self.ctx.capacity_changed();
    }

    /// Ends a lease that has no worker yet.
    fn drop_unserved_lease(&mut self, lease_id: LeaseId) {
        self.pool.drop_demand(Demand::Lease(lease_id));
        self.release_lease(lease_id, false);
    }

    /// There is no worker for the lease and will be none.
    pub(crate) fn refuse_lease(&mut self, lease_id: LeaseId, failure: &Failure) {
        let Some(lease) = self.release_lease(lease_id, false) else { return };
        if let Some(conn) = lease.lessee {
            self.ctx.send(
                conn,
                LeaseRefused { request_id: lease.request_id, failure: failure.clone() },
            );
        }
    }

    pub(crate) fn on_lease_lost(
        &mut self,
        lease_id: LeaseId,
        worker_id: WorkerId,
        cause: DeathCause,
        is_blocked: bool,
    ) {
        let Some(lease) = self.release_lease(lease_id, is_blocked) else { return };
        if let Some(conn) = lease.lessee {
            self.ctx.send(conn, LeaseLost { lease_id, worker_id, cause });
        }
    }

    fn release_lease(&mut self, lease_id: LeaseId, cpu_was_lent: bool) -> Option<Lease> {
        let lease = self.leases.remove(&lease_id)?;
        self.ledger.give_back(&lease.assigned, lease.strategy(), cpu_was_lent);
        self.end_bundles();
        if let Some(client) = lease.lessee.and_then(|conn| self.clients.get_mut(conn)) {
            client.leases.remove(&lease_id);
            client.requests.remove(&lease.request_id);
        }
        if let Some(worker) =
            lease.worker.and_then(|worker_id| self.pool.workers.get_mut(&worker_id))
            && worker.usage == Use::Leased(lease_id)
        {
            worker.usage = Use::Ending;
            worker.is_blocked = false;
        }
        self.ctx.capacity_changed();
        Some(lease)
    }

    pub(crate) fn why_class(&self, class: &LeaseClass) -> String {
        self.why_group(&class.strategy).unwrap_or_else(|| {
            self.cluster.why(&taken(&class.resources, &class.strategy), &class.strategy)
        })
    }

    /// The placement group is over: nobody waits for it any more.
    pub(crate) fn refuse_requests_of_group(&mut self, group_id: PlacementGroupId) {
        let numbers: Vec<u64> = self.queue.of_group(group_id).collect();
        for number in numbers {
            while let Some((_, _, request)) = self.queue.pop(number) {
                self.request_is_over(request.conn, request.request_id);
                let failure = Self::group_is_gone(group_id);
                self.ctx
                    .send(request.conn, LeaseRefused { request_id: request.request_id, failure });
            }
        }
    }

    /// The users of bundles that end.
    pub(crate) fn end_leases_of_group(
        &mut self,
        group_id: PlacementGroupId,
        bundles: &[u32],
        cause: &DeathCause,
    ) {
        let inside = |lease: &Lease| {
            InGroup::of(lease.strategy()).is_some_and(|place| {
                place.group_id == group_id
                    && place.bundle.is_none_or(|bundle| bundles.contains(&bundle))
            })
        };
        let users = self.leases.iter().filter(|(_, lease)| inside(lease));
        let users: Vec<(LeaseId, Option<WorkerId>)> =
            users.map(|(lease_id, lease)| (*lease_id, lease.worker)).collect();
        for (lease_id, worker) in users {
            match worker {
                Some(worker_id) => self.kill_worker(worker_id, Some(cause.clone())),
                None => {
                    self.pool.drop_demand(Demand::Lease(lease_id));
                    self.refuse_lease(lease_id, &Self::group_is_gone(group_id));
                }
            }
        }
    }

    /// **WHY-1** What a lease request waits for.
    pub(crate) fn on_why(&mut self, conn: Conn, why: &Why) {
        if !why.object_id.is_nil() {
            let why = WhyReply {
                request_id: why.request_id,
                why: self.why_object(why.object_id, &why.nodes),
            };
            return self.ctx.send(conn, why);
        }
        if why.arguments_request_id != 0 {
            let store_size = self.store.size();
            let number = why.arguments_request_id;
            let text = self.arguments.why(conn, number, store_size, |conn| self.pid_of(conn));
            return self.ctx.send(conn, WhyReply { request_id: why.request_id, why: text });
        }
        if !why.actor_id.is_nil() {
            let text = self.why_actor(why.actor_id);
            return self.ctx.send(conn, WhyReply { request_id: why.request_id, why: text });
        }
        let of_request =
            |request: &Request| request.conn == conn && request.request_id == why.lease_request_id;
        let mut text = String::new();
        for class in self.queue.classes.values() {
            if let Some(position) = class.waiting.iter().position(of_request) {
                text = self.why_class(&class.spec);
                if self.cluster.may_run_here(&class.spec.strategy) {
                    text.push_str(&self.holders(&class.takes));
                }
                if position > 0 {
                    text = format!("{text}; {position} requests of its kind come before it");
                }
            }
        }
        let granted =
            |lease: &&Lease| lease.lessee == Some(conn) && lease.request_id == why.lease_request_id;
        if let Some(lease) = self.leases.values().find(granted) {
            text = match lease.worker {
                Some(_) => "a worker was found just now".to_owned(),
                None => {
                    let (host, name) = (&self.ctx.setup().address.host, &lease.class.name);
                    let env = with_env(&lease.class.runtime_env);
                    format!("node {host} is starting a worker process for {name}{env}")
                }
            };
        }
        if text.is_empty() {
            text = "this node knows no such request".to_owned();
        }
        self.ctx.send(conn, WhyReply { request_id: why.request_id, why: text });
    }
}
