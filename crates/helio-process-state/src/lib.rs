//! The machine of a process: everything that a driver or worker decides.
//!
//! ```text
//!   front ──Owner, Create, Ask, Finished, Blocked…─►┌───────────────────────────────┐──Work, Answer──► front
//!   links ──Accepted, Frame, Closed────────────────►│ links     who is where        │──Output────────► links
//!   time ───Tick───────────────────────────────────►│ requests  what is asked       │
//!                                                   │ store     what is pinned here │──Action────────► shell
//!                                                   │ executor  what runs for others│
//!                                                   │ owner     what is owned here  │
//!                                                   └───────────────────────────────┘
//! ```
//!
//! **STATE-1** [`Process::apply`] takes one event at a time and is total and deterministic. Effects come
//! out in three forms: bytes in the links' [`Output`], [`Action`]s, and [`Signals`] for threads that wait.
//! The shell carries the actions out before it hands in the next event. **LAYER-1** There is no clock,
//! socket, thread or randomness here. `helio-worker` is the shell in production; `helio-sim` runs this
//! same machine in a simulated cluster.
//!
//! Each sub-machine owns its fields: [`Links`] (connections and what both ends defined by number),
//! `requests` (the one table of pending requests), `store` (pins and fetches), `executor` (calls of
//! others), `watches` (objects that event loops wait for), and [`Owner`] in its own crate. [`Process`]
//! passes events between them.
//!
//! Reading order: [`event`](Event), this file, `links`, `requests`, `frames`, `daemons`, `owner`, `executor`,
//! `arguments`, `store`, `explain`, `value`, `watches`, `ids`.

#![forbid(unsafe_code)]

mod arguments;
mod daemons;
mod event;
mod executor;
mod explain;
mod frames;
mod ids;
mod last_frames;
mod links;
mod owner;
mod requests;
mod store;
mod value;
mod watches;

use std::collections::BTreeMap;
use std::sync::Arc;

use helio_owner_state::{Action as OwnerAction, Event as OwnerEvent, Object, Owner, Stored};
use helio_proto::control::ControlRequest;
use helio_proto::inspect::{Answered, Inspect, TaskRow};
use helio_proto::node::{
    AbortObject, Blocked, ControlCall, CreateObject, JobConfig, ReleaseObject, Unblocked,
};
use helio_types::id::PUT_INDEX_BASE;
use helio_types::{
    ActorId, NodeAddress, ObjectId, PlacementGroupId, TaskId, WorkerAddress, WorkerId, mutant,
};

pub use event::{Action, Event, Signals};
pub use executor::{Call, Construct, Lease, Work};
pub use explain::Subject;
pub use links::{Links, Output, Peer, Urgency};
pub use requests::Answer;
pub use value::{Bytes, Memory, Payload};

use executor::Executor;
use explain::{Asker, HOPS_MAX};
use ids::Ids;
use requests::{Pending, Requests};
use store::StoreClient;
pub use watches::Readiness;
use watches::Watches;

/// So many dropped handles are taken into account before what follows from them is done.
const DROPPED_AT_ONCE: usize = 1 << 10;

/// The identity of a process that joins a session.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its address; the port is its node's.
    pub address: WorkerAddress,
    /// Its operating-system process id.
    pub pid: u32,
    /// Whether it is a driver.
    pub is_driver: bool,
    /// The job that it begins with.
    pub job: JobConfig,
    /// How many bytes the calls may take that are remembered to make lost objects again; `None`: the
    /// owner machine's default.
    pub lineage_bytes_max: Option<usize>,
}

/// The machine of one process. See the crate's documentation.
#[derive(Debug)]
pub struct Process<M: Memory> {
    now: u64,
    pid: u32,
    is_driver: bool,
    job: JobConfig,
    /// The job in wire form, as leases and actors of this process need it.
    job_wire: Vec<u8>,
    owner: Owner,
    /// Filled by `owner`; kept to save allocations.
    owner_actions: Vec<OwnerAction>,
    links: Links,
    requests: Requests,
    executor: Executor<M::Pin>,
    store: StoreClient<M>,
    watches: Watches,
    ids: Ids,
    /// Creations whose answer a thread waits for, with that thread's request.
    awaited_creations: BTreeMap<ActorId, u64>,
    /// The link whose greeting a thread waits for, with that thread's request.
    awaited_greeting: Option<(u64, u64)>,
    /// News of deaths, which wait for the last frames.
    deferred: Vec<last_frames::Deferred>,
    /// The next task waits for an answer that waits for a borrow.
    awaits_answer: bool,
    /// How many values became known or came here so far.
    arrivals: u64,
    /// Why the session is over for this process, if it is.
    ended: Option<String>,
    signals: Signals,
    actions: Vec<Action>,
}

