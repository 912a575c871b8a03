//! A daemon in a large cluster: what it keeps of the other nodes, and what news of them and requests cost it.
//!
//! The daemon's machine is the one that ships. It is told of all others in the pages in which the control service
//! tells of them, then of changes on the nodes that it watches, and it is asked for workers for which it has no room.
//!
//! [`Daemons`] are those of some nodes of the simulated cluster. They hear all that control tells these nodes but the starts of
//! actors, for which there are no workers here, and send their heartbeats; control gets those of the simple nodes.

use std::collections::BTreeMap;

use allocation_counter::measure;
use helio_config::control::{VIEW_PAGE_NODES, WATCHED_MAX};
use helio_node_state::{Action, Conn, Event, Node, Setup};
use helio_proto::cluster::{ClusterView, ControlToNode, NodeToControl, ToClient};
use helio_proto::control::{ControlRequest, ControlResponse, JobInfo, NodeInfo};
use helio_proto::hello::Role;
use helio_proto::node::{ControlReply, LeaseClass, NodeToClient, Register, RequestLease};
use helio_types::{JobId, Quantity, ResourceSet, WorkerId};

use crate::nodes::{cpu_ns, describe};

/// Number of repetitions of each measurement.
const ROUNDS: u64 = 2_000;
const DRIVER: Conn = Conn(1);

/// The cost of one daemon.
#[derive(Clone, Copy, Debug, Default)]
pub struct Daemon {
    /// Bytes that it keeps of the other nodes.
    pub bytes: u64,
    /// CPU to take in the list of all nodes, in nanoseconds.
    pub list_ns: u64,
    /// CPU to take in news of one node that it watches.
    pub news_ns: f64,
    /// CPU of a moment in which nothing is due.
    pub tick_ns: f64,
    /// CPU of a request for a worker that it sends on to another node.
    pub request_ns: f64,
    /// Requests that were sent on.
    pub sent_on: u64,
}

#[derive(Debug)]
struct Shell {
    node: Node,
    now_ms: u64,
    sent_on: u64,
}

impl Shell {
    /// The daemon of the node of that number, without CPUs: requests for one are sent on.
    fn new(number: usize, now_ms: u64) -> Self {
        let own = describe(number);
        let total = ResourceSet::from_units([("memory", 1e9)]);
        let setup =
            Setup { address: own.address, total, starts_max: 1, idle_max: 1, ..Setup::default() };
        let mut shell = Self { node: Node::new(setup, now_ms * 1_000), now_ms, sent_on: 0 };
        shell.feed(Event::ControlConnected);
        shell
    }

    /// Takes in an event, and answers what the control service is asked meanwhile.
    fn feed(&mut self, event: Event) {
        let mut coming = vec![event];
        while let Some(event) = coming.pop() {
            for action in self.node.apply(event, self.now_ms * 1_000) {
                match action {
                    Action::Control(NodeToControl::FromClient(from)) => {
                        if let ControlRequest::StartJob(job) = from.call.request {
                            let job_id = JobId([1, 0, 0, 0]);
                            let info = JobInfo { job_id, driver: job.driver, ..JobInfo::default() };
                            let request_id = from.call.request_id;
                            let response = ControlResponse::Job(info);
                            let message = ControlReply { request_id, response }.into();
                            let to = ToClient { worker_id: from.worker_id, message };
                            coming.push(Event::ControlSaid(to.into()));
                        }
                    }
                    Action::Send { message: NodeToClient::LeaseSpillback(_), .. } => {
                        self.sent_on += 1;
                    }
                    _ => {}
                }
            }
        }
    }

    fn tell(&mut self, nodes: Vec<NodeInfo>) {
        self.feed(Event::ControlSaid(ControlToNode::View(ClusterView { nodes })));
    }

    /// The CPU of one of [`ROUNDS`], in nanoseconds.
    fn time(&mut self, mut round: impl FnMut(&mut Self, u64)) -> f64 {
        let began = cpu_ns();
        for number in 0..ROUNDS {
            round(self, number);
        }
        (cpu_ns() - began) as f64 / ROUNDS as f64
    }
}

/// Maximum number of nodes with a daemon: each knows all others.
const DAEMONS_MAX: usize = 16;

/// Counts of the work of some nodes' daemons.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heard {
    /// The number of simulated daemons.
    pub n_daemons: u64,
    /// The messages that they got.
    pub messages: u64,
    /// The nodes that were described in these.
    pub entries: u64,
    /// CPU of their machines, in nanoseconds.
    pub machine_ns: u64,
}

/// The daemons of some nodes of a cluster, by the numbers of these.
#[derive(Debug, Default)]
pub struct Daemons {
    all: BTreeMap<usize, Shell>,
    measures: bool,
    heard: Heard,
}

