//! Folders of code in which the processes of one job run. Each of these holds a shared lock of the file
//! [`USERS`] in it, for as long as it lives; once the job is over and nobody holds one, the folder goes:
//! the next job may make its own of it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::random;

/// The name of the lock file in a view: a process that uses the view holds its shared lock.
pub const USERS: &str = ".users";

/// The name, beside the views, of the view of the job that ended last. The next job's view is made from it, since
/// much of it may be the same.
pub const IDLE: &str = ".idle";

/// The stack of a thread that waits for a lock and removes files.
const STACK: usize = 256 << 10;

/// Has a view removed when its last user has gone: detached actors live longer than their job. A thread waits
/// for that, in the kernel, and holds up nobody's end.
pub fn remove_unused(view: PathBuf) {
    match fs::symlink_metadata(&view) {
        // The view of a job submission, in which one of its drivers is.
        Ok(found) if found.is_symlink() => {
            let _ = fs::remove_file(view);
        }
        Ok(_) => {
            let thread = std::thread::Builder::new().name("view".into()).stack_size(STACK);
            // Without a thread the folder stays until the session ends.
            let _ = thread.spawn(move || {
                if let Ok(users) = File::open(view.join(USERS)) {
                    let _ = flock(&users, FlockOperation::LockExclusive);
                }
                retire(&view);
            });
        }
        Err(_) => {}
    }
}

/// Makes the view the idle one. The former idle view is renamed before it is removed, since a new job takes the
/// idle view by renaming it.
fn retire(view: &Path) {
    let idle = view.with_file_name(IDLE);
    let number = u64::from_le_bytes(random::bytes());
    let gone = view.with_file_name(format!(".{number:x}.gone"));
    let _ = fs::rename(&idle, &gone);
    if fs::rename(view, &idle).is_err() {
        // Another job has ended just now.
        let _ = fs::remove_dir_all(view);
    }
    let _ = fs::remove_dir_all(gone);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_view_goes_with_its_last_user() {
        let shelf = std::env::temp_dir().join(format!("views-{}", std::process::id()));
        let view = shelf.join("job");
        fs::create_dir_all(view.join("code")).unwrap();
        std::os::unix::fs::symlink("job", shelf.join("driver")).unwrap();
        let user = File::create(view.join(USERS)).unwrap();
        flock(&user, FlockOperation::LockShared).unwrap();
        remove_unused(shelf.join("driver"));
        assert!(fs::symlink_metadata(shelf.join("driver")).is_err(), "a link goes at once");
        remove_unused(view.clone());
        std::thread::sleep(Duration::from_millis(20));
        assert!(view.join("code").is_dir());
        drop(user);
        let until = Instant::now() + Duration::from_secs(60);
        while view.exists() && Instant::now() < until {
            std::thread::yield_now();
        }
        assert!(!view.exists());
        let idle = shelf.join(IDLE);
        while !idle.join("code").is_dir() && Instant::now() < until {
            std::thread::yield_now();
        }
        remove_unused(view.clone());
        fs::create_dir_all(view.join("newer")).unwrap();
        remove_unused(view);
        while (fs::read_dir(&shelf).unwrap().count() > 1 || !idle.join("newer").is_dir())
            && Instant::now() < until
        {
            std::thread::yield_now();
        }
        assert!(idle.join("newer").is_dir() && !idle.join("code").exists());
        fs::remove_dir_all(shelf).unwrap();
    }
}
