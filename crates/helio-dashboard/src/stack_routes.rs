//! `/api/v0/stacks/{node}/{pid}`: what a worker is doing, now or over some seconds, or what takes its memory.
//!
//! Workers show their stacks to processes of their machine alone: a driver (`heliostat.util.state.stack_answer`)
//! sends a task to the node.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use helio_report::Resource;
use serde_json::{Value, json};

use crate::App;
use crate::fields::Fields;
use crate::reply::{self, Refusal, Reply};

/// The longest that a worker is looked at.
const SECONDS_MAX: u32 = 60;

/// `GET /api/v0/stacks/{node}/{pid}?seconds=…&memory=…`: the stacks of a worker's threads; with `seconds` over 0, how
/// often each stack was seen in that time; with `memory=1` the bytes that each has allocated in that time and that are still
/// there.
pub(crate) async fn stacks(
    State(app): State<Arc<App>>,
    Path((node, pid)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Reply, Refusal> {
    let wrong = || Refusal::bad(format!("A process is named by its number, not {pid:?}."));
    let pid: u32 = pid.parse().map_err(|_| wrong())?;
    let fields = Fields::parse(&query.unwrap_or_default());
    let seconds = fields.get("seconds").map_or(Ok(0), |text| {
        let wrong = format!("`seconds` is a number from 0 to {SECONDS_MAX}, not {text:?}.");
        text.parse().ok().filter(|seconds| *seconds <= SECONDS_MAX).ok_or(Refusal::bad(wrong))
    })?;
    let is_memory = fields.says("memory")?;
    if is_memory && seconds == 0 {
        let text = format!(
            "`memory` goes with `seconds`, from 1 to {SECONDS_MAX}: what is allocated in that time is told."
        );
        return Err(Refusal::bad(text));
    }
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
    let request = json!({ "node_id": node, "pid": pid, "seconds": seconds, "memory": is_memory });
    let module = "heliostat.util.state.stack_answer";
    let said: Value = app.drivers.ask(module, &request, &[]).await.map_err(Refusal::unavailable)?;
    match said["problem"].as_str() {
        Some(problem) => Err(Refusal::unavailable(problem)),
        None => Ok(reply::json(&said)),
    }
}
