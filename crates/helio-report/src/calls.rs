//! A table of a great many calls, from which rows are made only where somebody looks.
//!
//! A call takes about a hundred bytes: what calls share (names, processes, errors) is kept once and numbered. Answers
//! to questions about calls are added one after the other ([`Calls::add`]); who tells best of a call is as in
//! [`crate::rows::tasks`]. Calls are in the order of their keys: the id, then the attempt.
//!
//! A frequent question costs what it shows, not what there is: calls are counted by function and phase as they are
//! added, and those that are not over, that have failed, and that are over since a moment are found without looking
//! at the others.
//!
//! **LIMIT-1** Of more calls than [`CALLS_MAX`] those that ended first are only counted, and of error texts beyond
//! [`ERROR_BYTES_MAX`] the last line is kept.

mod found;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::Hash;

use helio_proto::control::ActorInfo;
use helio_proto::inspect::{Answer, TaskPhase, TaskRow};
use helio_types::{ActorId, JobId, NodeId, ResourceSet, TaskId, WorkerId};
use serde_json::Value;

use crate::rows;
use crate::summary::{self, More};
use crate::tellers;

pub use found::{Field, Found, Of};

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

/// Calls that are counted together: the function's name, the kind, how they stand.
type Group = (u32, &'static str, TaskPhase);

/// The record of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Call {
    name: u32,
    phase: TaskPhase,
    /// The call is the constructor of an actor, of which the actors' table knows more.
    is_constructor: bool,
    /// The process that told of it has ended.
    is_over: bool,
    /// Whether who made it in which job is known.
    has_origin: bool,
    rank: u8,
    /// The process that told of it.
    teller: u32,
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

/// The table of calls, with its indexes and the texts that calls share.
#[derive(Debug, Default)]
pub struct Calls {
    all: BTreeMap<Key, Call>,
    counts: HashMap<Group, u64>,
    /// Calls that have not ended.
    open: BTreeSet<Key>,
    /// Calls that have failed, and (constructors apart) calls that are over, by when.
    failed: BTreeSet<(u64, Key)>,
    over: BTreeSet<(u64, Key)>,
    /// Grows with each change that somebody could see.
    version: u64,
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
    /// The calls in `queued`, of all processes.
    all_queued: HashSet<TaskId>,
    /// Counts of calls without rows, as each process told last.
    more: BTreeMap<WorkerId, Vec<More>>,
    /// Calls that were let go.
    let_go: BTreeMap<Group, u64>,
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

    /// Grows with each change that somebody could see.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How many processes, actors and errors it remembers, of calls that were let go, too.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.workers.all.len() + self.infos.len() + self.errors.all.len() + self.names.all.len()
    }

    fn put(&mut self, key: Key, call: Call) {
        let group = (call.name, kind(&call), call.phase);
        let (is_over, is_failed) = (call.phase.is_over(), call.phase == TaskPhase::Failed);
        let (ended_us, is_constructor) = (call.ended_us, call.is_constructor);
        if let Some(before) = self.all.insert(key, call) {
            self.unlist(&key, &before);
        }
        *self.counts.entry(group).or_default() += 1;
        if !is_over {
            self.open.insert(key);
        } else if !is_constructor {
            self.over.insert((ended_us, key));
        }
        if is_failed {
            self.failed.insert((ended_us, key));
        }
    }

    fn take(&mut self, key: &Key) -> Option<Call> {
        let call = self.all.remove(key)?;
        self.unlist(key, &call);
        Some(call)
    }

    fn unlist(&mut self, key: &Key, call: &Call) {
        let group = (call.name, kind(call), call.phase);
        if let Some(count) = self.counts.get_mut(&group) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&group);
            }
        }
        if !call.phase.is_over() {
            self.open.remove(key);
        } else if !call.is_constructor {
            self.over.remove(&(call.ended_us, *key));
        }
        if call.phase == TaskPhase::Failed {
            self.failed.remove(&(call.ended_us, *key));
        }
    }

    /// The actors, of which names of methods have the class, and whose constructors are calls, too.
    pub fn set_actors(&mut self, actors: &[ActorInfo]) {
        for info in actors {
            if !info.is_unlisted && self.infos.get(&info.actor_id) != Some(info) {
                self.add_constructor(info);
            }
            if self.infos.get(&info.actor_id) != Some(info) {
                self.version += 1;
                self.infos.insert(info.actor_id, info.clone());
            }
            // Calls may be told of before their actor is.
            for key in self.unnamed.remove(&info.actor_id).into_iter().flatten() {
                if let Some(mut call) = self.take(&key) {
                    let name = self.names.get(call.name).clone();
                    let name = rows::call_name(&name, Some(&info.class_name));
                    call.name = self.names.number(&name);
                    self.put(key, call);
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
            self.take(&before);
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
        self.put(key, call);
    }

    /// The numbers of processes, of answers about workers.
    pub fn add_processes(&mut self, answers: &[Answer]) {
        for answer in answers {
            self.pids.insert(answer.worker_id, answer.pid);
            self.pids.extend(answer.workers.iter().map(|worker| (worker.worker_id, worker.pid)));
        }
    }

    /// Adds what processes told: all that they know (`is_whole`), or what has changed since they were asked before.
    /// The unfinished calls of a process that tells of all take the place of those that it told before.
    pub fn add(&mut self, answers: &[Answer], is_whole: bool) {
        self.add_processes(answers);
        // The calls that were open, until they are told of again.
        let mut before = HashMap::new();
        let more_before = self.more.clone();
        if is_whole {
            let open = self.open.iter().filter(|key| !self.all[*key].is_constructor);
            for key in open.copied().collect::<Vec<_>>() {
                before.extend(self.take(&key).map(|call| (key, call)));
            }
            self.more.clear();
        }
        let told: BTreeSet<WorkerId> = answers.iter().map(|answer| answer.worker_id).collect();
        self.set_queues(answers, is_whole.then_some(&told));
        // Makers first: what others have heard counts where the maker does not know better.
        for is_hearsay in [false, true] {
            for answer in answers {
                for task in answer.tasks.iter().filter(|task| task.is_hearsay == is_hearsay) {
                    let key = (task.task_id, task.attempt);
                    // The maker has counted what it gave no row.
                    if is_hearsay && told.contains(&task.maker) && !self.all.contains_key(&key) {
                        continue;
                    }
                    self.add_call(answer, task, &mut before);
                }
            }
        }
        self.version += before.len() as u64;
        if is_whole {
            self.set_more(answers);
        }
        if self.more != more_before {
            self.version += 1;
        }
        if self.all.len() > CALLS_MAX {
            self.let_go();
        }
    }

    /// Replaces the calls that wait at processes; at a process that is not among `told` any more none do.
    fn set_queues(&mut self, answers: &[Answer], told: Option<&BTreeSet<WorkerId>>) {
        let mut is_new = false;
        for answer in answers {
            // A call that waits at a process that has ended has failed.
            let queued = answer.queued.iter().copied().filter(|_| !answer.is_over);
            let queue: BTreeSet<TaskId> = queued.collect();
            let before = match queue.is_empty() {
                true => self.queued.remove(&answer.worker_id),
                false => self.queued.insert(answer.worker_id, queue),
            };
            is_new |= before.as_ref() != self.queued.get(&answer.worker_id);
        }
        if let Some(told) = told {
            let before = self.queued.len();
            self.queued.retain(|worker, _| told.contains(worker));
            is_new |= self.queued.len() != before;
        }
        if is_new {
            self.all_queued = self.queued.values().flatten().copied().collect();
            self.version += 1;
        }
    }

    /// Counts of what has no row: what processes say that they give none, less what the table has of it from before.
    fn set_more(&mut self, answers: &[Answer]) {
        let counting: BTreeSet<u32> = answers
            .iter()
            .filter(|answer| !answer.more.is_empty())
            .map(|answer| self.workers.number(&Some(answer.worker_id)))
            .collect();
        if counting.is_empty() {
            return;
        }
        let mut known: HashMap<(u32, Group), u64> = HashMap::new();
        for call in self.all.values().filter(|call| counting.contains(&call.teller)) {
            *known.entry((call.teller, (call.name, kind(call), call.phase))).or_default() += 1;
        }
        let infos: Vec<ActorInfo> = self.infos.values().cloned().collect();
        for answer in answers.iter().filter(|answer| !answer.more.is_empty()) {
            let teller = self.workers.number(&Some(answer.worker_id));
            for task in &answer.tasks {
                let key = (task.task_id, task.attempt);
                if let Some(call) = self.all.get(&key).filter(|call| call.teller == teller)
                    && let Some(count) =
                        known.get_mut(&(teller, (call.name, kind(call), call.phase)))
                {
                    *count = count.saturating_sub(1);
                }
            }
            let mut more = rows::more(std::slice::from_ref(answer), &infos);
            // First of the same function, then of several functions.
            for is_any in [false, true] {
                for ((_, (name, kind, phase)), left) in
                    known.iter_mut().filter(|((of, _), left)| *of == teller && **left > 0)
                {
                    let name = self.names.get(*name);
                    let same = more.iter_mut().find(|one| {
                        one.kind == *kind
                            && one.state == phase.name()
                            && if is_any { one.name == rows::OTHERS } else { one.name == *name }
                    });
                    if let Some(one) = same {
                        let known = (*left).min(one.count);
                        one.count -= known;
                        *left -= known;
                    }
                }
            }
            more.retain(|one| one.count > 0);
            self.more.insert(answer.worker_id, more);
        }
    }

    fn add_call(&mut self, answer: &Answer, task: &TaskRow, open: &mut HashMap<Key, Call>) {
        let key = (task.task_id, task.attempt);
        let rank = tellers::rank(answer, task);
        let known = self.all.get(&key).map(|call| (call.rank, call.phase.is_over(), call.clone()));
        let is_best = known.as_ref().is_none_or(|(best, was_over, _)| {
            // A call that is over stays over, whichever process tells of it.
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
            teller: self.workers.number(&Some(answer.worker_id)),
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
        let known = known.map(|(.., before)| before);
        if let Some(before) = known.as_ref().filter(|before| !has_origin && before.has_origin) {
            (call.job, call.parent, call.created_ms) =
                (before.job, before.parent, before.created_ms);
            call.has_origin = true;
        }
        if known.or_else(|| open.remove(&key)).as_ref() != Some(&call) {
            self.version += 1;
        }
        self.put(key, call);
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

    /// Counts the calls that ended first, and drops them.
    fn let_go(&mut self) {
        let most = self.all.len() - CALLS_MAX + LET_GO;
        let first: Vec<Key> = self.over.iter().take(most).map(|(_, key)| *key).collect();
        for key in first {
            if let Some(call) = self.take(&key) {
                *self.let_go.entry((call.name, kind(&call), call.phase)).or_default() += 1;
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
        call.phase == TaskPhase::Sent && self.all_queued.contains(&key.0)
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

    fn found(&self, key: &Key) -> Option<Found<'_>> {
        self.all.get(key).map(|call| Found { table: self, key: *key, call })
    }

    /// The calls that are not over, and those that are over since a moment, in microseconds since 1970.
    pub fn since(&self, us: u64) -> impl Iterator<Item = Found<'_>> {
        let from = (us, (TaskId([0; TaskId::LEN]), 0));
        let over = self.over.range(from..).map(|(_, key)| key);
        self.open.iter().chain(over).filter_map(|key| self.found(key))
    }

    /// The calls that have failed, the latest first.
    pub fn failed(&self) -> impl Iterator<Item = Found<'_>> {
        self.failed.iter().rev().filter_map(|(_, key)| self.found(key))
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
        let mut counts = self.counts.clone();
        for found in self.all_queued.iter().flat_map(|id| self.of(*id)) {
            let (name, kind) = (found.call.name, kind(found.call));
            if found.call.phase == TaskPhase::Sent
                && let Some(count) = counts.get_mut(&(name, kind, TaskPhase::Sent))
            {
                *count -= 1;
                *counts.entry((name, kind, found.phase())).or_default() += 1;
            }
        }
        counts.retain(|_, count| *count > 0);
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

#[cfg(test)]
mod tests;
