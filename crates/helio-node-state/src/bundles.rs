//! Bundles of placement groups that this node holds.
//!
//! ```text
//!   Reserve ─▶ held ─ Commit ─▶ lends ─ Return ─▶ ends ─ its last user is gone ─▶ (none)
//!               └────────────── Return ─────────────────────────────────────────▶ (none)
//! ```
//! A held bundle's resources are out of the node's ledger. One that lends has put them back under names
//! of its own ([`helio_scheduler::lent_by_bundle`]). One that ends takes no new users, and the workers
//! of those that it has are killed; when they are gone, so that their memory and devices are free, its
//! resources are the node's again.
//!
//! Requests for a group that no node seems to hold: the control service is asked, once a second, and
//! says when the group is placed or gone (CTL-1: it is asked by nobody who knows where the group is).

use std::collections::BTreeMap;

use helio_proto::control::{Failure, FailureKind, Strategy};
use helio_proto::group::{
    AskGroup, BundlesHeld, CommitBundles, GroupNews, HeldBundle, ReserveBundles, ReturnBundles,
};
use helio_scheduler::InGroup;
use helio_types::{Assigned, DeathCause, DeathKind, PlacementGroupId};

use crate::Node;
use crate::limits::GROUP_ASK_MS;
use crate::timers::Timer;

#[derive(Debug)]
pub(crate) struct Bundle {
    /// The try of the control service that brought it.
    attempt: u32,
    pub(crate) assigned: Assigned,
    pub(crate) stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    Held,
    Lends,
    Ends,
}

#[derive(Debug, Default)]
pub(crate) struct Bundles {
    pub(crate) all: BTreeMap<(PlacementGroupId, u32), Bundle>,
    /// How many of them end.
    ending: usize,
    /// Groups that requests wait for and that no node seems to hold: when the control service was asked,
    /// and what it said. Bounded by the requests that wait; forgotten when none does.
    asked: BTreeMap<PlacementGroupId, Asked>,
}

#[derive(Debug)]
struct Asked {
    at_ms: u64,
    news: Option<String>,
}

impl Bundles {
    /// The bundles of a group, with their numbers.
    fn of_group(&self, group_id: PlacementGroupId) -> impl Iterator<Item = (u32, &Bundle)> {
        let range = (group_id, 0)..=(group_id, u32::MAX);
        self.all.range(range).map(|((_, number), bundle)| (*number, bundle))
    }

    /// The control service started anew: it has to be asked again.
    pub(crate) fn forget_questions(&mut self) {
        self.asked.clear();
    }

    pub(crate) fn questions_count(&self) -> usize {
        self.asked.len()
    }

    /// Forgets the groups that nothing waits for any more.
    pub(crate) fn keep_questions(&mut self, waits: impl Fn(PlacementGroupId) -> bool) {
        self.asked.retain(|group_id, _| waits(*group_id));
    }
}

impl Node {
    pub(crate) fn on_reserve_bundles(&mut self, order: &ReserveBundles) {
        let (group_id, attempt) = (order.group_id, order.attempt);
        let refused = self.hold_bundles(order).err().unwrap_or_default();
        let committed = order.commit && refused.is_empty();
        self.ctx.tell_control(BundlesHeld { group_id, attempt, committed, refused });
    }

    /// All of them or none.
    fn hold_bundles(&mut self, order: &ReserveBundles) -> Result<(), String> {
        let mut taken: Vec<u32> = Vec::new();
        for wanted in &order.bundles {
            let key = (order.group_id, wanted.bundle);
            match self.bundles.all.get(&key) {
                // The order is heard again.
                Some(bundle) if bundle.attempt == order.attempt && bundle.stage != Stage::Ends => {
                    continue;
                }
                Some(_) => {
                    self.let_go(order.group_id, &taken);
                    return Err("what it held of the group before is not free yet".to_owned());
                }
                None => {}
            }
            let Some(assigned) = self.ledger.take(&wanted.resources, &Strategy::default()) else {
                self.let_go(order.group_id, &taken);
                let text = format!(
                    "{} is free of the {} that bundle {} needs",
                    self.ledger.available(),
                    wanted.resources,
                    wanted.bundle
                );
                return Err(text);
            };
            let bundle = Bundle { attempt: order.attempt, assigned, stage: Stage::Held };
            self.bundles.all.insert(key, bundle);
            taken.push(wanted.bundle);
        }
        self.ctx.capacity_changed();
        if order.commit {
            self.lend_bundles(order.group_id, order.attempt);
        }
        Ok(())
    }

