//! Events of other nodes' daemons: objects on their way, and questions.

use helio_proto::cluster::NodeToNode;
use helio_types::NodeId;

use super::Node;
use crate::event::Conn;
use crate::liveness::Requester;

impl Node {
    pub(super) fn on_peer_said(&mut self, conn: Conn, node_id: NodeId, message: NodeToNode) {
        match message {
            NodeToNode::Pull(pull) => self.with_store(|store, env| store.on_pull(conn, &pull, env)),
            NodeToNode::CancelPull(cancel) => {
                self.with_store(|store, env| store.on_cancel_pull(conn, &cancel, env))
            }
            NodeToNode::PullStart(start) => {
                self.with_store(|store, env| store.on_pull_start(node_id, start, env))
            }
            NodeToNode::PullChunk(chunk) => {
                self.with_store(|store, env| store.on_pull_chunk(node_id, chunk, env))
            }
            NodeToNode::PullFailed(failed) => {
                self.with_store(|store, env| store.on_pull_failed(node_id, failed, env))
            }
            NodeToNode::Drop(drop) => self.on_drop_object(&drop),
            NodeToNode::Inherit(offer) => {
                self.with_store(|store, env| store.on_inherit(offer, env))
            }
            NodeToNode::Inherited(answer) => self.on_inherited(node_id, answer),
            NodeToNode::Keep(keep) => self.with_store(|store, _| store.on_keep(keep.object_id)),
            NodeToNode::AskLiveness(ask) => {
                self.on_local_liveness(Requester::Peer(conn, ask.request_id), ask.worker_id);
            }
            NodeToNode::TellLiveness(told) => {
                if let Some(owner) = self.liveness.on_answer(told, &mut self.ctx) {
                    self.on_owner_dead(owner);
                }
            }
            NodeToNode::Asked(asked) => self.on_peer_inspect(conn, &asked),
            NodeToNode::Inspected(told) => {
                self.inspections.on_peer_answer(node_id, told, &mut self.ctx)
            }
            NodeToNode::Ping(_) => self.on_ping(conn),
            NodeToNode::Pong(_) => self.on_pong(node_id),
            // The shell has heard it.
            NodeToNode::HeadMoved(_) | NodeToNode::Unknown => {}
        }
    }

    pub(super) fn on_peer_lost(&mut self, conn: Option<Conn>, node_id: NodeId) {
        self.with_store(|store, env| store.on_peer_lost(conn, node_id, env));
        self.liveness.on_node_lost(node_id, false, &mut self.ctx);
        self.on_peer_unreached(node_id);
    }
}
