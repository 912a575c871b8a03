//! The table of clients: drivers and workers of this node, lessees from other nodes, observers.

use std::collections::{BTreeMap, BTreeSet};

use helio_proto::hello::Role;
use helio_proto::node::{ClientToNode, Register};
use helio_types::{JobId, NodeId, WorkerId};

use crate::context::Violation;
use crate::event::Conn;
use crate::exits::Life;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The client has not registered yet.
    New,
    /// The driver waits for its job's number.
    DriverStarting,
    Driver,
    Worker,
    /// The client lives on another node and leases workers here.
    Remote,
    Observer,
}

#[derive(Debug)]
pub(crate) struct Client {
    kind: Kind,
    role: Role,
    is_local: bool,
    /// The node that the client lives on.
    node_id: NodeId,
    worker_id: WorkerId,
    job_id: JobId,
    register: Register,
    /// The client broke the protocol; its further messages are ignored.
    is_closing: bool,
    /// The time since which it is connected, in the machine's time.
    since: u64,
}

impl Client {
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn worker_id(&self) -> WorkerId {
        self.worker_id
    }

    /// The node that it lives on.
    pub(crate) fn node_id(&self) -> NodeId {
        self.node_id
    }

    pub(crate) fn life(&self) -> Life {
        Life { serving: Some(self.since), ..Life::default() }
    }

    /// The job of a driver or worker.
    pub(crate) fn job_id(&self) -> JobId {
        self.job_id
    }

    pub(crate) fn pid(&self) -> u32 {
        self.register.pid
    }

    /// Whether the client is a driver, of this node or another.
    pub(crate) fn is_driver(&self) -> bool {
        self.register.is_driver
    }

    /// The message with which the client registered.
    pub(crate) fn registration(&self) -> &Register {
        &self.register
    }
}

/// The clients of this node, by connection.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    all: BTreeMap<Conn, Client>,
    /// Drivers, workers and observers of this node.
    local: BTreeMap<WorkerId, Conn>,
    /// The driver that the cluster ends with.
    owner: Option<Conn>,
}

