//! The rules: what an event changes in which parts, and what is sent.
//!
//! Here is the whole, which owns the parts. A file may call those above it in this list, and none below it.

mod check;

mod publishing;

mod actor_life;

mod actor_placement;

mod group_waiting;

mod group_placement;

mod group_life;

mod room;

mod job_life;

mod ending;

mod node_life;

mod draining;

mod recovery;

mod requests;

mod dispatch;

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
use crate::subscriptions::Subscriptions;
use crate::verdict::Verdict;

/// Work that one rule leaves for others to do before the event is over. A rule that is called by many others leaves it
/// here instead of calling back into them.
#[derive(Debug, Default)]
struct FollowUps {
    /// Actors whose process is to be made again: they join the queue.
    restarts: VecDeque<ActorId>,
    /// Actors that ended and had made placement groups.
    group_creators: VecDeque<ActorId>,
    /// Resources became free, or a node joined: whatever waits is placed.
    has_room: bool,
}

/// The control service's state. See the crate's documentation.
#[derive(Debug, Default)]
pub struct Control {
    session_name: String,
    health: Health,
    nodes: Nodes,
    verdict: Verdict,
    jobs: Jobs,
    actors: Actors,
    queue: ActorQueue,
    subscriptions: Subscriptions,
    groups: Groups,
    kv: KeyValues,
    disk: Disk,
    log_flushes: LogFlushes,
    out: Outbox,
    follow_ups: FollowUps,
    /// Number of actors that were placed: nodes that are equally good take turns by this number.
    n_placed: u64,
    /// See [`helio_proto::control::Changes`].
    n_changes: u64,
    /// The time of the last tick.
    ticked_ms: u64,
    /// The time at which waiting actors were last explained.
    explained_ms: u64,
    /// The number of this head among the heads of the cluster; 0: there is no other.
    epoch: u64,
    /// The nodes of before a restart that have not registered again, where heads take each other's place.
    former: BTreeMap<NodeId, NodeAddress>,
    /// The end of the cluster, once it was asked for.
    ending: Option<ending::Ending>,
    /// The time until which nodes of before a restart may register again.
    recovering_until_ms: Option<u64>,
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

    /// Returns the time at which [`crate::Event::Tick`] is due, in microseconds of the machine's clock:
    /// some time after the last one.
    #[must_use]
    pub fn next_tick(&self) -> Option<u64> {
        let heartbeat_ms = self.health.heartbeat_ms;
        let watching_ms = self.verdict.is_watching().then_some(LOOK_AGAIN_MS);
        let ending_ms = self.ending.as_ref().and_then(ending::Ending::next_look_ms);
        let due_ms = [self.nodes.next_look_ms(), watching_ms, ending_ms];
        let due_ms = due_ms.into_iter().flatten().min();
        let wait_ms = due_ms.unwrap_or(heartbeat_ms).min(heartbeat_ms);
        Some((self.ticked_ms + wait_ms) * 1000)
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

    /// Returns the number of nodes that are alive.
    #[must_use]
    pub fn n_nodes(&self) -> usize {
        self.nodes.n_alive()
    }

    /// Returns the number of nodes that placement has looked at since the start: the measure of its
    /// cost, for tests and the simulation of large clusters.
    #[must_use]
    pub fn n_nodes_visited(&self) -> u64 {
        self.nodes.n_visited()
    }

    fn now_ms(&self) -> u64 {
        self.out.now_ms()
    }

    fn is_recovering(&self) -> bool {
        self.recovering_until_ms.is_some()
    }

    fn persist_all(&mut self, changes: impl IntoIterator<Item = Change>) {
        for change in changes {
            self.out.persist(change);
        }
    }

    /// Sends the message to every node that is alive.
    fn send_to_all(&mut self, message: impl Into<ControlToNode>) {
        self.out.send_to_many(self.nodes.alive_ids(), message);
    }

    /// The driver of a running job, where its node is alive.
    fn driver_of(&self, job_id: JobId) -> Option<(NodeId, WorkerId)> {
        self.jobs.driver_of(job_id).filter(|(node_id, _)| self.nodes.is_alive(*node_id))
    }

    fn take_actions(&mut self) -> Vec<Action> {
        self.out.take()
    }
}
