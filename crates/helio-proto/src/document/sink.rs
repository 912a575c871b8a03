//! A document being written: small parts are copied as they come, large ones are only remembered, so that they are
//! copied once, straight to where they end up.

use super::layout::ALIGNMENT;

/// The length of the longest part that is copied instead of remembered.
pub const COPY_MAX: usize = 4 << 10;

/// Memory that neither moves nor is freed while this lives.
pub trait Memory {
    /// Returns the memory, the same at each call.
    fn bytes(&self) -> &[u8];
}

/// A large part.
struct Chunk<M> {
    /// The number of bytes of `head` that the part follows.
    at: usize,
    /// The offset of the part in the document.
    offset: usize,
    memory: M,
}

/// A document up to where it is written.
pub struct Sink<M> {
    head: Vec<u8>,
    chunks: Vec<Chunk<M>>,
    chunk_bytes: usize,
}

/// Consecutive bytes of a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece<'a> {
    /// The place of the first byte in the document.
    pub offset: usize,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl<M> Default for Sink<M> {
    fn default() -> Self {
        Self { head: Vec::new(), chunks: Vec::new(), chunk_bytes: 0 }
    }
}

impl<M: Memory> Sink<M> {
    /// Returns the number of bytes so far.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.head.len() + self.chunk_bytes
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends a byte.
    #[inline]
    pub fn u8(&mut self, value: u8) {
        self.head.push(value);
    }

    /// Appends a little-endian `u32`.
    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.head.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends a little-endian `u64`.
    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.head.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends a tag and a number in one piece: most documents are no more.
    #[inline]
    pub fn tagged(&mut self, tag: u8, value: u64) {
        let mut piece = [tag; 9];
        piece[1..].copy_from_slice(&value.to_le_bytes());
        self.bytes(&piece);
    }

