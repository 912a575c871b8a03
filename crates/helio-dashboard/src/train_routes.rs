//! Training runs: `/api/train/v2/runs/v1`, from the rows that drivers keep with
//! `RAY_TRAIN_ENABLE_STATE_TRACKING=1` (`train/controller/state_rows.py`), and for the page
//! `/api/v0/training`, what every driver tells of its runs (`train/controller/page_row.py`), with the curves of
//! one run's metrics under `/api/v0/training/{run}/curves`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use futures_util::{StreamExt as _, stream};
use helio_proto::control::{ControlResponse, KvGet, KvKeys};
use serde_json::{Value, json};

use crate::access::Verdict;
use crate::answers::jobs::JobDetails;
use crate::answers::told::{Runs, Told, TrainRuns};
use crate::reply::{self, Refusal, Reply};
use crate::{App, job_routes};

/// The namespace of the rows: `<start>-<run>/run` and `<start>-<run>/attempt-<number>`.
const ROWS: &str = "_train_state";

/// The namespace in which drivers tell of their runs, under `<start>-<run>`.
pub(crate) const TOLD: &str = "_train_runs";

/// The namespace of the runs' metrics, under the same keys.
const CURVES: &str = "_train_curves";

/// Number of rows that are asked for at a time.
const ASKED_MAX: usize = 16;

/// The reason why a run that its driver has left behind is over.
const LEFT: &str = "The process that had started the run ended before the run did.";

/// `GET /api/train/v2/runs/v1`: all runs whose rows are kept, the latest first.
pub(crate) async fn runs(
    State(app): State<Arc<App>>,
    Extension(verdict): Extension<Verdict>,
) -> Result<Reply, Refusal> {
    let jobs = job_routes::details(&app, verdict).await?;
    let runs = ordered(rows(&app, ROWS).await?);
    if runs.is_empty() {
        let text = "There are no rows of training runs. Drivers keep them with RAY_TRAIN_ENABLE_STATE_TRACKING=1.";
        return Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, text));
    }
    let train_runs = runs.into_iter().map(|run| decorated(run, &jobs)).collect();
    Ok(reply::json(&TrainRuns { train_runs }))
}

/// `GET /api/v0/training`: what is told of each run, while it goes on and afterwards, the latest first.
pub(crate) async fn told(
    State(app): State<Arc<App>>,
    Extension(verdict): Extension<Verdict>,
) -> Result<Reply, Refusal> {
    let jobs = job_routes::details(&app, verdict).await?;
    let runs = latest_first(rows(&app, TOLD).await?, &jobs);
    Ok(reply::json(&Runs { runs }))
}

/// `GET /api/v0/training/{run}/curves`: the metrics that a run has reported, thinned.
pub(crate) async fn curves(
    State(app): State<Arc<App>>,
    Path(run): Path<String>,
) -> Result<Reply, Refusal> {
    let missing = || Refusal::missing(format!("No run {run:?} has told of its metrics."));
    let keys = keys(&app, CURVES).await?;
    let key = key_of(&run, &keys).ok_or_else(missing)?;
    let row = row(&app, CURVES, key).await.map_err(Refusal::unavailable)?;
    Ok(reply::json(&row.ok_or_else(missing)?))
}

/// The key of a run: its start in twenty digits, a dash, and its id.
fn key_of<'keys>(run: &str, keys: &'keys [Vec<u8>]) -> Option<&'keys Vec<u8>> {
    keys.iter().find(|key| key.get(21..) == Some(run.as_bytes()))
}

/// The runs that say what there is to see of them, each with whether its driver has ended before it did.
pub(crate) fn latest_first(mut rows: Vec<(String, Value)>, jobs: &[JobDetails]) -> Vec<Told> {
    rows.sort_by(|one, other| other.0.cmp(&one.0));
    let is_seen = |run: &Value| run["seen"].is_object();
    let runs = rows.into_iter().map(|(_, run)| run).filter(is_seen);
    runs.filter_map(|run| {
        let lives = job_of(&run, jobs).is_some_and(lives);
        let is_left = run["is_over"] != true && !lives;
        match run {
            Value::Object(told) => Some(Told { told, is_left }),
            _ => None,
        }
    })
    .collect()
}

