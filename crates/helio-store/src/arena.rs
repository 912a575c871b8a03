//! The mapping of the memory file.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::RecvFlags;

use crate::copy;
use crate::overflow::{Mapping, Overflow};

/// The reason why memory cannot be had or touched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system says so.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The range is not inside the memory file: the peer that named it is broken.
    #[error("{length} bytes at {offset} are not inside the object store of {size} bytes")]
    OutOfBounds {
        /// The begin of the range, in bytes from the begin of the file.
        offset: u64,
        /// Length of the range in bytes.
        length: u64,
        /// Size of the file in bytes.
        size: u64,
    },
    /// The descriptor is no memory file of ours: it could shrink, or is shorter than announced.
    #[error("the descriptor is not a sealed memory file of {size} bytes")]
    NotAnArena {
        /// The announced size, in bytes.
        size: u64,
    },
}

/// The memory file, mapped into this process until it is dropped.
#[derive(Debug)]
pub struct Arena {
    base: NonNull<u8>,
    size: usize,
    fd: OwnedFd,
    touched: copy::Touched,
    overflow: Option<Overflow>,
}

// SAFETY: the mapping is plain memory that lives as long as the `Arena`; it is touched only through
// methods that check their bounds, and who writes where is agreed with the daemon (SHM-1).
unsafe impl Send for Arena {}
// SAFETY: as above; no method gives out a `&mut` to the memory.
unsafe impl Sync for Arena {}

