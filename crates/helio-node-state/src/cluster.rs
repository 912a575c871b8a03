//! What the node knows of the others, and what it tells of itself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use helio_proto::cluster::ClusterView;
use helio_proto::control::{NodeInfo, PendingDemand, Strategy};
use helio_proto::node::NodeDied;
use helio_scheduler::{NodeView, Placement, place, taken, why};
use helio_types::{NodeAddress, NodeId, Quantity, ResourceSet};

use crate::limits::{DEAD_NODES_MAX, NODE_ABSENT_MS_MAX, VIEW_LAG_MS_MAX};
use crate::timers::Timer;
use crate::{Action, Node, Setup};

/// The resource that the object store is.
const STORE: &str = "object_store_memory";

/// How many shapes of waiting requests a node reports.
const SHAPES_MAX: usize = 100;

#[derive(Debug)]
pub(crate) struct Cluster {
    /// This node first, then the others in the order in which they were heard of.
    nodes: Vec<NodeView>,
    positions: BTreeMap<NodeId, usize>,
    versions: BTreeMap<NodeId, u64>,
    dead: VecDeque<NodeId>,
    /// Nodes that the control service has not spoken of since it was reached again. One that started
    /// anew does not know those that died while it was away, and will never say so.
    unconfirmed: BTreeSet<NodeId>,
    /// What was taken from the view of a node for requests that were sent there, and until when that
    /// counts: no news come of a node on which nothing changed, because the request was withdrawn or its
    /// task was quick.
    promised: VecDeque<(u64, NodeId, ResourceSet)>,
    /// Raised with every placement.
    cursor: u64,
    is_known: bool,
}

impl Cluster {
    pub(crate) fn new(setup: &Setup) -> Self {
        let own = NodeView {
            address: setup.address.clone(),
            alive: true,
            total: setup.total.clone(),
            available: setup.total.clone(),
            labels: setup
                .labels
                .iter()
                .map(|label| (label.key.clone(), label.value.clone()))
                .collect(),
        };
        Self {
            positions: BTreeMap::from([(setup.address.node_id, 0)]),
            nodes: vec![own],
            versions: BTreeMap::new(),
            dead: VecDeque::new(),
            unconfirmed: BTreeSet::new(),
            promised: VecDeque::new(),
            cursor: 0,
            is_known: false,
        }
    }

    /// Whether the control service has told of the other nodes.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known
    }

    /// Bundles came or went.
    pub(crate) fn set_own_total(&mut self, total: &ResourceSet) {
        self.nodes[0].total.clone_from(total);
    }

    pub(crate) fn set_own_available(&mut self, available: &ResourceSet) {
        self.nodes[0].available.clone_from(available);
    }

    /// A node's address, and whether it is alive.
    pub(crate) fn address(&self, node_id: NodeId) -> Option<(NodeAddress, bool)> {
        let node = &self.nodes[*self.positions.get(&node_id)?];
        Some((node.address.clone(), node.alive))
    }

    /// The other nodes that are alive.
    pub(crate) fn others_alive(&self) -> Vec<NodeAddress> {
        let others = self.nodes.iter().skip(1).filter(|node| node.alive);
        others.map(|node| node.address.clone()).collect()
    }

    /// Where a request may go: anywhere, or only here.
    pub(crate) fn place(
        &mut self,
        takes: &ResourceSet,
        strategy: &Strategy,
        may_spill: bool,
        locality: &[NodeId],
        now: u64,
    ) -> Placement {
        while self.promised.front().is_some_and(|(until, _, _)| *until <= now) {
            let Some((_, node_id, need)) = self.promised.pop_front() else { break };
            if let Some(position) = self.positions.get(&node_id) {
                self.nodes[*position].available.add(&need);
            }
        }
        let nodes = if may_spill { &self.nodes[..] } else { &self.nodes[..1] };
        let own = self.nodes[0].address.node_id;
        let placement = place(nodes, Some(own), takes, strategy, self.cursor, locality);
        // Only what was placed takes a turn: a request that is looked at three times would else go to
        // the same one of three nodes for ever.
        self.cursor += u64::from(matches!(placement, Placement::On(_)));
        placement
    }

    /// **WHY-1** What a request waits for.
    pub(crate) fn why(&self, need: &ResourceSet, strategy: &Strategy) -> String {
        why(&self.nodes, need, strategy)
    }

    /// Whether the node was in the cluster and is no more, as far as is known here.
    pub(crate) fn is_gone(&self, node_id: NodeId) -> bool {
        let view = self.nodes.iter().find(|node| node.address.node_id == node_id);
        view.is_none_or(|node| !node.alive)
    }

    /// Whether nothing but resources keeps a request from this node.
    pub(crate) fn may_run_here(&self, strategy: &Strategy) -> bool {
        let own = self.nodes[0].address.node_id;
        strategy.labels.is_empty() && (strategy.node_id.is_nil() || strategy.node_id == own)
    }

    /// How many nodes there are.
    pub(crate) fn size(&self) -> usize {
        self.nodes.iter().filter(|node| node.alive).count()
    }

    /// What this node has, and what of it is free.
    pub(crate) fn own(&self) -> (&ResourceSet, &ResourceSet) {
        (&self.nodes[0].total, &self.nodes[0].available)
    }

    /// **WHY-1** What an actor that was sent here waits for.
    pub(crate) fn why_here(&self, need: &ResourceSet) -> String {
        why(&self.nodes[..1], need, &Strategy::default())
    }

    /// A request goes to that node: until news of it come, what the request needs counts as taken.
    pub(crate) fn spill_to(
        &mut self,
        node_id: NodeId,
        need: &ResourceSet,
        now: u64,
    ) -> Option<NodeAddress> {
        let node = &mut self.nodes[*self.positions.get(&node_id)?];
        node.available.subtract(need);
        self.promised.push_back((now + VIEW_LAG_MS_MAX, node_id, need.clone()));
        Some(node.address.clone())
    }

    /// Takes in what is new of a node; whether it has just died.
    fn update(&mut self, info: &NodeInfo) -> bool {
        let node_id = info.address.node_id;
        self.unconfirmed.remove(&node_id);
        let version = self.versions.entry(node_id).or_default();
        if info.version < *version && info.alive {
            return false;
        }
        *version = info.version;
        self.promised.retain(|(_, promised_to, _)| *promised_to != node_id);
        let view = NodeView::from(info);
        match self.positions.get(&node_id) {
            // Nobody knows better than the node itself how it is.
            Some(0) => false,
            Some(position) => {
                let node = &mut self.nodes[*position];
                let has_died = node.alive && !view.alive;
                *node = view;
                if has_died {
                    self.dead.push_back(node_id);
                }
                has_died
            }
            None => {
                let is_dead = !view.alive;
                self.positions.insert(node_id, self.nodes.len());
                self.nodes.push(view);
                if is_dead {
                    self.dead.push_back(node_id);
                }
                is_dead
            }
        }
    }

    fn bury(&mut self, node_id: NodeId) {
        if let Some(position) = self.positions.get(&node_id) {
            self.nodes[*position].alive = false;
            self.dead.push_back(node_id);
        }
    }

    fn forget_old(&mut self) {
        while self.dead.len() > DEAD_NODES_MAX {
            let Some(node_id) = self.dead.pop_front() else { return };
            self.nodes.retain(|node| node.alive || node.address.node_id != node_id);
            self.versions.remove(&node_id);
            self.positions = self
                .nodes
                .iter()
                .enumerate()
                .map(|(position, node)| (node.address.node_id, position))
                .collect();
        }
    }
}

