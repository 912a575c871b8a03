//! Bundles of placement groups that this node holds.
//!
//! ```text
//!   Reserve ─▶ held ─ Commit ─▶ lends ─ Return ─▶ ends ─ its last user is gone ─▶ (none)
//!               └────────────── Return ─────────────────────────────────────────▶ (none)
//! ```
//! A held bundle's resources are out of the node's ledger. One that lends has put them back under names
//! of its own ([`helio_scheduler::lent_by_bundle`]). One that ends takes no new users, and the workers
//! of the users that it has are killed; when they are gone, so that their memory and devices are free, its
//! resources are the node's again.

use std::collections::BTreeMap;

use helio_proto::control::Strategy;
use helio_proto::group::{HeldBundle, ReserveBundles};
use helio_scheduler::lent_by_bundle;
use helio_types::{Assigned, PlacementGroupId, ResourceSet};

use crate::context::Context;
use crate::ledger::Ledger;

#[derive(Debug)]
struct Bundle {
    /// The try of the control service that brought it.
    attempt: u32,
    assigned: Assigned,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Held,
    Lends,
    Ends,
}

/// The bundles that this node holds, by placement group and index.
#[derive(Debug, Default)]
pub(crate) struct Bundles {
    all: BTreeMap<(PlacementGroupId, u32), Bundle>,
    /// Number of bundles that end.
    ending: usize,
}

impl Bundles {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether bundles wait for the end of their last users.
    pub(crate) fn has_ending(&self) -> bool {
        self.ending > 0
    }

