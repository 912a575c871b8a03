//! Actions of the owner machine: frames go to links, requests into the table of pending requests.

use std::sync::Arc;

use helio_owner_state::{Action as OwnerAction, Event as OwnerEvent};
use helio_proto::control::{ControlRequest, SubscribeActor};
use helio_proto::error::{ErrorKind, SystemError};
use helio_proto::node::{
    CancelLease, ControlCall, FreeObject, KeepObject, Liveness, Register, RequestLease, ReturnLease,
};
use helio_proto::peer::{CallFlags, Frame, Returned, Value};
use helio_types::{NodeAddress, NodeId, TaskId, WorkerAddress, WorkerId, mutant};

use super::Process;
use crate::event::Action;
use crate::executor::Cancelled;
use crate::links::Peer;
use crate::requests::Pending;
use crate::value::Memory;

impl<M: Memory> Process<M> {
    /// Tells the owner machine, and does what it wants done.
    #[inline]
    pub(crate) fn on_owner(&mut self, event: OwnerEvent) {
        self.queue_for_owner(event);
        self.run_owner();
    }

    /// Tells the owner machine; what it wants done waits for [`Process::run_owner`].
    #[inline]
    pub(crate) fn queue_for_owner(&mut self, event: OwnerEvent) {
        let mut actions = self.owner.apply(event, self.now);
        if self.owner_actions.is_empty() {
            std::mem::swap(&mut self.owner_actions, &mut actions);
        } else {
            self.owner_actions.append(&mut actions);
        }
        // Most events lead to a few actions: the list is allocated once for all of them.
        self.owner.reuse(actions);
    }

    pub(crate) fn run_owner(&mut self) {
        // Executing one action can lead to more: until nothing is left.
        while !self.owner_actions.is_empty() {
            let mut actions = std::mem::take(&mut self.owner_actions);
            for action in actions.drain(..) {
                self.execute_action(action);
            }
            // The next event hands this list to the owner, which keeps it if it is not too long.
            if self.owner_actions.is_empty() {
                self.owner_actions = actions;
            }
        }
        // The answer that the next task waited for has left.
        if self.awaits_answer && !self.must_answer_first() {
            self.awaits_answer = false;
            self.work_arrived();
        }
    }

    fn execute_action(&mut self, action: OwnerAction) {
        match action {
            OwnerAction::Ready(id) => {
                self.signals.news = true;
                self.arrivals += 1;
                self.look_at_watched(id);
                self.supply(id);
            }
            OwnerAction::UnseenError(bytes) => {
                self.actions.push(Action::ShowUnseen(bytes));
                self.signals.news = true;
            }
            OwnerAction::MemoryFreed => self.actions.push(Action::ReturnMemory),
            // A watcher of a stream watches its next item and its end, which are objects.
            OwnerAction::StreamChanged(_) | OwnerAction::ActorChanged(_) => {
                self.signals.news = true;
            }
            OwnerAction::Send { to, frame } => self.send_frame(&to, &frame),
            OwnerAction::Call { to, spec, args, lease, sequence, attempt, is_remade } => {
                let link = self.open_process(&to);
                let flags = CallFlags { is_retry: attempt > 0, is_remade };
                self.links.send_call(link, &spec, &args, lease, sequence, flags);
            }
            OwnerAction::BeginLease { to, grant } => {
                let lease = grant.lease_id;
                let grant = helio_proto::encode(&*grant);
                let link = self.open_process(&to);
                let begin = Frame::BeginLease { lease, grant: &grant, job: &self.job_wire };
                self.links.send_frame(link, &begin);
            }
            OwnerAction::RequestLease { node, request, class, backlog, touched, is_retriable } => {
                let spilled = node.is_some();
                let link = match &node {
                    Some(node) => self.open_node(node),
                    None => self.links.own_node(),
                };
                let message = RequestLease {
                    request_id: request,
                    class: (*class).clone(),
                    backlog,
                    spilled,
                    touched,
                    is_retriable,
                };
                self.links.send_node(link, &message.into());
            }
            OwnerAction::CancelLease { node, request } => {
                let node = node.map_or(self.owner.address().node_id, |node| node.node_id);
                self.tell_daemon(node, CancelLease { request_id: request });
            }
            OwnerAction::ReturnLease { node, lease, discard } => {
                self.tell_daemon(node, ReturnLease { lease_id: lease, discard });
            }
            OwnerAction::Free { id, locations } => {
                self.store.unpin(id);
                let rest_of = WorkerId::NIL;
                self.links.tell_node(FreeObject { object_id: id, locations, rest_of });
            }
            OwnerAction::FreeRest { id, locations } => {
                let rest_of = self.owner.address().worker_id;
                self.links.tell_node(FreeObject { object_id: id, locations, rest_of });
            }
            OwnerAction::Forget(id) => {
                if !mutant!("forgotten-object-stays-pinned") {
                    self.store.unpin(id);
                }
            }
            OwnerAction::Keep { id, at } => self.links.tell_node(KeepObject { object_id: id, at }),
            OwnerAction::CreateActor { actor, request } => {
                // The maker of a named actor waits for the answer, which may name another actor.
                let awaited = self.awaited_creations.contains_key(&actor);
                self.ask_control(*request, Pending::Creation { actor, awaited });
            }
            OwnerAction::Control(request) => self.on_tell(*request),
            OwnerAction::Subscribe(actor_id) => {
                self.ask_control(SubscribeActor { actor_id }, Pending::ActorNews);
            }
            OwnerAction::AskLiveness(worker) => {
                let pending = Pending::Liveness { worker: worker.worker_id };
                let request_id = self.requests.begin(pending);
                self.links.tell_node(Liveness { request_id, worker: (*worker).clone() });
            }
            OwnerAction::CancelRunning { task, force } => self.cancel_running(task, force),
        }
    }

