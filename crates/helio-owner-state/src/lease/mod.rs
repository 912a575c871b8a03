//! Leases: workers lent to this process, and the calls it sends them.
//!
//! A lease is kept between calls ([`LINGER_US`]) and is sent several calls ahead when they are
//! short ([`slots`]), so that a steady stream of calls costs the daemon nothing. A worker that blocks
//! hands back what it has not begun; a worker that is idle while another of its class has calls
//! waiting makes us take some back ([`Frame::Steal`]). An *exclusive* lease serves one call: one whose
//! devices, or whose worker's number of calls, matter.

mod choice;
mod line;
mod lost;
mod pause;
mod queue;
mod requests;
mod why;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use helio_proto::control::{Failure, FailureKind};
use helio_proto::error::{ErrorKind, SystemError};
use helio_proto::node::{LeaseClass, LeaseGranted};
use helio_proto::peer::Frame;
use helio_types::{
    DeathCause, DeathKind, IdMap, LeaseId, NodeAddress, NodeId, TaskId, WorkerAddress, WorkerId,
    mutant,
};

use crate::Owner;
use crate::cancel::cancelled_error;
use crate::event::Action;
use crate::object::Stored;
use crate::task::State;
use line::{Line, Room};
use pause::Pauses;
use queue::CLASSES_MAX;
pub use queue::{SLOTS_MAX, slots};
use requests::{Asked, Goal};

/// How long an idle lease is kept, in microseconds.
pub const LINGER_US: u64 = 200_000;
/// A call that takes longer than this has nothing waiting behind it, in microseconds.
const STALL_US: u64 = 10_000;
/// How long after a connection to a leased worker broke its daemon may take to say why.
const CAUSE_WAIT_US: u64 = 3_000_000;

#[derive(Debug)]
struct Class {
    class: Arc<LeaseClass>,
    queue: Line,
    /// Leases without a call, most recently used last.
    idle: Vec<u64>,
    /// All its leases.
    leases: Vec<u64>,
    /// Requests that were not granted yet.
    requests: BTreeMap<u64, Asked>,
    /// Moving average of a call's time, in microseconds; 0: none known.
    call_us: u64,
    /// Raised with every call that goes round the nodes, and its value when a node was given one last.
    turn: u64,
    turns: BTreeMap<NodeId, u64>,
}

#[derive(Debug)]
struct Lease {
    id: LeaseId,
    node: NodeId,
    worker: Arc<WorkerAddress>,
    class: usize,
    /// Calls that were sent, oldest first; only the first can have begun, unless replies are lost.
    sent: VecDeque<TaskId>,
    /// When the first of `sent` could begin.
    began: u64,
    idle_since: u64,
    revoked: bool,
    /// The worker was never sent a call.
    is_fresh: bool,
    /// Calls were asked back and have not come yet.
    stealing: bool,
    /// Half of what it is sent ahead is done, and it was not filled up since.
    refills: bool,
    /// When its connection, or that to its daemon, broke.
    broken: Option<u64>,
    /// No connection to its worker could be made: if the worker is dead, no call has begun.
    is_unreached: bool,
    /// Its connection broke before all that the worker had sent was read.
    lacks_replies: bool,
    /// Its daemon is out of reach: the end of the worker's connection is all that will be heard.
    is_orphaned: bool,
}

/// The leases of this process, the calls that wait for one, and both by class of call.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    classes: Vec<Class>,
    by_content: HashMap<Vec<u8>, usize>,
    by_pointer: IdMap<usize, usize>,
    leases: IdMap<u64, Lease>,
    by_lease: HashMap<(NodeId, LeaseId), u64>,
    pauses: Pauses,
    next_request: u64,
}

impl Lease {
    /// Whether it is sent more: from when half of its slots are free until none is, because many calls
    /// in one message cost little more than one.
    fn refill(&mut self, slots: usize) -> bool {
        self.refills = match self.sent.len() {
            sent if sent <= slots / 2 => true,
            sent if sent >= slots => false,
            _ => self.refills,
        };
        self.refills
    }

