//! Ranges of files over a connection, in no frame: the kernel moves them between the page cache and the
//! socket, and no byte of them passes through this process. Over an encrypted connection they do, as it has the keys.
//!
//! The bytes that wait in a socket to be sent are those of the file: who changes the file before the other side has
//! said that it has them changes what it reads.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

use super::{Reader, Writer};

/// How much is moved at a time, in bytes: what a pipe may hold without privileges.
const STEP: usize = 1 << 20;

/// How much is encrypted at a time, in bytes: it stays in the processor's cache on its way.
const PIECE: usize = 256 << 10;

/// Where received bytes go: a range of a file, as long as that is wanted.
#[derive(Debug)]
pub struct Target<'a> {
    /// The file.
    pub file: BorrowedFd<'a>,
    /// Where the range begins.
    pub offset: u64,
    /// How long it is, in bytes.
    pub length: u64,
    /// Whether it may still be written; while the lock is held by others, nothing is.
    pub is_wanted: &'a Mutex<bool>,
}

impl Writer {
    /// Sends a range of a file, after what was sent before. Nothing else may be sent meanwhile.
    ///
    /// # Errors
    /// When the connection broke, or the file ends before the range does.
    pub async fn send_file(
        &self,
        file: BorrowedFd<'_>,
        mut offset: u64,
        length: u64,
    ) -> io::Result<()> {
        self.flushed().await;
        if !self.stream().is_plain() {
            return self.send_encrypted(file, offset, length).await;
        }
        let end = offset + length;
        while offset < end {
            let step = STEP.min(usize::try_from(end - offset).unwrap_or(STEP));
            let send = |socket: BorrowedFd<'_>| {
                Ok(rustix::fs::sendfile(socket, file, Some(&mut offset), step)?)
            };
            if self.stream().when_writable(send).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    async fn send_encrypted(
        &self,
        file: BorrowedFd<'_>,
        mut offset: u64,
        length: u64,
    ) -> io::Result<()> {
        let end = offset + length;
        let mut piece = vec![0; PIECE.min(usize::try_from(length).unwrap_or(PIECE))];
        while offset < end {
            let step = piece.len().min(usize::try_from(end - offset).unwrap_or(PIECE));
            let mut rest = match rustix::io::pread(file, &mut piece[..step], offset)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => &piece[..count],
            };
            offset += rest.len() as u64;
            while !rest.is_empty() {
                rest = &rest[self.stream().write(rest, None).await?..];
            }
        }
        Ok(())
    }
}

impl Reader {
    /// Receives bytes that come in no frame into a range of a file. `on_some` hears how many have come.
    ///
    /// # Errors
    /// When the connection broke or ended, or the file does not take them. [`io::ErrorKind::Interrupted`]: they are
    /// not wanted any more. The connection is of no use then.
    pub async fn receive_file(
        &mut self,
        target: &Target<'_>,
        mut on_some: impl FnMut(u64),
    ) -> io::Result<()> {
        let (mut offset, end) = (target.offset, target.offset + target.length);
        // What came together with the last frame.
        let early = self.take_early(target.length);
        write_wanted(target, || write_at(target, &mut offset, &early))?;
        if !self.stream().is_plain() {
            return self.receive_encrypted(target, offset, on_some).await;
        }
        let (pipe_out, pipe_in) = wide_pipe()?;
        while offset < end {
            let step = STEP.min(usize::try_from(end - offset).unwrap_or(STEP));
            let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
            let read = |socket: BorrowedFd<'_>| {
                Ok(splice(socket, None, pipe_in.as_fd(), None, step, flags)?)
            };
            let mut held = self.stream().when_readable(read).await?;
            if held == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            write_wanted(target, || {
                while held > 0 {
                    let to = Some(&mut offset);
                    let flags = SpliceFlags::MOVE;
                    match splice(pipe_out.as_fd(), None, target.file, to, held, flags)? {
                        0 => return Err(io::ErrorKind::WriteZero.into()),
                        written => held -= written,
                    }
                }
                Ok(())
            })?;
            on_some(offset - target.offset);
        }
        Ok(())
    }

    async fn receive_encrypted(
        &mut self,
        target: &Target<'_>,
        mut offset: u64,
        mut on_some: impl FnMut(u64),
    ) -> io::Result<()> {
        let end = target.offset + target.length;
        while offset < end {
            if !self.read_some().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let some = self.take_early(end - offset);
            write_wanted(target, || write_at(target, &mut offset, &some))?;
            on_some(offset - target.offset);
        }
        Ok(())
    }
}

fn write_at(target: &Target<'_>, offset: &mut u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = rustix::io::pwrite(target.file, bytes, *offset)?;
        *offset += written as u64;
        bytes = &bytes[written..];
    }
    Ok(())
}

fn write_wanted(target: &Target<'_>, write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let is_wanted = target.is_wanted.lock().unwrap_or_else(PoisonError::into_inner);
    if *is_wanted { write() } else { Err(io::ErrorKind::Interrupted.into()) }
}

fn wide_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (pipe_out, pipe_in) = pipe_with(PipeFlags::CLOEXEC)?;
    // A user with many pipes may not widen more of them: smaller steps do.
    let _ = fcntl_setpipe_size(&pipe_in, STEP);
    Ok((pipe_out, pipe_in))
}
