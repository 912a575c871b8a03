//! Clients: drivers and workers of this node, lessees from other nodes, observers.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use helio_proto::cluster::ClientGone;
use helio_proto::control::{Failure, FailureKind, JobInfo, StartJob};
use helio_proto::hello::Role;
use helio_proto::node::{ClientToNode, Register, Registered};
use helio_types::{
    DeathCause, DeathKind, JobId, LeaseId, NodeId, ObjectId, WorkerAddress, WorkerId,
};

use crate::{Action, Conn, Node};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Has not registered yet.
    New,
    /// Waits for its job's number.
    DriverStarting,
    Driver,
    Worker,
    /// Lives on another node and leases workers here.
    Remote,
    Observer,
}

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) kind: Kind,
    role: Role,
    is_local: bool,
    /// The node that it lives on.
    node_id: NodeId,
    pub(crate) worker_id: WorkerId,
    pub(crate) job_id: JobId,
    register: Register,
    /// It broke the protocol; what it still says is not heard.
    is_closing: bool,
    pub(crate) leases: BTreeSet<LeaseId>,
    /// Its waiting requests.
    pub(crate) requests: BTreeSet<u64>,
    /// How often it has each object pinned.
    pub(crate) pins: HashMap<ObjectId, u32>,
}

impl Client {
    pub(crate) fn pid(&self) -> u32 {
        self.register.pid
    }

    /// Whether it is a driver, of this node or another.
    pub(crate) fn is_driver(&self) -> bool {
        self.register.is_driver
    }
}

#[derive(Debug, Default)]
pub(crate) struct Clients {
    pub(crate) all: BTreeMap<Conn, Client>,
    /// Drivers, workers and observers of this node.
    local: BTreeMap<WorkerId, Conn>,
    owner: Option<Conn>,
}

impl Clients {
    /// The connection of a client of this node.
    pub(crate) fn local(&self, worker_id: WorkerId) -> Option<Conn> {
        self.local.get(&worker_id).copied()
    }

    pub(crate) fn of_worker_id(&self, worker_id: WorkerId) -> impl Iterator<Item = Conn> {
        self.all
            .iter()
            .filter(move |(_, client)| client.worker_id == worker_id)
            .map(|(conn, _)| *conn)
    }

    /// The drivers and workers of this node, which answer questions.
    pub(crate) fn with_runtime(&self) -> BTreeSet<Conn> {
        let can = |client: &Client| matches!(client.kind, Kind::Driver | Kind::Worker);
        self.all.iter().filter(|(_, client)| can(client)).map(|(conn, _)| *conn).collect()
    }

    pub(crate) fn is_remote(&self, conn: Conn) -> bool {
        self.all.get(&conn).is_some_and(|client| client.kind == Kind::Remote)
    }

    pub(crate) fn get(&self, conn: Conn) -> Option<&Client> {
        self.all.get(&conn)
    }

    pub(crate) fn get_mut(&mut self, conn: Conn) -> Option<&mut Client> {
        self.all.get_mut(&conn)
    }

    /// Lessees that live on `node_id`.
    pub(crate) fn remote_of_node(&self, node_id: NodeId) -> Vec<Conn> {
        let of_node = |client: &Client| client.kind == Kind::Remote && client.node_id == node_id;
        self.all.iter().filter(|(_, client)| of_node(client)).map(|(conn, _)| *conn).collect()
    }
}

impl Kind {
    /// Whether such a client may send such a message.
    fn may_say(self, message: &ClientToNode) -> bool {
        use ClientToNode as M;
        match message {
            M::Unknown => true,
            M::Register(_) => self == Self::New,
            M::RequestLease(_) | M::CancelLease(_) | M::ReturnLease(_) => {
                matches!(self, Self::Driver | Self::Worker | Self::Remote)
            }
            M::Liveness(_) | M::Why(_) => !matches!(self, Self::New | Self::DriverStarting),
            M::Control(_) | M::StopNode(_) | M::Inspect(_) => {
                matches!(self, Self::Driver | Self::Worker | Self::Observer)
            }
            M::ActorReady(_) => self == Self::Worker,
            M::FlushLogs(_) | M::Answered(_) => matches!(self, Self::Driver | Self::Worker),
            M::Blocked(_)
            | M::Unblocked(_)
            | M::CreateObject(_)
            | M::SealObject(_)
            | M::AbortObject(_)
            | M::FetchObject(_)
            | M::CancelFetch(_)
            | M::ReleaseObject(_)
            | M::FreeObject(_)
            | M::Expect(_)
            | M::AdmitArguments(_)
            | M::ReleaseArguments(_)
            | M::Leaving(_)
            | M::LastWords(_)
            | M::Stays(_) => matches!(self, Self::Driver | Self::Worker),
        }
    }
}

impl Node {
    pub(crate) fn client_opened(
        &mut self,
        conn: Conn,
        role: Role,
        node_id: NodeId,
        is_local: bool,
    ) {
        let client = Client {
            kind: Kind::New,
            role,
            is_local,
            node_id,
            worker_id: WorkerId::NIL,
            job_id: JobId::NIL,
            register: Register::default(),
            is_closing: false,
            leases: BTreeSet::new(),
            requests: BTreeSet::new(),
            pins: HashMap::new(),
        };
        self.clients.all.insert(conn, client);
    }

