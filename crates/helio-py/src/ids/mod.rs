//! Ray's id classes: fixed-size byte strings with a class each.

mod actor;
mod base;
mod job;
mod placement_group;
mod plain;
mod task;

pub(crate) use actor::ActorID;
pub(crate) use base::{BaseID, random};
pub(crate) use job::JobID;
pub(crate) use placement_group::PlacementGroupID;
pub(crate) use plain::{ActorClassID, ClusterID, FunctionID, NodeID, UniqueID, WorkerID};
pub(crate) use task::TaskID;
