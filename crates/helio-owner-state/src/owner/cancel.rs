//! Calls that are ended before they end by themselves: cancelled, or generators that their reader has left.

use helio_proto::peer::Frame;
use helio_types::{ObjectId, TaskId, mutant};

use super::Owner;
use crate::calls::{State, Task};
use crate::spec::Target;
use crate::value::cancelled_error;

impl Owner {
    /// Whether the call went to a worker or an actor and has not come back: then it may begin although it is cancelled.
    #[must_use]
    pub fn is_sent(&self, id: TaskId) -> bool {
        self.calls.get(id).is_some_and(Task::is_sent)
    }

    /// Stops the call that returns the object; whose it is not asks its owner.
    pub(super) fn on_cancel(&mut self, object: ObjectId, force: bool, recursive: bool) {
        let task = object.task();
        self.cancel(task, force, recursive);
        if let Some(owner) = self.objects.owner_of(object).cloned() {
            self.ctx.send(owner, Frame::Cancel { task, force, recursive });
        }
    }

    pub(super) fn cancel(&mut self, id: TaskId, force: bool, recursive: bool) {
        if recursive {
            self.cancel_children(id, force);
        }
        self.stop(id, force, recursive, false);
    }

    /// Stops the calls that were made in that call.
    pub(super) fn cancel_children(&mut self, parent: TaskId, force: bool) {
        for child in self.calls.children_of(parent) {
            if !mutant!("children-not-cancelled") {
                self.cancel(child, force, true);
            }
        }
    }

    /// The reader of a generator has left it. What it has made stays, and is made again if it is lost.
    pub(super) fn leave(&mut self, id: TaskId) {
        self.stop(id, false, false, true);
    }

    fn stop(&mut self, id: TaskId, force: bool, recursive: bool, is_left: bool) {
        let Some((spec, state)) = self.calls.cancel(id, is_left) else { return };
        match state {
            State::Waiting(_) | State::Queued | State::Delayed(_)
                if !is_left && mutant!("waiting-call-not-cancelled") => {}
            State::Waiting(_) | State::Queued | State::Delayed(_) => {
                let class = self.leases.unqueue(id);
                self.fail(id, &cancelled_error(id, &spec.template.name));
                // Calls behind this one may have waited for nothing else, and no call for the requested worker.
                match (&spec.target, class) {
                    (Target::Actor(actor), _) => self.pump_actor(*actor),
                    (Target::Class(_), Some(class)) => self.pump(class),
                    (Target::Class(_), None) => {}
                }
            }
            // The call may have begun: whether it could be stopped its worker says with the reply.
            State::OnLease(_) | State::OnActor => {
                if let Some((to, _)) = self.running_at(id) {
                    self.ctx.send(to, Frame::Cancel { task: id, force, recursive });
                }
            }
        }
    }
}
