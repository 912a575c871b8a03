//! What the node has and what of it is free.

use helio_types::resources::UNIT;
use helio_types::{Assigned, Quantity, ResourceSet};

/// The node's resources. Quantities other than CPU never go below zero; CPU does while a worker that
/// was blocked and whose CPU was lent on runs again.
#[derive(Debug)]
pub(crate) struct Ledger {
    total: ResourceSet,
    available: ResourceSet,
    /// The devices by index on the node, and how much of each is free.
    gpus: Vec<(u32, i64)>,
}

impl Ledger {
    pub(crate) fn new(total: ResourceSet, gpus: &[u32]) -> Self {
        let available = total.clone();
        Self { total, available, gpus: gpus.iter().map(|index| (*index, UNIT)).collect() }
    }

    pub(crate) fn total(&self) -> &ResourceSet {
        &self.total
    }

    pub(crate) fn available(&self) -> &ResourceSet {
        &self.available
    }

    /// Takes `need`, and devices for its GPUs: whole ones, or a part of one. `None` when it is not
    /// free, or no single device has that part free.
    pub(crate) fn take(&mut self, need: &ResourceSet) -> Option<Assigned> {
        if !self.available.covers(need) {
            return None;
        }
        let gpus = self.take_gpus(need.get("GPU").0)?;
        self.available.subtract(need);
        Some(Assigned { resources: need.clone(), gpus })
    }

    fn take_gpus(&mut self, amount: i64) -> Option<Vec<u32>> {
        if amount <= 0 {
            return Some(Vec::new());
        }
        if amount < UNIT {
            // The fullest device that still has room, so that whole ones stay whole.
            let device = self
                .gpus
                .iter_mut()
                .filter(|(_, free)| *free >= amount)
                .min_by_key(|(_, free)| *free)?;
            device.1 -= amount;
            return Some(vec![device.0]);
        }
        let count = usize::try_from(amount / UNIT).ok()?;
        let whole: Vec<&mut (u32, i64)> =
            self.gpus.iter_mut().filter(|(_, free)| *free == UNIT).take(count).collect();
        if whole.len() < count || amount % UNIT != 0 {
            return None;
        }
        Some(
            whole
                .into_iter()
                .map(|device| {
                    device.1 = 0;
                    device.0
                })
                .collect(),
        )
    }

    /// Gives back what [`Ledger::take`] took; without its CPU where that was lent already.
    pub(crate) fn give_back(&mut self, assigned: &Assigned, cpu_was_lent: bool) {
        let mut resources = assigned.resources.clone();
        if cpu_was_lent {
            resources.set("CPU", Quantity(0));
        }
        self.available.add(&resources);
        let part = assigned.resources.get("GPU").0.min(UNIT);
        for (index, free) in &mut self.gpus {
            if assigned.gpus.contains(index) {
                *free += part;
                assert!(*free <= UNIT, "GPU {index} was given back more often than taken");
            }
        }
    }

    /// Lends the CPU of a worker that waits.
    pub(crate) fn lend_cpu(&mut self, assigned: &Assigned) {
        self.available.add(&cpu_of(assigned));
    }

    /// Takes it back, even below zero: the worker runs again whether or not there is room.
    pub(crate) fn retake_cpu(&mut self, assigned: &Assigned) {
        self.available.subtract(&cpu_of(assigned));
    }

    /// Whether everything is free.
    #[cfg(test)]
    pub(crate) fn is_whole(&self) -> bool {
        self.available == self.total && self.gpus.iter().all(|(_, free)| *free == UNIT)
    }
}

fn cpu_of(assigned: &Assigned) -> ResourceSet {
    let mut cpu = ResourceSet::default();
    cpu.set("CPU", assigned.resources.get("CPU"));
    cpu
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn gpu(amount: f64) -> ResourceSet {
        ResourceSet::from_units([("GPU", amount)])
    }

    #[test]
    fn fractions_share_a_device_and_whole_ones_get_their_own() {
        let mut ledger = Ledger::new(gpu(3.0), &[0, 2, 5]);
        let half = ledger.take(&gpu(0.5)).unwrap();
        let other = ledger.take(&gpu(0.4)).unwrap();
        assert_eq!((half.gpus.clone(), other.gpus.clone()), (vec![0], vec![0]));
        let third = ledger.take(&gpu(0.4)).unwrap();
        assert_eq!(third.gpus, [2], "0.1 is left of device 0");
        assert_eq!(ledger.take(&gpu(2.0)), None, "only device 5 is whole");
        let whole = ledger.take(&gpu(1.0)).unwrap();
        assert_eq!(whole.gpus, [5]);
        assert_eq!(ledger.take(&gpu(0.7)), None, "0.7 is free in sum, on no single device");
        for assigned in [half, other, third, whole] {
            ledger.give_back(&assigned, false);
        }
        assert!(ledger.is_whole());
    }

    #[test]
    fn a_blocked_workers_cpu_is_lent_and_may_go_below_zero() {
        let one = ResourceSet::from_units([("CPU", 1.0)]);
        let mut ledger = Ledger::new(one.clone(), &[]);
        let first = ledger.take(&one).unwrap();
        assert_eq!(ledger.take(&one), None);
        ledger.lend_cpu(&first);
        let second = ledger.take(&one).unwrap();
        ledger.retake_cpu(&first);
        assert_eq!(ledger.available().get("CPU"), Quantity(-UNIT));
        ledger.give_back(&second, false);
        ledger.lend_cpu(&first);
        ledger.give_back(&first, true);
        assert!(ledger.is_whole());
    }
}
