//! The resources of the node, and the free part of them.
//!
//! Bundles of placement groups are taken out of it and lend their resources under names of their own
//! ([`helio_scheduler::taken`]); their devices are lent only inside them.

use std::collections::BTreeMap;

use helio_proto::control::Strategy;
use helio_scheduler::{GroupBundle, lent_by_bundle, taken};
use helio_types::resources::UNIT;
use helio_types::{Assigned, Devices, PlacementGroupId, Quantity, ResourceSet, mutant};

/// The node's resources. Quantities other than CPU never go below zero; CPU does while a worker that
/// was blocked and whose CPU was lent on runs again.
#[derive(Debug)]
pub(crate) struct Ledger {
    total: ResourceSet,
    available: ResourceSet,
    /// The devices of each kind by index on the node, and how much of each is free.
    devices: BTreeMap<String, Vec<(u32, i64)>>,
    /// The devices of bundles that lend.
    bundle_devices: BTreeMap<PlacementGroupId, Vec<Slot>>,
}

/// A device, or the part of one, that a bundle has.
#[derive(Debug)]
struct Slot {
    bundle: u32,
    kind: String,
    device: u32,
    size: i64,
    free: i64,
    /// The parts of the device that are lent to holders whose strategy names no bundle of the group, so that they
    /// do not know in which bundle they are.
    to_any: Vec<i64>,
}

impl Slot {
    /// Lends a part of it; the device.
    fn lend(&mut self, part: i64, place: GroupBundle) -> u32 {
        self.free -= part;
        if place.bundle.is_none() {
            self.to_any.push(part);
        }
        self.device
    }

    fn take_back(&mut self, part: i64, place: GroupBundle) {
        self.free += part;
        assert!(self.free <= self.size, "a bundle would lend more of a device than it has");
        if place.bundle.is_none()
            && let Some(at) = self.to_any.iter().position(|lent| *lent == part)
        {
            self.to_any.swap_remove(at);
        }
    }
}

impl Ledger {
    pub(crate) fn new(total: ResourceSet, devices: &Devices) -> Self {
        let available = total.clone();
        let whole = |indices: &Vec<u32>| indices.iter().map(|index| (*index, UNIT)).collect();
        Self {
            total,
            available,
            devices: devices.iter().map(|(kind, all)| (kind.clone(), whole(all))).collect(),
            bundle_devices: BTreeMap::new(),
        }
    }

    pub(crate) fn total(&self) -> &ResourceSet {
        &self.total
    }

    pub(crate) fn available(&self) -> &ResourceSet {
        &self.available
    }

    /// Takes `need`, and devices for what of it is devices: whole ones, or a part of one. `None` when it is
    /// not free, or no single device has that part free.
    pub(crate) fn take(&mut self, need: &ResourceSet, strategy: &Strategy) -> Option<Assigned> {
        let takes = taken(need, strategy);
        if !self.available.covers(&takes) {
            return None;
        }
        let mut assigned = Assigned { resources: need.clone(), devices: Devices::new() };
        let wanted = self.devices.keys().map(|kind| (kind.clone(), need.get(kind).0));
        let wanted: Vec<(String, i64)> = wanted.filter(|(_, amount)| *amount > 0).collect();
        for (kind, amount) in wanted {
            let indices = match GroupBundle::of(strategy) {
                None => self.take_devices(&kind, amount),
                Some(place) => self.take_devices_of_group(place, &kind, amount),
            };
            match indices {
                Some(indices) => drop(assigned.devices.insert(kind, indices)),
                None => {
                    // Of several kinds all are taken or none.
                    self.give_back_devices(&assigned, strategy);
                    return None;
                }
            }
        }
        if !mutant!("room-given-twice") {
            self.available.subtract(&takes);
        }
        Some(assigned)
    }

    fn take_devices(&mut self, kind: &str, amount: i64) -> Option<Vec<u32>> {
        let devices = self.devices.get_mut(kind)?;
        if amount < UNIT {
            // The fullest device that still has room, so that whole ones stay whole.
            let fits = devices.iter_mut().filter(|(_, free)| *free >= amount);
            let device = fits.min_by_key(|(_, free)| *free)?;
            if !mutant!("part-of-a-gpu-not-counted") {
                device.1 -= amount;
            }
            assert!(device.1 >= 0, "a device would be lent beyond what it has");
            return Some(vec![device.0]);
        }
        let count = usize::try_from(amount / UNIT).ok()?;
        let is_whole = |free: i64| free == UNIT || free > 0 && mutant!("shared-gpu-lent-whole");
        let whole: Vec<&mut (u32, i64)> =
            devices.iter_mut().filter(|(_, free)| is_whole(*free)).take(count).collect();
        // One and a half devices would have to be two parts of devices that others share.
        if whole.len() < count || amount % UNIT != 0 {
            return None;
        }
        let take = |device: &mut (u32, i64)| {
            device.1 = 0;
            device.0
        };
        Some(whole.into_iter().map(take).collect())
    }

