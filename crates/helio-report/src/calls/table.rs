//! The table itself: what processes tell of calls is added here.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

use helio_proto::control::ActorInfo;
use helio_proto::inspect::{Answer, TaskPhase, TaskRow};
use helio_types::hash::{IdHasher, IdMap, IdSet};
use helio_types::{ActorId, JobId, NodeId, ResourceSet, TaskId, WorkerId};
use serde_json::{Value, json};

use super::call::{Call, GroupId, KINDS, Key, OF_NAME, group_of};
use super::slots::{self, Slots};
use crate::rows;
use crate::summary::More;
use crate::tellers;

/// Maximum number of calls of a table.
pub const CALLS_MAX: usize = if cfg!(test) { 120_000 } else { 1_000_000 };
/// Bytes of error texts that are kept whole.
pub const ERROR_BYTES_MAX: usize = 64 << 20;
/// Number of calls that are let go at a time: readers wait meanwhile.
const EVICTED_AT_ONCE: usize = CALLS_MAX / 200;

/// Values that many calls share, each with a number; 0 is the default.
#[derive(Debug)]
pub(super) struct Shared<T, Hashing = BuildHasherDefault<DefaultHasher>> {
    all: Vec<T>,
    numbers: HashMap<T, u32, Hashing>,
    /// The one that was wanted last: mostly the next call has the same.
    last: u32,
}

/// Likewise of ids.
pub(super) type SharedIds<T> = Shared<Option<T>, BuildHasherDefault<IdHasher>>;

impl<T: Clone + Default + Eq + Hash, Hashing: BuildHasher + Default> Default
    for Shared<T, Hashing>
{
    fn default() -> Self {
        let numbers = [(T::default(), 0)].into_iter().collect();
        Self { all: vec![T::default()], numbers, last: 0 }
    }
}

impl<T: Clone + Default + Eq + Hash, Hashing: BuildHasher> Shared<T, Hashing> {
    fn number(&mut self, value: &T) -> u32 {
        if self.all[self.last as usize] == *value {
            return self.last;
        }
        if let Some(number) = self.numbers.get(value) {
            self.last = *number;
            return *number;
        }
        let number = self.all.len() as u32;
        self.all.push(value.clone());
        self.numbers.insert(value.clone(), number);
        self.last = number;
        number
    }

    pub(super) fn get(&self, number: u32) -> &T {
        &self.all[number as usize]
    }
}

/// The calls of a function that are in one state.
#[derive(Debug, Clone)]
pub struct Group {
    pub(super) name: u32,
    /// The function's name, the kind, how they stand, as rows say it, and how many there are.
    pub of: More,
    pub(super) phase: TaskPhase,
}

impl Group {
    /// The columns that all calls of the group share.
    #[must_use]
    pub fn row(&self) -> crate::Row {
        let More { name, kind, state, .. } = &self.of;
        let row = json!({ "name": name, "func_or_class_name": name, "type": kind, "state": state });
        row.as_object().cloned().unwrap_or_default()
    }
}

/// Calls that were put in one after the other, of one process and one group: mostly the next one is like them.
#[derive(Debug, Default)]
struct Run {
    teller: u32,
    group: GroupId,
    count: u64,
}

/// The table of calls, with its indexes and the texts that calls share.
#[derive(Debug, Default)]
pub struct Calls {
    pub(super) all: Slots,
    pub(super) counts: IdMap<GroupId, u64>,
    /// The counts of those that each process told of, by its number and the group.
    pub(super) of_tellers: IdMap<u64, u64>,
    /// The calls put in last, which are in neither count yet.
    run: Run,
    /// Number of times that everything was told.
    pub(super) round: u32,
    /// Grows with each change that somebody could see.
    pub(super) version: u64,
    pub(super) names: Shared<String>,
    pub(super) actors: SharedIds<ActorId>,
    pub(super) parents: SharedIds<TaskId>,
    pub(super) jobs: SharedIds<JobId>,
    pub(super) nodes: SharedIds<NodeId>,
    pub(super) workers: SharedIds<WorkerId>,
    pub(super) errors: Shared<(String, String)>,
    pub(super) error_bytes: usize,
    pub(super) whys: Shared<String>,
    /// Resources by their text, as sets have no hash.
    pub(super) resources: Shared<String>,
    pub(super) resource_sets: Vec<ResourceSet>,
    pub(super) pids: BTreeMap<WorkerId, u32>,
    pub(super) infos: BTreeMap<ActorId, ActorInfo>,
    /// Calls of actors that are not known yet.
    pub(super) unnamed: BTreeMap<ActorId, BTreeSet<Key>>,
    /// Calls that were sent and have not begun, as their processes told last.
    pub(super) queued: BTreeMap<WorkerId, Vec<TaskId>>,
    /// The calls in `queued`, of all processes.
    pub(super) all_queued: IdSet<TaskId>,
    /// Counts of calls without rows, as each process told last.
    pub(super) more: BTreeMap<WorkerId, Vec<More>>,
    /// Calls that were let go.
    pub(super) evicted: IdMap<GroupId, u64>,
    /// The actor's method that was named last, as its process said it.
    pub(super) named: (ActorId, String, u32),
}

