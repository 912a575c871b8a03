//! From options to a running daemon.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helio_config::session::{NODE_SOCKET, PACKAGES_FOLDER, RAYLET_SOCKET};
use helio_config::table::PACKAGE_PATH;
use helio_env::clock::{Clock, unix_ms};
use helio_env::{machine, process, random};
use helio_node_state::Setup;
use helio_node_state::limits::BULK_MIN;
use helio_proto::control::Label;
use helio_proto::hello::{Hello, Role, VERSION, Welcome};
use helio_proto::node::overflow_start;
use helio_rpc::http::Entrance;
use helio_rpc::service::{Gate, listen_unix};
use helio_store::Arena;
use helio_types::address::host_port;
use helio_types::resources::Quantity;
use helio_types::{DEVICE_KINDS, Devices, NodeAddress, NodeId, ResourceSet};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::bulk::Bulk;
use crate::core::{Daemon, INPUTS_MAX};
use crate::door::Door;
use crate::input::ZygoteKind;
use crate::memory::Monitor;
use crate::options::{Options, Ready};
use crate::packages::Packages;
use crate::spill::Disk;
use crate::zygote::{Zygote, ZygoteOptions};
use crate::{Error, agent, control, gpus, hardware, listen, metrics};

/// The least size of the object store, in bytes.
const STORE_MIN: u64 = 64 << 20;

/// The most that is read from disk while the memory is full; the disk is full long before.
const OVERFLOW_MAX: u64 = 1 << 44;

/// Number of idle workers that are kept beyond one a CPU.
const IDLE_SPARE: usize = 2;

