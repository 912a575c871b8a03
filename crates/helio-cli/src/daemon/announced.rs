//! The ready message of the daemon, where those find it who look for the session.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use helio_config::session::READY_FILE;
use serde_json::Value;

use crate::folder;

/// The ready message of the daemon, in its session's folder for those who look for it. The head's address in it changes
/// with the head.
pub(super) struct Announced(Arc<Mutex<(PathBuf, Value)>>);

impl Announced {
    pub(super) fn new(dir: &Path, temp_dir: &Path, moves: mpsc::Receiver<String>) -> Self {
        let announced = Self(Arc::new(Mutex::new((dir.to_owned(), Value::Null))));
        let (shared, temp_dir) = (Self(Arc::clone(&announced.0)), temp_dir.to_owned());
        let follow = move || {
            for address in moves {
                let before = shared.head();
                let mut line = shared.lock().1.clone();
                line["control_address"] = address.clone().into();
                shared.keep(&line);
                if let Some(before) = before {
                    folder::current_cluster_moved(&temp_dir, &before, &address);
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().name("head".to_owned()).spawn(follow) {
            tracing::warn!(%error, "commands here will not follow the head to another machine");
        }
        announced
    }

    fn lock(&self) -> MutexGuard<'_, (PathBuf, Value)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address of the head, once it was said.
    pub(super) fn head(&self) -> Option<String> {
        self.lock().1["control_address"].as_str().map(str::to_owned)
    }

    pub(super) fn keep(&self, line: &Value) {
        let mut kept = self.lock();
        kept.1 = line.clone();
        if let Err(error) = folder::write_whole(&kept.0.join(READY_FILE), &line.to_string()) {
            tracing::error!(dir = %kept.0.display(), %error, "the node's address cannot be kept");
        }
    }
}
