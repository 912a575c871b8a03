//! A client's connection, and what hyper does not watch on it.
//!
//! **LIMIT-1** A client that takes nothing of its answer for the keep-alive time loses its connection, and with it
//! the answer's place at a replica. A body that stops coming for as long, or whose length is known and that
//! comes slower than [`BYTES_PER_S_MIN`], is given up.
//!
//! A client that has sent its request and ends its half of the connection may wait for the answer, or be gone: both look
//! alike. So it is sent an interim answer, which a client that waits passes over, and to which the system of one that is
//! gone answers with a reset.
//!
//! A head with both `Content-Length` and `Transfer-Encoding` has two meanings, and what one server takes for a body is
//! a request to the next. Hyper goes by the latter and hides the former, so heads are looked at here as well.
//! A head that this check overlooks smuggles nothing: after a chunked body the connection ends.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep, timeout};

/// A body of known length comes as fast on average, the keep-alive time granted beforehand.
const BYTES_PER_S_MIN: u32 = 500;
/// The interim answer to a client that has ended its half.
const STILL_THERE: &[u8] = b"HTTP/1.1 102 Processing\r\n\r\n";
/// Time from a client's half close to the first look for a reset.
const LOOK_FIRST: Duration = Duration::from_millis(10);
/// Maximum time between two such looks.
const LOOK_LAST: Duration = Duration::from_secs(1);
/// Bytes of a line that are looked at: the longest name and a number.
const LINE_MAX: usize = 64;

/// The time for which the next part of a body is waited for.
#[derive(Debug)]
pub(crate) struct Patience {
    silence: Duration,
    /// The rest of it for a body of known length.
    left: Option<Duration>,
}

impl Patience {
    pub(crate) fn new(silence: Duration, is_length_known: bool) -> Self {
        Self { silence, left: is_length_known.then_some(silence) }
    }

    /// Waits for the next part; `None`: it takes too long. `size` returns the number of bytes of a body in it.
    pub(crate) async fn wait<T>(
        &mut self,
        coming: impl Future<Output = T>,
        size: impl FnOnce(&T) -> usize,
    ) -> Option<T> {
        let begun = Instant::now();
        let most = self.left.unwrap_or(self.silence).min(self.silence);
        let came = timeout(most, coming).await.ok()?;
        if let Some(left) = &mut self.left {
            let bytes = u32::try_from(size(&came)).unwrap_or(u32::MAX);
            let earned = Duration::from_secs(1) * bytes / BYTES_PER_S_MIN;
            *left = left.saturating_sub(begun.elapsed()).saturating_add(earned);
        }
        Some(came)
    }
}

/// The lengths of bodies, read off the heads of a connection's requests.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    line: Vec<u8>,
    has_begun: bool,
    length: Option<u64>,
    is_coded: bool,
    /// Bytes of the body that are still to come.
    rest: u64,
    is_over: bool,
    is_ambiguous: bool,
    /// Requests whose heads have ended.
    requests: u64,
    /// Whether the last one is of HTTP/1.1, which knows interim answers.
    knows_interim: bool,
    is_half_closed: bool,
}

impl Heads {
    /// Whether a head gave both lengths.
    pub(crate) fn is_ambiguous(&self) -> bool {
        self.is_ambiguous
    }

    /// Whether the client has ended its half, and waits for its answer.
    pub(crate) fn is_half_closed(&self) -> bool {
        self.is_half_closed
    }

    /// Whether one request has come, whole and with nothing after it.
    fn is_one_whole(&self) -> bool {
        let is_between = !self.has_begun && self.line.is_empty() && self.rest == 0;
        self.requests == 1 && is_between && !self.is_over && self.knows_interim
    }

    /// Notes that the following bytes are not HTTP.
    pub(crate) fn end(&mut self) {
        self.is_over = true;
    }

