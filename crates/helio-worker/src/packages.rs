//! Packages of code, from and to the head's daemon: for processes that are in no session yet.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use helio_proto::cluster::{PackageAnswer, PackageRequest};
use helio_proto::hello::{Destination, Hello, Role, Welcome};
use helio_proto::{Wire, frame};
use helio_types::WorkerId;

use crate::api::Error;
use crate::connect::{greeting, tcp_connect};

/// How long the head may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The daemon of the head, and what it asks for.
#[derive(Debug)]
pub struct Head<'a> {
    /// Its host.
    pub host: &'a str,
    /// Its port.
    pub port: u16,
    /// The cluster's token.
    pub token: &'a str,
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

    fn connect(&self) -> Result<TcpStream, Error> {
        let mut stream = tcp_connect(self.host, u32::from(self.port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(SILENCE_MAX))?;
        let to = Destination::Packages as u32;
        let hello = Hello { to, ..greeting(self.token, Role::Observer, WorkerId::NIL) };
        send(&mut stream, &hello)?;
        let welcome: Welcome = receive(&mut stream)?;
        if welcome.refused.is_empty() {
            Ok(stream)
        } else {
            Err(Error::Disconnected(welcome.refused))
        }
    }
}

fn accepted(answer: PackageAnswer) -> Result<PackageAnswer, Error> {
    if answer.refused.is_empty() { Ok(answer) } else { Err(Error::Disconnected(answer.refused)) }
}

fn send<M: Wire>(stream: &mut TcpStream, message: &M) -> Result<(), Error> {
    let mut out = Vec::new();
    frame::put(&mut out, |b| b.extend_from_slice(&helio_proto::encode(message)));
    Ok(stream.write_all(&out)?)
}

/// Reads a whole frame and no byte more: what follows may be in none.
fn receive<M: Wire>(stream: &mut TcpStream) -> Result<M, Error> {
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
