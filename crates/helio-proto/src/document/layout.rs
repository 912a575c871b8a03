//! The tags, limits and heads of a document, and reading them.

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

/// The alignment of buffers, in bytes from the document's begin. As large as a cache line, which vector instructions
/// and libraries over `ctypes.data` may count on.
pub const ALIGNMENT: usize = 64;

/// The most dimensions of an array that is not pickled.
pub const DIMENSIONS_MAX: usize = 64;

/// Returns numpy's name of a type of elements, from its letters in the language of `struct`. `None` for types that are
/// not the same on every machine.
#[must_use]
pub fn dtype_of(format: &[u8]) -> Option<&'static str> {
    Some(match format {
        b"?" => "|b1",
        b"b" => "|i1",
        b"B" => "|u1",
        b"h" => "<i2",
        b"H" => "<u2",
        b"i" => "<i4",
        b"I" => "<u4",
        // The size of a C long differs between platforms; numpy's names tell the size.
        b"l" if size_of::<std::ffi::c_long>() == 8 => "<i8",
        b"L" if size_of::<std::ffi::c_long>() == 8 => "<u8",
        b"q" => "<i8",
        b"Q" => "<u8",
        b"e" => "<f2",
        b"f" => "<f4",
        b"d" => "<f8",
        b"Zf" => "<c8",
        b"Zd" => "<c16",
        _ => return None,
    })
}

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

    /// A `u32` count of things of at least `least` bytes each, which are still to come.
    pub fn count(&mut self, least: usize) -> Result<usize, Malformed> {
        self.reader.count(least)
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

    #[test]
    fn the_digits_of_a_dtype_are_the_bytes_of_its_elements() {
        let letters =
            ["?", "b", "B", "h", "H", "i", "I", "l", "L", "q", "Q", "e", "f", "d", "Zf", "Zd"];
        let sizes = [1, 1, 1, 2, 2, 4, 4, size_of::<std::ffi::c_long>(), 0, 8, 8, 2, 4, 8, 8, 16];
        for (letters, size) in letters.into_iter().zip(sizes) {
            let size = if letters == "L" { size_of::<std::ffi::c_long>() } else { size };
            let dtype = dtype_of(letters.as_bytes()).unwrap();
            for shape in [vec![], vec![0], vec![1], vec![3, 5], vec![1; DIMENSIONS_MAX]] {
                let count: usize = shape.iter().product();
                let head = ArrayHead { is_fortran: false, dtype, shape };
                let mut out = Vec::new();
                head.put(&mut out);
                assert_eq!(
                    Cursor::new(&out, 0).array_head(),
                    Ok((head, count * size)),
                    "{letters}"
                );
            }
        }
    }

    #[test]
    fn elements_that_differ_between_machines_or_have_fields_have_no_dtype() {
        // Another byte order, records, pointers, text, extended precision, void, and nothing at all.
        for letters in
            ["", ">d", "=d", "@i", "<f", "T{i:x:}", "O", "w", "3s", "g", "Zg", "P", "ff", "x"]
        {
            assert_eq!(dtype_of(letters.as_bytes()), None, "{letters}");
        }
    }
}
