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

use helio_types::{DeathCause, DeathKind, WorkerId};

use crate::Node;
use crate::pool::Use;

/// What the machine uses, as its shell read it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MemoryUse {
    /// Bytes in use.
    pub used: u64,
    /// Bytes that there are.
    pub total: u64,
    /// The part of `total` that may be in use.
    pub threshold: f64,
    /// The largest processes: number, bytes, command line.
    pub top: Vec<(u32, u64, String)>,
}

#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Who is being ended, until it is gone.
    victim: Option<WorkerId>,
    /// How many were ended.
    pub(crate) killed: u64,
}

/// A worker that runs something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Candidate {
    pub(crate) worker_id: WorkerId,
    /// Whose work it does.
    pub(crate) owner: WorkerId,
    pub(crate) is_retriable: bool,
    /// When it began, in any order that rises with time.
    pub(crate) began: u64,
}

/// Who is to end, and whether another attempt makes no sense.
pub(crate) fn choose(candidates: &[Candidate]) -> Option<(WorkerId, bool)> {
    let mut groups: BTreeMap<(bool, WorkerId, u64), Vec<&Candidate>> = BTreeMap::new();
    for one in candidates {
        // What cannot be tried again is a group of its own, each.
        let alone = if one.is_retriable { 0 } else { one.began + 1 };
        groups.entry((!one.is_retriable, one.owner, alone)).or_default().push(one);
    }
    let newest = |group: &[&Candidate]| group.iter().map(|one| one.began).max().unwrap_or_default();
    let (key, group) = groups.iter().min_by_key(|(key, group)| {
        (key.0, std::cmp::Reverse(group.len()), std::cmp::Reverse(newest(group)))
    })?;
    let victim = group.iter().max_by_key(|one| one.began)?;
    Some((victim.worker_id, key.0 || group.len() == 1))
}

impl Node {
    /// Whether any worker runs something that the memory monitor could end: without one there is no need
    /// to look at the memory.
    #[must_use]
    pub fn has_work(&self) -> bool {
        let works = |usage: Use| matches!(usage, Use::Leased(_) | Use::Actor(_));
        self.pool.workers.values().any(|worker| works(worker.usage))
    }

    pub(crate) fn memory_read(&mut self, memory: &MemoryUse) {
        if memory.used as f64 <= memory.total as f64 * memory.threshold {
            return;
        }
        if self.memory.victim.is_some_and(|victim| self.pool.workers.contains_key(&victim)) {
            return;
        }
        let candidates = self.candidates();
        let Some((worker_id, is_final)) = choose(&candidates) else { return };
        let message = self.out_of_memory(memory, worker_id);
        self.memory.victim = Some(worker_id);
        self.memory.killed += 1;
        let cause = DeathCause { is_final, ..DeathCause::new(DeathKind::OutOfMemory, message) };
        self.kill_worker(worker_id, Some(cause));
    }

    fn candidates(&self) -> Vec<Candidate> {
        let workers = self.pool.workers.iter().filter_map(|(worker_id, worker)| {
            let (owner, is_retriable, began) = match worker.usage {
                Use::Leased(lease_id) => {
                    let lease = self.leases.get(&lease_id)?;
                    let owner = self.clients.get(lease.lessee?)?.worker_id;
                    (owner, lease.is_retriable, worker.began())
                }
                Use::Actor(key) => {
                    let (owner, is_retriable) = self.actors.owner_and_retriable(key)?;
                    (owner, is_retriable, worker.began())
                }
                Use::Starting | Use::Idle { .. } | Use::Ending => return None,
            };
            Some(Candidate { worker_id: *worker_id, owner, is_retriable, began })
        });
        workers.collect()
    }

    /// What is told to who called it: who used what, and what to change.
    fn out_of_memory(&self, memory: &MemoryUse, worker_id: WorkerId) -> String {
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        let pid = self.pool.workers.get(&worker_id).map_or(0, crate::pool::Worker::pid);
        let part = memory.used as f64 / memory.total.max(1) as f64;
        let mut text = format!(
            "The worker process (pid {pid}) was ended because node {} ran low on memory: {:.2} GB of {:.2} GB were in \
             use ({part:.2}), more than the threshold of {:.2}. It was the one that began last for the caller with the \
             most running workers.\nThe processes that used the most:\nPID\tMEM(GB)\tCOMMAND",
            self.setup.address.host,
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
