//! The check at the end of a run that nothing is left.

use helio_config::control::{LATE_NODES_MS, RECONNECT_MS_MAX};

use crate::core::Event;
use crate::net::{End, Kind};
use crate::node::NodeHost;
use crate::ops::{CallOp, Job, Needs, Op, Target};
use crate::plan::{Ending, REST_US, REST_VIEWS_MAX, RUN_US_MAX, SETTLE_US};
use crate::world::World;

/// Microseconds that the control service is away when it is restarted at rest.
const RESTART_US: u64 = 200_000;

/// Microseconds by which the end is asked for later than something has happened, at most.
const STOP_LATER_US: u64 = 1_500_000;

/// Microseconds that a cluster takes at most to end: who is away for a moment is waited for.
const STOP_US: u64 = (LATE_NODES_MS + RECONNECT_MS_MAX) * 1000;

/// Microseconds that a node hears nothing that misses a stop.
const LATE_US: u64 = STOP_US + 5_000_000;

impl World {
    /// The whole run.
    pub(crate) fn run(&mut self) {
        let last_fault = self.core.plan.faults.last().map_or(0, |(at, _)| *at);
        let is_done =
            |world: &Self| world.programs_done() && world.core.now > last_fault && world.is_whole();
        if !self.run_until(RUN_US_MAX, is_done) {
            return self.report_hang("the programs");
        }
        // From here on nothing breaks.
        self.core.mend();
        self.settle();
        self.check_quiet();
        if !self.core.facts.violations.is_empty() {
            return;
        }
        self.close_up();
        if !self.core.facts.violations.is_empty() {
            return;
        }
        let ending = self.core.plan.ending.unwrap_or_else(|| self.draw_ending());
        if ending != Ending::Drivers {
            return self.stop_cluster(ending);
        }
        let drivers: Vec<usize> = self.drivers.iter().map(|(pid, _)| *pid).collect();
        for pid in drivers {
            let delay = self.core.rng.range(1, 500_000);
            self.core.after(delay, Event::DriverEnd { pid });
        }
        self.settle();
        self.check_empty();
    }

    fn draw_ending(&mut self) -> Ending {
        // An older edition draws nothing here, so that its runs stay as they were.
        if self.core.plan.edition < 8 || !self.core.rng.one_in(4) {
            return Ending::Drivers;
        }
        match self.core.rng.below(if self.core.plan.edition > 8 { 4 } else { 3 }) {
            0 => Ending::StopAfterRestart,
            1 => Ending::StopWhileCut,
            3 => Ending::StopWhileHung,
            _ => Ending::Stop,
        }
    }

    /// Asks for the end of the cluster while drivers and what they left idle are there: every node ends, and with it
    /// all that lives on it; also where the control service has just started anew, or a node has no connection.
    fn stop_cluster(&mut self, ending: Ending) {
        let mut late = None;
        match ending {
            Ending::StopAfterRestart => {
                self.restart_control("restarts before a stop", RESTART_US);
                let until = self.core.now + 2 * RESTART_US;
                self.run_until(until, |world| world.control.is_some());
            }
            Ending::StopWhileCut => self.cut_some(Kind::Control),
            Ending::StopWhileHung => late = self.hang_for_long(LATE_US),
            Ending::StopUnheard => {
                late = self.hang_for_long(LATE_US);
                let is_its = |end: &End| matches!(end, End::Node(node) if Some(*node) == late);
                let found = self
                    .core
                    .net
                    .find(|link| link.kind == Kind::Control && link.ends.iter().any(is_its));
                for link in found {
                    self.core.cut_link(link);
                }
            }
            Ending::Stop | Ending::Drivers => {}
        }
        // From at once to when everybody has noticed what was done to them.
        let delay = self.core.rng.below(STOP_LATER_US);
        self.run_until(self.core.now + delay, |_| false);
        let head = self.core.daemons[self.core.head].address.node_id;
        self.core.facts.count("clusters stopped");
        self.core.facts.is_stopped = true;
        if let Some(control) = &mut self.control {
            control.asked_to_stop(&mut self.core, head);
        }
        self.end_control();
        let until = self.core.now + STOP_US;
        let is_late = |host: &NodeHost| Some(host.index) == late;
        let is_over =
            |world: &Self| world.control.is_none() && world.nodes.iter().flatten().all(&is_late);
        let has_ended = self.run_until(until, is_over);
        if !self.core.facts.violations.is_empty() {
            return;
        }
        if has_ended {
            return late.map_or((), |late| self.begin_anew(late));
        }
        let left = self.nodes.iter().flatten().map(|host| host.index);
        let left: Vec<usize> = left.filter(|index| Some(*index) != late).collect();
        let service = if self.control.is_some() { " and the control service" } else { "" };
        self.core
            .violation(format!("the cluster was stopped, and daemons {left:?}{service} go on"));
    }