impl Arena {
    /// Makes a memory file. No page is touched: memory is used as objects are written.
    ///
    /// # Errors
    /// When the operating system has no address space or file for it.
    pub fn create(size: u64) -> Result<Self, Error> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("heliostat-store", flags).map_err(io::Error::from)?;
        rustix::fs::ftruncate(&fd, size).map_err(io::Error::from)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&fd, seals).map_err(io::Error::from)?;
        Self::map(fd, size)
    }

    /// Maps a memory file that another process made.
    ///
    /// # Errors
    /// When the descriptor is not a file of that size that cannot shrink, or cannot be mapped.
    pub fn map(fd: OwnedFd, size: u64) -> Result<Self, Error> {
        let length = rustix::fs::fstat(&fd).map_err(io::Error::from)?.st_size;
        let seals = rustix::fs::fcntl_get_seals(&fd).map_err(|_| Error::NotAnArena { size })?;
        let long_enough = u64::try_from(length).is_ok_and(|length| length >= size);
        if size == 0 || !long_enough || !seals.contains(SealFlags::SHRINK) {
            return Err(Error::NotAnArena { size });
        }
        let bytes = usize::try_from(size).map_err(|_| Error::NotAnArena { size })?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing. The file is as
        // long as the mapping and cannot shrink, so touching it cannot fault.
        let base =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, flags, &fd, 0) }
                .map_err(io::Error::from)?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(Error::NotAnArena { size })?;
        Ok(Self { base, size: bytes, fd, touched: copy::Touched::none_of(bytes), overflow: None })
    }

    /// Adds a file on disk, whose bytes have the offsets from `start` on. It is made when it is needed.
    #[must_use]
    pub fn with_overflow(mut self, path: PathBuf, start: u64) -> Self {
        assert!(start >= self.size(), "a range of the file would be taken for one of the memory");
        self.overflow = Some(Overflow::new(path, start));
        self
    }

    /// The overflow file, if the range begins there.
    fn overflow(&self, offset: u64) -> Option<&Overflow> {
        self.overflow.as_ref().filter(|overflow| offset >= overflow.start())
    }

    /// Has the disk keep room for a range of the overflow file, so that writing there cannot fail for
    /// want of it, nor reading fault.
    ///
    /// # Errors
    /// When there is none, or no such file.
    pub fn reserve(&self, offset: u64, length: u64) -> io::Result<()> {
        match self.overflow(offset) {
            Some(overflow) => overflow.reserve(offset, length),
            None => {
                let end = offset.saturating_add(length);
                assert!(end <= self.size(), "nothing keeps room for {offset}+{length}");
                Ok(())
            }
        }
    }

    /// Gives the disk a range of the overflow file back.
    pub fn punch(&self, offset: u64, length: u64) {
        if let Some(overflow) = self.overflow(offset) {
            overflow.punch(offset, length);
        }
    }

    /// The memory file.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The file in which a range lies, for writing, and where in it.
    ///
    /// # Errors
    /// When the range is not inside the file, or the overflow file cannot be opened.
    pub fn file_to_write(&self, offset: u64, length: u64) -> Result<(BorrowedFd<'_>, u64), Error> {
        if let Some(overflow) = self.overflow(offset) {
            return Ok((overflow.file_to_write()?.as_fd(), offset - overflow.start()));
        }
        self.range(offset, length)?;
        Ok((self.fd(), offset))
    }

    /// The file in which a range lies, for reading, and where in it.
    ///
    /// # Errors
    /// See [`Arena::file_to_write`].
    pub fn file_to_read(&self, offset: u64, length: u64) -> Result<(BorrowedFd<'_>, u64), Error> {
        if let Some(overflow) = self.overflow(offset) {
            return Ok((overflow.file_to_read()?.as_fd(), offset - overflow.start()));
        }
        self.range(offset, length)?;
        Ok((self.fd(), offset))
    }

    /// Returns the number of bytes from `offset` on, up to `length`, that this process has mapped in. Writing there in
    /// place costs less than through the file; elsewhere it costs more, as each page is cleared before it is overwritten.
    #[must_use]
    pub fn mapped_in(&self, offset: u64, length: u64) -> u64 {
        match self.range(offset, length) {
            Ok((offset, length)) => self.touched.run(offset, length) as u64,
            Err(_) => 0,
        }
    }

    /// Maps a range in that was written through the file: its memory is there, and the next time it is written in place.
    pub fn map_in(&self, offset: u64, length: u64) {
        if let Ok((offset, length)) = self.range(offset, length) {
            // SAFETY: the mapping is as long as it says, and its range was checked.
            unsafe { self.touched.map_in_all(self.base.as_ptr(), self.size, offset, length) };
        }
    }

    /// Receives what has come over a socket into a range that this process may write, without waiting; how many bytes.
    ///
    /// # Errors
    /// When the range is not inside the memory file, or the socket says so.
    pub fn receive(&self, socket: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<usize> {
        let (offset, length) = self.range(offset, length).map_err(io::Error::other)?;
        // SAFETY: the range was checked, and lies in the mapping, which `self` keeps. Nobody else reads or writes an
        // extent that this process is just being allowed to write (SHM-1), and bytes of a mapping are initialized.
        let room =
            unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(offset), length) };
        let (received, _) = rustix::net::recv(socket, room, RecvFlags::DONTWAIT)?;
        Ok(received)
    }

    /// The length of the memory file, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size as u64
    }

    /// A view of a range that keeps the mapping. The caller holds the daemon's pin on the object
    /// there, or the right to write it (SHM-1).
    ///
    /// # Errors
    /// When the range is not inside the file.
    pub fn slice(self: &Arc<Self>, offset: u64, length: u64) -> Result<ArenaSlice, Error> {
        let arena = Arc::clone(self);
        if let Some(overflow) = self.overflow(offset) {
            let disk = Some(Arc::new(overflow.map(offset, length)?));
            return Ok(ArenaSlice {
                arena,
                offset: offset as usize,
                length: length as usize,
                disk,
            });
        }
        let (offset, length) = self.range(offset, length)?;
        Ok(ArenaSlice { arena, offset, length, disk: None })
    }

    /// Copies into the file; large ranges with several threads.
    ///
    /// # Errors
    /// When the range is not inside the file, or the disk fails.
    pub fn copy_in(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        if let Some(overflow) = self.overflow(offset) {
            return Ok(overflow.write(offset, bytes)?);
        }
        let (offset, _) = self.range(offset, bytes.len() as u64)?;
        let to = copy::Target { base: self.base.as_ptr(), offset, touched: &self.touched };
        // SAFETY: the range was checked; `bytes` is a Rust slice, which cannot lie in an extent that
        // this process is just being allowed to write.
        unsafe { copy::copy(bytes, to) };
        Ok(())
    }

    fn range(&self, offset: u64, length: u64) -> Result<(usize, usize), Error> {
        let size = self.size as u64;
        match offset.checked_add(length) {
            Some(end) if end <= size => Ok((offset as usize, length as usize)),
            _ => Err(Error::OutOfBounds { offset, length, size }),
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and whole, and every `ArenaSlice` holds the `Arena`, so no
        // pointer into it is left. It fails only for a range that was never mapped.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.size) };
    }
}

/// A range of the memory file; it keeps the mapping, not the object: that is the pin's business.
#[derive(Debug, Clone)]
pub struct ArenaSlice {
    arena: Arc<Arena>,
    offset: usize,
    length: usize,
    /// The mapping in this process of a range of the overflow file.
    disk: Option<Arc<Mapping>>,
}