    /// Appends a copy of the bytes.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.head.extend_from_slice(bytes);
    }

    /// Lets `write` append.
    #[inline]
    pub fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.head);
    }

    /// Lets `write` append; when it returns `None`, what it appended is taken back.
    #[inline]
    pub fn try_append<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Option<T>) -> Option<T> {
        let begin = self.head.len();
        let written = write(&mut self.head);
        if written.is_none() {
            self.head.truncate(begin);
        }
        written
    }

    /// Returns the first byte, to be corrected later.
    ///
    /// # Panics
    /// When nothing was written.
    pub fn first(&mut self) -> &mut u8 {
        &mut self.head[0]
    }

    /// Appends zeros up to the next multiple of [`ALIGNMENT`].
    pub fn align(&mut self) {
        let padding = self.len().next_multiple_of(ALIGNMENT) - self.len();
        self.head.extend_from_slice(&[0; ALIGNMENT][..padding]);
    }

    /// Appends memory, which is remembered if it is longer than [`COPY_MAX`].
    pub fn memory(&mut self, memory: M) {
        let bytes = memory.bytes();
        let len = bytes.len();
        if len <= COPY_MAX {
            self.head.extend_from_slice(bytes);
            return;
        }
        self.chunks.push(Chunk { at: self.head.len(), offset: self.len(), memory });
        self.chunk_bytes += len;
    }

    /// Returns the document's bytes in order.
    #[must_use]
    pub fn pieces(&self) -> Vec<Piece<'_>> {
        let mut pieces = Vec::with_capacity(self.chunks.len() * 2 + 1);
        let (mut from, mut offset) = (0, 0);
        for chunk in &self.chunks {
            let bytes = chunk.memory.bytes();
            pieces.push(Piece { offset, bytes: &self.head[from..chunk.at] });
            pieces.push(Piece { offset: chunk.offset, bytes });
            from = chunk.at;
            offset = chunk.offset + bytes.len();
        }
        pieces.push(Piece { offset, bytes: &self.head[from..] });
        pieces
    }

    /// Returns the whole document and leaves the sink empty.
    pub fn take(&mut self) -> Vec<u8> {
        let sink = std::mem::take(self);
        if sink.chunks.is_empty() {
            return sink.head;
        }
        let mut whole = Vec::with_capacity(sink.len());
        sink.pieces().iter().for_each(|piece| whole.extend_from_slice(piece.bytes));
        whole
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Memory that counts how many of its kind live.
    struct Counted(Vec<u8>, Rc<Cell<usize>>);

    impl Counted {
        fn new(bytes: Vec<u8>, alive: &Rc<Cell<usize>>) -> Self {
            alive.set(alive.get() + 1);
            Self(bytes, Rc::clone(alive))
        }
    }

    impl Memory for Counted {
        fn bytes(&self) -> &[u8] {
            &self.0
        }
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            self.1.set(self.1.get() - 1);
        }
    }

    fn memory(n: usize) -> Vec<u8> {
        (1..=255).cycle().take(n).collect()
    }

    /// Checks that the pieces are the document, and that the sink is empty afterwards.
    fn check(mut sink: Sink<Counted>, expected: &[u8], alive: &Rc<Cell<usize>>) {
        assert_eq!((sink.len(), sink.is_empty()), (expected.len(), expected.is_empty()));
        let mut offset = 0;
        for piece in sink.pieces() {
            assert_eq!(piece.offset, offset, "a gap before a piece");
            offset += piece.bytes.len();
            assert_eq!(piece.bytes, &expected[piece.offset..offset]);
        }
        assert_eq!(offset, expected.len(), "the pieces end early");
        assert_eq!(sink.take(), expected);
        assert!(sink.is_empty() && sink.take().is_empty());
        assert_eq!(alive.get(), 0, "memory is held by an empty sink");
    }

    #[test]
    fn memory_is_copied_up_to_the_bound_and_remembered_beyond_it() {
        for n in [0, 1, COPY_MAX - 1, COPY_MAX, COPY_MAX + 1, 10 * COPY_MAX] {
            let alive = Rc::default();
            let mut sink = Sink::default();
            let part = Counted::new(memory(n), &alive);
            let address = part.0.as_ptr();
            sink.u8(1);
            sink.memory(part);
            let is_remembered = n > COPY_MAX;
            assert_eq!(alive.get(), usize::from(is_remembered), "{n} bytes");
            let is_there = sink.pieces().iter().any(|piece| piece.bytes.as_ptr() == address);
            assert_eq!(is_there, is_remembered, "{n} bytes were copied, or a copy was not made");
            check(sink, &[vec![1], memory(n)].concat(), &alive);
        }
    }

    #[test]
    fn numbers_are_little_endian() {
        let alive = Rc::default();
        let mut sink = Sink::<Counted>::default();
        sink.u8(0);
        sink.u32(0x0403_0201);
        sink.u64(2);
        sink.tagged(9, 3);
        sink.bytes(b"end");
        *sink.first() = 7;
        let numbers = [7, 1, 2, 3, 4, 2, 0, 0, 0, 0, 0, 0, 0, 9, 3, 0, 0, 0, 0, 0, 0, 0];
        check(sink, &[&numbers[..], b"end"].concat(), &alive);
    }

    #[test]
    fn what_was_appended_is_taken_back_when_it_came_to_nothing() {
        let alive = Rc::default();
        let mut sink = Sink::<Counted>::default();
        sink.bytes(b"kept");
        sink.append(|out| out.push(b'!'));
        let six = sink.try_append(|out| {
            out.push(b'!');
            Some(out.len())
        });
        assert_eq!(six, Some(6));
        let none: Option<()> = sink.try_append(|out| {
            out.extend_from_slice(&[0; 100]);
            None
        });
        assert_eq!(none, None);
        check(sink, b"kept!!", &alive);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Bytes(usize),
        Memory(usize),
        Align,
    }

    fn step() -> impl Strategy<Value = Step> {
        let near = (COPY_MAX - 2)..(COPY_MAX + 3);
        prop_oneof![
            (0_usize..70).prop_map(Step::Bytes),
            prop_oneof![0_usize..70, near, Just(3 * COPY_MAX)].prop_map(Step::Memory),
            Just(Step::Align),
        ]
    }

    proptest! {
        #[test]
        fn parts_of_all_sizes_stand_in_the_document_in_order(steps in vec(step(), 0..12)) {
            let alive = Rc::default();
            let (mut sink, mut expected) = (Sink::default(), Vec::new());
            for step in steps {
                match step {
                    Step::Bytes(n) => {
                        sink.bytes(&memory(n));
                        expected.extend(memory(n));
                    }
                    Step::Memory(n) => {
                        sink.memory(Counted::new(memory(n), &alive));
                        expected.extend(memory(n));
                    }
                    Step::Align => {
                        sink.align();
                        expected.resize(expected.len().next_multiple_of(ALIGNMENT), 0);
                    }
                }
            }
            check(sink, &expected, &alive);
        }
    }
}
