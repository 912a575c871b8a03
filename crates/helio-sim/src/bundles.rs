//! The resources that each node has given to bundles of placement groups, by the judge's own account: a call in a
//! bundle has its part until the call has ended, whatever its node says.

use std::collections::BTreeMap;

use helio_proto::cluster::ControlToNode;
use helio_proto::group::BundlesHeld;
use helio_types::PlacementGroupId;

use crate::core::Core;
use crate::ops::ROOM;

#[derive(Debug)]
struct Bundle {
    attempt: u32,
    room: f64,
    is_held: bool,
    is_returned: bool,
}

/// The resources and users of every bundle of the run, by the judge's own account.
#[derive(Debug, Default)]
pub(crate) struct Bundles {
    all: BTreeMap<(PlacementGroupId, u32), Bundle>,
}

impl Bundles {
    /// The control service has asked for bundles, or for their return.
    pub(crate) fn ordered(&mut self, message: &ControlToNode) {
        match message {
            ControlToNode::ReserveBundles(order) => {
                for one in &order.bundles {
                    let (attempt, room) = (order.attempt, one.resources.get(ROOM).to_f64());
                    let key = (order.group_id, one.bundle);
                    // An order that is given again, after a lost connection, changes nothing.
                    let is_there = self.all.get(&key).is_some_and(|bundle| bundle.is_held);
                    if !is_there {
                        let bundle = Bundle { attempt, room, is_held: false, is_returned: false };
                        self.all.insert(key, bundle);
                    }
                }
            }
            ControlToNode::ReturnBundles(order) => {
                for number in &order.bundles {
                    if let Some(bundle) = self.all.get_mut(&(order.group_id, *number)) {
                        bundle.is_returned = true;
                    }
                }
            }
            _ => {}
        }
    }

    /// The node says whether it holds them: it has room for all that it holds, and for what is returned and still used.
    pub(crate) fn held(&mut self, core: &mut Core, node: usize, said: &BundlesHeld) {
        let history = &core.facts.history;
        let is_used = |group| history.runs_in(group, core.daemons[node].address.node_id);
        // A bundle that was returned and never held is over; one that is used keeps its room.
        self.all
            .retain(|(group, _), bundle| !bundle.is_returned || bundle.is_held && is_used(*group));
        let of_group = self.all.iter_mut().filter(|((group, _), _)| *group == said.group_id);
        for ((group, number), bundle) in
            of_group.filter(|(_, bundle)| bundle.attempt == said.attempt)
        {
            bundle.is_held |= said.refused.is_empty();
            if bundle.is_held {
                core.bundles.entry((node, *group)).or_default().insert(*number);
            }
        }
        let (taken, has) = (self.all.values(), core.daemons[node].room);
        let taken: f64 = taken.filter(|bundle| bundle.is_held).map(|bundle| bundle.room).sum();
        if said.refused.is_empty() && taken > has {
            core.violation(format!(
                "node {node} has {has} {ROOM}, and {taken} is in bundles that it holds, or that are still used: {:?}",
                self.all
            ));
        }
    }
}
