//! **LIMIT-1** A table that keeps what was used lately, by count and by bytes.

use std::hash::Hash;

use crate::IdMap;

/// A cache of two generations: entries used since the last turn, and entries used only before it. When the young
/// generation is full it becomes the old one, whose entries are forgotten: an entry that is used all the time stays,
/// and a use costs one look-up.
///
/// ```
/// use helio_types::Recent;
///
/// let mut table = Recent::new(2, 1_000);
/// table.add(1, "a", 10);
/// table.add(2, "b", 10);
/// assert_eq!(table.find(&1).0, Some("a"));
/// // The third entry begins a new generation. 2 is not used in it, and goes when that one is full, too.
/// table.add(3, "c", 10);
/// assert_eq!(table.find(&1).0, Some("a"));
/// table.add(4, "d", 10);
/// assert_eq!(table.find(&2).0, None);
/// ```
#[derive(Debug)]
pub struct Recent<K, V> {
    young: IdMap<K, (V, usize)>,
    old: IdMap<K, (V, usize)>,
    young_bytes: usize,
    count_max: usize,
    bytes_max: usize,
}

impl<K: Hash + Eq + Clone, V: Clone> Recent<K, V> {
    /// A table that keeps the latest `count` entries of `bytes` in all, and up to twice as many.
    #[must_use]
    pub fn new(count: usize, bytes: usize) -> Self {
        Self {
            young: IdMap::default(),
            old: IdMap::default(),
            young_bytes: 0,
            count_max: count,
            bytes_max: bytes,
        }
    }

    /// The entry, which counts as used, and what had to be forgotten for that.
    pub fn find(&mut self, key: &K) -> (Option<V>, Forgotten<K, V>) {
        if let Some((value, _)) = self.young.get(key) {
            return (Some(value.clone()), None);
        }
        match self.old.remove(key) {
            Some((value, bytes)) => {
                let forgotten = self.add(key.clone(), value.clone(), bytes);
                (Some(value), forgotten)
            }
            None => (None, None),
        }
    }

    /// Adds an entry that takes `bytes` bytes. What is forgotten for it is given back: dropping it may
    /// run code.
    pub fn add(&mut self, key: K, value: V, bytes: usize) -> Forgotten<K, V> {
        let is_full =
            self.young.len() >= self.count_max || self.young_bytes + bytes > self.bytes_max;
        let forgotten = is_full.then(|| {
            self.young_bytes = 0;
            std::mem::replace(&mut self.old, std::mem::take(&mut self.young))
        });
        self.young_bytes += bytes;
        self.young.insert(key, (value, bytes));
        forgotten
    }

    /// All entries.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.young.values().chain(self.old.values()).map(|(value, _)| value)
    }
}

/// The entries that had to be forgotten for a new one, with their bytes.
pub type Forgotten<K, V> = Option<IdMap<K, (V, usize)>>;

#[cfg(test)]
mod tests {
    use super::*;

    /// LIMIT-1
    #[test]
    fn what_is_used_stays_and_the_rest_is_forgotten() {
        let mut recent = Recent::new(10, 1000);
        recent.add(0, 0, 1);
        let mut forgotten = 0;
        for n in 1..100 {
            forgotten += recent.add(n, n, 1).map_or(0, |gone| gone.len());
            let (found, gone) = recent.find(&0);
            assert_eq!(found, Some(0));
            forgotten += gone.map_or(0, |gone| gone.len());
            assert!(recent.values().count() <= 20);
        }
        assert_eq!(recent.find(&1).0, None);
        assert_eq!(recent.values().count() + forgotten, 100);
        for n in 100..110 {
            recent.add(n, n, 400);
            assert!(recent.values().count() <= 22 && recent.young_bytes <= 1000);
        }
    }
}
