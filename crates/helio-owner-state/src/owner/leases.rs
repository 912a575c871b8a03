//! Leased workers: calls go to them, and what follows when a lease comes or ends.

use helio_proto::control::{Failure, FailureKind};
use helio_proto::error::{ErrorKind, SystemError};
use helio_proto::node::LeaseGranted;
use helio_types::{DeathCause, DeathKind, LeaseId, NodeAddress, NodeId, TaskId, WorkerId, mutant};
use std::sync::Arc;

use super::Owner;
use crate::calls::State;
use crate::event::Action;
use crate::leases::Fate;
use crate::leases::lost::{Begun, node_lost};
use crate::value::{Stored, cancelled_error};

impl Owner {
    /// Sends queued calls to leases with room, and asks for more leases if calls are left.
    pub(super) fn pump(&mut self, index: usize) {
        loop {
            let (leases, mut env) = self.leases();
            let Some((line, task, request)) = leases.next_pair(index, &mut env) else { break };
            leases.pop_front(index, line);
            // An argument was lost while the call waited: the worker stays free for the next one.
            if self.waits_again(task) {
                self.leases.leave_idle(index, request);
                continue;
            }
            self.send(request, task);
        }
        let (leases, mut env) = self.leases();
        leases.ask_for_rest(index, &mut env);
    }

    fn send(&mut self, request: u64, id: TaskId) {
        if !self.calls.contains(id) {
            return;
        }
        let now = self.ctx.now();
        let Some((to, lease)) = self.leases.on_sent(request, id, now) else { return };
        let Some(sending) = self.calls.send(id, State::OnLease(request), &to, now) else { return };
        let (spec, attempt) = (sending.spec, sending.attempt);
        let (args, is_stored) = self.objects.encode_args(&spec.args, self.ctx.me());
        // The worker's node will copy them, and the copies have to go with the objects.
        if is_stored {
            self.objects.copies_to_come(&spec, &to);
        }
        let (sequence, is_remade) = (0, false);
        self.ctx.push(Action::Call { to, spec, args, lease, sequence, attempt, is_remade });
    }

    pub(super) fn on_lease_granted(&mut self, grant: Box<LeaseGranted>, node: NodeId) {
        if let Some(index) = self.leases.on_granted(grant, node, &mut self.ctx) {
            self.pump(index);
            self.balance(index);
        }
    }

    /// An idle worker, and calls waiting behind another's: take some back.
    fn balance(&mut self, index: usize) {
        let (leases, mut env) = self.leases();
        leases.balance(index, &mut env);
    }

    pub(super) fn on_lease_refused(&mut self, request: u64, failure: &Failure) {
        let kind = match failure.kind {
            _ if mutant!("refusal-blamed-on-the-group") => ErrorKind::TaskGroupRemoved,
            _ if mutant!("refusal-blamed-on-the-place") => ErrorKind::TaskUnschedulable,
            FailureKind::RuntimeEnv => ErrorKind::RuntimeEnvSetup,
            FailureKind::Unschedulable => ErrorKind::TaskUnschedulable,
            FailureKind::GroupRemoved => ErrorKind::TaskGroupRemoved,
            _ => ErrorKind::System,
        };
        for task in self.leases.on_refused(request) {
            let error = SystemError { task, ..SystemError::new(kind, failure.message.clone()) };
            self.fail(task, &Stored::Error(Arc::new(error.to_payload())));
        }
    }

    pub(super) fn on_lease_spilled(&mut self, request: u64, node: NodeAddress) {
        let (leases, mut env) = self.leases();
        if let Some(index) = leases.on_spilled(request, node, &mut env) {
            self.pump(index);
        }
    }

    pub(super) fn on_lease_pending(&mut self, request: u64) {
        if let Some(index) = self.leases.on_lease_pending(request, self.ctx.now()) {
            self.pump(index);
        }
    }

    pub(super) fn on_lease_revoked(&mut self, node: NodeId, lease: LeaseId) {
        let revoked = self.leases.on_revoked(node, lease, &mut self.ctx);
        let Some((request, index, is_empty)) = revoked else { return };
        if is_empty {
            self.give_back(request, false);
        }
        self.pump(index);
    }

    fn give_back(&mut self, request: u64, discard: bool) {
        for task in self.leases.give_back(request, discard, &mut self.ctx) {
            let cause = DeathCause::new(DeathKind::Intended, "the worker was given back");
            self.worker_lost(task, false, &cause);
        }
    }

    /// A call on the lease has been replied to; when it can have begun.
    pub(super) fn leave_lease(&mut self, request: u64, id: TaskId, leaving: bool) -> u64 {
        let replied = self.leases.on_replied(request, id, leaving, self.ctx.now());
        let Some(replied) = replied else { return 0 };
        self.meet_fate(request, replied.fate);
        self.pump(replied.class);
        if replied.is_empty {
            self.balance(replied.class);
        }
        replied.began
    }

