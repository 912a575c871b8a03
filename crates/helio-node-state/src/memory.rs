//! The memory monitor's decisions: who ends when the machine is about to run out of memory.
//!
//! The shell reads the machine ([`Event::MemoryRead`](crate::Event::MemoryRead)) while workers run
//! something; below the threshold nothing happens. Above it one worker ends, and the next only when
//! the first is gone and memory is still short:
//!
//! 1. Workers whose work can be tried again go before those whose cannot.
//! 2. Among owners, the one with the most running workers gives one.
//! 3. Of its workers the one that began last ends: it loses the least work.
//!
//! An owner's last worker is not tried again: it would only meet the same end
//! ([`DeathCause::is_final`]).

use std::collections::BTreeMap;

use helio_types::{DeathCause, DeathKind, WorkerId, mutant};

/// The memory usage of the machine, as its shell read it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MemoryUse {
    /// Bytes in use.
    pub used: u64,
    /// The machine's memory in bytes.
    pub total: u64,
    /// The part of `total` that may be in use.
    pub threshold: f64,
    /// The largest processes: number, bytes, command line.
    pub top: Vec<(u32, u64, String)>,
}

#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The worker that is being ended, until it is gone.
    victim: Option<WorkerId>,
    /// Number of workers that were ended.
    killed: u64,
}

/// A worker that runs something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Candidate {
    pub(crate) worker_id: WorkerId,
    /// The process for which the worker works.
    pub(crate) owner: WorkerId,
    pub(crate) is_retriable: bool,
    /// The begin of the candidate's work, in any unit that rises with time.
    pub(crate) began: u64,
}

/// Returns the worker that is to end, and whether another attempt makes no sense.
pub(crate) fn choose(candidates: &[Candidate]) -> Option<(WorkerId, bool)> {
    let mut groups: BTreeMap<(bool, WorkerId, u64), Vec<&Candidate>> = BTreeMap::new();
    for one in candidates {
        // A worker whose work cannot be tried again is a group of its own.
        let alone = if one.is_retriable { 0 } else { one.began + 1 };
        groups.entry((!one.is_retriable, one.owner, alone)).or_default().push(one);
    }
    let newest = |group: &[&Candidate]| group.iter().map(|one| one.began).max().unwrap_or_default();
    // The caller with the most workers is the one that fills the memory, and has others that go on.
    let (key, group) = groups.iter().min_by_key(|(key, group)| {
        (
            if mutant!("last-tries-end-first") { !key.0 } else { key.0 },
            std::cmp::Reverse(group.len()),
            std::cmp::Reverse(newest(group)),
        )
    })?;
    // The newest one loses the least work.
    let victim = group.iter().max_by_key(|one| one.began)?;
    // The only one of its caller would run into the same wall again.
    Some((victim.worker_id, key.0 || group.len() == 1))
}

impl Memory {
    /// Returns the number of workers that were ended so far.
    pub(crate) fn killed(&self) -> u64 {
        self.killed
    }

    /// Whether a worker has to end: memory is short, and the one that was ended last is gone.
    pub(crate) fn is_victim_due(
        &self,
        reading: &MemoryUse,
        is_there: impl Fn(WorkerId) -> bool,
    ) -> bool {
        let is_short = reading.used as f64 > reading.total as f64 * reading.threshold;
        // Its memory comes back only with its end: until then a second one would die for nothing.
        is_short && !self.victim.is_some_and(is_there)
    }

    /// Chooses the worker that ends, and says why. `host` is the node's, `pid` gives a worker's process.
    pub(crate) fn end_one(
        &mut self,
        reading: &MemoryUse,
        candidates: &[Candidate],
        host: &str,
        pid: impl Fn(WorkerId) -> u32,
    ) -> Option<(WorkerId, DeathCause)> {
        let (worker_id, is_final) = choose(candidates)?;
        let is_known = candidates.iter().any(|one| one.worker_id == worker_id);
        assert!(is_known, "a worker would end that runs nothing");
        assert!(self.victim != Some(worker_id), "a worker would be ended twice, and counted so");
        self.victim = Some(worker_id);
        self.killed += 1;
        let message = explain(reading, host, pid(worker_id));
        let cause = DeathCause { is_final, ..DeathCause::new(DeathKind::OutOfMemory, message) };
        Some((worker_id, cause))
    }
}

/// The message for the callers of the worker that ends: which processes use the memory, and what to change.
fn explain(memory: &MemoryUse, host: &str, pid: u32) -> String {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let part = memory.used as f64 / memory.total.max(1) as f64;
    let mut text = format!(
        "The worker process (pid {pid}) was ended because node {} ran low on memory: {:.2} GB of {:.2} GB were in \
         use ({part:.2}), more than the threshold of {:.2}. It was the one that began last for the caller with the \
         most running workers.\nThe processes that used the most:\nPID\tMEM(GB)\tCOMMAND",
        host,
        gib(memory.used),
        gib(memory.total),
        memory.threshold,
    );
    for (pid, bytes, command) in &memory.top {
        text.push_str(&format!("\n{pid}\t{:.2}\t{command}", gib(*bytes)));
    }
    text.push_str(
        "\nGive the node more memory, or run fewer at a time: ask for more CPUs a task (num_cpus), or say how much \
         it needs (memory=). max_retries lets a task be tried again. RAY_memory_usage_threshold moves the \
         threshold; RAY_memory_monitor_refresh_ms=0 switches this off. Both are read when the node starts.",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(id: u8, owner: u8, is_retriable: bool, began: u64) -> Candidate {
        let (worker_id, owner) = (WorkerId([id; 28]), WorkerId([owner; 28]));
        Candidate { worker_id, owner, is_retriable, began }
    }

    fn check(candidates: &[Candidate], expect: Option<(u8, bool)>) {
        let expect = expect.map(|(id, is_final)| (WorkerId([id; 28]), is_final));
        assert_eq!(choose(candidates), expect);
    }

    #[test]
    fn nobody_is_there_to_end() {
        check(&[], None);
    }

    #[test]
    fn the_newest_of_the_owner_with_the_most_ends() {
        let few = [one(1, 1, true, 9), one(2, 2, true, 1), one(3, 2, true, 5)];
        check(&few, Some((3, false)));
        // Of owners with as many, the one that began last.
        check(&[one(1, 1, true, 9), one(2, 2, true, 1)], Some((1, true)));
    }

    #[test]
    fn what_can_be_tried_again_goes_first() {
        let mixed = [one(1, 1, false, 9), one(2, 1, false, 8), one(3, 2, true, 1)];
        check(&mixed, Some((3, true)));
        check(&mixed[..2], Some((1, true)));
    }

    #[test]
    fn an_owners_last_worker_is_not_tried_again() {
        check(&[one(1, 1, true, 1)], Some((1, true)));
        check(&[one(1, 1, true, 1), one(2, 1, true, 2)], Some((2, false)));
    }
}
