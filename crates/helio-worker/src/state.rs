//! The process's state: its machine and what the shell keeps around it. Everything here is behind one lock, which is held for microseconds and never while waiting or taking the GIL.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use helio_env::recount::Recount;
use helio_process_state::{Action, Event, Process, Urgency};
use helio_proto::node::ClientToNode;
use helio_store::Arena;
use helio_types::{IdMap, ObjectId, TaskId};
use parking_lot::Mutex;
use rustix::event::epoll;

use crate::api::{Error, Options};
use crate::conn::Conn;
use crate::memory::{MappedStore, Released};
use crate::terminal::Terminal;

/// Links are numbered from here in `epoll`; below are the descriptors of [`Watched`].
pub(crate) const FIRST_LINK: u64 = 16;

/// **LIMIT-1** Number of dropped handles for which room is kept between events.
const DROPPED_KEPT: usize = 1 << 12;

/// The file descriptors that `epoll` watches besides connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watched {
    Wake = 0,
    Timer = 1,
    Listener = 2,
}

/// The function that [`crate::Runtime::on_cancel`] sets.
pub(crate) struct CancelHook(pub(crate) Box<dyn Fn(TaskId) + Send + Sync>);

impl std::fmt::Debug for CancelHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CancelHook")
    }
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) process: Process<MappedStore>,
    pub(crate) recount: Recount,
    /// Actions of the machine that are to be carried out.
    pub(crate) to_do: VecDeque<Action>,
    pub(crate) is_executing: bool,
    /// Sockets, by link.
    pub(crate) conns: IdMap<u64, Conn>,
    pub(crate) epoll: OwnedFd,
    /// The timer that has output written is running.
    pub(crate) timer_armed: bool,
    pub(crate) timer: OwnedFd,
    /// Written when a watched object is ready or work came, for event loops.
    pub(crate) notify: Arc<OwnedFd>,
    /// `notify` is readable.
    pub(crate) is_notified: bool,
    /// The event loop looks at everything as soon as it has taken in what came, so that it needs no mark.
    pub(crate) loop_looks: bool,
    pub(crate) arena: Option<Arc<Arena>>,
    pub(crate) released: Released,
    /// Dropped handles that are being taken into account; empty between events, kept to save allocations.
    pub(crate) settling: Vec<ObjectId>,
    /// The first object that the wait which looked last lacks.
    pub(crate) lacks: Option<ObjectId>,
    /// The process must end even if the user's code does not let go of the main thread.
    pub(crate) force_exit: bool,
    /// Told of cancellations of running calls, on the thread that reads them.
    pub(crate) on_cancel: Option<CancelHook>,
    /// The lines and notices for the terminal, which the runtime has as well: their reader must not wait for this lock.
    pub(crate) terminal: Arc<Terminal>,
    /// Threads in `next_work`; with none, work is announced through `notify`.
    pub(crate) work_waiters: u32,
    /// A change happened that a waiting thread may wait for.
    pub(crate) news: bool,
    /// Much memory became free, which the net thread gives back to the system when it has let go of this.
    pub(crate) returns_memory: bool,
    /// The questioners that ask again and again for the calls that there are.
    pub(crate) followers: crate::inspect::Followers,
    /// The time at which a refused connection was logged last.
    pub(crate) refusal_logged: Option<u64>,
    pub(crate) options: Options,
    pub(crate) sockets_dir: PathBuf,
    pub(crate) clock: Instant,
}

impl State {
    /// Microseconds since the process joined.
    pub(crate) fn now(&self) -> u64 {
        self.clock.elapsed().as_micros() as u64
    }

    /// Writes out everything.
    pub(crate) fn flush(&mut self) {
        for link in self.process.links().take_dirty() {
            self.flush_one(link);
        }
    }

