//! Placement: a pure function from what is known of the nodes to the node that takes a request.
//!
//! Both the control service (actors) and every node's daemon (tasks that do not fit at home) place by
//! [`place`]. It reads a view and changes nothing; the caller that acts on its answer takes the resources
//! out of the view, so that a burst of requests is spread. [`place`] looks at every node; [`NodeIndex`]
//! makes the same choices and looks at few.
//!
//! **LAYER-1** No clock and no randomness: what should differ from call to call comes in as `cursor`.
//! **WHY-1** [`why`] says in a sentence what a request waits for, from the same view and the same
//! filters by which [`place`] decided.
//!
//! The policies, by [`StrategyKind`]:
//!
//! | strategy | picks |
//! |---|---|
//! | default | nodes that hold the arguments; then the local one, while it is under half used; then the least used. Work without GPU avoids nodes with GPUs while others are free |
//! | spread | the next node in turn that has room, but for those where the asking process keeps workers |
//! | node affinity | that node, waiting for it when it is busy; `soft`: any other when it is gone or too small |
//! | placement group | like default: the resources asked for name the bundle, see `bundle` |
//!
//! Where the bundles of a group go, says [`plan_group`].
//!
//! Label selectors narrow the nodes before any policy looks at them.

#![forbid(unsafe_code)]

mod bundle;
mod classes;
mod explain;
mod group;
mod index;
mod labels;
mod policy;
mod tree;

use std::collections::BTreeMap;

use helio_proto::control::{NodeInfo, Strategy, StrategyKind};
use helio_types::{NodeAddress, NodeId, ResourceSet};

pub use bundle::{
    GroupBundle, as_asked, in_bundles, is_of_bundle, lent_by_bundle, taken, without_bundles,
};
pub use explain::{plain_name, why, why_infeasible};
pub use group::{Wanted, plan_group, why_group};
pub use index::{NodeIndex, SHAPES_MAX};
pub use labels::Selector;
pub use policy::{Choice, place};

/// The view of a node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeView {
    /// The node's id and the address of its daemon.
    pub address: NodeAddress,
    /// A node that is not is never picked.
    pub alive: bool,
    /// The node takes no new work, like one that is not alive.
    pub is_draining: bool,
    /// The node never takes work: the machine of a driver outside the cluster.
    pub is_guest: bool,
    /// The resources of the node.
    pub total: ResourceSet,
    /// The free part of its resources.
    pub available: ResourceSet,
    /// The labels of the node.
    pub labels: BTreeMap<String, String>,
}

impl NodeView {
    /// Whether something may be placed on the node.
    pub(crate) fn is_open(&self) -> bool {
        self.alive && !self.is_draining && !self.is_guest
    }
}

impl From<&NodeInfo> for NodeView {
    fn from(info: &NodeInfo) -> Self {
        Self {
            address: info.address.clone(),
            alive: info.alive,
            is_draining: info.is_draining,
            is_guest: info.is_guest,
            total: info.total.clone(),
            available: info.available.clone(),
            labels: info
                .labels
                .iter()
                .map(|label| (label.key.clone(), label.value.clone()))
                .collect(),
        }
    }
}

/// The place of a request, with the reason if there is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Placement {
    /// The node has room for the request now.
    On(NodeId),
    /// Nowhere now; a node that could hold it is full.
    Busy,
    /// Nowhere, however long it waits, unless a node joins. Says why: "no node has 2 GPU (the
    /// largest has 1)".
    Infeasible(String),
}

/// Whether a request that found no feasible node is to fail rather than wait for one to join: it is
/// bound to a node, and no other will do (`TaskUnschedulableError`, `ActorUnschedulableError`).
#[must_use]
pub fn fails_when_infeasible(strategy: &Strategy) -> bool {
    strategy.kind == StrategyKind::NodeAffinity && !strategy.soft
}
