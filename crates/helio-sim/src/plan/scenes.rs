//! The choice of the runs that come back to a [`Scene`], and of the faults in them.

use std::ops::RangeInclusive;

use super::{DRIFT_PPM_MAX, Fault, JUMP_US_MAX, Order, Plan, SILENCE_US_MIN, Scene, Way};
use crate::rng::Rng;

/// Microseconds that a process takes to end whose memory and devices the kernel takes back slowly.
const KILL_US_MAX: u64 = 300_000;

/// Microseconds that the kernel looks for a machine that does not answer.
const REACH_US_MAX: u64 = 1_500_000;

impl Plan {
    /// Gives one run in `share` of those without a scene one of these, on so many nodes and for so many drivers.
    fn begin_scene(
        &mut self,
        rng: &mut Rng,
        share: u64,
        scenes: &[Scene],
        nodes: RangeInclusive<u64>,
        drivers_max: u64,
    ) -> Option<Scene> {
        if self.scene.is_some() || !rng.one_in(share) {
            return None;
        }
        self.scene = rng.pick(scenes).copied();
        let n_nodes = rng.range(*nodes.start(), *nodes.end()) as usize;
        self.cpus = (0..n_nodes).map(|_| rng.range(2, 4) as u32).collect();
        (self.n_drivers, self.n_ops) = (rng.range(1, drivers_max) as usize, rng.range(4, 12));
        (self.has_kills, self.has_groups, self.start_failures) = (false, false, 0);
        self.scene
    }

    /// Gives one run in `share` a scene. It is drawn apart from the rest, so that the other runs stay what they are.
    pub(crate) fn draw_scene(&mut self, rng: &mut Rng, share: u64) {
        use Scene::{Items, Leaving, LostOrders, Moving, Orphans, Relay};
        let all = [Relay, Items, Leaving, Moving, LostOrders, Orphans];
        let Some(scene) = self.begin_scene(rng, share, &all, 2..=4, 2) else { return };
        let mut at = |first: u64, latest: u64| rng.range(first, latest);
        self.faults = match scene {
            Relay => Vec::new(),
            Items => {
                vec![(at(200_000, 1_200_000), Fault::Node), (at(300_000, 2_000_000), Fault::Node)]
            }
            Leaving => {
                vec![(at(100_000, 1_500_000), Fault::Drain), (at(100_000, 2_500_000), Fault::Drain)]
            }
            Moving => {
                let (drain, away_us) = (at(200_000, 1_000_000), at(1_000, 200_000));
                let restart = drain + at(1, 2 * self.delay_us_max + 60_000);
                vec![(drain, Fault::Drain), (restart, Fault::Control { away_us })]
            }
            LostOrders => {
                let orders = [Order::Stop, Order::Stop, Order::Launch, Order::Leave];
                let mut lost = || Fault::LostOrder(orders[at(0, 3) as usize]);
                let lost = [lost(), lost(), lost()];
                let mut faults = lost.map(|fault| (at(10_000, 1_000_000), fault)).to_vec();
                faults.push((at(500_000, 1_500_000), Fault::Drain));
                faults
            }
            Orphans => (0..4).map(|_| (at(100_000, 1_500_000), Fault::Caller)).collect(),
            // These are drawn elsewhere.
            _ => Vec::new(),
        };
        self.faults.sort_by_key(|(at, _)| *at);
    }

