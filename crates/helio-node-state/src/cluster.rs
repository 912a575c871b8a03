//! The view of the cluster: what is known here of each node, and where a request may go.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use helio_proto::control::{NodeInfo, Strategy};
use helio_scheduler::{NodeView, Placement, place, why};
use helio_types::{NodeAddress, NodeId, ResourceSet};

use crate::context::Context;
use crate::limits::{DEAD_NODES_MAX, NODE_ABSENT_MS_MAX, VIEW_LAG_MS_MAX};
use crate::setup::Setup;
use crate::timers::Timer;

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

    /// The control service tells of a node. Returns whether it has just died.
    pub(crate) fn on_node_info(&mut self, info: &NodeInfo) -> bool {
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

    pub(crate) fn mark_dead(&mut self, node_id: NodeId) {
        if let Some(position) = self.positions.get(&node_id) {
            self.nodes[*position].alive = false;
            self.dead.push_back(node_id);
        }
    }

    /// Forgets the oldest of the dead nodes. **LIMIT-1** [`DEAD_NODES_MAX`] are remembered.
    pub(crate) fn forget_old(&mut self) {
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

    /// The control service told of all nodes that it knows.
    pub(crate) fn on_view(&mut self) {
        self.is_known = true;
    }

    /// The control service was reached; it may have started anew and not know every node (any more).
    pub(crate) fn await_confirmations(&mut self, ctx: &mut Context) {
        let others = self.nodes.iter().skip(1).filter(|node| node.alive);
        self.unconfirmed = others.map(|node| node.address.node_id).collect();
        if !self.unconfirmed.is_empty() {
            ctx.set_timer(ctx.now() + NODE_ABSENT_MS_MAX, Timer::Absent);
        }
    }

    /// The nodes of which the control service has said nothing since it was reached again.
    pub(crate) fn take_unconfirmed(&mut self) -> BTreeSet<NodeId> {
        std::mem::take(&mut self.unconfirmed)
    }

    /// Whether the node is known to be dead; of a node that nobody has heard of that is not known.
    pub(crate) fn is_dead(&self, node_id: NodeId) -> bool {
        self.positions.get(&node_id).is_some_and(|position| !self.nodes[*position].alive)
    }
}
