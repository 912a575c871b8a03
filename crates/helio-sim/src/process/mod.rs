//! A driver or worker: the machine that `helio-worker` runs (`helio_process_state::Process`) over simulated
//! links, and user code.
//!
//! Reading order: this file (the shell), `observe` (what is counted), `frames` and `user` (the user code's operations),
//! `submit` (those that call), `read` (those that read), `table`, `groups`.

mod actors;
mod arrivals;
mod frames;
mod groups;
mod inbox;
mod memory;
mod observe;
mod read;
mod submit;
mod table;
mod user;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use helio_owner_state::{Event as OwnerEvent, Owner};
use helio_process_state::{Action, Event, Identity, Lease, Peer};
use helio_proto::node::{ClientToNode, Expect, JobConfig, LeaseClass, NodeToClient, Register};
use helio_proto::template::{CallKind, Template};
use helio_proto::{decode, encode, frame};
use helio_types::{
    ActorId, JobId, NodeId, ObjectId, PlacementGroupId, TaskId, WorkerAddress, WorkerId,
};

use crate::alarm::Alarm;
use crate::core::{Core, Event as Next};
use crate::net::{End, Kind, What};
use crate::ops::{Needs, Op, Target};
pub(crate) use frames::{ActorState, Frame as Code};
use inbox::Inbox;
use memory::Arena;

type Machine = helio_process_state::Process<Arena>;
/// The job, hundredths of a CPU, the place in a placement group, if there is one, or where else it runs, whether
/// its worker runs no other, and what else it needs.
type ClassKey = (JobId, u32, Option<(PlacementGroupId, i64)>, (Target, NodeId), bool, Needs);

