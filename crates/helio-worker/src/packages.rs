//! Packages of code, from and to the head's daemon: for processes that are in no session yet.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use helio_env::detour::Entrance;
use helio_proto::cluster::{PackageAnswer, PackageRequest};
use helio_proto::hello::{Destination, Hello, Role, Welcome};
use helio_proto::{Wire, frame};
use helio_tls::Session;
use helio_types::WorkerId;

use crate::api::Error;
use crate::connect::{begin_session, greeting, tcp_connect};

/// Time that the head may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Bytes that are encrypted at a time.
const PIECE: usize = 64 << 10;

/// The daemon of the head, and what it asks for.
#[derive(Debug)]
pub struct Head<'a> {
    /// The folder of the session that asks.
    pub session_dir: &'a Path,
    /// The host of the head.
    pub host: &'a str,
    /// The port of the head.
    pub port: u16,
    /// The cluster's token.
    pub token: &'a str,
    /// The port of this machine that leads to the head; 0: none is needed.
    pub entrance: u16,
}

impl Head<'_> {
    /// Has a package written to a file.
    ///
    /// # Errors
    /// When the head does not have it, or the connection fails.
    pub fn take(&self, name: &str, to: &Path) -> Result<(), Error> {
        let mut stream = self.connect()?;
        send(&mut stream, &PackageRequest { name: name.to_owned(), ..PackageRequest::default() })?;
        let size = accepted(receive(&mut stream)?)?.size;
        let came = io::copy(&mut stream.take(size), &mut File::create(to)?)?;
        if came < size {
            return Err(Error::Disconnected(format!("{came} of {size} bytes came")));
        }
        Ok(())
    }

    /// Brings a package, unless the head has it.
    ///
    /// # Errors
    /// When the head does not take it, or the connection fails.
    pub fn give(&self, name: &str, from: &Path) -> Result<(), Error> {
        let file = File::open(from)?;
        let size = file.metadata()?.len();
        let mut stream = self.connect()?;
        send(&mut stream, &PackageRequest { name: name.to_owned(), is_brought: true, size })?;
        if accepted(receive(&mut stream)?)?.is_there {
            return Ok(());
        }
        if io::copy(&mut file.take(size), &mut stream)? < size {
            return Err(Error::Io("the file became shorter while it was sent".into()));
        }
        accepted(receive(&mut stream)?).map(drop)
    }

    fn connect(&self) -> Result<Stream, Error> {
        helio_tls::join(self.session_dir);
        let entrance = Entrance::at(self.entrance, self.token);
        let mut socket = tcp_connect(self.host, u32::from(self.port), entrance.as_ref())?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(SILENCE_MAX))?;
        socket.set_write_timeout(Some(SILENCE_MAX))?;
        let to = Destination::Packages as u32;
        let hello = Hello { to, ..greeting(self.token, Role::Observer, WorkerId::NIL) };
        let session = begin_session(&mut socket, self.host, &hello)?;
        let mut stream = Stream { socket, session };
        stream.shake_hands()?;
        send(&mut stream, &hello)?;
        let welcome: Welcome = receive(&mut stream)?;
        welcome.accepted().map_err(Error::Unwelcome)?;
        Ok(stream)
    }
}

/// A connection that is waited for, encrypted or not.
struct Stream {
    socket: TcpStream,
    session: Option<Session>,
}

impl Stream {
    fn shake_hands(&mut self) -> io::Result<()> {
        while self.session.as_ref().is_some_and(|session| !session.is_open()) {
            self.flush()?;
            if self.read_some()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        self.flush()
    }

    /// Reads once from the socket into the session.
    fn read_some(&mut self) -> io::Result<usize> {
        let Some(session) = &mut self.session else { return Ok(0) };
        let count = self.socket.read(session.room())?;
        let read = session.came(count);
        if read.is_err() {
            // The other end hears why.
            let _ = self.flush();
        }
        read.map(|()| count).map_err(io::Error::other)
    }
}

impl io::Read for Stream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(session) = &mut self.session else { return self.socket.read(out) };
            let plain = session.plain();
            if !plain.is_empty() {
                let count = plain.len().min(out.len());
                out[..count].copy_from_slice(&plain[..count]);
                plain.drain(..count);
                return Ok(count);
            }
            if session.has_ended() || self.read_some()? == 0 {
                return Ok(0);
            }
        }
    }
}

impl io::Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(session) = &mut self.session else { return self.socket.write(bytes) };
        let piece = &bytes[..bytes.len().min(PIECE)];
        session.say(piece).map_err(io::Error::other)?;
        self.flush()?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(session) = &mut self.session else { return Ok(()) };
        while !session.outgoing().is_empty() {
            let count = self.socket.write(session.outgoing())?;
            session.sent(count);
        }
        Ok(())
    }
}

fn accepted(answer: PackageAnswer) -> Result<PackageAnswer, Error> {
    if answer.refused.is_empty() { Ok(answer) } else { Err(Error::Disconnected(answer.refused)) }
}

fn send<M: Wire>(stream: &mut Stream, message: &M) -> Result<(), Error> {
    let mut out = Vec::new();
    frame::put(&mut out, |b| b.extend_from_slice(&helio_proto::encode(message)));
    Ok(stream.write_all(&out)?)
}

/// Reads a whole frame and no byte more: what follows may be in none.
fn receive<M: Wire>(stream: &mut Stream) -> Result<M, Error> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    let max = frame::HELLO_MAX;
    if length > max {
        return Err(Error::Disconnected(frame::TooLong { length, max }.to_string()));
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes)?;
    helio_proto::decode(&bytes).map_err(|error| Error::Io(error.to_string()))
}
