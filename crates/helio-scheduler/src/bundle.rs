//! The names under which a bundle's resources are lent.
//!
//! A node that holds bundle 1 of a group with 2 CPU has, besides what is left of its own, 2
//! `CPU_group_1_<group>` and 2 `CPU_group_<group>`: Ray's names, and users see them in
//! `cluster_resources`. What runs in that bundle takes from both, what runs in any bundle of the group
//! from the second alone, so that the group's room is never lent twice. A `bundle_group` marker stands
//! for the bundle itself, so that work without resources finds it too.
//!
//! So a bundle is a resource like any other: views, placement and spill-over know nothing of groups.

use std::borrow::Cow;
use std::fmt;

use helio_proto::control::{Strategy, StrategyKind};
use helio_types::{PlacementGroupId, Quantity, ResourceSet, mutant};

/// The amount of the marker resource `bundle` that each bundle provides, in ten-thousandths: 1000, as in Ray.
const MARKER: Quantity = Quantity(10_000_000);
/// The amount of the marker resource that each task or actor in a bundle takes: 0.001, so that a bundle has room
/// for a million.
const MARKER_USED: Quantity = Quantity(10);

/// A place in a placement group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupBundle {
    /// The placement group.
    pub group_id: PlacementGroupId,
    /// The index of the bundle; `None`: any.
    pub bundle: Option<u32>,
}

impl GroupBundle {
    /// The place that a strategy names, if it names one.
    #[must_use]
    pub fn of(strategy: &Strategy) -> Option<Self> {
        (strategy.kind == StrategyKind::PlacementGroup).then(|| Self {
            group_id: strategy.placement_group,
            bundle: u32::try_from(strategy.bundle).ok(),
        })
    }

    /// The resources under the names that they have there.
    #[must_use]
    pub fn renamed(self, resources: &ResourceSet) -> ResourceSet {
        let group = self.group_id.hex();
        let mut set = ResourceSet::default();
        for (name, quantity) in resources.iter() {
            self.name(&mut set, &group, name, quantity);
        }
        set
    }

    fn name(self, set: &mut ResourceSet, group: &str, name: &str, quantity: Quantity) {
        set.set(&format!("{name}_group_{group}"), quantity);
        if let Some(bundle) = self.bundle {
            set.set(&format!("{name}_group_{bundle}_{group}"), quantity);
        }
    }

    fn marked(self, resources: &ResourceSet, marker: Quantity) -> ResourceSet {
        let mut set = self.renamed(resources);
        self.name(&mut set, &self.group_id.hex(), "bundle", marker);
        set
    }
}

impl fmt::Display for GroupBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bundle {
            Some(bundle) => write!(f, "bundle {bundle} of placement group {}", self.group_id),
            None => write!(f, "placement group {}", self.group_id),
        }
    }
}

/// Returns the resources that a request takes from a node: its own, in a group under the group's names.
#[must_use]
pub fn taken<'a>(need: &'a ResourceSet, strategy: &Strategy) -> Cow<'a, ResourceSet> {
    match GroupBundle::of(strategy) {
        Some(place) if mutant!("bundles-lent-without-end") => {
            Cow::Owned(place.marked(&ResourceSet::default(), MARKER_USED))
        }
        Some(place) => Cow::Owned(place.marked(need, MARKER_USED)),
        None => Cow::Borrowed(need),
    }
}

/// Returns the resources that a node can lend because it holds a bundle.
#[must_use]
pub fn lent_by_bundle(
    group_id: PlacementGroupId,
    bundle: u32,
    resources: &ResourceSet,
) -> ResourceSet {
    GroupBundle { group_id, bundle: Some(bundle) }.marked(resources, MARKER)
}

/// Whether the name is one that a bundle gave.
#[must_use]
pub fn is_of_bundle(name: &str) -> bool {
    name.rsplit_once('_').is_some_and(|(rest, id)| {
        id.len() == 2 * PlacementGroupId::LEN && (rest.ends_with("_group") || numbered(rest))
    })
}

/// The set without what bundles gave: what a node has by itself.
#[must_use]
pub fn without_bundles(set: &ResourceSet) -> ResourceSet {
    only(set, |name| !is_of_bundle(name))
}

