//! Events of the control service: what it says of nodes, actors, placement groups and jobs.

use helio_proto::cluster::{ClusterView, ControlToNode};
use helio_proto::control::ControlResponse;
use helio_proto::node::{NodeDied, NodeToClient};
use helio_types::{NodeId, WorkerId};

use super::Node;
use crate::event::Action;

impl Node {
    pub(super) fn on_control_said(&mut self, message: ControlToNode) {
        match message {
            ControlToNode::Accepted(accepted) => {
                // Nodes that died while the service could not be heard are not named: those that
                // stay unnamed count as dead after a while.
                self.cluster.await_confirmations(&mut self.ctx);
                self.groups.clear();
                if accepted.refused.is_empty() {
                    let (silence_ms, sent) = (accepted.silence_ms, accepted.sent_ms);
                    self.contact.on_accepted(silence_ms, sent, self.ctx.now());
                } else {
                    let reason =
                        format!("the control service refused this node: {}", accepted.refused);
                    self.end(reason, accepted.may_rejoin);
                }
            }
            ControlToNode::ToClient(to) => self.on_message_to_client(to.worker_id, to.message),
            ControlToNode::LaunchActor(launch) => self.on_launch_actor(launch),
            ControlToNode::StopActor(stop) => self.on_stop_actor(stop),
            ControlToNode::View(view) => self.on_view(&view),
            ControlToNode::ReserveBundles(order) => self.on_reserve_bundles(&order),
            ControlToNode::CommitBundles(order) => self.on_commit_bundles(&order),
            ControlToNode::ReturnBundles(order) => self.on_return_bundles(&order),
            ControlToNode::GroupNews(news) => self.on_group_news(news),
            ControlToNode::KeepFree(order) => self.on_keep_free(order.resources),
            ControlToNode::JobFinished(finished) => self.on_job_finished(&finished),
            ControlToNode::ShutDown(shut_down) => self.end(shut_down.reason, shut_down.may_rejoin),
            ControlToNode::Heard(heard) => {
                self.contact.on_heard(heard.sent_ms, self.ctx.now());
            }
            ControlToNode::Drain(order) => self.on_drain(order),
            ControlToNode::FlushLogs(flush) => self.on_flush_job_logs(flush),
            ControlToNode::Probe(probe) => self.on_probe(probe.node.node_id),
            ControlToNode::Unknown => {}
        }
    }

    fn end(&mut self, reason: String, may_rejoin: bool) {
        self.ctx.push(if may_rejoin {
            Action::Rejoin { reason }
        } else {
            Action::ShutDown { reason }
        });
    }

    fn on_message_to_client(&mut self, worker_id: WorkerId, message: NodeToClient) {
        if let NodeToClient::ControlReply(reply) = &message
            && self.control.on_reply(worker_id, reply.request_id)
        {
            return self.on_own_call_answered(worker_id, reply.response.clone());
        }
        if let Some(conn) = self.clients.local(worker_id) {
            self.ctx.send(conn, message);
        }
    }

    /// The answer to a call that this node made in the client's name.
    fn on_own_call_answered(&mut self, worker_id: WorkerId, response: ControlResponse) {
        match response {
            ControlResponse::Job(job) => self.on_job_started(worker_id, Ok(job)),
            ControlResponse::Failed(failure) => self.on_job_started(worker_id, Err(failure)),
            ControlResponse::Actor(info) => {
                if let Some(conn) = self.clients.local(worker_id) {
                    self.ctx.send(conn, info);
                }
            }
            _ => {}
        }
    }

    fn on_view(&mut self, view: &ClusterView) {
        self.cluster.on_view();
        for info in &view.nodes {
            if self.cluster.on_node_info(info) {
                self.on_node_died(info.address.node_id);
            }
        }
        self.cluster.forget_old();
        self.groups.on_nodes_changed(&mut self.ctx);
        self.ctx.others_changed();
    }

    /// Nodes that the control service has not mentioned for so long are dead.
    pub(super) fn on_nodes_absent(&mut self) {
        for node_id in self.cluster.take_unconfirmed(self.ctx.now()) {
            self.cluster.mark_dead(node_id);
            self.on_node_died(node_id);
        }
        self.cluster.forget_old();
        self.ctx.capacity_changed();
    }

    fn on_node_died(&mut self, node_id: NodeId) {
        self.drain.on_node_died(node_id);
        let heir = self.cluster.heir(node_id).unwrap_or_default();
        // Before what follows from it: who misses an object then knows where else it is.
        for conn in self.clients.with_runtime() {
            self.ctx.send(conn, NodeDied { node_id, heir: heir.clone() });
        }
        self.with_store(|store, env| store.on_node_died(node_id, env));
        self.liveness.on_node_lost(node_id, true, &mut self.ctx);
        self.on_owners_node_died(node_id);
        self.inspections.on_node_gone(node_id, &mut self.ctx);
        for conn in self.clients.remote_of_node(node_id) {
            self.ctx.push(Action::Close { conn, why: String::new() });
            self.on_client_closed(conn);
        }
    }
}