    /// Begins another cluster at the address of the one that was stopped, before a node hears anything again that belonged
    /// to that one: it ends, and does not join.
    fn begin_anew(&mut self, late: usize) {
        self.core.facts.count("sessions that followed another");
        self.core.end_session();
        self.start_head();
        let until = self.core.now + LATE_US + STOP_US;
        let is_over = |world: &Self| world.nodes[late].is_none();
        if !self.run_until(until, is_over) && self.core.facts.violations.is_empty() {
            let text = format!("daemon {late} goes on in a session that is not its own");
            self.core.violation(text);
        }
    }

    fn report_hang(&mut self, what: &str) {
        // A violation explains a hang better than the stacks of those that wait for what it broke.
        if !self.core.facts.violations.is_empty() {
            return;
        }
        let mut text = format!("OWN-1: {what} did not end in time");
        for process in self.processes.iter().filter(|process| process.is_alive) {
            for frame in &process.code {
                text.push_str(&format!("\n  p{}: {}", process.pid, frame.whereabouts()));
            }
        }
        self.core.violation(text);
    }

    fn settle(&mut self) {
        let until = self.core.now + SETTLE_US;
        self.run_until(until - REST_US, |_| false);
        let views = |world: &Self| world.core.facts.counts.get("views").copied().unwrap_or(0);
        let before = views(self);
        self.run_until(until, |_| false);
        let news = views(self) - before;
        if news > REST_VIEWS_MAX && self.core.facts.violations.is_empty() {
            let text = format!("LIMIT-1: daemons at rest were told of each other {news} times");
            self.core.violation(text);
        }
    }

