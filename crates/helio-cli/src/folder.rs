//! The folder of all sessions, which the users of a machine may share.
//!
//! The owner of a folder can exchange everything in it, so it has to be this user's own or root's, and
//! sticky where everybody may write. Where `/tmp/ray` is another user's, `/tmp/ray_<uid>` takes its place.
//! Sessions, links and addresses that other users put into it are passed over: this user's token goes to
//! this user's daemons only. `core/platform/settings.py` finds the same folder.

use std::fs::{self, DirBuilder, Metadata, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use helio_config::session::{CURRENT_CLUSTER_FILE, LATEST_LINK, TEMP_DIR};
use helio_config::table::TMPDIR;
use rustix::fs::{Mode, OFlags};

const STICKY: u32 = 0o1000;
const FOR_ALL: u32 = 0o002;

/// The folder of all sessions: as given, or `$RAY_TMPDIR/ray`, or `/tmp/ray`; where one of the latter two
/// is not safe, the user's own beside it.
pub(crate) fn temp_dir(given: Option<&Path>) -> PathBuf {
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    if let Some(given) = given {
        return absolute(given.to_owned());
    }
    let root = helio_env::settings::text(&TMPDIR);
    let usual = absolute(root.map_or_else(|| TEMP_DIR.into(), |root| Path::new(&root).join("ray")));
    match look(&usual) {
        Ok(()) => usual,
        Err(_) => usual.with_file_name(format!("ray_{}", own_uid())),
    }
}

/// Makes the folder of all sessions unless it is there, for every user of the machine.
pub(crate) fn make(temp_dir: &Path) -> io::Result<()> {
    if let Some(parent) = temp_dir.parent() {
        DirBuilder::new().recursive(true).create(parent)?;
    }
    let is_new = match DirBuilder::new().mode(0o700).create(temp_dir) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(error),
    };
    look(temp_dir)?;
    let found = fs::metadata(temp_dir)?;
    if found.uid() == own_uid() && (is_new || is_open(&found)) {
        let dir = rustix::fs::open(temp_dir, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::fs::fchmod(&dir, Mode::from_raw_mode(0o1777))?;
    }
    Ok(())
}

/// Whether sessions are safe in a folder, which need not be there yet; the error says why not.
fn look(temp_dir: &Path) -> io::Result<()> {
    let refused = |why: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    let itself = match fs::symlink_metadata(temp_dir) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    // A link of this user or of root may lead to it.
    for found in [itself, fs::metadata(temp_dir)?] {
        let owner = found.uid();
        if owner != own_uid() && owner != 0 {
            return refused(format!(
                "it belongs to another user (uid {owner}), who could exchange the sessions in it; name \
                 another folder (`--temp-dir`, `_temp_dir`, RAY_TMPDIR)"
            ));
        }
        // One's own is mended.
        if found.is_dir() && is_open(&found) && owner != own_uid() {
            return refused(
                "every user may exchange the sessions in it; make it sticky (`chmod +t`), or name another \
                 folder (`--temp-dir`, `_temp_dir`, RAY_TMPDIR)"
                    .to_owned(),
            );
        }
        if !found.is_dir() && !found.is_symlink() {
            return refused("it is not a folder".to_owned());
        }
    }
    Ok(())
}

/// Whether every user may move what others put into it.
fn is_open(found: &Metadata) -> bool {
    found.mode() & FOR_ALL != 0 && found.mode() & STICKY == 0
}

/// Makes a folder for this user alone, or takes up such a one again.
pub(crate) fn make_own(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        outcome => return outcome,
    }
    let found = fs::symlink_metadata(dir)?;
    if found.is_dir() && found.uid() == own_uid() {
        return fs::set_permissions(dir, Permissions::from_mode(0o700));
    }
    let why = format!("{} is there already and is not this user's folder", dir.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// Returns this user's entries that begin like sessions: path, and what is known of the entry
/// itself.
pub(crate) fn own_sessions(temp_dir: &Path) -> impl Iterator<Item = (PathBuf, Metadata)> {
    let entries = fs::read_dir(temp_dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let name = entry.file_name();
        let is_session = name.to_string_lossy().starts_with("session_") && name != LATEST_LINK;
        let found = entry.metadata().ok().filter(|_| is_session)?;
        (found.uid() == own_uid()).then(|| (entry.path(), found))
    })
}

/// Whether the folder is this user's.
pub(crate) fn is_own(dir: &Path) -> bool {
    fs::metadata(dir).is_ok_and(|found| found.is_dir() && found.uid() == own_uid())
}

/// Names the latest session, unless another user's is named in a folder that is not ours.
pub(crate) fn name_latest(temp_dir: &Path, session_dir: &Path) -> io::Result<()> {
    let link = temp_dir.join(LATEST_LINK);
    let draft = helio_env::draft::beside(&link);
    let named = symlink(session_dir, &draft).and_then(|()| fs::rename(&draft, link));
    match named {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::AlreadyExists
            ) =>
        {
            let _ = fs::remove_file(&draft);
            Ok(())
        }
        named => named,
    }
}

