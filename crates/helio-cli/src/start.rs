//! `start`: runs the daemon in the background and says what to do next.

use std::fs;
use std::net::ToSocketAddrs as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use helio_config::session::{CONTROL_PORT, GATEWAY_PORT, LOG_FILE, START_S_MAX};
use helio_config::table::JOIN_WAIT_S;
use helio_observer::Asker;
use helio_proto::control::{ControlResponse, ListNodes, NodeInfo};
use helio_types::OPEN_TOKEN;
use helio_types::address::{host_port, split_host_port};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal as Signalled, SignalKind, signal};

use crate::args::{Ignored, Start, Tls};
use crate::own_ip::{ip_towards, own_ip};
use crate::session::{self, Found};
use crate::{
    authority, control_store, dashboard, folder, kubernetes, leftovers, locate, names, observer,
    output, values,
};

/// Bytes of the daemon's log that are shown when it ends unexpectedly.
const LOG_TAIL: usize = 4000;

/// The end of a `start` that a signal ended before its daemon was ready.
const ENDED: &str = "it was told to end while it waited";

/// Time that a blocking `start` waits for its daemon after a signal.
const END_MAX: Duration = Duration::from_secs(20);

/// Time to wait for a daemon whose connection has ended, to tell a death from a refusal.
const GONE_MAX: Duration = Duration::from_secs(1);

pub(crate) fn run(args: &Start, ignored: &Ignored) -> Result<(), String> {
    let prepared = prepare(args, ignored)?;
    observer::block_on(async {
        let (child, ready) = launch(args, &prepared).await?;
        // A user who reads that the daemon runs may send a signal.
        let signals = Signals::listen()?;
        announce(args, &ready, &folder::temp_dir(args.offer.temp_dir.as_deref()));
        if args.block { block(child, &ready, signals).await } else { Ok(()) }
    })?
}

