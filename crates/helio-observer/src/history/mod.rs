//! The history of a cluster, written as things happen ([`Recorder`]) and read again when the cluster is gone
//! ([`Recorded`]).
//!
//! A history is a folder of files ([`file`]), each of batches ([`helio_proto::history::Batch`]) of what has changed.
//! Nothing is reported for it: the recorder asks as any client does, twice a second, for what is new.

mod file;
mod recorded;
mod recorder;

pub use file::{About, BYTES_MAX};
pub use recorded::Recorded;
pub use recorder::{Recorder, keep};

/// The key-value tables that are kept: what drivers tell of their runs, and jobs.
pub(crate) const TABLES: [&str; 8] = [
    helio_config::dashboard::DRIVERS_NAMESPACE,
    helio_config::dashboard::SUBMISSIONS_NAMESPACE,
    SERVING,
    "_data_runs",
    "_tune_runs",
    "_train_runs",
    "_train_curves",
    "_train_state",
];

/// An application that is deleted is not of the past but gone; runs are kept beyond what the cluster keeps of them.
pub(crate) const SERVING: &str = "_serve_runs";
