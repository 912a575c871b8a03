//! Readings of the machine: of its memory, by which workers may end, and of what it uses in all.

use helio_proto::inspect::MachineUse;

use super::Node;
use crate::memory::{Candidate, MemoryUse};
use crate::pool::Use;

impl Node {
    /// Whether any worker runs something that the memory monitor could end: without one there is no need
    /// to look at the memory.
    #[must_use]
    pub fn has_work(&self) -> bool {
        let works = |usage: Use| matches!(usage, Use::Leased(_) | Use::Actor(_));
        self.pool.iter().any(|(_, worker)| works(worker.usage()))
    }

    pub(super) fn on_memory_read(&mut self, reading: &MemoryUse) {
        let pool = &self.pool;
        if !self.memory.is_victim_due(reading, |victim| pool.contains(victim)) {
            return;
        }
        let candidates = self.candidates();
        let host = &self.ctx.setup().address.host;
        if let Some((worker_id, cause)) =
            self.memory.end_one(reading, &candidates, host, |id| pool.pid(id))
        {
            self.kill_worker(worker_id, Some(cause));
        }
    }

    pub(super) fn on_machine_read(&mut self, reading: MachineUse) {
        self.machine = reading;
    }

    fn candidates(&self) -> Vec<Candidate> {
        let workers = self.pool.iter().filter_map(|(worker_id, worker)| {
            let (owner, is_retriable, began) = match worker.usage() {
                Use::Leased(lease_id) => {
                    let lease = self.leases.get(lease_id)?;
                    let owner = self.clients.get(lease.lessee()?)?.worker_id();
                    (owner, lease.is_retriable(), worker.began())
                }
                Use::Actor(key) => {
                    let (owner, is_retriable) = self.actors.owner_and_retriable(key)?;
                    (owner, is_retriable, worker.began())
                }
                Use::Starting | Use::Idle { .. } | Use::Ending => return None,
            };
            Some(Candidate { worker_id, owner, is_retriable, began })
        });
        workers.collect()
    }
}