    pub(crate) fn client_said(&mut self, conn: Conn, message: ClientToNode) {
        let Some(client) = self.clients.all.get(&conn) else { return };
        if client.is_closing {
            return;
        }
        if !client.kind.may_say(&message) {
            return self.violation(conn, "a message that a client of its kind may not send now");
        }
        match message {
            ClientToNode::Register(register) => self.register(conn, register),
            ClientToNode::RequestLease(request) => self.request_lease(conn, request),
            ClientToNode::CancelLease(cancel) => self.cancel_lease(conn, cancel.request_id),
            ClientToNode::ReturnLease(lease) => self.return_lease(conn, &lease),
            ClientToNode::Blocked(_) => self.set_blocked(conn, true),
            ClientToNode::Unblocked(_) => self.set_blocked(conn, false),
            ClientToNode::AdmitArguments(admit) => self.admit_arguments(conn, admit),
            ClientToNode::ReleaseArguments(release) => self.release_arguments(conn, &release),
            ClientToNode::CreateObject(create) => self.create_object(conn, create),
            ClientToNode::SealObject(seal) => self.seal_object(conn, seal.object_id),
            ClientToNode::AbortObject(abort) => self.abort_object(conn, abort.object_id),
            ClientToNode::FetchObject(fetch) => self.fetch_object(conn, fetch),
            ClientToNode::CancelFetch(cancel) => self.cancel_fetch(conn, cancel.request_id),
            ClientToNode::ReleaseObject(release) => self.release_object(conn, &release),
            ClientToNode::FreeObject(free) => self.free_object(free),
            ClientToNode::Control(call) => self.client_calls_control(conn, call),
            ClientToNode::Liveness(question) => self.ask_liveness(conn, question),
            ClientToNode::FlushLogs(flush) => self.flush_logs(conn, flush.request_id),
            ClientToNode::ActorReady(ready) => self.actor_ready(conn, ready),
            ClientToNode::Leaving(leaving) => self.worker_leaves(conn, leaving),
            ClientToNode::Stays(_) => self.worker_stays(conn),
            ClientToNode::StopNode(stop) => self.stop_node(conn, stop.reason),
            ClientToNode::Why(why) => self.answer_why(conn, &why),
            ClientToNode::LastWords(words) => self.client_says_last_words(conn, words),
            ClientToNode::Expect(expect) => self.expect(conn, expect),
            ClientToNode::Inspect(inspect) => self.client_inspects(conn, &inspect),
            ClientToNode::Answered(answered) => self.client_answered(conn, answered),
            ClientToNode::Unknown => {}
        }
    }

    /// Ends the connection of a client that broke the protocol.
    pub(crate) fn violation(&mut self, conn: Conn, why: &str) {
        if let Some(client) = self.clients.all.get_mut(&conn) {
            client.is_closing = true;
        }
        self.out.push(Action::Close { conn, why: why.to_owned() });
    }

    fn register(&mut self, conn: Conn, register: Register) {
        let Some(client) = self.clients.all.get(&conn) else { return };
        let kind = if register.observer || client.role == Role::Observer {
            Kind::Observer
        } else if register.remote {
            Kind::Remote
        } else if register.is_driver {
            Kind::DriverStarting
        } else {
            Kind::Worker
        };
        if matches!(kind, Kind::DriverStarting | Kind::Worker) && !client.is_local {
            return self.violation(conn, "drivers and workers of this node use its UNIX socket");
        }
        let worker_id =
            if register.worker_id.is_nil() { self.new_worker_id() } else { register.worker_id };
        if kind != Kind::Remote && self.clients.local.contains_key(&worker_id) {
            return self.violation(conn, "a client with this id is registered already");
        }
        let job_id = match kind {
            Kind::Worker => match self.pool.expects(worker_id) {
                Some(job_id) => job_id,
                None => return self.refuse_worker(conn),
            },
            _ => JobId::NIL,
        };
        let Some(client) = self.clients.all.get_mut(&conn) else { return };
        client.kind = kind;
        client.worker_id = worker_id;
        client.job_id = job_id;
        client.register = register;
        if kind != Kind::Remote {
            self.clients.local.insert(worker_id, conn);
        }
        match kind {
            Kind::DriverStarting => self.start_job(conn),
            Kind::Worker => self.worker_registered(conn, worker_id),
            _ => self.send_registered(conn, String::new()),
        }
    }

    /// The worker was given up on, or is none of ours.
    fn refuse_worker(&mut self, conn: Conn) {
        let failure =
            Failure::new(FailureKind::System, "this worker is not expected here (any more)");
        self.send(conn, Registered { failed: true, failure, ..Registered::default() });
        self.out.push(Action::Close { conn, why: String::new() });
    }

