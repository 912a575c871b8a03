//! The jobs API: `/api/jobs/…` and `/api/packages/…`, as Ray's clients speak it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{Path, State};
use axum::http::{Response, StatusCode};
use futures_util::StreamExt as _;
use helio_config::dashboard::DRIVERS_NAMESPACE;
use helio_proto::control::{ControlResponse, JobInfo, KvKeys, ListJobs};
use helio_report::Resource;
use serde_json::{Map, Value, json};

use crate::App;
use crate::access::Verdict;
use crate::answers::jobs::{Deleted, DriverInfo, JobDetails, JobLogs, Stopped, Submitted};
use crate::jobs::record::Job;
use crate::jobs::request::{Request, check_id};
use crate::jobs::shelf::read_end;
use crate::jobs::{NotDeleted, NotTaken};
use crate::log_lines::Shown;
use crate::packages::ARCHIVE_MAX;
use crate::reply::{self, Refusal, Reply};

/// Maximum size of the body of a submission, in bytes.
pub(crate) const BODY_MAX: usize = 4 << 20;
/// Time that it may take to arrive.
const BODY_TIME_MAX: Duration = Duration::from_secs(30);
/// Number of bytes beyond the allowed ones that are read and dropped.
const DROPPED_MAX: usize = 64 << 20;

/// The longest pause in the upload of an archive.
const PART_TIME_MAX: Duration = Duration::from_secs(60);

/// Bytes of a log that one answer has: its end.
const LOG_MAX: u64 = 64 << 20;

/// Bytes of a log that are sent at a time.
const PART_MAX: u64 = 64 << 10;
/// Time between two looks whether there is more.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// `POST /api/jobs/`.
pub(crate) async fn submit(State(app): State<Arc<App>>, body: Body) -> Result<Reply, Refusal> {
    let body = read(body, BODY_MAX).await?;
    let request = Request::parse(&body).map_err(Refusal::bad)?;
    let id = app.jobs.submit(request).map_err(|why| match why {
        NotTaken::Exists => Refusal::bad(
            "There is a job of that `submission_id` already. Give another, or none to have one made up.",
        ),
        NotTaken::Full => Refusal::unavailable("Too many jobs are under way; wait until some have ended."),
        NotTaken::NotKept(error) => {
            Refusal::new(StatusCode::INSUFFICIENT_STORAGE, format!("The job cannot be kept: {error}."))
        }
    })?;
    // A client that lists jobs after this answer finds the new one.
    app.jobs.published().await;
    Ok(reply::json(&Submitted { job_id: id.clone(), submission_id: id }))
}

pub(crate) async fn read(body: Body, bytes_max: usize) -> Result<bytes::Bytes, Refusal> {
    let late = |_| Refusal::new(StatusCode::REQUEST_TIMEOUT, "The body did not arrive in time.");
    tokio::time::timeout(BODY_TIME_MAX, take(body, bytes_max)).await.map_err(late)?
}

/// Many clients look for an answer only when they have sent everything, and find a broken connection instead if
/// the rest of a body is not read: so the part that is too much is read, within bounds, and dropped.
async fn take(body: Body, bytes_max: usize) -> Result<bytes::Bytes, Refusal> {
    let (mut parts, mut taken, mut size) = (body.into_data_stream(), Vec::new(), 0);
    while let Some(part) = parts.next().await {
        let part = part.map_err(|_| Refusal::bad("The body was cut short."))?;
        size += part.len();
        if size <= bytes_max {
            taken.extend_from_slice(&part);
        } else if size - bytes_max > DROPPED_MAX {
            break;
        }
    }
    if size > bytes_max {
        let text = format!("The body has more than {bytes_max} bytes.");
        return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, text));
    }
    Ok(taken.into())
}

/// A job of either kind: submitted here, or a driver that connected by itself.
enum Found {
    Submitted(Box<Job>),
    Driver(Box<JobInfo>),
}

/// Jobs that the control service knows, and which of them belong to submissions.
struct Drivers {
    infos: Vec<JobInfo>,
    /// Submission id → job id, the latest driver of each.
    of: BTreeMap<String, String>,
    hosts: BTreeMap<String, String>,
}

