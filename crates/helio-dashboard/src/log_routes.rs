//! Logs: `/api/v0/logs` lists files, `/api/v0/logs/file` and `/stream` read and follow one.
//!
//! Files are read where they lie, so this serves nodes of this machine; of a node elsewhere it says so.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use futures_util::stream;
use helio_proto::control::NodeInfo;
use helio_report::{Resource, Row};
use serde_json::{Value, json};

use crate::App;
use crate::log_files::{fits, inside, kind, last_lines, names, of_task, of_worker};
use crate::reply::{self, Refusal, Reply};

/// Lines of a log unless another number is asked for.
const LINES: i64 = 1000;
const PART: u64 = 64 << 10;
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// `GET /api/v0/logs`: the files of a node by kind.
pub(crate) async fn list(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Reply {
    let fields = Fields::parse(&query.unwrap_or_default());
    match files(&app, &fields).await {
        Ok(found) => reply::enveloped(found),
        Err(refusal) => reply::enveloped_refusal(&refusal),
    }
}

async fn files(app: &App, fields: &Fields) -> Result<Value, Refusal> {
    if fields.get("node_id").is_none() && fields.get("node_ip").is_none() {
        return Err(Refusal::bad("Give `node_id` or `node_ip`: logs are listed by node."));
    }
    let folder = folder_of(&node(app, fields).await?)?;
    let pattern = fields.get("glob").unwrap_or("*").to_owned();
    let listed = tokio::task::spawn_blocking(move || names(&folder)).await.unwrap_or_default();
    let mut kinds: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for name in listed.into_iter().filter(|name| fits(&pattern, name)) {
        kinds.entry(kind(&name)).or_default().push(name);
    }
    Ok(json!(kinds))
}

/// The query's fields; of one that is given twice the last counts.
struct Fields(HashMap<String, String>);

impl Fields {
    fn parse(query: &str) -> Self {
        Self(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty() && *value != "None")
    }

    fn number(&self, name: &str) -> Result<Option<i64>, Refusal> {
        let wrong = |text| Refusal::bad(format!("`{name}` must be a whole number, not {text:?}."));
        self.get(name).map(|text| text.parse().map_err(|_| wrong(text))).transpose()
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

fn folder_of(node: &NodeInfo) -> Result<PathBuf, Refusal> {
    let folder = PathBuf::from(&node.session_dir).join("logs");
    if node.hostname == helio_env::machine::hostname() && folder.is_dir() {
        return Ok(folder);
    }
    Err(Refusal::new(
        StatusCode::NOT_IMPLEMENTED,
        format!(
            "The logs of node {} lie on {}, {}: this release serves those of the head's machine. A driver reads the \
             others with `ray.util.state.get_log`.",
            node.address.node_id, node.hostname, node.session_dir
        ),
    ))
}

/// A file, and the parts of it that are meant; `None`: all of it.
struct Meant {
    path: PathBuf,
    task_id: Option<String>,
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
    let has_colours =
        !fields.get("filter_ansi_code").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let meant = which(&app, &fields).await?;
    let gone =
        |error: std::io::Error| Refusal::missing(format!("The log cannot be read: {error}."));
    let body = match &meant.task_id {
        Some(task_id) => {
            let mut text = Vec::new();
            for part in of_task(&meant.path, task_id).map_err(gone)? {
                let mut file = File::open(&meant.path).map_err(gone)?;
                file.seek(SeekFrom::Start(part.start)).map_err(gone)?;
                file.take(part.end - part.start).read_to_end(&mut text).map_err(gone)?;
            }
            let text = if lines >= 0 { end_of(&text, lines as usize) } else { &text };
            Body::from(if has_colours { Bytes::copy_from_slice(text) } else { plain(text).into() })
        }
        None => {
            let from = match u64::try_from(lines) {
                Ok(lines) => last_lines(&meant.path, lines).map_err(gone)?,
                Err(_) => 0,
            };
            let follows = media == "stream";
            let reading = Reading { path: meant.path, at: from, follows, has_colours };
            Body::from_stream(stream::unfold(reading, Reading::next))
        }
    };
    let mut reply = Response::new(body);
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    Ok(reply)
}

async fn which(app: &App, fields: &Fields) -> Result<Meant, Refusal> {
    let suffix = fields.get("suffix").unwrap_or("out");
    if !matches!(suffix, "out" | "err") {
        return Err(Refusal::bad(format!("`suffix` must be out or err, not {suffix:?}.")));
    }
    let whole = |path| Meant { path, task_id: None };
    if let Some(id) = fields.get("submission_id") {
        let job =
            app.jobs.get(id).ok_or_else(|| Refusal::missing(format!("There is no job {id}.")))?;
        let path = app.jobs.shelf.log(&job.id);
        let none = || Refusal::missing(format!("Job {id} has printed nothing yet."));
        return path.is_file().then(|| whole(path)).ok_or_else(none);
    }
    for (resource, name) in [(Resource::Actors, "actor_id"), (Resource::Tasks, "task_id")] {
        if let Some(id) = fields.get(name) {
            return of_row(app, resource, name, id, suffix).await;
        }
    }
    let (file, pid) = (fields.get("filename"), fields.number("pid")?);
    if file.is_none() && pid.is_none() {
        return Err(Refusal::bad(
            "Give one of `filename`, `pid`, `actor_id`, `task_id` and `submission_id`: which log is meant?",
        ));
    }
    let folder = folder_of(&node(app, fields).await?)?;
    let path = match (file, pid) {
        (Some(file), _) => inside(&folder, file),
        (None, pid) => pid.and_then(|pid| of_worker(&folder, pid.try_into().ok()?, suffix)),
    };
    let named =
        file.map_or_else(|| format!("of process {}", pid.unwrap_or_default()), str::to_owned);
    path.map(whole)
        .ok_or_else(|| Refusal::missing(format!("There is no log file {named} on that node.")))
}

async fn of_row(
    app: &App,
    resource: Resource,
    name: &str,
    id: &str,
    suffix: &str,
) -> Result<Meant, Refusal> {
    let told = app.asker.rows(resource).await.map_err(Refusal::unavailable)?;
    let row: Option<&Row> = told.rows.iter().rev().find(|row| row[name].as_str() == Some(id));
    let row = row.ok_or_else(|| Refusal::missing(format!("There is no {name} {id}.")))?;
    let pid =
        row[if name == "actor_id" { "pid" } else { "worker_pid" }].as_u64().filter(|pid| *pid > 0);
    let node_id = row["node_id"].as_str().filter(|id| !id.is_empty());
    let (Some(pid), Some(node_id)) = (pid, node_id) else {
        return Err(Refusal::missing(format!(
            "The process of {name} {id} is not known (any more)."
        )));
    };
    let fields = Fields(HashMap::from([("node_id".to_owned(), node_id.to_owned())]));
    let folder = folder_of(&node(app, &fields).await?)?;
    let path = of_worker(&folder, pid, suffix);
    let none = || Refusal::missing(format!("The process of {name} {id} has printed nothing."));
    let task_id = (resource == Resource::Tasks).then(|| id.to_owned());
    path.map(|path| Meant { path, task_id }).ok_or_else(none)
}

/// A file that is sent part by part.
struct Reading {
    path: PathBuf,
    at: u64,
    follows: bool,
    has_colours: bool,
}

impl Reading {
    async fn next(mut self) -> Option<(Result<Bytes, std::io::Error>, Self)> {
        loop {
            let mut part = Vec::new();
            let read = File::open(&self.path)
                .and_then(|mut file| file.seek(SeekFrom::Start(self.at)).map(|_| file))
                .and_then(|file| file.take(PART).read_to_end(&mut part));
            match read {
                Ok(0) if self.follows => tokio::time::sleep(LOOK_EVERY).await,
                // A file that was put aside meanwhile has ended as well.
                Ok(0) | Err(_) => return None,
                Ok(size) => {
                    self.at += size as u64;
                    let part = if self.has_colours { part } else { plain(&part) };
                    return Some((Ok(part.into()), self));
                }
            }
        }
    }
}

/// The last lines of a text.
fn end_of(text: &[u8], lines: usize) -> &[u8] {
    let whole = text.strip_suffix(b"\n").unwrap_or(text);
    let mut begins =
        whole.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    match lines {
        0 => &[],
        _ => &text[begins.nth(lines - 1).unwrap_or(0)..],
    }
}

/// The text without colours: `ESC [ … m`.
fn plain(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.windows(2).position(|pair| pair == b"\x1b[") {
        let codes =
            rest[at + 2..].iter().take_while(|byte| matches!(byte, b'0'..=b'9' | b';')).count();
        let end = at + 2 + codes;
        if rest.get(end) == Some(&b'm') {
            out.extend_from_slice(&rest[..at]);
            rest = &rest[end + 1..];
        } else {
            out.extend_from_slice(&rest[..end]);
            rest = &rest[end..];
        }
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_go_and_nothing_else() {
        assert_eq!(plain(b"a\x1b[1;31mred\x1b[0m b\x1b[2Kc\x1b["), b"ared b\x1b[2Kc\x1b[");
        assert_eq!(plain(b""), b"");
    }

    #[test]
    fn the_end_has_so_many_lines() {
        for (text, lines, expect) in [
            ("a\nb\nc\n", 2, "b\nc\n"),
            ("a\nb", 1, "b"),
            ("a\n", 5, "a\n"),
            ("a\n", 0, ""),
            ("", 1, ""),
        ] {
            assert_eq!(end_of(text.as_bytes(), lines), expect.as_bytes(), "{text:?} {lines}");
        }
    }
}