impl ArenaSlice {
    /// Returns the address of the bytes in this process.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        match &self.disk {
            Some(mapping) => mapping.as_ptr(),
            // SAFETY: the range was checked when the slice was made.
            None => unsafe { self.arena.base.as_ptr().add(self.offset) },
        }
    }

    /// The bytes of a sealed object.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the range is inside the mapping, which `self.arena` keeps, and the bytes of a
        // sealed object do not change while it is pinned (SHM-1).
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.length) }
    }

    /// Whether the bytes are in the memory file, not in the overflow file.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        self.disk.is_none()
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the begin of the range in the file.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset as u64
    }

    /// Copies into the range, from its position `at`.
    ///
    /// # Errors
    /// When the bytes do not fit into the range.
    pub fn copy_in(&self, at: usize, bytes: &[u8]) -> Result<(), Error> {
        if at.checked_add(bytes.len()).is_none_or(|end| end > self.length) {
            let (offset, length, size) = (at as u64, bytes.len() as u64, self.length as u64);
            return Err(Error::OutOfBounds { offset, length, size });
        }
        self.arena.copy_in((self.offset + at) as u64, bytes)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const SIZE: u64 = 32 << 20;

    #[test]
    fn what_one_process_writes_the_other_reads() {
        let ours = Arena::create(SIZE).unwrap();
        let theirs = Arc::new(Arena::map(ours.fd().try_clone_to_owned().unwrap(), SIZE).unwrap());
        ours.copy_in(4096, b"sun").unwrap();
        assert_eq!(theirs.slice(4096, 3).unwrap().as_slice(), b"sun");
        let large: Vec<u8> = (0..9 << 20).map(|i| (i * 7 % 251) as u8).collect();
        let slice = theirs.slice(1 << 20, large.len() as u64).unwrap();
        slice.copy_in(0, &large).unwrap();
        assert!(slice.as_slice() == large);
    }

    #[test]
    fn every_byte_arrives_wherever_a_copy_begins_and_ends() {
        let arena = Arc::new(Arena::create(SIZE).unwrap());
        let bytes: Vec<u8> = (0..20 << 20).map(|i| (i * 31 % 253) as u8).collect();
        let edges = [0, 1, 4095, 4096, (256 << 10) - 1, 256 << 10, (512 << 10) + 7, 9 << 20];
        for offset in edges {
            for short in edges {
                let bytes = &bytes[short..];
                let slice = arena.slice(offset as u64, bytes.len() as u64).unwrap();
                slice.copy_in(0, bytes).unwrap();
                assert!(slice.as_slice() == bytes, "{} bytes at {offset}", bytes.len());
                slice.copy_in(0, &vec![0; bytes.len()]).unwrap();
            }
        }
    }

    #[test]
    fn what_comes_over_a_socket_is_received_in_place() {
        let arena = Arc::new(Arena::create(SIZE).unwrap());
        let (offset, length) = (4096 + (1 << 20), 3 << 20);
        assert_eq!(arena.mapped_in(offset, length), 0);
        rustix::io::pwrite(arena.fd(), &vec![7; length as usize], offset).unwrap();
        arena.map_in(offset, length);
        assert_eq!(arena.mapped_in(offset, length), length);
        assert_eq!(arena.mapped_in(offset, 2 * length), length + (256 << 10) - 4096);
        assert_eq!(arena.mapped_in(SIZE - 5, 10), 0, "SHM-1");
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(
            arena.receive(ours.as_fd(), offset, 9).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        io::Write::write_all(&mut &theirs, b"over the socket").unwrap();
        assert_eq!(arena.receive(ours.as_fd(), offset + 1, 8).unwrap(), 8);
        assert_eq!(arena.receive(ours.as_fd(), offset + 9, 100).unwrap(), 7);
        let found = arena.slice(offset, 17).unwrap();
        assert_eq!(found.as_slice(), b"\x07over the socket\x07");
        assert!(arena.receive(ours.as_fd(), SIZE - 1, 2).is_err(), "SHM-1");
        // The last piece ends with the file.
        arena.map_in(SIZE - 9, 9);
        assert_eq!(arena.mapped_in(SIZE - 9, 9), 9);
    }

    #[test]
    fn no_range_outside_the_file_is_reached() {
        let arena = Arc::new(Arena::create(SIZE).unwrap());
        for (offset, length) in [(SIZE, 1), (0, SIZE + 1), (u64::MAX, 2), (SIZE - 1, u64::MAX)] {
            assert!(matches!(arena.slice(offset, length), Err(Error::OutOfBounds { .. })), "SHM-1");
        }
        assert!(arena.copy_in(SIZE - 1, b"ab").is_err(), "SHM-1");
        assert!(arena.slice(SIZE - 2, 2).unwrap().copy_in(1, b"ab").is_err(), "SHM-1");
    }

    #[test]
    fn a_file_that_could_shrink_or_is_too_short_is_not_mapped() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let open = rustix::fs::memfd_create("open", flags).unwrap();
        rustix::fs::ftruncate(&open, SIZE).unwrap();
        assert!(matches!(Arena::map(open, SIZE), Err(Error::NotAnArena { .. })), "SHM-1");
        let ours = Arena::create(SIZE).unwrap();
        let fd = ours.fd().try_clone_to_owned().unwrap();
        assert!(rustix::fs::ftruncate(&fd, 0).is_err(), "SHM-1: the size is sealed");
        assert!(Arena::map(fd, SIZE * 2).is_err(), "SHM-1");
    }
}
