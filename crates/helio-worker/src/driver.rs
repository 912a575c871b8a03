//! The calls that only a driver makes: for workers made ready ahead, and for the lines of its terminal.

use std::sync::Arc;
use std::time::{Duration, Instant};

use helio_process_state::Event;
use helio_proto::node::{Expect, FlushLogs, LogLine, Notice};

use crate::runtime::Runtime;

impl Runtime {
    /// Has the daemon make ready what is expected. Waits for the workers that it starts, not longer than
    /// `wait`.
    pub fn expect(&self, mut expect: Expect, wait: Option<Duration>) {
        let Some(wait) = wait else {
            let mut state = self.settled();
            state.tell_node(expect);
            return state.flush();
        };
        let request = {
            let mut state = self.settled();
            let request = state.process.mint_request();
            expect.request_id = request;
            state.apply(Event::Confirm { request, message: Box::new(expect.into()) });
            state.flush();
            request
        };
        self.wait_confirmed(request, wait);
    }

    fn wait_confirmed(&self, request: u64, timeout: Duration) {
        let mut never = || false;
        let deadline = Some(Instant::now() + timeout);
        let confirmed =
            self.wait_until(deadline, &mut never, |state| state.process.take_answer(request));
        if confirmed.is_err() {
            self.state.lock().process.forget_request(request);
        }
    }

    /// Waits until all that the job's workers have printed so far is here.
    pub fn flush_logs(&self, timeout: Duration) {
        let request = {
            let mut state = self.settled();
            let request = state.process.mint_request();
            let message = Box::new(FlushLogs { request_id: request }.into());
            state.apply(Event::Confirm { request, message });
            request
        };
        self.wait_confirmed(request, timeout);
    }

    /// Log lines of workers. Waits until there are some, a notice or an unread exception, or `timeout` has
    /// passed. For a thread of its own.
    #[must_use]
    pub fn take_logs(&self, timeout: Duration) -> Vec<LogLine> {
        self.terminal.take_lines(timeout)
    }

    /// Sentences for the driver's terminal.
    #[must_use]
    pub fn take_notices(&self) -> Vec<Notice> {
        self.terminal.take_notices()
    }

    /// Serialized exceptions of calls whose references went before anybody read them.
    #[must_use]
    pub fn take_unseen(&self) -> Vec<Arc<Vec<u8>>> {
        self.terminal.take_unseen()
    }
}
