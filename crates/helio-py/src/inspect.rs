//! Reasons for waits (WHY-1), the rows of the state API, and the application's measurements.

use std::collections::HashMap;
use std::time::Duration;

use helio_config::dashboard::{DRIVERS_NAMESPACE, SUBMISSIONS_NAMESPACE};
use helio_proto::inspect::{Answers, MetricKind, ObjectRow, Question, Topic};
use helio_report::trace::chrome;
use helio_report::{Resource, Row, rows, summary};
use helio_types::{ActorId, ObjectId, TaskId};
use helio_worker::{Error, Payload, Runtime, Subject, metrics};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::gil::{GilSite, detached};
use crate::object_ref::ObjectRef;
use crate::session::{self, Session};
use crate::worker::blocking::warn_if_blocking;
use crate::{control, errors, exceptions, groups, timeouts};

/// Maximum time that a `get` that has timed out asks around for the reason.
const REASON_MAX: Duration = Duration::from_millis(300);

/// Sentences on what an object (28 bytes), a task (24) or an actor (16) waits for.
#[pyfunction]
pub(crate) fn why(py: Python<'_>, id: &[u8], seconds: f64) -> PyResult<String> {
    let session = session::active(py)?;
    let subject = if let Ok(id) = ObjectId::try_from(id) {
        Subject::Object(id)
    } else if let Ok(id) = TaskId::try_from(id) {
        Subject::Task(id)
    } else if let Ok(id) = ActorId::try_from(id) {
        Subject::Actor(id)
    } else {
        return Err(PyValueError::new_err("the id of an object, a task or an actor is needed"));
    };
    let timeout = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
    detached(py, GilSite::Control, |_| session.runtime.why(subject, timeout))
}

/// Number of objects that one question asks for.
const PLACES_MAX: usize = 10_000;

/// The values of objects, without the GIL; a time that is up says what for the first that is missing
/// waits.
pub(crate) fn fetch(
    py: Python<'_>,
    session: &Session,
    ids: &[ObjectId],
    timeout: Option<Duration>,
) -> PyResult<Vec<Payload>> {
    let got = detached(py, GilSite::Get, |interrupt| {
        match session.runtime.get(ids, timeout, interrupt) {
            Err(Error::Timeout) => Err((Error::Timeout, reason(&session.runtime, ids, timeout))),
            result => result.map_err(|error| (error, String::new())),
        }
    })?;
    got.map_err(|(error, reason)| match error {
        Error::Timeout => {
            let text = format!("Get timed out: some object(s) not ready. {reason}");
            exceptions::named(py, "GetTimeoutError", text.trim_end())
        }
        error => errors::raise(py, error),
    })
}

fn reason(runtime: &Runtime, ids: &[ObjectId], timeout: Option<Duration>) -> String {
    let missing = ids.iter().find(|id| !runtime.is_ready(**id));
    // An object that is ready and did not arrive in time is being brought here.
    let Some(id) = missing.or_else(|| ids.iter().find(|id| runtime.try_get_inline(**id).is_none()))
    else {
        return String::new();
    };
    // A caller that polls with a short timeout is not kept waiting for the reason.
    let limit = timeout.map_or(REASON_MAX, |timeout| (timeout / 10).min(REASON_MAX));
    runtime.why(Subject::Object(*id), limit)
}

/// The values as [`fetch`], with a warning where that blocks an event loop.
pub(crate) fn fetch_for_user(
    py: Python<'_>,
    session: &Session,
    ids: &[ObjectId],
    seconds: Option<f64>,
) -> PyResult<Vec<Payload>> {
    warn_if_blocking(py, "get", seconds)?;
    let timeout = timeouts::timeout(seconds)?;
    session.runtime.begin_read(ids);
    fetch(py, session, ids, timeout)
}

/// Makes a metric of this process; `kind`: 0 counter, 1 gauge, 2 histogram.
#[pyfunction]
pub(crate) fn declare_metric(
    name: &str,
    description: &str,
    kind: u32,
    boundaries: Vec<f64>,
) -> PyResult<()> {
    let kind = MetricKind::from_number(kind)
        .ok_or_else(|| PyValueError::new_err(format!("there is no kind of metric {kind}")))?;
    metrics::declare(name, description, kind, &boundaries);
    Ok(())
}

