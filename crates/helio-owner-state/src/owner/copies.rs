//! Copies of objects that are lost.

use helio_types::{NodeId, ObjectId};

use super::Owner;

impl Owner {
    /// A reader did not find the object on that node. Of an object that was made again just now, and
    /// maybe there, this can be late news of the copy before: it is told where the object is and looks
    /// again, and if it does not find this one either it says so again.
    pub(super) fn on_location_lost(&mut self, id: ObjectId, node: NodeId) {
        if !self.objects.is_fresh(id, self.ctx.now()) {
            self.lose_location(id, node);
        }
    }

    /// A node has the object no more (it died, or dropped its copy).
    pub(super) fn lose_location(&mut self, id: ObjectId, node: NodeId) {
        if self.objects.lose_location(id, node, &mut self.ctx) {
            self.rebuild(id);
        }
    }

    /// Forgets all copies on a node of which nothing is left.
    pub(super) fn forget_strays(&mut self, node: NodeId) {
        self.objects.forget_strays(node);
        self.calls.forget_strays(node);
    }

    /// Whether one copy of an object of ours fewer does no harm: there is another, or a task to make one.
    pub(super) fn can_spare(&self, id: ObjectId) -> bool {
        let copies = self.objects.kept_copies(id);
        copies.is_some_and(|copies| copies > 1 || self.can_rebuild(id))
    }
}
