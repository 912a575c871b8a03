//! Folders of sessions that are over: the latest are kept for their logs, older ones are removed.
//!
//! Only folders that a daemon of this program made for this user are looked at, never what a link leads
//! to, and never one whose daemon lives (it holds the lock), or that died with state which `start --head`
//! takes up again.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use helio_config::session::{CONTROL_FILE, PID_FILE, TOKEN_FILE};

use crate::folder;
use crate::session::SPILL;

/// The least age at which a folder is removed: a user who has just ended a session may still read its logs, however
/// many others end meanwhile.
const SETTLED: Duration = Duration::from_secs(600);

/// The limits of ended sessions that stay: a folder beyond either is removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) sessions: usize,
    pub(crate) age: Duration,
}

/// Removes what is not kept. `now` is the time since 1970.
pub(crate) fn remove(temp_dir: &Path, kept: Kept, now: Duration) {
    let mut over: Vec<(i64, PathBuf)> = folder::own_sessions(temp_dir)
        .filter(|(dir, found)| found.is_dir() && is_of_a_daemon(dir))
        .map(|(dir, found)| (found.mtime(), dir))
        .collect();
    over.retain(|(_, dir)| lock(dir).is_ok());
    // The folder changed last when its daemon ended.
    over.sort_by(|one, other| other.cmp(one));
    for (place, (changed, dir)) in over.into_iter().enumerate() {
        let age = now.saturating_sub(Duration::from_secs(changed.max(0).unsigned_abs()));
        let is_kept = place < kept.sessions && age < kept.age;
        if !is_kept
            && age >= SETTLED
            && let Err(error) = remove_one(&dir)
        {
            tracing::warn!(dir = %dir.display(), %error, "the folder of an old session stays");
        }
    }
}

/// Ray's own sessions may lie in the same folder.
fn is_of_a_daemon(dir: &Path) -> bool {
    [TOKEN_FILE, PID_FILE]
        .iter()
        .any(|name| fs::symlink_metadata(dir.join(name)).is_ok_and(|found| found.is_file()))
}