impl<M: Memory> Process<M> {
    /// A process that has just joined its node.
    #[must_use]
    pub fn new(identity: Identity, memory: M) -> Self {
        let Identity { address, pid, is_driver, job, lineage_bytes_max } = identity;
        let (node_id, worker_id) = (address.node_id, address.worker_id);
        let mut owner = Owner::new(address);
        if let Some(bytes) = lineage_bytes_max {
            owner.limit_lineage(bytes);
        }
        Self {
            now: 0,
            pid,
            is_driver,
            job_wire: helio_proto::encode(&job),
            job,
            owner,
            owner_actions: Vec::new(),
            links: Links::new(node_id),
            requests: Requests::default(),
            executor: Executor::default(),
            store: StoreClient::new(memory),
            watches: Watches::default(),
            ids: Ids::new(worker_id),
            awaited_creations: BTreeMap::new(),
            awaited_greeting: None,
            deferred: Vec::new(),
            awaits_answer: false,
            arrivals: 0,
            ended: None,
            signals: Signals::default(),
            actions: Vec::new(),
        }
    }

    /// Takes in one event at `now` (microseconds of any steady clock). Of events that came together a later one may be
    /// told with an older time than what the first has led to: time does not go back by that.
    pub fn apply(&mut self, event: Event<'_>, now: u64) {
        let now = now.max(self.now);
        self.now = now;
        match event {
            Event::Owner(event) => self.tell_owner(event),
            Event::Frame { link, bytes } => self.on_frame(link, bytes),
            Event::Finished { task, outcome } => {
                self.release_room_of(task);
                if let Some(caller) = self.executor.finish(task, outcome.failed, now) {
                    self.tell_owner(OwnerEvent::Finished { task, caller, outcome });
                }
                if self.executor.may_end() {
                    self.work_arrived();
                }
            }
            Event::ItemMade { task, index, item } => {
                if let Some(caller) = self.executor.caller_of(task).cloned() {
                    self.tell_owner(OwnerEvent::ItemMade { task, caller, index, item });
                }
            }
            Event::Runs(task) => self.executor.runs(task, now),
            Event::Dropped(ids) => self.on_dropped(&ids),
            Event::Released(ids) => {
                for object_id in ids {
                    self.links.tell_node(ReleaseObject { object_id, pins: 1 });
                }
            }
            Event::Blocked { thread, awaited } => {
                if self.executor.block(thread, awaited) {
                    self.links.tell_node(Blocked {});
                    let unstarted = self.executor.take_unstarted(usize::MAX);
                    self.hand_back(unstarted);
                }
            }
            Event::Unblocked { thread } => {
                if self.executor.unblock(thread) {
                    self.links.tell_node(Unblocked {});
                }
            }
            Event::Accepted { link, from, epoch } => self.on_accepted(link, from, epoch),
            Event::Greeted { link } => {
                self.links.greeted(link);
                self.greeting_ended(link);
            }
            Event::Unreached { link } => self.on_unreached(link),
            Event::Closed { link, is_complete: true } => self.on_closed(link),
            Event::Closed { link, is_complete: false } => self.on_torn(link),
            Event::Drained { link } => self.on_drained(link),
            Event::AskExit { reason } => {
                self.executor.push_urgent(Work::Exit { reason, drain: false });
                self.work_arrived();
            }
            Event::Tick => {
                self.drain_overdue();
                self.tell_owner(OwnerEvent::Tick);
            }
            request => self.on_request(request),
        }
    }

