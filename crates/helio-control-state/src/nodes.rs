//! The table of nodes: which are in, which are gone, and what placement sees of them.
//!
//! ```text
//!            Register                 silence, Leaving, or no new connection in time
//!   (none) ───────────▶ alive ───────────────────────────────────────────────────▶ dead
//!                        │  ▲
//!          Disconnected  ▼  │  Register
//!                       alive, lost
//! ```
//! A dead node never comes back under its id: its actors have been given to others.
//!
//! What a launched actor will take, or a bundle that is being reserved, is *reserved* in the node's view,
//! so that a burst is spread. A reservation ends with the node's next status, which knows better, and at
//! the latest after [`RESERVATION_MS_MAX`]: a node may lend an actor's resources on while its constructor
//! waits, and another actor may be what it waits for.
//!
//! Nothing here costs more per event when there are more nodes, except what is sent to all of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use helio_config::control::{
    DEAD_NODES_MAX, LIST_ROWS_MAX, LOOK_AGAIN_MS, NODES_MAX, RECONNECT_MS_MAX,
    VIEW_INTERVAL_MS_MIN, VIEW_NODES_A_MS,
};
use helio_proto::cluster::ClusterView;
use helio_proto::control::NodeInfo;
use helio_scheduler::NodeView;
use helio_types::{ActorId, NodeId, PlacementGroupId, ResourceSet};

/// How long a reservation lasts, in milliseconds.
pub(crate) const RESERVATION_MS_MAX: u64 = 200;

/// Who the resources are reserved for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum ReservedFor {
    /// An actor that was sent to the node.
    Actor(ActorId),
    /// Bundles of a placement group that the node was asked to hold.
    Group(PlacementGroupId),
}

#[derive(Debug, Default)]
struct Node {
    /// Its newest status; `version` is the published one.
    info: NodeInfo,
    /// The version that the node gave its newest status.
    reported_version: u64,
    /// When its newest message arrived.
    heard_ms: u64,
    /// Since when it has no connection.
    lost_ms: Option<u64>,
    /// What is reserved and is not in `info.available` yet, and since when.
    reservations: BTreeMap<ReservedFor, (ResourceSet, u64)>,
}

impl Node {
    /// What placement sees: the newest status, less what was reserved since.
    fn view(&self) -> NodeView {
        let mut view = NodeView::from(&self.info);
        for (resources, _) in self.reservations.values() {
            view.available.subtract(resources);
        }
        view
    }
}

/// All nodes.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    nodes: BTreeMap<NodeId, Node>,
    /// Dead nodes, the newest last.
    dead: VecDeque<NodeId>,
    /// Derived from `nodes`: what placement sees, in the order of node ids.
    views: Vec<NodeView>,
    /// Derived from `nodes`: those that are alive and have no connection.
    lost: BTreeSet<NodeId>,
    /// Derived from `nodes`: those with reservations.
    reserving: BTreeSet<NodeId>,
    /// Nodes whose newest resources the others have not been told.
    changed: BTreeSet<NodeId>,
    /// The number of the newest view that was published.
    version: u64,
    /// When changed resources were last published.
    published_ms: u64,
    /// No node can have been silent for too long before this time.
    silence_due_ms: u64,
}

impl Nodes {
    pub(crate) fn is_alive(&self, node_id: NodeId) -> bool {
        self.nodes.get(&node_id).is_some_and(|node| node.info.alive)
    }

    pub(crate) fn n_alive(&self) -> usize {
        self.views.len()
    }

    pub(crate) fn alive_ids(&self) -> Vec<NodeId> {
        self.views.iter().map(|view| view.address.node_id).collect()
    }

    /// Every node that is remembered, also dead ones.
    pub(crate) fn infos(&self) -> Vec<NodeInfo> {
        self.nodes.values().map(|node| node.info.clone()).collect()
    }

    /// A node that is alive.
    pub(crate) fn info(&self, node_id: NodeId) -> Option<&NodeInfo> {
        self.nodes.get(&node_id).map(|node| &node.info).filter(|info| info.alive)
    }

    /// The host of a node, for people.
    pub(crate) fn host(&self, node_id: NodeId) -> &str {
        self.nodes.get(&node_id).map_or("", |node| node.info.address.host.as_str())
    }