/// The lock of a session that is over; `None`: it ended in order, and took the file along.
fn lock(dir: &Path) -> io::Result<Option<File>> {
    let file = match OpenOptions::new().read(true).write(true).open(dir.join(PID_FILE)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    file.try_lock().map_err(io::Error::from)?;
    Ok(Some(file))
}

fn remove_one(dir: &Path) -> io::Result<()> {
    // The lock is held to the end: a daemon that would take the session up again meanwhile gets a folder of its own.
    let Ok(_lock) = lock(dir) else { return Ok(()) };
    if dir.join(CONTROL_FILE).exists() {
        return Ok(());
    }
    // A killed daemon leaves its spilled objects elsewhere, in a folder of its own.
    if let Ok(spill) = fs::read_link(dir.join(SPILL))
        && spill.file_name() == dir.file_name()
        && fs::symlink_metadata(&spill)
            .is_ok_and(|found| found.is_dir() && found.uid() == folder::own_uid())
    {
        fs::remove_dir_all(&spill)?;
    }
    for path in marks_last(dir)? {
        if fs::symlink_metadata(&path)?.is_dir() {
            fs::remove_dir_all(&path)?;
        } else {
            fs::remove_file(&path)?;
        }
    }
    fs::remove_dir(dir)
}

/// Returns the files of the folder, those that mark it as a daemon's last. So after a removal that is cut short the
/// next daemon removes the rest.
fn marks_last(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.sort_by_key(|path| {
        path.file_name().is_some_and(|name| name == TOKEN_FILE || name == PID_FILE)
    });
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::SystemTime;

    use super::*;
    use crate::folder::tests::Folder;
    use crate::session::Session;

    const HOUR: Duration = Duration::from_secs(3600);
    const DAY: Duration = Duration::from_secs(24 * 3600);
    const ALL: Kept = Kept { sessions: usize::MAX, age: Duration::MAX };

    /// Sessions by name, with what became of them, and how long ago that was.
    fn session(folder: &Folder, name: &str, ago: Duration, end: impl FnOnce(Session)) -> PathBuf {
        let session = Session::create(&folder.0, Some(name)).unwrap();
        let dir = session.dir.clone();
        fs::write(dir.join(TOKEN_FILE), "token").unwrap();
        end(session);
        File::open(&dir).unwrap().set_modified(SystemTime::now() - ago).unwrap();
        dir
    }

    fn ended(session: Session) {
        session.clean();
    }

    fn now() -> Duration {
        Duration::from_micros(helio_env::clock::unix_us())
    }

    fn left(folder: &Folder) -> Vec<String> {
        let names = folder::own_sessions(&folder.0).map(|(path, _)| path);
        let mut names: Vec<String> =
            names.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_latest_stay_and_the_old_go() {
        let folder = Folder::new("latest");
        for hours in 1..=6 {
            session(&folder, &format!("session_{hours}"), HOUR * hours, ended);
        }
        session(&folder, "session_old", DAY * 8, ended);
        remove(&folder.0, ALL, now());
        assert_eq!(left(&folder).len(), 7);
        remove(&folder.0, Kept { sessions: usize::MAX, age: DAY * 7 }, now());
        assert_eq!(left(&folder).len(), 6, "older than a week");
        remove(&folder.0, Kept { sessions: 2, age: DAY * 7 }, now());
        assert_eq!(left(&folder), ["session_1", "session_2"]);
        session(&folder, "session_a_moment_ago", Duration::from_secs(60), ended);
        remove(&folder.0, Kept { sessions: 0, age: Duration::ZERO }, now());
        assert_eq!(left(&folder), ["session_a_moment_ago"]);
    }

    #[test]
    fn what_is_in_use_and_what_can_be_taken_up_again_stays() {
        let folder = Folder::new("in-use");
        let none = Kept { sessions: 0, age: Duration::ZERO };
        let mut alive = None;
        session(&folder, "session_alive", DAY * 30, |session| alive = Some(session));
        session(&folder, "session_killed", DAY * 30, drop);
        session(&folder, "session_head", DAY * 30, |session| {
            fs::write(session.dir.join(CONTROL_FILE), "state").unwrap();
        });
        let of_ray = folder.0.join("session_of_ray");
        fs::create_dir(&of_ray).unwrap();
        File::open(&of_ray).unwrap().set_modified(SystemTime::now() - DAY * 30).unwrap();
        remove(&folder.0, none, now());
        assert_eq!(left(&folder), ["session_alive", "session_head", "session_of_ray"]);
        drop(alive);
        remove(&folder.0, none, now());
        assert_eq!(left(&folder), ["session_head", "session_of_ray"]);
    }

    #[test]
    fn a_removal_that_was_cut_short_goes_on() {
        let folder = Folder::new("cut-short");
        let dir = session(&folder, "session_cut", DAY, ended);
        let order = marks_last(&dir).unwrap();
        assert_eq!(order.last(), Some(&dir.join(TOKEN_FILE)));
        for gone in order.split_last().unwrap().1 {
            fs::remove_dir_all(gone).or_else(|_| fs::remove_file(gone)).unwrap();
        }
        File::open(&dir).unwrap().set_modified(SystemTime::now() - DAY).unwrap();
        remove(&folder.0, Kept { sessions: 0, age: Duration::ZERO }, now());
        assert_eq!(left(&folder), [""; 0]);
    }

    #[test]
    fn links_are_not_followed_and_a_spill_folder_elsewhere_goes_along() {
        let (folder, elsewhere) = (Folder::new("links"), Folder::new("elsewhere"));
        fs::create_dir_all(elsewhere.0.join("precious")).unwrap();
        fs::write(elsewhere.0.join(TOKEN_FILE), "token").unwrap();
        let spilled = elsewhere.0.join("session_spills");
        session(&folder, "session_spills", DAY, |session| {
            assert_eq!(session.spill_dir(Some(&elsewhere.0)).unwrap(), spilled);
            fs::write(spilled.join("object"), "bytes").unwrap();
        });
        session(&folder, "session_links", DAY, |session| {
            symlink(&elsewhere.0, session.dir.join("logs/link")).unwrap();
            symlink(elsewhere.0.join("precious"), session.dir.join(SPILL)).unwrap();
        });
        symlink(&elsewhere.0, folder.0.join("session_link")).unwrap();
        remove(&folder.0, Kept { sessions: 0, age: Duration::ZERO }, now());
        assert_eq!(left(&folder), ["session_link"], "it may lead to a session in use");
        assert!(!spilled.exists());
        assert!(elsewhere.0.join("precious").exists());
    }
}