    fn see(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.is_over {
            if self.rest > 0 {
                let passed = usize::try_from(self.rest).unwrap_or(usize::MAX).min(bytes.len());
                self.rest -= passed as u64;
                bytes = &bytes[passed..];
                continue;
            }
            let end = memchr::memchr(b'\n', bytes);
            let part = &bytes[..end.unwrap_or(bytes.len())];
            // Lines may be long, and only their beginnings matter.
            let room = LINE_MAX - self.line.len();
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            let Some(end) = end else { return };
            bytes = &bytes[end + 1..];
            if !self.has_begun {
                self.knows_interim = part.trim_ascii_end().ends_with(b"1.1");
            }
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        let line = self.line.trim_ascii();
        if line.is_empty() {
            // Empty lines before a request are passed over.
            if self.has_begun {
                self.end_head();
            }
        } else if !self.has_begun {
            self.has_begun = true;
        } else if let Some(colon) = memchr::memchr(b':', line) {
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            if name.eq_ignore_ascii_case(b"transfer-encoding") {
                self.is_coded = true;
            } else if name.eq_ignore_ascii_case(b"content-length") {
                // Where it is no number, hyper refuses the request.
                let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                self.length = Some(number.unwrap_or(0));
            }
        }
        self.line.clear();
    }

    fn end_head(&mut self) {
        self.requests += 1;
        self.is_ambiguous |= self.is_coded && self.length.is_some();
        // A connection carries nothing after a chunked body.
        self.is_over = self.is_coded;
        self.rest = self.length.take().unwrap_or(0);
        self.has_begun = false;
    }
}

/// A connection that may tell that its other end is gone.
pub(crate) trait Peer {
    /// Whether it was reset; `None` where the end of its half says already that it is gone.
    fn is_reset(&self) -> Option<bool>;
}

impl Peer for TcpStream {
    fn is_reset(&self) -> Option<bool> {
        Some(!matches!(self.take_error(), Ok(None)))
    }
}

/// A client that ends its half of an encrypted connection has said goodbye.
impl Peer for tokio_rustls::server::TlsStream<TcpStream> {
    fn is_reset(&self) -> Option<bool> {
        None
    }
}

/// The stream to a client.
#[derive(Debug)]
pub(crate) struct Client<S> {
    stream: S,
    /// The bytes that were read already.
    early: Bytes,
    /// The heads of requests over HTTP/1; `None` over HTTP/2.
    heads: Option<Arc<Mutex<Heads>>>,
    silence: Duration,
    /// The timer that began when nothing could be sent any more.
    stuck: Option<Pin<Box<Sleep>>>,
    has_written: bool,
    /// The next look for a client that has ended its half, and the time between the last two.
    look: Option<(Pin<Box<Sleep>>, Duration)>,
}

impl<S> Client<S> {
    pub(crate) fn new(stream: S, early: Bytes, silence: Duration) -> Self {
        Self { stream, early, heads: None, silence, stuck: None, has_written: false, look: None }
    }

    pub(crate) fn with_heads(self, heads: Arc<Mutex<Heads>>) -> Self {
        Self { heads: Some(heads), ..self }
    }

