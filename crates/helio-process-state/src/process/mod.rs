//! The process: owns the sub-machines, and passes events between them.

mod arguments;
mod daemons;
mod explain;
mod frames;
mod last_frames;
mod owner;
mod shell;
mod values;
mod waits;

use std::collections::BTreeMap;

use helio_owner_state::{Action as OwnerAction, Event as OwnerEvent, Outcome, Outgoing, Owner};
use helio_proto::control::ControlRequest;
use helio_proto::inspect::{Answer, Answered, Inspect, Question};
use helio_proto::node::{
    AbortObject, Blocked, ClientToNode, ControlCall, CreateObject, JobConfig, ReleaseObject,
    SealObject, Unblocked,
};
use helio_proto::raw::Raw;
use helio_types::id::PUT_INDEX_BASE;
use helio_types::{ActorId, ObjectId, PlacementGroupId, TaskId, WorkerAddress, WorkerId};

use crate::event::{Action, Event, Signals};
use crate::executor::{Executor, Work};
use crate::ids::Ids;
use crate::links::{Links, Peer};
use crate::questions::{Asker, HOPS_MAX, Subject};
use crate::requests::{Pending, Requests};
use crate::store::StoreClient;
use crate::strangers::Strangers;
use crate::value::Memory;
use crate::watches::Watches;

/// Number of dropped handles that are taken into account before their effects are carried out.
const DROPPED_AT_ONCE: usize = 1 << 10;

