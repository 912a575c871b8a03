//! Descriptors that the process that started this one left open for it.

#![allow(unsafe_code, reason = "the operating system knows descriptors by number only")]

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd as _, OwnedFd};

/// Takes over descriptor `number`, which the command line named; it is closed with the file. Call it
/// once, before anything else opens files.
///
/// # Errors
/// When there is no such descriptor, or it is one of the standard three.
pub fn take(number: i32) -> io::Result<File> {
    if number <= 2 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a descriptor above 2 is needed"));
    }
    // SAFETY: the borrow ends with this call; should the number name nothing, the system says so.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_setfd(borrowed, rustix::io::FdFlags::CLOEXEC)?;
    // SAFETY: it is open (the call above would have failed), it came from the parent process for this
    // use, and nothing else in this process knows its number.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(number) }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    #[test]
    fn what_is_not_there_is_refused() {
        assert!(super::take(1).is_err());
        assert!(super::take(999_999).is_err());
    }
}
