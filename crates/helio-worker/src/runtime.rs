//! Joining and leaving a session, and what a runtime is made of.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use helio_env::recount::Recount;
use helio_process_state::{Identity, Process};
use helio_proto::node::{JobConfig, Registered, StopNode, overflow_start};
use helio_store::Arena;
use helio_store::heap::{START_SETTLES, give_back_code};
use helio_types::{IdMap, ObjectId, WorkerAddress};
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

use crate::api::{Error, Options};
use crate::conn::{Greeting, Socket};
use crate::connect;
use crate::looking::Looking;
use crate::memory::{MappedStore, Released};
use crate::poll_right::PollRight;
use crate::state::{State, Watched};
use crate::terminal::Terminal;

/// Time for which a driver waits for its daemon to end.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(3);

/// The runtime of this process.
#[derive(Debug)]
pub struct Runtime {
    pub(crate) state: Mutex<State>,
    pub(crate) poll_right: PollRight,
    pub(crate) terminal: Arc<Terminal>,
    /// Handles dropped since the last look, so that dropping one takes no lock that is ever held long.
    pub(crate) dropped: Arc<Mutex<Vec<ObjectId>>>,
    pub(crate) epoll: OwnedFd,
    pub(crate) wake: OwnedFd,
    pub(crate) notify: Arc<OwnedFd>,
    pub(crate) unix: UnixListener,
    pub(crate) address: Arc<WorkerAddress>,
    pub(crate) registered: Registered,
    pub(crate) options: Options,
    pub(crate) looking: Looking,
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
        let sockets_dir = options.node_socket.parent().unwrap_or_else(|| "/".as_ref()).to_owned();
        helio_tls::join(sockets_dir.parent().unwrap_or(&sockets_dir));
        if options.is_driver {
            // Later it would only be told where a connection fails. A worker of a node whose certificate has expired
            // meanwhile goes on with what needs no other machine.
            helio_tls::current().map_err(|error| Error::Invalid(format!("{error}.")))?;
        }
        // Before the daemon hears of us: it hands our address out at once.
        let unix = connect::unix_listen(&sockets_dir.join(options.worker_id.socket_name()))?;
        let (socket, registered, memory) = connect::register(&options, options.worker_id)?;
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
            port: registered.port,
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
        watch(unix.as_fd(), Watched::Listener)?;

        let mut job = options.job.clone();
        job.job_id = registered.job_id;
        job.namespace.clone_from(&registered.namespace);
        let state =
            State::new(&address, job, &options, arena, sockets_dir, &epoll, timer, &notify)?;
        let runtime = Arc::new(Self {
            terminal: state.terminal.clone(),
            state: Mutex::new(state),
            poll_right: PollRight::new(),
            dropped: Arc::default(),
            epoll,
            wake,
            notify,
            unix,
            address: Arc::new(address),
            registered,
            options,
            looking: Looking::new(),
            closed: AtomicBool::new(false),
            net: Mutex::new(None),
        });
        {
            let mut state = runtime.state.lock();
            let node = state.process.links().own_node();
            state.add_conn(node, Socket::Unix(socket), Greeting::Done)?;
        }
        let net = Arc::downgrade(&runtime);
        let thread = std::thread::Builder::new().name("heliostat-net".into()).stack_size(256 << 10);
        // The kernel hands signals to the main thread as long as that does not block them; this one
        // needs no mask.
        // A worker's code is that of all workers: giving it back frees nothing.
        let mut settles = runtime.options.is_driver.then(|| Instant::now() + START_SETTLES);
        let thread = thread.spawn(move || {
            while let Some(runtime) = net.upgrade() {
                let limit = settles.map(|at| at.saturating_duration_since(Instant::now()));
                if !runtime.net_turn(limit) {
                    return;
                }
                runtime.give_back_memory();
                if settles.take_if(|at| *at <= Instant::now()).is_some() {
                    give_back_code();
                }
            }
        })?;
        *runtime.net.lock() = Some(thread);
        Ok(runtime)
    }

    /// Takes milliseconds after a burst of calls: on the net thread, and not under the lock.
    fn give_back_memory(&self) {
        let is_due = std::mem::take(&mut self.state.lock().returns_memory);
        if is_due {
            helio_store::heap::give_back();
        }
    }

    /// The facts of the session that the daemon told when this process joined.
    #[must_use]
    pub fn session(&self) -> &Registered {
        &self.registered
    }

    /// Returns the address of this process.
    #[must_use]
    pub fn address(&self) -> &WorkerAddress {
        &self.address
    }

    /// The job: a driver's own, or the one a worker serves.
    #[must_use]
    pub fn job(&self) -> JobConfig {
        self.state.lock().process.job().clone()
    }

    /// Leaves the session; a driver that started the cluster ends it and waits until it is gone.
    pub fn shutdown(&self) {
        if self.closed.load(Ordering::Acquire) {
            return;
        }
        if self.options.is_driver && self.options.owns_cluster {
            let mut state = self.settled();
            state.tell_node(StopNode { reason: "its driver has ended".into() });
            state.flush();
            drop(state);
            let mut never = || false;
            let deadline = Some(Instant::now() + SHUTDOWN_WAIT);
            let _ = self.wait_until(deadline, &mut never, |state| {
                state.check_open().is_err().then_some(())
            });
        } else if self.options.is_driver {
            self.last_words();
        }
        // From here on no call begins; those that wait see the end in the state.
        self.closed.store(true, Ordering::Release);
        {
            let mut state = self.state.lock();
            state.close("heliostat was shut down");
            state.flush();
            // Closing the connections tells daemon and peers.
            state.conns.clear();
        }
        let _ = std::fs::remove_file(self.socket_path());
        self.wake_up();
        self.poll_right.close();
        self.terminal.close();
        if let Some(net) = self.net.lock().take()
            // The net thread itself may have found the end, and cannot wait for itself.
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
        options: &Options,
        arena: Option<Arc<Arena>>,
        sockets_dir: std::path::PathBuf,
        epoll: &OwnedFd,
        timer: OwnedFd,
        notify: &Arc<OwnedFd>,
    ) -> Result<Self, Error> {
        let identity = Identity {
            address: address.clone(),
            pid: std::process::id(),
            is_driver: options.is_driver,
            job,
            lineage_bytes_max: options.lineage_bytes_max,
        };
        let released = Released::default();
        let memory = MappedStore { arena: arena.clone(), released: released.clone() };
        Ok(Self {
            process: Process::new(identity, memory),
            recount: Recount::start(),
            to_do: VecDeque::new(),
            is_executing: false,
            conns: IdMap::default(),
            epoll: epoll.try_clone()?,
            timer_armed: false,
            timer,
            notify: notify.clone(),
            is_notified: false,
            loop_looks: false,
            arena,
            released,
            settling: Vec::new(),
            lacks: None,
            force_exit: false,
            on_cancel: None,
            terminal: Arc::default(),
            work_waiters: 0,
            news: false,
            returns_memory: false,
            followers: Default::default(),
            refusal_logged: None,
            options: options.clone(),
            sockets_dir,
            clock: Instant::now(),
        })
    }
}
