//! Descriptors that a tokio loop waits for.

use std::io;
use std::os::fd::OwnedFd;

pub use tokio::io::unix::AsyncFd;

/// Registers a descriptor, which must not block, with the running loop.
///
/// # Errors
/// When the kernel cannot watch it.
pub fn register(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` names one open descriptor from here to its drop, and the `AsyncFd` owns it,
    // so it deregisters before the descriptor is closed.
    let registered = unsafe { AsyncFd::register(fd) };
    registered.map_err(io::Error::from)
}
