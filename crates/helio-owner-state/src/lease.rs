//! Leases: workers lent to this process, and the calls it sends them.
//!
//! A lease is kept between calls ([`LINGER_US`]) and is sent several calls ahead when they are
//! short ([`slots`]), so that a steady stream of calls costs the daemon nothing. A worker that blocks
//! hands back what it has not begun; a worker that is idle while another of its class has calls
//! waiting makes us take some back ([`Frame::Steal`]). An *exclusive* lease serves one call: one whose
//! devices, or whose worker's number of calls, matter.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use helio_proto::control::{Failure, FailureKind, StrategyKind};
use helio_proto::error::{ErrorKind, SystemError};
use helio_proto::node::{LeaseClass, LeaseGranted};
use helio_proto::peer::Frame;
use helio_types::{
    DeathCause, DeathKind, LeaseId, NodeAddress, NodeId, TaskId, WorkerAddress, WorkerId,
};

use crate::Owner;
use crate::event::Action;
use crate::hash::IdMap;
use crate::object::Stored;
use crate::task::{State, cancelled_error};
use crate::why::{Next, Why};

/// How long an idle lease is kept, in microseconds.
pub const LINGER_US: u64 = 200_000;
/// How many calls are sent ahead to one worker at most.
pub const SLOTS_MAX: usize = 32;
/// Calls are sent ahead as far as they take about this long together, in microseconds.
const AHEAD_US: u64 = 1_000;
/// How many lease requests of one class are under way at most.
const REQUESTS_MAX: usize = 16;
/// With so many kinds of calls, the next takes the place of one that has no calls and no leases; most kinds
/// of a long session are those of placement groups that are gone.
const CLASSES_MAX: usize = 1_000;
/// How many addresses of descriptions of kinds are remembered; then all are forgotten.
const POINTERS_MAX: usize = 10_000;
/// An empty queue keeps room for so many calls.
const QUEUE_KEPT: usize = 1 << 15;
/// A call that takes longer than this has nothing waiting behind it, in microseconds.
const STALL_US: u64 = 10_000;
/// How long after a connection to a leased worker broke its daemon may take to say why.
const CAUSE_WAIT_US: u64 = 3_000_000;

#[derive(Debug)]
struct Class {
    class: Arc<LeaseClass>,
    queue: VecDeque<TaskId>,
    /// Leases without a call, most recently used last.
    idle: Vec<u64>,
    /// All its leases.
    leases: Vec<u64>,
    /// Requests that were not answered yet, and where they were sent.
    requests: BTreeMap<u64, Option<NodeAddress>>,
    /// Moving average of a call's time, in microseconds; 0: none known.
    call_us: u64,
}

/// How many of the calls that others wait for are named.
const NAMED_MAX: usize = 4;

#[derive(Debug)]
struct Lease {
    id: LeaseId,
    node: NodeId,
    worker: Arc<WorkerAddress>,
    class: usize,
    /// Calls that were sent, oldest first; only the first can have begun.
    sent: VecDeque<TaskId>,
    /// When the first of `sent` could begin.
    began: u64,
    idle_since: u64,
    revoked: bool,
    /// Calls were asked back and have not come yet.
    stealing: bool,
    /// Half of what it is sent ahead is done, and it was not filled up since.
    refills: bool,
    /// When its connection, or that to its daemon, broke.
    broken: Option<u64>,
    /// Its daemon is out of reach: the end of the worker's connection is all that will be heard.
    is_orphaned: bool,
}

/// Which of the calls of a lease that ends can have begun.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begun {
    First,
    All,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    classes: Vec<Class>,
    by_content: HashMap<Vec<u8>, usize>,
    by_pointer: IdMap<usize, usize>,
    leases: IdMap<u64, Lease>,
    by_lease: HashMap<(NodeId, LeaseId), u64>,
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

