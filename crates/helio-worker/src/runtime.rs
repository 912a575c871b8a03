//! The runtime: what the front calls, and the loop in which it waits.

use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use helio_owner_state::actor::{Creation, handle_object};
use helio_owner_state::{Event, IdMap, Owner, Stored, Target, TaskSpec};
use helio_proto::control::{ActorInfo, ActorSpec, ControlRequest, ControlResponse};
use helio_proto::node::{
    Blocked, CreateObject, FlushLogs, JobConfig, LeaseClass, LogLine, Notice, Registered,
    SealObject, StopNode, Unblocked,
};
use helio_proto::peer::{Reference, STREAMING, Template};
use helio_store::{Arena, ArenaSlice};
use helio_types::id::PUT_INDEX_BASE;
use helio_types::{ActorId, DeathCause, NodeAddress, ObjectId, TaskId, WorkerAddress, WorkerId};
use parking_lot::{Mutex, MutexGuard};
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

use crate::api::{
    ActorCreated, Bytes, CallArgs, Error, Interrupt, Options, Outcome, Outgoing, OutgoingValue,
    Payload, Retry, StreamNext, Work,
};
use crate::conn::{Peer, Socket};
use crate::connect;
use crate::duty::{Duty, Turn};
use crate::inbox::Inbox;
use crate::state::{Asked, FIRST_CONN, State, Watched};

/// How often a wait looks for signals, at least.
const INTERRUPT_EVERY: Duration = Duration::from_millis(100);
/// A worker's wait longer than this is told to the daemon, which lends its CPU to others meanwhile.
const BLOCKED_AFTER: Duration = Duration::from_micros(800);
/// How long a poll looks before it sleeps, while looking keeps paying off.
const SPIN: Duration = Duration::from_micros(30);
/// How long a driver waits for its daemon to end.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(3);

/// The runtime of this process.
#[derive(Debug)]
pub struct Runtime {
    state: Mutex<State>,
    duty: Duty,
    /// Handles dropped since the last look, so that dropping one takes no lock that is ever held long.
    dropped: Arc<Mutex<Vec<ObjectId>>>,
    epoll: OwnedFd,
    wake: OwnedFd,
    notify: Arc<OwnedFd>,
    unix: UnixListener,
    tcp: TcpListener,
    address: Arc<WorkerAddress>,
    registered: Registered,
    options: Options,
    /// How often spinning paid off lately.
    spin: AtomicU32,
    closed: AtomicBool,
    net: Mutex<Option<JoinHandle<()>>>,
    /// Threads that wait in `get` or `wait`.
    waits: AtomicU32,
}

/// An extent of the object store that is being written; dropped unsealed, it is given back.
#[derive(Debug)]
pub struct Created {
    runtime: Arc<Runtime>,
    id: ObjectId,
    size: u64,
    slice: ArenaSlice,
    sealed: bool,
}

impl Created {
    /// The object that it becomes.
    #[must_use]
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// Writes `data` at `offset`.
    ///
    /// # Errors
    /// When it does not fit.
    pub fn copy_in(&mut self, offset: usize, data: &[u8]) -> Result<(), Error> {
        self.slice.copy_in(offset, data).map_err(|error| Error::Invalid(error.to_string()))
    }

    /// No byte changes any more (SHM-1).
    pub fn seal(mut self) -> OutgoingValue {
        self.sealed = true;
        let mut state = self.runtime.state.lock();
        state.tell_node(SealObject { object_id: self.id }.into());
        state.flush();
        OutgoingValue::Stored { size: self.size, location: state.node_address() }
    }
}

impl Drop for Created {
    fn drop(&mut self) {
        if !self.sealed {
            let mut state = self.runtime.state.lock();
            state.tell_node(helio_proto::node::AbortObject { object_id: self.id }.into());
            state.flush();
        }
    }
}

impl State {
    fn node_address(&self) -> NodeAddress {
        let me = self.owner.address();
        NodeAddress { node_id: me.node_id, host: me.host.clone(), port: self.registered.port }
    }

