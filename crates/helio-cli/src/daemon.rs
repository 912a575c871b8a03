//! The daemon: the node service and, on the head, the control service.
//!
//! Start:
//! 1. the session's folder is made and its lock taken;
//! 2. the node's TCP port is opened, unless the session is one machine's alone (decision 37); the head starts
//!    the control service on a thread of its own and waits until its socket is open; a further node asks the control service for the session's name, so that a wrong address or token is
//!    told at once;
//! 3. the head opens the port of its HTTP server, if it has one;
//! 4. the node service starts on this thread;
//! 5. one line of JSON says so, or at any step says why not, to whoever started the daemon; the HTTP server
//!    serves from then on, on a thread of its own.
//!
//! End, on a signal, at the end of the owning driver, or when the cluster ends: the node service returns
//! after its workers are gone; on the head the control service then tells the other nodes and ends; the
//! sockets and the lock file go. Should the control service fail, the daemon sends itself SIGTERM and so
//! ends in the same order.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use helio_config::control::LATE_NODES_MS;
use helio_config::session::{
    CONTROL_FILE, CONTROL_SOCKET, LOG_FILE, PACKAGES_FOLDER, READY_FILE, START_S_MAX, TOKEN_FILE,
};
use helio_config::table;
use helio_env::logs;
use helio_env::settings::read;
use helio_node::{Ended, Head, Reach};
use helio_storage::outside::Leased;
use helio_storage::{Embedded, Memory, Storage};
use helio_store::heap::{START_SETTLES, give_back_code};
use helio_tls::Identity;
use helio_types::OPEN_TOKEN;
use helio_types::address::host_port;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::afar::Gateway;
use crate::args::{Node, Store, Tls};
use crate::dashboard::{Server, Serving};
use crate::old_sessions::Kept;
use crate::port::Port;
use crate::session::{self, Session};
use crate::{
    afar, authority, control_store, folder, history, kubernetes, names, observer, old_sessions,
    overrides, settings, values,
};

/// How long the control service may take to end after the node has: it may have to wait for nodes that are to be told.
const CONTROL_END_MAX: Duration =
    Duration::from_millis(LATE_NODES_MS).saturating_add(helio_control::FLUSH_MAX);

/// How many descriptors a daemon may have where the system lets it: as many as the gateway's drivers need, and programs that
/// close all they may have do not take long. The default is 1,024.
const DESCRIPTORS: u64 = 65_536;

/// Runs the daemon until it ends.
pub(crate) fn run(args: &Node) -> ExitCode {
    let mut starter = match Starter::new(args.ready_fd) {
        Ok(starter) => starter,
        Err(error) => {
            eprintln!("heliostat: --ready-fd: {error}");
            return ExitCode::FAILURE;
        }
    };
    match start_and_serve(args, &mut starter) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(fatal = true, "{error}");
            // A starter that waits for the line shows the error; without one it goes to standard error.
            if !starter.say(&json!({ "error": error })) {
                eprintln!("heliostat: {error}");
            }
            ExitCode::FAILURE
        }
    }
}

