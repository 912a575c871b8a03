//! Actors by what they have in common.

use std::hash::Hash;

use helio_types::{ActorId, IdMap};

/// The actors of each key that has any.
#[derive(Debug)]
pub(crate) struct Sets<K> {
    all: IdMap<K, IdMap<ActorId, ()>>,
}

impl<K> Default for Sets<K> {
    fn default() -> Self {
        Self { all: IdMap::default() }
    }
}

impl<K: Eq + Hash> PartialEq for Sets<K> {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl<K: Eq + Hash> Sets<K> {
    pub(crate) fn insert(&mut self, key: K, actor_id: ActorId) {
        self.all.entry(key).or_default().insert(actor_id, ());
    }

    /// Whether it was there.
    pub(crate) fn remove(&mut self, key: K, actor_id: ActorId) -> bool {
        let Some(set) = self.all.get_mut(&key) else { return false };
        let was_there = set.remove(&actor_id).is_some();
        if set.is_empty() {
            self.all.remove(&key);
        }
        was_there
    }

    /// The actors of a key, in the order of their ids.
    pub(crate) fn of(&self, key: K) -> Vec<ActorId> {
        let mut ids: Vec<ActorId> =
            self.all.get(&key).into_iter().flatten().map(|(actor_id, ())| *actor_id).collect();
        ids.sort_unstable();
        ids
    }

    pub(crate) fn has(&self, key: &K) -> bool {
        self.all.contains_key(key)
    }
}

impl<K: Eq + Hash> FromIterator<(K, ActorId)> for Sets<K> {
    fn from_iter<I: IntoIterator<Item = (K, ActorId)>>(pairs: I) -> Self {
        let mut sets = Self::default();
        pairs.into_iter().for_each(|(key, actor_id)| sets.insert(key, actor_id));
        sets
    }
}
