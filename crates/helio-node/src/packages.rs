//! Packages of code (`working_dir`, `py_modules`): drivers bring them to the head's daemon, and the other nodes take
//! them from there. They are files of the session's folder; nothing of them is held in memory.
//!
//! ```text
//!   driver ── PackageRequest ──▶ daemon           worker ── PackageRequest ──▶ daemon
//!          ◀─ PackageAnswer ────  (there: done)          ◀─ PackageAnswer, bytes ──
//!          ── bytes ───────────▶
//!          ◀─ PackageAnswer ────  (there)
//! ```
//!
//! A package is named by its content, or by what it answers, so one of that name is never written again, and what has a
//! name is whole.
//! Where the cluster's state is in a store that other heads reach, copies of the packages are, too.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use helio_env::random;
use helio_proto::cluster::{PackageAnswer, PackageRequest};
use helio_rpc::service::{Arrival, Error, Gate, Reader, Target, Writer};
use helio_storage::outside::Copies;

use crate::bulk::Threads;

const NAME_MAX: usize = 200;

/// **LIMIT-1** A package may take this part of what the disk has left.
const ROOM_PART: u64 = 2;

/// Serves connections that bring or take packages.
#[derive(Debug, Clone)]
pub(crate) struct Packages {
    gate: Arc<Gate>,
    folder: PathBuf,
    /// Copies of the packages where another head finds them; `None`: no other head is to.
    copies: Option<Copies>,
    threads: Threads,
}

impl Packages {
    pub(crate) fn new(
        gate: Arc<Gate>,
        folder: PathBuf,
        copies: Option<Copies>,
        threads: Threads,
    ) -> Self {
        Self { gate, folder, copies, threads }
    }

    pub(crate) fn serve(&self, arrival: Arrival) {
        if let Err(error) = self.threads.spawn(self.clone().run(arrival)) {
            tracing::error!(%error, "no threads for packages");
        }
    }

    async fn run(self, arrival: Arrival) {
        let Ok(arrival) = arrival.into_this_runtime() else { return };
        let Some((mut reader, writer, hello)) = self.gate.let_in(arrival) else { return };
        let Ok(Some(request)) = reader.next::<PackageRequest>().await else { return };
        let outcome = if !is_name(&request.name) {
            Err(Error::Refused(format!("{:?} is not the name of a package", request.name).into()))
        } else if request.is_brought {
            self.keep(&mut reader, &writer, &request).await
        } else {
            self.give(&writer, &request.name).await
        };
        if let Err(error) = outcome {
            tracing::info!(name = %request.name, pid = hello.pid, %error, "a package was not moved");
            // A connection that has ended is reported by its reader.
            let _ = writer
                .send(&PackageAnswer { refused: error.to_string(), ..PackageAnswer::default() });
        }
        // The peer hangs up when it has everything.
        let _ = reader.next_frame().await;
    }

    /// Whether the package is in the folder, if need be from where another head has put it.
    async fn has(&self, name: &str) -> bool {
        if self.folder.join(name).is_file() {
            return true;
        }
        let Some(copies) = self.copies.clone() else { return false };
        let wanted = name.to_owned();
        let found = tokio::task::spawn_blocking(move || copies.find(&wanted)).await;
        match found {
            Ok(Ok(is_there)) => is_there,
            Ok(Err(error)) => {
                tracing::warn!(name, %error, "a package cannot be looked for in the store");
                false
            }
            Err(_) => false,
        }
    }

    /// Puts a copy where another head finds it. Without one the package is there all the same.
    async fn copy(&self, name: &str) {
        let Some(copies) = self.copies.clone() else { return };
        let new = name.to_owned();
        let kept = tokio::task::spawn_blocking(move || copies.keep(&new)).await;
        if let Ok(Err(error)) = kept {
            tracing::warn!(name, %error, "a package is on this head's disk alone");
        }
    }

    async fn give(&self, writer: &Writer, name: &str) -> Result<(), Error> {
        self.has(name).await;
        let file = File::open(self.folder.join(name)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::Refused("the head does not have this package".into()),
            _ => error.into(),
        })?;
        let size = file.metadata()?.len();
        let _ = writer.send(&PackageAnswer { size, ..PackageAnswer::default() });
        Ok(writer.send_file(file.as_fd(), 0, size).await?)
    }

    async fn keep(
        &self,
        reader: &mut Reader,
        writer: &Writer,
        request: &PackageRequest,
    ) -> Result<(), Error> {
        let place = self.folder.join(&request.name);
        let there = PackageAnswer { is_there: true, ..PackageAnswer::default() };
        if self.has(&request.name).await {
            // A driver of this machine has written it there itself.
            self.copy(&request.name).await;
            let _ = writer.send(&there);
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let disk = rustix::fs::statvfs(&self.folder).map_err(io::Error::from)?;
        let room = disk.f_bavail.saturating_mul(disk.f_frsize) / ROOM_PART;
        if request.size > room {
            return Err(Error::Refused(
                format!(
                    "it has {} MiB, and the head's disk has room for {} MiB",
                    request.size >> 20,
                    room >> 20
                )
                .into(),
            ));
        }
        let number = u64::from_le_bytes(random::bytes());
        let draft = self.folder.join(format!(".{number:x}.part"));
        let outcome = self.receive(reader, writer, request.size, &draft).await;
        let outcome = outcome.and_then(|()| publish(&draft, &place));
        if outcome.is_err() {
            // The draft may never have been made.
            let _ = fs::remove_file(&draft);
        }
        outcome?;
        self.copy(&request.name).await;
        let _ = writer.send(&there);
        Ok(())
    }

    async fn receive(
        &self,
        reader: &mut Reader,
        writer: &Writer,
        size: u64,
        draft: &Path,
    ) -> Result<(), Error> {
        let file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(draft)?;
        let _ = writer.send(&PackageAnswer::default());
        let is_wanted = Mutex::new(true);
        let target = Target {
            file: file.as_fd(),
            offset: 0,
            length: size,
            is_wanted: &is_wanted,
            memory: None,
        };
        Ok(reader.receive_file(&target, |_| ()).await?)
    }
}

/// Gives what is whole its name, unless another one was quicker: the first of a name is the one that counts.
fn publish(draft: &Path, place: &Path) -> Result<(), Error> {
    match fs::hard_link(draft, place) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error.into()),
        _ => Ok(fs::remove_file(draft)?),
    }
}

/// A name leads nowhere else, and is not a draft.
fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+');
    !name.is_empty()
        && name.len() <= NAME_MAX
        && !name.starts_with('.')
        && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn a_name_stays_in_its_folder() {
        assert!(is_name("_ray_pkg_0a.zip") && is_name("a-1.0+x.whl"));
        for name in
            ["", ".", "..", "../a.zip", "/etc/passwd", "a/b.zip", ".a.part", "a\0.zip", "a b"]
        {
            assert!(!is_name(name), "{name:?}");
        }
        assert!(!is_name(&"a".repeat(201)));
    }
}
