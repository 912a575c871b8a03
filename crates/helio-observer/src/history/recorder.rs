//! Writes down what changes.
//!
//! Calls are asked for twice a second and more often where there are many, each time those of the time since the
//! question before; everything else once a second. Where answers take long there are fewer questions: [`SHARE`], [`APART_MAX`].
//! Observers of the living cluster are served by the same questions ([`Mirror`]), whether or not a history is
//! written.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use helio_env::clock::unix_ms;
use helio_proto::Wire;
use helio_proto::control::{ControlResponse, KvEntries, ListActors, ListJobs, NodeInfo};
use helio_proto::group::ListGroups;
use helio_proto::history::{Batch, Entry};
use helio_proto::inspect::{Answer, Answers, Question, TaskPhase, TaskRow, Topic, WorkerRow};
use helio_types::hash::IdMap;
use helio_types::{TaskId, WorkerId};
use tokio::task::JoinHandle;

use super::file::{About, Writer};
use crate::mirror::{KEPT, Keeper, Whole};
use crate::{Asker, Mirror};

/// The key-value tables that are kept: what drivers tell of their runs, and jobs.
const TABLES: [&str; 8] = [
    helio_config::dashboard::DRIVERS_NAMESPACE,
    helio_config::dashboard::SUBMISSIONS_NAMESPACE,
    SERVING,
    "_data_runs",
    "_tune_runs",
    "_train_runs",
    "_train_curves",
    "_train_state",
];

/// An application that is deleted is not of the past but gone; runs are kept beyond what the cluster keeps of them.
const SERVING: &str = "_serve_runs";

/// Time between two questions about calls.
const CALLS_EVERY: Duration = Duration::from_millis(500);
/// The same time while there are many new rows.
const MANY_CALLS_EVERY: Duration = Duration::from_millis(200);
/// Number of new rows that count as many: a process keeps ten thousand calls that are over.
const MANY: usize = 1_000;
/// Time between two questions about everything else.
const REST_EVERY: Duration = Duration::from_millis(900);
/// The delay at which rows of a process that has ended may still come; a row that comes twice is written once.
const OVERLAP: Duration = Duration::from_millis(1_000);
/// Milliseconds before the question of which an answer may not tell yet all that has happened.
const SLACK_MS: u32 = 50;
/// Time between two questions, as a multiple of the time that the one before took, but not more than `APART_MAX`: what a
/// head that is killed has not asked yet is lost, and that is to be less than a second.
const SHARE: u32 = 4;
const APART_MAX: Duration = Duration::from_millis(700);
/// Rows of the key-value table that are larger are written more rarely: so many bytes a second each.
const ENTRY_BYTES_PER_S: usize = 32 << 10;
/// Figures of nodes that change all the time are written so often.
const NODES_EVERY: Duration = Duration::from_secs(60);

/// The hash of the last version of a thing that was written, and the time.
#[derive(Debug, Clone, Copy)]
struct Written {
    hash: u64,
    at: Instant,
}

/// A call that was written: how it stood, and whether a process told it that had ended.
type Said = (TaskPhase, bool);

/// The calls that were written in the last rounds, each with what was said of it. One that is not told for
/// [`WrittenCalls::ROUNDS`] rounds will not come again.
#[derive(Debug, Default)]
struct WrittenCalls {
    now: IdMap<(TaskId, u32), Said>,
    before: IdMap<(TaskId, u32), Said>,
    /// Number of rounds that `now` has seen.
    rounds: u32,
}

impl WrittenCalls {
    const ROUNDS: u32 = 8;

    fn begin_round(&mut self) {
        if self.rounds == Self::ROUNDS {
            self.before = std::mem::take(&mut self.now);
            self.rounds = 0;
        }
        self.rounds += 1;
    }

    fn is_empty(&self) -> bool {
        self.now.is_empty() && self.before.is_empty()
    }

    /// Whether it is other than what was written of the call.
    fn add(&mut self, task: &TaskRow, is_over: bool) -> bool {
        let (key, said) = ((task.task_id, task.attempt), (task.phase, is_over));
        let before = self.now.insert(key, said);
        before.or_else(|| self.before.get(&key).copied()) != Some(said)
    }
}