    pub(crate) fn on_commit_bundles(&mut self, order: &CommitBundles) {
        let (group_id, attempt) = (order.group_id, order.attempt);
        let holds = self
            .bundles
            .of_group(group_id)
            .any(|(_, bundle)| bundle.attempt == attempt && bundle.stage != Stage::Ends);
        self.lend_bundles(group_id, attempt);
        let refused = if holds { "" } else { "it does not hold them (any more)" }.to_owned();
        self.ctx.tell_control(BundlesHeld { group_id, attempt, committed: holds, refused });
    }

    fn lend_bundles(&mut self, group_id: PlacementGroupId, attempt: u32) {
        for ((_, number), bundle) in
            self.bundles.all.range_mut((group_id, 0)..=(group_id, u32::MAX))
        {
            if bundle.attempt == attempt && bundle.stage == Stage::Held {
                bundle.stage = Stage::Lends;
                self.ledger.add_bundle(group_id, *number, &bundle.assigned);
                self.cluster.set_own_total(self.ledger.total());
                self.ctx.capacity_changed();
            }
        }
    }

    pub(crate) fn on_return_bundles(&mut self, order: &ReturnBundles) {
        let group_id = order.group_id;
        self.let_go(group_id, &order.bundles);
        if self.bundles.ending > 0 {
            let cause = if order.removed {
                let sentence = format!("Its placement group {group_id} was removed.");
                DeathCause::new(DeathKind::GroupRemoved, sentence)
            } else {
                let sentence = format!("Its bundle of placement group {group_id} moved elsewhere.");
                DeathCause::new(DeathKind::Unknown, sentence)
            };
            self.end_leases_of_group(group_id, &order.bundles, &cause);
            self.end_actors_of_group(group_id, &order.bundles, &cause);
            self.end_bundles();
        }
        if order.removed {
            self.refuse_requests_of_group(group_id);
        }
    }

    /// Gives bundles back, or begins to.
    fn let_go(&mut self, group_id: PlacementGroupId, numbers: &[u32]) {
        for number in numbers {
            let key = (group_id, *number);
            let Some(bundle) = self.bundles.all.get_mut(&key) else { continue };
            match bundle.stage {
                Stage::Held => {
                    if let Some(bundle) = self.bundles.all.remove(&key) {
                        self.ledger.give_back(&bundle.assigned, &Strategy::default(), false);
                    }
                }
                Stage::Lends => {
                    bundle.stage = Stage::Ends;
                    self.bundles.ending += 1;
                    self.ledger.close_bundle(group_id, *number, &bundle.assigned.resources);
                    self.cluster.set_own_total(self.ledger.total());
                }
                Stage::Ends => {}
            }
            self.ctx.capacity_changed();
        }
    }

    /// The bundles that end and have no user any more are the node's again.
    pub(crate) fn end_bundles(&mut self) {
        if self.bundles.ending == 0 {
            return;
        }
        let ending =
            |(_, bundle): &(&(PlacementGroupId, u32), &Bundle)| bundle.stage == Stage::Ends;
        let ending: Vec<(PlacementGroupId, u32)> =
            self.bundles.all.iter().filter(ending).map(|(key, _)| *key).collect();
        let mut is_used: BTreeMap<PlacementGroupId, bool> = BTreeMap::new();
        for (group_id, number) in ending {
            let is_used = *is_used.entry(group_id).or_insert_with(|| self.has_users(group_id));
            if is_used {
                continue;
            }
            if let Some(bundle) = self.bundles.all.remove(&(group_id, number)) {
                self.bundles.ending -= 1;
                self.ledger.remove_bundle(group_id, number, &bundle.assigned);
                self.ctx.capacity_changed();
            }
        }
    }

