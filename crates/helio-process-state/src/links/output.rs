//! Bytes on their way out of a link.

use helio_types::mutant;

/// Room of this size is kept when everything was written, in bytes.
const KEPT_MAX: usize = 1 << 20;
/// The room to which larger room shrinks, in bytes.
const KEPT: usize = 64 << 10;

/// Frames that wait to be written.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    written: usize,
}

impl Output {
    /// Returns the buffer to which frames are appended.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// The bytes that the shell writes next.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    /// Returns the number of bytes that wait to be written.
    #[must_use]
    pub fn unwritten(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// The shell has written the next `n` bytes.
    pub fn advance(&mut self, n: usize) {
        assert!(n <= self.unwritten(), "frames that were not written would be dropped");
        self.written += match n < self.unwritten() {
            true if mutant!("rest-of-a-message-dropped") => self.unwritten(),
            true if mutant!("part-of-a-message-sent-again") => 0,
            _ => n,
        };
        assert!(self.written <= self.bytes.len(), "bytes would be sent that nobody has written");
        if self.written < self.bytes.len() {
            return;
        }
        self.written = 0;
        self.bytes.clear();
        // One large message is not to cost its memory for as long as the link lasts.
        if self.bytes.capacity() > KEPT_MAX {
            self.bytes.shrink_to(KEPT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_in_part_goes_on_where_it_stopped() {
        let mut output = Output::default();
        output.buffer().extend_from_slice(b"abcdef");
        output.advance(4);
        assert_eq!((output.pending(), output.unwritten()), (&b"ef"[..], 2));
        output.buffer().extend_from_slice(b"gh");
        assert_eq!(output.pending(), b"efgh");
        output.advance(4);
        assert_eq!(output.pending(), b"");
        output.buffer().extend_from_slice(&vec![0; 2 * KEPT_MAX]);
        output.advance(2 * KEPT_MAX);
        assert!(output.bytes.capacity() <= KEPT_MAX, "LIMIT-1");
    }
}
