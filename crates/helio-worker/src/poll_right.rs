//! The choice of the thread that polls.
//!
//! One thread at a time has the *poll right*: it sleeps in `epoll` for the whole process and handles what
//! comes. A thread that waits for something takes the poll right if it is free. The net thread takes it
//! only when nobody has polled for [`QUIET`], so that a thread that calls in a loop never meets it; a
//! waiter that finds the net thread at it wakes it up, and the net thread steps aside. Other waiters
//! sleep until the state has changed, or the poll right is free.
//!
//! `tests/model` runs this file in every interleaving of a few threads (decision 0040).

use std::time::Duration;

use crate::sync::{Condvar, Instant, Mutex};

/// Time for which the net thread keeps away after another thread polled.
const QUIET: Duration = Duration::from_millis(1);

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Holder {
    Nobody,
    Net,
    Waiter,
    /// An event loop, which sleeps in a selector of its own and watches the process's `epoll` there.
    Loop,
}

/// The thread that polls, and those that wait for the poll right.
#[derive(Debug)]
struct Threads {
    holder: Holder,
    waiters: u32,
    last: Instant,
    /// Number of polls and other changes; tells the net thread whether a waiter is busy or asleep in one.
    changes: u64,
    /// The net thread sleeps until somebody wakes it: a waiter is asleep in a poll.
    net_parked: bool,
    /// An event loop found the net thread at it.
    loop_wants: bool,
}

/// The right to poll: which thread has it, and which threads wait for it.
#[derive(Debug)]
pub(crate) struct PollRight {
    threads: Mutex<Threads>,
    changed: Condvar,
}

/// The next step of a waiter.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum Turn {
    /// Poll, then [`PollRight::leave`].
    Poll,
    /// Look again: the state may have changed.
    Look,
}

impl PollRight {
    pub(crate) fn new() -> Self {
        let threads = Threads {
            holder: Holder::Nobody,
            waiters: 0,
            last: Instant::now(),
            changes: 0,
            net_parked: false,
            loop_wants: false,
        };
        Self { threads: Mutex::new(threads), changed: Condvar::new() }
    }

    /// Returns the number of polls that have ended and of changes made without one. Asked before a look
    /// at the state, it tells [`PollRight::enter`] whether the look is out of date.
    pub(crate) fn changes(&self) -> u64 {
        self.threads.lock().changes
    }

    /// Whether a waiter or an event loop polls just now.
    pub(crate) fn is_polled(&self) -> bool {
        matches!(self.threads.lock().holder, Holder::Waiter | Holder::Loop)
    }

    /// A waiter's next turn, at the latest after `limit`; it last looked at the state after `seen`
    /// changes. `wake_net` wakes the thread in `epoll`.
    pub(crate) fn enter(&self, limit: Duration, seen: u64, wake_net: impl FnOnce()) -> Turn {
        let mut threads = self.threads.lock();
        // What the waiter saw is out of date: it may have what it waits for, so it looks before it sleeps.
        if threads.changes != seen {
            return Turn::Look;
        }
        if threads.holder == Holder::Nobody {
            threads.holder = Holder::Waiter;
            return Turn::Poll;
        }
        threads.waiters += 1;
        // The net thread gives the right up: a waiter that polls itself is spared one switch between threads.
        if threads.holder == Holder::Net {
            wake_net();
        }
        self.changed.wait_for(&mut threads, limit);
        threads.waiters -= 1;
        Turn::Look
    }

    /// Takes one turn of a waiter: polls, or sleeps until another thread has. Returns whether a signal arrived,
    /// and what `find` found.
    ///
    /// The last poll before this one may have brought what is waited for after the waiter looked: so
    /// `find` looks again once the poll right is its own, and nothing can come in between. `poll` says whether a
    /// signal cut it short, and whether something changed.
    pub(crate) fn turn<T>(
        &self,
        limit: Duration,
        seen: u64,
        wake_net: impl FnOnce(),
        find: impl FnOnce() -> Option<T>,
        poll: impl FnOnce() -> (bool, bool),
    ) -> (bool, Option<T>) {
        if self.enter(limit, seen, wake_net) == Turn::Look {
            return (false, None);
        }
        let found = find();
        if found.is_some() {
            self.leave(false);
            return (false, found);
        }
        let (interrupted, news) = poll();
        self.leave(news);
        (interrupted, None)
    }

