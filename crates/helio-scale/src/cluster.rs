//! A control service and its nodes in simulated time.
//!
//! Control works as its shell does: what has arrived is taken in one batch, then made durable in one
//! commit, then sent. While it works, messages wait for it.

use std::collections::{BTreeMap, VecDeque};

use helio_config::control::{WATCHED_MAX, status_gather_ms};
use helio_control_state::{Action, Control, Event};
use helio_proto::Wire;
use helio_proto::cluster::{
    ActorStarted, ControlToNode, FromClient, NodeStatus, NodeToControl, RegisterNode,
    StatusUnchanged,
};
use helio_proto::control::{
    ActorSpec, ControlRequest, NodeInfo, PendingDemand, StartJob, Strategy, SubscribeActor,
};
use helio_proto::node::ControlCall;
use helio_types::{ActorId, JobId, NodeId, Quantity, ResourceSet, WorkerAddress, WorkerId};

use crate::agenda::Agenda;
use crate::costs::Costs;
use crate::daemon::{Daemons, Heard};
use crate::nodes::{NODE_CPUS, cpu_ns, describe, host, node_id};

/// Number of inputs that control takes at a time, as its shell does.
const BATCH_MAX: usize = 1024;
/// Nanoseconds between two heartbeats of a node.
const HEARTBEAT_NS: u64 = 1_000_000_000;
/// See [`Cluster::apply`].
const PART_EVERY: u64 = 16;
/// An event whose time will come.
#[derive(Debug)]
enum Happening {
    /// A message reaches control.
    ToControl { from: usize, message: Box<NodeToControl> },
    /// The connection of a node ends.
    Lost { node: usize },
    /// Control takes what has arrived.
    Control,
    /// A message reaches a node.
    ToNode { to: usize, message: Box<ControlToNode> },
    /// A node's heartbeat is due.
    Heartbeat { node: usize },
    /// An actor's process is ready.
    Started { node: usize, actor_id: ActorId, incarnation: u32 },
}

/// The counts since the last [`Cluster::take_counts`].
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// The time that passed, in nanoseconds.
    pub passed_ns: u64,
    /// Messages that reached control.
    pub received: u64,
    /// Messages that control sent.
    pub sent: u64,
    /// The bytes of what it sent.
    pub sent_bytes: u64,
    /// Views that it sent.
    pub views: u64,
    /// The nodes that were described in these.
    pub view_entries: u64,
    /// CPU of the machine itself, in nanoseconds.
    pub machine_ns: u64,
    /// CPU of control by the cost model: the machine, and reading and writing messages.
    pub control_ns: u64,
    /// Commits.
    pub commits: u64,
    /// Number of nodes that placement looked at.
    pub visited: u64,
    /// Actors that were placed.
    pub launches: u64,
    /// From submission to start, of each actor that started, in nanoseconds.
    pub starts_ns: Vec<u64>,
    /// From the report of a waiting request to a node with room, in nanoseconds.
    pub spills_ns: Vec<u64>,
    /// The daemons of some nodes.
    pub daemons: Heard,
    /// The CPU time of the machine, by the kind of input.
    pub parts: BTreeMap<&'static str, Part>,
}

/// The inputs of one kind that the machine took in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part {
    /// The number of events.
    pub n: u64,
    /// Number of events that were measured, one by one.
    pub measured: u64,
    /// The CPU of those that were, in nanoseconds.
    pub measured_ns: u64,
}

impl Part {
    /// The CPU of all of them, in nanoseconds.
    #[must_use]
    pub fn all_ns(&self) -> f64 {
        self.measured_ns as f64 / self.measured.max(1) as f64 * self.n as f64
    }
}

/// The name of a kind of input, for [`Counts::parts`].
pub const CREATIONS: &str = "creations";
/// See [`CREATIONS`].
pub const SUBSCRIPTIONS: &str = "subscriptions";
/// See [`CREATIONS`].
pub const STARTS: &str = "starts";
/// See [`CREATIONS`].
pub const HEARTBEATS: &str = "heartbeats and statuses";
/// See [`CREATIONS`].
pub const TICKS: &str = "ticks";
/// See [`CREATIONS`].
pub const OTHERS: &str = "others";

fn kind_of(event: &Event) -> &'static str {
    match event {
        Event::Node { message: NodeToControl::FromClient(from), .. } => match &from.call.request {
            ControlRequest::CreateActor(_) => CREATIONS,
            ControlRequest::SubscribeActor(_) => SUBSCRIPTIONS,
            _ => OTHERS,
        },
        Event::Node { message: NodeToControl::ActorStarted(_), .. } => STARTS,
        Event::Node { message: NodeToControl::Unchanged(_) | NodeToControl::Status(_), .. } => {
            HEARTBEATS
        }
        Event::Tick => TICKS,
        _ => OTHERS,
    }
}

