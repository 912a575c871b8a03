//! The head's HTTP server: health, and what a browser and Ray's own clients ask for.
//!
//! The server runs on a thread of the head's daemon and is an ordinary client of the cluster: it asks the node's
//! daemon through its socket ([`helio_observer::Asker`]) and knows nothing by itself.
//!
//! Reading order: [`access`] and [`login`] (who may ask), [`server`] (connections), [`jobs`] and [`packages`]
//! (what runs on the head), then one file a group of routes.
//!
//! Start: the daemon binds the listener ([`listen`]) before it says that it is ready, so that the address
//! is known; [`start`] serves on a thread of its own. End: [`Handle::stop`].

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod access;
mod activity;
mod answers;
mod autoscaler_routes;
mod changes_route;
mod discovery;
mod drivers;
mod events_route;
mod export;
mod fields;
mod filter;
mod gate;
mod health;
mod job_routes;
mod jobs;
mod log_lines;
mod log_routes;
mod login;
mod login_page;
mod order;
mod packages;
mod page;
mod page_routes;
mod parameters;
mod past;
mod past_routes;
mod patience;
mod reply;
mod serve_routes;
mod server;
mod stack_routes;
mod state_routes;
mod told_routes;
mod train_routes;

use std::io;
use std::net::{IpAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::{MethodRouter, get, post, put};
use helio_observer::history::{self, About, Recorded, Recorder};
use helio_observer::{Asker, Mirror};
use helio_rpc::http::Entrance;
use helio_storage::outside::Copies;
use tokio::sync::oneshot;

use crate::jobs::{Jobs, Surroundings};
use crate::packages::Packages;
use crate::past::Past;

pub use export::Export;
pub use jobs::end_jobs_of;
pub use jobs::entry::watch_entry_point;
pub use login::link_key;

/// Number of further ports that are tried when the usual one is taken.
const PORTS_TRIED: u16 = 50;

/// Time that the thread may take to end.
const END_MAX: Duration = Duration::from_secs(2);

/// The options of a server of a running cluster.
#[derive(Debug)]
pub struct Options {
    /// The socket on which the server listens, from [`listen`].
    pub listener: TcpListener,
    /// The cluster's token.
    pub token: String,
    /// Host names by which browsers may ask, besides `localhost`, addresses and this machine's name.
    pub names: Vec<String>,
    /// The session's name.
    pub session_name: String,
    /// The session's folder.
    pub session_dir: PathBuf,
    /// The packages of that folder, where another head finds them; `None`: it is not to.
    pub packages: Option<Copies>,
    /// Copies of the logs of jobs where another head finds them; `None`: it is not to.
    pub job_logs: Option<Copies>,
    /// The socket of the head's node.
    pub node_socket: PathBuf,
    /// The id of the head's node, in hex.
    pub node_id: String,
    /// The address at which a browser on this machine finds this server: `host:port`.
    pub address: String,
    /// The control service's `host:port`, for what jobs start.
    pub control_address: String,
    /// The cluster's interpreter.
    pub python: PathBuf,
    /// Time between SIGTERM and SIGKILL for a job that is stopped.
    pub job_grace: Duration,
    /// The export of the cluster's events; `None`: there is none.
    pub export: Option<Export>,
    /// Whether requests have to be encrypted.
    pub entrance: Entrance,
    /// The folder of the cluster's history; `None`: none is written.
    pub history: Option<PathBuf>,
}

/// The options of a server of a cluster that is gone.
#[derive(Debug)]
pub struct PastOptions {
    /// The socket on which the server listens, from [`listen`].
    pub listener: TcpListener,
    /// The token that lets browsers and programs in.
    pub token: String,
    /// The address at which a browser on this machine finds this server: `host:port`.
    pub address: String,
    /// The rows of the history.
    pub recorded: Recorded,
    /// The folder of the figures of the cluster's machines; `None`: they are not kept.
    pub figures: Option<PathBuf>,
    /// A folder of this server's own.
    pub own_dir: PathBuf,
}

/// Opens the listener; where `may_move`, the next free port is taken when this one is not free.
///
/// # Errors
/// A sentence for the user: the host is not this machine's, or the port is taken.
pub fn listen(host: &str, port: u16, may_move: bool) -> Result<TcpListener, String> {
    let name = if host == "localhost" { "127.0.0.1" } else { host };
    let ip: IpAddr =
        name.parse().map_err(|_| format!("`--dashboard-host` {host:?} is not an IP address"))?;
    let last = if may_move { port.saturating_add(PORTS_TRIED) } else { port };
    for port in port..=last {
        match TcpListener::bind((ip, port)) {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && port < last => {}
            Err(error) => {
                return Err(format!(
                    "the dashboard cannot listen on {host}:{port}: {error}. Give another `--dashboard-port`, or \
                     `--include-dashboard=false`."
                ));
            }
        }
    }
    unreachable!("the last port returns")
}

/// The state that all routes share.
#[derive(Debug)]
pub(crate) struct App {
    asker: Asker,
    door: access::Door,
    used_links: Mutex<login::Used>,
    session_name: String,
    /// The head's node, in hex.
    node_id: String,
    address: String,
    jobs: Arc<Jobs>,
    packages: Packages,
    answers: state_routes::Answers,
    /// The calls of the cluster, for those who look.
    mirror: Arc<Mirror>,
    changes: changes_route::Changes,
    drivers: drivers::Drivers,
    /// The past clusters; `None` where their files cannot be had.
    past: Option<Arc<Past>>,
}

impl App {
    /// The time in milliseconds since 1970; of a cluster that is gone when it was heard of last.
    fn now_ms(&self) -> u64 {
        self.asker.past().map_or_else(helio_env::clock::unix_ms, |past| past.ended_ms)
    }
}

/// The handle that ends the server.
#[derive(Debug)]
pub struct Handle {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Handle {
    /// Ends the server: connections are closed.
    pub fn stop(self) {
        // Without a receiver the thread has ended already.
        let _ = self.stop.send(());
        let until = Instant::now() + END_MAX;
        while !self.thread.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Serves on a thread of its own.
///
/// # Errors
/// When the operating system has no thread or descriptor left.
pub fn start(options: Options) -> io::Result<Handle> {
    let (stop, stopped) = oneshot::channel();
    options.listener.set_nonblocking(true)?;
    let port = options.listener.local_addr()?.port();
    let mut names = options.names;
    names.push(helio_env::machine::hostname());
    let packages = Packages::of(&options.session_dir, options.packages);
    let around = Surroundings {
        packages: packages.clone(),
        token: options.token.clone(),
        session_name: options.session_name.clone(),
        control_address: options.control_address,
        node_id: options.node_id.clone(),
        grace: options.job_grace,
        python: options.python,
        session_dir: options.session_dir.clone(),
    };
    let drivers = drivers::Drivers::new(&around);
    let jobs = Arc::new(Jobs::open(&options.session_dir, options.job_logs, around)?);
    let past = Past::open(&options.session_dir)
        .inspect_err(|error| tracing::warn!(%error, "what the cluster uses is not kept"));
    let past = past.ok().map(Arc::new);
    let mirror = Arc::new(Mirror::default());
    let about = About {
        session_name: options.session_name.clone(),
        release: env!("CARGO_PKG_VERSION").to_owned(),
        node_id: options.node_id.clone(),
    };
    let place = options.history.as_deref().map(|folder| (folder, about));
    let recorder = Recorder::new(
        Asker::new(&options.node_socket, &options.token).keeping(),
        Arc::clone(&mirror),
        place,
    );
    let app = App {
        asker: Asker::new(&options.node_socket, &options.token).keeping(),
        door: access::Door { token: options.token, names, cookie: format!("heliostat-{port}") },
        used_links: Mutex::default(),
        session_name: options.session_name,
        node_id: options.node_id,
        address: options.address,
        jobs: Arc::clone(&jobs),
        packages,
        answers: state_routes::Answers::new(),
        mirror,
        changes: changes_route::Changes::new(),
        drivers,
        past: past.clone(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (asker, address) = (app.asker.clone(), app.address.clone());
    let mut exporter = options.export.map(|export| {
        export.begin(asker.clone(), &app.session_name, &app.node_id, &options.session_dir)
    });
    let session_dir = options.session_dir;
    let (listener, entrance) = (options.listener, options.entrance);
    let recording = record(recorder)?;
    let run = move || {
        runtime.block_on(async move {
            // It ends with this.
            let _recording = recording;
            let listener = match tokio::net::TcpListener::from_std(listener) {
                Ok(listener) => listener,
                Err(error) => return tracing::error!(%error, "the HTTP server cannot listen"),
            };
            tracing::info!(port, "serving HTTP");
            jobs.resume();
            if let Some(past) = past {
                tokio::spawn(past.keep(asker.clone()));
            }
            tokio::spawn(discovery::keep_file(asker.clone(), session_dir));
            tokio::spawn(Arc::clone(&jobs).publish(asker, address));
            let exporting = async {
                match &mut exporter {
                    Some(exporter) => exporter.keep().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = server::serve(listener, router(Arc::new(app)), entrance) => {}
                () = exporting => {}
                _ = stopped => {}
            }
            if let Some(exporter) = &mut exporter {
                exporter.end().await;
            }
        });
        // Work on other threads that still runs (a file being unpacked) is not waited for.
        runtime.shutdown_background();
    };
    let thread = std::thread::Builder::new().name("dashboard".to_owned()).spawn(run)?;
    Ok(Handle { stop, thread })
}

/// Keeps the cluster's history and the calls that pages see, on a thread of its own: what ten thousand processes tell at once is
/// read and written there while requests are answered. It ends when what this returns is dropped.
fn record(recorder: Recorder) -> io::Result<oneshot::Sender<()>> {
    let (end, ended) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let run = move || {
        runtime.block_on(async move {
            tokio::select! {
                () = history::keep(recorder) => {}
                _ = ended => {}
            }
        });
    };
    std::thread::Builder::new().name("history".to_owned()).spawn(run)?;
    Ok(end)
}

/// Serves the page of a cluster that is gone, on a thread of its own.
///
/// # Errors
/// When the operating system has no thread or descriptor left, or the folder cannot be written.
pub fn start_past(options: PastOptions) -> io::Result<Handle> {
    let (stop, stopped) = oneshot::channel();
    options.listener.set_nonblocking(true)?;
    let port = options.listener.local_addr()?.port();
    let about = options.recorded.about.clone();
    let packages = Packages::of(&options.own_dir, None);
    let around = Surroundings {
        packages: packages.clone(),
        token: options.token.clone(),
        session_name: about.session_name.clone(),
        control_address: String::new(),
        node_id: about.node_id.clone(),
        grace: Duration::ZERO,
        python: PathBuf::new(),
        session_dir: options.own_dir.clone(),
    };
    let app = App {
        drivers: drivers::Drivers::new(&around),
        jobs: Arc::new(Jobs::open(&options.own_dir, None, around)?),
        asker: Asker::of_past(Arc::new(options.recorded)),
        door: access::Door {
            token: options.token,
            names: vec![helio_env::machine::hostname()],
            cookie: format!("heliostat-{port}"),
        },
        used_links: Mutex::default(),
        session_name: about.session_name,
        node_id: about.node_id,
        address: options.address,
        packages,
        answers: state_routes::Answers::new(),
        mirror: Arc::default(),
        changes: changes_route::Changes::new(),
        past: options.figures.and_then(|folder| Past::read(&folder).ok()).map(Arc::new),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = options.listener;
    let run = move || {
        runtime.block_on(async move {
            let listener = match tokio::net::TcpListener::from_std(listener) {
                Ok(listener) => listener,
                Err(error) => return tracing::error!(%error, "the HTTP server cannot listen"),
            };
            let entrance = Entrance { identity: None, may_be_plain: true };
            tokio::select! {
                () = server::serve(listener, router(Arc::new(app)), entrance) => {}
                _ = stopped => {}
            }
        });
        runtime.shutdown_background();
    };
    let thread = std::thread::Builder::new().name("history".to_owned()).spawn(run)?;
    Ok(Handle { stop, thread })
}

fn any_of_serve() -> MethodRouter<Arc<App>> {
    get(serve_routes::applications)
        .put(serve_routes::applications)
        .delete(serve_routes::applications)
}

fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(page_routes::index))
        .route("/static/{name}", get(page_routes::part))
        .route("/login", get(login_page::show).post(login_page::take))
        .route("/api/authentication_mode", get(health::authentication_mode))
        .route("/api/healthz", get(health::both))
        .route("/api/gcs_healthz", get(health::control))
        .route("/api/local_raylet_healthz", get(health::node))
        .route("/api/version", get(health::version))
        .route("/api/ray/version", get(health::version))
        .route("/api/jobs", get(job_routes::list).post(job_routes::submit))
        .route("/api/jobs/", get(job_routes::list).post(job_routes::submit))
        .route("/api/jobs/{id}", get(job_routes::show).delete(job_routes::delete))
        .route("/api/jobs/{id}/stop", post(job_routes::stop))
        .route("/api/jobs/{id}/logs", get(job_routes::logs))
        .route("/api/jobs/{id}/logs/tail", get(job_routes::tail))
        .route(
            "/api/packages/{protocol}/{name}",
            get(job_routes::has_package).put(job_routes::put_package),
        )
        .route("/api/v0/logs", get(log_routes::list))
        .route("/api/v0/logs/search", get(log_routes::search))
        .route("/api/v0/logs/{media}", get(log_routes::read))
        .route("/api/v0/cluster_metadata", get(state_routes::metadata))
        .route("/api/v0/tasks/timeline", get(state_routes::timeline))
        .route("/api/v0/tasks/activity", get(state_routes::activity))
        .route("/api/v0/tasks/errors", get(state_routes::errors))
        .route("/api/v0/stacks/{node}/{pid}", get(stack_routes::stacks))
        .route("/api/v0/changes", get(changes_route::changes))
        .route("/api/v0/datasets", get(told_routes::datasets))
        .route("/api/v0/tuning", get(told_routes::tuning))
        .route("/api/v0/serving", get(told_routes::serving))
        .route("/api/v0/training", get(train_routes::told))
        .route("/api/v0/training/{run}/curves", get(train_routes::curves))
        .route("/api/v0/metrics/past", get(past_routes::past))
        .route("/api/v0/metrics/machines", get(past_routes::machines))
        .route("/api/v0/{resource}", get(state_routes::list))
        .route("/api/v0/{resource}/summarize", get(state_routes::summarize))
        .route("/events", get(events_route::events))
        .route("/timezone", get(events_route::timezone))
        .route("/api/autoscaler/state", get(autoscaler_routes::state))
        .route("/api/autoscaler/report", put(autoscaler_routes::report))
        .route("/api/autoscaler/drain", post(autoscaler_routes::drain))
        .route("/api/cluster_status", get(state_routes::cluster_status))
        .route("/api/prometheus/sd", get(discovery::targets_now))
        .route("/api/serve/applications", any_of_serve())
        .route("/api/serve/applications/", any_of_serve())
        .route(
            "/api/v1/applications/{application}/deployments/{deployment}/scale",
            post(serve_routes::scale),
        )
        .route("/api/train/v2/runs/v1", get(train_routes::runs))
        .route("/logical/actors", get(state_routes::actors))
        .route("/nodes", get(state_routes::nodes))
        .route("/nodes/{id}", get(state_routes::one_node))
        .fallback(gate::nothing_here)
        .method_not_allowed_fallback(gate::wrong_method)
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&app), gate::keep))
        .with_state(app)
}
