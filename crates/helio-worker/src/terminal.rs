//! The terminal of a driver: lines of its workers, notices, exceptions that nobody read.
//!
//! One thread of the front waits here for the next. It has a lock and a condition of its own: the answers of
//! calls, which wake the threads that poll, do not wake it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use helio_proto::node::{LogLine, Notice};
use parking_lot::{Condvar, Mutex};

/// Lines of workers that are kept for a driver that does not take them; the oldest ones go first.
const LINES_MAX: usize = 100_000;
/// Exceptions that are kept; later ones are dropped.
const UNSEEN_MAX: usize = 100;

/// The text that came for the terminal and was not taken yet.
#[derive(Debug, Default)]
struct Pending {
    lines: VecDeque<LogLine>,
    lines_dropped: u64,
    notices: Vec<Notice>,
    /// Serialized exceptions of calls whose references went before anybody read them.
    unseen: Vec<Arc<Vec<u8>>>,
    is_closed: bool,
}

/// The lines and notices that a driver has still to show, and the wake-up of the thread that shows them.
#[derive(Debug, Default)]
pub(crate) struct Terminal {
    pending: Mutex<Pending>,
    arrived: Condvar,
}

impl Terminal {
    pub(crate) fn add_lines(&self, lines: Vec<LogLine>) {
        let mut pending = self.pending.lock();
        pending.lines.extend(lines);
        while pending.lines.len() > LINES_MAX {
            pending.lines.pop_front();
            pending.lines_dropped += 1;
        }
        self.arrived.notify_all();
    }

    pub(crate) fn add_notice(&self, notice: Notice) {
        self.pending.lock().notices.push(notice);
        self.arrived.notify_all();
    }

    pub(crate) fn add_unseen(&self, exception: Arc<Vec<u8>>) {
        let mut pending = self.pending.lock();
        if pending.unseen.len() < UNSEEN_MAX {
            pending.unseen.push(exception);
            self.arrived.notify_all();
        }
    }

    /// The session is over: nothing more will come.
    pub(crate) fn close(&self) {
        self.pending.lock().is_closed = true;
        self.arrived.notify_all();
    }

    /// Lines, once anything is there or `timeout` has passed.
    pub(crate) fn take_lines(&self, timeout: Duration) -> Vec<LogLine> {
        let deadline = Instant::now().checked_add(timeout);
        let mut pending = self.pending.lock();
        while pending.lines.is_empty()
            && pending.notices.is_empty()
            && pending.unseen.is_empty()
            && !pending.is_closed
        {
            match deadline {
                None => self.arrived.wait(&mut pending),
                Some(deadline) => {
                    if self.arrived.wait_until(&mut pending, deadline).timed_out() {
                        break;
                    }
                }
            }
        }
        let dropped = std::mem::take(&mut pending.lines_dropped);
        if dropped > 0 {
            let text = format!(
                "{dropped} lines of worker logs were dropped: they came faster than this driver shows them. They are \
                 whole in the logs folder of the session."
            );
            pending.notices.push(Notice { is_warning: true, text });
        }
        pending.lines.drain(..).collect()
    }

    /// Sentences for the driver's terminal.
    pub(crate) fn take_notices(&self) -> Vec<Notice> {
        std::mem::take(&mut self.pending.lock().notices)
    }

    /// Serialized exceptions of calls whose references went before anybody read them.
    pub(crate) fn take_unseen(&self) -> Vec<Arc<Vec<u8>>> {
        std::mem::take(&mut self.pending.lock().unseen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn line(text: &str) -> LogLine {
        LogLine { text: text.into(), ..LogLine::default() }
    }

    #[test]
    fn a_waiting_thread_gets_what_comes_and_is_let_go_at_the_end() {
        let terminal = Arc::new(Terminal::default());
        let (told, heard) = std::sync::mpsc::channel();
        let reader = std::thread::spawn({
            let terminal = terminal.clone();
            move || {
                loop {
                    let lines = terminal.take_lines(LONG);
                    let is_over = lines.is_empty();
                    told.send(lines).unwrap();
                    if is_over {
                        return;
                    }
                }
            }
        });
        terminal.add_lines(vec![line("first")]);
        assert_eq!(heard.recv_timeout(LONG).unwrap()[0].text, "first");
        terminal.add_lines(vec![line("second"), line("third")]);
        assert_eq!(heard.recv_timeout(LONG).unwrap().len(), 2);
        terminal.close();
        assert!(heard.recv_timeout(LONG).unwrap().is_empty());
        reader.join().unwrap();
    }

    #[test]
    fn the_oldest_lines_go_first_and_a_notice_counts_them() {
        let terminal = Terminal::default();
        for at in 0..LINES_MAX + 3 {
            terminal.add_lines(vec![line(&at.to_string())]);
        }
        let lines = terminal.take_lines(Duration::ZERO);
        assert_eq!(lines.len(), LINES_MAX);
        assert_eq!(lines[0].text, "3");
        assert!(terminal.pending.lock().notices[0].text.starts_with("3 lines"));
    }
}
