//! A daemon's shell: what `helio-node` does around the node machine, in simulated time.

mod disk;
pub(crate) mod labels;
mod leaving;

use std::collections::{BTreeMap, BTreeSet};

use helio_config::control::{HEARTBEAT_MS, HEARTBEATS_MISSED_MAX, RECONNECT_MS_MAX, suspect_ms};
use helio_node_state::{Action, Conn, Event, Exit, MemoryUse, Node, Setup};
use helio_proto::cluster::{ControlToNode, NodeLeaving, NodeToControl, NodeToNode, PullChunk};
use helio_proto::control::Label;
use helio_proto::hello::Role;
use helio_proto::node::{ClientToNode, Liveness, NodeToClient, overflow_start};
use helio_proto::{decode, encode};
use helio_types::{NodeAddress, NodeId, ObjectId, ResourceSet, TaskId, WorkerId};

use crate::alarm::Alarm;
use crate::bundles::Bundles;
use crate::core::{Core, Daemon, Event as Next};
use crate::net::{End, Kind, What};
use crate::ops::{Env, ROOM};
use crate::questions::Questions;
pub(crate) use labels::{GPU, HEAD_ZONE, OTHER_ZONE, ZONE, runtime_env};
use labels::{env_of, zone};

const RETRY_US_MIN: u64 = 5_000;
const RETRY_US_MAX: u64 = RECONNECT_MS_MAX * 1000;
/// Bytes of an object that travel in one message; few, so that pulls are interrupted midway.
const CHUNK: u64 = 512;
/// Size in bytes from which on objects have connections of their own: some have, some do not.
const BULK_MIN: u64 = 700;
/// Bytes that may be laid on disk for readers.
const OVERFLOW: u64 = 4 << 20;
/// Milliseconds that a writer waits for room.
const ROOM_MS_MAX: u64 = 5_000;

#[derive(Debug)]
struct Serving {
    offset: u64,
    size: u64,
    sent: u64,
    is_stopped: bool,
}

pub(crate) struct NodeHost {
    pub(crate) index: usize,
    pub(crate) node: Node,
    clients: BTreeSet<u64>,
    control: Option<u64>,
    unsent: Vec<NodeToControl>,
    /// Connections to other daemons that were made here.
    made: BTreeMap<NodeId, u64>,
    /// All connections with other daemons.
    peers: BTreeMap<u64, NodeId>,
    serving: BTreeMap<(u64, u64), Serving>,
    /// Objects whose bytes this shell writes by itself, by the number of their pull: where, and how many.
    receiving: BTreeMap<u64, (u64, u64)>,
    /// The time at which the node heard the control service last.
    control_said_at: u64,
    status_at: u64,
    alarm: Alarm,
    /// Worker processes that were asked for and have not been seen to end.
    pub(crate) workers: BTreeSet<WorkerId>,
    pub(crate) is_down: bool,
    /// The node was told to leave.
    pub(crate) is_to_leave: bool,
    /// The node was told to stay before it had offered anything to another node.
    is_to_stay: bool,
    /// The node has offered objects to another one since it was told to leave.
    has_offered: bool,
    /// The time until which the node waits for what runs there, by its own clock.
    due_ms: Option<u64>,
    /// The node has handed over its objects, and ends.
    pub(crate) has_left: bool,
    /// The node ends, and starts anew as another node.
    pub(crate) is_to_rejoin: bool,
    /// The order to the node's workers to stand still, or to go on.
    pub(crate) suspends: Option<bool>,
    /// The workers that the node ends now end for want of memory.
    is_starving: bool,
    /// Worker processes that it has killed.
    killed: BTreeSet<WorkerId>,
    /// Questions whether a process of this node lives, by who asks.
    questions: Questions,
    /// The bundles that it holds.
    bundles: Bundles,
    /// Objects on disk.
    pub(crate) disk: BTreeMap<ObjectId, Vec<u8>>,
    /// Whether its disk is full.
    pub(crate) disk_is_full: bool,
    /// The node's disk fails every write and every read.
    pub(crate) disk_is_broken: bool,
    /// The time at which the node's disk refused an object last.
    disk_refused_at: Option<u64>,
    /// The time at which the node's disk had no room for an object last.
    disk_full_at: Option<u64>,
}

