//! Frames: a little-endian `u32` length, then that many bytes.
//!
//! The length is checked before anything is allocated, so that garbage costs its sender the
//! connection and nobody else anything (**LIMIT-1**).

use thiserror::Error;

/// The longest frame, in bytes. Values beyond `INLINE_MAX` travel through the object store, so
/// only pickled functions and classes come near it.
pub const FRAME_MAX: usize = 256 << 20;

/// The longest frame before a peer has proven that it holds the token, in bytes.
pub const HELLO_MAX: usize = 4 << 10;

/// The largest value that travels inside a frame, in bytes.
pub const INLINE_MAX: usize = 100 << 10;

/// A length that no peer of ours sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a frame of {length} bytes was announced; at most {max} are allowed here")]
pub struct TooLong {
    /// The announced length, in bytes.
    pub length: usize,
    /// The bound at this point of the connection.
    pub max: usize,
}

/// Appends a frame; `body` writes its bytes.
pub fn put(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    // The length is known once the body is written; measuring the body first would walk it twice.
    out.extend_from_slice(&[0; 4]);
    body(out);
    assert!(out.len() >= start + 4, "a body would have taken away what was written before it");
    let length = out.len() - start - 4;
    assert!(
        length <= u32::MAX as usize,
        "a frame of {length} bytes would be announced as a shorter one"
    );
    let length = length as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// The extent of the first whole frame in `bytes`: `Some((4, 4 + length))`, or `None` when more
/// bytes are needed.
///
/// # Errors
/// When the announced length is over `max`.
pub fn split(bytes: &[u8], max: usize) -> Result<Option<(usize, usize)>, TooLong> {
    let Some(header) = bytes.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*header) as usize;
    // Refused before the body is there: a buffer that grew towards a false length would be the sender's to fill.
    if length > max {
        return Err(TooLong { length, max });
    }
    Ok((bytes.len() >= 4 + length).then_some((4, 4 + length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_split_where_they_were_joined_and_long_ones_are_refused() {
        let mut out = Vec::new();
        put(&mut out, |b| b.extend_from_slice(b"one"));
        put(&mut out, |_| {});
        assert_eq!(split(&out, 10), Ok(Some((4, 7))));
        assert_eq!(split(&out[7..], 10), Ok(Some((4, 4))));
        assert_eq!(split(&out[..6], 10), Ok(None));
        assert_eq!(split(&[0xff; 4], 10), Err(TooLong { length: u32::MAX as usize, max: 10 }));
    }
}
