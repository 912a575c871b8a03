//! Connections: bytes in, bytes out, without blocking.

use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use helio_owner_state::IdMap;
use helio_proto::frame;
use helio_proto::peer::Template;
use helio_types::{LeaseId, NodeAddress, WorkerAddress};
use rustix::buffer::spare_capacity;
use rustix::io::Errno;

use crate::api::Lease;
use crate::templates::{FUNCTIONS_MAX, Function, SENT_MAX, Sent};

/// What is written at one go, and read at one go, in bytes.
const CHUNK: usize = 64 << 10;

/// A socket of either kind.
#[derive(Debug)]
pub(crate) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    pub(crate) fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Unix(socket) => socket.set_nonblocking(true),
            Self::Tcp(socket) => {
                socket.set_nodelay(true).and_then(|()| socket.set_nonblocking(true))
            }
        }
    }

    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(socket) => socket.write(buf),
            Self::Tcp(socket) => socket.write(buf),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(socket) => socket.as_fd(),
            Self::Tcp(socket) => socket.as_fd(),
        }
    }
}

/// Who is at the other end.
#[derive(Debug, Clone)]
pub(crate) enum Peer {
    /// Our node's daemon.
    Node,
    /// The daemon of another node, which lends us workers.
    RemoteNode(NodeAddress),
    /// A driver or worker.
    Process(Arc<WorkerAddress>),
    /// Somebody who has not said yet who they are.
    Stranger,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) socket: Socket,
    pub(crate) peer: Peer,
    /// Whether the other end's first frame (`Hello` or `Welcome`) has come.
    pub(crate) greeted: bool,
    input: Vec<u8>,
    /// How much of `input` was taken.
    taken: usize,
    pub(crate) output: Vec<u8>,
    written: usize,
    /// The socket took no more; `epoll` says when it does again.
    pub(crate) stuffed: bool,
    /// Calls sent here that were not replied to.
    pub(crate) unanswered: usize,
    /// The other end sends what it has for us here: a later line of its own means that this one broke.
    pub(crate) speaks: bool,
    /// Functions that the other end has, and those that it sent.
    pub(crate) functions_sent: Sent<Function>,
    pub(crate) functions: IdMap<u32, Function>,
    /// Templates that the other end has.
    pub(crate) templates_sent: Sent<Arc<Template>>,
    /// Templates that the other end sent.
    pub(crate) templates: IdMap<u32, Arc<Template>>,
    /// Leases under which the other end sends us tasks.
    pub(crate) leases: IdMap<LeaseId, Arc<Lease>>,
}

impl Conn {
    pub(crate) fn new(socket: Socket, peer: Peer) -> Self {
        Self {
            socket,
            peer,
            greeted: false,
            input: Vec::new(),
            taken: 0,
            output: Vec::new(),
            written: 0,
            stuffed: false,
            unanswered: 0,
            speaks: false,
            functions_sent: Sent::new(FUNCTIONS_MAX),
            functions: IdMap::default(),
            templates_sent: Sent::new(SENT_MAX),
            templates: IdMap::default(),
            leases: IdMap::default(),
        }
    }

    /// Reads what is there. `Ok(false)`: the other end has closed.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        if self.taken > 0 {
            self.input.drain(..self.taken);
            self.taken = 0;
        }
        loop {
            let start = self.input.len();
            // A frame that has begun tells how much is to come: read it in few calls.
            let announced = self
                .input
                .first_chunk::<4>()
                .map_or(0, |head| u32::from_le_bytes(*head) as usize + 4);
            self.input.reserve(announced.saturating_sub(start).clamp(CHUNK, 16 * CHUNK));
            let room = self.input.capacity() - start;
            match rustix::io::read(&self.socket, spare_capacity(&mut self.input)) {
                Ok(n) if n < room => return Ok(n > 0),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The next whole frame's extent in [`Conn::frame`]'s buffer, if there is one.
    pub(crate) fn next(&mut self) -> Result<Option<(usize, usize)>, frame::TooLong> {
        let max = if self.greeted { frame::FRAME_MAX } else { frame::HELLO_MAX };
        let Some((start, end)) = frame::split(&self.input[self.taken..], max)? else {
            return Ok(None);
        };
        let extent = (self.taken + start, self.taken + end);
        self.taken = extent.1;
        Ok(Some(extent))
    }

    /// Takes the input out, so that its frames can be read while the state changes.
    pub(crate) fn take_input(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.input)
    }

    /// Puts the input back.
    pub(crate) fn put_input(&mut self, input: Vec<u8>) {
        self.input = input;
    }

    /// Writes what the socket takes.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.written < self.output.len() {
            match self.socket.write(&self.output[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.written += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.stuffed = true;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.stuffed = false;
        self.written = 0;
        self.output.clear();
        if self.output.capacity() > 16 * CHUNK {
            self.output.shrink_to(CHUNK);
        }
        Ok(())
    }

    /// Bytes that wait to be written.
    pub(crate) fn unwritten(&self) -> usize {
        self.output.len() - self.written
    }
}
