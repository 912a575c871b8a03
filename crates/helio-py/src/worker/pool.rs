//! The pools of a threaded actor: one queue and up to so many threads per concurrency group.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use helio_worker::Call;
use parking_lot::{Condvar, Mutex};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use super::title;
use crate::current;
use crate::gil::{GilSite, detached};

/// A thread that was idle for so long is called what the actor is.
const REST_AFTER: Duration = Duration::from_millis(100);

/// A concurrency group.
pub(super) struct Pool {
    max: usize,
    state: Mutex<State>,
    /// A call came, or the pool is closed.
    came: Condvar,
    /// Told when nothing is queued or runs.
    drained: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Call>,
    threads: usize,
    idle: usize,
    /// An idle thread was woken and has not looked yet. It wakes the next one if there is more: calls
    /// that end before that thread runs need no further ones.
    waking: bool,
    running: usize,
    closed: bool,
}

/// The pools, by the group's name; the default group's is empty.
static POOLS: Mutex<Option<HashMap<String, Arc<Pool>>>> = Mutex::new(None);

/// Opens the pools that the actor was declared with.
pub(super) fn open() -> PyResult<()> {
    let actor = current::actor().ok_or_else(|| PyRuntimeError::new_err("pools are for actors"))?;
    let pool = |max: u32| {
        Arc::new(Pool {
            max: max.max(1) as usize,
            state: Mutex::default(),
            came: Condvar::new(),
            drained: Condvar::new(),
        })
    };
    let mut pools = HashMap::from([(String::new(), pool(actor.spec.max_concurrency))]);
    for group in &actor.spec.concurrency_groups {
        pools.insert(group.name.clone(), pool(group.max_concurrency));
    }
    *POOLS.lock() = Some(pools);
    Ok(())
}

/// The pool of a concurrency group, or the default one; `None` outside of threaded actors.
pub(super) fn find(name: &str) -> Option<Arc<Pool>> {
    let pools = POOLS.lock();
    let pools = pools.as_ref()?;
    pools.get(name).or_else(|| pools.get("")).cloned()
}

impl Pool {
    /// Queues a call, unless nothing begins any more; whether one more thread is to be started for it.
    pub(super) fn push(&self, call: Call) -> bool {
        let mut state = self.state.lock();
        if state.closed {
            return false;
        }
        state.queue.push_back(call);
        // A thread that was woken is idle, and its call queued, until it runs: each stands for the
        // other.
        let start = state.idle < state.queue.len() && state.threads < self.max;
        state.threads += usize::from(start);
        self.wake_one(&mut state);
        start
    }

    /// The next call, if one is queued.
    pub(super) fn try_next(&self) -> Option<Call> {
        let mut state = self.state.lock();
        let call = state.queue.pop_front()?;
        state.running += 1;
        Some(call)
    }

    /// Waits for the next call; `None`: the pool is closed.
    pub(super) fn next(&self) -> Option<Call> {
        let mut state = self.state.lock();
        let mut is_resting = false;
        loop {
            if let Some(call) = state.queue.pop_front() {
                state.running += 1;
                self.wake_one(&mut state);
                return Some(call);
            }
            if state.closed {
                return None;
            }
            state.idle += 1;
            // A title that rests changes no more before the next call: no reason to wake up for it.
            let was_woken = if is_resting {
                self.came.wait(&mut state);
                true
            } else {
                !self.came.wait_for(&mut state, REST_AFTER).timed_out()
            };
            state.idle -= 1;
            if was_woken {
                state.waking = false;
            } else {
                title::rest();
                is_resting = true;
            }
        }
    }

    fn wake_one(&self, state: &mut State) {
        if state.idle > 0 && !state.waking && !state.queue.is_empty() {
            state.waking = true;
            self.came.notify_one();
        }
    }

    /// A call is over.
    pub(super) fn done(&self) {
        let mut state = self.state.lock();
        state.running -= 1;
        if state.running == 0 && state.queue.is_empty() {
            self.drained.notify_all();
        }
    }

    /// Begins nothing any more.
    fn close(&self) {
        let mut state = self.state.lock();
        state.queue.clear();
        state.closed = true;
        self.came.notify_all();
    }

    /// Waits until nothing is queued or runs.
    fn finish(&self) {
        let mut state = self.state.lock();
        while state.running > 0 || !state.queue.is_empty() {
            self.drained.wait(&mut state);
        }
        state.closed = true;
        self.came.notify_all();
    }
}

fn all() -> Vec<Arc<Pool>> {
    POOLS.lock().iter().flat_map(|pools| pools.values().cloned()).collect()
}

/// Closes all pools: calls that are queued, or that still come, never run.
pub(super) fn close() {
    all().iter().for_each(|pool| pool.close());
}

/// Waits for what the pools have been given.
pub(super) fn finish(py: Python<'_>) -> PyResult<()> {
    let pools = all();
    detached(py, GilSite::Pool, |_| pools.iter().for_each(|pool| pool.finish()))
}
