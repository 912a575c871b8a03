//! Rows and counts of calls and objects, for who asks.

use helio_proto::inspect::{ObjectRow, TaskPhase, TaskRow};
use helio_proto::tally::Tally;
use helio_proto::template::Template;
use helio_types::id::PUT_INDEX_BASE;
use helio_types::{ActorId, ObjectId};

use super::Owner;
use super::why::Asked;
use crate::calls::{State, Task};
use crate::history::{ENDED_MAX, Ended};
use crate::objects::{Object, Objects};
use crate::spec::Target;
use crate::value::Stored;

/// For an answer about more calls than that, the places of all that wait are looked up at once.
const PLACES_FROM: usize = 32;

impl Owner {
    /// Calls that ended since the process began: well, and badly.
    #[must_use]
    pub fn calls_ended(&self) -> (u64, u64) {
        self.history.counts()
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
        let is_listed = |task: &&Task| !task.spec().template.is_unlisted;
        let mut open: Vec<&Task> = self.calls.iter().filter(is_listed).collect();
        // With more calls than rows the oldest are shown: they are the ones that hang.
        open.sort_unstable_by_key(|task| (task.past().created, task.spec().id));
        let mut others = Tally::default();
        others.add_all(&self.history.forgotten().counts());
        for task in open.iter().skip(limit) {
            let actor = match &task.spec().target {
                Target::Class(_) => ActorId::NIL,
                Target::Actor(actor) => *actor,
            };
            others.add(&task.spec().template.name, actor, phase(task), 1);
        }
        let latest = self.history.latest();
        let is_late = |ended: &&Ended| ended.at() >= since;
        let room = limit.saturating_sub(open.len());
        let told = latest.clone().take_while(is_late).take(room).count();
        for ended in latest.clone().skip(told) {
            ended.count(&mut others, true);
        }
        open.truncate(limit);
        let mut rows = self.open_rows(&open, now, &wall);
        rows.extend(latest.take(told).map(|ended| ended.row(&wall)));
        (rows, others)
    }

    /// All calls that this process has made, counted by name and phase: first attempts, and those that are attempts of a
    /// call that had failed. What is forgotten of the latter counts as the former.
    #[must_use]
    pub fn task_tallies(&self) -> [Tally; 2] {
        let mut tallies = <[Tally; 2]>::default();
        tallies[0].add_all(&self.history.forgotten().counts());
        let mut add = |attempt: u32, template: &Template, phase| {
            if !template.is_unlisted {
                let tally = &mut tallies[usize::from(attempt > 0)];
                tally.add(&template.name, ActorId::NIL, phase, 1);
            }
        };
        for task in self.calls.iter() {
            add(task.attempt(), &task.spec().template, phase(task));
        }
        for ended in self.history.latest() {
            ended.count(&mut tallies[usize::from(ended.is_repeated())], false);
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
        let ended = self.history.latest();
        let n_ended = ended.len();
        let is_late = |ended: &&Ended| ended.at() >= since;
        let late = ended.take_while(is_late).take(limit);
        let mut rows: Vec<TaskRow> = late.map(|ended| ended.row(&wall)).collect();
        // A full answer and a full history look alike: calls may have been forgotten that ended since then.
        let is_gapped = rows.len() == limit || (rows.len() == n_ended && rows.len() == ENDED_MAX);
        let is_new = |task: &&Task| {
            !task.spec().template.is_unlisted && task.past().created.max(task.sent()) >= since
        };
        let mut open = self.calls.iter().filter(is_new);
        let room = limit - rows.len();
        let told: Vec<&Task> = open.by_ref().take(room).collect();
        rows.extend(self.open_rows(&told, now, &wall));
        (rows, is_gapped || open.next().is_some())
    }

    fn open_rows(&self, tasks: &[&Task], now: u64, wall: &impl Fn(u64) -> u64) -> Vec<TaskRow> {
        let places = (tasks.len() > PLACES_FROM).then(|| self.leases.places());
        let asked = Asked { now, places: places.as_ref() };
        tasks.iter().map(|task| self.open_row(task, asked, wall)).collect()
    }

    fn open_row(&self, task: &Task, asked: Asked<'_>, wall: &impl Fn(u64) -> u64) -> TaskRow {
        let spec = task.spec();
        let is_sent = task.is_sent();
        let at = task.at().filter(|_| is_sent);
        let (actor_id, resources) = match &spec.target {
            Target::Class(class) => (ActorId::NIL, class.resources.clone()),
            Target::Actor(actor) => (*actor, Default::default()),
        };
        TaskRow {
            task_id: spec.id,
            attempt: task.attempt(),
            name: spec.template.name.clone(),
            phase: phase(task),
            actor_id,
            parent: spec.parent,
            node_id: at.map(|at| at.node_id).unwrap_or_default(),
            worker_id: at.map(|at| at.worker_id).unwrap_or_default(),
            created_ms: wall(task.past().created) / 1000,
            started_us: if is_sent { wall(task.sent()) } else { 0 },
            why: self.task_asked(spec.id, asked).text,
            resources,
            ..TaskRow::default()
        }
    }

    /// Rows of the objects to which this process holds references; and how many there are.
    #[must_use]
    pub fn object_rows(&self, limit: usize) -> (Vec<ObjectRow>, usize) {
        let mut all: Vec<_> =
            self.objects.iter().filter(|(_, object)| object.is_listed()).collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        let total = all.len();
        let rows = all.into_iter().take(limit).map(|(id, object)| self.object_row(id, object));
        (rows.collect(), total)
    }

    /// Rows of those objects that this process knows, with the nodes that have their values.
    #[must_use]
    pub fn place_rows(&self, ids: &[ObjectId]) -> Vec<ObjectRow> {
        let known = |id: &ObjectId| Some((*id, self.objects.get(*id)?));
        let rows = ids.iter().filter_map(known).map(|(id, object)| {
            let nodes = match object.value() {
                Stored::Stores { locations, .. } => {
                    locations.iter().map(|location| location.node_id).collect()
                }
                // The bytes of a put value lie with the process that put it; a small return travels with its answer.
                Stored::Inline(_) if object.owner().is_none() && id.index() >= PUT_INDEX_BASE => {
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
        let size = match object.value() {
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
            is_borrowed: object.owner().is_some(),
            is_ready: object.is_ready(),
            is_error: matches!(object.value(), Stored::Error(_)),
            is_stored: matches!(object.value(), Stored::Stores { .. }),
            is_handle: Objects::stands_for_handles(id, object),
            attempt: self.calls.get(id.task()).map_or(0, Task::attempt),
            ..ObjectRow::default()
        }
    }
}

fn phase(task: &Task) -> TaskPhase {
    match (task.state(), &task.spec().target) {
        (State::Waiting(_), _) => TaskPhase::WaitsForArgs,
        (State::Queued, Target::Class(_)) => TaskPhase::WaitsForWorker,
        (State::Queued, Target::Actor(_)) => TaskPhase::WaitsForActor,
        (State::OnLease(_) | State::OnActor, _) => TaskPhase::Sent,
        (State::Delayed(_), _) => TaskPhase::WaitsForRetry,
    }
}