impl NodeHost {
    /// A daemon on a machine of its own; its index is the next one.
    pub(crate) fn start(core: &mut Core, is_head: bool, cpus: u32) -> Self {
        let index = core.daemons.len();
        let mut rng = core.rng.fork();
        let host = format!("host{index}");
        let address = NodeAddress { node_id: NodeId(rng.bytes()), host, port: 1000 + index as u32 };
        let setup = Setup {
            address: address.clone(),
            seed: rng.bytes(),
            total: ResourceSet::from_units([
                ("CPU", f64::from(cpus)),
                ("slot", f64::from(core.plan.slots)),
                (ROOM, core.plan.room(is_head)),
                ("keep", if is_head { core.plan.keep() } else { 0.0 }),
                (GPU, f64::from(core.plan.gpus)),
            ]),
            devices: [(GPU.to_owned(), (0..core.plan.gpus).collect())].into(),
            store_size: core.plan.store_size,
            overflow_size: OVERFLOW,
            spills_max: 2,
            room_ms_max: ROOM_MS_MAX,
            arguments_max: core.plan.store_size / 10 * 7,
            bulk_min: BULK_MIN,
            labels: vec![Label { key: ZONE.to_owned(), value: zone(index, is_head).to_owned() }],
            session_name: core.session_name(),
            is_head,
            starts_max: core.plan.starts_max,
            idle_max: core.plan.idle_max,
            ..Setup::default()
        };
        let (skew_ms, clock) = (core.draw_skew(), core.draw_clock());
        core.daemons.push(Daemon {
            address,
            is_alive: true,
            is_draining: false,
            stays_since: None,
            is_hurried: false,
            hands_over: false,
            cpus,
            room: core.plan.room(is_head),
            is_in_head_zone: zone(index, is_head) == HEAD_ZONE,
            skew_ms,
            clock,
            arena: vec![0; (overflow_start(core.plan.store_size) + OVERFLOW) as usize],
        });
        let host = Self {
            index,
            node: Node::new(setup, core.daemon_ms(index) * 1_000),
            clients: BTreeSet::new(),
            control: None,
            unsent: Vec::new(),
            made: BTreeMap::new(),
            peers: BTreeMap::new(),
            serving: BTreeMap::new(),
            receiving: BTreeMap::new(),
            control_said_at: core.now,
            status_at: core.now + HEARTBEAT_MS * 1000,
            alarm: Alarm::default(),
            workers: BTreeSet::new(),
            is_down: false,
            is_to_leave: false,
            is_to_stay: false,
            has_offered: false,
            due_ms: None,
            has_left: false,
            is_to_rejoin: false,
            suspends: None,
            is_starving: false,
            killed: BTreeSet::new(),
            questions: Questions::default(),
            bundles: Bundles::default(),
            disk: BTreeMap::new(),
            disk_is_full: false,
            disk_is_broken: false,
            disk_refused_at: None,
            disk_full_at: None,
        };
        core.after(rng.range(1, 5_000), Next::Reach { node: index, wait_us: RETRY_US_MIN });
        host
    }

    fn me(&self) -> End {
        End::Node(self.index)
    }

    pub(crate) fn apply(&mut self, core: &mut Core, event: Event) {
        for action in self.node.apply(event, core.daemon_ms(self.index) * 1_000) {
            self.execute_action(core, action);
        }
        let next = self.node.next_tick();
        let due = next.map_or(self.status_at, |us| core.at_daemon_ms(self.index, us / 1_000));
        let due = due.min(self.status_at).max(core.now);
        if self.alarm.set(due) {
            core.at(due, Next::NodeTick { node: self.index });
        }
    }

