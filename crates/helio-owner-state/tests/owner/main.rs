//! The owner machine, event by event: [`Play::check`] gives it one event and compares what it wants done,
//! written in short. Processes are `w1`, `w2`, …, calls `t1`, …, objects `t1.1` (return 1 of `t1`).

mod actors;
mod borrows;
mod calls;
mod made_again;
mod rebuild;
mod streams;
mod turns;
mod whys;

use std::sync::Arc;

use helio_owner_state::{
    Action, CallArgs, Creation, Event, Object, Outgoing, OutgoingValue, Owner, Retry, Target,
    TaskSpec, handle_object,
};
use helio_proto::control::{ActorInfo, ActorPhase, ActorSpec};
use helio_proto::node::{LeaseClass, LeaseGranted};
use helio_proto::peer::{Frame, Reference, Returned, Value};
use helio_proto::template::Template;
use helio_types::{
    ActorId, DeathCause, DeathKind, JobId, LeaseId, NodeAddress, NodeId, ObjectId, TaskId,
    WorkerAddress, WorkerId,
};

/// The number of this process as a worker.
const ME: u8 = 1;

struct Play {
    owner: Owner,
    now: u64,
    class: Arc<LeaseClass>,
}

fn node(number: u8) -> NodeAddress {
    NodeAddress { node_id: NodeId([number; 28]), host: "h".into(), port: 1 }
}

/// Process `w<number>`; all live on node 1.
fn worker(number: u8) -> Arc<WorkerAddress> {
    let node_id = NodeId([1; 28]);
    Arc::new(WorkerAddress {
        worker_id: WorkerId([number; 28]),
        node_id,
        host: "h".into(),
        port: 1,
    })
}

fn task(number: u64) -> TaskId {
    TaskId::new(number, ActorId::new([7; 12], JobId([1, 0, 0, 0])))
}

/// The actor of the tests.
fn actor() -> ActorId {
    ActorId::new([3; 12], JobId([1, 0, 0, 0]))
}

/// News of the actor from the control service: its life, and the process it is in or was in.
fn news(phase: ActorPhase, incarnation: u32, at: u8) -> Event {
    let info = ActorInfo {
        actor_id: actor(),
        phase,
        incarnation,
        address: (*worker(at)).clone(),
        cause: DeathCause::new(DeathKind::Signaled, "killed"),
        ..ActorInfo::default()
    };
    Event::ActorUpdate { info: Box::new(info) }
}

/// Makes the actor; the object that stands for its handle.
fn create_actor(play: &mut Play) -> ObjectId {
    let handle = handle_object(actor());
    let spec = ActorSpec { actor_id: actor(), ..ActorSpec::default() };
    let creation = Creation { spec, args: CallArgs::default(), handle: Some(handle) };
    play.check(Event::CreateActor { creation: Box::new(creation) }, &["create actor", "subscribe"]);
    handle
}

fn object(number: u64, index: u32) -> ObjectId {
    task(number).object(index)
}

fn reference(number: u64, owner: u8) -> Reference {
    Reference { id: object(number, 1), owner: (*worker(owner)).clone() }
}

fn inline(text: &str) -> Returned {
    Returned { value: Value::Inline(text.into()), contained: vec![] }
}

fn stored_on(number: u8) -> Returned {
    Returned { value: Value::Stored { size: 9, locations: vec![node(number)] }, contained: vec![] }
}

fn reply(number: u64, returns: Vec<Returned>) -> Frame<'static> {
    Frame::Reply {
        task: task(number),
        failed: false,
        retryable: false,
        leaving: false,
        items: 0,
        returns,
    }
}

fn from(peer: u8, frame: Frame<'static>) -> Event {
    Event::Frame { from: worker(peer).worker_id, frame }
}

/// A call with one return of a function.
fn call(number: u64, retries: i32, deps: &[ObjectId]) -> TaskSpec {
    TaskSpec {
        id: task(number),
        template: Arc::new(Template { name: "f".into(), ..Template::default() }),
        target: Target::Actor(ActorId::NIL),
        args: CallArgs { deps: deps.to_vec(), ..CallArgs::default() },
        returns: 1,
        retry: Retry { max: retries, on_error: false },
        parent: TaskId::NIL,
        handle: None,
    }
}

impl Play {
    fn new() -> Self {
        Self { owner: Owner::new((*worker(ME)).clone()), now: 1_000, class: Arc::default() }
    }

    /// Gives the machine an event; what it wants done must be this, and its tables must agree (STATE-1).
    #[track_caller]
    fn check(&mut self, event: Event, expected: &[&str]) {
        let out = self.owner.apply(event, self.now);
        let done: Vec<String> = out.iter().filter_map(show).collect();
        assert_eq!(done, expected);
        assert_eq!(self.owner.check(), Ok(()), "STATE-1");
    }

    #[track_caller]
    fn submit(&mut self, spec: TaskSpec, expected: &[&str]) {
        let target = Target::Class(self.class.clone());
        self.check(Event::Submit { spec: Arc::new(TaskSpec { target, ..spec }) }, expected);
    }

    #[track_caller]
    fn granted(&mut self, request: u64, lease: u64, to: u8, expected: &[&str]) {
        self.granted_on(1, request, lease, to, expected);
    }

    /// A worker on that node is ours.
    #[track_caller]
    fn granted_on(&mut self, at: u8, request: u64, lease: u64, to: u8, expected: &[&str]) {
        let grant = LeaseGranted {
            request_id: request,
            lease_id: LeaseId(lease),
            worker: (*worker(to)).clone(),
            ..LeaseGranted::default()
        };
        self.check(
            Event::LeaseGranted { grant: Box::new(grant), node: node(at).node_id },
            expected,
        );
    }

