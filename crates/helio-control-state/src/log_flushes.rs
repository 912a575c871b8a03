//! Drivers that wait until all that their workers have printed on other nodes is there. Each node sends the lines
//! that it still has before its answer, over the same connection, and so do they go on to the driver.

use std::collections::{BTreeMap, BTreeSet};

use helio_types::{NodeId, WorkerId};

/// A driver's request: its node, itself, and its number.
pub(crate) type Asker = (NodeId, WorkerId, u64);

#[derive(Debug, Default)]
pub(crate) struct LogFlushes {
    /// The nodes that have not answered.
    awaited: BTreeMap<Asker, BTreeSet<NodeId>>,
}

impl LogFlushes {
    /// A request. Whether it is answered at once, for there is no node to be asked.
    pub(crate) fn add(&mut self, asker: Asker, nodes: BTreeSet<NodeId>) -> bool {
        let is_done = nodes.is_empty();
        assert!(
            !nodes.contains(&asker.0),
            "a driver would wait for its own node, which is not asked"
        );
        if !is_done {
            self.awaited.insert(asker, nodes);
        }
        is_done
    }

    /// A node has answered. Whether it was the last.
    pub(crate) fn on_flushed(&mut self, node_id: NodeId, asker: Asker) -> bool {
        let Some(nodes) = self.awaited.get_mut(&asker) else { return false };
        assert!(!nodes.is_empty(), "a driver would wait for lines of nobody");
        nodes.remove(&node_id);
        let is_done = nodes.is_empty();
        if is_done {
            self.awaited.remove(&asker);
        }
        is_done
    }

    /// A node is gone: nothing more comes of it, and its drivers are gone, too. Returns the requests that waited
    /// for it alone.
    pub(crate) fn on_node_gone(&mut self, node_id: NodeId) -> Vec<Asker> {
        self.awaited.retain(|asker, _| asker.0 != node_id);
        let askers: Vec<Asker> = self.awaited.keys().copied().collect();
        askers.into_iter().filter(|asker| self.on_flushed(node_id, *asker)).collect()
    }

    pub(crate) fn on_client_gone(&mut self, worker_id: WorkerId) {
        self.awaited.retain(|asker, _| asker.1 != worker_id);
    }
}
