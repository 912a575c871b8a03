//! The layout of a serialized Python value: a tag, and what follows it up to the bytes of the value itself.
//!
//! The Python extension makes objects of what is read here (`helio-py`, in `codec`, has the table of all tags). Nothing
//! here is believed before it is checked: a [`Cursor`] never reads beyond the end.

use crate::reader::{Malformed, Reader};

/// The first byte of a document: the kind of the value that follows.
pub mod tag {
    /// `None`.
    pub const NONE: u8 = 0;
    /// `False`.
    pub const FALSE: u8 = 1;
    /// `True`.
    pub const TRUE: u8 = 2;
    /// An `int` of 64 bits.
    pub const INT: u8 = 3;
    /// A `float`.
    pub const FLOAT: u8 = 4;
    /// A `str`.
    pub const STR: u8 = 5;
    /// `bytes`.
    pub const BYTES: u8 = 6;
    /// A pickled value.
    pub const PICKLE: u8 = 7;
    /// A pickled value with buffers beside the pickle.
    pub const PICKLE_BUFFERS: u8 = 8;
    /// A plain `numpy.ndarray`.
    pub const NDARRAY: u8 = 9;
    /// An argument that is a reference.
    pub const DEPENDENCY: u8 = 10;
    /// A document with references inside.
    pub const WITH_REFS: u8 = 11;
    /// A list of nothing but references.
    pub const REFS: u8 = 12;
    /// A container of plain values.
    pub const TREE: u8 = 13;
}

/// The alignment of buffers, in bytes from the document's begin.
pub const ALIGNMENT: usize = 64;

/// An array before its elements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrayHead<'a> {
    /// Whether the elements lie in Fortran's order, not C's.
    pub is_fortran: bool,
    /// numpy's name of the elements' type, such as `<f8`.
    pub dtype: &'a str,
    /// The length of each dimension.
    pub shape: Vec<usize>,
}

impl ArrayHead<'_> {
    /// Appends the head; the elements follow at the next multiple of [`ALIGNMENT`].
    ///
    /// ```
    /// use helio_proto::document::{ArrayHead, Cursor};
    ///
    /// let head = ArrayHead { is_fortran: false, dtype: "<f8", shape: vec![2, 3] };
    /// let mut bytes = Vec::new();
    /// head.put(&mut bytes);
    /// assert_eq!(Cursor::new(&bytes, 0).array_head(), Ok((head, 2 * 3 * 8)));
    /// ```
    pub fn put(&self, out: &mut Vec<u8>) {
        let (dtype, shape) = (self.dtype.as_bytes(), &self.shape);
        assert!(dtype.len().max(shape.len()) <= 255, "a longer head would be read back as shorter");
        out.push(if self.is_fortran { b'F' } else { b'C' });
        out.push(dtype.len() as u8);
        out.extend_from_slice(dtype);
        out.push(shape.len() as u8);
        shape.iter().for_each(|n| out.extend_from_slice(&(*n as u64).to_le_bytes()));
    }

    /// Returns the number of bytes that the elements take.
    fn size(&self) -> Result<usize, Malformed> {
        // The digits of `<f8` are the bytes of an element.
        let digits = self.dtype.get(2..).ok_or(Malformed)?;
        let item: usize = digits.parse().map_err(|_| Malformed)?;
        let mut sizes = self.shape.iter();
        sizes.try_fold(item, |bytes, n| bytes.checked_mul(*n)).ok_or(Malformed)
    }
}

/// Appends the head of a pickle: its length, and those of the buffers that follow it, each at the next multiple of
/// [`ALIGNMENT`]. Without buffers the tag is [`tag::PICKLE`], and nothing says how many there are.
pub fn put_pickle_head(out: &mut Vec<u8>, pickle: usize, buffers: &[usize]) {
    let plain = buffers.is_empty();
    out.push(if plain { tag::PICKLE } else { tag::PICKLE_BUFFERS });
    out.extend_from_slice(&(pickle as u64).to_le_bytes());
    if !plain {
        crate::reader::put_count(out, buffers.len());
        buffers.iter().for_each(|n| out.extend_from_slice(&(*n as u64).to_le_bytes()));
    }
}

/// A place in a document, from which it is read on.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    size: usize,
    reader: Reader<'a>,
}

impl<'a> Cursor<'a> {
    /// Begins at a place of the document; beyond its end there is nothing to read.
    #[must_use]
    pub fn new(document: &'a [u8], at: usize) -> Self {
        let rest = document.get(at..).unwrap_or_default();
        Self { size: document.len(), reader: Reader::new(rest) }
    }

    /// Returns the number of bytes of the document before this place.
    #[inline]
    #[must_use]
    pub fn at(&self) -> usize {
        self.size - self.reader.rest().len()
    }

