//! Making and greeting connections.

use std::io;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use helio_owner_state::Event;
use helio_proto::frame;
use helio_proto::hello::{self, Hello, Role, Welcome};
use helio_proto::node::{ClientToNode, NodeToClient, Notice, Register, Registered};
use helio_types::{NodeAddress, WorkerAddress, WorkerId};
use rustix::event::epoll;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::api::{Error, Options};
use crate::conn::{Conn, Peer, Socket};
use crate::state::State;

/// How long a connection to another machine may take to be made.
const CONNECT_WAIT: Duration = Duration::from_secs(5);
/// How long a connection may take to greet, in microseconds.
const GREETING_WAIT_US: u64 = 10_000_000;
/// How many connections may owe their greeting at a time; beyond, the oldest is dropped.
const STRANGERS_MAX: usize = 256;
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

/// Joins the node: greets its daemon, registers, and takes the store's memory file.
pub(crate) fn register(
    options: &Options,
    me: WorkerId,
    port: u16,
) -> Result<(UnixStream, Registered, Option<OwnedFd>), Error> {
    let socket = unix_connect(&options.node_socket).map_err(|error| {
        Error::Disconnected(format!(
            "the node's daemon does not answer at {}: {error}",
            options.node_socket.display()
        ))
    })?;
    let role = if options.is_driver { Role::Driver } else { Role::Worker };
    let hello = greeting(&options.token, role, me);
    let register = Register {
        worker_id: me,
        port: u32::from(port),
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
    if !welcome.refused.is_empty() {
        return Err(Error::Disconnected(welcome.refused));
    }
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
                    self.fd = self.fd.take().or(fds.into_iter().next());
                }
            }
        }
        Ok(())
    }
}

