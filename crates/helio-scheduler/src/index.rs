//! The nodes, arranged so that a placement looks at few of them.
//!
//! [`NodeIndex::place`] and [`NodeIndex::plan_group`] choose exactly what [`crate::place`] and
//! [`crate::plan_group`] choose from the same nodes in the same order; a property test compares them.
//! The difference is the cost in nodes: logarithmic instead of linear.
//!
//! - A request has a *shape*: what it needs and the labels that it asks for. For each of the newest
//!   [`SHAPES_MAX`] shapes a [`Tree`] knows how many nodes have room, which is the least used, and which
//!   is the next in turn. A changed node is one path in a tree, and only trees that are used are brought
//!   up to date. The first request of a shape costs one look at every node.
//! - A resource that few nodes have (a bundle, a custom resource) needs no tree: only those nodes are
//!   looked at.
//! - For the bundles of a group nodes that are equal in all that the group asks for form a class
//!   ([`Classes`]), and a class is looked at once.

use std::collections::{BTreeMap, BTreeSet};

use helio_proto::control::{Label, Strategy, StrategyKind};
use helio_types::{IdMap, NodeId, Quantity, ResourceSet, mutant};

use crate::classes::Classes;
use crate::explain::why_infeasible;
use crate::group::{Candidate, Wanted, plan_among};
use crate::policy::{Choice, choose_among, feasible_target};
use crate::tree::Tree;
use crate::{NodeView, Placement};

/// Maximum number of shapes with a tree; the one that was not used for longest makes room. A tree takes
/// 64 bytes for each node.
pub const SHAPES_MAX: usize = 32;

/// Maximum number of kinds of groups with classes of nodes.
const SIGNATURES_MAX: usize = 8;

/// A resource that no more nodes than this have is looked up node by node.
const FEW: usize = 32;

type Shape = (ResourceSet, Vec<(String, String)>);

/// The nodes that placement sees, in the order in which they were added.
#[derive(Debug, Default)]
pub struct NodeIndex {
    /// A node that was removed stays as one that is not alive, until the slots are compacted.
    nodes: Vec<NodeView>,
    slots: IdMap<NodeId, usize>,
    holders: Holders,
    /// The slots that have changed, since the change of number `first_change`.
    changes: Vec<usize>,
    first_change: u64,
    trees: Vec<(Shape, Kept<Tree>)>,
    classes: BTreeMap<(BTreeSet<String>, BTreeSet<String>), Kept<Classes>>,
    /// Raised with every use of a tree or of classes.
    uses: u64,
    visited: u64,
}

/// A value derived from the nodes that is brought up to date when it is used.
#[derive(Debug)]
struct Kept<T> {
    value: T,
    /// The number of the first change that it does not know.
    seen: u64,
    /// The number of the last use.
    used: u64,
}

/// Derived: the slots of living nodes that have a resource, by its name. What many have stands apart: of each node there
/// are names that no other one has, and a search among all of them would read the memory of strangers.
#[derive(Debug, Default)]
struct Holders {
    of_few: BTreeMap<String, BTreeSet<usize>>,
    of_many: BTreeMap<String, BTreeSet<usize>>,
}

impl Holders {
    fn list(&mut self, name: String, slot: usize) {
        if let Some(slots) = self.of_many.get_mut(&name) {
            slots.insert(slot);
            return;
        }
        let slots = self.of_few.entry(name.clone()).or_default();
        slots.insert(slot);
        if slots.len() > FEW {
            let slots = std::mem::take(slots);
            self.of_few.remove(&name);
            self.of_many.insert(name, slots);
        }
    }

    fn unlist(&mut self, name: &str, slot: usize) {
        if let Some(slots) = self.of_many.get_mut(name) {
            slots.remove(&slot);
            if slots.len() <= FEW {
                let slots = std::mem::take(slots);
                self.of_many.remove(name);
                self.of_few.insert(name.to_owned(), slots);
            }
        } else if let Some(slots) = self.of_few.get_mut(name) {
            slots.remove(&slot);
            if slots.is_empty() {
                self.of_few.remove(name);
            }
        }
    }

