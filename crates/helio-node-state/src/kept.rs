//! Room that is kept free for actors and placement groups which the control service has still to place.
//!
//! Leases go from task to task within the node, so that what others see of it is never free while tasks wait. What is
//! asked back for those who wait elsewhere is therefore lent to no task until it is used, or for
//! [`KEPT_FREE_MS_MAX`].

use helio_types::ResourceSet;

use crate::context::Context;
use crate::limits::KEPT_FREE_MS_MAX;
use crate::timers::Timer;

/// The resources that no task may be lent, and until when.
#[derive(Debug, Default)]
pub(crate) struct KeptFree {
    resources: ResourceSet,
    until: u64,
}

impl KeptFree {
    /// Keeps this much from now on, in place of what was kept.
    pub(crate) fn keep(&mut self, resources: ResourceSet, ctx: &mut Context) {
        self.resources = resources;
        let until = ctx.now() + KEPT_FREE_MS_MAX;
        assert!(until >= self.until, "room would be lent to tasks that others were asked for");
        self.until = until;
        ctx.set_timer(self.until, Timer::Kept);
        ctx.capacity_changed();
    }

    /// Returns the resources that are kept free at `now`.
    pub(crate) fn resources(&self, now: u64) -> Option<&ResourceSet> {
        let is_bounded = self.until <= now + KEPT_FREE_MS_MAX;
        assert!(is_bounded, "room would be kept from tasks for longer than anybody waits for it");
        (now < self.until && !self.resources.is_empty()).then_some(&self.resources)
    }

    /// Returns the part of the free resources that tasks may have.
    pub(crate) fn left_of(&self, free: &ResourceSet, now: u64) -> ResourceSet {
        self.resources(now).map_or_else(|| free.clone(), |kept| free.without(kept))
    }

    /// Takes resources from those kept free, because a request for which they may have been kept
    /// has used them.
    pub(crate) fn on_used(&mut self, resources: &ResourceSet) {
        self.resources = self.resources.without(resources);
    }
}