    /// Takes a jump of the node's clock into account: what was to happen later may be due.
    pub(crate) fn clock_jumped(&mut self, core: &mut Core) {
        self.apply(core, Event::Tick);
    }

    pub(crate) fn tick(&mut self, core: &mut Core) {
        if !self.alarm.rings(core.now) {
            return;
        }
        if self.status_at <= core.now {
            self.status_at = core.now + HEARTBEAT_MS * 1000;
            if let Some(control) = self.control {
                let heartbeat = self.node.heartbeat(core.daemon_ms(self.index) * 1_000);
                core.send(control, self.me(), encode(&heartbeat));
            }
        }
        self.apply(core, Event::Tick);
        self.check_grace(core);
    }

    fn execute_action(&mut self, core: &mut Core, action: Action) {
        match action {
            Action::Send { conn, message } => {
                if let NodeToClient::StartActor(launch) = &message
                    && let Some(End::Process(pid)) = core.net.get(conn.0).map(|link| link.ends[0])
                {
                    let worker = core.people[pid].id;
                    core.facts.history.actor_lives(launch.spec.actor_id, worker);
                }
                if let NodeToClient::ObjectRefused(refused) = &message {
                    self.check_refusal(core, refused);
                }
                if let NodeToClient::LivenessReply(reply) = &message {
                    self.questions.answered(core, conn.0, reply.request_id, reply.dead);
                }
                core.send(conn.0, self.me(), encode::<NodeToClient>(&message))
            }
            Action::Close { conn, why } => self.close_client(core, conn, &why),
            // Messages that the process sent before it ended, and its end, come in order.
            Action::ReadOut { .. } => {}
            Action::Control(message) => {
                if let NodeToControl::BundlesHeld(held) = &message {
                    self.bundles.held(core, self.index, held);
                }
                match self.control {
                    Some(control) => core.send(control, self.me(), encode(&message)),
                    None => self.unsent.push(message),
                }
            }
            Action::Ask { to, message } => {
                if matches!(message, NodeToNode::Inherit(_)) && !self.has_offered {
                    self.check_stay(core, "hands its objects over");
                    self.has_offered = true;
                }
                if let NodeToNode::Inherited(done) = &message
                    && done.refused.is_empty()
                {
                    let own = core.daemons[self.index].address.node_id;
                    core.facts.history.inherited(done.object_id, own);
                }
                core.daemons[self.index].hands_over = self.has_offered && self.is_to_leave;
                self.ask(core, &to, &message);
            }
            Action::Answer { conn, message } => {
                if let NodeToNode::TellLiveness(told) = &message {
                    self.questions.answered(core, conn.0, told.request_id, told.dead);
                }
                core.send(conn.0, self.me(), encode(&message));
            }
            // Large objects come over the same link here, but the other shell takes their bytes.
            Action::Serve { conn, request_id, offset, size, .. } => {
                let serving = Serving { offset, size, sent: 0, is_stopped: false };
                self.serving.insert((conn.0, request_id), serving);
                let delay = core.rng.range(1, 300);
                core.after(
                    delay,
                    Next::Serve { node: self.index, link: conn.0, request: request_id },
                );
            }
            Action::StopServing { conn, request_id } => {
                if let Some(serving) = self.serving.get_mut(&(conn.0, request_id)) {
                    serving.is_stopped = true;
                }
            }
            Action::Receive { request_id, offset, size, .. } => {
                core.facts.count("taken over a connection of their own");
                self.receiving.insert(request_id, (offset, size));
                if core.rng.one_in(16) {
                    let delay = core.rng.range(1, 3_000);
                    core.after(delay, Next::ReceiptLost { node: self.index, request: request_id });
                }
            }
            Action::StopReceiving { request_id } => {
                self.receiving.remove(&request_id);
            }
            Action::Write { offset, bytes } => {
                core.note(|| format!("node {} writes {offset}+{}", self.index, bytes.len()));
                let arena = &mut core.daemons[self.index].arena;
                arena[offset as usize..offset as usize + bytes.len()].copy_from_slice(&bytes);
            }
            Action::Spill { object_id, offset, size } => {
                self.disk_turn(core, object_id, (offset, size), true)
            }
            Action::Restore { object_id, offset, size } => {
                self.disk_turn(core, object_id, (offset, size), false)
            }
            Action::Reserve { offset, .. } => {
                let delay = core.rng.range(10, 5_000);
                core.facts.count("laid on disk");
                core.after(delay, Next::Reserved { node: self.index, offset });
            }
            Action::Punch { offset, size } => {
                let arena = &mut core.daemons[self.index].arena;
                arena[offset as usize..(offset + size) as usize].fill(0);
            }
            Action::TellDamaged { .. } => core.facts.count("damaged files found"),
            Action::RemoveFile { object_id } => {
                core.note(|| format!("node {} removes the file of {object_id:?}", self.index));
                self.disk.remove(&object_id);
            }
            Action::TellMaking { conn, reply, .. } => {
                self.execute_action(core, Action::Send { conn, message: reply.into() });
            }
            // Workers print nothing.
            Action::FlushLogs { then, .. } => self.execute_action(core, *then),
            Action::Forget { .. } | Action::Scraped { .. } => {}
            Action::Load { .. } => {
                let delay = core.rng.range(1_000, 3_000_000);
                core.after(delay, Next::Loaded { node: self.index, is_ready: true });
                if core.rng.one_in(4) {
                    let later = delay + core.rng.range(1, 1_000_000);
                    core.after(later, Next::Loaded { node: self.index, is_ready: false });
                }
            }
            Action::Unload => {}
            Action::Spawn(spawn) => self.spawn(core, spawn.worker_id, env_of(&spawn.env)),
            Action::Kill { worker_id } => {
                if self.is_starving {
                    self.check_starved(core, worker_id);
                    core.facts.history.process_starved(worker_id, core.now);
                }
                self.killed.insert(worker_id);
                let delay = core.rng.range(1, core.plan.kill_us_max);
                core.after(delay, Next::Killed { node: self.index, worker: worker_id });
            }
            Action::StatusChanged => {
                if let Err(text) = self.node.check() {
                    core.violation(format!(
                        "STATE-1: node {} disagrees with itself: {text}",
                        self.index
                    ));
                }
                self.status_at = self.status_at.min(core.now + self.node.status_gather_ms() * 1000)
            }
            // A message over a link that stands still arrives when the link goes on, so a new link is no better.
            Action::ReachControl => {}
            Action::Suspend => {
                core.facts.count("nodes suspended");
                let silence_us = core.now.saturating_sub(self.control_said_at);
                // Where nodes stand still, or are cut off, they may know of a silence that was over already.
                let only_clocks_err = core.plan.drift_ppm_max > 0;
                if only_clocks_err
                    && silence_us < suspect_ms(HEARTBEATS_MISSED_MAX * HEARTBEAT_MS) * 1_000 / 2
                {
                    core.violation(format!(
                        "node {} stops its workers, and heard the control service {silence_us} us ago",
                        self.index
                    ));
                }
                self.suspends = Some(true);
            }
            Action::Resume => self.suspends = Some(false),
            Action::Leave { reason, heir } => {
                core.note(|| format!("node {} leaves: {reason}, heir {}", self.index, heir.host));
                if self.is_to_stay {
                    core.violation(format!("node {} leaves, and was told to stay", self.index));
                }
                if !self.has_offered {
                    self.check_stay(core, "leaves");
                }
                if let Some(control) = self.control {
                    let leaving = NodeToControl::Leaving(NodeLeaving { reason, heir });
                    core.send(control, self.me(), encode(&leaving));
                }
                self.has_left = true;
            }
            Action::ShutDown { reason } => {
                core.note(|| format!("node {} shuts down: {reason}", self.index));
                if let Some(control) = self.control.filter(|_| core.facts.is_stopped) {
                    let leaving =
                        NodeToControl::Leaving(NodeLeaving { reason, ..Default::default() });
                    core.send(control, self.me(), encode(&leaving));
                }
                self.is_down = true;
            }
            Action::Rejoin { reason } => {
                core.note(|| format!("node {} starts anew: {reason}", self.index));
                core.facts.count("nodes joined again");
                (self.is_down, self.is_to_rejoin) = (true, true);
            }
        }
    }

