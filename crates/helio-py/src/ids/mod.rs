//! Ray's id classes: fixed-size byte strings with a class each.

mod actor;
mod base;
mod job;
mod placement_group;
mod plain;
mod task;

pub(crate) use actor::ActorID;
pub(crate) use base::BaseID;
pub(crate) use job::JobID;
pub(crate) use placement_group::PlacementGroupID;
pub(crate) use plain::{ActorClassID, ClusterID, FunctionID, NodeID, UniqueID, WorkerID};
pub(crate) use task::TaskID;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

/// Fills `bytes` with randomness.
pub(crate) fn random(bytes: &mut [u8]) -> PyResult<()> {
    getrandom::fill(bytes).map_err(|error| PyOSError::new_err(format!("no randomness: {error}")))
}