/// No session is named as the latest, if it was this one.
pub(crate) fn unname_latest(session_dir: &Path) {
    let Some(link) = session_dir.parent().map(|dir| dir.join(LATEST_LINK)) else { return };
    if fs::read_link(&link).is_ok_and(|named| named == session_dir) {
        let _ = fs::remove_file(link);
    }
}

/// Leaves a link to a session in another folder, so that `stop` and `status` find it.
pub(crate) fn link_from(temp_dir: &Path, session_dir: &Path) -> io::Result<()> {
    make(temp_dir)?;
    let Some(name) = session_dir.file_name() else { return Ok(()) };
    match symlink(session_dir, temp_dir.join(name)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// The address of the cluster that this user's `start` made or joined.
pub(crate) fn current_cluster(temp_dir: &Path) -> Option<String> {
    let path = temp_dir.join(CURRENT_CLUSTER_FILE);
    let found = fs::symlink_metadata(&path).ok()?;
    if !found.is_file() || found.uid() != own_uid() {
        return None;
    }
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Keeps that address.
pub(crate) fn name_current_cluster(temp_dir: &Path, address: &str) -> io::Result<()> {
    write_whole(&temp_dir.join(CURRENT_CLUSTER_FILE), address)
}

/// The cluster of that address has another one now.
pub(crate) fn current_cluster_moved(temp_dir: &Path, before: &str, address: &str) {
    if current_cluster(temp_dir).is_some_and(|named| named == before)
        && let Err(error) = name_current_cluster(temp_dir, address)
    {
        tracing::warn!(%error, "`address=\"auto\"` may not find the cluster");
    }
}

/// Removes the address of that cluster from where commands look for one.
pub(crate) fn forget_current_cluster(temp_dir: &Path, address: &str) {
    if current_cluster(temp_dir).is_some_and(|named| named == address) {
        // The file may be gone already.
        let _ = fs::remove_file(temp_dir.join(CURRENT_CLUSTER_FILE));
    }
}

/// Writes a file that is there wholly or not at all, and never through another user's link.
pub(crate) fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let draft = helio_env::draft::beside(path);
    let mut file = OpenOptions::new().write(true).create_new(true).open(&draft)?;
    file.write_all(text.as_bytes())?;
    fs::rename(&draft, path)
}

pub(crate) fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A path of one test's own.
    pub(crate) struct Folder(pub(crate) PathBuf);

    impl Folder {
        pub(crate) fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("helio-cli-{name}-{}", std::process::id()));
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn the_folder_of_all_sessions_is_sticky_also_when_it_was_there() {
        let folder = Folder::new("sticky");
        for before in [None, Some(0o777), Some(0o1777)] {
            if let Some(before) = before {
                fs::set_permissions(&folder.0, Permissions::from_mode(before)).unwrap();
            }
            make(&folder.0).unwrap();
            assert_eq!(mode(&folder.0), 0o1777, "{before:?}");
        }
        fs::set_permissions(&folder.0, Permissions::from_mode(0o750)).unwrap();
        make(&folder.0).unwrap();
        assert_eq!(mode(&folder.0), 0o750, "closed by its owner, it stays so");
        let file = folder.0.join("file");
        fs::write(&file, "").unwrap();
        let error = make(&file).unwrap_err();
        assert!(error.to_string().contains("not a folder"), "{error}");
    }

    #[test]
    fn writers_whose_processes_have_one_number_do_not_meet() {
        let folder = Folder::new("drafts");
        make(&folder.0).unwrap();
        let writer = || {
            for _ in 0..200 {
                name_current_cluster(&folder.0, "10.0.0.1:6379").unwrap();
                name_latest(&folder.0, &folder.0).unwrap();
            }
        };
        std::thread::scope(|scope| [scope.spawn(writer), scope.spawn(writer)].map(drop));
        assert_eq!(current_cluster(&folder.0).as_deref(), Some("10.0.0.1:6379"));
        assert_eq!(fs::read_link(folder.0.join(LATEST_LINK)).unwrap(), folder.0);
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 2, "no drafts are left");
    }

    #[test]
    fn a_link_names_no_cluster() {
        let folder = Folder::new("named");
        make(&folder.0).unwrap();
        let precious = folder.0.join("precious");
        fs::write(&precious, "10.0.0.1:6379").unwrap();
        symlink(&precious, folder.0.join(CURRENT_CLUSTER_FILE)).unwrap();
        assert_eq!(current_cluster(&folder.0), None);
        name_current_cluster(&folder.0, "10.0.0.2:6379").unwrap();
        assert_eq!(current_cluster(&folder.0).as_deref(), Some("10.0.0.2:6379"));
        assert_eq!(fs::read_to_string(&precious).unwrap(), "10.0.0.1:6379", "it is not followed");
    }

    #[test]
    fn a_folder_of_ones_own_is_no_link() {
        let folder = Folder::new("own");
        make(&folder.0).unwrap();
        let (real, link) = (folder.0.join("real"), folder.0.join("link"));
        make_own(&real).unwrap();
        fs::set_permissions(&real, Permissions::from_mode(0o755)).unwrap();
        make_own(&real).unwrap();
        assert_eq!(mode(&real), 0o700);
        symlink(&real, &link).unwrap();
        assert!(make_own(&link).is_err());
    }
}
