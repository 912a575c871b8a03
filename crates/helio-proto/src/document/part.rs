//! The value that begins at a place of a document, up to what only an interpreter can make of it.

use std::ops::Range;

use super::layout::{ArrayHead, Cursor, tag};
use crate::reader::Malformed;

/// A value of a document. Ranges are places in the document; each lies within it.
#[derive(Clone, PartialEq, Debug)]
pub enum Part<'a> {
    /// `None`.
    None,
    /// A `bool`.
    Bool(bool),
    /// An `int` of 64 bits.
    Int(i64),
    /// A `float`.
    Float(f64),
    /// A `str`.
    Text(&'a str),
    /// `bytes`.
    Bytes(&'a [u8]),
    /// A pickle.
    Pickle(Range<usize>),
    /// A pickle, and the buffers beside it.
    PickleBuffers(Range<usize>, Vec<Range<usize>>),
    /// A plain array, and its elements.
    Array(ArrayHead<'a>, Range<usize>),
    /// A list of `count` references, from that position of the document's table on.
    References {
        /// The position of the first.
        first: usize,
        /// The number of references.
        count: usize,
    },
    /// The begin of a container of plain values, which [`tree::Reader`](super::tree::Reader) reads.
    Tree,
}

impl<'a> Cursor<'a> {
    /// Reads a value; the cursor ends up behind it, and before what is in a tree.
    ///
    /// # Errors
    /// The document ends early, or the tag is none of a value.
    #[inline]
    pub fn part(&mut self) -> Result<Part<'a>, Malformed> {
        Ok(match self.u8()? {
            tag::NONE => Part::None,
            tag::FALSE => Part::Bool(false),
            tag::TRUE => Part::Bool(true),
            tag::INT => Part::Int(self.u64()? as i64),
            tag::FLOAT => Part::Float(f64::from_bits(self.u64()?)),
            tag::STR => {
                let n = self.length()?;
                Part::Text(self.text(n)?)
            }
            tag::BYTES => {
                let n = self.length()?;
                Part::Bytes(self.take(n)?)
            }
            tag::PICKLE => {
                let n = self.length()?;
                Part::Pickle(self.range(n)?)
            }
            tag::PICKLE_BUFFERS => {
                let (n, lengths) = self.pickle_head()?;
                let pickle = self.range(n)?;
                let buffers = lengths.into_iter().map(|n| self.aligned_range(n));
                Part::PickleBuffers(pickle, buffers.collect::<Result<_, _>>()?)
            }
            tag::NDARRAY => {
                let (head, size) = self.array_head()?;
                Part::Array(head, self.aligned_range(size)?)
            }
            tag::REFS => {
                let (first, count) = (self.u32()? as usize, self.u32()? as usize);
                Part::References { first, count }
            }
            tag::TREE => Part::Tree,
            _ => return Err(Malformed),
        })
    }

    /// Passes the next `n` bytes and returns their place.
    fn range(&mut self, n: usize) -> Result<Range<usize>, Malformed> {
        let begin = self.at();
        self.take(n)?;
        Ok(begin..begin + n)
    }

    /// Passes `n` bytes behind the padding and returns their place.
    fn aligned_range(&mut self, n: usize) -> Result<Range<usize>, Malformed> {
        self.align()?;
        self.range(n)
    }
}

#[cfg(test)]
mod tests {
    use helio_types::{ObjectId, WorkerAddress};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::{ALIGNMENT, COPY_MAX, Memory, Sink, dtype_of, put_pickle_head};
    use super::*;
    use crate::frame::INLINE_MAX;
    use crate::peer::Reference;
    use crate::references;

    impl Memory for Vec<u8> {
        fn bytes(&self) -> &[u8] {
            self
        }
    }

    /// A value as its owner has it, written in the way of the extension.
    #[derive(Clone, Debug)]
    enum Value {
        None,
        Bool(bool),
        Int(i64),
        Float(f64),
        Text(String),
        Bytes(Vec<u8>),
        Pickle(Vec<u8>, Vec<Vec<u8>>),
        Array { is_fortran: bool, letters: &'static [u8], shape: Vec<usize> },
        References(u32, u32),
    }

    fn filled(n: usize) -> Vec<u8> {
        (1..=255).cycle().take(n).collect()
    }

    impl Value {
        fn write(&self, sink: &mut Sink<Vec<u8>>) {
            match self {
                Self::None => sink.u8(tag::NONE),
                Self::Bool(value) => sink.u8(if *value { tag::TRUE } else { tag::FALSE }),
                Self::Int(number) => sink.tagged(tag::INT, *number as u64),
                Self::Float(number) => sink.tagged(tag::FLOAT, number.to_bits()),
                Self::Text(text) => {
                    sink.tagged(tag::STR, text.len() as u64);
                    sink.bytes(text.as_bytes());
                }
                Self::Bytes(bytes) => {
                    sink.tagged(tag::BYTES, bytes.len() as u64);
                    sink.memory(bytes.clone());
                }
                Self::Pickle(pickle, buffers) => {
                    let lengths: Vec<usize> = buffers.iter().map(Vec::len).collect();
                    sink.append(|out| put_pickle_head(out, pickle.len(), &lengths));
                    sink.memory(pickle.clone());
                    for buffer in buffers {
                        sink.align();
                        sink.memory(buffer.clone());
                    }
                }
                Self::Array { is_fortran, letters, shape } => {
                    let dtype = dtype_of(letters).unwrap();
                    let shape = shape.clone();
                    let head = ArrayHead { is_fortran: *is_fortran, dtype, shape };
                    sink.u8(tag::NDARRAY);
                    sink.append(|out| head.put(out));
                    sink.align();
                    sink.memory(filled(self.elements()));
                }
                Self::References(first, count) => {
                    sink.u8(tag::REFS);
                    sink.u32(*first);
                    sink.u32(*count);
                }
            }
        }

        /// Returns the number of bytes of an array's elements.
        fn elements(&self) -> usize {
            let Self::Array { letters, shape, .. } = self else { return 0 };
            let item: usize = dtype_of(letters).unwrap()[2..].parse().unwrap();
            item * shape.iter().product::<usize>()
        }

        /// Asserts that a part of the document is this value, and that its buffers are aligned.
        fn check(&self, part: Part<'_>, document: &[u8]) {
            let aligned = |range: &Range<usize>| {
                assert_eq!(range.start % ALIGNMENT, 0, "a buffer of {self:?} is not aligned");
                document[range.clone()].to_vec()
            };
            match (self, part) {
                (Self::None, Part::None) => {}
                (Self::Bool(value), Part::Bool(found)) => assert_eq!(*value, found),
                (Self::Int(number), Part::Int(found)) => assert_eq!(*number, found),
                (Self::Float(number), Part::Float(found)) => {
                    assert_eq!(number.to_bits(), found.to_bits());
                }
                (Self::Text(text), Part::Text(found)) => assert_eq!(text, found),
                (Self::Bytes(bytes), Part::Bytes(found)) => assert_eq!(bytes, found),
                (Self::Pickle(pickle, none), Part::Pickle(found)) => {
                    assert_eq!((&document[found], none.len()), (&pickle[..], 0));
                }
                (Self::Pickle(pickle, buffers), Part::PickleBuffers(found, ranges)) => {
                    assert_eq!(&document[found], pickle);
                    assert_eq!(ranges.iter().map(aligned).collect::<Vec<_>>(), *buffers);
                }
                (Self::Array { is_fortran, letters, shape }, Part::Array(head, range)) => {
                    let dtype = dtype_of(letters).unwrap();
                    assert_eq!((head.is_fortran, head.dtype), (*is_fortran, dtype));
                    assert_eq!((&head.shape, aligned(&range)), (shape, filled(self.elements())));
                }
                (Self::References(first, count), Part::References { first: f, count: n }) => {
                    assert_eq!((*first as usize, *count as usize), (f, n));
                }
                (value, part) => panic!("{value:?} was read as {part:?}"),
            }
        }
    }

    /// Sizes in bytes around each limit of the layout: the padding of buffers, the longest part that is copied, and
    /// the longest document that travels in a frame.
    fn sizes() -> Vec<usize> {
        let bounds = [ALIGNMENT, COPY_MAX, INLINE_MAX];
        let around = bounds.into_iter().flat_map(|bound| [bound - 1, bound, bound + 1]);
        [0, 1].into_iter().chain(around).collect()
    }

    /// Every kind of value at every size.
    fn values() -> Vec<Value> {
        values_of(sizes())
    }

    /// Every kind of value, those with a size at each of these; arrays in both orders.
    fn values_of(sizes: impl IntoIterator<Item = usize>) -> Vec<Value> {
        let numbers = [0, 1, -1, 255, 256, i64::MIN, i64::MAX].map(Value::Int);
        let floats = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE].map(Value::Float);
        let refs = [(0, 0), (0, 1), (u32::MAX, u32::MAX)].map(|(at, n)| Value::References(at, n));
        let mut all = vec![Value::None, Value::Bool(false), Value::Bool(true)];
        all.extend(numbers.into_iter().chain(floats).chain(refs));
        for n in sizes {
            all.push(Value::Text("x".repeat(n)));
            all.push(Value::Text("é".repeat(n)));
            all.push(Value::Bytes(filled(n)));
            for buffers in [vec![], vec![0], vec![n], vec![n, 1, n], vec![1; 300]] {
                all.push(Value::Pickle(filled(n), buffers.into_iter().map(filled).collect()));
            }
            for is_fortran in [false, true] {
                for letters in [&b"?"[..], b"h", b"f", b"Zd"] {
                    for shape in [vec![n], vec![n, 1], vec![2, n], vec![1; 64]] {
                        all.push(Value::Array { is_fortran, letters, shape });
                    }
                }
            }
        }
        all.push(Value::Array { is_fortran: false, letters: b"d", shape: Vec::new() });
        all
    }

    #[test]
    fn every_kind_of_value_comes_back_at_every_size() {
        for value in values() {
            let mut sink = Sink::default();
            value.write(&mut sink);
            let document = sink.take();
            let mut cursor = Cursor::new(&document, 0);
            value.check(cursor.part().unwrap(), &document);
            assert_eq!(cursor.rest(), b"", "{value:?} was not read to its end");
        }
    }

    #[test]
    fn values_with_references_inside_come_back_with_their_table() {
        let references: Vec<Reference> = (0..3)
            .map(|n| Reference {
                id: ObjectId([n; ObjectId::LEN]),
                owner: WorkerAddress { port: u32::from(n % 2), ..WorkerAddress::default() },
            })
            .collect();
        let ids: Vec<ObjectId> = references.iter().map(|reference| reference.id).collect();
        for value in values() {
            for n in 0..=references.len() {
                let mut sink = Sink::default();
                sink.u8(tag::WITH_REFS);
                value.write(&mut sink);
                let begin = sink.len() as u64;
                let rows = references[..n].iter().cloned();
                sink.append(|out| references::put(out, rows));
                sink.u64(begin);
                let document = sink.take();
                let table = references::get(&document).unwrap();
                assert_eq!(table.ids, ids[..n]);
                value.check(Cursor::new(&document, 1).part().unwrap(), &document);
            }
        }
    }

    #[test]
    fn values_follow_one_another_as_in_the_arguments_of_a_call() {
        let all: Vec<Value> = values().into_iter().step_by(7).collect();
        let mut sink = Sink::default();
        all.iter().for_each(|value| value.write(&mut sink));
        let document = sink.take();
        let mut cursor = Cursor::new(&document, 0);
        all.iter().for_each(|value| value.check(cursor.part().unwrap(), &document));
        assert_eq!(cursor.rest(), b"");
    }

    #[test]
    fn a_value_that_is_cut_anywhere_is_refused() {
        let is_short = |value: &&Value| match value {
            Value::Text(text) => text.len() < 200,
            Value::Bytes(bytes) => bytes.len() < 200,
            Value::Pickle(pickle, buffers) => pickle.len() + buffers.len() < 200,
            Value::Array { .. } => value.elements() < 200,
            _ => true,
        };
        for value in values().iter().filter(is_short) {
            let mut sink = Sink::default();
            value.write(&mut sink);
            let document = sink.take();
            for n in 0..document.len() {
                let read = Cursor::new(&document[..n], 0).part();
                assert_eq!(read, Err(Malformed), "{n} bytes of {value:?}");
            }
        }
    }

    #[test]
    fn tags_that_begin_no_value_are_refused() {
        let values = 0..=13_u8;
        let not_here = [tag::DEPENDENCY, tag::WITH_REFS];
        for tag in 0..=u8::MAX {
            let mut document = vec![tag];
            document.resize(200, 0);
            let read = Cursor::new(&document, 0).part();
            // The zeros are a dtype without digits.
            let begins_one = values.contains(&tag) && !not_here.contains(&tag);
            assert_eq!(read.is_ok(), begins_one && tag != tag::NDARRAY, "tag {tag}");
        }
    }

    #[test]
    fn lengths_beyond_the_end_are_refused_before_anything_is_allocated() {
        for n in [8, 9, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            for tag in [tag::STR, tag::BYTES, tag::PICKLE] {
                let mut document = vec![tag];
                document.extend_from_slice(&n.to_le_bytes());
                document.extend_from_slice(&[b'x'; 7]);
                assert_eq!(
                    Cursor::new(&document, 0).part(),
                    Err(Malformed),
                    "tag {tag}, {n} bytes"
                );
            }
            let mut document = Vec::new();
            put_pickle_head(&mut document, 0, &[0, n as usize]);
            document.resize(ALIGNMENT + 7, 0);
            assert_eq!(Cursor::new(&document, 0).part(), Err(Malformed), "a buffer of {n} bytes");
            let mut document = vec![tag::NDARRAY];
            let shape = vec![n as usize];
            ArrayHead { is_fortran: false, dtype: "|u1", shape }.put(&mut document);
            document.resize(ALIGNMENT + 7, 0);
            assert_eq!(Cursor::new(&document, 0).part(), Err(Malformed), "{n} elements");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_document_panic(
            tag in 0_u8..16,
            bytes in vec(prop_oneof![Just(0_u8), Just(1), any::<u8>()], 0..200),
        ) {
            let document = [vec![tag], bytes].concat();
            let mut cursor = Cursor::new(&document, 0);
            while let Ok(part) = cursor.part() {
                let within = |range: &Range<usize>| range.end <= document.len();
                match part {
                    Part::Pickle(range) | Part::Array(_, range) => prop_assert!(within(&range)),
                    Part::PickleBuffers(range, buffers) => {
                        prop_assert!(within(&range) && buffers.iter().all(within));
                    }
                    _ => {}
                }
            }
        }

        #[test]
        fn a_changed_byte_never_panics(at in 0_usize..700, value in 0_usize..2_000, byte: u8) {
            let all = values_of([0, 1, ALIGNMENT]);
            let mut sink = Sink::default();
            all[value % all.len()].write(&mut sink);
            let mut document = sink.take();
            let at = at % document.len();
            document[at] = byte;
            if let Ok(Part::Array(_, range)) = Cursor::new(&document, 0).part() {
                prop_assert!(range.end <= document.len());
            }
        }
    }
}
