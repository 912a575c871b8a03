//! The whole cluster: its parts, and the loop that gives each event to the part it is for.

use std::collections::{BTreeMap, BTreeSet};

use helio_node_state::Exit;
use helio_owner_state::Owner;
use helio_proto::environment::SETUP_FAILED;
use helio_types::WorkerId;

use crate::control::ControlHost;
use crate::core::{Core, Event};
use crate::holds::{Holds, Scope};
use crate::net::{End, What};
use crate::node::NodeHost;
use crate::ops::{Env, Op};
use crate::process::{Code, Process};

/// The simulated cluster: control service, nodes, processes, and the parts that they share.
pub(crate) struct World {
    pub(crate) core: Core,
    pub(crate) control: Option<ControlHost>,
    /// Number of lives that the control service has had.
    pub(crate) lives: u32,
    pub(crate) nodes: Vec<Option<NodeHost>>,
    /// The program of each driver.
    scripts: Vec<Vec<Op>>,
    pub(crate) holds: Holds,
    /// Nodes whose workers stand still, each with its hold.
    pub(crate) suspended: BTreeMap<usize, u64>,
    pub(crate) processes: Vec<Process>,
    /// Workers that were killed before they were made.
    killed_before_start: BTreeSet<WorkerId>,
    /// Drivers, and whether their program is over.
    pub(crate) drivers: Vec<(usize, bool)>,
    /// Events until those that wait are asked why the next time.
    ask_in: u32,
}

/// Maximum number of events of a run: what goes round in a circle is found although no time passes
/// there.
const EVENTS_MAX: u64 = 1_000_000;

/// Number of events from one such question to the next.
const ASK_EVERY: u32 = 97;

impl World {
    pub(crate) fn new(mut core: Core, scripts: Vec<Vec<Op>>) -> Self {
        core.at(0, Event::ControlStart);
        let nodes = (0..core.plan.cpus.len())
            .map(|index| {
                let cpus = core.plan.cpus[index];
                Some(NodeHost::start(&mut core, index == 0, cpus))
            })
            .collect();
        for driver in 0..core.plan.n_drivers {
            let at = core.rng.range(5_000, 200_000);
            core.at(at, Event::DriverStart { driver });
        }
        for (place, (at, _)) in core.plan.faults.clone().into_iter().enumerate() {
            core.at(at, Event::Fault { place });
        }
        Self {
            core,
            control: None,
            lives: 0,
            nodes,
            scripts,
            holds: Holds::default(),
            suspended: BTreeMap::new(),
            processes: Vec::new(),
            killed_before_start: BTreeSet::new(),
            drivers: Vec::new(),
            ask_in: ASK_EVERY,
        }
    }

    /// Goes on until that moment, or until `done`.
    pub(crate) fn run_until(&mut self, until: u64, done: impl Fn(&Self) -> bool) -> bool {
        while !done(self) {
            if !self.core.facts.violations.is_empty() {
                return false;
            }
            if self.core.taken > EVENTS_MAX {
                let text = format!("LIMIT-1: more than {EVENTS_MAX} things happened");
                self.core.violation(text);
                return false;
            }
            match self.core.next(until) {
                Some(event) => {
                    self.take(event);
                    self.ask_why();
                }
                None => {
                    self.core.now = until;
                    return done(self);
                }
            }
        }
        true
    }

    /// WHY-1: now and then, everything that waits anywhere says for what. STATE-1: and owners agree with themselves.
    fn ask_why(&mut self) {
        self.ask_in -= 1;
        if self.ask_in > 0 {
            return;
        }
        self.ask_in = ASK_EVERY;
        self.core.facts.count("questions why");
        let alive = self.processes.iter().filter(|process| process.is_alive);
        let now = |process: &Process| self.core.machine_us(process.node);
        let asked = alive.filter_map(|one| Some((one.pid, now(one), one.owner()?)));
        let check = |owner: &Owner, now: u64| owner.check_whys(now).and_then(|()| owner.check());
        let wrong = asked.filter_map(|(pid, now, owner)| Some((pid, check(owner, now).err()?)));
        let wrong: Vec<String> = wrong.map(|(pid, text)| format!("p{pid}: {text}")).collect();
        for text in wrong {
            self.core.violation(text);
        }
    }