    /// Whether calls wait behind the one that runs, and were not asked back yet.
    fn waits_behind(&self) -> bool {
        self.sent.len() > 1 && !self.stealing && self.broken.is_none()
    }
}

impl Leases {
    pub(crate) fn count(&self) -> usize {
        self.leases.len()
    }

    pub(crate) fn worker(&self, request: u64) -> Option<Arc<WorkerAddress>> {
        self.leases.get(&request).map(|lease| lease.worker.clone())
    }

    pub(crate) fn requests_count(&self) -> usize {
        self.classes.iter().map(|class| class.requests.len()).sum()
    }

    fn class_of_request(&self, request: u64) -> Option<usize> {
        self.classes.iter().position(|class| class.requests.contains_key(&request))
    }

    pub(crate) fn has_sent(&self, request: u64, task: TaskId) -> bool {
        self.leases.get(&request).is_some_and(|lease| lease.sent.contains(&task))
    }

    pub(crate) fn has_queued(&self, task: TaskId) -> bool {
        self.classes.iter().any(|class| class.queue.contains(task))
    }

    /// Whether the tables agree with each other.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (request, lease) in &self.leases {
            if self.by_lease.get(&(lease.node, lease.id)) != Some(request) {
                return Err(format!("{:?} is not found by its number", lease.id));
            }
            if !self.classes[lease.class].leases.contains(request) {
                return Err(format!("{:?} is not in its class", lease.id));
            }
        }
        let in_classes: usize = self.classes.iter().map(|class| class.leases.len()).sum();
        if in_classes != self.leases.len() || self.by_lease.len() != self.leases.len() {
            return Err("the tables of leases do not add up".to_owned());
        }
        if self.classes.len() > CLASSES_MAX + self.leases.len() + self.requests_count()
            || self.by_content.len() != self.classes.len()
        {
            return Err(format!("{} kinds of calls are kept", self.classes.len()));
        }
        self.classes.iter().try_for_each(|class| class.queue.check())
    }
}

impl Owner {
    /// When [`crate::Event::Tick`] is due, if time matters at present.
    #[must_use]
    pub fn next_tick(&self) -> Option<u64> {
        let idle = self
            .leases
            .leases
            .values()
            .filter(|lease| lease.sent.is_empty())
            .map(|l| l.idle_since + LINGER_US);
        let broken = self
            .leases
            .leases
            .values()
            .filter_map(|lease| lease.broken)
            .map(|at| at + CAUSE_WAIT_US);
        let stalled =
            self.leases.leases.values().filter(|l| l.waits_behind()).map(|l| l.began + STALL_US);
        idle.chain(broken)
            .chain(stalled)
            .chain(self.next_actor_tick())
            .chain(self.leases.pauses.next())
            .chain(self.leases.next_patience())
            .chain(self.next_delayed())
            .min()
    }

    pub(crate) fn lease_granted(&mut self, grant: Box<LeaseGranted>, node: NodeId) {
        let request = grant.request_id;
        let index = self.leases.class_of_request(request);
        let wanted = index.filter(|index| {
            let class = &mut self.leases.classes[*index];
            let goal = class.requests.remove(&request).map(|asked| asked.goal);
            goal != Some(Goal::Another) || !class.queue.is_empty()
        });
        let Some(index) = wanted else {
            // Cancelled while the grant was under way, or news only: there is room on one more node.
            self.ctx.push(Action::ReturnLease { node, lease: grant.lease_id, discard: false });
            return;
        };
        self.leases.classes[index].queue.set_room(node, Room::Unknown);
        self.leases.pauses.clear(index);
        let worker = Arc::new(grant.worker.clone());
        self.leases.by_lease.insert((node, grant.lease_id), request);
        let lease = Lease {
            id: grant.lease_id,
            node,
            worker: worker.clone(),
            class: index,
            sent: VecDeque::new(),
            began: self.ctx.now(),
            idle_since: self.ctx.now(),
            revoked: false,
            is_fresh: true,
            stealing: false,
            refills: true,
            broken: None,
            is_unreached: false,
            lacks_replies: false,
            is_orphaned: false,
        };
        let before = self.leases.leases.insert(request, lease);
        assert!(before.is_none(), "the worker of the first of two leases is never given back");
        self.leases.classes[index].leases.push(request);
        self.leases.classes[index].idle.push(request);
        self.ctx.push(Action::BeginLease { to: worker, grant });
        self.pump(index);
        self.balance(index);
    }

