//! The owner: owns the sub-machines, and passes each event to the ones that it concerns.

mod actors;
mod calls;
mod cancel;
mod check;
mod copies;
mod leases;
mod objects;
mod peers;
mod rebuild;
mod rows;
mod streams;
mod why;

use std::sync::Arc;

use helio_types::{ActorId, IdMap, ObjectId, TaskId, WorkerAddress, WorkerId};

use crate::actors::{Actor, Actors};
use crate::borrows::Borrows;
use crate::calls::Calls;
use crate::context::Context;
use crate::event::{Action, Event};
use crate::history::History;
use crate::leases::{Env, Leases};
use crate::lineages::Lineages;
use crate::objects::{Object, Objects};
use crate::streams::{Stream, Streams};

/// The state of one process as an owner and borrower of objects and a caller of tasks and actors.
/// See the crate's documentation.
#[derive(Debug)]
pub struct Owner {
    ctx: Context,
    objects: Objects,
    calls: Calls,
    lineages: Lineages,
    leases: Leases,
    actors: Actors,
    borrows: Borrows,
    streams: Streams,
    /// Peers whose connection broke and of whom we asked whether they live.
    suspects: IdMap<WorkerId, Arc<WorkerAddress>>,
    history: History,
}

impl Owner {
    /// The state of a process that has just started.
    #[must_use]
    pub fn new(me: WorkerAddress) -> Self {
        Self {
            ctx: Context::new(me),
            objects: Objects::default(),
            calls: Calls::default(),
            lineages: Lineages::default(),
            leases: Leases::default(),
            actors: Actors::default(),
            borrows: Borrows::default(),
            streams: Streams::default(),
            suspects: IdMap::default(),
            history: History::default(),
        }
    }

    /// Takes in an event at `now` (microseconds of any steady clock) and returns the actions, in the order in which
    /// they are to be executed. Total: any event may come at any time.
    pub fn apply(&mut self, event: Event, now: u64) -> Vec<Action> {
        self.ctx.begin(now);
        match event {
            Event::Put { id, value, contained } => self.on_put(id, value, contained),
            Event::Expect { id } => self.objects.on_expect(id),
            Event::Resolve { id, value } => self.on_resolve(id, value),
            Event::AddRef { id } => self.objects.on_add_ref(id),
            Event::DropRef { id } => self.on_drop_ref(id),
            Event::Adopt { owner, ids } => self.on_adopt(&owner, ids),
            Event::Recover { reference, gone } => self.on_recover(&reference, gone),
            Event::ErrorRead { id } => self.objects.on_error_read(id),
            Event::Watch { id } => self.objects.on_watch(id, &mut self.ctx),
            Event::Submit { spec } => self.on_submit(spec),
            Event::Cancel { object, force, recursive } => self.on_cancel(object, force, recursive),
            Event::CreateActor { creation } => self.on_create_actor(*creation),
            Event::ActorCreated { actor, response } => self.on_actor_created(actor, *response),
            Event::KillActor { actor, no_restart } => self.on_kill_actor(actor, no_restart),
            Event::KnowActor { actor, handle } => self.actors.on_know_actor(actor, handle),
            Event::ActorUpdate { info } => self.on_actor_update(&info),
            Event::Finished { task, caller, outcome } => self.on_finished(task, &caller, outcome),
            Event::ItemMade { task, caller, index, item } => {
                self.on_item_made(task, &caller, index, item)
            }
            Event::StreamRead { task, index } => self.on_stream_read(task, index),
            Event::StreamDropped { task } => self.on_stream_dropped(task),
            Event::Frame { from, frame } => self.on_frame(from, frame),
            Event::PeerUnreached { peer } => self.on_peer_unreached(peer),
            Event::PeerTorn { peer } => self.leases.on_peer_torn(peer),
            Event::PeerLost { peer } => self.on_peer_lost(&peer),
            Event::Liveness { worker, dead } => self.on_liveness(worker, dead),
            Event::LeaseGranted { grant, node } => self.on_lease_granted(grant, node),
            Event::LeaseRefused { request, failure } => self.on_lease_refused(request, &failure),
            Event::LeaseSpilled { request, node } => self.on_lease_spilled(request, node),
            Event::LeasePending { request } => self.on_lease_pending(request),
            Event::LeaseRevoked { node, lease } => self.on_lease_revoked(node, lease),
            Event::LeaseLost { node, lease, cause } => self.on_lease_lost(node, lease, &cause),
            Event::NodeLost { node } => self.on_node_lost(node),
            Event::NodeDied { node, heir } => self.on_node_died(node, heir),
            Event::LocationLost { id, node } => self.on_location_lost(id, node),
            Event::Copied { id, node } => self.objects.on_copied(id, node, &mut self.ctx),
            Event::Tick => self.on_tick(),
        }
        self.ctx.finish()
    }

