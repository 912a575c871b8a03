//! The next tick of a machine: put into the queue of events, and perhaps earlier later on.

/// The time at which a machine is to hear of the time.
#[derive(Debug, Default)]
pub(crate) struct Alarm(Option<u64>);

impl Alarm {
    /// Sets it, unless it rings earlier anyway. Returns whether a tick has to be queued for then.
    pub(crate) fn set(&mut self, due: u64) -> bool {
        let is_earlier = self.0.is_none_or(|at| due < at);
        if is_earlier {
            self.0 = Some(due);
        }
        is_earlier
    }

    /// A queued tick has come: whether it is the one that counts, and was not followed by an earlier one.
    pub(crate) fn rings(&mut self, now: u64) -> bool {
        let rings = self.0.is_some_and(|at| at <= now);
        if rings {
            self.0 = None;
        }
        rings
    }
}