impl Daemons {
    /// The daemons of nodes that lie evenly among so many.
    pub(crate) fn of(n_nodes: usize, now_ms: u64, measures: bool) -> Self {
        let n_daemons = n_nodes.min(DAEMONS_MAX);
        let numbers = (0..n_daemons).map(|place| place * n_nodes / n_daemons);
        let all = numbers.map(|number| (number, Shell::new(number, now_ms))).collect();
        Self { all, measures, heard: Heard::default() }
    }

    /// Takes the counts since the last call.
    pub(crate) fn take_heard(&mut self) -> Heard {
        Heard { n_daemons: self.all.len() as u64, ..std::mem::take(&mut self.heard) }
    }

    /// Control tells a node something.
    pub(crate) fn hear(&mut self, number: usize, message: &ControlToNode, now_ms: u64) {
        let Some(shell) = self.all.get_mut(&number) else { return };
        match message {
            ControlToNode::LaunchActor(_) | ControlToNode::StopActor(_) => return,
            ControlToNode::View(view) => self.heard.entries += view.nodes.len() as u64,
            _ => {}
        }
        self.heard.messages += 1;
        shell.now_ms = now_ms;
        let event = Event::ControlSaid(message.clone());
        let began = if self.measures { cpu_ns() } else { 0 };
        shell.feed(event);
        self.heard.machine_ns += if self.measures { cpu_ns() - began } else { 0 };
    }

    /// The heartbeat of a node is due.
    pub(crate) fn beat(&mut self, number: usize, now_ms: u64) {
        let Some(shell) = self.all.get_mut(&number) else { return };
        shell.now_ms = now_ms;
        let began = if self.measures { cpu_ns() } else { 0 };
        shell.feed(Event::Tick);
        // Control hears the heartbeats of the simple nodes; this one is made for its cost alone.
        drop(shell.node.heartbeat(now_ms * 1_000));
        self.heard.machine_ns += if self.measures { cpu_ns() - began } else { 0 };
    }

    /// Returns the number of other living nodes that each daemon knows.
    #[must_use]
    pub fn known(&self) -> Vec<usize> {
        self.all.values().map(|shell| shell.node.n_nodes() - 1).collect()
    }
}

/// Measures the daemon of one node among `n_nodes`.
#[must_use]
pub fn run(n_nodes: usize) -> Daemon {
    let mut shell = Shell::new(0, 1);
    let others: Vec<NodeInfo> = (1..n_nodes).map(describe).collect();
    let is_watched = |place: usize| place < WATCHED_MAX;
    let seen = |(place, info): (usize, &NodeInfo)| match is_watched(place) {
        true => info.clone(),
        false => NodeInfo { available: ResourceSet::default(), ..info.clone() },
    };
    let seen: Vec<NodeInfo> = others.iter().enumerate().map(seen).collect();
    let mut daemon = Daemon::default();
    let counted = measure(|| {
        for page in seen.chunks(VIEW_PAGE_NODES) {
            let page = page.to_vec();
            let began = cpu_ns();
            shell.tell(page);
            daemon.list_ns += cpu_ns() - began;
        }
    });
    // What is still allocated: messages that were dropped on the way are no part of what it keeps.
    daemon.bytes = counted.bytes_current.max(0) as u64;

    let driver = Register { worker_id: WorkerId([9; 28]), is_driver: true, ..Register::default() };
    let (node_id, role) = (describe(0).address.node_id, Role::Driver);
    shell.feed(Event::ClientOpened { conn: DRIVER, role, node_id, is_local: true });
    shell.feed(Event::ClientSaid { conn: DRIVER, message: driver.into() });

    daemon.tick_ns = shell.time(|shell, _| {
        shell.now_ms += 1;
        shell.feed(Event::Tick);
    });
    let watched: Vec<NodeInfo> = others.iter().take(WATCHED_MAX).cloned().collect();
    daemon.news_ns = shell.time(|shell, number| {
        shell.now_ms += 1;
        let mut info = watched[number as usize % watched.len()].clone();
        info.version = 2 + number;
        info.available.set("CPU", Quantity::from_f64((number % 60) as f64));
        shell.tell(vec![info]);
    });
    // The news before left some of them without room: all have theirs again, for what is measured next.
    shell.tell(watched.into_iter().map(|info| NodeInfo { version: 1 << 40, ..info }).collect());
    shell.sent_on = 0;
    let need = ResourceSet::from_units([("CPU", 1.0)]);
    daemon.request_ns = shell.time(|shell, number| {
        shell.now_ms += 1;
        let class = LeaseClass { resources: need.clone(), ..LeaseClass::default() };
        let request = RequestLease { request_id: 1 + number, class, ..RequestLease::default() };
        shell.feed(Event::ClientSaid { conn: DRIVER, message: request.into() });
    });
    daemon.sent_on = shell.sent_on;
    daemon
}
