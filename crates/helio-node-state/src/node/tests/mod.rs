//! Scenarios. A [`World`] stands in for the shell: it starts and ends workers as told, answers for the
//! control service, and keeps what clients were sent.
#![allow(clippy::unwrap_used, reason = "tests")]

mod actors;
mod arguments;
mod bundles;
mod draining;
mod inspections;
mod leases;
mod lives;
mod loaded;
mod objects;
mod random;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use helio_proto::cluster::{
    ActorEnded, ClusterView, ControlToNode, JobFinished, NodeToControl, NodeToNode, ToClient,
};
use helio_proto::control::{
    ActorLaunch, ActorSpec, ControlRequest, ControlResponse, JobInfo, NodeInfo, Strategy,
};
use helio_proto::hello::Role;
use helio_proto::node::{
    ClientToNode, ControlReply, LeaseClass, LeaseGranted, NodeToClient, Register, RequestLease,
    ReturnLease,
};
use helio_types::{ActorId, JobId, NodeAddress, NodeId, ObjectId, ResourceSet, TaskId, WorkerId};

use crate::{Action, Conn, DiskError, Event, Exit, Node, Setup};

/// The checksum of every file.
const CHECKSUM: u32 = 7;
const STORE: u64 = 1 << 20;

/// Milliseconds that an object waits for room.
const ROOM_MS_MAX: u64 = 5_000;

fn node_id(n: u8) -> NodeId {
    NodeId([n; 28])
}

fn address(n: u8) -> NodeAddress {
    NodeAddress { node_id: node_id(n), host: format!("10.0.0.{n}"), port: 7 }
}

fn resources(units: &[(&str, f64)]) -> ResourceSet {
    ResourceSet::from_units(units.iter().copied())
}

fn object(job: u32, n: u64, index: u32) -> ObjectId {
    TaskId::new(n, ActorId::new([0; 12], JobId(job.to_be_bytes()))).object(index)
}

struct World {
    node: Node,
    now: u64,
    conns: u64,
    jobs: u32,
    /// Messages that clients were sent and no test has looked at.
    sent: BTreeMap<Conn, VecDeque<NodeToClient>>,
    control: Vec<NodeToControl>,
    asked: Vec<(NodeId, NodeToNode)>,
    answered: Vec<(Conn, NodeToNode)>,
    served: Vec<(Conn, u64)>,
    closed: Vec<(Conn, String)>,
    /// Messages that clients have sent and the shell has not read.
    unread: BTreeMap<Conn, Vec<Event>>,
    shut_down: Option<String>,
    /// The node left, and who has its objects.
    left_to: Option<NodeId>,
    /// The actions that the contact with the control service caused.
    contact: Vec<Action>,
    scraped: Option<Vec<helio_proto::inspect::Answer>>,
    written: u64,
    /// Pulls over connections of their own, and where their bytes go.
    receiving: BTreeMap<u64, (u64, u64)>,
    /// Workers that were started, and their connection once they have registered.
    workers: BTreeMap<WorkerId, Option<Conn>>,
    spawned: Vec<crate::Spawn>,
    /// The modules of the process that loads modules.
    loads: Vec<String>,
    forgotten: BTreeSet<WorkerId>,
    /// The next events of the shell.
    coming: VecDeque<Event>,
    /// Workers register as soon as they are started.
    starts_at_once: bool,
    /// Objects on disk.
    files: BTreeSet<ObjectId>,
    /// The objects among these whose bytes are damaged.
    damaged: BTreeSet<ObjectId>,
    told_damaged: Vec<ObjectId>,
    /// The workers whose output was read last.
    flushed: Vec<WorkerId>,
    disk: Option<DiskError>,
    /// Ranges of the overflow file that were given back.
    punched: Vec<u64>,
}

impl World {
    fn new(total: &[(&str, f64)]) -> Self {
        let gpus = resources(total).get("GPU").to_f64() as u32;
        let devices = if gpus == 0 { None } else { Some(("GPU".to_owned(), (0..gpus).collect())) };
        let setup = Setup {
            address: address(1),
            seed: [9; 28],
            total: resources(total),
            devices: devices.into_iter().collect(),
            store_size: STORE,
            starts_max: 4,
            idle_max: 2,
            ..Setup::default()
        };
        Self::with(setup)
    }

