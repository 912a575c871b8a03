//! Ids: fixed-size byte strings, printed as lowercase hex.
//!
//! | id | bytes | made of |
//! |---|---|---|
//! | `JobId` | 4 | counter, big-endian |
//! | `ActorId` | 16 | 12 unique + `JobId` |
//! | `TaskId` | 24 | 8 unique + `ActorId` (for a plain task: 12 of its caller + `JobId`) |
//! | `ObjectId` | 28 | `TaskId` + index, little-endian; returns count from 1, puts from `PUT_INDEX_BASE` |
//! | `NodeId`, `WorkerId` | 28 | unique |
//! | `PlacementGroupId` | 18 | 14 unique + `JobId` |
//!
//! The sizes are those that Ray's public id types have, because user code sees them
//! (`ObjectRef(28 bytes)`, `.hex()`).

use std::fmt;
use std::hash::{Hash, Hasher};

/// The reason why bytes or text are not an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidId {
    /// The kind of the wanted id.
    pub kind: &'static str,
    /// Number of bytes that an id of this kind has.
    pub expected: usize,
}

impl fmt::Display for InvalidId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a {}: {} bytes are needed", self.kind, self.expected)
    }
}

impl std::error::Error for InvalidId {}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $len:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(pub [u8; $len]);

        impl $name {
            /// The number of bytes of the id.
            pub const LEN: usize = $len;
            /// The id that names nothing.
            pub const NIL: Self = Self([0xff; $len]);

            /// Whether this is [`Self::NIL`].
            #[must_use]
            pub fn is_nil(&self) -> bool {
                *self == Self::NIL
            }

            /// Lowercase hex of all bytes.
            #[must_use]
            pub fn hex(&self) -> String {
                hex(&self.0)
            }

            /// Parses lowercase or uppercase hex.
            ///
            /// # Errors
            /// When the text is not hex of exactly this id's length.
            pub fn from_hex(text: &str) -> Result<Self, InvalidId> {
                let wrong = InvalidId { kind: stringify!($name), expected: $len };
                let digits = text.as_bytes();
                if digits.len() != $len * 2 {
                    return Err(wrong);
                }
                let mut bytes = [0u8; $len];
                for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
                    let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) else {
                        return Err(wrong);
                    };
                    *byte = high << 4 | low;
                }
                Ok(Self(bytes))
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::NIL
            }
        }

        impl Hash for $name {
            /// Ids are unique by construction, so one word made of them is hash enough.
            #[inline]
            fn hash<H: Hasher>(&self, state: &mut H) {
                state.write_u64(fold(&self.0));
            }
        }

        impl TryFrom<&[u8]> for $name {
            type Error = InvalidId;
            fn try_from(bytes: &[u8]) -> Result<Self, InvalidId> {
                let wrong = InvalidId { kind: stringify!($name), expected: $len };
                <[u8; $len]>::try_from(bytes).map(Self).map_err(|_| wrong)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), hex(&self.0[..self.0.len().min(8)]))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&hex(&self.0))
            }
        }
    };
}

id!(/** A driver's run. */ JobId, 4);
id!(/** An actor, through all its restarts. */ ActorId, 16);
id!(/** One call of a task or actor method, through all its attempts. */ TaskId, 24);
id!(/** A value: a return of a task, or something put. */ ObjectId, 28);
id!(/** A machine's daemon, from its start to its end. */ NodeId, 28);
id!(/** A driver or worker process. */ WorkerId, 28);
id!(/** A placement group. */ PlacementGroupId, 18);

/// A worker lent to an owner; unique on the node that granted it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct LeaseId(pub u64);

/// Objects that were put have indices from here on; task returns count from 1.
pub const PUT_INDEX_BASE: u32 = 1 << 24;

