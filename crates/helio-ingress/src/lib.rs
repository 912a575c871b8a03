//! The HTTP server of Serve: a process of its own on a node, without Python.
//!
//! Reading order: [`table`] (routes, which replica is next, who waits), [`link`] (the connection to a
//! replica), [`client`], [`forward`] (one request), [`websocket`], [`control`] (what the controller says). All of it is one thread:
//! counts are plain numbers.
//!
//! Start: it listens, prints a line of JSON with its port or with what went wrong, and serves. End: the
//! controller says so, or the node's daemon has ended ([`daemon`]).
//!
//! **LIMIT-1** [`CONNECTIONS_MAX`] connections at a time, further ones wait to be accepted; a request's head
//! has [`HEAD_BYTES_MAX`] bytes at most and arrives within the keep-alive time.

#![forbid(unsafe_code)]

mod answer;
mod client;
mod control;
mod crowd;
mod daemon;
mod forward;
mod link;
mod table;
mod websocket;

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{Notify, Semaphore};
use tokio::task::LocalSet;

use crate::client::{Client, Heads};
use crate::crowd::Crowd;
use crate::forward::Ends;
use crate::table::Table;

const CONNECTIONS_MAX: usize = 16384;
/// Descriptors that no client gets: the listeners, the controller's line, links to replicas.
const DESCRIPTORS_KEPT: usize = 1024;
const HEAD_BYTES_MAX: usize = 64 << 10;
/// How long to wait when the operating system refuses to accept (no descriptors left).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Connections that the system holds until they are accepted.
const BACKLOG: u32 = 4096;

/// What the ingress is started with.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it listens for HTTP.
    pub host: String,
    /// 0: any.
    pub port: u16,
    /// Where it listens for the controller.
    pub control_socket: PathBuf,
    /// The file that the node's daemon has written its process id to and keeps locked.
    pub daemon_pid_file: PathBuf,
    /// Whether a daemon that was killed may have a successor, which finds this ingress.
    pub daemon_may_return: bool,
    /// The cluster's token, for replicas.
    pub token: String,
    /// How long a connection may be idle.
    pub keep_alive: Duration,
}

#[derive(Debug)]
pub(crate) struct Shared {
    table: Table,
    token: Rc<str>,
    request_timeout: Cell<Option<Duration>>,
    /// Whether the controller has said which routes there are.
    is_told: Cell<bool>,
    /// Whether there ever was a route: until then this server is not ready.
    had_routes: Cell<bool>,
    /// Since when the node has no daemon.
    daemon_gone: Cell<Option<Instant>>,
    /// How long is waited for a client that neither sends nor takes what it should.
    silence: Duration,
    crowd: Crowd,
}

impl Shared {
    fn update(&self, said: &Value) {
        let timeout = said["options"]["request_timeout_s"].as_f64();
        self.request_timeout
            .set(timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()));
        self.table.update(said, &self.token);
        self.is_told.set(true);
        self.had_routes.set(self.had_routes.get() || !self.table.routes().is_empty());
    }
}

/// Serves until the controller or the daemon ends it; `ready` is told the port.
///
/// # Errors
/// A sentence for the user: the port is taken, or the system has no descriptors left.
pub fn run(options: &Options, ready: impl FnOnce(u16)) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let local = LocalSet::new();
    local.block_on(&runtime, serve(options, ready))
}

async fn serve(options: &Options, ready: impl FnOnce(u16)) -> Result<(), String> {
    let connections_max = raise_descriptor_limit();
    let listener = listen(&options.host, options.port).map_err(|error| {
        format!(
            "Serve cannot listen on {}:{}: {error}. Name another port: \
             serve.start(http_options={{\"port\": …}}).",
            options.host, options.port
        )
    })?;
    let port = listener.local_addr().map_err(|error| error.to_string())?.port();
    let _ = std::fs::remove_file(&options.control_socket);
    let control = UnixListener::bind(&options.control_socket)
        .map_err(|error| format!("{}: {error}", options.control_socket.display()))?;
    let shared = Rc::new(Shared {
        table: Table::default(),
        token: options.token.as_str().into(),
        request_timeout: Cell::new(None),
        is_told: Cell::new(false),
        had_routes: Cell::new(false),
        daemon_gone: Cell::new(None),
        silence: options.keep_alive,
        crowd: Crowd::default(),
    });
    let stop = Rc::new(Notify::new());
    ready(port);
    tokio::select! {
        () = control::listen(Rc::clone(&shared), control, Rc::clone(&stop)) => {}
        () = accept(Rc::clone(&shared), listener, connections_max) => {}
        () = stop.notified() => {}
        () = daemon::ended(&shared, &options.daemon_pid_file, options.daemon_may_return) => {}
    }
    let _ = std::fs::remove_file(&options.control_socket);
    Ok(())
}

fn listen(host: &str, port: u16) -> io::Result<TcpListener> {
    let name = if host == "localhost" { "127.0.0.1" } else { host };
    let ip: IpAddr = name
        .parse()
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the host is no IP address"))?;
    let address = SocketAddr::new(ip, port);
    let socket = if address.is_ipv4() {
        tokio::net::TcpSocket::new_v4()?
    } else {
        tokio::net::TcpSocket::new_v6()?
    };
    // A port that the ingress before has just left is free.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Each client is a descriptor: how many of them there may be.
fn raise_descriptor_limit() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Where it cannot be raised, fewer clients are served at a time.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let most = getrlimit(Resource::Nofile).current.map_or(u64::MAX, |most| most);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    most.saturating_sub(DESCRIPTORS_KEPT).max(most / 2).min(CONNECTIONS_MAX)
}

async fn accept(shared: Rc<Shared>, listener: TcpListener, connections_max: usize) {
    let room = Arc::new(Semaphore::new(connections_max));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let shared = Rc::clone(&shared);
                tokio::task::spawn_local(async move {
                    one_client(shared, stream, peer).await;
                    drop(permit);
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn one_client(shared: Rc<Shared>, stream: TcpStream, peer: SocketAddr) {
    let Ok(own) = stream.local_addr() else { return };
    shared.crowd.come();
    // An answer is small and waits for nobody.
    let _ = stream.set_nodelay(true);
    let ends = Rc::new(Ends {
        client: (peer.ip().to_string(), peer.port()),
        server: (own.ip().to_string(), own.port()),
    });
    let silence = shared.silence;
    let heads = Arc::new(Mutex::new(Heads::default()));
    let stream = Client::new(stream, Arc::clone(&heads), silence);
    let service_of = Rc::clone(&shared);
    let service = service_fn(move |request| {
        forward::answer(Rc::clone(&service_of), Rc::clone(&ends), Arc::clone(&heads), request)
    });
    // Who goes away, or speaks something else than HTTP, gets no more.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(silence)
        .max_buf_size(HEAD_BYTES_MAX.max(8192))
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    if shared.crowd.go() {
        helio_store::heap::give_back();
    }
}

/// What a starter reads: one line.
#[must_use]
pub fn ready_line(outcome: Result<u16, &str>) -> String {
    match outcome {
        Ok(port) => json!({ "port": port }).to_string(),
        Err(error) => json!({ "error": error }).to_string(),
    }
}
