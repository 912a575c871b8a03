//! Random histories: whatever happens in whatever order, at the end everything is free.

use helio_proto::cluster::{NodeToNode, PullChunk, PullFailed, PullObject, PullStart, StopActor};
use helio_proto::hello::Role;
use helio_proto::node::{
    ActorReady, Blocked, CancelLease, CreateObject, FetchObject, FreeObject, Liveness, Register,
    ReleaseObject, ReturnLease, SealObject, Unblocked,
};
use helio_types::{ActorId, JobId, WorkerAddress, WorkerId};
use proptest::prelude::*;

use super::{World, address, node_id, object};
use crate::{Conn, DiskError, Event, Exit};

/// A step of a history; the numbers choose among what is possible.
#[derive(Clone, Debug)]
struct Step {
    kind: u8,
    a: u8,
    b: u8,
}

fn step() -> impl Strategy<Value = Step> {
    (0u8..27, any::<u8>(), any::<u8>()).prop_map(|(kind, a, b)| Step { kind, a, b })
}

struct History {
    world: World,
    drivers: Vec<Conn>,
    requests: u64,
}

impl History {
    fn some_client(&self, a: u8) -> Option<Conn> {
        let workers = self.world.workers.values().flatten();
        let all: Vec<Conn> = self.drivers.iter().chain(workers).copied().collect();
        (!all.is_empty()).then(|| all[usize::from(a) % all.len()])
    }

    fn take_step(&mut self, step: &Step) {
        let Step { kind, a, b } = *step;
        let object_id = object(1 + u32::from(a % 2), u64::from(b % 9), 1);
        self.requests += 1;
        let request_id = self.requests;
        match kind {
            0 if self.drivers.len() < 4 => {
                let conn = self.world.driver();
                self.drivers.push(conn);
            }
            1 if !self.drivers.is_empty() => {
                let conn = self.drivers.remove(usize::from(a) % self.drivers.len());
                self.world.close(conn);
            }
            2 if self.drivers.len() < 4 => {
                let conn = self.world.open(Role::Driver, node_id(2), false);
                let register =
                    Register { worker_id: WorkerId([a; 28]), remote: true, ..Register::default() };
                self.world.say(conn, register);
                self.drivers.push(conn);
            }
            8 => self.launch(a, b),
            9 => self.stop(a, b),
            10 => self.world.pass(u64::from(a) * 20),
            11 => {
                let worker = self
                    .world
                    .workers
                    .keys()
                    .nth(usize::from(a) % self.world.workers.len().max(1))
                    .copied();
                if let Some(worker_id) = worker {
                    self.world.worker_ends(worker_id, Exit::Signal(9));
                    self.world.pass(0);
                }
            }
            12 => {
                self.world.starts_at_once = !self.world.starts_at_once;
                let late: Vec<WorkerId> = self
                    .world
                    .workers
                    .iter()
                    .filter(|(_, conn)| conn.is_none())
                    .map(|(id, _)| *id)
                    .collect();
                if let Some(worker_id) = late.first() {
                    self.world.register_worker(*worker_id);
                    self.world.pass(0);
                }
            }
            13 => {
                self.world.now += 1;
                self.world.view(&[(2, a % 4 != 0, f64::from(b % 5)), (3, true, 1.0)]);
            }
            14 => self.answer_pulls(a, b),
            15 => {
                let message = PullObject { request_id: u64::from(b), object_id }.into();
                self.world.feed(Event::PeerSaid { conn: Conn(9000), node_id: node_id(2), message });
            }
            16 => {
                self.world.feed(Event::Served { conn: Conn(9000), request_id: u64::from(b) });
            }
            26 => self.receive(a, b),
            24 => {
                let error = DiskError { is_full: b.is_multiple_of(2), text: "x".into() };
                self.world.disk = (a.is_multiple_of(3)).then_some(error);
            }
            _ => {
                if let Some(conn) = self.some_client(a) {
                    self.client_acts(conn, step, request_id);
                }
            }
        }
    }

