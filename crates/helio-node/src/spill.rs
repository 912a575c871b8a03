//! Objects on disk: one file each, in the session's folder, straight from and to the memory file. A checksum tells
//! whether what is read is what was written.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helio_node_state::{DiskError, Event};
use helio_store::{Arena, ArenaSlice};
use helio_types::ObjectId;

use crate::input::Inputs;

#[derive(Debug)]
pub(crate) struct Disk {
    folder: PathBuf,
    /// The part of the disk, from 0 to 1, that may be in use.
    threshold: f64,
    arena: Arc<Arena>,
    inputs: Inputs,
}

impl Disk {
    pub(crate) fn new(folder: PathBuf, threshold: f64, arena: Arc<Arena>, inputs: Inputs) -> Self {
        Self { folder, threshold, arena, inputs }
    }

    /// Writes an object; the machine keeps its memory until it hears that this is over.
    pub(crate) fn write(&self, object_id: ObjectId, offset: u64, size: u64) {
        let (folder, inputs) = (self.folder.clone(), self.inputs.clone());
        let threshold = self.threshold;
        let slice = self.slice(offset, size);
        tokio::spawn(async move {
            let write = move || write_file(&folder, threshold, object_id, &slice);
            let outcome = in_background(write).await;
            let _ = inputs.send(Event::Spilled { object_id, outcome }.into()).await;
        });
    }

    /// Reads an object into its new place.
    pub(crate) fn read(&self, object_id: ObjectId, offset: u64, size: u64) {
        let (path, inputs) = (path(&self.folder, object_id), self.inputs.clone());
        let slice = self.slice(offset, size);
        tokio::spawn(async move {
            let outcome = in_background(move || read_file(&path, &slice)).await;
            let _ = inputs.send(Event::Restored { object_id, outcome }.into()).await;
        });
    }

    /// Has the disk keep room for a range of the overflow file.
    pub(crate) fn reserve(&self, offset: u64, size: u64) {
        let (folder, inputs) = (self.folder.clone(), self.inputs.clone());
        let (arena, threshold) = (Arc::clone(&self.arena), self.threshold);
        tokio::spawn(async move {
            let reserve = move || {
                let failed = |error: std::io::Error| disk_error(&folder, &error);
                fs::create_dir_all(&folder).map_err(failed)?;
                check_room(&folder, threshold, size)?;
                arena.reserve(offset, size).map_err(failed)
            };
            let outcome = in_background(reserve).await;
            let _ = inputs.send(Event::Reserved { offset, outcome }.into()).await;
        });
    }

    pub(crate) fn remove(&self, object_id: ObjectId) {
        // One that is not there needs no removing.
        let _ = fs::remove_file(path(&self.folder, object_id));
    }

    pub(crate) fn remove_all(&self) {
        let _ = fs::remove_dir_all(&self.folder);
    }

    fn slice(&self, offset: u64, size: u64) -> ArenaSlice {
        self.arena
            .slice(offset, size)
            .expect("SHM-1: the machine gives out extents inside the store")
    }
}

fn path(folder: &Path, object_id: ObjectId) -> PathBuf {
    folder.join(object_id.hex())
}

async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DiskError> + Send + 'static,
) -> Result<T, DiskError> {
    let outcome = tokio::task::spawn_blocking(work).await;
    outcome.unwrap_or_else(|error| Err(DiskError { is_full: false, text: error.to_string() }))
}

/// Writes an object's file and returns the checksum of what is in it.
fn write_file(
    folder: &Path,
    threshold: f64,
    object_id: ObjectId,
    slice: &ArenaSlice,
) -> Result<u32, DiskError> {
    let failed = |error: std::io::Error| disk_error(folder, &error);
    fs::create_dir_all(folder).map_err(failed)?;
    check_room(folder, threshold, slice.len() as u64)?;
    let path = path(folder, object_id);
    let written = File::create(&path).and_then(|mut file| file.write_all(slice.as_slice()));
    if written.is_err() {
        // The part that was written only takes room.
        let _ = fs::remove_file(&path);
    }
    written.map_err(failed)?;
    Ok(crc32fast::hash(slice.as_slice()))
}

fn disk_error(folder: &Path, error: &std::io::Error) -> DiskError {
    DiskError {
        is_full: error.kind() == std::io::ErrorKind::StorageFull,
        text: format!("{}: {error}", folder.display()),
    }
}

/// Refuses an object that would make the disk fuller than `threshold`: its other users need some of
/// it, too.
fn check_room(folder: &Path, threshold: f64, size: u64) -> Result<(), DiskError> {
    let Ok(disk) = rustix::fs::statvfs(folder) else { return Ok(()) };
    let total = disk.f_blocks * disk.f_frsize;
    let used = total - (disk.f_bavail * disk.f_frsize).min(total) + size;
    if total > 0 && used as f64 > total as f64 * threshold {
        let percent = used.min(total) / (total / 100).max(1);
        let text = format!(
            "{}: the disk would be {percent} % full, and may be {:.0} % (local_fs_capacity_threshold)",
            folder.display(),
            threshold * 100.0
        );
        return Err(DiskError { is_full: true, text });
    }
    Ok(())
}

/// Reads an object's file and returns the checksum of what was in it.
fn read_file(path: &Path, slice: &ArenaSlice) -> Result<u32, DiskError> {
    const STEP: usize = 1 << 20;
    let failed = |error: std::io::Error| DiskError {
        is_full: false,
        text: format!("{}: {error}", path.display()),
    };
    let mut file = File::open(path).map_err(failed)?;
    let mut buffer = vec![0; STEP.min(slice.len())];
    let mut checksum = crc32fast::Hasher::new();
    let mut at = 0;
    while at < slice.len() {
        let length = STEP.min(slice.len() - at);
        file.read_exact(&mut buffer[..length]).map_err(failed)?;
        checksum.update(&buffer[..length]);
        slice
            .copy_in(at, &buffer[..length])
            .map_err(|error| failed(std::io::Error::other(error)))?;
        at += length;
    }
    Ok(checksum.finalize())
}
