//! `why` of a training run. Its driver keeps what there is to say of it on the head
//! (`train/controller/page_row.py`).

use helio_proto::control::{ControlResponse, KvGet, KvKeys};
use serde_json::Value;

use crate::state::Cluster;

/// Drivers write the same namespace (`train/controller/page_row.py`).
const RUNS: &str = "_train_runs";

/// Returns the explanations of the runs of that name or id, the latest last; `None`: there is none. `jobs` are those
/// whose drivers live.
pub(crate) fn of(
    cluster: &Cluster,
    given: &str,
    jobs: &[String],
) -> Result<Option<String>, String> {
    let keys = KvKeys { namespace: RUNS.to_owned(), ..KvKeys::default() };
    let ControlResponse::KvList(listed) = cluster.ask(keys)? else { return Ok(None) };
    let mut keys: Vec<Vec<u8>> = listed.keys.into_iter().map(|key| key.value).collect();
    keys.sort();
    let mut texts = Vec::new();
    for key in keys {
        let get = KvGet { namespace: RUNS.to_owned(), key };
        let ControlResponse::KvValue(kept) = cluster.ask(get)? else { continue };
        let Ok(run) = serde_json::from_slice::<Value>(&kept.value) else { continue };
        if run["name"] == given || run["run_id"] == given {
            texts.push(told(&run, jobs));
        }
    }
    Ok((!texts.is_empty()).then(|| texts.join("\n\n")))
}

fn told(run: &Value, jobs: &[String]) -> String {
    let text = run["text"].as_str().unwrap_or_default();
    let is_over = run["is_over"].as_bool().unwrap_or_default();
    let job = run["job_id"].as_str().unwrap_or_default();
    if is_over || jobs.iter().any(|living| living == job) {
        return text.to_owned();
    }
    format!(
        "The driver of this run (job {job}) has ended before the run did. The last it said:\n{text}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_run_whose_driver_is_gone_says_so() {
        let run = json!({ "text": "steps of 5 ms", "is_over": false, "job_id": "01" });
        assert_eq!(told(&run, &["01".to_owned()]), "steps of 5 ms");
        assert!(told(&run, &[]).starts_with("The driver of this run (job 01) has ended"));
        let over = json!({ "text": "finished", "is_over": true, "job_id": "01" });
        assert_eq!(told(&over, &[]), "finished");
    }
}
