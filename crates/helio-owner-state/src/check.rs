//! Counts of an owner's tables, for tests, the simulator and release assertions.

/// The number of entries in each table. All zero when this process holds nothing and owes nothing
/// (LIMIT-1: nothing grows with the age of the process).
#[derive(Debug, Default, PartialEq, Eq, Clone)]
pub struct Census {
    /// Objects, its own and borrowed ones.
    pub objects: usize,
    /// Unfinished calls.
    pub tasks: usize,
    /// Calls that are remembered to make their returns again.
    pub lineages: usize,
    /// Leases.
    pub leases: usize,
    /// Lease requests that were not answered.
    pub requests: usize,
    /// Actors that it knows.
    pub actors: usize,
    /// Borrows that their owners have not confirmed.
    pub unconfirmed: usize,
    /// Frames that wait for confirmations.
    pub gated: usize,
    /// Calls whose returns it holds for their callers.
    pub returned: usize,
    /// Generators that are being read.
    pub streams: usize,
    /// Peers of whom it has asked whether they live.
    pub suspects: usize,
}

impl Census {
    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
