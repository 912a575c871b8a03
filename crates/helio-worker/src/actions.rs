//! Doing what the owner machine wants done.

use std::sync::Arc;

use helio_owner_state::{Action, TaskSpec};
use helio_proto::control::{ControlRequest, SubscribeActor};
use helio_proto::frame;
use helio_proto::node::{
    CancelLease, ClientToNode, ControlCall, FreeObject, Liveness, RequestLease, ReturnLease,
};
use helio_proto::peer::{Frame, flags};
use helio_types::{LeaseId, NodeId, WorkerAddress};

use crate::api::Work;
use crate::state::{Asked, State};

/// Exceptions that nobody has seen are kept up to so many until the front shows them.
const UNSEEN_MAX: usize = 100;
/// Room for so many actions is kept between events.
const ACTIONS_KEPT: usize = 1 << 12;
/// Output of this size is written at once, in bytes.
const OUTPUT_AT_ONCE: usize = 16 << 10;
/// With more calls than this unanswered, the receiver is busy: the next ones may wait to be written
/// together.
const UNANSWERED_AT_ONCE: usize = 1;

impl State {
    pub(crate) fn perform(&mut self) {
        // Doing one thing can lead to more (a connection that cannot be made): until nothing is left.
        while !self.actions.is_empty() {
            let mut actions = std::mem::take(&mut self.actions);
            for action in actions.drain(..) {
                self.do_one(action);
            }
            if self.actions.is_empty() && actions.capacity() <= ACTIONS_KEPT {
                self.actions = actions;
            }
        }
    }

    fn do_one(&mut self, action: Action) {
        match action {
            Action::Ready(id) => {
                self.news = true;
                self.arrivals += 1;
                if !self.watched.is_empty() {
                    self.watch_ready(id);
                }
                if !self.recovering.is_empty() {
                    self.supply(id);
                }
            }
            Action::Unseen(bytes) => {
                if self.unseen.len() < UNSEEN_MAX {
                    self.unseen.push(bytes);
                    self.news = true;
                }
            }
            Action::Slimmed => self.slimmed = true,
            Action::StreamChanged(task) => {
                self.news = true;
                self.watch_ready(task.object(1));
            }
            Action::ActorChanged(_) => self.news = true,
            Action::Send { to, frame } => self.send_frame(&to, &frame),
            Action::Call { to, spec, args, lease, sequence, attempt } => {
                self.send_call(&to, &spec, &args, lease, sequence, attempt);
            }
            Action::BeginLease { to, grant } => {
                let grant_bytes = helio_proto::encode(&*grant);
                let job = self.job_wire.clone();
                self.send_frame(
                    &to,
                    &Frame::BeginLease { lease: grant.lease_id, grant: &grant_bytes, job: &job },
                );
            }
            Action::RequestLease { node, request, class, backlog, locality, is_retriable } => {
                let spilled = node.is_some();
                let conn = match &node {
                    Some(node) => self.remote_node(node),
                    None => Some(self.node),
                };
                let message = RequestLease {
                    request_id: request,
                    class: (*class).clone(),
                    backlog,
                    spilled,
                    locality,
                    is_retriable,
                };
                if let Some(conn) = conn {
                    self.send_node(conn, &message.into());
                }
            }
            Action::CancelLease { node, request } => {
                let conn = node.map_or(Some(self.node), |node| self.node_conn(node.node_id));
                if let Some(conn) = conn {
                    self.send_node(conn, &CancelLease { request_id: request }.into());
                }
            }
            Action::ReturnLease { node, lease, discard } => {
                if let Some(conn) = self.node_conn(node) {
                    self.send_node(conn, &ReturnLease { lease_id: lease, discard }.into());
                }
            }
            Action::Free { id, locations } => {
                self.pins.remove(&id);
                self.tell_node(FreeObject { object_id: id, locations }.into());
            }
            Action::CreateActor { actor, request } => self.ask(*request, Asked::Creation(actor)),
            Action::Control(request) => self.ask(*request, Asked::Nobody),
            Action::Subscribe(actor_id) => {
                self.ask(SubscribeActor { actor_id }.into(), Asked::News)
            }
            Action::AskLiveness(worker) => {
                let request_id = self.request();
                self.liveness_asked.insert(request_id, worker.worker_id);
                self.tell_node(Liveness { request_id, worker: (*worker).clone() }.into());
            }
            Action::CancelRunning { task, force } => self.cancel_incoming(task, force),
        }
    }

