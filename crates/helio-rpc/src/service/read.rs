//! The receiving half of a connection.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use helio_proto::{Wire, frame};

use super::error::Error;
use super::stream::Stream;

/// Bytes that are asked of the socket at a time.
const READ_SIZE: usize = 64 << 10;

/// The receiving half of a connection.
#[derive(Debug)]
pub struct Reader {
    stream: Arc<Stream>,
    buffer: BytesMut,
    frame_max: usize,
}

impl Reader {
    /// `buffer` has what was read already.
    pub(super) fn new(stream: Arc<Stream>, buffer: BytesMut, frame_max: usize) -> Self {
        Self { stream, buffer, frame_max }
    }

    /// Allows frames of that number of bytes from now on.
    pub(super) fn allow(&mut self, frame_max: usize) {
        self.frame_max = frame_max;
    }

    /// The next message, or `None` when the peer has closed the connection between two frames.
    /// Cancel safe: a frame that has partly arrived is kept.
    ///
    /// # Errors
    /// When the connection broke, or the bytes are not such a message.
    pub async fn next<M: Wire>(&mut self) -> Result<Option<M>, Error> {
        match self.next_frame().await? {
            Some(bytes) => Ok(Some(M::decode(bytes)?)),
            None => Ok(None),
        }
    }

    /// The next frame's bytes; see [`Reader::next`].
    ///
    /// # Errors
    /// When the connection broke, or a frame is too long.
    pub async fn next_frame(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if let Some(bytes) = self.take_frame()? {
                return Ok(Some(bytes));
            }
            if !self.read_some().await? {
                return if self.buffer.is_empty() { Ok(None) } else { Err(Error::Truncated) };
            }
        }
    }

    /// Reads what is there, waiting for the first byte; false at the end.
    pub(super) async fn read_some(&mut self) -> io::Result<bool> {
        // Memory follows the bytes that have arrived, not the length that was announced: a peer
        // that promises a large frame and sends nothing costs nothing (LIMIT-1).
        self.buffer.reserve(READ_SIZE);
        Ok(self.stream.read(&mut self.buffer).await? > 0)
    }

    /// Takes what has arrived by now, for [`Reader::buffered`], without waiting.
    pub fn read_arrived(&mut self) {
        self.stream.read_arrived(&mut self.buffer);
    }

    /// The next message if its bytes have arrived already.
    ///
    /// # Errors
    /// See [`Reader::next`].
    pub fn buffered<M: Wire>(&mut self) -> Result<Option<M>, Error> {
        match self.take_frame()? {
            Some(bytes) => Ok(Some(M::decode(bytes)?)),
            None => Ok(None),
        }
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Takes at most `length` of the bytes that were read ahead.
    pub(super) fn take_early(&mut self, length: u64) -> Bytes {
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(self.buffer.len());
        self.buffer.split_to(length).freeze()
    }

    fn take_frame(&mut self) -> Result<Option<Bytes>, Error> {
        let Some((start, end)) = frame::split(&self.buffer, self.frame_max)? else {
            return Ok(None);
        };
        Ok(Some(self.buffer.split_to(end).freeze().slice(start..)))
    }
}