impl Node {
    pub(crate) fn view_changed(&mut self, view: ClusterView) {
        self.cluster.is_known = true;
        for info in &view.nodes {
            if self.cluster.update(info) {
                self.node_died(info.address.node_id);
            }
        }
        self.cluster.forget_old();
        self.ask_sooner();
        self.others_changed = true;
    }

    fn node_died(&mut self, node_id: NodeId) {
        self.give_up_on(node_id);
        self.liveness_of_lost_node(node_id, true);
        self.inspections_without(node_id);
        for conn in self.clients.remote_of_node(node_id) {
            self.out.push(Action::Close { conn, why: String::new() });
            self.client_closed(conn);
        }
        for conn in self.clients.with_runtime() {
            self.send(conn, NodeDied { node_id });
        }
    }

    /// The control service was reached; it may have started anew and not know every node (any more).
    pub(crate) fn await_confirmations(&mut self) {
        let others = self.cluster.nodes.iter().skip(1).filter(|node| node.alive);
        self.cluster.unconfirmed = others.map(|node| node.address.node_id).collect();
        if !self.cluster.unconfirmed.is_empty() {
            self.timers.set(self.now + NODE_ABSENT_MS_MAX, Timer::Absent);
        }
    }

    /// Nodes of which the control service has said nothing for so long are dead.
    pub(crate) fn absent_nodes_died(&mut self) {
        for node_id in std::mem::take(&mut self.cluster.unconfirmed) {
            self.cluster.bury(node_id);
            self.node_died(node_id);
        }
        self.cluster.forget_old();
        self.is_dirty = true;
    }

    /// What the node tells of itself; **WHY-1**: with what waits here, and for what.
    #[must_use]
    pub fn info(&self) -> NodeInfo {
        let mut pending: Vec<PendingDemand> = Vec::new();
        for (class, count) in self.queue.demand().take(SHAPES_MAX) {
            let why = self.why_class(class);
            pending.push(PendingDemand {
                resources: class.resources.clone(),
                count: count as u64,
                why,
            });
        }
        for spec in self.actors.demand().take(SHAPES_MAX) {
            let need = &spec.placement_resources;
            // It was placed here: other nodes are out of the question.
            let why = self.cluster.why_here(&taken(need, &spec.strategy));
            pending.push(PendingDemand { resources: need.clone(), count: 1, why });
        }
        let mut available = self.ledger.available().clone();
        // It is not lent by requests but used by objects.
        let unused = self.setup.store_size.saturating_sub(self.objects.used());
        if self.ledger.total().get(STORE).0 > 0 {
            available.set(STORE, Quantity::from_f64(unused as f64));
        }
        NodeInfo {
            address: self.setup.address.clone(),
            alive: true,
            total: self.ledger.total().clone(),
            available,
            labels: self.setup.labels.clone(),
            name: self.setup.name.clone(),
            pid: self.setup.pid,
            is_head: self.setup.is_head,
            pending,
            session_dir: self.setup.session_dir.clone(),
            hostname: self.setup.hostname.clone(),
            cause: String::new(),
            version: self.version,
            object_store_used: self.objects.used(),
            workers: self.pool.workers.len() as u32,
            metrics_port: self.setup.metrics_port,
            gpus: self.gpus.clone(),
        }
    }
}
