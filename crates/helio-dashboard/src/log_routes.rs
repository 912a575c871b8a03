//! Logs: `/api/v0/logs` lists files, `/search` finds lines, `/file` and `/stream` read and follow a file. Each node's
//! files are read by its own daemon.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderValue, Response, header};
use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::stream;
use helio_observer::LogNode;
use helio_observer::log_files::{READ_MAX, answer, kind};
use helio_proto::control::NodeInfo;
use helio_proto::logs::{LogAnswer, LogQuestion, LogRequest};
use helio_report::{Resource, Row};
use serde_json::Value;

use crate::App;
use crate::answers::logs::{FoundFiles, FoundLines, LogFile, LogFiles, LogLine, Owner, Silent};
use crate::fields::Fields;
use crate::log_lines::Shown;
use crate::reply::{self, Refusal, Reply};

/// Lines of a log, or lines that are found, unless another number is asked for.
const LINES: i64 = 1000;
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// `GET /api/v0/logs`: the files of a node by kind; with `detail`, a row for each file of one node or all.
pub(crate) async fn list(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Reply {
    let fields = Fields::parse(&query.unwrap_or_default());
    let found = match fields.says("detail") {
        Ok(true) => rows(&app, &fields).await.map(reply::enveloped),
        Ok(false) => files(&app, &fields).await.map(reply::enveloped),
        Err(refusal) => Err(refusal),
    };
    found.unwrap_or_else(|refusal| reply::enveloped_refusal(&refusal))
}

/// `GET /api/v0/logs/search`: the lines with `text` in the files of one node or all.
pub(crate) async fn search(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Reply {
    let fields = Fields::parse(&query.unwrap_or_default());
    match lines_with(&app, &fields).await {
        Ok(found) => reply::enveloped(found),
        Err(refusal) => reply::enveloped_refusal(&refusal),
    }
}

async fn files(app: &App, fields: &Fields) -> Result<LogFiles, Refusal> {
    if fields.get("node_id").is_none() && fields.get("node_ip").is_none() {
        return Err(Refusal::bad(
            "Give `node_id` or `node_ip`, or `detail=1` for a row for each file of every node.",
        ));
    }
    let mut place = Place::of(app, &node(app, fields).await?).await?;
    let mut kinds = LogFiles::new();
    for file in place.ask(listing(fields)).await?.files {
        kinds.entry(kind(&file.name).to_owned()).or_default().push(file.name);
    }
    Ok(kinds)
}

fn listing(fields: &Fields) -> LogRequest {
    let pattern = fields.get("glob").unwrap_or("*").to_owned();
    LogRequest { pattern, ..LogRequest::default() }
}

/// The nodes that are meant: the one that is named, else all that live.
async fn nodes(app: &App, fields: &Fields) -> Result<Vec<NodeInfo>, Refusal> {
    if fields.get("node_id").is_some() || fields.get("node_ip").is_some() {
        return Ok(vec![node(app, fields).await?]);
    }
    let all = app.asker.nodes().await.map_err(Refusal::unavailable)?.nodes;
    Ok(all.into_iter().filter(|node| node.alive).collect())
}

/// Asks each of those nodes, side by side; a node that does not answer has an error in its place.
async fn ask_all(
    app: &App,
    fields: &Fields,
    request: &LogRequest,
) -> Result<Vec<(NodeInfo, Result<LogAnswer, String>)>, Refusal> {
    let asked = nodes(app, fields).await?.into_iter().map(|node| async move {
        let answer = match Place::of(app, &node).await {
            Ok(mut place) => place.ask(request.clone()).await,
            Err(refusal) => Err(refusal),
        };
        (node, answer.map_err(|refusal| refusal.text))
    });
    Ok(join_all(asked).await)
}

async fn rows(app: &App, fields: &Fields) -> Result<FoundFiles, Refusal> {
    let answers = ask_all(app, fields, &listing(fields)).await?;
    let actors = app.asker.rows(Resource::Actors).await.map_err(Refusal::unavailable)?.rows;
    let (mut files, mut silent) = (Vec::new(), Vec::new());
    for (node, answer) in answers {
        let node_id = node.address.node_id.hex();
        match answer {
            Err(why) => silent.push(Silent { node_id, why }),
            Ok(answer) => files.extend(answer.files.into_iter().map(|file| LogFile {
                node_id: node_id.clone(),
                node_ip: node.address.host.clone(),
                kind: kind(&file.name),
                size: file.size,
                modified_ms: file.modified_ms,
                owner: owner(&file.name, &node_id, &actors),
                name: file.name,
            })),
        }
    }
    Ok(FoundFiles { files, silent })
}

/// Returns the owner of a log file, as far as the file's name and the actors tell: a submission, or a worker and its
/// actor.
fn owner(name: &str, node_id: &str, actors: &[Row]) -> Option<Owner> {
    let file = name.rsplit('/').next().unwrap_or(name);
    if let Some(id) = file.strip_prefix("job-driver-").and_then(|rest| rest.strip_suffix(".log")) {
        return Some(Owner::Submission { submission_id: id.to_owned() });
    }
    let printed = file.strip_prefix("worker-").and_then(|rest| rest.split('.').next());
    let own = file.strip_prefix("python-core-worker-").and_then(|rest| rest.strip_suffix(".log"));
    let (worker_id, pid) = match (printed, own) {
        (Some(stem), _) => stem.rsplit_once('-')?,
        (None, stem) => stem?.rsplit_once('_')?,
    };
    let pid: u64 = pid.parse().ok()?;
    let actor = actors
        .iter()
        .find(|row| row["pid"].as_u64() == Some(pid) && row["node_id"].as_str() == Some(node_id));
    let of_actor = |column: &str| actor.map(|row| row[column].clone());
    Some(Owner::Worker {
        worker_id: worker_id.to_owned(),
        pid,
        actor_id: of_actor("actor_id"),
        actor: of_actor("class_name"),
        actor_name: of_actor("name"),
        job_id: of_actor("job_id"),
    })
}

async fn lines_with(app: &App, fields: &Fields) -> Result<FoundLines, Refusal> {
    let text =
        fields.get("text").ok_or_else(|| Refusal::bad("Give `text`: what is looked for?"))?;
    let max = fields.number("limit")?.unwrap_or(LINES);
    let max = u64::try_from(max).map_err(|_| Refusal::bad("`limit` must not be negative."))?;
    let request = LogRequest {
        question: LogQuestion::Search,
        text: text.to_owned(),
        ignores_case: fields.says("ignore_case")?,
        max,
        ..listing(fields)
    };
    let (mut lines, mut silent, mut is_cut) = (Vec::new(), Vec::new(), false);
    for (node, answer) in ask_all(app, fields, &request).await? {
        let node_id = node.address.node_id.hex();
        match answer {
            Err(why) => silent.push(Silent { node_id, why }),
            Ok(answer) => {
                is_cut |= answer.is_cut;
                lines.extend(answer.found.into_iter().map(|line| LogLine {
                    node_id: node_id.clone(),
                    node_ip: node.address.host.clone(),
                    file: line.name,
                    line: line.number,
                    text: line.text,
                }));
            }
        }
    }
    Ok(FoundLines { lines, silent, is_cut })
}

/// The place from which a node's files are read.
enum Place {
    Daemon(LogNode),
    /// The daemon is gone, and its folder lies on this machine.
    Folder(PathBuf),
}

impl Place {
    async fn of(app: &App, node: &NodeInfo) -> Result<Self, Refusal> {
        let is_here = node.address.node_id.hex() == app.node_id;
        let asked = match node.alive {
            true => app.asker.logs_of((!is_here).then_some(&node.address)).await,
            false => Err(format!(
                "Node {} is dead, and its machine is another one.",
                node.address.node_id
            )),
        };
        asked.map(Self::Daemon).or_else(|why| {
            let folder = PathBuf::from(&node.session_dir).join("logs");
            let is_local = node.hostname == helio_env::machine::hostname() && folder.is_dir();
            if is_local { Ok(Self::Folder(folder)) } else { Err(Refusal::unavailable(why)) }
        })
    }

    async fn ask(&mut self, request: LogRequest) -> Result<LogAnswer, Refusal> {
        let answer = match self {
            Self::Daemon(node) => node.ask(&request).await,
            Self::Folder(folder) => {
                let folder = folder.clone();
                let read = tokio::task::spawn_blocking(move || answer(&folder, &request)).await;
                match read {
                    Ok(answer) if answer.refused.is_empty() => Ok(answer),
                    Ok(answer) => Err(answer.refused),
                    Err(error) => Err(error.to_string()),
                }
            }
        };
        answer.map_err(Refusal::missing)
    }

    /// The file of a worker with that process id, and `out` or `err`.
    async fn of_worker(&mut self, pid: u64, suffix: &str) -> Result<Option<String>, Refusal> {
        let pattern = format!("*worker-*-{pid}.{suffix}");
        let files = self.ask(LogRequest { pattern, ..LogRequest::default() }).await?.files;
        Ok(files.into_iter().map(|file| file.name).next_back())
    }
}

async fn node(app: &App, fields: &Fields) -> Result<NodeInfo, Refusal> {
    let nodes = app.asker.nodes().await.map_err(Refusal::unavailable)?.nodes;
    let (id, ip) = (fields.get("node_id"), fields.get("node_ip"));
    let fits = |node: &NodeInfo| {
        id.is_none_or(|id| node.address.node_id.hex() == id)
            && ip.is_none_or(|ip| node.address.host == ip)
    };
    // Of several on one machine the living one is meant.
    let mut found: Vec<NodeInfo> = nodes.into_iter().filter(fits).collect();
    found.sort_by_key(|node| !node.alive);
    let wanted = id.or(ip).unwrap_or_default();
    found.into_iter().next().ok_or_else(|| Refusal::missing(format!("There is no node {wanted}.")))
}

/// A file of a node, and whose part of it is meant; empty: all of it.
struct Meant {
    place: Place,
    name: String,
    task_id: String,
}

/// `GET /api/v0/logs/{file, stream}`.
pub(crate) async fn read(
    State(app): State<Arc<App>>,
    Path(media): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Reply, Refusal> {
    if !matches!(media.as_str(), "file" | "stream") {
        return Err(Refusal::missing(format!(
            "Logs are read as `file` or `stream`, not {media:?}."
        )));
    }
    let fields = Fields::parse(&query.unwrap_or_default());
    let lines = fields.number("lines")?.unwrap_or(LINES);
    let has_codes = !fields.says("filter_ansi_code")?;
    let Some(Meant { mut place, name, task_id }) = which(&app, &fields, media == "stream").await?
    else {
        return Ok(text(Body::empty()));
    };
    let request = LogRequest {
        question: if lines < 0 { LogQuestion::Read } else { LogQuestion::Tail },
        name,
        task_id,
        max: u64::try_from(lines).unwrap_or_default(),
        ..LogRequest::default()
    };
    // Asked now, so that a file that is not there is an answer of its own.
    let from = place.ask(request.clone()).await?.from;
    let reading = Reading {
        place,
        request: LogRequest { question: LogQuestion::Read, from, max: READ_MAX, ..request },
        follows: media == "stream",
        shown: Some(Shown::new(has_codes)),
    };
    Ok(text(Body::from_stream(stream::unfold(reading, Reading::next))))
}

fn text(body: Body) -> Reply {
    let mut reply = Response::new(body);
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    reply
}

/// The log that is meant; `None`: it is a task's that has printed nothing.
async fn which(app: &App, fields: &Fields, follows: bool) -> Result<Option<Meant>, Refusal> {
    let suffix = fields.get("suffix").unwrap_or("out");
    if !matches!(suffix, "out" | "err") {
        return Err(Refusal::bad(format!("`suffix` must be out or err, not {suffix:?}.")));
    }
    let whole = |place, name| Some(Meant { place, name, task_id: String::new() });
    if let Some(id) = fields.get("submission_id") {
        let job =
            app.jobs.get(id).ok_or_else(|| Refusal::missing(format!("There is no job {id}.")))?;
        let path = app.jobs.shelf.log(&job.id);
        let none = || Refusal::missing(format!("Job {id} has printed nothing yet."));
        let parts = path.parent().zip(path.file_name()).filter(|_| path.is_file());
        let (folder, name) = parts.ok_or_else(none)?;
        let name = name.to_string_lossy().into_owned();
        return Ok(whole(Place::Folder(folder.to_owned()), name));
    }
    for (resource, name) in [(Resource::Actors, "actor_id"), (Resource::Tasks, "task_id")] {
        if let Some(id) = fields.get(name) {
            let attempt = fields.number("attempt_number")?;
            let one = Wanted { resource, name, id, attempt, suffix, follows };
            return of_row(app, &one).await;
        }
    }
    let (file, pid) = (fields.get("filename"), fields.number("pid")?);
    if file.is_none() && pid.is_none() {
        return Err(Refusal::bad(
            "Give one of `filename`, `pid`, `actor_id`, `task_id` and `submission_id`: which log is meant?",
        ));
    }
    let mut place = Place::of(app, &node(app, fields).await?).await?;
    let name = match (file, pid.map(u64::try_from)) {
        (Some(file), _) => Some(file.to_owned()),
        (None, Some(Ok(pid))) => place.of_worker(pid, suffix).await?,
        (None, _) => None,
    };
    let none = || {
        let pid = pid.unwrap_or_default();
        Refusal::missing(format!("There is no log file of process {pid} on that node."))
    };
    Ok(whole(place, name.ok_or_else(none)?))
}

/// A task or an actor whose log is meant.
struct Wanted<'a> {
    resource: Resource,
    /// The column of its id.
    name: &'a str,
    id: &'a str,
    /// The attempt of a task; none: the last that is known.
    attempt: Option<i64>,
    suffix: &'a str,
    /// Whether the answer waits for a log that is not there yet.
    follows: bool,
}

async fn of_row(app: &App, wanted: &Wanted<'_>) -> Result<Option<Meant>, Refusal> {
    let Wanted { resource, name, id, attempt, suffix, follows } = *wanted;
    let told = app.asker.rows(resource).await.map_err(Refusal::unavailable)?;
    let mut rows: Vec<&Row> =
        told.rows.iter().filter(|row| row[name].as_str() == Some(id)).collect();
    if rows.is_empty() {
        return Err(Refusal::missing(format!("There is no {name} {id}.")));
    }
    // Actors have none.
    let number_of = |row: &Row| row.get("attempt_number").and_then(Value::as_i64);
    if let Some(number) = attempt.filter(|_| resource == Resource::Tasks) {
        rows.retain(|row| number_of(row) == Some(number));
    }
    let row = rows.into_iter().max_by_key(|row| number_of(row)).ok_or_else(|| {
        let number = attempt.unwrap_or_default();
        Refusal::missing(format!("Attempt {number} of {name} {id} is not known (any more)."))
    })?;
    let pid =
        row[if name == "actor_id" { "pid" } else { "worker_pid" }].as_u64().filter(|pid| *pid > 0);
    let node_id = row["node_id"].as_str().filter(|id| !id.is_empty());
    let (Some(pid), Some(node_id)) = (pid, node_id) else {
        return Err(Refusal::missing(format!(
            "The process of {name} {id} is not known (any more)."
        )));
    };
    let fields = Fields::of("node_id", node_id);
    let mut place = Place::of(app, &node(app, &fields).await?).await?;
    let task_id = if resource == Resource::Tasks { id.to_owned() } else { String::new() };
    let is_over = matches!(row["state"].as_str(), Some("FINISHED" | "FAILED" | "DEAD"));
    loop {
        // A process has a file once it has printed something.
        match place.of_worker(pid, suffix).await? {
            Some(name) => return Ok(Some(Meant { place, name, task_id })),
            // For as long as the one who follows stays.
            None if follows && !is_over => tokio::time::sleep(LOOK_EVERY).await,
            None if resource == Resource::Tasks => return Ok(None),
            None => {
                let nothing = format!("The process of {name} {id} has printed nothing.");
                return Err(Refusal::missing(nothing));
            }
        }
    }
}

/// A file that is sent part by part.
struct Reading {
    place: Place,
    request: LogRequest,
    follows: bool,
    /// `None`: everything was sent.
    shown: Option<Shown>,
}

impl Reading {
    async fn next(mut self) -> Option<(Result<Bytes, std::io::Error>, Self)> {
        loop {
            let mut shown = self.shown.take()?;
            let read = self.place.ask(self.request.clone()).await.ok();
            let Some(answer) = read.filter(|answer| self.follows || !answer.bytes.is_empty())
            else {
                // A file that was put aside meanwhile has ended as well.
                return Some((Ok(shown.end().into()), self));
            };
            if answer.bytes.is_empty() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            self.request.from = answer.from + answer.bytes.len() as u64;
            let text = shown.take(&answer.bytes);
            self.shown = Some(shown);
            if !text.is_empty() {
                return Some((Ok(text.into()), self));
            }
        }
    }
}
