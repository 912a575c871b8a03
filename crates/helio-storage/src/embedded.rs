//! The embedded store: a `redb` file.
//!
//! `redb` writes a copy-on-write B-tree with checksums and syncs the file once a commit, so a crash at
//! any moment leaves the last whole commit. An append-only log of our own would save little of that
//! one sync, which is nearly all the cost, and would need its own snapshots (docs/decisions).
//!
//! After an error of the medium `redb` does nothing more; where the disk was full the file is closed, and opened
//! again by the next commit. The system tells that a disk is full when a page is written, before the commit is
//! marked as the last one: so the file still holds the commit before.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use redb::{
    Database, DatabaseError, Durability, ReadableDatabase, ReadableTable, StorageBackend,
    StorageError, TableDefinition,
};

use crate::{Change, Entry, Error, Storage};

const ENTRIES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("entries");

/// Bytes of the file that are kept in memory: reads happen at start only.
const CACHE_SIZE: usize = 4 << 20;

/// A durable map in one file.
#[derive(Debug)]
pub struct Embedded {
    path: String,
    /// The path at which the file can be opened again.
    file: Option<PathBuf>,
    /// `None` after a commit that found the disk full.
    database: Option<Database>,
}

impl Embedded {
    /// Opens the store, or makes an empty one.
    ///
    /// # Errors
    /// When the file is in use, damaged, or cannot be made.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        make(path).map_err(|reason| Error::Io { path: name.clone(), reason })?;
        let database = Some(open(path)?);
        Ok(Self { path: name, file: Some(path.to_owned()), database })
    }

    /// Opens the store on any medium: tests bring one that crashes.
    ///
    /// # Errors
    /// When what the medium holds is damaged, or it fails.
    pub fn on(medium: impl StorageBackend, name: &str) -> Result<Self, Error> {
        let path = name.to_owned();
        let opened = Database::builder().set_cache_size(CACHE_SIZE).create_with_backend(medium);
        match opened {
            Ok(database) => Ok(Self { path, file: None, database: Some(database) }),
            Err(error) => Err(not_opened(path, error)),
        }
    }

    fn failed(&self, error: impl Into<redb::Error>) -> Error {
        let path = self.path.clone();
        match error.into() {
            redb::Error::Io(error) => io_failed(path, &error),
            other => Error::Damaged { path, reason: other.to_string() },
        }
    }

    /// The database, opened again if need be.
    fn database(&mut self) -> Result<&Database, Error> {
        if self.database.is_none()
            && let Some(file) = &self.file
        {
            self.database = Some(open(file)?);
        }
        self.database.as_ref().ok_or_else(|| Error::Full { path: self.path.clone() })
    }

    fn try_commit(&mut self, changes: &[Change]) -> Result<(), Error> {
        let opened = self.database()?.begin_write();
        let mut transaction = opened.map_err(|e| self.failed(e))?;
        // What follows the commit may be an answer: the changes have to outlive the machine by then.
        transaction.set_durability(Durability::Immediate).map_err(|e| self.failed(e))?;
        {
            let mut table = transaction.open_table(ENTRIES).map_err(|e| self.failed(e))?;
            for change in changes {
                match &change.value {
                    Some(value) => table
                        .insert(change.key.as_slice(), value.as_slice())
                        .map_err(|e| self.failed(e))?,
                    None => table.remove(change.key.as_slice()).map_err(|e| self.failed(e))?,
                };
            }
        }
        transaction.commit().map_err(|e| self.failed(e))
    }
}

fn open(path: &Path) -> Result<Database, Error> {
    let opened = Database::builder().set_cache_size(CACHE_SIZE).create(path);
    opened.map_err(|error| not_opened(path.display().to_string(), error))
}

fn not_opened(path: String, error: DatabaseError) -> Error {
    match error {
        DatabaseError::DatabaseAlreadyOpen => Error::InUse { path },
        DatabaseError::Storage(StorageError::Io(error)) => io_failed(path, &error),
        other => Error::Damaged { path, reason: other.to_string() },
    }
}

fn io_failed(path: String, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full { path },
        _ => Error::Io { path, reason: error.to_string() },
    }
}

/// Makes an empty store where there is none: under another name, and linked when it is whole. A crash while
/// `redb` makes a file leaves one that it refuses to open.
fn make(path: &Path) -> Result<(), String> {
    if path.exists() {
        return Ok(());
    }
    let draft = helio_env::draft::beside(path);
    let made = Database::create(&draft).map(drop).map_err(|error| error.to_string());
    let linked = made.and_then(|()| match fs::hard_link(&draft, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error.to_string()),
        _ => Ok(()),
    });
    let removed = fs::remove_file(&draft).map_err(|error| error.to_string());
    linked.and(removed)
}

impl Storage for Embedded {
    fn load(&mut self) -> Result<Vec<Entry>, Error> {
        let database = self.database.as_ref();
        let database = database.ok_or_else(|| Error::Full { path: self.path.clone() })?;
        let transaction = database.begin_read().map_err(|e| self.failed(e))?;
        let table = match transaction.open_table(ENTRIES) {
            Ok(table) => table,
            // A new file has no table before its first commit.
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
            Err(error) => return Err(self.failed(error)),
        };
        let mut entries = Vec::new();
        for entry in table.iter().map_err(|e| self.failed(e))? {
            let (key, value) = entry.map_err(|e| self.failed(e))?;
            entries.push((key.value().to_vec(), value.value().to_vec()));
        }
        Ok(entries)
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), Error> {
        let outcome = self.try_commit(changes);
        if matches!(outcome, Err(Error::Full { .. })) && self.file.is_some() {
            self.database = None;
        }
        outcome
    }

    fn room(&self) -> Option<u64> {
        let at = rustix::fs::statvfs(self.file.as_deref()?).ok()?;
        // The file holds more than is in use, but nobody knows how much.
        Some(at.f_bavail.saturating_mul(at.f_frsize))
    }

    fn full(&self) -> String {
        format!("the disk of the cluster's head has no room left for {}", self.path)
    }
}