#[derive(Debug)]
struct Node {
    id: NodeId,
    alive: bool,
    free: f64,
    version: u64,
    /// The node's status has changed since its last report.
    is_changed: bool,
    /// The time of the next heartbeat.
    heartbeat_at: u64,
    /// A request waits since then for a node with room.
    wants_since: Option<u64>,
    /// Number of actors on the node.
    n_actors: usize,
}

/// The cluster.
pub struct Cluster {
    control: Control,
    costs: Costs,
    /// Nanoseconds.
    now: u64,
    agenda: Agenda<Happening>,
    n_asked: u64,
    nodes: Vec<Node>,
    indexes: BTreeMap<NodeId, usize>,
    inbox: VecDeque<Event>,
    is_woken: bool,
    busy_until: u64,
    tick_at: u64,
    submitted: BTreeMap<ActorId, u64>,
    counts: Counts,
    counted_from: u64,
    visited_before: u64,
    n_actors: u64,
    n_running: usize,
    job: JobId,
    measures: bool,
    daemons: Daemons,
}

impl Cluster {
    /// `n_nodes` that register at once; the driver is on the first. With `measures` the time of the
    /// machine is measured, else it counts as nothing, and runs are the same each time.
    #[must_use]
    pub fn new(n_nodes: usize, costs: Costs, measures: bool) -> Self {
        let now = 1_000_000_000_000;
        let mut cluster = Self {
            control: Control::new("session"),
            costs,
            now,
            agenda: Agenda::default(),
            n_asked: 0,
            nodes: Vec::with_capacity(n_nodes),
            indexes: BTreeMap::new(),
            inbox: VecDeque::new(),
            is_woken: false,
            busy_until: now,
            tick_at: now,
            submitted: BTreeMap::new(),
            counts: Counts::default(),
            counted_from: now,
            visited_before: 0,
            n_actors: 0,
            n_running: 0,
            job: JobId([1, 0, 0, 0]),
            measures,
            daemons: Daemons::of(n_nodes, now / 1_000_000, measures),
        };
        for number in 0..n_nodes {
            let id = node_id(number);
            cluster.indexes.insert(id, number);
            cluster.nodes.push(Node {
                id,
                alive: true,
                free: NODE_CPUS,
                version: 1,
                is_changed: false,
                heartbeat_at: u64::MAX,
                wants_since: None,
                n_actors: 0,
            });
            let info = cluster.info(number);
            let register = RegisterNode { info, clients_known: true, ..RegisterNode::default() };
            cluster.send_to_control(number, register);
            // Heartbeats of many nodes are spread over the second.
            let first = HEARTBEAT_NS * number as u64 / n_nodes as u64;
            cluster.schedule_heartbeat(number, now + HEARTBEAT_NS + first);
        }
        cluster.tick_at = now;
        cluster.wake(now);
        let job = StartJob { driver: driver(), node_id: node_id(0), ..StartJob::default() };
        cluster.ask(job.into());
        cluster
    }

    /// Returns the number of living nodes.
    #[must_use]
    pub fn n_alive(&self) -> usize {
        self.nodes.iter().filter(|node| node.alive).count()
    }

    /// The control service's machine.
    #[must_use]
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Returns the number of actors that were created and do not run.
    #[must_use]
    pub fn n_starting(&self) -> usize {
        self.n_actors as usize - self.n_running
    }

    /// The daemons of some nodes.
    #[must_use]
    pub fn daemons(&self) -> &Daemons {
        &self.daemons
    }

    /// Returns the number of views that control has sent since the last call.
    #[must_use]
    pub fn n_views(&self) -> u64 {
        self.counts.views
    }

    /// Takes the counts since the last call.
    pub fn take_counts(&mut self) -> Counts {
        let visited = self.control.n_nodes_visited();
        let mut counts = std::mem::take(&mut self.counts);
        counts.visited = visited - std::mem::replace(&mut self.visited_before, visited);
        counts.daemons = self.daemons.take_heard();
        counts.passed_ns = self.now - std::mem::replace(&mut self.counted_from, self.now);
        counts
    }

