//! The calls of a living cluster, kept up to date for as long as somebody looks at them (decision 57).
//!
//! A reader says that it wants them ([`Mirror::told`]) and gets the table as it is after the next round of questions (one that was
//! told of a round [`Mirror::heard`] what that said),
//! which [`crate::history::keep`] asks for the history, too. What has changed since the round before is told then, and
//! now and then all that is not over: why a call waits changes by itself. How often that is depends on how much there is, and
//! where there is little it is each time. All that there is is told at first, and when something was missed.
//!
//! A reader that follows ([`Mirror::follow`]) asks for nothing: rounds come five times a second as long as there is one.
//!
//! **LIMIT-1** The table has as many calls as [`helio_report::calls::CALLS_MAX`]; when nobody has looked for
//! [`KEPT`] its memory is given back.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use helio_proto::control::ActorInfo;
use helio_proto::inspect::{Answer, Answers};
use helio_report::calls::{CALLS_MAX, Calls};
use helio_types::WorkerId;
use tokio::sync::{Notify, watch};

use crate::{Table, Told};

/// Time for which the table is kept after a reader has looked.
pub(crate) const KEPT: Duration = Duration::from_secs(60);
/// Number of rows and processes that count as few: all of them are asked for each time.
const FEW: usize = 1_000;
/// The delay for each of more rows and processes, when all of them are asked: the head takes some 2 µs for a row.
const PAUSE_FOR_EACH: Duration = Duration::from_millis(1);
/// Delay for each call that the table has.
const PAUSE_FOR_EACH_KNOWN: Duration = Duration::from_micros(5);
/// The pause for those who follow, and where there are not few: a process counts all calls that it remembers then.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// A table that remembers so much of calls that it has not any more begins anew.
const REMEMBERED_MAX: usize = 4 * CALLS_MAX;

/// The result of a round of questions.
#[derive(Debug, Clone)]
struct Round {
    /// The time at which the first question was asked.
    began: Instant,
    /// The time at which the answers were in the table.
    ended: Instant,
    /// Number of nodes that did not answer in time, or the reason why none did.
    told: Result<u32, String>,
}

/// The mirror of the cluster's calls: the table, its readers, and the task that asks the nodes while there is a reader.
#[derive(Debug)]
pub struct Mirror {
    table: Table,
    rounds: watch::Sender<Option<Round>>,
    wanted: Mutex<Wanted>,
    wake: Notify,
    followers: AtomicU32,
}

/// A reader that follows what is told, until it is dropped.
#[derive(Debug)]
pub struct Following {
    mirror: Arc<Mirror>,
    rounds: watch::Receiver<Option<Round>>,
}

