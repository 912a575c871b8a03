//! A table of a great many calls, from which rows are made only where somebody looks.
//!
//! A call takes about a hundred bytes: what calls share (names, processes, errors) is kept once and numbered. Answers
//! to questions about calls are added one after the other ([`Calls::add`]); who tells best of a call is as in
//! [`crate::rows::tasks`]. Calls are in the order of their keys: the id, then the attempt.
//!
//! **LIMIT-1** Of more calls than [`CALLS_MAX`] those that ended first are only counted, and of error texts beyond
//! [`ERROR_BYTES_MAX`] the last line is kept.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

use helio_proto::control::ActorInfo;
use helio_proto::inspect::{Answer, TaskPhase, TaskRow};
use helio_types::{ActorId, JobId, NodeId, ResourceSet, TaskId, WorkerId};
use serde_json::{Value, json};

use crate::Row;
use crate::rows::{self, Told};
use crate::summary::{self, More};
use crate::tellers;

/// As many calls as a table has.
pub const CALLS_MAX: usize = 1_000_000;
/// Bytes of error texts that are kept whole.
pub const ERROR_BYTES_MAX: usize = 64 << 20;
/// So many calls are let go at a time, so that the oldest are not looked for with each call.
const LET_GO: usize = CALLS_MAX / 20;

/// A call's name in the table: its id, and how often it was begun before.
pub type Key = (TaskId, u32);

/// Values that many calls share, each with a number; 0 is the default.
#[derive(Debug)]
struct Shared<T> {
    all: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl<T: Clone + Default + Eq + Hash> Default for Shared<T> {
    fn default() -> Self {
        Self { all: vec![T::default()], numbers: HashMap::from([(T::default(), 0)]) }
    }
}

impl<T: Clone + Default + Eq + Hash> Shared<T> {
    fn number(&mut self, value: &T) -> u32 {
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }
        let number = self.all.len() as u32;
        self.all.push(value.clone());
        self.numbers.insert(value.clone(), number);
        number
    }

    fn get(&self, number: u32) -> &T {
        &self.all[number as usize]
    }
}

/// What is kept of a call.
#[derive(Debug, Clone, Default)]
struct Call {
    name: u32,
    phase: TaskPhase,
    /// It is the constructor of the actor, of which the actors' table knows more.
    is_constructor: bool,
    /// The process that told of it has ended.
    is_over: bool,
    /// Whether who made it in which job is known.
    has_origin: bool,
    rank: u8,
    actor: u32,
    parent: u32,
    job: u32,
    node: u32,
    worker: u32,
    error: u32,
    why: u32,
    resources: u32,
    created_ms: u64,
    started_us: u64,
    ended_us: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Calls {
    all: BTreeMap<Key, Call>,
    names: Shared<String>,
    actors: Shared<Option<ActorId>>,
    parents: Shared<Option<TaskId>>,
    jobs: Shared<Option<JobId>>,
    nodes: Shared<Option<NodeId>>,
    workers: Shared<Option<WorkerId>>,
    errors: Shared<(String, String)>,
    error_bytes: usize,
    whys: Shared<String>,
    /// Resources by their text, as sets have no hash.
    resources: Shared<String>,
    resource_sets: Vec<ResourceSet>,
    pids: BTreeMap<WorkerId, u32>,
    infos: BTreeMap<ActorId, ActorInfo>,
    /// Calls of actors that are not known yet.
    unnamed: BTreeMap<ActorId, BTreeSet<Key>>,
    /// Calls that were sent and have not begun, as their processes told last.
    queued: BTreeMap<WorkerId, BTreeSet<TaskId>>,
    /// Counts of calls without rows, as each process told last.
    more: BTreeMap<WorkerId, Vec<More>>,
    /// Calls that were let go.
    let_go: BTreeMap<(u32, &'static str, TaskPhase), u64>,
}

/// The value of a column, as cheaply as it can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// One of the values that calls share: the same number is the same value within the column.
    Shared(u32),
    /// A number, or null.
    Number(Option<u64>),
    /// It stands in the row alone.
    InRow,
}

/// A call in the table.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    table: &'a Calls,
    /// Its key.
    pub key: Key,
    call: &'a Call,
}

