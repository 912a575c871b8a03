//! The process's state: the owner machine and what the shell keeps around it. Everything here is
//! behind one lock, which is held for microseconds and never while waiting or taking the GIL.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use helio_owner_state::{Action, Event, IdMap, Owner};
use helio_proto::control::ControlResponse;
use helio_proto::inspect::Inspected;
use helio_proto::node::{JobConfig, LogLine, NodeToClient, Notice, Registered};
use helio_store::Arena;
use helio_types::{ActorId, NodeId, ObjectId, PlacementGroupId, TaskId, WorkerId};
use parking_lot::Mutex;
use rustix::event::epoll;

use crate::api::{Options, Pin, Work};
use crate::conn::Conn;
use crate::inbox::Inbox;
use crate::templates::Known;
use crate::why::{Become, Whys};

/// Log lines that wait for the driver's log thread at most; older ones are dropped and counted.
pub(crate) const LOG_LINES_MAX: usize = 100_000;
/// So many dropped handles are taken into account before what follows from them is done.
const SETTLED_AT_ONCE: usize = 1 << 10;
/// Connections are numbered from here in `epoll`; below are the descriptors of [`Watched`].
pub(crate) const FIRST_CONN: u64 = 16;

/// What `epoll` watches besides connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watched {
    Wake = 0,
    Timer = 1,
    UnixListener = 2,
    TcpListener = 3,
}

/// Who waits for an answer of the control service.
#[derive(Debug)]
pub(crate) enum Asked {
    /// A thread in [`crate::Runtime::control`].
    Thread,
    /// The creation of an actor.
    Creation(ActorId),
    /// News of an actor.
    News,
    /// Whoever reads this object: it becomes the bytes when the answer is not a refusal.
    Promise(ObjectId, Vec<u8>, PlacementGroupId),
    /// What a placement group waits for, for the question of that number.
    Why(u64),
    /// Nobody.
    Nobody,
}

/// An extent of the object store that the daemon granted or refused.
pub(crate) type Grant = Result<u64, helio_proto::control::Failure>;

/// See [`crate::Runtime::on_cancel`].
pub(crate) struct CancelHook(pub(crate) Box<dyn Fn(TaskId) + Send + Sync>);