    fn take(&mut self, event: Event) {
        let head = self.core.head;
        let Some(event) = self.holds.keep(&self.core, head, event) else { return };
        self.happen(event);
        self.end_control();
        for (node_id, verdict) in std::mem::take(&mut self.core.declared_dead) {
            self.declared_dead(node_id, verdict);
        }
        if let Some(end) = self.core.torn.take() {
            self.die(end);
        }
    }

    /// Ends the control service once it has ended the cluster: what it has sent still arrives, and a node that connects
    /// later finds nobody.
    pub(crate) fn end_control(&mut self) {
        if !std::mem::take(&mut self.core.is_control_over) {
            return;
        }
        if let Some(control) = self.control.take() {
            self.core.control = None;
            self.core.close_all(End::Control(control.life));
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive { link, side, what } => self.arrive(link, side, what),
            Event::Run { pid } => self.with(pid, |_, _| {}),
            Event::Reaches { pid, link } => self.with(pid, |one, core| one.reaches(core, link)),
            Event::Writable { pid } => self.with(pid, Process::writable),
            Event::OwnerTick { pid } => self.with(pid, Process::tick),
            Event::NodeTick { node } => self.at_node(node, NodeHost::tick),
            Event::ControlTick { life } => {
                if let Some(control) = self.control.as_mut().filter(|control| control.life == life)
                {
                    control.tick(&mut self.core);
                }
            }
            // The control service starts with its machine, and only once.
            Event::ControlStart
                if self.control.is_some() || self.nodes[self.core.head].is_none() => {}
            Event::ControlStart => {
                self.lives += 1;
                self.control = Some(ControlHost::start(self.lives, &mut self.core));
            }
            Event::Reach { node, wait_us } => {
                self.at_node(node, |host, core| host.reach(core, wait_us))
            }
            Event::Spawned { node, worker, env } => self.spawned(node, worker, env),
            Event::Killed { node, worker } => self.killed(node, worker),
            Event::Exited { node, worker, exit } => {
                self.at_node(node, |host, core| host.exited(core, worker, exit))
            }
            Event::Serve { node, link, request } => {
                self.at_node(node, |host, core| host.serve(core, link, request))
            }
            Event::ReceiptLost { node, request } => {
                self.at_node(node, |host, core| host.receipt_lost(core, request))
            }
            Event::Disk { node, object, offset, size, is_write } => {
                self.at_node(node, |host, core| {
                    host.disk_done(core, object, (offset, size), is_write)
                });
            }
            Event::Reserved { node, offset } => {
                self.at_node(node, |host, core| host.reserved(core, offset))
            }
            Event::Loaded { node, is_ready } => {
                self.at_node(node, |host, core| host.loaded(core, is_ready))
            }
            Event::Unreached { node, whom } => {
                self.at_node(node, |host, core| host.unreached(core, whom))
            }
            Event::DriverStart { driver } => {
                if self.nodes.iter().all(Option::is_none) {
                    // Somebody who finds no cluster tries again.
                    return self.core.after(500_000, Event::DriverStart { driver });
                }
                let script = self.scripts[driver].clone();
                self.start_driver(script);
            }
            Event::DriverEnd { pid } => self.end_process(pid, Exit::Code(0)),
            Event::Fault { place } => self.fault(place),
            Event::Release { hold } => {
                for event in self.holds.end(hold) {
                    self.take(event);
                }
            }
            Event::DiskHasRoom { node } => {
                if let Some(host) = &mut self.nodes[node] {
                    host.disk_is_full = false;
                }
            }
            Event::DiskMended { node } => {
                if let Some(host) = &mut self.nodes[node] {
                    host.disk_is_broken = false;
                }
            }
            Event::HeadDiskHasRoom => self.core.free_head_disk(),
            Event::HeadStart => self.start_head(),
            Event::NodeStart { cpus } => {
                self.core.facts.count("nodes that joined later");
                let host = NodeHost::start(&mut self.core, false, cpus);
                self.nodes.push(Some(host));
            }
        }
    }

