//! The contract of [`Storage`], run against every implementation that keeps what it is given.
//! STATE-2: what was acknowledged is there again.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::PathBuf;

use helio_storage::{Change, Embedded, Entry, Error, Memory, Storage};

fn put(key: &str, value: &str) -> Change {
    Change { key: key.into(), value: Some(value.into()) }
}

fn delete(key: &str) -> Change {
    Change { key: key.into(), value: None }
}

fn entries(of: &[(&str, &str)]) -> Vec<Entry> {
    of.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

/// `reopen` closes the store and opens it again.
fn conforms<S: Storage>(store: S, reopen: impl Fn(S) -> S) {
    assert_eq!(store.load().unwrap(), []);
    let mut store = reopen(store);
    assert_eq!(store.load().unwrap(), []);
    store.commit(&[]).unwrap();
    store
        .commit(&[put("b", "1"), put("a", "2"), put("b", "3"), put("c", ""), delete("none")])
        .unwrap();
    let store = reopen(store);
    assert_eq!(
        store.load().unwrap(),
        entries(&[("a", "2"), ("b", "3"), ("c", "")]),
        "by key, the last change wins"
    );
    let mut store = reopen(store);
    store.commit(&[delete("a"), put("a", "4"), delete("b")]).unwrap();
    store.commit(&[Change { key: vec![0, 255], value: Some(vec![7; 3 << 20]) }]).unwrap();
    let store = reopen(store);
    let all = store.load().unwrap();
    assert_eq!(all.len(), 3);
    assert_eq!(
        (all[0].0.as_slice(), all[0].1.len()),
        (&[0u8, 255][..], 3 << 20),
        "keys and values are any bytes"
    );
    assert_eq!(&all[1..], entries(&[("a", "4"), ("c", "")]));
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("helio-storage-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("control.redb")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn memory_conforms() {
    conforms(Memory::keeping(), |store| store);
}

#[test]
fn embedded_conforms() {
    let folder = Folder::new("conforms");
    conforms(Embedded::open(&folder.file()).unwrap(), |store| {
        drop(store);
        Embedded::open(&folder.file()).unwrap()
    });
}

#[test]
fn a_second_writer_is_refused() {
    let folder = Folder::new("second");
    let _first = Embedded::open(&folder.file()).unwrap();
    assert!(matches!(Embedded::open(&folder.file()), Err(Error::InUse { .. })));
}

#[test]
fn a_file_that_is_no_store_is_refused_and_left_alone() {
    let folder = Folder::new("damaged");
    std::fs::write(folder.file(), b"something else").unwrap();
    assert!(Embedded::open(&folder.file()).is_err());
    assert_eq!(std::fs::read(folder.file()).unwrap(), b"something else");
}

/// A copy of the file as a crash would leave it (taken while the store is open) has every commit that
/// was acknowledged before.
#[test]
fn acknowledged_commits_survive_a_crash() {
    let folder = Folder::new("crash");
    let mut store = Embedded::open(&folder.file()).unwrap();
    let copy = folder.0.join("copy.redb");
    for n in 0..20 {
        let key = format!("{n:02}");
        store.commit(&[put(&key, &"x".repeat(n * 1000))]).unwrap();
        std::fs::copy(folder.file(), &copy).unwrap();
        assert_eq!(Embedded::open(&copy).unwrap().load().unwrap().len(), n + 1);
    }
}
