//! Making and greeting connections.

use std::borrow::Cow;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use helio_env::detour::Entrance;
use helio_process_state::{Event, Peer};
use helio_proto::hello::{self, Destination, Hello, Refusal, Role, Welcome};
use helio_proto::node::{ClientToNode, NodeToClient, Notice, Register, Registered};
use helio_proto::{Wire, frame};
use helio_tls::Session;
use helio_types::{NodeId, WorkerAddress, WorkerId};
use rustix::event::epoll;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::api::{Error, Options};
use crate::conn::{Conn, Greeting, Received, Socket};
use crate::state::{FIRST_LINK, State};

/// Time that a connection to another machine may take to be made.
const CONNECT_WAIT: Duration = Duration::from_secs(5);
/// Refused connections are logged no more often than this, in microseconds.
const REFUSAL_LOG_US: u64 = 10_000_000;

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error.to_string())
    }
}

impl From<rustix::io::Errno> for Error {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Io(error.to_string())
    }
}

/// The reason of the end of a connection that its other end has closed.
const CLOSED: &str = "closed";

/// The end of a connection.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) reason: Cow<'static, str>,
    /// All that the other end had sent was read.
    is_complete: bool,
}

impl<R: Into<Cow<'static, str>>> From<R> for Ending {
    /// The end of a connection by this process, read or not.
    fn from(reason: R) -> Self {
        Self { reason: reason.into(), is_complete: false }
    }
}

/// The variable in which the set-up of a worker says how large its environment is
/// (`core/runtime_env/progress.py`).
const ENVIRONMENT_BYTES: &str = "HELIOSTAT_ENVIRONMENT_BYTES";

fn size_told(told: Option<&str>) -> u64 {
    told.and_then(|told| told.parse().ok()).unwrap_or_default()
}

/// Joins the node: greets its daemon, registers, and takes the store's memory file.
pub(crate) fn register(
    options: &Options,
    me: WorkerId,
) -> Result<(UnixStream, Registered, Option<OwnedFd>), Error> {
    let socket = unix_connect(&options.node_socket).map_err(|error| {
        Error::Disconnected(format!(
            "the node's daemon does not answer at {}: {error}",
            options.node_socket.display()
        ))
    })?;
    let role = if options.is_driver { Role::Driver } else { Role::Worker };
    let hello = greeting(&options.token, role, me);
    let environment_size = match options.is_driver {
        true => 0,
        false => size_told(std::env::var(ENVIRONMENT_BYTES).ok().as_deref()),
    };
    let register = Register {
        environment_size,
        worker_id: me,
        pid: std::process::id(),
        is_driver: options.is_driver,
        namespace: options.namespace.clone(),
        entrypoint: options.entrypoint.clone(),
        log_to_driver: options.log_to_driver,
        owns_cluster: options.owns_cluster,
        ..Register::default()
    };
    let mut out = Vec::new();
    frame::put(&mut out, |b| b.extend_from_slice(&helio_proto::encode(&hello)));
    frame::put(&mut out, |b| {
        b.extend_from_slice(&helio_proto::encode(&ClientToNode::from(register)))
    });
    io::Write::write_all(&mut (&socket), &out)?;
    let mut input = Input { socket: &socket, bytes: Vec::new(), fd: None };
    let welcome: Welcome = helio_proto::decode(&input.frame(frame::HELLO_MAX)?)
        .map_err(|e| Error::Io(e.to_string()))?;
    welcome.accepted().map_err(Error::Unwelcome)?;
    let answer: NodeToClient = helio_proto::decode(&input.frame(frame::FRAME_MAX)?)
        .map_err(|e| Error::Io(e.to_string()))?;
    let NodeToClient::Registered(registered) = answer else {
        return Err(Error::Disconnected("the daemon did not answer the registration".into()));
    };
    if registered.failed {
        return Err(Error::Refused(registered.failure));
    }
    let fd = input.fd.take();
    Ok((socket, registered, fd))
}

