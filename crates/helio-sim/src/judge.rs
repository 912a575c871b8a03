//! Whether an error of the system that a reader met is owed to something that was done to this very call, object or
//! actor, and whether what was promised for it was used up first.
//!
//! | error | what must have happened |
//! |---|---|
//! | a task's worker or node is lost | it was sent retries + 1 times to workers that were lost, or that it ended at |
//! | an actor is dead | it was ended for good, or has begun as many lives as `max_restarts` allows |
//! | an actor is not available | one of its processes was lost, and the call has no retries, or has used them |
//! | an object cannot be made again | a node that it was written on, or that inherited it, was lost, and its call has no tries left |
//! | an owner is dead | its process ended, or was cut off from the reader |
//! | a call was cancelled | it was, or one above it |
//! | a placement group is gone | that group was removed, or its maker ended |
//! | a group cannot be made | it was asked for while the head's disk had no room |
//! | it cannot be placed | it may be on one node alone, and that was lost or takes no work |
//! | a runtime environment | it is the one that can never be made |
//! | no room | a node was asked for that object and said so, and its disk had just refused something; that was full, if it says so |
//! | no memory | the worker of that call was ended for memory |

use helio_proto::error::{ErrorKind, SystemError};
use helio_types::id::PUT_INDEX_BASE;
use helio_types::{ObjectId, TaskId, WorkerId};

use crate::facts::Facts;

/// The reader of an error, and the object.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The reader.
    pub by: WorkerId,
    /// The object in whose place the error is; `None`: it came through the argument of a call.
    pub object: Option<ObjectId>,
    /// The time at which the reader began to read, in microseconds.
    pub since: u64,
}

type Judgement = Result<(), String>;

fn owed(has_cause: bool, promise: impl FnOnce() -> String) -> Judgement {
    if has_cause { Ok(()) } else { Err(promise()) }
}

impl Facts {
    /// **OWN-1** Whether the error is owed to something; without a cause every read gives the value.
    ///
    /// # Errors
    /// The promise that was not kept.
    pub fn judge(&self, error: &SystemError, reading: Reading) -> Judgement {
        let history = &self.history;
        match error.kind {
            ErrorKind::WorkerCrashed => self.judge_crash(error.task),
            ErrorKind::NodeDied => {
                owed(history.call_lost_node(error.task), || {
                    "no node to which its call was sent was lost".to_owned()
                })?;
                self.has_no_tries_left(error.task)
            }
            ErrorKind::ActorDied => self.judge_death(error),
            ErrorKind::ActorUnavailable => self.judge_absence(error, reading),
            ErrorKind::OwnerDied => owed(history.owner_lost(error.object, reading.by), || {
                "its owner lives, and was not cut off from its reader".to_owned()
            }),
            ErrorKind::ReconstructionFailed => self.judge_loss(error.object, reading.by),
            ErrorKind::TaskGroupRemoved => owed(history.call_lost_group(error.task), || {
                "nobody removed the call's placement group".to_owned()
            }),
            ErrorKind::ActorGroupRemoved => owed(history.actor_lost_group(error.actor), || {
                "nobody removed the actor's placement group".to_owned()
            }),
            ErrorKind::TaskCancelled => owed(history.was_cancelled(error.task), || {
                "nobody cancelled the call, or one above it".to_owned()
            }),
            ErrorKind::System => {
                let is_refused = reading.object.is_some_and(|id| history.was_group_refused(id));
                owed(history.call_refused(error.task) || is_refused, || {
                    "no node has told its owner that processes could not be made".to_owned()
                })
            }
            ErrorKind::OutOfMemory => owed(history.call_starved(error.task), || {
                "no worker of the call ended for want of memory".to_owned()
            }),
            ErrorKind::StoreFull | ErrorKind::OutOfDisk => {
                owed(history.had_no_room(error.object), || {
                    "no node that was asked for the object lacked room for it".to_owned()
                })?;
                // Of an argument the call was told earlier than this reader began.
                let is_own = reading.object == Some(error.object);
                let is_fresh = history.was_refused_since(reading.by, error.object, reading.since);
                owed(!is_own || is_fresh, || {
                    "there was no room for it before this read began".to_owned()
                })
            }
            ErrorKind::ObjectLost => owed(self.may_be_forgotten(error.object, reading.by), || {
                "its owner was never without news of its reader".to_owned()
            }),
            ErrorKind::TaskUnschedulable => owed(history.lost_target(error.task), || {
                "the node on which alone it may run takes work".to_owned()
            }),
            ErrorKind::RuntimeEnvSetup => {
                owed(history.has_broken_env(error.task, error.actor), || {
                    "its runtime environment can be made".to_owned()
                })
            }
            ErrorKind::ActorUnschedulable => owed(history.lost_actor_target(error.actor), || {
                "the node on which alone it may live takes actors".to_owned()
            }),
            ErrorKind::ObjectFreed => Err("nothing ever causes that".to_owned()),
        }
    }