fn some<T: Copy>(is_nil: bool, id: T) -> Option<T> {
    (!is_nil).then_some(id)
}

impl Calls {
    /// How many calls are in the table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The actors, of which names of methods have the class, and whose constructors are calls, too.
    pub fn set_actors(&mut self, actors: &[ActorInfo]) {
        for info in actors {
            if !info.is_unlisted {
                self.add_constructor(info);
            }
            self.infos.insert(info.actor_id, info.clone());
            // Calls may be told of before their actor is.
            for key in self.unnamed.remove(&info.actor_id).into_iter().flatten() {
                if let Some(call) = self.all.get_mut(&key) {
                    let name = self.names.get(call.name).clone();
                    let name = rows::call_name(&name, Some(&info.class_name));
                    call.name = self.names.number(&name);
                }
            }
        }
    }

    fn add_constructor(&mut self, info: &ActorInfo) {
        let row = rows::constructor(info);
        let text = |column: &str| row.get(column).and_then(Value::as_str).unwrap_or_default();
        let phase = match text("state") {
            "FINISHED" => TaskPhase::Finished,
            "FAILED" => TaskPhase::Failed,
            _ => TaskPhase::WaitsForWorker,
        };
        let mut id = [0xff; TaskId::LEN];
        id[8..].copy_from_slice(&info.actor_id.0);
        let before = self.infos.get(&info.actor_id).map(|old| (TaskId(id), old.restarts));
        let key = (TaskId(id), info.restarts);
        if let Some(before) = before.filter(|before| *before != key) {
            self.all.remove(&before);
        }
        let error = (text("error_type").to_owned(), text("error_message").to_owned());
        let call = Call {
            name: self.names.number(&text("name").to_owned()),
            phase,
            is_constructor: true,
            has_origin: true,
            rank: u8::MAX,
            actor: self.actors.number(&Some(info.actor_id)),
            job: self.jobs.number(&Some(info.job_id)),
            node: self.nodes.number(&some(info.node_id.is_nil(), info.node_id)),
            worker: self
                .workers
                .number(&some(info.address.worker_id.is_nil(), info.address.worker_id)),
            error: self.error(error),
            ..Call::default()
        };
        if info.pid > 0 {
            self.pids.insert(info.address.worker_id, info.pid);
        }
        self.all.insert(key, call);
    }

    /// The numbers of processes, of answers about workers.
    pub fn add_processes(&mut self, answers: &[Answer]) {
        for answer in answers {
            self.pids.insert(answer.worker_id, answer.pid);
            self.pids.extend(answer.workers.iter().map(|worker| (worker.worker_id, worker.pid)));
        }
    }

    /// Adds what processes told: all that they know (`is_whole`), or what has changed since they were asked before.
    /// What a process knows of unfinished calls takes the place of what it said before where it tells of all.
    pub fn add(&mut self, answers: &[Answer], is_whole: bool) {
        self.add_processes(answers);
        if is_whole {
            self.all.retain(|_, call| call.phase.is_over() || call.is_constructor);
            self.more.clear();
        }
        let told: BTreeSet<WorkerId> = answers.iter().map(|answer| answer.worker_id).collect();
        for answer in answers {
            if answer.queued.is_empty() {
                self.queued.remove(&answer.worker_id);
            } else {
                self.queued.insert(answer.worker_id, answer.queued.iter().copied().collect());
            }
            if is_whole && !answer.more.is_empty() {
                let infos: Vec<ActorInfo> = self.infos.values().cloned().collect();
                let more = rows::more(std::slice::from_ref(answer), &infos);
                self.more.insert(answer.worker_id, more);
            }
        }
        // Makers first: what others have heard counts where the maker does not know better.
        for is_hearsay in [false, true] {
            for answer in answers {
                for task in answer.tasks.iter().filter(|task| task.is_hearsay == is_hearsay) {
                    let key = (task.task_id, task.attempt);
                    // The maker has counted what it gave no row.
                    if is_hearsay && told.contains(&task.maker) && !self.all.contains_key(&key) {
                        continue;
                    }
                    self.add_call(answer, task);
                }
            }
        }
        if self.all.len() > CALLS_MAX {
            self.let_go();
        }
    }

