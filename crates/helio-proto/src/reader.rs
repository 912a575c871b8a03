//! Reading of fixed layouts. Every length is checked against what is there before it is believed.

use thiserror::Error;

/// The bytes are not what the layout says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("malformed frame")]
pub struct Malformed;

/// A cursor over a frame.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the bytes that are not read yet.
    #[inline]
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `n` bytes.
    ///
    /// # Errors
    /// When fewer are left; so for all that follow.
    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.rest.split_at_checked(n).ok_or(Malformed)?;
        self.rest = rest;
        Ok(head)
    }

    /// The next `N` bytes, by value.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*head)
    }

    /// A byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    /// A little-endian `u16`.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// A little-endian `u32`.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A little-endian `u64`.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A `u32` length and that many bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let n = self.u32()? as usize;
        self.take(n)
    }

    /// A `u32` length and that much text.
    pub fn str(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed)
    }

    /// A `u32` count of things of at least `least` bytes each; so a count can never ask for more
    /// memory than the frame itself took.
    pub fn count(&mut self, least: usize) -> Result<usize, Malformed> {
        let n = self.u32()? as usize;
        // Things of no bytes could be counted without end; each counts for one.
        if n.saturating_mul(least.max(1)) > self.rest.len() { Err(Malformed) } else { Ok(n) }
    }
}

/// Appends the number of elements that follow.
pub fn put_count(out: &mut Vec<u8>, count: usize) {
    assert!(count <= u32::MAX as usize, "{count} things would be read back as fewer");
    out.extend_from_slice(&(count as u32).to_le_bytes());
}

/// Appends a `u32` length and the bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = bytes.len();
    assert!(length <= u32::MAX as usize, "{length} bytes would be read back as fewer");
    out.extend_from_slice(&(length as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}
