//! Proof: whole clusters in one thread from one seed.
//!
//! The real state machines — one control service, several nodes, several owners — run in shells that do
//! what the real shells do, over a simulated network, in simulated time. Everything that is left to
//! chance is drawn from the seed: the cluster's shape, the users' programs, how long each message takes,
//! and what breaks when. So a failure is a number, and the same number fails again:
//!
//! ```text
//! cargo run --release -p helio-sim -- --seed 4711 --trace
//! cargo run --release -p helio-sim -- --seed 4711 --shrink
//! cargo xtask simulate --minutes 10 --jobs 2
//! ```
//!
//! The checks: **OWN-1** every read ends with the value that its call makes of its inputs, or with
//! an error that something done to the cluster explains, and never hangs; nothing is freed while
//! somebody holds it; what was acknowledged survives; calls run as often as their retries allow and in
//! order; and at the end nothing is left of anything ([`facts`], `rest`).
//!
//! **LAYER-1** There is no clock, thread or randomness in here; [`rng`] is the only source of chance, and
//! a test runs seeds twice and compares the traces.
//!
//! Reading order: [`case`], [`plan`], [`net`], `core`, `world`, `node`, `control`, `process`, `program`, [`facts`],
//! [`history`], [`judge`], [`evidence`], `rest`, [`shrink`], [`mutants`].

#![forbid(unsafe_code)]

pub mod case;
pub mod evidence;
pub mod facts;
pub mod history;
pub mod judge;
pub mod mutants;
pub mod net;
pub mod plan;
pub mod rng;
pub mod scenarios;
pub mod shrink;
pub mod trace;
pub mod value;

mod alarm;
mod bundles;
mod control;
mod core;
mod describe;
mod faults;
mod holds;
mod node;
mod ops;
mod process;
mod program;
mod questions;
mod rest;
mod world;

use std::collections::BTreeMap;

use crate::case::{Case, Part};
use crate::core::Core;
use crate::ops::Op;
use crate::plan::{NODES_MAX, Plan};
use crate::program::Author;
use crate::rng::{Rng, mix};
use crate::trace::Trace;
use crate::world::World;

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    /// The seed of the run.
    pub seed: u64,
    /// The violations that were found; empty in a good run.
    pub violations: Vec<String>,
    /// Equal for equal runs.
    pub hash: u64,
    /// The number of events that the run took in.
    pub steps: u64,
    /// Microseconds that the run took in its own time.
    pub took_us: u64,
    /// Counts of the operations and faults, by name.
    pub counts: BTreeMap<&'static str, u64>,
    /// The last lines of its trace, when they were kept.
    pub lines: Vec<String>,
}

/// Runs the cluster of a seed and keeps the last `lines_max` lines of what happened.
#[must_use]
pub fn run(seed: u64, lines_max: usize) -> Report {
    run_case(&Case::of(seed), lines_max)
}

/// Runs a case and keeps the last `lines_max` lines of what happened.
#[must_use]
pub fn run_case(case: &Case, lines_max: usize) -> Report {
    run_changed(case, lines_max, |_| {}, None)
}

/// Runs a case with a changed plan.
#[must_use]
pub fn run_with(case: &Case, lines_max: usize, change: impl FnOnce(&mut Plan)) -> Report {
    run_changed(case, lines_max, change, None)
}

