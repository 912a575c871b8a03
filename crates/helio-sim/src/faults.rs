//! Breaking things.

use std::collections::BTreeSet;

use helio_node_state::{Exit, MemoryUse};
use helio_types::NodeId;

use crate::core::Event;
use crate::evidence::Verdict;
use crate::holds::Scope;
use crate::net::{End, Kind};
use crate::node::NodeHost;
use crate::plan::{Fault, SILENCE_US_MIN, WAIT_US_MAX, Way};
use crate::process::Process;
use crate::world::World;

/// Microseconds that a control service that died between two actions is away.
const TORN_AWAY_US: u64 = 200_000;
/// Microseconds for which a worker that waits for calls of its own is looked for.
const CALLER_WAIT_US: u64 = 1_000_000;
/// Microseconds between two such looks.
const CALLER_LOOK_US: u64 = 5_000;
/// Microseconds that nothing is heard of a machine without power.
const POWER_OFF_US: u64 = WAIT_US_MAX + 15_000_000;
/// An object comes sooner than calls do.
const READER_LOOK_US: u64 = 100;

impl World {
    /// The fault of that place in the plan happens.
    pub(crate) fn fault(&mut self, place: usize) {
        let (_, fault) = self.core.plan.faults[place];
        self.core.note(|| format!("FAULT {fault:?}"));
        match fault {
            Fault::Worker => self.kill_some(false),
            Fault::Caller => self.kill_caller(place),
            Fault::Reader => self.tear_reader(place),
            Fault::Maker => self.kill_maker(place),
            Fault::Keeper => self.kill_keeper(place),
            Fault::Driver => self.kill_some(true),
            Fault::Node => {
                if let Some(node) = self.some_node(true) {
                    self.core.facts.count("faults: node");
                    self.kill_node(node);
                }
            }
            Fault::Stop => {
                if let Some(node) = self.some_node(true) {
                    self.core.facts.count("faults: stopped node");
                    self.at_node(node, NodeHost::say_goodbye);
                    self.kill_node(node);
                }
            }
            Fault::PowerOff => self.power_off(),
            Fault::Control { away_us } => self.restart_control("faults: control", away_us),
            Fault::Peer => self.cut_some(Kind::Peer),
            Fault::Remote => self.cut_some(Kind::Remote),
            Fault::Daemon => self.cut_some(Kind::Daemon),
            Fault::ControlLink => self.cut_some(Kind::Control),
            Fault::LostOrder(order) => self.core.lost_orders.push(order),
            Fault::HangProcess { for_us } => self.hang_process(for_us),
            Fault::HangNode { for_us } => self.hang_node(for_us),
            Fault::Partition { for_us, way } => {
                let is_apart: Vec<bool> = (0..self.nodes.len())
                    .map(|node| node != self.core.head && self.core.rng.one_in(2))
                    .collect();
                let cut_off: Vec<usize> =
                    (0..is_apart.len()).filter(|node| is_apart[*node]).collect();
                if cut_off.is_empty() {
                    return;
                }
                self.core.facts.count("faults: partition");
                self.core.cut_off(is_apart.clone(), for_us);
                self.silence(&cut_off, for_us);
                self.hold(Scope::Across { is_apart, way }, for_us);
            }
            Fault::Head { away_us } => self.lose_head(away_us),
            Fault::ControlTorn { after } => {
                if let Some(life) = self.core.control {
                    self.core.tear_after(End::Control(life), after);
                }
            }
            Fault::NodeTorn { after } => {
                if let Some(node) = self.some_node(true) {
                    self.core.tear_after(End::Node(node), after);
                }
            }
            Fault::ProcessTorn { after } => {
                if let Some(pid) = self.some_process(None) {
                    self.core.tear_after(End::Process(pid), after);
                }
            }
            Fault::DiskFull { for_us } => {
                let Some(node) = self.some_node(false) else { return };
                if let Some(host) = &mut self.nodes[node] {
                    host.disk_is_full = true;
                }
                self.core.facts.count("faults: disk");
                self.core.after(for_us, Event::DiskHasRoom { node });
            }
            Fault::DiskBroken { for_us } => {
                let Some(node) = self.some_node(false) else { return };
                if let Some(host) = &mut self.nodes[node] {
                    host.disk_is_broken = true;
                }
                self.core.facts.count("faults: disk that fails");
                self.core.after(for_us, Event::DiskMended { node });
            }
            Fault::HeadDiskFull { for_us } => {
                self.core.facts.count("faults: full disk of the head");
                self.core.fill_head_disk();
                self.core.after(for_us, Event::HeadDiskHasRoom);
            }
            Fault::SlowCommit { for_us } => {
                let Some(life) = self.core.control else { return };
                self.core.facts.count("faults: slow commit");
                self.hold(Scope::Still(vec![End::Control(life)]), for_us);
            }
            Fault::Drain => self.drain_some(0),
            Fault::DrainBy { grace_ms } => self.drain_some(grace_ms),
            Fault::Stay => self.keep_some(),
            Fault::Join => {
                let cpus = self.core.plan.cpus[0];
                self.core.facts.count("faults: machine that joins");
                self.core.after(1, Event::NodeStart { cpus });
            }
            Fault::Suspend { for_us } => {
                self.core.facts.count("faults: all machines suspended");
                self.hold(Scope::Everything, for_us);
            }
            Fault::ClockJump { by_us } => self.clock_jump(by_us),
            Fault::Damage => self.damage_file(),
            Fault::PushBack { for_us } => self.push_back(for_us),
            Fault::CutMessage => self.cut_message(place),
            Fault::Memory => {
                if let Some(node) = self.some_node(false) {
                    self.starve(node);
                }
            }
            Fault::Squeeze => self.squeeze(place),
        }
    }