/// The job whose driver has started a run.
fn job_of<'jobs>(run: &Value, jobs: &'jobs [JobDetails]) -> Option<&'jobs JobDetails> {
    let id = run["job_id"].as_str();
    jobs.iter().find(|job| {
        let driver = job.driver_info.as_ref().map(|driver| driver.id.as_str());
        job.job_id.as_deref() == id || (driver.is_some() && driver == id)
    })
}

fn lives(job: &JobDetails) -> bool {
    job.status == "RUNNING" || job.status == "PENDING"
}

async fn keys(app: &App, namespace: &str) -> Result<Vec<Vec<u8>>, Refusal> {
    let keys = KvKeys { namespace: namespace.to_owned(), prefix: Vec::new() };
    match app.asker.ask(keys).await.map_err(Refusal::unavailable)? {
        ControlResponse::KvList(list) => Ok(list.keys.into_iter().map(|key| key.value).collect()),
        _ => Err(Refusal::unavailable("the control service gave an unexpected answer")),
    }
}

/// Returns a row; `None`: it was removed meanwhile.
async fn row(app: &App, namespace: &str, key: &[u8]) -> Result<Option<Value>, String> {
    let wanted = KvGet { namespace: namespace.to_owned(), key: key.to_vec() };
    let ControlResponse::KvValue(row) = app.asker.ask(wanted).await? else {
        return Ok(None);
    };
    Ok(serde_json::from_slice(&row.value).ok())
}

/// Key and row of each; what was removed meanwhile is left out.
pub(crate) async fn rows(app: &App, namespace: &str) -> Result<Vec<(String, Value)>, Refusal> {
    let found: Vec<Result<Option<(String, Value)>, String>> =
        stream::iter(keys(app, namespace).await?)
            .map(|key| async move {
                let row = row(app, namespace, &key).await?;
                Ok(row.map(|row| (String::from_utf8_lossy(&key).into_owned(), row)))
            })
            .buffered(ASKED_MAX)
            .collect()
            .await;
    found
        .into_iter()
        .filter_map(Result::transpose)
        .collect::<Result<_, _>>()
        .map_err(Refusal::unavailable)
}

/// The runs with their attempts, the latest first.
fn ordered(rows: Vec<(String, Value)>) -> Vec<Value> {
    let mut runs: BTreeMap<String, (Option<Value>, BTreeMap<String, Value>)> = BTreeMap::new();
    for (key, row) in rows {
        let Some((place, name)) = key.rsplit_once('/') else { continue };
        let run = runs.entry(place.to_owned()).or_default();
        if name == "run" {
            run.0 = Some(row);
        } else {
            run.1.insert(name.to_owned(), row);
        }
    }
    runs.into_values()
        .rev()
        .filter_map(|(run, attempts)| {
            let mut run = run.filter(Value::is_object)?;
            run["attempts"] = attempts.into_values().collect();
            Some(run)
        })
        .collect()
}

