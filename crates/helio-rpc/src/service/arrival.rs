//! A connection whose peer has said who it is and whom it wants: it is let in here, refused, or handed over
//! to another process of the machine.
//!
//! **Handing over.** Whoever accepts for others ([`Arrival::hand_over`]) connects to the UNIX socket of the
//! process that is meant, sends the bytes read so far, and with the first of them the descriptor. The other side
//! ([`Arrival::read`], or `helio-worker`) goes on as if it had accepted the connection itself: it checks the
//! greeting again, and answers it. Nothing of the connection stays with the one who accepted.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use bytes::{Buf, BytesMut};
use helio_proto::frame::{self, FRAME_MAX, HELLO_MAX};
use helio_proto::hello::{Hello, Refusal, VERSION, Welcome, refusal};
use helio_tls::Identity;
use rustix::net::AddressFamily;
use rustix::net::sockopt::socket_domain;
use tokio::net::TcpStream;

use super::error::{Error, HANDSHAKE_MAX};
use super::read::Reader;
use super::secure::Secure;
use super::stream::Stream;
use super::unix::connect_path;
use super::write::Writer;

/// The longest greeting with its length, in bytes: nothing beyond it is read before the peer is let in.
const GREETING_MAX: usize = HELLO_MAX + 4;

/// A connection with the greeting that its peer sent, before it is let in, refused or handed over.
#[derive(Debug)]
pub struct Arrival {
    stream: Stream,
    /// The bytes that were read.
    buffer: BytesMut,
    /// Number of bytes of the greeting.
    greeting: usize,
    hello: Hello,
}

impl Arrival {
    /// Waits for the greeting, over a UNIX socket also for one of a connection that is handed over.
    ///
    /// # Errors
    /// When the peer is silent or speaks garbage.
    pub async fn read(stream: impl Into<Stream>) -> Result<Self, Error> {
        let read = Self::read_unhurried(stream.into());
        tokio::time::timeout(HANDSHAKE_MAX, read).await.map_err(|_| Error::Silent)?
    }

    pub(super) async fn read_unhurried(mut stream: Stream) -> Result<Self, Error> {
        let mut buffer = BytesMut::with_capacity(GREETING_MAX);
        loop {
            if let Some((start, end)) = frame::split(&buffer, HELLO_MAX)? {
                let hello = helio_proto::decode(&buffer[start..end])?;
                return Ok(Self { stream, buffer, greeting: end, hello });
            }
            let (length, fd) = stream.read_greeting(&mut buffer).await?;
            // The daemon has handed over a connection of another machine: the rest of the greeting comes from that
            // one.
            if let Some(fd) = fd {
                stream = handed_over(fd)?;
            }
            if length == 0 {
                return Err(if buffer.is_empty() { Error::Left } else { Error::Truncated });
            }
        }
    }

    /// Whether another machine sends it in the clear.
    pub(super) fn is_plain_of_machine(&self) -> bool {
        matches!(self.stream, Stream::Tcp(_))
    }

    /// Takes up the session that was announced, and waits for the greeting in it. **TLS-1** Whom it is for was said
    /// before anything was proven, so the greeting has to say the same.
    pub(super) async fn secured(self, identity: &Identity) -> Result<Self, Error> {
        let Stream::Tcp(socket) = self.stream else { return Err(Error::Truncated) };
        let session = identity.accept().map_err(|error| Error::Tls(error.0))?;
        let early = &self.buffer[self.greeting..];
        let secure = Secure::shake_hands(socket, session, &[], early).await?;
        let greeted = Box::pin(Self::read_unhurried(secure.into())).await?;
        if greeted.hello.is_encrypted || !greeted.hello.goes_where(&self.hello) {
            return Err(Error::Unwelcome("it greets another one than it was routed to".to_owned()));
        }
        Ok(greeted)
    }

    /// Returns the peer's greeting; nothing in it is proven.
    #[must_use]
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// The peer's address without its port, which changes with every attempt.
    #[must_use]
    pub fn source(&self) -> String {
        self.stream.source()
    }

    /// The connection as it is, with all that was read from it; `None`: it is not one of another machine.
    #[must_use]
    pub fn into_tcp(self) -> Option<(TcpStream, bytes::Bytes)> {
        match self.stream {
            Stream::Tcp(socket) => Some((socket, self.buffer.freeze())),
            Stream::Unix(_) | Stream::Secure(_) => None,
        }
    }

    /// Moves the arrival to the runtime that calls this.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn into_this_runtime(self) -> io::Result<Self> {
        Ok(Self { stream: self.stream.into_this_runtime()?, ..self })
    }

    /// Lets a peer in that holds the token and speaks this version; `welcome` says who this side is.
    ///
    /// # Errors
    /// [`Error::Unwelcome`]: the peer was told the reason, and the connection is closed.
    pub fn welcome(
        mut self,
        token: &str,
        welcome: Welcome,
    ) -> Result<(Reader, Writer, Hello), Error> {
        let unproven = || self.hello.is_encrypted.then(|| "the greeting is missing".into());
        if let Some(refused) = refusal(&self.hello, token).or_else(unproven) {
            let why = refused.text.clone();
            self.refuse(refused);
            return Err(Error::Unwelcome(why));
        }
        self.buffer.advance(self.greeting);
        let stream = Arc::new(self.stream);
        let reader = Reader::new(Arc::clone(&stream), self.buffer, FRAME_MAX);
        let writer = Writer::start(stream);
        let features = self.hello.features & welcome.features;
        // A connection that ended already is reported by the read.
        let _ =
            writer.send(&Welcome { refused: String::new(), version: VERSION, features, ..welcome });
        Ok((reader, writer, self.hello))
    }

    /// Says no, and why; the connection is closed.
    pub fn refuse(self, why: impl Into<Refusal>) {
        let writer = Writer::start(Arc::new(self.stream));
        // The queue is empty and open; and if the peer is gone, nobody misses the answer.
        let _ = writer.send(&Welcome::refusing(why.into()));
        writer.close();
    }

    /// Hands the connection over to the process that listens at the UNIX socket.
    ///
    /// # Errors
    /// When nobody listens there, or takes no more connections; the connection is given back.
    pub async fn hand_over(self, socket: &Path) -> Result<(), (Self, io::Error)> {
        let outcome = async {
            let to = Stream::from(connect_path(socket).await?);
            let sent = to.write(&self.buffer, Some(self.stream.as_fd())).await?;
            // A fresh socket takes far more at once.
            if sent == self.buffer.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
        };
        outcome.await.map_err(|error| (self, error))
    }
}

/// **AUTH-1** Only the owner of the folder reaches the socket that it came by, and its greeting is checked all the same.
fn handed_over(fd: OwnedFd) -> io::Result<Stream> {
    if !matches!(socket_domain(&fd)?, AddressFamily::INET | AddressFamily::INET6) {
        return Err(io::Error::other("the descriptor is not a connection of another machine"));
    }
    let stream = std::net::TcpStream::from(fd);
    stream.set_nonblocking(true)?;
    Ok(TcpStream::from_std(stream)?.into())
}