impl std::fmt::Debug for CancelHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CancelHook")
    }
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) owner: Owner,
    /// Filled by `owner`, emptied by [`State::perform`]; kept to save allocations.
    pub(crate) actions: Vec<Action>,
    pub(crate) conns: IdMap<u64, Conn>,
    pub(crate) next_conn: u64,
    pub(crate) epoll: OwnedFd,
    /// Which connection leads to a process.
    pub(crate) peers: IdMap<WorkerId, u64>,
    /// Which connection leads to another node's daemon.
    pub(crate) nodes: IdMap<NodeId, u64>,
    /// The connection to our own daemon.
    pub(crate) node: u64,
    /// Connections with output that was not flushed.
    pub(crate) dirty: Vec<u64>,
    /// The timer that flushes them is running.
    pub(crate) timer_armed: bool,
    pub(crate) timer: OwnedFd,
    /// Written when a watched object is ready or work came, for event loops.
    pub(crate) notify: Arc<OwnedFd>,
    pub(crate) inbox: Inbox,
    pub(crate) arena: Option<Arc<Arena>>,
    /// Pins by object: one view of the store serves all reads.
    pub(crate) pins: IdMap<ObjectId, Arc<Pin>>,
    pub(crate) unpinned: Arc<Mutex<Vec<ObjectId>>>,
    /// How often the daemon has asked for pins.
    pub(crate) room_wanted: u64,
    pub(crate) fetches: HashMap<u64, ObjectId>,
    pub(crate) fetching: HashMap<ObjectId, u64>,
    /// Arguments of waiting calls whose copies were lost and that their owners make again; one handle of
    /// each is held.
    pub(crate) recovering: HashSet<ObjectId>,
    pub(crate) grants: HashMap<u64, Option<Grant>>,
    /// What [`State::grants`] are asked for, and how many bytes.
    pub(crate) creating: BTreeMap<u64, (ObjectId, u64)>,
    pub(crate) asked: HashMap<u64, Asked>,
    pub(crate) answers: HashMap<u64, ControlResponse>,
    pub(crate) answered: HashSet<u64>,
    /// The connection to a worker that was expected, and the request that is answered once it greets.
    pub(crate) awaited: Option<(u64, u64)>,
    /// Creations that a thread waits for, and the control service's answers to them.
    pub(crate) creations: IdMap<ActorId, Option<ControlResponse>>,
    pub(crate) whys: Whys,
    /// For what threads of this process wait while they run something for others: the thread, and the
    /// first object that it lacks.
    pub(crate) waits: Vec<(std::thread::ThreadId, ObjectId)>,
    /// The first object that the wait which looked last lacks.
    pub(crate) lacks: Option<ObjectId>,
    pub(crate) inspections: HashMap<u64, Option<Inspected>>,
    /// How many items callers of our generators have read.
    pub(crate) consumed: IdMap<TaskId, u32>,
    pub(crate) liveness_asked: HashMap<u64, WorkerId>,
    /// Something in the outputs should not wait for more.
    pub(crate) urgent: bool,
    /// The process must end even if the user's code does not let go of the main thread.
    pub(crate) force_exit: bool,
    /// Told of cancellations of running calls, on the thread that reads them.
    pub(crate) on_cancel: Option<CancelHook>,
    pub(crate) next_request: u64,
    pub(crate) next_id: u64,
    pub(crate) watched: HashSet<ObjectId>,
    pub(crate) became_ready: Vec<ObjectId>,
    pub(crate) logs: VecDeque<LogLine>,
    pub(crate) logs_dropped: u64,
    pub(crate) notices: Vec<Notice>,
    /// Exceptions that nobody has seen.
    pub(crate) unseen: Vec<Arc<Vec<u8>>>,
    pub(crate) templates: Known,
    /// The job this process works for, in wire form, as leases and actors of its children need it.
    pub(crate) job: JobConfig,
    pub(crate) job_wire: Vec<u8>,
    /// A method or task blocks in `get`: calls that come under leases go back at once.
    pub(crate) blocked: u32,
    /// This process is an actor.
    pub(crate) serves_actor: bool,
    pub(crate) actor: Become,
    /// Threads in `next_work`; with none, work is announced through `notify`.
    pub(crate) work_waiters: u32,
    /// Set when the daemon hung up, or the front shut down.
    pub(crate) closed: Option<String>,
    /// Whether something changed that a waiter may wait for.
    pub(crate) news: bool,
    /// Much memory became free, which the net thread gives back to the system when it has let go of this.
    pub(crate) slimmed: bool,
    /// How many values became known here, or came here, so far.
    pub(crate) arrivals: u64,
    /// The call that the main thread runs; the parent of what is submitted meanwhile.
    pub(crate) current: TaskId,
    /// Connections that have not greeted yet, oldest first, with the time by which they must.
    pub(crate) strangers: VecDeque<(u64, u64)>,
    /// When a refused connection was logged last.
    pub(crate) refusal_logged: Option<u64>,
    pub(crate) registered: Registered,
    pub(crate) options: Options,
    pub(crate) sockets_dir: PathBuf,
    pub(crate) clock: Instant,
}

impl State {
    /// Microseconds since the process joined.
    pub(crate) fn now(&self) -> u64 {
        self.clock.elapsed().as_micros() as u64
    }

    /// Tells the owner machine, and does what it wants done.
    pub(crate) fn apply(&mut self, event: Event) {
        let now = self.now();
        self.owner.apply(event, now, &mut self.actions);
        self.perform();
    }

    /// A number for a request whose answer must be told from others.
    pub(crate) fn request(&mut self) -> u64 {
        self.next_request += 1;
        self.next_request
    }