/// Reads whole frames and no byte more, so that what follows is left to the event loop.
struct Input<'a> {
    socket: &'a UnixStream,
    bytes: Vec<u8>,
    fd: Option<OwnedFd>,
}

impl Input<'_> {
    fn frame(&mut self, max: usize) -> Result<Vec<u8>, Error> {
        self.bytes.clear();
        self.read(4)?;
        let length =
            u32::from_le_bytes([self.bytes[0], self.bytes[1], self.bytes[2], self.bytes[3]])
                as usize;
        if length > max {
            return Err(Error::Disconnected(frame::TooLong { length, max }.to_string()));
        }
        self.bytes.clear();
        self.read(length)?;
        Ok(std::mem::take(&mut self.bytes))
    }

    fn read(&mut self, n: usize) -> Result<(), Error> {
        let mut done = 0;
        self.bytes.resize(n, 0);
        while done < n {
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut slices = [io::IoSliceMut::new(&mut self.bytes[done..])];
            let got =
                match recvmsg(self.socket, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                    Ok(message) => message.bytes,
                    Err(rustix::io::Errno::INTR) => continue,
                    Err(error) => return Err(error.into()),
                };
            if got == 0 {
                return Err(Error::Disconnected("the node's daemon closed the connection".into()));
            }
            done += got;
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(fds) = message {
                    // The descriptor comes with the first byte of its message, whichever read that is in.
                    self.fd = self.fd.take().or(fds.into_iter().next());
                }
            }
        }
        Ok(())
    }
}

pub(crate) fn greeting(token: &str, role: Role, me: WorkerId) -> Hello {
    Hello {
        version: hello::VERSION,
        release: env!("CARGO_PKG_VERSION").into(),
        token: token.into(),
        role,
        worker_id: me,
        pid: std::process::id(),
        ..Hello::default()
    }
}