/// A simulated driver or worker: the machine of a process, and the user code that runs on it.
pub(crate) struct Process {
    pub(crate) pid: usize,
    pub(crate) node: usize,
    pub(crate) id: WorkerId,
    pub(crate) is_driver: bool,
    pub(crate) is_alive: bool,
    /// The end of the process is nobody's loss.
    pub(crate) is_spared: bool,
    /// Present once the daemon has answered the registration.
    machine: Option<Machine>,
    /// The network's link to the daemon.
    node_link: u64,
    /// The network's link for each of the machine's, and back.
    outer: BTreeMap<u64, u64>,
    inner: BTreeMap<u64, u64>,
    /// Arrivals on links of others before the daemon's answer.
    early: Vec<(u64, What)>,
    /// Actions that are to be carried out.
    to_do: VecDeque<Action>,
    /// Links to processes on the other side of a partition that are still to be made.
    reaching: BTreeMap<u64, Peer>,
    /// An action is being carried out.
    is_busy: bool,
    unpinned: Rc<RefCell<Vec<ObjectId>>>,
    outside: Rc<RefCell<Vec<ObjectId>>>,
    /// The time until which its connections take a few bytes at a time.
    pushed_until: u64,
    /// The part of a message that a connection took last.
    partial: BTreeMap<u64, Vec<u8>>,
    /// Links whose connection did not take everything.
    stuffed: BTreeSet<u64>,
    /// The request to make workers ready, until it is answered.
    expecting: Option<u64>,
    alarm: Alarm,
    /// User code that runs.
    pub(crate) code: Vec<Code>,
    pub(crate) actor: Option<ActorState>,
    /// Calls that were cancelled while they ran.
    cancelled: BTreeSet<TaskId>,
    /// The running calls that are to end by force.
    forced: BTreeSet<TaskId>,
    /// The lease of the task that began last.
    lease: Option<Arc<Lease>>,
    /// The calls that came for an actor.
    inbox: Inbox,
    /// The process is to end as soon as nothing runs.
    exits: bool,
    /// The process has run its last task, and ends when nobody needs what it owns.
    lingers: bool,
    /// The cause of the process's end, which is now.
    pub(crate) dies: Option<&'static str>,
    orders: BTreeMap<(ActorId, &'static str), u64>,
    threads: u64,
    templates: BTreeMap<(u32, bool, &'static str, u32, CallKind), Arc<Template>>,
    classes: BTreeMap<ClassKey, Arc<LeaseClass>>,
}

impl Process {
    /// A process that has just been made: it registers with its daemon.
    pub(crate) fn start(core: &mut Core, pid: usize, main: Option<Code>) -> Self {
        let person = core.people[pid];
        let me = End::Process(pid);
        let node_link = core.connect(Kind::Local, me, End::Node(person.node)).unwrap_or_default();
        let register = Register {
            worker_id: person.id,
            pid: pid as u32 + 1,
            is_driver: person.is_driver,
            namespace: "sim".to_owned(),
            ..Register::default()
        };
        core.send(node_link, me, encode(&ClientToNode::from(register)));
        Self {
            pid,
            node: person.node,
            id: person.id,
            is_driver: person.is_driver,
            is_alive: true,
            is_spared: false,
            machine: None,
            node_link,
            outer: BTreeMap::new(),
            inner: BTreeMap::new(),
            early: Vec::new(),
            to_do: VecDeque::new(),
            reaching: BTreeMap::new(),
            is_busy: false,
            unpinned: Rc::default(),
            outside: Rc::default(),
            pushed_until: 0,
            partial: BTreeMap::new(),
            stuffed: BTreeSet::new(),
            expecting: None,
            alarm: Alarm::default(),
            code: main.into_iter().collect(),
            actor: None,
            cancelled: BTreeSet::new(),
            forced: BTreeSet::new(),
            lease: None,
            inbox: Inbox::default(),
            exits: false,
            lingers: false,
            dies: None,
            orders: BTreeMap::new(),
            threads: 0,
            templates: BTreeMap::new(),
            classes: BTreeMap::new(),
        }
    }

    /// Whether a call that it runs reads what others make.
    pub(crate) fn awaits_calls(&self) -> bool {
        let mut scripts = self.code.iter().map(|frame| frame.script.front());
        scripts.any(|op| matches!(op, Some(Op::Get { .. })))
    }

    /// Whether its node brings it an object of another one, whose owner is to hear of that.
    pub(crate) fn awaits_a_copy(&self) -> bool {
        self.machine.as_ref().is_some_and(Machine::awaits_a_copy)
    }

    fn me(&self) -> End {
        End::Process(self.pid)
    }

    /// The owner machine, once the process is registered.
    pub(crate) fn owner(&self) -> Option<&Owner> {
        self.machine.as_ref().map(Machine::owner)
    }

    /// Returns the number of objects that the machine has pinned.
    pub(crate) fn pins_count(&self) -> usize {
        self.machine.as_ref().map_or(0, Machine::pins_count)
    }

    /// Requests of the machine that are open, and answers that nobody took.
    pub(crate) fn open_requests(&self) -> Vec<String> {
        self.machine.as_ref().map(Machine::open_requests).unwrap_or_default()
    }

    /// The daemon's first message answers the registration.
    fn registered(&mut self, core: &mut Core, bytes: &[u8]) {
        let Ok(NodeToClient::Registered(registered)) = decode(bytes) else {
            return core.violation("a daemon did not answer a registration".to_owned());
        };
        if registered.failed {
            self.dies = Some("its registration was refused");
            return;
        }
        let address = WorkerAddress {
            worker_id: self.id,
            node_id: registered.node_id,
            host: registered.host,
            port: registered.port,
        };
        let identity = Identity {
            address,
            pid: self.pid as u32 + 1,
            is_driver: self.is_driver,
            job: JobConfig {
                job_id: registered.job_id,
                namespace: registered.namespace,
                ..JobConfig::default()
            },
            lineage_bytes_max: None,
        };
        let arena = Arena {
            size: core.daemons[self.node].arena.len() as u64,
            returned: self.unpinned.clone(),
            outside: self.outside.clone(),
        };
        if self.is_driver {
            core.facts.drivers_with_jobs.insert(self.id);
        }
        let mut machine = Machine::new(identity, arena);
        let own_node = machine.links().own_node();
        self.outer.insert(own_node, self.node_link);
        self.inner.insert(self.node_link, own_node);
        let expect = core.rng.one_in(2).then(|| {
            let workers = core.rng.range(0, 3) as u32;
            let request = machine.mint_request();
            (request, Expect { workers, request_id: request, ..Expect::default() })
        });
        self.machine = Some(machine);
        if let Some((request, expect)) = expect {
            self.expecting = Some(request);
            self.apply(core, Event::Confirm { request, message: Box::new(expect.into()) });
        }
        for (link, what) in std::mem::take(&mut self.early) {
            self.arrived(core, link, what);
        }
        core.after(1, Next::Run { pid: self.pid });
    }

    /// Tells the machine, and does what it wants done.
    fn apply(&mut self, core: &mut Core, event: Event<'_>) {
        let Some(machine) = &mut self.machine else { return };
        self.to_do.extend(machine.apply(event, core.machine_us(self.node)));
        self.execute_actions(core);
        self.write_out(core);
    }

    /// Tells the owner machine inside.
    fn tell_owner(&mut self, core: &mut Core, event: OwnerEvent) {
        self.apply(core, Event::Owner(event));
    }

    /// Executes the machine's actions in order, also those that follow from executing one.
    fn execute_actions(&mut self, core: &mut Core) {
        self.to_do.extend(self.machine.as_mut().map(Machine::take_actions).unwrap_or_default());
        if self.is_busy {
            return;
        }
        self.is_busy = true;
        while let Some(action) = self.to_do.pop_front() {
            self.execute_action(core, action);
        }
        self.is_busy = false;
    }

    fn execute_action(&mut self, core: &mut Core, action: Action) {
        match action {
            Action::Connect { link, to } => self.connect(core, link, &to),
            Action::Refuse { .. } => core.violation("a stranger in a simulated process".to_owned()),
            Action::Close { link, reason } => {
                if let Some(reason) = reason {
                    core.violation(format!("WIRE-1: p{} closes a link: {reason}", self.pid));
                }
                self.close(core, link);
            }
            Action::Drain { link } => {
                self.read_out(core, link);
                self.apply(core, Event::Drained { link });
            }
            Action::CollectReleased => self.return_pins(core),
            Action::Interrupt(task) => {
                if core.facts.history.was_cancelled_deep(task) {
                    for child in core.facts.history.made_in(task, self.id) {
                        self.stops(core, child);
                    }
                }
                self.cancelled.insert(task);
            }
            Action::ForceExit { reason } if reason == "a task was cancelled by force" => {
                self.dies = Some("a task was cancelled by force");
            }
            Action::ForceExit { reason } => {
                core.note(|| format!("p{} is to end at once: {reason}", self.pid));
                self.dies = Some("it was told to end at once");
            }
            Action::End { .. } => self.dies = Some("its daemon is gone"),
            Action::ShowLines(_)
            | Action::Notify(_)
            | Action::ShowUnseen(_)
            | Action::Report(_)
            | Action::LastWords
            | Action::ReturnMemory => {}
        }
    }

    /// The other end is on the other side of a partition, or was: the connection is made once that is over, unless the
    /// process gives up before.
    pub(crate) fn reaches(&mut self, core: &mut Core, link: u64) {
        let Some(to) = self.reaching.remove(&link) else { return };
        if let Peer::Process(address) = &to
            && let Some(whom) = core.person(address.worker_id)
            && core.cut_off_until(self.node, core.people[whom].node) > core.now
        {
            core.facts.count("connections given up");
            return self.apply(core, Event::Unreached { link });
        }
        self.connect(core, link, &to);
        if let Some(machine) = &mut self.machine {
            machine.links().touch(link);
        }
        self.write_out(core);
    }

    /// Whether it takes a while until the process is reached, or is not.
    fn is_cut_off(&mut self, core: &mut Core, link: u64, to: &Peer) -> bool {
        let Peer::Process(address) = to else { return false };
        let Some(whom) = core.person(address.worker_id) else { return false };
        let over = core.cut_off_until(self.node, core.people[whom].node);
        if over <= core.now {
            return false;
        }
        let gives_up = core.now + core.rng.range(1_000, core.plan.reach_us_max);
        self.reaching.insert(link, to.clone());
        core.at(gives_up.min(over + 1), Next::Reaches { pid: self.pid, link });
        true
    }

    fn connect(&mut self, core: &mut Core, link: u64, to: &Peer) {
        if core.plan.reach_us_max > 0 && self.is_cut_off(core, link, to) {
            return;
        }
        let there = match to {
            // An address without its node leads nowhere, as in the real shell.
            Peer::Process(address) => core
                .person(address.worker_id)
                .filter(|_| !address.node_id.is_nil())
                .map(|whom| (Kind::Peer, End::Process(whom))),
            Peer::RemoteNode(address) => {
                core.daemon(address.node_id).map(|whom| (Kind::Remote, End::Node(whom)))
            }
            Peer::Node => None,
        };
        match there.and_then(|(kind, there)| core.connect(kind, self.me(), there)) {
            Some(outer) => {
                if let (Peer::Process(to), Some(machine)) = (to, &mut self.machine) {
                    core.net.greet(outer, machine.links().epoch(to.worker_id));
                }
                self.outer.insert(link, outer);
                self.inner.insert(outer, link);
                // The network has no greetings; whoever accepts is there.
                self.apply(core, Event::Greeted { link });
            }
            None => {
                if let (Peer::Process(to), Some(machine)) = (to, &mut self.machine)
                    && let Some(output) = machine.links().output(link)
                {
                    observe::missed(core, to.worker_id, output.pending());
                }
                let own_node = self.machine.as_ref().map(|machine| machine.address().node_id);
                // On another machine the daemon answers for a process that is dead, and closes.
                let is_elsewhere = matches!(to, Peer::Process(at) if Some(at.node_id) != own_node);
                let event = if is_elsewhere {
                    Event::Closed { link, is_complete: true }
                } else {
                    Event::Unreached { link }
                };
                self.apply(core, event);
            }
        }
    }

    /// Takes in the messages that a process of this machine sent before it ended: they lie in the connection.
    fn read_out(&mut self, core: &mut Core, link: u64) {
        let Some(outer) = self.outer.get(&link).copied() else { return };
        for bytes in core.take_arrivals(outer, self.me()) {
            self.apply(core, Event::Frame { link, bytes: &bytes });
        }
    }

    fn close(&mut self, core: &mut Core, link: u64) {
        self.reaching.remove(&link);
        if let Some(outer) = self.outer.remove(&link) {
            self.inner.remove(&outer);
            self.unsent(core, link, outer);
            core.close(outer, self.me());
        }
    }

    /// Sends what the machine has written, a frame a message. Not while actions are carried out: links
    /// that are still to be made have output already.
    fn write_out(&mut self, core: &mut Core) {
        if self.is_busy {
            return;
        }
        let (me, pushes_back) = (self.me(), core.now < self.pushed_until);
        let Some(machine) = &mut self.machine else { return };
        let links = machine.links();
        let mut dirty = links.take_due();
        dirty.extend(links.take_dirty());
        for link in dirty {
            if self.reaching.contains_key(&link) {
                continue;
            }
            let to = match links.peer(link) {
                Some(Peer::Process(address)) => Some(address.worker_id),
                _ => None,
            };
            let Some(output) = links.output(link) else { continue };
            let mut bytes = output.pending().to_vec();
            if pushes_back && bytes.len() > TAKEN_MIN {
                bytes.truncate(core.rng.range(1, bytes.len() as u64) as usize);
            }
            output.advance(bytes.len());
            if output.unwritten() > 0 && self.stuffed.insert(link) {
                core.facts.count("messages taken in part");
                let delay = core.rng.range(50, TAKES_AGAIN_US);
                core.after(delay, Next::Writable { pid: self.pid });
            }
            // A link that could not be made is closed already, and its output goes nowhere.
            let Some(outer) = self.outer.get(&link).copied() else { continue };
            let before = self.partial.remove(&outer).unwrap_or_default();
            let bytes = [before, bytes].concat();
            let mut rest = &bytes[..];
            while let Ok(Some((start, end))) = frame::split(rest, frame::FRAME_MAX) {
                observe::sent(core, (self.id, to), &rest[start..end]);
                core.send(outer, me, rest[start..end].to_vec());
                rest = &rest[end..];
            }
            if !rest.is_empty() {
                self.partial.insert(outer, rest.to_vec());
            }
        }
    }

    /// From now until then its connections take a few bytes at a time.
    pub(crate) fn push_back(&mut self, _: &mut Core, until: u64) {
        self.pushed_until = until;
    }

    /// The network's links of which a part of a message is out.
    pub(crate) fn torn_links(&self) -> impl Iterator<Item = u64> + '_ {
        self.partial.keys().copied()
    }

    /// Connections that did not take everything take more.
    pub(crate) fn writable(&mut self, core: &mut Core) {
        let Some(machine) = &mut self.machine else { return };
        for link in std::mem::take(&mut self.stuffed) {
            machine.links().touch(link);
        }
        self.write_out(core);
    }

    /// Writes out all that the process has to say before it ends in order, however long that takes.
    fn write_last(&mut self, core: &mut Core) {
        self.pushed_until = 0;
        self.writable(core);
    }

    /// A link is over: what did not go out whole counts as sent, for its sender cannot tell what of it arrived.
    fn unsent(&mut self, core: &mut Core, link: u64, outer: u64) {
        let (was_stuffed, before) = (self.stuffed.remove(&link), self.partial.remove(&outer));
        if !was_stuffed && before.is_none() {
            return;
        }
        let before = before.unwrap_or_default();
        let Some(machine) = &mut self.machine else { return };
        let links = machine.links();
        let Some(Peer::Process(to)) = links.peer(link).cloned() else { return };
        let left = links.output(link).map(|output| output.pending().to_vec()).unwrap_or_default();
        observe::unsent(core, to.worker_id, &[before, left].concat());
    }

    fn return_pins(&mut self, core: &mut Core) {
        let returned = std::mem::take(&mut *self.unpinned.borrow_mut());
        if !returned.is_empty() {
            self.apply(core, Event::Released(returned));
        }
    }

    /// After every event: pins that were given back, and when to hear of the time.
    pub(crate) fn settle(&mut self, core: &mut Core) {
        self.return_pins(core);
        if self.dies == Some(ASKED_TO_END) {
            self.write_last(core);
        }
        if !self.outside.borrow_mut().drain(..).as_slice().is_empty() {
            core.violation("SHM-1: an object outside the store".to_owned());
        }
        let Some(machine) = &mut self.machine else { return };
        // Nobody waits here: the program goes on whenever something happens.
        machine.take_signals();
        if let Some(request) = self.expecting
            && machine.take_answer(request).is_some()
        {
            self.expecting = None;
        }
        let due = machine.next_tick();
        if let Some(due) = due.map(|due| core.at_machine_us(self.node, due))
            && self.alarm.set(due)
        {
            core.at(due, Next::OwnerTick { pid: self.pid });
        }
    }

    /// The clock of its machine has jumped: what was to happen later may be due.
    pub(crate) fn clock_jumped(&mut self, core: &mut Core) {
        self.apply(core, Event::Tick);
    }

    pub(crate) fn tick(&mut self, core: &mut Core) {
        if self.alarm.rings(core.now) {
            self.apply(core, Event::Tick);
        }
    }

    pub(crate) fn arrived(&mut self, core: &mut Core, link: u64, what: What) {
        if self.machine.is_none() {
            match what {
                What::Bytes(bytes) if link == self.node_link => self.registered(core, &bytes),
                What::Closed if link == self.node_link => self.dies = Some("its daemon is gone"),
                what => self.early.push((link, what)),
            }
            return;
        }
        match what {
            What::Opened => self.accept(core, link),
            What::Bytes(bytes) => {
                let Some(inner) = self.inner.get(&link).copied() else { return };
                let machine = self.machine.as_mut();
                let peer = machine.and_then(|machine| machine.links().peer(inner).cloned());
                if matches!(peer, Some(Peer::Process(_))) {
                    observe::answered(core, &bytes);
                    self.frame_came(&bytes);
                } else {
                    self.inbox.daemon_said(&bytes);
                    let from = core.net.get(link).and_then(|line| match line.ends[1] {
                        End::Node(node) => Some(core.daemons[node].address.node_id),
                        End::Process(_) | End::Control(_) => None,
                    });
                    observe::received(core, (self.id, from.unwrap_or_default()), &bytes);
                }
                self.apply(core, Event::Frame { link: inner, bytes: &bytes });
            }
            What::Closed => {
                let is_complete = core.net.get(link).is_none_or(|line| !line.is_cut());
                core.close(link, self.me());
                if let Some(inner) = self.inner.remove(&link) {
                    self.outer.remove(&inner);
                    self.unsent(core, inner, link);
                    self.apply(core, Event::Closed { link: inner, is_complete });
                    self.hears_of_end(core, link);
                }
            }
        }
    }

    /// A connection ended, and there is no other one to that process.
    fn hears_of_end(&mut self, core: &mut Core, outer: u64) {
        let ends = core.net.get(outer).map(|line| line.ends);
        let mut others = ends.into_iter().flatten().filter(|end| *end != self.me());
        let Some(End::Process(other)) = others.next() else { return };
        let gone = core.people[other].id;
        if self.machine.as_mut().is_some_and(|machine| machine.links().to_process(gone).is_none()) {
            core.facts.history.told_gone(self.id, gone);
        }
    }

    /// Takes in a connection whose other end said who it is.
    fn accept(&mut self, core: &mut Core, outer: u64) {
        let Some(line) = core.net.get(outer) else { return };
        let (End::Process(from), epoch) = (line.ends[0], line.epoch) else { return };
        let Some(machine) = &mut self.machine else { return };
        let person = core.people[from];
        let daemon = &core.daemons[person.node].address;
        let from = WorkerAddress {
            worker_id: person.id,
            node_id: daemon.node_id,
            host: daemon.host.clone(),
            port: daemon.port,
        };
        let link = machine.links().mint();
        self.outer.insert(link, outer);
        self.inner.insert(outer, link);
        self.apply(core, Event::Accepted { link, from, epoch });
    }

    fn new_put(&mut self, core: &mut Core) -> ObjectId {
        let id = self.machine.as_mut().map(Machine::new_put).unwrap_or_default();
        core.facts.history.put(id, self.id);
        id
    }

    pub(crate) fn job(&self) -> JobConfig {
        self.machine.as_ref().map(|machine| machine.job().clone()).unwrap_or_default()
    }

    /// The process is no more.
    pub(crate) fn end(&mut self, core: &mut Core) {
        self.is_alive = false;
        core.people[self.pid].is_alive = false;
        core.process_gone(self.pid);
        core.close_all(self.me());
        self.machine = None;
        self.code.clear();
        self.actor = None;
    }
}

/// The bytes that a connection which pushes back takes at once.
const TAKEN_MIN: usize = 8;
/// Microseconds after which it takes more, at the latest.
const TAKES_AGAIN_US: u64 = 20_000;

/// The reason of the end of a process that its daemon, or its own code, asked to end.
pub(crate) const ASKED_TO_END: &str = "it was asked to end";
