//! The parts that all of the simulation shares: time, chance, the network, the queue of coming events, the contents of
//! the object stores, and the facts that the checkers go by.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use helio_node_state::Exit;
use helio_types::{
    ActorId, Assigned, NodeAddress, NodeId, ObjectId, PlacementGroupId, TaskId, WorkerId,
};

use crate::evidence::Verdict;
use crate::facts::Facts;
use crate::net::{Arrival, End, Kind, Net, What};
use crate::node::labels::GPU;
use crate::ops::{Env, Needs, Target};
use crate::plan::{Order, Plan, Scene};
use crate::rng::Rng;
use crate::trace::Trace;

/// The clock of daemons and of the control service begins here, in milliseconds: it is not the owners'.
const DAEMON_CLOCK_MS: u64 = 1_000_000;
/// Milliseconds within which the clock of the control service's machine may be set anew.
const CLOCK_SET_MS_MAX: u64 = 7_200_000;

/// An event of the simulated world, at its moment.
#[derive(Debug)]
pub(crate) enum Event {
    /// A link has something for a side.
    Arrive { link: u64, side: usize, what: What },
    /// A process's user code may go on.
    Run { pid: usize },
    /// A process tries no longer to make a connection, or can make it.
    Reaches { pid: usize, link: u64 },
    /// A process's connections take more of what it writes.
    Writable { pid: usize },
    /// An owner wants to hear of the time.
    OwnerTick { pid: usize },
    /// A daemon wants to.
    NodeTick { node: usize },
    /// The control service wants to.
    ControlTick { life: u32 },
    /// The control service starts.
    ControlStart,
    /// A daemon tries to reach the control service; if it fails it waits so long.
    Reach { node: usize, wait_us: u64 },
    /// A worker process has been made.
    Spawned { node: usize, worker: WorkerId, env: Env },
    /// A daemon's signal arrives at a worker.
    Killed { node: usize, worker: WorkerId },
    /// A daemon hears that a worker's process has ended.
    Exited { node: usize, worker: WorkerId, exit: Exit },
    /// A daemon sends the next bytes of an object.
    Serve { node: usize, link: u64, request: u64 },
    /// The connection breaks over which a daemon takes an object.
    ReceiptLost { node: usize, request: u64 },
    /// A daemon's disk has written or read an object.
    Disk { node: usize, object: ObjectId, offset: u64, size: u64, is_write: bool },
    /// The disk keeps room for a range of the overflow file.
    Reserved { node: usize, offset: u64 },
    /// A daemon's process with modules is ready, or has died.
    Loaded { node: usize, is_ready: bool },
    /// A connection to another daemon could not be made.
    Unreached { node: usize, whom: NodeId },
    /// A driver begins.
    DriverStart { driver: usize },
    /// A driver ends.
    DriverEnd { pid: usize },
    /// The fault of that place in the plan happens.
    Fault { place: usize },
    /// The events of a hold are given out.
    Release { hold: u64 },
    /// A full disk has room again.
    DiskHasRoom { node: usize },
    /// A disk that failed works again.
    DiskMended { node: usize },
    /// The head's full disk has room for durable records again.
    HeadDiskHasRoom,
    /// The start of another machine as the head.
    HeadStart,
    /// A daemon that was declared dead joins as a new node, with so many CPUs.
    NodeStart { cpus: u32 },
}

struct Entry {
    at: u64,
    number: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// A machine's clock, against the time of the simulation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    /// The rate by which it is too fast, in millionths.
    drift_ppm: i64,
    /// The sum of the clock's jumps forward, in microseconds.
    jumped_us: u64,
}

impl Clock {
    /// Returns the time that the clock shows at that moment of the simulation, in microseconds.
    fn shows(self, now: u64) -> u64 {
        let wrong = now as i64 / 1_000 * self.drift_ppm / 1_000;
        now.saturating_add_signed(wrong) + self.jumped_us
    }

    /// The first moment from `now` on at which it shows that much.
    fn moment(self, shown: u64, now: u64) -> u64 {
        let ahead = shown.saturating_sub(self.shows(now)) as i64;
        if self.drift_ppm == 0 || ahead == 0 {
            return now + ahead as u64;
        }
        let (mut at, one) =
            (now.saturating_add_signed(ahead - ahead * self.drift_ppm / 1_000_000), 1);
        while self.shows(at) < shown {
            at += one;
        }
        at
    }
}

