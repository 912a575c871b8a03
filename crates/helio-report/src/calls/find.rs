//! Questions to the table: calls in blocks, the latest ones, those that failed, and counts by function.

use helio_proto::inspect::TaskPhase;
use helio_types::TaskId;

use super::call::{Call, group_of};
use super::found::{Found, Of};
use super::slots;
use super::table::{Calls, Group};
use crate::summary::{self, More, TaskSummary};

/// The names and phases of the calls that somebody looks for: blocks without them are passed over.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    names: u64,
    phases: u32,
}

/// A part of the calls, which were told of one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    table: &'a Calls,
    block: &'a slots::Block,
}

impl<'a> Block<'a> {
    /// The calls.
    pub fn calls(self) -> impl Iterator<Item = Found<'a>> {
        self.block.calls().map(move |call| Found { table: self.table, key: call.key, call })
    }

    /// No call of the block has a larger number in that column; none: who knows?
    #[must_use]
    pub fn largest(&self, column: Of) -> Option<u64> {
        match column {
            Of::Created => Some(self.block.created_ms),
            Of::Started => Some(self.block.started_us / 1000),
            Of::Ended => Some(self.block.ended_us / 1000),
            _ => None,
        }
    }

    /// No call of the block took longer, in milliseconds.
    #[must_use]
    pub fn slowest(&self) -> u64 {
        self.block.took_ms
    }

    /// Whether such calls may be in it.
    #[must_use]
    pub fn may_have(&self, wanted: Wanted) -> bool {
        self.block.names & wanted.names > 0 && self.block.phases() & wanted.phases > 0
    }
}

impl Calls {
    fn found<'a>(&'a self, call: &'a Call) -> Found<'a> {
        Found { table: self, key: call.key, call }
    }

    /// All calls.
    pub fn all(&self) -> impl Iterator<Item = Found<'_>> {
        self.all.all().map(|call| self.found(call))
    }

    /// The calls in blocks, that with the latest ones first.
    pub fn blocks(&self) -> impl Iterator<Item = Block<'_>> {
        self.all.blocks().map(move |block| Block { table: self, block })
    }

    /// The latest `most` of the calls that have failed, the latest first.
    #[must_use]
    pub fn failed(&self, most: usize) -> Vec<Found<'_>> {
        let failed = self.all.near(slots::phase_bit(TaskPhase::Failed));
        let failed = failed.filter(|call| call.phase == TaskPhase::Failed);
        let mut failed: Vec<&Call> = failed.collect();
        let last = |call: &&Call| std::cmp::Reverse((call.ended_us, call.key));
        if failed.len() > most && most > 0 {
            failed.select_nth_unstable_by_key(most - 1, last);
        }
        failed.truncate(most);
        failed.sort_unstable_by_key(last);
        failed.into_iter().map(|call| self.found(call)).collect()
    }

    /// The attempts of a call.
    pub fn of(&self, id: TaskId) -> impl Iterator<Item = Found<'_>> {
        self.all.of(id).map(|call| self.found(call))
    }

    /// Returns the number of calls of each function in each state, of those that have a row.
    #[must_use]
    pub fn groups(&self) -> Vec<Group> {
        let mut counts = self.counts.clone();
        for call in self.all_queued.iter().flat_map(|id| self.all.of(*id)) {
            let phase = self.found(call).phase();
            if phase != call.phase
                && let Some(count) = counts.get_mut(&group_of(call))
            {
                *count -= 1;
                *counts.entry(group_of(&Call { phase, ..*call })).or_default() += 1;
            }
        }
        let counts = counts.into_iter().filter(|(_, count)| *count > 0);
        counts.map(|(group, count)| self.group(group, count)).collect()
    }

    /// The entries of the tables that can belong to these groups: their names and phases, as bits.
    #[must_use]
    pub fn wanted(&self, groups: &[Group]) -> Wanted {
        let phase = |group: &Group| match group.phase {
            // Whoever sent it does not know that it waits.
            TaskPhase::WaitsForActor | TaskPhase::WaitsForWorker => {
                slots::phase_bit(group.phase) | slots::phase_bit(TaskPhase::Sent)
            }
            phase => slots::phase_bit(phase),
        };
        Wanted {
            names: groups.iter().fold(0, |all, group| all | slots::bit(group.name)),
            phases: groups.iter().fold(0, |all, group| all | phase(group)),
        }
    }

    /// Returns the number of calls of each function in each state: [`summary::tasks`].
    #[must_use]
    pub fn summary(&self) -> TaskSummary {
        let mut all: Vec<More> = self.groups().into_iter().map(|group| group.of).collect();
        all.extend(self.more());
        summary::tasks(&[], &all)
    }
}
