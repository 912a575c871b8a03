//! A session's folder: how it is made, found again, and cleaned.
//!
//! ```text
//! <temp dir>/                         see `folder`
//!   session_latest                  → the session that began last
//!   ray_current_cluster               the address of the cluster that `start` made or joined
//!   session_<date>_<pid>/             one daemon's, its owner's alone
//!     node.pid                        its process; locked for as long as it lives
//!     node.json                       what it said when it was ready
//!     control.redb                    durable state, on the head of a cluster that outlives drivers
//!     sockets/, logs/
//! ```
//! Whether a daemon lives is asked of the lock, never of the process id, which may have gone to another
//! program since.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};

use helio_config::session::{
    CODE_FOLDER, CONTROL_FILE, LATEST_LINK, PACKAGES_FOLDER, PID_FILE, READY_FILE,
};
use helio_types::NodeId;
use serde_json::Value;

use crate::clock::Moment;
use crate::{entry_points, folder};

/// In a session's folder: objects that the store has no room for, or a link to where they are.
pub(crate) const SPILL: &str = "spill";

/// A session that this process is the daemon of.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) dir: PathBuf,
    pub(crate) name: String,
    /// The node whose daemon died here before.
    pub(crate) before: Option<NodeId>,
    /// Locked until the process ends, however it ends.
    _lock: File,
}

impl Session {
    /// Makes the folder and takes its lock. A name that is given is used, or taken up again when its
    /// daemon is gone; beside a living one a further daemon gets a folder of its own.
    pub(crate) fn create(temp_dir: &Path, name: Option<&str>) -> io::Result<Self> {
        let pid = std::process::id();
        let fresh = || format!("session_{}_{pid}", Moment::now().file_name());
        folder::make(temp_dir)?;
        let name = name.map_or_else(fresh, str::to_owned);
        match Self::take(temp_dir, &name) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Self::take(temp_dir, &format!("{name}_{pid}"))
            }
            taken => taken,
        }
    }

    fn take(temp_dir: &Path, name: &str) -> io::Result<Self> {
        let dir = temp_dir.join(name);
        for own in [&dir, &dir.join("logs"), &dir.join("sockets")] {
            folder::make_own(own)?;
        }
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(dir.join(PID_FILE))?;
        // The lock, not the number in the file, tells whether the daemon lives: numbers are used again.
        lock.try_lock().map_err(io::Error::from)?;
        lock.set_len(0)?;
        write!(lock, "{}", std::process::id())?;
        // The node of the daemon that died here is gone, and the control service is told so when it takes the state
        // up.
        let ready = fs::read_to_string(dir.join(READY_FILE)).unwrap_or_default();
        let ready: Value = serde_json::from_str(&ready).unwrap_or_default();
        let before = ready["node_id"].as_str().and_then(|id| NodeId::from_hex(id).ok());
        Ok(Self { dir, name: name.to_owned(), before, _lock: lock })
    }

    /// Names this session as the latest.
    pub(crate) fn is_latest(&self, temp_dir: &Path) -> io::Result<()> {
        folder::name_latest(temp_dir, &self.dir)
    }

    /// Returns the folder for objects for which the store has no room: in the session's folder, or in
    /// one of its own within another, to which a link here leads whoever cleans up after a daemon
    /// that was killed.
    pub(crate) fn spill_dir(&self, given: Option<&Path>) -> Result<PathBuf, String> {
        let usual = self.dir.join(SPILL);
        let Some(given) = given else { return Ok(usual) };
        let own = given.join(self.dir.file_name().unwrap_or_default());
        let failed = |error| format!("`--object-spilling-directory` {}: {error}", own.display());
        fs::create_dir_all(given).and_then(|()| folder::make_own(&own)).map_err(failed)?;
        match symlink(&own, usual) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed(error)),
            _ => Ok(own),
        }
    }

    /// The daemon ends in order: what only a living one has goes, and so does state that nobody is to
    /// take up again. Logs stay.
    pub(crate) fn clean(&self) {
        clean(&self.dir);
        let _ = fs::remove_file(self.dir.join(PID_FILE));
    }

    /// The daemon never was ready: nothing of it is worth keeping.
    pub(crate) fn discard(&self) {
        // Should it fail, an empty folder stays.
        let _ = fs::remove_dir_all(&self.dir);
        folder::unname_latest(&self.dir);
    }
}

/// A session that was found on disk.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) dir: PathBuf,
    /// The daemon's process, when it lives.
    pub(crate) pid: Option<u32>,
    /// The ready message of the daemon.
    ready: Value,
}

impl Found {
    /// The message of the daemon that was ready.
    pub(crate) fn ready(&self) -> &Value {
        &self.ready
    }

    pub(crate) fn text(&self, field: &str) -> &str {
        self.ready[field].as_str().unwrap_or_default()
    }

    /// Whether the daemon hosts the control service.
    pub(crate) fn is_head(&self) -> bool {
        self.ready["is_head"].as_bool().unwrap_or_default()
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.pid.is_some()
    }

    /// Whether the daemon that was found has ended since.
    pub(crate) fn has_ended(&self) -> bool {
        File::open(self.dir.join(PID_FILE)).map_or(true, |file| file.try_lock_shared().is_ok())
    }