    fn add_call(&mut self, answer: &Answer, task: &TaskRow) {
        let key = (task.task_id, task.attempt);
        let rank = tellers::rank(answer, task);
        let known = self.all.get(&key).map(|call| (call.rank, call.phase.is_over(), call.clone()));
        let is_best = known.as_ref().is_none_or(|(best, was_over, _)| {
            // What is over stays over, whoever tells.
            let is_over = task.phase.is_over();
            (rank >= *best && (is_over || !was_over)) || (is_over && !was_over)
        });
        let has_origin = !task.is_hearsay;
        if !is_best {
            if has_origin
                && let Some(call) = self.all.get_mut(&key)
                && !call.has_origin
            {
                call.has_origin = true;
                call.job = self.jobs.number(&Some(answer.job_id));
                call.parent = self.parents.number(&Some(task.parent));
                call.created_ms = task.created_ms;
            }
            return;
        }
        let class = self.infos.get(&task.actor_id).map(|info| info.class_name.clone());
        if class.is_none() && !task.actor_id.is_nil() {
            self.unnamed.entry(task.actor_id).or_default().insert(key);
        }
        let mut call = Call {
            name: self.names.number(&rows::call_name(
                &task.name,
                class.as_deref().filter(|_| !task.actor_id.is_nil()),
            )),
            phase: task.phase,
            is_constructor: false,
            is_over: answer.is_over,
            has_origin,
            rank,
            actor: self.actors.number(&some(task.actor_id.is_nil(), task.actor_id)),
            parent: self.parents.number(&has_origin.then_some(task.parent)),
            job: self.jobs.number(&Some(if has_origin {
                answer.job_id
            } else {
                task.task_id.job()
            })),
            node: self.nodes.number(&some(task.node_id.is_nil(), task.node_id)),
            worker: self.workers.number(&some(task.worker_id.is_nil(), task.worker_id)),
            error: 0,
            why: self.whys.number(&task.why),
            resources: self.resources_of(&task.resources),
            created_ms: if has_origin { task.created_ms } else { 0 },
            started_us: task.started_us,
            ended_us: task.ended_us,
        };
        let (phase, kind, text) = rows::outcome(answer.is_over, task);
        call.phase = phase;
        call.error = self.error((kind.to_owned(), text.to_owned()));
        if let Some((.., before)) = known.filter(|(.., before)| !has_origin && before.has_origin) {
            (call.job, call.parent, call.created_ms) =
                (before.job, before.parent, before.created_ms);
            call.has_origin = true;
        }
        self.all.insert(key, call);
    }

    fn error(&mut self, mut error: (String, String)) -> u32 {
        if self.error_bytes > ERROR_BYTES_MAX {
            error.1 = error.1.trim_end().rsplit('\n').next().unwrap_or_default().to_owned();
        }
        let before = self.errors.all.len();
        let number = self.errors.number(&error);
        if self.errors.all.len() > before {
            self.error_bytes += error.1.len();
        }
        number
    }

    fn resources_of(&mut self, set: &ResourceSet) -> u32 {
        if self.resource_sets.is_empty() {
            self.resource_sets.push(ResourceSet::default());
        }
        if set.0.is_empty() {
            return 0;
        }
        let number = self.resources.number(&format!("{set:?}"));
        if number as usize == self.resource_sets.len() {
            self.resource_sets.push(set.clone());
        }
        number
    }

    /// Those that ended first are counted, and go.
    fn let_go(&mut self) {
        let mut ends: Vec<(u64, Key)> = self
            .all
            .iter()
            .filter(|(_, call)| call.phase.is_over() && !call.is_constructor)
            .map(|(key, call)| (call.ended_us, *key))
            .collect();
        let most = (self.all.len() - CALLS_MAX + LET_GO).min(ends.len());
        if most < ends.len() {
            ends.select_nth_unstable(most);
        }
        for (_, key) in &ends[..most] {
            if let Some(call) = self.all.remove(key) {
                let kind = kind(&call);
                *self.let_go.entry((call.name, kind, call.phase)).or_default() += 1;
            }
        }
    }

    /// Counts of calls that are in no row.
    #[must_use]
    pub fn more(&self) -> Vec<More> {
        let let_go = self.let_go.iter().map(|((name, kind, phase), count)| More {
            name: self.names.get(*name).clone(),
            kind,
            state: phase.name(),
            count: *count,
        });
        self.more.values().flatten().cloned().chain(let_go).collect()
    }

