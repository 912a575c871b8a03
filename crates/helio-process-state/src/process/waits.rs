//! The rules for waits: when a waiting thread counts as blocked, and how soon the results of a call
//! are written.

use super::Process;
use crate::links::Urgency;
use crate::value::Memory;

/// A worker's wait longer than this is told to the daemon, which lends its CPU to others meanwhile; in microseconds.
const BLOCKED_AFTER_US: u64 = 800;

impl<M: Memory> Process<M> {
    /// Returns the microseconds after which a thread that has waited `waited_us` counts as blocked, 0: now; `None`:
    /// never, because a driver has no CPU that could be lent.
    #[must_use]
    pub fn blocked_in(&self, waited_us: u64) -> Option<u64> {
        (!self.is_driver).then(|| BLOCKED_AFTER_US.saturating_sub(waited_us))
    }

    /// Returns the urgency of the answer to a call that has ended; `on_loop`: an event loop ran it.
    ///
    /// A task is answered before the next one begins: should that one end the process, this one is not taken for
    /// lost, nor run again. Replies of an actor's short calls go out together; a call whose actor died right after
    /// it may fail although it ran, and says so. While other calls run on an event loop, it writes the answers of
    /// its turn together.
    #[must_use]
    pub fn urgency_of_answer(&self, on_loop: bool) -> Urgency {
        let gathers = match on_loop {
            true => self.has_work() || self.runs_calls(),
            false => self.serves_actor() && self.has_work(),
        };
        if gathers { Urgency::Soon } else { Urgency::Now }
    }

    /// Returns the urgency of a generator's item whose caller allows `bound` unread ones (0: any number). A
    /// generator without a bound yields bursts, which go out together.
    #[must_use]
    pub fn urgency_of_item(&self, bound: u32) -> Urgency {
        if bound == 0 { Urgency::Soon } else { Urgency::Now }
    }
}
