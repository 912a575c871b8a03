//! A connected socket of either family.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, recv, recvmsg,
};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

use super::secure::Secure;

/// Bytes that are read at a time, and at most, of what a process that has ended had sent: the kernel keeps
/// far less.
const ARRIVED_SIZE: usize = 64 << 10;
const ARRIVED_MAX: usize = 64 << 20;

/// A connected socket of either family.
#[derive(Debug)]
pub enum Stream {
    /// A connection on this machine.
    Unix(UnixStream),
    /// Between machines, in the clear.
    Tcp(TcpStream),
    /// A connection between machines, encrypted.
    Secure(Box<Secure>),
}

impl From<UnixStream> for Stream {
    fn from(stream: UnixStream) -> Self {
        Self::Unix(stream)
    }
}

impl From<TcpStream> for Stream {
    /// Small frames must not wait for each other's acknowledgement.
    fn from(stream: TcpStream) -> Self {
        // The call fails only on a socket that is closed already, which the first read reports.
        let _ = stream.set_nodelay(true);
        Self::Tcp(stream)
    }
}

impl From<Secure> for Stream {
    fn from(secure: Secure) -> Self {
        Self::Secure(Box::new(secure))
    }
}

impl Stream {
    /// Reads what is there, waiting for the first byte; 0 at the end. Cancel safe.
    pub(super) async fn read(&self, out: &mut bytes::BytesMut) -> io::Result<usize> {
        loop {
            let outcome = match self {
                Self::Unix(s) => {
                    s.readable().await?;
                    s.try_read_buf(out)
                }
                Self::Tcp(s) => {
                    s.readable().await?;
                    read_all(s, out)
                }
                Self::Secure(s) => return s.read(out).await,
            };
            match outcome {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }

    /// Reads what has arrived, without waiting, and without asking the runtime whether something has: it
    /// may not have looked yet. A connection that broke has nothing more.
    pub(super) fn read_arrived(&self, out: &mut bytes::BytesMut) {
        if let Self::Secure(s) = self {
            return s.read_arrived(out, ARRIVED_MAX);
        }
        let mut some = vec![0; ARRIVED_SIZE];
        while out.len() < ARRIVED_MAX {
            match recv(self.as_fd(), &mut some[..], RecvFlags::DONTWAIT) {
                Ok((read, _)) if read > 0 => out.extend_from_slice(&some[..read]),
                Err(Errno::INTR) => {}
                _ => return,
            }
        }
    }

    /// Reads what there is room for, and over a UNIX socket the descriptor that came with it. Cancel safe.
    pub(super) async fn read_greeting(
        &self,
        out: &mut bytes::BytesMut,
    ) -> io::Result<(usize, Option<OwnedFd>)> {
        let Self::Unix(socket) = self else { return Ok((self.read(out).await?, None)) };
        loop {
            socket.readable().await?;
            let room = out.capacity() - out.len();
            match socket.try_io(Interest::READABLE, || receive_with_fd(socket.as_fd(), room, out)) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }

    /// Writes some of `bytes`, and with the first of them `fd`. Cancel safe, unless it is encrypted.
    pub(super) async fn write(
        &self,
        bytes: &[u8],
        fd: Option<BorrowedFd<'_>>,
    ) -> io::Result<usize> {
        loop {
            let outcome = match self {
                Self::Unix(s) => {
                    s.writable().await?;
                    match fd {
                        Some(fd) => {
                            s.try_io(Interest::WRITABLE, || send_with_fd(s.as_fd(), bytes, fd))
                        }
                        None => s.try_write(bytes),
                    }
                }
                Self::Tcp(s) => {
                    s.writable().await?;
                    s.try_write(bytes)
                }
                Self::Secure(s) => return s.write(bytes).await,
            };
            match outcome {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }

    /// Writes what the socket takes of `bytes` without waiting. What is encrypted is not written so.
    pub(super) fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(s) => s.try_write(bytes),
            Self::Tcp(s) => s.try_write(bytes),
            Self::Secure(_) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Whether its bytes are those that the kernel moves: what is encrypted passes through this process.
    pub(super) fn is_plain(&self) -> bool {
        !matches!(self, Self::Secure(_))
    }

    /// Does `read` when there is something to be read, until it does not have to wait. Cancel safe.
    pub(super) async fn when_readable<T>(
        &self,
        mut read: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            let outcome = match self {
                Self::Unix(s) => {
                    s.readable().await?;
                    s.try_io(Interest::READABLE, || read(s.as_fd()))
                }
                Self::Tcp(s) => {
                    s.readable().await?;
                    s.try_io(Interest::READABLE, || read(s.as_fd()))
                }
                Self::Secure(_) => return Err(io::ErrorKind::Unsupported.into()),
            };
            match outcome {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }

    /// Does `write` when there is room to write, until it does not have to wait. Cancel safe.
    pub(super) async fn when_writable<T>(
        &self,
        mut write: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            let outcome = match self {
                Self::Unix(s) => {
                    s.writable().await?;
                    s.try_io(Interest::WRITABLE, || write(s.as_fd()))
                }
                Self::Tcp(s) => {
                    s.writable().await?;
                    s.try_io(Interest::WRITABLE, || write(s.as_fd()))
                }
                Self::Secure(_) => return Err(io::ErrorKind::Unsupported.into()),
            };
            match outcome {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }

    /// Moves the connection to the runtime that calls this.
    pub(super) fn into_this_runtime(self) -> io::Result<Self> {
        Ok(match self {
            Self::Unix(s) => Self::Unix(UnixStream::from_std(s.into_std()?)?),
            Self::Tcp(s) => Self::Tcp(TcpStream::from_std(s.into_std()?)?),
            Self::Secure(s) => s.into_this_runtime()?.into(),
        })
    }

    /// Ends the connection in both directions; whoever reads it sees the end.
    pub(super) fn shutdown(&self) {
        // The call fails only where the peer was faster.
        let _ = rustix::net::shutdown(self.as_fd(), Shutdown::Both);
    }

    /// The peer's address without its port, which changes with every attempt.
    pub(super) fn source(&self) -> String {
        match self {
            Self::Unix(s) => {
                s.peer_cred().map_or_else(|_| "unix".to_owned(), |c| format!("user {}", c.uid()))
            }
            Self::Tcp(s) => ip_of(s),
            Self::Secure(s) => ip_of(&s.tcp),
        }
    }
}

/// Reads once. Where there was less than room for it nothing is left, and the runtime learns that without a second try: a
/// system call less for each message.
fn read_all(socket: &TcpStream, out: &mut bytes::BytesMut) -> io::Result<usize> {
    let room = out.capacity() - out.len();
    let mut rest = None;
    let outcome = socket.try_io(Interest::READABLE, || match socket.try_read_buf(out) {
        Ok(count) if 0 < count && count < room => {
            rest = Some(count);
            Err(io::ErrorKind::WouldBlock.into())
        }
        other => other,
    });
    rest.map_or(outcome, Ok)
}

fn ip_of(socket: &TcpStream) -> String {
    socket.peer_addr().map_or_else(|_| "tcp".to_owned(), |address| address.ip().to_string())
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(s) => s.as_fd(),
            Self::Tcp(s) => s.as_fd(),
            Self::Secure(s) => s.tcp.as_fd(),
        }
    }
}

fn receive_with_fd(
    socket: BorrowedFd<'_>,
    room: usize,
    out: &mut bytes::BytesMut,
) -> io::Result<(usize, Option<OwnedFd>)> {
    let start = out.len();
    out.resize(start + room, 0);
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let outcome = recvmsg(socket, &mut [IoSliceMut::new(&mut out[start..])], &mut ancillary, flags);
    out.truncate(start + outcome.as_ref().map_or(0, |message| message.bytes));
    let bytes = outcome?.bytes;
    let fds = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    Ok((bytes, fds.and_then(|mut fds| fds.next())))
}

fn send_with_fd(socket: BorrowedFd<'_>, bytes: &[u8], fd: BorrowedFd<'_>) -> io::Result<usize> {
    let fds = [fd];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(
        ancillary.push(SendAncillaryMessage::ScmRights(&fds)),
        "the space was made for one descriptor"
    );
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    Ok(rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, flags)?)
}
