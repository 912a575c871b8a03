//! The schedule of looks at the memory: often while workers run something, else with the heartbeat.

use helio_env::memory::{self, Meter};
use helio_node_state::MemoryUse;

use crate::options::Options;

/// Number of processes that an error names.
const TOP: usize = 10;

#[derive(Debug)]
pub(crate) struct Monitor {
    meter: Meter,
    threshold: f64,
    /// 0: switched off.
    refresh_ms: u64,
    /// The time of the next look.
    pub(crate) at: u64,
}

impl Monitor {
    pub(crate) fn new(options: &Options) -> Self {
        let meter = match &options.memory_group {
            Some(folder) => Meter::of_group(folder.clone()),
            None => Meter::of_this_process(),
        };
        let refresh_ms = options.memory_monitor_refresh_ms;
        let at = if refresh_ms == 0 { u64::MAX } else { 0 };
        Self { meter, threshold: options.memory_usage_threshold, refresh_ms, at }
    }

    /// Returns the memory in use, if that is too much. Without work the next look is at `idle_at`, when the daemon
    /// wakes anyway: an idle node has no wake-ups of its own for this.
    pub(crate) fn look(&mut self, has_work: bool, now: u64, idle_at: u64) -> Option<MemoryUse> {
        if self.refresh_ms == 0 || self.at > now {
            return None;
        }
        self.at = if has_work { now + self.refresh_ms } else { idle_at.max(now + 1) };
        let reading = has_work.then(|| self.meter.read()).flatten()?;
        let limit = reading.total as f64 * self.threshold;
        (reading.used as f64 > limit).then(|| MemoryUse {
            used: reading.used,
            total: reading.total,
            threshold: self.threshold,
            top: memory::top(TOP),
        })
    }
}