/// A process, as others find it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Person {
    pub(crate) id: WorkerId,
    pub(crate) node: usize,
    pub(crate) is_driver: bool,
    pub(crate) is_alive: bool,
    /// The runtime environment that it was made in.
    pub(crate) env: Env,
}

/// A daemon, as others find it.
#[derive(Clone, Debug)]
pub(crate) struct Daemon {
    pub(crate) address: NodeAddress,
    pub(crate) is_alive: bool,
    /// The daemon was told to leave.
    pub(crate) is_draining: bool,
    /// The time at which the control service told the node last to stay after all; `None` once it
    /// told it again to leave.
    pub(crate) stays_since: Option<u64>,
    /// Calls on the node are ended after a time, however long they would take.
    pub(crate) is_hurried: bool,
    /// The node has offered objects to another one, and has not ended.
    pub(crate) hands_over: bool,
    pub(crate) cpus: u32,
    /// The node's amount of the resource of which bundles are made.
    pub(crate) room: f64,
    pub(crate) is_in_head_zone: bool,
    /// The memory file of the node.
    pub(crate) arena: Vec<u8>,
    /// Milliseconds by which the node's clock is ahead.
    pub(crate) skew_ms: u64,
    /// The course of the node's clock.
    pub(crate) clock: Clock,
}

/// The parts that every simulated process works with: time, chance, network, event queue, stores, facts.
pub(crate) struct Core {
    /// Microseconds.
    pub(crate) now: u64,
    queue: BinaryHeap<Reverse<Entry>>,
    count: u64,
    /// Number of events that were taken off the queue.
    pub(crate) taken: u64,
    pub(crate) rng: Rng,
    pub(crate) net: Net,
    pub(crate) trace: Trace,
    pub(crate) plan: Plan,
    pub(crate) facts: Facts,
    pub(crate) people: Vec<Person>,
    pub(crate) daemons: Vec<Daemon>,
    by_id: BTreeMap<WorkerId, usize>,
    /// The tasks that run on each node and have not waited yet, by process, with what they take of its CPUs, in
    /// hundredths.
    running: BTreeMap<usize, BTreeMap<(usize, TaskId), u32>>,
    /// The devices of each node that are in use: by which process and call, and how much of it, in hundredths.
    devices: BTreeMap<(usize, u32), BTreeMap<(usize, TaskId), u32>>,
    /// The parts of each group's bundles on each node that calls and actors use, by process and call, in hundredths.
    in_groups: BTreeMap<(usize, PlacementGroupId), BTreeMap<(usize, TaskId), u32>>,
    /// The parts of each node's slots that actors use, by process, in hundredths.
    in_slots: BTreeMap<usize, BTreeMap<usize, u32>>,
    /// The bundles of each group that each node ever held.
    pub(crate) bundles: BTreeMap<(usize, PlacementGroupId), BTreeSet<u32>>,
    /// The nodes on which the first calls began that are to go to different nodes.
    went_apart: Vec<usize>,
    /// Processes that have waited: their CPU was lent, and is taken back whether or not there is room.
    have_waited: BTreeSet<usize>,
    /// The number of the control service's life; `None`: it does not run.
    pub(crate) control: Option<u32>,
    /// The node that is the head, or was the last one.
    pub(crate) head: usize,
    /// The number of the cluster's session; a later one begins at the same address.
    session: u32,
    pub(crate) durable: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The head's disk takes no durable records; and whether that can be seen without trying.
    head_disk_full: Option<bool>,
    /// Milliseconds by which the clock of the control service's machine is ahead.
    control_skew_ms: u64,
    /// The course of that clock.
    control_clock: Clock,
    /// The part that is to die between two of its actions, and after how many sends.
    tear: Option<(End, u32)>,
    /// Partitions: which nodes are on the one side, and until when.
    cut_offs: Vec<(Vec<bool>, u64)>,
    /// The orders of the control service that are to be lost, each with the connection that carries it.
    pub(crate) lost_orders: Vec<Order>,
    /// The part that has sent its last message, and dies before anything else happens.
    pub(crate) torn: Option<End>,
    /// The control service has asked its shell to end it.
    pub(crate) is_control_over: bool,
    /// Nodes that the control service has just declared dead, and why.
    pub(crate) declared_dead: Vec<(NodeId, Verdict)>,
}