    fn is_queued(&self, key: &Key, call: &Call) -> bool {
        call.phase == TaskPhase::Sent && self.queued.values().any(|all| all.contains(&key.0))
    }

    /// The calls after a key, or all of them, in the order of their keys.
    pub fn after(&self, key: Option<Key>) -> impl Iterator<Item = Found<'_>> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = key.map_or(Unbounded, Excluded);
        self.all.range((from, Unbounded)).map(move |(key, call)| Found {
            table: self,
            key: *key,
            call,
        })
    }

    /// The attempts of a call.
    pub fn of(&self, id: TaskId) -> impl Iterator<Item = Found<'_>> {
        self.all.range((id, 0)..=(id, u32::MAX)).map(move |(key, call)| Found {
            table: self,
            key: *key,
            call,
        })
    }

    /// How many calls of each function are in which state: [`summary::tasks`].
    #[must_use]
    pub fn summary(&self) -> Value {
        let mut counts: BTreeMap<(u32, &'static str, TaskPhase), u64> = BTreeMap::new();
        for found in self.after(None) {
            *counts.entry((found.call.name, kind(found.call), found.phase())).or_default() += 1;
        }
        let counted = counts.into_iter().map(|((name, kind, phase), count)| More {
            name: self.names.get(name).clone(),
            kind,
            state: phase.name(),
            count,
        });
        let all: Vec<More> = counted.chain(self.more()).collect();
        summary::tasks(&[], &all)
    }
}

fn kind(call: &Call) -> &'static str {
    match (call.is_constructor, call.actor) {
        (true, _) => "ACTOR_CREATION_TASK",
        (false, 0) => "NORMAL_TASK",
        (false, _) => "ACTOR_TASK",
    }
}

impl Found<'_> {
    /// How it stands.
    #[must_use]
    pub fn phase(&self) -> TaskPhase {
        let is_queued = self.table.is_queued(&self.key, self.call);
        rows::standing(self.call.phase, is_queued, self.call.actor > 0)
    }

    /// When it was begun and when it was over, in microseconds since 1970; 0: not yet, or not known.
    #[must_use]
    pub fn times_us(&self) -> (u64, u64) {
        (self.call.started_us, self.call.ended_us)
    }

    /// Its job.
    #[must_use]
    pub fn job(&self) -> Option<JobId> {
        *self.table.jobs.get(self.call.job)
    }

    /// The value of a column, as cheaply as it can be had.
    #[must_use]
    pub fn field(&self, column: &str) -> Field {
        let call = self.call;
        let time = |us: u64| Field::Number((us > 0).then_some(us / 1000));
        match column {
            "name" | "func_or_class_name" => Field::Shared(call.name),
            "state" => Field::Shared(self.phase() as u32),
            "type" => Field::Shared(u32::from(call.is_constructor) * 2 + u32::from(call.actor > 0)),
            "job_id" => Field::Shared(call.job),
            "actor_id" => Field::Shared(call.actor),
            "node_id" => Field::Shared(call.node),
            "worker_id" => Field::Shared(call.worker),
            "error_type" | "error_message" => Field::Shared(call.error),
            "why" if !call.is_constructor => Field::Shared(call.why),
            "language" => Field::Shared(0),
            "attempt_number" => Field::Number(Some(self.key.1.into())),
            "worker_pid" => {
                let worker = self.table.workers.get(call.worker);
                let pid = worker.and_then(|id| self.table.pids.get(&id));
                Field::Number(pid.filter(|pid| **pid > 0).map(|pid| u64::from(*pid)))
            }
            "creation_time_ms" => Field::Number(Some(call.created_ms).filter(|at| *at > 0)),
            "start_time_ms" => match self.phase() == call.phase {
                true => time(call.started_us),
                false => Field::Number(None),
            },
            "end_time_ms" => time(call.ended_us),
            _ => Field::InRow,
        }
    }

    /// Its row.
    #[must_use]
    pub fn row(&self) -> Row {
        let (table, call) = (self.table, self.call);
        let actor_id = table.actors.get(call.actor).unwrap_or(ActorId::NIL);
        if call.is_constructor {
            return table.infos.get(&actor_id).map(rows::constructor).unwrap_or_default();
        }
        let (error_type, error_message) = table.errors.get(call.error).clone();
        let class = table.infos.get(&actor_id).map(|info| info.class_name.as_str());
        let name = table.names.get(call.name);
        let prefix = class.filter(|class| !class.is_empty()).map(|class| format!("{class}."));
        // The name has its class already.
        let class =
            class.filter(|_| prefix.as_ref().is_some_and(|prefix| name.starts_with(prefix)));
        let task = TaskRow {
            task_id: self.key.0,
            attempt: self.key.1,
            name: match (class, &prefix) {
                (Some(_), Some(prefix)) => name[prefix.len()..].to_owned(),
                _ => name.clone(),
            },
            phase: call.phase,
            actor_id,
            node_id: table.nodes.get(call.node).unwrap_or(NodeId::NIL),
            worker_id: table.workers.get(call.worker).unwrap_or(WorkerId::NIL),
            started_us: call.started_us,
            ended_us: call.ended_us,
            error_type,
            error_message,
            why: table.whys.get(call.why).clone(),
            resources: table
                .resource_sets
                .get(call.resources as usize)
                .cloned()
                .unwrap_or_default(),
            ..TaskRow::default()
        };
        rows::call(&Told {
            task: &task,
            is_over: call.is_over,
            is_queued: table.is_queued(&self.key, call),
            job_id: table.jobs.get(call.job).unwrap_or(JobId::NIL),
            maker: *table.parents.get(call.parent),
            created_ms: call.created_ms,
            class,
            pid: table.pids.get(&task.worker_id).copied(),
        })
    }
}

