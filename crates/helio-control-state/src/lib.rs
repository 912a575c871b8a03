//! The control service's state: which nodes, jobs and actors there are, and a key-value table.
//!
//! Think of the front desk of a large hotel. Guests (drivers) and staff (nodes) report to it; it knows
//! who is in, gives every newcomer (actor) a room, and tells those who asked when somebody moves or
//! leaves. What guests do among themselves it never hears.
//!
//! **STATE-1** [`Control::apply`] is the only way to change it, is total and deterministic, and returns
//! every effect as an [`Action`]. Time comes as an argument; there are no clocks, no random numbers,
//! no hash maps whose order could differ between two runs.
//!
//! **STATE-2** What was acknowledged can be rebuilt: every [`Action::Persist`] stands before the sends
//! that rest on it (where a group's bundles of a single node are is the exception: that node knows),
//! [`Control::recover`] makes the state of before from the persisted entries, and
//! what is known only to the nodes (who runs where) comes back when they register again.
//!
//! **CTL-1** In steady state the control service is on no task submission, actor call or object read:
//! its events are the closed list of [`NodeToControl`], none of which these cause. A heartbeat changes
//! nothing and causes no action.
//!
//! Every table is bounded (LIMIT-1), see [`helio_config::control`]; waiting actors say what they wait
//! for (WHY-1), see [`helio_scheduler::why`].
//!
//! Reading order: this file, `members` (nodes), `jobs`, `actors` (an actor's life), `placing` (where
//! it goes), `groups` and `bundles` (placement groups), `requests` (what clients ask), `kv`, `durable` (what survives).

#![forbid(unsafe_code)]

mod actors;
mod bundles;
pub mod check;
mod durable;
mod groups;
mod jobs;
mod kv;
mod members;
mod placing;
mod publish;
mod requests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use helio_config::control::{HEARTBEAT_MS, HEARTBEATS_MISSED_MAX, LOOK_AGAIN_MS, STALL_HEARTBEATS};
use helio_proto::cluster::{
    ClusterView, ControlToNode, NodeAccepted, NodeToControl, ShutDown, ToClient,
};
use helio_proto::node::{ControlReply, NodeToClient};
use helio_scheduler::NodeView;
use helio_types::{ActorId, JobId, NodeId, WorkerId};

pub use durable::Change;

/// What happens to the control service.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A node said something. Its first message on a connection is `Register`.
    Node {
        /// Which.
        node_id: NodeId,
        /// What.
        message: NodeToControl,
    },
    /// The newest connection of a node ended.
    Disconnected {
        /// Which.
        node_id: NodeId,
    },
    /// The cluster is to end.
    Stop {
        /// Why.
        reason: String,
    },
    /// Time passed; see [`Control::next_tick_ms`].
    Tick,
}

/// What the control service does.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Send it to that node; drop it when the node is not connected.
    Send {
        /// Which.
        node_id: NodeId,
        /// What.
        message: ControlToNode,
    },
    /// Make it durable before any [`Action::Send`] after it goes out.
    Persist(Change),
    /// Close that node's connection after what was sent to it.
    Disconnect {
        /// Which.
        node_id: NodeId,
    },
    /// The cluster is over: end when everything was sent.
    End {
        /// Why.
        reason: String,
    },
    /// A sentence for the log.
    Log(String),
}

/// How the control service tells whether a node is alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Health {
    /// How often a node says that it is there, in milliseconds.
    pub heartbeat_ms: u64,
    /// A node that was silent for so long is dead, in milliseconds.
    pub silence_ms_max: u64,
    /// How much longer a node may be silent when it has just joined, in milliseconds.
    pub first_silence_ms: u64,
}

impl Default for Health {
    fn default() -> Self {
        let silence_ms_max = HEARTBEAT_MS * HEARTBEATS_MISSED_MAX;
        Self { heartbeat_ms: HEARTBEAT_MS, silence_ms_max, first_silence_ms: 0 }
    }
}

/// The control service's state. See the crate's documentation.
#[derive(Debug, Default)]
pub struct Control {
    session_name: String,
    health: Health,
    now_ms: u64,
    /// Ground state.
    nodes: BTreeMap<NodeId, members::Node>,
    dead_nodes: VecDeque<NodeId>,
    jobs: jobs::Jobs,
    actors: BTreeMap<ActorId, actors::Actor>,
    dead_actors: VecDeque<ActorId>,
    /// Who follows actors that are not known yet.
    unknown: BTreeMap<ActorId, actors::Unknown>,
    kv: kv::Table,
    groups: groups::Groups,
    /// Derived from `nodes`: what placement sees, in the order of node ids.
    views: Vec<NodeView>,
    /// Derived from `actors`: those that wait for a node.
    waiting: placing::Waiting,
    /// Derived from `actors`: names that are taken, by namespace.
    names: BTreeMap<(String, String), ActorId>,
    /// Derived from `actors`: what each process owns that is not detached.
    owned: BTreeMap<WorkerId, BTreeSet<ActorId>>,
    /// Derived from `actors` and `unknown`: whom each process follows.
    followed: BTreeMap<(NodeId, WorkerId), BTreeSet<ActorId>>,
    /// The number of the newest view that was published.
    version: u64,
    /// When those others that changed were last told of.
    viewed_ms: u64,
    /// When waiting actors were last told why.
    explained_ms: u64,
    /// Until when nodes of before a restart may come back.
    recovering_until_ms: Option<u64>,
    /// What becomes durable with whatever comes next, or with the next tick.
    soon: Vec<Change>,
    out: Vec<Action>,
}

