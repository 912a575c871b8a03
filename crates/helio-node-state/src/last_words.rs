//! What processes that have ended knew of calls.
//!
//! A process that is about to end says it once; answers about calls contain it from then on. What was killed
//! said nothing. **LIMIT-1** [`LAST_WORDS_MAX`] processes and [`LAST_WORDS_ROWS_MAX`] rows; those that said it
//! first are forgotten.

use std::collections::VecDeque;

use helio_proto::inspect::{Answer, LAST_ROWS_MAX, LastWords};

use crate::limits::{LAST_WORDS_MAX, LAST_WORDS_ROWS_MAX};
use crate::{Conn, Node};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    all: VecDeque<Answer>,
    rows: usize,
}

impl Remembered {
    fn add(&mut self, mut answer: Answer) {
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

    /// Of which the latest comes first.
    pub(crate) fn answers(&self) -> impl Iterator<Item = Answer> + '_ {
        self.all.iter().rev().cloned()
    }
}

impl Node {
    pub(crate) fn client_says_last_words(&mut self, conn: Conn, words: LastWords) {
        let Some(client) = self.clients.get(conn) else { return };
        let tasks = words.answer.tasks;
        let (worker_id, pid) = (client.worker_id, client.pid());
        self.last_words.add(Answer { worker_id, pid, tasks, ..words.answer });
    }
}
