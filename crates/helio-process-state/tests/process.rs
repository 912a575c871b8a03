//! The machine of a process alone: what it tells its daemon, and what it wants done.

use std::sync::Arc;

use helio_owner_state::{Event as OwnerEvent, Outcome, OutgoingValue};
use helio_process_state::{Action, Answer, Event, Identity, Memory, Process, Work};
use helio_proto::control::{Failure, FailureKind};
use helio_proto::node::{
    ClientToNode, JobConfig, LeaseGranted, LeaseLost, LesseeGone, NodeDied, NodeToClient,
    ObjectCreated, ObjectRefused,
};
use helio_proto::peer::{Args, CallFlags, Frame};
use helio_proto::template::Template;
use helio_proto::{decode, encode, frame};
use helio_types::{
    DeathCause, DeathKind, LeaseId, NodeId, ObjectId, TaskId, WorkerAddress, WorkerId,
};

/// A process without an object store.
#[derive(Debug)]
struct NoStore;

impl Memory for NoStore {
    type Pin = ();

    fn pin(&self, _: ObjectId, _: u64, _: u64) -> Option<()> {
        None
    }

    fn is_shared((): &()) -> bool {
        false
    }
}

struct Worker(Process<NoStore>, Vec<Action>);

fn address(number: u8) -> WorkerAddress {
    let worker_id = WorkerId([number; 28]);
    WorkerAddress { worker_id, node_id: NodeId([9; 28]), host: "h".into(), port: 1 }
}

impl Worker {
    fn new() -> Self {
        let identity = Identity {
            address: address(1),
            pid: 1,
            is_driver: false,
            job: JobConfig::default(),
            lineage_bytes_max: None,
        };
        Self(Process::new(identity, NoStore), Vec::new())
    }

    fn apply(&mut self, event: Event<'_>) {
        self.1.extend(self.0.apply(event, 1));
    }

    fn take_actions(&mut self) -> Vec<Action> {
        self.1.extend(self.0.take_actions());
        std::mem::take(&mut self.1)
    }

    fn hear(&mut self, message: impl Into<NodeToClient>) {
        let (link, bytes) = (self.0.links().own_node(), encode(&message.into()));
        self.apply(Event::Frame { link, bytes: &bytes });
    }

    /// Returns the messages to the daemon since the last call.
    fn told(&mut self) -> Vec<ClientToNode> {
        let link = self.0.links().own_node();
        let Some(output) = self.0.links().output(link) else { return Vec::new() };
        let mut bytes = output.pending();
        let mut messages = Vec::new();
        while let Ok(Some((start, end))) = frame::split(bytes, frame::FRAME_MAX) {
            messages.push(decode(&bytes[start..end]).expect("it is a message to a daemon"));
            bytes = &bytes[end..];
        }
        let n = output.unwritten();
        output.advance(n);
        messages
    }

    /// A caller sends a task, which the front begins to run.
    fn run(&mut self, task: TaskId) -> u64 {
        let link = self.0.links().mint();
        self.apply(Event::Accepted { link, from: address(2), epoch: 0 });
        self.send(link, task);
        assert!(matches!(self.0.next_work(1), Some(Work::Call(_))), "the task is handed out");
        self.apply(Event::Runs(task));
        self.told();
        link
    }

    fn send(&mut self, link: u64, task: TaskId) {
        self.send_under(LeaseId(1), link, task);
    }

    fn send_under(&mut self, lease: LeaseId, link: u64, task: TaskId) {
        let template = encode(&Template { name: "f".into(), ..Template::default() });
        let grant = encode(&LeaseGranted { lease_id: lease, ..LeaseGranted::default() });
        self.send_frame(link, &Frame::Template { number: 1, function: 0, body: &template });
        self.send_frame(link, &Frame::BeginLease { lease, grant: &grant, job: &[] });
        self.send_call(lease, link, task);
    }

    /// A call under a lease that has begun.
    fn send_call(&mut self, lease: LeaseId, link: u64, task: TaskId) {
        let mut args = Vec::new();
        Args::default().put(&mut args);
        let (flags, args) = (CallFlags::default(), &args[..]);
        let call = Frame::Call { task, template: 1, lease, sequence: 0, returns: 1, flags, args };
        self.send_frame(link, &call);
    }

