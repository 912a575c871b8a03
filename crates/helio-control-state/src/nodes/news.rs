//! News of nodes for each other: joins and deaths, changes on the nodes that they watch, and where there is room for
//! requests that wait.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use helio_config::control::{
    CANDIDATE_NODES_MAX, CANDIDATE_SHAPES_MAX, CANDIDATES_MAX, LISTED_NODES_MAX, MEMBERS_A_MS,
    MEMBERS_AT_ONCE_MAX, VIEW_INTERVAL_MS_MIN, VIEW_NODES_A_MS, VIEW_PAGE_NODES, WATCHED_MAX,
};
use helio_proto::cluster::ClusterView;
use helio_proto::control::NodeInfo;
use helio_scheduler::{Choice, taken};
use helio_types::{NodeId, ResourceSet};

use super::{Node, Nodes};

/// Views, each with the nodes that get it.
pub(crate) type Views = Vec<(Vec<NodeId>, ClusterView)>;

/// The news for nodes at one time.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// Views that several nodes get.
    shared: Views,
    /// After these: what only one node gets.
    own: BTreeMap<NodeId, ClusterView>,
}

impl News {
    /// Views that several nodes get, and after these what only one node gets.
    pub(crate) fn into_parts(self) -> (Views, BTreeMap<NodeId, ClusterView>) {
        (self.shared, self.own)
    }

    fn tell(&mut self, node_id: NodeId, info: NodeInfo) {
        self.own.entry(node_id).or_default().nodes.push(info);
    }
}

/// Returns the view of a node for one that does not watch it: the node counts as busy, and its waiting requests are its
/// own business.
fn unwatched(info: &NodeInfo) -> NodeInfo {
    NodeInfo { available: ResourceSet::default(), pending: Vec::new(), ..info.clone() }
}

/// Puts the public views of these nodes into messages of bounded length.
fn pages<'a>(nodes: impl Iterator<Item = &'a Node>) -> Vec<ClusterView> {
    let infos: Vec<NodeInfo> = nodes.map(|node| unwatched(&node.info)).collect();
    infos.chunks(VIEW_PAGE_NODES).map(|page| ClusterView { nodes: page.to_vec() }).collect()
}

impl Nodes {
    /// Returns the news for the nodes now: joins and deaths, and changes on the nodes that they watch. In a cluster in
    /// which everybody watches everybody, each node gets one message at most.
    pub(crate) fn publish(&mut self, now_ms: u64) -> News {
        let mut news = News::default();
        self.publish_members(now_ms, &mut news);
        self.inform_new(&mut news);
        if now_ms.saturating_sub(self.published_ms) >= self.view_interval_ms() {
            self.published_ms = now_ms;
            self.publish_changes(now_ms, &mut news);
        }
        self.answer_wanting(&mut news);
        // The list of all nodes comes first.
        news.own.retain(|node_id, _| !self.uninformed.contains(node_id));
        news
    }

    fn is_each_watching_all(&self) -> bool {
        self.index.len() <= WATCHED_MAX + 1
    }

    /// Whether joins and deaths are published now.
    pub(crate) fn is_members_due(&self, now_ms: u64) -> bool {
        !self.members.is_empty()
            && now_ms.saturating_sub(self.members_published_ms) >= self.members_interval_ms()
    }

    /// Nodes are told of those that joined or died. What all may know is made once for all; what is free
    /// on a node goes to those alone that watch it.
    fn publish_members(&mut self, now_ms: u64, news: &mut News) {
        if !self.is_members_due(now_ms) {
            return;
        }
        self.members_published_ms = now_ms;
        let members = std::mem::take(&mut self.members);
        let alive = self.index.alive().map(|view| view.address.node_id);
        let informed: Vec<NodeId> = alive.filter(|to| !self.uninformed.contains(to)).collect();
        if self.is_each_watching_all() {
            for to in informed {
                let others = members.iter().filter(|other| **other != to);
                for node in others.filter_map(|other| self.nodes.get(other)) {
                    news.tell(to, self.as_seen_by(to, &node.info));
                }
            }
            return;
        }
        for page in pages(members.iter().filter_map(|id| self.nodes.get(id))) {
            news.shared.push((informed.clone(), page));
        }
        for node_id in members.iter().filter(|node_id| self.is_alive(**node_id)) {
            for watcher in self.watches.watchers_of(*node_id) {
                news.tell(watcher, self.nodes[node_id].info.clone());
            }
        }
    }

