//! The sending half of a connection.
//!
//! Senders append frames to a shared buffer and never wait; a task writes the buffer out, all that
//! has gathered at once. The buffer is guarded by a std mutex because it is held for the length of an
//! encode and never across an await.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helio_proto::{Wire, frame};
use tokio::sync::Notify;

use super::stream::Stream;

/// Bytes that may wait to be written to one peer.
pub const QUEUE_MAX: usize = 64 << 20;

/// Buffers up to this size are kept for reuse while messages follow each other, in bytes.
const BUFFER_KEPT: usize = 256 << 10;

/// The size of the buffer that is kept while nothing waits to be written: a control service has thousands of such
/// connections.
const BUFFER_KEPT_IDLE: usize = 4 << 10;

/// The reason why a message was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The peer does not read; [`QUEUE_MAX`] bytes wait for it.
    #[error("the peer does not read what it is sent")]
    Full,
    /// The connection has ended.
    #[error("the connection has ended")]
    Closed,
}

/// The sending half of a connection: a handle that can be cloned. When the last one is dropped, what
/// was sent is still written, then the connection ends.
#[derive(Debug, Clone)]
pub struct Writer {
    shared: Arc<Handle>,
}

/// A message as it travels, for several receivers.
#[derive(Debug)]
pub struct Encoded(Vec<u8>);

#[derive(Debug)]
struct Handle(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    stream: Arc<Stream>,
    queue: Mutex<Queue>,
    /// A message was queued, or the queue was closed.
    filled: Notify,
    /// The queue was written out, or the connection ended.
    drained: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    /// Descriptors, each with the position in `bytes` of the frame that it travels with.
    fds: Vec<(usize, OwnedFd)>,
    /// Bytes that the task has taken and not written yet.
    in_flight: usize,
    /// No more frames are taken.
    closed: bool,
}

impl Writer {
    pub(super) fn start(stream: Arc<Stream>) -> Self {
        let shared = Arc::new(Shared {
            stream,
            queue: Mutex::default(),
            filled: Notify::new(),
            drained: Notify::new(),
        });
        tokio::spawn(write_out(Arc::clone(&shared)));
        Self { shared: Arc::new(Handle(shared)) }
    }

    /// Queues a message.
    ///
    /// # Errors
    /// When the queue is full or the connection has ended; the message was not taken.
    pub fn send<M: Wire>(&self, message: &M) -> Result<(), SendError> {
        self.append(message, None)
    }

    /// Queues a message; `fd` arrives with its first byte. Over TCP the descriptor is not sent.
    ///
    /// # Errors
    /// See [`Writer::send`].
    pub fn send_with_fd<M: Wire>(&self, message: &M, fd: OwnedFd) -> Result<(), SendError> {
        self.append(message, Some(fd))
    }

    /// Queues a message that was encoded before.
    ///
    /// # Errors
    /// See [`Writer::send`].
    pub fn send_encoded(&self, message: &Encoded) -> Result<(), SendError> {
        self.append_with(message.0.len(), None, |bytes| bytes.extend_from_slice(&message.0))
    }

    /// Sends a message, and writes it at once where nothing waits and the socket takes it: one message is on its way
    /// sooner, and several are not gathered.
    ///
    /// # Errors
    /// See [`Writer::send`].
    pub fn send_at_once(&self, message: &Encoded) -> Result<(), SendError> {
        let mut queue = self.shared.0.lock();
        if queue.closed || queue.bytes.len() + queue.in_flight > 0 {
            drop(queue);
            return self.send_encoded(message);
        }
        // What fails now fails again when the rest is written, which ends the connection.
        let written = self.shared.0.stream.write_now(&message.0).unwrap_or(0);
        if let Some(rest) = message.0.get(written..).filter(|rest| !rest.is_empty()) {
            queue.bytes.extend_from_slice(rest);
            drop(queue);
            self.shared.0.filled.notify_one();
        }
        Ok(())
    }

    /// Waits until less than half of [`QUEUE_MAX`] is queued: for bulk data, whose sender can wait.
    pub async fn room(&self) {
        self.below(QUEUE_MAX / 2).await;
    }

    /// Waits until everything was handed to the operating system, or the connection has ended.
    pub async fn flushed(&self) {
        self.below(1).await;
    }

    /// Returns the number of bytes that wait.
    #[must_use]
    pub fn queued(&self) -> usize {
        let queue = self.shared.0.lock();
        queue.bytes.len() + queue.in_flight
    }

    /// Ends the connection after what was sent is written; the reader sees the end, too.
    pub fn close(&self) {
        self.shared.0.close();
    }

    /// Ends the connection now; what waits is dropped.
    pub fn abort(&self) {
        self.shared.0.close();
        self.shared.0.stream.shutdown();
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.shared.0.stream
    }

