//! The pause before a request for a worker is made again that was lost with its node.
//!
//! This node's daemon sends a request on to a node that it takes for alive, until the control service says
//! otherwise: for seconds after that node has died. The process learns sooner, because it cannot connect,
//! and would be sent to the same place as often as it asks. So each loss in a row doubles the time to the
//! next request; a worker that is granted ends the row.

use std::collections::BTreeMap;

/// The pause after the first loss, in microseconds.
const PAUSE_US: u64 = 10_000;
/// The longest pause.
const PAUSE_US_MAX: u64 = 1_000_000;

/// The classes of calls that pause, by their place in the table of classes.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// The time at which each pausing class may request a worker again.
    until: BTreeMap<usize, u64>,
    /// Number of requests of the class that were lost since a worker was granted.
    losses: BTreeMap<usize, u32>,
}

impl Pauses {
    /// A request of the class was lost with its node.
    pub(super) fn on_loss(&mut self, class: usize, now: u64) {
        let losses = self.losses.entry(class).or_default();
        let pause = PAUSE_US.saturating_mul(1 << (*losses).min(16)).min(PAUSE_US_MAX);
        *losses += 1;
        assert!(pause >= PAUSE_US, "a request would be sent to the same dead node again at once");
        self.until.insert(class, now + pause);
    }

    /// A worker was granted, or nothing of the class waits any more.
    pub(super) fn clear(&mut self, class: usize) {
        self.until.remove(&class);
        self.losses.remove(&class);
    }

    /// Whether the class makes no requests for now.
    pub(super) fn holds(&self, class: usize) -> bool {
        self.until.contains_key(&class)
    }

    /// Returns the time at which the first pause ends.
    pub(super) fn next(&self) -> Option<u64> {
        self.until.values().copied().min()
    }

    /// The classes whose pause has ended.
    pub(super) fn take_due(&mut self, now: u64) -> Vec<usize> {
        let due = self.until.iter().filter(|(_, at)| **at <= now);
        let due: Vec<usize> = due.map(|(class, _)| *class).collect();
        for class in &due {
            self.until.remove(class);
        }
        let is_later = self.next().is_none_or(|at| at > now);
        assert!(is_later, "calls would wait for a pause that is over");
        due
    }
}
