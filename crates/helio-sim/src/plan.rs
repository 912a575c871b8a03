//! The plan of a run, all of it drawn from its seed.

mod scenes;

use helio_config::control::{HEARTBEAT_MS, HEARTBEATS_MISSED_MAX};

use crate::ops::KEPT_MAX;
pub use crate::ops::Target;
use crate::rng::Rng;

/// A fault that the plan puts into a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A worker is killed.
    Worker,
    /// A worker is killed that waits for calls of its own.
    Caller,
    /// A worker dies that waits for an object of another node, before it says anything more.
    Reader,
    /// A worker is killed that has made an actor.
    Maker,
    /// A worker is killed that owns an object of which another node has a copy.
    Keeper,
    /// A driver is killed.
    Driver,
    /// A node dies with all that lives on it; never the head.
    Node,
    /// A node's daemon is told to end: it says that it leaves, and is gone with all that lives there; never the head.
    Stop,
    /// A node's machine loses its power: all that lives on it is gone, and none of its connections is closed; never the
    /// head.
    PowerOff,
    /// The control service dies and starts again from its durable records, after so many microseconds.
    Control {
        /// Microseconds that the control service is away.
        away_us: u64,
    },
    /// A connection between two processes on different nodes breaks.
    Peer,
    /// A connection of a process to another node's daemon breaks.
    Remote,
    /// A connection between daemons breaks.
    Daemon,
    /// A connection between a daemon and the control service breaks.
    ControlLink,
    /// The connection breaks that carries the control service's next order of that kind, and the order is lost.
    LostOrder(Order),
    /// A process stands still for so many microseconds, as under SIGSTOP, and goes on.
    HangProcess {
        /// Microseconds that the process stands still.
        for_us: u64,
    },
    /// A daemon stands still; the head's stands still together with the control service, which shares its
    /// process.
    HangNode {
        /// Microseconds that the node stands still.
        for_us: u64,
    },
    /// The network between two groups of nodes carries nothing, in one direction or in both, and then
    /// delivers what was sent, as TCP does.
    Partition {
        /// Microseconds that the network carries nothing.
        for_us: u64,
        /// The direction that is blocked.
        way: Way,
    },
    /// The head's machine is lost with everything on it but the durable records; another head starts from
    /// them after so many microseconds.
    Head {
        /// Microseconds that there is no head.
        away_us: u64,
    },
    /// The control service dies between two actions of one `apply`, and starts again.
    ControlTorn {
        /// Number of sends after which the service dies; 0: before the commit.
        after: u32,
    },
    /// A daemon dies between two actions; never the head's.
    NodeTorn {
        /// Number of sends after which the node dies.
        after: u32,
    },
    /// A worker or driver dies between two actions.
    ProcessTorn {
        /// Number of sends after which the process dies.
        after: u32,
    },
    /// A node's disk is full for so many microseconds.
    DiskFull {
        /// Microseconds that every write fails.
        for_us: u64,
    },
    /// A node's disk fails every write and every read for so many microseconds.
    DiskBroken {
        /// Microseconds that the disk fails.
        for_us: u64,
    },
    /// The disk of the head's machine has no room for durable records for so many microseconds.
    HeadDiskFull {
        /// Microseconds that every commit fails.
        for_us: u64,
    },
    /// A commit takes so many microseconds, in which the control service does nothing else.
    SlowCommit {
        /// Microseconds that the commit takes.
        for_us: u64,
    },
    /// A byte changes of a file on some node's disk.
    Damage,
    /// The connections of a process take a few bytes at a time for so many microseconds.
    PushBack {
        /// Microseconds that the connections push back.
        for_us: u64,
    },
    /// A connection that pushes back breaks in the middle of a message.
    CutMessage,
    /// The clock of a node's machine goes forward at once by so many microseconds.
    ClockJump {
        /// The step of the clock, in microseconds.
        by_us: u64,
    },
    /// A node's machine is short of memory, and its monitor ends a worker.
    Memory,
    /// A node's machine is short of memory while calls run there that may be tried again, and
    /// others that may not.
    Squeeze,
    /// A node is told to hand over what it has, and to leave; never the head.
    Drain,
    /// A node is told to leave, and the work there has so many milliseconds to end.
    DrainBy {
        /// The grace until the node ends, in milliseconds.
        grace_ms: u64,
    },
    /// A node that was told to leave is told to stay.
    Stay,
    /// A machine joins.
    Join,
    /// All machines stand still at once for so many microseconds, as under a debugger of virtual machines.
    Suspend {
        /// Microseconds that the machines stand still.
        for_us: u64,
    },
}