    /// Whether durable state of a daemon that died is left: here, or in the store of that name.
    pub(crate) fn can_be_recovered(&self, store: &str) -> bool {
        let is_kept = match store {
            "" => self.dir.join(CONTROL_FILE).exists(),
            store => self.text("control_store") == store,
        };
        self.pid.is_none() && is_kept
    }

    /// Cleans up after a daemon that died.
    pub(crate) fn clean(&self) {
        entry_points::end_jobs_of(&self.dir);
        clean(&self.dir);
        let _ = fs::remove_file(self.dir.join(PID_FILE));
    }
}

/// The sessions of this user, the latest first; also those elsewhere to which `start` left a link.
pub(crate) fn find(temp_dir: &Path) -> Vec<Found> {
    let mut found = Vec::new();
    for (path, entry) in folder::own_sessions(temp_dir) {
        let seen = look_at(&path);
        if seen.is_none() && entry.is_symlink() {
            // A link to a session elsewhere that is over.
            let _ = fs::remove_file(&path);
        }
        found.extend(seen.map(|seen| (path, seen)));
    }
    found.sort_by(|a, b| b.0.cmp(&a.0));
    found.into_iter().map(|(_, found)| found).collect()
}

/// Whether the session that is named as the latest has a daemon.
pub(crate) fn is_latest_alive(temp_dir: &Path) -> bool {
    look_at(&temp_dir.join(LATEST_LINK)).is_some_and(|found| found.is_alive())
}

/// Reads a session's folder; `None` when there never was a daemon, or it has ended in order, or the folder is another
/// user's.
pub(crate) fn look_at(dir: &Path) -> Option<Found> {
    let dir = dir.canonicalize().ok().filter(|dir| folder::is_own(dir))?;
    let mut file = File::open(dir.join(PID_FILE)).ok()?;
    let is_alive = file.try_lock_shared().is_err();
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    let pid = text.trim().parse().ok().filter(|_| is_alive);
    let ready = fs::read_to_string(dir.join(READY_FILE)).unwrap_or_default();
    Some(Found { dir, pid, ready: serde_json::from_str(&ready).unwrap_or_default() })
}

fn clean(dir: &Path) {
    // Each may be gone already.
    let _ = fs::remove_dir_all(dir.join("sockets"));
    let _ = fs::remove_file(dir.join(READY_FILE));
    let _ = fs::remove_file(dir.join(CONTROL_FILE));
    let _ = fs::remove_dir_all(dir.join(PACKAGES_FOLDER));
    let _ = fs::remove_dir_all(dir.join(CODE_FOLDER));
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use helio_config::session::LATEST_LINK;

    use super::*;
    use crate::folder::link_from;
    use crate::folder::tests::Folder;

    /// AUTH-1: a session's folder is its owner's alone.
    #[test]
    fn a_session_is_found_while_it_lives_and_cleaned_after() {
        let folder = Folder::new("session");
        let session = Session::create(&folder.0, None).unwrap();
        session.is_latest(&folder.0).unwrap();
        folder::write_whole(
            &session.dir.join(READY_FILE),
            r#"{"host": "10.0.0.1", "is_head": true}"#,
        )
        .unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&folder.0), 0o1777);
        assert_eq!([mode(&session.dir), mode(&session.dir.join("sockets"))], [0o700, 0o700]);
        let found = find(&folder.0);
        let [found] = &found[..] else { panic!("one session, and the link is none: {found:?}") };
        assert_eq!(
            (found.pid, found.text("host"), found.is_head()),
            (Some(std::process::id()), "10.0.0.1", true)
        );
        assert_eq!(fs::read_link(folder.0.join(LATEST_LINK)).unwrap(), session.dir);

        // A second one of the same name gets a folder of its own.
        let second = Session::create(&folder.0, Some(&session.name)).unwrap();
        assert_ne!(second.dir, session.dir);
        second.clean();
        drop(second);

        // The daemon dies: the lock is gone, the rest is there.
        let (dir, name) = (session.dir.clone(), session.name.clone());
        fs::write(dir.join(CONTROL_FILE), "state").unwrap();
        drop(session);
        let found = find(&folder.0);
        assert!(found.len() == 1 && !found[0].is_alive() && found[0].can_be_recovered(""));
        assert!(!found[0].can_be_recovered("redis://a:1"), "its state is elsewhere");
        let again = Session::create(&folder.0, Some(&name)).unwrap();
        assert_eq!(again.dir, dir);
        assert!(find(&folder.0)[0].is_alive());
        again.clean();
        drop(again);
        assert!(
            find(&folder.0).is_empty()
                && dir.join("logs").exists()
                && !dir.join("sockets").exists()
        );
    }

    #[test]
    fn a_session_elsewhere_is_found_by_its_link() {
        let (here, there) = (Folder::new("here"), Folder::new("there"));
        let session = Session::create(&there.0, None).unwrap();
        link_from(&here.0, &session.dir).unwrap();
        link_from(&here.0, &session.dir).unwrap();
        assert_eq!(find(&here.0).len(), 1);
        session.clean();
        drop(session);
        assert_eq!(find(&here.0).len(), 0);
        assert_eq!(fs::read_dir(&here.0).unwrap().count(), 0, "the link is gone as well");
    }
}