impl Drivers {
    async fn ask(app: &App) -> Result<Self, Refusal> {
        let keys = KvKeys { namespace: DRIVERS_NAMESPACE.to_owned(), prefix: Vec::new() };
        let asked =
            tokio::join!(app.asker.ask(ListJobs {}), app.asker.ask(keys), app.asker.nodes());
        let (infos, keys, nodes) = match asked {
            (Ok(ControlResponse::Jobs(jobs)), Ok(ControlResponse::KvList(keys)), Ok(nodes)) => {
                (jobs.jobs, keys.keys, nodes.nodes)
            }
            (Err(why), ..) | (_, Err(why), _) | (.., Err(why)) => {
                return Err(Refusal::unavailable(why));
            }
            _ => return Err(Refusal::unavailable("the control service gave an unexpected answer")),
        };
        let mut of = BTreeMap::new();
        for key in keys {
            let text = String::from_utf8_lossy(&key.value).into_owned();
            // The submission's id may have slashes in it one day; a job's has none. Keys are in order, so
            // that the latest driver is the last.
            if let Some((submission, job)) = text.rsplit_once('/') {
                of.insert(submission.to_owned(), job.to_owned());
            }
        }
        let host = |node: &helio_proto::control::NodeInfo| {
            (node.address.node_id.hex(), node.address.host.clone())
        };
        Ok(Self { infos, of, hosts: nodes.iter().map(host).collect() })
    }

    /// The driver of a submission, in the form of the jobs API.
    fn of(&self, submission_id: &str) -> Option<DriverInfo> {
        let job_id = self.of.get(submission_id)?;
        self.infos.iter().find(|info| info.job_id.hex() == *job_id).map(|info| self.described(info))
    }

    /// The submission of a driver.
    fn submission_of(&self, job_id: &str) -> Option<&str> {
        self.of.iter().find(|(_, job)| *job == job_id).map(|(submission, _)| submission.as_str())
    }

    fn described(&self, info: &JobInfo) -> DriverInfo {
        DriverInfo {
            id: info.job_id.hex(),
            node_ip_address: Some(self.hosts.get(&info.node_id.hex()).cloned().unwrap_or_default()),
            pid: info.pid.to_string(),
        }
    }

    fn details(&self, info: &JobInfo) -> JobDetails {
        JobDetails {
            kind: "DRIVER".to_owned(),
            job_id: Some(info.job_id.hex()),
            driver_info: Some(self.described(info)),
            status: if info.alive { "RUNNING" } else { "SUCCEEDED" }.to_owned(),
            entrypoint: info.entrypoint.clone(),
            start_time: Some(info.started_ms),
            end_time: (info.ended_ms > 0).then_some(info.ended_ms),
            metadata: Some(Map::new()),
            runtime_env: Some(Map::new()),
            driver_node_id: Some(info.node_id.hex()),
            ..JobDetails::default()
        }
    }
}

/// Returns the details for the one who asks: a browser gets no values of environment variables, since others may see
/// its screen.
fn shown(mut details: JobDetails, verdict: Verdict) -> JobDetails {
    if verdict == Verdict::Browser
        && let Some(env) = &mut details.runtime_env
        && let Some(all) = env.get_mut("env_vars").and_then(Value::as_object_mut)
    {
        all.values_mut().for_each(|value| *value = json!("<hidden>"));
    }
    details
}

async fn find(app: &App, id: &str) -> Result<(Found, Drivers), Refusal> {
    let missing = || Refusal::missing(format!("Job {id} does not exist."));
    check_id(id).map_err(|_| missing())?;
    let drivers = Drivers::ask(app).await?;
    let submission = drivers.submission_of(id).unwrap_or(id);
    if let Some(job) = app.jobs.get(submission) {
        return Ok((Found::Submitted(Box::new(job)), drivers));
    }
    let info = drivers.infos.iter().find(|info| info.job_id.hex() == id).cloned();
    info.map(|info| (Found::Driver(Box::new(info)), drivers)).ok_or_else(missing)
}

/// The id of a job that was submitted; others can be looked at, no more.
async fn submitted(app: &App, id: &str) -> Result<String, Refusal> {
    if app.jobs.get(id).is_some() {
        return Ok(id.to_owned());
    }
    match find(app, id).await?.0 {
        Found::Submitted(job) => Ok(job.id),
        Found::Driver(_) => Err(Refusal::bad(format!(
            "Job {id} is a driver that connected by itself. Only jobs that were submitted can be stopped or deleted, \
             and have a log here."
        ))),
    }
}

/// `GET /api/jobs/`: all, the latest last.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Extension(verdict): Extension<Verdict>,
) -> Result<Reply, Refusal> {
    details(&app, verdict).await.map(|all| reply::json(&all))
}

/// Returns the details of all jobs, by start.
pub(crate) async fn details(app: &App, verdict: Verdict) -> Result<Vec<JobDetails>, Refusal> {
    if app.asker.past().is_some() {
        let told = app.asker.rows(Resource::Jobs).await.map_err(Refusal::unavailable)?;
        // A row of another release that is no job any more is left out.
        let rows = told.rows.into_iter().map(Value::Object);
        let jobs = rows.filter_map(|row| serde_json::from_value(row).ok());
        return Ok(jobs.map(|job| shown(job, verdict)).collect());
    }
    let drivers = Drivers::ask(app).await?;
    let mut all: Vec<JobDetails> =
        app.jobs.all().iter().map(|job| job.details(drivers.of(&job.id), &app.address)).collect();
    let others =
        drivers.infos.iter().filter(|info| drivers.submission_of(&info.job_id.hex()).is_none());
    all.extend(others.map(|info| drivers.details(info)));
    all.sort_by_key(|details| details.start_time);
    Ok(all.into_iter().map(|details| shown(details, verdict)).collect())
}

