//! Waiting: one loop for whoever waits, and the handling of what comes in meanwhile.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use helio_process_state::Event;
use parking_lot::MutexGuard;
use rustix::event::epoll;

use crate::api::{Error, Interrupt};
use crate::conn::Socket;
use crate::looking::SPIN;
use crate::runtime::Runtime;
use crate::state::{FIRST_LINK, State, Watched};

/// Time between two looks for signals of a wait on the main thread, the only one that handles them.
pub(crate) const INTERRUPT_EVERY: Duration = Duration::from_millis(100);
/// Time between two looks of other waits, although everything that they wait for wakes them.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Replies that come faster than this, and for which nobody waits, are left to gather for so long: a
/// sender need not wake us for each, and workers have calls ahead of them for longer.
const REST: Duration = Duration::from_micros(50);

/// Events that one poll takes; the next one brings the others.
const EVENTS_MAX: usize = 64;

/// Filled from the front by a poll.
pub(crate) type Events = [epoll::Event; EVENTS_MAX];

thread_local! {
    static IS_MAIN: bool = rustix::thread::gettid() == rustix::process::getpid();
}

fn look_every() -> Duration {
    if IS_MAIN.with(|is_main| *is_main) { INTERRUPT_EVERY } else { LOOK_EVERY }
}

impl Runtime {
    /// Waits until `done` gives something. `done` runs under the lock after every change.
    pub(crate) fn wait_until<T>(
        &self,
        deadline: Option<Instant>,
        interrupt: Interrupt<'_>,
        mut done: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<T, Error> {
        let began = Instant::now();
        let (mut blocked, mut has_slept) = (false, false);
        // Kept over the turns: news that comes faster than the period must not put the look off for ever.
        let mut looked = began;
        let result = loop {
            let seen = self.poll_right.changes();
            let mut blocked_in;
            {
                let mut state = self.settled();
                if let Some(result) = done(&mut state) {
                    state.flush();
                    break Ok(result);
                }
                if let Err(over) = state.check_open() {
                    break Err(over);
                }
                let waited_us = began.elapsed().as_micros() as u64;
                blocked_in = state.process.blocked_in(waited_us).filter(|_| !blocked);
                if blocked_in == Some(0) {
                    (blocked, blocked_in) = (true, None);
                    let awaited = state.lacks.take();
                    state.apply(Event::Blocked { thread: thread_id(), awaited });
                }
                state.flush();
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                break Err(Error::Timeout);
            }
            let look_every = look_every();
            let mut limit =
                deadline.map_or(look_every, |deadline| (deadline - now).min(look_every));
            if let Some(blocked_in) = blocked_in {
                limit = limit.min(Duration::from_micros(blocked_in));
            }
            let (interrupted, result) = self.turn(limit, seen, &mut done);
            has_slept = true;
            if let Some(result) = result {
                break Ok(result);
            }
            // Signals are looked for when one arrived, and now and then.
            if interrupted || looked.elapsed() >= look_every {
                if interrupt() {
                    break Err(Error::Interrupted);
                }
                looked = Instant::now();
            }
        };
        if has_slept {
            self.poll_right.pass_on();
        }
        if blocked {
            self.unblock();
        }
        result
    }

    /// The thread that waited goes on.
    fn unblock(&self) {
        let mut state = self.state.lock();
        state.apply(Event::Unblocked { thread: thread_id() });
        state.flush();
    }

    /// See [`crate::poll_right::PollRight::turn`].
    pub(crate) fn turn<T>(
        &self,
        limit: Duration,
        seen: u64,
        done: &mut impl FnMut(&mut State) -> Option<T>,
    ) -> (bool, Option<T>) {
        let find = || {
            let mut state = self.state.lock();
            let found = done(&mut state);
            state.flush();
            found
        };
        self.poll_right.turn(limit, seen, || self.wake_up(), find, || self.poll(Some(limit)))
    }

    pub(crate) fn wake_up(&self) {
        // A full counter means that the thread has been woken already.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Sleeps in `epoll` and handles what comes. Returns whether a signal cut it short, and whether
    /// something changed. Without a limit nobody waits, and nothing is gained by waking up quickly.
    pub(crate) fn poll(&self, limit: Option<Duration>) -> (bool, bool) {
        let mut ready = no_events();
        let due = self.due();
        let looks = limit.is_some_and(|limit| limit > SPIN);
        let limit = match (limit, due) {
            (Some(limit), Some(due)) => Some(limit.min(due)),
            (limit, due) => limit.or(due),
        };
        let count = match self.sleep(&mut ready, limit, looks) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => return (true, false),
            Err(_) => return (false, false),
        };
        let ticks = count == 0 || due.is_some_and(|due| due.is_zero());
        (false, self.take_in(&ready[..count], ticks))
    }

    /// Handles what is ready, and a tick of the machine if it is due. Returns whether something changed.
    pub(crate) fn take_in(&self, ready: &[epoll::Event], ticks: bool) -> bool {
        let mut state = self.settled();
        for event in ready {
            self.handle(&mut state, event.data.u64(), event.flags);
        }
        if ticks {
            state.apply(Event::Tick);
        }
        state.flush();
        let news = std::mem::take(&mut state.news);
        let (closed, force) = (state.process.ended().is_some(), state.force_exit);
        drop(state);
        // The lock is dropped before: ending the process runs code that may ask for it.
        if (closed || force) && !self.options.is_driver {
            self.end_worker(force);
        }
        news
    }

    /// Returns the time until something is to be done whatever comes.
    pub(crate) fn due(&self) -> Option<Duration> {
        let state = self.state.lock();
        let now = state.now();
        state.process.next_tick().map(|tick| Duration::from_micros(tick.saturating_sub(now)))
    }

    /// Looks for events for a moment, while that keeps paying off; how many there are.
    pub(crate) fn look(&self, ready: &mut Events) -> rustix::io::Result<usize> {
        let zero = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        if !self.looking.pays_off() {
            return Ok(0);
        }
        let began = Instant::now();
        while began.elapsed() < SPIN {
            let count = epoll::wait(&self.epoll, &mut ready[..], Some(&zero))?;
            if count > 0 {
                self.looking.found();
                return Ok(count);
            }
            std::hint::spin_loop();
        }
        self.looking.missed();
        Ok(0)
    }

    /// Looks for events for a moment while that keeps paying off, if it is to look, then sleeps. Returns how
    /// many events there are.
    fn sleep(
        &self,
        ready: &mut Events,
        limit: Option<Duration>,
        looks: bool,
    ) -> rustix::io::Result<usize> {
        if looks {
            let count = self.look(ready)?;
            if count > 0 {
                return Ok(count);
            }
        }
        let limit = limit.map(|limit| rustix::time::Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        });
        let began = Instant::now();
        let count = epoll::wait(&self.epoll, &mut ready[..], limit.as_ref())?;
        if count > 0 {
            self.looking.woke_after(began.elapsed());
        }
        Ok(count)
    }

