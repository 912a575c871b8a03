//! The preloader: a process that has large modules loaded, from which workers are forked in milliseconds
//! instead of loading the modules each; and the clients that wait for workers that are started ahead.
//!
//! An actor whose code imports such modules waits for that process. A lease takes a worker from it only
//! when it is ready: whether its tasks use the modules is not known. A driver that is likely to make such
//! actors says so when it joins, so that the modules are loaded by then.

use std::collections::BTreeSet;

use helio_proto::environment::RuntimeEnv;
use helio_proto::node::Expected;
use helio_types::{JobId, WorkerAddress};

use crate::context::Context;
use crate::event::{Action, Conn};
use crate::keys::PoolKey;
use crate::limits::{ASKED_MAX, LOADED_IDLE_MS_MAX, MODULES_MAX};
use crate::timers::Timer;

/// Prefixes of the variables that libraries read while they are loaded. Where a runtime environment sets
/// one, its workers load the modules for themselves.
const READ_AT_LOAD: [&str; 15] = [
    "ATEN_",
    "BLIS_",
    "CUDA_MODULE",
    "GOMP_",
    "GLIBC_",
    "KMP_",
    "LD_",
    "MALLOC_",
    "MKL_",
    "NUMEXPR_",
    "OMP_",
    "OPENBLAS_",
    "PYTHON",
    "PYTORCH_",
    "TORCH",
];

/// A client that waits for workers that are started ahead.
#[derive(Debug)]
struct Prestart {
    key: PoolKey,
    conn: Conn,
    request_id: u64,
    /// Number of workers that are still to come.
    missing: usize,
}

/// The state of the preloader, and the clients that wait for workers from it.
#[derive(Debug, Default)]
pub(crate) struct Preload {
    prestarts: Vec<Prestart>,
    /// The modules that were asked for, in that order.
    modules: Vec<String>,
    /// The jobs that use them.
    jobs: BTreeSet<JobId>,
    /// The jobs that may come to use them, by what their drivers said.
    expecting: BTreeSet<JobId>,
    /// The process has the modules loaded.
    is_ready: bool,
    used_at: u64,
}

impl Preload {
    /// The process that has the modules loaded is ready, or gone.
    pub(crate) fn on_loaded(&mut self, is_ready: bool) {
        self.is_ready = is_ready;
    }

    /// A client wants to hear of `missing` workers that are starting. **LIMIT-1** [`ASKED_MAX`] clients
    /// wait; more are answered at once.
    pub(crate) fn await_workers(
        &mut self,
        key: PoolKey,
        conn: Conn,
        request_id: u64,
        missing: usize,
        ctx: &mut Context,
    ) {
        if request_id == 0 {
            return;
        }
        // Nobody is refused: who finds no place does without the head start.
        if missing > 0 && self.prestarts.len() < ASKED_MAX {
            self.prestarts.push(Prestart { key, conn, request_id, missing });
        } else {
            ctx.send(conn, Expected { request_id, ..Expected::default() });
        }
    }

    /// A worker of this kind is there, or, nil, could not be started.
    pub(crate) fn on_worker(&mut self, key: &PoolKey, worker: &WorkerAddress, ctx: &mut Context) {
        for one in self.prestarts.iter_mut().filter(|one| one.key == *key) {
            assert!(one.missing > 0, "who lacks no worker was answered");
            one.missing -= 1;
            // The client connects to each of them, and goes on with the last.
            let request_id = if one.missing == 0 { one.request_id } else { 0 };
            ctx.send(one.conn, Expected { request_id, worker: worker.clone() });
        }
        self.prestarts.retain(|one| one.missing > 0);
    }

    /// Whether the worker of a lease is to be forked from the process that has the modules loaded.
    pub(crate) fn serves_lease(&mut self, key: &PoolKey, ctx: &Context) -> bool {
        // For a job that does not use the modules, such a fork would only carry their memory.
        let is_known = self.jobs.contains(&key.0) || self.expecting.contains(&key.0);
        let serves = self.is_ready && is_known && !reads_at_load(&key.1);
        if serves {
            self.on_use(key.0, ctx);
        }
        serves
    }

    /// Whether the worker of an actor, whose code imports these modules, is to be forked from the process
    /// that has them loaded.
    pub(crate) fn serves_actor(
        &mut self,
        key: &PoolKey,
        modules: &[String],
        ctx: &mut Context,
    ) -> bool {
        if modules.is_empty() || reads_at_load(&key.1) {
            return false;
        }
        self.load(modules, ctx);
        self.on_use(key.0, ctx);
        true
    }

    fn on_use(&mut self, job_id: JobId, ctx: &Context) {
        self.jobs.insert(job_id);
        assert!(
            self.used_at <= ctx.now(),
            "modules would not be unloaded for long after their use"
        );
        self.used_at = ctx.now();
    }

