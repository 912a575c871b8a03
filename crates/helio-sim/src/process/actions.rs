//! Doing what the owner machine wants done; as `helio-worker`'s module of that name.

use std::sync::Arc;

use helio_owner_state::{Action, TaskSpec};
use helio_proto::control::{ControlRequest, SubscribeActor};
use helio_proto::encode;
use helio_proto::error::{ErrorKind, SystemError};
use helio_proto::node::{
    CancelLease, ClientToNode, ControlCall, FreeObject, Liveness, RequestLease, ReturnLease,
};
use helio_proto::peer::{Frame, Returned, Template, Value, flags};
use helio_types::{LeaseId, NodeId, TaskId, WorkerAddress};

use super::{Asked, Process};
use crate::core::Core;

impl Process {
    pub(super) fn perform(&mut self, core: &mut Core) {
        while !self.actions.is_empty() {
            for action in std::mem::take(&mut self.actions) {
                self.do_one(core, action);
            }
        }
    }

    fn do_one(&mut self, core: &mut Core, action: Action) {
        match action {
            Action::Ready(id) => self.supply(core, id),
            Action::Slimmed
            | Action::Unseen(_)
            | Action::StreamChanged(_)
            | Action::ActorChanged(_) => {}
            Action::Send { to, frame } => self.send_frame(core, &to, &frame),
            Action::Call { to, spec, args, lease, sequence, attempt } => {
                self.send_call(core, &to, &spec, &args, (lease, sequence, attempt));
            }
            Action::BeginLease { to, grant } => {
                let (grant_wire, job) = (encode(&*grant), encode(&self.job));
                let frame =
                    Frame::BeginLease { lease: grant.lease_id, grant: &grant_wire, job: &job };
                self.send_frame(core, &to, &frame);
            }
            Action::RequestLease { node, request, class, backlog, locality, is_retriable } => {
                let spilled = node.is_some();
                let link = match &node {
                    Some(node) => self.remote_node(core, node),
                    None => Some(self.node_link),
                };
                let class = (*class).clone();
                let message = RequestLease {
                    request_id: request,
                    class,
                    backlog,
                    spilled,
                    locality,
                    is_retriable,
                };
                self.to_daemon(core, link, message);
            }
            Action::CancelLease { node, request } => {
                let link = node.map_or(Some(self.node_link), |node| self.node_conn(node.node_id));
                self.to_daemon(core, link, CancelLease { request_id: request });
            }
            Action::ReturnLease { node, lease, discard } => {
                self.to_daemon(
                    core,
                    self.node_conn(node),
                    ReturnLease { lease_id: lease, discard },
                );
            }
            Action::Free { id, locations } => {
                self.pins.remove(&id);
                self.to_node(core, FreeObject { object_id: id, locations });
            }
            Action::CreateActor { actor, request } => {
                self.ask(core, *request, Asked::Creation(actor))
            }
            Action::Control(request) => self.ask(core, *request, Asked::Nobody),
            Action::Subscribe(actor_id) => self.ask(core, SubscribeActor { actor_id }, Asked::News),
            Action::AskLiveness(worker) => {
                let request_id = self.request();
                self.liveness_asked.insert(request_id, worker.worker_id);
                self.to_node(core, Liveness { request_id, worker: (*worker).clone() });
            }
            Action::CancelRunning { task, force } => self.cancel_incoming(core, task, force),
        }
    }

    fn node_conn(&self, node: NodeId) -> Option<u64> {
        let own = self.owner.as_ref()?.address().node_id;
        if node == own { Some(self.node_link) } else { self.nodes.get(&node).copied() }
    }

    fn to_daemon(&self, core: &mut Core, link: Option<u64>, message: impl Into<ClientToNode>) {
        if let Some(link) = link {
            core.send(link, self.me(), encode::<ClientToNode>(&message.into()));
        }
    }

    pub(super) fn to_node(&self, core: &mut Core, message: impl Into<ClientToNode>) {
        self.to_daemon(core, Some(self.node_link), message);
    }

    pub(super) fn ask(
        &mut self,
        core: &mut Core,
        request: impl Into<ControlRequest>,
        asked: Asked,
    ) {
        let request_id = self.request();
        self.asked.insert(request_id, asked);
        self.to_node(core, ControlCall { request_id, request: request.into() });
    }

    pub(super) fn send_frame(
        &mut self,
        core: &mut Core,
        to: &Arc<WorkerAddress>,
        frame: &Frame<'_>,
    ) {
        let Some(link) = self.peer(core, to) else { return };
        let mut bytes = Vec::new();
        frame.put(&mut bytes);
        core.send(link, self.me(), bytes);
    }

    fn send_call(
        &mut self,
        core: &mut Core,
        to: &Arc<WorkerAddress>,
        spec: &TaskSpec,
        args: &[u8],
        (lease, sequence, attempt): (LeaseId, u64, u32),
    ) {
        let Some(link) = self.peer(core, to) else { return };
        let me = self.me();
        let Some(conn) = self.conns.get_mut(&link) else { return };
        let key = Arc::as_ptr(&spec.template) as usize;
        let next = conn.templates_sent.len() as u32 + 1;
        let template = match conn.templates_sent.get(&key) {
            Some((number, _)) => *number,
            None => {
                let body = encode::<Template>(&spec.template);
                let mut bytes = Vec::new();
                Frame::Template { number: next, function: 0, body: &body }.put(&mut bytes);
                core.send(link, me, bytes);
                conn.templates_sent.insert(key, (next, spec.template.clone()));
                next
            }
        };
        let flags = if attempt > 0 { flags::RETRY } else { 0 };
        let call = Frame::Call {
            task: spec.id,
            template,
            lease,
            sequence,
            returns: spec.returns,
            flags,
            args,
        };
        let mut bytes = Vec::new();
        call.put(&mut bytes);
        core.send(link, me, bytes);
    }

    fn cancel_incoming(&mut self, core: &mut Core, task: TaskId, force: bool) {
        if let Some(caller) = self.inbox.remove(task) {
            let returned = Returned { value: Value::Error(cancelled(task)), contained: Vec::new() };
            let returns = vec![returned];
            let frame = Frame::Reply {
                task,
                failed: true,
                retryable: false,
                leaving: false,
                items: 0,
                returns,
            };
            self.send_frame(core, &caller, &frame);
        } else if self.inbox.running.iter().any(|(running, _)| *running == task) {
            if force {
                core.facts.workers_killed += 1;
                self.dies = Some("a task was cancelled by force");
            } else {
                self.cancelled.insert(task);
            }
        }
    }
}

/// What stands in place of a cancelled call's values.
pub(super) fn cancelled(task: TaskId) -> Vec<u8> {
    let text = "the task was cancelled before it began";
    SystemError { task, ..SystemError::new(ErrorKind::TaskCancelled, text) }.to_payload()
}