/// An order of the control service to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// The order to make an actor.
    Launch,
    /// The order to end an actor.
    Stop,
    /// The order to give bundles back.
    Return,
    /// The order to leave.
    Leave,
    /// The order to stay after all.
    Stay,
}

/// Operations that drivers' programs repeat beside other things, while the faults that matter to them happen:
/// operations and faults that are drawn one by one would hardly ever come to these states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scene {
    /// References that came inside values are given on to actors, and let go of.
    Relay,
    /// Items of generators that still run are arguments of calls whose results are lost.
    Items,
    /// Objects on a node that leaves are read later.
    Leaving,
    /// Actors are moved from a node that leaves while the control service restarts.
    Moving,
    /// Orders of the control service are lost.
    LostOrders,
    /// Calls wait for arguments, and those that made them are killed.
    Orphans,
    /// Keys of the key-value table are written, listed and deleted while the control service restarts.
    Table,
    /// Drivers ask for an actor of one name that is made if there is none, use it and end it.
    Names,
    /// Processes of actors end while their node's connection to the control service is broken.
    Unheard,
    /// Values are waited for, and reads given up after a while.
    Deadlines,
    /// More objects than there is memory for, on disks that fail.
    BadDisks,
    /// Actors and placement groups come and go while the head's disk takes no more, or is slow.
    HeadDisk,
    /// Tasks and actors take GPUs, whole ones and parts of one.
    Devices,
    /// Tasks and actors have runtime environments, of which one can never be made.
    Environments,
    /// Connections take a few bytes at a time, and some break in the middle of a message.
    PushBack,
    /// Clocks are too fast or too slow, and jump; the head's may be set back while it is away.
    Clocks,
    /// Actors of coroutines, and callers that make only so many calls ahead.
    Ahead,
    /// More objects than there is memory for, on disks that change what was written.
    DamagedDisks,
    /// Nodes leave whether or not what runs there has ended.
    Grace,
    /// Objects are read on other nodes by workers that die before they say so.
    Readers,
    /// Calls are cancelled: those that wait, that run, that made others, and that were tried before.
    Cancels,
    /// Calls go to nodes in turn.
    Apart,
    /// Actors are called by those who were given a handle, and wait for room.
    Handles,
    /// Objects of other owners are waited for while their nodes are cut off and die.
    Borrowed,
    /// Calls that may be tried again and others that may not run side by side where memory is short.
    Squeezed,
    /// Placement groups are removed while calls run in them, whose processes take their time to end.
    Removals,
    /// Calls make actors, and their processes are killed.
    Makers,
    /// Large results of calls that took large results lie on nodes that die.
    Chains,
    /// Actors and tasks are called for the first time while no connection can be made to their nodes.
    Unreached,
    /// Tasks and actors go where each scheduling strategy says.
    Placed,
    /// Nodes are told to leave, and to stay after all.
    Staying,
    /// Workers that own objects of which other nodes have copies are killed.
    Keepers,
    /// Objects are let go of one by one while the nodes leave on which they lie.
    Freed,
    /// Placement groups are removed that were never placed, and for which calls and actors wait.
    Unplaced,
    /// Calls and groups that no node can hold wait, and are demand for nodes.
    Demand,
    /// Drivers ask for actors of the same names in several namespaces.
    Spaces,
    /// Calls are cancelled without those that they have made, and by force.
    Softly,
    /// Placement groups lose nodes.
    Resettled,
    /// Calls of actors wait for large arguments, each in its concurrency group, or nowhere.
    Aside,
    /// Generators are read to their ends, over connections that break, from processes that die.
    Streams,
    /// Actors have runtime environments, and their processes die.
    Outfits,
    /// Tasks and actors go by labels to nodes that register again.
    Relabelled,
    /// Programs wait for results of nested calls (calls made by calls) before these results exist.
    Lent,
    /// Objects of other nodes are waited for, and read later, where there is no room, and the disk is full.
    Refused,
}