    /// Takes devices from those that belong to a bundle, or, where the place names no bundle, to all bundles of
    /// the group on this node.
    fn take_devices_of_group(
        &mut self,
        place: GroupBundle,
        kind: &str,
        amount: i64,
    ) -> Option<Vec<u32>> {
        let slots = self.bundle_devices.get_mut(&place.group_id)?;
        let inside = slots.iter_mut().filter(|slot| {
            slot.kind == kind && place.bundle.is_none_or(|bundle| bundle == slot.bundle)
        });
        if amount < UNIT {
            // The fullest that has room still: the others stay whole, for those who need whole ones.
            let slot = inside.filter(|slot| slot.free >= amount).min_by_key(|slot| slot.free)?;
            return Some(vec![slot.lend(amount, place)]);
        }
        let count = usize::try_from(amount / UNIT).ok()?;
        let whole: Vec<&mut Slot> = inside.filter(|slot| slot.free == UNIT).take(count).collect();
        if whole.len() < count || amount % UNIT != 0 {
            return None;
        }
        Some(whole.into_iter().map(|slot| slot.lend(UNIT, place)).collect())
    }

    fn give_back_devices(&mut self, assigned: &Assigned, strategy: &Strategy) {
        for (kind, indices) in &assigned.devices {
            // Several whole devices are given back one by one, a part as what it is.
            let part = assigned.resources.get(kind).0.min(UNIT);
            match GroupBundle::of(strategy) {
                Some(place) => self.give_back_devices_of_group(place, kind, indices, part),
                None => {
                    let devices = self.devices.get_mut(kind).into_iter().flatten();
                    for (index, free) in devices.filter(|(index, _)| indices.contains(index)) {
                        *free += part;
                        assert!(
                            *free <= UNIT,
                            "{kind} {index} was given back more often than taken"
                        );
                    }
                }
            }
        }
    }

    fn give_back_devices_of_group(
        &mut self,
        place: GroupBundle,
        kind: &str,
        indices: &[u32],
        part: i64,
    ) {
        let Some(slots) = self.bundle_devices.get_mut(&place.group_id) else { return };
        for device in indices {
            // A call that names no bundle may have its part from any: it goes back to one that has lent such a part.
            let has_lent = |slot: &Slot| match place.bundle {
                Some(bundle) => bundle == slot.bundle,
                None if mutant!("part-given-back-to-another-bundle") => {
                    slot.free + part <= slot.size
                }
                None => slot.to_any.contains(&part),
            };
            let is_it =
                |slot: &&mut Slot| slot.kind == kind && slot.device == *device && has_lent(slot);
            // Two bundles of a group may each have a part of one device: the one that lent it gets it back.
            let slot = slots.iter_mut().find(is_it);
            let slot = slot.expect("a device is given back as often as it was taken");
            slot.take_back(part, place);
        }
    }

    /// A bundle, which took `assigned`, lends it.
    pub(crate) fn add_bundle(
        &mut self,
        group_id: PlacementGroupId,
        bundle: u32,
        assigned: &Assigned,
    ) {
        let lends = lent_by_bundle(group_id, bundle, &assigned.resources);
        self.total.add(&lends);
        self.available.add(&lends);
        for (kind, indices) in &assigned.devices {
            // A bundle may have a part of a device, and lends no more than that.
            let size = assigned.resources.get(kind).0.min(UNIT);
            let slot = |device: &u32| Slot {
                bundle,
                kind: kind.clone(),
                device: *device,
                size,
                free: size,
                to_any: Vec::new(),
            };
            let slots = indices.iter().map(slot);
            self.bundle_devices.entry(group_id).or_default().extend(slots);
        }
    }

    /// The bundle lends no more; who has some of it keeps that.
    pub(crate) fn close_bundle(
        &mut self,
        group_id: PlacementGroupId,
        bundle: u32,
        resources: &ResourceSet,
    ) {
        // From the total alone: nothing more is given out of it, and what is lent comes back into the free part.
        self.total.subtract(&lent_by_bundle(group_id, bundle, resources));
    }

    /// A closed bundle of which nothing is lent any more is the node's own again.
    pub(crate) fn remove_bundle(
        &mut self,
        group_id: PlacementGroupId,
        bundle: u32,
        assigned: &Assigned,
    ) {
        self.available.subtract(&lent_by_bundle(group_id, bundle, &assigned.resources));
        if let Some(slots) = self.bundle_devices.get_mut(&group_id) {
            slots.retain(|slot| slot.bundle != bundle);
            if slots.is_empty() {
                self.bundle_devices.remove(&group_id);
            }
        }
        // A bundle took its resources as a task without a group does.
        self.give_back(assigned, &Strategy::default(), false);
    }

