//! A TCP stream, encrypted or not, whose reads and writes end together at a moment: a store that does not answer holds nobody up.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use helio_tls::{ClientFiles, Encrypted};

/// No line of a store's answer is longer, in bytes.
const LINE_MAX: u64 = 64 << 10;

/// A TCP stream, encrypted or not, with a deadline for the reads and writes of one request.
#[derive(Debug)]
pub(super) struct Limited {
    stream: Stream,
    patience: Duration,
    until: Instant,
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Encrypted(Box<Encrypted<TcpStream>>),
}

impl Limited {
    /// Connects to the first address of the host that answers.
    pub(super) fn connect(
        host: &str,
        port: u16,
        encryption: Option<&ClientFiles>,
        patience: Duration,
    ) -> io::Result<Self> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, patience) {
                Ok(stream) => {
                    // Each request waits for its answer: to gather bytes would only delay it.
                    stream.set_nodelay(true)?;
                    let stream = match encryption {
                        None => Stream::Plain(stream),
                        Some(files) => {
                            let encrypted = files.connect(host, stream);
                            Stream::Encrypted(Box::new(encrypted.map_err(io::Error::other)?))
                        }
                    };
                    return Ok(Self { stream, patience, until: Instant::now() + patience });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Bounds the time of all reads and writes from now on together.
    pub(super) fn limit(&mut self, patience: Duration) {
        self.patience = patience;
        self.until = Instant::now() + patience;
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(self.silent()) } else { Ok(left) }
    }

    /// For the next step in either direction: a handshake reads when it is to write.
    fn arm(&self) -> io::Result<()> {
        let left = Some(self.left()?);
        let socket = match &self.stream {
            Stream::Plain(socket) => socket,
            Stream::Encrypted(encrypted) => encrypted.carrier(),
        };
        socket.set_read_timeout(left)?;
        socket.set_write_timeout(left)
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
        self.arm()?;
        let read = match &mut self.stream {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Encrypted(encrypted) => encrypted.read(buffer),
        };
        read.map_err(|error| self.named(error))
    }
}

impl io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.arm()?;
        let written = match &mut self.stream {
            Stream::Plain(socket) => socket.write(bytes),
            Stream::Encrypted(encrypted) => encrypted.write(bytes),
        };
        written.map_err(|error| self.named(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.stream {
            Stream::Plain(socket) => socket.flush(),
            Stream::Encrypted(encrypted) => encrypted.flush(),
        }
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

/// Reads `length` bytes. There is no room ahead for what was only announced.
pub(super) fn bytes(stream: &mut BufReader<Limited>, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() == length { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
