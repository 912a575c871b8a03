//! Who polls.
//!
//! One thread at a time has the *duty*: it sleeps in `epoll` for the whole process and handles what
//! comes. A thread that waits for something takes the duty if it is free. The net thread takes it
//! only when nobody has polled for [`QUIET`], so that a thread that calls in a loop never meets it; a
//! waiter that finds the net thread at it wakes it up, and the net thread steps aside. Other waiters
//! sleep until the state has changed, or the duty is free.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// How long the net thread keeps away after somebody polled.
const QUIET: Duration = Duration::from_millis(1);

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Holder {
    Nobody,
    Net,
    Waiter,
    /// An event loop, which sleeps in a selector of its own and watches the process's `epoll` there.
    Loop,
}

#[derive(Debug)]
struct Roster {
    holder: Holder,
    waiters: u32,
    last: Instant,
    /// How many polls there were; tells the net thread whether a waiter is busy or asleep in one.
    polls: u64,
    onlookers: u32,
    /// The net thread sleeps until somebody wakes it: a waiter is asleep in a poll.
    net_parked: bool,
    /// An event loop found the net thread at it.
    loop_wants: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Duty {
    roster: Mutex<Roster>,
    changed: Condvar,
    /// Threads that only look on; apart from `changed`, so that they never take a waiter's wake-up.
    onlookers: Condvar,
}

/// What a waiter is to do now.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum Turn {
    /// Poll, then [`Duty::leave`].
    Poll,
    /// Look again: the state may have changed.
    Look,
}

impl Duty {
    pub(crate) fn new() -> Self {
        let roster = Roster {
            holder: Holder::Nobody,
            waiters: 0,
            last: Instant::now(),
            polls: 0,
            onlookers: 0,
            net_parked: false,
            loop_wants: false,
        };
        Self { roster: Mutex::new(roster), changed: Condvar::new(), onlookers: Condvar::new() }
    }

    /// How many polls have ended. Asked before a look at the state, it tells [`Duty::enter`] whether
    /// the look is out of date.
    pub(crate) fn polls(&self) -> u64 {
        self.roster.lock().polls
    }

    /// Whether a waiter or an event loop polls just now.
    pub(crate) fn is_polled(&self) -> bool {
        matches!(self.roster.lock().holder, Holder::Waiter | Holder::Loop)
    }

    /// A waiter's next turn, at the latest after `limit`; it last looked at the state when `seen`
    /// polls had ended. `wake_net` wakes the thread in `epoll`.
    pub(crate) fn enter(&self, limit: Duration, seen: u64, wake_net: impl FnOnce()) -> Turn {
        let mut roster = self.roster.lock();
        if roster.polls != seen {
            return Turn::Look;
        }
        if roster.holder == Holder::Nobody {
            roster.holder = Holder::Waiter;
            return Turn::Poll;
        }
        roster.waiters += 1;
        if roster.holder == Holder::Net {
            wake_net();
        }
        self.changed.wait_for(&mut roster, limit);
        roster.waiters -= 1;
        Turn::Look
    }

    /// An event loop is about to sleep: whether the duty is its own until [`Duty::leave`]. If the net
    /// thread has it, that steps aside and says so by [`Duty::leave_net`].
    pub(crate) fn enter_loop(&self, wake_net: impl FnOnce()) -> bool {
        let mut roster = self.roster.lock();
        match roster.holder {
            Holder::Nobody => {
                roster.holder = Holder::Loop;
                roster.loop_wants = false;
                true
            }
            Holder::Net => {
                roster.loop_wants = true;
                wake_net();
                false
            }
            Holder::Waiter | Holder::Loop => false,
        }
    }

    /// Sleeps until others' polls bring news, at the latest after `limit`; never polls itself.
    pub(crate) fn stand_by(&self, limit: Duration, seen: u64) {
        let mut roster = self.roster.lock();
        if roster.polls != seen {
            return;
        }
        roster.onlookers += 1;
        self.onlookers.wait_for(&mut roster, limit);
        roster.onlookers -= 1;
    }