/// The direction of a partition that is blocked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// The link is cut in both directions.
    Both,
    /// From the head's side to the other one.
    Out,
    /// To the head's side from the other one.
    In,
}

/// The end of a run, when all programs are done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The drivers end.
    Drivers,
    /// The cluster is asked to end.
    Stop,
    /// The cluster is asked to end right after a restart of the control service.
    StopAfterRestart,
    /// The cluster is asked to end while a daemon has no connection.
    StopWhileCut,
    /// The cluster is asked to end while a daemon stands still, which goes on when another cluster
    /// is at the address.
    StopWhileHung,
    /// The cluster is asked to end while a daemon stands still whose connection is broken, so that
    /// it never hears of the stop.
    StopUnheard,
}

/// The cluster, the programs and the faults of a run, drawn from its seed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The edition of the draw.
    pub edition: u32,
    /// CPUs of each node; the first is the head.
    pub cpus: Vec<u32>,
    /// Maximum number of workers that a node starts at a time.
    pub starts_max: usize,
    /// Number of idle workers that a node keeps.
    pub idle_max: usize,
    /// The length of a node's memory file, in bytes; in a small one objects go to disk.
    pub store_size: u64,
    /// The longest that a message takes, in microseconds.
    pub delay_us_max: u64,
    /// Number of drivers.
    pub n_drivers: usize,
    /// Number of operations of a driver's program.
    pub n_ops: u64,
    /// The faults, each with the time at which it happens.
    pub faults: Vec<(u64, Fault)>,
    /// The share of worker processes that cannot be made, as one in so many; 0: none.
    pub start_failures: u64,
    /// Programs end actors and calls by force.
    pub has_kills: bool,
    /// Programs make placement groups.
    pub has_groups: bool,
    /// Methods of actors may wait for other values. Where values are lost, a method that is made again may wait, through a
    /// call of its own, for a value that only another method of its actor makes again, which stands behind it.
    pub methods_wait: bool,
    /// Number of slots of each node, of which actors take a quarter each.
    pub slots: u32,
    /// Milliseconds by which the clocks of daemons and of the control service may differ.
    pub skew_ms_max: u64,
    /// The scene that the programs come back to.
    pub scene: Option<Scene>,
    /// Number of GPUs of each node.
    pub gpus: u32,
    /// The rate by which clocks are too fast or too slow at most, in millionths.
    pub drift_ppm_max: u64,
    /// Microseconds that a process takes at most to end that its daemon kills.
    pub kill_us_max: u64,
    /// Microseconds for which a process tries at most to reach one on the other side of a partition; 0: until that is
    /// over.
    pub reach_us_max: u64,
    /// The end of the run, when all programs are done; `None`: it is drawn then.
    pub ending: Option<Ending>,
}

/// Maximum number of nodes of a cluster.
pub(crate) const NODES_MAX: usize = 8;

/// Microseconds of a run's own time that its drivers have.
pub(crate) const RUN_US_MAX: u64 = 240_000_000;
/// Microseconds that a single wait of user code may take: longer than every timeout of the system
/// in a row.
pub(crate) const WAIT_US_MAX: u64 = 60_000_000;
/// Microseconds in which everything has to come to rest once the programs are done.
pub(crate) const SETTLE_US: u64 = 25_000_000;
/// The last part of that, in which daemons have no news.
pub(crate) const REST_US: u64 = 8_000_000;
/// Maximum number of views in that part: idle workers end, one after the other.
pub(crate) const REST_VIEWS_MAX: u64 = 24;