impl Core {
    pub(crate) fn new(plan: Plan, rng: Rng, trace: Trace) -> Self {
        let net = Net::new(plan.delay_us_max);
        Self {
            now: 0,
            queue: BinaryHeap::new(),
            count: 0,
            taken: 0,
            rng,
            net,
            trace,
            plan,
            facts: Facts::default(),
            people: Vec::new(),
            daemons: Vec::new(),
            by_id: BTreeMap::new(),
            running: BTreeMap::new(),
            devices: BTreeMap::new(),
            in_groups: BTreeMap::new(),
            in_slots: BTreeMap::new(),
            bundles: BTreeMap::new(),
            went_apart: Vec::new(),
            have_waited: BTreeSet::new(),
            control: None,
            head: 0,
            session: 0,
            durable: BTreeMap::new(),
            head_disk_full: None,
            control_skew_ms: 0,
            control_clock: Clock::default(),
            tear: None,
            cut_offs: Vec::new(),
            lost_orders: Vec::new(),
            torn: None,
            is_control_over: false,
            declared_dead: Vec::new(),
        }
    }

    /// The time by the control service's clock, in microseconds. It goes on rising over restarts, on any
    /// machine.
    pub(crate) fn control_now(&mut self) -> u64 {
        if self.control_skew_ms == 0 {
            self.control_skew_ms = self.draw_skew();
            self.control_clock = self.draw_clock();
        }
        (DAEMON_CLOCK_MS + self.control_skew_ms) * 1000 + self.control_clock.shows(self.now)
    }

    /// Sets the clock of the control service's machine anew, as somebody may have done while the service was
    /// away, where clocks are wrong at all.
    pub(crate) fn set_control_clock(&mut self) {
        if self.plan.drift_ppm_max > 0 {
            self.control_skew_ms = self.rng.range(1, CLOCK_SET_MS_MAX);
        }
    }

    /// Draws the course of another machine's clock.
    pub(crate) fn draw_clock(&mut self) -> Clock {
        let most = self.plan.drift_ppm_max;
        if most == 0 {
            return Clock::default();
        }
        Clock { drift_ppm: self.rng.below(2 * most + 1) as i64 - most as i64, jumped_us: 0 }
    }

    /// The clock of a node's machine goes forward at once.
    pub(crate) fn jump_clock(&mut self, node: usize, by_us: u64) {
        self.daemons[node].clock.jumped_us += by_us;
        if node == self.head {
            self.control_clock.jumped_us += by_us;
        }
    }

    pub(crate) fn session_name(&self) -> String {
        format!("session-{}", self.session)
    }

    /// Ends the session: another one is to begin, with nothing of the one before.
    pub(crate) fn end_session(&mut self) {
        self.session += 1;
        self.durable.clear();
    }

    /// The time of processes on a node, in microseconds.
    pub(crate) fn machine_us(&self, node: usize) -> u64 {
        self.daemons[node].clock.shows(self.now)
    }

    /// The first moment at which it is that late there.
    pub(crate) fn at_machine_us(&self, node: usize, us: u64) -> u64 {
        self.daemons[node].clock.moment(us, self.now)
    }

    /// From now on the head's disk takes no durable records.
    pub(crate) fn fill_head_disk(&mut self) {
        self.head_disk_full = Some(self.rng.one_in(2));
    }

    /// The head's disk takes durable records again.
    pub(crate) fn free_head_disk(&mut self) {
        self.head_disk_full = None;
    }

    /// Whether commits fail for want of room.
    pub(crate) fn is_head_disk_full(&self) -> bool {
        self.head_disk_full.is_some()
    }

    /// Whether the head's disk seems to have room for durable records.
    pub(crate) fn seems_to_have_room(&self) -> bool {
        self.head_disk_full != Some(true)
    }

