//! The node: owns the sub-machines, and passes each event to the ones that it concerns.

mod actors;
mod bundles;
mod check;
mod clients;
mod contact;
mod control;
mod draining;
mod explain;
mod inspect;
mod jobs;
mod leases;
mod liveness;
mod memory;
mod objects;
mod peers;
mod status;
mod workers;

#[cfg(test)]
mod tests;

use helio_proto::control::NodeInfo;
use helio_proto::inspect::MachineUse;
use helio_types::WorkerId;

use crate::actors::Actors;
use crate::arguments::Arguments;
use crate::bundles::Bundles;
use crate::clients::Clients;
use crate::cluster::Cluster;
use crate::contact::Contact;
use crate::context::Context;
use crate::control_calls::ControlCalls;
use crate::drain::Drain;
use crate::environments::Environments;
use crate::event::{Action, Event};
use crate::exits::Exits;
use crate::gpus::Gpus;
use crate::groups::GroupQuestions;
use crate::inspections::Inspections;
use crate::jobs::Jobs;
use crate::kept::KeptFree;
use crate::leases::Leases;
use crate::ledger::Ledger;
use crate::limits::{OWNER_MS_MAX, STANDSTILL_MS};
use crate::liveness::Liveness;
use crate::memory::Memory;
use crate::owners::Owners;
use crate::pool::Pool;
use crate::preload::Preload;
use crate::setup::Setup;
use crate::store::Store;
use crate::timers::Timer;

/// The time of events comes in microseconds; this machine counts milliseconds.
const US_A_MS: u64 = 1_000;

/// The node. See the crate's documentation.
#[derive(Debug)]
pub struct Node {
    ctx: Context,
    version: u64,
    /// The status that the control service was told last on the present connection.
    reported: Option<NodeInfo>,
    clients: Clients,
    jobs: Jobs,
    ledger: Ledger,
    leases: Leases,
    kept: KeptFree,
    bundles: Bundles,
    groups: GroupQuestions,
    pool: Pool,
    preload: Preload,
    actors: Actors,
    environments: Environments,
    exits: Exits,
    liveness: Liveness,
    owners: Owners,
    store: Store,
    arguments: Arguments,
    cluster: Cluster,
    control: ControlCalls,
    contact: Contact,
    inspections: Inspections,
    memory: Memory,
    gpus: Gpus,
    machine: MachineUse,
    drain: Drain,
}

impl Node {
    /// A node that has just started, at `now` (microseconds of any steady clock).
    #[must_use]
    pub fn new(setup: Setup, now: u64) -> Self {
        let now_ms = now / US_A_MS;
        let mut node = Self {
            version: 0,
            reported: None,
            clients: Clients::default(),
            jobs: Jobs::default(),
            ledger: Ledger::new(setup.total.clone(), &setup.devices),
            leases: Leases::default(),
            kept: KeptFree::default(),
            bundles: Bundles::default(),
            groups: GroupQuestions::default(),
            pool: Pool::default(),
            preload: Preload::default(),
            actors: Actors::default(),
            environments: Environments::default(),
            exits: Exits::default(),
            liveness: Liveness::default(),
            owners: Owners::default(),
            store: Store::new(setup.store_size, setup.overflow_size),
            arguments: Arguments::new(setup.arguments_max),
            cluster: Cluster::new(&setup),
            control: ControlCalls::default(),
            contact: Contact::new(setup.place(), setup.headless_ms_max),
            inspections: Inspections::default(),
            memory: Memory::default(),
            gpus: Gpus::default(),
            machine: MachineUse::default(),
            drain: Drain::default(),
            ctx: Context::new(setup, now_ms),
        };
        if node.ctx.setup().has_owner {
            node.ctx.set_timer(now_ms + OWNER_MS_MAX, Timer::Owner);
        }
        node
    }