    /// The front asks daemons, the control service or peers for something.
    fn on_request(&mut self, event: Event<'_>) {
        match event {
            Event::Ask { request, message } => {
                self.requests.insert(request, Pending::Control);
                self.links.tell_node(ControlCall { request_id: request, request: *message });
            }
            Event::Tell(message) => self.tell_control(*message),
            Event::Promise { object, message, value } => {
                self.tell_owner(OwnerEvent::Expect { id: object });
                let group = match &*message {
                    ControlRequest::CreateGroup(spec) => spec.group_id,
                    ControlRequest::AwaitGroup(awaited) => awaited.group_id,
                    _ => PlacementGroupId::NIL,
                };
                self.ask_control(*message, Pending::Promise { object, value, group });
            }
            Event::AwaitCreation { request, actor } => {
                self.awaited_creations.insert(actor, request);
            }
            Event::Create { request, object, size } => {
                self.requests.insert(request, Pending::Grant { object, size, awaited: true });
                // A value that a call returns belongs to its caller.
                let is_put = object.index() >= PUT_INDEX_BASE;
                let caller = self.executor.caller_of(object.task()).filter(|_| !is_put);
                let owner = caller.unwrap_or(self.owner.address());
                let create = CreateObject {
                    request_id: request,
                    object_id: object,
                    size,
                    owner: owner.worker_id,
                    owner_node: owner.node_id,
                };
                self.links.tell_node(create);
            }
            Event::Inspect { request, question, own_node_only } => {
                self.requests.insert(request, Pending::Inspection);
                self.links.tell_node(Inspect { request_id: request, question, own_node_only });
            }
            Event::Explain { request, subject } => {
                self.explain(subject, HOPS_MAX, Asker::Thread(request));
            }
            Event::Confirm { request, message } => {
                self.requests.insert(request, Pending::Notice);
                self.links.tell_node(*message);
            }
            Event::Report { request, answer } => {
                self.links.tell_node(Answered { request_id: request, answer: *answer });
            }
            Event::TellNode(message) => self.links.tell_node(*message),
            _ => {}
        }
    }

    /// Handles were dropped.
    fn on_dropped(&mut self, ids: &[ObjectId]) {
        for batch in ids.chunks(DROPPED_AT_ONCE) {
            for id in batch {
                self.queue_for_owner(OwnerEvent::DropRef { id: *id });
            }
            self.run_owner();
        }
    }
}

/// Links.
impl<M: Memory> Process<M> {
    fn on_accepted(&mut self, link: u64, from: WorkerAddress, epoch: u32) {
        let worker = from.worker_id;
        let known = self.links.epoch(worker);
        if epoch < known {
            // The link was opened before the peer knew that its links here are over.
            self.actions.push(Action::Close { link, reason: None });
            return;
        }
        let outdated = self.links.drop_outdated(worker);
        self.close_all(outdated);
        let heard = self.links.from_process(worker);
        if epoch > known || heard.is_some() {
            // The peer sends on one link at a time, and in one epoch: an answer on an older link would go
            // nowhere.
            if let Some(broken) = heard.or(self.links.to_process(worker)) {
                self.on_torn(broken);
                self.actions.push(Action::Close { link: broken, reason: None });
            }
            self.links.enter_epoch(worker, epoch);
        }
        self.links.accepted(link, from.into());
        self.links.prefer(worker, link);
    }

    /// Has the shell close links that were dropped here.
    pub(crate) fn close_all(&mut self, links: Vec<u64>) {
        self.actions.extend(links.into_iter().map(|link| Action::Close { link, reason: None }));
    }

    fn on_unreached(&mut self, link: u64) {
        if let Some(Peer::Process(peer)) = self.links.peer(link) {
            let peer = peer.worker_id;
            self.tell_owner(OwnerEvent::PeerUnreached { peer });
        }
        self.on_closed(link);
    }

    /// The connection ended, and part of what its other end had sent is lost.
    pub(crate) fn on_torn(&mut self, link: u64) {
        if let Some(Peer::Process(peer)) = self.links.peer(link) {
            let peer = peer.worker_id;
            self.tell_owner(OwnerEvent::PeerTorn { peer });
        }
        self.on_closed(link);
    }

