//! Calls of clients to the control service. They pass through unread, and are repeated when the
//! connection was lost before the answer. Calls that clients make while there is no connection wait for
//! the next one, behind the earlier ones: a process that waits for a placement group, or ends an actor,
//! has created it before.

use std::collections::{BTreeMap, BTreeSet};

use helio_proto::cluster::FromClient;
use helio_proto::control::{
    ControlRequest, ControlResponse, Failure, FailureKind, StartJob, StopCluster, SubscribeActor,
};
use helio_proto::node::{ControlCall, ControlReply};
use helio_types::{ActorId, WorkerId, mutant};

use crate::context::{Context, Violation};
use crate::event::Conn;
use crate::limits::CALLS_MAX;

/// The request number of the node's own calls for a client; no client uses it.
const OWN_CALL: u64 = u64::MAX;

/// The clients' calls to the control service that are not answered, in the order in which they were made.
#[derive(Debug, Default)]
pub(crate) struct ControlCalls {
    /// Calls without an answer.
    pending: BTreeMap<(WorkerId, u64), ControlRequest>,
    /// The actors that each client follows; they are subscribed to again after a connection was lost.
    subscriptions: BTreeMap<WorkerId, BTreeSet<ActorId>>,
    is_connected: bool,
}

impl ControlCalls {
    /// Calls without an answer.
    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    pub(crate) fn subscriptions_count(&self) -> usize {
        self.subscriptions.values().map(BTreeSet::len).sum()
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// A client calls the control service.
    pub(crate) fn on_call(
        &mut self,
        conn: Conn,
        worker_id: WorkerId,
        call: ControlCall,
        ctx: &mut Context,
    ) -> Result<(), Violation> {
        if call.request_id == OWN_CALL {
            return Err(Violation("a reserved request number"));
        }
        let open = self.pending.range((worker_id, 0)..=(worker_id, u64::MAX)).count();
        assert!(open <= CALLS_MAX + 1, "a client's calls would be kept without end");
        if open >= CALLS_MAX {
            let failure = Failure::new(
                FailureKind::System,
                format!("{CALLS_MAX} calls to the control service wait for their answers already"),
            );
            let response = ControlResponse::Failed(failure);
            ctx.send(conn, ControlReply { request_id: call.request_id, response });
            return Ok(());
        }
        // Remembered, because a control service that starts anew has no subscriptions
        // (`on_control_connected`).
        match &call.request {
            ControlRequest::SubscribeActor(subscribe) => {
                self.subscriptions.entry(worker_id).or_default().insert(subscribe.actor_id);
            }
            ControlRequest::UnsubscribeActor(subscribe) => {
                if let Some(actors) = self.subscriptions.get_mut(&worker_id) {
                    actors.remove(&subscribe.actor_id);
                }
            }
            _ => {}
        }
        self.ask(worker_id, call, ctx);
        Ok(())
    }

    fn ask(&mut self, worker_id: WorkerId, call: ControlCall, ctx: &mut Context) {
        self.pending.insert((worker_id, call.request_id), call.request.clone());
        if self.is_connected {
            ctx.tell_control(FromClient { worker_id, call });
        }
    }

    /// Asks for the number of a driver's job.
    pub(crate) fn start_job(&mut self, driver: WorkerId, job: StartJob, ctx: &mut Context) {
        let call = ControlCall { request_id: OWN_CALL, request: ControlRequest::StartJob(job) };
        self.ask(driver, call, ctx);
    }

    /// Asks for the end of the cluster in the name of a client. Whoever asks sees it end, so there is no
    /// answer to wait for.
    pub(crate) fn stop_cluster(&self, worker_id: WorkerId, reason: String, ctx: &mut Context) {
        let request = ControlRequest::StopCluster(StopCluster { reason });
        let call = ControlCall { request_id: OWN_CALL, request };
        ctx.tell_control(FromClient { worker_id, call });
    }

    /// The control service was reached. It may not have heard or not have answered some calls, so those
    /// are repeated; every request means the same when it is heard twice.
    pub(crate) fn on_control_connected(&mut self, ctx: &mut Context) {
        self.is_connected = true;
        for ((worker_id, request_id), request) in &self.pending {
            if mutant!("unanswered-calls-not-repeated") {
                break;
            }
            let call = ControlCall { request_id: *request_id, request: request.clone() };
            ctx.tell_control(FromClient { worker_id: *worker_id, call });
        }
        for (worker_id, actors) in &self.subscriptions {
            if mutant!("subscriptions-not-repeated") {
                break;
            }
            for actor_id in actors {
                let subscribe = SubscribeActor { actor_id: *actor_id };
                let request = ControlRequest::SubscribeActor(subscribe);
                let call = ControlCall { request_id: OWN_CALL, request };
                ctx.tell_control(FromClient { worker_id: *worker_id, call });
            }
        }
    }

    pub(crate) fn on_control_lost(&mut self) {
        self.is_connected = false;
    }

    /// A call of the client was answered. Returns whether it was a call of the node's own.
    pub(crate) fn on_reply(&mut self, worker_id: WorkerId, request_id: u64) -> bool {
        self.pending.remove(&(worker_id, request_id));
        request_id == OWN_CALL
    }

    /// A client is gone and wants no answers any more.
    pub(crate) fn on_client_gone(&mut self, worker_id: WorkerId) {
        let calls = self.pending.range((worker_id, 0)..=(worker_id, u64::MAX));
        for key in calls.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.pending.remove(&key);
        }
        let mut left = self.pending.range((worker_id, 0)..=(worker_id, u64::MAX));
        assert!(left.next().is_none(), "what somebody who is gone has asked would be asked again");
        self.subscriptions.remove(&worker_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Action;
    use crate::setup::Setup;
    use helio_proto::cluster::NodeToControl;
    use helio_proto::control::ListJobs;

    const CLIENT: WorkerId = WorkerId([1; 28]);

    fn call(request_id: u64) -> ControlCall {
        ControlCall { request_id, request: ControlRequest::ListJobs(ListJobs {}) }
    }

    /// The numbers of the calls that went out.
    fn asked(ctx: &mut Context) -> Vec<u64> {
        let number = |action| match action {
            Action::Control(NodeToControl::FromClient(from)) => Some(from.call.request_id),
            _ => None,
        };
        ctx.finish().into_iter().filter_map(number).collect()
    }

    #[test]
    fn unanswered_calls_are_repeated_on_the_next_connection() {
        let (mut calls, mut ctx) = (ControlCalls::default(), Context::new(Setup::default(), 0));
        for number in [3, 1, 2] {
            calls.on_call(Conn(1), CLIENT, call(number), &mut ctx).unwrap();
        }
        assert!(asked(&mut ctx).is_empty(), "there is no connection yet");
        calls.on_control_connected(&mut ctx);
        assert_eq!(asked(&mut ctx), [1, 2, 3]);
        assert!(!calls.on_reply(CLIENT, 2));
        calls.on_control_lost();
        calls.on_control_connected(&mut ctx);
        assert_eq!(asked(&mut ctx), [1, 3]);
        calls.on_client_gone(CLIENT);
        assert_eq!(calls.len(), 0);
    }

    #[test]
    fn subscriptions_last_until_they_are_ended_or_their_client_is_gone() {
        let (mut calls, mut ctx) = (ControlCalls::default(), Context::new(Setup::default(), 0));
        let actor_id = ActorId([7; 16]);
        let request = ControlRequest::SubscribeActor(SubscribeActor { actor_id });
        calls.on_call(Conn(1), CLIENT, ControlCall { request_id: 4, request }, &mut ctx).unwrap();
        calls.on_reply(CLIENT, 4);
        calls.on_control_connected(&mut ctx);
        assert_eq!(asked(&mut ctx), [OWN_CALL]);
        calls.on_client_gone(CLIENT);
        assert_eq!(calls.subscriptions_count(), 0);
    }

    #[test]
    fn the_number_of_the_nodes_own_calls_is_reserved() {
        let (mut calls, mut ctx) = (ControlCalls::default(), Context::new(Setup::default(), 0));
        assert!(calls.on_call(Conn(1), CLIENT, call(OWN_CALL), &mut ctx).is_err());
        calls.start_job(CLIENT, StartJob::default(), &mut ctx);
        assert!(calls.on_reply(CLIENT, OWN_CALL), "a reply to this number is for the node");
    }
}
