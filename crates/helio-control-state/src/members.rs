//! Nodes: who is in, who is gone, and what the others are told of it.
//!
//! ```text
//!            Register                 silence, Leaving, or no new connection in time
//!   (none) ───────────▶ alive ───────────────────────────────────────────────────▶ dead
//!                        │  ▲
//!          Disconnected  ▼  │  Register
//!                       alive, lost
//! ```
//! A dead node never comes back under its id: its actors have been given to others.

use std::collections::{BTreeMap, BTreeSet};

use helio_config::control::{
    DEAD_NODES_MAX, NODES_MAX, RECONNECT_MS_MAX, RECOVERY_MS_MAX, VIEW_INTERVAL_MS_MIN,
    VIEW_NODES_A_MS,
};
use helio_proto::cluster::{ClusterView, NodeAccepted, RegisterNode};
use helio_proto::control::NodeInfo;
use helio_scheduler::NodeView;
use helio_types::{DeathCause, DeathKind, NodeId, ResourceSet, WorkerId};

use crate::placing::Promised;
use crate::{Action, Control};

/// A node.
#[derive(Debug, Default)]
pub(crate) struct Node {
    /// What it last said of itself; its `version` is the one published.
    pub(crate) info: NodeInfo,
    /// The version that it gave it.
    pub(crate) said: u64,
    /// When it last said anything.
    pub(crate) heard_ms: u64,
    /// Since when it has no connection.
    pub(crate) lost_ms: Option<u64>,
    /// What was promised and is not in `info.available` yet, and since when.
    pub(crate) reserved: BTreeMap<Promised, (ResourceSet, u64)>,
    /// The others have not been told of its newest resources.
    pub(crate) changed: bool,
}

impl Node {
    /// What placement is to see: what it said, less what was promised since.
    pub(crate) fn view(&self) -> NodeView {
        let mut view = NodeView::from(&self.info);
        for (resources, _) in self.reserved.values() {
            view.available.subtract(resources);
        }
        view
    }
}

impl Control {
    pub(crate) fn on_register(&mut self, node_id: NodeId, register: RegisterNode) {
        let refused = match self.nodes.get(&node_id) {
            Some(node) if !node.info.alive => {
                format!(
                    "this node was declared dead ({}); start it again to join as a new one",
                    node.info.cause
                )
            }
            None if self.views.len() >= NODES_MAX => {
                format!("the cluster has {NODES_MAX} nodes, the most it can have")
            }
            _ if node_id.is_nil() || register.info.address.node_id != node_id => {
                "the node's id does not match its greeting".to_owned()
            }
            _ => String::new(),
        };
        let accepted = NodeAccepted {
            refused: refused.clone(),
            session_name: self.session_name.clone(),
            heartbeat_ms: self.health.heartbeat_ms,
        };
        self.send(node_id, accepted);
        if !refused.is_empty() {
            self.out.push(Action::Log(format!("refused node {node_id}: {refused}")));
            self.out.push(Action::Disconnect { node_id });
            return;
        }
        let RegisterNode { info, actors, clients, clients_known, bundles } = register;
        let is_new = !self.nodes.contains_key(&node_id);
        let version = self.next_version();
        let node = self.nodes.entry(node_id).or_default();
        node.said = info.version;
        node.info = NodeInfo { alive: true, version, cause: String::new(), ..info };
        node.heard_ms = self.now_ms + if is_new { self.health.first_silence_ms } else { 0 };
        node.lost_ms = None;
        node.changed = false;
        node.reserved.clear();
        let info = node.info.clone();
        self.refresh_view(node_id);
        let everyone: Vec<NodeInfo> = self.nodes.values().map(|node| node.info.clone()).collect();
        self.send(node_id, ClusterView { nodes: everyone });
        self.tell_others(node_id, &info);
        if is_new {
            let address = &info.address;
            self.out.push(Action::Log(format!(
                "node {node_id} joined from {}:{}",
                address.host, address.port
            )));
        }
        self.reconcile_bundles(node_id, &bundles);
        self.reconcile_actors(node_id, &actors);
        if clients_known {
            self.reconcile_clients(node_id, &clients);
        }
        self.remind(node_id);
        self.place_waiting();
    }