    pub(crate) fn on_closed(&mut self, link: u64) {
        self.greeting_ended(link);
        let closed = self.links.closed(link);
        self.on_drained(link);
        let Some((peer, ends_too)) = closed else { return };
        if let Some(other) = ends_too {
            self.greeting_ended(other);
            self.on_drained(other);
            self.actions.push(Action::Close { link: other, reason: None });
        }
        self.signals.news = true;
        match peer {
            Peer::Node => self.end("the node's daemon has ended"),
            Peer::RemoteNode(node) => self.tell_owner(OwnerEvent::NodeLost { node: node.node_id }),
            Peer::Process(peer) => {
                self.drop_calls_of(peer.worker_id);
                self.explainer_gone(peer.worker_id);
                self.tell_owner(OwnerEvent::PeerLost { peer });
            }
        }
    }

    /// Drops the calls that the process sent and that have not begun here.
    pub(crate) fn drop_calls_of(&mut self, caller: WorkerId) {
        for task in self.executor.caller_gone(caller) {
            self.release_room_of(task);
        }
    }

    /// The session is over for this process.
    pub fn end(&mut self, reason: &str) {
        if self.ended.is_none() {
            self.ended = Some(reason.to_owned());
            self.signals = Signals { news: true, wake_loop: true, ..self.signals };
            self.actions.push(Action::End { reason: reason.to_owned() });
        }
    }
}

/// Values, as the front reads them.
impl<M: Memory> Process<M> {
    /// A reader of the objects begins: an earlier reader's error for want of room is not for it.
    pub fn begin_read(&mut self, ids: &[ObjectId]) {
        self.store.begin_read(ids);
    }

    /// Returns the value of an object that is known and here. Otherwise fetches one that is known and not here.
    pub fn read(&mut self, id: ObjectId) -> Option<Payload<M::Pin>> {
        let locations = match self.owner.object(&id).map(Object::value) {
            None | Some(Stored::Pending) => return None,
            Some(Stored::Inline(bytes)) => {
                return Some(Payload::value(Bytes::Memory(bytes.clone())));
            }
            Some(Stored::Error(bytes)) => {
                return Some(Payload { bytes: Bytes::Memory(bytes.clone()), is_error: true });
            }
            Some(Stored::Stores { locations, .. }) => locations,
        };
        if let Some(payload) = self.store.payload(id) {
            return Some(payload);
        }
        if let Some(refusal) = self.store.take_refusal(id, self.now) {
            return Some(refusal);
        }
        if !self.store.is_fetching(id) {
            let locations = locations.clone();
            self.fetch(id, locations);
        }
        None
    }

    /// Returns the value of an object that is in this process's memory or pinned; starts nothing.
    #[must_use]
    pub fn peek(&self, id: ObjectId) -> Option<Payload<M::Pin>> {
        match self.owner.object(&id)?.value() {
            Stored::Pending => None,
            Stored::Inline(bytes) => Some(Payload::value(Bytes::Memory(bytes.clone()))),
            Stored::Error(bytes) => {
                Some(Payload { bytes: Bytes::Memory(bytes.clone()), is_error: true })
            }
            Stored::Stores { .. } => self.store.payload(id),
        }
    }

    /// Whether `wait` counts the object as ready; with `fetch_local` its bytes have to be here.
    pub fn is_ready(&mut self, id: ObjectId, fetch_local: bool) -> bool {
        match self.owner.object(&id).map(Object::value) {
            None | Some(Stored::Pending) => false,
            Some(Stored::Stores { .. }) if fetch_local => {
                // A refusal first: to read is to ask for the object again.
                let is_answered = self.store.is_refused(id, self.now) || self.read(id).is_some();
                is_answered || mutant!("known-counts-as-here")
            }
            Some(_) => true,
        }
    }

    /// Whether the object is still to be made.
    #[must_use]
    pub fn is_pending(&self, id: ObjectId) -> bool {
        self.owner.object(&id).is_some_and(|object| !object.is_ready())
    }

    /// Asks the owners of borrowed objects whose values are not known yet.
    pub fn watch_borrowed(&mut self, ids: &[ObjectId]) {
        for id in ids.iter().filter(|_| !mutant!("borrowed-value-not-asked-for")) {
            let object = self.owner.object(id);
            if object.is_some_and(|object| object.owner().is_some() && !object.is_ready()) {
                self.tell_owner(OwnerEvent::Watch { id: *id });
            }
        }
    }