fn some<T: Copy>(is_nil: bool, id: T) -> Option<T> {
    (!is_nil).then_some(id)
}

impl Calls {
    /// Returns the number of calls in the table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.len() == 0
    }

    /// Grows with each change that somebody could see.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the number of processes, actors and errors that the table remembers, of calls that
    /// were let go, too.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.workers.all.len() + self.infos.len() + self.errors.all.len() + self.names.all.len()
    }

    fn put(&mut self, call: Call) {
        self.put_at(self.all.find(&call.key).map(|(slot, _)| slot), call);
    }

    /// Puts in a call whose slot is known; none: it is new.
    fn put_at(&mut self, slot: Option<u32>, call: Call) {
        let group = group_of(&call);
        if let Some(before) = self.all.put(slot, call) {
            if (before.teller, group_of(&before)) == (call.teller, group) {
                return;
            }
            self.uncount(&before);
        }
        if (self.run.teller, self.run.group) != (call.teller, group) {
            self.count_run();
            self.run = Run { teller: call.teller, group, count: 0 };
        }
        self.run.count += 1;
    }

    /// Counts those that were put in last. Whoever puts in calls does so before anybody reads the counts.
    fn count_run(&mut self) {
        let Run { teller, group, count } = std::mem::take(&mut self.run);
        if count > 0 {
            *self.counts.entry(group).or_default() += count;
            *self.of_tellers.entry(of_teller(teller, group)).or_default() += count;
        }
    }

    fn take(&mut self, key: &Key) -> Option<Call> {
        let call = self.all.take(key)?;
        self.uncount(&call);
        Some(call)
    }

    fn uncount(&mut self, call: &Call) {
        let group = group_of(call);
        if (self.run.teller, self.run.group) == (call.teller, group) && self.run.count > 0 {
            self.run.count -= 1;
            return;
        }
        count_less(&mut self.counts, group);
        count_less(&mut self.of_tellers, of_teller(call.teller, group));
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
                    self.put(call);
                }
            }
        }
        self.count_run();
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
        // An actor has one constructor in the list: that of its present life.
        if let Some(before) = before.filter(|before| *before != key) {
            self.take(&before);
        }
        let error = (text("error_type").to_owned(), text("error_message").to_owned());
        let call = Call {
            key,
            round: self.round,
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
            created_ms: info.made_ms,
            ended_us: if phase == TaskPhase::Failed { info.ended_ms * 1_000 } else { 0 },
            ..Call::default()
        };
        if info.pid > 0 {
            self.pids.insert(info.address.worker_id, info.pid);
        }
        self.put(call);
    }

    /// The numbers of processes, of answers about workers.
    pub fn add_processes(&mut self, answers: &[Answer]) {
        self.pids.extend(answers.iter().flat_map(rows::process_numbers));
    }

    /// Adds what processes told: all that they know (`is_whole`), or what has changed since they were asked before.
    /// The unfinished calls of a process that tells of all take the place of those that it told before.
    pub fn add(&mut self, answers: &[Answer], is_whole: bool) {
        if is_whole {
            self.begin_round();
            self.add_all(answers);
        } else {
            self.add_rows(answers, false);
        }
    }

    /// All that there is, or that is not over, is asked for: what was told before and is not told again is gone.
    pub fn begin_round(&mut self) {
        self.round = self.round.wrapping_add(1);
    }

    /// Adds all that processes know, which was asked for since [`Calls::begin_round`].
    pub fn add_all(&mut self, answers: &[Answer]) {
        let more_before = std::mem::take(&mut self.more);
        self.add_open(answers);
        self.version += u64::from(self.more != more_before);
    }

    /// Takes in all that is not over, with what else has changed since processes were asked before.
    pub fn add_open(&mut self, answers: &[Answer]) {
        self.add_rows(answers, true);
        self.forget_untold();
        self.set_more(answers);
    }

    fn add_rows(&mut self, answers: &[Answer], is_whole: bool) {
        self.add_processes(answers);
        let told: BTreeSet<WorkerId> = answers.iter().map(|answer| answer.worker_id).collect();
        self.set_queues(answers, is_whole.then_some(&told));
        // Makers first: what others have heard counts where the maker does not know better.
        let mut has_hearsay = false;
        for is_hearsay in [false, true] {
            if is_hearsay && !has_hearsay {
                break;
            }
            for answer in answers.iter().filter(|answer| !answer.tasks.is_empty()) {
                let teller = self.workers.number(&Some(answer.worker_id));
                for task in &answer.tasks {
                    has_hearsay |= task.is_hearsay;
                    if task.is_hearsay != is_hearsay {
                        continue;
                    }
                    let key = (task.task_id, task.attempt);
                    // The maker has counted what it gave no row.
                    if is_hearsay && told.contains(&task.maker) && self.all.get(&key).is_none() {
                        continue;
                    }
                    self.add_call(answer, teller, task, is_whole);
                }
            }
        }
        if self.all.len() > CALLS_MAX {
            self.evict();
        }
        self.count_run();
    }

    /// Drops the calls that were open and of which nobody tells any more.
    fn forget_untold(&mut self) {
        let is_untold = |call: &&Call| {
            !call.phase.is_over() && !call.is_constructor && call.round != self.round
        };
        let untold = self.all.near(slots::OPEN).filter(is_untold);
        let untold: Vec<Key> = untold.map(|call| call.key).collect();
        self.version += untold.len() as u64;
        for key in untold {
            self.take(&key);
        }
    }

    /// Replaces the calls that wait at processes; at a process that is not among `told` any more none do.
    fn set_queues(&mut self, answers: &[Answer], told: Option<&BTreeSet<WorkerId>>) {
        let mut is_new = false;
        for answer in answers {
            // A call that waits at a process that has ended has failed.
            let queued = answer.queued.iter().copied().filter(|_| !answer.is_over);
            let queue: Vec<TaskId> = queued.collect();
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
        let known = self.of_tellers.iter();
        let known = known.map(|(of, count)| (((of >> 32) as u32, *of as GroupId), *count));
        let mut known: HashMap<(u32, GroupId), u64> =
            known.filter(|((teller, _), _)| counting.contains(teller)).collect();
        let infos: Vec<ActorInfo> = self.infos.values().cloned().collect();
        for answer in answers.iter().filter(|answer| !answer.more.is_empty()) {
            let teller = self.workers.number(&Some(answer.worker_id));
            for task in &answer.tasks {
                let key = (task.task_id, task.attempt);
                if let Some(call) = self.all.get(&key).filter(|call| call.teller == teller)
                    && let Some(count) = known.get_mut(&(teller, group_of(call)))
                {
                    *count = count.saturating_sub(1);
                }
            }
            let mut more = rows::more(std::slice::from_ref(answer), &infos);
            // First of the same function, then of several functions.
            for is_any in [false, true] {
                for ((_, group), left) in
                    known.iter_mut().filter(|((of, _), left)| *of == teller && **left > 0)
                {
                    let Group { of: More { name, kind, state, .. }, .. } = self.group(*group, 0);
                    let same = more.iter_mut().find(|one| {
                        one.kind == kind
                            && one.state == state
                            && if is_any { one.name == rows::OTHERS } else { one.name == name }
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

    fn add_call(&mut self, answer: &Answer, teller: u32, task: &TaskRow, is_whole: bool) {
        let key = (task.task_id, task.attempt);
        let rank = tellers::rank(answer, task);
        let (slot, before) = self.all.find(&key).map(|(slot, call)| (slot, *call)).unzip();
        // What was open is told anew with all that there is.
        let known =
            before.filter(|call| !is_whole || call.phase.is_over() || call.round == self.round);
        let is_best = known.is_none_or(|call| {
            // A call that is over stays over, whichever process tells of it.
            let (is_over, was_over) = (task.phase.is_over(), call.phase.is_over());
            (rank >= call.rank && (is_over || !was_over)) || (is_over && !was_over)
        });
        let has_origin = !task.is_hearsay;
        if !is_best {
            if has_origin && let Some(call) = known.filter(|call| !call.has_origin) {
                let call = Call {
                    has_origin: true,
                    job: self.jobs.number(&Some(answer.job_id)),
                    parent: self.parents.number(&Some(task.parent)),
                    created_ms: task.created_ms,
                    ..call
                };
                self.put_at(slot, call);
            }
            return;
        }
        let (phase, kind, text) = rows::outcome(answer.is_over, task);
        let mut call = Call {
            key,
            other: slots::NOWHERE,
            round: self.round,
            is_gone: false,
            name: self.name_of(task),
            phase,
            is_constructor: false,
            is_over: answer.is_over,
            has_origin,
            rank,
            teller,
            actor: self.actors.number(&some(task.actor_id.is_nil(), task.actor_id)),
            parent: self.parents.number(&has_origin.then_some(task.parent)),
            job: self.jobs.number(&Some(if has_origin {
                answer.job_id
            } else {
                task.task_id.job()
            })),
            node: self.nodes.number(&some(task.node_id.is_nil(), task.node_id)),
            worker: self.workers.number(&some(task.worker_id.is_nil(), task.worker_id)),
            error: match kind.is_empty() && text.is_empty() {
                true => 0,
                false => self.error((kind.to_owned(), text.to_owned())),
            },
            why: if task.why.is_empty() { 0 } else { self.whys.number(&task.why) },
            resources: self.resources_of(&task.resources),
            created_ms: if has_origin { task.created_ms } else { 0 },
            started_us: task.started_us,
            ended_us: task.ended_us,
        };
        if let Some(known) = known.filter(|known| !has_origin && known.has_origin) {
            (call.job, call.parent, call.created_ms) = (known.job, known.parent, known.created_ms);
            call.has_origin = true;
        }
        self.version += u64::from(before.is_none_or(|before| !before.is_same(&call)));
        self.put_at(slot, call);
    }

    /// The number of the name that the row of a call has.
    fn name_of(&mut self, task: &TaskRow) -> u32 {
        if task.actor_id.is_nil() {
            return self.names.number(&task.name);
        }
        let Some(info) = self.infos.get(&task.actor_id) else {
            let key = (task.task_id, task.attempt);
            self.unnamed.entry(task.actor_id).or_default().insert(key);
            return self.names.number(&task.name);
        };
        if (self.named.0, &self.named.1) != (task.actor_id, &task.name) {
            let name = rows::call_name(&task.name, Some(&info.class_name));
            self.named = (task.actor_id, task.name.clone(), self.names.number(&name));
        }
        self.named.2
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
        if self.resource_sets[self.resources.last as usize] == *set {
            return self.resources.last;
        }
        let number = self.resources.number(&format!("{set:?}"));
        if number as usize == self.resource_sets.len() {
            self.resource_sets.push(set.clone());
        }
        number
    }

    /// Counts the calls that are over and were told of first, and drops them.
    fn evict(&mut self) {
        let left = CALLS_MAX - EVICTED_AT_ONCE;
        // Where most calls are open, some blocks are gone through each time and come last then.
        let blocks_max = 8 + 4 * (self.all.len().saturating_sub(left)).div_ceil(slots::BLOCK);
        for _ in 0..blocks_max {
            if self.all.len() <= left {
                return;
            }
            let Some(oldest) = self.all.oldest() else { return };
            for key in oldest {
                let Some(call) = self.take(&key) else { continue };
                match call.phase.is_over() && !call.is_constructor {
                    true => *self.evicted.entry(group_of(&call)).or_default() += 1,
                    false => self.put(call),
                }
            }
            self.all.drop_oldest();
        }
    }

    pub(super) fn group(&self, group: GroupId, count: u64) -> Group {
        let (name, of_name) = (group / OF_NAME, (group % OF_NAME) as usize);
        let phase = TaskPhase::ALL[of_name % TaskPhase::ALL.len()];
        let of = More {
            name: self.names.get(name).clone(),
            kind: KINDS[of_name / TaskPhase::ALL.len()],
            state: phase.name(),
            count,
        };
        Group { name, of, phase }
    }

    /// Counts of calls that are in no row.
    #[must_use]
    pub fn more(&self) -> Vec<More> {
        let evicted = self.evicted.iter().map(|(group, count)| self.group(*group, *count).of);
        self.more.values().flatten().cloned().chain(evicted).collect()
    }

    pub(super) fn is_queued(&self, key: &Key, call: &Call) -> bool {
        call.phase == TaskPhase::Sent && self.all_queued.contains(&key.0)
    }
}

/// The place of a count in [`Calls::of_tellers`].
fn of_teller(teller: u32, group: GroupId) -> u64 {
    u64::from(teller) << 32 | u64::from(group)
}

fn count_less<Of: Hash + Eq>(counts: &mut IdMap<Of, u64>, of: Of) {
    if let Some(count) = counts.get_mut(&of) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&of);
        }
    }
}