    /// Takes back the list of an earlier event's actions, which have been executed: the next event then allocates none.
    #[inline]
    pub fn reuse(&mut self, executed: Vec<Action>) {
        self.ctx.reuse(executed);
    }

    fn on_tick(&mut self) {
        self.on_leases_tick();
        self.on_actors_tick();
        for class in self.leases.end_pauses(self.ctx.now()) {
            self.pump(class);
        }
        while let Some((id, failure)) = self.calls.take_due(self.ctx.now()) {
            self.retry(id, ("OUT_OF_MEMORY", &failure));
        }
    }

    /// Returns the time at which [`Event::Tick`] is due, in microseconds of the machine's clock;
    /// `None` if time does not matter at present.
    #[must_use]
    pub fn next_tick(&self) -> Option<u64> {
        let all = [self.leases.next_tick(), self.actors.next_tick(), self.calls.next_tick()];
        all.into_iter().flatten().min()
    }

    /// The leases, and what they see of the other machines.
    fn leases(&mut self) -> (&mut Leases, Env<'_>) {
        let Self { leases, calls, objects, ctx, .. } = self;
        (leases, Env { calls, objects, ctx })
    }

    /// Returns the address of this process.
    #[must_use]
    pub fn address(&self) -> &Arc<WorkerAddress> {
        self.ctx.me()
    }

    /// An object, if this process has any business with it.
    #[must_use]
    pub fn object(&self, id: &ObjectId) -> Option<&Object> {
        self.objects.get(*id)
    }

    /// Returns the state of an actor.
    #[must_use]
    pub fn actor(&self, id: &ActorId) -> Option<&Actor> {
        self.actors.get(*id)
    }

    /// The stream of a generator call.
    #[must_use]
    pub fn stream(&self, task: &TaskId) -> Option<&Stream> {
        self.streams.get(*task)
    }

    /// Whether a call of this process has not ended yet.
    #[must_use]
    pub fn is_unfinished(&self, task: &TaskId) -> bool {
        self.calls.contains(*task)
    }

    /// Returns the numbers of objects, unfinished calls and leases; all are zero when nothing is
    /// held.
    #[must_use]
    pub fn census(&self) -> (usize, usize, usize) {
        (self.objects.len(), self.calls.len(), self.leases.count())
    }

    /// Whether others need this process though it runs nothing: they hold what it owns, calls that it made
    /// have not ended, or answers of its own have not left.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        self.calls.len() > 0
            || self.has_unsent()
            || self.borrows.returned_count() > 0
            || self.objects.are_held_elsewhere()
    }

    /// Whether frames, answers among them, wait until borrows are confirmed.
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        self.borrows.waiting().1 > 0
    }

    /// Whether frames to that process, an answer perhaps, wait until borrows are confirmed.
    #[must_use]
    pub fn holds_back(&self, to: WorkerId) -> bool {
        self.borrows.holds_back(to)
    }

    /// Sets the number of bytes that the remembered calls may take from now on.
    pub fn limit_lineage(&mut self, bytes: usize) {
        self.lineages.set_limit(bytes);
    }
}
