//! Room of tables that were much fuller once.

use std::hash::Hash;

use helio_types::IdMap;

use crate::context::Context;
use crate::event::Action;

/// A table with room for fewer keeps it.
const SPARSE_MIN: usize = 1 << 14;

/// **LIMIT-1** Gives back the room of a table that was much fuller once; called where entries go. What it
/// costs is little against the entries that have come and gone since it was full.
#[inline]
pub(crate) fn shrink<K: Eq + Hash, V>(map: &mut IdMap<K, V>, ctx: &mut Context) {
    if map.capacity() > SPARSE_MIN && map.len() < map.capacity() / 8 {
        map.shrink_to(map.capacity() / 4);
        ctx.push(Action::MemoryFreed);
    }
}
