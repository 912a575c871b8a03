//! What a worker does for others: take work, report how it went.

use std::time::{Duration, Instant};

use helio_owner_state::Event;
use helio_types::{ActorId, DeathCause, TaskId};

use crate::api::{Error, Interrupt, Outcome, Outgoing, Work};
use crate::polling::{INTERRUPT_EVERY, LOOK_EVERY};
use crate::runtime::Runtime;

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
            if let Some(work) = state.inbox.pop() {
                state.hand_out(&work);
                // Replies to calls before this one may wait for more, but not for a long call.
                state.flush_soon();
                return Ok(Some(work));
            }
            if timeout.is_some_and(|timeout| timeout.is_zero()) {
                let _ = rustix::io::read(&*self.notify, &mut [0; 8]);
                if !state.became_ready.is_empty() {
                    // The mark that was cleared stood for this too.
                    state.notify_loop();
                }
                if let Some(work) = state.inbox.pop() {
                    state.hand_out(&work);
                    return Ok(Some(work));
                }
                state.flush();
                return Ok(None);
            }
            state.drop_unowned_pins();
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
            let seen = self.duty.polls();
            {
                let mut state = self.settled();
                if let Some(work) = state.inbox.pop() {
                    state.hand_out(&work);
                    state.flush_soon();
                    return Ok(work);
                }
                if let Some(why) = &state.closed {
                    return Err(Error::Disconnected(why.clone()));
                }
                state.urgent = false;
                state.flush();
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Err(Error::Timeout);
            }
            // An idle worker sleeps for good, once it has looked for a signal that came just before:
            // a later one cuts its sleep short, unless it is another thread that polls.
            let idle = if self.duty.is_polled() { LOOK_EVERY } else { sleep };
            let limit = deadline.map_or(idle, |deadline| (deadline - now).min(idle));
            let (interrupted, work) = self.turn(limit, seen, &mut |state| {
                let work = state.inbox.pop();
                if let Some(work) = &work {
                    state.hand_out(work);
                }
                // The end of the session ends the wait as well.
                work.map(Some).or(state.closed.is_some().then_some(None))
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
        let mut state = self.settled();
        state.consumed.remove(&task);
        let Some(caller) = state.inbox.finished(task) else { return };
        state.current = state.inbox.running.last().map_or(TaskId::NIL, |(task, _)| *task);
        state.apply(Event::Finished { task, caller, outcome });
        // A task is answered before the next one begins: should that one end the process, this one is
        // not taken for lost, nor run again. Replies of an actor's short calls go out together; a call
        // whose actor died right after it may fail although it ran, and says so.
        if state.serves_actor && state.inbox.has_work() {
            state.urgent = false;
            state.flush_soon();
        } else {
            state.flush();
        }
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
            let caller = state
                .inbox
                .running
                .iter()
                .find(|(running, _)| *running == task)
                .map(|(_, c)| c.clone());
            let Some(caller) = caller else { return Ok(()) };
            state.apply(Event::ItemMade { task, caller, index, item });
            state.urgent = false;
            if bound == 0 {
                // The caller may wait for this one; a burst goes out together.
                state.flush_soon();
            } else {
                state.flush();
            }
        }
        if bound == 0 {
            return Ok(());
        }
        self.wait_until(None, interrupt, |state| {
            let read = state.consumed.get(&task).copied().unwrap_or(0);
            let gone = !state.inbox.running.iter().any(|(running, _)| *running == task);
            (gone || index + 1 - read.min(index + 1) < bound).then_some(())
        })
    }

    /// The actor's constructor returned, or raised: the serialized exception and its text.
    pub fn actor_ready(&self, actor_id: ActorId, result: Result<(), (Vec<u8>, String)>) {
        let (error, message) = result.err().unwrap_or_default();
        let mut state = self.settled();
        state.tell_node(helio_proto::node::ActorReady { actor_id, error, message }.into());
        state.flush();
    }

    /// The process is about to end of its own will.
    pub fn leaving(&self, cause: DeathCause) {
        let mut state = self.settled();
        state.tell_node(helio_proto::node::Leaving { cause, is_needed: false }.into());
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
            let is_needed = state.owner.is_needed();
            state.tell_node(helio_proto::node::Leaving { cause, is_needed }.into());
            state.flush();
            is_needed
        };
        if !is_needed {
            return Ok(());
        }
        self.wait_until(None, interrupt, |state| {
            (state.force_exit || !state.owner.is_needed()).then_some(())
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
        state.add_work(Work::Exit { reason: reason.to_owned(), drain: false });
        self.changed(state);
    }

    /// A call of an actor that runs several at once has found its place.
    pub fn runs(&self, task: TaskId) {
        let mut state = self.state.lock();
        let now = state.now();
        state.inbox.runs(task, now);
    }

    /// Whether the running call was cancelled.
    #[must_use]
    pub fn is_cancelled(&self, task: TaskId) -> bool {
        self.state.lock().inbox.cancelled.contains(&task)
    }
}