impl Following {
    /// Waits for the next round.
    pub async fn round(&mut self) {
        // A mirror that ends is told of by the next question to it.
        let _ = self.rounds.changed().await;
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.mirror.followers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct Wanted {
    /// Whether somebody waits for a round.
    is_now: bool,
    /// The time at which a round was last wanted.
    at: Option<Instant>,
}

impl Default for Mirror {
    fn default() -> Self {
        Self {
            table: Table::default(),
            rounds: watch::channel(None).0,
            wanted: Mutex::default(),
            wake: Notify::new(),
            followers: AtomicU32::new(0),
        }
    }
}

impl Mirror {
    /// The calls, as they were when this was asked or up to `fresh` before.
    ///
    /// # Errors
    /// A sentence for the user: the daemon does not answer.
    pub async fn told(&self, fresh: Duration) -> Result<Told, String> {
        let asked = Instant::now();
        self.of_round(asked, |round| round.began + fresh > asked).await
    }

    /// The calls as the round of questions told them that ended last, if that was up to `age` ago: where a round takes
    /// long nobody waits for the next one who has just been told of this.
    ///
    /// # Errors
    /// As of [`Mirror::told`].
    pub async fn heard(&self, age: Duration) -> Result<Told, String> {
        let asked = Instant::now();
        self.of_round(asked, |round| round.ended + age > asked).await
    }

    /// The calls after a round that is new enough.
    async fn of_round(
        &self,
        asked: Instant,
        is_new: impl Fn(&Round) -> bool,
    ) -> Result<Told, String> {
        let mut rounds = self.rounds.subscribe();
        loop {
            let last = rounds.borrow_and_update().clone();
            match last {
                Some(round @ Round { told: Ok(silent), .. }) if is_new(&round) => {
                    self.lock().at = Some(asked);
                    return Ok(Told::of_calls(Arc::clone(&self.table), silent, Vec::new()));
                }
                Some(Round { began, told: Err(why), .. }) if began >= asked => return Err(why),
                _ => {}
            }
            // Before the wait: the keeper sees that somebody waits when it wakes up.
            *self.lock() = Wanted { is_now: true, at: Some(asked) };
            self.wake.notify_one();
            if rounds.changed().await.is_err() {
                return Err("The server ends.".to_owned());
            }
        }
    }

    /// Follows what is told of calls.
    #[must_use]
    pub fn follow(self: &Arc<Self>) -> Following {
        self.followers.fetch_add(1, Ordering::Relaxed);
        Following { mirror: Arc::clone(self), rounds: self.rounds.subscribe() }
    }

    /// Whether somebody follows.
    pub(crate) fn is_followed(&self) -> bool {
        self.followers.load(Ordering::Relaxed) > 0
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until somebody wants a round.
    pub(crate) async fn is_wanted(&self) {
        while !self.lock().is_now {
            self.wake.notified().await;
        }
    }
}

/// All that processes know of calls, or of those that are not over (`is_open`), which processes there are, and the actors.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) began: Instant,
    pub(crate) is_open: bool,
    pub(crate) told: Answers,
    pub(crate) processes: Vec<Answer>,
    pub(crate) actors: Vec<ActorInfo>,
}

/// The state of the task that keeps the table up to date.
#[derive(Debug)]
pub(crate) struct Keeper {
    mirror: Arc<Mirror>,
    /// Whether a table follows the calls.
    is_live: bool,
    /// News were missed: only a question about everything can say which.
    is_lost: bool,
    /// Whether there is so little that it is asked for each time.
    is_few: bool,
    /// All is asked for, and has not been told yet.
    is_asking: bool,
    /// The time from which on everything can be asked for again.
    whole_again: Instant,
    /// The time at which everything was last asked for.
    whole_at: Instant,
    /// The living processes that have answered.
    tellers: BTreeSet<WorkerId>,
}

impl Keeper {
    pub(crate) fn new(mirror: Arc<Mirror>) -> Self {
        Self {
            mirror,
            is_live: false,
            is_lost: false,
            is_few: true,
            is_asking: false,
            whole_again: Instant::now(),
            whole_at: Instant::now(),
            tellers: BTreeSet::new(),
        }
    }

    pub(crate) fn mirror(&self) -> Arc<Mirror> {
        Arc::clone(&self.mirror)
    }

    /// Whether a reader waits for a round.
    pub(crate) fn is_wanted(&self) -> bool {
        self.mirror.lock().is_now
    }

    /// Whether the next round is to be about all that there is.
    pub(crate) fn wants_whole(&self) -> bool {
        !self.is_asking && (!self.is_live || self.is_lost || self.whole_again <= Instant::now())
    }

    /// Whether readers get what has changed while all that there is is still asked for: it is much.
    pub(crate) fn is_many(&self) -> bool {
        self.is_live && !self.is_few
    }

    /// All that there is is asked for now, and what is told until the answer comes is newer than that.
    pub(crate) fn begin_whole(&mut self) {
        self.is_asking = true;
        self.is_lost = false;
        self.write().begin_round();
    }

    /// The answer to that does not come.
    pub(crate) fn miss_whole(&mut self) {
        self.is_asking = false;
        self.is_lost = true;
        self.whole_at = Instant::now();
    }

    /// Whether the same is to be done for those who follow and do not ask.
    pub(crate) fn wants_whole_of_followers(&self) -> bool {
        self.mirror.is_followed()
            && self.wants_whole()
            && (!self.is_live || self.is_lost || self.whole_at.elapsed() >= PAUSE_MIN)
    }

    /// Whether what is open is enough, after what has changed: the table has the others.
    pub(crate) fn wants_open(&self) -> bool {
        self.is_live && !self.is_lost && !self.is_few
    }

    /// Whether nobody has looked for a long time: the table goes.
    pub(crate) fn drop_if_unseen(&mut self) {
        let is_seen = self.mirror.is_followed()
            || self.mirror.lock().at.is_some_and(|at| at.elapsed() < KEPT);
        if self.is_live && !is_seen {
            self.begin_anew();
            helio_store::heap::give_back();
        }
    }

    fn begin_anew(&mut self) {
        self.is_live = false;
        self.is_asking = false;
        self.tellers.clear();
        *self.write() = Calls::default();
        self.mirror.rounds.send_replace(None);
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Calls> {
        self.mirror.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds all that there is, which was asked for since [`Keeper::begin_whole`].
    pub(crate) fn add_whole(&mut self, whole: &Whole) {
        let Whole { began, is_open, told, processes, actors } = whole;
        if !self.is_asking {
            // Nobody looks any more.
            return;
        }
        let mut calls = self.write();
        if calls.remembered() > REMEMBERED_MAX {
            *calls = Calls::default();
        }
        calls.add_processes(processes);
        calls.set_actors(actors);
        match is_open {
            true => calls.add_open(&told.answers),
            false => calls.add(&told.answers, true),
        }
        let rows: usize = told.answers.iter().map(|answer| 1 + answer.tasks.len()).sum();
        let rows = rows + processes.len() + actors.len();
        let known = calls.len();
        drop(calls);
        self.is_few = rows + known <= FEW;
        self.whole_at = Instant::now();
        let pause = PAUSE_FOR_EACH * rows as u32 + PAUSE_FOR_EACH_KNOWN * known as u32;
        self.whole_again =
            self.whole_at + if self.is_few { Duration::ZERO } else { pause.max(PAUSE_MIN) };
        self.is_live = true;
        self.is_asking = false;
        self.tellers = tellers(told);
        self.end_round(*began, Ok(told.silent));
    }

    /// Adds what processes tell since they were asked before.
    pub(crate) fn add_news(&mut self, began: Instant, told: &Answers) {
        if !self.is_live {
            return;
        }
        self.write().add(&told.answers, false);
        let now = tellers(told);
        self.is_lost |= told.silent > 0 || told.answers.iter().any(|answer| answer.is_gapped);
        if !self.tellers.is_subset(&now) {
            // Of open calls whose process is gone nobody tells any more.
            self.whole_again = Instant::now();
            self.is_lost |= self.is_few;
        }
        self.tellers = now;
        // Of few the whole comes at once.
        if !self.is_lost || !self.is_few {
            self.end_round(began, Ok(told.silent));
        }
    }

    /// Says to those who wait how it went.
    pub(crate) fn end_round(&self, began: Instant, told: Result<u32, String>) {
        if told.is_ok() || self.is_wanted() {
            let before = match &*self.mirror.rounds.borrow() {
                Some(Round { began, told: Ok(_), .. }) => Some(*began),
                _ => None,
            };
            // All that there is may have been asked for before what has changed.
            let is_newest = before.is_none_or(|before| before <= began);
            if is_newest {
                self.mirror.lock().is_now = false;
            }
            let began = before.filter(|_| !is_newest).unwrap_or(began);
            self.mirror.rounds.send_replace(Some(Round { began, ended: Instant::now(), told }));
        }
    }
}

fn tellers(told: &Answers) -> BTreeSet<WorkerId> {
    told.answers.iter().filter(|answer| !answer.is_over).map(|answer| answer.worker_id).collect()
}

#[cfg(test)]
mod tests {
    use helio_proto::inspect::{TaskPhase, TaskRow};
    use helio_types::{ActorId, TaskId};

    use super::*;

    /// All that there is, or what is open of it, is asked for and told.
    fn whole(keeper: &mut Keeper, is_open: bool, told: Answers) {
        keeper.begin_whole();
        let (processes, actors) = (Vec::new(), Vec::new());
        keeper.add_whole(&Whole { began: Instant::now(), is_open, told, processes, actors });
    }

    const FRESH: Duration = Duration::from_millis(100);

    fn told(worker: u8, calls: std::ops::Range<u64>, phase: TaskPhase) -> Answers {
        let task = |number| TaskRow {
            task_id: TaskId::new(number, ActorId([3; ActorId::LEN])),
            name: "f".to_owned(),
            phase,
            ended_us: if phase.is_over() { 1_000 + number } else { 0 },
            ..TaskRow::default()
        };
        let worker_id = WorkerId([worker; WorkerId::LEN]);
        let answer = Answer { worker_id, tasks: calls.map(task).collect(), ..Answer::default() };
        Answers { answers: vec![answer], ..Answers::default() }
    }

    fn read(mirror: &Mirror) -> (usize, u64) {
        let calls = crate::read(&mirror.table);
        (calls.len(), calls.version())
    }

    #[tokio::test]
    async fn a_reader_gets_what_is_told_after_it_has_asked() {
        let mirror = Arc::new(Mirror::default());
        let mut keeper = Keeper::new(Arc::clone(&mirror));
        assert!(keeper.wants_whole() && !keeper.is_wanted());
        // Nobody looks: what the history hears is not kept.
        keeper.add_news(Instant::now(), &told(1, 0..5, TaskPhase::Sent));
        assert_eq!(read(&mirror).0, 0);
        let of_reader = Arc::clone(&mirror);
        let reader = tokio::spawn(async move { of_reader.told(FRESH).await.unwrap().len() });
        mirror.is_wanted().await;
        whole(&mut keeper, false, told(1, 0..3, TaskPhase::Sent));
        assert_eq!(reader.await.unwrap(), 3);
        assert!(!keeper.is_wanted());
        // Few are asked for anew each time.
        assert!(keeper.wants_whole());

        let of_reader = Arc::clone(&mirror);
        tokio::time::sleep(FRESH).await;
        let reader = tokio::spawn(async move { of_reader.told(FRESH).await.unwrap_err() });
        mirror.is_wanted().await;
        keeper.end_round(Instant::now(), Err("nobody".to_owned()));
        assert_eq!(reader.await.unwrap(), "nobody");
    }

    #[tokio::test]
    async fn who_was_told_of_a_round_does_not_wait_for_another_however_long_it_took() {
        let mirror = Arc::new(Mirror::default());
        let mut keeper = Keeper::new(Arc::clone(&mirror));
        keeper.begin_whole();
        let began = Instant::now() - 100 * FRESH;
        let told = told(1, 0..3, TaskPhase::Sent);
        let (processes, actors) = (Vec::new(), Vec::new());
        keeper.add_whole(&Whole { began, is_open: false, told, processes, actors });
        let heard = mirror.heard(Duration::from_secs(600)).await.unwrap();
        assert_eq!((heard.len(), keeper.is_wanted()), (3, false));
        // Who asks for what is true now waits for a round that is asked after that.
        let of_reader = Arc::clone(&mirror);
        let reader = tokio::spawn(async move { of_reader.told(FRESH).await.map(|all| all.len()) });
        mirror.is_wanted().await;
        keeper.end_round(Instant::now(), Ok(0));
        assert_eq!(reader.await.unwrap(), Ok(3));
    }

    #[tokio::test]
    async fn many_are_followed_until_something_is_missed() {
        let mirror = Arc::new(Mirror::default());
        let mut keeper = Keeper::new(Arc::clone(&mirror));
        whole(&mut keeper, false, told(1, 0..50_000, TaskPhase::Sent));
        assert!(!keeper.wants_whole(), "that would be much");
        let (len, version) = read(&mirror);
        keeper.add_news(Instant::now(), &told(1, 0..10, TaskPhase::Finished));
        assert!(!keeper.wants_whole());
        assert_eq!((len, read(&mirror)), (50_000, (50_000, version + 10)));
        // The same again is no news.
        keeper.add_news(Instant::now(), &told(1, 0..10, TaskPhase::Finished));
        assert_eq!(read(&mirror), (50_000, version + 10));
        // The process is gone, and another is there.
        keeper.add_news(Instant::now(), &told(2, 50_000..50_001, TaskPhase::Sent));
        assert!(keeper.wants_whole());
        whole(&mut keeper, false, told(2, 50_000..50_001, TaskPhase::Sent));
        assert_eq!(read(&mirror).0, 11, "what is over, and what is told of");
        // Nobody has looked for a long time.
        keeper.drop_if_unseen();
        assert_eq!(read(&mirror), (0, 0));
        assert!(keeper.wants_whole());
    }

    #[tokio::test]
    async fn who_follows_is_woken_by_rounds_and_keeps_the_table() {
        let mirror = Arc::new(Mirror::default());
        let mut keeper = Keeper::new(Arc::clone(&mirror));
        assert!(!keeper.wants_whole_of_followers());
        let mut following = mirror.follow();
        assert!(keeper.wants_whole_of_followers());
        let many = told(1, 0..50_000, TaskPhase::Sent);
        whole(&mut keeper, false, many);
        following.round().await;
        assert!(keeper.wants_open() && !keeper.wants_whole_of_followers());
        // Half of them are over, and all that is open is asked for. Until it is told what has changed is.
        keeper.begin_whole();
        let began = Instant::now();
        assert!(!keeper.wants_whole());
        keeper.add_news(Instant::now(), &told(1, 0..25_000, TaskPhase::Finished));
        following.round().await;
        keeper.add_news(Instant::now(), &told(1, 60_000..60_010, TaskPhase::Sent));
        following.round().await;
        let told = told(1, 25_000..49_999, TaskPhase::Sent);
        let (processes, actors) = (Vec::new(), Vec::new());
        keeper.add_whole(&Whole { began, is_open: true, told, processes, actors });
        following.round().await;
        assert_eq!(read(&mirror).0, 50_009, "one is gone, and what began meanwhile is there");
        assert!(following.rounds.borrow().as_ref().unwrap().began > began);
        // Nobody asks, and the table stays until nobody follows.
        keeper.drop_if_unseen();
        assert_eq!(read(&mirror).0, 50_009);
        drop(following);
        keeper.drop_if_unseen();
        assert_eq!(read(&mirror).0, 0);
    }
}
