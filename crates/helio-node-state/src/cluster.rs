//! The view of the cluster: what is known here of each node, and where a request may go.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use helio_proto::control::{NodeInfo, Strategy};
use helio_scheduler::{NodeIndex, NodeView, Placement, place, why};
use helio_types::{NodeAddress, NodeId, ResourceSet, mutant};

use crate::context::Context;
use crate::limits::{DEAD_NODES_MAX, NODE_ABSENT_MS_MAX, VIEW_LAG_MS_MAX};
use crate::setup::Setup;
use crate::timers::Timer;

#[derive(Debug)]
pub(crate) struct Cluster {
    own: NodeId,
    /// The nodes that are alive: this one first, then the others in the order in which they were heard
    /// of.
    nodes: NodeIndex,
    versions: BTreeMap<NodeId, u64>,
    /// Dead nodes, the newest last.
    dead: VecDeque<NodeId>,
    /// The addresses of dead nodes.
    dead_addresses: BTreeMap<NodeId, NodeAddress>,
    /// The nodes that took over the objects of nodes that have left.
    heirs: BTreeMap<NodeId, NodeAddress>,
    /// Nodes that the control service has not spoken of since it was reached again. One that started
    /// anew does not know those that died while it was away, and will never say so.
    unconfirmed: BTreeSet<NodeId>,
    /// The time at which the nodes that are absent count as dead.
    absent_at: u64,
    /// Resources that were subtracted from the view of a node for requests sent there, each with the time until
    /// which that counts. A limit is needed because a node on which nothing changed (the request was withdrawn, or
    /// its task was quick) sends no news.
    promised: VecDeque<(u64, NodeId, ResourceSet)>,
    /// Raised with every placement.
    cursor: u64,
    is_known: bool,
}

