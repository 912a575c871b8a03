//! The latest calls that ended, for who asks (LIMIT-1: [`ENDED_MAX`]).

use std::collections::VecDeque;
use std::sync::Arc;

use helio_proto::error::{ErrorKind, SystemError, came_through, cut, line};
use helio_proto::inspect::{TaskPhase, TaskRow};
use helio_proto::node::LeaseClass;
use helio_proto::peer::{Returned, Value};
use helio_proto::tally::Tally;
use helio_proto::template::Template;
use helio_types::{ActorId, TaskId, WorkerAddress};

use crate::calls::Task;
use crate::spec::Target;

/// Number of ended calls that are remembered; beyond it the oldest are forgotten.
pub(crate) const ENDED_MAX: usize = 10_000;

/// A call's template is kept with its function when that is smaller, in bytes.
const FUNCTION_KEPT_MAX: usize = 16 << 10;

/// Bytes of an error's text that are kept; the rest is cut off.
const ERROR_TEXT_MAX: usize = 4_096;

/// A call that has ended, or an attempt of one.
#[derive(Debug)]
pub(crate) struct Ended {
    id: TaskId,
    parent: TaskId,
    attempt: u32,
    template: Arc<Template>,
    class: Option<Arc<LeaseClass>>,
    actor: ActorId,
    at: Option<Arc<WorkerAddress>>,
    created: u64,
    sent: u64,
    ended: u64,
    error: Option<Box<(&'static str, String)>>,
}

impl Ended {
    /// Returns the time at which the call ended, in microseconds.
    pub(crate) fn at(&self) -> u64 {
        self.ended
    }

    /// Adds it to a tally.
    pub(crate) fn count(&self, tally: &mut Tally, with_actor: bool) {
        let actor = if with_actor { self.actor } else { ActorId::NIL };
        tally.add(&self.template.name, actor, self.phase(), 1);
    }

    /// Whether it is an attempt of a call that had failed.
    pub(crate) fn is_repeated(&self) -> bool {
        self.attempt > 0
    }

    /// Returns the call as a row of the state API; `wall` converts the machine's time to
    /// microseconds since 1970.
    pub(crate) fn row(&self, wall: &impl Fn(u64) -> u64) -> TaskRow {
        let phase = self.phase();
        let (error_type, error_message) = match self.error.as_deref() {
            Some((kind, text)) => ((*kind).to_owned(), text.clone()),
            None => Default::default(),
        };
        TaskRow {
            task_id: self.id,
            attempt: self.attempt,
            name: self.template.name.clone(),
            phase,
            actor_id: self.actor,
            parent: self.parent,
            node_id: self.at.as_ref().map(|at| at.node_id).unwrap_or_default(),
            worker_id: self.at.as_ref().map(|at| at.worker_id).unwrap_or_default(),
            created_ms: wall(self.created) / 1000,
            started_us: if self.sent > 0 { wall(self.sent) } else { 0 },
            ended_us: wall(self.ended),
            error_type,
            error_message,
            resources: self.class.as_ref().map(|class| class.resources.clone()).unwrap_or_default(),
            ..TaskRow::default()
        }
    }

    fn phase(&self) -> TaskPhase {
        if self.error.is_some() { TaskPhase::Failed } else { TaskPhase::Finished }
    }
}

/// The calls that ended last, oldest first.
#[derive(Debug, Default)]
pub(crate) struct History {
    ended: VecDeque<Ended>,
    /// The tally of calls that are forgotten.
    forgotten: Tally,
    /// Number of calls that ended with values, since the process began.
    finished: u64,
    failed: u64,
}

impl History {
    /// A call is over; `error` stands in place of its values.
    pub(crate) fn add(&mut self, task: &Task, error: Option<&Returned>, now: u64) {
        let error = error.and_then(|returned| described(task.spec().id, &returned.value));
        if error.is_some() {
            self.failed += 1;
        } else {
            self.finished += 1;
        }
        self.keep(task, error, now);
    }