    fn wake(&mut self, time: u64) {
        if !self.is_woken {
            self.is_woken = true;
            // One thread works: what arrives meanwhile is taken together afterwards.
            self.agenda.add(time.max(self.busy_until), Happening::Control);
        }
    }

    /// Lets time pass.
    pub fn pass(&mut self, ns: u64) {
        let until = self.now + ns;
        self.run(until, |_| false);
        // The last event may lie before the end of the span.
        self.now = until;
    }

    /// Lets time pass until every actor that was created runs; whether that came in time.
    pub fn settle(&mut self, ns_max: u64) -> bool {
        let until = self.now + ns_max;
        self.run(until, |cluster| cluster.n_starting() == 0);
        self.n_starting() == 0
    }

    fn run(&mut self, until: u64, is_done: impl Fn(&Self) -> bool) {
        while !is_done(self) {
            let tick_at = self.tick_at.max(self.busy_until);
            let next = self.agenda.next_time();
            if !self.is_woken && next.is_none_or(|next| tick_at <= next) {
                if tick_at > until {
                    return;
                }
                self.now = self.now.max(tick_at);
                self.work();
                continue;
            }
            if next.is_none_or(|next| next > until) {
                return;
            }
            let Some((time, happening)) = self.agenda.take() else { return };
            self.now = self.now.max(time);
            self.happen(happening);
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::ToControl { from, message } => {
                self.counts.received += 1;
                let (node_id, message) = (self.nodes[from].id, *message);
                self.inbox.push_back(Event::Node { node_id, message });
                self.wake(self.now);
            }
            Happening::Lost { node } => {
                self.inbox.push_back(Event::Disconnected { node_id: self.nodes[node].id });
                self.wake(self.now);
            }
            Happening::Control => {
                self.is_woken = false;
                self.work();
            }
            Happening::ToNode { to, message } => self.on_node(to, *message),
            Happening::Heartbeat { node } => {
                // A report in between moved the heartbeat; the entry for the old time is still in the agenda.
                let is_due = self.nodes[node].heartbeat_at <= self.now;
                if self.nodes[node].alive && is_due {
                    self.send_heartbeat(node);
                    self.schedule_heartbeat(node, self.now + HEARTBEAT_NS);
                }
            }
            Happening::Started { node, actor_id, incarnation } => {
                // The actor was on its way up as its node died.
                if !self.nodes[node].alive {
                    return;
                }
                self.nodes[node].n_actors += 1;
                self.n_running += 1;
                if let Some(since) = self.submitted.remove(&actor_id) {
                    self.counts.starts_ns.push(self.now - since);
                }
                let node_id = self.nodes[node].id;
                let mut worker = [0; WorkerId::LEN];
                worker[..16].copy_from_slice(&actor_id.0);
                let host = host(node);
                let address =
                    WorkerAddress { worker_id: WorkerId(worker), node_id, host, port: 7000 };
                let started = ActorStarted { actor_id, incarnation, address, pid: 4711 };
                self.send_to_control(node, started);
            }
        }
    }

    /// Control takes a batch.
    fn work(&mut self) {
        let n_taken = self.inbox.len().min(BATCH_MAX);
        let batch: Vec<Event> = self.inbox.drain(..n_taken).collect();
        let mut spent = 0;
        for event in &batch {
            if let Event::Node { message, .. } = event {
                let bytes = length(message) as f64;
                spent += self.costs.receive_ns + (bytes * self.costs.decode_byte_ns) as u64;
            }
        }
        let mut events = Vec::new();
        // The clock is read once for all: that costs as much as some events do.
        let began = if self.measures { cpu_ns() } else { 0 };
        for event in batch {
            events.push(self.apply(event));
        }
        let is_tick_due = self.now >= self.tick_at;
        if is_tick_due {
            events.push(self.apply(Event::Tick));
        }
        let took = if self.measures { cpu_ns() - began } else { 0 };
        self.counts.machine_ns += took;
        spent += took;
        self.tick_at = self.control.next_tick().map_or(u64::MAX, |us| us * 1000);
        let persists = events.iter().flatten().any(|action| matches!(action, Action::Persist(_)));
        if persists {
            self.counts.commits += 1;
        }
        let waited = if persists { self.costs.commit_ns } else { 0 };
        for action in events.into_iter().flatten() {
            match action {
                Action::Send { node_id, message } => {
                    let bytes = size(&message);
                    let byte_ns = self.costs.byte_ns;
                    self.send(node_id, &message, bytes, byte_ns, waited, &mut spent);
                }
                Action::SendToMany { to, message } => {
                    // The message is encoded for the first receiver.
                    let bytes = size(&message);
                    let more = (self.costs.byte_ns - self.costs.copy_byte_ns).max(0.0);
                    spent += (bytes as f64 * more) as u64;
                    let byte_ns = self.costs.copy_byte_ns;
                    for node_id in to {
                        self.send(node_id, &message, bytes, byte_ns, waited, &mut spent);
                    }
                }
                Action::Persist(_)
                | Action::Disconnect { .. }
                | Action::End { .. }
                | Action::Log(_) => {}
            }
        }
        self.counts.control_ns += spent;
        self.busy_until = self.now + spent + waited;
        if !self.inbox.is_empty() {
            self.wake(self.busy_until);
        }
    }