    /// All bytes from here on.
    #[inline]
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.reader.rest()
    }

    /// The next byte, without passing it.
    #[must_use]
    pub fn peek(&self) -> Option<u8> {
        self.reader.rest().first().copied()
    }

    /// The next `n` bytes.
    ///
    /// # Errors
    /// When fewer are left; so for all that follow.
    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        self.reader.take(n)
    }

    /// A byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.reader.u8()
    }

    /// A little-endian `u32`.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.reader.u32()
    }

    /// A little-endian `u64`.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.reader.u64()
    }

    /// A `u64` that counts bytes of memory.
    #[inline]
    pub fn length(&mut self) -> Result<usize, Malformed> {
        usize::try_from(self.u64()?).map_err(|_| Malformed)
    }

    /// The next `n` bytes, as text.
    #[inline]
    pub fn text(&mut self, n: usize) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.take(n)?).map_err(|_| Malformed)
    }

    /// Passes the padding up to the next multiple of [`ALIGNMENT`].
    pub fn align(&mut self) -> Result<(), Malformed> {
        let at = self.at();
        self.take(at.next_multiple_of(ALIGNMENT) - at).map(|_| ())
    }

    /// Returns the head of an array, and the number of bytes of its elements.
    pub fn array_head(&mut self) -> Result<(ArrayHead<'a>, usize), Malformed> {
        let is_fortran = self.u8()? == b'F';
        let n = usize::from(self.u8()?);
        let dtype = self.text(n)?;
        let shape = (0..self.u8()?).map(|_| self.length()).collect::<Result<_, _>>()?;
        let head = ArrayHead { is_fortran, dtype, shape };
        let size = head.size()?;
        Ok((head, size))
    }

    /// The lengths of a pickle and of its buffers, behind [`tag::PICKLE_BUFFERS`].
    pub fn pickle_head(&mut self) -> Result<(usize, Vec<usize>), Malformed> {
        let pickle = self.length()?;
        let n = self.reader.count(size_of::<u64>())?;
        let buffers = (0..n).map(|_| self.length()).collect::<Result<_, _>>()?;
        Ok((pickle, buffers))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn heads_come_back_and_every_cut_is_noticed() {
        let head = ArrayHead { is_fortran: true, dtype: "<c16", shape: vec![3, 0, 5] };
        let mut array = Vec::new();
        head.put(&mut array);
        let mut pickle = Vec::new();
        put_pickle_head(&mut pickle, 7, &[0, 100]);
        assert_eq!(Cursor::new(&array, 0).array_head(), Ok((head, 0)));
        assert_eq!(Cursor::new(&pickle, 1).pickle_head(), Ok((7, vec![0, 100])));
        for n in 0..array.len() {
            assert_eq!(Cursor::new(&array[..n], 0).array_head(), Err(Malformed), "{n} bytes");
        }
        for n in 0..pickle.len() {
            assert_eq!(Cursor::new(&pickle[..n], 1).pickle_head(), Err(Malformed), "{n} bytes");
        }
    }

    #[test]
    fn a_pickle_without_buffers_does_not_count_them() {
        let mut out = Vec::new();
        put_pickle_head(&mut out, 300, &[]);
        let mut cursor = Cursor::new(&out, 0);
        assert_eq!((cursor.u8(), cursor.length()), (Ok(tag::PICKLE), Ok(300)));
        assert_eq!(cursor.peek(), None);
    }

    #[test]
    fn lengths_that_cannot_be_are_refused_before_anything_is_allocated() {
        let array = |dtype: &'static str, shape: &[usize]| {
            let mut out = Vec::new();
            ArrayHead { is_fortran: false, dtype, shape: shape.to_vec() }.put(&mut out);
            Cursor::new(&out, 0).array_head().map(|(_, size)| size)
        };
        assert_eq!(array("<f8", &[usize::MAX, 2]), Err(Malformed), "the product overflows");
        assert_eq!(array("<", &[2]), Err(Malformed), "no size of an element");
        assert_eq!(array("<fé", &[2]), Err(Malformed), "no number");
        let mut hostile = vec![tag::PICKLE_BUFFERS];
        hostile.extend_from_slice(&1u64.to_le_bytes());
        hostile.extend_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(Cursor::new(&hostile, 1).pickle_head(), Err(Malformed));
    }

    #[test]
    fn padding_ends_at_multiples_of_the_alignment_from_the_begin_of_the_document() {
        let document = [0; 2 * ALIGNMENT];
        let mut cursor = Cursor::new(&document, 1);
        cursor.align().unwrap();
        assert_eq!(cursor.at(), ALIGNMENT);
        cursor.align().unwrap();
        assert_eq!(cursor.at(), ALIGNMENT, "it is there already");
        cursor.take(1).unwrap();
        cursor.align().unwrap();
        assert_eq!((cursor.at(), cursor.rest().len()), (2 * ALIGNMENT, 0));
        assert_eq!(Cursor::new(&document[..ALIGNMENT - 1], 1).align(), Err(Malformed));
        assert_eq!(Cursor::new(&document, 1_000).u8(), Err(Malformed));
    }

    #[test]
    fn text_is_checked() {
        assert_eq!(Cursor::new("é".as_bytes(), 0).text(2), Ok("é"));
        assert_eq!(Cursor::new("é".as_bytes(), 0).text(1), Err(Malformed));
    }
}