impl ActorId {
    /// The actor's id from 12 unique bytes and its job.
    #[must_use]
    pub fn new(unique: [u8; 12], job: JobId) -> Self {
        let mut bytes = [0; 16];
        bytes[..12].copy_from_slice(&unique);
        bytes[12..].copy_from_slice(&job.0);
        Self(bytes)
    }

    /// The job that created the actor.
    #[must_use]
    pub fn job(&self) -> JobId {
        JobId([self.0[12], self.0[13], self.0[14], self.0[15]])
    }
}

impl PlacementGroupId {
    /// The job that created the group.
    #[must_use]
    pub fn job(&self) -> JobId {
        JobId([self.0[14], self.0[15], self.0[16], self.0[17]])
    }
}

impl TaskId {
    /// A call of `actor`'s method; for a plain task `actor` is the caller's stand-in.
    ///
    /// ```
    /// use helio_types::{ActorId, JobId, TaskId};
    ///
    /// let actor = ActorId::new([7; 12], JobId([0, 0, 0, 1]));
    /// let call = TaskId::new(5, actor);
    /// let value = call.object(1);
    /// // Each id has in it the ids of what it belongs to.
    /// assert_eq!((value.task(), value.index()), (call, 1));
    /// assert_eq!((call.actor(), call.job()), (actor, JobId([0, 0, 0, 1])));
    /// assert_eq!(JobId::from_hex(&call.job().hex()).unwrap(), call.job());
    /// ```
    #[must_use]
    pub fn new(unique: u64, actor: ActorId) -> Self {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&unique.to_le_bytes());
        bytes[8..].copy_from_slice(&actor.0);
        Self(bytes)
    }

    /// The actor part.
    #[must_use]
    pub fn actor(&self) -> ActorId {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.0[8..]);
        ActorId(bytes)
    }

    /// The job the call belongs to.
    #[must_use]
    pub fn job(&self) -> JobId {
        self.actor().job()
    }

    /// The id of this call's return number `index` (from 1), or of a put.
    #[must_use]
    pub fn object(&self, index: u32) -> ObjectId {
        let mut bytes = [0; 28];
        bytes[..24].copy_from_slice(&self.0);
        bytes[24..].copy_from_slice(&index.to_le_bytes());
        ObjectId(bytes)
    }
}

impl ObjectId {
    /// The call that returns it, or in which it was put.
    #[must_use]
    pub fn task(&self) -> TaskId {
        let mut bytes = [0; 24];
        bytes.copy_from_slice(&self.0[..24]);
        TaskId(bytes)
    }

    /// Returns the number of the return, or of the put.
    #[must_use]
    pub fn index(&self) -> u32 {
        u32::from_le_bytes([self.0[24], self.0[25], self.0[26], self.0[27]])
    }
}

/// Inlined where the length is known, so that nothing is left of the loop: every table lookup is here.
#[inline(always)]
fn fold<const N: usize>(bytes: &[u8; N]) -> u64 {
    let mut sum = 0u64;
    let mut at = 0;
    while at < N {
        let mut word = [0; 8];
        let n = if N - at < 8 { N - at } else { 8 };
        word[..n].copy_from_slice(&bytes[at..at + n]);
        sum = (sum.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        at += 8;
    }
    sum
}

fn digit(c: u8) -> Option<u8> {
    (c as char).to_digit(16).map(|d| d as u8)
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut digits = Vec::with_capacity(bytes.len() * 2);
    for byte in bytes {
        digits.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    // Digits are text.
    String::from_utf8(digits).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_from_its_hex() {
        let task = TaskId::new(7, ActorId::new([3; 12], JobId([0, 0, 0, 1])));
        let object = task.object(2);
        assert_eq!(ObjectId::from_hex(&object.hex()), Ok(object));
        assert_eq!(
            (object.task(), object.index(), object.task().job()),
            (task, 2, JobId([0, 0, 0, 1]))
        );
        assert!(ObjectId::from_hex("zz").is_err());
        assert!(ObjectId::try_from(&[0u8; 3][..]).is_err());
    }
}
