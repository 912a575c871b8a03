//! Ranges of files and of memory over a connection, in no frame. Those of files the kernel moves between the page cache and
//! the socket; memory that this process has mapped in it copies, which costs less than to look each page up. Over an
//! encrypted connection all bytes pass through this process, as it has the keys.
//!
//! The bytes of a file that wait in a socket to be sent are those of the file: who changes the file before the other side has
//! said that it has them changes what it reads.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::{fmt, io};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

use super::read::Reader;
use super::stream::Stream;
use super::write::Writer;

/// Bytes that are moved at a time: what a pipe may hold without privileges.
const STEP: usize = 1 << 20;

/// Bytes that are encrypted at a time: they stay in the processor's cache on their way.
const PIECE: usize = 256 << 10;

/// The place for received bytes: a range of a file, as long as that is wanted.
#[derive(Debug)]
pub struct Target<'a> {
    /// The file.
    pub file: BorrowedFd<'a>,
    /// The begin of the range, in bytes from the begin of the file.
    pub offset: u64,
    /// Length of the range in bytes.
    pub length: u64,
    /// Whether it may still be written; while the lock is held by others, nothing is.
    pub is_wanted: &'a Mutex<bool>,
    /// The file as memory, if this process has it mapped.
    pub memory: Option<&'a dyn Memory>,
}

/// A file that is mapped into this process. Offsets are the file's.
pub trait Memory: Sync + fmt::Debug {
    /// Returns the number of bytes from `offset` on, up to `length`, that this process has mapped in: there, and only there,
    /// it costs less to write in place than through the file.
    fn mapped_in(&self, offset: u64, length: u64) -> u64;

    /// Receives what has come over the socket, at most `length` bytes and without waiting; how many there were.
    ///
    /// # Errors
    /// The errors of the socket.
    fn receive(&self, socket: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<usize>;

    /// Copies the bytes there.
    ///
    /// # Errors
    /// When they do not lie in the file.
    fn copy_in(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
}

impl Target<'_> {
    /// See [`Memory::mapped_in`].
    fn mapped_in(&self, offset: u64, end: u64) -> Option<(&dyn Memory, u64)> {
        let memory = self.memory?;
        let length = memory.mapped_in(offset, end - offset);
        (length > 0).then_some((memory, length))
    }

    /// Does `write` if it may.
    fn write_wanted<T>(&self, write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let is_wanted = self.is_wanted.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_wanted { write() } else { Err(io::ErrorKind::Interrupted.into()) }
    }

    /// Writes bytes that are in this process at `offset`, which moves on.
    fn write_at(&self, offset: &mut u64, mut bytes: &[u8]) -> io::Result<()> {
        self.write_wanted(|| {
            while !bytes.is_empty() {
                let written = match self.mapped_in(*offset, *offset + bytes.len() as u64) {
                    Some((memory, length)) => {
                        let length = usize::try_from(length).unwrap_or(bytes.len());
                        memory.copy_in(*offset, &bytes[..length]).map(|()| length)?
                    }
                    None => rustix::io::pwrite(self.file, bytes, *offset)?,
                };
                *offset += written as u64;
                bytes = &bytes[written..];
            }
            Ok(())
        })
    }
}

impl Writer {
    /// Sends bytes of memory, after what was sent before. Nothing else may be sent meanwhile.
    ///
    /// # Errors
    /// When the connection broke.
    pub async fn send_memory(&self, mut bytes: &[u8]) -> io::Result<()> {
        self.flushed().await;
        while !bytes.is_empty() {
            let written = self.stream().write(&bytes[..bytes.len().min(STEP)], None).await?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

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
        // Frames that wait in memory were queued before: the bytes of the file go behind them.
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
        // The bytes that came together with the last frame.
        let early = self.take_early(target.length);
        target.write_at(&mut offset, &early)?;
        let mut pipe = None;
        while offset < end {
            let received = match self.stream() {
                Stream::Secure(secure) => {
                    secure
                        .read_with(end - offset, |some| target.write_at(&mut offset, some))
                        .await?
                }
                stream => match target.mapped_in(offset, end) {
                    Some((memory, length)) => {
                        let length = length.min(STEP as u64);
                        let receive = |socket: BorrowedFd<'_>| {
                            target.write_wanted(|| memory.receive(socket, offset, length))
                        };
                        let received = stream.when_readable(receive).await?;
                        offset += received as u64;
                        received
                    }
                    None => {
                        let pipe = match &mut pipe {
                            Some(pipe) => pipe,
                            none => none.insert(wide_pipe()?),
                        };
                        splice_some(stream, pipe, target, &mut offset, end).await?
                    }
                },
            };
            if received == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            on_some(offset - target.offset);
        }
        Ok(())
    }
}

/// Has the kernel move what has come into the file, at `offset`, which moves on; how many bytes that were.
async fn splice_some(
    stream: &Stream,
    (pipe_out, pipe_in): &(OwnedFd, OwnedFd),
    target: &Target<'_>,
    offset: &mut u64,
    end: u64,
) -> io::Result<usize> {
    let step = STEP.min(usize::try_from(end - *offset).unwrap_or(STEP));
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    let read =
        |socket: BorrowedFd<'_>| Ok(splice(socket, None, pipe_in.as_fd(), None, step, flags)?);
    let received = stream.when_readable(read).await?;
    let mut held = received;
    // Under the lock of what is wanted: after a stop the range may be another object's.
    target.write_wanted(|| {
        while held > 0 {
            match splice(
                pipe_out.as_fd(),
                None,
                target.file,
                Some(offset),
                held,
                SpliceFlags::MOVE,
            )? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => held -= written,
            }
        }
        Ok(())
    })?;
    Ok(received)
}

fn wide_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (pipe_out, pipe_in) = pipe_with(PipeFlags::CLOEXEC)?;
    // A user with many pipes may not widen more of them: smaller steps do.
    let _ = fcntl_setpipe_size(&pipe_in, STEP);
    Ok((pipe_out, pipe_in))
}
