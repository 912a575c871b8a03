//! The record of a cluster that can be looked at when the cluster is gone: batches of changes.
//!
//! A reader puts the batches of all files together in their order; what a later one says of a thing takes the place of
//! what an earlier one said. Each file begins with all there is but calls that are over, so that older files can be
//! removed.

use crate::control::{ActorInfo, JobInfo, NodeInfo};
use crate::group::GroupInfo;
use crate::inspect::Answer;
use crate::wire::messages;

messages! {
    /// The changes since the batch before.
    pub struct Batch {
        /// Milliseconds since 1970.
        1 at_ms: u64,
        2 actors: Vec<ActorInfo>,
        3 jobs: Vec<JobInfo>,
        4 nodes: Vec<NodeInfo>,
        5 groups: Vec<GroupInfo>,
        6 entries: Vec<Entry>,
        /// Answers of processes, with rows of calls.
        7 calls: Vec<Answer>,
        /// The batch has all calls that are not over.
        8 is_whole: bool,
        /// Answers of daemons, with rows of workers.
        9 workers: Vec<Answer>,
        /// In so many answers of processes there were more calls than rows.
        10 gaps: u32,
    }
    /// An entry of the key-value table.
    pub struct Entry {
        1 namespace: String,
        2 key: Vec<u8>,
        3 value: Vec<u8>,
        /// The entry was removed.
        4 is_gone: bool,
    }
}