    pub(crate) fn flush_one(&mut self, link: u64) {
        let Some(conn) = self.conns.get_mut(&link) else { return };
        let was_stuffed = conn.stuffed;
        conn.flush(self.process.links().output(link));
        if conn.stuffed != was_stuffed {
            let mut flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
            flags.set(epoll::EventFlags::OUT, conn.stuffed);
            let data = epoll::EventData::new_u64(FIRST_LINK + link);
            // The descriptor is registered as long as the connection lives.
            let _ = epoll::modify(&self.epoll, conn.socket.as_fd(), data, flags);
        }
    }

    /// Output may wait a little; a timer makes sure that it does not wait for long.
    pub(crate) fn flush_soon(&mut self) {
        self.process.links().take_urgency();
        if self.timer_armed || !self.process.links().is_dirty() {
            return;
        }
        self.timer_armed = true;
        set_timer(&self.timer, 300_000);
    }

    /// After a change by the front: what cannot wait goes out now, the rest soon.
    pub(crate) fn flush_some(&mut self) {
        let urgency = self.process.links().take_urgency();
        self.flush_by(urgency);
    }

    pub(crate) fn flush_by(&mut self, urgency: Urgency) {
        match urgency {
            Urgency::Now => self.flush(),
            Urgency::Soon => self.flush_soon(),
        }
    }

    /// Takes into account handles and views that were dropped since the last time.
    pub(crate) fn settle(&mut self, dropped: &Mutex<Vec<ObjectId>>) {
        {
            let mut dropped = dropped.lock();
            if !dropped.is_empty() {
                // Swapped, not applied under the lock: a handle that is dropped meanwhile, as by the collector, must
                // not wait.
                std::mem::swap(&mut *dropped, &mut self.settling);
            }
        }
        if !self.settling.is_empty() {
            let mut ids = std::mem::take(&mut self.settling);
            self.apply_timeless(Event::Dropped(&ids));
            if ids.capacity() <= DROPPED_KEPT {
                ids.clear();
                self.settling = ids;
            }
        }
        self.return_pins();
    }

    /// Tells the daemon of views that were dropped.
    pub(crate) fn return_pins(&mut self) {
        let released = {
            let mut released = self.released.lock();
            if released.is_empty() { Vec::new() } else { std::mem::take(&mut *released) }
        };
        if !released.is_empty() {
            self.apply_timeless(Event::Released(released));
        }
    }

    /// Wakes an event loop that watches [`crate::Runtime::notify_fd`].
    pub(crate) fn notify_loop(&mut self) {
        if !self.is_notified && !self.loop_looks {
            let written = rustix::io::write(&*self.notify, &1u64.to_ne_bytes());
            self.is_notified = written.is_ok();
        }
    }

    /// Clears the wake-up of [`State::notify_loop`]; whether there was one.
    pub(crate) fn clear_notification(&mut self) -> bool {
        let was_notified = std::mem::take(&mut self.is_notified);
        if was_notified {
            let _ = rustix::io::read(&*self.notify, &mut [0; 8]);
        }
        was_notified
    }

    /// A message for the daemon.
    pub(crate) fn tell_node(&mut self, message: impl Into<ClientToNode>) {
        self.apply(Event::TellNode(Box::new(message.into())));
    }

    /// Asks the owners of borrowed objects whose values are not known yet.
    pub(crate) fn watch_borrowed(&mut self, ids: &[ObjectId]) {
        self.process.watch_borrowed(ids);
        self.execute_actions();
    }

    pub(crate) fn check_open(&self) -> Result<(), Error> {
        match self.process.ended() {
            Some(why) => Err(Error::Disconnected(why.to_owned())),
            None => Ok(()),
        }
    }

    /// The session is over for this process.
    pub(crate) fn close(&mut self, why: &str) {
        self.process.end(why);
        self.execute_actions();
    }
}

/// Starts a timer, in nanoseconds from now.
pub(crate) fn set_timer(timer: &OwnedFd, nanoseconds: i64) {
    use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
    let once = Itimerspec {
        it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
        it_value: Timespec { tv_sec: 0, tv_nsec: nanoseconds },
    };
    // Only a bad descriptor or value can make this fail, and both are ours.
    let _ = timerfd_settime(timer, TimerfdTimerFlags::empty(), &once);
}
