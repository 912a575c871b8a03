//! Carrying out what the machine wants done.

use helio_process_state::{Action, Event};
use helio_proto::node::Notice;

use crate::state::State;

impl State {
    /// Tells the machine, and executes its actions.
    pub(crate) fn apply(&mut self, event: Event<'_>) {
        let now = self.now();
        self.apply_at(event, now);
    }

    /// Tells the machine of what does not depend on the time: it is told the time of its last event, which saves
    /// reading the clock.
    pub(crate) fn apply_timeless(&mut self, event: Event<'_>) {
        self.apply_at(event, 0);
    }

    fn apply_at(&mut self, event: Event<'_>, now: u64) {
        let actions = self.process.apply(event, now);
        self.queue_and_execute(actions);
        self.recount.after_event("process", || self.process.owner().check());
    }

    /// Tells the machine of one of several events that came together; [`State::execute_actions`] is to follow
    /// the last one. Only what the others must not delay is done at once.
    pub(crate) fn apply_one_of_many(&mut self, event: Event<'_>, now: u64) {
        let actions = self.process.apply(event, now);
        let has_actions = !actions.is_empty();
        self.queue(actions);
        if has_actions || self.process.links().is_due() {
            self.execute_actions();
        }
    }

    /// After every change of the machine that was no event: wakes threads, writes what is due, and executes actions in
    /// order, also those that follow from executing one.
    pub(crate) fn execute_actions(&mut self) {
        let actions = self.process.take_actions();
        self.queue_and_execute(actions);
    }

    /// Queues the actions, wakes threads, writes what is due, and executes what is queued.
    #[inline(always)]
    fn queue_and_execute(&mut self, actions: Vec<Action>) {
        self.queue(actions);
        let signals = self.process.take_signals();
        self.news |= signals.news;
        // A thread that waits for work takes it; only without one has the event loop to look.
        if signals.wake_loop || (signals.work && self.work_waiters == 0) {
            self.notify_loop();
        }
        if self.process.links().is_due() {
            self.flush_due();
        }
        // An action may apply an event, whose actions come here again: they wait for their turn, so that the order
        // stays.
        if self.is_executing || self.to_do.is_empty() {
            return;
        }
        self.is_executing = true;
        while let Some(action) = self.to_do.pop_front() {
            self.execute_action(action);
        }
        self.is_executing = false;
    }

    #[inline(never)]
    fn flush_due(&mut self) {
        for link in self.process.links().take_due() {
            self.flush_one(link);
        }
    }

    /// Most events have no actions: those of a value that is put and let go must touch neither the queue nor memory.
    #[inline(always)]
    fn queue(&mut self, actions: Vec<Action>) {
        if actions.capacity() > 0 {
            self.queue_some(actions);
        } else {
            // It owns nothing. To drop it would call a function that finds that out.
            std::mem::forget(actions);
        }
    }

    #[inline(never)]
    fn queue_some(&mut self, actions: Vec<Action>) {
        self.to_do.extend(actions);
    }

    fn execute_action(&mut self, action: Action) {
        match action {
            Action::Connect { link, to } => self.connect(link, &to),
            Action::Refuse { link, reason } => self.conn_ended(link, &reason.into()),
            Action::Close { link, reason } => {
                if let Some(reason) = reason {
                    tracing::warn!(link, reason, "connection closed");
                }
                drop(self.close_socket(link));
            }
            Action::Drain { link } => {
                // What has arrived is read before the machine hears that there is no more.
                if let Err(reason) = self.read_conn(link) {
                    self.conn_ended(link, &reason);
                }
                self.apply(Event::Drained { link });
            }
            Action::CollectReleased => self.return_pins(),
            Action::Interrupt(task) => {
                if let Some(hook) = &self.on_cancel {
                    (hook.0)(task);
                }
            }
            Action::ForceExit { reason } => {
                tracing::info!(reason, "this process must end");
                self.force_exit = true;
            }
            // Threads that wait look at the reason in the machine.
            Action::End { reason } => tracing::info!(reason, "the session is over"),
            Action::ShowLines(lines) => self.terminal.add_lines(lines),
            Action::Notify(notice) => self.tell_user(notice),
            Action::ShowUnseen(exception) => self.terminal.add_unseen(exception),
            Action::Report(asked) => self.report(&asked),
            Action::LastWords => self.say_last_words(true),
            Action::ReturnMemory => self.returns_memory = true,
        }
    }

    /// A sentence for the user's terminal. What a worker prints comes to its driver as other lines do.
    #[expect(clippy::print_stderr, reason = "the way of a worker's words to its driver")]
    pub(crate) fn tell_user(&mut self, notice: Notice) {
        tracing::warn!("{}", notice.text);
        if self.options.is_driver {
            self.terminal.add_notice(notice);
        } else {
            eprintln!("heliostat: {}", notice.text);
        }
    }
}
