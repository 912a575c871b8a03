//! The exports of `src/sync.rs`, with the model checker's types behind them.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

pub(crate) use loom::sync::Arc as Shared;

/// Waits shorter than this end by their time, and at once; longer ones are a net under what should have woken
/// the thread, and never end by their time: a lost wake-up is a deadlock, which the checker reports.
const NET: Duration = Duration::from_millis(100);

/// A clock on which everything is long ago.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instant;

impl Instant {
    pub(crate) fn now() -> Self {
        Self
    }

    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_secs(1)
    }
}

#[derive(Debug)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

/// `None` only inside of [`Condvar`]'s waits.
pub(crate) struct Guard<'a, T> {
    of: &'a Mutex<T>,
    held: Option<loom::sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        let held = self.0.lock().expect("a panic ends the model");
        Guard { of: self, held: Some(held) }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect("it is held but in a wait")
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("it is held but in a wait")
    }
}

#[derive(Debug)]
pub(crate) struct Condvar(loom::sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Self(loom::sync::Condvar::new())
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }

    pub(crate) fn wait<T>(&self, guard: &mut Guard<'_, T>) {
        let held = guard.held.take().expect("it is held but in a wait");
        guard.held = Some(self.0.wait(held).expect("a panic ends the model"));
    }

    pub(crate) fn wait_for<T>(&self, guard: &mut Guard<'_, T>, limit: Duration) {
        if limit >= NET {
            return self.wait(guard);
        }
        guard.held = None;
        loom::thread::yield_now();
        guard.held = Some(guard.of.0.lock().expect("a panic ends the model"));
    }
}