/// A path longer than a socket address holds is reached through its folder's descriptor.
fn short(path: &Path) -> io::Result<(std::path::PathBuf, Option<std::fs::File>)> {
    const LONGEST: usize = 100;
    if path.as_os_str().len() <= LONGEST {
        return Ok((path.to_owned(), None));
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let folder = std::fs::File::open(folder)?;
    let number = std::os::fd::AsRawFd::as_raw_fd(&folder);
    Ok((Path::new("/proc/self/fd").join(number.to_string()).join(name), Some(folder)))
}

pub(crate) fn unix_connect(path: &Path) -> io::Result<UnixStream> {
    let (path, _folder) = short(path)?;
    UnixStream::connect(path)
}

pub(crate) fn unix_listen(path: &Path) -> io::Result<UnixListener> {
    let (path, _folder) = short(path)?;
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Connects to another machine, through the entrance to the cluster where there is one.
pub(crate) fn tcp_connect(
    host: &str,
    port: u32,
    entrance: Option<&Entrance>,
) -> io::Result<TcpStream> {
    let port = u16::try_from(port).map_err(|_| io::ErrorKind::InvalidInput)?;
    if let Some(detour) = entrance.map(|entrance| entrance.to(host, port)) {
        let mut stream = TcpStream::connect_timeout(&detour.at, CONNECT_WAIT)?;
        io::Write::write_all(&mut stream, &detour.preface)?;
        return Ok(stream);
    }
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_WAIT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Connects to another machine, encrypted where this process is told to: then the session takes the greeting.
fn machine_connect(
    host: &str,
    port: u32,
    hello: &Hello,
    entrance: Option<&Entrance>,
) -> io::Result<(Socket, Option<Box<Session>>)> {
    let mut socket = tcp_connect(host, port, entrance)?;
    let session = begin_session(&mut socket, host, hello)?;
    Ok((Socket::Tcp(socket), session.map(Box::new)))
}

/// Says whom the connection is for, in the clear, and begins a session; `None`: nothing is encrypted here.
pub(crate) fn begin_session(
    socket: &mut TcpStream,
    host: &str,
    hello: &Hello,
) -> io::Result<Option<Session>> {
    let Some(identity) = helio_tls::current().map_err(io::Error::other)? else { return Ok(None) };
    let session = identity.connect(host).map_err(io::Error::other)?;
    let mut routing = Vec::new();
    put(&mut routing, &hello.routing());
    io::Write::write_all(socket, &routing)?;
    Ok(Some(session))
}

fn put<M: Wire>(out: &mut Vec<u8>, message: &M) {
    frame::put(out, |b| b.extend_from_slice(&helio_proto::encode(message)));
}

impl State {
    pub(crate) fn add_conn(
        &mut self,
        link: u64,
        socket: Socket,
        greeting: Greeting,
    ) -> io::Result<()> {
        socket.set_nonblocking()?;
        let before = self.conns.insert(link, Conn::new(socket, greeting));
        assert!(before.is_none(), "a link's socket would be closed under it");
        let watched = self.watch(link);
        if watched.is_err() {
            self.conns.remove(&link);
        }
        watched
    }

    fn watch(&self, link: u64) -> io::Result<()> {
        let Some(conn) = self.conns.get(&link) else { return Ok(()) };
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        let data = epoll::EventData::new_u64(FIRST_LINK + link);
        Ok(epoll::add(&self.epoll, conn.socket.as_fd(), data, flags)?)
    }

    /// Opens the connection of a new link, and greets.
    pub(crate) fn connect(&mut self, link: u64, to: &Peer) {
        let own_node = self.process.address().node_id;
        let hello = self.hello(to);
        let entrance = Entrance::at(self.options.entrance, &self.options.token);
        let opened = match to {
            Peer::Process(address) if address.node_id == own_node => {
                let path = self.sockets_dir.join(address.worker_id.socket_name());
                unix_connect(&path).map(|socket| (Socket::Unix(socket), None))
            }
            Peer::Process(address) if address.port != 0 => {
                machine_connect(&address.host, address.port, &hello, entrance.as_ref())
            }
            Peer::RemoteNode(address) => {
                machine_connect(&address.host, address.port, &hello, entrance.as_ref())
            }
            // A process without a port is reached on its own machine alone.
            Peer::Process(_) | Peer::Node => Err(io::ErrorKind::NotFound.into()),
        };
        let added = opened.and_then(|(socket, session)| {
            self.add_conn(link, socket, Greeting::Sent)?;
            Ok(session)
        });
        match added {
            Ok(session) => {
                tracing::debug!(link, ?to, "connecting");
                if let Some(conn) = self.conns.get_mut(&link) {
                    conn.session = session;
                    put(&mut conn.preface, &hello);
                }
                self.process.links().touch(link);
            }
            Err(error) => {
                tracing::info!(link, ?to, %error, "no connection");
                self.apply(Event::Unreached { link });
            }
        }
    }

    /// The greeting of a new link.
    fn hello(&mut self, to: &Peer) -> Hello {
        let (to, to_process, to_node) = match to {
            Peer::Process(address) => (Destination::Process, address.worker_id, address.node_id),
            Peer::RemoteNode(address) => (Destination::Daemon, WorkerId::NIL, address.node_id),
            Peer::Node => (Destination::Daemon, WorkerId::NIL, NodeId::NIL),
        };
        let role = if self.options.is_driver { Role::Driver } else { Role::Worker };
        let epoch = self.process.links().epoch(to_process);
        let me = self.process.address();
        Hello {
            node_id: me.node_id,
            host: me.host.clone(),
            port: me.port,
            to: to as u32,
            to_process,
            to_node,
            epoch,
            ..greeting(&self.options.token, role, me.worker_id)
        }
    }

    /// Takes in a connection that another process opened.
    pub(crate) fn add_stranger(&mut self, socket: Socket) {
        let link = self.process.links().mint();
        if self.add_conn(link, socket, Greeting::Expected).is_err() {
            return;
        }
        self.apply(Event::Opened { link });
    }

    /// Reads what a connection has; an error is how it ended.
    pub(crate) fn read_conn(&mut self, link: u64) -> Result<(), Ending> {
        let Some(conn) = self.conns.get_mut(&link) else { return Ok(()) };
        let open = if conn.greeting == Greeting::Expected && conn.session.is_none() {
            self.fill_stranger(link)
        } else {
            conn.fill()
        };
        let Some(conn) = self.conns.get_mut(&link) else { return Ok(()) };
        let mut input = conn.take_input();
        let result = self.take_frames(link, &mut input);
        let Some(conn) = self.conns.get_mut(&link) else { return Ok(()) };
        conn.put_input(input);
        if conn.is_due() {
            self.flush_one(link);
        }
        result?;
        // The bytes that came before the error were read, too.
        let reason = match open {
            Ok(true) => return Ok(()),
            Ok(false) => Cow::Borrowed(CLOSED),
            Err(error) => error.to_string().into(),
        };
        // All bytes that were written into a connection of this machine are here, however its other end ended.
        let is_whole = self.conns.get(&link).is_some_and(|conn| conn.socket.is_of_this_machine());
        Err(Ending { is_complete: is_whole || reason == CLOSED, reason })
    }

    /// Tells the machine of the whole frames that were read. They came together, so they have one time.
    fn take_frames(&mut self, link: u64, input: &mut Received) -> Result<(), String> {
        let now = self.now();
        // A frame may end the greeting, and the connection.
        while let Some(conn) = self.conns.get(&link) {
            let greeting = conn.greeting;
            let frame = input.next(conn.frame_max()).map_err(|error| error.to_string())?;
            let Some(bytes) = frame else { break };
            match greeting {
                Greeting::Done => self.apply_one_of_many(Event::Frame { link, bytes }, now),
                Greeting::Sent => self.welcomed(link, bytes)?,
                Greeting::Expected => {
                    if self.greeted_by(link, bytes)?
                        && let Some(conn) = self.conns.get_mut(&link)
                    {
                        conn.read_in_session(input).map_err(|error| error.to_string())?;
                    }
                }
            }
        }
        self.execute_actions();
        Ok(())
    }

    /// Reads what a stranger has. The daemon hands connections of other machines over: then the descriptor
    /// that comes takes the place of the connection that it came by.
    fn fill_stranger(&mut self, link: u64) -> io::Result<bool> {
        let Some(conn) = self.conns.get_mut(&link) else { return Ok(true) };
        let (open, fd) = conn.fill_with_fd()?;
        let Some(fd) = fd else { return Ok(open) };
        let socket = Socket::handed_over(fd)?;
        let former = std::mem::replace(&mut conn.socket, socket);
        epoll::delete(&self.epoll, former.as_fd())?;
        self.watch(link)?;
        Ok(true)
    }

    /// A stranger's first frame. `true`: it only announces a session, in which the greeting comes.
    fn greeted_by(&mut self, link: u64, bytes: &[u8]) -> Result<bool, String> {
        let hello: Hello =
            helio_proto::decode(bytes).map_err(|_| "its greeting is malformed".to_owned())?;
        let refused = self.refused_as_it_comes(link, &hello)?;
        // The token comes in the session only: in the clear anybody could read it.
        if hello.is_encrypted && refused.is_none() {
            return Ok(true);
        }
        let refused = refused.or_else(|| hello::refusal(&hello, &self.options.token));
        let me = self.process.address();
        let answer = refused.clone().map(Welcome::refusing).unwrap_or_default();
        let welcome = Welcome {
            version: hello::VERSION,
            worker_id: me.worker_id,
            node_id: me.node_id,
            pid: std::process::id(),
            ..answer
        };
        let Some(conn) = self.conns.get_mut(&link) else { return Ok(false) };
        put(&mut conn.preface, &welcome);
        if let Some(refused) = refused {
            // The reason has to go out before the socket is closed.
            conn.flush(None);
            return Err(refused.text);
        }
        conn.greeting = Greeting::Done;
        let from = WorkerAddress {
            worker_id: hello.worker_id,
            node_id: hello.node_id,
            host: hello.host,
            port: hello.port,
        };
        self.apply(Event::Accepted { link, from, epoch: hello.epoch });
        self.process.links().touch(link);
        Ok(false)
    }

    /// **TLS-1** Why a stranger is refused that comes in the clear and should not, or the other way round; a session
    /// that is announced begins.
    fn refused_as_it_comes(&mut self, link: u64, hello: &Hello) -> Result<Option<Refusal>, String> {
        let identity = helio_tls::current().map_err(|error| error.to_string())?;
        let Some(conn) = self.conns.get_mut(&link) else { return Ok(None) };
        let is_secured = conn.session.is_some() || conn.socket.is_of_this_machine();
        let wanted = identity.filter(|_| !is_secured);
        Ok(match (wanted, hello.is_encrypted) {
            (None, false) => None,
            (Some(identity), true) => {
                let session = identity.accept().map_err(|error| error.to_string())?;
                conn.session = Some(Box::new(session));
                None
            }
            (Some(_), false) => Some(hello::wrong_transport(true)),
            (None, true) => Some(hello::wrong_transport(false)),
        })
    }

    /// The greeting of this process was answered.
    fn welcomed(&mut self, link: u64, bytes: &[u8]) -> Result<(), String> {
        let welcome: Welcome =
            helio_proto::decode(bytes).map_err(|_| "its welcome is malformed".to_owned())?;
        let welcome = welcome.accepted()?;
        if let Some(conn) = self.conns.get_mut(&link) {
            conn.greeting = Greeting::Done;
        }
        // The port of a process that has ended may be another's now.
        if let Some(Peer::Process(address)) = self.process.links().peer(link)
            && address.worker_id != welcome.worker_id
        {
            return Err("another process answers at its address".into());
        }
        self.apply(Event::Greeted { link });
        Ok(())
    }

    /// A connection is over, and why. What was refused is said once, not as often as somebody tries.
    pub(crate) fn conn_ended(&mut self, link: u64, ending: &Ending) {
        let now = self.now();
        let Some(conn) = self.close_socket(link) else { return };
        let reason = ending.reason.as_ref();
        tracing::debug!(link, reason, "connection ended");
        let what = match conn.greeting {
            Greeting::Expected => Some("a connection was refused"),
            Greeting::Sent if conn.session.is_some() => Some("another machine is not reached"),
            Greeting::Sent | Greeting::Done => None,
        };
        if let Some(what) = what
            && reason != CLOSED
            && self.refusal_logged.is_none_or(|at| now >= at + REFUSAL_LOG_US)
        {
            self.refusal_logged = Some(now);
            let text = format!("{what}: {reason}");
            self.tell_user(Notice { is_warning: true, text });
        }
        // The greeting goes out first: where it did not, nothing else did.
        let is_unreached = conn.greeting == Greeting::Sent && !conn.preface.is_empty();
        self.apply(match is_unreached {
            true => Event::Unreached { link },
            false => Event::Closed { link, is_complete: ending.is_complete },
        });
    }

    /// Ends the writing to other processes. Returns the links whose other end has still to read.
    pub(crate) fn end_writing(&self) -> Vec<u64> {
        let is_unread = |(link, conn): (&u64, &Conn)| {
            let is_done = conn.greeting == Greeting::Done;
            (is_done && conn.socket.end_writing()).then_some(*link)
        };
        self.conns.iter().filter_map(is_unread).collect()
    }

    pub(crate) fn close_socket(&mut self, link: u64) -> Option<Conn> {
        let conn = self.conns.remove(&link)?;
        let _ = epoll::delete(&self.epoll, conn.socket.as_fd());
        self.news = true;
        Some(conn)
    }
}
