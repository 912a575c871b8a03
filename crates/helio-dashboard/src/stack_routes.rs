//! `/api/v0/stacks/{node}/{pid}`: what a worker is doing, now or over some seconds.
//!
//! Workers show their stacks to processes of their machine alone: a driver (`heliostat.util.state.stack_answer`)
//! sends a task to the node.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use helio_report::Resource;
use serde_json::{Value, json};

use crate::App;
use crate::reply::{self, Refusal, Reply};

/// The longest that a worker is looked at.
const SECONDS_MAX: u32 = 60;

/// `GET /api/v0/stacks/{node}/{pid}?seconds=…`: the stacks of a worker's threads; with `seconds` over 0, how often
/// each stack was seen in that time.
pub(crate) async fn stacks(
    State(app): State<Arc<App>>,
    Path((node, pid)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Reply, Refusal> {
    let wrong = || Refusal::bad(format!("A process is named by its number, not {pid:?}."));
    let pid: u32 = pid.parse().map_err(|_| wrong())?;
    let query = query.unwrap_or_default();
    let seconds = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "seconds");
    let seconds = seconds.map_or(Ok(0), |(_, text)| {
        let wrong = format!("`seconds` is a number from 0 to {SECONDS_MAX}, not {text:?}.");
        text.parse().ok().filter(|seconds| *seconds <= SECONDS_MAX).ok_or(Refusal::bad(wrong))
    })?;
    let workers = app.answers.rows(&app, Resource::Workers).await?;
    let is_there = workers.rows.iter().any(|row| {
        row["node_id"] == node
            && row["pid"] == pid
            && row["is_alive"] == true
            && row["worker_type"] == "WORKER"
    });
    if !is_there {
        return Err(Refusal::missing(format!("No worker {pid} runs on node {node}.")));
    }
    let request = json!({ "node_id": node, "pid": pid, "seconds": seconds });
    let module = "heliostat.util.state.stack_answer";
    let said: Value = app.drivers.ask(module, &request, &[]).await.map_err(Refusal::unavailable)?;
    match said["problem"].as_str() {
        Some(problem) => Err(Refusal::unavailable(problem)),
        None => Ok(reply::json(&said)),
    }
}
