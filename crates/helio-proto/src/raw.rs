//! A message within another one that whoever passes it on does not read.

use std::marker::PhantomData;

use bytes::{Buf, BufMut, Bytes};
use prost::DecodeError;
use prost::encoding::{self, DecodeContext, WireType};

use crate::wire::{Field, Wire, decode, encode, repeated};

/// The bytes of a message of the type `M`, which nobody has checked yet: [`Raw::read`] does.
///
/// On the wire it is the message itself.
pub struct Raw<M> {
    bytes: Bytes,
    message: PhantomData<fn() -> M>,
}

impl<M: Wire> Raw<M> {
    /// The bytes of a message.
    #[must_use]
    pub fn of(message: &M) -> Self {
        Self { bytes: encode(message).into(), message: PhantomData }
    }

    /// The message.
    ///
    /// # Errors
    /// When the bytes are not such a message.
    pub fn read(&self) -> Result<M, DecodeError> {
        decode(&self.bytes)
    }
}

impl<M> Clone for Raw<M> {
    fn clone(&self) -> Self {
        Self { bytes: self.bytes.clone(), message: PhantomData }
    }
}

impl<M> Default for Raw<M> {
    /// The bytes of a message with nothing but defaults.
    fn default() -> Self {
        Self { bytes: Bytes::new(), message: PhantomData }
    }
}

impl<M> PartialEq for Raw<M> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl<M> std::fmt::Debug for Raw<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.bytes.len())
    }
}

impl<M> Field for Raw<M> {
    fn write(&self, tag: u32, buf: &mut impl BufMut) {
        // Written even when empty: in a list each one counts.
        encoding::bytes::encode(tag, &self.bytes, buf);
    }
    fn merge(
        &mut self,
        wire: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        encoding::bytes::merge(wire, &mut self.bytes, buf, ctx)
    }
    fn len(&self, tag: u32) -> usize {
        encoding::bytes::encoded_len(tag, &self.bytes)
    }
}

repeated!(Raw<M>, M);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::messages;

    messages! {
        struct Inner { 1 name: String, 2 number: u64 }
        struct Passed { 1 one: Raw<Inner>, 2 all: Vec<Raw<Inner>> }
        struct Known { 1 one: Inner, 2 all: Vec<Inner> }
    }

    fn inner(name: &str, number: u64) -> Inner {
        Inner { name: name.to_owned(), number }
    }

    #[test]
    fn on_the_wire_it_is_the_message_itself() {
        let known = Known { one: inner("f", 3), all: vec![inner("", 0), inner("g", 1 << 40)] };
        let passed: Passed = decode(&encode(&known)).unwrap();
        assert_eq!(passed.one.read(), Ok(known.one.clone()));
        let all: Vec<Inner> = passed.all.iter().map(|one| one.read().unwrap()).collect();
        assert_eq!(all, known.all);
        assert_eq!(decode::<Known>(&encode(&passed)).as_ref(), Ok(&known));
        let own =
            Passed { one: Raw::of(&known.one), all: vec![Raw::default(), Raw::of(&known.all[1])] };
        assert_eq!(own, passed);
    }

    #[test]
    fn only_who_reads_it_finds_that_it_is_broken() {
        let broken = [2 << 3 | 2, 2, 1 << 3 | 2, 9];
        let passed: Passed = decode(&broken).unwrap();
        assert!(passed.all[0].read().is_err(), "a text of nine bytes that are not there");
        assert!(decode::<Known>(&broken).is_err());
    }
}
