//! Failures, as a file among the logs: the history server shows it in the place of `/events`.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use helio_report::Row;

use serde_json::json;

use crate::events_route::event;

/// Within the session's folder.
const FILE: &str = "logs/events/event_GCS.log";
/// LIMIT-1: what comes after so much is not written.
const BYTES_MAX: u64 = 64 << 20;

#[derive(Debug)]
pub(super) struct Failures {
    file: PathBuf,
    written: HashSet<String>,
}

impl Failures {
    pub(super) fn in_session(session_dir: &Path) -> Self {
        Self { file: session_dir.join(FILE), written: HashSet::new() }
    }

    /// Adds a line for each that is new.
    pub(super) fn write(&mut self, rows: &[Row]) {
        let ids: HashSet<String> =
            rows.iter().filter_map(|row| Some(row.get("event_id")?.as_str()?.to_owned())).collect();
        let new = |row: &&Row| {
            row.get("event_id")
                .and_then(|id| id.as_str())
                .is_some_and(|id| !self.written.contains(id))
        };
        let lines: String =
            rows.iter().filter(new).map(|row| format!("{}\n", json!(event(row)))).collect();
        if lines.is_empty() {
            // Only ids that are still listed are kept, so the set is as bounded as the list.
            self.written = ids;
            return;
        }
        match self.append(&lines) {
            Ok(()) => self.written = ids,
            // With the next reading again.
            Err(error) => tracing::debug!(%error, "events are not written"),
        }
    }

    fn append(&self, lines: &str) -> io::Result<()> {
        if let Some(folder) = self.file.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = OpenOptions::new().create(true).append(true).open(&self.file)?;
        if file.metadata()?.len() + lines.len() as u64 <= BYTES_MAX {
            file.write_all(lines.as_bytes())?;
        }
        Ok(())
    }
}