    /// The nodes of a listing: living ones first.
    pub(crate) fn rows(&self) -> Vec<NodeInfo> {
        let alive = self.nodes.values().filter(|node| node.info.alive);
        let dead = self.nodes.values().filter(|node| !node.info.alive);
        let rows = alive.chain(dead).map(|node| node.info.clone());
        rows.take(LIST_ROWS_MAX).collect()
    }

    /// What placement sees.
    pub(crate) fn views(&self) -> &[NodeView] {
        &self.views
    }

    pub(crate) fn n_reservations(&self) -> usize {
        self.nodes.values().map(|node| node.reservations.len()).sum()
    }

    /// Why a node may not register; empty when it may.
    pub(crate) fn refusal(&self, node_id: NodeId, info: &NodeInfo) -> String {
        match self.nodes.get(&node_id) {
            Some(node) if !node.info.alive => format!(
                "this node was declared dead ({}); start it again to join as a new one",
                node.info.cause
            ),
            None if self.views.len() >= NODES_MAX => {
                format!("the cluster has {NODES_MAX} nodes, the most it can have")
            }
            _ if node_id.is_nil() || info.address.node_id != node_id => {
                "the node's id does not match its greeting".to_owned()
            }
            _ => String::new(),
        }
    }

    /// Takes in a node that was not refused. A new one may be silent for `first_silence_ms` longer.
    /// Answers what the others are told, and whether it is new.
    pub(crate) fn register(
        &mut self,
        node_id: NodeId,
        info: NodeInfo,
        now_ms: u64,
        first_silence_ms: u64,
    ) -> (NodeInfo, bool) {
        let is_new = !self.nodes.contains_key(&node_id);
        let version = self.next_version(now_ms);
        let node = self.nodes.entry(node_id).or_default();
        node.reported_version = info.version;
        node.info = NodeInfo { alive: true, version, cause: String::new(), ..info };
        node.heard_ms = now_ms + if is_new { first_silence_ms } else { 0 };
        node.lost_ms = None;
        node.reservations.clear();
        let info = node.info.clone();
        self.lost.remove(&node_id);
        self.reserving.remove(&node_id);
        self.changed.remove(&node_id);
        self.refresh_view(node_id);
        (info, is_new)
    }

    pub(crate) fn disconnected(&mut self, node_id: NodeId, now_ms: u64) {
        if let Some(node) = self.nodes.get_mut(&node_id).filter(|node| node.info.alive) {
            node.lost_ms = Some(now_ms);
            self.lost.insert(node_id);
        }
    }

    /// A message of the node arrived; whether the node is alive.
    pub(crate) fn heard(&mut self, node_id: NodeId, now_ms: u64) -> bool {
        match self.nodes.get_mut(&node_id).filter(|node| node.info.alive) {
            Some(node) => {
                node.heard_ms = now_ms;
                true
            }
            None => false,
        }
    }

    /// Takes in a status; whether what placement sees has changed.
    pub(crate) fn report(&mut self, node_id: NodeId, info: NodeInfo) -> bool {
        let Some(node) = self.nodes.get_mut(&node_id) else { return false };
        let same = node.info.total == info.total
            && node.info.available == info.available
            && node.info.labels == info.labels
            && node.reservations.is_empty();
        // The node may have lent something and got it back between two statuses: others that sent work
        // there and count it as taken must hear that it is free again.
        let is_news = !same || node.reported_version != info.version;
        node.reported_version = info.version;
        // Identity and health are not the node's to change.
        let NodeInfo { address, version, session_dir, .. } = std::mem::take(&mut node.info);
        node.info =
            NodeInfo { address, alive: true, version, session_dir, cause: String::new(), ..info };
        node.reservations.clear();
        self.reserving.remove(&node_id);
        if is_news {
            self.changed.insert(node_id);
        }
        if !same {
            self.refresh_view(node_id);
        }
        !same
    }

    /// The control service did not run for a while: every node has as long again to be heard.
    pub(crate) fn reset_heartbeats(&mut self, now_ms: u64) {
        for node in self.nodes.values_mut() {
            node.heard_ms = now_ms;
            node.lost_ms = node.lost_ms.map(|_| now_ms);
        }
    }

