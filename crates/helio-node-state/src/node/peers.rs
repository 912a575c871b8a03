//! Events of other nodes' daemons: objects on their way, and questions.

use helio_proto::cluster::NodeToNode;
use helio_types::NodeId;

use crate::liveness::Requester;
use crate::{Action, Conn, Node};

impl Node {
    pub(super) fn on_peer_said(&mut self, conn: Conn, node_id: NodeId, message: NodeToNode) {
        match message {
            NodeToNode::Pull(pull) => self.serve(conn, &pull),
            NodeToNode::CancelPull(cancel) => self.on_cancel_pull(conn, &cancel),
            NodeToNode::PullStart(start) => self.on_pull_start(node_id, start),
            NodeToNode::PullChunk(chunk) => self.on_pull_chunk(node_id, chunk),
            NodeToNode::PullFailed(failed) => self.on_pull_failed(node_id, failed),
            NodeToNode::Drop(drop) => self.drop_object(drop.object_id),
            NodeToNode::AskLiveness(ask) => {
                self.on_local_liveness(Requester::Peer(conn, ask.request_id), ask.worker_id);
            }
            NodeToNode::TellLiveness(told) => self.liveness.on_answer(told, &mut self.ctx),
            NodeToNode::Asked(asked) => self.on_peer_inspect(conn, &asked),
            NodeToNode::Inspected(told) => {
                self.inspections.on_peer_answer(node_id, told, &mut self.ctx)
            }
            NodeToNode::Unknown => {}
        }
    }

    pub(super) fn on_peer_lost(&mut self, conn: Option<Conn>, node_id: NodeId) {
        if let Some(conn) = conn {
            for request_id in self.pulls.on_reader_lost(conn) {
                self.ctx.push(Action::StopServing { conn, request_id });
            }
        }
        self.try_again_from(node_id);
        self.liveness.on_node_lost(node_id, false, &mut self.ctx);
    }
}