    /// Gives back what [`Ledger::take`] took; without its CPU where that was lent already.
    pub(crate) fn give_back(
        &mut self,
        assigned: &Assigned,
        strategy: &Strategy,
        cpu_was_lent: bool,
    ) {
        let mut resources = assigned.resources.clone();
        if cpu_was_lent {
            // Its CPU was given back when it began to wait.
            resources.set("CPU", Quantity(0));
        }
        self.available.add(&taken(&resources, strategy));
        if mutant!("lease-given-back-twice") {
            self.available.add(&taken(&resources, strategy));
        }
        self.give_back_devices(assigned, strategy);
    }

    /// Lends the CPU of a worker that waits.
    pub(crate) fn lend_cpu(&mut self, assigned: &Assigned, strategy: &Strategy) {
        if !mutant!("waiting-workers-cpu-not-lent") {
            self.available.add(&cpu_of(assigned, strategy));
        }
    }

    /// Takes it back, even below zero: the worker runs again whether or not there is room.
    pub(crate) fn retake_cpu(&mut self, assigned: &Assigned, strategy: &Strategy) {
        self.available.subtract(&cpu_of(assigned, strategy));
    }

    /// Whether everything is free.
    #[cfg(test)]
    pub(crate) fn is_whole(&self) -> bool {
        let devices = self.devices.values().flatten();
        self.available == self.total && devices.into_iter().all(|(_, free)| *free == UNIT)
    }
}