    fn send_frame(&mut self, link: u64, frame: &Frame<'_>) {
        let mut bytes = Vec::new();
        frame.put(&mut bytes);
        self.apply(Event::Frame { link, bytes: &bytes });
    }
}

fn is_blocked(message: &ClientToNode) -> bool {
    matches!(message, ClientToNode::Blocked(_))
}

fn is_unblocked(message: &ClientToNode) -> bool {
    matches!(message, ClientToNode::Unblocked(_))
}

#[test]
fn the_daemon_hears_of_the_first_thread_that_waits_and_of_the_last_that_goes_on() {
    let mut worker = Worker::new();
    worker.run(TaskId([1; 24]));
    worker.apply(Event::Blocked { thread: 1, awaited: None });
    assert_eq!(worker.told().iter().filter(|m| is_blocked(m)).count(), 1);
    worker.apply(Event::Blocked { thread: 2, awaited: None });
    worker.apply(Event::Unblocked { thread: 1 });
    worker.apply(Event::Unblocked { thread: 3 });
    assert!(!worker.told().iter().any(|m| is_blocked(m) || is_unblocked(m)));
    worker.apply(Event::Unblocked { thread: 2 });
    assert_eq!(worker.told().iter().filter(|m| is_unblocked(m)).count(), 1);
}

#[test]
fn a_thread_that_waits_while_no_call_runs_is_nothing_to_the_daemon() {
    let mut worker = Worker::new();
    worker.apply(Event::Blocked { thread: 1, awaited: None });
    worker.apply(Event::Unblocked { thread: 1 });
    assert!(!worker.told().iter().any(|m| is_blocked(m) || is_unblocked(m)));
}

/// The lessee had connected and sent its call before it died, and the news of its death came first: nobody
/// would end what runs for it.
#[test]
fn a_call_that_arrives_after_the_end_of_its_lessee_does_not_begin() {
    let mut worker = Worker::new();
    let (worker_id, lease_id) = (address(2).worker_id, LeaseId(3));
    worker.hear(LesseeGone { worker_id, lease_id, reason: "it has ended".into() });
    assert!(worker.told().iter().any(|message| matches!(message, ClientToNode::Stays(_))));
    let link = worker.0.links().mint();
    worker.apply(Event::Accepted { link, from: address(2), epoch: 0 });
    worker.send_under(lease_id, link, TaskId([1; 24]));
    assert!(!worker.0.has_work(), "its lease is over");
    let link = worker.0.links().mint();
    worker.apply(Event::Accepted { link, from: address(4), epoch: 0 });
    worker.send_under(LeaseId(2), link, TaskId([2; 24]));
    assert!(worker.0.has_work(), "another lessee, whose lease was asked for before");
}

/// OWN-1: the lessee ended after its last call, which this process had sent it: the answer lies in the connection.
/// Calls of its own that lie there do not begin.
#[test]
fn the_last_answers_of_a_lessee_that_is_gone_are_read() {
    let mut worker = Worker::new();
    let link = worker.0.links().mint();
    worker.apply(Event::Accepted { link, from: address(2), epoch: 0 });
    worker.send_under(LeaseId(3), link, TaskId([1; 24]));
    assert!(worker.0.has_work(), "it is sent, and not begun");
    let worker_id = address(2).worker_id;
    worker.hear(LesseeGone { worker_id, lease_id: LeaseId(3), reason: "it has ended".into() });
    let actions = worker.take_actions();
    let is_close = |action: &Action| matches!(action, Action::Close { .. });
    assert!(
        !actions.iter().any(is_close),
        "OWN-1: what lies in the connection is read: {actions:?}"
    );
    assert!(
        actions.iter().any(|action| matches!(action, Action::Drain { link: of } if *of == link))
    );
    assert!(!worker.0.has_work(), "nobody would end what runs for it");
    worker.send_call(LeaseId(3), link, TaskId([2; 24]));
    worker.apply(Event::Drained { link });
    assert!(!worker.0.has_work());
    assert_eq!(closed_and_opened(&mut worker).0, [link]);
}

