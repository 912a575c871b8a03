//! The contact with the control service: what its silence leads to.

use helio_proto::cluster::{Ping, Pong, Probed};
use helio_types::NodeId;

use crate::contact::Order;
use crate::{Action, Conn, Node};

impl Node {
    /// Looks at the contact with the control service when it is time to.
    pub(super) fn look_at_contact(&mut self) {
        if self.contact.due() > self.ctx.now() {
            return;
        }
        let (cluster, setup) = (&self.cluster, self.ctx.setup());
        let orders = self.contact.look(self.ctx.now(), || {
            // A node on the head's machine is cut off with it.
            let others = cluster.others_alive().into_iter();
            let elsewhere = others.filter(|other| !setup.is_at_control(&other.host));
            elsewhere.map(|other| other.node_id).collect()
        });
        self.follow_orders(orders);
    }

    /// The control service asks whether this node reaches another one.
    pub(super) fn on_probe(&mut self, node_id: NodeId) {
        let order = self.contact.on_question(node_id, self.ctx.now());
        self.follow_orders([order]);
    }

    pub(super) fn on_ping(&mut self, conn: Conn) {
        self.ctx.answer_node(conn, Pong {}.into());
    }

    pub(super) fn on_pong(&mut self, node_id: NodeId) {
        let order = self.contact.on_pong(node_id);
        self.follow_orders(order);
    }

    pub(super) fn on_peer_unreached(&mut self, node_id: NodeId) {
        let order = self.contact.on_unreached(node_id);
        self.follow_orders(order);
    }

    fn follow_orders(&mut self, orders: impl IntoIterator<Item = Order>) {
        for order in orders {
            match order {
                Order::Ping(node_id) => match self.cluster.address(node_id) {
                    Some((to, _)) => self.ctx.ask_node(to, Ping {}.into()),
                    None => self.on_peer_unreached(node_id),
                },
                Order::Reach => self.ctx.push(Action::ReachControl),
                Order::Tell { node_id, is_reached } => {
                    self.ctx.tell_control(Probed { node_id, is_reached });
                }
                Order::Suspend => self.ctx.push(Action::Suspend),
                Order::Resume => self.ctx.push(Action::Resume),
                Order::Rejoin(reason) => self.ctx.push(Action::Rejoin { reason }),
            }
        }
    }
}
