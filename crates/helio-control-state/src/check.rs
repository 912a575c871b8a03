//! Counts of what the control service holds for others; for tests and the simulator.

/// Counts of the things that the control service holds for others. All zero when nobody uses the cluster.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Jobs that run.
    pub jobs: usize,
    /// Actors that live or wait.
    pub actors: usize,
    /// Names that are taken.
    pub names: usize,
    /// Processes that own actors.
    pub owners: usize,
    /// Actors that have subscribers although they were not created (yet).
    pub unknown: usize,
    /// Reservations for actors and groups.
    pub reservations: usize,
    /// Placement groups that are placed or wait.
    pub groups: usize,
    /// Groups whose placement a request waits for.
    pub awaited: usize,
}

impl Census {
    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
