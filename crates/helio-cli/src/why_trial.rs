//! `why` of a trial of Tune. The head knows where the searches lie, and Python reads their journals
//! (`tune/runner/explanation.py`).

use std::io::Write as _;
use std::process::{Command, Stdio};

use helio_proto::control::{ControlResponse, KvGet, KvKeys};
use serde_json::{Value, json};

use crate::state::Cluster;

/// Drivers write the same namespace (`tune/runner/directory.py`).
const SEARCHES: &str = "_tune_searches";

/// A trial of that id or name.
pub(crate) struct Trial {
    pub(crate) text: String,
    /// The actor that runs it; empty without one.
    pub(crate) actor: String,
}

/// All trials of that id or name. `jobs` are those whose drivers live.
pub(crate) fn named(cluster: &Cluster, id: &str, jobs: &[String]) -> Result<Vec<Trial>, String> {
    let searches = searches(cluster)?;
    if searches.is_empty() {
        return Ok(Vec::new());
    }
    let question = json!({ "id": id, "jobs": jobs, "searches": searches }).to_string();
    let python = helio_env::settings::read(&helio_config::table::PYTHON)?;
    let failed = |error: &dyn std::fmt::Display| format!("{python}: {error}");
    let mut child = Command::new(&python)
        .args(["-m", "heliostat.tune.runner.explanation"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| failed(&error))?;
    if let Some(mut input) = child.stdin.take() {
        // A process that cannot read it says why on its standard error.
        let _ = input.write_all(question.as_bytes());
    }
    let told = child.wait_with_output().map_err(|error| failed(&error))?;
    if !told.status.success() {
        return Err(failed(&told.status));
    }
    let answers: Vec<Value> =
        serde_json::from_slice(&told.stdout).map_err(|error| failed(&error))?;
    let text = |answer: &Value, name: &str| answer[name].as_str().unwrap_or_default().to_owned();
    Ok(answers
        .iter()
        .map(|answer| Trial { text: text(answer, "text"), actor: text(answer, "actor") })
        .collect())
}

fn searches(cluster: &Cluster) -> Result<Vec<Value>, String> {
    let keys = KvKeys { namespace: SEARCHES.to_owned(), ..KvKeys::default() };
    let ControlResponse::KvList(listed) = cluster.ask(keys)? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for key in listed.keys {
        let get = KvGet { namespace: SEARCHES.to_owned(), key: key.value };
        if let ControlResponse::KvValue(kept) = cluster.ask(get)? {
            found.extend(serde_json::from_slice::<Value>(&kept.value));
        }
    }
    Ok(found)
}