    /// Every program has dropped every reference: no owner machine knows any object, call, lease, borrow
    /// or stream. Actors that still live are detached and may keep what they were given.
    fn check_quiet(&mut self) {
        let mut found = Vec::new();
        let keeper = |pid: usize| self.processes[pid].actor.is_some();
        let has_keeper =
            self.processes.iter().any(|process| process.is_alive && keeper(process.pid));
        for process in self.processes.iter().filter(|process| process.is_alive) {
            let Some(owner) = process.owner() else { continue };
            if let Err(text) = owner.check() {
                found.push(format!("STATE-1: p{} disagrees with itself: {text}", process.pid));
            }
            let mut tables = owner.tables();
            if !self.core.facts.detached.is_empty() {
                // Handles of detached actors are weak: nobody says when the last one is dropped, and who
                // never called the actor does not hear of its death.
                tables.actors = 0;
            }
            // References that a detached actor keeps are borrowed from others, which keep the objects for it.
            if !has_keeper && !tables.is_empty() {
                let pid = process.pid;
                found.push(format!(
                    "a leak: p{pid} has dropped every reference and keeps {tables:?}"
                ));
            }
        }
        for process in self.processes.iter().filter(|process| process.is_alive) {
            let open = process.open_requests();
            if !open.is_empty() && !has_keeper {
                found.push(format!("a leak: p{} has requests open at rest: {open:?}", process.pid));
            }
            let pins = process.pins_count();
            if pins > 0 && !has_keeper {
                let pid = process.pid;
                found.push(format!(
                    "a leak: p{pid} has dropped every reference and pins {pins} objects"
                ));
            }
        }
        for host in self.nodes.iter().flatten() {
            if let Err(text) = host.node.check() {
                found.push(format!("STATE-1: node {} disagrees with itself: {text}", host.index));
            }
            // An object goes with its owner's last reference, wherever it was written or copied, and with its owner.
            let objects = host.node.objects();
            if !has_keeper && !objects.is_empty() {
                found.push(format!("a leak: node {} has {objects:?} of nobody", host.index));
            }
        }
        for host in self.nodes.iter().flatten().filter(|_| !has_keeper) {
            let (census, idle_max) = (host.node.census(), self.core.plan.idle_max);
            if census.requests > 0 {
                let (index, requests) = (host.index, census.requests);
                found.push(format!(
                    "a leak: {requests} workers are asked for on node {index} at rest"
                ));
            }
            let n_idle = census.workers - census.leases.min(census.workers) - census.actors;
            if n_idle > idle_max {
                found.push(format!(
                    "a leak: node {} keeps {n_idle} idle workers, and may keep {idle_max}",
                    host.index
                ));
            }
        }
        found.extend(self.check_bundles());
        found.extend(self.check_actors());
        for host in self.nodes.iter().flatten() {
            // One that owns what a detached actor keeps stays, and an order that a node has not heard is not durable.
            let must_leave = host.is_to_leave || self.core.facts.control_restarts == 0;
            if self.core.daemons[host.index].is_draining && must_leave && !has_keeper {
                let census = host.node.census();
                found
                    .push(format!("node {} is drained and does not leave: {census:?}", host.index));
            }
            let stays = !self.core.daemons[host.index].is_draining && must_leave;
            if stays && !host.is_open() {
                found.push(format!("node {} is to stay, and takes no work", host.index));
            }
        }
        for text in found {
            self.core.violation(text);
        }
    }

    /// No process goes on as an actor that a program has killed for good, and no actor that may be restarted is on a
    /// node that is to leave.
    fn check_actors(&self) -> Vec<String> {
        let (history, mut found) = (&self.core.facts.history, Vec::new());
        for process in self.processes.iter().filter(|process| process.is_alive) {
            let must_leave = self.nodes[process.node].as_ref().is_some_and(|host| host.is_to_leave);
            let (pid, node) = (process.pid, process.node);
            for actor in history.actors_in(process.id) {
                if history.was_killed(actor) {
                    found.push(format!("a leak: p{pid} goes on as {actor}, which was killed"));
                } else if history.lost_maker(actor)
                    && !self.core.facts.detached_sent.contains(&actor)
                {
                    let text = format!("a leak: p{pid} goes on as {actor}, whose owner is gone");
                    found.push(text);
                } else if must_leave && history.lives(actor).1 != Some(1) {
                    found.push(format!("{actor} stays on node {node}, which is to leave"));
                }
            }
        }
        found
    }

    /// Each bundle that has a node by the control service is held there and nowhere else.
    fn check_bundles(&self) -> Option<String> {
        let host = self.control.as_ref()?;
        let mut held = Vec::new();
        for node in self.nodes.iter().flatten() {
            let node_id = self.core.daemons[node.index].address.node_id;
            let bundles = node.node.held_bundles();
            held.extend(bundles.into_iter().map(|one| (one.group_id, one.bundle, node_id)));
        }
        let mut placed = host.control.bundle_places();
        held.sort_unstable();
        placed.sort_unstable();
        (held != placed).then(|| format!("STATE-2: nodes hold {held:?} and should hold {placed:?}"))
    }

