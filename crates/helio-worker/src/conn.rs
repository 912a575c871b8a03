//! Connections: bytes in, bytes out, without blocking.

use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use helio_process_state::Output;
use helio_proto::frame;
use helio_tls::Session;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::sockopt::socket_domain;
use rustix::net::{AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// Bytes that are encrypted at a time.
const PIECE: usize = 64 << 10;

/// The size of one read or write, in bytes.
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

    /// A connection of another machine that the daemon accepted. **AUTH-1** Only the owner of the folder
    /// reaches the socket that it came by, and its greeting is checked all the same.
    pub(crate) fn handed_over(fd: OwnedFd) -> io::Result<Self> {
        if !matches!(socket_domain(&fd)?, AddressFamily::INET | AddressFamily::INET6) {
            return Err(io::Error::other("the descriptor is not a connection of a machine"));
        }
        let socket = Self::Tcp(TcpStream::from(fd));
        socket.set_nonblocking()?;
        Ok(socket)
    }

    /// Ends the writing. Returns whether the other end has still to take what was written: a connection of two machines
    /// keeps it here until then, one of this machine has handed it over.
    pub(crate) fn end_writing(&self) -> bool {
        match self {
            Self::Unix(_) => false,
            Self::Tcp(socket) => socket.shutdown(Shutdown::Write).is_ok(),
        }
    }

    pub(crate) fn is_of_this_machine(&self) -> bool {
        matches!(self, Self::Unix(_))
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

/// The progress of a connection's greeting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Greeting {
    /// The other end has connected and has not said who it is.
    Expected,
    /// The greeting was sent and not answered yet.
    Sent,
    /// The two ends know each other.
    Done,
}

/// The bytes that a connection has read, and how many of them were taken.
#[derive(Debug, Default)]
pub(crate) struct Received {
    bytes: Vec<u8>,
    taken: usize,
}

impl Received {
    /// The next whole frame, if there is one.
    pub(crate) fn next(&mut self, frame_max: usize) -> Result<Option<&[u8]>, frame::TooLong> {
        let rest = &self.bytes[self.taken..];
        let Some((start, end)) = frame::split(rest, frame_max)? else { return Ok(None) };
        self.taken += end;
        Ok(Some(&rest[start..end]))
    }

    /// Removes the bytes that were read and not taken, for the session to take up.
    fn take_rest(&mut self) -> Vec<u8> {
        let rest = self.bytes.split_off(std::mem::take(&mut self.taken));
        self.bytes.clear();
        rest
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) socket: Socket,
    pub(crate) greeting: Greeting,
    input: Received,
    /// Between machines, where that is encrypted.
    pub(crate) session: Option<Box<Session>>,
    /// The greeting of this end, which goes out before the link's output.
    pub(crate) preface: Vec<u8>,
    /// The socket took no more; `epoll` says when it does again.
    pub(crate) stuffed: bool,
    /// Whether the other end takes nothing any more. Its last frames may still be unread: the connection ends when they
    /// were read.
    is_deaf: bool,
}

impl Conn {
    pub(crate) fn new(socket: Socket, greeting: Greeting) -> Self {
        Self {
            socket,
            greeting,
            input: Received::default(),
            session: None,
            preface: Vec::new(),
            stuffed: false,
            is_deaf: false,
        }
    }

    /// Reads what is there. `Ok(false)`: the other end has closed.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        let Received { bytes, taken } = &mut self.input;
        bytes.drain(..std::mem::take(taken));
        if let Some(session) = &mut self.session {
            return fill_session(&self.socket, session, bytes);
        }
        loop {
            let start = bytes.len();
            // A frame that has begun tells how much is to come: read it in few calls.
            let announced =
                bytes.first_chunk::<4>().map_or(0, |head| u32::from_le_bytes(*head) as usize + 4);
            // The bound keeps a frame that is only announced from taking its room before its bytes come (LIMIT-1).
            bytes.reserve(announced.saturating_sub(start).clamp(CHUNK, 16 * CHUNK));
            let room = bytes.capacity() - start;
            match rustix::io::read(&self.socket, spare_capacity(bytes)) {
                // The socket had no more: another read would only find that out.
                Ok(n) if n < room => return Ok(n > 0),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads what of a greeting is there, and the descriptor that may come with it. `false`: the other end
    /// has closed.
    pub(crate) fn fill_with_fd(&mut self) -> io::Result<(bool, Option<OwnedFd>)> {
        let mut bytes = [0; frame::HELLO_MAX + 4];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [io::IoSliceMut::new(&mut bytes)];
        let got = match recvmsg(&self.socket, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        {
            Ok(message) => message.bytes,
            Err(Errno::AGAIN | Errno::INTR) => return Ok((true, None)),
            Err(error) => return Err(error.into()),
        };
        self.input.bytes.extend_from_slice(&bytes[..got]);
        let fds = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        Ok((got > 0, fds.and_then(|mut fds| fds.next())))
    }

    /// The longest frame that the other end may send now, in bytes.
    pub(crate) fn frame_max(&self) -> usize {
        if self.greeting == Greeting::Done { frame::FRAME_MAX } else { frame::HELLO_MAX }
    }

    /// Takes the input out, so that its frames can be read while the state changes.
    pub(crate) fn take_input(&mut self) -> Received {
        std::mem::take(&mut self.input)
    }

    /// Puts the input back.
    pub(crate) fn put_input(&mut self, input: Received) {
        assert!(self.input.bytes.is_empty(), "what was read meanwhile would be lost");
        self.input = input;
    }

    /// The bytes behind the frame that announced the session belong to the session.
    pub(crate) fn read_in_session(&mut self, input: &mut Received) -> io::Result<()> {
        let Some(session) = &mut self.session else { return Ok(()) };
        let taken = session.take(&input.take_rest());
        session.hand_over(&mut input.bytes);
        taken.map_err(io::Error::other)
    }

    /// Whether something is to be written that is neither the greeting nor the link's output.
    pub(crate) fn is_due(&self) -> bool {
        let is_due = |session: &Session| {
            !session.outgoing().is_empty() || (session.is_open() && !self.preface.is_empty())
        };
        self.session.as_deref().is_some_and(is_due)
    }

    /// Writes what the socket takes of the greeting and the link's output.
    pub(crate) fn flush(&mut self, output: Option<&mut Output>) {
        self.stuffed = false;
        if !self.is_deaf && self.write_out(output).is_err() {
            self.is_deaf = true;
        }
    }

    fn write_out(&mut self, output: Option<&mut Output>) -> io::Result<()> {
        if self.session.is_some() {
            return self.write_session(output);
        }
        while !self.preface.is_empty() {
            match write(&mut self.socket, &self.preface)? {
                Some(n) => drop(self.preface.drain(..n)),
                None => return self.is_stuffed(),
            }
        }
        let Some(output) = output else { return Ok(()) };
        // After the greeting, which the other end expects first.
        while output.unwritten() > 0 {
            match write(&mut self.socket, output.pending())? {
                Some(n) => output.advance(n),
                None => return self.is_stuffed(),
            }
        }
        Ok(())
    }

    /// Writes through the session: one piece at a time, so that what cannot go out yet stays with the link.
    fn write_session(&mut self, mut output: Option<&mut Output>) -> io::Result<()> {
        let Some(session) = &mut self.session else { return Ok(()) };
        loop {
            while !session.outgoing().is_empty() {
                match write(&mut self.socket, session.outgoing())? {
                    Some(n) => session.sent(n),
                    None => {
                        self.stuffed = true;
                        return Ok(());
                    }
                }
            }
            // Before the handshake is over nothing can be said in the session.
            if !session.is_open() {
                return Ok(());
            }
            if !self.preface.is_empty() {
                session.say(&self.preface).map_err(io::Error::other)?;
                self.preface.clear();
                continue;
            }
            let Some(output) = output.as_deref_mut().filter(|output| output.unwritten() > 0) else {
                return Ok(());
            };
            let pending = output.pending();
            let piece = &pending[..pending.len().min(PIECE)];
            session.say(piece).map_err(io::Error::other)?;
            output.advance(piece.len());
        }
    }

    fn is_stuffed(&mut self) -> io::Result<()> {
        self.stuffed = true;
        Ok(())
    }
}

/// Reads what is there into the session, and what was said in it into `bytes`.
fn fill_session(socket: &Socket, session: &mut Session, bytes: &mut Vec<u8>) -> io::Result<bool> {
    let open = loop {
        let room = session.room();
        let full = room.len();
        match rustix::io::read(socket, room) {
            Ok(0) => break Ok(false),
            Ok(n) => match session.came(n) {
                Ok(()) if n == full => {}
                Ok(()) => break Ok(true),
                Err(error) => break Err(io::Error::other(error)),
            },
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => break Ok(true),
            Err(error) => break Err(error.into()),
        }
    };
    // Also after an error: what came before it was said by the other end.
    session.hand_over(bytes);
    open.map(|is_open| is_open && !session.has_ended())
}

/// Writes once; `None`: the socket takes nothing now.
fn write(socket: &mut Socket, bytes: &[u8]) -> io::Result<Option<usize>> {
    loop {
        match socket.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => return Ok(Some(n)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
