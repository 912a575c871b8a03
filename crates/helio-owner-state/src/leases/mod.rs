//! Leases: workers lent to this process, and the calls it sends them.
//!
//! A lease is kept between calls ([`LINGER_US`]) and is sent several calls ahead when they are
//! short ([`slots`]), so that a steady stream of calls costs the daemon nothing. A worker that blocks
//! hands back what it has not begun; a worker that is idle while another of its class has calls
//! waiting makes us take some back ([`Frame::Steal`]). An *exclusive* lease serves one call: one whose
//! devices, or whose worker's number of calls, matter.

mod choice;
mod env;
mod goal;
mod line;
pub(crate) mod lost;
mod pause;
mod places;
mod queue;
mod requests;
mod why;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use helio_proto::node::{LeaseClass, LeaseGranted};
use helio_proto::peer::Frame;
use helio_types::{IdMap, LeaseId, NodeAddress, NodeId, TaskId, WorkerAddress, mutant};

use crate::context::Context;
use crate::event::Action;
pub(crate) use env::Env;
use goal::{Asked, Goal};
use line::{Line, Room};
use pause::Pauses;
pub(crate) use places::Places;

/// Microseconds that an idle lease is kept before it is given back.
const LINGER_US: u64 = 200_000;
/// A call that takes longer than this has nothing waiting behind it, in microseconds.
const STALL_US: u64 = 10_000;
/// Microseconds that a daemon has to report the cause after the connection to a leased worker
/// broke.
const CAUSE_WAIT_US: u64 = 3_000_000;

/// Most calls that are sent ahead to one worker.
const SLOTS_MAX: usize = 32;
/// Calls are sent ahead as far as they take about this long together, in microseconds.
const AHEAD_US: u64 = 1_000;
/// Number of kinds of calls that are kept. Beyond it a new kind takes the place of one without calls and leases:
/// in a long session most kinds belong to placement groups that are gone.
const CLASSES_MAX: usize = 1_000;

/// The calls of one kind, and the workers that run them.
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
    /// The time from which on the first call of `sent` can have run, in microseconds.
    began: u64,
    idle_since: u64,
    revoked: bool,
    /// The worker was never sent a call.
    is_fresh: bool,
    /// Calls were asked back and have not come yet.
    stealing: bool,
    /// Half of what it is sent ahead is done, and it was not filled up since.
    refills: bool,
    /// The time at which the connection to the worker or to its daemon broke.
    broken: Option<u64>,
    /// No connection to its worker could be made: if the worker is dead, no call has begun.
    is_unreached: bool,
    /// The connection broke before all replies of the worker were read.
    lacks_replies: bool,
    /// The worker's daemon is out of reach, so the end of the worker's connection is the only news
    /// that will come.
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
    /// Whether more calls are sent to the worker. It is refilled when half of its slots are free, until none is:
    /// many calls in one message cost little more than one.
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

/// Returns the number of calls that a worker is sent ahead, for calls that take `call_us` each.
fn slots(call_us: u64) -> usize {
    match call_us {
        0 => 1,
        us => (AHEAD_US / us).clamp(1, SLOTS_MAX as u64) as usize,
    }
}

/// The state of a lease after a reply to one of its calls.
#[derive(Debug)]
pub(crate) struct Replied {
    /// The class of its calls.
    pub(crate) class: usize,
    /// The time from which on the call can have run; 0 if unknown.
    pub(crate) began: u64,
    /// Whether no call is left on it.
    pub(crate) is_empty: bool,
    /// The fate of the lease.
    pub(crate) fate: Fate,
}

/// The fate of a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// The lease is kept.
    Kept,
    /// The lease ended with its node.
    Ended,
    /// The lease is given back; whether its worker is of no more use.
    GivenBack { discard: bool },
}

/// The leases for which the time has come.
#[derive(Debug, Default)]
pub(crate) struct Due {
    /// Leases whose first call takes long: calls that were sent ahead are taken back.
    pub(crate) stalled: Vec<u64>,
    /// Leases that were idle for long: they are given back.
    pub(crate) idle: Vec<u64>,
    /// Leases to whose worker the connection broke, and of which no word has come.
    pub(crate) broken: Vec<u64>,
}

