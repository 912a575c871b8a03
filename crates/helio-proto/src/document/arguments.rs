//! The head of a call's arguments: `u8` flags, `u32` positional arguments, then (with [`KEYWORDS`]) `u32` names, each a
//! `u32` length and text. A value for each argument follows, positional ones first; [`tag::DEPENDENCY`](super::tag) stands
//! for one that is itself a reference. The table of references inside others comes last, as in documents.

use super::layout::Cursor;
use crate::reader::{Malformed, put_bytes, put_count};

/// The flag of a call with arguments by keyword.
pub const KEYWORDS: u8 = 1;
/// The flag of arguments with references inside.
pub const REFS: u8 = 2;
/// The flag of arguments whose buffers want aligned bytes.
pub const BUFFERS: u8 = 4;

/// The head of a call's arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head<'a> {
    /// The number of positional arguments.
    pub positional: usize,
    /// The names of the other arguments.
    pub names: Vec<&'a str>,
}

/// Begins a body. Its flags, the first byte, are those that are known before any argument is written.
pub fn begin(out: &mut Vec<u8>, positional: usize, keywords: usize) {
    out.push(if keywords == 0 { 0 } else { KEYWORDS });
    put_count(out, positional);
    if keywords > 0 {
        put_count(out, keywords);
    }
}

/// Appends the name of an argument.
pub fn put_name(out: &mut Vec<u8>, name: &str) {
    put_bytes(out, name.as_bytes());
}

impl<'a> Head<'a> {
    /// Reads the head of a whole body; the cursor is where the first argument begins.
    ///
    /// # Errors
    /// The body ends early, or claims more arguments than it has bytes.
    pub fn get(body: &'a [u8]) -> Result<(Self, Cursor<'a>), Malformed> {
        let mut cursor = Cursor::new(body, 0);
        let flags = cursor.u8()?;
        let positional = cursor.count(1)?;
        let mut names = Vec::new();
        if flags & KEYWORDS != 0 {
            // A name has a length, and its argument a tag.
            for _ in 0..cursor.count(5)? {
                let n = cursor.u32()? as usize;
                names.push(cursor.text(n)?);
            }
        }
        Ok((Self { positional, names }, cursor))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn body(positional: usize, names: &[&str]) -> Vec<u8> {
        let mut body = Vec::new();
        begin(&mut body, positional, names.len());
        names.iter().for_each(|name| put_name(&mut body, name));
        body.extend(std::iter::repeat_n(super::super::tag::NONE, positional + names.len()));
        body
    }

    #[test]
    fn every_head_comes_back_and_the_cursor_stands_at_the_first_argument() {
        let long = "n".repeat(300);
        let texts = ["", "x", "é", &long];
        for positional in [0, 1, 2, 255, 256] {
            for n in 0..=texts.len() {
                let names = &texts[..n];
                let bytes = body(positional, names);
                assert_eq!(bytes[0] & KEYWORDS != 0, n > 0);
                let (head, cursor) = Head::get(&bytes).unwrap();
                assert_eq!(head, Head { positional, names: names.to_vec() });
                assert_eq!(cursor.rest().len(), positional + n);
            }
        }
    }

    #[test]
    fn a_head_that_ends_early_or_claims_too_much_is_refused() {
        let whole = body(0, &["name", "other"]);
        let end = whole.len() - 2;
        (0..end).for_each(|n| assert!(Head::get(&whole[..n]).is_err(), "{n} of {end} bytes"));
        let counts = |positional: u32, names: u32| {
            let mut hostile = vec![KEYWORDS];
            hostile.extend_from_slice(&positional.to_le_bytes());
            hostile.extend_from_slice(&names.to_le_bytes());
            hostile
        };
        assert!(Head::get(&counts(u32::MAX, 0)).is_err());
        assert!(Head::get(&counts(0, u32::MAX)).is_err());
        let mut name = counts(0, 1);
        name.extend_from_slice(&u32::MAX.to_le_bytes());
        name.push(0);
        assert!(Head::get(&name).is_err());
        let mut latin = body(0, &["é"]);
        let at = latin.len() - 2;
        latin[at] = b'x';
        assert!(Head::get(&latin).is_err(), "a name is text");
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_head_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok((head, cursor)) = Head::get(&bytes) {
                prop_assert!(head.positional + head.names.len() <= bytes.len());
                prop_assert!(cursor.rest().len() < bytes.len());
            }
        }
    }
}
