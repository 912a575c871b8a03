//! The node: owns the sub-machines, and passes each event to the ones that it concerns.

mod clients;
mod control;
mod inspect;
mod jobs;
mod liveness;
mod memory;
mod objects;
mod peers;
mod status;

use std::collections::BTreeMap;

use helio_proto::control::GpuUse;
use helio_types::{LeaseId, WorkerId};

use crate::context::Context;
use crate::store::Store;
use crate::timers::Timer;
use crate::{
    Action, Event, Setup, actors, arguments, bundles, clients as client_table, cluster,
    control_calls, exits, inspections, jobs as job_table, leases, ledger, limits,
    liveness as questions, memory as memory_monitor, pool, preload,
};

/// The node. See the crate's documentation.
#[derive(Debug)]
pub struct Node {
    pub(crate) ctx: Context,
    version: u64,
    ids: u64,
    pub(crate) clients: client_table::Clients,
    pub(crate) jobs: job_table::Jobs,
    pub(crate) ledger: ledger::Ledger,
    pub(crate) queue: leases::Queue,
    pub(crate) leases: BTreeMap<LeaseId, leases::Lease>,
    pub(crate) lease_count: u64,
    pub(crate) bundles: bundles::Bundles,
    pub(crate) pool: pool::Pool,
    pub(crate) preload: preload::Preload,
    pub(crate) actors: actors::Actors,
    pub(crate) exits: exits::Exits,
    pub(crate) liveness: questions::Liveness,
    pub(crate) store: Store,
    pub(crate) arguments: arguments::Arguments,
    pub(crate) cluster: cluster::Cluster,
    pub(crate) control: control_calls::ControlCalls,
    pub(crate) inspections: inspections::Inspections,
    memory: memory_monitor::Memory,
    /// The last reading of the machine's GPUs.
    gpus: Vec<GpuUse>,
}

impl Node {
    /// A node that has just started.
    #[must_use]
    pub fn new(setup: Setup, now_ms: u64) -> Self {
        let mut node = Self {
            version: 0,
            ids: 0,
            clients: client_table::Clients::default(),
            jobs: job_table::Jobs::default(),
            ledger: ledger::Ledger::new(setup.total.clone(), &setup.devices),
            queue: leases::Queue::default(),
            leases: BTreeMap::new(),
            lease_count: 0,
            bundles: bundles::Bundles::default(),
            pool: pool::Pool::default(),
            preload: preload::Preload::default(),
            actors: actors::Actors::default(),
            exits: exits::Exits::default(),
            liveness: questions::Liveness::default(),
            store: Store::new(setup.store_size, setup.overflow_size),
            arguments: arguments::Arguments::new(setup.arguments_max),
            cluster: cluster::Cluster::new(&setup),
            control: control_calls::ControlCalls::default(),
            inspections: inspections::Inspections::default(),
            memory: memory_monitor::Memory::default(),
            gpus: Vec::new(),
            ctx: Context::new(setup, now_ms),
        };
        if node.ctx.setup().has_owner {
            node.ctx.set_timer(now_ms + limits::OWNER_MS_MAX, Timer::Owner);
        }
        node
    }

    /// Takes in an event at `now` (milliseconds) and returns the actions, in the order in which they are
    /// to be executed. Total: any event may come at any time.
    pub fn apply(&mut self, event: Event, now: u64) -> Vec<Action> {
        self.ctx.begin(now);
        self.on_event(event);
        while let Some(timer) = self.ctx.due_timer() {
            self.on_timer(timer);
        }
        self.with_store(Store::give_new_room);
        let capacity_changed = self.ctx.take_capacity_changed();
        if self.ctx.take_others_changed() || capacity_changed {
            let has_served = self.dispatch();
            // News of others are no news of this node: two that answered them with their own would go on
            // for ever.
            if capacity_changed || has_served {
                self.ctx.status_changed();
            }
        }
        if self.ctx.take_status_changed() {
            self.version += 1;
            self.ctx.push(Action::StatusChanged);
        }
        self.with_store(Store::give_back_disk);
        self.ctx.finish()
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::ClientOpened { conn, role, node_id, is_local } => {
                self.clients.on_client_opened(conn, role, node_id, is_local)
            }
            Event::ClientSaid { conn, message } => self.on_client_said(conn, message),
            Event::ClientClosed { conn } => self.on_client_closed(conn),
            Event::WorkerStarted { worker_id, pid } => self.on_worker_started(worker_id, pid),
            Event::WorkerNotStarted { worker_id, why } => {
                self.on_worker_not_started(worker_id, &why)
            }
            Event::WorkerExited { worker_id, exit, log_tail } => {
                self.on_worker_exited(worker_id, exit, log_tail)
            }
            Event::WorkerWrote { worker_id, lines } => self.on_worker_wrote(worker_id, lines),
            Event::ControlConnected => self.control.on_connected(&mut self.ctx),
            Event::ControlSaid(message) => self.on_control_said(message),
            Event::ControlLost => self.control.on_lost(),
            Event::PeerSaid { conn, node_id, message } => self.on_peer_said(conn, node_id, message),
            Event::PeerLost { conn, node_id } => self.on_peer_lost(conn, node_id),
            Event::Served { conn, request_id } => {
                self.with_store(|store, env| store.on_served(conn, request_id, env))
            }
            Event::Spilled { object_id, outcome } => {
                self.with_store(|store, env| store.on_spilled(object_id, outcome, env))
            }
            Event::Restored { object_id, outcome } => {
                self.with_store(|store, env| store.on_restored(object_id, outcome, env))
            }
            Event::Reserved { offset, outcome } => {
                self.with_store(|store, env| store.on_reserved(offset, outcome, env))
            }
            Event::Loaded { is_ready } => self.preload.on_loaded(is_ready),
            Event::Scrape { number } => self.on_scrape(number),
            Event::MemoryRead(memory) => self.on_memory_read(&memory),
            Event::GpusRead(gpus) => self.gpus = gpus,
            Event::Tick => {}
        }
    }

    fn on_timer(&mut self, timer: Timer) {
        match timer {
            Timer::WorkerStart(worker_id) => self.worker_start_is_late(worker_id),
            Timer::WorkerExit(worker_id) => self.worker_exit_is_late(worker_id),
            Timer::WorkerDrain(worker_id) => self.worker_drain_is_late(worker_id),
            Timer::Idle => self.end_idle_workers(),
            Timer::Spill => self.ctx.capacity_changed(),
            Timer::Actor(key) => self.actor_placement_is_late(key),
            Timer::Liveness => self.liveness.answer(&self.exits, &mut self.ctx),
            Timer::Pull(object_id) => {
                self.with_store(|store, env| store.on_pull_timer(object_id, env))
            }
            Timer::Absent => self.on_nodes_absent(),
            Timer::Room => self.with_store(Store::on_room_timer),
            Timer::Inspection => self.inspections.on_timer(&mut self.ctx),
            Timer::Owner => self.on_owner_late(),
            Timer::Ahead(worker_id) => self.end_if_never_used(worker_id),
            Timer::Unload => self.preload.on_timer(&mut self.ctx),
        }
    }

    /// When [`Event::Tick`] is needed next, in milliseconds.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        self.ctx.deadline()
    }

    /// The processes that are alive, for an orderly end.
    pub fn workers(&self) -> impl Iterator<Item = WorkerId> {
        self.pool.workers.keys().copied()
    }

    /// A new id: unique on this node by its first eight bytes, everywhere by the rest.
    pub(crate) fn new_worker_id(&mut self) -> WorkerId {
        self.ids += 1;
        let mut bytes = self.ctx.setup().seed;
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