    /// The machine takes in an event. One in [`PART_EVERY`] of a kind is measured by itself: reading the clock costs as much
    /// as some events do.
    fn apply(&mut self, event: Event) -> Vec<Action> {
        let part = self.counts.parts.entry(kind_of(&event)).or_default();
        part.n += 1;
        let is_rare = matches!(event, Event::Tick);
        if !self.measures || !is_rare && part.n % PART_EVERY != 1 {
            return self.control.apply(event, self.now / 1000);
        }
        let began = cpu_ns();
        let empty_ns = cpu_ns() - began;
        let began = cpu_ns();
        let actions = self.control.apply(event, self.now / 1000);
        part.measured_ns += (cpu_ns() - began).saturating_sub(empty_ns);
        part.measured += 1;
        actions
    }

    /// Control sends a message of that many bytes, which cost so much each; `spent` is its CPU until now.
    fn send(
        &mut self,
        node_id: NodeId,
        message: &ControlToNode,
        bytes: u64,
        byte_ns: f64,
        waited: u64,
        spent: &mut u64,
    ) {
        *spent += self.costs.send_ns + (bytes as f64 * byte_ns) as u64;
        self.counts.sent += 1;
        self.counts.sent_bytes += bytes;
        match message {
            ControlToNode::View(view) => {
                self.counts.views += 1;
                self.counts.view_entries += view.nodes.len() as u64;
            }
            ControlToNode::LaunchActor(_) => self.counts.launches += 1,
            _ => {}
        }
        let Some(to) = self.indexes.get(&node_id).copied() else { return };
        self.daemons.hear(to, message, self.now / 1_000_000);
        // A message that no node acts on is counted and need not travel.
        if self.nodes[to].alive && acts(message, &self.nodes[to]) {
            let time = self.now + *spent + waited + self.costs.latency_ns;
            self.agenda.add(time, Happening::ToNode { to, message: Box::new(message.clone()) });
        }
    }

    fn on_node(&mut self, to: usize, message: ControlToNode) {
        match message {
            ControlToNode::LaunchActor(launch) => {
                let (actor_id, incarnation) = (launch.spec.actor_id, launch.incarnation);
                let time = self.now + self.costs.actor_start_ns;
                self.agenda.add(time, Happening::Started { node: to, actor_id, incarnation });
            }
            ControlToNode::View(view) => {
                let has_room = |info: &NodeInfo| {
                    info.alive
                        && info.address.node_id != self.nodes[to].id
                        && info.available.get("CPU").to_f64() >= 1.0
                };
                if let Some(since) = self.nodes[to].wants_since
                    && view.nodes.iter().any(has_room)
                {
                    self.counts.spills_ns.push(self.now - since);
                    self.nodes[to].wants_since = None;
                    self.report_soon(to);
                }
            }
            _ => {}
        }
    }

    fn send_to_control(&mut self, from: usize, message: impl Into<NodeToControl>) {
        let message = Box::new(message.into());
        self.agenda.add(self.now + self.costs.latency_ns, Happening::ToControl { from, message });
    }

    fn info(&self, number: usize) -> NodeInfo {
        let node = &self.nodes[number];
        let pending = node.wants_since.map(|_| PendingDemand {
            resources: ResourceSet::from_units([("CPU", 1.0)]),
            count: 10,
            why: "64 nodes could hold 1 CPU but are in use".to_owned(),
            may_spill: true,
            strategy: Strategy::default(),
        });
        let mut info = describe(number);
        info.available.set("CPU", Quantity::from_f64(node.free));
        NodeInfo { pending: pending.into_iter().collect(), version: node.version, ..info }
    }