impl Found<'_> {
    /// What a bar of the task stream says of it: [`crate::calls`] are too many for whole rows.
    #[must_use]
    pub fn bar(&self) -> Value {
        let (start, end) = self.times_us();
        let table = self.table;
        let worker = table.workers.get(self.call.worker);
        json!({
            "task_id": self.key.0.hex(),
            "attempt": self.key.1,
            "name": table.names.get(self.call.name),
            "state": self.phase().name(),
            "node_id": table.nodes.get(self.call.node).map_or_else(String::new, |id| id.hex()),
            "pid": worker.and_then(|id| table.pids.get(&id)).copied().unwrap_or_default(),
            "start": start / 1000,
            "end": end / 1000,
        })
    }
}

#[cfg(test)]
mod tests {
    use helio_proto::control::ActorPhase;
    use helio_types::WorkerAddress;
    use helio_types::resources::Quantity;

    use super::*;

    fn worker(number: u8) -> WorkerId {
        WorkerId([number; WorkerId::LEN])
    }

    fn task(number: u64, name: &str, phase: TaskPhase) -> TaskRow {
        let mut resources = ResourceSet::default();
        resources.set("CPU", Quantity::from_f64(1.0));
        TaskRow {
            task_id: TaskId::new(number, ActorId([3; ActorId::LEN])),
            name: name.to_owned(),
            phase,
            actor_id: ActorId::NIL,
            parent: TaskId::NIL,
            node_id: NodeId([5; NodeId::LEN]),
            worker_id: worker(9),
            created_ms: 1_000 + number,
            started_us: 2_000_000 + number,
            ended_us: if phase.is_over() { 3_000_000 + number } else { 0 },
            resources,
            ..TaskRow::default()
        }
    }

