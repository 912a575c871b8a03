//! Log files of a node: what is asked over a connection to `Destination::Logs`, and what its daemon answers. Each
//! question has one answer, in order.

use crate::wire::{messages, numbers};

numbers! {
    /// The kinds of questions about log files.
    pub enum LogQuestion {
        /// Lists the files with names that fit `pattern` (`*`, `?`).
        #[default]
        List = 0,
        /// The bytes of the file `name` from `from` on, `max` at most; of those that `task_id` has printed only.
        Read = 1,
        /// The begin of the last `max` lines of the file `name`, among those that `task_id` has
        /// printed.
        Tail = 2,
        /// The lines with `text` in the files that fit `pattern`, `max` at most.
        Search = 3,
    }
}

messages! {
    /// A question about the node's log files.
    pub struct LogRequest {
        1 question: LogQuestion,
        2 name: String,
        3 pattern: String,
        /// Empty: what anybody has printed.
        4 task_id: String,
        5 from: u64,
        6 max: u64,
        7 text: String,
        /// Small letters and capitals are the same.
        8 ignores_case: bool,
    }
    /// The answer.
    pub struct LogAnswer {
        /// Empty, or why there is none.
        1 refused: String,
        2 files: Vec<LogFileInfo>,
        3 bytes: Vec<u8>,
        /// The offset at which the bytes, or the last lines, begin.
        4 from: u64,
        /// Length of the file, or of what the task has printed, in bytes.
        5 size: u64,
        6 found: Vec<FoundLine>,
        /// Whether there are more lines than were asked for.
        7 is_cut: bool,
    }
    /// A file of the folder of logs.
    pub struct LogFileInfo { 1 name: String, 2 size: u64, 3 modified_ms: u64 }
    /// A line of a file, counted from 1.
    pub struct FoundLine { 1 name: String, 2 number: u64, 3 text: String }
}