impl Plan {
    /// The plan of a seed.
    #[must_use]
    pub fn draw(rng: &mut Rng, edition: u32) -> Self {
        let n_nodes = if edition > 1 && rng.one_in(10) {
            rng.range(4, NODES_MAX as u64)
        } else {
            rng.range(1, 3)
        };
        let cpus: Vec<u32> = (0..n_nodes).map(|_| rng.range(1, 4) as u32).collect();
        let delay_us_max = *rng.pick(&[60, 400, 3_000, 30_000, 200_000]).unwrap_or(&400);
        let n_drivers = if rng.one_in(12) { rng.range(3, 8) } else { rng.range(1, 2) } as usize;
        let mut plan = Self {
            edition,
            cpus,
            starts_max: rng.range(1, 4) as usize,
            idle_max: rng.range(0, 6) as usize,
            store_size: if rng.one_in(3) { 16 << 10 } else { 128 << 10 },
            delay_us_max,
            n_drivers,
            n_ops: rng.range(8, if n_drivers > 2 { 12 } else { 36 }),
            faults: Vec::new(),
            start_failures: 0,
            has_kills: rng.one_in(2),
            has_groups: rng.one_in(2),
            methods_wait: true,
            slots: 2,
            skew_ms_max: if rng.one_in(2) { 0 } else { 40_000_000 },
            scene: None,
            gpus: 0,
            drift_ppm_max: 0,
            kill_us_max: 500,
            reach_us_max: 0,
            ending: None,
        };
        // A third of the runs break nothing: there every result must be right, without exception.
        if !rng.one_in(3) {
            plan.draw_faults(rng);
        }
        // A call for a bundle on a drained node waits until the node leaves, perhaps for long.
        plan.has_groups &= !plan.faults.iter().any(|(_, fault)| *fault == Fault::Drain);
        if edition > 1 && rng.one_in(12) {
            plan.lose_nodes(rng);
        }
        plan
    }

    /// A driver waits for what tasks own on machines of which one loses its power at that moment, in microseconds, right
    /// after it was cut off for a while.
    pub fn lose_power(&mut self, at: u64) {
        self.scene = Some(Scene::Borrowed);
        self.cpus = vec![3; 4];
        (self.n_drivers, self.n_ops, self.start_failures) = (1, 8, 0);
        (self.has_kills, self.has_groups) = (false, false);
        let (cut, for_us) = (at.saturating_sub(450_000), 400_000);
        self.faults =
            vec![(cut, Fault::Partition { for_us, way: Way::Both }), (at, Fault::PowerOff)];
    }

    /// Nodes die one after the other while calls wait for what lies on them, and nothing else happens.
    fn lose_nodes(&mut self, rng: &mut Rng) {
        self.lose_nodes_from(rng.range(10_000, 600_000));
        self.start_failures = 0;
    }

    /// Loses nodes as [`Plan::draw`] does it now and then: the first node dies 90 ms after `start`, in
    /// microseconds.
    pub fn lose_nodes_from(&mut self, start: u64) {
        self.cpus = vec![1, 3, 3, 3];
        // All actors may live on the node that is left.
        self.slots = 100;
        self.faults = (1..4).map(|n| (n * 90_000 + start, Fault::Node)).collect();
        (self.has_kills, self.has_groups, self.n_ops) = (false, false, 60);
    }

    /// Whether what lies on a node that is not the head may be lost.
    pub(crate) fn may_lose_nodes(&self) -> bool {
        // A daemon that is away for too long is taken for dead.
        let harmless = |fault: &Fault| match fault {
            Fault::Worker
            | Fault::Caller
            | Fault::Reader
            | Fault::Maker
            | Fault::Keeper
            | Fault::Driver
            | Fault::Peer
            | Fault::Remote
            | Fault::HangProcess { .. }
            | Fault::ProcessTorn { .. }
            | Fault::DiskFull { .. }
            | Fault::DiskBroken { .. }
            | Fault::Damage
            | Fault::PushBack { .. }
            | Fault::CutMessage
            | Fault::HeadDiskFull { .. }
            | Fault::SlowCommit { .. }
            | Fault::Join
            | Fault::Suspend { .. }
            | Fault::Memory
            | Fault::Squeeze => true,
            Fault::HangNode { for_us } | Fault::Partition { for_us, .. } => {
                *for_us < SILENCE_US_MIN
            }
            Fault::Node
            | Fault::Stop
            | Fault::PowerOff
            | Fault::Control { .. }
            | Fault::Daemon
            | Fault::ControlLink
            | Fault::LostOrder(_)
            | Fault::ClockJump { .. }
            | Fault::Head { .. }
            | Fault::ControlTorn { .. }
            | Fault::Drain
            | Fault::DrainBy { .. }
            | Fault::Stay
            | Fault::NodeTorn { .. } => false,
        };
        !self.faults.iter().all(|(_, fault)| harmless(fault))
    }