fn cpu_of(assigned: &Assigned, strategy: &Strategy) -> ResourceSet {
    let mut cpu = ResourceSet::default();
    cpu.set("CPU", assigned.resources.get("CPU"));
    GroupBundle::of(strategy).map_or_else(|| cpu.clone(), |place| place.renamed(&cpu))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anywhere() -> Strategy {
        Strategy::default()
    }

    fn inside(bundle: i64) -> Strategy {
        Strategy {
            kind: helio_proto::control::StrategyKind::PlacementGroup,
            placement_group: PlacementGroupId([1; PlacementGroupId::LEN]),
            bundle,
            ..Strategy::default()
        }
    }

    #[test]
    fn a_bundles_devices_are_lent_only_inside_it() {
        let mut ledger = Ledger::new(gpu(3.0), &gpus(&[0, 1, 2]));
        let group_id = inside(0).placement_group;
        let bundles: Vec<Assigned> =
            [1.0, 0.5].map(|n| ledger.take(&gpu(n), &anywhere()).unwrap()).into();
        for (number, assigned) in (0..).zip(&bundles) {
            ledger.add_bundle(group_id, number, assigned);
        }
        let own = ledger.take(&gpu(1.0), &anywhere()).unwrap();
        assert_eq!(own.devices, gpus(&[2]));
        assert_eq!(ledger.take(&gpu(1.0), &inside(1)), None, "bundle 1 has half a device");
        let half = ledger.take(&gpu(0.5), &inside(1)).unwrap();
        let any = ledger.take(&gpu(1.0), &inside(-1)).unwrap();
        assert_eq!((&half.devices, &any.devices), (&gpus(&[1]), &gpus(&[0])));
        assert_eq!(ledger.take(&gpu(0.5), &inside(0)), None, "its device is lent to the group");
        ledger.give_back(&half, &inside(1), false);
        ledger.give_back(&any, &inside(-1), false);
        ledger.give_back(&own, &anywhere(), false);
        for (number, assigned) in (0..).zip(&bundles) {
            ledger.close_bundle(group_id, number, &assigned.resources);
            ledger.remove_bundle(group_id, number, assigned);
        }
        assert!(ledger.is_whole());
    }

    /// Two bundles have a half of one device each; what users of any bundle had goes back to where it came from.
    #[test]
    fn parts_of_a_device_go_back_to_their_bundle() {
        let mut ledger = Ledger::new(gpu(1.0), &gpus(&[0]));
        let group_id = inside(0).placement_group;
        let bundles: Vec<Assigned> =
            [0.5, 0.5].map(|n| ledger.take(&gpu(n), &anywhere()).unwrap()).into();
        for (number, assigned) in (0..).zip(&bundles) {
            ledger.add_bundle(group_id, number, assigned);
        }
        let take = |ledger: &mut Ledger, amount, bundle| {
            (ledger.take(&gpu(amount), &inside(bundle)).unwrap(), bundle)
        };
        let first = take(&mut ledger, 0.25, 0);
        let second = take(&mut ledger, 0.4, 1);
        // Of bundle 0: 0.1 is left of the other one.
        let any = take(&mut ledger, 0.25, -1);
        let other = take(&mut ledger, 0.1, -1);
        ledger.give_back(&second.0, &inside(second.1), false);
        let late = take(&mut ledger, 0.4, 1);
        for (assigned, bundle) in [any, other, first, late] {
            ledger.give_back(&assigned, &inside(bundle), false);
        }
        for (number, assigned) in (0..).zip(&bundles) {
            ledger.close_bundle(group_id, number, &assigned.resources);
            ledger.remove_bundle(group_id, number, assigned);
        }
        assert!(ledger.is_whole());
    }

    fn gpus(indices: &[u32]) -> Devices {
        Devices::from([("GPU".to_owned(), indices.to_vec())])
    }

    #[test]
    fn who_needs_devices_of_two_kinds_gets_both_or_none() {
        let total = ResourceSet::from_units([("GPU", 2.0), ("NPU", 1.0), ("TPU", 4.0)]);
        let all = [("GPU", vec![0, 1]), ("NPU", vec![0]), ("TPU", vec![0, 1, 2, 3])];
        let all: Devices = all.map(|(kind, indices)| (kind.to_owned(), indices)).into();
        let mut ledger = Ledger::new(total, &all);
        let part = ResourceSet::from_units([("NPU", 0.5), ("GPU", 0.5)]);
        let first = ledger.take(&part, &anywhere()).unwrap();
        assert_eq!((&first.devices["GPU"], &first.devices["NPU"]), (&vec![0], &vec![0]));
        let both = ResourceSet::from_units([("GPU", 1.0), ("NPU", 0.6)]);
        assert_eq!(ledger.take(&both, &anywhere()), None, "0.5 of the NPU is left");
        let chips = ResourceSet::from_units([("GPU", 1.0), ("TPU", 2.0)]);
        let second = ledger.take(&chips, &anywhere()).unwrap();
        assert_eq!((&second.devices["GPU"], &second.devices["TPU"]), (&vec![1], &vec![0, 1]));
        ledger.add_bundle(inside(0).placement_group, 0, &second);
        let chip = ResourceSet::from_units([("TPU", 1.0)]);
        let within = ledger.take(&chip, &inside(0)).unwrap();
        assert_eq!(within.devices, Devices::from([("TPU".to_owned(), vec![0])]));
        ledger.give_back(&within, &inside(0), false);
        ledger.close_bundle(inside(0).placement_group, 0, &second.resources);
        ledger.remove_bundle(inside(0).placement_group, 0, &second);
        ledger.give_back(&first, &anywhere(), false);
        assert!(ledger.is_whole());
    }

    fn gpu(amount: f64) -> ResourceSet {
        ResourceSet::from_units([("GPU", amount)])
    }

    #[test]
    fn fractions_share_a_device_and_whole_ones_get_their_own() {
        let mut ledger = Ledger::new(gpu(3.0), &gpus(&[0, 2, 5]));
        let half = ledger.take(&gpu(0.5), &anywhere()).unwrap();
        let other = ledger.take(&gpu(0.4), &anywhere()).unwrap();
        assert_eq!((&half.devices, &other.devices), (&gpus(&[0]), &gpus(&[0])));
        let third = ledger.take(&gpu(0.4), &anywhere()).unwrap();
        assert_eq!(third.devices, gpus(&[2]), "0.1 is left of device 0");
        assert_eq!(ledger.take(&gpu(2.0), &anywhere()), None, "only device 5 is whole");
        let whole = ledger.take(&gpu(1.0), &anywhere()).unwrap();
        assert_eq!(whole.devices, gpus(&[5]));
        assert_eq!(
            ledger.take(&gpu(0.7), &anywhere()),
            None,
            "0.7 is free in sum, on no single device"
        );
        for assigned in [half, other, third, whole] {
            ledger.give_back(&assigned, &anywhere(), false);
        }
        assert!(ledger.is_whole());
    }

    #[test]
    fn a_blocked_workers_cpu_is_lent_and_may_go_below_zero() {
        let one = ResourceSet::from_units([("CPU", 1.0)]);
        let mut ledger = Ledger::new(one.clone(), &Devices::new());
        let first = ledger.take(&one, &anywhere()).unwrap();
        assert_eq!(ledger.take(&one, &anywhere()), None);
        ledger.lend_cpu(&first, &anywhere());
        let second = ledger.take(&one, &anywhere()).unwrap();
        ledger.retake_cpu(&first, &anywhere());
        assert_eq!(ledger.available().get("CPU"), Quantity(-UNIT));
        ledger.give_back(&second, &anywhere(), false);
        ledger.lend_cpu(&first, &anywhere());
        ledger.give_back(&first, &anywhere(), true);
        assert!(ledger.is_whole());
    }
}
