//! A guard against slow changes that needs no clock: how often the six hottest operations of a process
//! that calls others take memory. A figure that rises is a cost on every call: find it, or write the
//! new figure down with the reason for it. One that falls is written down, too.

use std::sync::Arc;

use allocation_counter::measure;
use helio_owner_state::{
    CallArgs, Creation, Event, OutgoingValue, Owner, Retry, Target, TaskSpec, handle_object,
};
use helio_proto::control::{ActorInfo, ActorPhase, ActorSpec};
use helio_proto::node::{LeaseClass, LeaseGranted};
use helio_proto::peer::{Frame, Returned, Value};
use helio_proto::template::Template;
use helio_types::{ActorId, JobId, LeaseId, NodeId, ObjectId, TaskId, WorkerAddress, WorkerId};

/// Calls that each figure is an average of, once tables have grown to their size.
const CALLS: u64 = 4_096;

/// Operation and allocations a call, times 100; a reply's include the two of making its frame here.
const RECORDED: [(&str, u64); 6] = [
    ("submit a task", 100),
    ("take a task's reply", 400),
    ("drop a value", 0),
    ("submit a method call", 200),
    ("take a method call's reply", 400),
    ("put a small value", 200),
];

/// The allowance for tables that grow now and then, in allocations times 100.
const TOLERANCE: u64 = 12;

struct Caller {
    owner: Owner,
    template: Arc<Template>,
    class: Arc<LeaseClass>,
}

fn worker(number: u8) -> WorkerAddress {
    let worker_id = WorkerId([number; 28]);
    WorkerAddress { worker_id, node_id: NodeId([1; 28]), host: "h".into(), port: 1 }
}

fn actor() -> ActorId {
    ActorId::new([3; 12], JobId([1, 0, 0, 0]))
}

fn task(number: u64) -> TaskId {
    TaskId::new(number, ActorId::new([7; 12], JobId([1, 0, 0, 0])))
}

fn value(number: u64) -> ObjectId {
    task(number).object(1)
}

impl Caller {
    /// With a lease of worker 2, and an actor in worker 3.
    fn new() -> Self {
        let mut caller = Self {
            owner: Owner::new(worker(1)),
            template: Arc::new(Template { name: "f".into(), ..Template::default() }),
            class: Arc::default(),
        };
        caller.submit(0, &Target::Class(Arc::clone(&caller.class)));
        let worker_id = worker(2);
        let grant = LeaseGranted {
            request_id: 1,
            lease_id: LeaseId(5),
            worker: worker_id,
            ..LeaseGranted::default()
        };
        caller.apply(Event::LeaseGranted { grant: Box::new(grant), node: NodeId([1; 28]) });
        let spec = ActorSpec { actor_id: actor(), ..ActorSpec::default() };
        let handle = Some(handle_object(actor()));
        let creation = Creation { spec, args: CallArgs::default(), handle };
        caller.apply(Event::CreateActor { creation: Box::new(creation) });
        let info = ActorInfo {
            actor_id: actor(),
            phase: ActorPhase::Alive,
            address: worker(3),
            ..ActorInfo::default()
        };
        caller.apply(Event::ActorUpdate { info: Box::new(info) });
        caller
    }

    fn apply(&mut self, event: Event) {
        let mut actions = self.owner.apply(event, 1_000);
        actions.clear();
        self.owner.reuse(actions);
    }

    fn submit(&mut self, number: u64, target: &Target) {
        let handle = matches!(target, Target::Actor(_)).then(|| handle_object(actor()));
        let spec = TaskSpec {
            id: task(number),
            template: Arc::clone(&self.template),
            target: target.clone(),
            args: CallArgs::default(),
            returns: 1,
            retry: Retry { max: 3, on_error: false },
            parent: TaskId::NIL,
            handle,
        };
        self.apply(Event::Submit { spec: Arc::new(spec) });
    }

    fn reply(&mut self, number: u64, from: u8) {
        let frame = Frame::Reply {
            task: task(number),
            failed: false,
            retryable: false,
            leaving: false,
            items: 0,
            returns: vec![Returned { value: Value::Inline(b"ok".to_vec()), contained: Vec::new() }],
        };
        self.apply(Event::Frame { from: worker(from).worker_id, frame });
    }

    fn drop_value(&mut self, number: u64) {
        self.apply(Event::DropRef { id: value(number) });
    }
}

/// Allocations of `step` for each number, an average times 100.
fn cost(numbers: std::ops::Range<u64>, mut step: impl FnMut(u64)) -> u64 {
    let count = numbers.end - numbers.start;
    let info = measure(|| numbers.for_each(&mut step));
    info.count_total * 100 / count
}

#[test]
fn hot_operations_take_no_more_memory_than_recorded() {
    let mut caller = Caller::new();
    let of_class = Target::Class(Arc::clone(&caller.class));
    let of_actor = Target::Actor(actor());
    let mut found = Vec::new();
    // The first round lets tables grow; the second counts.
    for round in 0..2 {
        found.clear();
        let tasks = 1 + round * 10 * CALLS..1 + round * 10 * CALLS + CALLS;
        let calls = tasks.start + 2 * CALLS..tasks.start + 3 * CALLS;
        let puts = tasks.start + 4 * CALLS..tasks.start + 5 * CALLS;
        found.push(cost(tasks.clone(), |n| caller.submit(n, &of_class)));
        found.push(cost(tasks.clone(), |n| caller.reply(n, 2)));
        found.push(cost(tasks, |n| caller.drop_value(n)));
        found.push(cost(calls.clone(), |n| caller.submit(n, &of_actor)));
        found.push(cost(calls.clone(), |n| caller.reply(n, 3)));
        calls.for_each(|n| caller.drop_value(n));
        found.push(cost(puts.clone(), |n| {
            let bytes = OutgoingValue::Inline(b"ok".to_vec());
            caller.apply(Event::Put { id: value(n), value: bytes, contained: Vec::new() });
        }));
        puts.for_each(|n| caller.drop_value(n));
    }
    let rows: Vec<String> = RECORDED
        .iter()
        .zip(&found)
        .map(|((name, recorded), found)| format!("{name}: {found}, recorded {recorded}"))
        .collect();
    let holds = RECORDED
        .iter()
        .zip(&found)
        .all(|((_, recorded), found)| found.abs_diff(*recorded) <= TOLERANCE);
    assert!(holds, "allocations of 100 calls:\n{}", rows.join("\n"));
}