    /// Returns the head's amount of the resource that no program gives back: enough for all that
    /// they keep.
    pub(crate) fn keep(&self) -> f64 {
        f64::from(KEPT_MAX) * self.n_drivers as f64
    }

    /// Returns the amount of the resource of placement groups: enough on the head alone where other nodes may be lost,
    /// else so little that the groups wait for each other.
    pub(crate) fn room(&self, is_head: bool) -> f64 {
        match is_head {
            true if self.may_lose_nodes() => 12.0,
            true => 3.0,
            false => 2.0,
        }
    }

    fn draw_faults(&mut self, rng: &mut Rng) {
        let n_faults = rng.range(1, 5);
        // Some runs know one kind of fault only, so that what it causes is not masked by another.
        let kinds = if self.edition > 1 { FAULT_KINDS } else { FAULT_KINDS_BEFORE };
        let only = rng.one_in(2).then(|| rng.below(kinds));
        let latest = if rng.one_in(3) { 2_000_000 } else { 300_000 + self.delay_us_max * 20 };
        for _ in 0..n_faults {
            let at = rng.range(5_000, latest);
            let fault = match only.unwrap_or_else(|| rng.below(kinds)) {
                0 => Fault::Worker,
                1 => Fault::Driver,
                2 => Fault::Node,
                3 => Fault::Control { away_us: rng.range(1_000, 3_000_000) },
                4 => Fault::Peer,
                5 => Fault::Remote,
                6 => Fault::Daemon,
                7 => Fault::ControlLink,
                8 => Fault::HangProcess { for_us: hang(rng) },
                9 => Fault::HangNode { for_us: hang(rng) },
                10 => Fault::Partition {
                    for_us: hang(rng),
                    way: *rng.pick(&[Way::Both, Way::Out, Way::In]).unwrap_or(&Way::Both),
                },
                11 => Fault::Head { away_us: rng.range(1_000, 6_000_000) },
                12 => Fault::ControlTorn { after: rng.below(6) as u32 },
                13 => Fault::NodeTorn { after: rng.below(6) as u32 },
                14 => Fault::ProcessTorn { after: rng.below(6) as u32 },
                15 => Fault::DiskFull { for_us: rng.range(10_000, 3_000_000) },
                16 => Fault::Memory,
                17 | 18 => Fault::Drain,
                19 => Fault::Join,
                _ => Fault::Suspend { for_us: hang(rng) },
            };
            self.faults.push((at, fault));
        }
        if rng.one_in(6) {
            self.start_failures = rng.range(2, 8);
        }
        self.faults.sort_by_key(|(at, _)| *at);
    }
}

/// Microseconds by which a clock jumps at most.
const JUMP_US_MAX: u64 = 30_000_000;
/// Millionths by which a clock is wrong at most: twice what the kernel lets a time service correct.
const DRIFT_PPM_MAX: u64 = 1_000;

/// Number of kinds of faults that [`Plan::draw`] chooses from.
const FAULT_KINDS: u64 = 21;
/// The same number in the first edition.
const FAULT_KINDS_BEFORE: u64 = 17;

/// A node that is not heard for less than this is never taken for dead, in microseconds: what the control
/// service allows, less the time from one heartbeat to the next and what a message takes.
pub(crate) const SILENCE_US_MIN: u64 = (HEARTBEATS_MISSED_MAX - 2) * HEARTBEAT_MS * 1000;

/// Draws the time of a standstill: mostly so short that nothing may come of it.
fn hang(rng: &mut Rng) -> u64 {
    if rng.one_in(3) { rng.range(5_000_000, 14_000_000) } else { rng.range(10_000, SILENCE_US_MIN) }
}