    fn cancel_incoming(&mut self, task: helio_types::TaskId, force: bool) {
        if let Some(caller) = self.inbox.remove(task) {
            let error = helio_proto::error::SystemError {
                task,
                ..helio_proto::error::SystemError::new(
                    helio_proto::error::ErrorKind::TaskCancelled,
                    "the task was cancelled before it began",
                )
            };
            let returned = helio_proto::peer::Returned {
                value: helio_proto::peer::Value::Error(error.to_payload()),
                contained: Vec::new(),
            };
            let frame = Frame::Reply {
                task,
                failed: true,
                retryable: false,
                leaving: false,
                items: 0,
                returns: vec![returned],
            };
            self.send_frame(&caller, &frame);
        } else if self.inbox.running.iter().any(|(running, _)| *running == task) {
            if force {
                self.add_work(Work::Exit {
                    reason: "a task was cancelled by force".into(),
                    drain: false,
                });
                self.force_exit = true;
            } else {
                self.inbox.cancelled.insert(task);
                self.add_work(Work::Cancel(task));
                if let Some(hook) = &self.on_cancel {
                    (hook.0)(task);
                }
            }
        }
    }

    pub(crate) fn node_conn(&self, node: NodeId) -> Option<u64> {
        if node == self.owner.address().node_id {
            Some(self.node)
        } else {
            self.nodes.get(&node).copied()
        }
    }

    /// Asks the control service.
    pub(crate) fn ask(&mut self, request: ControlRequest, asked: Asked) {
        let request_id = self.request();
        self.asked.insert(request_id, asked);
        self.tell_node(ControlCall { request_id, request }.into());
    }

    /// A message for our own daemon; goes out with the next flush.
    pub(crate) fn tell_node(&mut self, message: ClientToNode) {
        self.send_node(self.node, &message);
    }

    pub(crate) fn send_node(&mut self, conn: u64, message: &ClientToNode) {
        let Some(connection) = self.conns.get_mut(&conn) else { return };
        frame::put(&mut connection.output, |b| b.extend_from_slice(&helio_proto::encode(message)));
        // Whoever asks the daemon waits for it, now or soon.
        self.touch(conn);
        self.urgent = true;
    }

    pub(crate) fn send_frame(&mut self, to: &Arc<WorkerAddress>, message: &Frame<'_>) {
        let Some(number) = self.peer(to) else { return };
        let Some(conn) = self.conns.get_mut(&number) else { return };
        frame::put(&mut conn.output, |b| message.put(b));
        self.touch(number);
        if !matches!(message, Frame::RemoveBorrow { .. }) {
            self.urgent = true;
        }
    }

    fn send_call(
        &mut self,
        to: &Arc<WorkerAddress>,
        spec: &TaskSpec,
        args: &[u8],
        lease: LeaseId,
        sequence: u64,
        attempt: u32,
    ) {
        let Some(number) = self.peer(to) else { return };
        let Some(conn) = self.conns.get_mut(&number) else { return };
        let template = conn.template(&spec.template);
        let call = Frame::Call {
            task: spec.id,
            template,
            lease,
            sequence,
            returns: spec.returns,
            flags: if attempt > 0 { flags::RETRY } else { 0 },
            args,
        };
        frame::put(&mut conn.output, |b| call.put(b));
        conn.unanswered += 1;
        if conn.unanswered <= UNANSWERED_AT_ONCE || conn.unwritten() >= OUTPUT_AT_ONCE {
            self.flush_one(number);
            self.dirty.retain(|dirty| *dirty != number);
        } else {
            self.touch(number);
        }
    }

    /// After a change by the front: what cannot wait goes out now, the rest soon.
    pub(crate) fn flush_some(&mut self) {
        if self.urgent {
            self.urgent = false;
            self.flush();
        } else {
            self.flush_soon();
        }
    }
}
