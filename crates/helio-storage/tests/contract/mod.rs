//! The contract, for a store that keeps what it is given.

use helio_storage::{Change, Entry, Storage};

pub(crate) fn put(key: &str, value: &str) -> Change {
    Change { key: key.into(), value: Some(value.into()) }
}

pub(crate) fn delete(key: &str) -> Change {
    Change { key: key.into(), value: None }
}

pub(crate) fn entries(of: &[(&str, &str)]) -> Vec<Entry> {
    of.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

/// `reopen` closes the store and opens it again.
pub(crate) fn conforms<S: Storage>(mut store: S, reopen: impl Fn(S) -> S) {
    assert_eq!(store.load().unwrap(), []);
    let mut store = reopen(store);
    assert_eq!(store.load().unwrap(), []);
    store.commit(&[]).unwrap();
    store
        .commit(&[put("b", "1"), put("a", "2"), put("b", "3"), put("c", ""), delete("none")])
        .unwrap();
    let mut store = reopen(store);
    assert_eq!(
        store.load().unwrap(),
        entries(&[("a", "2"), ("b", "3"), ("c", "")]),
        "by key, the last change wins"
    );
    let mut store = reopen(store);
    store.commit(&[delete("a"), put("a", "4"), delete("b")]).unwrap();
    store.commit(&[Change { key: vec![0, 255], value: Some(vec![7; 3 << 20]) }]).unwrap();
    let mut store = reopen(store);
    let all = store.load().unwrap();
    assert_eq!(all.len(), 3);
    assert_eq!(
        (all[0].0.as_slice(), all[0].1.len()),
        (&[0u8, 255][..], 3 << 20),
        "keys and values are any bytes"
    );
    assert_eq!(&all[1..], entries(&[("a", "4"), ("c", "")]));
}
