//! `/api/v0/logs…`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

/// The names of a node's files, by kind.
pub(crate) type LogFiles = BTreeMap<String, Vec<String>>;

/// The process that writes a file, as far as the file's name and the actors tell.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Owner {
    Submission {
        submission_id: String,
    },
    /// With columns of the actor's row.
    Worker {
        worker_id: String,
        pid: u64,
        actor_id: Option<Value>,
        actor: Option<Value>,
        actor_name: Option<Value>,
        job_id: Option<Value>,
    },
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct LogFile {
    pub(crate) node_id: String,
    pub(crate) node_ip: String,
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    /// Bytes.
    pub(crate) size: u64,
    pub(crate) modified_ms: u64,
    #[cfg_attr(test, ts(type = "Record<string, string | number | null> | null"))]
    pub(crate) owner: Option<Owner>,
}

/// A node that did not answer.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Silent {
    pub(crate) node_id: String,
    pub(crate) why: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct FoundFiles {
    pub(crate) files: Vec<LogFile>,
    pub(crate) silent: Vec<Silent>,
}

#[derive(Debug, Serialize)]
pub(crate) struct LogLine {
    pub(crate) node_id: String,
    pub(crate) node_ip: String,
    pub(crate) file: String,
    pub(crate) line: u64,
    pub(crate) text: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct FoundLines {
    pub(crate) lines: Vec<LogLine>,
    pub(crate) silent: Vec<Silent>,
    /// Whether there are more than were asked for.
    pub(crate) is_cut: bool,
}