    fn sent<T>(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.stuck = None;
            return outcome;
        }
        let silence = self.silence;
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(silence)));
        stuck.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncWrite + Peer + Unpin> Client<S> {
    /// Asks a client that has ended its half whether it is still there, if it may wait for an answer.
    fn asks(&mut self, context: &mut Context<'_>) -> bool {
        let Some(heads) = self.heads.as_ref().filter(|_| !self.has_written) else { return false };
        if self.stream.is_reset() != Some(false) || !heads.lock().is_one_whole() {
            return false;
        }
        let asked = Pin::new(&mut self.stream).poll_write(context, STILL_THERE);
        // Nothing was sent before, so there is room for all of it.
        if !matches!(asked, Poll::Ready(Ok(sent)) if sent == STILL_THERE.len()) {
            return false;
        }
        heads.lock().is_half_closed = true;
        self.look = Some((Box::pin(sleep(LOOK_FIRST)), LOOK_FIRST));
        true
    }

    /// Ready once a client that has ended its half is gone.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Some((timer, pause)) = &mut self.look {
            if self.stream.is_reset() != Some(false) {
                return Poll::Ready(());
            }
            std::task::ready!(timer.as_mut().poll(context));
            *pause = (*pause * 2).min(LOOK_LAST);
            let next = Instant::now() + *pause;
            timer.as_mut().reset(next);
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + AsyncWrite + Peer + Unpin> AsyncRead for Client<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.look.is_some() {
            return self.poll_gone(context).map(Ok);
        }
        let before = buffer.filled().len();
        let outcome = if self.early.is_empty() {
            Pin::new(&mut self.stream).poll_read(context, buffer)
        } else {
            let length = self.early.len().min(buffer.remaining());
            buffer.put_slice(&self.early.split_to(length));
            Poll::Ready(Ok(()))
        };
        if let Some(heads) = &self.heads
            && outcome.is_ready()
        {
            heads.lock().see(&buffer.filled()[before..]);
        }
        let has_ended = matches!(outcome, Poll::Ready(Ok(())))
            && buffer.filled().len() == before
            && buffer.remaining() > 0;
        if has_ended && self.asks(context) {
            return self.poll_gone(context).map(Ok);
        }
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Client<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.has_written |= outcome.is_ready();
        self.sent(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.has_written |= outcome.is_ready();
        self.sent(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        self.sent(context, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_shutdown(context);
        self.sent(context, outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the heads are ambiguous, which must be the same whatever the pieces in which they
    /// come.
    fn seen(said: &str) -> bool {
        let pieces = [1, 2, 7, said.len()];
        let found = pieces.map(|piece| {
            let mut heads = Heads::default();
            said.as_bytes().chunks(piece).for_each(|part| heads.see(part));
            heads.is_ambiguous()
        });
        assert!(found.iter().all(|one| *one == found[0]), "{said:?}");
        found[0]
    }

    const BOTH: &str = "POST / HTTP/1.1\r\nContent-Length: 3\r\ntransfer-encoding:chunked\r\n\r\n";

    #[test]
    fn a_head_with_two_lengths_is_seen_after_whatever_came_before() {
        assert!(seen(BOTH));
        assert!(seen("POST / HTTP/1.1\nTRANSFER-ENCODING: chunked\nx: y\ncontent-length:0\n\n"));
        assert!(seen(&format!("\r\n\r\nGET / HTTP/1.1\r\na: b\r\n\r\n{BOTH}")));
        assert!(seen(&format!("PUT / HTTP/1.1\r\nContent-Length: 4\r\n\r\n\n\nab{BOTH}")));
        assert!(seen(&format!("GET /{} HTTP/1.1\r\n\r\n{BOTH}", "x".repeat(500))));
    }

    #[test]
    fn what_a_body_contains_is_no_head() {
        let length = BOTH.len();
        assert!(!seen(&format!("PUT / HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{BOTH}")));
        assert!(!seen(&format!("PUT / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{BOTH}")));
        assert!(!seen(
            "PUT / HTTP/1.1\r\nx-content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n"
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn a_trickle_of_known_length_is_given_up_and_a_stream_is_not() {
        let silence = Duration::from_secs(10);
        let drop_by_drop = async |mut patience: Patience, bytes: usize| {
            for number in 0..100 {
                let coming = sleep(Duration::from_secs(5));
                if patience.wait(coming, |()| bytes).await.is_none() {
                    return number;
                }
            }
            100
        };
        assert_eq!(drop_by_drop(Patience::new(silence, true), 1).await, 2);
        assert_eq!(drop_by_drop(Patience::new(silence, true), 5 * 500).await, 100);
        assert_eq!(drop_by_drop(Patience::new(silence, false), 1).await, 100);
        let mut patience = Patience::new(silence, false);
        assert!(patience.wait(sleep(Duration::from_secs(11)), |()| 0).await.is_none());
    }
}