/// A run with its job, and aborted where its driver is gone.
fn decorated(mut run: Value, jobs: &[JobDetails]) -> Value {
    let job = job_of(&run, jobs);
    let is_over = |row: &Value| row["end_time_ns"].is_u64();
    if !job.is_some_and(lives) && !is_over(&run) {
        let ended = job.and_then(|job| job.end_time).map(|ms| ms * 1_000_000);
        let abort = |row: &mut Value| {
            row["status"] = json!("ABORTED");
            row["status_detail"] = json!(LEFT);
            row["end_time_ns"] = json!(ended);
        };
        abort(&mut run);
        for attempt in run["attempts"].as_array_mut().into_iter().flatten() {
            if !is_over(attempt) {
                abort(attempt);
                for worker in attempt["workers"].as_array_mut().into_iter().flatten() {
                    worker["status"] = json!("DEAD");
                }
            }
        }
    }
    for attempt in run["attempts"].as_array_mut().into_iter().flatten() {
        for worker in attempt["workers"].as_array_mut().into_iter().flatten() {
            worker["processStats"] = Value::Null;
            worker["gpus"] = json!([]);
        }
    }
    run["job_details"] = json!(job);
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(id: &str) -> Value {
        json!({ "id": id, "job_id": "01", "status": "RUNNING", "status_detail": null, "end_time_ns": null })
    }

    fn job(id: &str, status: &str) -> JobDetails {
        let (job_id, status) = (Some(id.to_owned()), status.to_owned());
        JobDetails { job_id, status, ..JobDetails::default() }
    }

    fn attempt(status: &str, ended: Option<u64>) -> Value {
        json!({ "status": status, "status_detail": null, "end_time_ns": ended, "workers": [{ "status": "ALIVE" }] })
    }

    #[test]
    fn the_latest_run_is_first_and_its_attempts_are_in_order() {
        let rows = vec![
            ("1-a/attempt-000010".to_owned(), json!({ "status": "FINISHED" })),
            ("1-a/attempt-000002".to_owned(), json!({ "status": "ERRORED" })),
            ("1-a/run".to_owned(), run("a")),
            ("2-b/run".to_owned(), run("b")),
            // Its run was removed between two questions.
            ("3-c/attempt-000000".to_owned(), json!({ "status": "PENDING" })),
        ];
        let runs = ordered(rows);
        assert_eq!(runs.iter().map(|run| &run["id"]).collect::<Vec<_>>(), ["b", "a"]);
        let attempts: Vec<_> =
            runs[1]["attempts"].as_array().unwrap().iter().map(|one| &one["status"]).collect();
        assert_eq!(attempts, ["ERRORED", "FINISHED"]);
        assert_eq!(runs[0]["attempts"], json!([]));
    }

    #[test]
    fn the_curves_of_a_run_are_found_by_its_whole_id() {
        let keys = ["00000000000000000001-b", "00000000000000000002-a-b", "b"];
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
        assert_eq!(key_of("b", &keys), Some(&keys[0]));
        assert_eq!(key_of("a-b", &keys), Some(&keys[1]));
        assert_eq!(key_of("-b", &keys), None);
        assert_eq!(key_of("", &keys), None);
    }

    #[test]
    fn what_is_told_comes_with_whether_the_driver_is_gone() {
        let told = |id: &str, is_over: bool| json!({ "run_id": id, "job_id": id, "is_over": is_over, "seen": {} });
        let rows = vec![
            ("1-01".to_owned(), told("01", false)),
            ("2-02".to_owned(), told("02", false)),
            ("3-03".to_owned(), told("03", true)),
            // A driver of an older version says in words only what there is to see.
            ("4-04".to_owned(), json!({ "run_id": "04", "text": "running" })),
        ];
        let jobs = [job("02", "RUNNING")];
        let runs = json!(latest_first(rows, &jobs));
        let runs = runs.as_array().unwrap();
        let found: Vec<_> = runs.iter().map(|run| (&run["run_id"], &run["is_left"])).collect();
        assert_eq!(
            found,
            [
                (&json!("03"), &json!(false)),
                (&json!("02"), &json!(false)),
                (&json!("01"), &json!(true))
            ]
        );
    }

    #[test]
    fn a_run_whose_driver_is_gone_is_aborted_and_what_had_ended_stays() {
        let job = |status: &str| vec![JobDetails { end_time: Some(7), ..job("01", status) }];
        let with = || {
            let mut run = run("a");
            run["attempts"] = json!([attempt("ERRORED", Some(5)), attempt("RUNNING", None)]);
            run
        };
        let there = decorated(with(), &job("RUNNING"));
        assert_eq!(there["status"], "RUNNING");
        assert_eq!(there["attempts"][1]["workers"][0]["status"], "ALIVE");
        let left = decorated(with(), &job("SUCCEEDED"));
        assert_eq!(left["status"], "ABORTED");
        assert_eq!(left["end_time_ns"], 7_000_000);
        assert_eq!(left["attempts"][0]["status"], "ERRORED");
        assert_eq!(left["attempts"][1]["status"], "ABORTED");
        assert_eq!(left["attempts"][1]["workers"][0]["status"], "DEAD");
        assert_eq!(left["job_details"]["status"], "SUCCEEDED");
        // A head that was restarted may not know the job any more.
        assert_eq!(decorated(with(), &[])["status"], "ABORTED");
    }
}
