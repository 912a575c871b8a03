//! The times at which each living node was last heard, and last answered.
//!
//! Every message of every node is noted here, most of them heartbeats with no news. So this table has no
//! more than it needs for that, and finds an entry at once: with thousands of nodes it stays in the
//! processor's caches, which the descriptions of the nodes do not, and a tree would be walked down.

use helio_types::{IdMap, NodeId};

#[derive(Debug, Default)]
struct Heartbeat {
    /// The time at which the newest message of the node arrived.
    heard_ms: u64,
    /// The time at which the node was last answered.
    told_ms: u64,
}

/// The nodes that are alive.
#[derive(Debug, Default)]
pub(crate) struct Heartbeats {
    nodes: IdMap<NodeId, Heartbeat>,
}

impl Heartbeats {
    /// The node is alive, and counts as heard at this time, which may be ahead.
    pub(crate) fn begin(&mut self, node_id: NodeId, heard_ms: u64) {
        self.nodes.entry(node_id).or_default().heard_ms = heard_ms;
    }

    /// The node is dead.
    pub(crate) fn end(&mut self, node_id: NodeId) {
        self.nodes.remove(&node_id);
    }

    /// A message of the node arrived; whether the node is alive.
    pub(crate) fn heard(&mut self, node_id: NodeId, now_ms: u64) -> bool {
        match self.nodes.get_mut(&node_id) {
            Some(node) => {
                assert!(node.told_ms <= now_ms, "a node was answered before it was heard");
                node.heard_ms = now_ms;
                true
            }
            None => false,
        }
    }

    /// Whether it is time to tell the node that it is heard, which counts as done.
    pub(crate) fn is_answer_due(&mut self, node_id: NodeId, now_ms: u64, every_ms: u64) -> bool {
        match self.nodes.get_mut(&node_id) {
            Some(node) => {
                assert!(node.told_ms <= now_ms, "a node would not be told that it is heard");
                let is_due = now_ms - node.told_ms >= every_ms;
                if is_due {
                    node.told_ms = now_ms;
                }
                is_due
            }
            None => false,
        }
    }

    /// Every node counts as heard now.
    pub(crate) fn reset(&mut self, now_ms: u64) {
        for node in self.nodes.values_mut() {
            node.heard_ms = now_ms;
        }
    }

    /// Returns the milliseconds that each node has been silent, in no order.
    pub(crate) fn silences_ms(&self, now_ms: u64) -> impl Iterator<Item = (NodeId, u64)> {
        self.nodes
            .iter()
            .map(move |(node_id, node)| (*node_id, now_ms.saturating_sub(node.heard_ms)))
    }

    /// Whether exactly these nodes are in the table.
    pub(crate) fn is_of(&self, alive: &[NodeId]) -> bool {
        self.nodes.len() == alive.len()
            && alive.iter().all(|node_id| self.nodes.contains_key(node_id))
    }
}