/// `GET /api/jobs/{id}`.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Extension(verdict): Extension<Verdict>,
    Path(id): Path<String>,
) -> Result<Reply, Refusal> {
    if app.asker.past().is_some() {
        let all = details(&app, verdict).await?;
        let is_it =
            |job: &&JobDetails| [&job.job_id, &job.submission_id].contains(&&Some(id.clone()));
        let found = all.iter().find(is_it);
        let missing = || Refusal::missing(format!("Job {id} does not exist."));
        return Ok(reply::json(found.ok_or_else(missing)?));
    }
    let details = match find(&app, &id).await? {
        (Found::Submitted(job), drivers) => job.details(drivers.of(&job.id), &app.address),
        (Found::Driver(info), drivers) => drivers.details(&info),
    };
    Ok(reply::json(&shown(details, verdict)))
}

/// `POST /api/jobs/{id}/stop`.
pub(crate) async fn stop(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Reply, Refusal> {
    let id = submitted(&app, &id).await?;
    Ok(reply::json(&Stopped { stopped: app.jobs.stop(&id).unwrap_or_default() }))
}

/// `DELETE /api/jobs/{id}`.
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Reply, Refusal> {
    let id = submitted(&app, &id).await?;
    let deleted = app.jobs.delete(&id);
    app.jobs.published().await;
    deleted.map_err(|why| match why {
        NotDeleted::Missing => Refusal::missing(format!("Job {id} does not exist.")),
        NotDeleted::Running => Refusal::bad(format!("Job {id} has not ended: stop it first.")),
        NotDeleted::NotForgotten(error) => {
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, format!("Job {id}: {error}."))
        }
    })?;
    Ok(reply::json(&Deleted { deleted: true }))
}

