//! Frames of other processes, and the check that each call which could begin has begun.

use helio_proto::peer::Frame;
use helio_types::TaskId;

use super::Process;
use crate::core::Core;

impl Process {
    /// A frame of another process came.
    pub(super) fn frame_came(&mut self, bytes: &[u8]) {
        match Frame::get(bytes) {
            Ok(Frame::Call { task, lease, args, .. }) if lease.0 == 0 => {
                self.inbox.came(task, args);
            }
            Ok(Frame::Cancel { task, force: true, .. })
                if self.code.iter().any(|frame| frame.task() == task) =>
            {
                self.forced.insert(task);
            }
            _ => {}
        }
    }

    /// All that could begin has begun: no call of an actor with room for it waits that lacks nothing, but behind one of
    /// its own group.
    pub(super) fn check_inbox(&self, core: &mut Core) {
        let (Some(actor), Some(machine)) = (&self.actor, &self.machine) else { return };
        let has_room = actor.is_open() && self.code.len() < actor.concurrency;
        if !has_room || self.exits || self.inbox.is_done() {
            return;
        }
        let queued: Vec<TaskId> = machine.queued_calls().collect();
        if let Some(task) = self.inbox.first_open(|task| queued.contains(&task)) {
            core.violation(format!(
                "{task:?} has all it needs, waits behind nothing, and does not begin"
            ));
        }
    }
}