    /// The machine's memory is used so.
    pub(crate) fn memory_read(&mut self, core: &mut Core, memory: MemoryUse) {
        self.is_starving = true;
        self.apply(core, Event::MemoryRead(memory));
        self.is_starving = false;
    }

    /// The workers here that it has not killed and whose calls it may have ended when memory is short, by whether these are
    /// tried again without end, or never.
    fn choices(&self, core: &Core, are_retried: bool) -> Vec<(WorkerId, TaskId)> {
        let history = &core.facts.history;
        let here = self.workers.iter().filter(|worker| !self.killed.contains(*worker));
        let here =
            here.filter(|worker| core.person(**worker).is_some() && !history.is_lost(worker));
        let running = here.flat_map(|worker| history.runs_at(*worker).map(|task| (*worker, task)));
        running.filter(|(_, task)| history.are_retried(*task) == Some(are_retried)).collect()
    }

    /// Whether a worker can be ended here for want of memory whose call is tried again, and one whose call is not.
    pub(crate) fn may_choose(&self, core: &Core) -> bool {
        !self.choices(core, true).is_empty() && !self.choices(core, false).is_empty()
    }

    /// A worker is to end for want of memory: none whose call is never tried again while another one's is.
    fn check_starved(&self, core: &mut Core, victim: WorkerId) {
        let last_try = self.choices(core, false).into_iter().find(|(worker, _)| *worker == victim);
        let other = self.choices(core, true).into_iter().find(|(worker, _)| *worker != victim);
        if let (Some((_, last_try)), Some((_, other))) = (last_try, other) {
            core.violation(format!(
                "{last_try:?} ends for want of memory, and has no retries; {other:?} runs beside it and has"
            ));
        }
    }

