//! The machine's parts, and what is read of them from outside.

use helio_config::control::LOOK_AGAIN_MS;
use helio_proto::cluster::{ClusterView, ControlToNode, NodeAccepted};
use helio_types::{ActorId, JobId, NodeAddress, NodeId, WorkerId};
use std::collections::{BTreeMap, VecDeque};

use crate::actors::Actors;
use crate::disk::Disk;
use crate::event::{Action, Change, Health};
use crate::groups::Groups;
use crate::jobs::Jobs;
use crate::kv::KeyValues;
use crate::log_flushes::LogFlushes;
use crate::nodes::Nodes;
use crate::outbox::Outbox;
use crate::queue::ActorQueue;
use crate::rules::ending::Ending;
use crate::subscriptions::Subscriptions;
use crate::verdict::Verdict;

/// Work that one rule leaves for others to do before the event is over. A rule that is called by many others leaves it
/// here instead of calling back into them.
#[derive(Debug, Default)]
pub(crate) struct FollowUps {
    /// Actors whose process is to be made again: they join the queue.
    pub(crate) restarts: VecDeque<ActorId>,
    /// Actors that ended and had made placement groups.
    pub(crate) group_creators: VecDeque<ActorId>,
    /// Resources became free, or a node joined: whatever waits is placed.
    pub(crate) has_room: bool,
}

/// The control service's state. See the crate's documentation.
#[derive(Debug, Default)]
pub struct Control {
    pub(crate) session_name: String,
    pub(crate) health: Health,
    pub(crate) nodes: Nodes,
    pub(crate) verdict: Verdict,
    pub(crate) jobs: Jobs,
    pub(crate) actors: Actors,
    pub(crate) queue: ActorQueue,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) groups: Groups,
    pub(crate) kv: KeyValues,
    pub(crate) disk: Disk,
    pub(crate) log_flushes: LogFlushes,
    pub(crate) out: Outbox,
    pub(crate) follow_ups: FollowUps,
    /// How many actors were placed: nodes that are equally good take turns by this number.
    pub(crate) n_placed: u64,
    /// When waiting actors were last explained.
    pub(crate) explained_ms: u64,
    /// The number of this head among the heads of the cluster; 0: there is no other.
    pub(crate) epoch: u64,
    /// The nodes of before a restart that have not registered again, where heads take each other's place.
    pub(crate) former: BTreeMap<NodeId, NodeAddress>,
    /// The end of the cluster, once it was asked for.
    pub(crate) ending: Option<Ending>,
    /// The time until which nodes of before a restart may register again.
    pub(crate) recovering_until_ms: Option<u64>,
}

impl Control {
    /// An empty cluster.
    #[must_use]
    pub fn new(session_name: &str) -> Self {
        Self { session_name: session_name.to_owned(), ..Self::default() }
    }

    /// Sets how it tells whether nodes are alive.
    pub fn set_health(&mut self, health: Health) {
        self.health = health;
        self.nodes.check_silence_soon();
    }

    /// The nodes of before that have not registered again: they may look for the head elsewhere.
    pub fn former_nodes(&self) -> impl Iterator<Item = &NodeAddress> {
        self.former.values()
    }

    /// How long the next [`crate::Event::Tick`] may be away, in microseconds.
    #[must_use]
    pub fn next_tick(&self) -> u64 {
        let heartbeat_ms = self.health.heartbeat_ms;
        let watching_ms = self.verdict.is_watching().then_some(LOOK_AGAIN_MS);
        let ending_ms = self.ending.as_ref().and_then(Ending::next_look_ms);
        let due_ms = [self.nodes.next_look_ms(), watching_ms, ending_ms];
        let due_ms = due_ms.into_iter().flatten().min();
        let wait_ms = due_ms.unwrap_or(heartbeat_ms).min(heartbeat_ms);
        wait_ms * 1000
    }

    /// The session's name, which outlives restarts.
    #[must_use]
    pub fn session_name(&self) -> &str {
        &self.session_name
    }

    /// Returns the messages for an observer: the session's name, and the cluster's nodes.
    #[must_use]
    pub fn introduction(&self) -> [ControlToNode; 2] {
        let accepted =
            NodeAccepted { session_name: self.session_name.clone(), ..NodeAccepted::default() };
        [accepted.into(), ClusterView { nodes: self.nodes.infos() }.into()]
    }

    /// How many nodes are alive.
    #[must_use]
    pub fn n_nodes(&self) -> usize {
        self.nodes.n_alive()
    }

    /// How many nodes placement has looked at since the start: what it costs, for tests and the
    /// simulation of large clusters.
    #[must_use]
    pub fn n_nodes_visited(&self) -> u64 {
        self.nodes.n_visited()
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.out.now_ms()
    }

    pub(crate) fn is_recovering(&self) -> bool {
        self.recovering_until_ms.is_some()
    }

    pub(crate) fn persist_all(&mut self, changes: impl IntoIterator<Item = Change>) {
        for change in changes {
            self.out.persist(change);
        }
    }

    /// Sends the message to every node that is alive.
    pub(crate) fn send_to_all(&mut self, message: impl Into<ControlToNode>) {
        self.out.send_to_many(self.nodes.alive_ids(), message);
    }

    /// The driver of a running job, where its node is alive.
    pub(crate) fn driver_of(&self, job_id: JobId) -> Option<(NodeId, WorkerId)> {
        self.jobs.driver_of(job_id).filter(|(node_id, _)| self.nodes.is_alive(*node_id))
    }

    pub(crate) fn take_actions(&mut self) -> Vec<Action> {
        self.out.take()
    }
}
