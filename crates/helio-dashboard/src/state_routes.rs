//! State: `/api/v0/…`, and the few older routes that programs ask for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::extract::{Path, RawQuery, State};
use axum::http::header;
use helio_observer::{Told, read};
use helio_proto::control::{NodeInfo, Nodes};
use helio_report::calls::Calls;
use helio_report::{Resource, Row, as_asked, summary, trace, without_bundles};
use helio_types::ResourceSet;
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

use crate::access::Verdict;
use crate::answers::Envelope;
use crate::answers::cluster::{
    ActorAddress, AutoscalerReport, ClusterMetadata, ClusterStatus, Gpu, HostNames, LoadAndNodes,
    LoadMetricsReport, LogicalActor, LogicalActors, Machine, Machines, OneMachine, PastOfCluster,
    Raylet, Usage, WaitingDemand,
};
use crate::answers::tasks::{ByNode, Summarized, WholeCluster};
use crate::fields::Fields;
use crate::page::{Wanted, warning};
use crate::reply::{self, Refusal, Reply};
use crate::{App, activity, job_routes};

/// Age up to which an answer is given to several clients: each question costs every process of the
/// cluster a message.
const FRESH: Duration = Duration::from_millis(100);

/// The last answers, and by its lock one question at a time for each resource: a thousand who ask at once
/// cost the cluster one question.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    all: BTreeMap<&'static str, Mutex<Option<Answered<Told>>>>,
    nodes: Mutex<Option<Answered<Nodes>>>,
}

/// An answer, and the time at which it was asked for.
type Answered<T> = (Instant, Arc<T>);

/// The last answer, if it is as new as it must be for whoever has asked at that moment.
fn fresh<T>(last: Option<&Answered<T>>, asked: Instant) -> Option<Arc<T>> {
    last.filter(|(when, _)| *when + FRESH > asked).map(|(_, told)| Arc::clone(told))
}

impl Answers {
    pub(crate) fn new() -> Self {
        Self {
            all: Resource::ALL
                .into_iter()
                .map(|resource| (resource.name(), Mutex::default()))
                .collect(),
            nodes: Mutex::default(),
        }
    }

    /// The nodes, as they were when the question came or up to [`FRESH`] before.
    pub(crate) async fn nodes(&self, app: &App) -> Result<Arc<Nodes>, Refusal> {
        let asked = Instant::now();
        let mut last = self.nodes.lock().await;
        if let Some(told) = fresh(last.as_ref(), asked) {
            return Ok(told);
        }
        let began = Instant::now();
        let told = Arc::new(app.asker.nodes().await.map_err(Refusal::unavailable)?);
        *last = Some((began, Arc::clone(&told)));
        Ok(told)
    }

    /// The calls, as they were when the question came or up to [`FRESH`] before; with an `age`, as they were told up to so
    /// long before.
    pub(crate) async fn calls(
        &self,
        app: &App,
        age: Option<Duration>,
    ) -> Result<Arc<Told>, Refusal> {
        let told = match (app.asker.past(), age) {
            (Some(_), _) => app.asker.rows(Resource::Tasks).await,
            (None, Some(age)) => app.mirror.heard(age).await,
            (None, None) => app.mirror.told(FRESH).await,
        };
        told.map(Arc::new).map_err(Refusal::unavailable)
    }

    /// The rows of a resource, as they were when the question came or up to [`FRESH`] before.
    pub(crate) async fn rows(&self, app: &App, resource: Resource) -> Result<Arc<Told>, Refusal> {
        self.rows_of_age(app, resource, None).await
    }

