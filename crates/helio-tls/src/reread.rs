//! A value that is made of files, made anew for the next connection once one of them has changed.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::Error;

/// The facts that change when a file is written or replaced: device, number, size, time.
type Stamp = (u64, u64, u64, i64, i64);

/// A value made from files, and the times of these files when it was made.
pub(crate) struct Reread<T> {
    paths: Vec<PathBuf>,
    kept: Mutex<Kept<T>>,
}

struct Kept<T> {
    /// The files when they were read last, of use or not.
    seen: Vec<Option<Stamp>>,
    made: T,
}

impl<T: Clone> Reread<T> {
    pub(crate) fn new(
        paths: Vec<PathBuf>,
        read: impl FnOnce() -> Result<T, Error>,
    ) -> Result<Self, Error> {
        let seen = stamps(&paths);
        Ok(Self { paths, kept: Mutex::new(Kept { seen, made: read()? }) })
    }

    /// The newest of use.
    pub(crate) fn current(&self, read: impl FnOnce() -> Result<T, Error>) -> T {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = stamps(&self.paths);
        if seen != kept.seen {
            kept.seen = seen;
            let certificate = self.paths.first().map_or(Path::new(""), PathBuf::as_path).display();
            match read() {
                Ok(made) => {
                    tracing::info!(%certificate, "certificates were read anew");
                    kept.made = made;
                }
                Err(error) => {
                    tracing::warn!(%error, "new certificates are of no use: the old ones stay");
                }
            }
        }
        kept.made.clone()
    }
}

fn stamps(paths: &[PathBuf]) -> Vec<Option<Stamp>> {
    let stamp = |path: &PathBuf| {
        let found = fs::metadata(path).ok()?;
        Some((found.dev(), found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
    };
    paths.iter().map(stamp).collect()
}
