//! An event loop that polls: an async actor's main thread sleeps in the loop's selector, and reads the
//! process's connections there, so that a call costs no wake-up of another thread.

use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use crate::polling::no_events;
use crate::runtime::Runtime;

/// The step of an event loop before it sleeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoopTurn {
    /// A message has come: look for work and for objects that are ready, which nothing else
    /// announces.
    Look,
    /// Sleep, not longer than this, until [`Runtime::poll_fd`] or something of the loop's own is
    /// readable; [`Runtime::loop_woke`] follows.
    Watch(Option<Duration>),
    /// Sleep: another thread reads the connections.
    Sleep,
}

impl Runtime {
    /// Readable when [`Runtime::loop_woke`] has something to do.
    #[must_use]
    pub fn poll_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// The loop has nothing to do and is about to sleep.
    pub fn loop_sleeps(&self) -> LoopTurn {
        // What the loop has made so far goes out before it sleeps: somebody may wait for it.
        self.settled().flush();
        if !self.poll_right.enter_loop(|| self.wake_up()) {
            return LoopTurn::Sleep;
        }
        let mut ready = no_events();
        match self.look(&mut ready) {
            Ok(0) => return LoopTurn::Watch(self.due()),
            Ok(count) => {
                let ticks = self.due().is_some_and(|due| due.is_zero());
                self.before_look(|| self.poll_right.leave(self.take_in(&ready[..count], ticks)));
            }
            // The error comes again where it is handled.
            Err(_) => self.before_look(|| self.poll_once()),
        }
        LoopTurn::Look
    }

    /// The loop has slept so long. It looks for work and for what is ready next, which nothing else announces.
    pub fn loop_woke(&self, slept: Duration, is_readable: bool) {
        if is_readable {
            self.looking.woke_after(slept);
        }
        self.before_look(|| self.poll_once());
    }

    /// Takes in what has come just before the loop looks at everything.
    fn before_look(&self, take_in: impl FnOnce()) {
        self.state.lock().loop_looks = true;
        take_in();
        self.state.lock().loop_looks = false;
    }

    /// The loop is busy: what has come is taken in all the same, and the answers of its last turn go out.
    pub fn loop_passes(&self) {
        self.settled().flush();
        if self.poll_right.enter_loop(|| {}) {
            self.poll_once();
        }
    }

    fn poll_once(&self) {
        let (_, news) = self.poll(Some(Duration::ZERO));
        self.poll_right.leave(news);
    }
}