    /// Gives one run in `share` of those without a scene one that the fourth edition has brought.
    pub(crate) fn draw_later_scene(&mut self, rng: &mut Rng, share: u64) {
        use Scene::{BadDisks, Deadlines, HeadDisk, Names, Table, Unheard};
        let all = [Table, Names, Unheard, Deadlines, BadDisks, HeadDisk];
        let Some(scene) = self.begin_scene(rng, share, &all, 1..=3, 3) else { return };
        let mut at = |first: u64, latest: u64| rng.range(first, latest);
        self.faults = match scene {
            Table | Names => {
                let restart = Fault::Control { away_us: at(1_000, 1_000_000) };
                let more = [
                    Fault::ControlTorn { after: at(0, 4) as u32 },
                    Fault::ControlLink,
                    Fault::SlowCommit { for_us: at(10_000, SILENCE_US_MIN) },
                    if scene == Names { Fault::Worker } else { restart },
                ];
                let more = more[at(0, 3) as usize];
                vec![(at(100_000, 1_000_000), restart), (at(100_000, 2_000_000), more)]
            }
            Unheard => {
                let mut pair = || {
                    let cut = at(100_000, 1_500_000);
                    [(cut, Fault::ControlLink), (cut + at(1, 20_000), Fault::Worker)]
                };
                [pair(), pair(), pair()].concat()
            }
            Deadlines => {
                let all = [Fault::Worker, Fault::Remote, Fault::Peer, Fault::Node];
                let mut one = || (at(100_000, 1_500_000), all[at(0, 3) as usize]);
                vec![one(), one()]
            }
            BadDisks => {
                let mut one = || {
                    let for_us = at(50_000, 1_500_000);
                    (at(50_000, 1_500_000), Fault::DiskBroken { for_us })
                };
                vec![one(), one(), one()]
            }
            HeadDisk => {
                let full = Fault::HeadDiskFull { for_us: at(50_000, 2_000_000) };
                let slow = Fault::SlowCommit { for_us: at(10_000, SILENCE_US_MIN) };
                let more = [slow, Fault::Worker, Fault::Control { away_us: at(1_000, 300_000) }];
                let more = more[at(0, 2) as usize];
                vec![(at(100_000, 1_000_000), full), (at(100_000, 2_000_000), more)]
            }
            // These are drawn elsewhere.
            _ => Vec::new(),
        };
        match scene {
            // Large objects beyond the memory.
            BadDisks => self.store_size = 16 << 10,
            HeadDisk => (self.has_kills, self.has_groups) = (true, true),
            _ => {}
        }
        self.faults.sort_by_key(|(at, _)| *at);
    }

    /// Gives one run in `share` of those without a scene one that the fifth edition has brought.
    pub(crate) fn draw_fifth_scene(&mut self, rng: &mut Rng, share: u64) {
        use Scene::{Ahead, Clocks, DamagedDisks, Devices, Environments, Grace, PushBack};
        let all = [Devices, Environments, PushBack, Clocks, Ahead, DamagedDisks, Grace];
        let Some(scene) = self.begin_scene(rng, share, &all, 1..=3, 3) else { return };
        let mut at = |first: u64, latest: u64| rng.range(first, latest);
        let losses = [Fault::Worker, Fault::Caller, Fault::Peer, Fault::Node];
        let mut maybe_a_loss = || match at(0, 2) {
            0 => vec![(at(100_000, 1_500_000), losses[at(0, 3) as usize])],
            _ => Vec::new(),
        };
        self.faults = match scene {
            Devices | Environments | Ahead => maybe_a_loss(),
            PushBack => {
                let mut one = || {
                    let begun = at(20_000, 1_500_000);
                    let pushes = Fault::PushBack { for_us: at(50_000, 1_500_000) };
                    [(begun, pushes), (begun + at(1, 200_000), Fault::CutMessage)]
                };
                [one(), one(), one()].concat()
            }
            Clocks => {
                self.drift_ppm_max = DRIFT_PPM_MAX;
                let away = Fault::Control { away_us: at(1_000, 1_000_000) };
                let mut jump = || {
                    let most = [SILENCE_US_MIN, JUMP_US_MAX][at(0, 1) as usize];
                    let by_us = at(1_000, most);
                    (at(50_000, 2_000_000), Fault::ClockJump { by_us })
                };
                let mut faults = vec![jump(), jump(), jump()];
                faults.push((at(100_000, 1_000_000), away));
                if at(0, 1) == 0 {
                    // A job ends while nobody can tell of it, and the clock is set before anybody hears.
                    let cut = at(100_000, 1_500_000);
                    faults.push((cut, Fault::ControlLink));
                    faults.push((cut + at(1, 20_000), Fault::Driver));
                    faults.push((cut + at(1, 200_000), away));
                }
                faults
            }
            DamagedDisks => (0..6).map(|_| (at(50_000, 1_500_000), Fault::Damage)).collect(),
            Grace => {
                let mut one = || (at(50_000, 1_500_000), Fault::DrainBy { grace_ms: at(1, 1_000) });
                vec![one(), one()]
            }
            // These are drawn above.
            _ => Vec::new(),
        };
        match scene {
            DamagedDisks => self.store_size = 16 << 10,
            Devices => self.gpus = rng.range(1, 4) as u32,
            Grace => self.cpus.extend([3, 2]),
            _ => {}
        }
        self.faults.sort_by_key(|(at, _)| *at);
    }