    fn with(setup: Setup) -> Self {
        let setup = Setup { spills_max: 4, room_ms_max: ROOM_MS_MAX, ..setup };
        let mut world = Self {
            node: Node::new(setup, 0),
            now: 0,
            conns: 0,
            jobs: 0,
            sent: BTreeMap::new(),
            control: Vec::new(),
            asked: Vec::new(),
            answered: Vec::new(),
            served: Vec::new(),
            closed: Vec::new(),
            unread: BTreeMap::new(),
            shut_down: None,
            left_to: None,
            contact: Vec::new(),
            scraped: None,
            written: 0,
            receiving: BTreeMap::new(),
            workers: BTreeMap::new(),
            spawned: Vec::new(),
            loads: Vec::new(),
            forgotten: BTreeSet::new(),
            coming: VecDeque::new(),
            starts_at_once: true,
            files: BTreeSet::new(),
            damaged: BTreeSet::new(),
            told_damaged: Vec::new(),
            flushed: Vec::new(),
            disk: None,
            punched: Vec::new(),
        };
        world.feed(Event::ControlConnected);
        world.view(&[]);
        world
    }

    /// The control service tells of these nodes: number, alive, free CPUs of 4.
    fn view(&mut self, others: &[(u8, bool, f64)]) {
        let info = |&(n, alive, free): &(u8, bool, f64)| NodeInfo {
            address: address(n),
            alive,
            total: resources(&[("CPU", 4.0)]),
            available: resources(&[("CPU", free)]),
            version: self.now + 1,
            ..NodeInfo::default()
        };
        let nodes = others.iter().map(info).collect();
        self.feed(Event::ControlSaid(ControlToNode::View(ClusterView { nodes })));
    }

    /// Lets it happen, and all that the shell answers to it.
    fn feed(&mut self, event: Event) {
        self.step(event);
        while let Some(event) = self.coming.pop_front() {
            self.step(event);
        }
    }

    fn step(&mut self, event: Event) {
        if let Event::ClientClosed { conn } = &event {
            self.sent.remove(conn);
        }
        for action in self.node.apply(event, self.now * 1_000) {
            self.execute_action(action);
        }
    }

    fn execute_action(&mut self, action: Action) {
        match action {
            Action::Send { conn, message } => self.deliver(conn, message),
            Action::Close { conn, why } => {
                self.closed.push((conn, why));
                self.coming.push_back(Event::ClientClosed { conn });
            }
            Action::ReadOut { conn } => {
                let unread = self.unread.remove(&conn).unwrap_or_default();
                self.coming.extend(unread);
                self.coming.push_back(Event::ClientClosed { conn });
            }
            Action::Control(message) => self.hear(message),
            Action::Ask { to, message } => self.asked.push((to.node_id, message)),
            Action::Answer { conn, message } => self.answered.push((conn, message)),
            Action::Serve { conn, request_id, .. } => self.served.push((conn, request_id)),
            Action::StopServing { conn, request_id } => {
                self.coming.push_back(Event::Served { conn, request_id });
            }
            Action::Receive { request_id, offset, size, .. } => {
                let is_apart = |&(start, length): &(u64, u64)| {
                    start + length <= offset || offset + size <= start
                };
                assert!(self.receiving.values().all(is_apart), "SHM-1");
                self.receiving.insert(request_id, (offset, size));
            }
            Action::StopReceiving { request_id } => {
                assert!(self.receiving.remove(&request_id).is_some(), "nothing was received");
            }
            Action::Write { bytes, .. } => self.written += bytes.len() as u64,
            Action::Spawn(spawn) => {
                self.workers.insert(spawn.worker_id, None);
                if self.starts_at_once {
                    self.register_worker(spawn.worker_id);
                }
                self.spawned.push(spawn);
            }
            Action::Kill { worker_id } => self.worker_ends(worker_id, Exit::Signal(9)),
            Action::Forget { worker_id } => {
                self.workers.remove(&worker_id);
                self.forgotten.insert(worker_id);
            }
            Action::Spill { object_id, .. } => {
                let outcome = self.disk_outcome();
                if outcome.is_ok() {
                    self.files.insert(object_id);
                }
                let outcome = outcome.map(|()| CHECKSUM);
                self.coming.push_back(Event::Spilled { object_id, outcome });
            }
            Action::Restore { object_id, .. } => {
                assert!(self.files.contains(&object_id), "SHM-1: only what was written is read");
                let is_damaged = self.damaged.contains(&object_id);
                let outcome = self.disk_outcome().map(|()| CHECKSUM + u32::from(is_damaged));
                self.coming.push_back(Event::Restored { object_id, outcome });
            }
            Action::Reserve { offset, .. } => {
                let outcome = self.disk_outcome();
                self.coming.push_back(Event::Reserved { offset, outcome });
            }
            Action::TellDamaged { object_id } => self.told_damaged.push(object_id),
            Action::Punch { offset, .. } => self.punched.push(offset),
            Action::RemoveFile { object_id } => {
                assert!(self.files.remove(&object_id), "a file is removed once");
            }
            Action::Load { modules } => self.loads = modules,
            Action::Unload => self.loads.clear(),
            Action::FlushLogs { workers, then } => {
                self.flushed = workers;
                self.execute_action(*then);
            }
            Action::StatusChanged => {}
            Action::Scraped { answers, .. } => self.scraped = Some(answers),
            Action::ShutDown { reason } => self.shut_down = Some(reason),
            Action::Leave { heir, .. } => self.left_to = Some(heir.node_id),
            Action::ReachControl => {}
            Action::TellMaking { conn, reply, .. } => self.deliver(conn, reply.into()),
            Action::Suspend | Action::Resume | Action::Rejoin { .. } => self.contact.push(action),
        }
    }