    pub(crate) fn lease_refused(&mut self, request: u64, failure: &Failure) {
        let Some(index) = self.leases.class_of_request(request) else { return };
        let class = &mut self.leases.classes[index];
        class.requests.remove(&request);
        let kind = match failure.kind {
            FailureKind::RuntimeEnv => ErrorKind::RuntimeEnvSetup,
            FailureKind::Unschedulable => ErrorKind::TaskUnschedulable,
            FailureKind::GroupRemoved => ErrorKind::TaskGroupRemoved,
            _ => ErrorKind::System,
        };
        // A refusal of one call holds for all calls of the class.
        let mut refused = class.queue.take_all();
        if mutant!("all-classes-refused-with-one") {
            let others = self.leases.classes.iter_mut();
            refused.extend(others.flat_map(|class| class.queue.take_all()));
        }
        for task in refused {
            let error = SystemError { task, ..SystemError::new(kind, failure.message.clone()) };
            self.fail(task, &Stored::Error(Arc::new(error.to_payload())));
        }
    }

    pub(crate) fn lease_spilled(&mut self, request: u64, node: NodeAddress) {
        let Some(index) = self.leases.class_of_request(request) else { return };
        let (others, own) = (self.leases.nodes_of(index), self.ctx.me().node_id);
        let class = &mut self.leases.classes[index];
        let Some(asked) = class.requests.get_mut(&request) else { return };
        if asked.goal == Goal::Another && class.queue.is_empty() {
            // There is room on one more node: the next call asks for a worker there.
            class.requests.remove(&request);
            return;
        }
        let former = asked.at.replace(node.clone()).map_or(own, |at| at.node_id);
        asked.is_full = false;
        let goal = asked.goal;
        if goal == Goal::Near(former) {
            class.queue.set_room(former, Room::None);
            let first = class.queue.nth(Some(former), 0);
            if first.is_some_and(|first| !self.may_move(index, former, first)) {
                // The workers there are sooner: one elsewhere would be of no use.
                self.leases.classes[index].requests.remove(&request);
                return self.pump(index);
            }
        }
        let class = &mut self.leases.classes[index];
        let first = class.queue.first().and_then(|task| self.tasks.get(&task));
        let is_retriable = first.is_some_and(|task| task.retries_left != 0);
        self.ctx.push(Action::RequestLease {
            node: Some(node),
            request,
            class: class.class.clone(),
            backlog: class.queue.len() as u64,
            touched: if goal == Goal::Another { others } else { Vec::new() },
            is_retriable,
        });
    }

    pub(crate) fn lease_revoked(&mut self, node: NodeId, lease: LeaseId) {
        let Some(request) = self.leases.by_lease.get(&(node, lease)).copied() else { return };
        if let Some(lease) = self.leases.leases.get_mut(&request) {
            lease.revoked = true;
            // Take back what has not begun, so that the lease ends with the call that runs.
            if lease.sent.len() > 1 && !lease.stealing {
                lease.stealing = true;
                self.ctx.send(lease.worker.clone(), Frame::Steal { max: u32::MAX });
            }
            let (index, is_empty) = (lease.class, lease.sent.is_empty());
            self.node_may_lack_leases(index, node);
            if is_empty {
                self.give_back(request, false);
            }
            self.pump(index);
        }
    }

