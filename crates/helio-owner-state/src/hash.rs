//! Room of tables that were much fuller once.

use std::hash::Hash;

use helio_types::IdMap;

use crate::event::Action;

/// A table with room for fewer keeps it.
const SPARSE_MIN: usize = 1 << 14;

/// **LIMIT-1** Gives back the room of a table that was much fuller once; called where entries go. What it
/// costs is little against the entries that have come and gone since it was full.
#[inline]
pub(crate) fn shrink<K: Eq + Hash, V>(map: &mut IdMap<K, V>, out: &mut Vec<Action>) {
    if map.capacity() > SPARSE_MIN && map.len() < map.capacity() / 8 {
        map.shrink_to(map.capacity() / 4);
        out.push(Action::MemoryFreed);
    }
}
