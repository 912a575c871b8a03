//! Routes for the past usage of the cluster and its machines: `/api/v0/metrics/past`, `/api/v0/metrics/machines`.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use helio_types::NodeId;

use crate::App;
use crate::answers::figures::MachineCurves;
use crate::fields::Fields;
use crate::past::{POINTS_MAX, Past};
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
    let (past, span) = wanted(&app, &fields)?;
    // Some megabytes of a file: not on the thread that serves everybody.
    let Span { from, to, points, now } = span;
    let read = tokio::task::spawn_blocking(move || past.curves(from, to, points, now));
    let curves = read.await.map_err(|error| Refusal::unavailable(error.to_string()))?;
    Ok(reply::json(&curves))
}

/// LIMIT-1: machines whose curves are in one answer.
const MACHINES_MAX: usize = 200;

/// `GET /api/v0/metrics/machines?node_id=…,…&from=&to=&points=`: the same of machines, `{"machines": {node id: curves}}`; of
/// a machine of which nothing is known there are none. Names and units are in `past/machines.rs`.
pub(crate) async fn machines(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Reply, Refusal> {
    let fields = Fields::parse(&query.unwrap_or_default());
    let (past, span) = wanted(&app, &fields)?;
    let none = || {
        Refusal::bad(format!("`node_id` must name 1 to {MACHINES_MAX} nodes, separated by commas."))
    };
    let ids: Vec<&str> = fields.get("node_id").ok_or_else(none)?.split(',').collect();
    if ids.len() > MACHINES_MAX {
        return Err(none());
    }
    let id = |text: &str| {
        NodeId::from_hex(text)
            .map_err(|_| Refusal::bad(format!("{text:?} is not the id of a node.")))
    };
    let ids = ids.into_iter().map(id).collect::<Result<Vec<_>, _>>()?;
    let Span { from, to, points, now } = span;
    let read = tokio::task::spawn_blocking(move || {
        let of = |id: NodeId| Some((id.hex(), past.machines().curves(id, from, to, points, now)?));
        ids.into_iter().filter_map(of).collect()
    });
    let machines = read.await.map_err(|error| Refusal::unavailable(error.to_string()))?;
    Ok(reply::json(&MachineCurves { machines }))
}

/// The time that is asked for, in seconds since 1970, by so many points at most.
struct Span {
    from: u64,
    to: u64,
    points: u64,
    now: u64,
}

fn wanted(app: &App, fields: &Fields) -> Result<(Arc<Past>, Span), Refusal> {
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
    Ok((past, Span { from, to, points, now }))
}