/// The links that are to be closed, and the new ones, since it was asked last.
fn closed_and_opened(worker: &mut Worker) -> (Vec<u64>, Vec<u64>) {
    let (mut closed, mut opened) = (Vec::new(), Vec::new());
    for action in worker.take_actions() {
        match action {
            Action::Close { link, .. } => closed.push(link),
            Action::Connect { link, .. } => opened.push(link),
            _ => {}
        }
    }
    (closed, opened)
}

/// OWN-1: the news that a link of this process broke is late: its peer knows, and calls over a new one.
#[test]
fn a_link_of_a_later_epoch_ends_the_older_links() {
    let mut worker = Worker::new();
    let (peer, ids) = (address(2), vec![ObjectId([3; 28])]);
    let adopt = || OwnerEvent::Adopt { owner: Arc::new(address(2)), ids: ids.clone() };
    worker.apply(Event::Owner(adopt()));
    let (_, opened) = closed_and_opened(&mut worker);
    let [ours] = opened[..] else {
        panic!("one link is opened to announce the borrow: {opened:?}")
    };
    let link = worker.0.links().mint();
    worker.apply(Event::Accepted { link, from: peer.clone(), epoch: 1 });
    assert_eq!(closed_and_opened(&mut worker).0, [ours]);
    assert_eq!(worker.0.links().to_process(peer.worker_id), Some(link));
    worker.send(link, TaskId([1; 24]));
    worker.apply(Event::Closed { link: ours, is_complete: true });
    assert!(worker.0.has_work(), "the late news drop no call of the new link");
    let late = worker.0.links().mint();
    worker.apply(Event::Accepted { link: late, from: peer.clone(), epoch: 0 });
    assert_eq!(closed_and_opened(&mut worker).0, [late], "its connector hears that it is over");
    assert_eq!(worker.0.links().from_process(peer.worker_id), Some(link));
}

/// The frames that a peer sent on its own link are read when the link to it broke, for it may be dead; but answers to
/// its calls may have gone into the broken one, so no call is taken from that link, and a connection of the next epoch
/// ends it.
#[test]
fn a_link_of_an_earlier_epoch_brings_no_calls() {
    let mut worker = Worker::new();
    let (peer, ids) = (address(2), vec![ObjectId([3; 28])]);
    let adopt = OwnerEvent::Adopt { owner: Arc::new(address(2)), ids };
    worker.apply(Event::Owner(adopt));
    let (_, opened) = closed_and_opened(&mut worker);
    let theirs = worker.0.links().mint();
    worker.apply(Event::Accepted { link: theirs, from: peer.clone(), epoch: 0 });
    worker.send(theirs, TaskId([1; 24]));
    assert!(worker.0.has_work(), "each end has opened a link");
    worker.apply(Event::Closed { link: opened[0], is_complete: true });
    assert!(!worker.0.has_work(), "its caller will give the call up");
    worker.send(theirs, TaskId([2; 24]));
    assert!(!worker.0.has_work(), "and this one");
    assert_eq!(worker.0.links().epoch(peer.worker_id), 1);
    closed_and_opened(&mut worker);
    let link = worker.0.links().mint();
    worker.apply(Event::Accepted { link, from: peer.clone(), epoch: 1 });
    assert_eq!(closed_and_opened(&mut worker).0, [theirs], "the peer lives, and has given it up");
    worker.send(link, TaskId([3; 24]));
    assert!(worker.0.has_work());
}

/// A caller takes only the first call without an answer for one that has begun: should this process die now, a
/// second one would run again.
#[test]
fn a_task_waits_while_the_answer_to_its_caller_waits_for_a_borrow() {
    let mut worker = Worker::new();
    let (first, second) = (TaskId([1; 24]), TaskId([2; 24]));
    let link = worker.run(first);
    let adopt = OwnerEvent::Adopt { owner: Arc::new(address(3)), ids: vec![ObjectId([3; 28])] };
    worker.apply(Event::Owner(adopt));
    worker.send(link, second);
    assert!(worker.0.has_work(), "nothing is answered yet");
    worker.apply(Event::Finished { task: first, outcome: Outcome::default() });
    assert!(!worker.0.has_work());
    assert!(worker.0.next_work(1).is_none());
    let owner = worker.0.links().mint();
    worker.apply(Event::Accepted { link: owner, from: address(3), epoch: 0 });
    let mut bytes = Vec::new();
    Frame::BorrowAdded { number: 1 }.put(&mut bytes);
    worker.apply(Event::Frame { link: owner, bytes: &bytes });
    assert!(worker.0.has_work(), "the answer is on its way");
    assert!(matches!(worker.0.next_work(1), Some(Work::Call(call)) if call.task == second));
}

