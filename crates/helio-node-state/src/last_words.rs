//! The calls that processes knew of which have ended.
//!
//! A process that is about to end reports its calls once; answers about calls contain them from then on. A
//! process that was killed reported nothing. **LIMIT-1** [`LAST_WORDS_MAX`] processes and
//! [`LAST_WORDS_ROWS_MAX`] rows; the oldest reports are forgotten.

use std::collections::VecDeque;

use helio_proto::inspect::{Answer, LAST_ROWS_MAX};

use crate::limits::{LAST_WORDS_MAX, LAST_WORDS_ROWS_MAX};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LastWords {
    all: VecDeque<Answer>,
    rows: usize,
}

impl LastWords {
    pub(crate) fn add(&mut self, mut answer: Answer) {
        answer.tasks.truncate(LAST_ROWS_MAX as usize);
        answer.total = answer.tasks.len() as u64;
        answer.is_over = true;
        self.rows += answer.tasks.len();
        self.all.push_back(answer);
        while self.all.len() > LAST_WORDS_MAX || self.rows > LAST_WORDS_ROWS_MAX {
            let Some(oldest) = self.all.pop_front() else { return };
            self.rows -= oldest.tasks.len();
        }
    }

    /// The reports, the latest first.
    pub(crate) fn answers(&self) -> impl Iterator<Item = Answer> + '_ {
        self.all.iter().rev().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_proto::inspect::TaskRow;

    fn report(pid: u32, rows: usize) -> Answer {
        Answer { pid, tasks: vec![TaskRow::default(); rows], ..Answer::default() }
    }

    #[test]
    fn the_latest_comes_first_and_each_has_a_bounded_number_of_rows() {
        let mut words = LastWords::default();
        words.add(report(1, 1));
        words.add(report(2, LAST_ROWS_MAX as usize + 1));
        let answers: Vec<Answer> = words.answers().collect();
        assert_eq!(answers.iter().map(|answer| answer.pid).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(answers[0].tasks.len(), LAST_ROWS_MAX as usize);
        assert_eq!(answers[0].total, u64::from(LAST_ROWS_MAX));
        assert!(answers.iter().all(|answer| answer.is_over));
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut words = LastWords::default();
        for pid in 0..=LAST_WORDS_MAX as u32 {
            words.add(report(pid, 0));
        }
        assert_eq!(words.answers().count(), LAST_WORDS_MAX);
        assert!(words.answers().all(|answer| answer.pid > 0));
        for pid in 0..=(LAST_WORDS_ROWS_MAX / LAST_ROWS_MAX as usize) as u32 {
            words.add(report(pid, LAST_ROWS_MAX as usize));
        }
        let rows: usize = words.answers().map(|answer| answer.tasks.len()).sum();
        assert!(rows <= LAST_WORDS_ROWS_MAX, "{rows}");
    }
}