    fn starve(&mut self, node: usize) {
        let memory = MemoryUse { used: 99, total: 100, threshold: 0.9, ..MemoryUse::default() };
        self.core.facts.count("faults: memory");
        self.at_node(node, |host, core| host.memory_read(core, memory));
    }

    /// Memory is short where calls run that may be tried again, and others that may not; later, if that is nowhere now.
    fn squeeze(&mut self, place: usize) {
        let squeezed: Vec<usize> = (0..self.nodes.len())
            .filter(|node| {
                self.nodes[*node].as_ref().is_some_and(|host| host.may_choose(&self.core))
            })
            .collect();
        match self.core.rng.pick(&squeezed).copied() {
            Some(node) => {
                self.core.facts.count("faults: memory for some of them");
                self.starve(node);
            }
            None => self.look_again(place, CALLER_LOOK_US),
        }
    }

    /// A worker dies that has made an actor; later, if there is none now.
    fn kill_maker(&mut self, place: usize) {
        let alive = self.processes.iter().filter(|process| process.is_alive && !process.is_driver);
        let history = &self.core.facts.history;
        let makers: Vec<usize> = alive
            .filter(|process| history.has_actors(process.id))
            .map(|process| process.pid)
            .collect();
        match self.core.rng.pick(&makers).copied() {
            Some(pid) => {
                self.core.facts.count("faults: maker of an actor");
                self.kill(pid);
            }
            None => self.look_again(place, CALLER_LOOK_US),
        }
    }

    /// A worker dies that owns an object of which another node has a copy; later, if there is none now.
    fn kill_keeper(&mut self, place: usize) {
        let mut owners = BTreeSet::new();
        for host in self.nodes.iter().flatten() {
            let here = host.node.objects();
            owners.extend(here.into_iter().map(|(_, owner)| (owner, host.index)));
        }
        let alive = self.processes.iter().filter(|process| process.is_alive && !process.is_driver);
        let keeps = |process: &&Process| {
            owners.iter().any(|(owner, node)| *owner == process.id && *node != process.node)
        };
        let keepers: Vec<usize> = alive.filter(keeps).map(|process| process.pid).collect();
        match self.core.rng.pick(&keepers).copied() {
            Some(pid) => {
                self.core.facts.count("faults: keeper of objects");
                self.kill(pid);
            }
            None => self.look_again(place, CALLER_LOOK_US),
        }
    }

