//! The latest calls that ended, and rows of all that are known, for who asks (LIMIT-1: [`ENDED_MAX`]).

use std::collections::VecDeque;
use std::sync::Arc;

use helio_proto::error::{ErrorKind, SystemError, came_through, cut, line};
use helio_proto::inspect::{ObjectRow, TaskPhase, TaskRow};
use helio_proto::node::LeaseClass;
use helio_proto::peer::{Returned, Value};
use helio_proto::tally::Tally;
use helio_proto::template::Template;
use helio_types::id::PUT_INDEX_BASE;
use helio_types::{ActorId, ObjectId, TaskId, WorkerAddress};

use crate::Owner;
use crate::object::{Object, Stored};
use crate::task::{State, Target, Task};

/// How many calls that ended are remembered; the oldest are forgotten.
pub(crate) const ENDED_MAX: usize = 10_000;

/// A call's template is kept with its function when that is smaller, in bytes.
const FUNCTION_KEPT_MAX: usize = 16 << 10;

/// How much of an error's text is kept, in bytes.
const ERROR_TEXT_MAX: usize = 4_096;

#[derive(Debug)]
struct Ended {
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
    /// How many have ended, well and badly.
    pub(crate) finished: u64,
    pub(crate) failed: u64,
}

impl History {
    /// A call is over; `error` stands in place of its values.
    pub(crate) fn add(&mut self, task: &Task, error: Option<&Returned>, now: u64) {
        let error = error.and_then(|returned| described(task.spec.id, &returned.value));
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
        if task.spec.template.is_unlisted {
            return;
        }
        if self.ended.len() >= ENDED_MAX
            && let Some(oldest) = self.ended.pop_front()
        {
            self.forgotten.add(&oldest.template.name, oldest.actor, oldest.phase(), 1);
        }
        let spec = &task.spec;
        let (class, actor) = match &spec.target {
            Target::Class(class) => (Some(class.clone()), ActorId::NIL),
            Target::Actor(actor) => (None, *actor),
        };
        self.ended.push_back(Ended {
            id: spec.id,
            parent: spec.parent,
            attempt: task.attempt,
            template: without_large_function(&spec.template),
            class,
            actor,
            at: task.at.clone(),
            created: task.past.created,
            sent: task.sent,
            ended: now,
            error,
        });
    }

    /// How often a call that ended was begun; 0: it is not remembered.
    pub(crate) fn attempts(&self, id: TaskId) -> u32 {
        let ended = self.ended.iter().rev().find(|ended| ended.id == id);
        ended.map_or(0, |ended| ended.attempt + 1)
    }

    /// How a call ended, if it is remembered: when, its actor (nil: none), its name, and its error.
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

impl Owner {
    /// Calls that ended since the process began: well, and badly.
    #[must_use]
    pub fn calls_ended(&self) -> (u64, u64) {
        (self.history.finished, self.history.failed)
    }

    /// Rows of unfinished calls, oldest first, and of the latest that ended since a moment of the machine's time; and counts of
    /// all others. `wall` makes microseconds since 1970 of the machine's time.
    #[must_use]
    pub fn task_rows(
        &self,
        since: u64,
        limit: usize,
        now: u64,
        wall: impl Fn(u64) -> u64,
    ) -> (Vec<TaskRow>, Tally) {
        let is_listed = |task: &&Task| !task.spec.template.is_unlisted;
        let mut open: Vec<&Task> = self.tasks.values().filter(is_listed).collect();
        open.sort_unstable_by_key(|task| (task.past.created, task.spec.id));
        let mut others = Tally::default();
        others.add_all(&self.history.forgotten.counts());
        for task in open.iter().skip(limit) {
            let actor = match &task.spec.target {
                Target::Class(_) => ActorId::NIL,
                Target::Actor(actor) => *actor,
            };
            others.add(&task.spec.template.name, actor, phase(task), 1);
        }
        let latest = self.history.ended.iter().rev();
        let is_late = |ended: &&Ended| ended.ended >= since;
        let room = limit.saturating_sub(open.len());
        let told = latest.clone().take_while(is_late).take(room).count();
        for ended in latest.clone().skip(told) {
            others.add(&ended.template.name, ended.actor, ended.phase(), 1);
        }
        let open = open.into_iter().take(limit).map(|task| self.open_row(task, now, &wall));
        let ended = latest.take(told).map(|ended| ended_row(ended, &wall));
        (open.chain(ended).collect(), others)
    }

    /// All calls that this process has made, counted by name and phase: first attempts, and those that are attempts of a
    /// call that had failed. What is forgotten of the latter counts as the former.
    #[must_use]
    pub fn task_tallies(&self) -> [Tally; 2] {
        let mut tallies = <[Tally; 2]>::default();
        tallies[0].add_all(&self.history.forgotten.counts());
        let mut add = |attempt: u32, template: &Template, phase| {
            if !template.is_unlisted {
                let tally = &mut tallies[usize::from(attempt > 0)];
                tally.add(&template.name, ActorId::NIL, phase, 1);
            }
        };
        for task in self.tasks.values() {
            add(task.attempt, &task.spec.template, phase(task));
        }
        for ended in &self.history.ended {
            add(ended.attempt, &ended.template, ended.phase());
        }
        tallies
    }