    /// Draws the milliseconds by which another machine's clock is ahead.
    pub(crate) fn draw_skew(&mut self) -> u64 {
        1 + self.rng.below(self.plan.skew_ms_max)
    }

    /// The time by a daemon's clock.
    pub(crate) fn daemon_ms(&self, node: usize) -> u64 {
        DAEMON_CLOCK_MS + self.daemons[node].skew_ms + self.machine_us(node) / 1000
    }

    /// The first microsecond of a daemon's millisecond.
    pub(crate) fn at_daemon_ms(&self, node: usize, ms: u64) -> u64 {
        let began_ms = DAEMON_CLOCK_MS + self.daemons[node].skew_ms;
        self.at_machine_us(node, ms.saturating_sub(began_ms) * 1000)
    }

    /// Whether that part died between two actions of what it does now.
    pub(crate) fn is_dead(&self, end: End) -> bool {
        self.torn == Some(end)
    }

    /// Lets that part die after its next `sends` sends: what comes later in the same `apply` is never
    /// done.
    pub(crate) fn tear_after(&mut self, end: End, sends: u32) {
        self.tear = Some((end, sends));
    }

    /// Withdraws the planned deaths.
    pub(crate) fn mend(&mut self) {
        self.tear = None;
        self.lost_orders.clear();
        self.free_head_disk();
    }

    /// Whether that part dies before its next commit.
    pub(crate) fn is_torn_at_once(&mut self, end: End) -> bool {
        if self.tear != Some((end, 0)) {
            return false;
        }
        self.torn = self.tear.take().map(|(end, _)| end);
        true
    }

    /// Whether that part is dead already for what it does now, because it died between two actions.
    fn is_torn(&mut self, end: End) -> bool {
        match &mut self.tear {
            Some((whom, 0)) if *whom == end => {
                self.torn = self.tear.take().map(|(end, _)| end);
            }
            Some((whom, left)) if *whom == end => *left -= 1,
            _ => {}
        }
        self.is_dead(end)
    }

    pub(crate) fn at(&mut self, at: u64, event: Event) {
        self.count += 1;
        let entry = Entry { at: at.max(self.now), number: self.count, event };
        self.queue.push(Reverse(entry));
    }

    pub(crate) fn after(&mut self, delay: u64, event: Event) {
        self.at(self.now + delay, event);
    }

    /// The next event, when it is not later than `until`; time moves to it.
    pub(crate) fn next(&mut self, until: u64) -> Option<Event> {
        if self.queue.peek()?.0.at > until {
            return None;
        }
        let Reverse(entry) = self.queue.pop()?;
        self.now = entry.at;
        self.taken += 1;
        Some(entry.event)
    }

    pub(crate) fn add_person(
        &mut self,
        id: WorkerId,
        node: usize,
        is_driver: bool,
        env: Env,
    ) -> usize {
        let pid = self.people.len();
        self.people.push(Person { id, node, is_driver, is_alive: true, env });
        self.by_id.insert(id, pid);
        self.facts.history.process_began(id, self.daemons[node].address.node_id);
        pid
    }

    pub(crate) fn person(&self, id: WorkerId) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// A task begins in a process. What runs on its node in processes that have not waited yet fits its CPUs.
    pub(crate) fn task_begins(&mut self, pid: usize, task: TaskId) {
        let (node, takes) = (self.people[pid].node, self.facts.history.takes_cpu(task));
        let (target, wanted) = self.facts.history.target(task);
        if !self.is_right_node(node, target, wanted) {
            self.violation(format!("a task that is to run {target:?} begins on node {node}"));
        }
        // Only of the very first call is it known that the other zone has room.
        if target == Target::OtherZoneOrHeads
            && self.daemons[node].is_in_head_zone
            && self.facts.begun.len() == 1
            && self.facts.history.has_all_nodes()
        {
            let text = "the first call of all rather runs in the other zone, which has room";
            self.violation(format!("{text}, and begins on node {node}"));
        }
        if self.plan.scene == Some(Scene::Apart) && target == Target::Spread {
            self.goes_apart("calls", node);
        }
        if let Some((group, takes)) = self.facts.history.takes_of_group(task) {
            self.begins_in_group(pid, task, group, takes);
        }
        let here = self.running.entry(node).or_default();
        // A process that waited has lent its CPU, and takes it back whether or not there is room.
        let takes = if self.have_waited.contains(&pid) { 0 } else { takes };
        here.insert((pid, task), takes);
        let (taken, has) = (here.values().sum::<u32>(), 100 * self.daemons[node].cpus);
        if taken > has {
            self.violation(format!(
                "tasks that take {taken} hundredths of a CPU run on node {node}, which has {has}"
            ));
        }
    }

