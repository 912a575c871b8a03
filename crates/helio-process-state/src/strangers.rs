//! Connections that have not greeted yet.
//!
//! **LIMIT-1** Anybody may open them, so they are bounded in number and in time.

use std::collections::VecDeque;

/// Microseconds that a connection may take to greet.
const GREETING_WAIT_US: u64 = 10_000_000;
/// Maximum number of connections that owe their greeting; beyond it, the oldest is refused.
const STRANGERS_MAX: usize = 256;

/// The links that have to greet, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    /// Each link, and the time by which it must have greeted.
    waiting: VecDeque<(u64, u64)>,
}

impl Strangers {
    /// A link was opened from outside. Returns the oldest one, if there are too many now.
    pub(crate) fn on_opened(&mut self, link: u64, now: u64) -> Option<u64> {
        self.waiting.push_back((link, now + GREETING_WAIT_US));
        let is_full = self.waiting.len() > STRANGERS_MAX;
        is_full.then(|| self.waiting.pop_front()).flatten().map(|(oldest, _)| oldest)
    }

    /// The link has greeted, or is over.
    pub(crate) fn remove(&mut self, link: u64) {
        self.waiting.retain(|(stranger, _)| *stranger != link);
    }

    /// Returns the time by which the next link must have greeted.
    pub(crate) fn next_tick(&self) -> Option<u64> {
        self.waiting.front().map(|(_, due)| *due)
    }

    /// Takes out the links that did not greet in time.
    pub(crate) fn take_silent(&mut self, now: u64) -> Vec<u64> {
        let silent = self.waiting.iter().take_while(|(_, due)| *due <= now).count();
        self.waiting.drain(..silent).map(|(link, _)| link).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_stranger_makes_room_for_the_newest() {
        let mut strangers = Strangers::default();
        for link in 0..STRANGERS_MAX as u64 {
            assert_eq!(strangers.on_opened(link, link), None);
        }
        assert_eq!(strangers.on_opened(1_000, 1_000), Some(0));
        strangers.remove(1);
        assert_eq!(strangers.on_opened(1_001, 1_001), None, "one has greeted");
    }

    #[test]
    fn a_stranger_that_says_nothing_is_refused_when_its_time_is_over() {
        let mut strangers = Strangers::default();
        assert_eq!(strangers.next_tick(), None);
        for link in 1..=3 {
            strangers.on_opened(link, link);
        }
        strangers.remove(2);
        assert_eq!(strangers.next_tick(), Some(1 + GREETING_WAIT_US));
        assert_eq!(strangers.take_silent(GREETING_WAIT_US), []);
        assert_eq!(strangers.take_silent(3 + GREETING_WAIT_US), [1, 3]);
        assert_eq!(strangers.next_tick(), None);
    }
}