    /// A lease on the node takes no more calls: calls that go round may lack one there.
    fn node_may_lack_leases(&mut self, index: usize, node: NodeId) {
        if self.leases.classes[index].is_in_turn() && !self.leases.nodes_of(index).contains(&node) {
            self.leases.classes[index].turns.remove(&node);
            self.ask_anew_for_others(index);
        }
    }

    fn give_back(&mut self, request: u64, discard: bool) {
        let Some(lease) = self.leases.leases.remove(&request) else { return };
        let number = self.leases.by_lease.remove(&(lease.node, lease.id));
        assert_eq!(
            number,
            Some(request),
            "a worker would be given back that runs calls of another lease"
        );
        let class = &mut self.leases.classes[lease.class];
        class.leases.retain(|other| *other != request);
        class.idle.retain(|other| *other != request);
        self.ctx.push(Action::ReturnLease { node: lease.node, lease: lease.id, discard });
        self.node_may_lack_leases(lease.class, lease.node);
        for task in lease.sent {
            let cause = DeathCause::new(DeathKind::Intended, "the worker was given back");
            self.worker_lost(task, false, &cause);
        }
    }

    /// A call on the lease has been replied to; when it can have begun.
    pub(crate) fn leave_lease(&mut self, request: u64, id: TaskId, leaving: bool) -> u64 {
        let Some(lease) = self.leases.leases.get_mut(&request) else { return 0 };
        let began = lease.began;
        let first = lease.sent.front() == Some(&id);
        if first {
            lease.sent.pop_front();
        } else {
            lease.sent.retain(|sent| *sent != id);
        }
        let index = lease.class;
        if first {
            let took = self.ctx.now().saturating_sub(lease.began).max(1);
            lease.began = self.ctx.now();
            let class = &mut self.leases.classes[index];
            class.call_us = if class.call_us == 0 { took } else { (class.call_us * 7 + took) / 8 };
        }
        let empty = lease.sent.is_empty();
        let exclusive =
            self.leases.classes[index].class.exclusive && !mutant!("worker-of-one-call-lent-on");
        if empty && lease.is_orphaned {
            self.drop_with_node(request);
        } else if leaving || (empty && (lease.revoked || exclusive)) {
            self.give_back(request, leaving);
        } else if empty {
            lease.idle_since = self.ctx.now();
            lease.stealing = false;
            self.leases.classes[index].idle.push(request);
        }
        self.pump(index);
        if empty {
            self.balance(index);
        }
        if first { began } else { 0 }
    }

    /// An idle worker, and calls waiting behind another's: take some back.
    fn balance(&mut self, index: usize) {
        let class = &self.leases.classes[index];
        let lease = |request: &u64| self.leases.leases.get(request);
        let idle = class.idle.iter().filter_map(lease).filter(|lease| lease.sent.is_empty());
        let idle: Vec<NodeId> = idle.map(|lease| lease.node).collect();
        if idle.is_empty() || !class.queue.is_empty() {
            return;
        }
        let sent = |request: &u64| lease(request).map_or(0, |lease| lease.sent.len());
        let Some(fullest) = class.leases.iter().copied().max_by_key(sent) else { return };
        // A call stays where its large arguments are, unless the idle worker is there, too.
        let last = lease(&fullest).and_then(|lease| Some((lease.node, lease.sent.back()?)));
        let stays = last.is_some_and(|(node, task)| {
            !idle.contains(&node)
                && self.best_node(index, *task).is_some_and(|best| best.node_id == node)
        });
        if stays {
            return;
        }
        if let Some(lease) = self.leases.leases.get_mut(&fullest)
            && lease.sent.len() > 1
            && !lease.stealing
        {
            lease.stealing = true;
            let max = (lease.sent.len() / 2) as u32;
            self.ctx.send(lease.worker.clone(), Frame::Steal { max });
        }
    }

