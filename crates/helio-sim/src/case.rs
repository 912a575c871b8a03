//! A run that can be named: a seed, less some of its faults and operations, under one of many schedules.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::ops::Op;
use crate::plan::Plan;

/// A fault or an operation that a case leaves out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    /// The fault of that place in the seed's plan.
    Fault(usize),
    /// The operation of that place in the program of that driver.
    Op(usize, usize),
}

/// The newest edition of the draw: each edition draws more from a seed than the one before, and a case of an older one
/// stays as it was.
pub const EDITION: u32 = 11;

/// The seed of a run, the faults and operations left out of it, and its schedule.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Case {
    /// Decides the cluster, the programs and the faults.
    pub seed: u64,
    /// The edition of the draw: [`EDITION`], or an older one.
    pub edition: u32,
    /// Decides, with the seed, how long everything takes and whom faults meet.
    pub schedule: u64,
    /// The parts that are left out.
    pub without: Without,
}

/// The parts that a case leaves out; as text such as `f0,f2,1.3-9`: faults 0 and 2, and the operations 3 to 9 of driver
/// 1.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Without(pub BTreeSet<Part>);

impl Case {
    /// The whole run of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        Self { seed, edition: EDITION, ..Self::default() }
    }

    /// Leaves out of a plan and of programs what this case is without.
    pub(crate) fn reduce(&self, plan: &mut Plan, scripts: &mut [Vec<Op>]) {
        let Without(parts) = &self.without;
        // Places are those of the whole plan, and stay the same whatever else is left out.
        let mut place = 0..;
        plan.faults.retain(|_| !place.next().is_some_and(|n| parts.contains(&Part::Fault(n))));
        for (driver, script) in scripts.iter_mut().enumerate() {
            let mut place = 0..;
            script.retain(|_| !place.next().is_some_and(|n| parts.contains(&Part::Op(driver, n))));
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--seed {}", self.seed)?;
        if self.edition != EDITION {
            write!(f, " --edition {}", self.edition)?;
        }
        if self.schedule > 0 {
            write!(f, " --schedule {}", self.schedule)?;
        }
        if !self.without.0.is_empty() {
            write!(f, " --without {}", self.without)?;
        }
        Ok(())
    }
}

impl fmt::Display for Without {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words: Vec<String> = Vec::new();
        let mut run: Option<(usize, usize, usize)> = None;
        let close = |run: Option<(usize, usize, usize)>, words: &mut Vec<String>| match run {
            Some((driver, first, last)) if first == last => words.push(format!("{driver}.{first}")),
            Some((driver, first, last)) => words.push(format!("{driver}.{first}-{last}")),
            None => {}
        };
        for part in &self.0 {
            match (*part, &mut run) {
                (Part::Fault(place), _) => words.push(format!("f{place}")),
                (Part::Op(driver, place), Some((of, _, last)))
                    if driver == *of && place == *last + 1 =>
                {
                    *last = place;
                }
                (Part::Op(driver, place), run) => {
                    close(run.take(), &mut words);
                    *run = Some((driver, place, place));
                }
            }
        }
        close(run, &mut words);
        f.write_str(&words.join(","))
    }
}

impl FromStr for Without {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = BTreeSet::new();
        for word in text.split(',').filter(|word| !word.is_empty()) {
            let wrong =
                || format!("`{word}` is neither a fault (f3) nor operations (0.4 or 0.4-9)");
            let number = |digits: &str| digits.parse::<usize>().map_err(|_| wrong());
            if let Some(place) = word.strip_prefix('f') {
                parts.insert(Part::Fault(number(place)?));
                continue;
            }
            let (driver, places) = word.split_once('.').ok_or_else(wrong)?;
            let (first, last) = places.split_once('-').unwrap_or((places, places));
            let driver = number(driver)?;
            parts.extend((number(first)?..=number(last)?).map(|place| Part::Op(driver, place)));
        }
        Ok(Self(parts))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_reads_back_as_it_was_written() {
        for text in ["", "f0", "f0,f2,1.3-9", "0.0,0.2-3,1.0", "f1,0.7"] {
            let without: Without = text.parse().unwrap();
            assert_eq!(without.to_string(), text);
        }
        for text in ["x", "f", "1", "1.x", "1.2-"] {
            assert!(text.parse::<Without>().unwrap_err().contains(text));
        }
    }
}