/// The identity of a process that joins a session.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The address of the process; the port is its node's.
    pub address: WorkerAddress,
    /// The process id in the operating system.
    pub pid: u32,
    /// Whether it is a driver.
    pub is_driver: bool,
    /// The job that it begins with.
    pub job: JobConfig,
    /// Bytes that the remembered calls may take, by which lost objects are made again; `None`: the
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
    strangers: Strangers,
    ids: Ids,
    /// Creations whose answer a thread waits for, with that thread's request.
    awaited_creations: BTreeMap<ActorId, u64>,
    /// The link whose greeting a thread waits for, with that thread's request.
    awaited_greeting: Option<(u64, u64)>,
    /// News of deaths, which wait for the last frames.
    deferred: Vec<last_frames::Deferred>,
    /// The next task waits for an answer that waits for a borrow.
    awaits_answer: bool,
    /// Number of values that became known or came here so far.
    arrivals: u64,
    /// The reason why the session is over for this process; `None` while it goes on.
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
            strangers: Strangers::default(),
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

    /// Takes in an event at `now` (microseconds of any steady clock) and returns the actions, in the order in which
    /// they are to be executed. Of events that came together a later one may be told with an older time than what the
    /// first has led to: time does not go back by that.
    pub fn apply(&mut self, event: Event<'_>, now: u64) -> Vec<Action> {
        self.now = now.max(self.now);
        match event {
            Event::Owner(event) => self.on_owner(event),
            Event::Frame { link, bytes } => self.on_frame(link, bytes),
            Event::Finished { task, outcome } => self.on_finished(task, outcome),
            Event::ItemMade { task, index, item } => self.on_item_made(task, index, item),
            Event::Runs(task) => self.executor.on_runs(task, self.now),
            Event::Dropped(ids) => self.on_dropped(ids),
            Event::Released(ids) => self.on_released(ids),
            Event::Blocked { thread, awaited } => self.on_blocked(thread, awaited),
            Event::Unblocked { thread } => self.on_unblocked(thread),
            Event::Opened { link } => self.on_opened(link),
            Event::Accepted { link, from, epoch } => self.on_accepted(link, from, epoch),
            Event::Greeted { link } => self.on_greeted(link),
            Event::Unreached { link } => self.on_unreached(link),
            Event::Closed { link, is_complete: true } => self.on_closed(link),
            Event::Closed { link, is_complete: false } => self.on_torn(link),
            Event::Drained { link } => self.on_drained(link),
            Event::AskExit { reason } => self.on_ask_exit(reason),
            Event::Tick => {
                self.refuse_silent();
                self.drain_overdue();
                self.on_owner(OwnerEvent::Tick);
            }
            request => self.on_request(request),
        }
        self.take_actions()
    }

    /// The front asks daemons, the control service or peers for something.
    fn on_request(&mut self, event: Event<'_>) {
        match event {
            Event::Ask { request, message } => self.on_ask(request, *message),
            Event::Tell(message) => self.on_tell(*message),
            Event::Promise { object, message, value } => self.on_promise(object, *message, value),
            Event::AwaitCreation { request, actor } => self.on_await_creation(request, actor),
            Event::Create { request, object, size } => self.on_create(request, object, size),
            Event::Written { object, is_whole } => self.on_written(object, is_whole),
            Event::Inspect { request, question, own_node_only } => {
                self.on_inspect(request, question, own_node_only)
            }
            Event::Explain { request, subject } => self.on_explain(request, subject),
            Event::Confirm { request, message } => self.on_confirm(request, *message),
            Event::Report { request, answer } => self.on_report(request, *answer),
            Event::TellNode(message) => self.on_tell_node(*message),
            _ => {}
        }
    }

    fn on_finished(&mut self, task: TaskId, outcome: Outcome) {
        // First: the next call's arguments may wait for the room of this one's.
        self.release_room_of(task);
        if let Some(caller) = self.executor.finish(task, outcome.failed, self.now) {
            self.on_owner(OwnerEvent::Finished { task, caller, outcome });
        }
        // The order to end may have waited for this call alone.
        if self.executor.may_end() {
            self.work_arrived();
        }
    }

    fn on_item_made(&mut self, task: TaskId, index: u32, item: Outgoing) {
        if let Some(caller) = self.executor.caller_of(task).cloned() {
            self.on_owner(OwnerEvent::ItemMade { task, caller, index, item });
        }
    }

    fn on_released(&mut self, ids: Vec<ObjectId>) {
        for object_id in ids {
            self.links.tell_node(ReleaseObject { object_id, pins: 1 });
        }
    }

    fn on_blocked(&mut self, thread: u64, awaited: Option<ObjectId>) {
        if self.executor.block(thread, awaited) {
            self.links.tell_node(Blocked {});
            // A call that waits here could be the one that this process waits for.
            let unstarted = self.executor.take_unstarted(usize::MAX);
            self.hand_back(unstarted);
        }
    }

    fn on_unblocked(&mut self, thread: u64) {
        if self.executor.unblock(thread) {
            self.links.tell_node(Unblocked {});
        }
    }

    fn on_greeted(&mut self, link: u64) {
        self.links.greeted(link);
        self.greeting_ended(link);
    }

    fn on_ask_exit(&mut self, reason: String) {
        self.executor.push_urgent(Work::Exit { reason, drain: false });
        self.work_arrived();
    }

    fn on_ask(&mut self, request: u64, message: ControlRequest) {
        self.requests.insert(request, Pending::Control);
        self.links.tell_node(ControlCall { request_id: request, request: message });
    }

    fn on_promise(&mut self, object: ObjectId, message: ControlRequest, value: Vec<u8>) {
        // A reader may ask for the promise before the control service has answered.
        self.on_owner(OwnerEvent::Expect { id: object });
        let group = match &message {
            ControlRequest::CreateGroup(spec) => spec.group_id,
            ControlRequest::AwaitGroup(awaited) => awaited.group_id,
            _ => PlacementGroupId::NIL,
        };
        self.ask_control(message, Pending::Promise { object, value, group });
    }

    fn on_await_creation(&mut self, request: u64, actor: ActorId) {
        self.awaited_creations.insert(actor, request);
    }

    /// The front has written an object into the extent that it was granted, or gives the extent back.
    fn on_written(&mut self, object_id: ObjectId, is_whole: bool) {
        self.store.end_writing(object_id);
        match is_whole {
            true => self.links.tell_node(SealObject { object_id }),
            false => self.links.tell_node(AbortObject { object_id }),
        }
    }

    fn on_create(&mut self, request: u64, object: ObjectId, size: u64) {
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

    fn on_inspect(&mut self, request: u64, question: Question, own_node_only: bool) {
        self.requests.insert(request, Pending::Inspection);
        self.links.tell_node(Inspect { request_id: request, question, own_node_only });
    }

    fn on_explain(&mut self, request: u64, subject: Subject) {
        self.explain(subject, HOPS_MAX, Asker::Thread(request));
    }

    fn on_confirm(&mut self, request: u64, message: ClientToNode) {
        self.requests.insert(request, Pending::Notice);
        self.links.tell_node(message);
    }

    fn on_report(&mut self, request: u64, answer: Answer) {
        self.links.tell_node(Answered { request_id: request, answer: Raw::of(&answer) });
    }

    fn on_tell_node(&mut self, message: ClientToNode) {
        self.links.tell_node(message);
    }

    /// Handles were dropped.
    fn on_dropped(&mut self, ids: &[ObjectId]) {
        // In batches: a list of a million handles would make as many actions at a time.
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
    fn on_opened(&mut self, link: u64) {
        if let Some(link) = self.strangers.on_opened(link, self.now) {
            self.actions
                .push(Action::Refuse { link, reason: "too many connections wait to greet" });
        }
    }

    /// Refuses connections that did not greet in time.
    fn refuse_silent(&mut self) {
        for link in self.strangers.take_silent(self.now) {
            self.actions.push(Action::Refuse { link, reason: "it did not greet in time" });
        }
    }

    fn on_accepted(&mut self, link: u64, from: WorkerAddress, epoch: u32) {
        self.strangers.remove(link);
        let worker = from.worker_id;
        let known = self.links.epoch(worker);
        if epoch < known {
            // The link was opened before the peer knew that its links here are over.
            self.actions.push(Action::Close { link, reason: None });
            return;
        }
        // A process that greets anew lives: what it had sent in an earlier epoch counts no more.
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
            // Told before the loss: calls that never left this process have not begun anywhere.
            self.on_owner(OwnerEvent::PeerUnreached { peer });
        }
        self.on_closed(link);
    }

    /// The connection ended, and part of what its other end had sent is lost.
    pub(crate) fn on_torn(&mut self, link: u64) {
        if let Some(Peer::Process(peer)) = self.links.peer(link) {
            let peer = peer.worker_id;
            self.on_owner(OwnerEvent::PeerTorn { peer });
        }
        self.on_closed(link);
    }

    pub(crate) fn on_closed(&mut self, link: u64) {
        self.strangers.remove(link);
        self.greeting_ended(link);
        let closed = self.links.closed(link);
        // First the news of deaths that waited for the last frames of this link: they tell the cause, which the loss
        // of the link does not.
        self.on_drained(link);
        let Some((peer, ends_too)) = closed else { return };
        if let Some(other) = ends_too {
            self.greeting_ended(other);
            self.on_drained(other);
            self.actions.push(Action::Close { link: other, reason: None });
        }
        // Threads may wait for an answer that will not come.
        self.signals.news = true;
        match peer {
            Peer::Node => self.end("the node's daemon has ended"),
            Peer::RemoteNode(node) => self.on_owner(OwnerEvent::NodeLost { node: node.node_id }),
            Peer::Process(peer) => {
                self.drop_calls_of(peer.worker_id);
                self.explainer_gone(peer.worker_id);
                self.on_owner(OwnerEvent::PeerLost { peer });
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
