//! **WHY-1** Asking what something waits for.

use std::time::{Duration, Instant};

use helio_process_state::{Answer, Event, Subject};

use crate::runtime::Runtime;

impl Runtime {
    /// Sentences on what something waits for; what could not be learnt within `timeout` is left out.
    #[must_use]
    pub fn why(&self, subject: Subject, timeout: Duration) -> String {
        let request = {
            let mut state = self.settled();
            let request = state.process.mint_request();
            state.apply(Event::Explain { request, subject });
            self.changed(state);
            request
        };
        let deadline = Instant::now() + timeout;
        let mut never = || false;
        let answer =
            self.wait_until(Some(deadline), &mut never, |state| state.process.take_answer(request));
        match answer {
            Ok(Answer::Text(text)) => text,
            // What was learnt until now is better than nothing.
            _ => self.state.lock().process.take_explanation(request),
        }
    }
}
