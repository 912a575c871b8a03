//! The options of a daemon.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;

use helio_storage::outside::Copies;
use helio_tls::Identity;
use helio_types::NodeId;

use crate::head::Head;
use crate::output_files::Bounds;

/// The way to a control service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Through its socket file, on the head.
    Socket(PathBuf),
    /// Through the head's port.
    Port(String, u16),
}

impl Default for Reach {
    fn default() -> Self {
        Self::Socket(PathBuf::new())
    }
}

/// The node of a driver's machine outside the cluster: it offers nothing, and is reached through the head's port.
#[derive(Debug, Clone)]
pub struct GuestNode {
    /// The id of the node, by which the gateway knows it.
    pub node_id: NodeId,
    /// The head's port; [`Options::host`] is the head's.
    pub port: u16,
}

/// The options of a daemon.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The address at which other machines reach this one; empty: 127.0.0.1.
    pub host: String,
    /// The TCP port at which other machines reach this node's processes; `None`: they do not.
    pub listener: Option<Arc<TcpListener>>,
    /// The machine is that of a driver outside the cluster; `None`: it is one of the cluster's.
    pub guest: Option<GuestNode>,
    /// Number of CPUs to offer; `None`: all that there are.
    pub num_cpus: Option<f64>,
    /// Number of GPUs to offer; `None`: all that are found.
    pub num_gpus: Option<f64>,
    /// The resources to offer beside CPUs, GPUs and memory.
    pub resources: BTreeMap<String, f64>,
    /// The node's labels.
    pub labels: BTreeMap<String, String>,
    /// The object store's size in bytes; `None`: 30 % of the memory.
    pub object_store_memory: Option<u64>,
    /// The part of the memory that the store takes when its size is not given.
    pub store_part: f64,
    /// The most that it takes then, in bytes.
    pub store_max: u64,
    /// The memory to offer in bytes; `None`: what the object store leaves.
    pub memory: Option<u64>,
    /// The part of the machine's memory that may be in use before workers are ended.
    pub memory_usage_threshold: f64,
    /// Milliseconds between two looks at the memory while workers run something; 0: there are none.
    pub memory_monitor_refresh_ms: u64,
    /// The part of the object store that the arguments of running tasks may take; 0: any.
    pub arguments_part: f64,
    /// Bounds of the disk space for what workers print.
    pub output_bounds: Bounds,
    /// The part of the disk, from 0 to 1, that may be in use before it takes no more objects.
    pub disk_threshold: f64,
    /// Number of objects that are written to that disk at a time.
    pub spills_max: usize,
    /// Milliseconds that an object waits for room before its writer or reader is told that there is none.
    pub room_ms_max: u64,
    /// The control group whose memory counts; `None`: the machine's, and that of every group that the
    /// daemon is in.
    pub memory_group: Option<PathBuf>,
    /// The port for measurements; 0: any; `None`: they are not served.
    pub metrics_port: Option<u16>,
    /// The port where probes ask whether the node is well; `None`: nowhere.
    pub agent_port: Option<u16>,
    /// The machine's name as its launcher knows it; empty: not known.
    pub instance_id: String,
    /// Milliseconds that the node goes on without a control service.
    pub headless_ms_max: u64,
    /// Milliseconds that the machine is still there after SIGTERM; 0: the signal ends the daemon at once.
    pub preemption_grace_ms: u64,
    /// The session's folder.
    pub session_dir: PathBuf,
    /// The folder for objects for which the store has no room.
    pub spill_dir: PathBuf,
    /// The head's packages, where another head finds them; `None`: it is not to.
    pub packages: Option<Copies>,
    /// The session's name.
    pub session_name: String,
    /// The folder of all sessions.
    pub temp_dir: PathBuf,
    /// The Python that workers run.
    pub python: PathBuf,
    /// The folder that holds the `heliostat` package; `None`: from the binary's place.
    pub package_path: Option<PathBuf>,
    /// The cluster's token.
    pub token: String,
    /// The certificate for other machines, which have to encrypt; `None`: they speak in the clear.
    pub identity: Option<Arc<Identity>>,
    /// The way to the control service.
    pub control: Reach,
    /// The address of the head after another one has taken over.
    pub head: Arc<Head>,
    /// The name of the control service, for people and drivers: `host:port` of the head.
    pub control_address: String,
    /// The daemon ends with the driver that started it.
    pub owner_driver: bool,
    /// The node's name, for people; empty: its host.
    pub node_name: String,
    /// Whether the control service lives in this process.
    pub is_head: bool,
}

/// The facts that a daemon tells of itself when it is ready.
#[derive(Debug, Clone)]
pub struct Ready {
    /// The id of the node.
    pub node_id: NodeId,
    /// The TCP port of the node; 0: it has none.
    pub port: u16,
    /// The path of the node's UNIX socket.
    pub node_socket: PathBuf,
}
