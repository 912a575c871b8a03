//! Quantities of named resources, in fixed point so that 0.1 + 0.2 is 0.3.

use std::collections::BTreeMap;
use std::fmt;

use crate::devices::Devices;

/// Ten-thousandths of a unit: the finest quantity a request can name.
pub const UNIT: i64 = 10_000;

/// A quantity in ten-thousandths.
///
/// ```
/// use helio_types::Quantity;
///
/// let (a, b) = (Quantity::from_f64(0.1), Quantity::from_f64(0.2));
/// assert_eq!(Quantity(a.0 + b.0), Quantity::from_f64(0.3));
/// assert_eq!(Quantity::from_f64(0.000_04), Quantity::default(), "finer than can be named");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Quantity(pub i64);

impl Quantity {
    /// Rounds to the nearest ten-thousandth.
    #[must_use]
    pub fn from_f64(value: f64) -> Self {
        Self((value * UNIT as f64).round() as i64)
    }

    /// The quantity in units.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        self.0 as f64 / UNIT as f64
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.to_f64())
    }
}

/// Named quantities; a name that is absent counts as zero. `CPU`, `GPU`, `memory` and
/// `object_store_memory` (bytes) are the predefined names, all others are custom.
///
/// ```
/// use helio_types::ResourceSet;
///
/// let mut free = ResourceSet::from_units([("CPU", 4.0), ("GPU", 0.5)]);
/// let need = ResourceSet::from_units([("CPU", 3.0)]);
/// assert!(free.covers(&need));
/// free.subtract(&need);
/// assert!(!free.covers(&need));
/// assert_eq!(free.to_string(), "{CPU: 1, GPU: 0.5}");
/// // Lent twice while its first user is blocked: there is less than nothing, and `without` stops at nothing.
/// assert_eq!(free.without(&need), ResourceSet::from_units([("GPU", 0.5)]));
/// free.subtract(&need);
/// assert_eq!(free.get("CPU").to_f64(), -2.0);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug, PartialOrd, Ord)]
pub struct ResourceSet(pub BTreeMap<String, Quantity>);

impl ResourceSet {
    /// A set of the given quantities; zeros are left out.
    #[must_use]
    pub fn from_units<'a>(units: impl IntoIterator<Item = (&'a str, f64)>) -> Self {
        let mut set = Self::default();
        for (name, value) in units {
            set.set(name, Quantity::from_f64(value));
        }
        set
    }

    /// Returns the quantity of `name`; zero if there is none.
    #[must_use]
    pub fn get(&self, name: &str) -> Quantity {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Sets `name`; zero removes it.
    pub fn set(&mut self, name: &str, quantity: Quantity) {
        if quantity.0 == 0 {
            self.0.remove(name);
        } else if let Some(known) = self.0.get_mut(name) {
            *known = quantity;
        } else {
            self.0.insert(name.to_owned(), quantity);
        }
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether every quantity of `need` is here.
    #[must_use]
    pub fn covers(&self, need: &Self) -> bool {
        need.0.iter().all(|(name, quantity)| self.get(name) >= *quantity)
    }

    /// Adds every quantity of `other`.
    pub fn add(&mut self, other: &Self) {
        for (name, quantity) in &other.0 {
            let sum = Quantity(self.get(name).0 + quantity.0);
            self.set(name, sum);
        }
    }

    /// Takes every quantity of `other` away; a result below zero is kept (a resource lent twice
    /// while its first user is blocked).
    pub fn subtract(&mut self, other: &Self) {
        for (name, quantity) in &other.0 {
            let rest = Quantity(self.get(name).0 - quantity.0);
            self.set(name, rest);
        }
    }

    /// Returns the rest after `other` is taken away: no quantity is below zero.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut rest = self.clone();
        for (name, quantity) in &other.0 {
            rest.set(name, Quantity((self.get(name).0 - quantity.0).max(0)));
        }
        rest
    }

    /// The names and quantities, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, quantity)| (name.as_str(), *quantity))
    }
}

impl fmt::Display for ResourceSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, (name, quantity)) in self.iter().enumerate() {
            write!(f, "{}{name}: {quantity}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str("}")
    }
}

/// The resources that a lease or an actor holds: quantities, and the devices of each countable resource.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Assigned {
    /// The quantities.
    pub resources: ResourceSet,
    /// The devices; a fraction of a device names the one it is on.
    pub devices: Devices,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_add_up_exactly() {
        let mut set = ResourceSet::from_units([("CPU", 0.1)]);
        set.add(&ResourceSet::from_units([("CPU", 0.2), ("GPU", 1.0)]));
        assert_eq!(set, ResourceSet::from_units([("CPU", 0.3), ("GPU", 1.0)]));
        assert!(set.covers(&ResourceSet::from_units([("CPU", 0.3)])));
        assert!(!set.covers(&ResourceSet::from_units([("TPU", 0.1)])));
        set.subtract(&ResourceSet::from_units([("GPU", 1.0), ("CPU", 0.5)]));
        assert_eq!(set.get("CPU"), Quantity(-2000));
        assert_eq!(set.to_string(), "{CPU: -0.2}");
    }
}