fn start_and_serve(args: &Node, starter: &mut Starter) -> Result<(), String> {
    if starter.is_there() {
        // The call fails when this process leads a session already, which is the aim.
        let _ = rustix::process::setsid();
    }
    if let Some(why) = helio_env::settings::refusal() {
        return Err(why);
    }
    // Each worker is some, each driver outside the cluster ten on the head. With fewer there are fewer of them.
    allow_descriptors();
    if args.ends_with_starter {
        let term = Some(Signal::TERM);
        rustix::process::set_parent_process_death_signal(term).map_err(|error| {
            format!("the end of the starting process cannot be followed: {error}")
        })?;
    }
    let offer = overrides::applied(&args.offer)?;
    let resources =
        offer.resources.as_deref().map(values::resources).transpose()?.unwrap_or_default();
    let mut labels = kubernetes::labels()?;
    labels.extend(offer.labels.as_deref().map(values::labels).transpose()?.unwrap_or_default());
    labels.extend(overrides::labels()?);
    // Only a head may make a new token; a cluster that runs already refuses a node without one.
    let token = match args.head {
        true => helio_env::token::load_or_create(),
        false => helio_env::token::load().map(Option::unwrap_or_default),
    };
    let token = token.map_err(|error| {
        format!(
            "no authentication token: {error}. Name another file that has one with HELIOSTAT_AUTH_TOKEN_PATH, or \
             give the token itself in HELIOSTAT_AUTH_TOKEN."
        )
    })?;
    let mut host = args.host.clone().unwrap_or_else(|| own_ip().to_string());
    let kept = settings::kept_sessions()?;
    // A certificate of no use is told at once, and not when the first machine comes.
    let identity = helio_tls::current().map_err(|error| format!("{error}."))?;
    let temp_dir = folder::temp_dir(offer.temp_dir.as_deref());
    let failed =
        |what: &str, error: std::io::Error| format!("{what} in {}: {error}", temp_dir.display());
    // A session that ends with its driver is the driver's machine's alone, and shows it to nobody.
    let is_local = args.head && args.owner_driver;
    let is_shown = !is_local && args.gateway.is_none();
    if let Some(identity) = identity.as_ref().filter(|_| is_shown) {
        identity.names(&host).map_err(|error| format!("{error}."))?;
    }
    let session = Session::create(&temp_dir, args.session_name.as_deref())
        .map_err(|error| failed("the session's folder cannot be made", error))?;
    logs::start(session.dir.join("logs").join(LOG_FILE));
    logs::log_panics();
    tracing::info!(
        release = env!("CARGO_PKG_VERSION"),
        session = session.name,
        is_head = args.head,
        "daemon starts"
    );
    if token == OPEN_TOKEN {
        tracing::warn!(host, "RAY_AUTH_MODE=disabled: no port of this node asks for a token");
    }
    keep_token(&session.dir, &token).map_err(|error| failed("the token cannot be kept", error))?;
    // On a machine that has joined the link leads to the first of its daemons.
    if args.head || args.gateway.is_none() && !session::is_latest_alive(&temp_dir) {
        session
            .is_latest(&temp_dir)
            .map_err(|error| failed("the link to the latest session cannot be made", error))?;
    }
    let mut cleaner = Cleaner { session: &session, discards: args.session_name.is_none() };
    let mut identity = match args.tls {
        None => identity,
        Some(Tls::Auto) => Some(authority::begin(&session.dir, &token, &host)?),
    };
    let store = control_store::target(&Store::default(), &token)?.filter(|_| args.head);
    if is_local && store.is_some() {
        return Err(format!(
            "{} is refused: this cluster ends with its driver, and so does its state. Unset it, or start the cluster \
             with `{} start --head`.",
            control_store::given(),
            names::command(),
        ));
    }
    // A head that waits has no port: nobody is to take it for the one that leads.
    let store =
        store.map(|target| control_store::open(&target, args, &host, starter)).transpose()?;
    let port = match () {
        () if is_local => Port::name(),
        // Only its own gateway connects.
        () if args.gateway.is_some() => Port::open("127.0.0.1", 0, false),
        () => Port::open(&host, args.port, args.head),
    }?;
    let control_store = store.as_ref().map(Leased::place).unwrap_or_default();
    let copies = |kind, folder| store.as_ref().map(|store| store.copies(kind, folder));
    let packages = copies("packages", session.dir.join(PACKAGES_FOLDER));
    let job_logs = copies("job logs", session.dir.join("logs"));
    let gateway = Gateway::open(args, &host)?;
    let gateway_address = gateway.as_ref().map(|gateway| gateway.address.clone());
    let join =
        |at| afar::join(at, &token, &session.dir, &args.python_version, &port, end_own_process);
    let (guest, guest_node) = args.gateway.as_deref().map(join).transpose()?.unzip();
    if let Some(guest) = &guest {
        host.clone_from(&guest.host);
        if guest.is_by_token {
            identity = Some(authority::begin(&session.dir, &token, &host)?);
        }
    }
    let control = match (&args.address, &guest) {
        (None, None) => {
            Control::start(args, &host, port.number(), &token, identity.clone(), &session, store)?
        }
        (Some(address), _) => Control::elsewhere(address, &token, (&host, port.number()))?,
        (None, Some(head)) => {
            let address = host_port(&head.host, head.port);
            Control::elsewhere(&address, &token, (&host, head.port))?
        }
    };
    let serving = gateway.map(|gateway| {
        gateway.serve(afar::Serving {
            session_dir: &session.dir,
            token: &token,
            identity: identity.clone(),
            host: &host,
            port: port.number(),
            python: &args.python,
        })
    });
    let serving = serving.transpose()?;
    let mut dashboard = Server::open(&args.dashboard, &host)?;
    let job_grace = settings::job_grace()?;
    let may_be_plain = read(&table::DASHBOARD_PLAIN_HTTP)?;
    let history = history::Place::of(&session.dir, &session.name);
    let webui_url = dashboard.as_ref().map(|server| server.url.clone()).unwrap_or_default();
    let control_address = control.address.clone();
    let (moved, moves) = mpsc::channel();
    let options = helio_node::Options {
        host: host.clone(),
        listener: port.listener(),
        num_cpus: offer.num_cpus,
        num_gpus: offer.num_gpus,
        resources,
        labels,
        object_store_memory: offer.object_store_memory,
        store_part: read(&table::DEFAULT_OBJECT_STORE_MEMORY_PROPORTION)?,
        store_max: read(&table::DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES)?,
        memory: offer.memory,
        memory_usage_threshold: read(&table::MEMORY_USAGE_THRESHOLD)?,
        arguments_part: read(&table::MAX_TASK_ARGS_MEMORY_FRACTION)?,
        output_bounds: helio_node::Bounds {
            file_max: read(&table::ROTATION_MAX_BYTES)?,
            backups_max: read(&table::ROTATION_BACKUP_COUNT)?,
            session_max: read(&table::WORKER_OUTPUT_MAX_BYTES)?,
        },
        disk_threshold: read(&table::LOCAL_FS_CAPACITY_THRESHOLD)?,
        spills_max: usize::try_from(read(&table::MAX_IO_WORKERS)?).unwrap_or(usize::MAX),
        room_ms_max: (read(&table::OOM_GRACE_PERIOD_S)? * 1000.0) as u64,
        memory_monitor_refresh_ms: settings::memory_monitor_refresh_ms()?,
        memory_group: helio_env::settings::text(&table::MEMORY_CGROUP).map(Into::into),
        metrics_port: offer.metrics_export_port.or((!is_local && guest.is_none()).then_some(0)),
        agent_port: offer.dashboard_agent_listen_port.filter(|port| *port > 0),
        instance_id: helio_env::settings::text(&table::CLOUD_INSTANCE_ID).unwrap_or_default(),
        session_dir: session.dir.clone(),
        spill_dir: session.spill_dir(offer.object_spilling_directory.as_deref())?,
        packages: packages.clone(),
        session_name: control.session_name.clone(),
        temp_dir: temp_dir.clone(),
        python: args.python.clone(),
        package_path: None,
        token: token.clone(),
        identity: identity.clone(),
        control: control.reach.clone(),
        head: Arc::new(Head::new(moved)),
        control_address: control_address.clone(),
        headless_ms_max: match &guest {
            // The gateway decides when it is over.
            Some(guest) => u64::try_from(guest.grace.as_millis()).unwrap_or(u64::MAX),
            None => settings::headless_ms_max()?,
        },
        preemption_grace_ms: settings::preemption_grace_ms()?,
        owner_driver: args.owner_driver,
        node_name: offer.node_name.clone().unwrap_or_default(),
        is_head: args.head,
        guest: guest_node.clone(),
    };
    // Where drivers look that only know the address: nobody can be asked for it at a port.
    let usual = folder::temp_dir(None);
    let link = (is_local && usual != temp_dir)
        .then(|| usual.join(session.dir.file_name().unwrap_or_default()));
    if link.is_some()
        && let Err(error) = folder::link_from(&usual, &session.dir)
    {
        tracing::warn!(dir = %usual.display(), %error, "no link to the session");
    }
    let announced = Announced::new(&session.dir, &temp_dir, moves);
    let mut is_ready = false;
    let mut served = None;
    let mut serve = || {
        helio_node::run(options.clone(), |ready| {
            let line = json!({
                "session_dir": session.dir,
                "session_name": control.session_name,
                "node_id": ready.node_id.hex(),
                "host": host,
                "port": ready.port,
                "control_address": announced.head().unwrap_or_else(|| control_address.clone()),
                "control_store": control_store,
                "node_socket": ready.node_socket,
                "is_head": args.head,
                "webui_url": webui_url,
                "gateway_address": gateway_address,
                "tracing_startup_hook": offer.tracing_startup_hook,
                "entrance": guest.as_ref().map(|guest| guest.entrance),
            });
            tracing::info!(node_id = %ready.node_id, host, port = ready.port, "node is ready");
            announced.keep(&line);
            if let Some(server) = dashboard.take() {
                if let Some(place) = &history {
                    place.copy(&args.python);
                }
                served = server.serve(Serving {
                    token: &token,
                    session_name: &control.session_name,
                    session_dir: &session.dir,
                    packages: packages.clone(),
                    job_logs: job_logs.clone(),
                    node_socket: &ready.node_socket,
                    node_id: ready.node_id.hex(),
                    control_address: &control_address,
                    python: &args.python,
                    job_grace,
                    identity: identity.clone(),
                    may_be_plain,
                    history: history.as_ref().map(|place| place.folder.clone()),
                });
            }
            let is_started = starter.is_there();
            // A starter that has gone away meanwhile is served like one that waits.
            starter.say(&line);
            if is_started {
                redirect_output(&session.dir.join("logs"));
            }
            if !std::mem::replace(&mut is_ready, true) {
                tidy_up(temp_dir.clone(), kept);
            }
        })
    };
    let outcome = loop {
        match serve() {
            // The node has logged it. A guest's is known by its id to the gateway, and its driver ends with it.
            Ok(Ended::Rejoin(_)) if guest.is_none() => {}
            Ok(Ended::Rejoin(reason)) => {
                tracing::error!(reason, "the cluster has given this machine up");
                break Ok(());
            }
            Ok(Ended::Over) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    if let Some(handle) = served {
        handle.stop();
    }
    // The log of a daemon that served is kept.
    cleaner.discards &= !is_ready;
    if let Some(guest) = guest {
        guest.leave();
    }
    if let Some(serving) = serving {
        serving.stop();
    }
    control.end();
    if let Some(link) = link {
        // If making the link failed, the file of that name is not ours.
        let _ = fs::remove_file(link);
    }
    if args.head {
        folder::forget_current_cluster(&temp_dir, &control_address);
    }
    outcome.map_err(|error| error.to_string())
}

fn allow_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(DESCRIPTORS).min(DESCRIPTORS);
    if limit.current.is_some_and(|current| current < most) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit });
    }
}