    /// The fault happens later, as long as it may.
    fn look_again(&mut self, place: usize, after_us: u64) {
        if self.core.now < self.core.plan.faults[place].0 + CALLER_WAIT_US {
            self.core.after(after_us, Event::Fault { place });
        }
    }

    /// Asks the control service, by the head's daemon, to have a node leave.
    fn drain_some(&mut self, grace_ms: u64) {
        let Some(node) = self.some_node(true) else { return };
        if self.core.daemons[node].is_draining {
            return;
        }
        let (node_id, head) = (
            self.core.daemons[node].address.node_id,
            self.core.daemons[self.core.head].address.node_id,
        );
        let Some(control) = &mut self.control else { return };
        if control.asked_to_drain(&mut self.core, head, node_id, Some(grace_ms)) {
            self.core.facts.count("faults: drained node");
            self.core.daemons[node].is_hurried = grace_ms > 0;
        }
    }

    /// Asks that a node which is to leave stays after all.
    fn keep_some(&mut self) {
        let leaving: Vec<usize> = (0..self.nodes.len())
            .filter(|node| self.nodes[*node].is_some() && self.core.daemons[*node].is_draining)
            .collect();
        let Some(node) = self.core.rng.pick(&leaving).copied() else { return };
        let (node_id, head) = (
            self.core.daemons[node].address.node_id,
            self.core.daemons[self.core.head].address.node_id,
        );
        let Some(control) = &mut self.control else { return };
        if control.asked_to_drain(&mut self.core, head, node_id, None) {
            self.core.facts.count("faults: node that stays after all");
        }
    }

    /// A node that lives; with `is_spared` never the head.
    fn some_node(&mut self, is_spared: bool) -> Option<usize> {
        let alive: Vec<usize> = (0..self.nodes.len())
            .filter(|node| self.nodes[*node].is_some() && !(is_spared && *node == self.core.head))
            .collect();
        self.core.rng.pick(&alive).copied()
    }

    /// A process that lives: a driver, a worker, or either.
    fn some_process(&mut self, is_driver: Option<bool>) -> Option<usize> {
        let alive: Vec<usize> = self
            .processes
            .iter()
            .filter(|process| process.is_alive)
            .filter(|process| is_driver.is_none_or(|wanted| process.is_driver == wanted))
            .map(|process| process.pid)
            .collect();
        self.core.rng.pick(&alive).copied()
    }

    fn kill_some(&mut self, is_driver: bool) {
        let Some(pid) = self.some_process(Some(is_driver)) else { return };
        self.core.facts.count(if is_driver { "faults: driver" } else { "faults: worker" });
        self.kill(pid);
    }

    /// A worker dies that waits for calls of its own; later, if none does now.
    fn kill_caller(&mut self, place: usize) {
        let alive = self.processes.iter().filter(|process| process.is_alive && !process.is_driver);
        let callers: Vec<usize> =
            alive.filter(|process| process.awaits_calls()).map(|process| process.pid).collect();
        match self.core.rng.pick(&callers).copied() {
            Some(pid) => {
                self.core.facts.count("faults: caller");
                self.kill(pid);
            }
            None => self.look_again(place, CALLER_LOOK_US),
        }
    }

    /// A worker that waits for an object of another node dies before it says anything more: its node has the object, and
    /// nobody tells the owner. Later, if none waits now.
    fn tear_reader(&mut self, place: usize) {
        let alive = self.processes.iter().filter(|process| process.is_alive && !process.is_driver);
        let readers: Vec<usize> =
            alive.filter(|process| process.awaits_a_copy()).map(|process| process.pid).collect();
        match self.core.rng.pick(&readers).copied() {
            Some(pid) => {
                self.core.facts.count("faults: reader");
                self.core.tear_after(End::Process(pid), 0);
            }
            None => self.look_again(place, READER_LOOK_US),
        }
    }