    /// Rows of the calls that are over since a moment of the machine's time, the latest first, then of those that
    /// were made or sent since then and are not over; and whether there were more than `limit`, or than are remembered.
    #[must_use]
    pub fn task_rows_since(
        &self,
        since: u64,
        limit: usize,
        now: u64,
        wall: impl Fn(u64) -> u64,
    ) -> (Vec<TaskRow>, bool) {
        let ended = &self.history.ended;
        let is_late = |ended: &&Ended| ended.ended >= since;
        let mut rows: Vec<TaskRow> = ended
            .iter()
            .rev()
            .take_while(is_late)
            .take(limit)
            .map(|ended| ended_row(ended, &wall))
            .collect();
        let is_gapped =
            rows.len() == limit || (rows.len() == ended.len() && rows.len() == ENDED_MAX);
        let is_new = |task: &&Task| {
            !task.spec.template.is_unlisted && task.past.created.max(task.sent) >= since
        };
        let mut open = self.tasks.values().filter(is_new);
        let room = limit - rows.len();
        rows.extend(open.by_ref().take(room).map(|task| self.open_row(task, now, &wall)));
        (rows, is_gapped || open.next().is_some())
    }

    fn open_row(&self, task: &Task, now: u64, wall: &impl Fn(u64) -> u64) -> TaskRow {
        let spec = &task.spec;
        let is_sent = matches!(task.state, State::OnLease(_) | State::OnActor);
        let at = task.at.as_ref().filter(|_| is_sent);
        let (actor_id, resources) = match &spec.target {
            Target::Class(class) => (ActorId::NIL, class.resources.clone()),
            Target::Actor(actor) => (*actor, Default::default()),
        };
        TaskRow {
            task_id: spec.id,
            attempt: task.attempt,
            name: spec.template.name.clone(),
            phase: phase(task),
            actor_id,
            parent: spec.parent,
            node_id: at.map(|at| at.node_id).unwrap_or_default(),
            worker_id: at.map(|at| at.worker_id).unwrap_or_default(),
            created_ms: wall(task.past.created) / 1000,
            started_us: if is_sent { wall(task.sent) } else { 0 },
            why: self.why_task(spec.id, now).text,
            resources,
            ..TaskRow::default()
        }
    }

    /// Rows of the objects to which this process holds references; and how many there are.
    #[must_use]
    pub fn object_rows(&self, limit: usize) -> (Vec<ObjectRow>, usize) {
        let mut all: Vec<_> =
            self.objects.iter().filter(|(_, object)| object.is_listed()).collect();
        all.sort_unstable_by_key(|(id, _)| **id);
        let total = all.len();
        let rows = all.into_iter().take(limit).map(|(id, object)| self.object_row(*id, object));
        (rows.collect(), total)
    }

    /// Rows of those objects that this process knows, with the nodes that have their values.
    #[must_use]
    pub fn place_rows(&self, ids: &[ObjectId]) -> Vec<ObjectRow> {
        let known = |id: &ObjectId| Some((*id, self.objects.get(id)?));
        let rows = ids.iter().filter_map(known).map(|(id, object)| {
            let nodes = match &object.value {
                Stored::Stores { locations, .. } => {
                    locations.iter().map(|location| location.node_id).collect()
                }
                // The bytes of a put value lie with the process that put it; a small return travels with its answer.
                Stored::Inline(_) if object.owner.is_none() && id.index() >= PUT_INDEX_BASE => {
                    vec![self.address().node_id]
                }
                Stored::Inline(_) | Stored::Error(_) | Stored::Pending => Vec::new(),
            };
            ObjectRow { nodes, ..self.object_row(id, object) }
        });
        rows.collect()
    }

    fn object_row(&self, id: ObjectId, object: &Object) -> ObjectRow {
        let (local, uses, borrowers) = object.holders();
        let size = match &object.value {
            Stored::Pending => 0,
            Stored::Inline(bytes) | Stored::Error(bytes) => bytes.len() as u64,
            Stored::Stores { size, .. } => *size,
        };
        ObjectRow {
            object_id: id,
            size,
            local,
            uses,
            borrowers: borrowers as u32,
            is_borrowed: object.owner.is_some(),
            is_ready: object.is_ready(),
            is_error: matches!(object.value, Stored::Error(_)),
            is_stored: matches!(object.value, Stored::Stores { .. }),
            is_handle: object.relations.handle_of.is_some()
                || crate::actor::actor_of_handle(id).is_some(),
            attempt: self.tasks.get(&id.task()).map_or(0, |task| task.attempt),
            ..ObjectRow::default()
        }
    }
}

fn phase(task: &Task) -> TaskPhase {
    match (task.state, &task.spec.target) {
        (State::Waiting(_), _) => TaskPhase::WaitsForArgs,
        (State::Queued, Target::Class(_)) => TaskPhase::WaitsForWorker,
        (State::Queued, Target::Actor(_)) => TaskPhase::WaitsForActor,
        (State::OnLease(_) | State::OnActor, _) => TaskPhase::Sent,
        (State::Delayed(_), _) => TaskPhase::WaitsForRetry,
    }
}

fn ended_row(ended: &Ended, wall: &impl Fn(u64) -> u64) -> TaskRow {
    let phase = ended.phase();
    let (error_type, error_message) = match ended.error.as_deref() {
        Some((kind, text)) => ((*kind).to_owned(), text.clone()),
        None => Default::default(),
    };
    TaskRow {
        task_id: ended.id,
        attempt: ended.attempt,
        name: ended.template.name.clone(),
        phase,
        actor_id: ended.actor,
        parent: ended.parent,
        node_id: ended.at.as_ref().map(|at| at.node_id).unwrap_or_default(),
        worker_id: ended.at.as_ref().map(|at| at.worker_id).unwrap_or_default(),
        created_ms: wall(ended.created) / 1000,
        started_us: if ended.sent > 0 { wall(ended.sent) } else { 0 },
        ended_us: wall(ended.ended),
        error_type,
        error_message,
        resources: ended.class.as_ref().map(|class| class.resources.clone()).unwrap_or_default(),
        ..TaskRow::default()
    }
}