    /// Whether the object is as wished; if not, [`Process::take_ready`] gives its id once it is.
    pub fn watch(&mut self, id: ObjectId, readiness: Readiness) -> bool {
        let is_ready = self.is_ready(id, readiness == Readiness::Here);
        if !is_ready {
            self.watches.add(id, readiness);
            self.tell_owner(OwnerEvent::Watch { id });
        }
        is_ready
    }

    /// Something happened to the object: event loops hear of it if it is as ready as they asked. Otherwise it stays
    /// watched, and its bytes are fetched if only they are missing.
    pub(crate) fn look_at_watched(&mut self, id: ObjectId) {
        let Some(readiness) = self.watches.readiness(id) else { return };
        if self.is_ready(id, readiness == Readiness::Here) {
            self.watches.fulfil(id, readiness);
            self.signals.wake_loop = true;
        }
    }

    /// Watched objects that became as wished, each once. Memory can run short before the caller reads
    /// them: a value may have to be fetched again.
    pub fn take_ready(&mut self) -> Vec<ObjectId> {
        self.watches.take()
    }

    /// Whether [`Process::take_ready`] would give something.
    #[must_use]
    pub fn has_ready(&self) -> bool {
        self.watches.has_ready()
    }

    /// How many values became known or came here so far.
    #[must_use]
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// How often the daemon has asked for room in the object store.
    #[must_use]
    pub fn room_wanted(&self) -> u64 {
        self.store.room_wanted()
    }

    /// Drops pins that no value or waiting call shares.
    pub fn unpin_spare(&mut self) {
        self.store.unpin_spare();
        self.actions.push(Action::CollectReleased);
    }

    /// Drops pins that were kept only for calls which have ended.
    pub fn unpin_unreferenced(&mut self) {
        let owner = &self.owner;
        self.store.unpin_unreferenced(|id| owner.object(&id).is_some());
    }

    /// How many objects this process has pinned.
    #[must_use]
    pub fn pins_count(&self) -> usize {
        self.store.pins_count()
    }

    /// Whether the object is pinned in this process.
    #[must_use]
    pub fn is_pinned(&self, id: ObjectId) -> bool {
        self.store.is_pinned(id)
    }
}

/// Work for the front.
impl<M: Memory> Process<M> {
    /// The next thing to do, if one is complete.
    pub fn next_work(&mut self, now: u64) -> Option<Work<M::Pin>> {
        self.awaits_answer = self.must_answer_first();
        if self.awaits_answer { None } else { self.executor.next(now) }
    }

    /// Whether the next task has to wait, because an answer to its caller does, for a borrow to be confirmed.
    /// A caller takes only the first call without an answer for one that has begun: if this process died now,
    /// a task without retries would begin a second time.
    fn must_answer_first(&self) -> bool {
        let next = || self.executor.caller_of_next_task();
        self.owner.has_unsent() && next().is_some_and(|caller| self.owner.holds_back(caller))
    }

    /// Whether [`Process::next_work`] has something.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.executor.has_work() && !self.must_answer_first()
    }

    /// Whether this process is, or is about to become, an actor.
    #[must_use]
    pub fn serves_actor(&self) -> bool {
        self.executor.serves_actor()
    }

    /// The call handed out last that has not ended.
    #[must_use]
    pub fn current_task(&self) -> TaskId {
        self.executor.current()
    }

    /// Whether calls were handed out that have not ended.
    #[must_use]
    pub fn runs_calls(&self) -> bool {
        self.executor.runs_calls()
    }

    /// Whether the running call was cancelled.
    #[must_use]
    pub fn is_cancelled(&self, task: TaskId) -> bool {
        self.executor.is_cancelled(task)
    }

    /// Whether a generator that made the item `index` may go on, when its caller allows `bound` unread
    /// items.
    #[must_use]
    pub fn may_yield(&self, task: TaskId, index: u32, bound: u32) -> bool {
        self.executor.may_yield(task, index, bound)
    }

    fn work_arrived(&mut self) {
        self.signals.news = true;
        self.signals.work = true;
    }
}

