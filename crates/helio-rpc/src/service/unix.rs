//! Sockets of the file system: their folder, and paths that are too long for an address.

use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// The longest path that is a socket's address as it is, in bytes.
const ADDRESS_MAX: usize = 100;

/// Listens at a socket file; one of a process that was killed makes room. **AUTH-1** The folder is the owner's alone.
///
/// # Errors
/// When the folder cannot be made, or the operating system refuses.
pub fn listen_unix(path: &Path) -> io::Result<UnixListener> {
    let folder = path.parent().unwrap_or(path);
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    std::fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    let _ = std::fs::remove_file(path);
    let (short, _folder) = short(path)?;
    UnixListener::bind(short)
}

/// Connects to a socket file, without a handshake.
pub(super) async fn connect_path(path: &Path) -> io::Result<UnixStream> {
    let (short, _folder) = short(path)?;
    UnixStream::connect(short).await
}

/// A socket's address holds about a hundred bytes; a longer path is reached through the folder's descriptor.
fn short(path: &Path) -> io::Result<(PathBuf, Option<File>)> {
    if path.as_os_str().len() <= ADDRESS_MAX {
        return Ok((path.to_owned(), None));
    }
    let folder = File::open(path.parent().unwrap_or(path))?;
    let through = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string());
    Ok((through.join(path.file_name().unwrap_or_default()), Some(folder)))
}
