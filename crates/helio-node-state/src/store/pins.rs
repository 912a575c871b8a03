//! The pins of clients: the number of pins of each client on each object.

use std::collections::{BTreeMap, HashMap};

use helio_types::ObjectId;

use crate::context::Violation;
use crate::event::Conn;

/// The number of pins of each client on each object.
#[derive(Debug, Default)]
pub(super) struct Pins(BTreeMap<Conn, HashMap<ObjectId, u32>>);

impl Pins {
    pub(super) fn add(&mut self, conn: Conn, object_id: ObjectId) {
        let count = self.0.entry(conn).or_default().entry(object_id).or_default();
        assert!(*count < u32::MAX, "an object that is read would be moved");
        *count += 1;
    }

    pub(super) fn remove(
        &mut self,
        conn: Conn,
        object_id: ObjectId,
        count: u32,
    ) -> Result<(), Violation> {
        let pins = self.0.entry(conn).or_default();
        let held = pins.get(&object_id).copied().unwrap_or(0);
        if count > held {
            return Err(Violation("an object is released more often than it was fetched"));
        }
        if count == held {
            pins.remove(&object_id);
        } else {
            pins.insert(object_id, held - count);
        }
        Ok(())
    }

    /// A client is gone: takes its pins, in the order of the objects' ids, so that the same events give
    /// the same extents (STATE-1).
    pub(super) fn take(&mut self, conn: Conn) -> BTreeMap<ObjectId, u32> {
        let taken = self.0.remove(&conn).unwrap_or_default();
        assert!(taken.values().all(|count| *count > 0), "an object would count as read by nobody");
        taken.into_iter().collect()
    }

    /// The clients that have objects pinned, and which.
    pub(super) fn holders(&self) -> impl Iterator<Item = (Conn, impl Iterator<Item = &ObjectId>)> {
        let holding = self.0.iter().filter(|(_, pins)| !pins.is_empty());
        holding.map(|(conn, pins)| (*conn, pins.keys()))
    }

    /// All pins of all clients.
    pub(super) fn total(&self) -> u32 {
        self.0.values().flat_map(HashMap::values).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_released_as_often_as_it_was_pinned() {
        let (mut pins, object_id) = (Pins::default(), ObjectId([1; 28]));
        pins.add(Conn(1), object_id);
        pins.add(Conn(1), object_id);
        pins.add(Conn(2), object_id);
        assert!(pins.remove(Conn(1), object_id, 3).is_err());
        assert_eq!(pins.remove(Conn(1), object_id, 2), Ok(()));
        assert_eq!(pins.holders().map(|(conn, _)| conn).collect::<Vec<_>>(), [Conn(2)]);
        assert_eq!(pins.take(Conn(2)), BTreeMap::from([(object_id, 1)]));
        assert_eq!(pins.total(), 0);
    }
}