    fn kill(&mut self, pid: usize) {
        self.end_process(pid, Exit::Signal(9));
    }

    /// A part has died between two of its actions.
    pub(crate) fn die(&mut self, end: End) {
        self.core.note(|| format!("{end:?} died between two actions"));
        match end {
            End::Control(life) if self.core.control == Some(life) => {
                self.restart_control("faults: torn control", TORN_AWAY_US);
            }
            End::Control(_) => {}
            End::Node(node) => {
                self.core.facts.count("faults: torn node");
                self.kill_node(node);
            }
            End::Process(pid) if self.processes[pid].is_alive => {
                self.core.facts.count("faults: torn process");
                self.kill(pid);
            }
            End::Process(_) => {}
        }
    }

    pub(crate) fn restart_control(&mut self, what: &'static str, away_us: u64) {
        let Some(control) = self.control.take() else { return };
        self.core.facts.count(what);
        self.core.facts.control_restarts += 1;
        self.core.control = None;
        self.core.close_all(End::Control(control.life));
        self.core.after(away_us, Event::ControlStart);
    }

    /// The clock of some machine jumps, and with it that of all that runs there.
    fn clock_jump(&mut self, by_us: u64) {
        let Some(node) = self.some_node(false) else { return };
        self.core.facts.count("faults: clock that jumps");
        self.core.jump_clock(node, by_us);
        self.at_node(node, NodeHost::clock_jumped);
        let here = self.processes.iter().filter(|process| process.node == node);
        let here: Vec<usize> = here.map(|process| process.pid).collect();
        for pid in here {
            self.with(pid, Process::clock_jumped);
        }
    }

    /// A byte changes of a file on some disk.
    fn damage_file(&mut self) {
        let with_files =
            |node: &usize| self.nodes[*node].as_ref().is_some_and(|host| !host.disk.is_empty());
        let nodes: Vec<usize> = (0..self.nodes.len()).filter(with_files).collect();
        let Some(node) = self.core.rng.pick(&nodes).copied() else { return };
        if let Some(host) = &mut self.nodes[node] {
            host.damage_file(&mut self.core);
        }
    }

    /// The connections of some process take a few bytes at a time.
    fn push_back(&mut self, for_us: u64) {
        let Some(pid) = self.some_process(None) else { return };
        self.core.facts.count("faults: connections that push back");
        let until = self.core.now + for_us;
        self.with(pid, |process, core| process.push_back(core, until));
    }

    /// A connection breaks of which a part of a message is out; later, if there is none now.
    fn cut_message(&mut self, place: usize) {
        let found = self.processes.iter().filter(|process| process.is_alive);
        let found: Vec<u64> = found.flat_map(Process::torn_links).collect();
        let found: Vec<u64> =
            found.into_iter().filter(|link| self.core.leaves_its_node(*link)).collect();
        match self.core.rng.pick(&found).copied() {
            Some(link) => {
                self.core.facts.count("faults: message cut in the middle");
                self.core.cut_link(link);
            }
            None => self.look_again(place, CALLER_LOOK_US),
        }
    }

    /// A node is gone, and nobody hears of it from its connections for longer than anything may be waited for.
    fn power_off(&mut self) {
        let Some(node) = self.some_node(true) else { return };
        self.core.facts.count("faults: power");
        let is_apart: Vec<bool> = (0..self.nodes.len()).map(|other| other == node).collect();
        self.hold(Scope::Across { is_apart, way: Way::Both }, POWER_OFF_US);
        self.kill_node(node);
    }

    fn hold(&mut self, scope: Scope, for_us: u64) {
        let hold = self.holds.begin(scope);
        self.core.after(for_us, Event::Release { hold });
    }

