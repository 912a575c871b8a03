//! The choice of the process that is believed about a call: its maker and the process that runs it may both tell of it.

use std::collections::{BTreeMap, BTreeSet};

use helio_proto::inspect::{Answer, TaskRow};
use helio_types::{JobId, TaskId, WorkerId};

/// Returns how much an answer is believed of a call, more for a greater number: whoever made it, alive or dead, if it
/// knows the end; then who runs it; then a maker that has not seen the end.
pub(crate) fn rank(answer: &Answer, task: &TaskRow) -> u8 {
    match (task.is_hearsay, answer.is_over) {
        (false, false) => 4,
        (false, true) if task.phase.is_over() => 3,
        (true, false) => 2,
        (true, true) => 1,
        (false, true) => 0,
    }
}

/// The process that tells best of each call that several tell of, by [`rank`].
#[derive(Default)]
pub(crate) struct Tellers<'a> {
    /// The best teller of each attempt, with its rank.
    best: BTreeMap<(TaskId, u32), (u8, WorkerId)>,
    /// The answers of makers that have not seen the end: the maker of the call, and when it was made.
    makers: BTreeMap<TaskId, (&'a Answer, &'a TaskRow)>,
    /// The processes that told of their calls: in rows, and in counts of calls without rows.
    told: BTreeSet<WorkerId>,
}

impl<'a> Tellers<'a> {
    /// Looks through all answers to one question.
    pub(crate) fn of(answers: &'a [Answer]) -> Self {
        let mut all = Self::default();
        let is_special =
            |answer: &Answer| answer.is_over || answer.tasks.iter().any(|task| task.is_hearsay);
        // Mostly everybody lives and tells of calls of their own.
        if !answers.iter().any(is_special) {
            return all;
        }
        for answer in answers {
            all.told.insert(answer.worker_id);
            for task in &answer.tasks {
                let rank = Self::rank(answer, task);
                let known = all.best.entry((task.task_id, task.attempt)).or_insert(rank);
                *known = rank.max(*known);
                // The maker knows the job, the parent and the time, whoever has seen the end.
                if !task.is_hearsay {
                    all.makers.insert(task.task_id, (answer, task));
                }
            }
        }
        all
    }

    fn rank(answer: &Answer, task: &TaskRow) -> (u8, WorkerId) {
        (rank(answer, task), answer.worker_id)
    }

    /// Whether the row is to be shown: nobody else tells better of that attempt.
    pub(crate) fn are_best(&self, answer: &Answer, task: &TaskRow) -> bool {
        // The maker has counted what it gave no row.
        if task.is_hearsay
            && self.told.contains(&task.maker)
            && !self.makers.contains_key(&task.task_id)
        {
            return false;
        }
        let best = self.best.get(&(task.task_id, task.attempt));
        best.is_none_or(|best| *best == Self::rank(answer, task))
    }

    /// The job and the parent of a call, and when it was made, in milliseconds since 1970. Hearsay has none of
    /// them.
    pub(crate) fn origin(&self, answer: &Answer, task: &TaskRow) -> (JobId, Option<TaskId>, u64) {
        let maker = if task.is_hearsay {
            self.makers.get(&task.task_id).copied()
        } else {
            Some((answer, task))
        };
        match maker {
            Some((answer, task)) => (answer.job_id, Some(task.parent), task.created_ms),
            None => (task.task_id.job(), None, 0),
        }
    }
}
