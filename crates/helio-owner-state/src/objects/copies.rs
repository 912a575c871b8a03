//! Copies of objects: those that their owner counts on, those that were made for a reader, and those that may be left on
//! a node.

use helio_proto::peer::Frame;
use helio_types::{NodeAddress, NodeId, ObjectId, WorkerAddress, mutant};

use super::{Object, Objects};
use crate::context::Context;
use crate::event::Action;
use crate::spec::TaskSpec;
use crate::value::{Stored, add_each, node_of};

/// Microseconds by which news of a lost copy may be late. If it is later, the object is made once
/// more than it need be.
const LATE_NEWS_US: u64 = 1_000_000;

impl Objects {
    /// Whether the object was made again so lately that news of a lost copy can be news of the copy before.
    pub(crate) fn is_fresh(&self, id: ObjectId, now: u64) -> bool {
        self.all.get(&id).is_some_and(|object| {
            object.relations.made_again > 0 && now < object.relations.made_again + LATE_NEWS_US
        })
    }

    /// A node has the object no more (it died, or dropped its copy). Returns whether that was the last copy of an
    /// object of ours, which has to be made again.
    pub(crate) fn lose_location(&mut self, id: ObjectId, node: NodeId, ctx: &mut Context) -> bool {
        let Some(object) = self.all.get_mut(&id) else { return false };
        let Stored::Stores { locations, .. } = &mut object.value else { return false };
        let lost: Vec<NodeAddress> =
            locations.extract_if(.., |location| location.node_id == node).collect();
        if object.owner.is_none() && !lost.is_empty() {
            // The news may be wrong, or the node may come back: what lies there is freed with the object all the same.
            add_each(&mut object.relations.strays, lost);
        }
        if let Some(owner) = object.owner.clone() {
            // The owner finds out here that a place is bad, and sends no other borrower there.
            ctx.send(owner.clone(), Frame::LocationLost { object: id, node });
            if locations.is_empty() {
                // The owner may know other copies, or make the object again.
                object.value = Stored::Pending;
                object.asked = true;
                ctx.send(owner, Frame::Resolve { object: id });
            }
        } else if locations.is_empty() {
            return true;
        } else if let Some(relations) = object.relations.present() {
            relations.copies.retain(|copy| *copy != node);
            if relations.copies.len() == locations.len() {
                // Nobody keeps the object for us any more: who has a copy is to.
                relations.copies.retain(|copy| *copy != locations[0].node_id);
                ctx.push(Action::Keep { id, at: locations[0].clone() });
            }
        }
        false
    }

    /// A call is sent to a process, which copies the call's large arguments to its node. The news of that may be lost
    /// with the connection.
    pub(crate) fn copies_to_come(&mut self, spec: &TaskSpec, to: &WorkerAddress) {
        for id in spec.awaited() {
            if let Some(object) = self.all.get_mut(&id)
                && object.owner.is_none()
                && let Stored::Stores { locations, .. } = &object.value
                && !locations.iter().any(|location| location.node_id == to.node_id)
                && !object.relations.strays.iter().any(|stray| stray.node_id == to.node_id)
            {
                object.relations.strays.push(node_of(to));
            }
        }
    }

    /// An object that a call of ours made may have a copy on these nodes, too, which is freed with it.
    pub(crate) fn strayed(&mut self, id: ObjectId, nodes: &[NodeAddress], ctx: &mut Context) {
        if nodes.is_empty() {
            return;
        }
        match self.all.get_mut(&id) {
            Some(object) => add_each(&mut object.relations.strays, nodes.to_vec()),
            None => ctx.push(Action::Free { id, locations: nodes.to_vec() }),
        }
    }

    /// Forgets stray copies on a node that has died.
    pub(crate) fn forget_strays(&mut self, node: NodeId) {
        for relations in self.all.values_mut().filter_map(|object| object.relations.present()) {
            relations.strays.retain(|stray| stray.node_id != node);
        }
    }

    /// Returns the number of kept copies of an object of ours, without those that were made for readers; `None` if the
    /// object is unknown or has another owner.
    pub(crate) fn kept_copies(&self, id: ObjectId) -> Option<usize> {
        let object = self.all.get(&id)?;
        let copies = match &object.value {
            Stored::Stores { locations, .. } => {
                let made = object.relations.copies.len();
                assert!(made <= locations.len(), "the last copy that is kept would be given up");
                locations.len() - made
            }
            _ => 0,
        };
        object.owner.is_none().then_some(copies)
    }

