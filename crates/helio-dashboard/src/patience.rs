//! The time that a client may take for an answer: one that does not read would keep it in the head's memory for ever.
//!
//! **LIMIT-1** An answer that is whole in memory is taken within [`Patience::first`] and what its bytes take at
//! [`Patience::bytes_per_s`]; then its connection is closed. What is made as it is sent (logs, events) waits for its reader,
//! and takes no memory meanwhile.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Answers up to that many bytes lie in the kernel when they are sent.
const SMALL: u64 = 64 << 10;

/// The patience with slow clients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) first: Duration,
    pub(crate) bytes_per_s: u64,
}

/// Slower than the lines over which people look at pages.
pub(crate) const USUAL: Patience =
    Patience { first: Duration::from_secs(30), bytes_per_s: 16 << 10 };

/// An answer that is on its way: when it has to be taken, and how many bytes of the connection that are.
type Due = (Instant, u64);

/// The pace at which a client takes the answers of a connection.
#[derive(Debug)]
pub(crate) struct Pace {
    patience: Patience,
    written: AtomicU64,
    due: Mutex<Option<Due>>,
    is_set: Notify,
}

impl Pace {
    pub(crate) fn new(patience: Patience) -> Arc<Self> {
        let (due, is_set) = (Mutex::default(), Notify::new());
        Arc::new(Self { patience, written: AtomicU64::new(0), due, is_set })
    }

    fn due(&self) -> std::sync::MutexGuard<'_, Option<Due>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the begin of an answer of `bytes` bytes; `None`: it is made as it is sent.
    pub(crate) fn begin(&self, bytes: Option<u64>) {
        let large = bytes.filter(|bytes| *bytes > SMALL);
        let due = large.map(|bytes| {
            let takes = Duration::from_secs_f64(bytes as f64 / self.patience.bytes_per_s as f64);
            (Instant::now() + self.patience.first + takes, self.written() + bytes)
        });
        *self.due() = due;
        if due.is_some() {
            self.is_set.notify_one();
        }
    }

    fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Waits until an answer is not taken in time.
    pub(crate) async fn is_over(&self) {
        loop {
            let due = *self.due();
            match due {
                None => self.is_set.notified().await,
                Some((at, until)) => {
                    tokio::time::sleep_until(at).await;
                    let mut now = self.due();
                    if *now == due {
                        if self.written() < until {
                            return;
                        }
                        *now = None;
                    }
                }
            }
        }
    }
}

/// A connection that counts what is written.
#[derive(Debug)]
pub(crate) struct Counted<S> {
    pub(crate) stream: S,
    pub(crate) pace: Arc<Pace>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, out)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if let Poll::Ready(Ok(count)) = written {
            self.pace.written.fetch_add(count as u64, Ordering::Relaxed);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
