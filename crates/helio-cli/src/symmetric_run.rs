//! `symmetric-run`: the same command line on every machine of a job, as `srun` starts it.
//!
//! The machine that the address names becomes the head, waits for the others, runs the command, and ends the cluster
//! with it. All others join, and end with the cluster. The daemon of each ends with its `symmetric-run`, however that
//! one ends, so that a job that is cancelled leaves nothing.

use std::net::{IpAddr, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use helio_config::table::SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT;
use helio_types::address::host_port;
use rustix::process::Signal;
use serde_json::Value;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{Ignored, Start, SymmetricRun};
use crate::start::Prepared;
use crate::{observer, output, start, values};

/// Time between two looks whether the others have come.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The number that shells add to that of the signal which ended a command, for its exit code.
const ENDED_BY_SIGNAL: i32 = 128;

pub(crate) fn run(args: SymmetricRun, ignored: &Ignored) -> Result<ExitCode, String> {
    let (host, port) = values::address(&args.address)?;
    let ip = resolve(&host, port)?;
    refuse(&args, ip)?;
    let seconds = helio_env::settings::read(&SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT)?;
    let patience = Duration::from_secs(seconds);
    let is_head = is_own(ip);
    let n_nodes = args.min_nodes.unwrap_or(1) as usize;
    let (start, command) = start_arguments(args, is_head, ip, port);
    if !is_head {
        await_head(ip, port, patience)?;
        let prepared = start::prepare(&start, ignored)?;
        observer::block_on(join(&start, &prepared))??;
        return Ok(ExitCode::SUCCESS);
    }
    let prepared = start::prepare(&start, ignored)?;
    observer::block_on(async {
        let (daemon, ready) = start::launch(&start, &prepared).await?;
        let address = ready["control_address"].as_str().unwrap_or_default().to_owned();
        output::line(&format!("This machine is the head of the cluster at {address}."));
        let outcome = match wait_for_nodes(&ready, n_nodes, patience).await {
            Ok(()) => attend(&command, &address).await,
            Err(error) => Err(error),
        };
        start::end(daemon).await?;
        Ok(code(outcome?))
    })?
}

/// The flags that `symmetric-run` decides itself, and an address that would make each machine a head.
fn refuse(args: &SymmetricRun, ip: IpAddr) -> Result<(), String> {
    let decided = [
        ("head", args.head),
        ("port", args.port.is_some()),
        ("node-ip-address", args.node_ip_address.is_some()),
        ("block", args.block),
    ];
    if let Some((name, _)) = decided.into_iter().find(|(_, given)| *given) {
        return Err(format!(
            "`--{name}` cannot be given to `symmetric-run`, which takes it from `--address` on each machine."
        ));
    }
    if ip.is_loopback() && args.min_nodes.is_some_and(|n| n > 1) {
        return Err(format!(
            "`--address {}` is the loopback address, under which each machine would find itself and start a head of \
             its own. Give the head's name or IP as the other machines know it.",
            args.address
        ));
    }
    Ok(())
}

fn resolve(host: &str, port: u16) -> Result<IpAddr, String> {
    let found = (host, port).to_socket_addrs();
    let found =
        found.map_err(|error| format!("`--address`: {host:?} has no IP address: {error}"))?;
    // The cluster speaks IPv4 where a name has both.
    let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    addresses.sort_by_key(IpAddr::is_ipv6);
    addresses.first().copied().ok_or_else(|| format!("`--address`: {host:?} has no IP address."))
}

/// Whether an interface of this machine has that address: no socket can be bound to any other.
fn is_own(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

/// Returns the arguments of `start` on this machine, and the command.
fn start_arguments(
    args: SymmetricRun,
    is_head: bool,
    ip: IpAddr,
    port: u16,
) -> (Start, Vec<std::ffi::OsString>) {
    let start = Start {
        head: is_head,
        address: (!is_head).then(|| host_port(&ip.to_string(), port)),
        port: is_head.then_some(port),
        node_ip_address: is_head.then(|| ip.to_string()),
        node_manager_port: args.node_manager_port.filter(|_| !is_head),
        dashboard: if is_head { args.dashboard } else { Default::default() },
        offer: args.offer,
        labels_file: args.labels_file,
        ends_with_starter: true,
        ..Start::default()
    };
    (start, args.command)
}

/// Waits until somebody listens where the head will be.
fn await_head(ip: IpAddr, port: u16, patience: Duration) -> Result<(), String> {
    let address = host_port(&ip.to_string(), port);
    output::line(&format!("The head of the cluster is at {address}. This machine joins it."));
    let began = Instant::now();
    while let Err(error) = TcpStream::connect_timeout(&(ip, port).into(), patience) {
        if began.elapsed() >= patience {
            return Err(format!(
                "The head at {address} did not answer within {} s: {error}. Does `symmetric-run` run on that machine, \
                 too? {WAIT_LONGER}",
                patience.as_secs()
            ));
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Joins the cluster, and stays until it ends.
async fn join(start: &Start, prepared: &Prepared) -> Result<(), String> {
    let (daemon, ready) = start::launch(start, prepared).await?;
    let signals = start::Signals::listen()?;
    output::line("This machine is a node of the cluster.");
    start::block(daemon, &ready, signals).await?;
    output::line("The cluster has ended.");
    Ok(())
}

const WAIT_LONGER: &str =
    "RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT sets how many seconds are waited.";

/// Waits until that number of nodes is in the cluster, and says the number whenever it changes.
async fn wait_for_nodes(ready: &Value, wanted: usize, patience: Duration) -> Result<(), String> {
    let began = Instant::now();
    let mut said = 0;
    loop {
        let nodes = start::nodes(ready).await?;
        let here = nodes.iter().filter(|node| node.alive).count();
        if here >= wanted {
            return Ok(());
        }
        if here != said {
            output::line(&format!("{here} of {wanted} nodes are there."));
            said = here;
        }
        if began.elapsed() >= patience {
            return Err(format!(
                "{here} of {wanted} nodes were there after {} s. Did `symmetric-run` start on the others, and do they \
                 reach this machine? {WAIT_LONGER}",
                patience.as_secs()
            ));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Runs the command with the cluster as its `RAY_ADDRESS`. A signal that asks this process to end is handed on, and
/// the command's end is waited for all the same.
async fn attend(command: &[std::ffi::OsString], address: &str) -> Result<ExitStatus, String> {
    let (program, arguments) = command.split_first().ok_or("No command was given.")?;
    let failed = |error: std::io::Error| format!("{}: {error}", program.to_string_lossy());
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut child = Command::new(program)
        .args(arguments)
        .env("RAY_ADDRESS", address)
        .env_remove("HELIOSTAT_ADDRESS") // it would win
        .spawn()
        .map_err(failed)?;
    loop {
        tokio::select! {
            status = child.wait() => return status.map_err(failed),
            _ = terminate.recv() => start::send(&child, Signal::TERM),
            // A terminal sends it to the command as well.
            _ = interrupt.recv() => {}
        }
    }
}

/// The code with which a shell would say how the command ended.
fn code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| Some(ENDED_BY_SIGNAL + status.signal()?)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