    pub(crate) fn loaded(&mut self, core: &mut Core, is_ready: bool) {
        self.apply(core, Event::Loaded { is_ready });
    }

    fn close_client(&mut self, core: &mut Core, conn: Conn, why: &str) {
        if !why.is_empty() && core.net.get(conn.0).is_some() {
            core.violation(format!(
                "node {} closes a client that broke the protocol: {why}",
                self.index
            ));
        }
        if self.clients.remove(&conn.0) {
            core.close(conn.0, self.me());
            // The real shell hears of the end from the reader, a little later.
            core.after(1, Next::Arrive { link: conn.0, side: usize::MAX, what: What::Closed });
        }
    }

    fn spawn(&mut self, core: &mut Core, worker: WorkerId, env: Env) {
        self.workers.insert(worker);
        let delay = core.rng.range(500, 20_000);
        core.after(delay, Next::Spawned { node: self.index, worker, env });
    }

    fn ask(&mut self, core: &mut Core, to: &NodeAddress, message: &NodeToNode) {
        let link = match self.made.get(&to.node_id) {
            Some(link) => Some(*link),
            None => {
                let whom = core.daemon(to.node_id);
                whom.and_then(|whom| core.connect(Kind::Daemon, self.me(), End::Node(whom)))
            }
        };
        match link {
            Some(link) => {
                self.made.insert(to.node_id, link);
                self.peers.insert(link, to.node_id);
                core.send(link, self.me(), encode(message));
            }
            None => {
                let delay = core.rng.range(1, 5_000);
                core.after(delay, Next::Unreached { node: self.index, whom: to.node_id });
            }
        }
    }