    fn deliver(&mut self, conn: Conn, message: NodeToClient) {
        // A worker whose lessee is gone runs something for it.
        if let NodeToClient::Exit(_) | NodeToClient::LesseeGone(_) = &message {
            let worker = self.workers.iter().find(|(_, c)| **c == Some(conn)).map(|(id, _)| *id);
            if let Some(worker_id) = worker {
                self.worker_ends(worker_id, Exit::Code(0));
            }
        }
        self.sent.entry(conn).or_default().push_back(message);
    }

    fn hear(&mut self, message: NodeToControl) {
        if let NodeToControl::FromClient(from) = &message
            && let ControlRequest::StartJob(job) = &from.call.request
        {
            self.jobs += 1;
            let info = JobInfo {
                job_id: JobId(self.jobs.to_be_bytes()),
                driver: job.driver,
                ..JobInfo::default()
            };
            let reply = ControlReply {
                request_id: from.call.request_id,
                response: ControlResponse::Job(info),
            };
            let to = ToClient { worker_id: from.worker_id, message: reply.into() };
            self.coming.push_back(Event::ControlSaid(to.into()));
        }
        self.control.push(message);
    }

    fn disk_outcome(&self) -> Result<(), DiskError> {
        self.disk.clone().map_or(Ok(()), Err)
    }

    fn open(&mut self, role: Role, from: NodeId, is_local: bool) -> Conn {
        self.conns += 1;
        let conn = Conn(self.conns);
        self.feed(Event::ClientOpened { conn, role, node_id: from, is_local });
        conn
    }

    fn register_worker(&mut self, worker_id: WorkerId) {
        self.conns += 1;
        let conn = Conn(self.conns);
        self.workers.insert(worker_id, Some(conn));
        let (role, node_id) = (Role::Worker, node_id(1));
        self.coming.push_back(Event::WorkerStarted { worker_id, pid: self.conns as u32 });
        self.coming.push_back(Event::ClientOpened { conn, role, node_id, is_local: true });
        let register = Register { worker_id, pid: self.conns as u32, ..Register::default() };
        self.coming.push_back(Event::ClientSaid { conn, message: register.into() });
    }

    /// The worker's process ends, and its connection with it.
    fn worker_ends(&mut self, worker_id: WorkerId, exit: Exit) {
        let Some(conn) = self.workers.get_mut(&worker_id) else { return };
        let conn = conn.take();
        self.coming.push_back(Event::WorkerExited { worker_id, exit, log_tail: "tail".into() });
        if let Some(conn) = conn {
            self.coming.push_back(Event::ClientClosed { conn });
        }
    }

    fn driver(&mut self) -> Conn {
        let conn = self.open(Role::Driver, node_id(1), true);
        let register = Register {
            worker_id: WorkerId([100 + self.conns as u8; 28]),
            is_driver: true,
            owns_cluster: true,
            log_to_driver: true,
            pid: 50,
            ..Register::default()
        };
        self.say(conn, register);
        assert!(self.took(conn, |m| matches!(m, NodeToClient::Registered(r) if !r.failed)));
        conn
    }

    fn say(&mut self, conn: Conn, message: impl Into<ClientToNode>) {
        self.feed(Event::ClientSaid { conn, message: message.into() });
    }

    fn close(&mut self, conn: Conn) {
        self.feed(Event::ClientClosed { conn });
    }

