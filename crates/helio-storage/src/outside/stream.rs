//! A TCP stream whose reads and writes end together at a moment: a store that does not answer holds nobody up.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

/// No line of a store's answer is longer, in bytes.
const LINE_MAX: u64 = 64 << 10;

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

/// A line without its end, CR and LF; `None`: it does not end so, or not within the bound.
pub(super) fn line(stream: &mut BufReader<Limited>) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    stream.take(LINE_MAX).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed"));
    }
    Ok(line.strip_suffix(b"\r\n").map(|line| String::from_utf8_lossy(line).into_owned()))
}

/// So many bytes. There is no room ahead for what was only announced.
pub(super) fn bytes(stream: &mut BufReader<Limited>, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() == length { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