    fn answers() -> (Vec<Answer>, Vec<Answer>, Vec<ActorInfo>) {
        let actor_id = ActorId([7; ActorId::LEN]);
        let failed = TaskRow {
            error_type: "TASK_EXECUTION_EXCEPTION".to_owned(),
            error_message: "ValueError: no".to_owned(),
            ..task(3, "f", TaskPhase::Failed)
        };
        let own = vec![
            task(1, "f", TaskPhase::Finished),
            TaskRow { attempt: 1, ..task(1, "f", TaskPhase::Finished) },
            task(2, "g", TaskPhase::Sent),
            failed,
            task(4, "g", TaskPhase::Sent),
            TaskRow { why: "no worker".to_owned(), ..task(5, "g", TaskPhase::WaitsForWorker) },
            TaskRow { actor_id, ..task(6, "add", TaskPhase::Finished) },
        ];
        let heard = |number, maker, phase| TaskRow {
            is_hearsay: true,
            maker: worker(maker),
            ..task(number, "h", phase)
        };
        let driver = Answer {
            worker_id: worker(1),
            pid: 11,
            job_id: JobId([1; JobId::LEN]),
            tasks: own,
            ..Answer::default()
        };
        let runner = Answer {
            worker_id: worker(9),
            pid: 99,
            queued: vec![task(4, "g", TaskPhase::Sent).task_id],
            tasks: vec![heard(8, 66, TaskPhase::Finished), heard(10, 2, TaskPhase::Finished)],
            ..Answer::default()
        };
        let over = Answer {
            worker_id: worker(2),
            pid: 22,
            is_over: true,
            tasks: vec![task(9, "h", TaskPhase::Sent), task(10, "h", TaskPhase::Sent)],
            ..Answer::default()
        };
        let info = ActorInfo {
            actor_id,
            class_name: "Counter".to_owned(),
            phase: ActorPhase::Alive,
            pid: 44,
            address: WorkerAddress { worker_id: worker(4), ..WorkerAddress::default() },
            ..ActorInfo::default()
        };
        (vec![driver, runner, over], Vec::new(), vec![info])
    }

    fn of(calls: &Calls) -> Vec<Row> {
        calls.after(None).map(|call| call.row()).collect()
    }

    fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
        let key = |row: &Row| format!("{} {}", row["task_id"], row["attempt_number"]);
        rows.sort_by_key(key);
        rows
    }

    #[test]
    fn rows_of_the_table_are_those_that_are_made_of_the_answers() {
        let (answers, processes, actors) = answers();
        let expected = sorted(rows::tasks(&answers, &processes, &actors).collect());
        let mut calls = Calls::default();
        calls.set_actors(&actors);
        calls.add(&answers, true);
        assert_eq!(sorted(of(&calls)), expected);
        assert_eq!(calls.summary(), summary::tasks(&expected, &[]));
        // Answers of one process after the other make no difference, nor does hearing them twice.
        let mut calls = Calls::default();
        calls.set_actors(&actors);
        for answer in answers.iter().chain(&answers) {
            calls.add(std::slice::from_ref(answer), false);
        }
        assert_eq!(sorted(of(&calls)), expected);
    }

    #[test]
    fn fields_say_what_rows_say() {
        let (answers, _, actors) = answers();
        let mut calls = Calls::default();
        calls.set_actors(&actors);
        calls.add(&answers, true);
        let mut shared: HashMap<(&str, u32), Value> = HashMap::new();
        for call in calls.after(None) {
            let row = call.row();
            for (column, value) in &row {
                match call.field(column) {
                    Field::Number(number) => assert_eq!(json!(number), *value, "{column}"),
                    Field::Shared(number) => {
                        let column: &str = crate::Resource::Tasks
                            .names(true)
                            .into_iter()
                            .find(|name| name == column)
                            .unwrap();
                        let before = shared.entry((column, number)).or_insert(value.clone());
                        assert_eq!(before, value, "{column}");
                    }
                    Field::InRow => {}
                }
            }
        }
    }

    #[test]
    fn what_is_over_stays_and_what_is_open_is_told_anew() {
        let answer = |tasks| Answer { worker_id: worker(1), tasks, ..Answer::default() };
        let mut calls = Calls::default();
        calls.add(
            &[answer(vec![task(1, "f", TaskPhase::Sent), task(2, "f", TaskPhase::Sent)])],
            true,
        );
        calls.add(&[answer(vec![task(1, "f", TaskPhase::Finished)])], false);
        let phases = |calls: &Calls| calls.after(None).map(|call| call.phase()).collect::<Vec<_>>();
        assert_eq!(phases(&calls), [TaskPhase::Finished, TaskPhase::Sent]);
        // Late news of a call that is over changes nothing.
        calls.add(&[answer(vec![task(1, "f", TaskPhase::Sent)])], false);
        calls.add(&[answer(vec![task(3, "f", TaskPhase::Sent)])], true);
        assert_eq!(phases(&calls), [TaskPhase::Finished, TaskPhase::Sent]);
        assert_eq!(calls.after(None).last().unwrap().key.0, task(3, "f", TaskPhase::Sent).task_id);
    }
}