    /// A node keeps the object until we free it.
    pub(crate) fn add_location(&mut self, id: ObjectId, node: NodeAddress) {
        let Some(object) = self.all.get_mut(&id) else { return };
        let Stored::Stores { locations, .. } = &mut object.value else { return };
        if let Some(relations) = object.relations.present() {
            relations.copies.retain(|copy| *copy != node.node_id);
        }
        if !locations.iter().any(|location| location.node_id == node.node_id) {
            locations.push(node);
        }
    }

    /// A node has a copy of an object of ours, made for a reader there. Where the object has gone meanwhile, or its
    /// bytes were let go of, nobody is sent there, and it is freed there.
    pub(crate) fn on_copied(&mut self, id: ObjectId, node: NodeAddress, ctx: &mut Context) {
        let Some(object) = self.all.get_mut(&id) else {
            if !mutant!("late-copy-forgotten") {
                ctx.push(Action::Free { id, locations: vec![node] });
            }
            return;
        };
        let can_go = object.can_go();
        match &mut object.value {
            _ if object.owner.is_some() => {}
            Stored::Stores { locations, .. } if !locations.is_empty() => {
                if !locations.iter().any(|location| location.node_id == node.node_id) {
                    let is_known = object.relations.copies.contains(&node.node_id);
                    assert!(!is_known, "a copy of which nobody has the place would never be freed");
                    object.relations.copies.push(node.node_id);
                    locations.push(node);
                }
            }
            // Nobody waits for it, and it will not be freed once more: the copy goes at once.
            _ if can_go => ctx.push(Action::Free { id, locations: vec![node] }),
            _ => self.strayed(id, &[node], ctx),
        }
    }

    /// Whether an object of ours has a copy on another node than that one.
    pub(crate) fn is_elsewhere(&self, id: ObjectId, node: NodeId) -> bool {
        self.all.get(&id).is_some_and(|object| match &object.value {
            Stored::Stores { locations, .. } => {
                object.owner.is_none() && locations.iter().any(|at| at.node_id != node)
            }
            _ => false,
        })
    }

    /// A node has left: what it kept, the heir keeps now. Copies that it had made for readers are gone.
    pub(crate) fn on_moved(&mut self, node: NodeId, heir: &NodeAddress) {
        for object in self.all.values_mut() {
            let Stored::Stores { locations, .. } = &mut object.value else { continue };
            let Some(place) = locations.iter().position(|at| at.node_id == node) else { continue };
            let is_copy = object.relations.copies.contains(&node);
            let has_heir = locations.iter().any(|at| at.node_id == heir.node_id);
            if is_copy || has_heir {
                locations.remove(place);
            } else if !mutant!("heir-ignored") {
                locations[place] = heir.clone();
            }
            if let Some(relations) = object.relations.present() {
                // The heir's own copy, made for a reader, stands in for the one that was kept.
                let is_kept = !is_copy;
                relations
                    .copies
                    .retain(|copy| *copy != node && !(is_kept && *copy == heir.node_id));
            }
        }
    }

    /// Objects with a copy on that node.
    pub(crate) fn located_on(&self, node: NodeId) -> Vec<ObjectId> {
        let is_there = |object: &Object| match &object.value {
            Stored::Stores { locations, .. } => locations.iter().any(|at| at.node_id == node),
            _ => false,
        };
        let found = self.all.iter().filter(|(_, object)| is_there(object));
        let mut found: Vec<ObjectId> = found.map(|(id, _)| *id).collect();
        // The table has no order of its own, and equal histories are to give equal actions (STATE-1).
        found.sort_unstable();
        found
    }

    /// Whether an object of ours has given its bytes back, or has lost them.
    pub(crate) fn is_without_bytes(&self, id: ObjectId) -> bool {
        let object = self.all.get(&id);
        object.is_some_and(|object| object.owner.is_none() && object.is_without_bytes())
    }

    /// An object of ours is made again.
    pub(crate) fn made_again(&mut self, id: ObjectId, now: u64) {
        if let Some(object) = self.all.get_mut(&id) {
            object.value = Stored::Pending;
            object.relations.made_again = now;
        }
    }

    /// The call whose object was lost runs again already, or it is a generator that still yields. A reader
    /// must not look for the value where it was, over and over.
    pub(crate) fn await_attempt(&mut self, id: ObjectId, now: u64) {
        if self.all.get(&id).is_some_and(Object::is_without_bytes) {
            self.made_again(id, now);
        }
    }

    /// An item came, and was lost before the end of its generator, which runs once more for it.
    pub(crate) fn lost_again(&mut self, id: ObjectId) {
        if let Some(object) = self.all.get_mut(&id) {
            object.value = Stored::Stores { size: 0, locations: Vec::new() };
        }
    }
}