    fn has_users(&self, group_id: PlacementGroupId) -> bool {
        let inside = |strategy: &Strategy| {
            InGroup::of(strategy).is_some_and(|place| place.group_id == group_id)
        };
        self.leases.values().any(|lease| inside(lease.strategy()))
            || self.actors.placed().any(|(_, strategy, _)| inside(strategy))
    }

    /// A request for a group that no node seems to hold: asks, and says what is known.
    pub(crate) fn ask_for_group(&mut self, group_id: PlacementGroupId) {
        let now = self.ctx.now();
        let asked = self.bundles.asked.get(&group_id);
        if asked.is_some_and(|asked| now < asked.at_ms + GROUP_ASK_MS) {
            return;
        }
        let news = asked.and_then(|asked| asked.news.clone());
        self.bundles.asked.insert(group_id, Asked { at_ms: now, news });
        self.ctx.set_timer(now + GROUP_ASK_MS, Timer::Spill);
        // Without a connection the next question is the first: the group's creation goes before it.
        if self.control.is_connected() {
            self.ctx.tell_control(AskGroup { group_id });
        }
    }

    /// Nodes have changed: a group that was placed may not be any more.
    pub(crate) fn ask_sooner(&mut self) {
        let soon = self.ctx.now().saturating_sub(GROUP_ASK_MS - GROUP_ASK_MS / 10);
        let placed = |asked: &&mut Asked| asked.news.as_ref().is_some_and(String::is_empty);
        for asked in self.bundles.asked.values_mut().filter(placed) {
            asked.at_ms = asked.at_ms.min(soon);
            self.ctx.set_timer(asked.at_ms + GROUP_ASK_MS, Timer::Spill);
        }
    }

    pub(crate) fn on_group_news(&mut self, news: GroupNews) {
        if news.removed {
            self.bundles.asked.remove(&news.group_id);
            return self.refuse_requests_of_group(news.group_id);
        }
        if let Some(asked) = self.bundles.asked.get_mut(&news.group_id) {
            asked.news = Some(news.why);
        }
        self.ctx.capacity_changed();
    }

    /// **WHY-1** What the control service said of a group that is not placed.
    pub(crate) fn why_group(&self, strategy: &Strategy) -> Option<String> {
        let place = InGroup::of(strategy)?;
        let why = self.bundles.asked.get(&place.group_id)?.news.as_deref().unwrap_or_default();
        match why {
            "" => None,
            why => Some(format!("placement group {} is not placed yet: {why}", place.group_id)),
        }
    }

    /// Whether the control service has said that the group is placed, and yet it does not fit.
    pub(crate) fn is_known_to_be_placed(&self, group_id: PlacementGroupId) -> bool {
        self.bundles
            .asked
            .get(&group_id)
            .is_some_and(|asked| asked.news.as_ref().is_some_and(String::is_empty))
    }

    pub(crate) fn group_is_gone(group_id: PlacementGroupId) -> Failure {
        let text = format!("the placement group {group_id} was removed");
        Failure::new(FailureKind::GroupRemoved, text)
    }

    /// What the node holds, for a control service that has to learn of it again.
    #[must_use]
    pub fn held_bundles(&self) -> Vec<HeldBundle> {
        let open = self.bundles.all.iter().filter(|(_, bundle)| bundle.stage != Stage::Ends);
        let row = |((group_id, number), bundle): (&(PlacementGroupId, u32), &Bundle)| HeldBundle {
            group_id: *group_id,
            bundle: *number,
            attempt: bundle.attempt,
            committed: bundle.stage == Stage::Lends,
        };
        open.map(row).collect()
    }
}