    /// Nodes that were silent or without a connection for too long, and the cause of their death.
    pub(crate) fn overdue(&mut self, now_ms: u64, silence_ms_max: u64) -> Vec<(NodeId, String)> {
        let mut overdue: BTreeMap<NodeId, String> = BTreeMap::new();
        for node_id in &self.lost {
            let lost_ms = self.nodes[node_id].lost_ms;
            if lost_ms.is_some_and(|at| now_ms.saturating_sub(at) >= RECONNECT_MS_MAX) {
                let cause = "its connection broke and it did not come back".to_owned();
                overdue.insert(*node_id, cause);
            }
        }
        if now_ms >= self.silence_due_ms {
            let mut oldest_ms = now_ms;
            for (node_id, node) in self.nodes.iter().filter(|(_, node)| node.info.alive) {
                let silence_ms = now_ms.saturating_sub(node.heard_ms);
                if silence_ms < silence_ms_max {
                    oldest_ms = oldest_ms.min(node.heard_ms);
                    continue;
                }
                let (silence, max) = (silence_ms / 1000, silence_ms_max as f64 / 1000.0);
                overdue.entry(*node_id).or_insert_with(|| {
                    format!("it was silent for {silence} s, and may be for {max} s")
                });
            }
            self.silence_due_ms = oldest_ms + silence_ms_max;
        }
        overdue.into_iter().collect()
    }

    /// The limit for silence is another one now.
    pub(crate) fn check_silence_soon(&mut self) {
        self.silence_due_ms = 0;
    }

    /// Declares a node dead; answers what the others are told, unless it is dead already.
    pub(crate) fn mark_dead(
        &mut self,
        node_id: NodeId,
        cause: &str,
        now_ms: u64,
    ) -> Option<NodeInfo> {
        let version = self.next_version(now_ms);
        let node = self.nodes.get_mut(&node_id).filter(|node| node.info.alive)?;
        node.info.alive = false;
        node.info.version = version;
        cause.clone_into(&mut node.info.cause);
        node.info.available = ResourceSet::default();
        node.reservations.clear();
        let info = node.info.clone();
        self.lost.remove(&node_id);
        self.reserving.remove(&node_id);
        self.changed.remove(&node_id);
        self.refresh_view(node_id);
        Some(info)
    }

    /// Remembers a dead node, and forgets the oldest one when there are too many.
    pub(crate) fn bound_dead(&mut self, node_id: NodeId) {
        self.dead.push_back(node_id);
        if self.dead.len() > DEAD_NODES_MAX
            && let Some(oldest) = self.dead.pop_front()
        {
            self.nodes.remove(&oldest);
        }
    }

    pub(crate) fn reserve(
        &mut self,
        node_id: NodeId,
        reserved_for: ReservedFor,
        resources: ResourceSet,
        now_ms: u64,
    ) {
        let Some(node) = self.nodes.get_mut(&node_id) else { return };
        let before = node.reservations.insert(reserved_for, (resources.clone(), now_ms));
        self.reserving.insert(node_id);
        self.adjust_view(node_id, before.map(|(before, _)| before), &resources);
    }

    /// The actor or group has started and holds this much, or has ended and holds nothing. If the node
    /// has not reported since the reservation, this replaces what was reserved; else the node counts it.
    pub(crate) fn settle(
        &mut self,
        node_id: NodeId,
        reserved_for: ReservedFor,
        holds: ResourceSet,
    ) {
        let Some(node) = self.nodes.get_mut(&node_id) else { return };
        if let Some(reserved) = node.reservations.get_mut(&reserved_for) {
            let before = std::mem::replace(&mut reserved.0, holds.clone());
            self.adjust_view(node_id, Some(before), &holds);
        }
    }

    /// Ends reservations that are too old; whether there were any.
    pub(crate) fn expire_reservations(&mut self, now_ms: u64) -> bool {
        let is_old = |since_ms: u64| now_ms.saturating_sub(since_ms) >= RESERVATION_MS_MAX;
        let mut freed = Vec::new();
        for node_id in &self.reserving {
            let Some(node) = self.nodes.get_mut(node_id) else { continue };
            let before = node.reservations.len();
            node.reservations.retain(|_, (_, since_ms)| !is_old(*since_ms));
            if node.reservations.len() < before {
                freed.push(*node_id);
            }
        }
        for node_id in &freed {
            if self.nodes[node_id].reservations.is_empty() {
                self.reserving.remove(node_id);
            }
            self.refresh_view(*node_id);
        }
        !freed.is_empty()
    }