impl Control {
    /// An empty cluster.
    #[must_use]
    pub fn new(session_name: &str) -> Self {
        Self { session_name: session_name.to_owned(), ..Self::default() }
    }

    /// How it tells whether nodes are alive, if not as by default.
    pub fn set_health(&mut self, health: Health) {
        self.health = health;
    }

    /// Takes an event and says what to do, in order. `now_ms` never goes back.
    #[must_use]
    pub fn apply(&mut self, event: Event, now_ms: u64) -> Vec<Action> {
        assert!(now_ms >= self.now_ms, "time never goes back");
        let stood_ms = now_ms - std::mem::replace(&mut self.now_ms, now_ms);
        if stood_ms >= self.health.heartbeat_ms * STALL_HEARTBEATS {
            self.hear_all_anew(stood_ms);
        }
        match event {
            Event::Node { node_id, message } => self.on_message(node_id, message),
            Event::Disconnected { node_id } => self.on_disconnected(node_id),
            Event::Stop { reason } => self.end(&reason),
            Event::Tick => self.on_tick(),
        }
        std::mem::take(&mut self.out)
    }

    /// How long the next [`Event::Tick`] may be away.
    #[must_use]
    pub fn next_tick_ms(&self) -> u64 {
        let mut wait_ms = self.health.heartbeat_ms;
        for node in self.nodes.values().filter(|node| node.info.alive) {
            if node.lost_ms.is_some() || !node.reserved.is_empty() {
                wait_ms = wait_ms.min(LOOK_AGAIN_MS);
            }
            if node.changed {
                wait_ms = wait_ms.min(self.view_interval_ms());
            }
        }
        wait_ms
    }

    /// The session's name, which outlives restarts.
    #[must_use]
    pub fn session_name(&self) -> &str {
        &self.session_name
    }

    /// What an observer is told: which session this is, and its nodes.
    #[must_use]
    pub fn introduction(&self) -> [ControlToNode; 2] {
        let accepted =
            NodeAccepted { session_name: self.session_name.clone(), ..NodeAccepted::default() };
        let nodes = self.nodes.values().map(|node| node.info.clone()).collect();
        [accepted.into(), ClusterView { nodes }.into()]
    }

    /// How many nodes are alive.
    #[must_use]
    pub fn n_nodes(&self) -> usize {
        self.views.len()
    }

    fn on_message(&mut self, node_id: NodeId, message: NodeToControl) {
        if let NodeToControl::Register(register) = message {
            self.on_register(node_id, register);
            return;
        }
        let Some(node) = self.nodes.get_mut(&node_id).filter(|node| node.info.alive) else {
            // It was declared dead and its actors live elsewhere now: it must not go on.
            let reason =
                "this node was declared dead; start it again to join as a new one".to_owned();
            self.send(node_id, ControlToNode::ShutDown(ShutDown { reason }));
            self.out.push(Action::Disconnect { node_id });
            return;
        };
        node.heard_ms = self.now_ms;
        match message {
            NodeToControl::Register(_) | NodeToControl::Unknown => {}
            NodeToControl::Status(status) => self.on_status(node_id, status.info),
            NodeToControl::FromClient(from) => self.on_request(node_id, from.worker_id, from.call),
            NodeToControl::ClientGone(gone) => self.on_client_gone(node_id, &gone),
            NodeToControl::ActorStarted(started) => self.on_actor_started(node_id, started),
            NodeToControl::ActorEnded(ended) => self.on_actor_ended(node_id, ended),
            NodeToControl::BundlesHeld(held) => self.on_bundles_held(node_id, held),
            NodeToControl::AskGroup(ask) => self.on_ask_group(node_id, &ask),
            NodeToControl::JobLogs(logs) => self.on_job_logs(logs),
            NodeToControl::Leaving(leaving) => {
                self.node_died(node_id, &format!("it left: {}", leaving.reason))
            }
        }
    }

    fn on_tick(&mut self) {
        self.persist_soon();
        self.check_members();
        self.expire_reservations();
        self.expire_unknown();
        self.explain_waits();
        self.publish_views();
    }

    fn send(&mut self, node_id: NodeId, message: impl Into<ControlToNode>) {
        self.out.push(Action::Send { node_id, message: message.into() });
    }

    fn send_to_client(
        &mut self,
        node_id: NodeId,
        worker_id: WorkerId,
        message: impl Into<NodeToClient>,
    ) {
        self.send(node_id, ToClient { worker_id, message: message.into() });
    }

    fn reply(
        &mut self,
        to: requests::Asker,
        response: impl Into<helio_proto::control::ControlResponse>,
    ) {
        let reply = ControlReply { request_id: to.request_id, response: response.into() };
        self.send_to_client(to.node_id, to.worker_id, reply);
    }

    /// The driver of a running job, where its node is alive.
    fn driver_of(&self, job_id: JobId) -> Option<(NodeId, WorkerId)> {
        let job = self.jobs.running.get(&job_id)?;
        self.nodes.get(&job.node_id).filter(|node| node.info.alive)?;
        Some((job.node_id, job.driver))
    }
}
