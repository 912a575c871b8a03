//! Copies of files beside the state: a head that takes over finds what the one before had on its disk, packages of code
//! and logs of jobs.
//!
//! The copies lie in the store in parts, under names that are not entries of the state: nobody holds them in memory.
//! An index for each kind says which are whole; it is written after their parts.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::address::Target;
use super::backend::{Backend, Done};
use super::connect::connect;
use crate::Error;

/// **LIMIT-1** A file that is larger stays on the head's disk alone, and of all copies of a kind the oldest go.
const FILE_MAX: u64 = 100 << 20;
const ALL_MAX: u64 = 256 << 20;

/// The size of the parts in which a copy is written, in bytes.
const PART: u64 = 512 << 10;

const INDEX: &str = "index";

/// A folder of files of one kind, and their copies in the store of the head that leads under an epoch.
#[derive(Debug, Clone)]
pub struct Copies {
    target: Target,
    epoch: u64,
    kind: &'static str,
    folder: PathBuf,
    /// The index is read, changed and written by one at a time.
    one: Arc<Mutex<()>>,
}

/// A file in the index.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Listed {
    name: String,
    size: u64,
}

impl Listed {
    fn parts(&self) -> impl Iterator<Item = String> + use<> {
        let name = self.name.clone();
        (0..self.size.div_ceil(PART)).map(move |part| format!("{name}/{part:08}"))
    }
}

impl Copies {
    pub(super) fn new(target: Target, epoch: u64, kind: &'static str, folder: PathBuf) -> Self {
        Self { target, epoch, kind, folder, one: Arc::default() }
    }

    /// Copies a file of the folder into the store.
    ///
    /// # Errors
    /// When it is too large, cannot be read, or the store does not take it. The file stays.
    pub fn keep(&self, name: &str) -> Result<(), Error> {
        let path = self.folder.join(name);
        let at = |error| failed(&path, &error);
        let mut file = File::open(&path).map_err(at)?;
        let new = Listed { name: name.to_owned(), size: file.metadata().map_err(at)?.len() };
        if new.size > FILE_MAX {
            let (has, most) = (new.size >> 20, FILE_MAX >> 20);
            return Err(self.target.refused(&format!("{name} has {has} MiB; {most} MiB are kept")));
        }
        // Two threads would each write an index that lacks the other's file.
        let _one = self.one.lock().unwrap_or_else(PoisonError::into_inner);
        let mut backend = connect(&self.target);
        let mut all = self.index(&mut *backend)?;
        if all.contains(&new) {
            return Ok(());
        }
        for part in new.parts() {
            let mut bytes = Vec::new();
            (&mut file).take(PART).read_to_end(&mut bytes).map_err(at)?;
            self.put(&mut *backend, &part, Some(&bytes))?;
        }
        all.retain(|listed| listed.name != new.name);
        all.push(new);
        let gone = oldest(&mut all);
        let text: Vec<String> =
            all.iter().map(|listed| format!("{} {}\n", listed.size, listed.name)).collect();
        // After the parts and before old ones go: the index names whole files only, whenever the head is lost.
        self.put(&mut *backend, INDEX, Some(text.concat().as_bytes()))?;
        for part in gone.iter().flat_map(Listed::parts) {
            self.put(&mut *backend, &part, None)?;
        }
        Ok(())
    }

    /// Whether the folder has a file, if need be from the store.
    ///
    /// # Errors
    /// When the store does not answer, or the disk takes no file.
    pub fn find(&self, name: &str) -> Result<bool, Error> {
        let path = self.folder.join(name);
        if path.is_file() {
            return Ok(true);
        }
        let mut backend = connect(&self.target);
        let all = self.index(&mut *backend)?;
        let Some(listed) = all.into_iter().find(|listed| listed.name == name) else {
            return Ok(false);
        };
        fs::create_dir_all(&self.folder).map_err(|error| failed(&self.folder, &error))?;
        let number = u64::from_le_bytes(helio_env::random::bytes());
        let draft = self.folder.join(format!(".{number:x}.part"));
        // Renamed when it is whole: a file of that name is taken for complete.
        let is_whole = self.copy(&mut *backend, &listed, &draft).and_then(|is_whole| {
            if is_whole {
                fs::rename(&draft, &path).map_err(|error| failed(&path, &error))?;
            }
            Ok(is_whole)
        });
        if !matches!(is_whole, Ok(true)) {
            // The draft may never have been made.
            let _ = fs::remove_file(&draft);
        }
        is_whole
    }

    /// Writes a copy's parts into a file; whether none was missing.
    fn copy(&self, backend: &mut dyn Backend, from: &Listed, to: &Path) -> Result<bool, Error> {
        let at = |error| failed(to, &error);
        let made = OpenOptions::new().create_new(true).write(true).mode(0o600).open(to);
        let mut file = made.map_err(at)?;
        let mut size = 0;
        for part in from.parts() {
            let Some(bytes) = self.get(backend, &part)? else { return Ok(false) };
            size += bytes.len() as u64;
            file.write_all(&bytes).map_err(at)?;
        }
        Ok(size == from.size)
    }

    /// The copies that are whole, the oldest first.
    fn index(&self, backend: &mut dyn Backend) -> Result<Vec<Listed>, Error> {
        let bytes = self.get(backend, INDEX)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let listed = |line: &str| {
            let (size, name) = line.split_once(' ')?;
            Some(Listed { name: name.to_owned(), size: size.parse().ok()? })
        };
        Ok(text.lines().filter_map(listed).collect())
    }

    fn get(&self, backend: &mut dyn Backend, name: &str) -> Result<Option<Vec<u8>>, Error> {
        match backend.get_beside(self.epoch, &format!("{}/{name}", self.kind)) {
            Ok(Done::Ours(found)) => Ok(found),
            Ok(Done::Lost(to)) => Err(self.lost(&to)),
            Err(failure) => Err(self.target.failed(failure)),
        }
    }

    fn put(
        &self,
        backend: &mut dyn Backend,
        name: &str,
        value: Option<&[u8]>,
    ) -> Result<(), Error> {
        match backend.put_beside(self.epoch, &format!("{}/{name}", self.kind), value) {
            Ok(Done::Ours(())) => Ok(()),
            Ok(Done::Lost(to)) => Err(self.lost(&to)),
            Err(failure) => Err(self.target.failed(failure)),
        }
    }

    fn lost(&self, to: &str) -> Error {
        let reason = format!("the cluster's state is another head's now: {to}");
        Error::Lost { place: self.target.name(), reason }
    }
}

/// Takes out what is too much, the newest never.
fn oldest(all: &mut Vec<Listed>) -> Vec<Listed> {
    let mut size: u64 = all.iter().map(|listed| listed.size).sum();
    let mut count = 0;
    while size > ALL_MAX && count + 1 < all.len() {
        size -= all[count].size;
        count += 1;
    }
    all.drain(..count).collect()
}

fn failed(path: &Path, error: &io::Error) -> Error {
    Error::Io { path: path.display().to_string(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_copies_go_when_all_are_too_large() {
        let listed = |name: &str, size| Listed { name: name.to_owned(), size };
        let mut all = vec![
            listed("a", ALL_MAX / 2),
            listed("b", ALL_MAX / 2),
            listed("c", 1),
            listed("d", 1),
        ];
        assert_eq!(oldest(&mut all), [listed("a", ALL_MAX / 2)]);
        assert_eq!(all.len(), 3);
        assert_eq!(oldest(&mut all), []);
        let mut one = vec![listed("large", ALL_MAX + 1)];
        assert_eq!(oldest(&mut one), []);
    }
}
