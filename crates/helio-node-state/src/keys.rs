//! The keys by which sub-machines name each other's entries: plain words without a table behind them.

use std::sync::Arc;

use helio_proto::environment::RuntimeEnv;
use helio_types::{ActorId, JobId, LeaseId};

/// The key of one life of an actor: its id and its incarnation.
pub(crate) type ActorKey = (ActorId, u32);

/// The kind of a worker process, its job and its runtime environment. Workers of one kind can stand in for
/// each other.
pub(crate) type PoolKey = (JobId, Arc<RuntimeEnv>);

/// A lease class in its wire form, without its display name. Requests with equal keys are of one class.
pub(crate) type ClassKey = Arc<[u8]>;

/// The holder that a worker process is wanted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Demand {
    Lease(LeaseId),
    Actor(ActorKey),
}
