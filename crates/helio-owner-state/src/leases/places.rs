//! Positions of calls that wait for a worker.

use helio_types::{IdMap, NodeId, TaskId};

/// The position of a waiting call: its class, the number of calls before it, and the node on which it
/// is best run.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(super) class: usize,
    pub(super) before: usize,
    pub(super) node: Option<NodeId>,
}

/// The places of all calls that wait. To find one call takes as long as the line is; an answer about many looks once.
pub(crate) struct Places(IdMap<TaskId, Place>);

impl Places {
    pub(super) fn new(all: impl Iterator<Item = (TaskId, Place)>) -> Self {
        Self(all.collect())
    }

    pub(crate) fn of(&self, task: TaskId) -> Option<Place> {
        self.0.get(&task).copied()
    }
}