    /// The bundles that keep some of the resource for themselves.
    pub(crate) fn holders<'a>(
        &'a self,
        resource: &'a str,
    ) -> impl Iterator<Item = (PlacementGroupId, u32)> {
        let holds = move |bundle: &Bundle| {
            bundle.stage != Stage::Ends && bundle.assigned.resources.get(resource).0 > 0
        };
        self.all.iter().filter(move |(_, bundle)| holds(bundle)).map(|(key, _)| *key)
    }

    /// Returns the bundles that the node holds, for a control service that has to learn of them again.
    pub(crate) fn held(&self) -> Vec<HeldBundle> {
        let open = self.all.iter().filter(|(_, bundle)| bundle.stage != Stage::Ends);
        let row = |((group_id, number), bundle): (&(PlacementGroupId, u32), &Bundle)| HeldBundle {
            group_id: *group_id,
            bundle: *number,
            attempt: bundle.attempt,
            committed: bundle.stage == Stage::Lends,
        };
        open.map(row).collect()
    }

    /// The bundles of a group, with their numbers.
    fn of_group(&self, group_id: PlacementGroupId) -> impl Iterator<Item = (u32, &Bundle)> {
        let range = (group_id, 0)..=(group_id, u32::MAX);
        self.all.range(range).map(|((_, number), bundle)| (*number, bundle))
    }

    /// Whether bundles of this try are held or lend.
    pub(crate) fn holds(&self, group_id: PlacementGroupId, attempt: u32) -> bool {
        let is_it = |bundle: &Bundle| bundle.attempt == attempt && bundle.stage != Stage::Ends;
        self.of_group(group_id).any(|(_, bundle)| is_it(bundle))
    }

    /// Takes the bundles' resources out of the ledger: of all of them or none.
    pub(crate) fn hold(
        &mut self,
        order: &ReserveBundles,
        ledger: &mut Ledger,
        ctx: &mut Context,
    ) -> Result<(), String> {
        let mut taken: Vec<u32> = Vec::new();
        for wanted in &order.bundles {
            let key = (order.group_id, wanted.bundle);
            match self.all.get(&key) {
                // The order is heard again.
                Some(bundle) if bundle.attempt == order.attempt && bundle.stage != Stage::Ends => {
                    continue;
                }
                Some(_) => {
                    // All or none: what this order has taken so far goes back.
                    self.give_back(order.group_id, &taken, ledger, ctx);
                    return Err("what it held of the group before is not free yet".to_owned());
                }
                None => {}
            }
            let Some(assigned) = ledger.take(&wanted.resources, &Strategy::default()) else {
                self.give_back(order.group_id, &taken, ledger, ctx);
                let (free, need) = (ledger.available(), &wanted.resources);
                return Err(format!(
                    "{free} is free of the {need} that bundle {} needs",
                    wanted.bundle
                ));
            };
            let bundle = Bundle { attempt: order.attempt, assigned, stage: Stage::Held };
            let before = self.all.insert(key, bundle);
            assert!(
                before.is_none(),
                "what the first of two bundles has taken is never given back"
            );
            taken.push(wanted.bundle);
        }
        ctx.capacity_changed();
        Ok(())
    }

    /// The held bundles of this try lend their resources.
    pub(crate) fn lend(
        &mut self,
        group_id: PlacementGroupId,
        attempt: u32,
        ledger: &mut Ledger,
        ctx: &mut Context,
    ) {
        for ((_, number), bundle) in self.all.range_mut((group_id, 0)..=(group_id, u32::MAX)) {
            if bundle.attempt == attempt && bundle.stage == Stage::Held {
                bundle.stage = Stage::Lends;
                ledger.add_bundle(group_id, *number, &bundle.assigned);
                ctx.capacity_changed();
            }
        }
    }

    /// Gives bundles back, or begins to.
    pub(crate) fn give_back(
        &mut self,
        group_id: PlacementGroupId,
        numbers: &[u32],
        ledger: &mut Ledger,
        ctx: &mut Context,
    ) {
        for number in numbers {
            let key = (group_id, *number);
            let Some(bundle) = self.all.get_mut(&key) else { continue };
            match bundle.stage {
                Stage::Held => {
                    if let Some(bundle) = self.all.remove(&key) {
                        ledger.give_back(&bundle.assigned, &Strategy::default(), false);
                    }
                }
                // Tasks and actors may still use parts of it: it is the node's again with the last
                // of them (`end_unused`).
                Stage::Lends => {
                    bundle.stage = Stage::Ends;
                    self.ending += 1;
                    ledger.close_bundle(group_id, *number, &bundle.assigned.resources);
                }
                Stage::Ends => {}
            }
            ctx.capacity_changed();
        }
    }

    /// The bundles that end and whose groups have no user here any more are the node's again.
    pub(crate) fn end_unused(
        &mut self,
        ledger: &mut Ledger,
        has_users: impl Fn(PlacementGroupId) -> bool,
        ctx: &mut Context,
    ) {
        if self.ending == 0 {
            return;
        }
        let ending = self.all.iter().filter(|(_, bundle)| bundle.stage == Stage::Ends);
        let ending: Vec<(PlacementGroupId, u32)> = ending.map(|(key, _)| *key).collect();
        // `has_users` is asked once a group, which may have thousands of bundles here.
        let mut is_used: BTreeMap<PlacementGroupId, bool> = BTreeMap::new();
        for (group_id, number) in ending {
            if *is_used.entry(group_id).or_insert_with(|| has_users(group_id)) {
                continue;
            }
            if let Some(bundle) = self.all.remove(&(group_id, number)) {
                assert!(self.ending > 0, "a bundle that ends was counted");
                self.ending -= 1;
                ledger.remove_bundle(group_id, number, &bundle.assigned);
                ctx.capacity_changed();
            }
        }
    }

    /// Adds up what the bundles make of the node's resources: `total` and `free` are without them, `lent`
    /// gets what they have taken.
    pub(crate) fn add_up(
        &self,
        total: &mut ResourceSet,
        free: &mut ResourceSet,
        lent: &mut ResourceSet,
    ) {
        for ((group_id, number), bundle) in &self.all {
            lent.add(&bundle.assigned.resources);
            let lends = lent_by_bundle(*group_id, *number, &bundle.assigned.resources);
            if bundle.stage != Stage::Held {
                free.add(&lends);
            }
            if bundle.stage == Stage::Lends {
                total.add(&lends);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::Setup;
    use helio_proto::group::NumberedBundle;
    use helio_types::Devices;

    const GROUP: PlacementGroupId = PlacementGroupId([1; 18]);

    fn cpus(n: f64) -> ResourceSet {
        ResourceSet::from_units([("CPU", n)])
    }

    fn order(attempt: u32, needs: &[f64]) -> ReserveBundles {
        let bundle = |(number, need): (usize, &f64)| NumberedBundle {
            bundle: number as u32,
            resources: cpus(*need),
        };
        let bundles = needs.iter().enumerate().map(bundle).collect();
        ReserveBundles { group_id: GROUP, attempt, bundles, ..ReserveBundles::default() }
    }

    fn world() -> (Bundles, Ledger, Context) {
        let ledger = Ledger::new(cpus(4.0), &Devices::new());
        (Bundles::default(), ledger, Context::new(Setup::default(), 0))
    }

    #[test]
    fn all_bundles_of_an_order_are_held_or_none() {
        let (mut bundles, mut ledger, mut ctx) = world();
        assert!(bundles.hold(&order(1, &[3.0, 2.0]), &mut ledger, &mut ctx).is_err());
        assert!(ledger.is_whole() && bundles.len() == 0);
        bundles.hold(&order(2, &[3.0, 1.0]), &mut ledger, &mut ctx).unwrap();
        bundles.hold(&order(2, &[3.0, 1.0]), &mut ledger, &mut ctx).unwrap();
        assert_eq!((bundles.len(), ledger.available().clone()), (2, cpus(0.0)));
        assert!(bundles.holds(GROUP, 2) && !bundles.holds(GROUP, 1));
    }

    #[test]
    fn a_bundle_is_the_nodes_again_when_its_last_user_is_gone() {
        let (mut bundles, mut ledger, mut ctx) = world();
        bundles.hold(&order(1, &[2.0]), &mut ledger, &mut ctx).unwrap();
        bundles.lend(GROUP, 1, &mut ledger, &mut ctx);
        bundles.give_back(GROUP, &[0], &mut ledger, &mut ctx);
        bundles.end_unused(&mut ledger, |_| true, &mut ctx);
        assert!(bundles.has_ending() && !ledger.is_whole());
        let again = bundles.hold(&order(2, &[1.0]), &mut ledger, &mut ctx);
        assert!(again.is_err(), "its workers may still use the memory");
        bundles.end_unused(&mut ledger, |_| false, &mut ctx);
        assert!(ledger.is_whole() && bundles.len() == 0);
    }
}
