//! The daemon of the node, with which the ingress ends, unless the daemon was killed and may come again.
//!
//! A daemon that ends in order removes the file with its process id. One that was killed leaves the file, and its
//! successor writes into the same one. Until then the ingress serves with the table that it has: replicas on other
//! nodes go on. It ends when for [`ALONE_MAX`] it has reached none.

use std::fs::{File, read_to_string};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Shared;

/// For so long an ingress without a daemon waits for a replica that it can reach.
const ALONE_MAX: Duration = Duration::from_secs(10);
/// Time between two looks of an ingress without a daemon for the next one.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The daemon's process, by the file that it has locked while it lives.
fn living(pid_file: &Path) -> Option<u32> {
    let is_locked = File::open(pid_file).is_ok_and(|file| file.try_lock_shared().is_err());
    is_locked.then(|| read_to_string(pid_file).ok()?.trim().parse().ok()).flatten()
}

/// Waits until the ingress is to end; `may_return`: whether a daemon that was killed may have a successor.
pub(crate) async fn ended(shared: &Shared, pid_file: &Path, may_return: bool) {
    loop {
        if let Some(pid) = living(pid_file)
            && let Ok(daemon) = helio_env::process::watch(pid)
            && let Ok(daemon) = helio_env::descriptor::register(daemon)
        {
            shared.daemon_gone.set(None);
            let _ = daemon.readable().await;
        }
        shared.daemon_gone.set(Some(Instant::now()));
        if !may_return {
            return;
        }
        let mut alone_since = Instant::now();
        while living(pid_file).is_none() {
            // Without the session's folder no daemon comes back.
            let is_over = !pid_file.exists() || alone_since.elapsed() > ALONE_MAX;
            if is_over {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
            // Replicas that live serve their clients without a daemon, too.
            if shared.table.is_any_up() {
                alone_since = Instant::now();
            }
        }
    }
}
