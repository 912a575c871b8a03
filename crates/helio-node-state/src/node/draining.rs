//! The order to leave: no new work, the grace of what runs, and the handing over of objects.

use std::collections::BTreeMap;

use helio_proto::cluster::{Drain, DropObject, Inherit, Inherited, NodePreempted, NodeToNode};
use helio_proto::node::{FreeObject, NodeDied};
use helio_types::{NodeId, ObjectId, mutant};

use super::Node;
use crate::event::Action;
use crate::limits::{DRAIN_LOOK_MS, PREEMPTED_RUN_PERCENT};
use crate::store::Owner;
use crate::timers::Timer;

impl Node {
    pub(super) fn on_drain(&mut self, order: Drain) {
        let Drain { reason, grace_ms, is_cancelled } = order;
        if is_cancelled {
            return self.on_drain_cancelled();
        }
        let due = (grace_ms > 0).then(|| self.ctx.now() + grace_ms);
        if self.drain.on_order(reason, due) {
            self.cluster.set_own_draining(true);
            self.leases.ask_all_back(&mut self.ctx);
            self.on_drain_look();
        }
        if let Some(due) = due {
            self.ctx.set_timer(due, Timer::Leave);
        }
        self.ctx.capacity_changed();
        self.ctx.status_changed();
    }

    fn on_drain_cancelled(&mut self) {
        if self.drain.cancel() && !mutant!("node-that-stays-takes-no-work") {
            self.cluster.set_own_draining(false);
            self.ctx.capacity_changed();
        }
        self.ctx.status_changed();
    }

    /// The machine will be taken away in `grace_ms`: the cluster is told, and what runs here has most of that time.
    pub(super) fn on_preempted(&mut self, reason: String, grace_ms: u64) {
        let grace_ms = (grace_ms / 100 * PREEMPTED_RUN_PERCENT).max(1);
        self.ctx.tell_control(NodePreempted { reason: reason.clone(), grace_ms });
        self.on_drain(Drain { reason, grace_ms, is_cancelled: false });
    }

    /// Workers that were needed may not be any more.
    pub(super) fn on_drain_look(&mut self) {
        self.pool.ask_idle_to_end("Its node is drained.", &mut self.ctx);
        self.ctx.set_timer(self.ctx.now() + DRAIN_LOOK_MS, Timer::Leave);
    }

    /// Hands over the next objects when nothing runs here any more, and leaves when there is none.
    pub(super) fn look_at_drain(&mut self) {
        let Some(is_over) = self.drain.is_due(self.ctx.now()) else { return };
        let is_busy = self.leases.len() + self.actors.len() + self.pool.len() > 0;
        // What runs here may make objects until its end, and they have to be handed over, too.
        if is_busy && !is_over && !mutant!("drained-node-leaves-at-once") {
            return;
        }
        if self.drain.heir().is_none() {
            let Some(heir) = self.cluster.heir_of_own() else { return self.leave(is_over) };
            self.drain.set_heir(heir);
        }
        // Workers end with this daemon, and what they own is over with them: nobody would free it at the heir.
        let kept: BTreeMap<ObjectId, Owner> =
            self.store.kept(|owner| self.pool.get(owner).is_some()).into_iter().collect();
        let (offered, is_done) = self.drain.next(kept.keys());
        let Some(heir) = self.drain.heir().cloned() else { return };
        let from = self.ctx.setup().address.clone();
        for object_id in offered {
            let Owner { worker_id: owner, node_id: owner_node } =
                kept.get(&object_id).copied().unwrap_or_default();
            let offer = Inherit { object_id, from: from.clone(), owner, owner_node };
            self.ctx.ask_node(heir.clone(), NodeToNode::Inherit(offer));
        }
        if is_done {
            self.leave(is_over);
        }
    }

    /// Leaves, once the control service can hear of it: of a node that it has to declare dead nobody learns where its
    /// objects are. With the grace over, the node leaves all the same.
    fn leave(&mut self, is_over: bool) {
        let is_heard = self.control.is_connected() || mutant!("drained-node-leaves-unheard");
        if !is_heard && !is_over {
            return;
        }
        let Some((reason, heir)) = self.drain.leave() else { return };
        let (heir, node_id) = (heir.unwrap_or_default(), self.ctx.node_id());
        // A process that lives elsewhere and has a connection to this daemon hears it before that ends.
        for conn in self.clients.remote() {
            self.ctx.send(conn, NodeDied { node_id, heir: heir.clone() });
        }
        self.ctx.push(Action::Leave { reason, heir });
    }

    pub(super) fn on_inherited(&mut self, node_id: NodeId, answer: Inherited) {
        self.drain.on_answer(node_id, answer.object_id, answer.refused.is_empty());
    }

    /// The owner frees an object, which the heir may have by now.
    pub(super) fn on_free_object(&mut self, free: FreeObject) {
        let FreeObject { object_id, locations, rest_of } = free;
        let dropped = DropObject { object_id, rest_of };
        self.on_drop_object(&dropped);
        self.with_store(|store, env| store.tell_freed(&dropped, locations, env));
    }

    pub(super) fn on_drop_object(&mut self, dropped: &DropObject) {
        if dropped.rest_of.is_nil() {
            return self.drop_one(dropped.object_id);
        }
        for object_id in self.store.end_items(dropped.object_id, dropped.rest_of) {
            self.drop_one(object_id);
        }
    }

    fn drop_one(&mut self, object_id: ObjectId) {
        self.drop_at_heir(object_id);
        self.with_store(|store, env| store.on_drop(object_id, env));
    }

    fn drop_at_heir(&mut self, object_id: ObjectId) {
        let heir =
            self.drain.has_taken(object_id).filter(|_| !mutant!("heir-not-told-what-was-freed"));
        if let Some(heir) = heir.cloned() {
            self.ctx.ask_node(
                heir,
                NodeToNode::Drop(DropObject { object_id, ..DropObject::default() }),
            );
        }
    }
}