    /// The nodes that have the rarest resource of a need; `None`: these are many.
    fn of_rarest(&self, need: &ResourceSet) -> Option<Vec<usize>> {
        let names = need.iter().filter(|(_, quantity)| *quantity > Quantity(0));
        let rare = names.filter(|(name, _)| !self.of_many.contains_key(*name));
        let holders = rare.map(|(name, _)| self.of_few.get(name));
        let rarest = holders.min_by_key(|slots| slots.map_or(0, BTreeSet::len))?;
        Some(rarest.into_iter().flatten().copied().collect())
    }
}

impl NodeIndex {
    /// The nodes, in order. Those that were removed may still be among them, not alive.
    #[must_use]
    pub fn views(&self) -> &[NodeView] {
        &self.nodes
    }

    /// The nodes that are alive, in order.
    pub fn alive(&self) -> impl DoubleEndedIterator<Item = &NodeView> {
        self.nodes.iter().filter(|node| node.alive)
    }

    /// A node that is alive.
    #[must_use]
    pub fn get(&self, node_id: NodeId) -> Option<&NodeView> {
        self.slots.get(&node_id).map(|slot| &self.nodes[*slot])
    }

    /// Returns the number of nodes that are alive.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no node is alive.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the number of nodes, and of nodes of trees, that were looked at so far: the cost of
    /// placement, for tests.
    #[must_use]
    pub fn visited(&self) -> u64 {
        self.visited + self.trees.iter().map(|(_, kept)| kept.value.visited()).sum::<u64>()
    }

    /// Adds a node that is alive, or replaces what is known of it.
    pub fn set(&mut self, view: NodeView) {
        assert!(view.alive, "a node that is not alive is removed");
        match self.slots.get(&view.address.node_id).copied() {
            Some(slot) => {
                let former = std::mem::replace(&mut self.nodes[slot], view);
                let is_new = |name: &&String| !former.total.0.contains_key(*name);
                let is_gone = |name: &&String| !self.nodes[slot].total.0.contains_key(*name);
                // Nodes with many bundles have thousands of names, of which few change at a time.
                let new = self.nodes[slot].total.0.keys().filter(is_new).cloned();
                let (new, gone): (Vec<String>, Vec<&String>) =
                    (new.collect(), former.total.0.keys().filter(is_gone).collect());
                gone.into_iter().for_each(|name| self.holders.unlist(name, slot));
                new.into_iter().for_each(|name| self.holders.list(name, slot));
                self.changed(slot);
            }
            None => {
                let slot = self.nodes.len();
                self.slots.insert(view.address.node_id, slot);
                for name in view.total.0.keys() {
                    self.holders.list(name.clone(), slot);
                }
                self.nodes.push(view);
                self.changed(slot);
            }
        }
    }

    /// Changes what is free on a node.
    pub fn change_available(&mut self, node_id: NodeId, change: impl FnOnce(&mut ResourceSet)) {
        if let Some(slot) = self.slots.get(&node_id).copied() {
            change(&mut self.nodes[slot].available);
            self.changed(slot);
        }
    }

    /// A node has so much more than before, and that is free.
    pub fn add(&mut self, node_id: NodeId, more: &ResourceSet) {
        let Some(slot) = self.slots.get(&node_id).copied() else { return };
        for name in more.0.keys().filter(|name| !self.nodes[slot].total.0.contains_key(*name)) {
            self.holders.list(name.clone(), slot);
        }
        self.nodes[slot].total.add(more);
        self.nodes[slot].available.add(more);
        self.changed(slot);
    }

    /// The node is gone.
    pub fn remove(&mut self, node_id: NodeId) {
        let Some(slot) = self.slots.remove(&node_id) else { return };
        for name in self.nodes[slot].total.0.keys() {
            self.holders.unlist(name, slot);
        }
        self.nodes[slot].alive = false;
        self.changed(slot);
        if self.nodes.len() > 2 * self.slots.len() + 16 {
            self.compact();
        }
    }

