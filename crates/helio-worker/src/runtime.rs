//! Joining and leaving a session, and what a runtime is made of.

use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use helio_owner_state::{IdMap, Owner, Stored};
use helio_proto::node::{JobConfig, Registered, StopNode, overflow_start};
use helio_store::Arena;
use helio_types::id::PUT_INDEX_BASE;
use helio_types::{ObjectId, TaskId, WorkerAddress, WorkerId};
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

use crate::api::{Error, Options, Work};
use crate::conn::{Peer, Socket};
use crate::connect;
use crate::duty::Duty;
use crate::inbox::Inbox;
use crate::state::{FIRST_CONN, State, Watched};
use crate::why::Become;
/// How long a driver waits for its daemon to end.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(3);

/// The runtime of this process.
#[derive(Debug)]
pub struct Runtime {
    pub(crate) state: Mutex<State>,
    pub(crate) duty: Duty,
    /// Handles dropped since the last look, so that dropping one takes no lock that is ever held long.
    pub(crate) dropped: Arc<Mutex<Vec<ObjectId>>>,
    pub(crate) epoll: OwnedFd,
    pub(crate) wake: OwnedFd,
    pub(crate) notify: Arc<OwnedFd>,
    pub(crate) unix: UnixListener,
    pub(crate) tcp: TcpListener,
    pub(crate) address: Arc<WorkerAddress>,
    pub(crate) registered: Registered,
    pub(crate) options: Options,
    /// How often spinning paid off lately.
    pub(crate) spin: AtomicU32,
    pub(crate) closed: AtomicBool,
    pub(crate) net: Mutex<Option<JoinHandle<()>>>,
}

impl Runtime {
    /// Joins a node.
    ///
    /// # Errors
    /// [`Error::Disconnected`] when the daemon does not answer or refuses.
    pub fn connect(mut options: Options) -> Result<Arc<Self>, Error> {
        if options.worker_id.is_nil() {
            getrandom::fill(&mut options.worker_id.0)
                .map_err(|error| Error::Io(error.to_string()))?;
        }
        let (tcp, port) = connect::tcp_listen(&options.host)?;
        // Before the daemon hears of us: it hands our address out at once.
        let sockets_dir = options.node_socket.parent().unwrap_or_else(|| "/".as_ref()).to_owned();
        let unix = connect::unix_listen(&sockets_dir.join(options.worker_id.socket_name()))?;
        let (socket, registered, memory) = connect::register(&options, options.worker_id, port)?;
        let arena = match memory {
            Some(fd) => {
                let arena = Arena::map(fd, registered.arena_size)
                    .map_err(|error| Error::Io(error.to_string()))?;
                let start = overflow_start(registered.arena_size);
                Some(Arc::new(arena.with_overflow(registered.overflow_path.clone().into(), start)))
            }
            None => None,
        };
        let address = WorkerAddress {
            worker_id: options.worker_id,
            node_id: registered.node_id,
            host: registered.host.clone(),
            port: u32::from(port),
        };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let notify = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        let watch = |fd: std::os::fd::BorrowedFd<'_>, what: Watched| {
            epoll::add(&epoll, fd, epoll::EventData::new_u64(what as u64), epoll::EventFlags::IN)
        };
        watch(wake.as_fd(), Watched::Wake)?;
        watch(timer.as_fd(), Watched::Timer)?;
        watch(unix.as_fd(), Watched::UnixListener)?;
        watch(tcp.as_fd(), Watched::TcpListener)?;

