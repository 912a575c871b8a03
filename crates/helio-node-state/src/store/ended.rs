//! Generators of which nobody wants any more items, though they may still run here.
//!
//! Their owner has given them up after a connection broke, and hears of nothing that they write from then on: that would stay
//! until the owner ends.

use std::collections::{BTreeMap, VecDeque};

use helio_types::{ObjectId, TaskId, WorkerId};

/// **LIMIT-1** Number of ended processes that are known; the oldest is forgotten first, and what it
/// still writes may stay.
const ENDED_MAX: usize = 1_000;

#[derive(Debug, Default)]
pub(super) struct Ended {
    /// The owner of each, and the first item that is not wanted.
    all: BTreeMap<TaskId, (WorkerId, u32)>,
    in_order: VecDeque<TaskId>,
}

impl Ended {
    /// Notes that no reader wants that item of a generator, nor those after it.
    pub(super) fn add(&mut self, first: ObjectId, owner: WorkerId) {
        if self.all.insert(first.task(), (owner, first.index())).is_some() {
            return;
        }
        self.in_order.push_back(first.task());
        if self.in_order.len() > ENDED_MAX
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.all.remove(&oldest);
        }
        assert!(self.all.len() == self.in_order.len(), "LIMIT-1: a generator is known for ever");
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether nobody wants the item.
    pub(super) fn has(&self, item: ObjectId, owner: WorkerId) -> bool {
        let is_its = |(of, first): &(WorkerId, u32)| *of == owner && item.index() >= *first;
        self.all.get(&item.task()).is_some_and(is_its)
    }
}

#[cfg(test)]
mod tests {
    use helio_types::{ActorId, JobId};

    use super::*;

    #[test]
    fn items_from_one_on_are_not_wanted_and_only_so_many_generators_are_known() {
        let item = |n: u64, index| {
            TaskId::new(n, ActorId::new([0; 12], JobId(1u32.to_be_bytes()))).object(index)
        };
        let (owner, other) = (WorkerId([1; 28]), WorkerId([2; 28]));
        let mut ended = Ended::default();
        assert!(!ended.has(item(0, 3), owner));
        ended.add(item(0, 3), owner);
        let has = |ended: &Ended, index, owner| ended.has(item(0, index), owner);
        assert!(has(&ended, 3, owner) && has(&ended, 4, owner));
        assert!(!has(&ended, 2, owner) && !has(&ended, 4, other) && !ended.has(item(1, 4), owner));
        ended.add(item(0, 2), owner);
        assert!(has(&ended, 2, owner), "the last word counts");
        for n in 1..=ENDED_MAX as u64 {
            ended.add(item(n, 2), owner);
        }
        assert_eq!(ended.all.len(), ENDED_MAX, "LIMIT-1");
        assert!(!has(&ended, 3, owner), "the oldest is forgotten");
    }
}