    /// Nodes that have just registered are told of all others, also dead ones: in a large cluster a few
    /// at a time, because the list is long.
    fn inform_new(&mut self, news: &mut News) {
        if self.is_each_watching_all() {
            for to in std::mem::take(&mut self.uninformed) {
                for node in self.in_order() {
                    news.tell(to, self.as_seen_by(to, &node.info));
                }
            }
            return;
        }
        // A thousand nodes that start together would each be sent a list of a thousand in one turn.
        let many = (LISTED_NODES_MAX / self.nodes.len()).max(1);
        let to: Vec<NodeId> = self.uninformed.iter().take(many).copied().collect();
        for node_id in &to {
            self.uninformed.remove(node_id);
            for other in self.watches.watched_by(*node_id) {
                news.tell(*node_id, self.nodes[&other].info.clone());
            }
        }
        if !to.is_empty() {
            for page in pages(self.in_order()) {
                news.shared.push((to.clone(), page));
            }
        }
    }

    fn publish_changes(&mut self, now_ms: u64, news: &mut News) {
        self.version = self.version.max(now_ms);
        for node_id in std::mem::take(&mut self.changed) {
            let Some(node) = self.nodes.get_mut(&node_id) else { continue };
            self.version += 1;
            let is_newer = node.info.version < self.version;
            assert!(
                is_newer,
                "watchers would take the news of a node for older than what they know"
            );
            node.info.version = self.version;
            for watcher in self.watches.watchers_of(node_id) {
                news.tell(watcher, node.info.clone());
            }
        }
    }

    /// Nodes on which requests wait are told of nodes that have room, and watch these from now on.
    fn answer_wanting(&mut self, news: &mut News) {
        // By turns: the first ones would else take all the room, and the last hear of none.
        let behind = self.wanting.range((Excluded(self.answered), Unbounded));
        let turn: Vec<NodeId> =
            behind.chain(&self.wanting).take(CANDIDATE_NODES_MAX).copied().collect();
        for node_id in turn {
            self.answered = node_id;
            let mut found = Vec::new();
            for demand in self.nodes[&node_id].info.pending.iter().filter(|one| one.may_spill) {
                let need = taken(&demand.resources, &demand.strategy);
                for _ in 0..demand.count.min(CANDIDATES_MAX as u64) {
                    let cursor = self.n_candidates;
                    self.n_candidates += 1;
                    match self.index.choose(None, &need, &demand.strategy, cursor, &[]) {
                        Choice::On(other) if other != node_id => found.push(other),
                        Choice::On(_) => {}
                        Choice::Busy | Choice::Infeasible => break,
                    }
                }
                if found.len() >= CANDIDATES_MAX * CANDIDATE_SHAPES_MAX {
                    break;
                }
            }
            if found.is_empty() {
                continue;
            }
            self.wanting.remove(&node_id);
            let most = CANDIDATES_MAX * (CANDIDATE_SHAPES_MAX + 1);
            assert!(found.len() <= most, "one node's requests would hold up all news");
            for other in found {
                let dropped = self.watches.add(node_id, other);
                for seen in dropped.into_iter().chain([other]) {
                    news.tell(node_id, self.as_seen_by(node_id, &self.nodes[&seen].info));
                }
            }
        }
    }

    pub(super) fn as_seen_by(&self, node_id: NodeId, info: &NodeInfo) -> NodeInfo {
        let other = info.address.node_id;
        if node_id == other || self.watches.is_watching(node_id, other) {
            info.clone()
        } else {
            unwatched(info)
        }
    }

    pub(super) fn view_interval_ms(&self) -> u64 {
        VIEW_INTERVAL_MS_MIN + self.index.len() as u64 / VIEW_NODES_A_MS
    }

    pub(super) fn members_interval_ms(&self) -> u64 {
        match self.index.len() {
            ..=MEMBERS_AT_ONCE_MAX => 0,
            many => VIEW_INTERVAL_MS_MIN + many as u64 / MEMBERS_A_MS,
        }
    }
}