impl Leases {
    /// Returns the time of the next event of leases, requests or waits; `None` if time does not
    /// matter at present.
    pub(crate) fn next_tick(&self) -> Option<u64> {
        let leases = || self.leases.values();
        let idle = leases().filter(|lease| lease.sent.is_empty()).map(|l| l.idle_since + LINGER_US);
        let broken = leases().filter_map(|lease| lease.broken).map(|at| at + CAUSE_WAIT_US);
        let stalled = leases().filter(|l| l.waits_behind()).map(|l| l.began + STALL_US);
        let others = self.pauses.next().into_iter().chain(self.next_patience());
        idle.chain(broken).chain(stalled).chain(others).min()
    }

    /// A worker is ours. Returns the class of calls for which it is, if it is wanted still.
    pub(crate) fn on_granted(
        &mut self,
        grant: Box<LeaseGranted>,
        node: NodeId,
        ctx: &mut Context,
    ) -> Option<usize> {
        let request = grant.request_id;
        let index = self.class_of_request(request);
        // A request for one more node stays when its calls are gone: its answer tells that there is room.
        let wanted = index.filter(|index| {
            let class = &mut self.classes[*index];
            let goal = class.requests.remove(&request).map(|asked| asked.goal);
            goal != Some(Goal::Another) || !class.queue.is_empty()
        });
        let Some(index) = wanted else {
            // Cancelled while the grant was under way, or news only: there is room on one more node.
            ctx.push(Action::ReturnLease { node, lease: grant.lease_id, discard: false });
            return None;
        };
        self.classes[index].queue.set_room(node, Room::Unknown);
        // A worker that is granted ends the row of losses.
        self.pauses.clear(index);
        let worker = Arc::new(grant.worker.clone());
        self.by_lease.insert((node, grant.lease_id), request);
        let lease = Lease {
            id: grant.lease_id,
            node,
            worker: worker.clone(),
            class: index,
            sent: VecDeque::new(),
            began: ctx.now(),
            idle_since: ctx.now(),
            revoked: false,
            is_fresh: true,
            stealing: false,
            refills: true,
            broken: None,
            is_unreached: false,
            lacks_replies: false,
            is_orphaned: false,
        };
        let before = self.leases.insert(request, lease);
        assert!(before.is_none(), "the worker of the first of two leases is never given back");
        self.classes[index].leases.push(request);
        self.classes[index].idle.push(request);
        ctx.push(Action::BeginLease { to: worker, grant });
        Some(index)
    }

    /// A request is refused for good. Returns the calls that fail by that: a refusal of one call holds for all calls
    /// of the class.
    pub(crate) fn on_refused(&mut self, request: u64) -> Vec<TaskId> {
        let Some(index) = self.class_of_request(request) else { return Vec::new() };
        let class = &mut self.classes[index];
        class.requests.remove(&request);
        let mut refused = class.queue.take_all();
        if mutant!("all-classes-refused-with-one") {
            let others = self.classes.iter_mut();
            refused.extend(others.flat_map(|class| class.queue.take_all()));
        }
        refused
    }

    /// A request is to go to another daemon. Returns the class of its calls if they are better sent to the workers
    /// that are there.
    pub(crate) fn on_spilled(
        &mut self,
        request: u64,
        node: NodeAddress,
        env: &mut Env<'_>,
    ) -> Option<usize> {
        let index = self.class_of_request(request)?;
        let (others, own) = (self.nodes_of(index), env.ctx.node_id());
        let class = &mut self.classes[index];
        let asked = class.requests.get_mut(&request)?;
        if asked.goal == Goal::Another && class.queue.is_empty() {
            // There is room on one more node: the next call asks for a worker there.
            class.requests.remove(&request);
            return None;
        }
        let former = asked.at.replace(node.clone()).map_or(own, |at| at.node_id);
        asked.is_full = false;
        let goal = asked.goal;
        if goal == Goal::Near(former) {
            // The daemon has just said so by sending the request on.
            class.queue.set_room(former, Room::None);
            let first = class.queue.nth(Some(former), 0);
            if first.is_some_and(|first| !self.may_move(index, former, first, env)) {
                // The workers there are sooner: one elsewhere would be of no use.
                self.classes[index].requests.remove(&request);
                return Some(index);
            }
        }
        let class = &mut self.classes[index];
        let first = class.queue.first().and_then(|task| env.calls.get(task));
        let is_retriable = first.is_some_and(|task| task.retries_left() != 0);
        env.ctx.push(Action::RequestLease {
            node: Some(node),
            request,
            class: class.class.clone(),
            backlog: class.queue.len() as u64,
            touched: if goal == Goal::Another { others } else { Vec::new() },
            is_retriable,
        });
        None
    }

