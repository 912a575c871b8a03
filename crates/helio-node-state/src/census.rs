//! The count of a node's holdings, for tests and the simulator: what is left at the end shows a leak.

use helio_types::ResourceSet;

/// Counts of the things that a node holds for others. All zero when nobody uses it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Registered connections.
    pub clients: usize,
    /// Workers that are lent.
    pub leases: usize,
    /// Requests for workers that wait.
    pub requests: usize,
    /// Worker processes.
    pub workers: usize,
    /// Actors, in whatever state.
    pub actors: usize,
    /// Objects, sealed or being written, and creations that wait.
    pub objects: usize,
    /// Pins on objects.
    pub pins: u32,
    /// Bytes of the object store in use by primary copies and writers.
    pub bytes: u64,
    /// Reads that wait, and reads by other daemons.
    pub pulls: usize,
    /// Tasks that have a place for their arguments or wait for one.
    pub arguments: usize,
    /// Calls to the control service without an answer.
    pub calls: usize,
    /// Followers of actors.
    pub subscriptions: usize,
    /// Questions whether a process lives.
    pub questions: usize,
    /// Bundles of placement groups, in whatever state, and questions about groups.
    pub bundles: usize,
    /// The resources that are lent.
    pub lent: ResourceSet,
}

impl Census {
    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
