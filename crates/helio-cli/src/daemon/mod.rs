//! The daemon: the node service and, on the head, the control service.
//!
//! Start:
//! 1. arguments and settings are checked ([`given`]);
//! 2. the session's folder is made and its lock taken;
//! 3. the node's TCP port is opened, unless the session is one machine's alone (decision 37); the head starts
//!    the control service on a thread of its own and waits until its socket is open; a further node asks the control
//!    service for the session's name, so that a wrong address or token is told at once ([`joined`], [`control`]);
//! 4. the head opens the port of its HTTP server, if it has one;
//! 5. the node service starts on this thread ([`options`]);
//! 6. one line of JSON says so, or at any step says why not, to whoever started the daemon; the HTTP server
//!    serves from then on, on a thread of its own.
//!
//! End, on a signal, at the end of the owning driver, or when the cluster ends: the node service returns
//! after its workers are gone; on the head the control service then tells the other nodes and ends; the
//! sockets and the lock file go. Should the control service fail, the daemon sends itself SIGTERM and so
//! ends in the same order.

mod announced;
mod control;
mod given;
mod joined;
mod options;

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use helio_config::session::{LOG_FILE, TOKEN_FILE};
use helio_config::table::DASHBOARD_PLAIN_HTTP;
use helio_env::logs;
use helio_env::settings::read;
use helio_node::{Ended, Options, Ready};
use helio_proto::hello::{Refusal, RefusalKind};
use helio_store::heap::{START_SETTLES, give_back_code};
use helio_types::OPEN_TOKEN;
use rustix::process::Signal;
use serde_json::json;

use self::announced::Announced;
use self::given::Given;
use self::joined::Joined;
use crate::args::Node;
use crate::dashboard::{Handle, Server, Serving};
use crate::old_sessions::Kept;
use crate::session::{self, Session};
use crate::starter::Starter;
use crate::{afar, folder, history, old_sessions, settings};

/// Number of descriptors of a daemon where the system lets it: as many as the gateway's drivers need, and programs that
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
        Err(Failure { text, is_of_folder, refusal }) => {
            tracing::error!(fatal = true, "{text}");
            // A starter that waits for the line shows the error; without one it goes to standard error.
            let refusal = refusal.name();
            let said = json!({ "error": text, "is_of_folder": is_of_folder, "refusal": refusal });
            if !starter.say(&said) {
                eprintln!("heliostat: {text}");
            }
            ExitCode::FAILURE
        }
    }
}

/// The reason why the daemon could not start.
struct Failure {
    /// A sentence for the user.
    text: String,
    /// Whether the folder for sessions is to blame: the starter knows how another one is named.
    is_of_folder: bool,
    /// The kind of the cluster's refusal, if it refused: the starter's error is of another class then.
    refusal: RefusalKind,
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Refusal::from(text).into()
    }
}

impl From<Refusal> for Failure {
    fn from(Refusal { kind, text }: Refusal) -> Self {
        Self { text, is_of_folder: false, refusal: kind }
    }
}

fn start_and_serve(args: &Node, starter: &mut Starter) -> Result<(), Failure> {
    prepare_process(args, starter)?;
    let given = Given::read(args)?;
    let session = open_session(args, &given)?;
    let mut cleaner = Cleaner { session: &session, discards: args.session_name.is_none() };
    let mut joined = Joined::join(args, &given, &session, starter)?;
    let gateway_address = joined.gateway.as_ref().map(|gateway| gateway.address.clone());
    let gateway = serve_gateway(args, &given, &session, &mut joined)?;
    let dashboard = Server::open(&args.dashboard, &joined.host)?;
    let (moved, moves) = mpsc::channel();
    let mut service = Service {
        args,
        given: &given,
        session: &session,
        joined: &joined,
        starter,
        gateway_address,
        webui_url: dashboard.as_ref().map(|server| server.url.clone()).unwrap_or_default(),
        dashboard,
        served: None,
        job_grace: settings::job_grace()?,
        may_be_plain: read(&DASHBOARD_PLAIN_HTTP)?,
        history: history::Place::of(&session.dir, &session.name),
        announced: Announced::new(&session.dir, &given.temp_dir, moves),
        is_ready: false,
    };
    let options = options::of_node(args, &given, &joined, &session, moved)?;
    let link = link_to_local(&given, &session);
    let outcome = service.run(&options);
    let Service { served, is_ready, .. } = service;
    if let Some(handle) = served {
        handle.stop();
    }
    // The log of a daemon that served is kept.
    cleaner.discards &= !is_ready;
    let Joined { control, guest, .. } = joined;
    if let Some(guest) = guest {
        guest.leave();
    }
    if let Some(gateway) = gateway {
        gateway.stop();
    }
    let control_address = control.address.clone();
    control.end();
    if let Some(link) = link {
        // If making the link failed, the file of that name is not ours.
        let _ = fs::remove_file(link);
    }
    if args.head {
        folder::forget_current_cluster(&given.temp_dir, &control_address);
    }
    outcome.map_err(|error| error.to_string().into())
}

/// Makes this process one that lives on its own, or as long as its starter.
fn prepare_process(args: &Node, starter: &Starter) -> Result<(), String> {
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
    Ok(())
}