/// Writes the history of a cluster, and keeps its [`Mirror`].
#[derive(Debug)]
pub struct Recorder {
    asker: Asker,
    /// The writer of the history; `None`: none is written.
    writer: Option<Writer>,
    keeper: Keeper,
    /// The number by which processes know these questions.
    follower: u64,
    /// The time since which some process has not answered.
    is_silent_since: Option<Instant>,
    /// The version of each thing that was written last, by kind and key.
    written: HashMap<(u8, Vec<u8>), Written>,
    /// Calls that were written within the overlap.
    calls: WrittenCalls,
    /// Processes that had calls which they had not begun.
    queued: BTreeSet<WorkerId>,
    /// The time of the last question about calls.
    asked_calls: Option<Instant>,
    /// The time of the last question about everything else.
    asked_rest: Option<Instant>,
    /// The count of changes of which everything that the control service lists is written; `None`: something is not.
    written_changes: Option<u64>,
    /// Whether there were more calls than rows: the next question is about all.
    is_gapped: bool,
    /// All that there is, which is asked for while readers get what has changed.
    whole: Option<JoinHandle<Result<Whole, String>>>,
}

/// Writes down what happens, and tells those who look, for as long as the runtime lives.
pub async fn keep(mut recorder: Recorder) {
    let mut is_told = false;
    let mut due = recorder.writer.as_ref().map(|_| Instant::now());
    let mirror = recorder.keeper.mirror();
    loop {
        let began = Instant::now();
        if due.is_some_and(|due| due <= began) {
            let every = match recorder.news().await {
                Ok(count) => {
                    is_told = false;
                    if count >= MANY { MANY_CALLS_EVERY } else { CALLS_EVERY }
                }
                Err(error) => {
                    if !is_told {
                        is_told = true;
                        tracing::warn!(error, "the history is not written");
                    }
                    CALLS_EVERY
                }
            };
            due = Some(Instant::now() + pause_after(began.elapsed(), every));
        }
        if recorder.keeper.is_wanted() || recorder.keeper.wants_whole_of_followers() {
            recorder.serve().await;
        }
        recorder.keeper.drop_if_unseen();
        if mirror.is_followed() {
            // Who follows sees within that time what has happened.
            let asked = recorder.asked_calls.unwrap_or(began);
            let soon = asked + MANY_CALLS_EVERY.max(began.elapsed() * SHARE);
            // A round that a reader has had is one of those.
            due = Some(due.filter(|_| asked < began).map_or(soon, |due| due.min(soon)));
        } else if recorder.writer.is_none() {
            due = None;
        }
        let until = due.unwrap_or_else(|| Instant::now() + KEPT);
        tokio::select! {
            () = tokio::time::sleep_until(until.into()) => {}
            () = mirror.is_wanted() => {}
            told = whole_of(&mut recorder.whole) => {
                recorder.whole = None;
                // What did not come is asked for again.
                let _ = recorder.add_whole(told);
            }
        }
    }
}

/// The pause after a question that took so long.
fn pause_after(took: Duration, every: Duration) -> Duration {
    let rest = (took * SHARE).min(APART_MAX.saturating_sub(took)).max(took / SHARE);
    every.saturating_sub(took).max(rest)
}

/// Waits for all that there is, if that is asked for.
async fn whole_of(asked: &mut Option<JoinHandle<Result<Whole, String>>>) -> Result<Whole, String> {
    match asked {
        Some(asked) => asked.await.unwrap_or_else(|error| Err(error.to_string())),
        None => std::future::pending().await,
    }
}

/// Asks each daemon and process for all calls, actors and objects that it knows.
async fn ask_whole(asker: Asker, began: Instant, calls: Question) -> Result<Whole, String> {
    let is_open = calls.is_open;
    let told = asker.inspect(calls).await?;
    let workers = Question { topic: Topic::Workers, ..Question::default() };
    let processes = asker.inspect(workers).await?.answers;
    let actors = asker.actors().await?;
    Ok(Whole { began, is_open, told, processes, actors })
}

fn hash(message: &impl Wire) -> u64 {
    let mut hasher = DefaultHasher::new();
    helio_proto::encode(message).hash(&mut hasher);
    hasher.finish()
}

impl Recorder {
    /// Into a folder, which is made if need be, or nowhere.
    #[must_use]
    pub fn new(asker: Asker, mirror: Arc<Mirror>, place: Option<(&Path, About)>) -> Self {
        let writer = place.and_then(|(folder, about)| {
            let opened = Writer::new(folder, about);
            opened.inspect_err(|error| tracing::warn!(%error, "the history is not written")).ok()
        });
        Self {
            asker,
            writer,
            keeper: Keeper::new(mirror),
            follower: u64::from_le_bytes(helio_env::random::bytes()).max(1),
            is_silent_since: None,
            written: HashMap::new(),
            calls: WrittenCalls::default(),
            queued: BTreeSet::new(),
            asked_calls: None,
            asked_rest: None,
            written_changes: None,
            is_gapped: false,
            whole: None,
        }
    }

