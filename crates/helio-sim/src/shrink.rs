//! Makes a failing case small: leaves out faults and operations as long as a run still fails in the same
//! way (delta debugging: Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002).
//!
//! A part that is left out shifts the moments of all that follows, so each smaller case is tried under
//! several schedules.

use crate::case::{Case, Part};
use crate::{parts, run_case};

/// Number of schedules under which a smaller case is tried.
const SCHEDULES: u64 = 12;

/// The smallest case found that fails as `case` does, within `runs_max` runs; `None` when it does not fail.
#[must_use]
pub fn shrink(case: &Case, mut runs_max: u64) -> Option<Case> {
    let wanted = symptom(run_case(case, 0).violations.first()?);
    let mut best = case.clone();
    let mut kept: Vec<Part> =
        parts(case).into_iter().filter(|part| !case.without.0.contains(part)).collect();
    let mut size = kept.len().div_ceil(2);
    while size > 0 && runs_max > 0 {
        let mut start = 0;
        let mut is_smaller = false;
        while start < kept.len() && runs_max > 0 {
            let end = (start + size).min(kept.len());
            let mut tried = best.clone();
            tried.without.0.extend(&kept[start..end]);
            match fails_so(&tried, &wanted, &mut runs_max) {
                Some(failing) => {
                    best = failing;
                    kept.drain(start..end);
                    is_smaller = true;
                }
                None => start = end,
            }
        }
        // A part that could not go before may go now.
        size = if size == 1 && is_smaller { 1 } else { size / 2 };
    }
    Some(best)
}

/// The case under a schedule with which it fails in the wanted way.
fn fails_so(case: &Case, wanted: &str, runs_left: &mut u64) -> Option<Case> {
    let schedules = std::iter::once(case.schedule).chain(1..=SCHEDULES);
    for schedule in schedules {
        *runs_left = runs_left.checked_sub(1)?;
        let tried = Case { schedule, ..case.clone() };
        let found = run_case(&tried, 0).violations;
        if found.first().is_some_and(|text| symptom(text) == wanted) {
            return Some(tried);
        }
    }
    None
}

/// Returns the words of a violation that do not differ from run to run.
fn symptom(violation: &str) -> String {
    let is_word = |word: &&str| !word.contains(|letter: char| letter.is_ascii_digit());
    let words = violation.split_whitespace().filter(is_word);
    words.take(8).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symptoms_of_one_kind_are_equal() {
        let one = symptom("OWN-1: p12 reads 19cd..0100: WorkerCrashed without a cause: pid 7");
        let other = symptom("OWN-1: p3 reads 77aa..0200: WorkerCrashed without a cause: pid 19");
        assert_eq!(one, other);
        assert_ne!(one, symptom("OWN-1: p3 reads 77aa..0200: OwnerDied without a cause: pid 19"));
    }
}
