//! Tools to write scenarios with.

use crate::case::Case;
use crate::plan::Plan;
use crate::program::Author;
use crate::{Report, run_case, run_play};

/// The result of a scenario: success, or the first thing that was wrong.
pub type Played = Result<(), String>;

/// A cluster in which nothing breaks by itself.
pub(super) fn calm(plan: &mut Plan, cpus: &[u32]) {
    (plan.scene, plan.cpus) = (None, cpus.to_vec());
    (plan.n_drivers, plan.n_ops, plan.start_failures) = (1, 0, 0);
    (plan.has_kills, plan.has_groups) = (false, false);
    (plan.store_size, plan.slots, plan.delay_us_max) = (128 << 10, 2, 400);
    (plan.skew_ms_max, plan.drift_ppm_max, plan.idle_max, plan.gpus) = (0, 0, 2, 0);
    (plan.kill_us_max, plan.reach_us_max) = (500, 0);
    plan.faults.clear();
}

/// Plays the same under several seeds; nothing may be wrong, and each of these things happens in one of them at least.
pub(super) fn play(
    seeds: u64,
    change: impl Fn(&mut Plan, u64),
    write: impl Fn(&mut Author<'_>),
    happens: &[&'static str],
) -> Played {
    let mut seen: Vec<&str> = Vec::new();
    for seed in 0..seeds {
        let report: Report = run_play(seed, |plan| change(plan, seed), &write);
        report.is_right()?;
        seen.extend(happens.iter().filter(|what| report.count(what) > 0));
    }
    match happens.iter().find(|what| !seen.contains(what)) {
        None => Ok(()),
        Some(what) => Err(format!("there are no {what}")),
    }
}

impl Report {
    /// Returns the number of times that something happened.
    pub(super) fn count(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or_default()
    }

    /// Whether the run went right; else what was wrong.
    pub(super) fn is_right(&self) -> Result<&Self, String> {
        match self.violations.first() {
            None => Ok(self),
            Some(first) => Err(format!("{first} (seed {})", self.seed)),
        }
    }

    /// Requires that something happened at least once.
    pub(super) fn has(&self, what: &str) -> Played {
        match self.count(what) {
            0 => Err(format!("seed {}: there are no {what}: {:?}", self.seed, self.counts)),
            _ => Ok(()),
        }
    }
}

/// Runs a case of the first edition, with which nothing may be wrong.
pub(super) fn report_of(seed: u64, without: &str) -> Result<Report, String> {
    let without = without.parse()?;
    let report = run_case(&Case { without, edition: 1, ..Case::of(seed) }, 0);
    report.is_right()?;
    Ok(report)
}

/// Runs a case of the first edition; nothing may be wrong with it.
pub(super) fn check(seed: u64, without: &str) -> Played {
    report_of(seed, without).map(drop)
}

/// Runs a seed as that edition draws it; nothing may be wrong with it.
pub(super) fn check_edition(edition: u32, seed: u64) -> Played {
    run_case(&Case { edition, ..Case::of(seed) }, 0).is_right().map(drop)
}