    /// Answers those who wait for the calls of the cluster.
    async fn serve(&mut self) {
        let began = Instant::now();
        let done = match self.keeper.is_many() {
            true => self.serve_many().await,
            false => self.serve_few(began).await,
        };
        if let Err(why) = done {
            self.keeper.end_round(began, Err(why));
        }
    }

    /// Few calls are told all together.
    async fn serve_few(&mut self, began: Instant) -> Result<(), String> {
        let is_whole = self.keeper.wants_whole();
        if !is_whole {
            self.news().await?;
        }
        if self.keeper.wants_whole() && (is_whole || self.keeper.is_wanted()) {
            let asked = self.whole_question(false);
            self.keeper.begin_whole();
            let told = ask_whole(self.asker.clone(), began, asked).await;
            return self.add_whole(told);
        }
        Ok(())
    }

    /// Serves a reader of many calls: changes at once, and the whole, which takes long to ask for, once it has come.
    async fn serve_many(&mut self) -> Result<(), String> {
        if self.keeper.is_wanted() {
            self.news().await?;
        }
        if self.keeper.wants_whole() {
            let asked = self.whole_question(self.keeper.wants_open());
            self.keeper.begin_whole();
            let asker = self.asker.clone();
            self.whole = Some(tokio::spawn(ask_whole(asker, Instant::now(), asked)));
        }
        Ok(())
    }

    /// Asks for what has changed since processes were asked before; how many rows that were.
    async fn news(&mut self) -> Result<usize, String> {
        if self.writer.is_some() {
            return self.round().await;
        }
        let told = self.ask_news(false).await?;
        Ok(told.answers.iter().map(|answer| answer.tasks.len()).sum())
    }

    /// The question about all that there is, or (`is_open`) about what is not over and has changed since processes were asked.
    fn whole_question(&mut self, is_open: bool) -> Question {
        // The history goes on where it was, and so do those who get what has changed meanwhile.
        let is_own = self.writer.is_none() && !self.keeper.is_many();
        let since = self.asked_calls.filter(|_| is_open).map(|at| at.elapsed().as_millis() as u32);
        if is_own {
            self.asked_calls = Some(Instant::now());
        }
        Question {
            topic: Topic::Tasks,
            follower: if is_own { self.follower } else { 0 },
            within_ms: since.map_or(0, |since| since + SLACK_MS),
            is_open,
            ..Question::default()
        }
    }

    fn add_whole(&mut self, told: Result<Whole, String>) -> Result<(), String> {
        match told {
            Ok(whole) => {
                self.keeper.add_whole(&whole);
                Ok(())
            }
            Err(why) => {
                self.keeper.miss_whole();
                Err(why)
            }
        }
    }

    /// Asks for calls: all of them, or what has changed since this was asked before.
    async fn ask_news(&mut self, is_whole: bool) -> Result<Answers, String> {
        let began = Instant::now();
        let since = self.is_silent_since.or(self.asked_calls);
        let since = since.filter(|_| !is_whole).map(|at| began - at + OVERLAP);
        let question = Question {
            topic: Topic::Tasks,
            within_ms: since.map_or(0, |since| since.as_millis() as u32),
            // An answer that came too late was heard by nobody: it is asked for by its time.
            follower: if self.is_silent_since.is_some() { 0 } else { self.follower },
            ..Question::default()
        };
        let told = self.asker.inspect(question).await?;
        self.is_silent_since = match told.silent {
            0 => None,
            _ => self.is_silent_since.or(self.asked_calls),
        };
        // The time of the question, not of the answer: what happened in between is asked for again.
        self.asked_calls = Some(began);
        self.keeper.add_news(began, &told);
        Ok(told)
    }

    /// Asks for what is new and writes it. Returns the number of calls.
    async fn round(&mut self) -> Result<usize, String> {
        let begins = self.writer.as_ref().is_some_and(Writer::begins);
        if begins {
            self.forget_written();
        }
        let mut batch = Batch { at_ms: unix_ms(), ..Batch::default() };
        // Calls first: somebody may wait for them.
        let count = self.add_calls(&mut batch, begins).await?;
        let rest_is_due = self.asked_rest.is_none_or(|at| at.elapsed() >= REST_EVERY);
        if begins || rest_is_due {
            if !begins {
                // The other answers may take long, and the head may be killed meanwhile.
                self.write(std::mem::take(&mut batch), false)?;
                batch.at_ms = unix_ms();
            }
            self.asked_rest = Some(Instant::now());
            if let Err(why) = self.add_rest(&mut batch).await {
                // The part that was told is not written either.
                self.forget_written();
                return Err(why);
            }
        }
        self.write(batch, begins)?;
        Ok(count)
    }

