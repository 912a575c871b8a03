//! The work of a worker for others: it takes calls and reports their outcomes.

use std::time::{Duration, Instant};

use helio_process_state::Event;
use helio_proto::node::{ActorReady, Leaving};
use helio_types::{ActorId, DeathCause, TaskId};
use parking_lot::MutexGuard;

use crate::api::{Error, Interrupt, Outcome, Outgoing, Work};
use crate::polling::{INTERRUPT_EVERY, LOOK_EVERY};
use crate::runtime::Runtime;
use crate::state::State;

impl Runtime {
    /// The next thing to do; `None` when the time is up. Without work, waits and polls.
    ///
    /// # Errors
    /// [`Error::Interrupted`], [`Error::Disconnected`].
    pub fn next_work(
        &self,
        timeout: Option<Duration>,
        interrupt: Interrupt<'_>,
    ) -> Result<Option<Work>, Error> {
        {
            let mut state = self.settled();
            if let Some(work) = state.next_work() {
                // Replies to calls before this one may wait for more, but not for a long call.
                state.flush_soon();
                return Ok(Some(work));
            }
            if timeout.is_some_and(|timeout| timeout.is_zero()) {
                state.clear_notification();
                if state.process.has_ready() {
                    // The mark that was cleared stood for this too.
                    state.notify_loop();
                }
                if let Some(work) = state.next_work() {
                    return Ok(Some(work));
                }
                state.flush();
                return Ok(None);
            }
            state.process.unpin_unreferenced();
            state.work_waiters += 1;
        }
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let result = self.wait_for_work(deadline, interrupt);
        self.state.lock().work_waiters -= 1;
        match result {
            Ok(work) => Ok(Some(work)),
            Err(Error::Timeout) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn wait_for_work(
        &self,
        deadline: Option<Instant>,
        interrupt: Interrupt<'_>,
    ) -> Result<Work, Error> {
        let (mut looked, mut sleep) = (Instant::now(), INTERRUPT_EVERY);
        loop {
            let seen = self.poll_right.changes();
            {
                let mut state = self.settled();
                if let Some(work) = state.next_work() {
                    state.flush_soon();
                    return Ok(work);
                }
                state.check_open()?;
                state.flush();
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Err(Error::Timeout);
            }
            // An idle worker sleeps for good, once it has looked for a signal that came just before:
            // a later one cuts its sleep short, unless it is another thread that polls.
            let idle = if self.poll_right.is_polled() { LOOK_EVERY } else { sleep };
            let limit = deadline.map_or(idle, |deadline| (deadline - now).min(idle));
            let (interrupted, work) = self.turn(limit, seen, &mut |state| {
                // The end of the session ends the wait as well.
                let work = state.next_work();
                work.map(Some).or(state.process.ended().is_some().then_some(None))
            });
            match work {
                Some(Some(work)) => return Ok(work),
                Some(None) => {}
                None if interrupted || looked.elapsed() >= INTERRUPT_EVERY => {
                    if interrupt() {
                        return Err(Error::Interrupted);
                    }
                    (looked, sleep) = (Instant::now(), Duration::from_secs(3600));
                }
                None => {}
            }
        }
    }

    /// A call is over.
    pub fn finish(&self, task: TaskId, outcome: Outcome) {
        let mut state = self.finished(task, outcome);
        let urgency = state.process.urgency_of_answer(false);
        state.flush_by(urgency);
    }

    /// A call is over that an event loop ran. While others run there the loop writes the answers of its turn
    /// together, when it looks around ([`Runtime::loop_passes`]) or sleeps.
    pub fn finish_on_loop(&self, task: TaskId, outcome: Outcome) {
        let mut state = self.finished(task, outcome);
        let urgency = state.process.urgency_of_answer(true);
        state.flush_by(urgency);
    }

    fn finished(&self, task: TaskId, outcome: Outcome) -> MutexGuard<'_, State> {
        tracing::debug!(task_id = %task, "call ended");
        let mut state = self.settled();
        state.apply(Event::Finished { task, outcome });
        state
    }

    /// A generator's next item; waits while its caller has too many unread ones.
    ///
    /// # Errors
    /// [`Error::Interrupted`], [`Error::Disconnected`].
    pub fn item(
        &self,
        task: TaskId,
        index: u32,
        item: Outgoing,
        bound: u32,
        interrupt: Interrupt<'_>,
    ) -> Result<(), Error> {
        {
            let mut state = self.settled();
            state.apply(Event::ItemMade { task, index, item });
            let urgency = state.process.urgency_of_item(bound);
            state.flush_by(urgency);
        }
        if bound == 0 {
            return Ok(());
        }
        self.wait_until(None, interrupt, |state| {
            state.process.may_yield(task, index, bound).then_some(())
        })
    }

    /// The actor's constructor returned, or raised: the serialized exception and its text.
    pub fn actor_ready(&self, actor_id: ActorId, result: Result<(), (Vec<u8>, String)>) {
        let (error, message) = result.err().unwrap_or_default();
        let mut state = self.settled();
        state.tell_node(ActorReady { actor_id, error, message });
        state.flush();
    }

    /// The process is about to end of its own will.
    pub fn leaving(&self, cause: DeathCause) {
        let mut state = self.settled();
        state.tell_node(Leaving { cause, is_needed: false });
        state.flush();
    }

    /// The process is to end, and takes no work any more: tells the daemon so, and waits until nobody
    /// needs it.
    ///
    /// # Errors
    /// [`Error::Interrupted`], [`Error::Disconnected`].
    pub fn linger(&self, cause: DeathCause, interrupt: Interrupt<'_>) -> Result<(), Error> {
        let is_needed = {
            let mut state = self.settled();
            let is_needed = state.process.owner().is_needed();
            state.tell_node(Leaving { cause, is_needed });
            state.flush();
            is_needed
        };
        if !is_needed {
            return Ok(());
        }
        self.wait_until(None, interrupt, |state| {
            (state.force_exit || !state.process.owner().is_needed()).then_some(())
        })
    }

    /// `hook` is called when a call that runs here is cancelled, on whichever thread reads of it and with
    /// the state locked: it may not call the runtime, nor wait. For calls that keep the thread busy that
    /// would take [`Work::Cancel`].
    pub fn on_cancel(&self, hook: Box<dyn Fn(TaskId) + Send + Sync>) {
        self.state.lock().on_cancel = Some(crate::state::CancelHook(hook));
    }

    /// Has whoever takes work take [`Work::Exit`] next: a call on another thread asked for the end.
    pub fn ask_exit(&self, reason: &str) {
        let mut state = self.settled();
        state.apply(Event::AskExit { reason: reason.to_owned() });
        self.changed(state);
    }

    /// A call of an actor that runs several at once has found its place.
    pub fn runs(&self, task: TaskId) {
        self.state.lock().apply(Event::Runs(task));
    }

    /// Whether calls were handed out that have not ended.
    #[must_use]
    pub fn runs_calls(&self) -> bool {
        self.state.lock().process.runs_calls()
    }

    /// Whether the running call was cancelled.
    #[must_use]
    pub fn is_cancelled(&self, task: TaskId) -> bool {
        self.state.lock().process.is_cancelled(task)
    }
}

impl State {
    fn next_work(&mut self) -> Option<Work> {
        let now = self.now();
        let work = self.process.next_work(now);
        match &work {
            Some(Work::Call(call)) => {
                tracing::debug!(task_id = %call.task, name = call.template.name, attempt = call.attempt, "call begins");
            }
            Some(Work::Construct(made)) => {
                tracing::info!(actor_id = %made.spec.actor_id, incarnation = made.incarnation, "this worker becomes an actor");
            }
            Some(Work::Exit { reason, drain }) => tracing::info!(reason, drain, "told to end"),
            Some(Work::Cancel(_)) | None => {}
        }
        work
    }
}