pub(crate) async fn start(options: Options) -> Result<(Daemon, Ready), Error> {
    let node_id =
        options.guest.as_ref().map_or_else(|| NodeId(random::bytes()), |guest| guest.node_id);
    let host = if options.host.is_empty() { "127.0.0.1".to_owned() } else { options.host.clone() };
    let port = match (&options.guest, &options.listener) {
        (Some(guest), _) => guest.port,
        (None, Some(listener)) => listener.local_addr()?.port(),
        (None, None) => 0,
    };
    let metrics = match options.metrics_port {
        Some(port) => {
            let failed = |source| Error::Listen { host: host.clone(), port, source };
            Some(TcpListener::bind((host.as_str(), port)).await.map_err(failed)?)
        }
        None => None,
    };
    let export = metrics::Export::from_environment().map_err(io::Error::other)?;
    let metrics_port = match &metrics {
        Some(listener) => listener.local_addr()?.port(),
        None => 0,
    };
    let agent = match options.agent_port {
        Some(port) => {
            let failed = |source| Error::Listen { host: String::new(), port, source };
            Some(agent::listen(port).await.map_err(failed)?)
        }
        None => None,
    };
    let socket_path = options.session_dir.join(NODE_SOCKET);
    let named = |source| Error::Path { path: socket_path.display().to_string(), source };
    let unix = listen_unix(&socket_path).map_err(named)?;
    link(&socket_path, &options.session_dir.join(RAYLET_SOCKET)).map_err(named)?;
    let logs = options.session_dir.join("logs");
    make_dir(&logs)?;
    process::become_subreaper()?;

    let address = NodeAddress { node_id, host: host.clone(), port: u32::from(port) };
    let clock = Clock::start();
    let epoch_ms = unix_ms().saturating_sub(clock.now_ms());
    let setup = setup(&options, address, metrics_port, epoch_ms);
    let size = setup.store_size;
    let arena = Arena::create(size).map_err(|source| Error::Store { size, source })?;
    let arena =
        Arc::new(arena.with_overflow(PathBuf::from(&setup.overflow_path), overflow_start(size)));

    let (inputs, receiver) = mpsc::channel(INPUTS_MAX);
    // First of all: it takes longest to be ready.
    let zygote_options = zygote_options(&options, &socket_path, node_id);
    // A driver's machine outside the cluster runs no workers.
    let start = if options.guest.is_some() { Zygote::when_asked } else { Zygote::start };
    let zygote = start(ZygoteKind::Bare, zygote_options.clone(), inputs.clone());
    let welcome =
        Welcome { version: VERSION, node_id, pid: std::process::id(), ..Welcome::default() };
    let gate = Gate::new("node", &options.token, welcome);
    let gate = Arc::new(gate.encrypting(options.identity.clone()).handing_over());
    let logs = Arc::new(logs);
    listen::unix(unix, Arc::clone(&gate), Arc::clone(&logs), inputs.clone());
    let hello = Hello {
        token: options.token.clone(),
        role: Role::Node,
        node_id,
        pid: std::process::id(),
        host: host.clone(),
        port: u32::from(port),
        ..Hello::default()
    };
    let bulk = Bulk::new(&hello, inputs.clone(), Arc::clone(&arena));
    if let Some(listener) = &options.listener {
        let door = Door {
            gate: Arc::clone(&gate),
            session_dir: options.session_dir.clone(),
            is_head: options.is_head,
            inputs: inputs.clone(),
            objects: bulk.server(Arc::clone(&gate)),
            packages: Packages::new(
                Arc::clone(&gate),
                options.session_dir.join(PACKAGES_FOLDER),
                options.packages.clone(),
                bulk.threads(),
            ),
            logs,
        };
        door.open(TcpListener::from_std(listener.try_clone()?)?);
    }
    let gpu_parts = gpus::Parts::default();
    if metrics.is_some() || export.is_some() {
        let endpoint = metrics::Endpoint {
            token: options.token.clone(),
            session_name: options.session_name.clone(),
            session_dir: options.session_dir.clone(),
            node_socket: socket_path.clone(),
            is_head: options.is_head,
            gpu_parts: gpu_parts.clone(),
            entrance: Entrance { identity: options.identity.clone(), may_be_plain: false },
        };
        metrics::serve(metrics, export, endpoint, inputs.clone());
    }
    if let Some(agent) = agent {
        agent::serve(agent, options.is_head, inputs.clone());
    }
    listen::signals(inputs.clone())?;
    gpus::watch(inputs.clone(), gpu_parts);
    tokio::spawn(hardware::watch(inputs.clone()));
    let link = control::start(
        options.control.clone(),
        Arc::clone(&options.head),
        hello.clone(),
        inputs.clone(),
    );
    let disk = Disk::new(
        options.spill_dir.clone(),
        options.disk_threshold,
        Arc::clone(&arena),
        inputs.clone(),
    );
    let daemon = Daemon::new(
        setup,
        clock,
        arena,
        disk,
        zygote,
        zygote_options,
        gate,
        hello,
        bulk,
        link,
        Arc::clone(&options.head),
        // With the head the cluster ends.
        if options.is_head { 0 } else { options.preemption_grace_ms },
        &options.session_dir,
        options.output_bounds,
        Monitor::new(&options),
        inputs,
        receiver,
    );
    Ok((daemon, Ready { node_id, port, node_socket: socket_path }))
}