    fn pass(&mut self, ms: u64) {
        let until = self.now + ms;
        while let Some(at) = self.node.next_tick().map(|at| at / 1_000).filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.feed(Event::Tick);
        }
        self.now = until;
        self.feed(Event::Tick);
    }

    /// Takes the first message to the client that `pick` likes.
    fn take<T>(&mut self, conn: Conn, pick: impl Fn(&NodeToClient) -> Option<T>) -> Option<T> {
        let messages = self.sent.get_mut(&conn)?;
        let index = messages.iter().position(|message| pick(message).is_some())?;
        pick(&messages.remove(index)?)
    }

    fn took(&mut self, conn: Conn, likes: impl Fn(&NodeToClient) -> bool) -> bool {
        self.take(conn, |message| likes(message).then_some(())).is_some()
    }

    fn class(&self, job: u32, units: &[(&str, f64)]) -> LeaseClass {
        LeaseClass {
            job_id: JobId(job.to_be_bytes()),
            resources: resources(units),
            name: "f".into(),
            ..LeaseClass::default()
        }
    }

    fn request(&mut self, conn: Conn, request_id: u64, class: LeaseClass) {
        self.say(conn, RequestLease { request_id, class, backlog: 1, ..RequestLease::default() });
    }

    fn granted(&mut self, conn: Conn) -> Option<LeaseGranted> {
        self.take(conn, |message| match message {
            NodeToClient::LeaseGranted(granted) => Some(granted.clone()),
            _ => None,
        })
    }

    fn give_back(&mut self, conn: Conn, granted: &LeaseGranted) {
        self.say(conn, ReturnLease { lease_id: granted.lease_id, discard: false });
    }

    fn conn_of(&self, granted: &LeaseGranted) -> Conn {
        self.workers[&granted.worker.worker_id].unwrap()
    }

    fn launch(&mut self, n: u8, job: u32, units: &[(&str, f64)], detached: bool) -> ActorId {
        self.launch_spec(n, job, units, ActorSpec { detached, ..ActorSpec::default() })
    }

    fn launch_with(
        &mut self,
        n: u8,
        job: u32,
        units: &[(&str, f64)],
        strategy: Strategy,
    ) -> ActorId {
        self.launch_spec(n, job, units, ActorSpec { strategy, ..ActorSpec::default() })
    }

    fn launch_spec(&mut self, n: u8, job: u32, units: &[(&str, f64)], given: ActorSpec) -> ActorId {
        let actor_id = ActorId::new([n; 12], JobId(job.to_be_bytes()));
        let spec = ActorSpec {
            actor_id,
            job_id: JobId(job.to_be_bytes()),
            resources: resources(units),
            placement_resources: resources(units),
            ..given
        };
        let launch = ActorLaunch { spec, incarnation: 1, ..ActorLaunch::default() };
        self.feed(Event::ControlSaid(launch.into()));
        actor_id
    }

    /// The worker that was told to become the actor.
    fn actor_conn(&self, actor_id: ActorId) -> Option<Conn> {
        let starts = |message: &NodeToClient| matches!(message, NodeToClient::StartActor(launch) if launch.spec.actor_id == actor_id);
        self.sent.iter().find(|(_, messages)| messages.iter().any(starts)).map(|(conn, _)| *conn)
    }

    fn worker_at(&self, conn: Conn) -> WorkerId {
        *self.workers.iter().find(|(_, c)| **c == Some(conn)).unwrap().0
    }

    fn actor_ended(&mut self, actor_id: ActorId) -> Option<ActorEnded> {
        let is_it = |message: &NodeToControl| matches!(message, NodeToControl::ActorEnded(ended) if ended.actor_id == actor_id);
        let index = self.control.iter().position(is_it)?;
        match self.control.remove(index) {
            NodeToControl::ActorEnded(ended) => Some(ended),
            _ => None,
        }
    }

    fn job_finished(&mut self, job: u32, driver: WorkerId) {
        let finished = JobFinished { job_id: JobId(job.to_be_bytes()), driver };
        self.feed(Event::ControlSaid(finished.into()));
    }

    fn cpus_free(&self) -> f64 {
        self.node.info().available.get("CPU").to_f64()
    }

    /// Asserts that nobody holds anything: what LIMIT-1 and SHM-1 demand at the end.
    fn assert_nothing_leaked(&self) {
        assert!(self.node.ledger.is_whole(), "{:?}", self.node.ledger);
        assert_eq!(self.node.census().bundles, 0);
        assert!(self.node.leases.len() == 0, "{:?}", self.node.leases);
        assert!(self.node.actors.is_empty(), "{:?}", self.node.actors);
        assert_eq!(self.node.info().pending, []);
        assert!(self.node.store.is_at_rest(), "{:?}", self.node.store);
    }
}
