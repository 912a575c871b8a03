//! Lists of the state API, summaries, the task stream and errors.

use helio_report::calls::Bar;
use serde::Serialize;

/// The counts and warnings of a part of a list, besides its rows.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct ListingAbout {
    /// The number of calls, listed or not.
    pub(crate) total: u64,
    /// The number of calls that are known.
    pub(crate) num_after_truncation: u64,
    /// For how many all filters hold.
    pub(crate) num_filtered: u64,
    /// After which row the next part begins; none: this is the last.
    pub(crate) next: Option<String>,
    /// The missing part in a sentence; empty: nothing is missing.
    pub(crate) partial_failure_warning: String,
    pub(crate) warnings: Option<Vec<String>>,
}

/// A part of a list. Rows are written from tables, and not one by one from structs: [`crate::page::Page`].
#[cfg(test)]
#[derive(Debug, Serialize, ts_rs::TS)]
pub(crate) struct Listing<Row> {
    pub(crate) result: Vec<Row>,
    #[serde(flatten)]
    pub(crate) about: ListingAbout,
}

/// Counts of all that a list has.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Summarized<Of> {
    pub(crate) total: u64,
    pub(crate) num_after_truncation: u64,
    pub(crate) num_filtered: u64,
    pub(crate) result: ByNode<Of>,
    pub(crate) partial_failure_warning: String,
    pub(crate) warnings: Option<Vec<String>>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct ByNode<Of> {
    pub(crate) node_id_to_summary: WholeCluster<Of>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct WholeCluster<Of> {
    pub(crate) cluster: Of,
}

/// The calls that run and those that ended lately.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Activity {
    /// Milliseconds since 1970, by the head's clock.
    pub(crate) now: u64,
    pub(crate) bars: Vec<Bar>,
    /// Earlier ones are not told.
    pub(crate) is_cut: bool,
}

/// Tasks that failed: one function's with the same error.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Failure {
    pub(crate) function: String,
    pub(crate) error_type: String,
    pub(crate) message: String,
    pub(crate) count: u64,
    /// The time of the last failure, and the call that failed.
    pub(crate) last_ms: u64,
    pub(crate) task_id: String,
    pub(crate) node_id: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Failures {
    pub(crate) groups: Vec<Failure>,
    /// Groups that are not told.
    pub(crate) left_out: u64,
}