/// Requests, ids and effects.
impl<M: Memory> Process<M> {
    /// A number for a request of the front.
    pub fn mint_request(&mut self) -> u64 {
        self.requests.mint()
    }

    /// The answer to a request, once.
    pub fn take_answer(&mut self, request: u64) -> Option<Answer> {
        self.requests.take(request)
    }

    /// Nobody waits for the request any more.
    pub fn forget_request(&mut self, request: u64) {
        self.awaited_creations.retain(|_, waiting| *waiting != request);
        if let Some(object_id) = self.requests.forget(request) {
            self.links.tell_node(AbortObject { object_id });
        }
    }

    /// A fresh task.
    pub fn new_task(&mut self) -> TaskId {
        self.ids.task(self.job.job_id)
    }

    /// A fresh call of an actor's method.
    pub fn new_method_call(&mut self, actor: ActorId) -> TaskId {
        self.ids.method(actor)
    }

    /// A fresh object of `put`.
    pub fn new_put(&mut self) -> ObjectId {
        self.ids.put(self.job.job_id)
    }

    /// A fresh actor.
    pub fn new_actor(&mut self) -> ActorId {
        self.ids.actor(self.job.job_id)
    }

    /// A number that no other process of the session mints.
    pub fn unique(&mut self) -> u64 {
        self.ids.unique()
    }

    /// The actions since the shell took them last, in order.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Whether there are actions.
    #[must_use]
    pub fn has_actions(&self) -> bool {
        !self.actions.is_empty()
    }

    /// Takes the changes for waiting threads since the shell looked last.
    pub fn take_signals(&mut self) -> Signals {
        std::mem::take(&mut self.signals)
    }

    /// The links, whose output the shell writes.
    pub fn links(&mut self) -> &mut Links {
        &mut self.links
    }

    /// The owner machine, to be read.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The job that this process serves; a driver's own.
    #[must_use]
    pub fn job(&self) -> &JobConfig {
        &self.job
    }

    /// The job in wire form.
    #[must_use]
    pub fn job_wire(&self) -> &[u8] {
        &self.job_wire
    }

    /// Why the session is over for this process, if it is.
    #[must_use]
    pub fn ended(&self) -> Option<&str> {
        self.ended.as_deref()
    }

    /// Rows of calls that ran here for those who cannot tell of them any more; with `all` for every caller,
    /// as they may be ending, too. `wall` makes microseconds since 1970 of the machine's time.
    #[must_use]
    pub fn rows_of_others(&self, all: bool, wall: impl Fn(u64) -> u64) -> Vec<TaskRow> {
        let me = self.owner.address();
        let is_gone = |caller: &WorkerAddress| {
            caller.worker_id != me.worker_id && self.links.to_process(caller.worker_id).is_none()
        };
        self.executor.rows(me, |caller| all || is_gone(caller), wall)
    }

    /// The class of the actor that lives here ("": none does), and how many calls of each name run.
    #[must_use]
    pub fn running_calls(&self) -> (&str, BTreeMap<&str, u64>) {
        self.executor.running_calls()
    }

    /// Calls that were sent here and do not run.
    pub fn queued_calls(&self) -> impl Iterator<Item = TaskId> {
        self.executor.queued()
    }

    /// When the next [`Event::Tick`] is due, in microseconds.
    #[must_use]
    pub fn next_tick(&self) -> Option<u64> {
        self.owner.next_tick().into_iter().chain(self.next_drain()).min()
    }

    /// This node's daemon.
    #[must_use]
    pub fn node_address(&self) -> NodeAddress {
        let me = self.owner.address();
        NodeAddress { node_id: me.node_id, host: me.host.clone(), port: me.port }
    }

    /// This process.
    #[must_use]
    pub fn address(&self) -> &Arc<WorkerAddress> {
        self.owner.address()
    }

    /// Requests without an answer and answers that no thread took, in words; none at rest.
    #[must_use]
    pub fn open_requests(&self) -> Vec<String> {
        self.requests.open()
    }

    /// Whether the daemon brings an object of another node, whose owner is told of the copy.
    #[must_use]
    pub fn awaits_a_copy(&self) -> bool {
        self.requests.has_copies()
    }
}