impl Clients {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Conn, &Client)> {
        self.all.iter().map(|(conn, client)| (*conn, client))
    }

    pub(crate) fn get(&self, conn: Conn) -> Option<&Client> {
        self.all.get(&conn)
    }

    /// The connection of a client of this node.
    pub(crate) fn local(&self, worker_id: WorkerId) -> Option<Conn> {
        self.local.get(&worker_id).copied()
    }

    pub(crate) fn of_worker_id(&self, worker_id: WorkerId) -> impl Iterator<Item = Conn> {
        let of_it = self.iter().filter(move |(_, client)| client.worker_id == worker_id);
        of_it.map(|(conn, _)| conn)
    }

    /// The drivers and workers of this node, which answer questions.
    pub(crate) fn with_runtime(&self) -> BTreeSet<Conn> {
        let can = |client: &Client| matches!(client.kind, Kind::Driver | Kind::Worker);
        self.iter().filter(|(_, client)| can(client)).map(|(conn, _)| conn).collect()
    }

    /// Whether a driver runs on this node, or is about to.
    pub(crate) fn has_driver(&self) -> bool {
        let is_driver =
            |client: &Client| matches!(client.kind, Kind::Driver | Kind::DriverStarting);
        self.all.values().any(is_driver)
    }

    pub(crate) fn is_remote(&self, conn: Conn) -> bool {
        self.all.get(&conn).is_some_and(|client| client.kind == Kind::Remote)
    }

    /// Lessees that live on other nodes.
    pub(crate) fn remote(&self) -> Vec<Conn> {
        let is_remote = |client: &Client| client.kind == Kind::Remote;
        self.iter().filter(|(_, client)| is_remote(client)).map(|(conn, _)| conn).collect()
    }

    /// Lessees that live on `node_id`.
    pub(crate) fn remote_of_node(&self, node_id: NodeId) -> Vec<Conn> {
        let of_node = |client: &Client| client.kind == Kind::Remote && client.node_id == node_id;
        self.iter().filter(|(_, client)| of_node(client)).map(|(conn, _)| conn).collect()
    }

    pub(crate) fn pid(&self, conn: Conn) -> u32 {
        self.all.get(&conn).map_or(0, Client::pid)
    }

    /// Whether the driver that the cluster ends with has come.
    pub(crate) fn has_owner(&self) -> bool {
        self.owner.is_some()
    }

    pub(crate) fn is_owner(&self, conn: Conn) -> bool {
        self.owner == Some(conn)
    }

    pub(crate) fn set_owner(&mut self, conn: Conn) {
        self.owner = Some(conn);
    }

    /// A driver, worker or observer has passed the handshake.
    pub(crate) fn on_client_opened(
        &mut self,
        conn: Conn,
        role: Role,
        node_id: NodeId,
        is_local: bool,
        now: u64,
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
            since: now,
        };
        let before = self.all.insert(conn, client);
        assert!(before.is_none(), "what one client says would be taken for another's");
    }

    /// Whether to handle a message of the client: not if its connection is being closed.
    pub(crate) fn may_say(&self, conn: Conn, message: &ClientToNode) -> Result<bool, Violation> {
        match self.all.get(&conn) {
            Some(client) if !client.is_closing => match client.kind.may_say(message) {
                true => Ok(true),
                false => Err(Violation("a message that a client of its kind may not send now")),
            },
            _ => Ok(false),
        }
    }

    /// The client broke the protocol: its further messages are ignored.
    pub(crate) fn mark_closing(&mut self, conn: Conn) {
        if let Some(client) = self.all.get_mut(&conn) {
            client.is_closing = true;
        }
    }

    /// The kind of client that registers so, if it may.
    pub(crate) fn kind_of(&self, conn: Conn, register: &Register) -> Result<Kind, Violation> {
        let (role, is_local) = match self.all.get(&conn) {
            Some(client) => (client.role, client.is_local),
            None => (Role::Observer, false),
        };
        let kind = if register.observer || role == Role::Observer {
            Kind::Observer
        } else if register.remote {
            Kind::Remote
        } else if register.is_driver {
            Kind::DriverStarting
        } else {
            Kind::Worker
        };
        if matches!(kind, Kind::DriverStarting | Kind::Worker) && !is_local {
            return Err(Violation("drivers and workers of this node use its UNIX socket"));
        }
        Ok(kind)
    }

    /// Whether a client of this kind may have the id. Lessees from other nodes are known here by their
    /// connections alone.
    pub(crate) fn check_id(&self, kind: Kind, worker_id: WorkerId) -> Result<(), Violation> {
        match kind != Kind::Remote && self.local.contains_key(&worker_id) {
            true => Err(Violation("a client with this id is registered already")),
            false => Ok(()),
        }
    }

    /// The client is registered.
    pub(crate) fn register(
        &mut self,
        conn: Conn,
        kind: Kind,
        worker_id: WorkerId,
        job_id: JobId,
        register: Register,
    ) {
        let Some(client) = self.all.get_mut(&conn) else { return };
        client.kind = kind;
        client.worker_id = worker_id;
        client.job_id = job_id;
        client.register = register;
        if kind != Kind::Remote {
            let before = self.local.insert(worker_id, conn);
            assert!(before.is_none(), "what is for one process would go to another");
        }
    }

    /// The driver's job has its number. Returns whether the driver waited for it.
    pub(crate) fn on_job_started(&mut self, conn: Conn, job_id: JobId) -> bool {
        match self.all.get_mut(&conn) {
            Some(client) if client.kind == Kind::DriverStarting => {
                (client.kind, client.job_id) = (Kind::Driver, job_id);
                true
            }
            _ => false,
        }
    }

    /// The client's connection has ended.
    pub(crate) fn on_client_closed(&mut self, conn: Conn) -> Option<Client> {
        let client = self.all.remove(&conn)?;
        if self.local.get(&client.worker_id) == Some(&conn) {
            self.local.remove(&client.worker_id);
        }
        Some(client)
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
            | M::KeepObject(_)
            | M::Expect(_)
            | M::AdmitArguments(_)
            | M::ReleaseArguments(_)
            | M::Leaving(_)
            | M::LastWords(_)
            | M::Stays(_) => matches!(self, Self::Driver | Self::Worker),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients(role: Role, is_local: bool) -> Clients {
        let mut clients = Clients::default();
        clients.on_client_opened(Conn(1), role, NodeId([1; 28]), is_local, 0);
        clients
    }

    #[test]
    fn drivers_and_workers_come_over_the_socket_of_their_node() {
        let register = Register::default();
        let kind = |role, is_local| clients(role, is_local).kind_of(Conn(1), &register);
        assert_eq!(kind(Role::Worker, true), Ok(Kind::Worker));
        assert!(kind(Role::Worker, false).is_err());
        assert_eq!(kind(Role::Observer, false), Ok(Kind::Observer));
        let remote = Register { remote: true, ..Register::default() };
        let kind = clients(Role::Driver, false).kind_of(Conn(1), &remote);
        assert_eq!(kind, Ok(Kind::Remote));
    }

    #[test]
    fn an_id_is_registered_once_until_its_connection_ends() {
        let (mut clients, id) = (clients(Role::Worker, true), WorkerId([1; 28]));
        let register = Register::default();
        clients.register(Conn(1), Kind::Worker, id, JobId::NIL, register.clone());
        clients.on_client_opened(Conn(2), Role::Worker, NodeId([1; 28]), true, 0);
        assert!(clients.check_id(Kind::Worker, id).is_err());
        assert_eq!(clients.check_id(Kind::Remote, id), Ok(()));
        assert!(clients.on_client_closed(Conn(1)).is_some());
        assert_eq!(clients.local(id), None);
        assert_eq!(clients.check_id(Kind::Worker, id), Ok(()));
    }

    #[test]
    fn a_client_that_broke_the_protocol_is_not_heard() {
        let mut clients = clients(Role::Worker, true);
        let message = ClientToNode::Register(Register::default());
        assert_eq!(clients.may_say(Conn(1), &message), Ok(true));
        clients.register(Conn(1), Kind::Worker, WorkerId([1; 28]), JobId::NIL, Register::default());
        assert!(clients.may_say(Conn(1), &message).is_err(), "a client registers once");
        clients.mark_closing(Conn(1));
        assert_eq!(clients.may_say(Conn(1), &message), Ok(false));
        assert_eq!(clients.may_say(Conn(9), &message), Ok(false));
    }

    #[test]
    fn a_job_number_makes_a_waiting_driver_a_driver_once() {
        let (mut clients, id) = (clients(Role::Driver, true), WorkerId([1; 28]));
        let register = Register { is_driver: true, ..Register::default() };
        let kind = clients.kind_of(Conn(1), &register).unwrap();
        clients.register(Conn(1), kind, id, JobId::NIL, register);
        let job_id = JobId([0, 0, 0, 1]);
        assert!(clients.on_job_started(Conn(1), job_id));
        assert!(!clients.on_job_started(Conn(1), JobId([0, 0, 0, 2])));
        assert_eq!(clients.get(Conn(1)).map(Client::job_id), Some(job_id));
    }
}
