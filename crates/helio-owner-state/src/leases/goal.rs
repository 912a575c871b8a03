//! The purposes of requested workers.

use helio_types::{NodeAddress, NodeId};

/// The purpose of a requested worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Goal {
    /// The calls that may run anywhere.
    Any,
    /// The calls that are best run on this node.
    Near(NodeId),
    /// Calls that go round the nodes: it is to be on a node on which there is none yet.
    Another,
}

/// A request that was not granted yet.
#[derive(Debug)]
pub(super) struct Asked {
    /// The node whose daemon got the request; `None` for this node's daemon.
    pub(super) at: Option<NodeAddress>,
    pub(super) goal: Goal,
    /// No node has room that would do, its daemon said; it will be granted when one has.
    pub(super) is_full: bool,
}

impl Goal {
    /// The calls that it is for, as in [`super::line::Line::len_of`].
    pub(super) fn line(self) -> Option<NodeId> {
        match self {
            Self::Near(node) => Some(node),
            Self::Any | Self::Another => None,
        }
    }
}
