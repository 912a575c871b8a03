//! Ends of processes: the causes of the latest ones, for whoever asks later. **LIMIT-1** [`DEATHS_MAX`]
//! are remembered; the oldest are forgotten.

use std::collections::{BTreeMap, VecDeque};

use helio_types::cause::signal_name;
use helio_types::{DeathCause, DeathKind, NodeId, WorkerId};

use crate::event::Exit;
use crate::limits::DEATHS_MAX;

/// The times at which a process was begun and said that it serves, in the machine's time; `None` if
/// unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Life {
    pub(crate) begun: Option<u64>,
    pub(crate) serving: Option<u64>,
}

/// The end of a process.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) cause: DeathCause,
    pub(crate) is_driver: bool,
    pub(crate) life: Life,
    /// The time at which the end was noticed, in milliseconds.
    pub(crate) at: u64,
}

/// The ends of the latest processes that died here, oldest first, and counts of the unexpected ones.
#[derive(Debug, Default)]
pub(crate) struct Exits {
    ends: BTreeMap<WorkerId, End>,
    order: VecDeque<WorkerId>,
    /// Number of workers that ended without being told to, by the exit type that their rows show.
    unexpected: BTreeMap<&'static str, u64>,
}

impl Exits {
    pub(crate) fn add(&mut self, worker_id: WorkerId, end: End) {
        let kind = end.cause.exit_type();
        if !end.is_driver && !kind.starts_with("INTENDED") {
            *self.unexpected.entry(kind).or_default() += 1;
        }
        if self.ends.insert(worker_id, end).is_none() {
            self.order.push_back(worker_id);
        }
        assert!(self.ends.len() == self.order.len(), "the end of a process would be kept for ever");
        if self.order.len() > DEATHS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            let is_known = self.ends.remove(&oldest).is_some();
            assert!(is_known, "a process would be forgotten whose end is kept");
        }
    }

    /// Returns the cause of a process's end, if it ended and is remembered.
    pub(crate) fn get(&self, worker_id: WorkerId) -> Option<&DeathCause> {
        self.ends.get(&worker_id).map(|end| &end.cause)
    }

    /// Returns the numbers of workers that ended without being told to, by exit type.
    pub(crate) fn unexpected(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.unexpected.iter().map(|(kind, n)| (*kind, *n))
    }

    /// The processes that are remembered, the latest first.
    pub(crate) fn all(&self) -> impl Iterator<Item = (WorkerId, &End)> {
        self.order.iter().rev().filter_map(|id| Some((*id, self.ends.get(id)?)))
    }
}

/// Returns the cause of a worker process's end: the one that was known before, else what its exit
/// status says.
pub(crate) fn cause(
    known: Option<DeathCause>,
    pid: u32,
    exit: Exit,
    log_tail: String,
) -> DeathCause {
    if let Some(known) = known {
        let pid = if known.pid == 0 { pid } else { known.pid };
        // For an end that was wanted nobody looks for a cause in the log.
        let log_tail = if known.is_intended() { String::new() } else { log_tail };
        return DeathCause { pid, log_tail, ..known };
    }
    let (kind, code, message) = match exit {
        Exit::Code(code) => (
            DeathKind::Exited,
            code,
            format!("The worker process (pid {pid}) exited with code {code}."),
        ),
        Exit::Signal(signal) => (
            DeathKind::Signaled,
            signal,
            format!(
                "The worker process (pid {pid}) was killed by signal {signal} ({}).",
                signal_name(signal)
            ),
        ),
        Exit::Unknown => (
            DeathKind::Unknown,
            0,
            format!("The worker process (pid {pid}) ended; nobody saw how."),
        ),
    };
    DeathCause { kind, code, pid, message, log_tail, ..DeathCause::default() }
}

/// The cause for processes of a node that has died.
pub(crate) fn node_died(node_id: NodeId, host: &str) -> DeathCause {
    let at = if host.is_empty() { String::new() } else { format!(" ({host})") };
    DeathCause::new(
        DeathKind::NodeDied,
        format!("The node {node_id}{at} on which it ran has died."),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: usize) -> WorkerId {
        let mut bytes = [0; 28];
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        WorkerId(bytes)
    }

    #[test]
    fn a_cause_that_was_known_before_goes_before_the_status() {
        let status = cause(None, 7, Exit::Signal(9), "tail".to_owned());
        assert_eq!((status.kind, status.code, status.pid), (DeathKind::Signaled, 9, 7));
        assert_eq!(status.log_tail, "tail");
        let known = DeathCause::new(DeathKind::Intended, "It was idle.");
        let intended = cause(Some(known), 7, Exit::Signal(9), "tail".to_owned());
        assert_eq!((intended.kind, intended.pid), (DeathKind::Intended, 7));
        assert_eq!(intended.log_tail, "", "nobody needs the log of a process that was to end");
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut exits = Exits::default();
        for n in 0..=DEATHS_MAX {
            let cause = DeathCause::new(DeathKind::Exited, n.to_string());
            exits.add(id(n), End { cause, is_driver: false, life: Life::default(), at: 0 });
        }
        assert_eq!(exits.get(id(0)), None);
        assert_eq!(exits.get(id(1)).map(|cause| &*cause.message), Some("1"));
        assert_eq!(exits.all().next().map(|(worker_id, ..)| worker_id), Some(id(DEATHS_MAX)));
        assert_eq!(exits.all().count(), DEATHS_MAX);
    }
}