    /// Loads modules that a job may come to use. The modules are unloaded when no job uses them for long.
    pub(crate) fn expect(&mut self, key: &PoolKey, modules: &[String], ctx: &mut Context) {
        if modules.is_empty() || reads_at_load(&key.1) {
            return;
        }
        self.load(modules, ctx);
        self.expecting.insert(key.0);
        self.used_at = ctx.now();
        ctx.set_timer(ctx.now() + LOADED_IDLE_MS_MAX, Timer::Unload);
    }

    fn load(&mut self, modules: &[String], ctx: &mut Context) {
        let before = self.modules.len();
        for module in modules {
            if !self.modules.contains(module) && self.modules.len() < MODULES_MAX {
                self.modules.push(module.clone());
            }
        }
        if self.modules.len() > before {
            // Leases take no worker from it until all of them are loaded.
            self.is_ready = false;
            ctx.push(Action::Load { modules: self.modules.clone() });
        }
    }

    pub(crate) fn on_job_finished(&mut self, job_id: JobId, ctx: &mut Context) {
        self.expecting.remove(&job_id);
        if self.jobs.remove(&job_id) && self.jobs.is_empty() {
            self.used_at = ctx.now();
            ctx.set_timer(ctx.now() + LOADED_IDLE_MS_MAX, Timer::Unload);
        }
    }

    /// Unloads the modules if no job uses them, and none has for long.
    pub(crate) fn on_timer(&mut self, ctx: &mut Context) {
        if self.jobs.is_empty() && self.used_at + LOADED_IDLE_MS_MAX <= ctx.now() {
            // Clients that wait for plain workers wait on.
            let prestarts = std::mem::take(&mut self.prestarts);
            *self = Self { prestarts, ..Self::default() };
            ctx.push(Action::Unload);
        }
    }
}

/// Whether a runtime environment sets a variable that libraries read while they are loaded.
fn reads_at_load(env: &RuntimeEnv) -> bool {
    let is_read = |name: &str| READ_AT_LOAD.iter().any(|prefix| name.starts_with(prefix));
    env.variables.iter().any(|one| is_read(&one.name))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::setup::Setup;
    use helio_proto::node::NodeToClient;

    fn key(variable: &str) -> PoolKey {
        let env = match variable {
            "" => RuntimeEnv::default(),
            name => RuntimeEnv::with_variables(&[(name, "1")]),
        };
        (JobId([0, 0, 0, 1]), Arc::new(env))
    }

    fn modules(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_lease_takes_such_a_worker_only_when_it_is_ready_and_its_job_uses_modules() {
        let (mut preload, mut ctx) = (Preload::default(), Context::new(Setup::default(), 0));
        assert!(preload.serves_actor(&key(""), &modules(&["torch"]), &mut ctx));
        let loads = ctx.finish();
        assert_eq!(loads, [Action::Load { modules: modules(&["torch"]) }]);
        assert!(!preload.serves_lease(&key(""), &ctx), "the modules are still being loaded");
        preload.on_loaded(true);
        assert!(preload.serves_lease(&key(""), &ctx));
        assert!(!preload.serves_lease(&(JobId([0, 0, 0, 2]), Arc::default()), &ctx));
        assert!(
            !preload.serves_lease(&key("OMP_NUM_THREADS"), &ctx),
            "the libraries would read another value"
        );
    }

    #[test]
    fn modules_are_unloaded_when_no_job_uses_them_for_long() {
        let (mut preload, mut ctx) = (Preload::default(), Context::new(Setup::default(), 0));
        preload.expect(&key(""), &modules(&["torch"]), &mut ctx);
        preload.serves_actor(&key(""), &modules(&["torch"]), &mut ctx);
        ctx.finish();
        ctx.begin(LOADED_IDLE_MS_MAX);
        preload.on_timer(&mut ctx);
        assert!(ctx.finish().is_empty(), "the job still uses them");
        preload.on_job_finished(key("").0, &mut ctx);
        ctx.begin(2 * LOADED_IDLE_MS_MAX);
        preload.on_timer(&mut ctx);
        assert_eq!(ctx.finish(), [Action::Unload]);
    }

    #[test]
    fn a_client_hears_of_each_worker_and_of_the_last_as_the_answer() {
        let (mut preload, mut ctx) = (Preload::default(), Context::new(Setup::default(), 0));
        preload.await_workers(key(""), Conn(1), 8, 2, &mut ctx);
        for _ in 0..3 {
            preload.on_worker(&key(""), &WorkerAddress::default(), &mut ctx);
        }
        let numbers = ctx.finish().into_iter().map(|action| match action {
            Action::Send { conn: Conn(1), message: NodeToClient::Expected(told) } => {
                told.request_id
            }
            other => panic!("{other:?}"),
        });
        assert_eq!(numbers.collect::<Vec<_>>(), [0, 8]);
    }
}
