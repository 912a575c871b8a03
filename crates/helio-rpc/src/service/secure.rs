//! An encrypted connection: a [`Session`] over a TCP socket. Its two halves belong to two tasks, and the lock between
//! them is held while one piece is encrypted or decrypted, and never across an await.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use helio_tls::{Error as TlsError, Session};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use tokio::net::TcpStream;

use super::error::Error;

/// Bytes that are encrypted at a time.
const PIECE: usize = 256 << 10;

/// An encrypted TCP connection that can be split into a reading and a writing half.
#[derive(Debug)]
pub struct Secure {
    pub(super) tcp: TcpStream,
    session: Mutex<Session>,
}

impl Secure {
    /// Takes the handshake to its end. `before` goes out first, in the clear; `early` was read from the socket already.
    pub(super) async fn shake_hands(
        tcp: TcpStream,
        mut session: Session,
        mut before: &[u8],
        early: &[u8],
    ) -> Result<Self, Error> {
        while !before.is_empty() {
            tcp.writable().await?;
            match tcp.try_write(before) {
                Ok(count) => before = &before[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        let outcome = session.take(early);
        let secure = Self { tcp, session: Mutex::new(session) };
        secure.or_told(outcome)?;
        loop {
            secure.flush().await?;
            if secure.lock().is_open() {
                return Ok(secure);
            }
            secure.tcp.readable().await?;
            match secure.pull() {
                Ok(0) => return Err(Error::Truncated),
                Ok(_) => {}
                Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads what is there, waiting for the first byte; 0 at the end. Cancel safe.
    pub(super) async fn read(&self, out: &mut bytes::BytesMut) -> io::Result<usize> {
        loop {
            if let Some(count) = self.taken(out) {
                return Ok(count);
            }
            if !self.pull_some().await? {
                return Ok(0);
            }
        }
    }

    /// Reads from the socket once there is something; false at the end. Cancel safe.
    async fn pull_some(&self) -> io::Result<bool> {
        self.tcp.readable().await?;
        match self.pull() {
            // An end that was not announced is an end like any other: the process may have been killed.
            Ok(count) => Ok(count > 0),
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
            Err(Error::Io(error)) => Err(error),
            Err(error) => Err(io::Error::other(TlsError(error.to_string()))),
        }
    }

    /// Hands what was said inside the session to `take`, at most `max` bytes of it, waiting for the first of them; how many
    /// there were, 0 at the end. Cancel safe.
    pub(super) async fn read_with(
        &self,
        max: u64,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<usize> {
        loop {
            {
                let mut session = self.lock();
                let has_ended = session.has_ended();
                let plain = session.plain();
                let count = plain.len().min(usize::try_from(max).unwrap_or(usize::MAX));
                if count > 0 {
                    let taken = take(&plain[..count]);
                    plain.drain(..count);
                    return taken.map(|()| count);
                }
                if has_ended {
                    return Ok(0);
                }
            }
            if !self.pull_some().await? {
                return Ok(0);
            }
        }
    }

    /// See [`super::Stream::read_arrived`].
    pub(super) fn read_arrived(&self, out: &mut bytes::BytesMut, max: usize) {
        loop {
            let _ = self.taken(out);
            let mut session = self.lock();
            let room = session.room();
            match recv(&self.tcp, room, RecvFlags::DONTWAIT) {
                Ok((count, _)) if count > 0 && out.len() < max => {
                    if session.came(count).is_err() {
                        return;
                    }
                }
                Err(Errno::INTR) => {}
                _ => return,
            }
        }
    }

    /// Writes some of `bytes`, all that it took of them. Not cancel safe.
    pub(super) async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.flush().await?;
        let piece = &bytes[..bytes.len().min(PIECE)];
        self.lock().say(piece).map_err(io::Error::other)?;
        self.flush().await?;
        Ok(piece.len())
    }

    /// Moves the connection to the runtime that calls this.
    pub(super) fn into_this_runtime(self) -> io::Result<Self> {
        Ok(Self { tcp: TcpStream::from_std(self.tcp.into_std()?)?, ..self })
    }

    /// Takes what was said inside the session; `None`: nothing yet.
    fn taken(&self, out: &mut bytes::BytesMut) -> Option<usize> {
        let mut session = self.lock();
        let count = session.plain().len();
        if count == 0 {
            return session.has_ended().then_some(0);
        }
        out.extend_from_slice(session.plain());
        session.plain().clear();
        Some(count)
    }

    /// Reads once from the socket.
    fn pull(&self) -> Result<usize, Error> {
        let outcome = {
            let mut session = self.lock();
            let count = self.tcp.try_read(session.room())?;
            session.came(count).map(|()| count)
        };
        self.or_told(outcome)
    }

    /// Passes an outcome on; when the session has failed it tells the other end why, if there is
    /// room.
    fn or_told<T>(&self, outcome: Result<T, TlsError>) -> Result<T, Error> {
        let mut session = self.lock();
        // The session's own messages are short; the next write sends the part that did not fit.
        while !session.outgoing().is_empty()
            && let Ok(count) = self.tcp.try_write(session.outgoing())
        {
            session.sent(count);
        }
        outcome.map_err(|error| Error::Tls(error.0))
    }

    /// Writes out what the session has to say.
    async fn flush(&self) -> io::Result<()> {
        loop {
            {
                let mut session = self.lock();
                while !session.outgoing().is_empty() {
                    match self.tcp.try_write(session.outgoing()) {
                        Ok(count) => session.sent(count),
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                        Err(error) => return Err(error),
                    }
                }
                if session.outgoing().is_empty() {
                    return Ok(());
                }
            }
            self.tcp.writable().await?;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