    /// Everything but calls is written anew.
    fn forget_written(&mut self) {
        self.written.clear();
        self.written_changes = None;
    }

    /// Writes what was told, if it is anything.
    fn write(&mut self, batch: Batch, begins: bool) -> Result<(), String> {
        let is_new = batch != Batch { at_ms: batch.at_ms, ..Batch::default() };
        if (is_new || begins)
            && let Some(writer) = &mut self.writer
            && let Err(error) = writer.write(batch, begins)
        {
            // The changes of this round were not written: the next one writes everything again.
            self.forget_written();
            self.calls = WrittenCalls::default();
            self.is_gapped = true;
            return Err(error.to_string());
        }
        Ok(())
    }

    async fn add_calls(&mut self, batch: &mut Batch, begins: bool) -> Result<usize, String> {
        let is_whole = begins || self.is_gapped || self.asked_calls.is_none();
        let told = self.ask_news(is_whole).await?;
        self.calls.begin_round();
        let mut count = 0;
        let mut gaps = 0;
        let is_first = self.calls.is_empty() && begins;
        for mut answer in told.answers {
            gaps += u32::from(answer.is_gapped);
            // A process that forgot calls may have had them written before.
            answer.more.clear();
            let calls = &mut self.calls;
            answer.tasks.retain(|task| {
                let is_new = calls.add(task, answer.is_over);
                // A new file has what is open anew; what is over was in the one before.
                is_new || (is_whole && (!task.phase.is_over() || is_first))
            });
            // A queue that is empty now is news, too.
            let had_queue = self.queued.remove(&answer.worker_id);
            if !answer.queued.is_empty() {
                self.queued.insert(answer.worker_id);
            }
            if !answer.tasks.is_empty() || !answer.queued.is_empty() || had_queue {
                count += answer.tasks.len();
                batch.calls.push(Answer { total: 0, ..answer });
            }
        }
        self.is_gapped = gaps > 0;
        batch.gaps = gaps;
        batch.is_whole = is_whole;
        Ok(count)
    }

    async fn add_rest(&mut self, batch: &mut Batch) -> Result<(), String> {
        let asker = self.asker.clone();
        // Before the lists: a change while they are read is counted next time.
        let count = asker.changes().await;
        if count.is_none() || count != self.written_changes {
            self.written_changes = count;
            self.add_lists(batch).await?;
        }
        let nodes = asker.nodes().await?.nodes;
        let question = Question { topic: Topic::Workers, ..Question::default() };
        let workers = asker.inspect(question).await?.answers;
        batch.nodes = nodes.into_iter().filter(|one| self.is_news_of_node(one)).collect();
        for mut answer in workers {
            answer.workers.retain(|worker| self.is_news_of_worker(worker));
            if !answer.workers.is_empty() {
                batch.workers.push(answer);
            }
        }
        Ok(())
    }

    /// Adds what is new of the control service's lists and of what is told in its key-value table.
    async fn add_lists(&mut self, batch: &mut Batch) -> Result<(), String> {
        let asker = self.asker.clone();
        let unexpected = || "the control service gave an unexpected answer".to_owned();
        let ControlResponse::Actors(actors) = asker.ask(ListActors {}).await? else {
            return Err(unexpected());
        };
        let ControlResponse::Jobs(jobs) = asker.ask(ListJobs {}).await? else {
            return Err(unexpected());
        };
        let ControlResponse::Groups(groups) = asker.ask(ListGroups {}).await? else {
            return Err(unexpected());
        };
        let all = actors.actors.into_iter();
        batch.actors = all.filter(|one| self.is_new(b'a', &one.actor_id.0, hash(one))).collect();
        let all = jobs.jobs.into_iter();
        batch.jobs = all.filter(|one| self.is_new(b'j', &one.job_id.0, hash(one))).collect();
        let all = groups.groups.into_iter();
        batch.groups =
            all.filter(|one| self.is_new(b'g', &one.spec.group_id.0, hash(one))).collect();
        for namespace in TABLES {
            self.add_table(namespace, batch).await?;
        }
        Ok(())
    }