    /// The daemon wants a worker back. Returns the lease by its request, the class of its calls, and whether it has
    /// none.
    pub(crate) fn on_revoked(
        &mut self,
        node: NodeId,
        lease: LeaseId,
        ctx: &mut Context,
    ) -> Option<(u64, usize, bool)> {
        let request = self.find(node, lease)?;
        let lease = self.leases.get_mut(&request)?;
        lease.revoked = true;
        // Take back what has not begun, so that the lease ends with the call that runs.
        if lease.sent.len() > 1 && !lease.stealing {
            lease.stealing = true;
            ctx.send(lease.worker.clone(), Frame::Steal { max: u32::MAX });
        }
        let (index, is_empty) = (lease.class, lease.sent.is_empty());
        self.node_may_lack_leases(index, node, ctx);
        Some((request, index, is_empty))
    }

    /// Forgets the turn of a node on which calls that go round the nodes have no lease left.
    fn node_may_lack_leases(&mut self, index: usize, node: NodeId, ctx: &mut Context) {
        if self.classes[index].is_in_turn() && !self.nodes_of(index).contains(&node) {
            self.classes[index].turns.remove(&node);
            self.ask_anew_for_others(index, ctx);
        }
    }

    /// Gives a worker back. Returns the calls that it was sent.
    pub(crate) fn give_back(
        &mut self,
        request: u64,
        discard: bool,
        ctx: &mut Context,
    ) -> VecDeque<TaskId> {
        let Some(lease) = self.leases.remove(&request) else { return VecDeque::new() };
        let number = self.by_lease.remove(&(lease.node, lease.id));
        assert_eq!(
            number,
            Some(request),
            "a worker would be given back that runs calls of another lease"
        );
        let class = &mut self.classes[lease.class];
        class.leases.retain(|other| *other != request);
        class.idle.retain(|other| *other != request);
        ctx.push(Action::ReturnLease { node: lease.node, lease: lease.id, discard });
        self.node_may_lack_leases(lease.class, lease.node, ctx);
        lease.sent
    }

    /// A call on the lease has been replied to; `leaving`: its worker takes no more calls.
    #[inline]
    pub(crate) fn on_replied(
        &mut self,
        request: u64,
        id: TaskId,
        leaving: bool,
        now: u64,
    ) -> Option<Replied> {
        let lease = self.leases.get_mut(&request)?;
        let began = lease.began;
        let first = lease.sent.front() == Some(&id);
        if first {
            lease.sent.pop_front();
        } else {
            lease.sent.retain(|sent| *sent != id);
        }
        let index = lease.class;
        // Only of the first call is it known when it began: when the one before it was replied to.
        if first {
            let took = now.saturating_sub(lease.began).max(1);
            lease.began = now;
            let class = &mut self.classes[index];
            class.call_us = if class.call_us == 0 { took } else { (class.call_us * 7 + took) / 8 };
        }
        let empty = lease.sent.is_empty();
        let exclusive =
            self.classes[index].class.exclusive && !mutant!("worker-of-one-call-lent-on");
        // A worker that leaves, as after `max_calls`, begins none of the calls that are still on it.
        let fate = if empty && lease.is_orphaned {
            Fate::Ended
        } else if leaving || (empty && (lease.revoked || exclusive)) {
            Fate::GivenBack { discard: leaving }
        } else {
            if empty {
                lease.idle_since = now;
                lease.stealing = false;
                self.classes[index].idle.push(request);
            }
            Fate::Kept
        };
        Some(Replied { class: index, began: if first { began } else { 0 }, is_empty: empty, fate })
    }