    async fn below(&self, bytes: usize) {
        loop {
            let notified = self.shared.0.drained.notified();
            {
                let queue = self.shared.0.lock();
                if queue.bytes.len() + queue.in_flight < bytes
                    || (queue.closed && queue.bytes.is_empty())
                {
                    return;
                }
            }
            notified.await;
        }
    }

    fn append<M: Wire>(&self, message: &M, fd: Option<OwnedFd>) -> Result<(), SendError> {
        self.append_with(message.encoded_len(), fd, |bytes| put(bytes, message))
    }

    /// `put` appends a frame of about `length` bytes.
    fn append_with(
        &self,
        length: usize,
        fd: Option<OwnedFd>,
        put: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), SendError> {
        let mut queue = self.shared.0.lock();
        if queue.closed {
            return Err(SendError::Closed);
        }
        let waiting = queue.bytes.len() + queue.in_flight;
        // A single message may be longer than the bound; it is refused only behind others.
        if waiting > 0 && waiting + length > QUEUE_MAX {
            return Err(SendError::Full);
        }
        if let Some(fd) = fd {
            let position = queue.bytes.len();
            // A descriptor goes with the first byte of its message.
            queue.fds.push((position, fd));
        }
        put(&mut queue.bytes);
        drop(queue);
        self.shared.0.filled.notify_one();
        Ok(())
    }
}

impl Encoded {
    /// Encodes the message.
    #[must_use]
    pub fn new<M: Wire>(message: &M) -> Self {
        let mut bytes = Vec::with_capacity(message.encoded_len() + 4);
        put(&mut bytes, message);
        Self(bytes)
    }
}

fn put<M: Wire>(bytes: &mut Vec<u8>, message: &M) {
    frame::put(bytes, |out| message.encode(out).expect("a Vec grows as needed"));
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing that can panic runs under the lock except an encode into a Vec.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
    }
}

async fn write_out(shared: Arc<Shared>) {
    let mut spare: Vec<u8> = Vec::new();
    loop {
        let (bytes, fds) = loop {
            {
                let mut queue = shared.lock();
                if !queue.bytes.is_empty() {
                    // Counted until it is written: QUEUE_MAX bounds both together.
                    queue.in_flight = queue.bytes.len();
                    let bytes = std::mem::replace(&mut queue.bytes, std::mem::take(&mut spare));
                    break (bytes, std::mem::take(&mut queue.fds));
                }
                // Only when all is written: what was queued before the end still goes out.
                if queue.closed {
                    drop(queue);
                    shared.stream.shutdown();
                    return;
                }
                queue.bytes.shrink_to(BUFFER_KEPT_IDLE);
                spare.shrink_to(BUFFER_KEPT_IDLE);
            }
            shared.filled.notified().await;
        };
        let outcome = write_all(&shared.stream, &bytes, fds).await;
        {
            let mut queue = shared.lock();
            queue.in_flight = 0;
            if outcome.is_err() {
                queue.closed = true;
                queue.bytes = Vec::new();
                queue.fds.clear();
            }
        }
        shared.drained.notify_waiters();
        if outcome.is_err() {
            shared.stream.shutdown();
            return;
        }
        // A buffer that one large message has grown is not kept.
        if bytes.capacity() <= BUFFER_KEPT {
            spare = bytes;
            spare.clear();
        }
    }
}

async fn write_all(
    stream: &Stream,
    bytes: &[u8],
    fds: Vec<(usize, OwnedFd)>,
) -> std::io::Result<()> {
    let mut fds = fds.into_iter().peekable();
    let mut written = 0;
    while written < bytes.len() {
        let fd = fds.next_if(|(position, _)| *position <= written).map(|(_, fd)| fd);
        // A descriptor travels with the first byte of its frame, so a write stops before the next one.
        let end = fds.peek().map_or(bytes.len(), |(position, _)| *position);
        written += stream.write(&bytes[written..end], fd.as_ref().map(AsFd::as_fd)).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use helio_proto::cluster::{ControlToNode, ShutDown};

    /// LIMIT-1: what a burst needed is given back.
    #[tokio::test]
    async fn a_connection_at_rest_keeps_no_large_buffer() {
        let (ours, theirs) = tokio::net::UnixStream::pair().unwrap();
        let writer = Writer::start(Arc::new(ours.into()));
        let long = ShutDown { reason: "x".repeat(100_000), may_rejoin: false };
        let reads = tokio::spawn(async move {
            let mut bytes = vec![0; 64 << 10];
            let mut n_read = 0;
            while n_read < 300_000 {
                theirs.readable().await.unwrap();
                n_read += theirs.try_read(&mut bytes).unwrap_or_default();
            }
            theirs
        });
        for _ in 0..3 {
            writer.send(&ControlToNode::from(long.clone())).unwrap();
            writer.flushed().await;
        }
        drop(reads.await.unwrap());
        let is_small = async {
            // The task shrinks the buffers before it waits for the next message.
            while writer.shared.0.lock().bytes.capacity() > BUFFER_KEPT_IDLE {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), is_small).await.unwrap();
    }
}
