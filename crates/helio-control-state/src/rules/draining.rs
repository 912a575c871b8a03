//! A node that is to hand over what it has and to leave: nothing is placed there any more, actors that may start again
//! do so elsewhere, and the node itself moves its objects before it says that it leaves.

use helio_proto::cluster::{Drain, NodeLeaving};
use helio_proto::control::{ControlResponse, DrainNode, Empty, Failure, FailureKind};
use helio_types::{NodeId, mutant};

use crate::machine::Control;

impl Control {
    pub(crate) fn drain_node(&mut self, drain: DrainNode) -> ControlResponse {
        let DrainNode { node_id, reason, grace_ms } = drain;
        if self.nodes.is_head(node_id) {
            let text =
                "the head cannot be drained: it is the cluster's control service that would leave";
            return Failure::new(FailureKind::Invalid, text).into();
        }
        let order = Drain { reason, grace_ms };
        if !mutant!("drained-node-gets-work")
            && self.nodes.drain(node_id, order.clone(), self.out.now_ms()).is_none()
        {
            let text = format!("no node of the id {node_id} is alive");
            return Failure::new(FailureKind::NotFound, text).into();
        }
        self.publish_views();
        for actor_id in self.actors.on_node(node_id) {
            self.move_actor(actor_id);
        }
        self.out.send(node_id, order);
        Empty {}.into()
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
        self.node_died(node_id, &cause);
    }
}