    #[track_caller]
    fn drop_ref(&mut self, id: ObjectId, expected: &[&str]) {
        self.check(Event::DropRef { id }, expected);
    }

    /// An idle lease goes back after a while.
    #[track_caller]
    fn linger(&mut self, expected: &[&str]) {
        self.now += 1_000_000;
        self.check(Event::Tick, expected);
    }

    /// LIMIT-1: nothing is left.
    #[track_caller]
    fn is_empty(&self) {
        assert!(
            self.owner.tables().is_empty(),
            "LIMIT-1: {:?} {:?}",
            self.owner.tables(),
            self.owner.holdings()
        );
    }

    /// Returns the message of the error that an object holds.
    fn reason(&self, id: ObjectId) -> String {
        match self.owner.object(&id).map(Object::value) {
            Some(helio_owner_state::Stored::Error(bytes)) => {
                helio_proto::error::SystemError::from_payload(bytes)
                    .map(|error| error.message)
                    .unwrap_or_default()
            }
            other => format!("{other:?}"),
        }
    }

    fn value(&self, id: ObjectId) -> String {
        match self.owner.object(&id).map(Object::value) {
            Some(helio_owner_state::Stored::Inline(bytes)) => {
                String::from_utf8_lossy(bytes).into_owned()
            }
            Some(helio_owner_state::Stored::Error(bytes)) => {
                let error = helio_proto::error::SystemError::from_payload(bytes);
                let kind = error.map(|error| error.kind);
                kind.map_or("user error".into(), |kind| format!("{kind:?}"))
            }
            other => format!("{other:?}"),
        }
    }
}

fn put(number: u64, value: &str, contained: &[ObjectId]) -> Event {
    let value = OutgoingValue::Inline(value.into());
    Event::Put { id: object(number, 1), value, contained: contained.to_vec() }
}

fn outgoing(value: &str, contained: &[ObjectId]) -> Outgoing {
    Outgoing { value: OutgoingValue::Inline(value.into()), contained: contained.to_vec() }
}

fn w(id: WorkerId) -> String {
    format!("w{}", id.0[0])
}

fn t(id: TaskId) -> String {
    format!("t{}", u64::from_le_bytes(id.0[..8].try_into().expect("an id has 24 bytes")))
}

fn o(id: ObjectId) -> String {
    format!("{}.{}", t(id.task()), id.index())
}

/// An action in short; that something is ready goes without saying.
fn show(action: &Action) -> Option<String> {
    Some(match action {
        Action::Send { to, frame } => format!("{}: {}", w(to.worker_id), show_frame(frame)),
        Action::Call { to, spec, attempt, .. } => {
            let again = if *attempt > 0 { " again" } else { "" };
            format!("{}: run {}{again}", w(to.worker_id), t(spec.id))
        }
        Action::BeginLease { to, .. } => format!("{}: begin lease", w(to.worker_id)),
        Action::RequestLease { node, request, .. } => {
            let at = node.as_ref().map(|at| format!(" on n{}", at.node_id.0[0]));
            format!("ask for lease {request}{}", at.unwrap_or_default())
        }
        Action::CancelLease { node, request } => {
            let at = node.as_ref().map(|at| format!(" on n{}", at.node_id.0[0]));
            format!("cancel lease {request}{}", at.unwrap_or_default())
        }
        Action::ReturnLease { lease, discard, .. } => {
            format!("return {}{}", lease.0, if *discard { " for good" } else { "" })
        }
        Action::Free { id, locations } => format!("free {} on {}", o(*id), locations.len()),
        Action::FreeRest { id, locations } => {
            format!("free {} and what follows on {}", o(*id), locations.len())
        }
        Action::Keep { id, at } => format!("n{}: keep {}", at.node_id.0[0], o(*id)),
        Action::CreateActor { .. } => "create actor".into(),
        Action::Control(request) => {
            let text = format!("{request:?}");
            text.split('(').next().unwrap_or_default().to_owned()
        }
        Action::Subscribe(_) => "subscribe".into(),
        Action::AskLiveness(worker) => format!("does {} live", w(worker.worker_id)),
        Action::CancelRunning { task, .. } => format!("stop {}", t(*task)),
        _ => return None,
    })
}

fn show_frame(frame: &Frame<'_>) -> String {
    match frame {
        Frame::AddBorrow { number, object } => format!("AddBorrow {} as {number}", o(*object)),
        Frame::BorrowAdded { number } => format!("BorrowAdded {number}"),
        Frame::RemoveBorrow { objects } => {
            let all: Vec<String> =
                objects.iter().map(|(id, number)| format!("{} as {number}", o(*id))).collect();
            format!("RemoveBorrow {}", all.join(", "))
        }
        Frame::BorrowsComplete { since } => format!("BorrowsComplete since {since}"),
        Frame::ReturnsHeld { task } => format!("ReturnsHeld {}", t(*task)),
        Frame::Reply { task, .. } => format!("Reply {}", t(*task)),
        Frame::Resolve { object } => format!("Resolve {}", o(*object)),
        Frame::Resolved { object, returned } => {
            format!("Resolved {}{}", o(*object), if returned.is_none() { " unknown" } else { "" })
        }
        Frame::Steal { max } => format!("Steal {max}"),
        Frame::Cancel { task, .. } => format!("Cancel {}", t(*task)),
        Frame::Consumed { count, .. } => format!("Consumed {count}"),
        Frame::LocationLost { object, .. } => format!("LocationLost {}", o(*object)),
        other => format!("{other:?}"),
    }
}