    /// Asks calls back from a busy worker if another worker is idle.
    pub(crate) fn balance(&mut self, index: usize, env: &mut Env<'_>) {
        let class = &self.classes[index];
        let lease = |request: &u64| self.leases.get(request);
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
                && self.best_node(index, *task, env).is_some_and(|best| best.node_id == node)
        });
        if stays {
            return;
        }
        if let Some(lease) = self.leases.get_mut(&fullest)
            && lease.sent.len() > 1
            && !lease.stealing
        {
            lease.stealing = true;
            // Half of them: with both at work the rest is done soonest.
            let max = (lease.sent.len() / 2) as u32;
            env.ctx.send(lease.worker.clone(), Frame::Steal { max });
        }
    }

    /// A worker hands a call back, which is queued again unless it was cancelled. Returns the class of its calls.
    pub(crate) fn on_handed_back(
        &mut self,
        request: u64,
        id: TaskId,
        is_cancelled: bool,
        env: &Env<'_>,
    ) -> Option<usize> {
        let lease = self.leases.get_mut(&request)?;
        lease.sent.retain(|sent| *sent != id);
        let index = lease.class;
        // A cancelled one is failed by the caller.
        if !is_cancelled && !mutant!("handed-back-call-forgotten") {
            self.enqueue_again(index, id, env);
        }
        Some(index)
    }

    /// A worker has handed calls back. Returns what becomes of its lease.
    pub(crate) fn fate_after_handing_back(&mut self, request: u64) -> Fate {
        match self.leases.get_mut(&request) {
            None => Fate::Kept,
            Some(lease) if lease.sent.is_empty() && lease.is_orphaned => Fate::Ended,
            Some(lease) if lease.sent.is_empty() && lease.revoked => {
                Fate::GivenBack { discard: false }
            }
            Some(lease) => {
                // Its worker blocks or is about to be revoked: `stealing` keeps new calls off it
                // until it replies.
                lease.stealing = !lease.sent.is_empty();
                Fate::Kept
            }
        }
    }

    /// Asks back the calls that wait behind one that takes longer than expected: they go to another worker, now or
    /// when a lease is granted. The long call may even wait for one of them.
    pub(crate) fn take_back(&mut self, request: u64, ctx: &mut Context) {
        let Some(lease) = self.leases.get_mut(&request) else { return };
        lease.stealing = true;
        ctx.send(lease.worker.clone(), Frame::Steal { max: u32::MAX });
        let class = &mut self.classes[lease.class];
        class.call_us = class.call_us.max(ctx.now().saturating_sub(lease.began));
    }

    /// The leases for which the time has come.
    pub(crate) fn due(&self, now: u64) -> Due {
        let mut due = Due::default();
        for (request, lease) in &self.leases {
            if lease.broken.is_some_and(|at| now >= at + CAUSE_WAIT_US) {
                due.broken.push(*request);
            } else if lease.sent.is_empty() && now >= lease.idle_since + LINGER_US {
                due.idle.push(*request);
            } else if lease.waits_behind() && now >= lease.began + STALL_US {
                due.stalled.push(*request);
            }
        }
        // The table has no order of its own, and equal histories are to give equal actions (STATE-1).
        due.idle.sort_unstable();
        due.broken.sort_unstable();
        due.stalled.sort_unstable();
        due
    }

    /// The class of calls of a lease.
    pub(crate) fn class_of(&self, request: u64) -> Option<usize> {
        self.leases.get(&request).map(|lease| lease.class)
    }

    /// Gives a lease back whose worker may live behind a broken connection: the daemon ends it, so that nothing
    /// runs twice.
    pub(crate) fn have_ended(&self, request: u64, ctx: &mut Context) {
        if let Some(lease) = self.leases.get(&request) {
            ctx.push(Action::ReturnLease { node: lease.node, lease: lease.id, discard: true });
        }
    }

    /// The classes of calls whose pause between requests is over.
    pub(crate) fn end_pauses(&mut self, now: u64) -> Vec<usize> {
        self.pauses.take_due(now)
    }
}
