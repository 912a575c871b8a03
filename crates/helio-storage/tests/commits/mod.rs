//! The commits that are interrupted, and what must be there after each of them.

use std::collections::BTreeMap;

use helio_storage::Change;

pub(crate) type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// The `n`-th commit of the program: new keys, changed values, removed keys, a large value now and then.
pub(crate) fn changes(n: u8) -> Vec<Change> {
    let put = |key: u8, size: usize| Change { key: vec![key], value: Some(vec![n; size]) };
    let mut changes = vec![put(n, 40), put(n / 2, 3), put(200, 100)];
    if n % 3 == 2 {
        changes.push(Change { key: vec![n - 1], value: None });
    }
    if n % 4 == 3 {
        changes.push(put(100 + n, 20_000));
    }
    changes
}

pub(crate) fn commit(map: &mut Map, changes: &[Change]) {
    for change in changes {
        match &change.value {
            Some(value) => map.insert(change.key.clone(), value.clone()),
            None => map.remove(&change.key),
        };
    }
}

pub(crate) const COMMITS: u8 = 9;

/// The states after each number of commits.
pub(crate) fn states() -> Vec<Map> {
    let mut map = Map::new();
    let mut all = vec![map.clone()];
    for n in 0..COMMITS {
        commit(&mut map, &changes(n));
        all.push(map.clone());
    }
    all
}
