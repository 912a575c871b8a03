//! Worker processes, from their start to their end.
//!
//! ```text
//!            registers             a lease or an actor needs one
//! Starting ────────────▶ Idle ◀───────────────────────────▶ Leased | Actor
//!     │                    │ too many, or its job is over       │
//!     └────────────────────┴────────▶ Ending ◀──────────────────┘ ended by its holder
//! ```
//!
//! A worker that owns objects which others hold, or whose calls have not ended, is needed though it runs
//! nothing. If it is idle it stays idle; if it was to end it does so by itself when it is not needed any more.
//!
//! A worker serves one job and one runtime environment. From every state it may die; it is forgotten
//! when both its process and its connection have ended, so that its last messages are handled.

mod ending;
mod environment;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use helio_proto::control::{Failure, FailureKind};
use helio_proto::environment::{RuntimeEnv, SETUP_FAILED, SETUP_TIMED_OUT};
use helio_types::{DeathCause, DeathKind, JobId, LeaseId, WorkerId, mutant};

use crate::context::Context;
use crate::event::{Action, Conn, Spawn};
use crate::exits::Life;
use crate::keys::{ActorKey, Demand, PoolKey};
use crate::limits::{
    WORKER_AHEAD_MS_MAX, WORKER_FORK_MS_MAX, WORKER_IDLE_MS_MAX, WORKER_START_FAILURES_MAX,
    WORKERS_MAX,
};
use crate::timers::Timer;
use environment::{start_ms_max, variables};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    Starting,
    Idle { since: u64 },
    Leased(LeaseId),
    Actor(ActorKey),
    Ending,
}

impl Use {
    /// The word for it in lists and measurements.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Idle { .. } => "idle",
            Self::Leased(_) => "leased",
            Self::Actor(_) => "actor",
            Self::Ending => "ending",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Worker {
    key: PoolKey,
    pid: u32,
    conn: Option<Conn>,
    usage: Use,
    /// The number of the assignment that gave the worker its work; rises with time.
    began: u64,
    /// The worker has run nothing yet, and so can become an actor.
    is_fresh: bool,
    /// The worker was forked from the process that has modules loaded.
    is_preloaded: bool,
    /// The worker was started before anything needed it.
    is_ahead: bool,
    /// Waits for others, and its CPU is lent.
    is_blocked: bool,
    /// The time by which it must have registered, or is killed; of one that waits for its fork, the time by which it
    /// must have been forked.
    register_by: Option<u64>,
    /// The time by which a worker that was asked to end must have ended, or is killed.
    exit_by: Option<u64>,
    /// The process was killed and may not have ended yet.
    is_killed: bool,
    /// The worker has said that it ends.
    is_leaving: bool,
    /// The worker was told to end at once.
    is_told: bool,
    /// The worker ends when nobody needs it any more, however long that takes.
    lingers: bool,
    /// The cause that the worker's end will have, when it is known before.
    cause: Option<DeathCause>,
    /// The process has ended for this cause; its connection has not ended yet.
    exited: Option<DeathCause>,
    life: Life,
}

impl Worker {
    pub(crate) fn runtime_env(&self) -> &RuntimeEnv {
        &self.key.1
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    pub(crate) fn job_id(&self) -> JobId {
        self.key.0
    }

    pub(crate) fn usage(&self) -> Use {
        self.usage
    }

    /// Returns the times at which the process was begun and said that it serves.
    pub(crate) fn life(&self) -> Life {
        self.life
    }

    pub(crate) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// Returns the number of the assignment that gave the worker its work; rises with time.
    pub(crate) fn began(&self) -> u64 {
        self.began
    }
}

/// A demand that no worker could meet at once.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    demand: Demand,
    /// The worker is to be forked from the process that has modules loaded.
    wants_preloaded: bool,
}

impl Waiting {
    /// Whether such a worker will do. A task can do with any: at worst it loads the modules itself.
    fn takes(self, is_fresh: bool, is_preloaded: bool) -> bool {
        match self.demand {
            Demand::Lease(_) => true,
            Demand::Actor(_) => is_fresh && (is_preloaded || !self.wants_preloaded),
        }
    }
}

/// A worker that has nothing to do.
#[derive(Debug)]
pub(crate) struct Freed {
    pub(crate) key: PoolKey,
    /// The connection of the worker, if it has just registered.
    pub(crate) registered: Option<Conn>,
    is_fresh: bool,
    is_preloaded: bool,
    is_ahead: bool,
}

/// A worker that was forgotten: both its process and its connection have ended.
#[derive(Debug)]
pub(crate) struct Gone {
    pub(crate) key: PoolKey,
    pub(crate) usage: Use,
    pub(crate) is_blocked: bool,
    pub(crate) life: Life,
}

/// The answer to a worker that was asked to end and is needed still.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stay {
    /// The worker was not asked to end, or is ending anyway.
    Ignored,
    /// The worker stays. Its lease, if it has one, is that of a lessee that may be gone.
    Stays(Option<LeaseId>),
}