    fn arrive(&mut self, link: u64, side: usize, what: What) {
        // A daemon that closed a connection hears of its end by itself.
        let is_own = side > 1;
        let side = side.min(1);
        if !is_own && !self.core.net.arrives(link, side, &what, self.core.now) {
            return;
        }
        let Some(end) = self.core.net.get(link).map(|link| link.ends[side]) else { return };
        let kind = link << 3 | side as u64;
        let bytes: &[u8] = if let What::Bytes(bytes) = &what { bytes } else { &[] };
        let net = &self.core.net;
        self.core
            .trace
            .step(self.core.now, kind, bytes, || crate::describe::arrival(net, link, side, &what));
        match end {
            End::Control(life) => {
                if let Some(control) = self.control.as_mut().filter(|control| control.life == life)
                {
                    control.arrived(&mut self.core, link, what);
                }
            }
            End::Node(node) => self.at_node(node, |host, core| host.arrived(core, link, what)),
            End::Process(pid) => self.with(pid, |process, core| process.arrived(core, link, what)),
        }
    }

    pub(crate) fn at_node(&mut self, node: usize, act: impl FnOnce(&mut NodeHost, &mut Core)) {
        let Some(host) = self.nodes.get_mut(node).and_then(Option::as_mut) else { return };
        act(host, &mut self.core);
        let (is_down, is_to_rejoin, has_left) = (host.is_down, host.is_to_rejoin, host.has_left);
        match host.suspends.take() {
            Some(true) => {
                let hold = self.holds.begin(Scope::Workers(node));
                self.suspended.insert(node, hold);
            }
            Some(false) => self.resume(node),
            None => {}
        }
        if has_left {
            self.core.facts.count("nodes that left");
            return self.end_node(node);
        }
        if is_down {
            let is_stopped = self.core.facts.is_stopped;
            if !is_stopped && !self.core.facts.was_away(node) {
                self.core
                    .violation(format!("daemon {node} was told to end although it was never away"));
            }
            if is_to_rejoin && is_stopped {
                self.core
                    .violation(format!("daemon {node} joins anew, and the cluster was stopped"));
            } else if is_to_rejoin {
                let delay = self.core.rng.range(1_000, 500_000);
                let cpus = self.core.plan.cpus[node % self.core.plan.cpus.len()];
                self.core.after(delay, Event::NodeStart { cpus });
            }
            self.kill_node(node);
        }
    }

    /// Lets a process act; then its user code runs on, and the process ends if it is to.
    pub(crate) fn with(&mut self, pid: usize, act: impl FnOnce(&mut Process, &mut Core)) {
        let Some(process) = self.processes.get_mut(pid).filter(|process| process.is_alive) else {
            return;
        };
        act(process, &mut self.core);
        process.run(&mut self.core);
        process.settle(&mut self.core);
        let dies = process.dies;
        if let Some(driver) = self.drivers.iter_mut().find(|(driver, _)| *driver == pid) {
            driver.1 = process.owner().is_some() && process.code.is_empty() || dies.is_some();
        }
        if let Some(why) = dies {
            self.core.note(|| format!("p{pid} ends: {why}"));
            let is_orderly = why == crate::process::ASKED_TO_END;
            self.end_process(pid, Exit::Code(i32::from(!is_orderly)));
        }
    }

    pub(crate) fn start_driver(&mut self, script: Vec<Op>) {
        let alive: Vec<usize> =
            (0..self.nodes.len()).filter(|node| self.nodes[*node].is_some()).collect();
        let node = if self.nodes[self.core.head].is_none() || self.core.rng.one_in(3) {
            self.core.rng.pick(&alive).copied().unwrap_or(self.core.head)
        } else {
            self.core.head
        };
        let id = WorkerId(self.core.rng.bytes());
        let pid = self.core.add_person(id, node, true, Env::Job);
        self.core.note(|| format!("driver p{pid} starts on node {node}: {script:#?}"));
        let process = Process::start(&mut self.core, pid, Some(Code::main(script)));
        self.processes.push(process);
        self.drivers.push((pid, false));
    }

