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

use helio_types::{ActorId, IdMap, ObjectId, TaskId, WorkerAddress, WorkerId};

pub use event::{Action, Event};
pub use history::without_large_function;
pub use object::{Object, Stored};
pub use task::{CallArgs, Outcome, Outgoing, OutgoingValue, Retry, Target, TaskSpec};
pub use why::{Next, Why, join, sentence, time};

/// One process's state.
#[derive(Debug)]
pub struct Owner {
    me: Arc<WorkerAddress>,
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
            me: Arc::new(me),
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
        &self.me
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

    /// Takes in one event at `now` (microseconds of any steady clock) and appends what is to be done.
    pub fn apply(&mut self, event: Event, now: u64, out: &mut Vec<Action>) {
        match event {
            Event::Put { id, value, contained } => self.put(id, value, contained, out),
            Event::Expect { id } => {
                self.expect(id, 1);
            }
            Event::Resolve { id, value } => self.set_value(id, value.into(), &[], now, out),
            Event::AddRef { id } => self.add_ref(id),
            Event::DropRef { id } => self.drop_ref(id, out),
            Event::Adopt { owner, ids } => self.adopt_all(&owner, ids, out),
            Event::Recover { reference, gone } => self.recover(&reference, gone, now, out),
            Event::ErrorRead { id } => self.error_read(id),
            Event::Watch { id } => self.watch(id, out),
            Event::Submit { spec } => self.submit(spec, now, out),
            Event::Cancel { object, force, recursive } => {
                self.cancel_maker(object, force, recursive, now, out)
            }
            Event::CreateActor { creation } => self.create_actor(*creation, out),
            Event::ActorCreated { actor, response } => {
                self.actor_created(actor, *response, now, out)
            }
            Event::KillActor { actor, no_restart } => self.kill_actor(actor, no_restart, now, out),
            Event::KnowActor { actor, handle } => self.know_actor(actor, handle),
            Event::ActorUpdate { info } => self.actor_update(&info, now, out),
            Event::Finished { task, caller, outcome } => self.finished(task, &caller, outcome, out),
            Event::ItemMade { task, caller, index, item } => {
                self.item_made(task, &caller, index, item, out)
            }
            Event::StreamRead { task, index } => self.stream_read(task, index, out),
            Event::StreamDropped { task } => self.stream_dropped(task, now, out),
            Event::Frame { from, frame } => self.frame(from, frame, now, out),
            Event::PeerUnreached { peer } => {
                self.leases_unreached(peer);
                self.actors_unreached(peer);
            }
            Event::PeerTorn { peer } => self.leases_torn(peer),
            Event::PeerLost { peer } => self.peer_lost(&peer, now, out),
            Event::Liveness { worker, dead } => self.liveness(worker, dead, now, out),
            Event::LeaseGranted { grant, node } => self.lease_granted(grant, node, now, out),
            Event::LeaseRefused { request, failure } => {
                self.lease_refused(request, &failure, now, out)
            }
            Event::LeaseSpilled { request, node } => self.lease_spilled(request, node, now, out),
            Event::LeasePending { request } => self.lease_pending(request, now, out),
            Event::LeaseRevoked { node, lease } => self.lease_revoked(node, lease, now, out),
            Event::LeaseLost { node, lease, cause } => {
                self.lease_lost(node, lease, &cause, now, out)
            }
            Event::NodeLost { node } => self.node_lost(node, now, out),
            Event::NodeDied { node, heir } => self.node_died(node, heir, now, out),
            Event::LocationLost { id, node } => self.location_missed(id, node, now, out),
            Event::Copied { id, node } => self.copied(id, node, out),
            Event::Tick => self.tick(now, out),
        }
    }
}