    /// Whether what is to run there may run on that node.
    fn is_right_node(&self, node: usize, target: Target, wanted: NodeId) -> bool {
        let daemon = &self.daemons[node];
        match target {
            Target::Here | Target::There => daemon.address.node_id == wanted,
            Target::Zone | Target::NoZoneOrHeads => daemon.is_in_head_zone,
            Target::OtherZone => !daemon.is_in_head_zone,
            Target::Anywhere
            | Target::Spread
            | Target::RatherHere
            | Target::RatherThere
            | Target::AnyZone
            | Target::OtherZoneOrHeads => true,
        }
    }

    /// Checks the begin of one of the first calls that go apart: each is on another node.
    fn goes_apart(&mut self, what: &str, node: usize) {
        if self.went_apart.len() >= self.plan.cpus.len() || !self.facts.history.has_all_nodes() {
            return;
        }
        self.went_apart.push(node);
        let nodes: BTreeSet<usize> = self.went_apart.iter().copied().collect();
        if nodes.len() < self.went_apart.len() {
            self.violation(format!("{what} that go apart began on nodes {:?}", self.went_apart));
        }
    }

    /// An actor's constructor begins in a process: on a node where the actor may live.
    pub(crate) fn actor_begins(&mut self, pid: usize, actor: ActorId) {
        let node = self.people[pid].node;
        let (target, wanted) = self.facts.history.actor_target(actor);
        if !self.is_right_node(node, target, wanted) {
            self.violation(format!("an actor that is to live {target:?} begins on node {node}"));
        }
        if target != Target::Anywhere {
            self.facts.count("actors with a strategy");
        }
        let (group, takes) = self.facts.history.actor_takes(actor);
        if !group.is_nil() {
            self.begins_in_group(pid, TaskId::NIL, group, takes);
        } else if takes > 0 {
            let here = self.in_slots.entry(node).or_default();
            here.insert(pid, takes);
            let (taken, has) = (here.values().sum::<u32>(), 100 * self.plan.slots);
            if taken > has {
                self.violation(format!(
                    "actors that take {taken} hundredths of a slot live on node {node}, which has {has}"
                ));
            }
        }
        if self.plan.scene == Some(Scene::Placed) && target == Target::Spread {
            self.goes_apart("actors", node);
        }
    }

    /// Whether every bundle of a group was ever held by some node.
    pub(crate) fn is_held(&self, group: PlacementGroupId) -> bool {
        let Some(promise) = self.facts.groups.get(&group) else { return true };
        let of_group = self.bundles.iter().filter(|((_, other), _)| *other == group);
        let held: BTreeSet<u32> = of_group.flat_map(|(_, numbers)| numbers).copied().collect();
        held.len() == promise.bundles.len()
    }

    /// A call or, without one, an actor begins in a placement group: what runs in that on its node fits the bundles there,
    /// whether or not it waits.
    fn begins_in_group(&mut self, pid: usize, task: TaskId, group: PlacementGroupId, takes: u32) {
        let node = self.people[pid].node;
        let here = self.in_groups.entry((node, group)).or_default();
        here.insert((pid, task), takes);
        let Some(promise) = self.facts.groups.get(&group) else { return };
        let held = self.bundles.get(&(node, group)).into_iter().flatten();
        let has: u32 = held.filter_map(|number| promise.bundles.get(*number as usize)).sum();
        let taken = here.values().sum::<u32>();
        if taken > 100 * has {
            self.violation(format!(
                "{taken} hundredths are taken of the bundles of {group} on node {node}, which have {has}"
            ));
        }
    }