    /// Gives one run in `share` of those without a scene one that the sixth edition has brought.
    pub(crate) fn draw_sixth_scene(&mut self, rng: &mut Rng, share: u64) {
        use Scene::{Apart, Borrowed, Cancels, Handles, Readers};
        let all = [Readers, Cancels, Apart, Handles, Borrowed];
        let Some(scene) = self.begin_scene(rng, share, &all, 2..=4, 2) else { return };
        let mut at = |first: u64, latest: u64| rng.range(first, latest);
        self.faults = match scene {
            Readers => (0..4).map(|_| (at(50_000, 1_500_000), Fault::Reader)).collect(),
            Cancels => {
                let losses = [Fault::Worker, Fault::Caller, Fault::Memory];
                (0..3).map(|_| (at(50_000, 1_500_000), losses[at(0, 2) as usize])).collect()
            }
            Borrowed => {
                let (cut, for_us) = (at(50_000, 1_500_000), at(10_000, SILENCE_US_MIN));
                let way = [Way::Both, Way::Out, Way::In][at(0, 2) as usize];
                let dies = cut + [for_us, at(0, for_us)][at(0, 1) as usize] + at(0, 200_000);
                let death = [Fault::Node, Fault::PowerOff][at(0, 1) as usize];
                vec![(cut, Fault::Partition { for_us, way }), (dies, death)]
            }
            Handles => match at(0, 2) {
                0 => vec![(at(50_000, 1_500_000), Fault::Worker)],
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        match scene {
            Cancels => self.has_kills = true,
            // Nobody else has work, so that every node has room.
            Apart => self.n_drivers = 1,
            // A head that misses more than half of the others waits longer for them than any call may.
            Borrowed => self.cpus = vec![3; 4],
            _ => {}
        }
        self.faults.sort_by_key(|(at, _)| *at);
    }

    /// Gives one run in `share` of those without a scene one that the seventh edition has brought.
    pub(crate) fn draw_seventh_scene(&mut self, rng: &mut Rng, share: u64) {
        use Scene::{Chains, Makers, Removals, Squeezed, Unreached};
        let all = [Squeezed, Removals, Makers, Chains, Unreached];
        let Some(scene) = self.begin_scene(rng, share, &all, 1..=3, 2) else { return };
        let mut at = |first: u64, latest: u64| rng.range(first, latest);
        self.faults = match scene {
            Squeezed => (0..4).map(|_| (at(50_000, 1_500_000), Fault::Squeeze)).collect(),
            Makers => (0..4).map(|_| (at(50_000, 1_500_000), Fault::Maker)).collect(),
            Chains => {
                let deaths = [Fault::Node, Fault::Stop];
                (0..2).map(|_| (at(200_000, 1_500_000), deaths[at(0, 1) as usize])).collect()
            }
            Unreached => {
                let mut cut = || {
                    let for_us = at(100_000, SILENCE_US_MIN);
                    (at(50_000, 2_000_000), Fault::Partition { for_us, way: Way::Both })
                };
                // One that begins as another ends would be a longer one.
                vec![cut()]
            }
            _ => Vec::new(),
        };
        match scene {
            Removals => self.kill_us_max = KILL_US_MAX,
            // The lost results lay there alone.
            Chains => self.cpus = vec![1, 3, 3],
            Unreached => {
                self.cpus = vec![2, 3, 3];
                self.reach_us_max = REACH_US_MAX;
            }
            _ => {}
        }
        self.faults.sort_by_key(|(at, _)| *at);
    }

    /// Gives one run in `share` of those without a scene one that the eighth edition has brought.
    pub(crate) fn draw_eighth_scene(&mut self, rng: &mut Rng, share: u64) {
        use Scene::{Placed, Staying};
        let Some(scene) = self.begin_scene(rng, share, &[Placed, Staying], 2..=4, 2) else {
            return;
        };
        let mut at = |first: u64, latest: u64| rng.range(first, latest);
        let losses = [Fault::Worker, Fault::Peer, Fault::Peer, Fault::Node];
        self.faults = match scene {
            // Connections break while calls run, whose results are large: what they make then nobody takes. The first
            // calls have what they need by then.
            Placed => match at(0, 3) {
                0 => Vec::new(),
                1 => {
                    (0..3).map(|_| (at(5_000_000, 9_000_000), losses[at(0, 3) as usize])).collect()
                }
                _ => (0..6).map(|_| (at(4_500_000, 7_000_000), Fault::Peer)).collect(),
            },
            Staying => {
                let mut one = || {
                    let told = at(50_000, 1_500_000);
                    let drain = [Fault::Drain, Fault::DrainBy { grace_ms: at(1, 1_000) }];
                    let stays = (told + at(1, 300_000), Fault::Stay);
                    [(told, drain[at(0, 1) as usize]), stays]
                };
                let mut faults = [one(), one()].concat();
                let more = match at(0, 3) {
                    0 | 1 => Some(Fault::LostOrder(Order::Stay)),
                    2 => Some(Fault::NodeTorn { after: at(0, 5) as u32 }),
                    _ => None,
                };
                faults.extend(more.map(|fault| (at(10_000, 1_500_000), fault)));
                faults
            }
            // These are drawn above.
            _ => Vec::new(),
        };
        if scene == Placed {
            // Nobody else has work, so that every node has room.
            self.n_drivers = 1;
        }
        self.faults.sort_by_key(|(at, _)| *at);
    }

    /// Gives one run in `share` of those without a scene one that the ninth edition has brought.
    pub(crate) fn draw_ninth_scene(&mut self, rng: &mut Rng, share: u64) {
        use Scene::{Freed, Keepers, Unplaced};
        let all = [Keepers, Freed, Unplaced];
        let Some(scene) = self.begin_scene(rng, share, &all, 2..=4, 2) else { return };
        let mut at = |first: u64, latest: u64| rng.range(first, latest);
        self.faults = match scene {
            Keepers => (0..4).map(|_| (at(50_000, 3_000_000), Fault::Keeper)).collect(),
            Freed => {
                let mut one = || {
                    let drains = [Fault::Drain, Fault::DrainBy { grace_ms: at(1, 300) }];
                    (at(100_000, 1_500_000), drains[at(0, 1) as usize])
                };
                vec![one(), one()]
            }
            Unplaced => match at(0, 2) {
                0 => vec![(at(100_000, 1_500_000), Fault::Control { away_us: at(1_000, 300_000) })],
                _ => Vec::new(),
            },
            // These are drawn above.
            _ => Vec::new(),
        };
        self.faults.sort_by_key(|(at, _)| *at);
    }

    /// Gives one run in `share` of those without a scene one that the tenth edition has brought.
    pub(crate) fn draw_tenth_scene(&mut self, rng: &mut Rng, share: u64) {
        use Scene::{Aside, Demand, Resettled, Softly, Spaces};
        let all = [Demand, Spaces, Softly, Resettled, Aside];
        let Some(scene) = self.begin_scene(rng, share, &all, 2..=4, 3) else { return };
        let mut at = |first: u64, latest: u64| rng.range(first, latest);
        self.faults = match scene {
            Resettled => (0..2).map(|_| (at(50_000, 2_500_000), Fault::Node)).collect(),
            Spaces => {
                vec![(at(100_000, 1_500_000), Fault::Control { away_us: at(1_000, 300_000) })]
            }
            Aside => match at(0, 2) {
                0 => vec![(at(50_000, 1_500_000), Fault::Daemon)],
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        match scene {
            // Nobody else takes what waits for them.
            Demand => self.n_drivers = 1,
            Softly => self.has_kills = true,
            _ => {}
        }
        self.faults.sort_by_key(|(at, _)| *at);
    }

    /// Gives one run in `share` of those without a scene one that the eleventh edition has brought.
    pub(crate) fn draw_eleventh_scene(&mut self, rng: &mut Rng, share: u64) {
        use Scene::{Lent, Outfits, Refused, Relabelled, Streams};
        let all = [Streams, Outfits, Relabelled, Lent, Refused];
        let Some(scene) = self.begin_scene(rng, share, &all, 2..=4, 2) else { return };
        let mut at = |first: u64, latest: u64| rng.range(first, latest);
        self.faults = match scene {
            Refused => {
                let mut full = || (at(200_000, 4_000_000), at(500_000, 3_000_000));
                (0..3)
                    .map(|_| full())
                    .map(|(at, for_us)| (at, Fault::DiskFull { for_us }))
                    .collect()
            }
            Outfits => (0..4).map(|_| (at(100_000, 2_500_000), Fault::Worker)).collect(),
            Relabelled => {
                let away = Fault::Control { away_us: at(1_000, 300_000) };
                let cut = |at: u64| (at, Fault::ControlLink);
                vec![
                    cut(at(50_000, 500_000)),
                    (at(50_000, 500_000), away),
                    cut(at(50_000, 900_000)),
                ]
            }
            Streams => {
                let losses = [[Fault::Peer; 2], [Fault::Worker, Fault::Peer]][at(0, 1) as usize];
                let mut one = || (at(50_000, 2_500_000), losses[at(0, 1) as usize]);
                (0..5).map(|_| one()).collect()
            }
            // These are drawn above.
            _ => Vec::new(),
        };
        if scene == Refused {
            self.store_size = 16 << 10;
        }
        self.faults.sort_by_key(|(at, _)| *at);
    }
}