/// Runs the cluster of a seed with a changed plan, and for a driver, the only one, what is written here.
fn run_play(
    seed: u64,
    change: impl FnOnce(&mut Plan),
    write: impl FnOnce(&mut Author<'_>),
) -> Report {
    let write = |plan: &Plan| vec![Author::play(&mut Rng::new(mix(seed)), plan, write)];
    run_changed(&Case::of(seed), 0, change, Some(Box::new(write)))
}

/// Writes the drivers' programs of a plan.
type Write<'a> = Box<dyn FnOnce(&Plan) -> Vec<Vec<Op>> + 'a>;

/// The number of the random stream that decides on scenes.
const SCENES: u64 = 0x7363_656e_6573;
/// The number of the random stream that decides on scenes of the fourth and later editions.
const LATER_SCENES: u64 = 0x6c61_7465_7273;
const FIFTH_SCENES: u64 = 0x6669_6674_6873;
const SIXTH_SCENES: u64 = 0x7369_7874_6873;
const SEVENTH_SCENES: u64 = 0x7365_7665_6e74;
const EIGHTH_SCENES: u64 = 0x6569_6768_7468;
const NINTH_SCENES: u64 = 0x6e69_6e74_6873;
const TENTH_SCENES: u64 = 0x7465_6e74_6873;
const ELEVENTH_SCENES: u64 = 0x656c_6576_656e;
/// The number of the random stream that decides, from the tenth edition on, which runs have no scene.
const PLAIN: u64 = 0x706c_6169_6e73;
/// The number of the random stream that decides, from the eleventh edition on, which edition's scenes a run has.
const ANY_SCENE: u64 = 0x616e_795f_6f66;
/// Number of scenes that there is room for: one that comes takes runs that have none, and the others keep
/// theirs.
const SCENES_MAX: u64 = 48;

/// The plan of a seed, changed, the programs of its drivers, and the chance that decides the rest.
fn draw(seed: u64, edition: u32, change: impl FnOnce(&mut Plan)) -> (Plan, Vec<Vec<Op>>, Rng) {
    let mut rng = Rng::new(seed);
    let mut plan = Plan::draw(&mut rng, edition);
    // Each edition gave scenes to a part of the runs that had none: of 100, three were left. They alone have the kinds
    // of faults that no scene has, so one run in three keeps what was drawn first.
    if edition < 10 || !Rng::new(mix(seed) ^ PLAIN).one_in(3) {
        draw_scenes(&mut plan, seed, edition);
    }
    change(&mut plan);
    let scripts = (0..plan.n_drivers)
        .map(|driver| Author::write(&mut Rng::new(mix(seed) ^ driver as u64), &plan, driver))
        .collect();
    (plan, scripts, rng)
}

/// Gives a plan a scene of one edition: one run in so many of those without a scene.
type DrawScene = fn(&mut Plan, &mut Rng, u64);

/// Each edition's scenes: how many there are, the random stream that decides on them, and the share of the runs without a
/// scene that they take where the editions are asked one after the other.
const SCENES_BY_EDITION: [(u32, u64, u64, u64, DrawScene); 9] = [
    (3, 6, SCENES, 5, Plan::draw_scene),
    (4, 6, LATER_SCENES, 4, Plan::draw_later_scene),
    (5, 7, FIFTH_SCENES, 3, Plan::draw_fifth_scene),
    (6, 5, SIXTH_SCENES, 3, Plan::draw_sixth_scene),
    (7, 5, SEVENTH_SCENES, 3, Plan::draw_seventh_scene),
    (8, 2, EIGHTH_SCENES, 3, Plan::draw_eighth_scene),
    (9, 3, NINTH_SCENES, 2, Plan::draw_ninth_scene),
    (10, 5, TENTH_SCENES, 2, Plan::draw_tenth_scene),
    (11, 5, ELEVENTH_SCENES, 1, Plan::draw_eleventh_scene),
];

/// Gives the run a scene that its edition knows, or none.
fn draw_scenes(plan: &mut Plan, seed: u64, edition: u32) {
    if edition > 10 {
        // Asked one after the other, the last ones were left three runs in a hundred: all scenes are alike likely.
        let all = SCENES_BY_EDITION.iter();
        let mut one_of_all = all.flat_map(|one| std::iter::repeat_n(one, one.1 as usize));
        let place = Rng::new(mix(seed) ^ ANY_SCENE).below(SCENES_MAX) as usize;
        if let Some((_, _, stream, _, draw)) = one_of_all.nth(place) {
            draw(plan, &mut Rng::new(mix(seed) ^ stream), 1);
        }
        return;
    }
    for (_, _, stream, share, draw) in SCENES_BY_EDITION.iter().filter(|one| one.0 <= edition) {
        draw(plan, &mut Rng::new(mix(seed) ^ stream), *share);
    }
}

/// All that could be left out of a case.
fn parts(case: &Case) -> Vec<Part> {
    let (plan, scripts, _) = draw(case.seed, case.edition, |_| {});
    let faults = (0..plan.faults.len()).map(Part::Fault);
    let of_driver =
        |(driver, script): (usize, &Vec<Op>)| (0..script.len()).map(move |n| Part::Op(driver, n));
    faults.chain(scripts.iter().enumerate().flat_map(of_driver)).collect()
}

fn run_changed(
    case: &Case,
    lines_max: usize,
    change: impl FnOnce(&mut Plan),
    write: Option<Write<'_>>,
) -> Report {
    let (mut plan, mut scripts, mut rng) = draw(case.seed, case.edition, change);
    if let Some(write) = write {
        scripts = write(&plan);
    }
    case.reduce(&mut plan, &mut scripts);
    // The same programs and faults under other delays: a smaller case may fail only under some of them.
    if case.schedule > 0 {
        rng = Rng::new(mix(case.seed) ^ case.schedule);
    }
    let mut trace = if lines_max > 0 { Trace::keeping(lines_max) } else { Trace::default() };
    trace.note(0, || format!("{plan:?}"));
    let mut core = Core::new(plan, rng, trace);
    if core.plan.cpus.len() >= NODES_MAX {
        core.facts.count("clusters of eight nodes");
    }
    if core.plan.drift_ppm_max > 0 {
        core.facts.count("clocks that are too fast or too slow");
    }
    let mut world = World::new(core, scripts);
    world.run();
    let core = world.core;
    Report {
        seed: case.seed,
        violations: core.facts.violations,
        hash: core.trace.hash(),
        steps: core.trace.steps,
        took_us: core.now,
        counts: core.facts.counts,
        lines: core.trace.lines().map(str::to_owned).collect(),
    }
}

/// Returns how to see a failure again and how to make it small, with the end of its trace.
#[must_use]
pub fn explain(seed: u64, lines_max: usize) -> String {
    let report = run(seed, lines_max);
    format!(
        "{}\n\nseed {seed} failed:\n{}\nsee it again: cargo run --release -p helio-sim -- --seed {seed} --trace\n\
         make it small: cargo run --release -p helio-sim -- --seed {seed} --shrink\n",
        report.lines.join("\n"),
        report.violations.join("\n")
    )
}