    /// A call that this process runs, or is to run, was cancelled.
    fn cancel_running(&mut self, task: TaskId, force: bool) {
        match self.executor.cancel(task) {
            Cancelled::Unknown => {}
            Cancelled::NotBegun(caller) => {
                self.release_room_of(task);
                let text = "the task was cancelled before it began";
                let error =
                    SystemError { task, ..SystemError::new(ErrorKind::TaskCancelled, text) };
                let value = Value::Error(error.to_payload());
                let reply = Frame::Reply {
                    task,
                    failed: true,
                    retryable: false,
                    leaving: false,
                    items: 0,
                    returns: vec![Returned { value, contained: Vec::new() }],
                };
                self.send_frame(&caller, &reply);
            }
            Cancelled::Running if force && !mutant!("cancel-by-force-only-asks") => {
                self.end_at_once("a task was cancelled by force".to_owned());
            }
            Cancelled::Running => {
                self.executor.interrupt(task);
                self.work_arrived();
                self.actions.push(Action::Interrupt(task));
            }
        }
    }

    /// Sends a frame to a process, opening a link to it if there is none. When no connection can be made
    /// the frame is dropped, and the owner machine hears that the peer is lost.
    pub(crate) fn send_frame(&mut self, to: &Arc<WorkerAddress>, frame: &Frame<'_>) {
        let link = self.open_process(to);
        self.links.send_frame(link, frame);
    }

    pub(crate) fn open_process(&mut self, to: &Arc<WorkerAddress>) -> u64 {
        let (link, is_new) = self.links.open_process(to);
        if is_new {
            self.actions.push(Action::Connect { link, to: Peer::Process(to.clone()) });
        }
        link
    }

    fn open_node(&mut self, to: &NodeAddress) -> u64 {
        let (link, is_new) = self.links.open_node(to);
        if is_new {
            self.actions.push(Action::Connect { link, to: Peer::RemoteNode(to.clone()) });
            // The registration is the first frame: the requests for which the link is opened follow
            // it.
            let me = self.owner.address();
            let register = Register {
                worker_id: me.worker_id,
                pid: self.pid,
                is_driver: self.is_driver,
                remote: true,
                ..Register::default()
            };
            self.links.send_node(link, &register.into());
        }
        link
    }

    /// A message for a daemon that this process has a link to.
    fn tell_daemon(&mut self, node: NodeId, message: impl Into<helio_proto::node::ClientToNode>) {
        if let Some(link) = self.links.to_node(node) {
            self.links.send_node(link, &message.into());
        }
    }

    /// Asks the control service, through this node's daemon.
    pub(crate) fn ask_control(&mut self, request: impl Into<ControlRequest>, pending: Pending) {
        let request_id = self.requests.begin(pending);
        self.links.tell_node(ControlCall { request_id, request: request.into() });
    }

    /// Tells the control service; nobody waits for its answer.
    pub(crate) fn on_tell(&mut self, request: ControlRequest) {
        let request_id = self.requests.mint();
        self.links.tell_node(ControlCall { request_id, request });
    }
}
