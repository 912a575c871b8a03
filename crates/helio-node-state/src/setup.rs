//! The setup of a node: what stays the same from its start on, but for the place of the head.

use helio_proto::control::Label;
use helio_types::address::split_host_port;
use helio_types::{Devices, NodeAddress, ResourceSet};

use crate::contact::Place;

/// The facts of a node that hold from its start on.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The id of the node and the address at which it listens.
    pub address: NodeAddress,
    /// Random; the ids of its workers are made from it.
    pub seed: [u8; 28],
    /// The node's labels.
    pub labels: Vec<Label>,
    /// The resources of the node.
    pub total: ResourceSet,
    /// The devices of each countable resource.
    pub devices: Devices,
    /// The length of its memory file.
    pub store_size: u64,
    /// Bytes that may lie in a file on disk when readers need more than the memory file has; 0: none.
    pub overflow_size: u64,
    /// The file, for clients.
    pub overflow_path: String,
    /// Bytes of the memory file that the arguments of running tasks may have; 0: no limit.
    pub arguments_max: u64,
    /// Size in bytes from which on objects travel over connections of their own.
    pub bulk_min: u64,
    /// Maximum number of objects that are written to disk at a time.
    pub spills_max: usize,
    /// Milliseconds that an object waits for room before its writer or reader is told that there is none.
    pub room_ms_max: u64,
    /// The node's name, for lists.
    pub name: String,
    /// The machine's host name, for lists.
    pub hostname: String,
    /// The session's folder, for lists.
    pub session_dir: String,
    /// The session's name, for lists.
    pub session_name: String,
    /// The folder of all sessions, for lists.
    pub temp_dir: String,
    /// The machine's name as its launcher knows it; empty: not known.
    pub instance_id: String,
    /// `host:port` of the control service.
    pub control_address: String,
    /// The daemon's process.
    pub pid: u32,
    /// Milliseconds since 1970 when the machine's time was 0, for those who ask when something was.
    pub epoch_ms: u64,
    /// Whether the control service lives here.
    pub is_head: bool,
    /// Whether this is the machine of a driver outside the cluster: nothing is placed here.
    pub is_guest: bool,
    /// Whether the daemon ends with the driver that registers with `owns_cluster`.
    pub has_owner: bool,
    /// Maximum number of workers that start at a time.
    pub starts_max: usize,
    /// Number of idle workers that are kept.
    pub idle_max: usize,
    /// The port of the metrics page; 0: there is none.
    pub metrics_port: u32,
    /// Milliseconds that the node goes on without a control service; 0: the default.
    pub headless_ms_max: u64,
}

impl Setup {
    /// Returns the place of this node, seen from the control service.
    pub(crate) fn place(&self) -> Place {
        if self.is_head {
            Place::InHead
        } else if self.is_guest {
            Place::Guest
        } else if self.is_at_control(&self.address.host) {
            Place::BesideHead
        } else {
            Place::Elsewhere
        }
    }

    /// Whether that host is the head's machine.
    pub(crate) fn is_at_control(&self, host: &str) -> bool {
        split_host_port(&self.control_address).is_some_and(|(control, _)| control == host)
    }
}
