//! The latest calls that ran here, for who asks after their callers have ended.
//!
//! The caller of a call knows all of it, and tells it ([`helio_owner_state`]); only where it is gone does
//! the process that runs the call speak. **LIMIT-1** [`RECENT_MAX`]; the oldest are forgotten.

use std::collections::VecDeque;

use helio_owner_state::without_large_function;

use super::running::Begun;

/// Number of ended calls that are remembered.
const RECENT_MAX: usize = 1_000;

/// A call that ran here.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) begun: Begun,
    pub(super) ended: u64,
    pub(super) failed: bool,
}

/// The latest calls that ran in this process, oldest first.
#[derive(Debug, Default)]
pub(super) struct Recent(VecDeque<Ran>);

impl Recent {
    pub(super) fn add(&mut self, mut begun: Begun, failed: bool, now: u64) {
        begun.template = without_large_function(&begun.template);
        if self.0.len() >= RECENT_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Ran { begun, ended: now, failed });
        assert!(self.0.len() <= RECENT_MAX, "calls that have ended would be kept for ever");
    }

    /// The calls, the latest first.
    pub(super) fn latest(&self) -> impl Iterator<Item = &Ran> {
        self.0.iter().rev()
    }
}
