//! Room on disk for what has to be read or written while the memory file is full of what readers keep.
//!
//! One file beside the spilled objects. It is written by file operations that can fail in an orderly
//! way; who reads maps the one range that was handed out, read-only.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::OnceLock;

use rustix::fs::FallocateFlags;
use rustix::mm::{MapFlags, ProtFlags};

use crate::Error;

#[derive(Debug)]
pub(crate) struct Overflow {
    path: PathBuf,
    /// The offset of its first byte.
    start: u64,
    written: OnceLock<File>,
    read: OnceLock<File>,
}

impl Overflow {
    pub(crate) fn new(path: PathBuf, start: u64) -> Self {
        Self { path, start, written: OnceLock::new(), read: OnceLock::new() }
    }

    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    fn opened<'a>(&self, slot: &'a OnceLock<File>, how: &OpenOptions) -> io::Result<&'a File> {
        if let Some(file) = slot.get() {
            return Ok(file);
        }
        let file = how.open(&self.path).map_err(|error| self.named(&error))?;
        Ok(slot.get_or_init(|| file))
    }

    fn named(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
    }

    /// Returns the position in the file of a range of the store's addresses.
    fn place(&self, offset: u64) -> u64 {
        assert!(offset >= self.start, "a range of the memory would be taken for one of the disk");
        offset - self.start
    }

    pub(crate) fn reserve(&self, offset: u64, length: u64) -> io::Result<()> {
        let how = OpenOptions::new().create(true).truncate(false).write(true).clone();
        let file = self.opened(&self.written, &how)?;
        rustix::fs::fallocate(file, FallocateFlags::empty(), self.place(offset), length)
            .map_err(|error| self.named(&error.into()))
    }

    pub(crate) fn punch(&self, offset: u64, length: u64) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if let Some(file) = self.written.get() {
            // A file system that cannot keeps the bytes until the range is used again.
            let _ = rustix::fs::fallocate(file, flags, self.place(offset), length);
        }
    }

    pub(crate) fn file_to_write(&self) -> io::Result<&File> {
        self.opened(&self.written, OpenOptions::new().write(true))
    }

    pub(crate) fn file_to_read(&self) -> io::Result<&File> {
        self.opened(&self.read, OpenOptions::new().read(true))
    }

    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let file = self.file_to_write()?;
        file.write_all_at(bytes, self.place(offset)).map_err(|error| self.named(&error))
    }

    /// Maps a range to read it.
    pub(crate) fn map(&self, offset: u64, length: u64) -> Result<Mapping, Error> {
        let file = self.file_to_read()?;
        let size = file.metadata()?.len();
        let at = self.place(offset);
        if at.checked_add(length).is_none_or(|end| end > size) {
            return Err(Error::OutOfBounds { offset, length, size });
        }
        let lead = at % rustix::param::page_size() as u64;
        let bytes = (length.max(1) + lead) as usize;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing. The range is
        // inside the file, and its disk is reserved.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ,
                MapFlags::SHARED,
                file,
                at - lead,
            )
        }
        .map_err(io::Error::from)?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(Error::NotAnArena { size })?;
        Ok(Mapping { base, length: bytes, lead: lead as usize })
    }
}

/// A range of the overflow file in this process.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    length: usize,
    lead: usize,
}

// SAFETY: read-only memory that lives as long as the `Mapping`.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(crate) fn as_ptr(&self) -> *const u8 {
        assert!(self.lead < self.length, "readers would see what lies behind the range");
        // SAFETY: the lead is inside the mapping.
        unsafe { self.base.as_ptr().add(self.lead) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and whole, and every slice of it holds the `Mapping`.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::Arc;

    use crate::{Arena, Error};

    const SIZE: u64 = 2 << 20;

    #[test]
    fn what_one_process_writes_to_disk_another_maps() {
        let folder = std::env::temp_dir().join(format!("helio-overflow-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("overflow");
        let ours = Arc::new(Arena::create(SIZE).unwrap().with_overflow(path.clone(), SIZE));
        let fd = ours.fd().try_clone_to_owned().unwrap();
        let theirs = Arc::new(Arena::map(fd, SIZE).unwrap().with_overflow(path.clone(), SIZE));
        assert!(theirs.slice(SIZE, 3).is_err(), "there is no file yet");
        assert!(ours.copy_in(SIZE, b"sun").is_err(), "nothing is reserved");
        ours.reserve(SIZE + 4096, 5000).unwrap();
        ours.slice(SIZE + 4096, 5000).unwrap().copy_in(64, b"sun").unwrap();
        theirs.slice(SIZE + 4096, 5000).unwrap().copy_in(67, b"rise").unwrap();
        assert_eq!(ours.slice(SIZE + 4096 + 64, 7).unwrap().as_slice(), b"sunrise");
        let slice = theirs.slice(SIZE + 4096 + 64, 3).unwrap();
        assert_eq!(slice.as_slice(), b"sun");
        let outside = theirs.slice(SIZE + 4096, 1 << 20);
        assert!(matches!(outside, Err(Error::OutOfBounds { .. })), "SHM-1");
        assert!(matches!(theirs.slice(SIZE - 1, 2), Err(Error::OutOfBounds { .. })), "SHM-1");
        drop(slice);
        ours.punch(SIZE + 4096, 8192);
        assert_eq!(theirs.slice(SIZE + 4096 + 64, 3).unwrap().as_slice(), [0; 3]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
