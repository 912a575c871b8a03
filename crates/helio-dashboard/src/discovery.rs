//! The addresses of the nodes' measurements: for Prometheus, over HTTP and as a file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use helio_observer::Asker;
use helio_proto::control::Nodes;

use crate::App;
use crate::answers::cluster::{TargetLabels, Targets};
use crate::reply::{self, Refusal, Reply};

/// Under the folder of all sessions: what configurations for Ray name, `file_sd_configs` of them.
const FILE: &str = "prom_metrics_service_discovery.json";
const EVERY: Duration = Duration::from_secs(5);

/// `GET /api/prometheus/sd`: for `http_sd_configs`.
pub(crate) async fn targets_now(State(app): State<Arc<App>>) -> Result<Reply, Refusal> {
    let nodes = app.answers.nodes(&app).await?;
    Ok(reply::json(&targets(&nodes)))
}

fn targets(nodes: &Nodes) -> [Targets; 1] {
    let alive = nodes.nodes.iter().filter(|node| node.alive && node.metrics_port > 0);
    let targets = alive
        .map(|node| helio_types::address::host_port(&node.address.host, node.metrics_port))
        .collect();
    [Targets { labels: TargetLabels { job: "ray" }, targets }]
}

/// Keeps the file for as long as the runtime lives. Of several clusters of a machine the latest change stands there.
pub(crate) async fn keep_file(asker: Asker, session_dir: PathBuf) {
    let Some(file) = session_dir.parent().map(|folder| folder.join(FILE)) else { return };
    let mut told = String::new();
    loop {
        if let Ok(nodes) = asker.nodes().await {
            // Words and addresses become JSON without fail.
            let text = serde_json::to_string(&targets(&nodes)).unwrap_or_default();
            if text != told {
                if let Err(error) = replace(&file, &text) {
                    // Another user's file, or a full disk: Prometheus can still ask over HTTP.
                    tracing::debug!(%error, ?file, "the list of nodes for Prometheus is not written");
                }
                told = text;
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Replaces the file's text at once: a process that reads the file meanwhile gets all of the old text or all of the new
/// one.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let fresh = file.with_extension(format!("{}.new", std::process::id()));
    std::fs::write(&fresh, text)?;
    std::fs::rename(&fresh, file).inspect_err(|_| {
        let _ = std::fs::remove_file(&fresh);
    })
}