/// Removes the files of a living daemon from its folder, on every way out.
struct Cleaner<'a> {
    session: &'a Session,
    /// The whole folder goes: the daemon never was ready.
    discards: bool,
}

impl Drop for Cleaner<'_> {
    fn drop(&mut self) {
        if self.discards { self.session.discard() } else { self.session.clean() }
    }
}

/// The control service that the node joins: in this process, or elsewhere.
struct Control {
    /// Its name: host and port of the head.
    address: String,
    reach: Reach,
    session_name: String,
    local: Option<(helio_control::Handle, JoinHandle<()>)>,
    /// Its state is where another head finds it.
    is_shared: bool,
}

impl Control {
    fn start(
        args: &Node,
        host: &str,
        port: u16,
        token: &str,
        identity: Option<Arc<Identity>>,
        session: &Session,
        store: Option<Leased>,
    ) -> Result<Self, String> {
        let is_shared = store.is_some();
        let storage: Box<dyn Storage> = if let Some(store) = store {
            Box::new(store)
        } else if args.owner_driver {
            // Its state ends with the driver, so nothing is written.
            Box::new(Memory::forgetful())
        } else {
            Box::new(
                Embedded::open(&session.dir.join(CONTROL_FILE))
                    .map_err(|error| error.to_string())?,
            )
        };
        let ip: IpAddr = host.parse().map_err(|_| format!("{host:?} is not an IP address"))?;
        let socket = session.dir.join(CONTROL_SOCKET);
        let options = helio_control::Options {
            socket: socket.clone(),
            host: ip,
            port,
            token: token.to_owned(),
            identity,
            session_name: session.name.clone(),
            health: settings::health()?,
            storage,
            gone: session.before.into_iter().collect(),
        };
        let (said, hear) = mpsc::channel();
        let tell = said.clone();
        let thread = std::thread::Builder::new().name("control".to_owned()).spawn(move || {
            let outcome = helio_control::run(options, move |ready| {
                // The starting thread has the receiver until it has heard.
                let _ = tell.send(Ok(ready));
            });
            if let Err(error) = outcome
                && let Err(mpsc::SendError(Err(error))) = said.send(Err(error))
            {
                // The control service was running: nothing can be acknowledged any more, so the whole daemon ends.
                tracing::error!(fatal = true, %error, "the control service has failed");
                end_own_process();
            }
        });
        let thread = thread.map_err(|error| error.to_string())?;
        let ready = hear.recv_timeout(Duration::from_secs(START_S_MAX));
        let ready = ready
            .map_err(|_| "the control service did not start".to_owned())?
            .map_err(|error| error.to_string())?;
        Ok(Self {
            address: host_port(host, port),
            reach: Reach::Socket(socket),
            session_name: ready.session_name,
            local: Some((ready.handle, thread)),
            is_shared,
        })
    }