fn setup(options: &Options, address: NodeAddress, metrics_port: u16, epoch_ms: u64) -> Setup {
    let memory = machine::memory();
    let store_size = options
        .object_store_memory
        .unwrap_or_else(|| ((memory as f64 * options.store_part) as u64).min(options.store_max));
    let store_size = store_size.max(STORE_MIN);
    let cpus = options.num_cpus.unwrap_or(machine::cpus() as f64);
    // A given number of GPUs is believed: they may be logical.
    let found = machine::gpus();
    let num_gpus = options.num_gpus.unwrap_or(found.len() as f64);
    let gpus: Vec<u32> = (0..num_gpus.ceil() as usize)
        .map(|index| found.get(index).copied().unwrap_or(index as u32))
        .collect();
    let others = DEVICE_KINDS.iter().filter(|kind| kind.resource != "GPU").filter_map(|kind| {
        let number = options.resources.get(kind.resource)?.ceil() as u32;
        Some((kind.resource.to_owned(), (0..number).collect()))
    });
    let mut devices: Devices = others.collect();
    devices.insert("GPU".to_owned(), gpus);
    devices.retain(|_, indices: &mut Vec<u32>| !indices.is_empty());
    let mut total = ResourceSet::from_units(
        options.resources.iter().map(|(name, value)| (name.as_str(), *value)),
    );
    total.set("CPU", Quantity::from_f64(cpus));
    total.set("GPU", Quantity::from_f64(num_gpus));
    let left = options.memory.unwrap_or(memory.saturating_sub(store_size));
    total.set("memory", Quantity::from_f64(left as f64));
    total.set("object_store_memory", Quantity::from_f64(store_size as f64));
    if options.guest.is_some() {
        total = ResourceSet::default();
        devices.clear();
    }
    // A resource of which every node has one, by which work is bound to a machine.
    if options.guest.is_none() {
        total.set(&format!("node:{}", address.host), Quantity::from_f64(1.0));
    }
    if options.is_head {
        total.set("node:__internal_head__", Quantity::from_f64(1.0));
    }
    let mut labels: BTreeMap<String, String> = options.labels.clone();
    labels.insert("ray.io/node-id".to_owned(), address.node_id.hex());
    let cpu_count = cpus.ceil().max(1.0) as usize;
    Setup {
        seed: random::bytes(),
        labels: labels.into_iter().map(|(key, value)| Label { key, value }).collect(),
        total,
        devices,
        store_size,
        overflow_size: OVERFLOW_MAX,
        bulk_min: BULK_MIN,
        spills_max: options.spills_max,
        room_ms_max: options.room_ms_max,
        arguments_max: (store_size as f64 * options.arguments_part) as u64,
        overflow_path: options.spill_dir.join("overflow").display().to_string(),
        name: if options.node_name.is_empty() {
            address.host.clone()
        } else {
            options.node_name.clone()
        },
        hostname: machine::hostname(),
        session_dir: options.session_dir.display().to_string(),
        session_name: options.session_name.clone(),
        temp_dir: options.temp_dir.display().to_string(),
        control_address: match options.head.address() {
            Some((host, port)) => host_port(&host, port),
            None => options.control_address.clone(),
        },
        instance_id: options.instance_id.clone(),
        pid: std::process::id(),
        epoch_ms,
        is_head: options.is_head,
        is_guest: options.guest.is_some(),
        has_owner: options.owner_driver,
        // The machine's own CPUs bound how many can start at once, whatever is offered.
        starts_max: machine::cpus().max(1) * 2 + 2,
        idle_max: cpu_count.min(64) + IDLE_SPARE,
        metrics_port: u32::from(metrics_port),
        headless_ms_max: options.headless_ms_max,
        address,
    }
}

fn zygote_options(options: &Options, socket_path: &Path, node_id: NodeId) -> ZygoteOptions {
    let package_path = options.package_path.clone().or_else(package_path).unwrap_or_default();
    let env = [
        ("HELIOSTAT_NODE_SOCKET", socket_path.display().to_string()),
        ("HELIOSTAT_AUTH_TOKEN", options.token.clone()),
        ("HELIOSTAT_SESSION_DIR", options.session_dir.display().to_string()),
        ("HELIOSTAT_SESSION", options.session_name.clone()),
        ("HELIOSTAT_NODE_ID", node_id.hex()),
        ("HELIOSTAT_NODE_HOST", options.host.clone()),
    ];
    ZygoteOptions {
        python: options.python.clone(),
        script: package_path.join("heliostat/core/worker/zygote.py"),
        env: env.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        log: options.session_dir.join("logs/zygote.err"),
    }
}

/// `<package path>/heliostat/bin/heliostat` is this binary; or the environment says where to look.
fn package_path() -> Option<PathBuf> {
    if let Some(path) = helio_env::settings::text(&PACKAGE_PATH) {
        return Some(path.into());
    }
    let binary = fs::canonicalize(std::env::current_exe().ok()?).ok()?;
    Some(binary.parent()?.parent()?.parent()?.to_owned())
}

/// Gives the socket another name in its folder; one is there where a daemon before this one served the session.
fn link(socket: &Path, name: &Path) -> io::Result<()> {
    match std::os::unix::fs::symlink(socket.file_name().unwrap_or_default(), name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

fn make_dir(path: &Path) -> Result<(), Error> {
    let result = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    result.map_err(|source| Error::Path { path: path.display().to_string(), source })
}
