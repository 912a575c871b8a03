//! A document being written: small parts are copied as they come, large ones are only remembered, so
//! that they are copied once, straight to where they end up.

use helio_proto::document::{ALIGNMENT, tag};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::exported::Exported;
use super::tree;

/// Larger parts are remembered instead of copied.
const COPY_MAX: usize = 4 << 10;

/// Memory of a Python object that stays put while this lives.
pub(super) enum Held {
    Buffer(Exported),
    Bytes(Py<PyBytes>),
}

impl Held {
    fn bytes<'a>(&'a self, py: Python<'a>) -> &'a [u8] {
        match self {
            Self::Buffer(buffer) => buffer.bytes(),
            Self::Bytes(bytes) => bytes.as_bytes(py),
        }
    }
}

/// A large part.
struct Chunk {
    /// The number of bytes of `head` that the part follows.
    at: usize,
    /// The offset of the part in the document.
    offset: usize,
    start: *const u8,
    len: usize,
    _held: Held,
}

/// The document so far.
#[derive(Default)]
pub(crate) struct Sink {
    head: Vec<u8>,
    chunks: Vec<Chunk>,
    chunk_bytes: usize,
}

/// Consecutive bytes of the document.
pub(crate) struct Piece {
    pub(crate) offset: usize,
    start: *const u8,
    len: usize,
}

// SAFETY: a piece is read while the sink that it came from is borrowed, and that keeps the memory.
unsafe impl Send for Piece {}
// SAFETY: as above; pieces are only read.
unsafe impl Sync for Piece {}

impl Piece {
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: see `Sink::pieces`.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl Sink {
    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.chunk_bytes
    }

    pub(super) fn u8(&mut self, value: u8) {
        self.head.push(value);
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.head.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.head.extend_from_slice(&value.to_le_bytes());
    }

    /// A tag and a number, in one piece: most documents are no more.
    pub(super) fn tagged(&mut self, tag: u8, value: u64) {
        let mut piece = [tag; 9];
        piece[1..].copy_from_slice(&value.to_le_bytes());
        self.bytes(&piece);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.head.extend_from_slice(bytes);
    }

    /// Lets `write` append to the small parts.
    pub(super) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.head);
    }

    /// The first byte, to be corrected later.
    pub(super) fn first(&mut self) -> &mut u8 {
        &mut self.head[0]
    }

    /// A container of plain values; nothing if it is none.
    pub(super) fn tree(&mut self, value: &Bound<'_, PyAny>) -> Option<()> {
        let begin = self.head.len();
        self.head.push(tag::TREE);
        let written = tree::write(value, &mut self.head);
        if written.is_none() {
            self.head.truncate(begin);
        }
        written
    }

    pub(super) fn align(&mut self) {
        let padding = self.len().next_multiple_of(ALIGNMENT) - self.len();
        self.head.extend_from_slice(&[0; ALIGNMENT][..padding]);
    }

    /// Memory of a Python object; remembered if large.
    pub(super) fn held(&mut self, py: Python<'_>, held: Held) {
        let bytes = held.bytes(py);
        if bytes.len() <= COPY_MAX {
            self.head.extend_from_slice(bytes);
            return;
        }
        let (start, len) = (bytes.as_ptr(), bytes.len());
        self.chunks.push(Chunk {
            at: self.head.len(),
            offset: self.len(),
            start,
            len,
            _held: held,
        });
        self.chunk_bytes += len;
    }

    /// The document's bytes in order. They stay valid as long as the sink is borrowed.
    pub(crate) fn pieces(&self) -> Vec<Piece> {
        let mut pieces = Vec::with_capacity(self.chunks.len() * 2 + 1);
        let (mut from, mut offset) = (0, 0);
        for chunk in &self.chunks {
            let part = &self.head[from..chunk.at];
            pieces.push(Piece { offset, start: part.as_ptr(), len: part.len() });
            pieces.push(Piece { offset: chunk.offset, start: chunk.start, len: chunk.len });
            from = chunk.at;
            offset = chunk.offset + chunk.len;
        }
        let rest = &self.head[from..];
        pieces.push(Piece { offset, start: rest.as_ptr(), len: rest.len() });
        pieces
    }

    /// The whole document; the sink is used up.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        if self.chunks.is_empty() {
            return std::mem::take(&mut self.head);
        }
        let mut whole = Vec::with_capacity(self.len());
        for piece in self.pieces() {
            whole.extend_from_slice(piece.bytes());
        }
        whole
    }
}