fn aborted(worker: &mut Worker) -> Vec<ObjectId> {
    let one = |message: ClientToNode| match message {
        ClientToNode::AbortObject(m) => Some(m.object_id),
        _ => None,
    };
    worker.told().into_iter().filter_map(one).collect()
}

#[test]
fn room_goes_back_that_comes_after_its_thread_gave_up() {
    let (mut worker, object) = (Worker::new(), ObjectId([5; 28]));
    let request = worker.0.mint_request();
    worker.apply(Event::Create { request, object, size: 64 });
    worker.0.forget_request(request);
    assert_eq!(aborted(&mut worker), []);
    worker.hear(ObjectCreated { request_id: request, offset: 0 });
    assert_eq!(aborted(&mut worker), [object]);
    assert_eq!(worker.0.open_requests(), Vec::<String>::new());
}

#[test]
fn room_goes_back_that_came_just_before_its_thread_gave_up() {
    let (mut worker, object) = (Worker::new(), ObjectId([5; 28]));
    let request = worker.0.mint_request();
    worker.apply(Event::Create { request, object, size: 64 });
    worker.hear(ObjectCreated { request_id: request, offset: 0 });
    worker.0.forget_request(request);
    assert_eq!(aborted(&mut worker), [object]);
    assert_eq!(worker.0.open_requests(), Vec::<String>::new());
}

#[test]
fn room_that_its_thread_has_taken_is_kept() {
    let (mut worker, object) = (Worker::new(), ObjectId([5; 28]));
    let request = worker.0.mint_request();
    worker.apply(Event::Create { request, object, size: 64 });
    worker.hear(ObjectCreated { request_id: request, offset: 8 });
    assert!(matches!(worker.0.take_answer(request), Some(Answer::Grant(Ok(8)))));
    worker.0.forget_request(request);
    assert_eq!(aborted(&mut worker), []);
}

/// An object in the node's store.
fn stored(worker: &mut Worker) -> ObjectId {
    let (id, location) = (ObjectId([5; 28]), worker.0.node_address());
    let value = OutgoingValue::Stored { size: 1 << 20, location };
    worker.apply(Event::Owner(OwnerEvent::Put { id, value, contained: Vec::new() }));
    id
}

/// The requests for bytes that the daemon was sent.
fn fetches(worker: &mut Worker) -> Vec<u64> {
    let one = |message: ClientToNode| match message {
        ClientToNode::FetchObject(m) => Some(m.request_id),
        _ => None,
    };
    worker.told().into_iter().filter_map(one).collect()
}

fn refuse(worker: &mut Worker, request_id: u64) {
    let failure = Failure { kind: FailureKind::StoreFull, message: "full".into() };
    worker.hear(ObjectRefused { request_id, failure });
}

#[test]
fn a_reader_that_waits_gets_the_refusal() {
    let mut worker = Worker::new();
    let id = stored(&mut worker);
    assert!(worker.0.read(id).is_none(), "the bytes have to be fetched");
    let [request] = fetches(&mut worker)[..] else { panic!("the daemon is asked once") };
    refuse(&mut worker, request);
    assert!(worker.0.read(id).is_some_and(|payload| payload.is_error), "there is no room");
}

#[test]
fn a_reader_that_begins_after_the_refusal_asks_again() {
    let mut worker = Worker::new();
    let id = stored(&mut worker);
    assert!(worker.0.read(id).is_none(), "the bytes have to be fetched");
    let [request] = fetches(&mut worker)[..] else { panic!("the daemon is asked once") };
    refuse(&mut worker, request);
    worker.0.begin_read(&[id]);
    assert!(worker.0.read(id).is_none(), "there may be room now");
    assert_eq!(fetches(&mut worker).len(), 1);
}

