//! A leaving node: what it has been ordered, and which of its objects another node, the *heir*, has taken over.
//!
//! ```text
//!   (none) ── order ─▶ busy ── nothing runs, or the grace is over ─▶ hands over ── all is taken over ─▶ left
//! ```

use std::collections::{BTreeMap, BTreeSet};

use helio_types::{NodeAddress, NodeId, ObjectId, mutant};

/// Number of objects that the heir is asked for at a time (**LIMIT-1**).
const HANDOVERS_MAX: usize = 8;

/// Number of times that an object is offered which the heir refuses: its store may be full for a
/// moment.
const OFFERS_MAX: u32 = 100;

#[derive(Debug, Default)]
pub(crate) struct Drain {
    order: Option<Order>,
}

#[derive(Debug)]
struct Order {
    reason: String,
    /// The time from which on nothing is waited for.
    due: Option<u64>,
    heir: Option<NodeAddress>,
    asked: BTreeSet<ObjectId>,
    taken: BTreeSet<ObjectId>,
    refused: BTreeMap<ObjectId, u32>,
    is_over: bool,
}

impl Drain {
    pub(crate) fn is_ordered(&self) -> bool {
        self.order.is_some()
    }

    /// Whether the order came just now: a later one changes only the grace.
    pub(crate) fn on_order(&mut self, reason: String, due: Option<u64>) -> bool {
        if let Some(order) = &mut self.order {
            // An order without a grace takes none back.
            order.due = due.or(order.due);
            return false;
        }
        self.order = Some(Order {
            reason,
            due,
            heir: None,
            asked: BTreeSet::new(),
            taken: BTreeSet::new(),
            refused: BTreeMap::new(),
            is_over: false,
        });
        true
    }

    /// The node stays after all; false where others may hold its objects already, or it was not to leave.
    pub(crate) fn cancel(&mut self) -> bool {
        let can_stay =
            self.order.as_ref().is_some_and(|order| order.heir.is_none() && !order.is_over);
        if can_stay && !mutant!("leaves-although-it-is-to-stay") {
            self.order = None;
        }
        can_stay
    }

    /// Whether it is to be seen if the node can leave; without waiting for what runs if its grace is over.
    pub(crate) fn is_due(&self, now: u64) -> Option<bool> {
        let order = self.order.as_ref().filter(|order| !order.is_over)?;
        Some(order.due.is_some_and(|due| due <= now) && !mutant!("grace-without-end"))
    }

    pub(crate) fn heir(&self) -> Option<&NodeAddress> {
        self.order.as_ref()?.heir.as_ref()
    }

    pub(crate) fn set_heir(&mut self, heir: NodeAddress) {
        if let Some(order) = &mut self.order {
            assert!(
                order.taken.is_empty(),
                "what another node has would be looked for at this one"
            );
            order.heir = Some(heir);
        }
    }

    /// The node that took over the objects of this one (the heir) has died: another node has to take all of them.
    pub(crate) fn on_node_died(&mut self, node_id: NodeId) {
        if let Some(order) = &mut self.order
            && order.heir.as_ref().is_some_and(|heir| heir.node_id == node_id)
        {
            order.heir = None;
            order.asked.clear();
            // What it had taken is gone with it; this node has all of it still.
            order.taken.clear();
            order.refused.clear();
        }
    }

    /// Returns the objects of these that are to be offered now, and whether the heir has all that it can have.
    pub(crate) fn next<'a>(
        &mut self,
        kept: impl Iterator<Item = &'a ObjectId>,
    ) -> (Vec<ObjectId>, bool) {
        let Some(order) = &mut self.order else { return (Vec::new(), false) };
        let is_given_up =
            |order: &Order, id| order.refused.get(id).is_some_and(|times| *times >= OFFERS_MAX);
        let open: Vec<ObjectId> = kept
            .filter(|id| !order.taken.contains(id) && !is_given_up(order, id))
            .copied()
            .collect();
        // An object that was freed meanwhile is not waited for.
        order.asked.retain(|id| open.contains(id));
        let is_done = open.is_empty() || mutant!("drained-objects-not-handed-over");
        assert!(
            order.asked.len() <= HANDOVERS_MAX,
            "the heir would be asked for everything at once"
        );
        let room = HANDOVERS_MAX - order.asked.len();
        let fresh = open.into_iter().filter(|id| !order.asked.contains(id));
        let fresh: Vec<ObjectId> = fresh.take(room).collect();
        order.asked.extend(&fresh);
        (fresh, is_done)
    }

    /// The heir has the object, or has no room for it.
    pub(crate) fn on_answer(&mut self, from: NodeId, object_id: ObjectId, is_taken: bool) {
        let Some(order) = &mut self.order else { return };
        if order.heir.as_ref().is_none_or(|heir| heir.node_id != from) {
            return;
        }
        order.asked.remove(&object_id);
        if is_taken {
            order.taken.insert(object_id);
        } else {
            // Not for good: its store may have room when some of its own objects are gone.
            *order.refused.entry(object_id).or_default() += 1;
        }
    }

    /// Returns the heir, if it has the object or was asked to take it.
    pub(crate) fn has_taken(&self, object_id: ObjectId) -> Option<&NodeAddress> {
        let order = self.order.as_ref()?;
        let is_there = order.taken.contains(&object_id) || order.asked.contains(&object_id);
        order.heir.as_ref().filter(|_| is_there)
    }

    /// The node leaves now: why, and who has its objects.
    pub(crate) fn leave(&mut self) -> Option<(String, Option<NodeAddress>)> {
        let order = self.order.as_mut().filter(|order| !order.is_over)?;
        order.is_over = true;
        // An heir that has taken nothing need not be asked for anything.
        let is_named = !order.taken.is_empty() && !mutant!("heir-not-named");
        let heir = order.heir.clone().filter(|_| is_named);
        Some((order.reason.clone(), heir))
    }
}