    fn start_job(&mut self, conn: Conn) {
        let Some(client) = self.clients.all.get(&conn) else { return };
        let Register { entrypoint, namespace, pid, owns_cluster, .. } = client.register.clone();
        if owns_cluster && self.setup.has_owner {
            self.clients.owner = Some(conn);
        }
        let driver = client.worker_id;
        let node_id = self.setup.address.node_id;
        self.start_job_at_control(driver, StartJob { driver, node_id, entrypoint, namespace, pid });
    }

    /// The control service has given the driver's job its number, or refused it.
    pub(crate) fn job_started(&mut self, driver: WorkerId, job: Result<JobInfo, Failure>) {
        let Some(conn) = self.clients.local(driver) else { return };
        let Some(client) = self.clients.all.get_mut(&conn) else { return };
        if client.kind != Kind::DriverStarting {
            return;
        }
        match job {
            Ok(job) => {
                client.kind = Kind::Driver;
                client.job_id = job.job_id;
                let shows_logs = client.register.log_to_driver;
                self.jobs.add_driver(job.job_id, conn, shows_logs);
                self.send_registered(conn, job.namespace);
            }
            Err(failure) => {
                self.send(conn, Registered { failed: true, failure, ..Registered::default() });
                self.out.push(Action::Close { conn, why: String::new() });
            }
        }
    }

    pub(crate) fn send_registered(&mut self, conn: Conn, namespace: String) {
        let Some(client) = self.clients.all.get(&conn) else { return };
        let uses_store = matches!(client.kind, Kind::Driver | Kind::Worker);
        let registered = Registered {
            node_id: self.setup.address.node_id,
            job_id: client.job_id,
            host: self.setup.address.host.clone(),
            port: self.setup.address.port,
            session_dir: self.setup.session_dir.clone(),
            session_name: self.setup.session_name.clone(),
            arena_size: if uses_store { self.setup.store_size } else { 0 },
            overflow_path: self.setup.overflow_path.clone(),
            control_address: self.setup.control_address.clone(),
            namespace,
            labels: self.setup.labels.clone(),
            total: self.setup.total.clone(),
            temp_dir: self.setup.temp_dir.clone(),
            ..Registered::default()
        };
        self.send(conn, registered);
    }

    /// Where a registered client takes calls.
    pub(crate) fn address_of(&self, conn: Conn) -> WorkerAddress {
        let client = self.clients.all.get(&conn);
        WorkerAddress {
            worker_id: client.map_or(WorkerId::NIL, |client| client.worker_id),
            node_id: self.setup.address.node_id,
            host: self.setup.address.host.clone(),
            port: client.map_or(0, |client| client.register.port),
        }
    }

    pub(crate) fn pid_of(&self, conn: Conn) -> u32 {
        self.clients.all.get(&conn).map_or(0, |client| client.register.pid)
    }

    /// Takes back all that the client had. Workers that run its tasks end, too.
    pub(crate) fn client_closed(&mut self, conn: Conn) {
        let Some(client) = self.clients.all.remove(&conn) else { return };
        if self.clients.local.get(&client.worker_id) == Some(&conn) {
            self.clients.local.remove(&client.worker_id);
        }
        self.reclaim_leases(conn, &client);
        self.reclaim_objects(conn, &client);
        self.forget_arguments(conn);
        self.forget_questions(conn);
        self.forget_inspections(conn);
        self.control.forget(client.worker_id);
        match client.kind {
            Kind::Worker => self.worker_disconnected(client.worker_id),
            Kind::Driver | Kind::DriverStarting => self.driver_gone(conn, &client),
            Kind::New | Kind::Remote | Kind::Observer => {}
        }
    }

    fn driver_gone(&mut self, conn: Conn, client: &Client) {
        let pid = client.register.pid;
        let mut cause = DeathCause::new(
            DeathKind::Exited,
            format!("The driver process (pid {pid}) has ended."),
        );
        cause.pid = pid;
        self.deaths_add(client.worker_id, cause.clone());
        self.tell_control(ClientGone { worker_id: client.worker_id, is_driver: true, cause });
        if client.kind == Kind::Driver {
            self.end_job(client.job_id);
        }
        if self.clients.owner == Some(conn) {
            self.out.push(Action::ShutDown {
                reason: "the driver that started the cluster has ended".to_owned(),
            });
        }
    }

    pub(crate) fn owner_is_late(&mut self) {
        if self.clients.owner.is_none() {
            self.out.push(Action::ShutDown {
                reason: "the driver that started the cluster never came".to_owned(),
            });
        }
    }

    /// The drivers and workers that live here, for a control service that has to learn of them again.
    #[must_use]
    pub fn clients(&self) -> Vec<WorkerId> {
        let lives = |client: &&Client| {
            matches!(client.kind, Kind::DriverStarting | Kind::Driver | Kind::Worker)
        };
        self.clients.all.values().filter(lives).map(|client| client.worker_id).collect()
    }

    fn flush_logs(&mut self, conn: Conn, request_id: u64) {
        let Some(client) = self.clients.all.get(&conn) else { return };
        let workers = self.pool.of_job(client.job_id);
        self.out.push(Action::FlushLogs { conn, request_id, workers });
    }
}