impl Cluster {
    pub(crate) fn new(setup: &Setup) -> Self {
        let view = NodeView {
            address: setup.address.clone(),
            alive: true,
            is_draining: false,
            is_guest: setup.is_guest,
            total: setup.total.clone(),
            available: setup.total.clone(),
            labels: setup
                .labels
                .iter()
                .map(|label| (label.key.clone(), label.value.clone()))
                .collect(),
        };
        let mut nodes = NodeIndex::default();
        nodes.set(view);
        Self {
            own: setup.address.node_id,
            nodes,
            versions: BTreeMap::new(),
            dead: VecDeque::new(),
            dead_addresses: BTreeMap::new(),
            heirs: BTreeMap::new(),
            unconfirmed: BTreeSet::new(),
            absent_at: 0,
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
        let view = NodeView { total: total.clone(), ..self.own_view().clone() };
        self.nodes.set(view);
    }

    pub(crate) fn set_own_available(&mut self, available: &ResourceSet) {
        self.nodes.change_available(self.own, |own| own.clone_from(available));
    }

    /// Whether nothing is placed here any more.
    pub(crate) fn set_own_draining(&mut self, is_draining: bool) {
        let view = NodeView { is_draining, ..self.own_view().clone() };
        self.nodes.set(view);
    }

    /// Whether this node offers itself for work.
    pub(crate) fn is_own_open(&self) -> bool {
        !self.own_view().is_draining
    }

    /// The node to which this one gives its objects: one that stays, with the largest store.
    pub(crate) fn heir_of_own(&self) -> Option<NodeAddress> {
        let others = self.nodes.alive().skip(1).filter(|node| !node.is_draining && !node.is_guest);
        // The largest store has the best chance to hold all of them.
        let best = others.max_by_key(|node| node.total.get("object_store_memory").0)?;
        Some(best.address.clone())
    }

    /// Returns the node that took over the objects of a node that has left. That heir may have left since, too.
    pub(crate) fn heir(&self, node_id: NodeId) -> Option<NodeAddress> {
        let mut heir = self.heirs.get(&node_id)?;
        // Bounded: wrong news that two nodes are each other's heirs would go round for ever.
        for _ in 0..self.heirs.len() {
            match self.heirs.get(&heir.node_id) {
                Some(next) => heir = next,
                None => break,
            }
        }
        Some(heir.clone())
    }

    /// Returns the view of this node; it is never removed, and so stays the first.
    fn own_view(&self) -> &NodeView {
        let first = &self.nodes.views()[0];
        assert!(
            first.address.node_id == self.own,
            "another node's room would be lent as this one's"
        );
        first
    }

    /// A node's address, and whether it is alive.
    pub(crate) fn address(&self, node_id: NodeId) -> Option<(NodeAddress, bool)> {
        let alive = self.nodes.get(node_id).map(|node| (node.address.clone(), true));
        alive.or_else(|| self.dead_addresses.get(&node_id).map(|address| (address.clone(), false)))
    }

    /// The other nodes that are alive.
    pub(crate) fn others_alive(&self) -> Vec<NodeAddress> {
        self.nodes.alive().skip(1).map(|node| node.address.clone()).collect()
    }

    /// Chooses the node for a request: any node, or only this one if it may not spill.
    pub(crate) fn place(
        &mut self,
        takes: &ResourceSet,
        strategy: &Strategy,
        may_spill: bool,
        touched: &[NodeId],
        now: u64,
    ) -> Placement {
        // No news have come of the node: what was sent there found no room, or ended at once.
        while self.promised.front().is_some_and(|(until, _, _)| *until <= now) {
            let Some((_, node_id, need)) = self.promised.pop_front() else { break };
            self.nodes.change_available(node_id, |available| available.add(&need));
        }
        let (own, cursor) = (Some(self.own), self.cursor);
        let placement = match may_spill {
            true => self.nodes.place(own, takes, strategy, cursor, touched),
            false => place(&self.nodes.views()[..1], own, takes, strategy, cursor, touched),
        };
        // Only what was placed takes a turn: a request that is looked at three times would else go to
        // the same one of three nodes for ever.
        self.cursor += u64::from(matches!(placement, Placement::On(_)));
        placement
    }

    /// **WHY-1** What a request waits for.
    pub(crate) fn why(&self, need: &ResourceSet, strategy: &Strategy) -> String {
        why(self.nodes.views(), need, strategy)
    }

    /// Whether the node was in the cluster and is no more, as far as is known here.
    pub(crate) fn is_gone(&self, node_id: NodeId) -> bool {
        self.nodes.get(node_id).is_none()
    }

    /// Whether nothing but resources keeps a request from this node.
    pub(crate) fn may_run_here(&self, strategy: &Strategy) -> bool {
        let is_named = strategy.node_id.is_nil() || strategy.node_id == self.own;
        strategy.labels.is_empty() && is_named
    }

    /// Returns the number of nodes.
    pub(crate) fn size(&self) -> usize {
        self.nodes.len()
    }

    /// Returns this node's resources: in total, and free.
    pub(crate) fn own(&self) -> (&ResourceSet, &ResourceSet) {
        let own = self.own_view();
        (&own.total, &own.available)
    }

    /// **WHY-1** What an actor that was sent here waits for.
    pub(crate) fn why_here(&self, need: &ResourceSet) -> String {
        why(&self.nodes.views()[..1], need, &Strategy::default())
    }

    /// A request goes to that node: until news of it come, what the request needs counts as taken.
    pub(crate) fn spill_to(
        &mut self,
        node_id: NodeId,
        need: &ResourceSet,
        now: u64,
    ) -> Option<NodeAddress> {
        self.nodes.change_available(node_id, |available| available.subtract(need));
        let address = self.nodes.get(node_id)?.address.clone();
        self.promised.push_back((now + VIEW_LAG_MS_MAX, node_id, need.clone()));
        Some(address)
    }

    /// The control service tells of a node. Returns whether it has just died.
    pub(crate) fn on_node_info(&mut self, info: &NodeInfo) -> bool {
        let node_id = info.address.node_id;
        self.unconfirmed.remove(&node_id);
        let version = self.versions.entry(node_id).or_default();
        // Older news than what is known, of a node that still lives. A death is news whatever its number.
        if info.version < *version && info.alive {
            return false;
        }
        *version = info.version;
        // The node's own figures count what was sent to it.
        self.promised.retain(|(_, promised_to, _)| *promised_to != node_id);
        // Nobody knows better than the node itself how it is.
        if node_id == self.own {
            return false;
        }
        if info.alive {
            self.dead_addresses.remove(&node_id);
            self.nodes.set(NodeView::from(info));
            return false;
        }
        if !info.heir.node_id.is_nil() {
            self.heirs.insert(node_id, info.heir.clone());
        }
        let is_news = !self.dead_addresses.contains_key(&node_id);
        self.remember_dead(info.address.clone());
        is_news
    }

    fn remember_dead(&mut self, address: NodeAddress) {
        let node_id = address.node_id;
        assert!(node_id != self.own, "a node that takes itself for dead places nothing any more");
        self.nodes.remove(node_id);
        if self.dead_addresses.insert(node_id, address).is_none() {
            self.dead.push_back(node_id);
        }
    }

    pub(crate) fn mark_dead(&mut self, node_id: NodeId) {
        if let Some(node) = self.nodes.get(node_id) {
            self.remember_dead(node.address.clone());
        }
    }

    /// Forgets the oldest of the dead nodes. **LIMIT-1** [`DEAD_NODES_MAX`] are remembered.
    pub(crate) fn forget_old(&mut self) {
        while self.dead.len() > DEAD_NODES_MAX {
            let Some(node_id) = self.dead.pop_front() else { return };
            // One that came back stands in the list still, and is not dead.
            if self.dead_addresses.remove(&node_id).is_some() {
                self.versions.remove(&node_id);
                self.heirs.remove(&node_id);
            }
        }
    }

    /// The control service told of all nodes that it knows.
    pub(crate) fn on_view(&mut self) {
        self.is_known = true;
    }

    /// The control service was reached; it may have started anew and not know every node (any more).
    pub(crate) fn await_confirmations(&mut self, ctx: &mut Context) {
        let others = self.nodes.alive().skip(1);
        self.unconfirmed = others.map(|node| node.address.node_id).collect();
        self.wait_until(ctx.now() + NODE_ABSENT_MS_MAX, ctx);
    }

    fn wait_until(&mut self, absent_at: u64, ctx: &mut Context) {
        self.absent_at = absent_at;
        if !self.unconfirmed.is_empty() {
            ctx.set_timer(absent_at, Timer::Absent);
        }
    }

    /// Gives other nodes as long again to be spoken of, because this process stood still for so long, or the machine's
    /// clock was set.
    pub(crate) fn on_standstill(&mut self, for_ms: u64, ctx: &mut Context) {
        if !mutant!("own-standstill-taken-for-absence") {
            // The silence was this node's own: others are not to be given up for it.
            self.wait_until(self.absent_at + for_ms, ctx);
        }
    }

    /// The nodes of which the control service has said nothing for so long since it was reached the last time.
    pub(crate) fn take_unconfirmed(&mut self, now: u64) -> BTreeSet<NodeId> {
        match self.absent_at <= now {
            true => std::mem::take(&mut self.unconfirmed),
            false => BTreeSet::new(),
        }
    }

    /// Whether the node is known to be dead; `false` for a node that was never reported.
    pub(crate) fn is_dead(&self, node_id: NodeId) -> bool {
        self.dead_addresses.contains_key(&node_id)
    }
}
