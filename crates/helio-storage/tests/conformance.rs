//! The contract of [`Storage`], run against every implementation that keeps what it is given.
//! STATE-2: what was acknowledged is there again.

#![allow(clippy::unwrap_used, reason = "tests")]

mod contract;

use std::path::PathBuf;

use contract::{conforms, put};
use helio_storage::{Embedded, Error, Memory, Storage};

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
