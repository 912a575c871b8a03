//! The past of the cluster and its machines, as curves.

use std::collections::BTreeMap;

use serde::Serialize;

/// Curves as means of equal spans of time.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Curves {
    /// The length of a span.
    pub(crate) every_s: u64,
    /// The begin of each span, in seconds since 1970.
    pub(crate) at: Vec<u64>,
    /// By column; none: not known of that span.
    pub(crate) series: BTreeMap<&'static str, Vec<Option<f64>>>,
}

/// The curves of machines by node.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct MachineCurves {
    pub(crate) machines: BTreeMap<String, Curves>,
}