fn greeting(token: &str, role: Role, me: WorkerId) -> Hello {
    Hello {
        version: hello::VERSION,
        release: env!("CARGO_PKG_VERSION").into(),
        token: token.into(),
        role: role as u32,
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

pub(crate) fn tcp_listen(host: &str) -> io::Result<(TcpListener, u16)> {
    let listener = TcpListener::bind((if host.is_empty() { "127.0.0.1" } else { host }, 0))?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    Ok((listener, port))
}

fn tcp_connect(host: &str, port: u32) -> io::Result<TcpStream> {
    let port = u16::try_from(port).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_WAIT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl State {
    pub(crate) fn add_conn(&mut self, socket: Socket, peer: Peer) -> io::Result<u64> {
        socket.set_nonblocking()?;
        self.next_conn += 1;
        let number = self.next_conn;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        epoll::add(&self.epoll, socket.as_fd(), epoll::EventData::new_u64(number), flags)?;
        self.conns.insert(number, Conn::new(socket, peer));
        Ok(number)
    }

    fn greet(&mut self, number: u64) {
        let role = if self.options.is_driver { Role::Driver } else { Role::Worker };
        let me = self.owner.address().clone();
        let hello = Hello {
            node_id: me.node_id,
            host: me.host.clone(),
            port: me.port,
            ..greeting(&self.options.token, role, me.worker_id)
        };
        if let Some(conn) = self.conns.get_mut(&number) {
            frame::put(&mut conn.output, |b| b.extend_from_slice(&helio_proto::encode(&hello)));
        }
        self.touch(number);
    }

    /// The connection to a process, made now if there is none.
    pub(crate) fn peer(&mut self, address: &Arc<WorkerAddress>) -> Option<u64> {
        if let Some(number) = self.peers.get(&address.worker_id) {
            return Some(*number);
        }
        let same_node = address.node_id == self.owner.address().node_id;
        let socket = if same_node {
            unix_connect(&self.sockets_dir.join(address.worker_id.socket_name())).map(Socket::Unix)
        } else if address.port != 0 {
            tcp_connect(&address.host, address.port).map(Socket::Tcp)
        } else {
            Err(io::ErrorKind::NotFound.into())
        };
        let number =
            socket.and_then(|socket| self.add_conn(socket, Peer::Process(address.clone())));
        match number {
            Ok(number) => {
                self.peers.insert(address.worker_id, number);
                self.greet(number);
                Some(number)
            }
            Err(_) => {
                let now = self.now();
                self.owner.apply(Event::PeerLost { peer: address.clone() }, now, &mut self.actions);
                None
            }
        }
    }

    /// The connection to another node's daemon, made now if there is none.
    pub(crate) fn remote_node(&mut self, address: &NodeAddress) -> Option<u64> {
        if address.node_id == self.owner.address().node_id {
            return Some(self.node);
        }
        if let Some(number) = self.nodes.get(&address.node_id) {
            return Some(*number);
        }
        let socket = tcp_connect(&address.host, address.port).map(Socket::Tcp);
        match socket.and_then(|socket| self.add_conn(socket, Peer::RemoteNode(address.clone()))) {
            Ok(number) => {
                self.nodes.insert(address.node_id, number);
                self.greet(number);
                let me = self.owner.address().clone();
                let register = Register {
                    worker_id: me.worker_id,
                    port: me.port,
                    pid: std::process::id(),
                    is_driver: self.options.is_driver,
                    remote: true,
                    ..Register::default()
                };
                self.send_node(number, &register.into());
                Some(number)
            }
            Err(_) => {
                let now = self.now();
                self.owner.apply(Event::NodeLost { node: address.node_id }, now, &mut self.actions);
                None
            }
        }
    }

    /// Somebody connected.
    pub(crate) fn add_stranger(&mut self, socket: Socket) {
        let Ok(number) = self.add_conn(socket, Peer::Stranger) else { return };
        self.strangers.push_back((number, self.now() + GREETING_WAIT_US));
        if self.strangers.len() > STRANGERS_MAX
            && let Some((oldest, _)) = self.strangers.pop_front()
        {
            self.conn_ended(oldest, "too many connections wait to greet");
        }
    }

    /// When the next connection must have greeted.
    pub(crate) fn strangers_due(&self) -> Option<u64> {
        self.strangers.front().map(|(_, due)| *due)
    }

    pub(crate) fn drop_silent_strangers(&mut self) {
        let now = self.now();
        while let Some((number, due)) = self.strangers.front().copied()
            && due <= now
        {
            self.strangers.pop_front();
            self.conn_ended(number, "it did not greet in time");
        }
    }

    /// A connection is over, and why. What was refused is said once, not as often as somebody tries.
    pub(crate) fn conn_ended(&mut self, number: u64, reason: &str) {
        let stranger =
            self.conns.get(&number).is_some_and(|conn| matches!(conn.peer, Peer::Stranger));
        let now = self.now();
        if stranger
            && reason != "closed"
            && self.refusal_logged.is_none_or(|at| now >= at + REFUSAL_LOG_US)
        {
            self.refusal_logged = Some(now);
            let text = format!("a connection was refused: {reason}");
            self.tell_user(Notice { is_warning: true, text });
        }
        self.drop_conn(number);
    }

    /// A stranger's first frame.
    pub(crate) fn greeted_by(&mut self, number: u64, bytes: &[u8]) -> Result<(), String> {
        let hello: Hello =
            helio_proto::decode(bytes).map_err(|_| "its greeting is malformed".to_owned())?;
        let refused = hello::refusal(&hello, &self.options.token);
        let me = self.owner.address().clone();
        let welcome = Welcome {
            refused: refused.clone().unwrap_or_default(),
            version: hello::VERSION,
            worker_id: me.worker_id,
            node_id: me.node_id,
            pid: std::process::id(),
            features: 0,
        };
        let Some(conn) = self.conns.get_mut(&number) else { return Ok(()) };
        frame::put(&mut conn.output, |b| b.extend_from_slice(&helio_proto::encode(&welcome)));
        if let Some(refused) = refused {
            let _ = conn.flush();
            return Err(refused);
        }
        let address = WorkerAddress {
            worker_id: hello.worker_id,
            node_id: hello.node_id,
            host: hello.host,
            port: hello.port,
        };
        conn.greeted = true;
        conn.peer = Peer::Process(Arc::new(address));
        conn.speaks = true;
        let older = self.peers.get(&hello.worker_id).copied();
        if let Some(older) =
            older.filter(|older| self.conns.get(older).is_some_and(|conn| conn.speaks))
        {
            // The peer sends on one line at a time, so its older one broke and we have not heard of it yet:
            // an answer on it would go nowhere.
            self.drop_conn(older);
        }
        self.strangers.retain(|(stranger, _)| *stranger != number);
        // If both sides connected at once, each keeps sending on the line it has: order is kept per
        // sender, and that is all that is promised.
        self.peers.entry(hello.worker_id).or_insert(number);
        self.touch(number);
        Ok(())
    }

    /// Our greeting was answered.
    pub(crate) fn welcomed(&mut self, number: u64, bytes: &[u8]) -> Result<(), String> {
        let welcome: Welcome =
            helio_proto::decode(bytes).map_err(|_| "its welcome is malformed".to_owned())?;
        if !welcome.refused.is_empty() {
            return Err(welcome.refused);
        }
        if let Some(conn) = self.conns.get_mut(&number) {
            conn.greeted = true;
            if let Peer::Process(address) = &conn.peer
                && address.worker_id != welcome.worker_id
            {
                return Err("another process answers at its address".into());
            }
        }
        self.greeting_is_over(number);
        Ok(())
    }

    /// A connection is over.
    pub(crate) fn drop_conn(&mut self, number: u64) {
        let Some(conn) = self.conns.remove(&number) else { return };
        self.dirty.retain(|dirty| *dirty != number);
        let _ = epoll::delete(&self.epoll, conn.socket.as_fd());
        self.greeting_is_over(number);
        self.news = true;
        match conn.peer {
            Peer::Node => self.close("the node's daemon has ended"),
            Peer::RemoteNode(address) => {
                self.nodes.remove(&address.node_id);
                self.apply(Event::NodeLost { node: address.node_id });
            }
            Peer::Process(address) => {
                if self.peers.get(&address.worker_id) != Some(&number) {
                    // A second line to the same process: the first one still speaks for it.
                    return;
                }
                self.peers.remove(&address.worker_id);
                self.inbox.caller_gone(&address);
                self.no_answer_of(address.worker_id);
                self.apply(Event::PeerLost { peer: address });
            }
            Peer::Stranger => self.strangers.retain(|(stranger, _)| *stranger != number),
        }
    }
}