    fn compact(&mut self) {
        let nodes = std::mem::take(self).nodes;
        for view in nodes.into_iter().filter(|view| view.alive) {
            self.set(view);
        }
    }

    fn changed(&mut self, slot: usize) {
        if self.changes.len() > self.nodes.len().max(64) {
            // A tree that has not been used for so long is made anew when it is.
            self.first_change += self.changes.len() as u64;
            self.changes.clear();
        }
        self.changes.push(slot);
    }

    fn now(&self) -> u64 {
        self.first_change + self.changes.len() as u64
    }

    /// Chooses as [`crate::place`] does, from the same nodes in the same order.
    #[must_use]
    pub fn place(
        &mut self,
        local: Option<NodeId>,
        need: &ResourceSet,
        strategy: &Strategy,
        cursor: u64,
        touched: &[NodeId],
    ) -> Placement {
        match self.choose(local, need, strategy, cursor, touched) {
            Choice::On(node_id) => Placement::On(node_id),
            Choice::Busy => Placement::Busy,
            Choice::Infeasible => {
                Placement::Infeasible(why_infeasible(&self.nodes, need, strategy))
            }
        }
    }

    /// Chooses a node as [`Self::place`] does, without a sentence for a request that no node could ever hold.
    #[must_use]
    pub fn choose(
        &mut self,
        local: Option<NodeId>,
        need: &ResourceSet,
        strategy: &Strategy,
        cursor: u64,
        touched: &[NodeId],
    ) -> Choice {
        let mut answer = self.by_labels(local, need, strategy, &strategy.labels, cursor, touched);
        for fallback in &strategy.fallbacks {
            // A later fallback is worse than an earlier one: the first with room ends the search.
            let is_settled = matches!(answer, Choice::On(_)) && !mutant!("fallback-first");
            if is_settled || mutant!("fallback-ignored") {
                break;
            }
            match self.by_labels(local, need, strategy, &fallback.labels, cursor, touched) {
                Choice::Infeasible => {}
                better => answer = better,
            }
        }
        answer
    }

    fn by_labels(
        &mut self,
        local: Option<NodeId>,
        need: &ResourceSet,
        strategy: &Strategy,
        labels: &[Label],
        cursor: u64,
        touched: &[NodeId],
    ) -> Choice {
        let kind = strategy.kind;
        if kind == StrategyKind::NodeAffinity && !mutant!("affinity-ignored") {
            self.visited += 1;
            let target = self.get(strategy.node_id);
            match target.filter(|node| feasible_target(node, need, labels)) {
                Some(node) if node.available.covers(need) => return Choice::On(strategy.node_id),
                Some(_) => return Choice::Busy,
                None if strategy.soft => {}
                None => return Choice::Infeasible,
            }
        }
        // A resource that few nodes have makes it cheaper to look at these than to keep a tree for the shape.
        let Some(few) = self.holders.of_rarest(need) else {
            let slots = |id: &NodeId| self.slots.get(id).copied();
            let touched: Vec<usize> = touched.iter().filter_map(slots).collect();
            let local = local.as_ref().and_then(slots);
            let tree = self.tree(need, labels);
            let slot = match kind {
                StrategyKind::Spread if !mutant!("spread-tasks-packed") => {
                    tree.next_in_turn(cursor, &touched)
                }
                StrategyKind::Spread
                | StrategyKind::Default
                | StrategyKind::NodeAffinity
                | StrategyKind::PlacementGroup => tree.best(local, cursor, &touched),
            };
            return match slot {
                Some(slot) => Choice::On(self.nodes[slot].address.node_id),
                None if tree.n_feasible() > 0 => Choice::Busy,
                None => Choice::Infeasible,
            };
        };
        self.visited += few.len() as u64;
        let nodes: Vec<&NodeView> = few.iter().map(|slot| &self.nodes[*slot]).collect();
        choose_among(&nodes, local, need, kind, labels, cursor, touched)
    }

