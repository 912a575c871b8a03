//! Events that wait for room on a full disk: the shell's part of a commit that fails, so that the simulator plays it,
//! too.

use helio_types::mutant;

use crate::event::Action;

/// **LIMIT-1** So many events wait; with more the control service ends, and starts anew from what is durable.
const EVENTS_MAX: usize = 100_000;

/// More events wait than the given maximum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChangeError(pub usize);

/// Events whose changes could not be made durable, in their order, with what they send.
#[derive(Debug, Default)]
pub struct WantedChanges {
    events: Vec<Vec<Action>>,
    /// The state of the disk that the machine was told last.
    is_full: bool,
}

impl WantedChanges {
    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Returns the number of waiting events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether to look at the disk: that costs little, but to try what waits costs more, so it is tried at ticks.
    #[must_use]
    pub fn is_due(&self, is_tick: bool) -> bool {
        is_tick || self.events.is_empty()
    }

    /// Whether the machine does not know that yet.
    pub fn is_news(&mut self, is_full: bool) -> bool {
        std::mem::replace(&mut self.is_full, is_full) != is_full
    }

    /// Keeps the events that change durable state; returns the others.
    ///
    /// # Errors
    /// When too many wait.
    pub fn hold(&mut self, events: Vec<Vec<Action>>) -> Result<Vec<Vec<Action>>, ChangeError> {
        let (held, rest): (Vec<_>, Vec<_>) = events.into_iter().partition(|event| {
            // The end of the service cannot wait for a disk that may stay full for ever.
            let ends = event.iter().any(|action| matches!(action, Action::End { .. }));
            let is_kept = !ends && !mutant!("answers-before-it-is-durable");
            is_kept && event.iter().any(|action| matches!(action, Action::Persist(_)))
        });
        let is_change = |action: &Action| matches!(action, Action::Persist(_));
        let has_changes = held.iter().all(|event| event.iter().any(is_change));
        assert!(has_changes, "what needs no room would wait for room");
        self.events.extend(held);
        if self.events.len() > EVENTS_MAX {
            return Err(ChangeError(EVENTS_MAX));
        }
        Ok(rest)
    }

    /// Takes the events that wait, to be tried again.
    pub fn take(&mut self) -> Vec<Vec<Action>> {
        assert!(self.events.len() <= EVENTS_MAX, "more would be sent late than may wait");
        std::mem::take(&mut self.events)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use helio_types::NodeId;

    use super::*;

    fn persist(key: u8) -> Action {
        Action::Persist(crate::Change { key: vec![key], value: None })
    }

    fn disconnect(number: u8) -> Action {
        Action::Disconnect { node_id: NodeId([number; 28]) }
    }

    #[test]
    fn events_that_change_nothing_go_on_and_the_others_keep_their_order() {
        let mut held = WantedChanges::default();
        let rest = held.hold(vec![
            vec![persist(1), disconnect(1)],
            vec![disconnect(2)],
            vec![disconnect(3), persist(3)],
            vec![persist(4), Action::End { reason: String::new() }],
        ]);
        let rest = rest.unwrap();
        assert_eq!(rest.len(), 2);
        assert_eq!(rest[0], [disconnect(2)]);
        assert_eq!(rest[1].len(), 2, "the end does not wait");
        held.hold(vec![vec![persist(5)]]).unwrap();
        let key = |action: Action| match action {
            Action::Persist(change) => Some(change.key[0]),
            _ => None,
        };
        let keys: Vec<u8> = held.take().into_iter().flatten().filter_map(key).collect();
        assert_eq!(keys, [1, 3, 5]);
        assert!(held.is_empty());
    }

    #[test]
    fn too_many_are_not_held() {
        let mut held = WantedChanges::default();
        let many = (0..=EVENTS_MAX).map(|_| vec![persist(1)]).collect();
        assert!(held.hold(many).is_err(), "LIMIT-1");
    }

    #[test]
    fn a_full_disk_is_looked_at_again_at_ticks() {
        let mut held = WantedChanges::default();
        assert!(held.is_due(false) && held.is_due(true));
        held.hold(vec![vec![persist(1)]]).unwrap();
        assert!(!held.is_due(false) && held.is_due(true));
        assert!(held.is_news(true) && !held.is_news(true) && held.is_news(false));
    }
}