    fn elsewhere(address: &str, token: &str, own: (&str, u16)) -> Result<Self, String> {
        let (host, port) = values::address(address)?;
        let session_name = observer::cluster(&host, port, token, Some(own))?.session_name;
        let address = host_port(&host, port);
        Ok(Self {
            address,
            reach: Reach::Port(host, port),
            session_name,
            local: None,
            is_shared: false,
        })
    }

    /// The node has ended: on the head the cluster ends with it, unless another head can go on with it.
    fn end(self) {
        let Some((handle, thread)) = self.local else { return };
        if self.is_shared {
            handle.leave();
        } else {
            handle.stop("the head node has ended");
        }
        let until = std::time::Instant::now() + CONTROL_END_MAX;
        while !thread.is_finished() && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The ready message of the daemon, in its session's folder for those who look for it. The head's address in it changes
/// with the head.
struct Announced(Arc<Mutex<(PathBuf, Value)>>);

impl Announced {
    fn new(dir: &Path, temp_dir: &Path, moves: mpsc::Receiver<String>) -> Self {
        let announced = Self(Arc::new(Mutex::new((dir.to_owned(), Value::Null))));
        let (shared, temp_dir) = (Self(Arc::clone(&announced.0)), temp_dir.to_owned());
        let follow = move || {
            for address in moves {
                let before = shared.head();
                let mut line = shared.lock().1.clone();
                line["control_address"] = address.clone().into();
                shared.keep(&line);
                if let Some(before) = before {
                    folder::current_cluster_moved(&temp_dir, &before, &address);
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().name("head".to_owned()).spawn(follow) {
            tracing::warn!(%error, "commands here will not follow the head to another machine");
        }
        announced
    }

    fn lock(&self) -> MutexGuard<'_, (PathBuf, Value)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address of the head, once it was said.
    fn head(&self) -> Option<String> {
        self.lock().1["control_address"].as_str().map(str::to_owned)
    }

    fn keep(&self, line: &Value) {
        let mut kept = self.lock();
        kept.1 = line.clone();
        if let Err(error) = folder::write_whole(&kept.0.join(READY_FILE), &line.to_string()) {
            tracing::error!(dir = %kept.0.display(), %error, "the node's address cannot be kept");
        }
    }
}

/// After the start: removes the folders of old sessions, and gives back the memory that only the start needed.
/// In the background: nobody waits for it, and it may be cut short by the end of the daemon.
fn tidy_up(temp_dir: PathBuf, kept: Kept) {
    let tidy_up = move || {
        old_sessions::remove(&temp_dir, kept, Duration::from_micros(helio_env::clock::unix_us()));
        // By then it has its first workers.
        std::thread::sleep(START_SETTLES);
        give_back_code();
    };
    if let Err(error) = std::thread::Builder::new().name("tidy up".to_owned()).spawn(tidy_up) {
        tracing::warn!(%error, "the folders of old sessions stay");
    }
}

fn end_own_process() {
    // The system refuses no signal from a process to itself.
    let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::TERM);
}

/// The process that started the daemon and waits for one line.
pub(crate) struct Starter {
    pipe: Option<File>,
    is_stdout: bool,
}

impl Starter {
    fn new(number: Option<i32>) -> std::io::Result<Self> {
        let pipe = match number {
            None | Some(1) => None,
            Some(number) => Some(helio_env::inherited::take(number)?),
        };
        Ok(Self { pipe, is_stdout: number == Some(1) })
    }

    /// Says that it takes longer, and why.
    pub(crate) fn note(&mut self, waits: &str) {
        let line = format!("{}\n", json!({ "waits": waits }));
        // One that has gone away meanwhile is served like one that waits.
        let _ = match &mut self.pipe {
            Some(pipe) => pipe.write_all(line.as_bytes()),
            None if self.is_stdout => std::io::stdout().write_all(line.as_bytes()),
            None => Ok(()),
        };
    }

    fn is_there(&self) -> bool {
        self.is_stdout || self.pipe.is_some()
    }

    /// Says it and closes; only the first line is said. Whether this was it.
    fn say(&mut self, line: &Value) -> bool {
        let line = format!("{line}\n");
        let said = if let Some(mut pipe) = self.pipe.take() {
            pipe.write_all(line.as_bytes())
        } else if std::mem::take(&mut self.is_stdout) {
            std::io::stdout().write_all(line.as_bytes())
        } else {
            return false;
        };
        said.is_ok()
    }
}

/// From here on what the daemon prints goes to files; what its starter gave it is let go.
fn redirect_output(logs: &Path) {
    let open = |name| OpenOptions::new().create(true).append(true).open(logs.join(name));
    let redirected = open("node.out")
        .and_then(|out| Ok(rustix::stdio::dup2_stdout(out)?))
        .and_then(|()| open("node.err"))
        .and_then(|err| Ok(rustix::stdio::dup2_stderr(err)?));
    if let Err(error) = redirected {
        tracing::error!(dir = %logs.display(), %error, "standard output stays as it was");
    }
}

/// A copy of the token beside the socket that it opens, for processes whose home is another.
fn keep_token(session_dir: &Path, token: &str) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let path = session_dir.join(TOKEN_FILE);
    let mut file =
        OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path)?;
    file.write_all(token.as_bytes())
}

/// The address that this machine sends from; no packet is sent to find out.
pub(crate) fn own_ip() -> IpAddr {
    ip_towards(Ipv4Addr::new(8, 8, 8, 8).into())
        .or_else(|| ip_towards(Ipv6Addr::new(0x2001, 0x4860, 0x4860, 0, 0, 0, 0, 0x8888).into()))
        .unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// The IP that this machine's packets to that one carry; nothing is sent.
pub(crate) fn ip_towards(to: IpAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = std::net::UdpSocket::bind((any, 0)).ok()?;
    socket.connect((to, 53)).ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_unspecified())
}