    /// A call or, without one, an actor begins in a process: it has the environment that it asked for, and the devices,
    /// which nobody else has.
    pub(crate) fn takes_devices(
        &mut self,
        pid: usize,
        task: TaskId,
        needs: Needs,
        assigned: &Assigned,
    ) {
        let Person { node, env, .. } = self.people[pid];
        if needs.env == Env::Broken || needs.env != env {
            self.violation(format!(
                "p{pid} begins in the environment {env:?} what needs {needs:?}"
            ));
        }
        let none = Vec::new();
        let devices = assigned.devices.get(GPU).unwrap_or(&none);
        if devices.len() != needs.gpu.div_ceil(100) as usize {
            self.violation(format!("p{pid} begins with the GPUs {devices:?} what needs {needs:?}"));
        }
        for device in devices {
            let users = self.devices.entry((node, *device)).or_default();
            users.insert((pid, task), needs.gpu.min(100));
            if users.values().sum::<u32>() > 100 {
                let text = format!("GPU {device} of node {node} has too many users: {users:?}");
                self.violation(text);
            }
        }
        if !devices.is_empty() {
            let is_part = needs.gpu < 100;
            self.facts.count(if is_part { "parts of a GPU" } else { "whole GPUs" });
        }
    }

    /// A process was made for the environment that can never be made: where nothing breaks, once for each call and actor
    /// that asked for it at most.
    pub(crate) fn environment_broke(&mut self) {
        self.facts.count("environments that could not be made");
        self.facts.environments_broken += 1;
        let (broken, asked) =
            (self.facts.environments_broken, self.facts.history.asked_for_broken_env());
        if self.plan.faults.is_empty() && broken > asked {
            self.violation(format!(
                "an environment that cannot be made was tried {broken} times for {asked} calls and actors"
            ));
        }
    }

    /// Puts these nodes on the one side of a partition for so long.
    pub(crate) fn cut_off(&mut self, is_apart: Vec<bool>, for_us: u64) {
        self.cut_offs.push((is_apart, self.now + for_us));
    }

    /// Returns the time until which one node cannot be reached from the other.
    pub(crate) fn cut_off_until(&self, one: usize, other: usize) -> u64 {
        let side = |is_apart: &[bool], node: usize| is_apart.get(node).copied().unwrap_or(false);
        let apart = self
            .cut_offs
            .iter()
            .filter(|(is_apart, _)| side(is_apart, one) != side(is_apart, other));
        apart.map(|(_, until)| *until).max().unwrap_or(0)
    }

    /// A process waits.
    pub(crate) fn process_waits(&mut self, pid: usize) {
        self.have_waited.insert(pid);
        self.tasks_gone(pid);
    }

    /// A task ends.
    pub(crate) fn task_ends(&mut self, pid: usize, task: TaskId) {
        if let Some(here) = self.running.get_mut(&self.people[pid].node) {
            here.remove(&(pid, task));
        }
        for users in self.in_groups.values_mut() {
            users.remove(&(pid, task));
        }
        for users in self.devices.values_mut() {
            users.remove(&(pid, task));
        }
    }

    /// A process is gone, with all that it had.
    pub(crate) fn process_gone(&mut self, pid: usize) {
        self.tasks_gone(pid);
        if let Some(here) = self.in_slots.get_mut(&self.people[pid].node) {
            here.remove(&pid);
        }
        for users in self.in_groups.values_mut() {
            users.retain(|(other, _), _| *other != pid);
        }
        for users in self.devices.values_mut() {
            users.retain(|(other, _), _| *other != pid);
        }
    }

    /// Removes the running calls of a process from the count.
    fn tasks_gone(&mut self, pid: usize) {
        if let Some(here) = self.running.get_mut(&self.people[pid].node) {
            here.retain(|(other, _), _| *other != pid);
        }
    }

    pub(crate) fn daemon(&self, id: NodeId) -> Option<usize> {
        self.daemons.iter().position(|daemon| daemon.address.node_id == id)
    }

