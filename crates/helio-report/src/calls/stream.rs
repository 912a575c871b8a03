//! The calls of the task stream: what runs, and the latest of what is over.

use std::collections::BinaryHeap;

use helio_proto::inspect::TaskPhase;
use helio_types::JobId;

use super::call::{Call, Key};
use super::found::Found;
use super::slots;
use super::table::Calls;

/// The calls of a task stream, those that began first before the others.
#[derive(Debug, Default)]
pub struct Stream<'a> {
    /// The calls.
    pub calls: Vec<Found<'a>>,
    /// Earlier ones are left out.
    pub is_cut: bool,
    /// Number of calls of the table that were looked at.
    pub looked_at: usize,
}

/// The rank by which calls are left out: what began first is first to be left out, but what runs is
/// left out last.
type Place = (bool, u64, Key);

fn place(call: &Call) -> Place {
    (call.ended_us == 0, call.started_us, call.key)
}

fn found_of<'a>(table: &'a Calls, call: &'a Call) -> Found<'a> {
    Found { table, key: call.key, call }
}

impl Calls {
    /// The calls that run, and those that are over since a moment, in microseconds since 1970, of one job or of all:
    /// `most` of them. Of a million calls those blocks are looked at in which there are some of these.
    #[must_use]
    pub fn stream(&self, since_us: u64, job: Option<JobId>, most: usize) -> Stream<'_> {
        let runs =
            |call: &Call| call.ended_us == 0 && found_of(self, call).phase() == TaskPhase::Sent;
        let is_seen = |call: &Call| {
            call.started_us > 0
                && (call.ended_us >= since_us.max(1) || runs(call))
                && job.is_none_or(|job| *self.jobs.get(call.job) == Some(job))
        };
        // The `most` latest, the first of them on top.
        let mut kept: BinaryHeap<std::cmp::Reverse<(Place, usize)>> = BinaryHeap::new();
        let mut found: Vec<&Call> = Vec::new();
        let (mut is_cut, mut looked_at) = (false, 0);
        for block in self.all.blocks() {
            let has_running = block.phases() & slots::phase_bit(TaskPhase::Sent) > 0;
            let first = kept.peek().filter(|_| kept.len() >= most).map(|first| first.0.0);
            let is_behind = first.is_some_and(|(_, started_us, _)| block.started_us < started_us);
            if !has_running && (block.ended_us < since_us || most == 0 || is_behind) {
                is_cut |= block.ended_us >= since_us;
                continue;
            }
            for call in block.calls() {
                looked_at += 1;
                if !is_seen(call) {
                    continue;
                }
                let place = place(call);
                if kept.len() < most {
                    kept.push(std::cmp::Reverse((place, found.len())));
                    found.push(call);
                    continue;
                }
                is_cut = true;
                if let Some(mut first) = kept.peek_mut()
                    && place > first.0.0
                {
                    let slot = first.0.1;
                    found[slot] = call;
                    *first = std::cmp::Reverse((place, slot));
                }
            }
        }
        found.sort_unstable_by_key(|call| (call.started_us, call.key));
        let calls = found.into_iter().map(|call| found_of(self, call)).collect();
        Stream { calls, is_cut, looked_at }
    }
}
