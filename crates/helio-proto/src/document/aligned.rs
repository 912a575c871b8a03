//! Copies of bytes at an address that vector instructions can use.

use std::ops::Deref;

use super::layout::ALIGNMENT;

/// A copy that begins at an address that is a multiple of [`ALIGNMENT`].
#[derive(Debug)]
pub struct Aligned {
    /// The copy, with room around it: an allocation begins where the allocator likes.
    block: Box<[u8]>,
    begin: usize,
    len: usize,
}

impl Aligned {
    /// Copies the bytes.
    #[must_use]
    pub fn copied(bytes: &[u8]) -> Self {
        let len = bytes.len();
        // A box, whose bytes stay where they are when it is moved.
        let mut block = vec![0; len + ALIGNMENT - 1].into_boxed_slice();
        let begin = block.as_ptr().align_offset(ALIGNMENT);
        block[begin..begin + len].copy_from_slice(bytes);
        Self { block, begin, len }
    }

    /// Whether the bytes begin at a multiple of [`ALIGNMENT`] where they lie.
    #[inline]
    #[must_use]
    pub fn is_aligned(bytes: &[u8]) -> bool {
        bytes.as_ptr().align_offset(ALIGNMENT) == 0
    }
}

impl Deref for Aligned {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.block[self.begin..self.begin + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_same_bytes_at_an_aligned_address_and_keeps_both_when_it_moves() {
        let whole: Vec<u8> = (0..=255).cycle().take(3 * ALIGNMENT + 1).collect();
        for n in [0, 1, ALIGNMENT - 1, ALIGNMENT, ALIGNMENT + 1, whole.len()] {
            for begin in [0, 1, 3].into_iter().filter(|begin| begin + n <= whole.len()) {
                let bytes = &whole[begin..begin + n];
                let copies = [Aligned::copied(bytes), Aligned::copied(bytes)];
                for copy in Vec::from(copies) {
                    assert!(Aligned::is_aligned(&copy), "{n} bytes from {begin}");
                    assert_eq!(*copy, *bytes, "{n} bytes from {begin}");
                }
            }
        }
    }

    #[test]
    fn an_address_between_two_multiples_is_not_aligned() {
        let copy = Aligned::copied(&[7; 2 * ALIGNMENT]);
        let aligned = (0..=ALIGNMENT).filter(|at| Aligned::is_aligned(&copy[*at..]));
        assert_eq!(aligned.collect::<Vec<_>>(), [0, ALIGNMENT]);
    }
}