    /// Whether the link goes from one machine to another.
    pub(crate) fn leaves_its_node(&self, link: u64) -> bool {
        self.net.get(link).is_some_and(|found| match found.ends {
            [End::Process(a), End::Process(b)] => self.people[a].node != self.people[b].node,
            _ => found.kind == Kind::Remote,
        })
    }

    fn arrival(&mut self, arrival: Option<Arrival>) {
        if let Some(Arrival { at, link, side, what }) = arrival {
            self.at(at, Event::Arrive { link, side, what });
        }
    }

    /// The messages for that part that lie in a connection within a machine: they arrive no more.
    pub(crate) fn take_arrivals(&mut self, link: u64, at: End) -> Vec<Vec<u8>> {
        let is_local = self.net.get(link).is_some_and(|found| match found.ends {
            [End::Process(a), End::Process(b)] => self.people[a].node == self.people[b].node,
            _ => false,
        });
        // Cases of the first edition keep their course.
        if !is_local || self.plan.edition < 2 {
            return Vec::new();
        }
        let wanted = self.net.side(link, at);
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        for Reverse(entry) in std::mem::take(&mut self.queue).into_sorted_vec().into_iter().rev() {
            match entry.event {
                Event::Arrive { link: of, side, what: What::Bytes(bytes) }
                    if of == link && side == wanted =>
                {
                    taken.push(bytes);
                }
                event => left.push(Reverse(Entry { event, ..entry })),
            }
        }
        self.queue = left.into();
        taken
    }

    /// A new link; `None` when nobody is there to accept it.
    pub(crate) fn connect(&mut self, kind: Kind, from: End, to: End) -> Option<u64> {
        let is_there = match to {
            End::Control(life) => self.control == Some(life),
            End::Node(node) => self.daemons.get(node).is_some_and(|daemon| daemon.is_alive),
            End::Process(pid) => self.people.get(pid).is_some_and(|person| person.is_alive),
        };
        if !is_there {
            return None;
        }
        let (link, arrival) = self.net.connect(kind, from, to, self.now, &mut self.rng);
        self.arrival(Some(arrival));
        Some(link)
    }

    pub(crate) fn send(&mut self, link: u64, from: End, bytes: Vec<u8>) {
        if self.is_torn(from) {
            return;
        }
        let arrival = self.net.send(link, from, bytes, self.now, &mut self.rng);
        self.arrival(arrival);
    }

    pub(crate) fn close(&mut self, link: u64, end: End) {
        let arrival = self.net.close(link, end, self.now, &mut self.rng);
        self.arrival(arrival);
    }

    /// Closes everything that somebody holds: its process is no more.
    pub(crate) fn close_all(&mut self, end: End) {
        for link in self.net.find(|link| link.ends.contains(&end)) {
            self.close(link, end);
        }
    }

    /// The line breaks between two that live; whom it parts is written down.
    pub(crate) fn cut_link(&mut self, link: u64) {
        let Some((kind, ends)) = self.net.get(link).map(|found| (found.kind, found.ends)) else {
            return;
        };
        match kind {
            Kind::Local | Kind::Remote | Kind::Peer => {
                self.facts.count("faults: link of a process");
            }
            Kind::Control | Kind::Daemon => {
                self.facts.count("faults: link of a daemon");
                let nodes = ends.into_iter().filter_map(End::node);
                self.facts.nodes_cut.extend(nodes);
            }
        }
        match ends {
            [End::Process(a), End::Process(b)] => {
                let (one, other) = (self.people[a].id, self.people[b].id);
                self.facts.history.link_cut(one, other);
            }
            [End::Process(from), End::Node(to)] => {
                let (process, node) = (self.people[from].id, self.daemons[to].address.node_id);
                self.facts.history.daemon_cut(process, node);
            }
            _ => {}
        }
        self.note(|| format!("link {link} is cut"));
        self.cut(link);
    }

    fn cut(&mut self, link: u64) {
        for arrival in self.net.cut(link, self.now, &mut self.rng) {
            self.arrival(Some(arrival));
        }
    }

    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        self.trace.note(self.now, text);
    }

    /// A checker found something wrong.
    pub(crate) fn violation(&mut self, text: String) {
        self.trace.note(self.now, || format!("VIOLATION {text}"));
        self.facts.violations.push(text);
    }
}