/// A daemon that may be started now.
pub(crate) struct Prepared {
    arguments: Vec<String>,
    /// Variables whose values no list of processes may show.
    environment: Vec<(&'static str, String)>,
    host: String,
}

/// Does everything that comes before the start of the daemon: refusals, warnings, and the wait for a head that is not
/// there yet.
pub(crate) fn prepare(args: &Start, ignored: &Ignored) -> Result<Prepared, String> {
    check(args, ignored)?;
    for name in ignored.unmet() {
        eprintln!("Note: `--{name}` has no effect in this release.");
    }
    if args.head && args.node_manager_port.or(args.object_manager_port).is_some() {
        eprintln!(
            "Note: a head has one port, {}, which `--port` names; `--node-manager-port` and `--object-manager-port` \
             name that of other nodes.",
            args.node_port()
        );
    }
    for sentence in helio_env::settings::warnings() {
        eprintln!("Warning: {sentence}");
    }
    let host = match &args.node_ip_address {
        Some(given) => values::ip_of(given).map_err(|why| format!("`--node-ip-address`: {why}"))?,
        None => own_host(args.address.as_deref()),
    };
    if locate::token().is_ok_and(|token| token == OPEN_TOKEN) {
        eprintln!("Warning: {}", open_ports(&host));
    }
    let temp_dir = folder::temp_dir(args.offer.temp_dir.as_deref());
    let sessions = session::find(&temp_dir);
    // Workers of a daemon that was killed hold memory and GPUs that the new one would count as free.
    for found in sessions.iter().filter(|found| !found.is_alive()) {
        let n_left = leftovers::end(&found.dir);
        if n_left > 0 {
            output::line(&format!("Ended {n_left} processes of a daemon that was killed before."));
        }
    }
    output::line(&format!("Local node IP: {host}"));
    let joined = await_head(args, &host, &temp_dir)?;
    let mut arguments = arguments(args, &host, &temp_dir)?;
    if let Some(name) = joined.filter(|name| kubernetes::shares_session_name(name)) {
        arguments.extend(["--session-name".to_owned(), name]);
    }
    if args.head {
        let port = args.port.unwrap_or(CONTROL_PORT);
        let store = control_store::target(&args.store, "")?;
        let store = store.map(|target| target.name()).unwrap_or_default();
        refuse_second(&sessions, &host, port)?;
        if let Some(name) = crashed(&sessions, port, &store).filter(|_| !args.ends_with_starter) {
            output::line(&format!(
                "The cluster's state of before its daemon died is taken up again: {name}"
            ));
            arguments.extend(["--session-name".to_owned(), name]);
        }
    }
    arguments.extend(args.ends_with_starter.then(|| "--ends-with-starter".to_owned()));
    Ok(Prepared { arguments, environment: control_store::environment(&args.store), host })
}

/// Starts the daemon, and waits until its node is in the cluster. Returns its process and the line that it said when it
/// was ready.
pub(crate) async fn launch(args: &Start, prepared: &Prepared) -> Result<(Child, Value), String> {
    let (mut child, ready) =
        spawn(prepared).await.map_err(|error| explain(&error, args, &prepared.host))?;
    if let Err(error) = nodes(&ready).await {
        // A daemon that dies has closed its connections a moment before it is gone.
        return Err(match tokio::time::timeout(GONE_MAX, child.wait()).await {
            Ok(Ok(status)) => unexpected_end(status, &ready),
            _ => format!("The daemon runs, but is not in the cluster: {error}"),
        });
    }
    Ok((child, ready))
}

/// The nodes of the cluster, as the daemon that said this line knows them.
pub(crate) async fn nodes(ready: &Value) -> Result<Vec<NodeInfo>, String> {
    let socket = PathBuf::from(ready["node_socket"].as_str().unwrap_or_default());
    match Asker::new(&socket, &locate::token()?).ask(ListNodes {}).await {
        Ok(ControlResponse::Nodes(nodes)) => Ok(nodes.nodes),
        Ok(_) => Err("the head answers something else".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Refuses flags that make no sense together, before anything is started.
fn check(args: &Start, ignored: &Ignored) -> Result<(), String> {
    if !args.head {
        let head_only = [
            ("port", args.port.is_some()),
            ("include-dashboard", args.dashboard.include_dashboard.is_some()),
            ("redis-shard-ports", ignored.has("redis-shard-ports")),
            ("control-store", args.store.control_store.is_some()),
            ("ray-client-server-port", args.ray_client_server_port.is_some()),
        ];
        if let Some((name, _)) = head_only.into_iter().find(|(_, given)| *given) {
            return Err(format!(
                "`--{name}` should only be specified when starting head node with `--head`."
            ));
        }
        if args.address.is_none() {
            return Err(
                "`--address` is a required flag unless starting a head node with `--head`."
                    .to_owned(),
            );
        }
    } else if let Some(address) = &args.address {
        return Err(format!(
            "`--head` starts a new cluster; to join the one at {address}, leave `--head` out."
        ));
    }
    if ignored.has("redis-shard-ports") {
        return Err(
            "`--redis-shard-ports` is refused: no Redis is started. Leave it out; to keep the cluster's state in a Redis \
             that runs, use `--control-store`."
                .to_owned(),
        );
    }
    if let Some(why) = control_store::refusal(&args.store) {
        return Err(why);
    }
    values::quantity("--num-cpus", args.offer.num_cpus)?;
    values::quantity("--num-gpus", args.offer.num_gpus)?;
    values::store_size(args.offer.object_store_memory)?;
    args.offer.resources.as_deref().map(values::resources).transpose()?;
    args.offer.labels.as_deref().map(values::labels).transpose()?;
    Ok(())
}

fn arguments(args: &Start, host: &str, temp_dir: &Path) -> Result<Vec<String>, String> {
    let offer = &args.offer;
    let mut all = vec!["node".to_owned(), "--ready-fd=1".to_owned()];
    let mut add = |name: &str, value: Option<String>| {
        all.extend(value.map(|value| format!("--{name}={value}")))
    };
    add("host", Some(host.to_owned()));
    add("temp-dir", Some(temp_dir.display().to_string()));
    add("port", Some(args.node_port().to_string()));
    add("tls", args.tls.map(|Tls::Auto| "auto".to_owned()));
    add("num-cpus", offer.num_cpus.map(|value| value.to_string()));
    add("num-gpus", offer.num_gpus.map(|value| value.to_string()));
    add("resources", offer.resources.clone());
    add("memory", offer.memory.map(|value| value.to_string()));
    add("object-store-memory", offer.object_store_memory.map(|value| value.to_string()));
    add("node-name", offer.node_name.clone());
    add("tracing-startup-hook", offer.tracing_startup_hook.clone());
    add("metrics-export-port", offer.metrics_export_port.map(|value| value.to_string()));
    let agent_port = offer.dashboard_agent_listen_port;
    add("dashboard-agent-listen-port", agent_port.map(|value| value.to_string()));
    // The daemon's working directory is another one.
    let spill = offer.object_spilling_directory.as_deref().map(|folder| {
        std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()).display().to_string()
    });
    add("object-spilling-directory", spill);
    let labels = match &args.labels_file {
        Some(path) => {
            let text = fs::read_to_string(path)
                .map_err(|error| format!("`--labels-file`: {}: {error}", path.display()))?;
            let labels = values::labels_file(&text)?;
            Some(serde_json::json!(labels).to_string())
        }
        None => offer.labels.clone(),
    };
    add("labels", labels);
    match &args.address {
        Some(address) => add("address", Some(resolve(address)?)),
        None => {
            let wanted = dashboard::wanted(&args.dashboard).unwrap_or_default();
            add("dashboard", wanted.dashboard);
            let names = wanted.dashboard_allowed_hosts;
            add("dashboard-allowed-hosts", (!names.is_empty()).then(|| names.join(",")));
            let gateway_port = args.ray_client_server_port.unwrap_or(GATEWAY_PORT);
            add("gateway-port", Some(gateway_port.to_string()));
            if args.ray_client_server_port.is_none() {
                all.push("--gateway-port-moves".to_owned());
            }
            all.push("--head".to_owned());
            all.extend(wanted.dashboard_port_moves.then(|| "--dashboard-port-moves".to_owned()));
        }
    }
    Ok(all)
}

/// A machine that was started before its head waits for it, and says so. Returns the name of its session.
fn await_head(args: &Start, own_host: &str, temp_dir: &Path) -> Result<Option<String>, String> {
    let Some(address) = args.address.as_deref().filter(|address| *address != "auto") else {
        return Ok(None);
    };
    let (host, port) = values::address(address)?;
    let at_most = Duration::from_secs(helio_env::settings::read(&JOIN_WAIT_S)?);
    // A file that cannot be read is told now, not when the head has come. Without a token the head says what it thinks
    // of that, once it is there.
    let token = helio_env::token::load().map_err(|error| {
        format!("The authentication token cannot be read: {error}. It is the one of the cluster's head node.")
    })?;
    let has_token = token.is_some();
    let token = token.unwrap_or_default();
    let folder = helio_env::draft::beside(&temp_dir.join("tls"));
    if args.tls.is_some() {
        authority::begin_for_now(&folder, &locate::token()?, own_host)?;
    }
    let say = |what: &str| {
        eprintln!("{what}");
        if !has_token {
            eprintln!(
                "There is no authentication token in ~/.heliostat/auth_token here. The head makes one there; where this \
                 machine does not share that folder, copy it, or set HELIOSTAT_AUTH_TOKEN."
            );
        }
    };
    let outcome = observer::await_head(&host, port, &token, at_most, say);
    // The folder was for this process alone, and need not be there.
    let _ = fs::remove_dir_all(&folder);
    outcome
}

/// `auto` is the cluster that runs on this machine.
fn resolve(address: &str) -> Result<String, String> {
    if address == "auto" {
        let found = locate::choose(&folder::temp_dir(None), None)?;
        return Ok(found.text("control_address").to_owned());
    }
    values::address(address).map(|(host, port)| host_port(&host, port))
}

/// The IP by which other machines reach this one: that of the way to the head, where there is one.
fn own_host(head: Option<&str>) -> String {
    let towards = head.and_then(|address| values::address(address).ok());
    let towards = towards.and_then(|(host, port)| {
        (host.as_str(), port).to_socket_addrs().ok()?.find_map(|to| ip_towards(to.ip()))
    });
    // A head on this machine is reached by the loopback interface, by which no other machine comes.
    towards.filter(|ip| !ip.is_loopback()).unwrap_or_else(own_ip).to_string()
}

fn refuse_second(sessions: &[Found], host: &str, port: u16) -> Result<(), String> {
    let address = host_port(host, port);
    let is_there = |found: &&Found| {
        found.is_alive()
            && found.is_head()
            && locate::is_same(found.text("control_address"), &address)
    };
    match sessions.iter().find(is_there) {
        Some(found) => Err(format!(
            "ConnectionError: Ray is trying to start at {address}, but is already running at {}. Please specify a \
             different port using the `--port` flag of `{command} start` command, or end the running one with \
             `{command} stop`.",
            found.text("control_address"),
            command = names::command(),
        )),
        None => Ok(()),
    }
}

/// A head on that port died without ending its cluster: its acknowledged state is not lost.
fn crashed(sessions: &[Found], port: u16, store: &str) -> Option<String> {
    let had_port = |found: &&Found| {
        found.can_be_recovered(store)
            && values::address(found.text("control_address")).is_ok_and(|(_, at)| at == port)
    };
    let found = sessions.iter().find(had_port)?;
    Some(found.dir.file_name()?.to_string_lossy().into_owned())
}

/// Starts the daemon and waits until it says that it is ready, or why not.
async fn spawn(prepared: &Prepared) -> Result<(Child, Value), String> {
    let binary = std::env::current_exe()
        .map_err(|error| format!("the own program cannot be found: {error}"))?;
    let mut child = Command::new(binary)
        .args(&prepared.arguments)
        .envs(prepared.environment.iter().map(|(name, value)| (name, value)))
        // A daemon is not to keep the starter's folder from being unmounted.
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("the daemon cannot be started: {error}"))?;
    let stdout = child.stdout.take().ok_or("the daemon has no output")?;
    let mut lines = BufReader::new(stdout).lines();
    let mut line = tokio::time::timeout(Duration::from_secs(START_S_MAX), lines.next_line()).await;
    while let Ok(Ok(Some(text))) = &line
        && let Ok(Value::String(waits)) =
            serde_json::from_str(text).map(|mut value: Value| value["waits"].take())
    {
        eprintln!("{waits}");
        // While the daemon waits for a store or a head there is no limit of time, so Ctrl-C has to work.
        let mut signals = Signals::listen()?;
        line = tokio::select! {
            next = lines.next_line() => Ok(next),
            _ = signals.terminate.recv() => return end(child).await.and(Err(ENDED.to_owned())),
            _ = signals.interrupt.recv() => return end(child).await.and(Err(ENDED.to_owned())),
        };
    }
    let ended = |child: &mut Child| {
        let _ = child.start_kill();
    };
    match line {
        Ok(Ok(Some(line))) => match serde_json::from_str::<Value>(&line) {
            Ok(value) if value["error"].is_string() => {
                // The daemon ends by itself; nothing is left running behind the message.
                let _ = child.wait().await;
                Err(value["error"].as_str().unwrap_or_default().to_owned())
            }
            Ok(value) => Ok((child, value)),
            Err(error) => {
                ended(&mut child);
                Err(format!("the daemon said something else than expected ({error}): {line}"))
            }
        },
        Ok(_) => {
            let status = child.wait().await.map_err(|error| error.to_string())?;
            Err(format!("the daemon ended before it was ready: {status}"))
        }
        Err(_) => {
            ended(&mut child);
            Err(format!("the daemon was not ready within {START_S_MAX} s"))
        }
    }
}

fn explain(error: &str, args: &Start, host: &str) -> String {
    let port = args.node_port();
    if error.ends_with("is in use") {
        let flag = if args.head { "port" } else { "node-manager-port" };
        return format!(
            "ConnectionError: The port {port} of {host} is in use by another program. Please specify a different port \
             using the `--{flag}` flag of `{} start` command, or end that program.",
            names::command()
        );
    }
    let taken = |port: &Option<u16>| {
        port.is_some_and(|port| error.contains(&format!(":{port}: Address already in use")))
    };
    let others = [
        ("metrics-export-port", args.offer.metrics_export_port),
        ("dashboard-agent-listen-port", args.offer.dashboard_agent_listen_port),
    ];
    if let Some((flag, _)) = others.iter().find(|(_, port)| taken(port)) {
        return format!("Could not start: {error}. Give another `--{flag}`, or end that program.");
    }
    format!("Could not start: {error}")
}

/// Keeps what others look for, and prints what to do next.
fn announce(args: &Start, ready: &Value, temp_dir: &Path) {
    let text = |name: &str| ready[name].as_str().unwrap_or_default();
    let address = text("control_address");
    let usual = folder::temp_dir(None);
    let session_dir = PathBuf::from(text("session_dir"));
    let elsewhere = (temp_dir != usual).then(|| folder::link_from(&usual, &session_dir));
    let kept = [Some(temp_dir), (temp_dir != usual).then_some(usual.as_path())]
        .into_iter()
        .flatten()
        .map(|kept_in| folder::name_current_cluster(kept_in, address));
    for error in kept.chain(elsewhere).filter_map(Result::err) {
        eprintln!("Warning: `address=\"auto\"` may not find the cluster: {error}");
    }
    output::print(&next_steps(args, address, text("webui_url"), text("gateway_address")));
}

/// Returns the one-line warning of a start without authentication.
fn open_ports(host: &str) -> String {
    format!(
        "RAY_AUTH_MODE=disabled: the ports of this node ({host}) ask for no token. Whoever reaches one of them can run \
         any code as this user, read every object and end the cluster: let nobody reach them whom you would not give \
         this account."
    )
}

/// Returns the line that tells how another machine gets the token. The token itself is not for
/// terminals and logs.
fn token_line(host: &str, file: Option<&Path>) -> String {
    if locate::token().is_ok_and(|token| token == OPEN_TOKEN) {
        return "export RAY_AUTH_MODE=disabled".to_owned();
    }
    let variable = "export HELIOSTAT_AUTH_TOKEN";
    match file {
        Some(file) => {
            let (file, name) = (file.display(), names::command());
            format!(
                "{variable}=\"$(ssh {host} cat {file})\"  # the cluster's token, which `{name} get-auth-token` prints"
            )
        }
        None => format!("{variable}=...  # the cluster's token: the one that is set here"),
    }
}

fn next_steps(args: &Start, address: &str, webui: &str, gateway: &str) -> String {
    let scheme = dashboard::scheme(webui, args.tls.is_some());
    let (name, import) = (names::command(), names::import());
    let mut text =
        "\n--------------------\nRay runtime started.\n--------------------\n\n".to_owned();
    if args.head {
        let is_open = locate::token().is_ok_and(|token| token == OPEN_TOKEN);
        let with_token = if is_open { "" } else { ", with the token" };
        let afar = if gateway.is_empty() {
            String::new()
        } else {
            format!(
                "
  To connect to it from a machine that is not a part of it{with_token}:
    ray.init(\"ray://{gateway}\")
"
            )
        };
        let host = split_host_port(address).map_or(address, |(host, _)| host);
        let token = token_line(host, helio_env::token::file().as_deref());
        text += &format!(
            "Next steps
  To add another node to this Ray cluster, run on that machine
    {token}
    {name} start --address='{address}'

  To connect to this Ray cluster:
    {import}
    ray.init()
{afar}
  To terminate the Ray runtime, run
    {name} stop

  To view the status of the cluster, use
    {name} status
"
        );
        if let Some(token) = locate::token().ok().filter(|_| !webui.is_empty()) {
            let link = dashboard::link(webui, &token).unwrap_or_default();
            let (with, within, once) = match &*token {
                OPEN_TOKEN => ("", "", String::new()),
                _ => (
                    " with the token",
                    " within ten minutes",
                    format!("\n  The link is good once; `{name} dashboard` prints another."),
                ),
            };
            text += &format!(
                "
  To submit a job, here or{with} anywhere that reaches {webui}
    RAY_API_SERVER_ADDRESS={scheme}://{webui} {name} job submit -- python my_script.py

  To look at the cluster in a browser, open{within}
    {link}{once}
"
            );
        }
    } else {
        text += &format!("To terminate the Ray runtime, run\n  {name} stop\n");
    }
    if args.block {
        text += "
--block
  This command will now block forever until terminated by a signal.
  The daemon is monitored, and a message will be printed if it terminates unexpectedly.
";
    }
    text
}

/// The signals by which a command that stays is told to go; they end it by themselves until they are listened to.
pub(crate) struct Signals {
    terminate: Signalled,
    interrupt: Signalled,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, String> {
        let listen = |kind| signal(kind).map_err(|error| error.to_string());
        let (terminate, interrupt) =
            (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt })
    }
}

/// Stays with the daemon, hands signals on, and says so when it dies.
pub(crate) async fn block(
    mut child: Child,
    ready: &Value,
    mut signals: Signals,
) -> Result<(), String> {
    let status = tokio::select! {
        status = child.wait() => status.map_err(|error| error.to_string())?,
        _ = signals.terminate.recv() => return end(child).await,
        _ = signals.interrupt.recv() => return end(child).await,
    };
    if status.success() {
        return Ok(());
    }
    Err(unexpected_end(status, ready))
}

/// Returns the message for a daemon that died, with the end of its log.
fn unexpected_end(status: ExitStatus, ready: &Value) -> String {
    let log = PathBuf::from(ready["session_dir"].as_str().unwrap_or_default())
        .join("logs")
        .join(LOG_FILE);
    let tail = fs::read(&log).unwrap_or_default();
    let tail = String::from_utf8_lossy(&tail[tail.len().saturating_sub(LOG_TAIL)..]).into_owned();
    format!(
        "Some Ray subprocesses exited unexpectedly:\n  heliostat node [{status}]\nThe last lines of {}:\n{tail}",
        log.display()
    )
}

/// Has the daemon end in order, and kills it when it takes too long.
pub(crate) async fn end(mut child: Child) -> Result<(), String> {
    send(&child, Signal::TERM);
    if tokio::time::timeout(END_MAX, child.wait()).await.is_err() {
        child.kill().await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Sends a signal to a process of this one's that it has not waited for yet, so that the number is still its own.
pub(crate) fn send(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // One that has just ended is what was wanted.
        let _ = rustix::process::kill_process(pid, signal);
    }
}