        let mut job = options.job.clone();
        job.job_id = registered.job_id;
        job.namespace.clone_from(&registered.namespace);
        let state = State::new(
            &address,
            job,
            &registered,
            &options,
            arena,
            sockets_dir,
            &epoll,
            timer,
            &notify,
        )?;
        let runtime = Arc::new(Self {
            state: Mutex::new(state),
            duty: Duty::new(),
            dropped: Arc::default(),
            epoll,
            wake,
            notify,
            unix,
            tcp,
            address: Arc::new(address),
            registered,
            options,
            spin: AtomicU32::new(8),
            closed: AtomicBool::new(false),
            net: Mutex::new(None),
        });
        {
            let mut state = runtime.state.lock();
            let node = state.add_conn(Socket::Unix(socket), Peer::Node)?;
            state.node = node;
            if let Some(conn) = state.conns.get_mut(&node) {
                conn.greeted = true;
            }
        }
        let net = Arc::downgrade(&runtime);
        let thread = std::thread::Builder::new().name("heliostat-net".into()).stack_size(256 << 10);
        // The kernel hands signals to the main thread as long as that does not block them; this one
        // needs no mask.
        let thread = thread.spawn(move || {
            while let Some(runtime) = net.upgrade() {
                if !runtime.net_turn() {
                    return;
                }
                runtime.give_back_memory();
            }
        })?;
        *runtime.net.lock() = Some(thread);
        Ok(runtime)
    }

    /// Takes milliseconds after a burst of calls: on the net thread, and not under the lock.
    fn give_back_memory(&self) {
        let slimmed = std::mem::take(&mut self.state.lock().slimmed);
        if slimmed {
            helio_store::heap::give_back();
        }
    }

    /// What the daemon said of the session when this process joined.
    #[must_use]
    pub fn session(&self) -> &Registered {
        &self.registered
    }

    /// This process.
    #[must_use]
    pub fn address(&self) -> &WorkerAddress {
        &self.address
    }

    /// The job: a driver's own, or the one a worker serves.
    #[must_use]
    pub fn job(&self) -> JobConfig {
        self.state.lock().job.clone()
    }

    /// Leaves the session; a driver that started the cluster ends it and waits until it is gone.
    pub fn shutdown(&self) {
        if self.closed.load(Ordering::Acquire) {
            return;
        }
        if self.options.is_driver && self.options.owns_cluster {
            let mut state = self.settled();
            state.tell_node(StopNode { reason: "its driver has ended".into() }.into());
            state.flush();
            drop(state);
            let mut never = || false;
            let deadline = Some(Instant::now() + SHUTDOWN_WAIT);
            let _ =
                self.wait_until(deadline, &mut never, |state| state.closed.is_some().then_some(()));
        }
        self.closed.store(true, Ordering::Release);
        {
            let mut state = self.state.lock();
            state.close("heliostat was shut down");
            state.flush();
            // Closing the connections tells daemon and peers.
            state.conns.clear();
            state.peers.clear();
        }
        let _ = std::fs::remove_file(self.socket_path());
        self.wake_up();
        self.duty.close();
        if let Some(net) = self.net.lock().take()
            && net.thread().id() != std::thread::current().id()
        {
            let _ = net.join();
        }
    }
}

