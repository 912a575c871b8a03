//! The owner state machine: what a driver or worker knows of its objects, calls, leases and actors.
//!
//! **STATE-1** [`Owner`] changes only in [`Owner::apply`], which is total and deterministic and
//! returns every effect as an [`Action`]. **LAYER-1** Time arrives as an argument, in microseconds;
//! there is no I/O, clock or randomness here.
//!
//! **OWN-1** Every object has one owner: the process that called `.remote()` or `put`. It alone
//! knows the value's place, who borrows the object, and how to make it again. A process that holds a
//! reference to somebody else's object is a *borrower* and has told the owner so. The owner lets go
//! when nobody holds it; when the owner dies, its borrowers read `OwnerDiedError`.
//!
//! How a reference is handed on without ever falling to zero in between:
//!
//! 1. A caller holds every reference in a call's arguments until the call's reply.
//! 2. A process that takes a reference over sends [`AddBorrow`](helio_proto::peer::Frame::AddBorrow)
//!    at once. Whatever could make the giver let go (a reply, a `RemoveBorrow`, a `ReturnsHeld`) goes
//!    out only after the owner has confirmed the borrow, or on the same connection behind it
//!    (module [`borrow`]).
//! 3. A worker holds the references in a call's returns until the caller says `ReturnsHeld`.
//!
//! Reading order: [`object`], [`task`], [`lease`], [`actor`], [`borrow`], [`stream`], `delayed`, `cancel`,
//! `history`, `why`.

#![forbid(unsafe_code)]

mod cancel;
pub mod check;
mod context;
mod copies;
mod delayed;
mod event;
mod hash;
mod history;
mod lazy;
mod links;
mod past;
mod relations;
mod why;

pub mod actor;
pub mod borrow;
pub mod lease;
pub mod lineage;
pub mod object;
pub mod stream;
pub mod task;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::vec::Drain;

use helio_types::{ActorId, IdMap, ObjectId, TaskId, WorkerAddress, WorkerId};

use context::Context;
pub use event::{Action, Event};
pub use history::without_large_function;
pub use object::{Object, Stored};
pub use task::{CallArgs, Outcome, Outgoing, OutgoingValue, Retry, Target, TaskSpec};
pub use why::{Next, Why, join, sentence, time};

/// One process's state.
#[derive(Debug)]
pub struct Owner {
    ctx: Context,
    objects: IdMap<ObjectId, Object>,
    tasks: IdMap<TaskId, task::Task>,
    lineages: lineage::Lineages,
    leases: lease::Leases,
    actors: IdMap<ActorId, actor::Actor>,
    /// Actors whose connection broke; may name some that have been mended since.
    broken_actors: BTreeSet<ActorId>,
    borrows: borrow::Borrows,
    streams: IdMap<TaskId, stream::Stream>,
    /// Peers whose connection broke and of whom we asked whether they live.
    suspects: IdMap<WorkerId, Arc<WorkerAddress>>,
    /// Calls that wait for the time of their next attempt.
    delayed: BTreeSet<(u64, TaskId)>,
    history: history::History,
}

impl Owner {
    /// The state of a process that has just started.
    #[must_use]
    pub fn new(me: WorkerAddress) -> Self {
        Self {
            ctx: Context::new(me),
            objects: IdMap::default(),
            tasks: IdMap::default(),
            lineages: lineage::Lineages::default(),
            leases: lease::Leases::default(),
            actors: IdMap::default(),
            broken_actors: BTreeSet::new(),
            borrows: borrow::Borrows::default(),
            streams: IdMap::default(),
            suspects: IdMap::default(),
            delayed: BTreeSet::new(),
            history: history::History::default(),
        }
    }

    /// This process.
    #[must_use]
    pub fn address(&self) -> &Arc<WorkerAddress> {
        self.ctx.me()
    }

    /// An object, if this process has any business with it.
    #[must_use]
    pub fn object(&self, id: &ObjectId) -> Option<&Object> {
        self.objects.get(id)
    }

    /// How many objects, unfinished calls and leases there are; all zero when nothing is held.
    #[must_use]
    pub fn census(&self) -> (usize, usize, usize) {
        (self.objects.len(), self.tasks.len(), self.leases.count())
    }

    /// Whether others need this process though it runs nothing: they hold what it owns, calls that it made
    /// have not ended, or answers of its own have not left.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        !self.tasks.is_empty()
            || self.has_unsent()
            || !self.borrows.returned.is_empty()
            || !self.borrows.adrift.is_empty()
            || self.objects.values().any(Object::is_held_elsewhere)
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

    /// Takes in an event at `now` (microseconds of any steady clock) and returns the actions, in the order in which
    /// they are to be executed. Total: any event may come at any time.
    pub fn apply(&mut self, event: Event, now: u64) -> Drain<'_, Action> {
        self.ctx.begin(now);
        self.on_event(event);
        self.ctx.finish()
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Put { id, value, contained } => self.put(id, value, contained),
            Event::Expect { id } => {
                self.expect(id, 1);
            }
            Event::Resolve { id, value } => self.set_value(id, value.into(), &[]),
            Event::AddRef { id } => self.add_ref(id),
            Event::DropRef { id } => self.drop_ref(id),
            Event::Adopt { owner, ids } => self.adopt_all(&owner, ids),
            Event::Recover { reference, gone } => self.recover(&reference, gone),
            Event::ErrorRead { id } => self.error_read(id),
            Event::Watch { id } => self.watch(id),
            Event::Submit { spec } => self.submit(spec),
            Event::Cancel { object, force, recursive } => {
                self.cancel_maker(object, force, recursive)
            }
            Event::CreateActor { creation } => self.create_actor(*creation),
            Event::ActorCreated { actor, response } => self.actor_created(actor, *response),
            Event::KillActor { actor, no_restart } => self.kill_actor(actor, no_restart),
            Event::KnowActor { actor, handle } => self.know_actor(actor, handle),
            Event::ActorUpdate { info } => self.actor_update(&info),
            Event::Finished { task, caller, outcome } => self.finished(task, &caller, outcome),
            Event::ItemMade { task, caller, index, item } => {
                self.item_made(task, &caller, index, item)
            }
            Event::StreamRead { task, index } => self.stream_read(task, index),
            Event::StreamDropped { task } => self.stream_dropped(task),
            Event::Frame { from, frame } => self.frame(from, frame),
            Event::PeerUnreached { peer } => {
                self.leases_unreached(peer);
                self.actors_unreached(peer);
            }
            Event::PeerTorn { peer } => self.leases_torn(peer),
            Event::PeerLost { peer } => self.peer_lost(&peer),
            Event::Liveness { worker, dead } => self.liveness(worker, dead),
            Event::LeaseGranted { grant, node } => self.lease_granted(grant, node),
            Event::LeaseRefused { request, failure } => self.lease_refused(request, &failure),
            Event::LeaseSpilled { request, node } => self.lease_spilled(request, node),
            Event::LeasePending { request } => self.lease_pending(request),
            Event::LeaseRevoked { node, lease } => self.lease_revoked(node, lease),
            Event::LeaseLost { node, lease, cause } => self.lease_lost(node, lease, &cause),
            Event::NodeLost { node } => self.node_lost(node),
            Event::NodeDied { node, heir } => self.node_died(node, heir),
            Event::LocationLost { id, node } => self.location_missed(id, node),
            Event::Copied { id, node } => self.copied(id, node),
            Event::Tick => self.tick(),
        }
    }
}