    async fn add_table(&mut self, namespace: &str, batch: &mut Batch) -> Result<(), String> {
        let entries = KvEntries { namespace: namespace.to_owned(), ..KvEntries::default() };
        let mut there = BTreeSet::new();
        for pair in self.asker.entries(entries).await? {
            let key = [namespace.as_bytes(), b"\n", &pair.key].concat();
            let mut hasher = DefaultHasher::new();
            pair.value.hash(&mut hasher);
            there.insert(key.clone());
            if self.is_due(b'k', &key, hasher.finish(), pair.value.len()) {
                let (namespace, key, value) = (namespace.to_owned(), pair.key, pair.value);
                batch.entries.push(Entry { namespace, key, value, is_gone: false });
            }
        }
        if namespace.starts_with('_') && namespace != SERVING {
            return Ok(());
        }
        let prefix = [namespace.as_bytes(), b"\n"].concat();
        let gone: Vec<(u8, Vec<u8>)> = self
            .written
            .keys()
            .filter(|(kind, key)| *kind == b'k' && key.starts_with(&prefix) && !there.contains(key))
            .cloned()
            .collect();
        for place in gone {
            self.written.remove(&place);
            let key = place.1[prefix.len()..].to_vec();
            let namespace = namespace.to_owned();
            batch.entries.push(Entry { namespace, key, is_gone: true, ..Entry::default() });
        }
        Ok(())
    }

    /// Whether it is other than what was written of it.
    fn is_new(&mut self, kind: u8, key: &[u8], hash: u64) -> bool {
        self.is_due(kind, key, hash, 0)
    }

    /// Whether a record of so many bytes is due.
    fn is_due(&mut self, kind: u8, key: &[u8], hash: u64, bytes: usize) -> bool {
        let now = Instant::now();
        let place = (kind, key.to_vec());
        let pause = Duration::from_secs_f64(bytes as f64 / ENTRY_BYTES_PER_S as f64);
        let before = self.written.get(&place);
        if before.is_some_and(|before| before.hash == hash) {
            return false;
        }
        let is_due =
            before.is_none_or(|before| bytes < ENTRY_BYTES_PER_S || now - before.at >= pause);
        match is_due {
            true => drop(self.written.insert(place, Written { hash, at: now })),
            // It is looked at again, whether or not something else changes.
            false => self.written_changes = None,
        }
        is_due
    }

    fn is_news_of_node(&mut self, node: &NodeInfo) -> bool {
        let lasting = NodeInfo {
            available: Default::default(),
            pending: Vec::new(),
            version: 0,
            object_store_used: 0,
            workers: 0,
            gpus: Vec::new(),
            is_idle: false,
            ..node.clone()
        };
        let place = (b'n', node.address.node_id.0.to_vec());
        let is_old =
            self.written.get(&place).is_some_and(|before| before.at.elapsed() >= NODES_EVERY);
        let hash = hash(&lasting);
        // What changes all the time is written now and then, so that curves have it.
        if is_old && node.alive {
            self.written.insert(place, Written { hash, at: Instant::now() });
            return true;
        }
        self.is_new(b'n', &node.address.node_id.0, hash)
    }

    /// Whether there is news of the worker; its usage is left out, since that changes with each call.
    fn is_news_of_worker(&mut self, worker: &WorkerRow) -> bool {
        let lasting = WorkerRow {
            usage: String::new(),
            resources: Default::default(),
            ended_ago_ms: 0,
            ..worker.clone()
        };
        self.is_new(b'w', &worker.worker_id.0, hash(&lasting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_written_again_when_it_stands_otherwise_or_after_a_long_time() {
        let mut calls = WrittenCalls::default();
        let row = |phase| TaskRow { phase, ..TaskRow::default() };
        let (sent, over) = (row(TaskPhase::Sent), row(TaskPhase::Finished));
        for round in 0..3 * WrittenCalls::ROUNDS {
            calls.begin_round();
            assert_eq!(calls.add(&sent, false), round == 0, "{round}");
        }
        assert!(calls.add(&over, false) && !calls.add(&over, false));
        assert!(calls.add(&over, true), "its process has ended");
        for _ in 0..WrittenCalls::ROUNDS {
            calls.begin_round();
        }
        assert!(!calls.add(&over, true));
        for _ in 0..2 * WrittenCalls::ROUNDS {
            calls.begin_round();
        }
        assert!(calls.is_empty() && calls.add(&over, true));
    }

    #[test]
    fn questions_are_never_a_second_apart_but_where_answers_take_that_long() {
        for took_ms in [0, 1, 20, 100, 150, 300, 600, 700, 800, 5_000] {
            for every in [CALLS_EVERY, MANY_CALLS_EVERY] {
                let took = Duration::from_millis(took_ms);
                let apart = took + pause_after(took, every);
                assert!(apart >= every, "{took:?}: {apart:?}");
                assert!(apart <= APART_MAX.max(took + took / SHARE), "{took:?}: {apart:?}");
            }
        }
        // What takes some of the time has a fifth of it.
        let took = Duration::from_millis(120);
        assert_eq!(pause_after(took, MANY_CALLS_EVERY), 4 * took);
    }
}