    /// Tells what has changed, or that nothing has, as daemons do.
    fn send_heartbeat(&mut self, number: usize) {
        self.daemons.beat(number, self.now / 1_000_000);
        if std::mem::take(&mut self.nodes[number].is_changed) {
            let info = self.info(number);
            self.send_to_control(number, NodeStatus { info, sent_ms: self.now / 1_000_000 });
        } else {
            self.send_to_control(number, StatusUnchanged { sent_ms: self.now / 1_000_000 });
        }
    }

    /// A node reports other resources than before.
    pub fn set_free(&mut self, number: usize, free: f64) {
        self.nodes[number].free = free;
        self.nodes[number].version += 1;
        self.report_soon(number);
    }

    /// Schedules a report: changes are gathered for a while, as daemons do.
    fn report_soon(&mut self, number: usize) {
        self.nodes[number].is_changed = true;
        let due = self.now + status_gather_ms(self.nodes.len()) * 1_000_000;
        if due < self.nodes[number].heartbeat_at {
            self.schedule_heartbeat(number, due);
        }
    }

    fn schedule_heartbeat(&mut self, number: usize, due: u64) {
        self.nodes[number].heartbeat_at = due;
        self.agenda.add(due, Happening::Heartbeat { node: number });
    }

    /// Requests find no room on a node and the nodes that it watches.
    pub fn want_room(&mut self, number: usize) {
        if self.nodes.len() <= WATCHED_MAX + 1 {
            // The node watches all others, and knows already which have room.
            self.counts.spills_ns.push(0);
            return;
        }
        self.nodes[number].wants_since = Some(self.now);
        self.nodes[number].version += 1;
        self.report_soon(number);
    }

    fn ask(&mut self, request: ControlRequest) {
        self.n_asked += 1;
        let call = ControlCall { request_id: self.n_asked, request };
        self.send_to_control(0, FromClient { worker_id: driver(), call });
    }

    /// The driver creates an actor and subscribes to it, as `Class.remote()` does.
    pub fn create_actor(&mut self) {
        self.n_actors += 1;
        let mut unique = [0; 12];
        // Spread out as real ids are, which are random: ids in their order would be kind to ordered tables.
        unique[..8]
            .copy_from_slice(&self.n_actors.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        let actor_id = ActorId::new(unique, self.job);
        let owner = WorkerAddress {
            worker_id: driver(),
            node_id: self.nodes[0].id,
            host: host(0),
            port: 7000,
        };
        let spec = ActorSpec {
            actor_id,
            job_id: self.job,
            namespace: "5e0f4e34-9b1c-4f6e-8f4c-6a0f0c0d1a2b".to_owned(),
            max_restarts: -1,
            placement_resources: ResourceSet::from_units([("CPU", 1.0)]),
            class_name: "Simulation".to_owned(),
            template: vec![7; 900],
            args: vec![1; 48],
            owner,
            max_concurrency: 1,
            job_config: vec![2; 200],
            handle: [vec![3; 60].as_slice(), &actor_id.0, &[3; 300]].concat(),
            modules: vec!["numpy".to_owned()],
            ..ActorSpec::default()
        };
        self.submitted.insert(actor_id, self.now);
        self.ask(ControlRequest::CreateActor(spec));
        self.ask(SubscribeActor { actor_id }.into());
    }

    /// Ends these nodes at once: their connections end.
    pub fn kill_nodes(&mut self, which: impl Iterator<Item = usize>) {
        for node in which {
            self.nodes[node].alive = false;
            self.n_running -= std::mem::take(&mut self.nodes[node].n_actors);
            // The kernel of a dead process closes its connections at once; a machine that loses its power is not
            // simulated here.
            self.agenda.add(self.now, Happening::Lost { node });
        }
    }
}

fn driver() -> WorkerId {
    WorkerId([9; WorkerId::LEN])
}

fn length<M: Wire>(message: &M) -> usize {
    message.encoded_len()
}

/// Returns the number of bytes of a message. Long views are counted by a part of them.
fn size(message: &ControlToNode) -> u64 {
    const COUNTED: usize = 32;
    if let ControlToNode::View(view) = message
        // Nodes are alike in length, and counting ten thousand of them would take longer than all else in a run.
        && view.nodes.len() > COUNTED
    {
        let part: usize = view.nodes[..COUNTED].iter().map(|info| length(info) + 2).sum();
        return (part * view.nodes.len() / COUNTED) as u64;
    }
    length(message) as u64
}

/// Whether the simulated node does anything when it gets the message.
fn acts(message: &ControlToNode, node: &Node) -> bool {
    match message {
        ControlToNode::LaunchActor(_) => true,
        ControlToNode::View(_) => node.wants_since.is_some(),
        _ => false,
    }
}
