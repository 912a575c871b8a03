//! A TCP stream whose reads and writes end together at a moment: a store that does not answer holds nobody up.

use std::io;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

/// See the module.
#[derive(Debug)]
pub(super) struct Limited {
    stream: TcpStream,
    patience: Duration,
    until: Instant,
}

impl Limited {
    /// Connects to the first address of the host that answers.
    pub(super) fn connect(host: &str, port: u16, patience: Duration) -> io::Result<Self> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, patience) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Self { stream, patience, until: Instant::now() + patience });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// What is read and written from now on may take so long, in all.
    pub(super) fn limit(&mut self, patience: Duration) {
        self.patience = patience;
        self.until = Instant::now() + patience;
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(self.silent()) } else { Ok(left) }
    }

    fn silent(&self) -> io::Error {
        let text = format!("no answer within {} s", self.patience.as_secs_f64());
        io::Error::new(io::ErrorKind::TimedOut, text)
    }

    fn named(&self, error: io::Error) -> io::Error {
        if error.kind() == io::ErrorKind::WouldBlock { self.silent() } else { error }
    }
}

impl io::Read for Limited {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(buffer).map_err(|error| self.named(error))
    }
}

impl io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes).map_err(|error| self.named(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