    fn tree(&mut self, need: &ResourceSet, labels: &[Label]) -> &mut Tree {
        self.uses += 1;
        let place = self.place_of_tree(need, labels);
        let (now, first) = (self.now(), self.first_change);
        let kept = &mut self.trees[place].1;
        // A new tree has seen more than has ever changed: so it is built here, too.
        if kept.seen < first || kept.seen > now || !kept.value.has_room_for(self.nodes.len()) {
            kept.value.rebuild(&self.nodes);
        } else {
            for slot in &self.changes[(kept.seen - first) as usize..] {
                kept.value.set(*slot, &self.nodes[*slot]);
            }
        }
        (kept.seen, kept.used) = (now, self.uses);
        &mut kept.value
    }

    /// Returns the position of a shape's tree. There are few: comparing a shape with each costs less than copying it to
    /// look it up.
    fn place_of_tree(&mut self, need: &ResourceSet, labels: &[Label]) -> usize {
        let is_same = |((of, selects), _): &(Shape, Kept<Tree>)| {
            let asked = labels.iter().map(|label| (&label.key, &label.value));
            of == need && selects.iter().map(|(key, value)| (key, value)).eq(asked)
        };
        if let Some(place) = self.trees.iter().position(is_same) {
            return place;
        }
        if self.trees.len() >= SHAPES_MAX {
            let oldest = (0..self.trees.len()).min_by_key(|place| self.trees[*place].1.used);
            self.trees.swap_remove(oldest.unwrap_or(0));
        }
        let labeled = labels.iter().map(|label| (label.key.clone(), label.value.clone()));
        let shape = (need.clone(), labeled.collect());
        let kept = Kept { value: Tree::new(need, labels), seen: u64::MAX, used: 0 };
        self.trees.push((shape, kept));
        self.trees.len() - 1
    }

    /// Plans as [`crate::plan_group`] does, from the same nodes in the same order.
    #[must_use]
    pub fn plan_group(&mut self, wanted: Wanted<'_>) -> Option<Vec<(u32, NodeId)>> {
        let signature = wanted.signature();
        let special: BTreeSet<usize> = wanted
            .held
            .iter()
            .chain([&wanted.spec.target])
            .filter_map(|node_id| self.slots.get(node_id).copied())
            .collect();
        self.uses += 1;
        if !self.classes.contains_key(&signature) {
            make_room(&mut self.classes, SIGNATURES_MAX);
        }
        let (now, first) = (self.now(), self.first_change);
        let kept = self.classes.entry(signature).or_insert_with_key(|(names, labels)| Kept {
            value: Classes::new(names, labels),
            seen: u64::MAX,
            used: 0,
        });
        // The list of changes does not go back so far, or the classes are new.
        if kept.seen < first || kept.seen > now {
            self.visited += self.nodes.len() as u64;
            kept.value.rebuild(&self.nodes);
        } else {
            for slot in &self.changes[(kept.seen - first) as usize..] {
                self.visited += 1;
                kept.value.set(*slot, &self.nodes[*slot]);
            }
        }
        (kept.seen, kept.used) = (now, self.uses);
        let candidates = kept.value.candidates(wanted.missing.len(), &special);
        self.visited += candidates.len() as u64;
        let candidates = candidates
            .into_iter()
            .map(|(slot, weight)| Candidate { node: &self.nodes[slot], weight })
            .collect();
        plan_among(candidates, wanted)
    }
}

/// Forgets what was not used for longest, when there are as many as there may be.
fn make_room<K: Ord + Clone, T>(kept: &mut BTreeMap<K, Kept<T>>, max: usize) {
    if kept.len() < max {
        return;
    }
    let oldest = kept.iter().min_by_key(|(_, kept)| kept.used).map(|(key, _)| key.clone());
    if let Some(oldest) = oldest {
        kept.remove(&oldest);
    }
}