    pub(crate) fn handle(&self, state: &mut State, number: u64, flags: epoll::EventFlags) {
        match number {
            n if n == Watched::Wake as u64 => {
                let _ = rustix::io::read(&self.wake, &mut [0; 8]);
            }
            n if n == Watched::Timer as u64 => {
                let _ = rustix::io::read(&state.timer, &mut [0; 8]);
                state.timer_armed = false;
            }
            n if n == Watched::Listener as u64 => {
                while let Ok((socket, _)) = self.unix.accept() {
                    state.add_stranger(Socket::Unix(socket));
                }
            }
            number => {
                let link = number - FIRST_LINK;
                if flags.contains(epoll::EventFlags::OUT) {
                    state.process.links().touch(link);
                }
                let ends = epoll::EventFlags::IN
                    | epoll::EventFlags::HUP
                    | epoll::EventFlags::ERR
                    | epoll::EventFlags::RDHUP;
                if flags.intersects(ends)
                    && let Err(reason) = state.read_conn(link)
                {
                    state.conn_ended(link, &reason);
                }
            }
        }
    }

    /// The net thread's turn, in which it sleeps for `limit` at most; `false` when the process leaves the session.
    pub(crate) fn net_turn(&self, limit: Option<Duration>) -> bool {
        if !self.poll_right.enter_net(|| self.closed.load(Ordering::Acquire)) {
            return false;
        }
        let began = Instant::now();
        let (_, news) = self.poll(limit);
        let is_busy = news && began.elapsed() < REST;
        // An event loop wanted the poll right meanwhile, and was told to wait for this.
        if self.poll_right.leave_net() {
            self.state.lock().notify_loop();
        }
        if is_busy {
            std::thread::sleep(REST);
        }
        !self.closed.load(Ordering::Acquire)
    }

    /// The daemon is gone, or says so: a worker leaves nothing behind, whatever its main thread does.
    pub(crate) fn end_worker(&self, force: bool) {
        if !force && self.state.lock().process.ended().is_none() {
            return;
        }
        let _ = std::fs::remove_file(self.socket_path());
        if let Some(pid) = rustix::process::Pid::from_raw(std::process::id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }

    pub(crate) fn socket_path(&self) -> std::path::PathBuf {
        let folder = self.options.node_socket.parent().unwrap_or_else(|| "/".as_ref());
        folder.join(self.address.worker_id.socket_name())
    }

    /// The state, with dropped handles taken into account.
    pub(crate) fn settled(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        state.settle(&self.dropped);
        state
    }

    /// After a change by the front.
    pub(crate) fn changed(&self, mut state: MutexGuard<'_, State>) {
        state.flush_some();
        let news = std::mem::take(&mut state.news);
        drop(state);
        if news && self.poll_right.news() {
            self.wake_up();
        }
    }
}

fn thread_id() -> u64 {
    rustix::thread::gettid().as_raw_nonzero().get() as u64
}

/// Room for what one poll brings.
pub(crate) fn no_events() -> Events {
    let none =
        epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
    [none; EVENTS_MAX]
}