    /// An attempt of a call has failed, and another one follows.
    pub(crate) fn add_attempt(&mut self, task: &Task, error: (&'static str, &str), now: u64) {
        let (kind, text) = error;
        self.keep(task, Some(Box::new((kind, cut(text, ERROR_TEXT_MAX).to_owned()))), now);
    }

    fn keep(&mut self, task: &Task, error: Option<Box<(&'static str, String)>>, now: u64) {
        if task.spec().template.is_unlisted {
            return;
        }
        if self.ended.len() >= ENDED_MAX
            && let Some(oldest) = self.ended.pop_front()
        {
            // Rows go, counts stay: summaries are of the whole session.
            oldest.count(&mut self.forgotten, true);
        }
        assert!(self.ended.len() < ENDED_MAX, "calls that ended would be remembered without end");
        let spec = task.spec();
        let (class, actor) = match &spec.target {
            Target::Class(class) => (Some(class.clone()), ActorId::NIL),
            Target::Actor(actor) => (None, *actor),
        };
        self.ended.push_back(Ended {
            id: spec.id,
            parent: spec.parent,
            attempt: task.attempt(),
            template: without_large_function(&spec.template),
            class,
            actor,
            at: task.at().cloned(),
            created: task.past().created,
            sent: task.sent(),
            ended: now,
            error,
        });
    }

    /// Returns the number of calls that ended with values, and with an error.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.finished, self.failed)
    }

    /// The tally of calls that are forgotten.
    pub(crate) fn forgotten(&self) -> &Tally {
        &self.forgotten
    }

    /// The calls that ended last, the latest first.
    pub(crate) fn latest(
        &self,
    ) -> impl DoubleEndedIterator<Item = &Ended> + Clone + ExactSizeIterator {
        self.ended.iter().rev()
    }

    /// Returns the number of attempts of an ended call; 0 if it is not remembered.
    pub(crate) fn attempts(&self, id: TaskId) -> u32 {
        let ended = self.ended.iter().rev().find(|ended| ended.id == id);
        ended.map_or(0, |ended| ended.attempt + 1)
    }

    /// Returns the end of a remembered call: its time, its actor (nil for a task), its name, and
    /// its error.
    pub(crate) fn find(&self, id: TaskId) -> Option<(u64, ActorId, &str, Option<&str>)> {
        let ended = self.ended.iter().rev().find(|ended| ended.id == id)?;
        let error = ended.error.as_ref().map(|error| error.1.as_str());
        Some((ended.ended, ended.actor, &ended.template.name, error))
    }
}

/// Returns the part of a template that rows show. A session that defines functions for ever does not keep the latest
/// ten thousand with what they hold.
#[must_use]
pub fn without_large_function(template: &Arc<Template>) -> Arc<Template> {
    if template.function.len() <= FUNCTION_KEPT_MAX {
        return template.clone();
    }
    let Template { name, kind, .. } = &**template;
    Arc::new(Template { name: name.clone(), kind: *kind, ..Template::default() })
}

/// An error's name in Ray's state API, and its text as far as the core can read it. `None`: the call was to
/// end its process, and did.
fn described(task: TaskId, value: &Value) -> Option<Box<(&'static str, String)>> {
    let raised = |text: String| Some(Box::new(("TASK_EXECUTION_EXCEPTION", text)));
    let Value::Error(bytes) = value else { return raised(String::new()) };
    // An error that came by an argument is named by what the argument failed with.
    let inner = came_through(bytes).map_or(&bytes[..], |(_, inner)| inner);
    let text = cut(&line(bytes), ERROR_TEXT_MAX).to_owned();
    let Some(error) = SystemError::from_payload(inner) else {
        return raised(text);
    };
    if error.cause.is_good_end_of(task) {
        return None;
    }
    let kind = match error.kind {
        ErrorKind::System => "TASK_EXECUTION_EXCEPTION",
        ErrorKind::WorkerCrashed => "WORKER_DIED",
        ErrorKind::ActorDied => "ACTOR_DIED",
        ErrorKind::ActorUnavailable => "ACTOR_UNAVAILABLE",
        ErrorKind::ObjectLost => "OBJECT_LOST",
        ErrorKind::OwnerDied => "OWNER_DIED",
        ErrorKind::ReconstructionFailed => "OBJECT_UNRECONSTRUCTABLE",
        ErrorKind::TaskCancelled => "TASK_CANCELLED",
        ErrorKind::TaskUnschedulable => "TASK_UNSCHEDULABLE_ERROR",
        ErrorKind::ActorUnschedulable => "ACTOR_UNSCHEDULABLE_ERROR",
        ErrorKind::RuntimeEnvSetup => "RUNTIME_ENV_SETUP_FAILED",
        ErrorKind::NodeDied => "NODE_DIED",
        ErrorKind::OutOfMemory => "OUT_OF_MEMORY",
        ErrorKind::StoreFull => "OBJECT_STORE_FULL",
        ErrorKind::OutOfDisk => "OUT_OF_DISK_ERROR",
        ErrorKind::ObjectFreed => "OBJECT_FREED",
        ErrorKind::TaskGroupRemoved => "TASK_PLACEMENT_GROUP_REMOVED",
        ErrorKind::ActorGroupRemoved => "ACTOR_PLACEMENT_GROUP_REMOVED",
    };
    Some(Box::new((kind, text)))
}
