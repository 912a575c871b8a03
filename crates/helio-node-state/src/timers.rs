//! Deadlines. A timer that has become pointless fires and finds nothing to do; so no timer is ever
//! taken back, and their number is bounded by the number of entries that they watch.

use std::collections::BTreeSet;

use helio_types::{ObjectId, WorkerId};

use crate::keys::ActorKey;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Timer {
    /// The worker should have registered.
    WorkerStart(WorkerId),
    /// The worker was asked to end and should have.
    WorkerExit(WorkerId),
    /// The worker's process has ended and its connection should have, too.
    WorkerDrain(WorkerId),
    /// Idle workers may have been idle for too long.
    Idle,
    /// Requests may be sent on, or be known to be impossible.
    Spill,
    /// The actor should have found room.
    Actor(ActorKey),
    /// Questions about living processes can be answered.
    Liveness,
    /// Owners that have no connection may be dead.
    Owners,
    /// An object whose connection was lost can be asked for again.
    Pull(ObjectId),
    /// Nodes that the control service does not know are dead.
    Absent,
    /// Creations of objects have waited long enough for room.
    Room,
    /// Questions to processes should have been answered.
    Inspection,
    /// The owner of this cluster should have registered.
    Owner,
    /// A worker that was started ahead may not have been needed.
    Ahead(WorkerId),
    /// The node may be able to leave.
    Leave,
    /// The process that has modules loaded may not be needed any more.
    Unload,
    /// Room was kept free for long enough.
    Kept,
}

#[derive(Debug, Default)]
pub(crate) struct Timers(BTreeSet<(u64, Timer)>);

impl Timers {
    pub(crate) fn set(&mut self, at_ms: u64, timer: Timer) {
        self.0.insert((at_ms, timer));
    }

    pub(crate) fn next(&self) -> Option<u64> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Takes out the first timer that is due.
    pub(crate) fn due(&mut self, now_ms: u64) -> Option<Timer> {
        if self.next()? > now_ms {
            return None;
        }
        self.0.pop_first().map(|(_, timer)| timer)
    }
}