#[test]
fn a_reader_that_begins_before_the_refusal_of_an_older_request_asks_again() {
    let mut worker = Worker::new();
    let id = stored(&mut worker);
    assert!(worker.0.read(id).is_none(), "the bytes have to be fetched");
    let [first] = fetches(&mut worker)[..] else { panic!("the daemon is asked once") };
    worker.0.begin_read(&[id]);
    refuse(&mut worker, first);
    assert!(
        worker.0.read(id).is_none(),
        "the older request tells nothing of the room there is now"
    );
    let [second] = fetches(&mut worker)[..] else { panic!("the daemon is asked once more") };
    refuse(&mut worker, second);
    assert!(worker.0.read(id).is_some_and(|payload| payload.is_error), "there is no room");
}

/// Returns the number of requests to the shell to drain the link since the last look.
fn drains(worker: &mut Worker, link: u64) -> usize {
    let is_drain = |action: &Action| matches!(action, Action::Drain { link: l } if *l == link);
    worker.take_actions().iter().filter(|action| is_drain(action)).count()
}

fn lost(worker: u8, cause: DeathKind) -> LeaseLost {
    let cause = DeathCause::new(cause, "");
    LeaseLost { worker_id: address(worker).worker_id, cause, ..LeaseLost::default() }
}

#[test]
fn news_of_a_death_wait_for_the_frames_that_the_dead_process_sent() {
    let mut worker = Worker::new();
    let link = worker.run(TaskId([1; 24]));
    worker.take_actions();
    worker.hear(lost(2, DeathKind::Intended));
    assert_eq!(drains(&mut worker, link), 1, "its connection is read first");
    worker.apply(Event::Drained { link });
    assert_eq!(drains(&mut worker, link), 0, "the news have been taken in");
    worker.hear(lost(7, DeathKind::Intended));
    assert_eq!(
        drains(&mut worker, link),
        0,
        "there is nothing to read of a process without a link"
    );
}

#[test]
fn the_last_frames_of_another_machine_are_waited_for_until_the_connection_closes() {
    let mut worker = Worker::new();
    let from = WorkerAddress { node_id: NodeId([8; 28]), ..address(2) };
    let accept = |worker: &mut Worker| {
        let (link, epoch) = (worker.0.links().mint(), worker.0.links().epoch(from.worker_id));
        worker.apply(Event::Accepted { link, from: from.clone(), epoch });
        worker.take_actions();
        link
    };
    let link = accept(&mut worker);
    worker.hear(lost(2, DeathKind::Intended));
    assert_eq!(drains(&mut worker, link), 0, "frames may still be on their way");
    assert!(worker.0.next_tick().is_some());
    worker.apply(Event::Closed { link, is_complete: true });
    assert_eq!(worker.0.next_tick(), None, "the news have been taken in");

    // A child that it has forked holds the connection.
    let link = accept(&mut worker);
    worker.hear(lost(2, DeathKind::Intended));
    let due = worker.0.next_tick().expect("the wait has an end");
    let actions = worker.0.apply(Event::Tick, due);
    worker.1.extend(actions);
    assert_eq!(drains(&mut worker, link), 1, "what has come by now is all");
    worker.apply(Event::Drained { link });
    assert_eq!(worker.0.next_tick(), None);

    worker.hear(lost(2, DeathKind::NodeDied));
    assert_eq!(drains(&mut worker, link), 1, "nobody closes a connection of a node that is gone");
}

/// OWN-1: a machine that lost its power closes no connection: when it is declared dead, what lies in those to its processes
/// is read, and they are over.
#[test]
fn connections_into_a_machine_that_died_are_read_and_closed() {
    let mut worker = Worker::new();
    let there = |number: u8| WorkerAddress { node_id: NodeId([7; 28]), ..address(number) };
    let (far, near) = (worker.0.links().mint(), worker.0.links().mint());
    worker.apply(Event::Accepted { link: far, from: there(3), epoch: 0 });
    worker.apply(Event::Accepted { link: near, from: address(4), epoch: 0 });
    worker.hear(NodeDied { node_id: NodeId([7; 28]), ..NodeDied::default() });
    assert_eq!(drains(&mut worker, far), 1);
    worker.apply(Event::Drained { link: far });
    worker.apply(Event::Drained { link: near });
    assert_eq!(closed_and_opened(&mut worker).0, [far]);
}