/// Makes the session's folder, with the log, a copy of the token, and the link to the latest session.
fn open_session(args: &Node, given: &Given) -> Result<Session, Failure> {
    let Given { temp_dir, token, host, .. } = given;
    let failed =
        |what: &str, error: std::io::Error| format!("{what} in {}: {error}", temp_dir.display());
    let session = Session::create(temp_dir, args.session_name.as_deref()).map_err(|error| {
        let text = failed("the session's folder cannot be made", error);
        Failure { text, is_of_folder: true, refusal: RefusalKind::Other }
    })?;
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
    keep_token(&session.dir, token).map_err(|error| failed("the token cannot be kept", error))?;
    // On a machine that has joined the link leads to the first of its daemons.
    if args.head || args.gateway.is_none() && !session::is_latest_alive(temp_dir) {
        session
            .is_latest(temp_dir)
            .map_err(|error| failed("the link to the latest session cannot be made", error))?;
    }
    Ok(session)
}

/// Starts the gateway for drivers outside the cluster, if the head is to have one.
fn serve_gateway(
    args: &Node,
    given: &Given,
    session: &Session,
    joined: &mut Joined,
) -> Result<Option<helio_gateway::server::Handle>, String> {
    let Some(gateway) = joined.gateway.take() else { return Ok(None) };
    let serving = afar::Serving {
        session_dir: &session.dir,
        token: &given.token,
        identity: joined.identity.clone(),
        host: &joined.host,
        port: joined.port.number(),
        python: &args.python,
    };
    gateway.serve(serving).map(Some)
}

/// Links a session that no port leads to from the usual folder, where drivers look for it. Returns the link.
fn link_to_local(given: &Given, session: &Session) -> Option<PathBuf> {
    let usual = folder::temp_dir(None);
    if !given.is_local || usual == given.temp_dir {
        return None;
    }
    if let Err(error) = folder::link_from(&usual, &session.dir) {
        tracing::warn!(dir = %usual.display(), %error, "no link to the session");
    }
    Some(usual.join(session.dir.file_name().unwrap_or_default()))
}

/// The node service, and what is done each time that it is ready.
struct Service<'a> {
    args: &'a Node,
    given: &'a Given,
    session: &'a Session,
    joined: &'a Joined,
    starter: &'a mut Starter,
    gateway_address: Option<String>,
    webui_url: String,
    /// The open port of the head's HTTP server, which serves once the node is ready.
    dashboard: Option<Server>,
    served: Option<Handle>,
    job_grace: Duration,
    may_be_plain: bool,
    history: Option<history::Place>,
    announced: Announced,
    is_ready: bool,
}

impl Service<'_> {
    /// Runs the node until it ends; one whose cluster has forgotten it joins again.
    fn run(&mut self, options: &Options) -> Result<(), helio_node::Error> {
        loop {
            match helio_node::run(options.clone(), |ready| self.on_ready(ready))? {
                // The node has logged it. A guest's is known by its id to the gateway, and its driver ends with it.
                Ended::Rejoin(_) if self.joined.guest.is_none() => {}
                Ended::Rejoin(reason) => {
                    tracing::error!(reason, "the cluster has given this machine up");
                    return Ok(());
                }
                Ended::Over => return Ok(()),
            }
        }
    }

    fn on_ready(&mut self, ready: &Ready) {
        let (session, joined) = (self.session, self.joined);
        let control_address =
            self.announced.head().unwrap_or_else(|| joined.control.address.clone());
        let line = json!({
            "session_dir": session.dir,
            "session_name": joined.control.session_name,
            "node_id": ready.node_id.hex(),
            "host": joined.host,
            "port": ready.port,
            "control_address": control_address,
            "control_store": joined.control_store,
            "node_socket": ready.node_socket,
            "is_head": self.args.head,
            "webui_url": self.webui_url,
            "gateway_address": self.gateway_address,
            "tracing_startup_hook": self.given.offer.tracing_startup_hook,
            "entrance": joined.guest.as_ref().map(|guest| guest.entrance),
        });
        tracing::info!(node_id = %ready.node_id, host = joined.host, port = ready.port, "node is ready");
        // Before the starter hears of it: a command that follows reads the file at once.
        self.announced.keep(&line);
        self.serve_dashboard(ready);
        let is_started = self.starter.is_there();
        // A starter that has gone away meanwhile is served like one that waits.
        self.starter.say(&line);
        // The starter's pipe ends with it: who wrote on would be ended by SIGPIPE.
        if is_started {
            redirect_output(&session.dir.join("logs"));
        }
        // Only once, and after the node is ready: nobody waits for old sessions to go.
        if !std::mem::replace(&mut self.is_ready, true) {
            tidy_up(self.given.temp_dir.clone(), self.given.kept);
        }
    }

    /// Starts the head's HTTP server when the node is ready for the first time.
    fn serve_dashboard(&mut self, ready: &Ready) {
        let Some(server) = self.dashboard.take() else { return };
        let joined = self.joined;
        if let Some(place) = &self.history {
            place.copy(&self.args.python);
        }
        self.served = server.serve(Serving {
            token: &self.given.token,
            session_name: &joined.control.session_name,
            session_dir: &self.session.dir,
            packages: joined.packages.clone(),
            job_logs: joined.job_logs.clone(),
            node_socket: &ready.node_socket,
            node_id: ready.node_id.hex(),
            control_address: &joined.control.address,
            python: &self.args.python,
            job_grace: self.job_grace,
            identity: joined.identity.clone(),
            may_be_plain: self.may_be_plain,
            history: self.history.as_ref().map(|place| place.folder.clone()),
        });
    }
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