    /// Returns the rows of a resource; those of calls may have the age that [`Answers::calls`]
    /// explains.
    async fn rows_of_age(
        &self,
        app: &App,
        resource: Resource,
        age: Option<Duration>,
    ) -> Result<Arc<Told>, Refusal> {
        if resource == Resource::Tasks {
            return self.calls(app, age).await;
        }
        let asked = Instant::now();
        let mut last = self.all[resource.name()].lock().await;
        if let Some(told) = fresh(last.as_ref(), asked) {
            return Ok(told);
        }
        let began = Instant::now();
        let told = Arc::new(app.asker.rows(resource).await.map_err(Refusal::unavailable)?);
        // Few rows are kept for those who ask next; many are not, for memory.
        *last = (told.rows.len() <= KEPT_MAX).then(|| (began, Arc::clone(&told)));
        Ok(told)
    }
}

/// The most that an answer may be older than its question, by the question's own word.
const AGE_MAX: Duration = Duration::from_secs(1);

/// Returns the age that an answer about calls may have: a page that follows them asks at each change, and needs no other
/// round of questions.
fn age_of(query: &str) -> Result<Option<Duration>, Refusal> {
    let Some(text) = Fields::parse(query).get("age").map(str::to_owned) else { return Ok(None) };
    let age = text.parse().ok().map(Duration::from_millis).filter(|age| *age <= AGE_MAX);
    age.map(Some).ok_or_else(|| {
        let most = AGE_MAX.as_millis();
        Refusal::bad(format!("`age` is a number of milliseconds up to {most}, not {text:?}."))
    })
}

/// LIMIT-1: of longer lists no answer is kept.
const KEPT_MAX: usize = 20_000;

/// LIMIT-1: of a table with more calls the latest are shown as a trace, or grouped by their errors.
const TRACED_MAX: usize = 100_000;
const FAILED_MAX: usize = 20_000;

/// `GET /api/v0/{resource}`.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Extension(verdict): Extension<Verdict>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Reply {
    let query = query.unwrap_or_default();
    let told = match age_of(&query) {
        Ok(age) => rows_of(&app, &name, verdict, age).await,
        Err(refusal) => Err(refusal),
    };
    let listed = told.and_then(|(resource, told)| {
        let wanted = Wanted::parse(&query).map_err(Refusal::bad)?;
        app.changes.counted(|| wanted.page(resource, &told)).map_err(Refusal::bad)
    });
    listed.map_or_else(
        |refusal| reply::enveloped_refusal(&refusal),
        |page| {
            tracing::debug!(list = name, looked_at = page.looked_at, "list answered");
            app.changes.counted(|| reply::enveloped_text(&page.text()))
        },
    )
}

async fn rows_of(
    app: &App,
    name: &str,
    verdict: Verdict,
    age: Option<Duration>,
) -> Result<(Resource, Arc<Told>), Refusal> {
    let resource = Resource::named(name).ok_or_else(|| {
        let known: Vec<String> =
            Resource::ALL.iter().map(|resource| resource.name().replace('-', "_")).collect();
        Refusal::missing(format!("There is no list {name:?}, only {}.", known.join(", ")))
    })?;
    if resource == Resource::Jobs {
        let rows = job_routes::details(app, verdict).await?;
        let row = |job| match json!(job) {
            Value::Object(row) => Some(row),
            _ => None,
        };
        let rows: Vec<Row> = rows.iter().filter_map(row).collect();
        return Ok((resource, Arc::new(Told::all(rows, 0))));
    }
    Ok((resource, app.answers.rows_of_age(app, resource, age).await?))
}