    fn hang_process(&mut self, for_us: u64) {
        let Some(pid) = self.some_process(None) else { return };
        self.core.facts.count("faults: hanging process");
        self.hold(Scope::Still(vec![End::Process(pid)]), for_us);
    }

    /// A node that is not the head stands still.
    pub(crate) fn hang_for_long(&mut self, for_us: u64) -> Option<usize> {
        let node = self.some_node(true)?;
        self.hang(node, for_us);
        Some(node)
    }

    fn hang_node(&mut self, for_us: u64) {
        if let Some(node) = self.some_node(false) {
            self.hang(node, for_us);
        }
    }

    fn hang(&mut self, node: usize, for_us: u64) {
        self.core.facts.count("faults: hanging node");
        let mut still = vec![End::Node(node)];
        if node == self.core.head {
            still.extend(self.core.control.map(End::Control));
            // The others find the control service silent, and it finds that it did not run.
        }
        let node_id = self.core.daemons[node].address.node_id;
        self.core.facts.history.node_hung(node_id);
        self.silence(&[node], for_us);
        self.hold(Scope::Still(still), for_us);
    }

    /// Silences these nodes for that long: they may be taken for dead.
    fn silence(&mut self, nodes: &[usize], for_us: u64) {
        if for_us >= SILENCE_US_MIN {
            for node in nodes {
                self.silenced(*node);
            }
        }
    }

    fn silenced(&mut self, node: usize) {
        self.core.facts.silenced.insert(node);
        let node_id = self.core.daemons[node].address.node_id;
        self.core.facts.history.node_lost(node_id);
        for process in self.processes.iter().filter(|process| process.node == node) {
            self.core.facts.history.process_silent(process.id);
        }
    }

    /// The control service has declared a node dead. One that stood still or was cut off just then lives on, with all that
    /// it has: for the others that is lost.
    pub(crate) fn declared_dead(&mut self, node_id: NodeId, verdict: Verdict) {
        let Some(node) = self.core.daemon(node_id) else { return };
        // A daemon that is cut off and can act has stopped its workers by then: what they do counts no more.
        let has_workers = self.nodes[node].as_ref().is_some_and(|host| !host.workers.is_empty());
        let can_act = self.holds.parts(node) && !self.core.facts.history.was_hung(node_id);
        if verdict == Verdict::Silent
            && has_workers
            && can_act
            && !self.suspended.contains_key(&node)
        {
            let text = format!("node {node} is declared dead, and has not stopped its workers");
            self.core.violation(text);
        }
        if let Some(node) = self.core.daemon(node_id)
            && verdict != Verdict::Left
        {
            self.silenced(node);
        }
    }

    /// The head's machine is gone; its durable records are not.
    fn lose_head(&mut self, away_us: u64) {
        if self.nodes[self.core.head].is_none() {
            return;
        }
        self.core.facts.count("faults: head");
        if let Some(control) = self.control.take() {
            self.core.control = None;
            self.core.close_all(End::Control(control.life));
        }
        self.core.facts.control_restarts += 1;
        self.kill_node(self.core.head);
        self.core.after(away_us, Event::HeadStart);
    }

    /// Starts another machine in the lost head's place.
    pub(crate) fn start_head(&mut self) {
        self.core.head = self.nodes.len();
        let cpus = self.core.plan.cpus[0];
        let host = NodeHost::start(&mut self.core, true, cpus);
        self.nodes.push(Some(host));
        if self.control.is_none() {
            self.core.after(1, Event::ControlStart);
        }
    }

    /// Breaks a connection of that kind; between processes only one that leaves its node.
    pub(crate) fn cut_some(&mut self, kind: Kind) {
        let people = &self.core.people;
        let found = self.core.net.find(|link| {
            let is_local = match link.ends {
                [End::Process(a), End::Process(b)] => people[a].node == people[b].node,
                _ => false,
            };
            link.kind == kind && !is_local
        });
        let Some(link) = self.core.rng.pick(&found).copied() else { return };
        self.core.cut_link(link);
    }
}
