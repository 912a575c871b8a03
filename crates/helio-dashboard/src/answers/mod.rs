//! The answers of routes: one struct each, one file a group of routes. They are the only schema: the page's types
//! (`page/src/answers.ts`) are written from them by `cargo xtask rows`, with a map from each path to its answer.
//!
//! Field names are Ray's where Ray has the route. What is a user's or a driver's own JSON is passed on as it came.

pub(crate) mod autoscaler;
pub(crate) mod cluster;
pub(crate) mod figures;
pub(crate) mod jobs;
pub(crate) mod logs;
#[cfg(test)]
mod schema;
pub(crate) mod tasks;
pub(crate) mod told;

use serde::Serialize;

/// The envelope of Ray's older routes: `data` is the answer.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Envelope<Data> {
    pub(crate) result: bool,
    pub(crate) msg: String,
    pub(crate) data: Data,
}

impl<Data> Envelope<Data> {
    pub(crate) fn of(data: Data) -> Self {
        Self::saying("", data)
    }

    pub(crate) fn saying(msg: &str, data: Data) -> Self {
        Self { result: true, msg: msg.to_owned(), data }
    }
}

/// Within the envelope of the state API.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Inner<Answer> {
    pub(crate) result: Answer,
}

/// Nothing to say but that it was done.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Done {}