    fn client_acts(&mut self, conn: Conn, step: &Step, request_id: u64) {
        let Step { kind, a, b } = *step;
        let object_id = object(1 + u32::from(a % 2), u64::from(b % 9), 1);
        // Answers to what it does, which the real client would read.
        match kind {
            3 | 4 => {
                let units = [
                    ("CPU", [0.5, 1.0, 2.0][usize::from(b % 3)]),
                    ("GPU", [0.0, 0.5, 1.0][usize::from(a % 3)]),
                ];
                let class = self.world.class(1 + u32::from(a % 2), &units);
                self.world.request(conn, request_id, class);
            }
            5 => {
                if let Some(granted) = self.world.granted(conn) {
                    self.world.say(
                        conn,
                        ReturnLease { lease_id: granted.lease_id, discard: b.is_multiple_of(3) },
                    );
                }
            }
            6 => self.world.say(conn, CancelLease { request_id: u64::from(b) }),
            7 => self.world.say(conn, Blocked {}),
            17 => self.world.say(conn, Unblocked {}),
            18 => self.world.say(
                conn,
                CreateObject {
                    request_id,
                    object_id,
                    size: u64::from(b) * 2000,
                    ..CreateObject::default()
                },
            ),
            19 => self.world.say(conn, SealObject { object_id }),
            20 => self.world.say(
                conn,
                FetchObject {
                    request_id,
                    object_id,
                    locations: vec![address(1), address(2)],
                    ..FetchObject::default()
                },
            ),
            21 => self.world.say(
                conn,
                FreeObject { object_id, locations: vec![address(2)], ..FreeObject::default() },
            ),
            22 => self.world.say(conn, ReleaseObject { object_id, pins: 1 }),
            _ => {
                let worker = WorkerAddress {
                    worker_id: WorkerId([b; 28]),
                    node_id: node_id(1 + b % 3),
                    ..WorkerAddress::default()
                };
                self.world.say(conn, Liveness { request_id, worker });
            }
        }
    }

    fn launch(&mut self, a: u8, b: u8) {
        let actor_id = self.world.launch(
            a % 6,
            1,
            &[("CPU", f64::from(b % 3)), ("GPU", 0.5)],
            b.is_multiple_of(2),
        );
        if let Some(conn) = self.world.actor_conn(actor_id) {
            let error = if b.is_multiple_of(5) { vec![1] } else { Vec::new() };
            self.world.say(conn, ActorReady { actor_id, error, message: String::new() });
        }
    }

    fn stop(&mut self, a: u8, b: u8) {
        let actor_id = ActorId::new([a % 6; 12], JobId(1u32.to_be_bytes()));
        let stop =
            StopActor { actor_id, incarnation: 1, reason: "x".into(), drain: b.is_multiple_of(2) };
        self.world.feed(Event::ControlSaid(stop.into()));
    }

    fn answer_pulls(&mut self, a: u8, b: u8) {
        for (to, message) in std::mem::take(&mut self.world.asked) {
            let NodeToNode::Pull(PullObject { request_id, .. }) = message else { continue };
            let size = u64::from(a) * 1000;
            let answers: Vec<NodeToNode> = match b % 5 {
                0 => vec![PullFailed { request_id, reason: "no".into() }.into()],
                4 => vec![PullStart { request_id, size, is_bulk: true }.into()],
                1 => vec![PullStart { request_id, size, is_bulk: false }.into()],
                _ => vec![
                    PullStart { request_id, size, is_bulk: false }.into(),
                    PullChunk { request_id, offset: 0, bytes: vec![0; size as usize] }.into(),
                ],
            };
            for message in answers {
                self.world.feed(Event::PeerSaid { conn: Conn(9000), node_id: to, message });
            }
        }
    }

    /// Brings the next bytes of a connection of its own, or the news that they do not come.
    fn receive(&mut self, a: u8, b: u8) {
        let Some((&request_id, &(_, size))) = self.world.receiving.iter().next() else { return };
        let event = match b % 3 {
            0 => Event::ReceivedSome { request_id, received: size / 2 },
            _ => {
                self.world.receiving.remove(&request_id);
                let outcome = if a.is_multiple_of(2) { Ok(()) } else { Err("lost".to_owned()) };
                Event::Received { request_id, outcome }
            }
        };
        self.world.feed(event);
    }

    /// Ends the history: all clients leave.
    fn end(mut self) {
        for conn in std::mem::take(&mut self.drivers) {
            self.world.close(conn);
        }
        for job in [1, 2] {
            self.world.job_finished(job, WorkerId::NIL);
        }
        for n in 0..6 {
            self.stop(n, 1);
        }
        self.world.feed(Event::PeerLost { conn: Some(Conn(9000)), node_id: node_id(2) });
        self.world.disk = None;
        self.world.pass(200_000);
        let workers: Vec<WorkerId> = self.world.workers.keys().copied().collect();
        for worker_id in workers {
            self.world.worker_ends(worker_id, Exit::Code(0));
            self.world.pass(0);
        }
        self.world.pass(200_000);
        assert!(self.world.workers.is_empty());
        self.world.assert_nothing_leaked();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// STATE-1, LIMIT-1, SHM-1: no event at any time panics the machine, and when all clients are gone
    /// every resource, device, pin and extent of an unsealed object is free.
    #[test]
    fn nothing_leaks_whatever_happens(steps in proptest::collection::vec(step(), 1..150)) {
        let mut history =
            History { world: World::new(&[("CPU", 2.0), ("GPU", 2.0)]), drivers: Vec::new(), requests: 0 };
        for step in &steps {
            history.take_step(step);
        }
        history.end();
    }
}
