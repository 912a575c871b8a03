//! Recounting what a machine keeps twice, now and then while it works: under a setting, for clusters in which
//! something is looked for.

use helio_config::table::RECOUNT_EVERY;

use crate::settings;

/// The schedule of a machine's recounts.
#[derive(Debug, Default)]
pub struct Recount {
    /// Number of events between two recounts; 0: there are none.
    every: u64,
    left: u64,
}

impl Recount {
    /// A counter as [`RECOUNT_EVERY`] sets it in this process's environment; never due where its text is not a number.
    #[must_use]
    pub fn start() -> Self {
        let every = settings::read(&RECOUNT_EVERY).unwrap_or_else(|problem| {
            tracing::error!(problem, "nothing is recounted");
            0
        });
        Self::each(every)
    }

    fn each(events: u64) -> Self {
        Self { every: events, left: events }
    }

    /// The machine has taken in an event. When it is time, `check` recounts it; what does not agree is logged.
    pub fn after_event(
        &mut self,
        machine: &'static str,
        check: impl FnOnce() -> Result<(), String>,
    ) {
        if self.every == 0 {
            return;
        }
        self.left -= 1;
        if self.left > 0 {
            return;
        }
        self.left = self.every;
        if let Err(problem) = check() {
            tracing::error!(machine, problem, "a recount does not agree with what was kept");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recounts(every: u64, events: u32) -> u32 {
        let (mut recount, mut count) = (Recount::each(every), 0);
        for _ in 0..events {
            recount.after_event("test", || {
                count += 1;
                Err("it never agrees".to_owned())
            });
        }
        count
    }

    #[test]
    fn a_machine_is_recounted_after_each_so_many_events_or_never() {
        assert_eq!(recounts(0, 100), 0);
        assert_eq!(recounts(1, 100), 100);
        assert_eq!(recounts(40, 100), 2);
    }
}
