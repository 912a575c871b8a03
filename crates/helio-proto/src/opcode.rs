//! The numbers of hot frames: what the bytes of [`crate::peer`] that are no data mean.

use crate::reader::{Malformed, Reader};

/// Writes an enum whose variants stand in hot frames as one byte. **WIRE-1** A byte that no variant has makes the
/// frame malformed.
macro_rules! byte_enums {
    ($($(#[$doc:meta])* pub(crate) enum $name:ident { $($variant:ident = $byte:literal),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub(crate) enum $name { $($variant = $byte),* }

        impl $name {
            pub(crate) fn put(self, out: &mut Vec<u8>) {
                out.push(self as u8);
            }

            pub(crate) fn get(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
                match reader.u8()? {
                    $($byte => Ok(Self::$variant),)*
                    _ => Err(Malformed),
                }
            }
        }
    )*};
}

byte_enums! {
    /// The kind of a [`crate::peer::Frame`], its first byte.
    pub(crate) enum Opcode {
        Template = 1,
        BeginLease = 2,
        Call = 3,
        Reply = 4,
        Unstarted = 5,
        Steal = 6,
        Item = 7,
        Consumed = 8,
        Cancel = 9,
        Resolve = 10,
        Resolved = 11,
        AddBorrow = 12,
        BorrowAdded = 13,
        RemoveBorrow = 14,
        ReturnsHeld = 15,
        LocationLost = 16,
        LocationAdded = 17,
        BorrowsComplete = 18,
        Why = 19,
        Because = 20,
        Function = 21,
    }
    /// The kind of a [`crate::peer::Value`].
    pub(crate) enum ValueKind {
        Inline = 0,
        Error = 1,
        Stored = 2,
    }
}

/// Reads a set of flags, of which the lowest `known` bits have a meaning. **WIRE-1** Another bit makes the frame
/// malformed: it asks for what this release does not do.
pub(crate) fn flags(bits: u32, known: u32) -> Result<u32, Malformed> {
    if bits >> known == 0 { Ok(bits) } else { Err(Malformed) }
}