impl Class {
    /// How many requests are to be under way.
    fn requests_wanted(&self) -> usize {
        self.queue.len().min(REQUESTS_MAX)
    }

    /// Whether each call has a lease of its own: its devices or its worker's number of calls matter, or
    /// the calls are to go round the nodes, which a lease that is kept would not let them.
    fn is_single(&self) -> bool {
        self.class.exclusive || self.class.strategy.kind == StrategyKind::Spread
    }
}

/// How many calls a worker is sent ahead.
#[must_use]
pub fn slots(call_us: u64) -> usize {
    match call_us {
        0 => 1,
        us => (AHEAD_US / us).clamp(1, SLOTS_MAX as u64) as usize,
    }
}

fn node_lost(node: NodeId) -> DeathCause {
    DeathCause::new(DeathKind::NodeDied, format!("the node that it ran on, {node}, has died"))
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

    pub(crate) fn has_sent(&self, request: u64, task: TaskId) -> bool {
        self.leases.get(&request).is_some_and(|lease| lease.sent.contains(&task))
    }

    pub(crate) fn has_queued(&self, task: TaskId) -> bool {
        self.classes.iter().any(|class| class.queue.contains(&task))
    }

    pub(crate) fn name_of_request(&self, request: u64) -> Option<&str> {
        let mut classes = self.classes.iter();
        let class = classes.find(|class| class.requests.contains_key(&request))?;
        Some(class.class.name.as_str()).filter(|name| !name.is_empty())
    }

    /// The calls that the leases run, by name; empty: none.
    pub(crate) fn running<'a>(
        &self,
        leases: impl Iterator<Item = &'a u64>,
        name_of: impl Fn(TaskId) -> Option<String>,
    ) -> String {
        let first = |lease: &u64| self.leases.get(lease)?.sent.front().copied();
        let mut names: Vec<String> = leases.filter_map(first).filter_map(name_of).collect();
        names.sort_unstable();
        names.dedup();
        if names.len() > NAMED_MAX {
            let more = names.len() - NAMED_MAX;
            names.truncate(NAMED_MAX);
            names.push(format!("{more} others"));
        }
        names.join(", ")
    }

    /// The calls that run on any lease.
    pub(crate) fn all_running(&self, name_of: impl Fn(TaskId) -> Option<String>) -> String {
        self.running(self.leases.keys(), name_of)
    }

    /// **WHY-1** What a queued call waits for.
    pub(crate) fn why(
        &self,
        task: TaskId,
        name: &str,
        name_of: impl Fn(TaskId) -> Option<String>,
    ) -> Why {
        let place = |class: &Class| class.queue.iter().position(|queued| *queued == task);
        let Some((class, place)) =
            self.classes.iter().find_map(|class| Some((class, place(class)?)))
        else {
            return Why { text: format!("{name} is about to be queued."), next: None };
        };
        let before = match place {
            0 => String::new(),
            1 => "; 1 call of its kind comes first".to_owned(),
            n => format!("; {n} calls of its kind come first"),
        };
        let running = self.running(class.leases.iter(), &name_of);
        let named = if running.is_empty() { running } else { format!(" with {running}") };
        let busy = match class.leases.len() {
            0 => String::new(),
            1 => format!("; 1 worker of its kind is busy{named}"),
            n => format!("; {n} workers of its kind are busy{named}"),
        };
        let next = class.requests.iter().next();
        Why {
            text: format!("{name} waits for a worker{before}{busy}."),
            next: next.map(|(request, node)| Next::Daemon {
                node: node.clone(),
                request: *request,
                running: if class.leases.is_empty() {
                    self.all_running(&name_of)
                } else {
                    String::new()
                },
            }),
        }
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
        Ok(())
    }

    /// Equal classes share leases, however often they were written.
    fn class(&mut self, class: &Arc<LeaseClass>) -> usize {
        let pointer = Arc::as_ptr(class) as usize;
        if let Some(index) = self.by_pointer.get(&pointer)
            && (Arc::ptr_eq(&self.classes[*index].class, class)
                || *self.classes[*index].class == **class)
        {
            return *index;
        }
        // The name says which function waits; it does not tell classes apart.
        let content = helio_proto::encode(&LeaseClass { name: String::new(), ..(**class).clone() });
        let index = match self.by_content.get(&content) {
            Some(index) => *index,
            None => self.add_class(class, content),
        };
        // Descriptions come and go, and their addresses with them.
        if self.by_pointer.len() >= POINTERS_MAX {
            self.by_pointer.clear();
        }
        self.by_pointer.insert(pointer, index);
        index
    }

    /// **LIMIT-1** One more kind of calls.
    fn add_class(&mut self, class: &Arc<LeaseClass>, content: Vec<u8>) -> usize {
        let class = Class {
            class: class.clone(),
            queue: VecDeque::new(),
            idle: Vec::new(),
            leases: Vec::new(),
            requests: BTreeMap::new(),
            call_us: 0,
        };
        let is_unused = |class: &Class| {
            class.queue.is_empty() && class.leases.is_empty() && class.requests.is_empty()
        };
        let is_full = self.classes.len() >= CLASSES_MAX;
        let index = match is_full.then(|| self.classes.iter().position(is_unused)).flatten() {
            Some(unused) => {
                self.by_content.retain(|_, index| *index != unused);
                self.by_pointer.retain(|_, index| *index != unused);
                self.classes[unused] = class;
                unused
            }
            None => {
                self.classes.push(class);
                self.classes.len() - 1
            }
        };
        self.by_content.insert(content, index);
        index
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
            .chain(self.next_delayed())
            .min()
    }

    pub(crate) fn enqueue(
        &mut self,
        class: &Arc<LeaseClass>,
        task: TaskId,
        now: u64,
        out: &mut Vec<Action>,
    ) {
        let index = self.leases.class(class);
        let class = &mut self.leases.classes[index];
        class.queue.push_back(task);
        // Behind others it changes nothing: there was no room for them, and whatever makes room pumps.
        if class.queue.len() == 1 || class.requests.len() < class.requests_wanted() {
            self.pump(index, now, out);
        }
    }

    /// Takes a call out of its class's queue, if it is in one; the class.
    pub(crate) fn unqueue(&mut self, task: TaskId) -> Option<usize> {
        self.leases.classes.iter_mut().position(|class| {
            let place = class.queue.iter().position(|queued| *queued == task);
            place.and_then(|place| class.queue.remove(place)).is_some()
        })
    }

    /// Sends queued calls to leases with room, and asks for more leases if calls are left.
    pub(crate) fn pump(&mut self, index: usize, now: u64, out: &mut Vec<Action>) {
        loop {
            let class = &mut self.leases.classes[index];
            let Some(task) = class.queue.front().copied() else { break };
            let Some(request) = self.lease_with_room(index) else { break };
            self.leases.classes[index].queue.pop_front();
            if self.waits_again(task, out) {
                self.leases.classes[index].idle.push(request);
                continue;
            }
            self.send(request, task, now, out);
        }
        let class = &mut self.leases.classes[index];
        if class.queue.is_empty() {
            if class.queue.capacity() > QUEUE_KEPT {
                class.queue = VecDeque::new();
            }
            for (request, node) in std::mem::take(&mut class.requests) {
                out.push(Action::CancelLease { node, request });
            }
            return;
        }
        let wanted = class.requests_wanted();
        while self.leases.classes[index].requests.len() < wanted {
            let class = &self.leases.classes[index];
            let first = class.queue.get(class.requests.len()).or_else(|| class.queue.front());
            let first = first.and_then(|task| self.tasks.get(task));
            let is_retriable = first.is_some_and(|task| task.retries_left != 0);
            let locality = first.map(|task| self.locality(&task.spec));
            self.leases.next_request += 1;
            let request = self.leases.next_request;
            let class = &mut self.leases.classes[index];
            class.requests.insert(request, None);
            out.push(Action::RequestLease {
                node: None,
                request,
                class: class.class.clone(),
                backlog: class.queue.len() as u64,
                locality: locality.unwrap_or_default(),
                is_retriable,
            });
        }
    }

    fn lease_with_room(&mut self, index: usize) -> Option<u64> {
        let Leases { classes, leases, .. } = &mut self.leases;
        let class = &mut classes[index];
        while let Some(request) = class.idle.pop() {
            if leases.get(&request).is_some_and(|lease| {
                lease.sent.is_empty() && !lease.revoked && lease.broken.is_none()
            }) {
                return Some(request);
            }
        }
        let slots = if class.is_single() { 1 } else { slots(class.call_us) };
        let mut emptiest: Option<(usize, u64)> = None;
        for request in &class.leases {
            let Some(lease) = leases.get_mut(request) else { continue };
            let takes = !lease.revoked && lease.broken.is_none() && !lease.stealing;
            let sent = lease.sent.len();
            if takes && lease.refill(slots) && emptiest.is_none_or(|(least, _)| sent < least) {
                emptiest = Some((sent, *request));
            }
        }
        emptiest.map(|(_, request)| request)
    }

    fn send(&mut self, request: u64, id: TaskId, now: u64, out: &mut Vec<Action>) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let Some(lease) = self.leases.leases.get_mut(&request) else { return };
        task.state = State::OnLease(request);
        task.at = Some(lease.worker.clone());
        task.sent = now;
        if lease.sent.is_empty() {
            lease.began = now;
        }
        lease.sent.push_back(id);
        let (spec, attempt, to, lease) =
            (task.spec.clone(), task.attempt, lease.worker.clone(), lease.id);
        let args = self.encode_args(&spec.args);
        let (sequence, is_remade) = (0, false);
        out.push(Action::Call { to, spec, args, lease, sequence, attempt, is_remade });
    }

    pub(crate) fn lease_granted(
        &mut self,
        grant: Box<LeaseGranted>,
        node: NodeId,
        now: u64,
        out: &mut Vec<Action>,
    ) {
        let request = grant.request_id;
        let index =
            self.leases.classes.iter().position(|class| class.requests.contains_key(&request));
        let Some(index) = index else {
            // Cancelled while the grant was under way.
            out.push(Action::ReturnLease { node, lease: grant.lease_id, discard: false });
            return;
        };
        self.leases.classes[index].requests.remove(&request);
        let worker = Arc::new(grant.worker.clone());
        self.leases.by_lease.insert((node, grant.lease_id), request);
        let lease = Lease {
            id: grant.lease_id,
            node,
            worker: worker.clone(),
            class: index,
            sent: VecDeque::new(),
            began: now,
            idle_since: now,
            revoked: false,
            stealing: false,
            refills: true,
            broken: None,
            is_orphaned: false,
        };
        self.leases.leases.insert(request, lease);
        self.leases.classes[index].leases.push(request);
        self.leases.classes[index].idle.push(request);
        out.push(Action::BeginLease { to: worker, grant });
        self.pump(index, now, out);
        self.balance(index, out);
    }

    pub(crate) fn lease_refused(
        &mut self,
        request: u64,
        failure: &Failure,
        now: u64,
        out: &mut Vec<Action>,
    ) {
        let Some(index) =
            self.leases.classes.iter().position(|class| class.requests.contains_key(&request))
        else {
            return;
        };
        let class = &mut self.leases.classes[index];
        class.requests.remove(&request);
        let kind = match failure.kind {
            FailureKind::RuntimeEnv => ErrorKind::RuntimeEnvSetup,
            FailureKind::Unschedulable => ErrorKind::TaskUnschedulable,
            FailureKind::GroupRemoved => ErrorKind::TaskGroupRemoved,
            _ => ErrorKind::System,
        };
        // What is refused for one is refused for all of the class.
        for task in std::mem::take(&mut class.queue) {
            let error = SystemError { task, ..SystemError::new(kind, failure.message.clone()) };
            self.fail(task, &Stored::Error(Arc::new(error.to_payload())), now, out);
        }
    }

    pub(crate) fn lease_spilled(&mut self, request: u64, node: NodeAddress, out: &mut Vec<Action>) {
        let Some(class) =
            self.leases.classes.iter_mut().find(|class| class.requests.contains_key(&request))
        else {
            return;
        };
        class.requests.insert(request, Some(node.clone()));
        let first = class.queue.front().and_then(|task| self.tasks.get(task));
        let is_retriable = first.is_some_and(|task| task.retries_left != 0);
        out.push(Action::RequestLease {
            node: Some(node),
            request,
            class: class.class.clone(),
            backlog: class.queue.len() as u64,
            locality: Vec::new(),
            is_retriable,
        });
    }

    pub(crate) fn lease_revoked(
        &mut self,
        node: NodeId,
        lease: LeaseId,
        now: u64,
        out: &mut Vec<Action>,
    ) {
        let Some(request) = self.leases.by_lease.get(&(node, lease)).copied() else { return };
        if let Some(lease) = self.leases.leases.get_mut(&request) {
            lease.revoked = true;
            // Take back what has not begun, so that the lease ends with the call that runs.
            if lease.sent.len() > 1 && !lease.stealing {
                lease.stealing = true;
                out.push(Action::Send {
                    to: lease.worker.clone(),
                    frame: Frame::Steal { max: u32::MAX },
                });
            }
            if lease.sent.is_empty() {
                self.give_back(request, false, now, out);
            }
        }
    }

    fn give_back(&mut self, request: u64, discard: bool, now: u64, out: &mut Vec<Action>) {
        let Some(lease) = self.leases.leases.remove(&request) else { return };
        self.leases.by_lease.remove(&(lease.node, lease.id));
        let class = &mut self.leases.classes[lease.class];
        class.leases.retain(|other| *other != request);
        class.idle.retain(|other| *other != request);
        out.push(Action::ReturnLease { node: lease.node, lease: lease.id, discard });
        for task in lease.sent {
            let cause = DeathCause::new(DeathKind::Intended, "the worker was given back");
            self.worker_lost(task, false, &cause, now, out);
        }
    }

    /// A call on the lease has been replied to; when it can have begun.
    pub(crate) fn leave_lease(
        &mut self,
        request: u64,
        id: TaskId,
        leaving: bool,
        now: u64,
        out: &mut Vec<Action>,
    ) -> u64 {
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
            let took = now.saturating_sub(lease.began).max(1);
            lease.began = now;
            let class = &mut self.leases.classes[index];
            class.call_us = if class.call_us == 0 { took } else { (class.call_us * 7 + took) / 8 };
        }
        let empty = lease.sent.is_empty();
        let exclusive = self.leases.classes[index].is_single();
        if empty && lease.is_orphaned {
            self.drop_with_node(request, now, out);
        } else if leaving || (empty && (lease.revoked || exclusive)) {
            self.give_back(request, leaving, now, out);
        } else if empty {
            lease.idle_since = now;
            lease.stealing = false;
            self.leases.classes[index].idle.push(request);
        }
        self.pump(index, now, out);
        if empty {
            self.balance(index, out);
        }
        if first { began } else { 0 }
    }

    /// An idle worker, and calls waiting behind another's: take some back.
    fn balance(&mut self, index: usize, out: &mut Vec<Action>) {
        let Leases { classes, leases, .. } = &mut self.leases;
        let class = &classes[index];
        let idle =
            class.idle.iter().any(|r| leases.get(r).is_some_and(|lease| lease.sent.is_empty()));
        if !idle || !class.queue.is_empty() {
            return;
        }
        let fullest = class
            .leases
            .iter()
            .copied()
            .max_by_key(|r| leases.get(r).map_or(0, |lease| lease.sent.len()));
        if let Some(lease) = fullest.and_then(|request| leases.get_mut(&request))
            && lease.sent.len() > 1
            && !lease.stealing
        {
            lease.stealing = true;
            let max = (lease.sent.len() / 2) as u32;
            out.push(Action::Send { to: lease.worker.clone(), frame: Frame::Steal { max } });
        }
    }

    /// A worker hands back calls that it has not begun.
    pub(crate) fn unstarted(
        &mut self,
        from: WorkerId,
        tasks: Vec<TaskId>,
        now: u64,
        out: &mut Vec<Action>,
    ) {
        let (mut touched, mut cancelled) = (Vec::new(), Vec::new());
        // They return to the front of the queue in their order.
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
            } else {
                self.leases.classes[index].queue.push_front(id);
            }
            if !touched.contains(&(request, index)) {
                touched.push((request, index));
            }
        }
        for (id, error) in cancelled {
            self.fail(id, &error, now, out);
        }
        for (request, index) in touched {
            if let Some(lease) = self.leases.leases.get_mut(&request) {
                if lease.sent.is_empty() && lease.is_orphaned {
                    self.drop_with_node(request, now, out);
                } else if lease.sent.is_empty() && lease.revoked {
                    self.give_back(request, false, now, out);
                } else {
                    // Its worker blocks or is about to be revoked: `stealing` keeps new calls off it
                    // until it replies.
                    lease.stealing = !lease.sent.is_empty();
                }
            }
            self.pump(index, now, out);
        }
    }

    /// The leased worker has ended.
    pub(crate) fn lease_lost(
        &mut self,
        node: NodeId,
        id: LeaseId,
        cause: &DeathCause,
        now: u64,
        out: &mut Vec<Action>,
    ) {
        if let Some(request) = self.leases.by_lease.get(&(node, id)).copied() {
            self.drop_lease(request, Begun::First, cause, now, out);
        }
    }

    /// A lease ends because its node is gone.
    fn drop_with_node(&mut self, request: u64, now: u64, out: &mut Vec<Action>) {
        if let Some(node) = self.leases.leases.get(&request).map(|lease| lease.node) {
            self.drop_lease(request, Begun::First, &node_lost(node), now, out);
        }
    }

    fn drop_lease(
        &mut self,
        request: u64,
        begun: Begun,
        cause: &DeathCause,
        now: u64,
        out: &mut Vec<Action>,
    ) {
        let Some(lease) = self.leases.leases.remove(&request) else { return };
        self.leases.by_lease.remove(&(lease.node, lease.id));
        let class = &mut self.leases.classes[lease.class];
        class.leases.retain(|other| *other != request);
        class.idle.retain(|other| *other != request);
        for (place, task) in lease.sent.into_iter().enumerate() {
            self.worker_lost(task, place == 0 || begun == Begun::All, cause, now, out);
        }
        self.pump(lease.class, now, out);
    }

    /// The connection to a process broke: its leases will be ended by their daemon's word, or by time.
    pub(crate) fn leases_broken(
        &mut self,
        worker: &WorkerAddress,
        now: u64,
        out: &mut Vec<Action>,
    ) {
        let mut over = Vec::new();
        for (request, lease) in &mut self.leases.leases {
            if lease.worker.worker_id == worker.worker_id {
                lease.broken.get_or_insert(now);
                if lease.is_orphaned {
                    over.push(*request);
                }
            }
        }
        over.sort_unstable();
        for request in over {
            self.drop_with_node(request, now, out);
        }
    }

    /// A daemon that lent us workers is gone, or only the connection to it is. In that case it will end
    /// those workers, but they go on until then: what they have not begun is asked back, so that nothing
    /// begins here and there, and their replies count as long as they come.
    pub(crate) fn node_lost(&mut self, node: NodeId, now: u64, out: &mut Vec<Action>) {
        let mut lost = Vec::new();
        let mut orphans = Vec::new();
        for (request, lease) in self.leases.leases.iter().filter(|(_, lease)| lease.node == node) {
            let is_over = lease.sent.is_empty() || lease.broken.is_some();
            if is_over { &mut lost } else { &mut orphans }.push(*request);
        }
        lost.sort_unstable();
        orphans.sort_unstable();
        for request in orphans {
            let Some(lease) = self.leases.leases.get_mut(&request) else { continue };
            lease.broken = Some(now);
            lease.is_orphaned = true;
            if lease.sent.len() > 1 {
                lease.stealing = true;
                let frame = Frame::Steal { max: u32::MAX };
                out.push(Action::Send { to: lease.worker.clone(), frame });
            }
        }
        for request in lost {
            self.drop_with_node(request, now, out);
        }
        for index in 0..self.leases.classes.len() {
            let class = &mut self.leases.classes[index];
            class.requests.retain(|_, at| at.as_ref().is_none_or(|at| at.node_id != node));
            self.pump(index, now, out);
        }
        for id in self.located_on(node) {
            // It may be only the connection that is gone, and the node's copy the only one there is.
            if self.can_spare(id) {
                self.location_lost(id, node, now, out);
            }
        }
    }

    /// A node was declared dead. Its workers may live on, if only its daemon hangs; what they still reply
    /// does not count.
    pub(crate) fn node_died(&mut self, node: NodeId, now: u64, out: &mut Vec<Action>) {
        let on_it = self.leases.leases.iter().filter(|(_, lease)| lease.node == node);
        let mut over: Vec<u64> = on_it.map(|(request, _)| *request).collect();
        over.sort_unstable();
        for request in over {
            // **OWN-1** A worker that lives on may begin each of the calls that it was sent.
            self.drop_lease(request, Begun::All, &node_lost(node), now, out);
        }
        self.node_lost(node, now, out);
    }

    /// A call takes longer than those before it: what was sent ahead goes where there is room, now or
    /// when a lease is granted. It could even be what the call waits for.
    fn take_back(&mut self, request: u64, now: u64, out: &mut Vec<Action>) {
        let Some(lease) = self.leases.leases.get_mut(&request) else { return };
        lease.stealing = true;
        out.push(Action::Send { to: lease.worker.clone(), frame: Frame::Steal { max: u32::MAX } });
        let class = &mut self.leases.classes[lease.class];
        class.call_us = class.call_us.max(now.saturating_sub(lease.began));
    }

    pub(crate) fn tick(&mut self, now: u64, out: &mut Vec<Action>) {
        let (mut idle, mut broken, mut stalled) = (Vec::new(), Vec::new(), Vec::new());
        for (request, lease) in &self.leases.leases {
            if lease.broken.is_some_and(|at| now >= at + CAUSE_WAIT_US) {
                broken.push(*request);
            } else if lease.sent.is_empty() && now >= lease.idle_since + LINGER_US {
                idle.push(*request);
            } else if lease.waits_behind() && now >= lease.began + STALL_US {
                stalled.push(*request);
            }
        }
        idle.sort_unstable();
        broken.sort_unstable();
        stalled.sort_unstable();
        for request in stalled {
            self.take_back(request, now, out);
        }
        for request in idle {
            self.give_back(request, false, now, out);
        }
        let cause = DeathCause::new(DeathKind::Unknown, "the connection to its process broke");
        for request in broken {
            // The process may live behind a broken line; its daemon ends it, so that nothing runs twice.
            if let Some(lease) = self.leases.leases.get(&request) {
                out.push(Action::ReturnLease { node: lease.node, lease: lease.id, discard: true });
            }
            self.drop_lease(request, Begun::First, &cause, now, out);
        }
        self.tick_actors(now, out);
        self.tick_delayed(now, out);
    }
}
