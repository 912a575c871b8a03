//! Ids that this process mints. Every id of a session is unique although no two processes talk about it.

use helio_types::id::PUT_INDEX_BASE;
use helio_types::{ActorId, JobId, ObjectId, TaskId, WorkerId};

/// Mints ids: a counter that starts at a place of its own in each process.
#[derive(Debug)]
pub(crate) struct Ids {
    worker: WorkerId,
    seed: u64,
    next: u64,
}

impl Ids {
    pub(crate) fn new(worker: WorkerId) -> Self {
        let seed = seed_of(worker);
        Self { worker, seed, next: seed }
    }

    /// A number that no other process of the session mints.
    pub(crate) fn unique(&mut self) -> u64 {
        self.next = self.next.wrapping_add(1);
        // A bijection, so that numbers never repeat, whose outputs differ in all bytes.
        let mut x = self.next.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x ^= x >> 31;
        x.wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    /// A task: the stand-in for its actor part is this process.
    pub(crate) fn task(&mut self, job: JobId) -> TaskId {
        let mut process = [0; 12];
        process.copy_from_slice(&self.worker.0[..12]);
        TaskId::new(self.unique(), ActorId::new(process, job))
    }

    /// A method call.
    pub(crate) fn method(&mut self, actor: ActorId) -> TaskId {
        TaskId::new(self.unique() ^ self.seed, actor)
    }

    /// A `put` object.
    pub(crate) fn put(&mut self, job: JobId) -> ObjectId {
        self.task(job).object(PUT_INDEX_BASE)
    }

    /// An actor.
    pub(crate) fn actor(&mut self, job: JobId) -> ActorId {
        let mut unique = [0; 12];
        unique[..8].copy_from_slice(&self.unique().to_le_bytes());
        unique[8..].copy_from_slice(&self.worker.0[..4]);
        ActorId::new(unique, job)
    }
}

/// Returns the start of a process's counter: ids of several processes must differ although all count
/// by one. Some bytes of a worker's id may be the same for all workers of a node, so every byte
/// counts.
fn seed_of(worker: WorkerId) -> u64 {
    let mut sum = 0u64;
    for chunk in worker.0.chunks(4) {
        let mut word = [0; 4];
        word.copy_from_slice(chunk);
        sum = (sum.rotate_left(27) ^ u64::from(u32::from_le_bytes(word)))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    sum ^ (sum >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_whose_ids_differ_in_few_bytes_count_from_far_apart() {
        let mut seeds: Vec<u64> = (0..28)
            .flat_map(|place| (0..=255u8).map(move |byte| (place, byte)))
            .map(|(place, byte)| {
                let mut id = [7; 28];
                id[place] = byte;
                seed_of(WorkerId(id))
            })
            .collect();
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 28 * 255 + 1);
    }
}