    /// A detached placement group that ever had bundles has them until somebody removes it.
    fn check_detached_groups(&mut self) {
        let Some(host) = &self.control else { return };
        let placed = host.control.bundle_places();
        let is_there = |group| placed.iter().any(|(other, _, _)| *other == group);
        let core = &self.core;
        let had = |group| core.bundles.keys().any(|(_, other)| *other == group);
        let left = core.facts.groups_left.iter().copied();
        let gone = left.filter(|group| {
            had(*group) && !is_there(*group) && !core.facts.history.was_group_removed(*group)
        });
        let gone: Vec<String> = gone
            .map(|group| format!("nobody removed the detached group {group}, and it is gone"))
            .collect();
        for text in gone {
            self.core.violation(text);
        }
    }

    /// Runs a last driver: looks every acknowledged detached actor up, calls it and ends it.
    fn close_up(&mut self) {
        self.check_detached_groups();
        let mut script = Vec::new();
        let detached = self.core.facts.detached.clone();
        for ((name, actor), to) in detached.into_iter().zip(1..) {
            script.push(Op::Named { name, to });
            if !self.core.facts.history.actor_may_be_over(actor) {
                let call_op = CallOp {
                    job: Job::Leaf,
                    salt: u64::from(to),
                    deps: vec![],
                    inner: vec![],
                    count: 1,
                    depth: 0,
                    retries: -1,
                    is_stored: false,
                    actor: Some(to),
                    cpu: 0,
                    backpressure: 0,
                    to: vec![1000 + to],
                    place: None,
                    target: Target::Anywhere,
                    needs: Needs::default(),
                };
                script.push(Op::Submit(Box::new(call_op)));
                script.push(Op::Get { slots: vec![1000 + to], open: false });
            }
            script.push(Op::KillActor { slot: to, no_restart: true });
        }
        let keys: Vec<Vec<u8>> = self.core.facts.kv.keys().cloned().collect();
        for key in keys {
            if let Ok(key) = <[u8; 8]>::try_from(key.as_slice()) {
                script.push(Op::KvGet { key: u64::from_le_bytes(key) });
            }
        }
        for actor_id in self.core.facts.detached_sent.clone() {
            script.push(Op::KillActorById(actor_id));
        }
        for group_id in self.core.facts.groups_left.clone() {
            script.push(Op::RemoveGroupById(group_id));
        }
        if self.core.plan.edition > 4 {
            script.push(Op::ListJobs);
        }
        script.push(Op::DropAll);
        if self.core.plan.edition > 1 && self.core.rng.one_in(2) {
            // An acknowledged change is there after a restart, also where nothing else has ever broken.
            self.restart_control("restarts at rest", RESTART_US);
            let until = self.core.now + SETTLE_US;
            self.run_until(until, Self::is_whole);
        }
        self.start_driver(script);
        let until = self.core.now + RUN_US_MAX;
        if !self.run_until(until, Self::programs_done) {
            self.report_hang("the last program");
        }
    }

    /// Every driver has ended: nodes have every resource, no worker, lease, object or request, and the
    /// control service no job or actor.
    fn check_empty(&mut self) {
        let mut found = Vec::new();
        for host in self.nodes.iter().flatten() {
            let (census, index) = (host.node.census(), host.index);
            if !census.is_empty() {
                found.push(format!("a leak: node {index} is left with {census:?}"));
            }
            if !host.disk.is_empty() {
                found.push(format!(
                    "a leak: {} objects are left on the disk of node {index}",
                    host.disk.len()
                ));
            }
            if !host.workers.is_empty() {
                found.push(format!(
                    "a leak: worker processes of node {index} live on: {:?}",
                    host.workers
                ));
            }
        }
        for process in self.processes.iter().filter(|process| process.is_alive) {
            found.push(format!("a leak: process p{} lives on", process.pid));
        }
        if let Some(host) = &self.control {
            let census = host.control.census();
            if !census.is_empty() {
                found.push(format!("a leak: the control service is left with {census:?}"));
            }
        }
        let left = self
            .core
            .durable
            .keys()
            .filter(|key| [b"a/", b"g/", b"h/", b"i/"].iter().any(|table| key.starts_with(*table)))
            .count();
        if left > 0 {
            found.push(format!("a leak: {left} durable records of actors and groups are left"));
        }
        for text in found {
            self.core.violation(text);
        }
    }
}