/// Returns the part of a node's set that is in bundles, under its own names: each bundle's part once.
#[must_use]
pub fn in_bundles(set: &ResourceSet) -> ResourceSet {
    let mut sum = ResourceSet::default();
    // Every bundle has its resources under the name of its number, and the group under one without.
    for (name, quantity) in set.iter() {
        let of_one = name.rsplit_once('_').filter(|(rest, _)| is_of_bundle(name) && numbered(rest));
        let plain =
            of_one.and_then(|(rest, _)| rest.rsplit_once("_group_")).map(|(plain, _)| plain);
        if let Some(plain) = plain.filter(|plain| *plain != "bundle") {
            let mut one = ResourceSet::default();
            one.set(plain, quantity);
            sum.add(&one);
        }
    }
    sum
}

/// Returns the resources of a request under the names that its user gave: those of a group's bundles are translated.
///
/// ```
/// use helio_scheduler::{as_asked, in_bundles, lent_by_bundle, without_bundles};
/// use helio_types::{PlacementGroupId, ResourceSet};
///
/// let bundle = ResourceSet::from_units([("CPU", 2.0)]);
/// let mut node = ResourceSet::from_units([("CPU", 6.0)]);
/// node.add(&lent_by_bundle(PlacementGroupId::NIL, 0, &bundle));
/// assert_eq!(without_bundles(&node), ResourceSet::from_units([("CPU", 6.0)]));
/// assert_eq!(in_bundles(&node), bundle);
/// assert_eq!(as_asked(&lent_by_bundle(PlacementGroupId::NIL, 0, &bundle)), bundle);
/// ```
#[must_use]
pub fn as_asked(set: &ResourceSet) -> ResourceSet {
    let mut plain = ResourceSet::default();
    for (name, quantity) in set.iter() {
        let name = crate::explain::plain_name(name);
        if name != "bundle" {
            // In a group everything is asked for under two names.
            plain.set(name, quantity);
        }
    }
    plain
}

fn only(set: &ResourceSet, keeps: impl Fn(&str) -> bool) -> ResourceSet {
    let mut kept = ResourceSet::default();
    for (name, quantity) in set.iter().filter(|(name, _)| keeps(name)) {
        kept.set(name, quantity);
    }
    kept
}

fn numbered(rest: &str) -> bool {
    rest.rsplit_once('_').is_some_and(|(rest, number)| {
        rest.ends_with("_group") && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(bundle: i64) -> Strategy {
        Strategy {
            kind: StrategyKind::PlacementGroup,
            placement_group: PlacementGroupId([7; PlacementGroupId::LEN]),
            bundle,
            ..Strategy::default()
        }
    }

    #[test]
    fn a_group_lends_no_more_than_it_holds() {
        let group_id = inside(0).placement_group;
        let one = ResourceSet::from_units([("CPU", 1.0)]);
        let mut node = lent_by_bundle(group_id, 0, &one);
        node.add(&lent_by_bundle(group_id, 1, &one));
        for strategy in [inside(0), inside(-1)] {
            let need = taken(&one, &strategy);
            assert!(node.covers(&need), "{need} of {node}");
            node.subtract(&need);
        }
        assert!(!node.covers(&taken(&one, &inside(0))), "its bundle is taken");
        assert!(!node.covers(&taken(&one, &inside(1))), "the group has lent all it has");
        assert!(node.covers(&taken(&ResourceSet::default(), &inside(1))), "nothing always fits");
    }

    #[test]
    fn users_see_no_names_of_bundles() {
        let group_id = inside(0).placement_group;
        let own = ResourceSet::from_units([("CPU", 4.0), ("my_group", 1.0)]);
        let mut node = own.clone();
        node.add(&lent_by_bundle(group_id, 0, &ResourceSet::from_units([("CPU", 1.0)])));
        node.add(&lent_by_bundle(group_id, 1, &ResourceSet::from_units([("CPU", 2.0)])));
        assert_eq!(without_bundles(&node), own);
        assert_eq!(in_bundles(&node), ResourceSet::from_units([("CPU", 3.0)]));
        let need = ResourceSet::from_units([("CPU", 1.5), ("my_group", 1.0)]);
        for strategy in [inside(1), inside(-1), Strategy::default()] {
            assert_eq!(as_asked(&taken(&need, &strategy)), need);
        }
    }

    #[test]
    fn names_are_told_apart() {
        let group_id = inside(0).placement_group;
        let one = ResourceSet::from_units([("CPU", 1.0), ("my_group", 1.0)]);
        assert!(lent_by_bundle(group_id, 12, &one).iter().all(|(name, _)| is_of_bundle(name)));
        for name in ["CPU", "my_group", "node:10.0.0.1", "a_group_b"] {
            assert!(!is_of_bundle(name), "{name}");
        }
    }
}
