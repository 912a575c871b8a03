//! The node state machine: what the daemon of one machine knows and decides.
//!
//! **STATE-1** [`Node`] changes only in [`Node::apply`], which is total and deterministic and returns
//! every effect. It does no I/O and reads no clock; worker ids are made from a seed that the shell
//! draws ([`Setup::seed`]).
//!
//! **NODE-1** Nothing here runs user code: specs, arguments and values pass through as bytes.
//!
//! **LIMIT-1** Every table has a bound in [`limits`]. **WHY-1** Every request that waits can say for
//! what ([`explain`](Node::info)).
//!
//! Each sub-machine is a type with private fields in a file or folder of its own. It handles events in
//! methods `on_<event>`, acts through its [`context`] and knows no other sub-machine. [`Node`] owns them
//! all and passes events from one to the other; the folder `node` has a file for each kind of event.
//!
//! Reading order: [`event`], `node`, then the sub-machines.

#![forbid(unsafe_code)]

pub mod check;
pub mod event;
pub mod limits;

mod actors;
mod arguments;
mod bundles;
mod clients;
mod cluster;
mod context;
mod control_calls;
mod exits;
mod gpus;
mod holders;
mod inspections;
mod jobs;
mod keys;
mod last_words;
mod leases;
mod ledger;
mod liveness;
mod memory;
mod node;
mod pool;
mod preload;
mod store;
mod timers;

#[cfg(test)]
mod tests;

use helio_proto::control::Label;
use helio_types::{Devices, NodeAddress, ResourceSet};

pub use event::{Action, Conn, DiskError, Event, Exit, Spawn};
pub use memory::MemoryUse;
pub use node::Node;

/// What a node is from its start on.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Its id and where it listens.
    pub address: NodeAddress,
    /// Random; the ids of its workers are made from it.
    pub seed: [u8; 28],
    /// Its labels.
    pub labels: Vec<Label>,
    /// What it has.
    pub total: ResourceSet,
    /// Its devices.
    pub devices: Devices,
    /// The length of its memory file.
    pub store_size: u64,
    /// How much may lie in a file on disk when readers need more than the memory file has; 0: nothing.
    pub overflow_size: u64,
    /// The file, for clients.
    pub overflow_path: String,
    /// How many bytes of the memory file the arguments of running tasks may have; 0: any number.
    pub arguments_max: u64,
    /// How many objects are written to disk at a time.
    pub spills_max: usize,
    /// For those who ask.
    pub name: String,
    /// For those who ask.
    pub hostname: String,
    /// For those who ask.
    pub session_dir: String,
    /// For those who ask.
    pub session_name: String,
    /// For those who ask.
    pub temp_dir: String,
    /// `host:port` of the control service.
    pub control_address: String,
    /// The daemon's process.
    pub pid: u32,
    /// Whether the control service lives here.
    pub is_head: bool,
    /// Whether the daemon ends with the driver that registers with `owns_cluster`.
    pub has_owner: bool,
    /// How many workers may be starting at a time.
    pub starts_max: usize,
    /// How many idle workers are kept.
    pub idle_max: usize,
    /// Where measurements are to be had; 0: nowhere.
    pub metrics_port: u32,
}
