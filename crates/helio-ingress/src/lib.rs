//! The HTTP server of Serve: a process of its own on a node, without Python.
//!
//! Reading order: [`table`] (routes, which replica is next, who waits), [`link`] (the connection to a
//! replica), [`connection`] and [`client`] (the connection of a client), [`body`] and [`headers`] of a request, [`ask`] (one request to
//! replicas), and by protocol [`forward`], [`websocket`], [`grpc`]; [`spans`] (traces), [`control`] (what the controller says). All of it is one thread: counts are plain numbers.
//!
//! Start: it listens, prints a line of JSON with its ports or with what went wrong, and serves. End: the
//! controller says so, or the node's daemon has ended ([`daemon`]).
//!
//! **LIMIT-1** [`CONNECTIONS_MAX`] connections at a time, further ones wait to be accepted; a request's head
//! has [`HEAD_BYTES_MAX`] bytes at most and arrives within the keep-alive time.

#![forbid(unsafe_code)]

mod answer;
mod ask;
mod body;
mod client;
mod connection;
mod control;
mod crowd;
mod daemon;
mod fault;
mod forward;
mod grpc;
mod grpc_status;
mod headers;
mod link;
mod reflection;
mod spans;
mod streams;
mod table;
mod websocket;

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use helio_tls::{Public, PublicFiles};
use serde_json::{Value, json};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Notify, Semaphore};
use tokio::task::LocalSet;

use crate::crowd::Crowd;
use crate::grpc::Methods;
use crate::spans::Spans;
use crate::table::Table;

const CONNECTIONS_MAX: usize = 16384;
/// Descriptors that no client gets: the listeners, the controller's line, links to replicas.
const DESCRIPTORS_KEPT: usize = 1024;
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Pause when the operating system refuses to accept (no descriptors left).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Connections that the system holds until they are accepted.
const BACKLOG: u32 = 4096;

/// The options of the ingress.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address for HTTP.
    pub host: String,
    /// 0: any.
    pub port: u16,
    /// The port for gRPC, if it is served besides.
    pub grpc_port: Option<u16>,
    /// The certificate of the HTTP port; `None`: it speaks in the clear.
    pub tls: Option<PublicFiles>,
    /// The socket for the controller.
    pub control_socket: PathBuf,
    /// The file that the node's daemon has written its process id to and keeps locked.
    pub daemon_pid_file: PathBuf,
    /// Whether a daemon that was killed may have a successor, which finds this ingress.
    pub daemon_may_return: bool,
    /// The cluster's token, for replicas.
    pub token: String,
    /// Time that a connection may be idle.
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
    /// The time since which the node has no daemon.
    daemon_gone: Cell<Option<Instant>>,
    /// Time to wait for a client that neither sends nor takes what it should.
    silence: Duration,
    crowd: Crowd,
    methods: RefCell<Rc<Methods>>,
    spans: Spans,
}

/// A port, and what is spoken there.
#[derive(Debug)]
pub(crate) struct Door {
    tls: Option<Public>,
    /// Whether it takes nothing but gRPC.
    is_for_grpc: bool,
}

impl Shared {
    fn update(&self, said: &Value) {
        self.request_timeout.set(seconds(&said["options"]["request_timeout_s"]));
        *self.methods.borrow_mut() = Rc::new(Methods::read(&said["options"]["grpc"]));
        self.spans.update(&said["options"]["traced"]);
        self.table.update(said, &self.token);
        self.is_told.set(true);
        self.had_routes.set(self.had_routes.get() || !self.table.routes().is_empty());
    }
}

/// A time that the controller said.
pub(crate) fn seconds(said: &Value) -> Option<Duration> {
    said.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

/// The ports that are listened at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    /// The port of HTTP.
    pub http: u16,
    /// The port of gRPC, if one was asked for.
    pub grpc: Option<u16>,
}

/// Serves until the controller or the daemon ends it; `ready` is told the ports.
///
/// # Errors
/// A sentence for the user: a port is taken, a file of TLS is of no use, or the system has no descriptors left.
pub fn run(options: &Options, ready: impl FnOnce(Ports)) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let local = LocalSet::new();
    local.block_on(&runtime, serve(options, ready))
}

async fn serve(options: &Options, ready: impl FnOnce(Ports)) -> Result<(), String> {
    let connections_max = raise_descriptor_limit();
    let tls =
        options.tls.clone().map(Public::load).transpose().map_err(|error| error.to_string())?;
    let listen = |port, option| {
        let listener =
            listen(&options.host, port).and_then(|one| Ok((one.local_addr()?.port(), one)));
        listener.map_err(|error| {
            format!(
                "Serve cannot listen on {}:{port}: {error}. Name another port: \
                 serve.start({option}={{\"port\": …}}).",
                options.host
            )
        })
    };
    let (port, listener) = listen(options.port, "http_options")?;
    let for_grpc = options.grpc_port.map(|port| listen(port, "grpc_options")).transpose()?;
    let ports = Ports { http: port, grpc: for_grpc.as_ref().map(|(port, _)| *port) };
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
        methods: RefCell::default(),
        spans: Spans::default(),
    });
    let stop = Rc::new(Notify::new());
    ready(ports);
    let room = Arc::new(Semaphore::new(connections_max));
    let http = Rc::new(Door { tls, is_for_grpc: false });
    if let Some((_, listener)) = for_grpc {
        let door = Rc::new(Door { tls: None, is_for_grpc: true });
        tokio::task::spawn_local(accept(Rc::clone(&shared), door, listener, Arc::clone(&room)));
    }
    tokio::select! {
        () = control::listen(Rc::clone(&shared), control, Rc::clone(&stop)) => {}
        () = accept(Rc::clone(&shared), http, listener, room) => {}
        () = stop.notified() => {}
        () = daemon::ended(&shared, &options.daemon_pid_file, options.daemon_may_return) => {}
    }
    let _ = std::fs::remove_file(&options.control_socket);
    Ok(())
}

fn listen(host: &str, port: u16) -> io::Result<TcpListener> {
    let name = if host == "localhost" { "127.0.0.1" } else { host };
    let ip: IpAddr = name.parse().map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidInput, "the host is not an IP address")
    })?;
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

/// Raises the limit of descriptors, of which each client takes one. Returns the number of clients
/// that there may be.
fn raise_descriptor_limit() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Where it cannot be raised, fewer clients are served at a time.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let most = getrlimit(Resource::Nofile).current.map_or(u64::MAX, |most| most);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    most.saturating_sub(DESCRIPTORS_KEPT).max(most / 2).min(CONNECTIONS_MAX)
}

async fn accept(shared: Rc<Shared>, door: Rc<Door>, listener: TcpListener, room: Arc<Semaphore>) {
    loop {
        // Room first: a connection that is not accepted yet waits in the kernel, and costs nothing here.
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let (shared, door) = (Rc::clone(&shared), Rc::clone(&door));
                tokio::task::spawn_local(async move {
                    shared.crowd.come();
                    connection::serve(Rc::clone(&shared), door, stream, peer).await;
                    if shared.crowd.go() {
                        helio_store::heap::give_back();
                    }
                    drop(permit);
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Returns the one line that a starter reads.
#[must_use]
pub fn ready_line(outcome: Result<Ports, &str>) -> String {
    match outcome {
        Ok(Ports { http, grpc }) => json!({ "port": http, "grpc_port": grpc }).to_string(),
        Err(error) => json!({ "error": error }).to_string(),
    }
}