/// Adds to a counter, sets a gauge, counts a value of a histogram; tags are sorted pairs.
#[pyfunction]
pub(crate) fn record_metric(name: &str, tags: Vec<(String, String)>, value: f64) {
    metrics::record(name, tags, value);
}

/// Lets go of all series of all metrics that have this tag.
#[pyfunction]
pub(crate) fn forget_metrics(key: &str, value: &str) {
    metrics::forget(key, value);
}

/// Asks every process of the cluster for at most `limit` rows.
fn ask_all(py: Python<'_>, topic: Topic, limit: usize) -> PyResult<Answers> {
    let session = session::connected(py)?;
    // 0 stands for as many as may be.
    let limit = u32::try_from(limit).unwrap_or(0);
    let question = Question { topic, limit, ..Question::default() };
    inspect(py, &session, question, false, None)?.map_err(|error| errors::raise(py, error))
}

fn inspect(
    py: Python<'_>,
    session: &Session,
    question: Question,
    own_node_only: bool,
    timeout: Option<Duration>,
) -> PyResult<Result<Answers, Error>> {
    detached(py, GilSite::Control, |interrupt| {
        session.runtime.inspect(question, own_node_only, timeout, interrupt)
    })
}

/// Nodes as hex; bytes, `None` while there is no value; whether it is on disk.
type PlaceRow = (Vec<String>, Option<u64>, bool);

/// The answers about an object's place.
#[derive(Default)]
struct Place {
    /// The row of the owner, or, where only this process is asked, of this process.
    row: Option<ObjectRow>,
    is_on_disk: bool,
}

/// The row of each object, `None` where the owner says nothing. `own_view`: as this process and its node know, nobody
/// else is asked.
#[pyfunction]
pub(crate) fn object_places(
    py: Python<'_>,
    refs: Vec<Bound<'_, ObjectRef>>,
    own_view: bool,
    timeout: Option<f64>,
) -> PyResult<Vec<Option<PlaceRow>>> {
    let session = session::active(py)?;
    let me = session.runtime.address().worker_id;
    let ids: Vec<ObjectId> =
        refs.iter().map(|one| one.get().known(&session)).collect::<PyResult<_>>()?;
    let timeout = timeouts::timeout(timeout)?;
    let mut places: HashMap<ObjectId, Place> = HashMap::new();
    for part in ids.chunks(PLACES_MAX) {
        let question =
            Question { topic: Topic::Places, objects: part.to_vec(), ..Question::default() };
        let told = match inspect(py, &session, question, own_view, timeout)? {
            Ok(told) => told,
            Err(Error::Timeout) => {
                let text = "The owners of the objects did not say in time where they are.";
                return Err(exceptions::named(py, "GetTimeoutError", text));
            }
            Err(error) => return Err(errors::raise(py, error)),
        };
        for answer in told.answers {
            let is_mine = !answer.is_daemon && answer.worker_id == me;
            for row in answer.objects {
                let place = places.entry(row.object_id).or_default();
                place.is_on_disk |= row.is_on_disk;
                let is_asked = if own_view { is_mine } else { !row.is_borrowed };
                if !answer.is_daemon && is_asked {
                    place.row = Some(row);
                }
            }
        }
    }
    let place = |id: &ObjectId| {
        let place = places.get(id)?;
        let row = place.row.as_ref()?;
        let nodes = row.nodes.iter().map(|node| node.hex()).collect();
        Some((nodes, row.is_ready.then_some(row.size), place.is_on_disk))
    };
    Ok(ids.iter().map(place).collect())
}

struct Found {
    rows: Vec<Row>,
    /// Number of processes that did not answer.
    silent: u32,
    /// Number of rows without the processes' limits.
    total: u64,
    /// Counts of calls of which there are no rows.
    more: Vec<summary::More>,
}

impl From<Vec<Row>> for Found {
    fn from(rows: Vec<Row>) -> Self {
        Self { total: rows.len() as u64, rows, silent: 0, more: Vec::new() }
    }
}

