//! What is made ready before it is asked for: a worker for the first call, and a process that has large
//! modules loaded, from which workers are forked in milliseconds instead of loading them each.
//!
//! An actor whose code imports such modules waits for that process. A lease takes a worker from it only
//! when it is ready: whether its tasks use the modules is not known. A driver that is likely to make such
//! actors says so when it joins, so that the modules are there when it does.

use std::collections::BTreeSet;

use helio_proto::node::{Expect, Expected};
use helio_types::{JobId, WorkerAddress, WorkerId};

use crate::limits::{ASKED_MAX, LOADED_IDLE_MS_MAX, MODULES_MAX, WORKERS_AHEAD_MAX};
use crate::pool::{Demand, PoolKey, Use};
use crate::timers::Timer;
use crate::{Action, Conn, Node};

/// Variables that libraries read while they are loaded begin so: where a runtime environment sets one,
/// its workers load for themselves.
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

/// Who wants to hear of workers that are started ahead.
#[derive(Debug)]
struct Asked {
    key: PoolKey,
    conn: Conn,
    request_id: u64,
    /// How many are still to come.
    workers: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Loaded {
    asked: Vec<Asked>,
    /// What was asked for, in that order.
    modules: Vec<String>,
    /// Who uses them.
    jobs: BTreeSet<JobId>,
    /// Who said that it may come to use them.
    expecting: BTreeSet<JobId>,
    pub(crate) is_ready: bool,
    used_at: u64,
}

impl Node {
    pub(crate) fn expect(&mut self, conn: Conn, expect: Expect) {
        let Some(job_id) = self.clients.get(conn).map(|client| client.job_id) else { return };
        if job_id == JobId::NIL || self.jobs.is_finished(job_id) {
            if expect.request_id != 0 {
                let answer = Expected { request_id: expect.request_id, ..Expected::default() };
                self.send(conn, answer);
            }
            return;
        }
        let key = (job_id, expect.runtime_env);
        self.start_ahead(&key, expect.workers.min(WORKERS_AHEAD_MAX) as usize);
        self.load_ahead(&key, &expect.modules);
        let (asked, request_id) = (&mut self.loaded.asked, expect.request_id);
        if request_id == 0 {
            return;
        }
        let workers = self.pool.workers.values().filter(|worker| worker.starts(&key)).count();
        if workers > 0 && asked.len() < ASKED_MAX {
            asked.push(Asked { key, conn, request_id, workers });
        } else {
            self.send(conn, Expected { request_id, ..Expected::default() });
        }
    }

    /// A worker of this kind is there, or, nil, could not be started.
    pub(crate) fn answer_expected(&mut self, key: &PoolKey, worker: &WorkerAddress) {
        let mut told = Vec::new();
        for asked in self.loaded.asked.iter_mut().filter(|asked| asked.key == *key) {
            asked.workers -= 1;
            told.push((asked.conn, if asked.workers == 0 { asked.request_id } else { 0 }));
        }
        self.loaded.asked.retain(|asked| asked.workers > 0);
        for (conn, request_id) in told {
            self.send(conn, Expected { request_id, worker: worker.clone() });
        }
    }

    /// Whether a worker for this demand is to come from the process that has modules loaded.
    pub(crate) fn wants_loaded(&mut self, key: &PoolKey, demand: Demand) -> bool {
        if reads_at_load(&key.1) {
            return false;
        }
        let wants = match demand {
            Demand::Lease(_) => {
                let Loaded { jobs, expecting, is_ready, .. } = &self.loaded;
                *is_ready && (jobs.contains(&key.0) || expecting.contains(&key.0))
            }
            Demand::Actor(actor) => {
                let modules = self.actors.modules(actor).to_vec();
                self.load(&modules);
                !modules.is_empty()
            }
        };
        if wants {
            self.loaded.jobs.insert(key.0);
            self.loaded.used_at = self.now;
        }
        wants
    }

    /// What is expected need not come: the modules are let go of where nobody uses them for long.
    fn load_ahead(&mut self, key: &PoolKey, modules: &[String]) {
        if modules.is_empty() || reads_at_load(&key.1) {
            return;
        }
        self.load(modules);
        self.loaded.expecting.insert(key.0);
        self.loaded.used_at = self.now;
        self.timers.set(self.now + LOADED_IDLE_MS_MAX, Timer::Unload);
    }

    fn load(&mut self, modules: &[String]) {
        let loaded = &mut self.loaded;
        let before = loaded.modules.len();
        for module in modules {
            if !loaded.modules.contains(module) && loaded.modules.len() < MODULES_MAX {
                loaded.modules.push(module.clone());
            }
        }
        if loaded.modules.len() > before {
            loaded.is_ready = false;
            self.out.push(Action::Load { modules: loaded.modules.clone() });
        }
    }

    pub(crate) fn job_expects_nothing(&mut self, job_id: JobId) {
        self.loaded.expecting.remove(&job_id);
        if self.loaded.jobs.remove(&job_id) && self.loaded.jobs.is_empty() {
            self.loaded.used_at = self.now;
            self.timers.set(self.now + LOADED_IDLE_MS_MAX, Timer::Unload);
        }
    }

    pub(crate) fn unload_if_unused(&mut self) {
        let loaded = &self.loaded;
        if loaded.jobs.is_empty() && loaded.used_at + LOADED_IDLE_MS_MAX <= self.now {
            self.loaded =
                Loaded { asked: std::mem::take(&mut self.loaded.asked), ..Loaded::default() };
            self.out.push(Action::Unload);
        }
    }

    /// It was started ahead, and nothing came.
    pub(crate) fn end_if_never_used(&mut self, worker_id: WorkerId) {
        let Some(worker) = self.pool.workers.get(&worker_id) else { return };
        if worker.is_fresh && matches!(worker.usage, Use::Idle { .. }) {
            self.end_worker(worker_id, "It was started ahead and not needed.");
        }
    }
}

/// Whether a runtime environment (JSON) sets a variable that libraries read while they are loaded.
fn reads_at_load(runtime_env: &str) -> bool {
    if runtime_env.is_empty() {
        return false;
    }
    let Ok(value) = serde_json::from_str::<serde_json::Value>(runtime_env) else { return false };
    let names = value.get("env_vars").and_then(|vars| vars.as_object());
    let mut names = names.into_iter().flatten().map(|(name, _)| name);
    names.any(|name| READ_AT_LOAD.iter().any(|prefix| name.starts_with(prefix)))
}