    /// Sends the next bytes of an object that another daemon reads.
    pub(crate) fn serve(&mut self, core: &mut Core, link: u64, request: u64) {
        let Some(serving) = self.serving.get_mut(&(link, request)) else { return };
        let is_open = self.peers.contains_key(&link);
        if serving.is_stopped || !is_open || serving.sent >= serving.size {
            self.serving.remove(&(link, request));
            self.apply(core, Event::Served { conn: Conn(link), request_id: request });
            return;
        }
        let length = CHUNK.min(serving.size - serving.sent);
        let start = (serving.offset + serving.sent) as usize;
        let bytes = core.daemons[self.index].arena[start..start + length as usize].to_vec();
        let chunk =
            NodeToNode::PullChunk(PullChunk { request_id: request, offset: serving.sent, bytes });
        serving.sent += length;
        core.send(link, self.me(), encode(&chunk));
        let delay = core.rng.range(1, 300);
        core.after(delay, Next::Serve { node: self.index, link, request });
    }

    /// Tries to reach the control service.
    pub(crate) fn reach(&mut self, core: &mut Core, wait_us: u64) {
        let life = core.control;
        let link = life.and_then(|life| core.connect(Kind::Control, self.me(), End::Control(life)));
        let Some(link) = link else {
            let next = (wait_us * 2).min(RETRY_US_MAX);
            core.after(wait_us, Next::Reach { node: self.index, wait_us: next });
            return;
        };
        let register = self.node.registration(core.daemon_ms(self.index));
        core.send(link, self.me(), encode(&NodeToControl::Register(register)));
        for message in std::mem::take(&mut self.unsent) {
            core.send(link, self.me(), encode(&message));
        }
        self.control = Some(link);
        self.apply(core, Event::ControlConnected);
    }

    pub(crate) fn arrived(&mut self, core: &mut Core, link: u64, what: What) {
        let Some(kind) = core.net.get(link).map(|link| link.kind) else {
            return self.link_over(core, link);
        };
        match (kind, what) {
            (Kind::Local | Kind::Remote, What::Opened) => self.client_opened(core, link, kind),
            (Kind::Local | Kind::Remote, What::Bytes(bytes)) => {
                match decode::<ClientToNode>(&bytes) {
                    Ok(message) => {
                        if let ClientToNode::Liveness(question) = &message {
                            let Liveness { request_id, worker } = question;
                            self.questions.asked(link, *request_id, worker.worker_id);
                        }
                        self.apply(core, Event::ClientSaid { conn: Conn(link), message })
                    }
                    Err(_) => core.violation("a client's message cannot be read".to_owned()),
                }
            }
            (Kind::Control, What::Bytes(bytes)) => {
                // What comes over an older connection was said to a life of the link that is over.
                if self.control == Some(link) {
                    self.control_said_at = core.now;
                    match decode::<ControlToNode>(&bytes) {
                        Ok(message) => {
                            if let ControlToNode::Drain(order) = &message {
                                self.told_to_leave(core, order);
                            }
                            self.bundles.ordered(&message);
                            self.apply(core, Event::ControlSaid(message));
                        }
                        Err(_) => core.violation(
                            "a message of the control service cannot be read".to_owned(),
                        ),
                    }
                }
            }
            (Kind::Daemon, What::Opened) => {
                if let Some(End::Node(from)) = core.net.get(link).map(|link| link.ends[0]) {
                    self.peers.insert(link, core.daemons[from].address.node_id);
                }
            }
            (Kind::Daemon, What::Bytes(bytes)) => {
                let (Some(node_id), Ok(message)) = (self.peers.get(&link).copied(), decode(&bytes))
                else {
                    return;
                };
                if let NodeToNode::AskLiveness(ask) = &message {
                    self.questions.asked(link, ask.request_id, ask.worker_id);
                }
                if !self.takes(core, &message) {
                    self.apply(core, Event::PeerSaid { conn: Conn(link), node_id, message });
                }
            }
            (_, What::Closed) => self.link_over(core, link),
            (Kind::Peer, _) | (Kind::Control, What::Opened) => {}
        }
    }