    /// An event loop is about to sleep: whether the poll right is its own until [`PollRight::leave`]. If the net
    /// thread has it, that steps aside and says so by [`PollRight::leave_net`].
    pub(crate) fn enter_loop(&self, wake_net: impl FnOnce()) -> bool {
        let mut threads = self.threads.lock();
        match threads.holder {
            Holder::Nobody => {
                threads.holder = Holder::Loop;
                threads.loop_wants = false;
                true
            }
            Holder::Net => {
                threads.loop_wants = true;
                wake_net();
                false
            }
            Holder::Waiter | Holder::Loop => false,
        }
    }

    /// A waiter that was woken has what it waits for, or waits no longer: if it was woken to take the
    /// poll right, another one is to.
    pub(crate) fn pass_on(&self) {
        let threads = self.threads.lock();
        if threads.holder == Holder::Nobody && threads.waiters > 0 {
            self.changed.notify_one();
        }
    }

    /// The waiter has polled. `news`: others may have what they wait for.
    pub(crate) fn leave(&self, news: bool) {
        let mut threads = self.threads.lock();
        threads.holder = Holder::Nobody;
        threads.last = Instant::now();
        threads.changes += 1;
        // It sleeps where the waiters sleep: a single wake-up could miss it.
        if threads.net_parked {
            self.changed.notify_all();
        } else if threads.waiters > 0 {
            // Without news one of them has to poll on; the others would wake up for nothing.
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
        let mut threads = self.threads.lock();
        // A waiter that looked before the change and has not entered yet is to look again: nobody would
        // wake it, since the poll that is cut short brings no news.
        threads.changes += 1;
        if threads.waiters > 0 {
            self.changed.notify_all();
        }
        threads.holder == Holder::Waiter
    }

    /// Blocks the net thread until the poll right is its own; `false` when `closed` says so.
    pub(crate) fn enter_net(&self, closed: impl Fn() -> bool) -> bool {
        let mut threads = self.threads.lock();
        let mut seen = threads.changes;
        loop {
            if closed() {
                return false;
            }
            let quiet = threads.last.elapsed();
            if threads.holder == Holder::Nobody && threads.waiters == 0 && quiet >= QUIET {
                threads.holder = Holder::Net;
                return true;
            }
            if !matches!(threads.holder, Holder::Waiter | Holder::Loop) {
                self.changed.wait_for(&mut threads, QUIET.saturating_sub(quiet).max(QUIET / 4));
            } else if threads.changes == seen {
                // The waiter sleeps in its poll: it will wake us when it leaves, so that an idle
                // process has no thread that ticks.
                threads.net_parked = true;
                self.changed.wait(&mut threads);
                threads.net_parked = false;
            } else {
                // The other thread polls in quick succession: waking us each time would cost more than a look.
                seen = threads.changes;
                self.changed.wait_for(&mut threads, 20 * QUIET);
            }
        }
    }

    /// Wakes everybody for the end.
    pub(crate) fn close(&self) {
        let _threads = self.threads.lock();
        self.changed.notify_all();
    }

    /// The net thread steps aside. `true`: an event loop waits for that, and is to be woken.
    #[must_use]
    pub(crate) fn leave_net(&self) -> bool {
        let mut threads = self.threads.lock();
        threads.holder = Holder::Nobody;
        threads.changes += 1;
        // `last` stays: if no waiter takes over, the net thread goes on at once.
        if threads.waiters > 0 {
            self.changed.notify_all();
        }
        let wanted = std::mem::take(&mut threads.loop_wants);
        if wanted {
            // A loop takes a moment to come round.
            threads.last = Instant::now();
        }
        wanted
    }
}
