//! Events of placement groups: bundles that this node holds, and groups that requests wait for.

use helio_proto::group::{
    BundlesHeld, CommitBundles, GroupNews, HeldBundle, ReserveBundles, ReturnBundles,
};
use helio_types::{DeathCause, DeathKind, PlacementGroupId, mutant};

use super::Node;
use crate::groups;
use crate::keys::Demand;

impl Node {
    pub(super) fn on_reserve_bundles(&mut self, order: &ReserveBundles) {
        let (group_id, attempt) = (order.group_id, order.attempt);
        for bundle in &order.bundles {
            self.kept.on_used(&bundle.resources);
        }
        let held = self.bundles.hold(order, &mut self.ledger, &mut self.ctx);
        // Where one node has all bundles of a try, nobody else can refuse: it needs no second step.
        let committed = order.commit && held.is_ok();
        if committed {
            self.bundles.lend(group_id, attempt, &mut self.ledger, &mut self.ctx);
        }
        self.cluster.set_own_total(self.ledger.total());
        let refused = held.err().unwrap_or_default();
        self.ctx.tell_control(BundlesHeld { group_id, attempt, committed, refused });
    }

    pub(super) fn on_commit_bundles(&mut self, order: &CommitBundles) {
        let (group_id, attempt) = (order.group_id, order.attempt);
        let committed = self.bundles.holds(group_id, attempt);
        self.bundles.lend(group_id, attempt, &mut self.ledger, &mut self.ctx);
        self.cluster.set_own_total(self.ledger.total());
        let refused = if committed { "" } else { "it does not hold them (any more)" }.to_owned();
        self.ctx.tell_control(BundlesHeld { group_id, attempt, committed, refused });
    }

    pub(super) fn on_return_bundles(&mut self, order: &ReturnBundles) {
        let group_id = order.group_id;
        self.bundles.give_back(group_id, &order.bundles, &mut self.ledger, &mut self.ctx);
        self.cluster.set_own_total(self.ledger.total());
        if self.bundles.has_ending() {
            let cause = if order.removed {
                let sentence = format!("Its placement group {group_id} was removed.");
                DeathCause::new(DeathKind::GroupRemoved, sentence)
            } else {
                let sentence = format!("Its bundle of placement group {group_id} moved elsewhere.");
                DeathCause::new(DeathKind::Unknown, sentence)
            };
            self.end_users_of(group_id, &order.bundles, &cause);
            self.end_unused_bundles();
        }
        if order.removed {
            self.leases.refuse_group(group_id, &groups::removed(group_id), &mut self.ctx);
        }
    }

    /// Ends the leases and actors in bundles that end.
    fn end_users_of(&mut self, group_id: PlacementGroupId, bundles: &[u32], cause: &DeathCause) {
        for (lease_id, worker) in self.leases.of_bundles(group_id, bundles) {
            match worker {
                Some(worker_id) => self.kill_worker(worker_id, Some(cause.clone())),
                None => {
                    self.pool.drop_demand(Demand::Lease(lease_id));
                    self.refuse_lease(lease_id, &groups::removed(group_id));
                }
            }
        }
        for key in self.actors.of_bundles(group_id, bundles) {
            self.stop_actor(key, cause.clone(), false);
        }
    }

    /// Resources were given back: bundles that end may have lost their last user.
    pub(super) fn end_unused_bundles(&mut self) {
        let (leases, actors) = (&self.leases, &self.actors);
        let has_users = |group_id| {
            let is_used = leases.uses_group(group_id) || actors.uses_group(group_id);
            is_used && !mutant!("bundle-given-back-under-its-users")
        };
        self.bundles.end_unused(&mut self.ledger, has_users, &mut self.ctx);
    }

    pub(super) fn on_group_news(&mut self, news: GroupNews) {
        let (group_id, removed) = (news.group_id, news.removed);
        self.groups.on_news(news);
        // No room will ever come for them.
        if removed && !mutant!("removed-group-still-awaited") {
            return self.leases.refuse_group(group_id, &groups::removed(group_id), &mut self.ctx);
        }
        self.ctx.capacity_changed();
    }

    /// Returns the bundles that the node holds, for a control service that has to learn of them again.
    #[must_use]
    pub fn held_bundles(&self) -> Vec<HeldBundle> {
        self.bundles.held()
    }
}