impl State {
    #[allow(clippy::too_many_arguments, reason = "made in one place, out of what joining gave")]
    fn new(
        address: &WorkerAddress,
        job: JobConfig,
        registered: &Registered,
        options: &Options,
        arena: Option<Arc<Arena>>,
        sockets_dir: std::path::PathBuf,
        epoll: &OwnedFd,
        timer: OwnedFd,
        notify: &Arc<OwnedFd>,
    ) -> Result<Self, Error> {
        let mut owner = Owner::new(address.clone());
        if let Some(bytes) = options.lineage_bytes_max {
            owner.limit_lineage(bytes);
        }
        Ok(Self {
            owner,
            actions: Vec::new(),
            conns: IdMap::default(),
            next_conn: FIRST_CONN,
            epoll: epoll.try_clone()?,
            peers: IdMap::default(),
            nodes: IdMap::default(),
            node: 0,
            dirty: Vec::new(),
            timer_armed: false,
            timer,
            notify: notify.clone(),
            inbox: Inbox::default(),
            arena,
            pins: IdMap::default(),
            unpinned: Arc::default(),
            room_wanted: 0,
            fetches: std::collections::HashMap::new(),
            fetching: std::collections::HashMap::new(),
            recovering: std::collections::HashSet::new(),
            grants: std::collections::HashMap::new(),
            creating: std::collections::BTreeMap::new(),
            asked: std::collections::HashMap::new(),
            answers: std::collections::HashMap::new(),
            answered: std::collections::HashSet::new(),
            awaited: None,
            creations: IdMap::default(),
            whys: crate::why::Whys::default(),
            waits: Vec::new(),
            lacks: None,
            inspections: std::collections::HashMap::new(),
            consumed: IdMap::default(),
            liveness_asked: std::collections::HashMap::new(),
            urgent: false,
            force_exit: false,
            on_cancel: None,
            next_request: 0,
            next_id: u64::from_le_bytes(seed_of(address.worker_id)),
            watched: std::collections::HashSet::new(),
            became_ready: Vec::new(),
            logs: std::collections::VecDeque::new(),
            logs_dropped: 0,
            notices: Vec::new(),
            unseen: Vec::new(),
            templates: crate::templates::Known::default(),
            job_wire: helio_proto::encode(&job),
            job,
            blocked: 0,
            work_waiters: 0,
            serves_actor: false,
            actor: Become::default(),
            closed: None,
            news: false,
            slimmed: false,
            arrivals: 0,
            current: TaskId::NIL,
            strangers: std::collections::VecDeque::new(),
            refusal_logged: None,
            registered: registered.clone(),
            options: options.clone(),
            sockets_dir,
            clock: Instant::now(),
        })
    }

    pub(crate) fn seed(&self) -> [u8; 8] {
        seed_of(self.owner.address().worker_id)
    }

    pub(crate) fn check_open(&self) -> Result<(), Error> {
        match &self.closed {
            Some(why) => Err(Error::Disconnected(why.clone())),
            None => Ok(()),
        }
    }

    pub(crate) fn new_put_id(&mut self) -> ObjectId {
        self.new_task_id().object(PUT_INDEX_BASE)
    }

    pub(crate) fn is_ready(&mut self, id: ObjectId, fetch_local: bool) -> bool {
        match self.owner.object(&id).map(|object| &object.value) {
            None | Some(Stored::Pending) => false,
            Some(Stored::Stores { .. }) if fetch_local => self.read(id).is_some(),
            Some(_) => true,
        }
    }

    pub(crate) fn read_or_gone(&mut self, id: ObjectId) -> bool {
        self.owner.object(&id).is_none() || self.read(id).is_some()
    }

    pub(crate) fn hand_out(&mut self, work: &Work) {
        match work {
            Work::Call(call) => {
                self.current = call.task;
                let at = self.now();
                self.inbox.has_begun(call.task, at, &call.template, !self.actor.is_concurrent);
            }
            Work::Cancel(task) => {
                self.inbox.cancelled.insert(*task);
            }
            Work::Construct(construct) => self.actor = Become::of(&construct.spec),
            Work::Exit { .. } => {}
        }
    }
}

/// Where a process's counter of ids begins: ids of several processes must differ although they count
/// alike. Some bytes of a worker's id may be the same for all of its node, so all of them go in.
fn seed_of(worker: WorkerId) -> [u8; 8] {
    let mut sum = 0u64;
    for chunk in worker.0.chunks(4) {
        let mut word = [0; 4];
        word.copy_from_slice(chunk);
        sum = (sum.rotate_left(27) ^ u64::from(u32::from_le_bytes(word)))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    (sum ^ (sum >> 32)).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_whose_ids_differ_in_few_bytes_count_from_far_apart() {
        let mut seeds: Vec<[u8; 8]> = (0..28)
            .flat_map(|place| (0..=255u8).map(move |byte| (place, byte)))
            .map(|(place, byte)| {
                let mut id = [7; 28];
                id[place] = byte;
                seed_of(WorkerId(id))
            })
            .collect();
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 28 * 255 + 1);
    }
}
