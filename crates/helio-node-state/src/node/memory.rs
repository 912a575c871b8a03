//! Readings of the machine's memory: the workers that could end, and the end of one of them.

use helio_types::WorkerId;

use crate::Node;
use crate::memory::{Candidate, MemoryUse};
use crate::pool::{Use, Worker};

impl Node {
    /// Whether any worker runs something that the memory monitor could end: without one there is no need
    /// to look at the memory.
    #[must_use]
    pub fn has_work(&self) -> bool {
        let works = |usage: Use| matches!(usage, Use::Leased(_) | Use::Actor(_));
        self.pool.workers.values().any(|worker| works(worker.usage))
    }

    pub(super) fn on_memory_read(&mut self, reading: &MemoryUse) {
        let workers = &self.pool.workers;
        if !self.memory.is_victim_due(reading, |victim| workers.contains_key(&victim)) {
            return;
        }
        let candidates = self.candidates();
        let host = &self.ctx.setup().address.host;
        let pid = |worker_id: WorkerId| workers.get(&worker_id).map_or(0, Worker::pid);
        if let Some((worker_id, cause)) = self.memory.end_one(reading, &candidates, host, pid) {
            self.kill_worker(worker_id, Some(cause));
        }
    }

    fn candidates(&self) -> Vec<Candidate> {
        let workers = self.pool.workers.iter().filter_map(|(worker_id, worker)| {
            let (owner, is_retriable, began) = match worker.usage {
                Use::Leased(lease_id) => {
                    let lease = self.leases.get(&lease_id)?;
                    let owner = self.clients.get(lease.lessee?)?.worker_id();
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
}