    /// Clients of the node that ended while it was away.
    fn reconcile_clients(&mut self, node_id: NodeId, clients: &[WorkerId]) {
        let here: BTreeSet<WorkerId> = clients.iter().copied().collect();
        let jobs = self.jobs.running.values().filter(|job| job.node_id == node_id);
        let drivers: Vec<WorkerId> =
            jobs.map(|job| job.driver).filter(|driver| !here.contains(driver)).collect();
        for driver in drivers {
            self.driver_gone(driver);
        }
        let cause = "its owner ended while its node had no connection to the control service";
        self.end_owned_on(node_id, |owner| !here.contains(&owner), cause);
    }

    pub(crate) fn on_disconnected(&mut self, node_id: NodeId) {
        let now_ms = self.now_ms;
        if let Some(node) = self.nodes.get_mut(&node_id).filter(|node| node.info.alive) {
            node.lost_ms = Some(now_ms);
        }
    }

    pub(crate) fn on_status(&mut self, node_id: NodeId, info: NodeInfo) {
        let Some(node) = self.nodes.get_mut(&node_id) else { return };
        let same = node.info.total == info.total
            && node.info.available == info.available
            && node.info.labels == info.labels
            && node.reserved.is_empty();
        // It may have lent something and got it back between two words: others who sent work there and
        // count it as taken must hear that it is free again.
        let is_news = !same || node.said != info.version;
        node.said = info.version;
        // Identity and health are not the node's to change.
        let NodeInfo { address, version, session_dir, .. } = std::mem::take(&mut node.info);
        node.info =
            NodeInfo { address, alive: true, version, session_dir, cause: String::new(), ..info };
        node.reserved.clear();
        node.changed |= is_news;
        if !same {
            self.refresh_view(node_id);
            self.place_waiting();
        }
    }

    /// For `stood_ms` the control service did not run: the nodes have as long again to be heard.
    pub(crate) fn hear_all_anew(&mut self, stood_ms: u64) {
        for node in self.nodes.values_mut() {
            node.heard_ms = self.now_ms;
            node.lost_ms = node.lost_ms.map(|_| self.now_ms);
        }
        self.recovering_until_ms = self.recovering_until_ms.map(|until_ms| until_ms + stood_ms);
    }

    pub(crate) fn check_members(&mut self) {
        let (now_ms, silence_ms_max) = (self.now_ms, self.health.silence_ms_max);
        let overdue = |node: &Node| -> Option<String> {
            if !node.info.alive {
                return None;
            }
            if node.lost_ms.is_some_and(|at| now_ms.saturating_sub(at) >= RECONNECT_MS_MAX) {
                return Some("its connection broke and it did not come back".to_owned());
            }
            let silence_ms = now_ms.saturating_sub(node.heard_ms);
            (silence_ms >= silence_ms_max).then(|| {
                let (silence, max) = (silence_ms / 1000, silence_ms_max as f64 / 1000.0);
                format!("it was silent for {silence} s, and may be for {max} s")
            })
        };
        let gone: Vec<(NodeId, String)> =
            self.nodes.iter().filter_map(|(id, node)| Some((*id, overdue(node)?))).collect();
        for (node_id, cause) in gone {
            self.node_died(node_id, &cause);
        }
        let until_ms = self.recovering_until_ms;
        if until_ms.is_some_and(|until_ms| until_ms <= now_ms) {
            self.recovering_until_ms = None;
            self.give_up_absent();
        }
    }