    /// Whether the message has bytes that this shell writes by itself.
    fn takes(&mut self, core: &mut Core, message: &NodeToNode) -> bool {
        let NodeToNode::PullChunk(PullChunk { request_id, offset, bytes }) = message else {
            return false;
        };
        let request_id = *request_id;
        let Some(&(start, size)) = self.receiving.get(&request_id) else { return false };
        let (at, received) = ((start + offset) as usize, offset + bytes.len() as u64);
        let arena = &mut core.daemons[self.index].arena;
        arena[at..at + bytes.len()].copy_from_slice(bytes);
        if received == size {
            self.receiving.remove(&request_id);
            self.apply(core, Event::Received { request_id, outcome: Ok(()) });
        } else {
            self.apply(core, Event::ReceivedSome { request_id, received });
        }
        true
    }

    /// The connection breaks over which an object comes.
    pub(crate) fn receipt_lost(&mut self, core: &mut Core, request_id: u64) {
        if self.receiving.remove(&request_id).is_some() {
            core.facts.count("lost in the middle");
            let outcome = Err("the simulation said so".to_owned());
            self.apply(core, Event::Received { request_id, outcome });
        }
    }

    fn client_opened(&mut self, core: &mut Core, link: u64, kind: Kind) {
        let Some(End::Process(pid)) = core.net.get(link).map(|link| link.ends[0]) else { return };
        let person = core.people[pid];
        let role = if person.is_driver { Role::Driver } else { Role::Worker };
        let node_id = core.daemons[person.node].address.node_id;
        self.clients.insert(link);
        let opened =
            Event::ClientOpened { conn: Conn(link), role, node_id, is_local: kind == Kind::Local };
        self.apply(core, opened);
    }

    fn link_over(&mut self, core: &mut Core, link: u64) {
        core.close(link, self.me());
        if self.control == Some(link) {
            self.control = None;
            core.after(RETRY_US_MIN, Next::Reach { node: self.index, wait_us: RETRY_US_MIN });
            self.apply(core, Event::ControlLost);
        } else if let Some(node_id) = self.peers.remove(&link) {
            // A link that the other daemon made is none that this one asks on.
            if self.made.get(&node_id) == Some(&link) {
                self.made.remove(&node_id);
            }
            self.apply(core, Event::PeerLost { conn: Some(Conn(link)), node_id });
        } else {
            self.clients.remove(&link);
            self.sees_end(core, link);
            self.apply(core, Event::ClientClosed { conn: Conn(link) });
        }
    }

    /// A client's connection is over: that of a worker which has ended is read out.
    fn sees_end(&mut self, core: &Core, link: u64) {
        let Some(End::Process(pid)) = core.net.get(link).map(|line| line.ends[0]) else { return };
        let person = core.people[pid];
        if person.node == self.index && !person.is_driver && !self.workers.contains(&person.id) {
            self.questions.ended(person.id);
        }
    }

    pub(crate) fn unreached(&mut self, core: &mut Core, whom: NodeId) {
        self.apply(core, Event::PeerLost { conn: None, node_id: whom });
    }

    /// A worker process has been made, or could not be.
    pub(crate) fn spawned(&mut self, core: &mut Core, worker_id: WorkerId, pid: Option<usize>) {
        match pid {
            Some(pid) => self.apply(core, Event::WorkerStarted { worker_id, pid: pid as u32 + 1 }),
            None => {
                self.workers.remove(&worker_id);
                let why = "the simulation said so".to_owned();
                self.apply(core, Event::WorkerNotStarted { worker_id, why });
            }
        }
    }

    pub(crate) fn exited(&mut self, core: &mut Core, worker_id: WorkerId, exit: Exit) {
        if self.workers.remove(&worker_id) {
            let mut open = self.clients.iter().filter_map(|link| core.net.get(*link));
            let is_its =
                |end: &End| matches!(end, End::Process(pid) if core.people[*pid].id == worker_id);
            if !open.any(|line| line.ends.iter().any(is_its)) {
                self.questions.ended(worker_id);
            }
            self.apply(core, Event::WorkerExited { worker_id, exit, log_tail: String::new() });
        }
    }
}
