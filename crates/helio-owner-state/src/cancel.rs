//! Calls that are ended before they end by themselves: cancelled, or generators that their reader has left.

use std::sync::Arc;

use helio_proto::error::{ErrorKind, SystemError};
use helio_proto::peer::Frame;
use helio_types::{ObjectId, TaskId, mutant};

use crate::Owner;
use crate::object::Stored;
use crate::task::{State, Target};

impl Owner {
    /// Whether the call went to a worker or an actor and has not come back: then it may begin although it is cancelled.
    #[must_use]
    pub fn is_sent(&self, id: TaskId) -> bool {
        self.tasks
            .get(&id)
            .is_some_and(|task| matches!(task.state, State::OnLease(_) | State::OnActor))
    }

    /// Stops the call that returns the object; whose it is not asks its owner.
    pub(crate) fn cancel_maker(&mut self, object: ObjectId, force: bool, recursive: bool) {
        let task = object.task();
        self.cancel(task, force, recursive);
        if let Some(owner) = self.objects.get(&object).and_then(|object| object.owner.as_ref()) {
            let to = owner.clone();
            self.ctx.send(to, Frame::Cancel { task, force, recursive });
        }
    }

    pub(crate) fn cancel(&mut self, id: TaskId, force: bool, recursive: bool) {
        if recursive || mutant!("children-cancelled-though-not-asked") {
            self.cancel_children(id, force);
        }
        self.stop(id, force, recursive, false);
    }

    /// Stops the calls that were made in that call.
    pub(crate) fn cancel_children(&mut self, parent: TaskId, force: bool) {
        let made = self.tasks.iter().filter(|(_, task)| task.spec.parent == parent);
        let mut children: Vec<TaskId> = made.map(|(child, _)| *child).collect();
        children.sort_unstable();
        for child in children {
            if !mutant!("children-not-cancelled") {
                self.cancel(child, force, true);
            }
        }
    }

    /// The reader of a generator has left it. What it has made stays, and is made again if it is lost.
    pub(crate) fn leave(&mut self, id: TaskId) {
        self.stop(id, false, false, true);
    }

    fn stop(&mut self, id: TaskId, force: bool, recursive: bool, is_left: bool) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        task.cancelled = true;
        if task.past.earlier.is_left != is_left {
            task.past.earlier.is_left = is_left;
        }
        let spec = task.spec.clone();
        match task.state {
            State::Waiting(_) | State::Queued | State::Delayed(_)
                if !is_left && mutant!("waiting-call-not-cancelled") => {}
            State::Waiting(_) | State::Queued | State::Delayed(_) => {
                let class = self.unqueue(id);
                self.fail(id, &cancelled_error(id, &spec.template.name));
                // Calls behind this one may have waited for nothing else, and no call for the requested worker.
                match (&spec.target, class) {
                    (Target::Actor(actor), _) => self.pump_actor(*actor),
                    (Target::Class(_), Some(class)) => self.pump(class),
                    (Target::Class(_), None) => {}
                }
            }
            State::OnLease(_) | State::OnActor => {
                if let Some((to, _)) = self.running_at(&id) {
                    self.ctx.send(to, Frame::Cancel { task: id, force, recursive });
                }
            }
        }
    }
}

pub(crate) fn cancelled_error(task: TaskId, name: &str) -> Stored {
    let text = format!("the task was cancelled: {name}");
    let error = SystemError {
        task,
        name: name.to_owned(),
        ..SystemError::new(ErrorKind::TaskCancelled, text)
    };
    Stored::Error(Arc::new(error.to_payload()))
}
