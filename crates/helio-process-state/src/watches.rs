//! Objects that event loops of this process wait for.
//!
//! An object stays watched from [`Watches::add`] until it is readable: each event that may have changed
//! that (its value became known, its bytes came to this node, or could not come) looks at it again.

use std::collections::BTreeMap;

use helio_types::ObjectId;

/// The state of an object that a watcher waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Readiness {
    /// The object is made; its value may lie on another node.
    Made,
    /// The value can be read here without waiting.
    Here,
}

/// The watched objects that are not readable yet, and those that have become so.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    waiting: BTreeMap<ObjectId, Readiness>,
    ready: Vec<ObjectId>,
}

impl Watches {
    /// Watches an object; of several watchers the strongest readiness counts.
    pub(crate) fn add(&mut self, id: ObjectId, readiness: Readiness) {
        let entry = self.waiting.entry(id).or_insert(readiness);
        *entry = readiness.max(*entry);
        assert!(*entry >= readiness, "somebody would read what is not here");
    }

    /// Returns the state that the watchers of the object wait for; `None` when nobody watches it.
    pub(crate) fn readiness(&self, id: ObjectId) -> Option<Readiness> {
        if self.waiting.is_empty() { None } else { self.waiting.get(&id).copied() }
    }

    /// The object is as ready as its watchers asked.
    pub(crate) fn fulfil(&mut self, id: ObjectId, reached: Readiness) {
        if let Some(wanted) = self.waiting.remove(&id) {
            assert!(wanted <= reached, "who waits for bytes would be told that they are here");
            self.ready.push(id);
        }
    }

    /// Whether [`Watches::take`] would give something.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The objects whose watchers have what they wait for, each once.
    pub(crate) fn take(&mut self) -> Vec<ObjectId> {
        std::mem::take(&mut self.ready)
    }
}

#[cfg(test)]
mod tests {
    use helio_types::{ActorId, JobId, TaskId};

    use super::*;

    fn object(number: u64) -> ObjectId {
        TaskId::new(number, ActorId::new([0; 12], JobId::default())).object(1)
    }

    #[test]
    fn the_strongest_wish_counts_and_each_object_is_given_out_once() {
        let mut watches = Watches::default();
        watches.add(object(1), Readiness::Here);
        watches.add(object(1), Readiness::Made);
        watches.add(object(2), Readiness::Made);
        assert_eq!(watches.readiness(object(1)), Some(Readiness::Here));
        assert_eq!(watches.readiness(object(2)), Some(Readiness::Made));
        assert_eq!(watches.readiness(object(3)), None);
        watches.fulfil(object(1), Readiness::Here);
        watches.fulfil(object(1), Readiness::Here);
        watches.fulfil(object(3), Readiness::Made);
        assert_eq!(watches.take(), [object(1)]);
        assert!(!watches.has_ready());
        assert_eq!(watches.readiness(object(1)), None);
    }
}
