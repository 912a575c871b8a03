//! Runs seeds from the command line.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Parser;
use helio_sim::case::{Case, EDITION, Without};
use helio_sim::shrink::shrink;

/// Runs simulated clusters; a failure prints its seed.
#[derive(Parser)]
struct Options {
    /// Run this one seed.
    #[arg(long)]
    seed: Option<u64>,
    /// As it was drawn in that edition.
    #[arg(long, default_value_t = EDITION)]
    edition: u32,
    /// Print what happens in it.
    #[arg(long)]
    trace: bool,
    /// Under this schedule: other delays and other victims of the same faults.
    #[arg(long, default_value_t = 0)]
    schedule: u64,
    /// Leave these out, such as `f0,1.3-9`: the first fault and operations 3 to 9 of driver 1.
    #[arg(long, default_value_t)]
    without: Without,
    /// Look for the smallest part of it that fails in the same way.
    #[arg(long)]
    shrink: bool,
    /// The most runs that shrinking may take.
    #[arg(long, default_value_t = 5_000)]
    shrink_runs: u64,
    /// Run so many seeds.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Go on after a failure.
    #[arg(long)]
    keep_going: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    if let Some(seed) = options.seed {
        let (edition, schedule) = (options.edition, options.schedule);
        let case = Case { seed, edition, schedule, without: options.without };
        if options.shrink {
            return small(&case, options.shrink_runs);
        }
        return one(&case, options.trace);
    }
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    let (mut steps, mut failed, mut longest) = (0, 0u64, (0, 0));
    for seed in options.first..options.first + options.seeds {
        let report = helio_sim::run(seed, 0);
        steps += report.steps;
        longest = longest.max((report.steps, seed));
        for (what, count) in report.counts {
            *counts.entry(what).or_default() += count;
        }
        if report.violations.is_empty() {
            continue;
        }
        failed += 1;
        println!("seed {seed}: {}", report.violations.join("\n  "));
        if !options.keep_going {
            println!("{}", helio_sim::explain(seed, 40));
            return ExitCode::FAILURE;
        }
    }
    println!("the longest run, seed {}, had {} steps", longest.1, longest.0);
    println!("{} seeds, {failed} failed, {steps} steps: {counts:?}", options.seeds);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Makes a failing case small and says how to run what is left.
fn small(case: &Case, runs_max: u64) -> ExitCode {
    let Some(smallest) = shrink(case, runs_max) else {
        println!("{case} does not fail");
        return ExitCode::FAILURE;
    };
    let report = helio_sim::run_case(&smallest, 0);
    for violation in &report.violations {
        println!("VIOLATION {violation}");
    }
    println!("{} steps are left; see them:", report.steps);
    println!("cargo run --release -p helio-sim -- {smallest} --trace");
    ExitCode::SUCCESS
}

fn one(case: &Case, trace: bool) -> ExitCode {
    let report = helio_sim::run_case(case, if trace { 1_000_000 } else { 0 });
    for line in &report.lines {
        println!("{line}");
    }
    println!(
        "{case}: {} steps, {} ms, trace {:016x}",
        report.steps,
        report.took_us / 1000,
        report.hash
    );
    println!("{:?}", report.counts);
    for violation in &report.violations {
        println!("VIOLATION {violation}");
    }
    if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