    fn spawned(&mut self, node: usize, worker: WorkerId, env: Env) {
        let failures = self.core.plan.start_failures;
        if failures > 0 && self.core.rng.one_in(failures) {
            self.core.facts.history.start_failed(self.core.daemons[node].address.node_id);
            return self.at_node(node, |host, core| host.spawned(core, worker, None));
        }
        if self.nodes[node].is_none() {
            return;
        }
        if env == Env::Broken {
            // The worker is made, and ends before it has registered.
            self.core.environment_broke();
            self.at_node(node, |host, core| host.spawned(core, worker, Some(0)));
            let (exit, delay) = (Exit::Code(SETUP_FAILED), self.core.rng.range(1, 50_000));
            return self.core.after(delay, Event::Exited { node, worker, exit });
        }
        let pid = self.core.add_person(worker, node, false, env);
        self.core.facts.count("workers");
        if self.core.facts.silenced.contains(&node) {
            self.core.facts.history.process_silent(worker);
        }
        self.core.note(|| format!("worker p{pid} {} starts on node {node}", worker.hex()));
        let process = Process::start(&mut self.core, pid, None);
        self.processes.push(process);
        self.at_node(node, |host, core| host.spawned(core, worker, Some(pid)));
        if self.killed_before_start.remove(&worker) {
            self.end_process(pid, Exit::Signal(9));
        }
    }

    fn killed(&mut self, node: usize, worker: WorkerId) {
        match self.core.person(worker) {
            Some(pid) => self.end_process(pid, Exit::Signal(9)),
            None if self.nodes[node].is_some() => {
                self.killed_before_start.insert(worker);
            }
            None => {}
        }
    }

    pub(crate) fn end_process(&mut self, pid: usize, exit: Exit) {
        let Some(process) = self.processes.get_mut(pid).filter(|process| process.is_alive) else {
            return;
        };
        self.core.trace.step(self.core.now, 700, &[], || format!("p{pid} is gone: {exit:?}"));
        let is_torn = self.core.is_dead(End::Process(pid));
        let was_idle = process.is_spared
            || !is_torn
                && process.dies == Some(crate::process::ASKED_TO_END)
                && !process.is_driver
                && process.actor.is_none();
        if process.is_driver {
            let job_id = process.job().job_id;
            self.core.facts.history.job_ended(job_id);
            self.core.facts.drivers_ended.insert(process.id, self.core.now);
        }
        process.end(&mut self.core);
        let (node, worker) = (process.node, process.id);
        self.core.facts.history.process_ended(worker, was_idle);
        if let Some(driver) = self.drivers.iter_mut().find(|(driver, _)| *driver == pid) {
            driver.1 = true;
        } else {
            let delay = self.core.rng.range(1, 3_000);
            self.core.after(delay, Event::Exited { node, worker, exit });
        }
    }

    /// The workers of the node go on, or are gone.
    fn resume(&mut self, node: usize) {
        if let Some(hold) = self.suspended.remove(&node) {
            self.core.after(0, Event::Release { hold });
        }
    }

    pub(crate) fn kill_node(&mut self, node: usize) {
        if self.nodes[node].is_some() {
            let node_id = self.core.daemons[node].address.node_id;
            self.core.facts.history.node_lost(node_id);
            self.end_node(node);
        }
    }

    /// A daemon is gone, and all that lives with it.
    fn end_node(&mut self, node: usize) {
        let has_left = self.nodes[node].take().is_some_and(|host| host.has_left);
        self.resume(node);
        let is_hurried = self.core.daemons[node].is_hurried;
        if has_left && is_hurried {
            let node_id = self.core.daemons[node].address.node_id;
            self.core.facts.history.node_lost(node_id);
        }
        self.core.daemons[node].is_alive = false;
        self.core.close_all(End::Node(node));
        let here: Vec<usize> = self
            .processes
            .iter()
            .filter(|process| process.node == node)
            .map(|process| process.pid)
            .collect();
        for pid in here {
            // A node that waited for its running calls before it left ends nothing that anybody needs, but drivers.
            self.processes[pid].is_spared |=
                has_left && !is_hurried && !self.processes[pid].is_driver;
            self.end_process(pid, Exit::Signal(9));
        }
    }

    /// The control service and a head are there, and nothing is kept back.
    pub(crate) fn is_whole(&self) -> bool {
        self.control.is_some() && self.nodes[self.core.head].is_some() && self.holds.is_empty()
    }

    pub(crate) fn programs_done(&self) -> bool {
        self.drivers.len() >= self.core.plan.n_drivers
            && self.drivers.iter().all(|(_, is_over)| *is_over)
    }
}
