//! A node that is to hand over what it has and to leave: nothing is placed there any more, actors that may start again
//! do so elsewhere, and the node itself moves its objects before it says that it leaves.

use helio_config::control::NODE_WAITERS_MAX;
use helio_proto::cluster::{Drain, NodeLeaving, NodePreempted};
use helio_proto::control::{ControlResponse, DrainNode, Empty, Failure, FailureKind};
use helio_types::{NodeId, mutant};

use super::Control;
use crate::event::Requester;

impl Control {
    pub(crate) fn drain_node(&mut self, drain: DrainNode) -> ControlResponse {
        let DrainNode { node_id, reason, grace_ms, is_cancelled } = drain;
        if is_cancelled {
            return self.cancel_drain(node_id);
        }
        if self.nodes.is_head(node_id) {
            let text =
                "the head cannot be drained: it is the cluster's control service that would leave";
            return Failure::new(FailureKind::Invalid, text).into();
        }
        let order = Drain { reason, grace_ms, is_cancelled };
        if !mutant!("drained-node-gets-work")
            && self.nodes.drain(node_id, order.clone(), self.out.now_ms()).is_none()
        {
            let text = format!("no node of the id {node_id} is alive");
            return Failure::new(FailureKind::NotFound, text).into();
        }
        // At once, so that no node sends work there any more while the actors move away.
        self.publish_views();
        for actor_id in self.actors.on_node(node_id) {
            self.move_actor(actor_id);
        }
        self.out.send(node_id, order);
        Empty {}.into()
    }

    /// The node stays after all. It says nothing where it is handing over its objects already: then it leaves soon.
    fn cancel_drain(&mut self, node_id: NodeId) -> ControlResponse {
        if !self.nodes.cancel_drain(node_id, self.out.now_ms()) {
            let text = format!("no node of the id {node_id} is to leave");
            return Failure::new(FailureKind::NotFound, text).into();
        }
        self.publish_views();
        if !mutant!("order-to-stay-not-sent") {
            self.tell_to_stay(node_id);
        }
        self.follow_ups.has_room = true;
        Empty {}.into()
    }

    /// Also to a node that registers again and is to leave as far as it knows: the order was lost with its connection.
    pub(crate) fn tell_to_stay(&mut self, node_id: NodeId) {
        self.out.send(node_id, Drain { is_cancelled: true, ..Drain::default() });
    }

    /// The node drains itself already: the others are to know.
    pub(crate) fn on_preempted(&mut self, node_id: NodeId, preempted: NodePreempted) {
        let NodePreempted { reason, grace_ms } = preempted;
        // The head's daemon ends with the cluster, and asks for no grace.
        self.drain_node(DrainNode { node_id, reason, grace_ms, is_cancelled: false });
    }

    /// Answers the requests that wait for a change of the nodes.
    pub(crate) fn tell_of_membership(&mut self) {
        for requester in self.nodes.take_waiters() {
            self.out.reply(requester, Empty {});
        }
    }

    pub(crate) fn on_await_nodes(&mut self, requester: Requester, seen: u64) {
        if seen != self.nodes.membership() {
            return self.out.reply(requester, Empty {});
        }
        if !self.nodes.add_waiter(requester) {
            let text = format!(
                "{NODE_WAITERS_MAX} processes wait for changes of the nodes, the most that can"
            );
            self.out.reply(requester, Failure::new(FailureKind::System, text));
        }
    }

    /// A node that registers again has not heard that it is to leave: the order was lost with its connection.
    pub(crate) fn drain_again(&mut self, node_id: NodeId) {
        if let Some(order) = self.nodes.drain_order(node_id).cloned() {
            self.out.send(node_id, order);
        }
    }

    pub(crate) fn on_leaving(&mut self, node_id: NodeId, leaving: NodeLeaving) {
        let NodeLeaving { reason, heir } = leaving;
        let mut cause = format!("it left: {reason}");
        if !heir.node_id.is_nil() {
            cause = format!("{cause}; its objects are on node {}", heir.host);
            self.nodes.set_heir(node_id, heir);
        }
        if mutant!("stopped-node-awaited") {
            return;
        }
        self.node_died(node_id, &cause);
    }
}