    fn judge_crash(&self, task: TaskId) -> Judgement {
        let history = &self.history;
        owed(history.call_lost_worker(task), || {
            "no worker to which its call was sent was lost".to_owned()
        })?;
        if let Some(other) = history.kept_behind(task) {
            return Err(format!(
                "its call cannot have begun: {other:?} ran in that worker to its end"
            ));
        }
        self.has_no_tries_left(task)
    }

    /// Checks that a call was given up only after all its retries.
    fn has_no_tries_left(&self, task: TaskId) -> Judgement {
        let Some(retries) = self.history.retries(task) else { return Ok(()) };
        if self.history.was_cancelled(task) {
            return Ok(());
        }
        let tries = self.history.tries(task);
        owed(retries >= 0 && tries > retries as usize, || {
            format!("the call has max_retries={retries}, and was given up after {tries} tries")
        })
    }

    fn judge_death(&self, error: &SystemError) -> Judgement {
        let history = &self.history;
        if self.history.actor_may_be_over(error.actor) {
            return Ok(());
        }
        let (begun, most) = history.lives(error.actor);
        let is_used_up = most.is_some_and(|most| begun >= most);
        owed(is_used_up, || match most {
            Some(most) => format!("the actor may live {most} times, and is dead after {begun}"),
            None => "the actor may live without end".to_owned(),
        })?;
        owed(history.actor_lost_process(error.actor, None), || {
            "none of its processes was lost".to_owned()
        })
    }

    fn judge_absence(&self, error: &SystemError, reading: Reading) -> Judgement {
        let history = &self.history;
        let caller = reading.object.and_then(|object| history.owner(object));
        let is_lost = history.actor_lost_process(error.actor, caller);
        owed(self.history.actor_may_be_over(error.actor) || is_lost, || {
            "none of the actor's processes was lost, or cut off from the caller".to_owned()
        })?;
        // The error of a method that came to its end is one that it had read.
        let task = reading.object.map(|object| object.task());
        let is_own = |task: &TaskId| task.actor() == error.actor && !history.has_ended(*task);
        match task.filter(is_own).map(|task| (task, history.retries(task))) {
            Some((task, Some(retries))) if retries != 0 => self.has_no_tries_left(task),
            _ => Ok(()),
        }
    }

    fn judge_loss(&self, object: ObjectId, reader: WorkerId) -> Judgement {
        let history = &self.history;
        // The objects of processes on a node that is taken for dead are freed, and the processes live on for a while.
        if history.ended_with_job(object, reader) || history.are_taken_for_dead(object, reader) {
            return Ok(());
        }
        owed(history.object_lost(object), || {
            "no node on which it was written, or that inherited it, was lost".to_owned()
        })?;
        let task = object.task();
        if object.index() >= PUT_INDEX_BASE || history.was_cancelled(task) {
            return Ok(());
        }
        self.has_no_tries_left(task)
    }

    /// Whether an owner may have let go of an object although the reader holds it.
    fn may_be_forgotten(&self, object: ObjectId, reader: WorkerId) -> bool {
        // The borrows of processes on a node that is taken for dead are dropped, and the processes live on for a while.
        // An actor that is over may still begin: its process is told right behind its launch, and the arguments are let
        // go of.
        self.history.owner_lost(object, reader)
            || self.history.actors_in(reader).any(|actor| self.history.actor_may_be_over(actor))
    }
}