    /// What reading an object gives, as far as it is known and here. Starts what is missing.
    fn read(&mut self, id: ObjectId) -> Option<Payload> {
        let locations = match self.owner.object(&id).map(|object| &object.value) {
            None | Some(Stored::Pending) => return None,
            Some(Stored::Inline(bytes)) => {
                return Some(Payload { bytes: Bytes::Memory(bytes.clone()), is_error: false });
            }
            Some(Stored::Error(bytes)) => {
                return Some(Payload { bytes: Bytes::Memory(bytes.clone()), is_error: true });
            }
            Some(Stored::Stores { locations, .. }) => locations,
        };
        if let Some(pin) = self.pins.get(&id) {
            return Some(Payload { bytes: Bytes::Pinned(pin.clone()), is_error: false });
        }
        if !self.fetching.contains_key(&id) {
            let locations = locations.clone();
            self.fetch(id, locations);
        }
        None
    }
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
                Some(Arc::new(arena))
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
            waits: AtomicU32::new(0),
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
            }
        })?;
        *runtime.net.lock() = Some(thread);
        Ok(runtime)
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

    // ---- waiting ----

    /// Waits until `done` gives something. `done` runs under the lock after every change.
    fn wait_until<T>(
        &self,
        deadline: Option<Instant>,
        interrupt: Interrupt<'_>,
        mut done: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<T, Error> {
        let began = Instant::now();
        let mut blocked = false;
        let result = loop {
            let seen = self.duty.polls();
            {
                let mut state = self.settled();
                if let Some(result) = done(&mut state) {
                    state.flush();
                    break Ok(result);
                }
                if let Some(why) = &state.closed {
                    break Err(Error::Disconnected(why.clone()));
                }
                if !blocked && !self.options.is_driver && began.elapsed() >= BLOCKED_AFTER {
                    blocked = true;
                    self.block(&mut state);
                }
                state.urgent = false;
                state.flush();
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                break Err(Error::Timeout);
            }
            let mut limit =
                deadline.map_or(INTERRUPT_EVERY, |deadline| (deadline - now).min(INTERRUPT_EVERY));
            if !blocked && !self.options.is_driver {
                limit = limit.min(BLOCKED_AFTER);
            }
            let (interrupted, result) = self.turn(limit, seen, &mut done);
            if let Some(result) = result {
                break Ok(result);
            }
            // Signals are looked for when one arrived, and now and then.
            if (interrupted || now.elapsed() >= INTERRUPT_EVERY) && interrupt() {
                break Err(Error::Interrupted);
            }
        };
        if blocked {
            self.unblock();
        }
        result
    }

    /// The worker waits: its CPU is free, and what it has not begun goes back.
    fn block(&self, state: &mut State) {
        if state.inbox.running.is_empty() {
            return;
        }
        self.waits.fetch_add(1, Ordering::Relaxed);
        state.blocked += 1;
        if state.blocked == 1 {
            state.tell_node(Blocked {}.into());
            state.hand_back(usize::MAX);
        }
    }

    fn unblock(&self) {
        let mut state = self.state.lock();
        if state.blocked > 0 {
            self.waits.fetch_sub(1, Ordering::Relaxed);
            state.blocked -= 1;
            if state.blocked == 0 {
                state.tell_node(Unblocked {}.into());
                state.flush();
            }
        }
    }

    /// One turn of a waiter: polls, or sleeps until somebody else has. Returns whether a signal
    /// arrived, and what `done` found.
    ///
    /// The last poll before ours may have brought what we wait for after we looked: so the state is
    /// looked at again once the duty is ours, and nothing can come in between.
    fn turn<T>(
        &self,
        limit: Duration,
        seen: u64,
        done: &mut impl FnMut(&mut State) -> Option<T>,
    ) -> (bool, Option<T>) {
        if self.duty.enter(limit, seen, || self.wake_up()) == Turn::Look {
            return (false, None);
        }
        let found = {
            let mut state = self.state.lock();
            let found = done(&mut state);
            state.flush();
            found
        };
        if found.is_some() {
            self.duty.leave(false);
            return (false, found);
        }
        let (interrupted, news) = self.poll(Some(limit));
        self.duty.leave(news);
        (interrupted, None)
    }

    fn wake_up(&self) {
        // A full counter means that the thread has been woken already.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Sleeps in `epoll` and handles what comes. Returns whether a signal cut it short, and whether
    /// something changed.
    fn poll(&self, limit: Option<Duration>) -> (bool, bool) {
        let mut buffer: [std::mem::MaybeUninit<epoll::Event>; 64] =
            [const { std::mem::MaybeUninit::uninit() }; 64];
        let due = {
            let state = self.state.lock();
            let now = state.now();
            let tick = state.owner.next_tick().into_iter().chain(state.strangers_due()).min();
            tick.map(|tick| Duration::from_micros(tick.saturating_sub(now)))
        };
        let limit = match (limit, due) {
            (Some(limit), Some(due)) => Some(limit.min(due)),
            (limit, due) => limit.or(due),
        };
        let ready = match self.sleep(&mut buffer, limit) {
            Ok(ready) => ready,
            Err(rustix::io::Errno::INTR) => return (true, false),
            Err(_) => return (false, false),
        };
        let mut state = self.settled();
        for event in ready {
            self.handle(&mut state, event.data.u64(), event.flags);
        }
        if due.is_some_and(|due| due.is_zero()) || ready.is_empty() {
            state.apply(Event::Tick);
            state.drop_silent_strangers();
        }
        state.urgent = false;
        state.flush();
        let news = std::mem::take(&mut state.news);
        let (closed, force) = (state.closed.is_some(), state.force_exit);
        drop(state);
        if (closed || force) && !self.options.is_driver {
            self.end_worker(force);
        }
        (false, news)
    }

    /// Looks for events for a moment while that keeps paying off, then sleeps.
    fn sleep<'a>(
        &self,
        buffer: &'a mut [std::mem::MaybeUninit<epoll::Event>],
        limit: Option<Duration>,
    ) -> rustix::io::Result<&'a [epoll::Event]> {
        let zero = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        let score = self.spin.load(Ordering::Relaxed);
        if score > 0 && limit.is_none_or(|limit| limit > SPIN) {
            let began = Instant::now();
            let mut found = false;
            while began.elapsed() < SPIN {
                if !wait_events(&self.epoll, buffer, Some(&zero))?.is_empty() {
                    found = true;
                    break;
                }
                std::hint::spin_loop();
            }
            if found {
                self.spin.store((score + 1).min(16), Ordering::Relaxed);
                // Level-triggered: the same events are there again.
                return wait_events(&self.epoll, buffer, Some(&zero));
            }
            self.spin.store(score - 1, Ordering::Relaxed);
        }
        let limit = limit.map(|limit| rustix::time::Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        });
        let began = Instant::now();
        let ready = wait_events(&self.epoll, buffer, limit.as_ref())?;
        if !ready.is_empty() && began.elapsed() < 3 * SPIN && score == 0 {
            // A longer look would have caught it: try again.
            self.spin.store(2, Ordering::Relaxed);
        }
        Ok(ready)
    }

    fn handle(&self, state: &mut State, number: u64, flags: epoll::EventFlags) {
        match number {
            n if n == Watched::Wake as u64 => {
                let _ = rustix::io::read(&self.wake, &mut [0; 8]);
            }
            n if n == Watched::Timer as u64 => {
                let _ = rustix::io::read(&state.timer, &mut [0; 8]);
                state.timer_armed = false;
            }
            n if n == Watched::UnixListener as u64 => {
                while let Ok((socket, _)) = self.unix.accept() {
                    state.add_stranger(Socket::Unix(socket));
                }
            }
            n if n == Watched::TcpListener as u64 => {
                while let Ok((socket, _)) = self.tcp.accept() {
                    state.add_stranger(Socket::Tcp(socket));
                }
            }
            number => {
                if flags.contains(epoll::EventFlags::OUT) {
                    state.touch(number);
                }
                let ends = epoll::EventFlags::IN
                    | epoll::EventFlags::HUP
                    | epoll::EventFlags::ERR
                    | epoll::EventFlags::RDHUP;
                if flags.intersects(ends)
                    && let Err(reason) = state.read_conn(number)
                {
                    state.conn_ended(number, &reason);
                }
            }
        }
    }

    /// The net thread's turn; `false` when the process leaves the session.
    fn net_turn(&self) -> bool {
        if !self.duty.enter_net(|| self.closed.load(Ordering::Acquire)) {
            return false;
        }
        let (_, news) = self.poll(None);
        self.duty.leave_net(news);
        !self.closed.load(Ordering::Acquire)
    }

    /// The daemon is gone, or says so: a worker leaves nothing behind, whatever its main thread does.
    fn end_worker(&self, force: bool) {
        if !force && self.state.lock().closed.is_none() {
            return;
        }
        let _ = std::fs::remove_file(self.socket_path());
        if let Some(pid) = rustix::process::Pid::from_raw(std::process::id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }

    fn socket_path(&self) -> std::path::PathBuf {
        let folder = self.options.node_socket.parent().unwrap_or_else(|| "/".as_ref());
        folder.join(self.address.worker_id.socket_name())
    }

    /// The state, with dropped handles taken into account.
    fn settled(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        state.settle(&self.dropped);
        state
    }

    /// After a change by the front.
    fn changed(&self, mut state: MutexGuard<'_, State>) {
        state.flush_some();
        let news = std::mem::take(&mut state.news);
        drop(state);
        if news && self.duty.news() {
            self.wake_up();
        }
    }

    // ---- values ----

    /// Puts a value; one handle is held.
    ///
    /// # Errors
    /// None at present; a full store shows in [`Runtime::create`].
    pub fn put(&self, value: OutgoingValue, contained: Vec<ObjectId>) -> Result<ObjectId, Error> {
        let mut state = self.settled();
        let id = state.new_put_id();
        state.apply(Event::Put { id, value, contained });
        self.changed(state);
        Ok(id)
    }

    /// Puts a value that was written as `created` under that id.
    ///
    /// # Errors
    /// As [`Runtime::put`].
    pub fn put_created(
        &self,
        created: Created,
        contained: Vec<ObjectId>,
    ) -> Result<ObjectId, Error> {
        let id = created.id();
        let value = created.seal();
        let mut state = self.settled();
        state.apply(Event::Put { id, value, contained });
        self.changed(state);
        Ok(id)
    }

    /// Memory in the object store for a value of `size` bytes that becomes a put.
    ///
    /// # Errors
    /// [`Error::Refused`] when the store is full.
    pub fn create(self: &Arc<Self>, size: u64, interrupt: Interrupt<'_>) -> Result<Created, Error> {
        let id = self.state.lock().new_put_id();
        self.create_as(id, size, interrupt)
    }

    /// Memory for return number `index` (from 1) of a call that this process runs, or for an item.
    ///
    /// # Errors
    /// As [`Runtime::create`].
    pub fn create_as(
        self: &Arc<Self>,
        id: ObjectId,
        size: u64,
        interrupt: Interrupt<'_>,
    ) -> Result<Created, Error> {
        let request = {
            let mut state = self.settled();
            if state.arena.is_none() {
                return Err(Error::Invalid("this process has no object store".into()));
            }
            let request_id = state.request();
            state.grants.insert(request_id, None);
            state.tell_node(CreateObject { request_id, object_id: id, size }.into());
            request_id
        };
        let grant = self.wait_until(None, interrupt, |state| match state.grants.get(&request) {
            Some(Some(_)) => state.grants.remove(&request).flatten(),
            _ => None,
        });
        if grant.is_err() {
            self.state.lock().grants.remove(&request);
        }
        let offset = grant?.map_err(Error::Refused)?;
        let arena = self
            .state
            .lock()
            .arena
            .clone()
            .ok_or_else(|| Error::Invalid("no object store".into()))?;
        let slice = arena.slice(offset, size).map_err(|error| Error::Io(error.to_string()))?;
        Ok(Created { runtime: self.clone(), id, size, slice, sealed: false })
    }

    /// The values of objects, in order.
    ///
    /// # Errors
    /// [`Error::Raised`] as soon as one holds an error, [`Error::Timeout`], [`Error::Interrupted`].
    pub fn get(
        &self,
        ids: &[ObjectId],
        timeout: Option<Duration>,
        interrupt: Interrupt<'_>,
    ) -> Result<Vec<Payload>, Error> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut values: Vec<Option<Payload>> = vec![None; ids.len()];
        let mut missing: Vec<usize> = (0..ids.len()).collect();
        let mut watched = false;
        let raised = self.wait_until(deadline, interrupt, |state| {
            if !watched {
                watched = true;
                for id in ids {
                    if state
                        .owner
                        .object(id)
                        .is_some_and(|object| object.owner.is_some() && !object.is_ready())
                    {
                        state.apply(Event::Watch { id: *id });
                    }
                }
            }
            // All are looked at the first time, so that fetches run side by side and errors show at
            // once; then those that were missing, up to the first that still is.
            let mut raised = None;
            missing.retain(|place| {
                if raised.is_some() {
                    return true;
                }
                match state.read(ids[*place]) {
                    Some(payload) if payload.is_error => {
                        state.apply(Event::ErrorRead { id: ids[*place] });
                        raised = Some(payload);
                        true
                    }
                    Some(payload) => {
                        values[*place] = Some(payload);
                        false
                    }
                    None => true,
                }
            });
            if raised.is_some() { Some(raised) } else { missing.is_empty().then_some(None) }
        })?;
        match raised {
            Some(payload) => Err(Error::Raised(payload)),
            None => Ok(values.into_iter().flatten().collect()),
        }
    }

    /// A value that is in this process's memory already; never waits.
    #[must_use]
    pub fn try_get_inline(&self, id: ObjectId) -> Option<Payload> {
        let mut state = self.state.lock();
        if matches!(state.owner.object(&id)?.value, Stored::Error(_)) {
            state.apply(Event::ErrorRead { id });
        }
        match &state.owner.object(&id)?.value {
            Stored::Inline(bytes) => {
                Some(Payload { bytes: Bytes::Memory(bytes.clone()), is_error: false })
            }
            Stored::Error(bytes) => {
                Some(Payload { bytes: Bytes::Memory(bytes.clone()), is_error: true })
            }
            Stored::Stores { .. } => Some(Payload {
                bytes: Bytes::Pinned(state.pins.get(&id)?.clone()),
                is_error: false,
            }),
            Stored::Pending => None,
        }
    }

    /// Which of the objects are ready, once `count` are or the time is up.
    ///
    /// # Errors
    /// [`Error::Interrupted`], [`Error::Disconnected`].
    pub fn wait(
        &self,
        ids: &[ObjectId],
        count: usize,
        timeout: Option<Duration>,
        fetch_local: bool,
        interrupt: Interrupt<'_>,
    ) -> Result<Vec<bool>, Error> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut ready = vec![false; ids.len()];
        let mut watched = false;
        let result = self.wait_until(deadline, interrupt, |state| {
            if !watched {
                watched = true;
                for id in ids {
                    if state
                        .owner
                        .object(id)
                        .is_some_and(|object| object.owner.is_some() && !object.is_ready())
                    {
                        state.apply(Event::Watch { id: *id });
                    }
                }
            }
            let mut n = 0;
            for (flag, id) in ready.iter_mut().zip(ids) {
                if !*flag {
                    *flag = state.is_ready(*id, fetch_local);
                }
                n += usize::from(*flag);
                if n >= count {
                    return Some(());
                }
            }
            None
        });
        match result {
            Ok(()) | Err(Error::Timeout) => Ok(ready),
            Err(error) => Err(error),
        }
    }

    /// Whether the object's value or error is known.
    #[must_use]
    pub fn is_ready(&self, id: ObjectId) -> bool {
        self.state.lock().owner.object(&id).is_some_and(helio_owner_state::Object::is_ready)
    }

    /// Tells [`Runtime::take_ready`] when the object is ready (at once if it is).
    pub fn watch(&self, id: ObjectId) {
        let mut state = self.settled();
        if state.read(id).is_some() {
            state.became_ready.push(id);
            state.notify_loop();
        } else {
            state.watched.insert(id);
            state.apply(Event::Watch { id });
        }
        self.changed(state);
    }

    /// Watched objects that became ready; clears [`Runtime::notify_fd`].
    #[must_use]
    pub fn take_ready(&self) -> Vec<ObjectId> {
        let _ = rustix::io::read(&*self.notify, &mut [0; 8]);
        let mut state = self.settled();
        if state.inbox.has_work() && state.work_waiters == 0 {
            // The mark that was cleared stood for this too.
            state.notify_loop();
        }
        let ready = std::mem::take(&mut state.became_ready);
        // What lies in an object store is ready for its reader when it is here.
        ready
            .into_iter()
            .filter(|id| {
                let here = state.owner.object(id).is_none_or(|object| object.is_ready())
                    && state.read_or_gone(*id);
                if !here {
                    state.watched.insert(*id);
                }
                here
            })
            .collect()
    }

    /// Readable when a watched object is ready, or work came while nobody waits for it.
    #[must_use]
    pub fn notify_fd(&self) -> RawFd {
        self.notify.as_raw_fd()
    }

    // ---- references ----

    /// One more handle in this process.
    pub fn add_ref(&self, id: ObjectId) {
        self.state.lock().apply(Event::AddRef { id });
    }

    /// One handle fewer. Takes effect at the next call or poll; never waits.
    pub fn drop_ref(&self, id: ObjectId) {
        let first = {
            let mut dropped = self.dropped.lock();
            dropped.push(id);
            dropped.len() == 1
        };
        if !first {
            return;
        }
        // Somebody will look soon; if not, the timer makes them.
        match self.state.try_lock() {
            Some(mut state) if !state.timer_armed => {
                state.timer_armed = true;
                crate::state::set_timer(&state.timer, 1_000_000);
            }
            Some(_) => {}
            None => self.wake_up(),
        }
    }

    /// The reference as others need it.
    #[must_use]
    pub fn reference(&self, id: ObjectId) -> Reference {
        self.state.lock().owner.reference(id)
    }

    /// A reference arrived in a value: one handle of it is held, and its owner is told.
    pub fn adopt(&self, reference: &Reference) {
        let mut state = self.settled();
        state.apply(Event::Adopt { reference: reference.clone() });
        self.changed(state);
    }

    /// For tests and tools: handles here, uses here, borrowers; `None` when it is not held at all.
    #[must_use]
    pub fn holders(&self, id: ObjectId) -> Option<(u32, u32, usize)> {
        self.settled().owner.object(&id).map(helio_owner_state::Object::holders)
    }

    /// For tests and tools: objects, unfinished calls and leases that this process knows.
    #[must_use]
    pub fn census(&self) -> (usize, usize, usize) {
        self.settled().owner.census()
    }

    // ---- calls ----

    /// Calls a function on any worker of a class; one handle of each return is held.
    ///
    /// # Errors
    /// [`Error::Disconnected`].
    pub fn submit(
        &self,
        template: &Arc<Template>,
        class: &Arc<LeaseClass>,
        args: CallArgs,
        returns: u32,
        retry: Retry,
    ) -> Result<Vec<ObjectId>, Error> {
        let mut state = self.settled();
        state.check_open()?;
        let id = state.new_task_id();
        let parent = state.current;
        let spec = TaskSpec {
            id,
            template: template.clone(),
            target: Target::Class(class.clone()),
            args,
            returns,
            retry,
            parent,
            handle: None,
        };
        state.apply(Event::Submit { spec: Arc::new(spec) });
        self.changed(state);
        Ok(return_ids(id, returns))
    }

    /// A fresh actor id.
    #[must_use]
    pub fn new_actor_id(&self) -> ActorId {
        let mut state = self.state.lock();
        let mut unique = [0; 12];
        unique[..8].copy_from_slice(&state.unique().to_le_bytes());
        unique[8..].copy_from_slice(&state.owner.address().worker_id.0[..4]);
        ActorId::new(unique, state.job.job_id)
    }

    /// Makes an actor. An unnamed one's creation is only begun; for a named one the control service's
    /// answer is waited for.
    ///
    /// # Errors
    /// [`Error::Refused`] when the name is taken.
    pub fn create_actor(
        &self,
        spec: ActorSpec,
        template: &Arc<Template>,
        args: CallArgs,
        interrupt: Interrupt<'_>,
    ) -> Result<ActorCreated, Error> {
        let (actor, named, detached) = (spec.actor_id, !spec.name.is_empty(), spec.detached);
        let handle = (!detached).then(|| handle_object(actor));
        {
            let mut state = self.settled();
            state.check_open()?;
            let spec = ActorSpec {
                template: helio_proto::encode::<Template>(template),
                owner: (*self.address).clone(),
                job_id: state.job.job_id,
                job_config: state.job_wire.clone(),
                ..spec
            };
            let creation = Creation { spec, args, handle };
            state.apply(Event::CreateActor { creation: Box::new(creation) });
            self.changed(state);
        }
        let created = ActorCreated { actor, handle: handle.unwrap_or_default(), existing: None };
        if !named {
            return Ok(created);
        }
        match self.wait_until(None, interrupt, |state| state.creations.remove(&actor))? {
            ControlResponse::Failed(failure) => {
                if let Some(handle) = handle {
                    self.drop_ref(handle);
                }
                Err(Error::Refused(failure))
            }
            ControlResponse::NamedActor(found) if found.actor_id != actor => {
                if let Some(handle) = handle {
                    self.drop_ref(handle);
                }
                let existing = Some(found.handle);
                Ok(ActorCreated { actor: found.actor_id, handle: ObjectId::NIL, existing })
            }
            _ => Ok(created),
        }
    }

    /// Calls an actor's method; one handle of each return is held.
    ///
    /// # Errors
    /// [`Error::Disconnected`].
    pub fn call_actor(
        &self,
        actor: ActorId,
        template: &Arc<Template>,
        args: CallArgs,
        returns: u32,
        retry: Retry,
    ) -> Result<Vec<ObjectId>, Error> {
        let mut state = self.settled();
        state.check_open()?;
        let id = TaskId::new(state.unique() ^ u64::from_le_bytes(state.seed()), actor);
        let handle = state.owner.actor(&actor).and_then(helio_owner_state::actor::Actor::handle);
        let parent = state.current;
        let spec = TaskSpec {
            id,
            template: template.clone(),
            target: Target::Actor(actor),
            args,
            returns,
            retry,
            parent,
            handle,
        };
        state.apply(Event::Submit { spec: Arc::new(spec) });
        self.changed(state);
        Ok(return_ids(id, returns))
    }

    /// A handle of an actor arrived, with the object that stands for it (`None`: a weak handle).
    pub fn know_actor(&self, actor: ActorId, handle: Option<ObjectId>) {
        self.state.lock().apply(Event::KnowActor { actor, handle });
    }

    /// Whether this is an actor that was made or called here.
    #[must_use]
    pub fn knows_actor(&self, actor: ActorId) -> bool {
        self.state.lock().owner.actor(&actor).is_some()
    }

    /// Calls to the actor that have not ended.
    #[must_use]
    pub fn actor_pending_calls(&self, actor: ActorId) -> usize {
        self.state
            .lock()
            .owner
            .actor(&actor)
            .map_or(0, helio_owner_state::actor::Actor::pending_calls)
    }

    /// What was published last of an actor.
    #[must_use]
    pub fn actor_info(&self, actor: ActorId) -> Option<ActorInfo> {
        self.state.lock().actor_infos.get(&actor).cloned()
    }

    /// Ends an actor.
    ///
    /// # Errors
    /// [`Error::Disconnected`].
    pub fn kill_actor(&self, actor: ActorId, no_restart: bool) -> Result<(), Error> {
        let mut state = self.settled();
        state.check_open()?;
        state.kill(actor, no_restart);
        self.changed(state);
        Ok(())
    }

    /// Stops the call that returns `object`; nothing happens if it has ended.
    ///
    /// # Errors
    /// [`Error::Disconnected`].
    pub fn cancel(&self, object: ObjectId, force: bool, recursive: bool) -> Result<(), Error> {
        let mut state = self.settled();
        state.check_open()?;
        state.apply(Event::Cancel { task: object.task(), force, recursive });
        self.changed(state);
        Ok(())
    }

    /// Asks the control service.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::Interrupted`], [`Error::Disconnected`].
    pub fn control(
        &self,
        request: ControlRequest,
        timeout: Option<Duration>,
        interrupt: Interrupt<'_>,
    ) -> Result<ControlResponse, Error> {
        let number = {
            let mut state = self.settled();
            state.check_open()?;
            state.ask(request, Asked::Thread);
            state.next_request
        };
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let answer = self.wait_until(deadline, interrupt, |state| state.answers.remove(&number));
        if answer.is_err() {
            self.state.lock().asked.insert(number, Asked::Nobody);
        }
        answer
    }

    /// The next item of a stream; one handle of it is held. `generator` is the call's return.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::Interrupted`], [`Error::Disconnected`].
    pub fn stream_next(
        &self,
        generator: ObjectId,
        index: u32,
        timeout: Option<Duration>,
        interrupt: Interrupt<'_>,
    ) -> Result<StreamNext, Error> {
        let task = generator.task();
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        self.wait_until(deadline, interrupt, |state| {
            let Some(stream) = state.owner.stream(&task) else { return Some(StreamNext::End) };
            if index < stream.arrived {
                state.apply(Event::StreamRead { task, index });
                return Some(StreamNext::Item(Owner::stream_item(task, index)));
            }
            stream.total.is_some_and(|total| index >= total).then_some(StreamNext::End)
        })
    }

    /// Whether [`Runtime::stream_next`] would not wait; `None` at the end of the stream.
    #[must_use]
    pub fn stream_ready(&self, generator: ObjectId, index: u32) -> Option<bool> {
        let state = self.state.lock();
        let stream = state.owner.stream(&generator.task())?;
        if index < stream.arrived {
            return Some(true);
        }
        if stream.total.is_some() { None } else { Some(false) }
    }

    /// The front reads no more of a stream.
    pub fn stream_drop(&self, generator: ObjectId) {
        let mut state = self.settled();
        state.apply(Event::StreamDropped { task: generator.task() });
        self.changed(state);
    }

    // ---- executing ----

    /// The next thing to do; `None` when the time is up. Without work, waits and polls.
    ///
    /// # Errors
    /// [`Error::Interrupted`], [`Error::Disconnected`].
    pub fn next_work(
        &self,
        timeout: Option<Duration>,
        interrupt: Interrupt<'_>,
    ) -> Result<Option<Work>, Error> {
        {
            let mut state = self.settled();
            if let Some(work) = state.inbox.pop() {
                state.hand_out(&work);
                // Replies to calls before this one may wait for more, but not for a long call.
                state.flush_soon();
                return Ok(Some(work));
            }
            if timeout.is_some_and(|timeout| timeout.is_zero()) {
                let _ = rustix::io::read(&*self.notify, &mut [0; 8]);
                if !state.became_ready.is_empty() {
                    // The mark that was cleared stood for this too.
                    state.notify_loop();
                }
                if let Some(work) = state.inbox.pop() {
                    state.hand_out(&work);
                    return Ok(Some(work));
                }
                state.flush();
                return Ok(None);
            }
            state.drop_unowned_pins();
            state.work_waiters += 1;
        }
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let result = self.wait_for_work(deadline, interrupt);
        self.state.lock().work_waiters -= 1;
        match result {
            Ok(work) => Ok(Some(work)),
            Err(Error::Timeout) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn wait_for_work(
        &self,
        deadline: Option<Instant>,
        interrupt: Interrupt<'_>,
    ) -> Result<Work, Error> {
        loop {
            let seen = self.duty.polls();
            {
                let mut state = self.settled();
                if let Some(work) = state.inbox.pop() {
                    state.hand_out(&work);
                    state.flush_soon();
                    return Ok(work);
                }
                if let Some(why) = &state.closed {
                    return Err(Error::Disconnected(why.clone()));
                }
                state.urgent = false;
                state.flush();
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Err(Error::Timeout);
            }
            // An idle worker sleeps for good: a signal cuts the sleep short by itself.
            let limit = deadline.map_or(Duration::from_secs(3600), |deadline| deadline - now);
            let (interrupted, work) = self.turn(limit, seen, &mut |state| {
                let work = state.inbox.pop();
                if let Some(work) = &work {
                    state.hand_out(work);
                }
                // The end of the session ends the wait as well.
                work.map(Some).or(state.closed.is_some().then_some(None))
            });
            match work {
                Some(Some(work)) => return Ok(work),
                Some(None) => {}
                None if interrupted && interrupt() => return Err(Error::Interrupted),
                None => {}
            }
        }
    }

    /// A call is over.
    pub fn finish(&self, task: TaskId, outcome: Outcome) {
        let mut state = self.settled();
        state.consumed.remove(&task);
        let Some(caller) = state.inbox.finished(task) else { return };
        state.current = state.inbox.running.last().map_or(TaskId::NIL, |(task, _)| *task);
        state.apply(Event::Finished { task, caller, outcome });
        if state.inbox.has_work() {
            state.urgent = false;
            state.flush_soon();
        } else {
            state.flush();
        }
    }

    /// A generator's next item; waits while its caller has too many unread ones.
    ///
    /// # Errors
    /// [`Error::Interrupted`], [`Error::Disconnected`].
    pub fn item(
        &self,
        task: TaskId,
        index: u32,
        item: Outgoing,
        bound: u32,
        interrupt: Interrupt<'_>,
    ) -> Result<(), Error> {
        {
            let mut state = self.settled();
            let caller = state
                .inbox
                .running
                .iter()
                .find(|(running, _)| *running == task)
                .map(|(_, c)| c.clone());
            let Some(caller) = caller else { return Ok(()) };
            state.apply(Event::ItemMade { task, caller, index, item });
            state.urgent = false;
            if bound == 0 {
                // The caller may wait for this one; a burst goes out together.
                state.flush_soon();
            } else {
                state.flush();
            }
        }
        if bound == 0 {
            return Ok(());
        }
        self.wait_until(None, interrupt, |state| {
            let read = state.consumed.get(&task).copied().unwrap_or(0);
            let gone = !state.inbox.running.iter().any(|(running, _)| *running == task);
            (gone || index + 1 - read.min(index + 1) < bound).then_some(())
        })
    }

    /// The actor's constructor returned, or raised: the serialized exception and its text.
    pub fn actor_ready(&self, actor_id: ActorId, result: Result<(), (Vec<u8>, String)>) {
        let (error, message) = result.err().unwrap_or_default();
        let mut state = self.settled();
        state.tell_node(helio_proto::node::ActorReady { actor_id, error, message }.into());
        state.flush();
    }

    /// The process is about to end of its own will.
    pub fn leaving(&self, cause: DeathCause) {
        let mut state = self.settled();
        state.tell_node(helio_proto::node::Leaving { cause }.into());
        state.flush();
    }

    /// `hook` is called when a call that runs here is cancelled, on whichever thread reads of it and with
    /// the state locked: it may not call the runtime, nor wait. For calls that keep the thread busy that
    /// would take [`Work::Cancel`].
    pub fn on_cancel(&self, hook: Box<dyn Fn(TaskId) + Send + Sync>) {
        self.state.lock().on_cancel = Some(crate::state::CancelHook(hook));
    }

    /// Whether the running call was cancelled.
    #[must_use]
    pub fn is_cancelled(&self, task: TaskId) -> bool {
        self.state.lock().inbox.cancelled.contains(&task)
    }

    // ---- drivers ----

    /// Log lines of workers; waits for some until `timeout`. For a thread of its own.
    #[must_use]
    pub fn take_logs(&self, timeout: Duration) -> Vec<LogLine> {
        let deadline = Instant::now() + timeout;
        let mut never = || false;
        let _ = self.wait_aside(deadline, &mut never, |state| {
            (!state.logs.is_empty() || !state.notices.is_empty() || !state.unseen.is_empty())
                .then_some(())
        });
        self.state.lock().logs.drain(..).collect()
    }

    /// Sentences for the driver's terminal.
    #[must_use]
    pub fn take_notices(&self) -> Vec<Notice> {
        std::mem::take(&mut self.state.lock().notices)
    }

    /// Serialized exceptions of calls whose references went before anybody read them.
    #[must_use]
    pub fn take_unseen(&self) -> Vec<Arc<Vec<u8>>> {
        std::mem::take(&mut self.state.lock().unseen)
    }

    /// Waits without polling: somebody else's polls bring the news. For threads that only look on.
    fn wait_aside<T>(
        &self,
        deadline: Instant,
        interrupt: Interrupt<'_>,
        mut done: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<T, Error> {
        loop {
            let seen = self.duty.polls();
            if let Some(result) = done(&mut self.state.lock()) {
                return Ok(result);
            }
            let now = Instant::now();
            if now >= deadline || self.closed.load(Ordering::Acquire) {
                return Err(Error::Timeout);
            }
            self.duty.stand_by((deadline - now).min(Duration::from_secs(1)), seen);
            if interrupt() {
                return Err(Error::Interrupted);
            }
        }
    }

    /// Waits until all that the job's workers have printed so far is here.
    pub fn flush_logs(&self, timeout: Duration) {
        let request = {
            let mut state = self.settled();
            let request_id = state.request();
            state.tell_node(FlushLogs { request_id }.into());
            request_id
        };
        let mut never = || false;
        let deadline = Some(Instant::now() + timeout);
        let _ = self
            .wait_until(deadline, &mut never, |state| state.flushed.remove(&request).then_some(()));
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

fn return_ids(task: TaskId, returns: u32) -> Vec<ObjectId> {
    let n = if returns == STREAMING { 1 } else { returns };
    (1..=n).map(|index| task.object(index)).collect()
}

fn wait_events<'a>(
    epoll: &OwnedFd,
    buffer: &'a mut [std::mem::MaybeUninit<epoll::Event>],
    limit: Option<&rustix::time::Timespec>,
) -> rustix::io::Result<&'a [epoll::Event]> {
    let (ready, _) = epoll::wait(epoll, buffer, limit)?;
    Ok(ready)
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
        Ok(Self {
            owner: Owner::new(address.clone()),
            actions: Vec::new(),
            conns: std::collections::HashMap::new(),
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
            fetches: std::collections::HashMap::new(),
            fetching: std::collections::HashMap::new(),
            grants: std::collections::HashMap::new(),
            asked: std::collections::HashMap::new(),
            answers: std::collections::HashMap::new(),
            flushed: std::collections::HashSet::new(),
            creations: IdMap::default(),
            pending_why: std::collections::HashMap::new(),
            whys: std::collections::HashMap::new(),
            consumed: IdMap::default(),
            liveness_asked: std::collections::HashMap::new(),
            urgent: false,
            force_exit: false,
            on_cancel: None,
            actor_infos: IdMap::default(),
            next_request: 0,
            next_id: u64::from_le_bytes(seed_of(address.worker_id)),
            watched: std::collections::HashSet::new(),
            became_ready: Vec::new(),
            logs: std::collections::VecDeque::new(),
            logs_dropped: 0,
            notices: Vec::new(),
            unseen: Vec::new(),
            templates: std::collections::HashMap::new(),
            job_wire: helio_proto::encode(&job),
            job,
            blocked: 0,
            work_waiters: 0,
            closed: None,
            news: false,
            current: TaskId::NIL,
            strangers: std::collections::VecDeque::new(),
            refusal_logged: None,
            registered: registered.clone(),
            options: options.clone(),
            sockets_dir,
            clock: Instant::now(),
        })
    }

    fn seed(&self) -> [u8; 8] {
        seed_of(self.owner.address().worker_id)
    }

    fn check_open(&self) -> Result<(), Error> {
        match &self.closed {
            Some(why) => Err(Error::Disconnected(why.clone())),
            None => Ok(()),
        }
    }

    fn new_put_id(&mut self) -> ObjectId {
        self.new_task_id().object(PUT_INDEX_BASE)
    }

    fn is_ready(&mut self, id: ObjectId, fetch_local: bool) -> bool {
        match self.owner.object(&id).map(|object| &object.value) {
            None | Some(Stored::Pending) => false,
            Some(Stored::Stores { .. }) if fetch_local => self.read(id).is_some(),
            Some(_) => true,
        }
    }

    fn read_or_gone(&mut self, id: ObjectId) -> bool {
        self.owner.object(&id).is_none() || self.read(id).is_some()
    }

    fn hand_out(&mut self, work: &Work) {
        match work {
            Work::Call(call) => self.current = call.task,
            Work::Cancel(task) => {
                self.inbox.cancelled.insert(*task);
            }
            Work::Construct(_) | Work::Exit { .. } => {}
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