    /// A worker hands back calls that it has not begun.
    pub(crate) fn unstarted(&mut self, from: WorkerId, tasks: Vec<TaskId>) {
        let (mut touched, mut cancelled) = (Vec::new(), Vec::new());
        // The calls return to the front of the queue in their order.
        for id in tasks.into_iter().rev() {
            let Some(task) = self.tasks.get_mut(&id).filter(|task| task.is_at(from)) else {
                continue;
            };
            let State::OnLease(request) = task.state else { continue };
            task.state = State::Queued;
            let Some(lease) = self.leases.leases.get_mut(&request) else { continue };
            lease.sent.retain(|sent| *sent != id);
            let index = lease.class;
            if task.cancelled {
                // The news of that reached its worker too late.
                cancelled.push((id, cancelled_error(id, &task.spec.template.name)));
            } else if !mutant!("handed-back-call-forgotten") {
                self.enqueue_again(index, id);
            }
            if !touched.contains(&(request, index)) {
                touched.push((request, index));
            }
        }
        for (id, error) in cancelled {
            self.fail(id, &error);
        }
        for (request, index) in touched {
            if let Some(lease) = self.leases.leases.get_mut(&request) {
                if lease.sent.is_empty() && lease.is_orphaned {
                    self.drop_with_node(request);
                } else if lease.sent.is_empty() && lease.revoked {
                    self.give_back(request, false);
                } else {
                    // Its worker blocks or is about to be revoked: `stealing` keeps new calls off it
                    // until it replies.
                    lease.stealing = !lease.sent.is_empty();
                }
            }
            self.pump(index);
        }
    }

    /// A call takes longer than those before it: what was sent ahead goes where there is room, now or
    /// when a lease is granted. It could even be what the call waits for.
    fn take_back(&mut self, request: u64) {
        let Some(lease) = self.leases.leases.get_mut(&request) else { return };
        lease.stealing = true;
        self.ctx.send(lease.worker.clone(), Frame::Steal { max: u32::MAX });
        let class = &mut self.leases.classes[lease.class];
        class.call_us = class.call_us.max(self.ctx.now().saturating_sub(lease.began));
    }

    pub(crate) fn tick(&mut self) {
        let (mut idle, mut broken, mut stalled) = (Vec::new(), Vec::new(), Vec::new());
        for (request, lease) in &self.leases.leases {
            if lease.broken.is_some_and(|at| self.ctx.now() >= at + CAUSE_WAIT_US) {
                broken.push(*request);
            } else if lease.sent.is_empty() && self.ctx.now() >= lease.idle_since + LINGER_US {
                idle.push(*request);
            } else if lease.waits_behind() && self.ctx.now() >= lease.began + STALL_US {
                stalled.push(*request);
            }
        }
        idle.sort_unstable();
        broken.sort_unstable();
        stalled.sort_unstable();
        for request in stalled {
            self.take_back(request);
        }
        for request in idle.into_iter().filter(|_| !mutant!("idle-lease-kept")) {
            let class = self.leases.leases.get(&request).map(|lease| lease.class);
            self.give_back(request, false);
            if let Some(class) = class {
                self.pump(class);
            }
        }
        for class in self.leases.end_patience(self.ctx.now()) {
            self.pump(class);
        }
        let cause = DeathCause::new(DeathKind::Unknown, "the connection to its process broke");
        for request in broken {
            // The process may live behind a broken line; its daemon ends it, so that nothing runs twice.
            if let Some(lease) = self.leases.leases.get(&request) {
                self.ctx.push(Action::ReturnLease {
                    node: lease.node,
                    lease: lease.id,
                    discard: true,
                });
            }
            self.drop_lease(request, None, &cause);
        }
        self.tick_actors();
        self.tick_pauses();
        self.tick_delayed();
    }
}
