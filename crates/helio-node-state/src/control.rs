//! Calls to the control service: they pass through unread, and are asked again when the connection
//! was lost before the answer. What a client asks while there is no connection waits for the next one,
//! behind what it asked before: who waits for a placement group, or ends an actor, has made it.

use std::collections::{BTreeMap, BTreeSet};

use helio_proto::cluster::{ControlToNode, FromClient};
use helio_proto::control::{
    ControlRequest, ControlResponse, Failure, FailureKind, StartJob, StopCluster, SubscribeActor,
};
use helio_proto::node::{ControlCall, ControlReply, NodeToClient};
use helio_types::{ActorId, WorkerId};

use crate::limits::CALLS_MAX;
use crate::{Action, Conn, Node};

/// The request number of the node's own calls for a client; no client uses it.
const OWN_CALL: u64 = u64::MAX;

#[derive(Debug, Default)]
pub(crate) struct Control {
    /// Unanswered calls.
    calls: BTreeMap<(WorkerId, u64), ControlRequest>,
    /// What each client wants to hear of, to be asked for again after the connection was lost.
    subscriptions: BTreeMap<WorkerId, BTreeSet<ActorId>>,
    pub(crate) is_connected: bool,
}

impl Control {
    pub(crate) fn calls_count(&self) -> usize {
        self.calls.len()
    }

    pub(crate) fn subscriptions_count(&self) -> usize {
        self.subscriptions.values().map(BTreeSet::len).sum()
    }

    pub(crate) fn forget(&mut self, worker_id: WorkerId) {
        let first = (worker_id, 0);
        let last = (worker_id, u64::MAX);
        let keys: Vec<_> = self.calls.range(first..=last).map(|(key, _)| *key).collect();
        for key in keys {
            self.calls.remove(&key);
        }
        self.subscriptions.remove(&worker_id);
    }
}

impl Node {
    pub(crate) fn client_calls_control(&mut self, conn: Conn, call: ControlCall) {
        let Some(client) = self.clients.get(conn) else { return };
        let worker_id = client.worker_id;
        if call.request_id == OWN_CALL {
            return self.violation(conn, "a reserved request number");
        }
        let open = self.control.calls.range((worker_id, 0)..=(worker_id, u64::MAX)).count();
        if open >= CALLS_MAX {
            let failure = Failure::new(
                FailureKind::System,
                format!("{CALLS_MAX} calls to the control service wait for their answers already"),
            );
            let response = ControlResponse::Failed(failure);
            return self.send(conn, ControlReply { request_id: call.request_id, response });
        }
        match &call.request {
            ControlRequest::SubscribeActor(subscribe) => {
                self.control.subscriptions.entry(worker_id).or_default().insert(subscribe.actor_id);
            }
            ControlRequest::UnsubscribeActor(subscribe) => {
                if let Some(actors) = self.control.subscriptions.get_mut(&worker_id) {
                    actors.remove(&subscribe.actor_id);
                }
            }
            _ => {}
        }
        self.ask_control(worker_id, call);
    }

    fn ask_control(&mut self, worker_id: WorkerId, call: ControlCall) {
        self.control.calls.insert((worker_id, call.request_id), call.request.clone());
        if self.control.is_connected {
            self.tell_control(FromClient { worker_id, call });
        }
    }

    pub(crate) fn start_job_at_control(&mut self, driver: WorkerId, job: StartJob) {
        let call = ControlCall { request_id: OWN_CALL, request: ControlRequest::StartJob(job) };
        self.ask_control(driver, call);
    }

    /// What the lost service may not have heard or not have answered is asked again; every request
    /// means the same when it is heard twice.
    pub(crate) fn control_connected(&mut self) {
        self.control.is_connected = true;
        let calls: Vec<_> =
            self.control.calls.iter().map(|(key, request)| (*key, request.clone())).collect();
        for ((worker_id, request_id), request) in calls {
            self.tell_control(FromClient { worker_id, call: ControlCall { request_id, request } });
        }
        let wanted: Vec<(WorkerId, ActorId)> = self
            .control
            .subscriptions
            .iter()
            .flat_map(|(worker_id, actors)| actors.iter().map(|actor_id| (*worker_id, *actor_id)))
            .collect();
        for (worker_id, actor_id) in wanted {
            let request = ControlRequest::SubscribeActor(SubscribeActor { actor_id });
            self.tell_control(FromClient {
                worker_id,
                call: ControlCall { request_id: OWN_CALL, request },
            });
        }
    }

    pub(crate) fn control_lost(&mut self) {
        self.control.is_connected = false;
    }

    pub(crate) fn control_said(&mut self, message: ControlToNode) {
        match message {
            ControlToNode::Accepted(accepted) => {
                self.await_confirmations();
                self.bundles.forget_questions();
                if !accepted.refused.is_empty() {
                    let reason =
                        format!("the control service refused this node: {}", accepted.refused);
                    self.out.push(Action::ShutDown { reason });
                }
            }
            ControlToNode::ToClient(to) => self.pass_to_client(to.worker_id, to.message),
            ControlToNode::LaunchActor(launch) => self.launch_actor(launch),
            ControlToNode::StopActor(stop) => self.control_stops_actor(stop),
            ControlToNode::View(view) => self.view_changed(view),
            ControlToNode::ReserveBundles(order) => self.reserve_bundles(&order),
            ControlToNode::CommitBundles(order) => self.commit_bundles(&order),
            ControlToNode::ReturnBundles(order) => self.return_bundles(&order),
            ControlToNode::GroupNews(news) => self.group_news(news),
            ControlToNode::JobFinished(finished) => self.job_finished(&finished),
            ControlToNode::ShutDown(shut_down) => {
                self.out.push(Action::ShutDown { reason: shut_down.reason })
            }
            ControlToNode::Unknown => {}
        }
    }

    fn pass_to_client(&mut self, worker_id: WorkerId, message: NodeToClient) {
        if let NodeToClient::ControlReply(reply) = &message {
            self.control.calls.remove(&(worker_id, reply.request_id));
            if reply.request_id == OWN_CALL {
                return self.own_call_answered(worker_id, reply.response.clone());
            }
        }
        if let Some(conn) = self.clients.local(worker_id) {
            self.send(conn, message);
        }
    }

    fn own_call_answered(&mut self, worker_id: WorkerId, response: ControlResponse) {
        match response {
            ControlResponse::Job(job) => self.job_started(worker_id, Ok(job)),
            ControlResponse::Failed(failure) => self.job_started(worker_id, Err(failure)),
            ControlResponse::Actor(info) => {
                if let Some(conn) = self.clients.local(worker_id) {
                    self.send(conn, info);
                }
            }
            _ => {}
        }
    }

    /// On the head the cluster ends with its node, in the order that the control service chooses.
    pub(crate) fn stop_node(&mut self, conn: Conn, reason: String) {
        if self.setup.is_head {
            let Some(client) = self.clients.get(conn) else { return };
            let worker_id = client.worker_id;
            let request = ControlRequest::StopCluster(StopCluster { reason });
            self.tell_control(FromClient {
                worker_id,
                call: ControlCall { request_id: OWN_CALL, request },
            });
        } else {
            self.out.push(Action::ShutDown { reason });
        }
    }
}