    pub(crate) fn node_died(&mut self, node_id: NodeId, cause: &str) {
        let version = self.next_version();
        let Some(node) = self.nodes.get_mut(&node_id).filter(|node| node.info.alive) else {
            return;
        };
        node.info.alive = false;
        node.info.version = version;
        cause.clone_into(&mut node.info.cause);
        node.info.available = ResourceSet::default();
        node.reserved.clear();
        let info = node.info.clone();
        self.refresh_view(node_id);
        self.out
            .push(Action::Log(format!("node {node_id} ({}) is gone: {cause}", info.address.host)));
        self.out.push(Action::Disconnect { node_id });
        self.tell_others(node_id, &info);
        let sentence =
            format!("the node it ran on, {} ({node_id}), is gone: {cause}", info.address.host);
        self.node_gone(node_id, &DeathCause::new(DeathKind::NodeDied, sentence));
        self.dead_nodes.push_back(node_id);
        if self.dead_nodes.len() > DEAD_NODES_MAX
            && let Some(oldest) = self.dead_nodes.pop_front()
        {
            self.nodes.remove(&oldest);
        }
        self.place_waiting();
    }

    /// What follows from the end of a node, or from its absence after a restart of this service.
    pub(crate) fn node_gone(&mut self, node_id: NodeId, cause: &DeathCause) {
        let jobs = self.jobs.running.values().filter(|job| job.node_id == node_id);
        let drivers: Vec<WorkerId> = jobs.map(|job| job.driver).collect();
        for driver in drivers {
            self.driver_gone(driver);
        }
        self.end_owned_on(node_id, |_| true, "its owner's node is gone");
        self.drop_followers_on(node_id);
        self.drop_waiter(|asker| asker.node_id == node_id);
        self.bundles_on_node_gone(node_id);
        self.actors_on_node_ended(node_id, cause);
    }

    /// Tells every node which others changed since last time; at most every
    /// [`Control::view_interval_ms`].
    pub(crate) fn publish_views(&mut self) {
        if self.now_ms.saturating_sub(self.viewed_ms) < self.view_interval_ms() {
            return;
        }
        self.viewed_ms = self.now_ms;
        let mut changed = Vec::new();
        let version = self.version.max(self.now_ms);
        for (node, version) in self
            .nodes
            .values_mut()
            .filter(|node| node.changed && node.info.alive)
            .zip(version + 1..)
        {
            node.changed = false;
            node.info.version = version;
            changed.push(node.info.clone());
        }
        self.version = version + changed.len() as u64;
        let all: Vec<NodeId> = self.views.iter().map(|view| view.address.node_id).collect();
        for to in all {
            let nodes: Vec<NodeInfo> =
                changed.iter().filter(|info| info.address.node_id != to).cloned().collect();
            if !nodes.is_empty() {
                self.send(to, ClusterView { nodes });
            }
        }
    }

    pub(crate) fn view_interval_ms(&self) -> u64 {
        VIEW_INTERVAL_MS_MIN + self.views.len() as u64 / VIEW_NODES_A_MS
    }

    fn tell_others(&mut self, about: NodeId, info: &NodeInfo) {
        let others: Vec<NodeId> = self
            .views
            .iter()
            .map(|view| view.address.node_id)
            .filter(|other| *other != about)
            .collect();
        for other in others {
            self.send(other, ClusterView { nodes: vec![info.clone()] });
        }
    }

    /// Derives the placement view of a node from what is known of it.
    pub(crate) fn refresh_view(&mut self, node_id: NodeId) {
        let found = self.views.binary_search_by(|view| view.address.node_id.cmp(&node_id));
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
    fn next_version(&mut self) -> u64 {
        self.version = (self.version + 1).max(self.now_ms);
        self.version
    }

    /// After a restart: nodes of before have so long to come back.
    pub(crate) fn begin_recovery(&mut self) {
        self.recovering_until_ms = Some(self.now_ms + RECOVERY_MS_MAX);
    }
}
