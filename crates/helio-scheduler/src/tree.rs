//! The nodes that have room for requests of one shape: a tree of counts over the nodes in their order.

use helio_proto::control::Label;
use helio_types::{Quantity, ResourceSet};

use crate::NodeView;
use crate::labels::{Selector, selected};
use crate::policy::packed_use;

/// The sum over the nodes below a place in the tree. Nodes without GPU are counted under 0, those with GPU under 1.
#[derive(Clone, Copy, Debug)]
struct Sum {
    /// Number of nodes that could hold a request.
    feasible: u32,
    /// Numbers of nodes that have room for a request now.
    free: [u32; 2],
    /// The use of the least used among those with room.
    least: [f64; 2],
}

const NONE: Sum = Sum { feasible: 0, free: [0; 2], least: [f64::INFINITY; 2] };

impl Sum {
    fn join(left: Self, right: Self) -> Self {
        let free = |kind: usize| left.free[kind] + right.free[kind];
        let least = |kind: usize| left.least[kind].min(right.least[kind]);
        Self {
            feasible: left.feasible + right.feasible,
            free: [free(0), free(1)],
            least: [least(0), least(1)],
        }
    }

    fn n_free(&self, kinds: Kinds) -> usize {
        (self.free[0] * u32::from(kinds[0]) + self.free[1] * u32::from(kinds[1])) as usize
    }

    fn least(&self, kinds: Kinds) -> f64 {
        let of = |kind: usize| if kinds[kind] { self.least[kind] } else { f64::INFINITY };
        of(0).min(of(1))
    }

    fn has_least(&self, kinds: Kinds, least: f64) -> bool {
        self.n_free(kinds) > 0 && self.least(kinds) == least
    }
}

/// Whether nodes without GPU count, and those with GPU.
type Kinds = [bool; 2];

/// The nodes that have room for one shape of requests.
#[derive(Debug)]
pub(crate) struct Tree {
    need: ResourceSet,
    selectors: Vec<(String, Selector)>,
    /// The root is at 1, the children of `i` at `2 i` and `2 i + 1`, the nodes from `n_leaves` on.
    sums: Vec<Sum>,
    n_leaves: usize,
    visited: u64,
}

impl Tree {
    pub(crate) fn new(need: &ResourceSet, labels: &[Label]) -> Self {
        let selector = |label: &Label| (label.key.clone(), Selector::parse(&label.value));
        Self {
            need: need.clone(),
            selectors: labels.iter().map(selector).collect(),
            sums: Vec::new(),
            n_leaves: 0,
            visited: 0,
        }
    }

    pub(crate) fn visited(&self) -> u64 {
        self.visited
    }

    pub(crate) fn has_room_for(&self, n_nodes: usize) -> bool {
        n_nodes <= self.n_leaves
    }

    pub(crate) fn rebuild(&mut self, nodes: &[NodeView]) {
        self.n_leaves = nodes.len().next_power_of_two();
        self.visited += 2 * self.n_leaves as u64;
        self.sums = vec![NONE; 2 * self.n_leaves];
        for (slot, node) in nodes.iter().enumerate() {
            self.sums[self.n_leaves + slot] = self.leaf(node);
        }
        for place in (1..self.n_leaves).rev() {
            self.sums[place] = Sum::join(self.sums[2 * place], self.sums[2 * place + 1]);
        }
    }

    pub(crate) fn set(&mut self, slot: usize, node: &NodeView) {
        let mut place = self.n_leaves + slot;
        self.sums[place] = self.leaf(node);
        while place > 1 {
            place /= 2;
            self.visited += 1;
            self.sums[place] = Sum::join(self.sums[2 * place], self.sums[2 * place + 1]);
        }
    }

    fn leaf(&self, node: &NodeView) -> Sum {
        let is_feasible = node.is_open()
            && node.total.covers(&self.need)
            && selected(&self.selectors, &node.labels);
        if !is_feasible {
            return NONE;
        }
        let mut leaf = Sum { feasible: 1, ..NONE };
        if node.available.covers(&self.need) {
            let kind = usize::from(node.total.get("GPU") > Quantity(0));
            leaf.free[kind] = 1;
            leaf.least[kind] = packed_use(node);
        }
        leaf
    }

    fn root(&self) -> Sum {
        self.sums.get(1).copied().unwrap_or(NONE)
    }

    pub(crate) fn n_feasible(&self) -> usize {
        self.root().feasible as usize
    }

    /// The first node at `from` or behind for which `holds` is true. It is true above whatever it is
    /// true for.
    fn first_from(&mut self, from: usize, holds: impl Fn(&Sum) -> bool) -> Option<usize> {
        if from >= self.n_leaves {
            return None;
        }
        let mut place = self.n_leaves + from;
        while !holds(&self.sums[place]) {
            self.visited += 1;
            // Up until there is something to the right, and there.
            while place % 2 == 1 {
                place /= 2;
                self.visited += 1;
            }
            if place == 0 {
                return None;
            }
            place += 1;
        }
        while place < self.n_leaves {
            self.visited += 1;
            place *= 2;
            if !holds(&self.sums[place]) {
                place += 1;
            }
        }
        Some(place - self.n_leaves)
    }

    /// The node of number `n`, from 0, among those that `count` counts.
    fn nth(&mut self, mut n: usize, count: impl Fn(&Sum) -> usize) -> usize {
        let mut place = 1;
        while place < self.n_leaves {
            self.visited += 1;
            place *= 2;
            let left = count(&self.sums[place]);
            if n >= left {
                n -= left;
                place += 1;
            }
        }
        place - self.n_leaves
    }

    /// The policy "spread": from the node in turn on the first that has room, but for those `touched`.
    pub(crate) fn next_in_turn(&mut self, cursor: u64, touched: &[usize]) -> Option<usize> {
        let n_feasible = self.n_feasible();
        if n_feasible == 0 {
            return None;
        }
        let start = self.nth((cursor % n_feasible as u64) as usize, |sum| sum.feasible as usize);
        self.first_untouched(start, touched).or_else(|| self.first_untouched(0, touched))
    }

    fn first_untouched(&mut self, mut from: usize, touched: &[usize]) -> Option<usize> {
        loop {
            let slot = self.first_from(from, |sum| sum.n_free([true, true]) > 0)?;
            if !touched.contains(&slot) {
                return Some(slot);
            }
            from = slot + 1;
        }
    }

    /// The default policy: a node that holds arguments, else of the least used nodes the local one, else the
    /// next in turn.
    pub(crate) fn best(
        &mut self,
        local: Option<usize>,
        cursor: u64,
        touched: &[usize],
    ) -> Option<usize> {
        let root = self.root();
        let avoids_gpus = self.need.get("GPU") == Quantity(0) && root.free[0] > 0;
        let kinds = [true, !avoids_gpus];
        let n_free = root.n_free(kinds);
        if n_free == 0 {
            return None;
        }
        for slot in touched {
            self.visited += 1;
            if self.sums[self.n_leaves + slot].n_free(kinds) > 0 {
                return Some(*slot);
            }
        }
        let least = root.least(kinds);
        if let Some(slot) = local {
            self.visited += 1;
            if self.sums[self.n_leaves + slot].has_least(kinds, least) {
                return Some(slot);
            }
        }
        let start = self.nth((cursor % n_free as u64) as usize, |sum| sum.n_free(kinds));
        let is_best = |sum: &Sum| sum.has_least(kinds, least);
        self.first_from(start, is_best).or_else(|| self.first_from(0, is_best))
    }
}
