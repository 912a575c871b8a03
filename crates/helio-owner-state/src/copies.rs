//! Where objects have copies: those that their owner counts on, those that were made for a reader, and those that may be
//! left on a node.

use helio_proto::peer::Frame;
use helio_types::{NodeAddress, NodeId, ObjectId, WorkerAddress, mutant};

use crate::Owner;
use crate::event::Action;
use crate::object::{Object, Stored};
use crate::task::TaskSpec;

/// How late news of a lost copy may be. If it is later, the object is made once more than it need be.
const LATE_NEWS_US: u64 = 1_000_000;

impl Owner {
    /// A reader did not find the object on that node. Of an object that was made again just now, and
    /// maybe there, this can be late news of the copy before: it is told where the object is and looks
    /// again, and if it does not find this one either it says so again.
    pub(crate) fn location_missed(&mut self, id: ObjectId, node: NodeId) {
        let is_fresh = |object: &Object| {
            object.relations.made_again > 0
                && self.ctx.now() < object.relations.made_again + LATE_NEWS_US
        };
        if !self.objects.get(&id).is_some_and(is_fresh) {
            self.location_lost(id, node);
        }
    }

    /// A node has the object no more (it died, or dropped its copy).
    pub(crate) fn location_lost(&mut self, id: ObjectId, node: NodeId) {
        let Some(object) = self.objects.get_mut(&id) else { return };
        let Stored::Stores { locations, .. } = &mut object.value else { return };
        let lost: Vec<NodeAddress> =
            locations.extract_if(.., |location| location.node_id == node).collect();
        if object.owner.is_none() && !lost.is_empty() {
            add_each(&mut object.relations.strays, lost);
        }
        if let Some(owner) = object.owner.clone() {
            self.ctx.send(owner.clone(), Frame::LocationLost { object: id, node });
            if locations.is_empty() {
                // The owner may know other copies, or make the object again.
                object.value = Stored::Pending;
                object.asked = true;
                self.ctx.send(owner, Frame::Resolve { object: id });
            }
        } else if locations.is_empty() {
            self.rebuild(id);
        } else if let Some(relations) = object.relations.present() {
            relations.copies.retain(|copy| *copy != node);
            if relations.copies.len() == locations.len() {
                // Nobody keeps the object for us any more: who has a copy is to.
                relations.copies.retain(|copy| *copy != locations[0].node_id);
                self.ctx.push(Action::Keep { id, at: locations[0].clone() });
            }
        }
    }

    /// A call is sent to a process, which copies the call's large arguments to its node. The news of that may be lost
    /// with the connection.
    pub(crate) fn copies_to_come(&mut self, spec: &TaskSpec, to: &WorkerAddress) {
        for id in spec.awaited() {
            if let Some(object) = self.objects.get_mut(&id)
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
    pub(crate) fn strayed(&mut self, id: ObjectId, nodes: &[NodeAddress]) {
        if nodes.is_empty() {
            return;
        }
        match self.objects.get_mut(&id) {
            Some(object) => add_each(&mut object.relations.strays, nodes.to_vec()),
            None => self.ctx.push(Action::Free { id, locations: nodes.to_vec() }),
        }
    }

    /// Nothing is left of what a node had.
    pub(crate) fn forget_strays(&mut self, node: NodeId) {
        for relations in self.objects.values_mut().filter_map(|object| object.relations.present()) {
            relations.strays.retain(|stray| stray.node_id != node);
        }
        for earlier in self.tasks.values_mut().filter_map(|task| task.past.earlier.present()) {
            earlier.strays.retain(|stray| stray.node_id != node);
        }
    }

    /// Whether one copy of an object of ours fewer does no harm: there is another, or a task to make one.
    pub(crate) fn can_spare(&self, id: ObjectId) -> bool {
        let Some(object) = self.objects.get(&id) else { return false };
        let copies = match &object.value {
            Stored::Stores { locations, .. } => {
                let made = object.relations.copies.len();
                assert!(made <= locations.len(), "the last copy that is kept would be given up");
                locations.len() - made
            }
            _ => 0,
        };
        object.owner.is_none() && (copies > 1 || self.can_rebuild(id))
    }

    /// A node keeps the object until we free it.
    pub(crate) fn location_added(&mut self, id: ObjectId, node: NodeAddress) {
        let Some(object) = self.objects.get_mut(&id) else { return };
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
    pub(crate) fn copied(&mut self, id: ObjectId, node: NodeAddress) {
        let Some(object) = self.objects.get_mut(&id) else {
            if !mutant!("late-copy-forgotten") {
                self.ctx.push(Action::Free { id, locations: vec![node] });
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
            _ if can_go => self.ctx.push(Action::Free { id, locations: vec![node] }),
            _ => self.strayed(id, &[node]),
        }
    }

    /// Whether an object of ours has a copy on another node than that one.
    pub(crate) fn is_elsewhere(&self, id: ObjectId, node: NodeId) -> bool {
        self.objects.get(&id).is_some_and(|object| match &object.value {
            Stored::Stores { locations, .. } => {
                object.owner.is_none() && locations.iter().any(|at| at.node_id != node)
            }
            _ => false,
        })
    }

    /// A node has left: what it kept, the heir keeps now. Copies that it had made for readers are gone.
    pub(crate) fn moved(&mut self, node: NodeId, heir: &NodeAddress) {
        for object in self.objects.values_mut() {
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
                let is_kept = !is_copy;
                relations
                    .copies
                    .retain(|copy| *copy != node && !(is_kept && *copy == heir.node_id));
            }
        }
    }

    /// Objects of ours with a copy on that node.
    pub(crate) fn located_on(&self, node: NodeId) -> Vec<ObjectId> {
        let mut found: Vec<ObjectId> = self
            .objects
            .iter()
            .filter(|(_, object)| match &object.value {
                Stored::Stores { locations, .. } => {
                    locations.iter().any(|location| location.node_id == node)
                }
                _ => false,
            })
            .map(|(id, _)| *id)
            .collect();
        found.sort_unstable();
        found
    }
}

/// Returns the node on which a process lives.
pub(crate) fn node_of(process: &WorkerAddress) -> NodeAddress {
    let WorkerAddress { node_id, host, port, .. } = process.clone();
    NodeAddress { node_id, host, port }
}

/// Adds the nodes that are not there yet.
pub(crate) fn add_each(nodes: &mut Vec<NodeAddress>, more: Vec<NodeAddress>) {
    for node in more {
        if !nodes.iter().any(|known| known.node_id == node.node_id) {
            nodes.push(node);
        }
    }
}
