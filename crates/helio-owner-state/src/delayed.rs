//! Calls that are tried again later: the memory monitor ended their worker, and at once it would have
//! to do so again.
//!
//! Such an attempt does not count against the call's retries. The time between attempts doubles.

use helio_types::{DeathCause, TaskId, mutant};

use crate::Owner;
use crate::task::State;

/// The first wait, in microseconds.
pub(crate) const OOM_DELAY_US: u64 = 1_000_000;
/// The longest.
pub(crate) const OOM_DELAY_US_MAX: u64 = 60_000_000;

impl Owner {
    pub(crate) fn retry_later(&mut self, id: TaskId, cause: &DeathCause) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let waits = matches!(task.state, State::Delayed(_));
        assert!(!waits, "a call would be tried again twice");
        let delay =
            OOM_DELAY_US.saturating_mul(1 << task.past.earlier.ooms.min(16)).min(OOM_DELAY_US_MAX);
        let delay = if mutant!("out-of-memory-tried-again-at-once") { 0 } else { delay };
        task.past.earlier.ooms += 1;
        let first_line = cause.message.lines().next().unwrap_or_default();
        task.past.earlier.failure = Some(first_line.into());
        task.state = State::Delayed(self.ctx.now() + delay);
        self.delayed.insert((self.ctx.now() + delay, id));
    }

    pub(crate) fn next_delayed(&self) -> Option<u64> {
        self.delayed.first().map(|(at, _)| *at)
    }

    pub(crate) fn tick_delayed(&mut self) {
        while let Some(&(at, id)) = self.delayed.first()
            && at <= self.ctx.now()
        {
            self.delayed.pop_first();
            let is_next = self.delayed.first().is_none_or(|(next, _)| *next >= at);
            assert!(is_next, "a call would wait longer than one that came later");
            // The call may have been cancelled meanwhile.
            let task = self.tasks.get(&id).filter(|task| task.state == State::Delayed(at));
            if let Some(failure) =
                task.map(|task| task.past.earlier.failure.clone().unwrap_or_default())
            {
                self.retry(id, ("OUT_OF_MEMORY", &failure));
            }
        }
    }
}
