//! Counts of calls by what they are called and how they stand.
//!
//! **LIMIT-1** [`KINDS_MAX`] kinds are told apart; what comes beyond is counted together.

use std::collections::BTreeMap;

use helio_types::ActorId;

use crate::inspect::{TaskCount, TaskPhase, TaskRow};

/// Number of kinds of calls that are told apart.
pub const KINDS_MAX: usize = 1_000;

/// The number of calls by name and state.
#[derive(Debug, Default)]
pub struct Tally {
    counts: BTreeMap<(ActorId, TaskPhase), BTreeMap<String, u64>>,
    kinds: usize,
    sum: u64,
}

impl Tally {
    /// Counts calls of that name.
    pub fn add(&mut self, name: &str, actor_id: ActorId, phase: TaskPhase, count: u64) {
        self.sum += count;
        // Looked up by the borrowed name first: nearly every call is of a known kind, and an entry would copy the
        // name.
        if let Some(known) = self.counts.get_mut(&(actor_id, phase))
            && let Some(known) = known.get_mut(name)
        {
            *known += count;
            return;
        }
        // Programs may name each call anew; what is beyond the bound is counted under no name, so that sums stay
        // right.
        let is_full = self.kinds >= KINDS_MAX;
        let (name, actor_id) = if is_full { ("", ActorId::NIL) } else { (name, actor_id) };
        self.kinds += usize::from(!is_full);
        *self.counts.entry((actor_id, phase)).or_default().entry(name.to_owned()).or_default() +=
            count;
    }

    /// Counts a call of which there will be no row. Hearsay is not counted: the process that made the call counts it.
    pub fn add_row(&mut self, row: &TaskRow) {
        if !row.is_hearsay {
            self.add(&row.name, row.actor_id, row.phase, 1);
        }
    }

    /// Adds what another process has counted.
    pub fn add_all(&mut self, counts: &[TaskCount]) {
        for one in counts {
            self.add(&one.name, one.actor_id, one.phase, one.count);
        }
    }

    /// Returns the number of calls.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Returns the counts as they are sent.
    #[must_use]
    pub fn counts(&self) -> Vec<TaskCount> {
        let of_kind =
            |((actor_id, phase), names): (&(ActorId, TaskPhase), &BTreeMap<String, u64>)| {
                let (actor_id, phase) = (*actor_id, *phase);
                let one = |(name, count): (&String, &u64)| TaskCount {
                    name: name.clone(),
                    actor_id,
                    phase,
                    count: *count,
                };
                names.iter().map(one).collect::<Vec<_>>()
            };
        self.counts.iter().flat_map(of_kind).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_kinds_are_counted_together_and_none_is_lost() {
        let mut tally = Tally::default();
        for n in 0..2 * KINDS_MAX {
            tally.add(&format!("f{n}"), ActorId::NIL, TaskPhase::Finished, 2);
        }
        tally.add("f0", ActorId::NIL, TaskPhase::Finished, 1);
        let counts = tally.counts();
        assert!(counts.len() <= KINDS_MAX + 1, "LIMIT-1");
        assert_eq!(counts.iter().map(|one| one.count).sum::<u64>(), tally.sum());
        assert_eq!(tally.sum(), 4 * KINDS_MAX as u64 + 1);
        let of = |name: &str| counts.iter().find(|one| one.name == name).map(|one| one.count);
        assert_eq!((of("f0"), of("")), (Some(3), Some(2 * KINDS_MAX as u64)));
        let mut again = Tally::default();
        again.add_all(&counts);
        assert_eq!(again.sum(), tally.sum());
    }
}
