//! Two thousand clusters, and the same cluster twice.
//!
//! `HELIOSTAT_SIM_SEED=4711 cargo test -p helio-sim` runs one seed and prints how it went.

use std::fmt::Write;

use helio_sim::case::Case;

/// Number of seeds that every change has to pass.
const SEEDS: u64 = 2_000;
/// Number of failures that are explained; the rest is only counted.
const EXPLAINED_MAX: usize = 3;

/// OWN-1, STATE-1, STATE-2, SHM-1, LIMIT-1, WHY-1: see the crate's documentation for what a run checks.
#[test]
fn seeds_pass() {
    let one = std::env::var("HELIOSTAT_SIM_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = one.map_or(0..SEEDS, |seed: u64| seed..seed + 1);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let mut failed: Vec<u64> = std::thread::scope(|scope| {
        let part = |first: u64| seeds.clone().filter(move |seed| seed % threads == first);
        let fails = |seed: &u64| !helio_sim::run(*seed, 0).violations.is_empty();
        let parts: Vec<_> = (0..threads)
            .map(|first| scope.spawn(move || part(first).filter(fails).collect::<Vec<_>>()))
            .collect();
        parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    failed.sort_unstable();
    let mut text = String::new();
    for seed in failed.iter().take(EXPLAINED_MAX) {
        let _ = writeln!(text, "{}", helio_sim::explain(*seed, 30));
    }
    assert!(failed.is_empty(), "{text}\nseeds {failed:?} failed");
}

/// STATE-1, LAYER-1: nothing but the seed decides what happens, so a failure can be seen again.
#[test]
fn a_seed_replays_exactly() {
    for seed in 0..60 {
        let (first, second) = (helio_sim::run(seed, 0), helio_sim::run(seed, 50));
        assert_eq!((first.hash, first.steps), (second.hash, second.steps), "STATE-1: seed {seed}");
        assert_eq!(first.violations, second.violations);
    }
}

/// OWN-1: an argument whose last copy is lost before its call begins is made again. Nodes die while calls
/// wait for what lies on them, and nobody else does.
#[test]
fn arguments_are_made_again() {
    let (mut counts, mut failed) = (std::collections::BTreeMap::new(), Vec::new());
    let drawn = (0..200).map(|seed| (seed, 0));
    for (seed, schedule) in drawn.chain([(109, 5), (63, 2)]) {
        let case = Case { edition: 3, schedule, ..Case::of(seed) };
        let report = helio_sim::run_with(&case, 0, |plan| {
            plan.lose_nodes_from(seed * 3_000);
            // A method that runs could wait, through a call of its own, for a value that only another method of its
            // actor makes again: an actor that runs one call at a time has to wait for ever then.
            plan.methods_wait = false;
        });
        for (what, count) in report.counts {
            *counts.entry(what).or_insert(0) += count;
        }
        if !report.violations.is_empty() {
            failed.push((seed, schedule, report.violations));
        }
    }
    assert!(failed.is_empty(), "OWN-1: {failed:?}");
    for what in ["tasks given back", "arguments recovered", "generators run again"] {
        assert!(counts.get(what).is_some_and(|count| *count > 3), "{what}: {counts:?}");
    }
}

/// The runs are worth something: every kind of operation and of fault occurs.
#[test]
fn the_first_seeds_reach_everything() {
    let mut counts = std::collections::BTreeMap::new();
    for seed in 0..560 {
        for (what, count) in helio_sim::run(seed, 0).counts {
            *counts.entry(what).or_insert(0) += count;
        }
    }
    for what in [
        "actors",
        "actors with a strategy",
        "actors found by name",
        "actors of coroutines",
        "actors that take calls in any order",
        "actors with concurrency groups",
        "blocks",
        "calls refused for those ahead",
        "cancels",
        "cancels of one call alone",
        "changes held for want of room",
        "clocks that are too fast or too slow",
        "clusters of eight nodes",
        "damaged files found",
        "detached actors",
        "environments that could not be made",
        "errors",
        "faults: all machines suspended",
        "faults: caller",
        "faults: clock that jumps",
        "faults: connections that push back",
        "faults: control",
        "faults: damaged file",
        "faults: disk",
        "faults: disk that fails",
        "faults: drained node",
        "faults: driver",
        "faults: full disk of the head",
        "faults: hanging node",
        "faults: hanging process",
        "faults: head",
        "faults: keeper of objects",
        "faults: link of a daemon",
        "faults: link of a process",
        "faults: lost order",
        "faults: machine that joins",
        "faults: maker of an actor",
        "faults: memory",
        "faults: memory for some of them",
        "faults: message cut in the middle",
        "faults: node",
        "faults: node that stays after all",
        "faults: partition",
        "faults: slow commit",
        "faults: stopped node",
        "faults: torn control",
        "faults: torn node",
        "faults: torn process",
        "faults: worker",
        "groups",
        "items",
        "keys deleted",
        "keys put once",
        "kills",
        "lessees gone",
        "lists of jobs",
        "lists of keys",
        "looks at the demand",
        "lost on a disk that fails",
        "messages taken in part",
        "method calls",
        "nodes declared dead",
        "nodes that left",
        "nodes told to stay",
        "parts of a GPU",
        "puts",
        "questions why",
        "reads given up",
        "restarts at rest",
        "revocations",
        "sessions that followed another",
        "spills",
        "strategies: SPREAD",
        "strategies: a label",
        "strategies: another node",
        "strategies: labels in turn",
        "strategies: not that label",
        "strategies: one's own node",
        "strategies: rather another node",
        "strategies: rather one's own node",
        "tasks",
        "values",
        "waits",
        "whole GPUs",
        "workers that ran their last task",
        "workers that stayed",
        "written to disk",
    ] {
        assert!(
            counts.get(what).is_some_and(|count| *count > 0),
            "no run has any {what}: {counts:?}"
        );
    }
}

/// OWN-1: a machine that loses its power closes no connection, and where nothing is under way nobody notices: who waits for
/// what its processes own is told when it is declared dead. `make chaos` found that.
#[test]
fn who_waits_for_a_machine_without_power_is_told_of_its_death() {
    for seed in 0..40 {
        let report = helio_sim::run_with(&Case::of(seed), 0, |plan| {
            plan.lose_power(500_000 + seed * 40_000);
        });
        assert!(report.violations.is_empty(), "seed {seed}: {:?}", report.violations);
    }
}
