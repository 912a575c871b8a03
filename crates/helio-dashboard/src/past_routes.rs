//! What the cluster used: `/api/v0/metrics/past`.

use std::sync::Arc;

use axum::extract::{RawQuery, State};

use crate::App;
use crate::fields::Fields;
use crate::past::POINTS_MAX;
use crate::reply::{self, Refusal, Reply};

const HOUR: i64 = 3600;
const POINTS: i64 = 300;

/// `GET /api/v0/metrics/past?from=&to=&points=`: curves as means of equal spans of time, `{"every_s", "at": [seconds],
/// "series": {name: [figure or null]}}`. `from` and `to` are seconds since 1970; without them it is the hour until
/// now. Names and units are in `past/columns.rs`.
pub(crate) async fn past(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Reply, Refusal> {
    let fields = Fields::parse(&query.unwrap_or_default());
    let now = (app.now_ms() / 1000) as i64;
    let to = fields.number("to")?.unwrap_or(now).min(now);
    let from = fields.number("from")?.unwrap_or(to - HOUR);
    let points = fields.number("points")?.unwrap_or(POINTS);
    if from < 0 || from > to {
        let text = format!(
            "`from` ({from}) must be a time in seconds since 1970 that is not after `to` ({to})."
        );
        return Err(Refusal::bad(text));
    }
    if !(1..=POINTS_MAX as i64).contains(&points) {
        let text = format!("`points` must be from 1 to {POINTS_MAX}, not {points}.");
        return Err(Refusal::bad(text));
    }
    let Some(past) = app.past.clone() else {
        return Err(Refusal::unavailable("This head keeps no figures: its log says why."));
    };
    let (from, to, points, now) = (from as u64, to as u64, points as u64, now as u64);
    // Some megabytes of a file: not on the thread that serves everybody.
    let read = tokio::task::spawn_blocking(move || past.curves(from, to, points, now));
    let curves = read.await.map_err(|error| Refusal::unavailable(error.to_string()))?;
    Ok(reply::json(&curves))
}