/// `GET /api/v0/{tasks, actors, objects}/summarize`.
pub(crate) async fn summarize(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Reply {
    let of: fn(&Told) -> Value = match name.as_str() {
        "tasks" => |told| match &told.calls {
            Some(calls) => json!(read(calls).summary()),
            None => json!(summary::tasks(&told.rows, &told.more)),
        },
        "actors" => |told| json!(summary::actors(&told.rows)),
        "objects" => |told| json!(summary::objects(&told.rows, told.total)),
        _ => {
            let text =
                format!("There is no summary of {name:?}, only of tasks, actors and objects.");
            return reply::enveloped_refusal(&Refusal::missing(text));
        }
    };
    let query = query.unwrap_or_default();
    if let Err(refusal) = check_summary_by(&name, &query) {
        return reply::enveloped_refusal(&refusal);
    }
    let told = match (Resource::named(&name), age_of(&query)) {
        (Some(resource), Ok(age)) => app.answers.rows_of_age(&app, resource, age).await,
        (None, _) => Err(Refusal::missing("no such resource")),
        (_, Err(refusal)) => Err(refusal),
    };
    match told {
        Ok(told) => {
            let cluster = app.changes.counted(|| of(&told));
            reply::enveloped(Summarized {
                total: told.total,
                num_after_truncation: told.len() as u64,
                num_filtered: told.total,
                result: ByNode { node_id_to_summary: WholeCluster { cluster } },
                partial_failure_warning: warning(&told),
                warnings: None,
            })
        }
        Err(refusal) => reply::enveloped_refusal(&refusal),
    }
}

/// Refuses another grouping than the only one of each resource.
fn check_summary_by(name: &str, query: &str) -> Result<(), Refusal> {
    let only = match name {
        "tasks" => "func_name",
        "actors" => "class",
        _ => "callsite",
    };
    match Fields::parse(query).get("summary_by") {
        Some(other) if other != only => {
            Err(Refusal::bad(format!("`summary_by` of {name} is {only}, not {other:?}.")))
        }
        _ => Ok(()),
    }
}

/// `GET /api/v0/tasks/timeline`: what ran when, for a viewer of traces.
pub(crate) async fn timeline(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Reply, Refusal> {
    let fields = Fields::parse(&query.unwrap_or_default());
    let (job, is_download) = (fields.job_id()?, fields.says("download")?);
    let tasks = app.answers.rows(&app, Resource::Tasks).await?;
    let nodes = app.answers.rows(&app, Resource::Nodes).await?;
    let of_job = |row: &&Row| job.is_none_or(|job| row["job_id"].as_str() == Some(&job.hex()));
    let latest = tasks
        .latest(TRACED_MAX, |call| call.times_us().0 > 0 && (job.is_none() || call.job() == job));
    let rows: Vec<Row> = latest.iter().filter(of_job).cloned().collect();
    let events = trace::chrome(&rows, &nodes.rows, app.now_ms() * 1000);
    let mut reply = reply::json(&events);
    if is_download {
        let name = header::HeaderValue::from_static("attachment; filename=\"timeline.json\"");
        reply.headers_mut().insert(header::CONTENT_DISPOSITION, name);
    }
    Ok(reply)
}

/// `GET /api/v0/tasks/activity?since=…&job_id=…&most=…`: what runs and what ended since then, in milliseconds since 1970.
pub(crate) async fn activity(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Reply, Refusal> {
    let query = query.unwrap_or_default();
    let age = age_of(&query)?;
    let fields = Fields::parse(&query);
    let job = fields.job_id()?;
    let since = fields.get("since").map_or(Ok(0), |text| {
        let wrong = |_| Refusal::bad(format!("`since` is milliseconds since 1970, not {text:?}."));
        text.parse().map_err(wrong)
    })?;
    let max = activity::BARS_MAX;
    let most = fields.get("most").map_or(Ok(max), |text| {
        let wrong =
            || Refusal::bad(format!("`most` is a number of calls up to {max}, not {text:?}."));
        text.parse().ok().filter(|most| *most <= max).ok_or_else(wrong)
    })?;
    let tasks = app.answers.calls(&app, age).await?;
    let now = app.now_ms();
    Ok(app.changes.counted(|| {
        let none = Calls::default();
        let calls = tasks.calls.as_ref().map(read);
        reply::json(&activity::bars(calls.as_deref().unwrap_or(&none), since, job, most, now))
    }))
}

/// `GET /api/v0/tasks/errors`: what has failed, grouped by function and error.
pub(crate) async fn errors(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Reply, Refusal> {
    let age = age_of(&query.unwrap_or_default())?;
    let tasks = app.answers.calls(&app, age).await?;
    Ok(reply::json(&app.changes.counted(|| activity::errors(&tasks.failed(FAILED_MAX)))))
}

/// `GET /api/v0/cluster_metadata`.
pub(crate) async fn metadata(State(app): State<Arc<App>>) -> Reply {
    let history = app.asker.past().map(|past| PastOfCluster {
        begun_ms: past.begun_ms,
        ended_ms: past.ended_ms,
        release: past.about.release.clone(),
        notes: past.notes.clone(),
    });
    reply::json(&Envelope::of(ClusterMetadata {
        ray_version: helio_config::ray_version!(),
        heliostat_version: env!("CARGO_PKG_VERSION"),
        now_ms: app.now_ms(),
        session_name: app.session_name.clone(),
        ray_init_cluster: Map::new(),
        history,
    }))
}

/// `GET /nodes`: how each node is.
pub(crate) async fn nodes(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Reply, Refusal> {
    let nodes = app.answers.nodes(&app).await?;
    let fields = Fields::parse(&query.unwrap_or_default());
    let view = fields.get("view").unwrap_or("summary").to_lowercase();
    match view.as_str() {
        "summary" => {
            let of = |node: &NodeInfo| (node.address.node_id.hex(), usage(node));
            Ok(reply::json(&Envelope::of(Machines {
                summary: nodes.nodes.iter().map(node).collect(),
                node_logical_resources: nodes.nodes.iter().map(of).collect(),
            })))
        }
        "hostnamelist" => {
            let alive = nodes.nodes.iter().filter(|node| node.alive);
            let host_name_list = alive.map(|node| node.hostname.clone()).collect();
            Ok(reply::json(&Envelope::of(HostNames { host_name_list })))
        }
        other => Err(Refusal::bad(format!("`view` is summary or hostNameList, not {other:?}."))),
    }
}

/// `GET /nodes/{id}`.
pub(crate) async fn one_node(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Reply, Refusal> {
    let nodes = app.answers.nodes(&app).await?;
    let found = nodes.nodes.iter().find(|node| node.address.node_id.hex() == id);
    let found = found.ok_or_else(|| Refusal::missing(format!("There is no node {id}.")))?;
    Ok(reply::json(&Envelope::of(OneMachine { detail: node(found) })))
}

fn amounts(set: &ResourceSet) -> BTreeMap<String, f64> {
    set.iter().map(|(name, quantity)| (name.to_owned(), quantity.to_f64())).collect()
}

fn node(info: &NodeInfo) -> Machine {
    let gpus = info.gpus.iter().map(|gpu| Gpu {
        index: gpu.index,
        name: gpu.name.clone(),
        utilization_gpu: gpu.has_utilization.then_some(gpu.utilization),
        memory_used: gpu.memory_used >> 20,
        memory_total: gpu.memory_total >> 20,
    });
    Machine {
        hostname: info.hostname.clone(),
        ip: info.address.host.clone(),
        name: info.name.clone(),
        gpus: gpus.collect(),
        workers: info.workers,
        raylet: Raylet {
            node_id: info.address.node_id.hex(),
            node_manager_address: info.address.host.clone(),
            node_manager_hostname: info.hostname.clone(),
            node_manager_port: info.address.port,
            pid: info.pid,
            state: if info.alive { "ALIVE" } else { "DEAD" },
            state_message: info.cause.to_string(),
            is_head_node: info.is_head,
            object_store_used_memory: info.object_store_used,
            resources_total: amounts(&without_bundles(&info.total)),
            resources_available: amounts(&without_bundles(&info.available)),
            labels: info
                .labels
                .iter()
                .map(|label| (label.key.clone(), label.value.clone()))
                .collect(),
        },
    }
}

/// Used and all of each resource of a node.
fn usage(info: &NodeInfo) -> Usage {
    let one = |(name, all): (&str, helio_types::resources::Quantity)| {
        let used = match name {
            "object_store_memory" => info.object_store_used as f64,
            _ => all.to_f64() - info.available.get(name).to_f64(),
        };
        (name.to_owned(), (used, all.to_f64()))
    };
    without_bundles(&info.total).iter().map(one).collect()
}

/// `GET /api/cluster_status`: what `status` shows, and the same as numbers.
pub(crate) async fn cluster_status(State(app): State<Arc<App>>) -> Result<Reply, Refusal> {
    let told = app.answers.nodes(&app).await?;
    let (nodes, pending) = (&told.nodes, &told.pending);
    let alive: Vec<&NodeInfo> = nodes.iter().filter(|node| node.alive).collect();
    let mut sums = Usage::new();
    for node in &alive {
        let own = without_bundles(&node.total);
        for (name, all) in own.iter().filter(|(name, _)| !name.starts_with("node:")) {
            let free = match name {
                "object_store_memory" => all.to_f64() - node.object_store_used as f64,
                _ => node.available.get(name).to_f64(),
            };
            let sum = sums.entry(name.to_owned()).or_default();
            *sum = (sum.0 + all.to_f64() - free, sum.1 + all.to_f64());
        }
    }
    let waiting = alive.iter().flat_map(|node| &node.pending).chain(pending);
    let demand = waiting.map(|demand| WaitingDemand {
        resources: amounts(&as_asked(&demand.resources)),
        count: demand.count,
        why: demand.why.clone(),
    });
    let failed = nodes.iter().filter(|node| !node.alive);
    let failed = failed.map(|node| (node.address.host.clone(), node.cause.to_string()));
    let cluster_status = LoadAndNodes {
        load_metrics_report: LoadMetricsReport { usage: sums, resource_demand: demand.collect() },
        autoscaler_report: AutoscalerReport {
            active_nodes: alive.len() as u64,
            failed_nodes: failed.collect(),
        },
    };
    let data = ClusterStatus { autoscaling_status: None, autoscaling_error: None, cluster_status };
    Ok(reply::json(&Envelope::saying("Got cluster status.", data)))
}

/// `GET /logical/actors?ids=…,…`: actors by id, all unless some are named.
pub(crate) async fn actors(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Reply, Refusal> {
    let fields = Fields::parse(&query.unwrap_or_default());
    let ids: Option<Vec<&str>> = fields.get("ids").map(|ids| ids.split(',').collect());
    let told = app.answers.rows(&app, Resource::Actors).await?;
    let nodes = app.answers.rows(&app, Resource::Nodes).await?;
    let text = |row: &Row, name: &str| {
        row.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let hosts: BTreeMap<String, String> =
        nodes.rows.iter().map(|row| (text(row, "node_id"), text(row, "node_ip"))).collect();
    let one = |row: &Row| {
        let actor = LogicalActor {
            actor_id: text(row, "actor_id"),
            job_id: row["job_id"].clone(),
            actor_class: row["class_name"].clone(),
            state: row["state"].clone(),
            name: row["name"].clone(),
            pid: row["pid"].clone(),
            num_restarts: row["num_restarts"].clone(),
            required_resources: row["required_resources"].clone(),
            address: ActorAddress {
                raylet_id: row["node_id"].clone(),
                ip_address: hosts.get(&text(row, "node_id")).cloned(),
            },
            why: row["why"].clone(),
        };
        (actor.actor_id.clone(), actor)
    };
    let is_wanted =
        |row: &&Row| ids.as_ref().is_none_or(|ids| ids.contains(&text(row, "actor_id").as_str()));
    let data = LogicalActors { actors: told.rows.iter().filter(is_wanted).map(one).collect() };
    Ok(reply::json(&Envelope::saying("All actors fetched.", data)))
}