    /// The node lends what its new bundles have. Its next status will say so too; until then this is
    /// what is known of it.
    pub(crate) fn add_lent(&mut self, node_id: NodeId, lent: &ResourceSet) {
        let Some(node) = self.nodes.get_mut(&node_id).filter(|node| node.info.alive) else {
            return;
        };
        // A repeated answer may follow a status that has it.
        if !node.info.total.covers(lent) {
            node.info.total.add(lent);
            node.info.available.add(lent);
        }
        self.refresh_view(node_id);
    }

    /// The nodes whose resources have changed, and the nodes that are told; at most once every
    /// [`Self::view_interval_ms`].
    pub(crate) fn publish(&mut self, now_ms: u64) -> Vec<(NodeId, ClusterView)> {
        if now_ms.saturating_sub(self.published_ms) < self.view_interval_ms() {
            return Vec::new();
        }
        self.published_ms = now_ms;
        self.version = self.version.max(now_ms);
        let mut changed = Vec::new();
        for node_id in std::mem::take(&mut self.changed) {
            let Some(node) = self.nodes.get_mut(&node_id) else { continue };
            self.version += 1;
            node.info.version = self.version;
            changed.push(node.info.clone());
        }
        let mut messages = Vec::new();
        for to in self.views.iter().map(|view| view.address.node_id) {
            let others = changed.iter().filter(|info| info.address.node_id != to);
            let nodes: Vec<NodeInfo> = others.cloned().collect();
            if !nodes.is_empty() {
                messages.push((to, ClusterView { nodes }));
            }
        }
        messages
    }

    fn view_interval_ms(&self) -> u64 {
        VIEW_INTERVAL_MS_MIN + self.views.len() as u64 / VIEW_NODES_A_MS
    }

    /// How long the next look at the nodes may be away, in milliseconds, if anything is due.
    pub(crate) fn next_look_ms(&self) -> Option<u64> {
        let is_passing = !self.lost.is_empty() || !self.reserving.is_empty();
        let passing = is_passing.then_some(LOOK_AGAIN_MS);
        let publishing = (!self.changed.is_empty()).then(|| self.view_interval_ms());
        passing.into_iter().chain(publishing).min()
    }

    fn position(&self, node_id: NodeId) -> Result<usize, usize> {
        self.views.binary_search_by(|view| view.address.node_id.cmp(&node_id))
    }

    /// Derives the view anew from a changed reservation: quick also when a node has thousands.
    fn adjust_view(&mut self, node_id: NodeId, before: Option<ResourceSet>, now: &ResourceSet) {
        let Ok(index) = self.position(node_id) else { return };
        let available = &mut self.views[index].available;
        if let Some(before) = before {
            available.add(&before);
        }
        available.subtract(now);
    }

    /// Derives the placement view of a node from what is known of it.
    fn refresh_view(&mut self, node_id: NodeId) {
        let found = self.position(node_id);
        let Some(node) = self.nodes.get(&node_id).filter(|node| node.info.alive) else {
            if let Ok(index) = found {
                self.views.remove(index);
            }
            return;
        };
        let view = node.view();
        match found {
            Ok(index) => self.views[index] = view,
            Err(index) => self.views.insert(index, view),
        }
    }

    /// Versions follow the clock, so that they go on rising when this service starts anew.
    fn next_version(&mut self, now_ms: u64) -> u64 {
        self.version = (self.version + 1).max(now_ms);
        self.version
    }

    /// Whether the derived tables agree with the nodes.
    pub(crate) fn check(&self) -> Result<(), String> {
        let alive = || self.nodes.iter().filter(|(_, node)| node.info.alive);
        if !alive().map(|(_, node)| node.view()).eq(self.views.iter().cloned()) {
            return Err(
                "the placement views are not what the nodes reported, less what is reserved"
                    .to_owned(),
            );
        }
        let lost = alive().filter(|(_, node)| node.lost_ms.is_some()).map(|(id, _)| id);
        let reserving =
            self.nodes.iter().filter(|(_, node)| !node.reservations.is_empty()).map(|(id, _)| id);
        if !lost.eq(&self.lost) || !reserving.eq(&self.reserving) {
            return Err("the index of lost or reserving nodes is not that of the nodes".to_owned());
        }
        if !self.changed.iter().all(|node_id| self.is_alive(*node_id)) {
            return Err("the resources of a dead node are to be published".to_owned());
        }
        Ok(())
    }
}