/// `GET /api/jobs/{id}/logs`: all of it, or the end of what is very long.
pub(crate) async fn logs(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Reply, Refusal> {
    let id = submitted(&app, &id).await?;
    app.jobs.fetch_log(&id).await;
    let path = app.jobs.shelf.log(&id);
    let read = tokio::task::spawn_blocking(move || read_end(&path, LOG_MAX)).await;
    // A job that has not begun has no log.
    let text = read.map(Result::unwrap_or_default).unwrap_or_default();
    let mut shown = Shown::new(true);
    let text = [shown.take(text.as_bytes()), shown.end()].concat();
    let logs = String::from_utf8_lossy(&text).into_owned();
    Ok(reply::json(&JobLogs { logs }))
}

/// `GET /api/jobs/{id}/logs/tail`: a WebSocket that follows it to the job's end.
pub(crate) async fn tail(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    upgrade: WebSocketUpgrade,
) -> Result<Reply, Refusal> {
    let id = submitted(&app, &id).await?;
    Ok(upgrade.on_upgrade(move |socket| async move {
        // A follower that goes away ends the stream; that is not a failure.
        let _ = follow(&app, &id, socket).await;
    }))
}

async fn follow(app: &App, id: &str, mut socket: WebSocket) -> Result<(), axum::Error> {
    let Some(mut status) = app.jobs.follow(id) else { return Ok(()) };
    app.jobs.fetch_log(id).await;
    let path = app.jobs.shelf.log(id);
    let (mut offset, mut rest, mut shown) = (0, Vec::new(), Shown::new(true));
    loop {
        // Asked before the file is read: what an ended job has printed is there by then.
        let is_over = status.borrow_and_update().is_terminal();
        let part = read_part(&path, offset);
        if !part.is_empty() {
            offset += part.len() as u64;
            rest.extend(shown.take(&part));
            // A letter of several bytes may be cut by the part: its beginning waits for the rest.
            let text = take_text(&mut rest);
            if !text.is_empty() {
                socket.send(Message::Text(text.into())).await?;
            }
            continue;
        }
        if is_over {
            rest.extend(shown.end());
            if !rest.is_empty() {
                socket.send(Message::Text(String::from_utf8_lossy(&rest).as_ref().into())).await?;
            }
            let close = CloseFrame { code: close_code::NORMAL, reason: "".into() };
            return socket.send(Message::Close(Some(close))).await;
        }
        tokio::select! {
            said = socket.recv() => match said {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(()),
                Some(Ok(_)) => {}
            },
            _ = status.changed() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

fn read_part(path: &std::path::Path, offset: u64) -> Vec<u8> {
    let mut part = Vec::new();
    if let Ok(mut file) = File::open(path)
        && file.seek(SeekFrom::Start(offset)).is_ok()
    {
        // The bytes that were read before an error are of use.
        let _ = file.take(PART_MAX).read_to_end(&mut part);
    }
    part
}

/// Takes what is whole text; a character of which the end is missing stays.
fn take_text(bytes: &mut Vec<u8>) -> String {
    let end = match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    };
    let rest = bytes.split_off(end);
    let text = String::from_utf8_lossy(bytes).into_owned();
    *bytes = rest;
    text
}

/// `GET /api/packages/{protocol}/{name}`: whether it was uploaded.
pub(crate) async fn has_package(
    State(app): State<Arc<App>>,
    Path((protocol, name)): Path<(String, String)>,
) -> Result<Reply, Refusal> {
    app.packages.archive(&protocol, &name).map_err(Refusal::bad)?;
    let (packages, wanted) = (app.packages.clone(), name.clone());
    if tokio::task::spawn_blocking(move || packages.has(&wanted)).await.unwrap_or(false) {
        Ok(Response::new(Body::empty()))
    } else {
        Err(Refusal::missing(format!("The package {protocol}://{name} was not uploaded.")))
    }
}

/// `PUT /api/packages/{protocol}/{name}`.
pub(crate) async fn put_package(
    State(app): State<Arc<App>>,
    Path((protocol, name)): Path<(String, String)>,
    body: Body,
) -> Result<Reply, Refusal> {
    let path = app.packages.archive(&protocol, &name).map_err(Refusal::bad)?;
    let failed = |error: std::io::Error| {
        Refusal::new(
            StatusCode::INSUFFICIENT_STORAGE,
            format!("The package cannot be kept: {error}."),
        )
    };
    let (file, draft) = app.packages.draft().map_err(failed)?;
    let received = receive(body, file).await;
    let kept = received.and_then(|()| std::fs::rename(&draft, path).map_err(failed));
    if kept.is_err() {
        // Nobody asks for a draft; should it stay, it goes with the session.
        let _ = std::fs::remove_file(&draft);
    }
    kept?;
    let packages = app.packages.clone();
    // `copy` logs its failures itself.
    let _ = tokio::task::spawn_blocking(move || packages.copy(&name)).await;
    Ok(Response::new(Body::empty()))
}

async fn receive(body: Body, mut file: File) -> Result<(), Refusal> {
    let (mut parts, mut size) = (body.into_data_stream(), 0);
    let late = |_| Refusal::new(StatusCode::REQUEST_TIMEOUT, "The package did not arrive in time.");
    while let Some(part) = tokio::time::timeout(PART_TIME_MAX, parts.next()).await.map_err(late)? {
        let part = part.map_err(|_| Refusal::bad("The package was cut short."))?;
        size += part.len() as u64;
        if size > ARCHIVE_MAX {
            let text = format!("A package has {} MiB at most.", ARCHIVE_MAX >> 20);
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, text));
        }
        file.write_all(&part).map_err(|error| {
            Refusal::new(
                StatusCode::INSUFFICIENT_STORAGE,
                format!("The package cannot be kept: {error}."),
            )
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_is_sent_when_it_is_whole() {
        let mut bytes = "a\u{e9}".as_bytes()[..2].to_vec();
        assert_eq!(take_text(&mut bytes), "a");
        bytes.extend(&"\u{e9}".as_bytes()[1..]);
        assert_eq!((take_text(&mut bytes).as_str(), bytes.len()), ("\u{e9}", 0));
        let mut wrong = vec![b'a', 0xff, b'b'];
        assert_eq!(take_text(&mut wrong), "a\u{fffd}b");
    }

    #[test]
    fn a_row_of_a_history_is_a_job() {
        let row = json!({
            "job_id": "01", "submission_id": null, "entrypoint": "x", "type": "DRIVER", "status": "RUNNING",
            "start_time": 5, "end_time": null, "driver_info": { "id": "01", "pid": "7" }, "metadata": {},
        });
        let job: JobDetails = serde_json::from_value(row.clone()).unwrap();
        let told = json!(job);
        for (name, value) in row.as_object().unwrap() {
            assert_eq!(told[name], *value, "{name}");
        }
    }

    #[test]
    fn a_browser_is_not_shown_the_values_of_variables() {
        let with = |env: Value| JobDetails {
            runtime_env: env.as_object().cloned(),
            ..JobDetails::default()
        };
        let told = with(json!({ "env_vars": { "KEY": "secret" } }));
        assert_eq!(shown(told.clone(), Verdict::Program), told);
        let hidden = with(json!({ "env_vars": { "KEY": "<hidden>" } }));
        assert_eq!(shown(told, Verdict::Browser), hidden);
        let plain = with(json!({}));
        assert_eq!(shown(plain.clone(), Verdict::Browser), plain);
    }
}
