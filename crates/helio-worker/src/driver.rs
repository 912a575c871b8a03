//! What a driver shows: lines of its workers, notices, exceptions that nobody read.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use helio_process_state::Event;
use helio_proto::node::{Expect, FlushLogs, LogLine, Notice};

use crate::api::{Error, Interrupt};
use crate::runtime::Runtime;
use crate::state::State;

impl Runtime {
    /// Log lines of workers; waits for some until `timeout`. For a thread of its own.
    #[must_use]
    pub fn take_logs(&self, timeout: Duration) -> Vec<LogLine> {
        let deadline = Instant::now() + timeout;
        let mut never = || false;
        let _ = self.wait_aside(deadline, &mut never, |state| {
            (!state.logs.is_empty() || !state.notices.is_empty() || !state.unseen.is_empty())
                .then_some(())
        });
        let mut state = self.state.lock();
        let dropped = std::mem::take(&mut state.logs_dropped);
        if dropped > 0 {
            let text = format!(
                "{dropped} lines of worker logs were dropped: they came faster than this driver shows them. They are \
                 whole in the logs folder of the session."
            );
            state.notices.push(Notice { is_warning: true, text });
        }
        state.logs.drain(..).collect()
    }

    /// Sentences for the driver's terminal.
    #[must_use]
    pub fn take_notices(&self) -> Vec<Notice> {
        std::mem::take(&mut self.state.lock().notices)
    }

    /// Serialized exceptions of calls whose references went before anybody read them.
    #[must_use]
    pub fn take_unseen(&self) -> Vec<Arc<Vec<u8>>> {
        std::mem::take(&mut self.state.lock().unseen)
    }

    /// Waits without polling: somebody else's polls bring the news. For threads that only look on.
    pub(crate) fn wait_aside<T>(
        &self,
        deadline: Instant,
        interrupt: Interrupt<'_>,
        mut done: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<T, Error> {
        loop {
            let seen = self.duty.changes();
            if let Some(result) = done(&mut self.state.lock()) {
                return Ok(result);
            }
            let now = Instant::now();
            if now >= deadline || self.closed.load(Ordering::Acquire) {
                return Err(Error::Timeout);
            }
            self.duty.stand_by((deadline - now).min(Duration::from_secs(1)), seen);
            if interrupt() {
                return Err(Error::Interrupted);
            }
        }
    }

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
}
