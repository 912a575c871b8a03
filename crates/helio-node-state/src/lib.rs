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
//! Reading order: [`event`], then by what each part owns: `clients`, `jobs`, `ledger`, `leases`,
//! `bundles`, `pool`, `loaded`, `actors`, `deaths`, `memory`, `extents`, `objects`, `spill`, `pulls`,
//! `arguments`, `cluster`, `inspect`.

#![forbid(unsafe_code)]

pub mod check;
pub mod event;
pub mod extents;
pub mod limits;

mod actors;
mod arguments;
mod bundles;
mod clients;
mod cluster;
mod control;
mod deaths;
mod full;
mod gpus;
mod holders;
mod inspect;
mod jobs;
mod last_words;
mod leases;
mod ledger;
mod loaded;
mod memory;
mod objects;
mod overflow;
mod pool;
mod pulls;
mod spill;
mod timers;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use helio_proto::cluster::NodeToControl;
use helio_proto::control::{GpuUse, Label};
use helio_proto::node::NodeToClient;
use helio_types::{Devices, LeaseId, NodeAddress, ResourceSet, WorkerId};

pub use event::{Action, Conn, DiskError, Event, Exit, Spawn};
pub use memory::MemoryUse;

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

/// The node.
#[derive(Debug)]
pub struct Node {
    setup: Setup,
    now: u64,
    out: Vec<Action>,
    /// Something was freed, came or went: waiting requests may have a place now.
    is_dirty: bool,
    /// Other nodes have changed: waiting requests may have a place there now.
    others_changed: bool,
    status_changed: bool,
    version: u64,
    ids: u64,
    timers: timers::Timers,
    clients: clients::Clients,
    jobs: jobs::Jobs,
    ledger: ledger::Ledger,
    queue: leases::Queue,
    leases: BTreeMap<LeaseId, leases::Lease>,
    lease_count: u64,
    bundles: bundles::Bundles,
    pool: pool::Pool,
    loaded: loaded::Loaded,
    actors: actors::Actors,
    deaths: deaths::Deaths,
    objects: objects::Objects,
    pulls: pulls::Pulls,
    arguments: arguments::Arguments,
    cluster: cluster::Cluster,
    control: control::Control,
    inspections: inspect::Inspections,
    last_words: last_words::Remembered,
    memory: memory::Memory,
    /// The last reading of the machine's GPUs.
    gpus: Vec<GpuUse>,
}

impl Node {
    /// A node that has just started.
    #[must_use]
    pub fn new(setup: Setup, now_ms: u64) -> Self {
        let ledger = ledger::Ledger::new(setup.total.clone(), &setup.devices);
        let mut node = Self {
            now: now_ms,
            out: Vec::new(),
            is_dirty: false,
            others_changed: false,
            status_changed: false,
            version: 0,
            ids: 0,
            timers: timers::Timers::default(),
            clients: clients::Clients::default(),
            jobs: jobs::Jobs::default(),
            ledger,
            queue: leases::Queue::default(),
            leases: BTreeMap::new(),
            lease_count: 0,
            bundles: bundles::Bundles::default(),
            pool: pool::Pool::default(),
            loaded: loaded::Loaded::default(),
            actors: actors::Actors::default(),
            deaths: deaths::Deaths::default(),
            objects: objects::Objects::new(setup.store_size, setup.overflow_size),
            pulls: pulls::Pulls::default(),
            arguments: arguments::Arguments::new(setup.arguments_max),
            cluster: cluster::Cluster::new(&setup),
            control: control::Control::default(),
            inspections: inspect::Inspections::default(),
            last_words: last_words::Remembered::default(),
            memory: memory::Memory::default(),
            gpus: Vec::new(),
            setup,
        };
        if node.setup.has_owner {
            node.timers.set(now_ms + limits::OWNER_MS_MAX, timers::Timer::Owner);
        }
        node
    }

    /// Takes in what happened and returns what is to be done, in this order. Total: there is no event
    /// that it does not expect, at any time.
    pub fn apply(&mut self, event: Event, now_ms: u64) -> Vec<Action> {
        self.now = self.now.max(now_ms);
        match event {
            Event::ClientOpened { conn, role, node_id, is_local } => {
                self.client_opened(conn, role, node_id, is_local)
            }
            Event::ClientSaid { conn, message } => self.client_said(conn, message),
            Event::ClientClosed { conn } => self.client_closed(conn),
            Event::WorkerStarted { worker_id, pid } => self.worker_started(worker_id, pid),
            Event::WorkerNotStarted { worker_id, why } => self.worker_not_started(worker_id, &why),
            Event::WorkerExited { worker_id, exit, log_tail } => {
                self.worker_exited(worker_id, exit, log_tail)
            }
            Event::WorkerWrote { worker_id, lines } => self.worker_wrote(worker_id, lines),
            Event::ControlConnected => self.control_connected(),
            Event::ControlSaid(message) => self.control_said(message),
            Event::ControlLost => self.control_lost(),
            Event::PeerSaid { conn, node_id, message } => self.peer_said(conn, node_id, message),
            Event::PeerLost { conn, node_id } => self.peer_lost(conn, node_id),
            Event::Served { conn, request_id } => self.served(conn, request_id),
            Event::Spilled { object_id, outcome } => self.spilled(object_id, outcome),
            Event::Restored { object_id, outcome } => self.restored(object_id, outcome),
            Event::Reserved { offset, outcome } => self.reserved(offset, outcome),
            Event::Loaded { is_ready } => self.loaded.is_ready = is_ready,
            Event::Scrape { number } => self.shell_scrapes(number),
            Event::MemoryRead(memory) => self.memory_read(&memory),
            Event::GpusRead(gpus) => self.gpus = gpus,
            Event::Tick => {}
        }
        while let Some(timer) = self.timers.due(self.now) {
            self.timer_fired(timer);
        }
        self.give_room_if_new();
        let is_dirty = std::mem::take(&mut self.is_dirty);
        if std::mem::take(&mut self.others_changed) || is_dirty {
            let has_served = self.dispatch();
            // News of others are no news of this node: two that answered them with their own would go on
            // for ever.
            self.status_changed |= is_dirty || has_served;
        }
        if std::mem::take(&mut self.status_changed) {
            self.version += 1;
            self.out.push(Action::StatusChanged);
        }
        self.punch_holes();
        for object_id in std::mem::take(&mut self.objects.removals) {
            self.out.push(Action::RemoveFile { object_id });
        }
        std::mem::take(&mut self.out)
    }

    /// When [`Event::Tick`] is needed next.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        self.timers.next()
    }

    /// The processes that are alive, for an orderly end.
    pub fn workers(&self) -> impl Iterator<Item = WorkerId> {
        self.pool.workers.keys().copied()
    }

    fn send(&mut self, conn: Conn, message: impl Into<NodeToClient>) {
        self.out.push(Action::Send { conn, message: message.into() });
    }

    fn tell_control(&mut self, message: impl Into<NodeToControl>) {
        self.out.push(Action::Control(message.into()));
    }

    /// A new id: unique on this node by its first eight bytes, everywhere by the rest.
    fn new_worker_id(&mut self) -> WorkerId {
        self.ids += 1;
        let mut bytes = self.setup.seed;
        let (head, _) = bytes.split_first_chunk_mut::<8>().expect("28 bytes");
        // A bijection of the counter (splitmix64), so that no two ids of a node begin alike.
        let mut mixed =
            u64::from_le_bytes(*head).wrapping_add(self.ids.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        *head = (mixed ^ (mixed >> 31)).to_le_bytes();
        WorkerId(bytes)
    }
}
