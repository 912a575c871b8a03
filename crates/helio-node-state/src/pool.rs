//! Worker processes, from their start to their end.
//!
//! ```text
//!            registers             a lease or an actor needs one
//! Starting ────────────▶ Idle ◀───────────────────────────▶ Leased | Actor
//!     │                    │ too many, or its job is over       │
//!     └────────────────────┴────────▶ Ending ◀──────────────────┘ ended by its holder
//! ```
//!
//! A worker that owns what others hold, or whose calls have not ended, is needed though it runs nothing.
//! One that is idle goes on being idle; one that was to end does so by itself when it is needed no more.
//!
//! A worker serves one job and one runtime environment. From every state it may die; it is forgotten
//! when both its process and its connection have ended, so that what it said last is heard.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use helio_proto::cluster::ClientGone;
use helio_proto::control::{Failure, FailureKind};
use helio_proto::node::{Exit as ExitMessage, Expect, Expected, LeaseGranted, Leaving, LesseeGone};
use helio_types::{DeathCause, DeathKind, JobId, LeaseId, WorkerAddress, WorkerId};

use crate::clients::Client;
use crate::keys::{ActorKey, Demand, PoolKey};
use crate::limits::{
    WORKER_AHEAD_MS_MAX, WORKER_DRAIN_MS_MAX, WORKER_EXIT_MS_MAX, WORKER_IDLE_MS_MAX,
    WORKER_INSTALL_MS_MAX, WORKER_START_FAILURES_MAX, WORKER_START_MS_MAX, WORKERS_AHEAD_MAX,
    WORKERS_MAX,
};
use crate::timers::Timer;
use crate::{Action, Conn, Exit, Node, Spawn, exits};

/// Why workers end whose call's owner has ended.
const LESSEE_GONE: &str = "The process that owned its task has ended.";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    Starting,
    Idle { since: u64 },
    Leased(LeaseId),
    Actor(ActorKey),
    Ending,
}

#[derive(Debug)]
pub(crate) struct Worker {
    key: PoolKey,
    pid: u32,
    conn: Option<Conn>,
    pub(crate) usage: Use,
    /// When it was given what it runs, in assignments.
    began: u64,
    /// Has run nothing yet, and so can become an actor.
    pub(crate) is_fresh: bool,
    /// Was forked from the process that has modules loaded.
    is_loaded: bool,
    /// Was started before anything needed it.
    is_ahead: bool,
    /// Waits for others, and its CPU is lent.
    pub(crate) is_blocked: bool,
    /// It was asked to end, and is killed if it has not by then.
    exit_by: Option<u64>,
    /// Its process was killed and may not have ended yet.
    is_killed: bool,
    /// It has said that it ends.
    is_leaving: bool,
    /// It ends when nobody needs it any more, however long that takes.
    lingers: bool,
    /// Why it will have ended, when that is known before it ends.
    cause: Option<DeathCause>,
    /// Its process has ended so; its connection has not yet.
    exited: Option<DeathCause>,
}

impl Worker {
    /// Whether it is starting, and of this kind.
    pub(crate) fn starts(&self, key: &PoolKey) -> bool {
        self.usage == Use::Starting && self.key == *key
    }

    pub(crate) fn runtime_env(&self) -> &str {
        &self.key.1
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    pub(crate) fn job_id(&self) -> JobId {
        self.key.0
    }

    /// When it was given what it runs; rises with time.
    pub(crate) fn began(&self) -> u64 {
        self.began
    }
}

/// A demand that no worker could meet at once.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    demand: Demand,
    /// Its worker is to be forked from the process that has modules loaded.
    wants_loaded: bool,
}