/// Finds at most `limit` rows.
fn find(py: Python<'_>, resource: Resource, limit: usize) -> PyResult<Found> {
    let of = |told: &Answers, rows: Vec<Row>| Found {
        rows,
        silent: told.silent,
        total: told.answers.iter().map(|answer| answer.total).sum(),
        more: Vec::new(),
    };
    let mut found = match resource {
        Resource::Tasks => {
            let told = ask_all(py, Topic::Tasks, limit)?;
            let processes = ask_all(py, Topic::Workers, usize::MAX)?;
            let actors = control::actors(py)?;
            let rows = rows::tasks(&told.answers, &processes.answers, &actors);
            let more = rows::more(&told.answers, &actors);
            Found { more, ..of(&told, rows.take(limit).collect()) }
        }
        Resource::Objects => {
            let told = ask_all(py, Topic::Objects, limit)?;
            of(&told, rows::objects(&told.answers).take(limit).collect())
        }
        Resource::Workers => {
            let told = ask_all(py, Topic::Workers, usize::MAX)?;
            of(&told, rows::workers(&told.answers, helio_env::clock::unix_ms()))
        }
        Resource::Actors => rows::actors(&control::actors(py)?).into(),
        Resource::Nodes => rows::nodes(&control::nodes(py)?).into(),
        Resource::Jobs => {
            let drivers = control::entries(py, DRIVERS_NAMESPACE)?;
            let drivers: Vec<Vec<u8>> = drivers.into_iter().map(|pair| pair.key).collect();
            let submissions = control::entries(py, SUBMISSIONS_NAMESPACE)?;
            rows::jobs(&control::jobs(py)?, &drivers, &submissions).into()
        }
        Resource::Envs => {
            let told = ask_all(py, Topic::Workers, usize::MAX)?;
            let jobs = control::entries(py, SUBMISSIONS_NAMESPACE)?;
            of(&told, rows::environments(&told.answers, &jobs))
        }
        Resource::Events => {
            let found = find(py, Resource::Workers, usize::MAX)?;
            let nodes = find(py, Resource::Nodes, usize::MAX)?.rows;
            Found { rows: rows::events(&found.rows, &nodes), ..found }
        }
        Resource::Groups => rows::groups(&groups::groups(py)?).into(),
    };
    found.rows.truncate(limit);
    Ok(found)
}

fn named(resource: &str) -> PyResult<Resource> {
    Resource::named(resource)
        .ok_or_else(|| PyValueError::new_err(format!("there are no rows of {resource:?}")))
}

/// (rows as JSON, processes that did not answer, rows that there are) of `tasks`, `objects`, `workers`,
/// `actors`, `nodes` or `jobs`; at most `limit` rows.
#[pyfunction]
#[pyo3(signature = (resource, limit = None))]
pub(crate) fn state_rows(
    py: Python<'_>,
    resource: &str,
    limit: Option<usize>,
) -> PyResult<(String, u32, u64)> {
    let found = find(py, named(resource)?, limit.unwrap_or(usize::MAX))?;
    let json: serde_json::Value = found.rows.into_iter().collect();
    Ok((json.to_string(), found.silent, found.total))
}

/// A summary of `tasks`, `objects` or `actors` as JSON, and how many processes did not answer.
#[pyfunction]
pub(crate) fn state_summary(py: Python<'_>, resource: &str) -> PyResult<(String, u32)> {
    let resource = named(resource)?;
    let found = find(py, resource, usize::MAX)?;
    let summary = match resource {
        Resource::Tasks => serde_json::json!(summary::tasks(&found.rows, &found.more)),
        Resource::Objects => serde_json::json!(summary::objects(&found.rows, found.total)),
        Resource::Actors => serde_json::json!(summary::actors(&found.rows)),
        other => return Err(PyValueError::new_err(format!("there is no summary of {other:?}"))),
    };
    Ok((summary.to_string(), found.silent))
}

/// Returns the calls and their times as the JSON of a Chrome trace; `now_us` is the time since 1970.
#[pyfunction]
pub(crate) fn trace(py: Python<'_>, now_us: u64) -> PyResult<String> {
    let tasks = find(py, Resource::Tasks, usize::MAX)?.rows;
    let nodes = find(py, Resource::Nodes, usize::MAX)?.rows;
    Ok(serde_json::Value::from(chrome(&tasks, &nodes, now_us)).to_string())
}
