//! Nodes that are equal in all that a kind of placement group asks for.

use std::collections::{BTreeMap, BTreeSet};

use helio_types::Quantity;

use crate::NodeView;

/// The quantities of the named resources on a node, in total and free, and the values of the named labels.
type Class = (Vec<(Quantity, Quantity)>, Vec<Option<String>>);

/// The nodes by class.
#[derive(Debug)]
pub(crate) struct Classes {
    names: Vec<String>,
    labels: Vec<String>,
    members: BTreeMap<Class, BTreeSet<usize>>,
    /// The class of each slot; none for a node that is not alive.
    of_slot: Vec<Option<Class>>,
}

impl Classes {
    pub(crate) fn new(names: &BTreeSet<String>, labels: &BTreeSet<String>) -> Self {
        Self {
            names: names.iter().cloned().collect(),
            labels: labels.iter().cloned().collect(),
            members: BTreeMap::new(),
            of_slot: Vec::new(),
        }
    }

    pub(crate) fn rebuild(&mut self, nodes: &[NodeView]) {
        self.members.clear();
        self.of_slot.clear();
        for (slot, node) in nodes.iter().enumerate() {
            self.set(slot, node);
        }
    }

    pub(crate) fn set(&mut self, slot: usize, node: &NodeView) {
        let class = node.is_open().then(|| self.class(node));
        if self.of_slot.len() <= slot {
            self.of_slot.resize(slot + 1, None);
        }
        let before = std::mem::replace(&mut self.of_slot[slot], class.clone());
        // Most changes are of free resources, by which a node stays in its class.
        if before == class {
            return;
        }
        if let Some(before) = before
            && let Some(members) = self.members.get_mut(&before)
        {
            members.remove(&slot);
            if members.is_empty() {
                self.members.remove(&before);
            }
        }
        if let Some(class) = class {
            self.members.entry(class).or_default().insert(slot);
        }
    }

    fn class(&self, node: &NodeView) -> Class {
        let amounts = |name: &String| (node.total.get(name), node.available.get(name));
        let label = |key: &String| node.labels.get(key).cloned();
        (self.names.iter().map(amounts).collect(), self.labels.iter().map(label).collect())
    }

    /// Returns as many nodes of each class as a group of `n` bundles can use, and the special nodes, in the order of
    /// slots. The weight of a node is how many it stands for.
    pub(crate) fn candidates(&self, n: usize, special: &BTreeSet<usize>) -> Vec<(usize, usize)> {
        let mut found: Vec<(usize, usize)> = Vec::new();
        for members in self.members.values() {
            let others = members.iter().filter(|slot| !special.contains(slot)).copied();
            // Equal nodes are as good as each other: more of them than there are bundles would only be looked at for
            // nothing.
            let first = found.len();
            found.extend(others.take(n).map(|slot| (slot, 1)));
            let n_special = special.iter().filter(|slot| members.contains(slot)).count();
            let n_left_out = members.len() - n_special - (found.len() - first);
            if let Some(one) = found.get_mut(first) {
                one.1 += n_left_out;
            }
            found.extend(
                special.iter().filter(|slot| members.contains(slot)).map(|slot| (*slot, 1)),
            );
        }
        found.sort_unstable();
        found
    }
}