impl Waiting {
    /// Whether such a worker will do. A task can do with any: at worst it loads for itself.
    fn takes(self, is_fresh: bool, is_loaded: bool) -> bool {
        match self.demand {
            Demand::Lease(_) => true,
            Demand::Actor(_) => is_fresh && (is_loaded || !self.wants_loaded),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Pool {
    pub(crate) workers: BTreeMap<WorkerId, Worker>,
    /// How many assignments there were.
    assignments: u64,
    waiting: BTreeMap<PoolKey, VecDeque<Waiting>>,
    /// How many starts in a row have failed.
    failures: BTreeMap<PoolKey, u32>,
    /// Idle workers, the longest idle first.
    idle: BTreeSet<(u64, WorkerId)>,
}

impl Pool {
    /// The job of a worker that was started here and has not registered yet.
    pub(crate) fn expects(&self, worker_id: WorkerId) -> Option<JobId> {
        let worker = self.workers.get(&worker_id)?;
        (worker.usage == Use::Starting && worker.conn.is_none()).then_some(worker.key.0)
    }

    pub(crate) fn job_of(&self, worker_id: WorkerId) -> Option<JobId> {
        self.workers.get(&worker_id).map(|worker| worker.key.0)
    }

    pub(crate) fn of_job(&self, job_id: JobId) -> Vec<WorkerId> {
        self.workers
            .iter()
            .filter(|(_, worker)| worker.key.0 == job_id)
            .map(|(id, _)| *id)
            .collect()
    }

    /// Workers of a job that nobody uses or waits for, those that are only starting among them.
    pub(crate) fn idle_of_job(&self, job_id: JobId) -> Vec<WorkerId> {
        let unused = |worker: &Worker| matches!(worker.usage, Use::Starting | Use::Idle { .. });
        let is_wanted = |worker: &Worker| {
            let waiting = self.waiting.get(&worker.key);
            waiting.is_some_and(|all| {
                all.iter().any(|one| one.takes(worker.is_fresh, worker.is_loaded))
            })
        };
        let of_job = self.workers.iter().filter(|(_, worker)| worker.key.0 == job_id);
        of_job
            .filter(|(_, worker)| unused(worker) && !is_wanted(worker))
            .map(|(id, _)| *id)
            .collect()
    }

    pub(crate) fn is_alive(&self, worker_id: WorkerId) -> bool {
        self.workers.get(&worker_id).is_some_and(|worker| worker.exited.is_none())
    }

    /// Whether someone waits for a worker, and for a kind that is being started.
    pub(crate) fn drop_demand(&mut self, demand: Demand) {
        self.waiting.retain(|_, waiting| {
            waiting.retain(|other| other.demand != demand);
            !waiting.is_empty()
        });
    }

    fn set_usage(&mut self, worker_id: WorkerId, usage: Use) {
        let Some(worker) = self.workers.get_mut(&worker_id) else { return };
        if let Use::Idle { since } = worker.usage {
            self.idle.remove(&(since, worker_id));
        }
        worker.usage = usage;
        if let Use::Idle { since } = usage {
            self.idle.insert((since, worker_id));
        }
    }

    fn is_used_up(&self, worker_id: WorkerId) -> bool {
        self.workers
            .get(&worker_id)
            .is_none_or(|worker| worker.conn.is_none() || worker.exited.is_some())
    }

    /// Whether the worker waits for others and its CPU is lent.
    pub(crate) fn is_blocked(&self, worker_id: WorkerId) -> bool {
        self.workers.get(&worker_id).is_some_and(|worker| worker.is_blocked)
    }

    pub(crate) fn usage(&self, worker_id: WorkerId) -> Option<Use> {
        self.workers.get(&worker_id).map(|worker| worker.usage)
    }

    /// Whether the worker's process is about to end whatever it says.
    pub(crate) fn is_killed(&self, worker_id: WorkerId) -> bool {
        self.workers.get(&worker_id).is_some_and(|worker| worker.is_killed)
    }
}

impl Node {
    /// Finds a worker for a lease or an actor: an idle one at once, else one is started.
    pub(crate) fn need_worker(&mut self, key: PoolKey, demand: Demand) {
        let wants_loaded = match demand {
            Demand::Lease(_) => self.preload.serves_lease(&key, &self.ctx),
            Demand::Actor(actor) => {
                self.preload.serves_actor(&key, self.actors.modules(actor), &mut self.ctx)
            }
        };
        let waiting = Waiting { demand, wants_loaded };
        let fits =
            |worker: &Worker| worker.key == key && waiting.takes(worker.is_fresh, worker.is_loaded);
        // The one used last has the warmest caches; a used one leaves the fresh ones to actors.
        let mut idle = self.pool.idle.iter().rev().map(|(_, id)| *id);
        let found = idle.find(|id| self.pool.workers.get(id).is_some_and(fits));
        match found {
            Some(worker_id) => self.assign(worker_id, demand),
            None => {
                self.pool.waiting.entry(key).or_default().push_back(waiting);
                self.start_workers();
            }
        }
    }

    pub(crate) fn on_expect(&mut self, conn: Conn, expect: Expect) {
        let Some(job_id) = self.clients.get(conn).map(|client| client.job_id()) else { return };
        if job_id == JobId::NIL || self.jobs.is_finished(job_id) {
            if expect.request_id != 0 {
                let answer = Expected { request_id: expect.request_id, ..Expected::default() };
                self.ctx.send(conn, answer);
            }
            return;
        }
        let key = (job_id, expect.runtime_env);
        self.start_ahead(&key, expect.workers.min(WORKERS_AHEAD_MAX) as usize);
        self.preload.expect(&key, &expect.modules, &mut self.ctx);
        let missing = self.pool.workers.values().filter(|worker| worker.starts(&key)).count();
        self.preload.await_workers(key, conn, expect.request_id, missing, &mut self.ctx);
    }

    /// It was started ahead, and nothing came.
    pub(crate) fn end_if_never_used(&mut self, worker_id: WorkerId) {
        let Some(worker) = self.pool.workers.get(&worker_id) else { return };
        if worker.is_fresh && matches!(worker.usage, Use::Idle { .. }) {
            self.end_worker(worker_id, "It was started ahead and not needed.");
        }
    }

    /// Starts workers before anything needs them: as many as are not there or starting already.
    pub(crate) fn start_ahead(&mut self, key: &PoolKey, count: usize) {
        let unused = |worker: &&Worker| matches!(worker.usage, Use::Starting | Use::Idle { .. });
        let there = self.pool.workers.values().filter(|worker| worker.key == *key);
        let missing = count.saturating_sub(there.filter(unused).count());
        let starting =
            self.pool.workers.values().filter(|worker| worker.usage == Use::Starting).count();
        let room = self.ctx.setup().starts_max.saturating_sub(starting);
        for _ in 0..missing.min(room).min(WORKERS_MAX.saturating_sub(self.pool.workers.len())) {
            self.start_worker(key, false, true);
        }
    }

    /// Starts as many workers as are waited for and not starting yet.
    fn start_workers(&mut self) {
        let mut starting: BTreeMap<(&PoolKey, bool), usize> = BTreeMap::new();
        for worker in self.pool.workers.values().filter(|worker| worker.usage == Use::Starting) {
            *starting.entry((&worker.key, worker.is_loaded)).or_default() += 1;
        }
        let mut room = self.ctx.setup().starts_max.saturating_sub(starting.values().sum());
        room = room.min(WORKERS_MAX.saturating_sub(self.pool.workers.len()));
        let mut wanted: Vec<(PoolKey, bool, usize)> = Vec::new();
        for (key, waiting) in &self.pool.waiting {
            for is_loaded in [false, true] {
                let wants = waiting.iter().filter(|one| one.wants_loaded == is_loaded).count();
                let coming = starting.get(&(key, is_loaded)).copied().unwrap_or(0);
                let missing = wants.saturating_sub(coming).min(room);
                room -= missing;
                wanted.push((key.clone(), is_loaded, missing));
            }
        }
        for (key, is_loaded, count) in wanted {
            for _ in 0..count {
                self.start_worker(&key, is_loaded, false);
            }
        }
    }

    fn start_worker(&mut self, key: &PoolKey, is_loaded: bool, is_ahead: bool) {
        let (env, cwd) = match read_environment(&key.1) {
            Ok(environment) => environment,
            Err(why) => return self.fail_demands(key, &Failure::new(FailureKind::RuntimeEnv, why)),
        };
        let worker_id = self.new_worker_id();
        let worker = Worker {
            key: key.clone(),
            pid: 0,
            conn: None,
            usage: Use::Starting,
            began: 0,
            is_fresh: true,
            is_loaded,
            is_ahead,
            is_blocked: false,
            exit_by: None,
            is_killed: false,
            is_leaving: false,
            lingers: false,
            cause: None,
            exited: None,
        };
        self.pool.workers.insert(worker_id, worker);
        self.ctx.set_timer(self.ctx.now() + start_ms_max(&key.1), Timer::WorkerStart(worker_id));
        self.ctx.push(Action::Spawn(Spawn { worker_id, job_id: key.0, env, cwd, is_loaded }));
    }

    pub(crate) fn on_worker_started(&mut self, worker_id: WorkerId, pid: u32) {
        if let Some(worker) = self.pool.workers.get_mut(&worker_id) {
            worker.pid = pid;
        }
    }

    pub(crate) fn on_worker_not_started(&mut self, worker_id: WorkerId, why: &str) {
        let message = format!("A worker process could not be started: {why}.");
        self.on_worker_gone(worker_id, DeathCause::new(DeathKind::StartFailed, message));
    }

    pub(crate) fn worker_start_is_late(&mut self, worker_id: WorkerId) {
        if self.pool.workers.get(&worker_id).is_some_and(|worker| worker.usage == Use::Starting) {
            let seconds = start_ms_max(&self.pool.workers[&worker_id].key.1) / 1000;
            let message =
                format!("The worker process did not register within {seconds} s and was killed.");
            self.kill_worker(worker_id, Some(DeathCause::new(DeathKind::StartFailed, message)));
        }
    }

    pub(crate) fn on_worker_registered(&mut self, conn: Conn, worker_id: WorkerId) {
        let pid = self.pid_of(conn);
        let Some(worker) = self.pool.workers.get_mut(&worker_id) else { return };
        worker.conn = Some(conn);
        if worker.pid == 0 {
            worker.pid = pid;
        }
        let key = worker.key.clone();
        self.pool.failures.remove(&key);
        self.send_registered(conn, String::new());
        self.worker_is_free(worker_id);
    }

    /// A worker has nothing to do: the first that waits for its kind gets it.
    pub(crate) fn worker_is_free(&mut self, worker_id: WorkerId) {
        if self.pool.is_used_up(worker_id) {
            return;
        }
        let Some(worker) = self.pool.workers.get_mut(&worker_id) else { return };
        worker.is_blocked = false;
        let (key, is_fresh, is_loaded) = (worker.key.clone(), worker.is_fresh, worker.is_loaded);
        let is_ahead = std::mem::take(&mut worker.is_ahead);
        if worker.usage == Use::Starting
            && let Some(conn) = worker.conn
        {
            let address = self.address_of(conn);
            self.preload.on_worker(&key, &address, &mut self.ctx);
        }
        if let Some(waiting) = self.pool.waiting.get_mut(&key) {
            let suits = |one: &Waiting| one.takes(is_fresh, is_loaded);
            if let Some(index) = waiting.iter().position(suits) {
                let Waiting { demand, .. } = waiting.remove(index).expect("it was found there");
                if waiting.is_empty() {
                    self.pool.waiting.remove(&key);
                }
                self.assign(worker_id, demand);
                // Its place among those that may start is free.
                return self.start_workers();
            }
        }
        if self.jobs.is_finished(key.0) {
            return self.end_worker(worker_id, "The job that it belonged to has ended.");
        }
        self.pool.set_usage(worker_id, Use::Idle { since: self.ctx.now() });
        if is_ahead {
            self.ctx.set_timer(self.ctx.now() + WORKER_AHEAD_MS_MAX, Timer::Ahead(worker_id));
        }
        if self.pool.idle.len() > self.ctx.setup().idle_max {
            self.ctx.set_timer(self.ctx.now() + WORKER_IDLE_MS_MAX, Timer::Idle);
        }
        self.start_workers();
    }

    fn assign(&mut self, worker_id: WorkerId, demand: Demand) {
        let Some(conn) = self.pool.workers.get(&worker_id).and_then(|worker| worker.conn) else {
            return;
        };
        match demand {
            Demand::Lease(lease_id) => {
                self.pool.set_usage(worker_id, Use::Leased(lease_id));
                let address = self.address_of(conn);
                let Some(lease) = self.leases.get_mut(&lease_id) else {
                    return self.worker_is_free(worker_id);
                };
                lease.worker = Some(worker_id);
                if let Some(lessee) = lease.lessee {
                    let granted = LeaseGranted {
                        request_id: lease.request_id,
                        lease_id,
                        worker: address,
                        assigned: lease.assigned.clone(),
                    };
                    self.ctx.send(lessee, granted);
                }
            }
            Demand::Actor(key) => {
                self.pool.set_usage(worker_id, Use::Actor(key));
                self.start_actor(key, worker_id, conn);
            }
        }
        self.pool.assignments += 1;
        let began = self.pool.assignments;
        if let Some(worker) = self.pool.workers.get_mut(&worker_id) {
            worker.is_fresh = false;
            worker.began = began;
        }
    }

    /// Lends a waiting worker's CPU to others, or takes it back.
    pub(crate) fn on_blocked(&mut self, conn: Conn, is_blocked: bool) {
        // Who waits for room for what it makes is not about to let others run.
        let is_aside = is_blocked && !self.store.waits_to_write(conn);
        self.arguments.on_blocked(conn, is_aside, &mut self.ctx);
        let Some(client) = self.clients.get(conn) else { return };
        let Some(worker) = self.pool.workers.get_mut(&client.worker_id()) else { return };
        if worker.is_blocked == is_blocked {
            return;
        }
        let assigned = match worker.usage {
            Use::Leased(lease_id) => {
                self.leases.get(&lease_id).map(|lease| (&lease.assigned, lease.strategy()))
            }
            Use::Actor(key) => self.actors.assigned(key),
            _ => None,
        };
        let Some((assigned, strategy)) = assigned else { return };
        worker.is_blocked = is_blocked;
        if is_blocked {
            self.ledger.lend_cpu(assigned, strategy);
        } else {
            self.ledger.retake_cpu(assigned, strategy);
        }
        self.ctx.capacity_changed();
    }

    pub(crate) fn end_idle_workers(&mut self) {
        while self.pool.idle.len() > self.ctx.setup().idle_max {
            let Some(&(since, worker_id)) = self.pool.idle.first() else { return };
            if since + WORKER_IDLE_MS_MAX > self.ctx.now() {
                self.ctx.set_timer(since + WORKER_IDLE_MS_MAX, Timer::Idle);
                return;
            }
            self.pool.set_usage(worker_id, Use::Ending);
            self.exit(worker_id, "It was idle.", true);
        }
    }

    /// An idle worker was asked to end, and others need it; or its lessee is gone, and nothing of that
    /// lessee runs in it.
    pub(crate) fn on_stays(&mut self, conn: Conn) {
        let Some(client) = self.clients.get(conn) else { return };
        let worker_id = client.worker_id();
        let Some(worker) = self.pool.workers.get_mut(&worker_id) else { return };
        if worker.is_killed || worker.is_leaving || worker.exit_by.is_none() {
            return;
        }
        match worker.usage {
            Use::Ending => {}
            // Its objects are gone with its job, and it may have calls that need them.
            Use::Leased(_) if self.jobs.is_finished(worker.key.0) => {
                return self.kill_worker(worker_id, None);
            }
            Use::Leased(lease_id)
                if self.leases.get(&lease_id).is_some_and(|lease| lease.lessee.is_none()) =>
            {
                self.end_lingering(worker_id, lease_id);
            }
            _ => return,
        }
        if let Some(worker) = self.pool.workers.get_mut(&worker_id) {
            (worker.exit_by, worker.cause) = (None, None);
            self.worker_is_free(worker_id);
        }
    }

    /// The process that leased a worker is gone. What the worker runs for it ends; a worker that runs
    /// nothing for it is free, because others may hold what it owns, unless its job is over.
    pub(crate) fn on_lessee_gone(
        &mut self,
        worker_id: WorkerId,
        lease_id: LeaseId,
        lessee: &Client,
    ) {
        let Some(worker) = self.pool.workers.get_mut(&worker_id) else { return };
        let cause = DeathCause::new(DeathKind::Intended, LESSEE_GONE);
        let is_over = lessee.is_driver() || self.jobs.is_finished(worker.key.0);
        match worker.conn {
            _ if worker.is_killed || worker.exited.is_some() => {}
            Some(_) if worker.lingers => self.end_lingering(worker_id, lease_id),
            Some(conn) if !is_over => {
                let by = self.ctx.now() + WORKER_EXIT_MS_MAX;
                worker.exit_by = Some(by);
                worker.cause.get_or_insert(cause);
                let gone =
                    LesseeGone { worker_id: lessee.worker_id(), reason: LESSEE_GONE.to_owned() };
                self.ctx.send(conn, gone);
                self.ctx.set_timer(by, Timer::WorkerExit(worker_id));
            }
            _ => self.kill_worker(worker_id, Some(cause)),
        }
    }

    /// Asks a worker to end; kills it when it does not.
    pub(crate) fn end_worker(&mut self, worker_id: WorkerId, reason: &str) {
        self.pool.set_usage(worker_id, Use::Ending);
        self.ask_to_exit(worker_id, reason);
    }

    pub(crate) fn ask_to_exit(&mut self, worker_id: WorkerId, reason: &str) {
        self.exit(worker_id, reason, false);
    }

    fn exit(&mut self, worker_id: WorkerId, reason: &str, unless_needed: bool) {
        let Some(worker) = self.pool.workers.get_mut(&worker_id) else { return };
        let by = self.ctx.now() + WORKER_EXIT_MS_MAX;
        worker.exit_by = Some(by);
        worker.cause.get_or_insert_with(|| DeathCause::new(DeathKind::Intended, reason));
        match worker.conn {
            Some(conn) => self
                .ctx
                .send(conn, ExitMessage { reason: reason.to_owned(), drain: true, unless_needed }),
            None => self.ctx.push(Action::Kill { worker_id }),
        }
        self.ctx.set_timer(by, Timer::WorkerExit(worker_id));
    }

    pub(crate) fn worker_exit_is_late(&mut self, worker_id: WorkerId) {
        let Some(worker) = self.pool.workers.get(&worker_id) else { return };
        if !worker.lingers && worker.exit_by.is_some_and(|by| by <= self.ctx.now()) {
            self.kill_worker(worker_id, None);
        }
    }

    /// Kills a worker now, for the given reason unless it has one already.
    pub(crate) fn kill_worker(&mut self, worker_id: WorkerId, cause: Option<DeathCause>) {
        let Some(worker) = self.pool.workers.get_mut(&worker_id) else { return };
        if worker.cause.is_none() {
            worker.cause = cause;
        }
        worker.is_killed = true;
        if matches!(worker.usage, Use::Starting | Use::Idle { .. }) {
            self.pool.set_usage(worker_id, Use::Ending);
        }
        self.ctx.push(Action::Kill { worker_id });
    }

    /// The worker says why it is about to end.
    pub(crate) fn on_leaving(&mut self, conn: Conn, leaving: Leaving) {
        let Some(client) = self.clients.get(conn) else { return };
        let worker_id = client.worker_id();
        let Some(worker) = self.pool.workers.get_mut(&worker_id) else { return };
        match &mut worker.exited {
            // The news of its end were quicker, and say less.
            Some(exited) if exited.kind == DeathKind::Exited => {
                let log_tail = std::mem::take(&mut exited.log_tail);
                *exited = exits::cause(Some(leaving.cause), worker.pid, Exit::Unknown, log_tail);
            }
            Some(_) => {}
            None => {
                worker.cause.get_or_insert(leaving.cause);
            }
        }
        worker.is_leaving = true;
        worker.lingers |= leaving.is_needed;
        // Its lease may have been given back before, and may be waited for by the calls it waits for.
        if let (true, Use::Leased(lease_id)) = (leaving.is_needed, worker.usage)
            && self.leases.get(&lease_id).is_some_and(|lease| lease.lessee.is_none())
        {
            self.end_lingering(worker_id, lease_id);
        }
    }

    pub(crate) fn lingers(&self, worker_id: WorkerId) -> bool {
        self.pool.workers.get(&worker_id).is_some_and(|worker| worker.lingers)
    }

    pub(crate) fn on_worker_exited(&mut self, worker_id: WorkerId, exit: Exit, log_tail: String) {
        let Some(worker) = self.pool.workers.get_mut(&worker_id) else { return };
        let cause = exits::cause(worker.cause.take(), worker.pid, exit, log_tail);
        if worker.conn.is_some() {
            worker.exited = Some(cause);
            self.ctx.set_timer(self.ctx.now() + WORKER_DRAIN_MS_MAX, Timer::WorkerDrain(worker_id));
            if matches!(worker.usage, Use::Idle { .. }) {
                self.pool.set_usage(worker_id, Use::Ending);
            }
        } else {
            self.on_worker_gone(worker_id, cause);
        }
    }

    /// A child of the dead worker holds its socket open.
    pub(crate) fn worker_drain_is_late(&mut self, worker_id: WorkerId) {
        let Some(worker) = self.pool.workers.get(&worker_id) else { return };
        if let (Some(conn), true) = (worker.conn, worker.exited.is_some()) {
            self.ctx.push(Action::Close { conn, why: String::new() });
            self.on_client_closed(conn);
        }
    }

    /// The worker's connection ended: its process has, or has to.
    pub(crate) fn on_worker_disconnected(&mut self, worker_id: WorkerId) {
        let Some(worker) = self.pool.workers.get_mut(&worker_id) else { return };
        worker.conn = None;
        match worker.exited.take() {
            Some(cause) => self.on_worker_gone(worker_id, cause),
            None => {
                if matches!(worker.usage, Use::Idle { .. }) {
                    self.pool.set_usage(worker_id, Use::Ending);
                }
                self.ctx.push(Action::Kill { worker_id });
            }
        }
    }

    fn on_worker_gone(&mut self, worker_id: WorkerId, cause: DeathCause) {
        self.pool.set_usage_of_dead(worker_id);
        let Some(worker) = self.pool.workers.remove(&worker_id) else { return };
        self.ctx.push(Action::Forget { worker_id });
        self.remember_exit(worker_id, cause.clone());
        self.ctx.tell_control(ClientGone { worker_id, is_driver: false, cause: cause.clone() });
        match worker.usage {
            Use::Starting => self.start_failed(&worker.key, &cause),
            Use::Leased(lease_id) => {
                self.on_lease_lost(lease_id, worker_id, cause, worker.is_blocked)
            }
            Use::Actor(key) => self.on_actor_gone(key, cause, worker.is_blocked),
            // It was killed because it took too long.
            Use::Ending if cause.kind == DeathKind::StartFailed => {
                self.start_failed(&worker.key, &cause)
            }
            Use::Idle { .. } | Use::Ending => {}
        }
        self.start_workers();
        self.ctx.capacity_changed();
    }

    fn start_failed(&mut self, key: &PoolKey, cause: &DeathCause) {
        self.preload.on_worker(key, &WorkerAddress::default(), &mut self.ctx);
        let failures = self.pool.failures.entry(key.clone()).or_default();
        *failures += 1;
        if *failures >= WORKER_START_FAILURES_MAX {
            let text =
                format!("{failures} workers in a row could not be started; the last one: {cause}");
            // What is peculiar to these workers is their environment, if they have one of their own.
            let kind = if key.1.is_empty() { FailureKind::System } else { FailureKind::RuntimeEnv };
            self.fail_demands(key, &Failure::new(kind, text));
        }
    }

    /// Tells all that wait for a worker of this kind that there will be none.
    fn fail_demands(&mut self, key: &PoolKey, failure: &Failure) {
        self.pool.failures.remove(key);
        for waiting in self.pool.waiting.remove(key).unwrap_or_default() {
            match waiting.demand {
                Demand::Lease(lease_id) => self.refuse_lease(lease_id, failure),
                Demand::Actor(actor) => {
                    let cause = DeathCause::new(DeathKind::StartFailed, failure.message.clone());
                    self.on_actor_gone(actor, cause, false);
                }
            }
        }
        self.ctx.capacity_changed();
    }
}

impl Pool {
    fn set_usage_of_dead(&mut self, worker_id: WorkerId) {
        if let Some(Worker { usage: Use::Idle { since }, .. }) = self.workers.get(&worker_id) {
            self.idle.remove(&(*since, worker_id));
        }
    }
}

/// How long a worker may take to start: longer where it has packages to install first.
fn start_ms_max(runtime_env: &str) -> u64 {
    let installs = ["\"pip\":", "\"uv\":"].iter().any(|field| runtime_env.contains(field));
    if installs { WORKER_INSTALL_MS_MAX } else { WORKER_START_MS_MAX }
}

/// The variables and the folder of a runtime environment.
fn read_environment(json: &str) -> Result<(BTreeMap<String, String>, Option<String>), String> {
    if json.is_empty() {
        return Ok((BTreeMap::new(), None));
    }
    let value: serde_json::Value = serde_json::from_str(json)
        .map_err(|e| format!("the runtime environment is not JSON: {e}"))?;
    let mut env = BTreeMap::new();
    for (name, value) in value.get("env_vars").and_then(|v| v.as_object()).into_iter().flatten() {
        let Some(value) = value.as_str() else {
            return Err(format!(
                "the runtime environment's env_vars must be strings; {name} is not"
            ));
        };
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(format!(
                "the runtime environment's variable {name:?} is no environment variable"
            ));
        }
        env.insert(name.clone(), value.to_owned());
    }
    let cwd = value
        .get("working_dir")
        .and_then(|v| v.as_str())
        .filter(|dir| !dir.is_empty())
        .map(str::to_owned);
    Ok((env, cwd))
}