/// The worker processes of this node, by their state.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    workers: BTreeMap<WorkerId, Worker>,
    /// Number of assignments so far.
    assignments: u64,
    waiting: BTreeMap<PoolKey, VecDeque<Waiting>>,
    /// Number of failed starts in a row, by kind of worker.
    failures: BTreeMap<PoolKey, u32>,
    /// Idle workers, the longest idle first.
    idle: BTreeSet<(u64, WorkerId)>,
}

impl Pool {
    pub(crate) fn len(&self) -> usize {
        self.workers.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (WorkerId, &Worker)> {
        self.workers.iter().map(|(id, worker)| (*id, worker))
    }

    pub(crate) fn get(&self, worker_id: WorkerId) -> Option<&Worker> {
        self.workers.get(&worker_id)
    }

    pub(crate) fn contains(&self, worker_id: WorkerId) -> bool {
        self.workers.contains_key(&worker_id)
    }

    pub(crate) fn pid(&self, worker_id: WorkerId) -> u32 {
        self.workers.get(&worker_id).map_or(0, Worker::pid)
    }

    pub(crate) fn usage(&self, worker_id: WorkerId) -> Option<Use> {
        self.workers.get(&worker_id).map(|worker| worker.usage)
    }

    /// The job of a worker that was started here and has not registered yet.
    pub(crate) fn expects(&self, worker_id: WorkerId) -> Option<JobId> {
        let worker = self.workers.get(&worker_id)?;
        (worker.usage == Use::Starting && worker.conn.is_none()).then_some(worker.key.0)
    }

    pub(crate) fn job_of(&self, worker_id: WorkerId) -> Option<JobId> {
        self.workers.get(&worker_id).map(|worker| worker.key.0)
    }

    pub(crate) fn of_job(&self, job_id: JobId) -> Vec<WorkerId> {
        let of_job = self.workers.iter().filter(|(_, worker)| worker.key.0 == job_id);
        of_job.map(|(id, _)| *id).collect()
    }

    /// Workers of a job that nobody uses or waits for, those that are only starting among them.
    pub(crate) fn idle_of_job(&self, job_id: JobId) -> Vec<WorkerId> {
        let unused = |worker: &Worker| matches!(worker.usage, Use::Starting | Use::Idle { .. });
        // A detached actor of the job outlives its driver, and may wait for this worker.
        let is_wanted = |worker: &Worker| {
            let waiting = self.waiting.get(&worker.key);
            waiting.is_some_and(|all| {
                all.iter().any(|one| one.takes(worker.is_fresh, worker.is_preloaded))
            })
        };
        let of_job = self.workers.iter().filter(|(_, worker)| worker.key.0 == job_id);
        of_job
            .filter(|(_, worker)| unused(worker) && !is_wanted(worker))
            .map(|(id, _)| *id)
            .collect()
    }

    /// Returns the number of workers of this kind that are starting.
    pub(crate) fn starting_of(&self, key: &PoolKey) -> usize {
        let starts = |worker: &&Worker| worker.usage == Use::Starting && worker.key == *key;
        self.workers.values().filter(starts).count()
    }

    /// The processes of workers that are starting in this environment.
    pub(crate) fn starting_in(&self, env: &RuntimeEnv) -> Vec<u32> {
        let starts = |worker: &&Worker| {
            worker.usage == Use::Starting && worker.pid > 0 && *worker.key.1 == *env
        };
        self.workers.values().filter(starts).map(Worker::pid).collect()
    }

    pub(crate) fn is_alive(&self, worker_id: WorkerId) -> bool {
        self.workers.get(&worker_id).is_some_and(|worker| worker.exited.is_none())
    }

    /// Whether the worker waits for others and its CPU is lent.
    pub(crate) fn is_blocked(&self, worker_id: WorkerId) -> bool {
        self.workers.get(&worker_id).is_some_and(|worker| worker.is_blocked)
    }

    /// Whether the worker's process is about to end whatever it says.
    pub(crate) fn is_killed(&self, worker_id: WorkerId) -> bool {
        self.workers.get(&worker_id).is_some_and(|worker| worker.is_killed)
    }

    /// Whether the worker ends when nobody needs it any more, however long that takes.
    pub(crate) fn lingers(&self, worker_id: WorkerId) -> bool {
        self.workers.get(&worker_id).is_some_and(|worker| worker.lingers)
    }

    fn set_usage(&mut self, worker_id: WorkerId, usage: Use) {
        let Some(worker) = self.workers.get_mut(&worker_id) else { return };
        if let Use::Idle { since } = worker.usage {
            let was_idle = self.idle.remove(&(since, worker_id));
            assert!(was_idle, "an idle worker that is not found is never used again");
        }
        worker.usage = usage;
        if let Use::Idle { since } = usage {
            let is_new = self.idle.insert((since, worker_id));
            assert!(is_new, "a worker would be lent twice");
        }
    }

    // Demands.

    /// An idle worker for the demand; without one the demand waits.
    pub(crate) fn find(
        &mut self,
        key: PoolKey,
        demand: Demand,
        wants_preloaded: bool,
    ) -> Option<WorkerId> {
        let waiting = Waiting { demand, wants_preloaded };
        let fits = |worker: &Worker| {
            // A used worker has the job's code and modules loaded, and the environment's variables set.
            let is_of_job = worker.key.0 == key.0 || mutant!("worker-of-another-job");
            let is_of_env = worker.key.1 == key.1 || mutant!("worker-of-another-environment");
            is_of_job && is_of_env && waiting.takes(worker.is_fresh, worker.is_preloaded)
        };
        // The one used last has the warmest caches; a used one leaves the fresh ones to actors.
        let mut idle = self.idle.iter().rev().map(|(_, id)| *id);
        let found = idle.find(|id| self.workers.get(id).is_some_and(fits));
        if found.is_none() {
            // Workers are started for demands that wait (`missing`), not for this one: a worker that falls free first
            // serves it.
            self.waiting.entry(key).or_default().push_back(waiting);
        }
        found
    }

    /// Whether work waits for a worker that starts.
    pub(crate) fn has_demands(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Drops a demand whose worker is not waited for any more.
    pub(crate) fn drop_demand(&mut self, demand: Demand) {
        self.waiting.retain(|_, waiting| {
            waiting.retain(|other| other.demand != demand);
            !waiting.is_empty()
        });
    }

    /// Takes the first demand that waits for such a worker.
    pub(crate) fn take_demand(&mut self, freed: &Freed) -> Option<Demand> {
        let waiting = self.waiting.get_mut(&freed.key)?;
        let suits = |one: &Waiting| one.takes(freed.is_fresh, freed.is_preloaded);
        let Waiting { demand, .. } = waiting.remove(waiting.iter().position(suits)?)?;
        if waiting.is_empty() {
            self.waiting.remove(&freed.key);
        }
        Some(demand)
    }

    /// Takes all demands that wait for a worker of this kind: there will be none.
    pub(crate) fn take_demands(&mut self, key: &PoolKey) -> Vec<Demand> {
        self.failures.remove(key);
        let waiting = self.waiting.remove(key).unwrap_or_default();
        waiting.into_iter().map(|one| one.demand).collect()
    }

    /// The connection of a worker that can be given work.
    pub(crate) fn conn(&self, worker_id: WorkerId) -> Option<Conn> {
        self.workers.get(&worker_id)?.conn
    }

    /// Gives the worker its use.
    pub(crate) fn assign(&mut self, worker_id: WorkerId, demand: Demand) {
        let usage = match demand {
            Demand::Lease(lease_id) => Use::Leased(lease_id),
            Demand::Actor(key) => Use::Actor(key),
        };
        self.set_usage(worker_id, usage);
    }

    /// The worker has got its work.
    pub(crate) fn on_assigned(&mut self, worker_id: WorkerId) {
        self.assignments += 1;
        if let Some(worker) = self.workers.get_mut(&worker_id) {
            worker.is_fresh = false;
            worker.began = self.assignments;
        }
    }

    /// The lease of the worker is over: it ends, unless it is found to be free.
    pub(crate) fn on_lease_over(&mut self, worker_id: WorkerId, lease_id: LeaseId) {
        if let Some(worker) = self.workers.get_mut(&worker_id)
            && worker.usage == Use::Leased(lease_id)
        {
            // It may run on for a lessee that is gone: `on_worker_free` says when it can be lent again.
            worker.usage = Use::Ending;
            worker.is_blocked = false;
        }
    }

    /// The worker waits for others, or goes on. Returns its use, if that is news.
    pub(crate) fn blocking(&self, worker_id: WorkerId, is_blocked: bool) -> Option<Use> {
        let worker = self.workers.get(&worker_id)?;
        (worker.is_blocked != is_blocked).then_some(worker.usage)
    }

    pub(crate) fn set_blocked(&mut self, worker_id: WorkerId, is_blocked: bool) {
        if let Some(worker) = self.workers.get_mut(&worker_id) {
            worker.is_blocked = is_blocked;
        }
    }

    // Starting.

    /// Returns the number of workers of this kind to start ahead: the wanted ones without those
    /// that are idle or starting, as far as the limits allow.
    pub(crate) fn missing_ahead(&self, key: &PoolKey, count: usize, starts_max: usize) -> usize {
        let unused = |worker: &&Worker| matches!(worker.usage, Use::Starting | Use::Idle { .. });
        let there = self.workers.values().filter(|worker| worker.key == *key);
        let missing = count.saturating_sub(there.filter(unused).count());
        let starting = self.workers.values().filter(|worker| worker.usage == Use::Starting).count();
        missing.min(starts_max.saturating_sub(starting)).min(self.room())
    }

    /// Returns the number of workers that may still be started.
    fn room(&self) -> usize {
        WORKERS_MAX.saturating_sub(self.workers.len())
    }

    /// The kinds of workers that are waited for and not starting yet, whether they are to be preloaded, and
    /// how many of each may start.
    pub(crate) fn missing(&self, starts_max: usize) -> Vec<(PoolKey, bool, usize)> {
        let mut starting: BTreeMap<(&PoolKey, bool), usize> = BTreeMap::new();
        for worker in self.workers.values().filter(|worker| worker.usage == Use::Starting) {
            *starting.entry((&worker.key, worker.is_preloaded)).or_default() += 1;
        }
        // Starts are bound together: many interpreters at once only make each other late.
        let mut room = starts_max.saturating_sub(starting.values().sum()).min(self.room());
        let mut missing: Vec<(PoolKey, bool, usize)> = Vec::new();
        for (key, waiting) in &self.waiting {
            for is_preloaded in [false, true] {
                let wants = waiting.iter().filter(|one| one.wants_preloaded == is_preloaded);
                let coming = starting.get(&(key, is_preloaded)).copied().unwrap_or(0);
                let count = wants.count().saturating_sub(coming).min(room);
                room -= count;
                missing.push((key.clone(), is_preloaded, count));
            }
        }
        missing
    }

    /// Starts a worker. Fails if a variable of its runtime environment is none.
    pub(crate) fn start(
        &mut self,
        key: &PoolKey,
        is_preloaded: bool,
        is_ahead: bool,
        ctx: &mut Context,
    ) -> Result<(), Failure> {
        // A variable that cannot be set would fail in every process: it is found before the first one.
        let env = variables(&key.1).map_err(|why| Failure::new(FailureKind::RuntimeEnv, why))?;
        let cwd = Some(&key.1.working_dir).filter(|folder| !folder.is_empty()).cloned();
        let worker_id = ctx.new_worker_id();
        let start_ms_max = start_ms_max(&key.1).map(|max| match is_preloaded {
            // It is forked only when the modules are loaded, which may take longer than any start.
            true => max.max(WORKER_FORK_MS_MAX),
            false => max,
        });
        let register_by = start_ms_max.map(|max| ctx.now().saturating_add(max));
        let worker = Worker {
            key: key.clone(),
            pid: 0,
            conn: None,
            usage: Use::Starting,
            began: 0,
            is_fresh: true,
            is_preloaded,
            is_ahead,
            is_blocked: false,
            register_by,
            exit_by: None,
            is_killed: false,
            is_leaving: false,
            is_told: false,
            lingers: false,
            cause: None,
            exited: None,
            life: Life { begun: Some(ctx.now()), ..Life::default() },
        };
        self.workers.insert(worker_id, worker);
        if let Some(by) = register_by {
            ctx.set_timer(by, Timer::WorkerStart(worker_id));
        }
        let job_id = key.0;
        ctx.push(Action::Spawn(Spawn { worker_id, job_id, env, cwd, is_loaded: is_preloaded }));
        Ok(())
    }

    /// A process was made for the worker.
    pub(crate) fn on_worker_started(&mut self, worker_id: WorkerId, pid: u32, ctx: &mut Context) {
        let Some(worker) = self.workers.get_mut(&worker_id) else { return };
        worker.pid = pid;
        // It waited until the modules were loaded: its time begins with the fork.
        if worker.is_preloaded
            && worker.usage == Use::Starting
            && let Some(max) = start_ms_max(&worker.key.1)
        {
            let by = ctx.now().saturating_add(max);
            worker.register_by = Some(by);
            ctx.set_timer(by, Timer::WorkerStart(worker_id));
        }
    }

    /// The worker should have registered.
    pub(crate) fn on_start_timer(&mut self, worker_id: WorkerId, ctx: &mut Context) {
        let Some(worker) = self.workers.get(&worker_id) else { return };
        if worker.usage == Use::Starting && worker.register_by.is_some_and(|by| by <= ctx.now()) {
            let message = if worker.is_preloaded && worker.pid == 0 {
                let seconds = WORKER_FORK_MS_MAX / 1000;
                format!("The modules that it starts with were not loaded within {seconds} s.")
            } else {
                let seconds = start_ms_max(&worker.key.1).unwrap_or_default() / 1000;
                format!("The worker process did not register within {seconds} s and was killed.")
            };
            self.kill(worker_id, Some(DeathCause::new(DeathKind::StartFailed, message)), ctx);
        }
    }

    /// The worker has registered. Returns whether it is known.
    pub(crate) fn on_registered(
        &mut self,
        worker_id: WorkerId,
        conn: Conn,
        pid: u32,
        now: u64,
    ) -> bool {
        let Some(worker) = self.workers.get_mut(&worker_id) else { return false };
        worker.conn = Some(conn);
        worker.life.serving = Some(now);
        // On a loaded machine the worker can speak before the shell has said that it was forked.
        if worker.pid == 0 {
            worker.pid = pid;
        }
        self.failures.remove(&worker.key);
        true
    }

    /// A worker of this kind could not be started. Returns the failure for those that wait for one, if that
    /// happened too often in a row.
    pub(crate) fn on_start_failed(&mut self, key: &PoolKey, cause: &DeathCause) -> Option<Failure> {
        let failures = self.failures.entry(key.clone()).or_default();
        *failures += 1;
        let is_final = !mutant!("broken-environment-tried-again")
            && [SETUP_TIMED_OUT, SETUP_FAILED].contains(&cause.code);
        // An environment that cannot be made fails in the same way each time: its error says why, at once.
        let text = if is_final && key.1.is_made_first() {
            cause.to_string()
        } else if *failures < WORKER_START_FAILURES_MAX {
            return None;
        } else {
            format!("{failures} workers in a row could not be started; the last one: {cause}")
        };
        // An environment of their own, if they have one, is what sets these workers apart.
        let kind = if key.1.is_empty() || mutant!("broken-environment-blamed-on-the-node") {
            FailureKind::System
        } else {
            FailureKind::RuntimeEnv
        };
        Some(Failure::new(kind, text))
    }

    // Idle.

    /// The worker has nothing to do, if it can be given anything at all.
    pub(crate) fn on_free(&mut self, worker_id: WorkerId) -> Option<Freed> {
        let worker = self.workers.get_mut(&worker_id)?;
        if worker.conn.is_none() || worker.exited.is_some() {
            return None;
        }
        worker.is_blocked = false;
        Some(Freed {
            key: worker.key.clone(),
            registered: worker.conn.filter(|_| worker.usage == Use::Starting),
            is_fresh: worker.is_fresh,
            is_preloaded: worker.is_preloaded,
            is_ahead: std::mem::take(&mut worker.is_ahead),
        })
    }

    /// Counts the worker as idle, because no demand waits for it.
    pub(crate) fn set_idle(&mut self, worker_id: WorkerId, freed: &Freed, ctx: &mut Context) {
        self.set_usage(worker_id, Use::Idle { since: ctx.now() });
        if freed.is_ahead {
            ctx.set_timer(ctx.now() + WORKER_AHEAD_MS_MAX, Timer::Ahead(worker_id));
        }
        if self.idle.len() > ctx.setup().idle_max {
            ctx.set_timer(ctx.now() + WORKER_IDLE_MS_MAX, Timer::Idle);
        }
    }

    /// Workers may have been idle for too long.
    pub(crate) fn on_idle_timer(&mut self, ctx: &mut Context) {
        while self.idle.len() > ctx.setup().idle_max && !mutant!("idle-workers-without-end") {
            let Some(&(since, worker_id)) = self.idle.first() else { return };
            // The set is in order: all others have been idle for a shorter time.
            if since + WORKER_IDLE_MS_MAX > ctx.now() {
                return ctx.set_timer(since + WORKER_IDLE_MS_MAX, Timer::Idle);
            }
            self.set_usage(worker_id, Use::Ending);
            self.ask_to_exit(worker_id, "It was idle.", true, ctx);
        }
    }

    /// Workers that nobody uses end, unless others need what they own.
    pub(crate) fn ask_idle_to_end(&mut self, reason: &str, ctx: &mut Context) {
        let idle: Vec<WorkerId> = self.idle.iter().map(|(_, worker_id)| *worker_id).collect();
        for worker_id in idle {
            self.set_usage(worker_id, Use::Ending);
            self.ask_to_exit(worker_id, reason, true, ctx);
        }
    }

    /// A worker that was started ahead may not have been needed.
    pub(crate) fn on_ahead_timer(&mut self, worker_id: WorkerId, ctx: &mut Context) {
        let Some(worker) = self.workers.get(&worker_id) else { return };
        if worker.is_fresh && matches!(worker.usage, Use::Idle { .. }) {
            self.end(worker_id, "It was started ahead and not needed.", ctx);
        }
    }
}

#[cfg(test)]
mod tests;
