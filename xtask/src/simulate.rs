//! `simulate`: many seeds of the simulator, side by side, for so many seeds or minutes.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::sh::{self, Outcome, command, root};

/// Number of seeds that a process runs before it is asked how long it took.
const BATCH: u64 = 500;

struct Options {
    seeds: u64,
    time_max: Option<Duration>,
    jobs: usize,
    first: u64,
}

const USAGE: &str =
    "usage: cargo xtask simulate [--seeds N] [--minutes M] [--jobs J] [--first SEED]";

fn read(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options { seeds: u64::MAX, time_max: None, jobs: 2, first: 0 };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let value = words.next().and_then(|text| text.parse::<u64>().ok());
        let value = value.ok_or_else(|| format!("{word} needs a whole number\n{USAGE}"))?;
        match word.as_str() {
            "--seeds" => options.seeds = value,
            "--minutes" => options.time_max = Some(Duration::from_secs(value * 60)),
            "--jobs" => options.jobs = value.max(1) as usize,
            "--first" => options.first = value,
            _ => return Err(USAGE.to_owned()),
        }
    }
    if options.seeds == u64::MAX && options.time_max.is_none() {
        return Err(format!("say how many seeds or minutes\n{USAGE}"));
    }
    Ok(options)
}

/// Runs seeds and prints each failure with the commands that replay it and make it small.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let options = read(arguments)?;
    sh::run(command("cargo").args(["build", "--release", "--quiet", "-p", "helio-sim"]))?;
    let program = root().join("target/release/helio-sim");
    let began = Instant::now();
    let is_late = || options.time_max.is_some_and(|max| began.elapsed() >= max);
    let (mut next, end) = (options.first, options.first.saturating_add(options.seeds));
    let mut failed = Vec::new();
    while next < end && !is_late() {
        let mut batch = Vec::new();
        while batch.len() < options.jobs && next < end {
            let seeds = BATCH.min(end - next);
            let mut child = command(&program);
            let asked = ["--first", &next.to_string(), "--seeds", &seeds.to_string()];
            child.args(asked).arg("--keep-going").stdout(Stdio::piped());
            let child =
                child.spawn().map_err(|error| format!("cannot start helio-sim: {error}"))?;
            batch.push(child);
            next += seeds;
        }
        // The time is looked at between batches only, so that each seed that was begun is told.
        for child in batch {
            let output = child.wait_with_output().map_err(|error| error.to_string())?;
            let text = String::from_utf8_lossy(&output.stdout);
            let seeds = text.lines().filter_map(|line| line.strip_prefix("seed "));
            failed.extend(seeds.map(str::to_owned));
            // The simulator itself ended; with failed seeds it ends so, too, and they are told below.
            if !output.status.success() && failed.is_empty() {
                return Err(format!("helio-sim ended with {}:\n{text}", output.status));
            }
        }
        let (done, seconds) = (next - options.first, began.elapsed().as_secs_f64());
        eprint!(
            "\r{done} histories, {:.0} a second, {} failed ",
            done as f64 / seconds,
            failed.len()
        );
    }
    eprintln!();
    for failure in &failed {
        let seed = failure.split(':').next().unwrap_or_default();
        println!("seed {failure}");
        println!("  see it again:  cargo run --release -p helio-sim -- --seed {seed} --trace");
        println!("  make it small: cargo run --release -p helio-sim -- --seed {seed} --shrink");
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("{} histories failed", failed.len())) }
}