    /// A number that no other process uses in this session: ids are made of it.
    pub(crate) fn unique(&mut self) -> u64 {
        self.next_id = self.next_id.wrapping_add(1);
        // A bijection, so that ids never repeat, whose outputs differ in all bytes.
        let mut x = self.next_id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x ^= x >> 31;
        x.wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    /// The stand-in for the actor part of ids that this process makes for plain tasks and puts.
    pub(crate) fn id_space(&self) -> ActorId {
        let mut unique = [0; 12];
        unique.copy_from_slice(&self.owner.address().worker_id.0[..12]);
        ActorId::new(unique, self.job.job_id)
    }

    pub(crate) fn new_task_id(&mut self) -> TaskId {
        TaskId::new(self.unique(), self.id_space())
    }

    /// A connection's output is to be flushed before the next wait.
    pub(crate) fn touch(&mut self, conn: u64) {
        if !self.dirty.contains(&conn) {
            self.dirty.push(conn);
        }
    }

    /// Writes out everything.
    pub(crate) fn flush(&mut self) {
        for number in std::mem::take(&mut self.dirty) {
            self.flush_one(number);
        }
    }

    pub(crate) fn flush_one(&mut self, number: u64) {
        let Some(conn) = self.conns.get_mut(&number) else { return };
        let stuffed = conn.stuffed;
        if conn.flush().is_err() {
            self.drop_conn(number);
            return;
        }
        if conn.stuffed != stuffed {
            let mut flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
            flags.set(epoll::EventFlags::OUT, conn.stuffed);
            // The descriptor is registered as long as the connection lives.
            let _ = epoll::modify(
                &self.epoll,
                conn.socket.as_fd(),
                epoll::EventData::new_u64(number),
                flags,
            );
        }
    }

    /// Output may wait a little; a timer makes sure that it does not wait for long.
    pub(crate) fn flush_soon(&mut self) {
        if self.timer_armed || self.dirty.is_empty() {
            return;
        }
        self.timer_armed = true;
        set_timer(&self.timer, 300_000);
    }

    /// Refs that were dropped and pins that were given back since the last time.
    pub(crate) fn settle(&mut self, dropped: &Mutex<Vec<ObjectId>>) {
        let ids = {
            let mut dropped = dropped.lock();
            if dropped.is_empty() { Vec::new() } else { std::mem::take(&mut *dropped) }
        };
        for batch in ids.chunks(SETTLED_AT_ONCE) {
            let now = self.now();
            for id in batch {
                self.owner.apply(Event::DropRef { id: *id }, now, &mut self.actions);
                if self.pins.contains_key(id) && self.owner.object(id).is_none() {
                    self.pins.remove(id);
                }
            }
            self.perform();
        }
        self.return_pins();
    }

    /// What a value or a waiting call refers to stays; the rest is fetched again when needed.
    pub(crate) fn return_spare_pins(&mut self) {
        self.pins.retain(|_, pin| Arc::strong_count(pin) > 1);
        self.return_pins();
    }

    /// Tells the daemon of pins that were given back.
    pub(crate) fn return_pins(&mut self) {
        let returned = {
            let mut unpinned = self.unpinned.lock();
            if unpinned.is_empty() { Vec::new() } else { std::mem::take(&mut *unpinned) }
        };
        for object_id in returned {
            let release = helio_proto::node::ReleaseObject { object_id, pins: 1 };
            self.tell_node(release.into());
        }
    }

    pub(crate) fn watch_ready(&mut self, id: ObjectId) {
        if self.watched.remove(&id) {
            self.became_ready.push(id);
            self.notify_loop();
        }
    }

    /// Wakes an event loop that watches [`crate::Runtime::notify_fd`].
    pub(crate) fn notify_loop(&self) {
        // A full counter means that the loop has been told already.
        let _ = rustix::io::write(&*self.notify, &1u64.to_ne_bytes());
    }

    pub(crate) fn add_work(&mut self, work: Work) {
        self.inbox.push_urgent(work);
        self.work_came();
    }

    pub(crate) fn work_came(&mut self) {
        self.news = true;
        if self.work_waiters == 0 {
            self.notify_loop();
        }
    }

    /// A sentence for the user's terminal. What a worker prints comes to its driver as other lines do.
    pub(crate) fn tell_user(&mut self, notice: Notice) {
        if self.options.is_driver {
            self.notices.push(notice);
            self.news = true;
        } else {
            eprintln!("heliostat: {}", notice.text);
        }
    }

    /// The session is over for this process.
    pub(crate) fn close(&mut self, why: &str) {
        if self.closed.is_none() {
            self.closed = Some(why.to_owned());
            self.news = true;
            self.notify_loop();
        }
    }

    pub(crate) fn handle_node(&mut self, number: u64, message: NodeToClient) {
        if number == self.node {
            self.own_node_says(message);
        } else {
            self.other_node_says(number, message);
        }
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
