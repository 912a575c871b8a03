//! The record of a cluster that can be looked at when the cluster is gone: batches of changes.
//!
//! A reader puts the batches of all files together in their order; what a later one says of a thing takes the place of
//! what an earlier one said. Each file begins with all there is but calls that are over, so that older files can be
//! removed.

use prost::DecodeError;

use crate::columns;
use crate::control::{ActorInfo, JobInfo, NodeInfo};
use crate::group::GroupInfo;
use crate::inspect::Answer;
use crate::wire::{messages, wrong};

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
        /// Number of answers of processes in which there were more calls than rows.
        10 gaps: u32,
        /// The rows of `calls`, by [`Batch::pack`], and how many each answer had.
        11 rows: Vec<u8>,
        12 row_counts: Vec<u32>,
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

impl Batch {
    /// Puts the rows of calls into columns: what is left to be compressed is a tenth.
    ///
    /// # Errors
    /// When a row cannot be written so, see [`columns::pack`].
    pub fn pack(&mut self) -> Result<(), DecodeError> {
        self.rows = columns::pack(self.calls.iter().flat_map(|answer| &answer.tasks))?;
        let counts = self.calls.iter_mut().map(|answer| std::mem::take(&mut answer.tasks).len());
        self.row_counts = counts.map(|count| count as u32).collect();
        Ok(())
    }

    /// Gives the answers their rows again, which may take so many bytes.
    ///
    /// # Errors
    /// When these are not rows of these answers, or are more.
    pub fn unpack(&mut self, bytes_max: usize) -> Result<(), DecodeError> {
        if self.rows.is_empty() {
            // They were written before there were columns.
            return Ok(());
        }
        let rows = columns::unpack(&std::mem::take(&mut self.rows), bytes_max)?;
        let counts = std::mem::take(&mut self.row_counts);
        let told = counts.iter().map(|count| *count as usize).sum::<usize>();
        // Rows of a damaged batch would go to the wrong answers, and nothing after that would notice.
        if (counts.len(), told) != (self.calls.len(), rows.len()) {
            let (answers, rows) = (self.calls.len(), rows.len());
            return Err(wrong(format!(
                "{told} rows of {} answers: {rows} of {answers}",
                counts.len()
            )));
        }
        let mut rows = rows.into_iter();
        for (answer, count) in self.calls.iter_mut().zip(counts) {
            answer.tasks.extend(rows.by_ref().take(count as usize));
        }
        Ok(())
    }
}
