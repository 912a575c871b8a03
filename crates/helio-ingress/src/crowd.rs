//! The number of clients, which tells when the memory of those that went is worth giving back.

use std::cell::Cell;

/// Fewer clients than this leave nothing worth the time.
const MANY: usize = 256;

/// The clients of the moment, and the most that there were since memory was given back.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    now: Cell<usize>,
    most: Cell<usize>,
    /// Whether those that are left are the rest of a crowd: their memory lay between that of the others, and is given back
    /// when most of them have gone, too.
    is_rest: Cell<bool>,
}

impl Crowd {
    pub(crate) fn come(&self) {
        let now = self.now.get() + 1;
        self.now.set(now);
        self.most.set(self.most.get().max(now));
    }

    /// Counts one client less. Returns whether it was the last of so many that their memory is to
    /// be given back.
    pub(crate) fn go(&self) -> bool {
        let now = self.now.get().saturating_sub(1);
        self.now.set(now);
        let was_rest = self.is_rest.get() && self.most.get() < MANY;
        let is_time = (was_rest || self.most.get() >= MANY) && now <= self.most.get() / 4;
        if is_time {
            self.most.set(now);
            self.is_rest.set(!was_rest);
        }
        is_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_when_a_crowd_has_gone_and_when_its_rest_has() {
        let crowd = Crowd::default();
        for _ in 0..1000 {
            crowd.come();
        }
        let times: Vec<usize> = (0..1000).rev().filter(|_| crowd.go()).collect();
        assert_eq!(times, [250, 62]);
        for _ in 0..MANY - 1 {
            crowd.come();
        }
        assert!(!(0..MANY - 1).any(|_| crowd.go()));
    }
}
