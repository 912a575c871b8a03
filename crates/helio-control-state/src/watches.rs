//! The table of nodes that are told of the resources of others.
//!
//! If every node were told of all resources of all others, what is sent would grow with the square of
//! their number. A node needs the resources of others for one thing: to choose where a request goes that
//! does not fit at home. So it *watches* at most [`WATCHED_MAX`] others. Of the rest it knows that they
//! are there and what they have in total, and takes them for busy.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use helio_config::control::WATCHED_MAX;
use helio_types::NodeId;

/// The table of nodes that are told of the resources of others.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// The nodes that each node watches, the newest last.
    watched: BTreeMap<NodeId, VecDeque<NodeId>>,
    /// Derived from `watched`.
    watchers: BTreeMap<NodeId, BTreeSet<NodeId>>,
}

impl Watches {
    pub(crate) fn is_watching(&self, node_id: NodeId, other: NodeId) -> bool {
        self.watchers.get(&other).is_some_and(|watchers| watchers.contains(&node_id))
    }

    /// Returns the number of nodes that a node watches.
    pub(crate) fn n_watched(&self, node_id: NodeId) -> usize {
        self.watched.get(&node_id).map_or(0, VecDeque::len)
    }

    /// Returns the nodes that a node watches.
    pub(crate) fn watched_by(&self, node_id: NodeId) -> impl Iterator<Item = NodeId> {
        self.watched.get(&node_id).into_iter().flatten().copied()
    }

    /// The nodes that are told of the resources of a node.
    pub(crate) fn watchers_of(&self, node_id: NodeId) -> impl Iterator<Item = NodeId> {
        self.watchers.get(&node_id).into_iter().flatten().copied()
    }

    /// The node watches another one from now on; answers whom it watches no longer for that.
    pub(crate) fn add(&mut self, node_id: NodeId, other: NodeId) -> Option<NodeId> {
        if node_id == other || self.is_watching(node_id, other) {
            return None;
        }
        let watched = self.watched.entry(node_id).or_default();
        watched.push_back(other);
        let dropped = if watched.len() > WATCHED_MAX { watched.pop_front() } else { None };
        let is_new = self.watchers.entry(other).or_default().insert(node_id);
        assert!(is_new, "a node would watch another twice, and hear of fewer than it may");
        if let Some(dropped) = dropped {
            self.unlist(dropped, node_id);
        }
        dropped
    }

    fn unlist(&mut self, other: NodeId, node_id: NodeId) {
        if let Some(watchers) = self.watchers.get_mut(&other) {
            let removed = watchers.remove(&node_id);
            assert!(removed, "a node would be told for ever of one that it does not watch");
            if watchers.is_empty() {
                self.watchers.remove(&other);
            }
        }
    }

    /// The node is gone.
    pub(crate) fn remove(&mut self, node_id: NodeId) {
        for other in self.watched.remove(&node_id).unwrap_or_default() {
            self.unlist(other, node_id);
        }
        for watcher in self.watchers.remove(&node_id).unwrap_or_default() {
            if let Some(watched) = self.watched.get_mut(&watcher) {
                watched.retain(|other| *other != node_id);
            }
        }
    }

    /// Whether the derived table agrees, and only living nodes are in it.
    pub(crate) fn check(&self, is_alive: impl Fn(NodeId) -> bool) -> Result<(), String> {
        let watched = self
            .watched
            .iter()
            .flat_map(|(node_id, others)| others.iter().map(move |other| (*other, *node_id)));
        let watched: BTreeSet<(NodeId, NodeId)> = watched.collect();
        let listed = self
            .watchers
            .iter()
            .flat_map(|(other, watchers)| watchers.iter().map(move |node_id| (*other, *node_id)));
        if !listed.eq(watched.iter().copied()) {
            return Err("the index of watchers is not that of the watched nodes".to_owned());
        }
        if !watched.iter().all(|(other, node_id)| is_alive(*other) && is_alive(*node_id)) {
            return Err("a dead node watches or is watched".to_owned());
        }
        Ok(())
    }
}
