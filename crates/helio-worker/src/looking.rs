//! Whether a poll looks for events for a moment before it sleeps.
//!
//! Where the other end answers from another core within that moment, looking saves both ends a wake-up. Where it would run on this core, or
//! answers later, looking only keeps the core from it. So a look that finds nothing costs credit, one that finds something brings
//! some, and without credit each attempt that fails doubles how many short sleeps there are before the next.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Time for which a poll looks before it sleeps.
pub(crate) const SPIN: Duration = Duration::from_micros(30);

/// Credit at the start, in looks.
const CREDIT: u32 = 8;
/// The most credit there is: where looking pays off, a few busy moments of the other end change nothing.
const CREDIT_MAX: u32 = 16;
/// The credit of an attempt at its beginning.
const CREDIT_TRIED: u32 = 2;
/// The largest number of doublings: at most 2^10 short sleeps, some tens of milliseconds, lie between two
/// attempts.
const DOUBLINGS_MAX: u32 = 10;

/// Only the thread with the poll right changes it, so the parts need no order among them.
#[derive(Debug)]
pub(crate) struct Looking {
    credit: AtomicU32,
    /// Number of attempts in a row that brought nothing.
    failed: AtomicU32,
    short_sleeps: AtomicU32,
}

impl Looking {
    pub(crate) fn new() -> Self {
        Self {
            credit: AtomicU32::new(CREDIT),
            failed: AtomicU32::new(0),
            short_sleeps: AtomicU32::new(0),
        }
    }

    pub(crate) fn pays_off(&self) -> bool {
        self.credit.load(Ordering::Relaxed) > 0
    }

    /// A look found something.
    pub(crate) fn found(&self) {
        let credit = (self.credit.load(Ordering::Relaxed) + 1).min(CREDIT_MAX);
        self.credit.store(credit, Ordering::Relaxed);
        if credit >= CREDIT {
            self.failed.store(0, Ordering::Relaxed);
        }
    }

    /// A look found nothing.
    pub(crate) fn missed(&self) {
        let credit = self.credit.load(Ordering::Relaxed).saturating_sub(1);
        self.credit.store(credit, Ordering::Relaxed);
        if credit == 0 {
            let failed = (self.failed.load(Ordering::Relaxed) + 1).min(DOUBLINGS_MAX);
            self.failed.store(failed, Ordering::Relaxed);
            self.short_sleeps.store(0, Ordering::Relaxed);
        }
    }

    /// Notes that news came after a sleep: if it was so short that a longer look would have caught them, looking is
    /// tried again some time.
    pub(crate) fn woke_after(&self, slept: Duration) {
        if slept >= 3 * SPIN || self.pays_off() {
            return;
        }
        let sleeps = self.short_sleeps.load(Ordering::Relaxed) + 1;
        self.short_sleeps.store(sleeps, Ordering::Relaxed);
        if sleeps >> self.failed.load(Ordering::Relaxed) > 0 {
            self.credit.store(CREDIT_TRIED, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks that find nothing, each followed by a short sleep: how many of so many polls looked.
    fn looked(looking: &Looking, polls: u32) -> u32 {
        let mut looks = 0;
        for _ in 0..polls {
            if looking.pays_off() {
                looks += 1;
                looking.missed();
            }
            looking.woke_after(SPIN);
        }
        looks
    }

    #[test]
    fn looks_that_find_nothing_become_rare() {
        let looking = Looking::new();
        assert_eq!(looked(&looking, CREDIT), CREDIT);
        let later = looked(&looking, 100_000);
        assert!(later < 300, "{later} of 100,000 polls looked for nothing");
    }

    #[test]
    fn looking_begins_again_where_it_pays_off() {
        let looking = Looking::new();
        looked(&looking, 100_000);
        let mut sleeps = 0;
        while !looking.pays_off() {
            looking.woke_after(SPIN);
            sleeps += 1;
        }
        assert!(sleeps <= 1 << DOUBLINGS_MAX, "{sleeps} sleeps were short");
        (0..CREDIT).for_each(|_| looking.found());
        // From here on a few misses change nothing, and the next attempt is close.
        (0..CREDIT).for_each(|_| looking.missed());
        assert!(looking.pays_off());
        assert!(looked(&looking, 16) >= 4);
    }

    #[test]
    fn what_comes_late_is_not_looked_for() {
        let looking = Looking::new();
        (0..CREDIT).for_each(|_| looking.missed());
        (0..100_000).for_each(|_| looking.woke_after(3 * SPIN));
        assert!(!looking.pays_off());
    }
}