    /// A waiter that was woken has what it waits for, or waits no longer: if it was woken to take the
    /// duty, another one is to.
    pub(crate) fn pass_on(&self) {
        let roster = self.roster.lock();
        if roster.holder == Holder::Nobody && roster.waiters > 0 {
            self.changed.notify_one();
        }
    }

    /// The waiter has polled. `news`: others may have what they wait for.
    pub(crate) fn leave(&self, news: bool) {
        let mut roster = self.roster.lock();
        roster.holder = Holder::Nobody;
        roster.last = Instant::now();
        roster.polls += 1;
        if news && roster.onlookers > 0 {
            self.onlookers.notify_all();
        }
        if roster.net_parked {
            self.changed.notify_all();
        } else if roster.waiters > 0 {
            if news {
                self.changed.notify_all();
            } else {
                self.changed.notify_one();
            }
        }
    }

    /// The state changed without a poll (a local `put`, say): waiters may have what they wait for.
    /// `true`: one of them sleeps in a poll and must be woken there.
    pub(crate) fn news(&self) -> bool {
        let roster = self.roster.lock();
        if roster.waiters > 0 {
            self.changed.notify_all();
        }
        roster.holder == Holder::Waiter
    }

    /// Blocks the net thread until the duty is its own; `false` when `closed` says so.
    pub(crate) fn enter_net(&self, closed: impl Fn() -> bool) -> bool {
        let mut roster = self.roster.lock();
        let mut seen = roster.polls;
        loop {
            if closed() {
                return false;
            }
            let quiet = roster.last.elapsed();
            if roster.holder == Holder::Nobody && roster.waiters == 0 && quiet >= QUIET {
                roster.holder = Holder::Net;
                return true;
            }
            if !matches!(roster.holder, Holder::Waiter | Holder::Loop) {
                self.changed.wait_for(&mut roster, QUIET.saturating_sub(quiet).max(QUIET / 4));
            } else if roster.polls == seen {
                // The waiter sleeps in its poll: it will wake us when it leaves, so that an idle
                // process has no thread that ticks.
                roster.net_parked = true;
                self.changed.wait(&mut roster);
                roster.net_parked = false;
            } else {
                // It polls in quick succession: waking us each time would cost more than a look.
                seen = roster.polls;
                self.changed.wait_for(&mut roster, 20 * QUIET);
            }
        }
    }

    /// Wakes everybody for the end.
    pub(crate) fn close(&self) {
        let _roster = self.roster.lock();
        self.changed.notify_all();
        self.onlookers.notify_all();
    }

    /// The net thread steps aside. `true`: an event loop waits for that, and is to be woken.
    #[must_use]
    pub(crate) fn leave_net(&self, news: bool) -> bool {
        let mut roster = self.roster.lock();
        roster.holder = Holder::Nobody;
        if news && roster.onlookers > 0 {
            self.onlookers.notify_all();
        }
        roster.polls += 1;
        // `last` stays: if no waiter takes over, the net thread goes on at once.
        if roster.waiters > 0 {
            self.changed.notify_all();
        }
        let wanted = std::mem::take(&mut roster.loop_wants);
        if wanted {
            // A loop takes a moment to come round.
            roster.last = Instant::now();
        }
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_that_is_done_as_it_is_given_the_duty_passes_it_on() {
        const LIMIT: Duration = Duration::from_secs(60);
        let duty = Duty::new();
        assert_eq!(duty.enter(LIMIT, 0, || {}), Turn::Poll);
        let began = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    assert_eq!(duty.enter(LIMIT, 0, || {}), Turn::Look);
                    duty.pass_on();
                });
            }
            while duty.roster.lock().waiters < 2 {
                std::thread::yield_now();
            }
            duty.leave(false);
        });
        assert!(began.elapsed() < LIMIT);
    }
}
