//! What a run is made of, all of it drawn from its seed.

use crate::rng::Rng;

/// Something that breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A worker is killed.
    Worker,
    /// A driver is killed.
    Driver,
    /// A node dies with all that lives on it; never the head.
    Node,
    /// The control service dies and starts again from its durable records, after so many microseconds.
    Control {
        /// How long it is away.
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
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Plan {
    /// CPUs of each node; the first is the head.
    pub cpus: Vec<u32>,
    /// How many workers a node may start at a time.
    pub starts_max: usize,
    /// How many idle workers a node keeps.
    pub idle_max: usize,
    /// The length of a node's memory file, in bytes; in a small one objects go to disk.
    pub store_size: u64,
    /// The longest that a message takes, in microseconds.
    pub delay_us_max: u64,
    /// How many drivers there are.
    pub n_drivers: usize,
    /// How many operations a driver's program has.
    pub n_ops: u64,
    /// When what breaks.
    pub faults: Vec<(u64, Fault)>,
    /// One in so many worker processes cannot be made; 0: none.
    pub start_failures: u64,
    /// Programs end actors and calls by force.
    pub has_kills: bool,
    /// Programs make placement groups.
    pub has_groups: bool,
}

/// How long a run's drivers have, in microseconds of its own time.
pub(crate) const RUN_US_MAX: u64 = 240_000_000;
/// How long a single wait of user code may take: longer than every timeout of the system in a row.
pub(crate) const WAIT_US_MAX: u64 = 60_000_000;
/// How long everything has to come to rest once the programs are done.
pub(crate) const SETTLE_US: u64 = 25_000_000;
/// The last part of that, in which daemons have no news.
pub(crate) const REST_US: u64 = 8_000_000;
/// But few: idle workers end, one after the other.
pub(crate) const REST_VIEWS_MAX: u64 = 24;

impl Plan {
    /// The plan of a seed.
    #[must_use]
    pub fn draw(rng: &mut Rng) -> Self {
        let n_nodes = rng.range(1, 3);
        let cpus: Vec<u32> = (0..n_nodes).map(|_| rng.range(1, 4) as u32).collect();
        let delay_us_max = *rng.pick(&[60, 400, 3_000, 30_000, 200_000]).unwrap_or(&400);
        let n_drivers = rng.range(1, 2) as usize;
        let mut plan = Self {
            cpus,
            starts_max: rng.range(1, 4) as usize,
            idle_max: rng.range(0, 6) as usize,
            store_size: if rng.one_in(3) { 16 << 10 } else { 128 << 10 },
            delay_us_max,
            n_drivers,
            n_ops: rng.range(8, 36),
            faults: Vec::new(),
            start_failures: 0,
            has_kills: rng.one_in(2),
            has_groups: rng.one_in(2),
        };
        // A third of the runs break nothing: there every result must be right, without exception.
        if !rng.one_in(3) {
            plan.draw_faults(rng);
        }
        plan
    }

    /// Whether what lies on a node that is not the head may be lost.
    pub(crate) fn may_lose_nodes(&self) -> bool {
        // A daemon that is away for too long is taken for dead.
        let harmless = |fault: &Fault| {
            matches!(fault, Fault::Worker | Fault::Driver | Fault::Peer | Fault::Remote)
        };
        !self.faults.iter().all(|(_, fault)| harmless(fault))
    }

    /// What placement groups are made of: enough on the head alone where other nodes may be lost, else so
    /// little that they wait for each other.
    pub(crate) fn room(&self, node: usize) -> f64 {
        match node {
            0 if self.may_lose_nodes() => 12.0,
            0 => 3.0,
            _ => 2.0,
        }
    }

    fn draw_faults(&mut self, rng: &mut Rng) {
        let n_faults = rng.range(1, 5);
        // Some runs know one kind of fault only, so that what it causes is not masked by another.
        let only = rng.one_in(2).then(|| rng.below(8));
        let latest = if rng.one_in(3) { 2_000_000 } else { 300_000 + self.delay_us_max * 20 };
        for _ in 0..n_faults {
            let at = rng.range(5_000, latest);
            let fault = match only.unwrap_or_else(|| rng.below(8)) {
                0 => Fault::Worker,
                1 => Fault::Driver,
                2 => Fault::Node,
                3 => Fault::Control { away_us: rng.range(1_000, 3_000_000) },
                4 => Fault::Peer,
                5 => Fault::Remote,
                6 => Fault::Daemon,
                _ => Fault::ControlLink,
            };
            self.faults.push((at, fault));
        }
        if rng.one_in(6) {
            self.start_failures = rng.range(2, 8);
        }
        self.faults.sort_by_key(|(at, _)| *at);
    }
}