    /// Takes in an event at `now` (microseconds of any steady clock) and returns the actions, in the order in which
    /// they are to be executed. Total: any event may come at any time. Limits and intervals of this machine are whole
    /// milliseconds.
    pub fn apply(&mut self, event: Event, now: u64) -> Vec<Action> {
        let since_ms = self.ctx.begin(now / US_A_MS);
        if since_ms >= STANDSTILL_MS {
            self.cluster.on_standstill(since_ms, &mut self.ctx);
        }
        self.on_event(event);
        // Timers after the event: what it brings may be what they wait for.
        while let Some(timer) = self.ctx.due_timer() {
            self.on_timer(timer);
        }
        self.look_at_contact();
        self.look_at_drain();
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
        // Last, when nothing more is freed: ranges and files go in one sweep for each event.
        self.with_store(Store::give_back_disk);
        self.ctx.finish()
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::ClientOpened { conn, role, node_id, is_local } => {
                self.clients.on_client_opened(conn, role, node_id, is_local, self.ctx.now())
            }
            Event::ClientSaid { conn, message } => self.on_client_said(conn, message),
            Event::ClientClosed { conn } => self.on_client_closed(conn),
            Event::WorkerStarted { worker_id, pid } => {
                self.pool.on_worker_started(worker_id, pid, &mut self.ctx);
            }
            Event::WorkerNotStarted { worker_id, why } => {
                self.on_worker_not_started(worker_id, &why)
            }
            Event::WorkerExited { worker_id, exit, log_tail } => {
                self.on_worker_exited(worker_id, exit, log_tail)
            }
            Event::WorkerWrote { worker_id, lines } => self.on_worker_wrote(worker_id, lines),
            Event::ControlConnected => self.control.on_control_connected(&mut self.ctx),
            Event::ControlSaid(message) => self.on_control_said(message),
            Event::Preempted { reason, grace_ms } => self.on_preempted(reason, grace_ms),
            Event::ControlLost => self.control.on_control_lost(),
            Event::ControlRefused => self.contact.on_control_refused(self.ctx.now()),
            Event::HeadMoved { address } => {
                self.ctx.on_head_moved(address);
                self.contact.on_head_moved(self.ctx.setup().place());
            }
            Event::PeerSaid { conn, node_id, message } => self.on_peer_said(conn, node_id, message),
            Event::PeerLost { conn, node_id } => self.on_peer_lost(conn, node_id),
            Event::Served { conn, request_id } => {
                self.with_store(|store, env| store.on_served(conn, request_id, env))
            }
            Event::ReceivedSome { request_id, received } => {
                self.with_store(|store, _| store.on_received_some(request_id, received))
            }
            Event::Received { request_id, outcome } => {
                self.with_store(|store, env| store.on_received(request_id, outcome, env))
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
            Event::GpusRead(gpus) => self.gpus.on_gpus_read(gpus),
            Event::MachineRead(machine) => self.on_machine_read(machine),
            Event::Tick => {}
        }
    }

    fn on_timer(&mut self, timer: Timer) {
        match timer {
            Timer::WorkerStart(worker_id) => self.pool.on_start_timer(worker_id, &mut self.ctx),
            Timer::WorkerExit(worker_id) => self.pool.on_exit_timer(worker_id, &mut self.ctx),
            Timer::WorkerDrain(worker_id) => self.on_drain_timer(worker_id),
            Timer::Idle => self.pool.on_idle_timer(&mut self.ctx),
            Timer::Spill | Timer::Kept => self.ctx.capacity_changed(),
            Timer::Actor(key) => self.actors.on_timer(key, &mut self.ctx),
            Timer::Liveness => self.liveness.answer(&self.exits, &mut self.ctx),
            Timer::Pull(object_id) => {
                self.with_store(|store, env| store.on_pull_timer(object_id, env))
            }
            Timer::Owners => self.on_owners_timer(),
            Timer::Absent => self.on_nodes_absent(),
            Timer::Room => self.with_store(Store::on_room_timer),
            Timer::Inspection => self.inspections.on_timer(&mut self.ctx),
            Timer::Owner => self.on_owner_late(),
            Timer::Ahead(worker_id) => self.pool.on_ahead_timer(worker_id, &mut self.ctx),
            Timer::Leave => self.on_drain_look(),
            Timer::Unload => self.preload.on_timer(&mut self.ctx),
        }
    }

    /// Returns the time at which [`Event::Tick`] is due, in microseconds of the machine's clock;
    /// `None` if time does not matter at present.
    #[must_use]
    pub fn next_tick(&self) -> Option<u64> {
        let contact = Some(self.contact.due()).filter(|due| *due < u64::MAX);
        let due_ms = self.ctx.deadline().into_iter().chain(contact).min();
        due_ms.map(|due_ms| due_ms.saturating_mul(US_A_MS))
    }

    /// Returns the number of nodes of the cluster that are alive as far as this one knows, itself
    /// included.
    #[must_use]
    pub fn n_nodes(&self) -> usize {
        self.cluster.size()
    }

    /// The processes that are alive, for an orderly end.
    pub fn workers(&self) -> impl Iterator<Item = WorkerId> {
        self.pool.iter().map(|(worker_id, _)| worker_id)
    }
}