    fn meet_fate(&mut self, request: u64, fate: Fate) {
        match fate {
            Fate::Kept => {}
            Fate::Ended => self.drop_with_node(request),
            Fate::GivenBack { discard } => self.give_back(request, discard),
        }
    }

    /// A worker hands back calls that it has not begun.
    pub(super) fn unstarted(&mut self, from: WorkerId, tasks: Vec<TaskId>) {
        let (mut touched, mut cancelled) = (Vec::new(), Vec::new());
        // The calls return to the front of the queue in their order.
        for id in tasks.into_iter().rev() {
            let Some(request) = self.calls.on_handed_back(id, from) else { continue };
            let Some(task) = self.calls.get(id) else { continue };
            let is_cancelled = task.is_cancelled();
            if is_cancelled && self.leases.worker(request).is_some() {
                // The news of that reached its worker too late.
                cancelled.push((id, cancelled_error(id, &task.spec().template.name)));
            }
            let (leases, env) = self.leases();
            let index = leases.on_handed_back(request, id, is_cancelled, &env);
            let Some(index) = index else { continue };
            if !touched.contains(&(request, index)) {
                touched.push((request, index));
            }
        }
        for (id, error) in cancelled {
            self.fail(id, &error);
        }
        for (request, index) in touched {
            let fate = self.leases.fate_after_handing_back(request);
            self.meet_fate(request, fate);
            self.pump(index);
        }
    }

    /// The leased worker has ended.
    pub(super) fn on_lease_lost(&mut self, node: NodeId, id: LeaseId, cause: &DeathCause) {
        if let Some(request) = self.leases.find(node, id) {
            self.drop_lease(request, None, cause);
        }
    }

    /// A lease ends because its node is gone.
    pub(super) fn drop_with_node(&mut self, request: u64) {
        if let Some(node) = self.leases.node_of(request) {
            self.drop_lease(request, None, &node_lost(node));
        }
    }

    /// Ends a lease. Which of its calls can have begun follows from how its connection ended, unless `begun`
    /// says so.
    fn drop_lease(&mut self, request: u64, begun: Option<Begun>, cause: &DeathCause) {
        let Some(ended) = self.leases.end(request, begun, &mut self.ctx) else { return };
        for (task, has_begun) in ended.calls {
            self.worker_lost(task, has_begun, cause);
        }
        self.pump(ended.class);
    }

    /// A daemon that lent us workers is gone, or only the connection to it is.
    pub(super) fn on_node_lost(&mut self, node: NodeId) {
        for request in self.leases.on_daemon_lost(node, &mut self.ctx) {
            self.drop_with_node(request);
        }
        for index in 0..self.leases.class_count() {
            self.leases.drop_requests(index, node, self.ctx.now());
            self.pump(index);
        }
        for id in self.objects.located_on(node) {
            // Perhaps only the connection is gone, and the node's copy is the only one there is.
            if self.can_spare(id) {
                self.lose_location(id, node);
            }
        }
    }

    /// A node was declared dead. Its workers may live on, if only its daemon hangs; what they still reply
    /// does not count.
    pub(super) fn on_node_died(&mut self, node: NodeId, heir: Option<NodeAddress>) {
        let is_gone = heir.is_none();
        if let Some(heir) = heir {
            self.objects.on_moved(node, &heir);
        }
        for request in self.leases.on_node(node) {
            // **OWN-1** A worker that lives on may begin each of the calls that it was sent.
            self.drop_lease(request, Some(Begun::All), &node_lost(node));
        }
        for id in self.objects.located_on(node) {
            if self.objects.is_elsewhere(id, node) {
                self.lose_location(id, node);
            }
        }
        self.on_node_lost(node);
        // An heir frees what is left there, when it is told to; of a node that died without one nothing is left.
        if is_gone {
            self.forget_strays(node);
        }
    }

    pub(super) fn on_leases_tick(&mut self) {
        let due = self.leases.due(self.ctx.now());
        // A call that takes long holds up those that were sent ahead, while other workers may be idle.
        for request in due.stalled {
            self.leases.take_back(request, &mut self.ctx);
        }
        for request in due.idle.into_iter().filter(|_| !mutant!("idle-lease-kept")) {
            let class = self.leases.class_of(request);
            self.give_back(request, false);
            if let Some(class) = class {
                self.pump(class);
            }
        }
        for class in self.leases.end_patience(self.ctx.now()) {
            self.pump(class);
        }
        let cause = DeathCause::new(DeathKind::Unknown, "the connection to its process broke");
        for request in due.broken {
            // Nobody knows whether the worker lives, so its daemon is asked to end it: the calls may run elsewhere.
            self.leases.have_ended(request, &mut self.ctx);
            self.drop_lease(request, None, &cause);
        }
    }
}
