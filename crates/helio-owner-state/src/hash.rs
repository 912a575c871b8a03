//! Maps keyed by ids, or by numbers of our own making. An id's `Hash` already yields one well-mixed
//! word, so hashing it again would be work for nothing.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use crate::event::Action;

/// A map keyed by ids.
pub type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// A table with room for fewer keeps it.
const SPARSE_MIN: usize = 1 << 14;

/// **LIMIT-1** Gives back the room of a table that was much fuller once; called where entries go. What it
/// costs is little against the entries that have come and gone since it was full.
#[inline]
pub(crate) fn slim<K: Eq + Hash, V>(map: &mut IdMap<K, V>, out: &mut Vec<Action>) {
    if map.capacity() > SPARSE_MIN && map.len() < map.capacity() / 8 {
        map.shrink_to(map.capacity() / 4);
        out.push(Action::Slimmed);
    }
}

/// Passes an id's word through.
#[derive(Default, Clone, Copy, Debug)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        // The table takes its tag from the high bits and its bucket from the low ones.
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}
