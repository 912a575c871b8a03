//! The answers of this process to its daemon's questions about it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use helio_process_state::{Answer, Event};
use helio_proto::inspect::{
    ACTORS, Answer as Rows, Answers, Asked, LAST_ROWS_MAX, LastWords, Metric, Question, ROWS_MAX,
    Series, TaskPhase, TaskRow, Topic,
};
use helio_proto::tally::Tally;

use crate::api::{Error, Interrupt};
use crate::runtime::Runtime;
use crate::state::State;
use crate::{metrics, sites};

/// Time that the daemons may take to answer, the other nodes' among them.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Time for which a process that ends waits for those who read its output.
const LAST_WRITES_MAX: Duration = Duration::from_secs(10);

/// Number of followers for which a process knows when they asked last (LIMIT-1).
const FOLLOWERS_MAX: usize = 8;

/// The last times at which repeated questions came; the latest is the last one.
#[derive(Debug, Default)]
pub(crate) struct Followers(Vec<(u64, u64)>);

impl Followers {
    /// Notes that a follower asks now. Returns when it did so before.
    fn asked(&mut self, follower: u64, now: u64) -> Option<u64> {
        let place = self.0.iter().position(|(number, _)| *number == follower);
        let before = place.map(|place| self.0.remove(place).1);
        if self.0.len() == FOLLOWERS_MAX {
            self.0.remove(0);
        }
        self.0.push((follower, now));
        before
    }
}

impl State {
    /// Makes the rows that the daemon asks for.
    pub(crate) fn report(&mut self, asked: &Asked) {
        let mut answer = self.process.signed_rows();
        let limit = match asked.question.limit {
            0 => ROWS_MAX,
            limit => limit.min(ROWS_MAX),
        } as usize;
        let wall = self.wall();
        let now = self.now();
        let asked_before = match asked.question.follower {
            0 => None,
            follower => self.followers.asked(follower, now),
        };
        let earlier = now.saturating_sub(u64::from(asked.question.within_ms) * 1000);
        let is_new = |row: &TaskRow, since: u64| {
            row.started_us.max(row.ended_us) >= since || row.phase == TaskPhase::Sent
        };
        let owner = self.process.owner();
        match asked.question.topic {
            Topic::Tasks if asked.question.within_ms > 0 && !asked.question.is_open => {
                let since = match asked.question.follower {
                    0 => earlier,
                    _ => asked_before.unwrap_or_default(),
                };
                let (mut rows, is_gapped) = owner.task_rows_since(since, limit, now, &wall);
                let since = wall(since);
                let of_others = self.process.rows_of_others(false, &wall);
                rows.extend(of_others.into_iter().filter(|row| is_new(row, since)));
                answer.total = rows.len() as u64;
                (answer.tasks, answer.is_gapped) = (rows, is_gapped);
                answer.queued = self.process.queued_calls().take(limit).collect();
            }
            Topic::Tasks => {
                let since = if asked.question.is_open { earlier } else { 0 };
                let (rows, others) = owner.task_rows(since, limit, now, &wall);
                let mut of_others = self.process.rows_of_others(false, &wall);
                if since > 0 {
                    of_others.retain(|row| is_new(row, wall(since)));
                }
                Self::sign(&mut answer, rows, of_others, others, limit);
                answer.queued = self.process.queued_calls().take(limit).collect();
            }
            Topic::Objects => {
                let (mut rows, total) = owner.object_rows(limit);
                for row in &mut rows {
                    row.is_pinned = self.process.is_pinned(row.object_id);
                    row.call_site = sites::of(&row.object_id);
                }
                (answer.objects, answer.total) = (rows, total as u64);
            }
            Topic::Metrics => answer.metrics = self.measurements(),
            Topic::Places => answer.objects = owner.place_rows(&asked.question.objects),
            Topic::Why | Topic::Workers => {}
        }
        self.apply(Event::Report { request: asked.request_id, answer: Box::new(answer) });
    }

    /// The process is about to end: its daemon keeps what it knows of calls. `all`: its callers may be ending,
    /// too.
    pub(crate) fn say_last_words(&mut self, all: bool) {
        let (limit, wall) = (LAST_ROWS_MAX as usize, self.wall());
        let mut answer = self.process.signed_rows();
        let (rows, others) = self.process.owner().task_rows(0, limit, self.now(), &wall);
        let of_others = self.process.rows_of_others(all, &wall);
        Self::sign(&mut answer, rows, of_others, others, limit);
        if !answer.tasks.is_empty() {
            self.tell_node(LastWords { answer });
        }
    }

    /// Puts rows of calls into an answer, so many at most, and the counts of what has none.
    fn sign(
        answer: &mut Rows,
        mut rows: Vec<TaskRow>,
        of_others: Vec<TaskRow>,
        mut counts: Tally,
        limit: usize,
    ) {
        rows.extend(of_others);
        for row in rows.drain(limit.min(rows.len())..) {
            counts.add_row(&row);
        }
        answer.total = rows.len() as u64 + counts.sum();
        (answer.tasks, answer.more) = (rows, counts.counts());
    }

    /// Makes microseconds since 1970 of the machine's time.
    fn wall(&self) -> impl Fn(u64) -> u64 + use<> {
        let (now, unix) = (self.now(), unix_us());
        move |at| unix.saturating_sub(now.saturating_sub(at))
    }

    /// The application's, and the runtime's own.
    fn measurements(&self) -> Vec<Metric> {
        let mut all = metrics::snapshot();
        let (class, running) = self.process.running_calls();
        let [first, again] = self.process.owner().task_tallies();
        let mut tasks = Vec::new();
        for (tally, is_retry) in [(first, "0"), (again, "1")] {
            for one in tally.counts() {
                let state = match one.phase {
                    // Whether it has begun, the process knows that has it.
                    TaskPhase::Sent => "SUBMITTED_TO_WORKER",
                    phase => phase.name(),
                };
                let tags = [
                    ("Name", one.name.as_str()),
                    ("State", state),
                    ("IsRetry", is_retry),
                    ("Source", "owner"),
                ];
                tasks.push(Series::of(one.count as f64, tags));
            }
        }
        for (name, n) in &running {
            for (state, n) in [("RUNNING", *n as f64), ("SUBMITTED_TO_WORKER", -(*n as f64))] {
                let tags =
                    [("Name", *name), ("State", state), ("IsRetry", "0"), ("Source", "executor")];
                tasks.push(Series::of(n, tags));
            }
        }
        let about = "Calls by state; a process that runs one takes it off those that its caller has sent, so that the sum \
                     over all processes counts each call once";
        all.push(Metric::gauge("tasks", about, tasks));
        if !class.is_empty() {
            let state = if running.is_empty() { "IDLE" } else { "RUNNING_TASK" };
            let tags = [("Name", class), ("State", state), ("Source", "executor")];
            all.push(Metric::gauge("actors", ACTORS, vec![Series::of(1.0, tags)]));
        }
        let (objects, ..) = self.process.owner().census();
        let one = vec![Series::of(objects as f64, [])];
        all.push(Metric::gauge(
            "owner_objects",
            "Objects to which this process holds references",
            one,
        ));
        all
    }
}

impl Runtime {
    /// The process is about to end: its daemon keeps the rows of its calls, for later questions. Waits until
    /// all output has arrived, so that no caller loses a reply; a caller that reads nothing is not waited
    /// for longer than [`LAST_WRITES_MAX`].
    pub fn last_words(&self) {
        {
            let mut state = self.settled();
            state.say_last_words(false);
            state.flush();
        }
        let deadline = Some(Instant::now() + LAST_WRITES_MAX);
        let written = self.wait_until(deadline, &mut || false, |state| {
            let is_written = state.conns.values().all(|conn| !conn.stuffed);
            (state.force_exit || is_written).then_some(())
        });
        // A process that ends with unread input resets its connections: what their other ends have not
        // fetched would be lost. An end that has read everything closes.
        let read = written.and_then(|()| {
            let open = self.state.lock().end_writing();
            self.wait_until(deadline, &mut || false, |state| {
                let are_closed = open.iter().all(|link| !state.conns.contains_key(link));
                (state.force_exit || are_closed).then_some(())
            })
        });
        if let Err(error) = read {
            tracing::warn!(%error, "this process ends before all its output was read");
        }
    }

    /// Asks the processes of the cluster, or of this node alone.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::Interrupted`], [`Error::Disconnected`].
    pub fn inspect(
        &self,
        question: Question,
        own_node_only: bool,
        timeout: Option<Duration>,
        interrupt: Interrupt<'_>,
    ) -> Result<Answers, Error> {
        let request = {
            let mut state = self.settled();
            state.check_open()?;
            let request = state.process.mint_request();
            state.apply(Event::Inspect { request, question, own_node_only });
            self.changed(state);
            request
        };
        let limit = timeout.map_or(ANSWER_MAX, |timeout| timeout.min(ANSWER_MAX));
        let deadline = Some(Instant::now() + limit);
        let answer = self.wait_until(deadline, interrupt, |state| {
            match state.process.take_answer(request) {
                Some(Answer::Inspected(inspected)) => Some(*inspected),
                _ => None,
            }
        });
        // Nobody takes the answer any more: it would stay in the table for ever.
        if answer.is_err() {
            self.state.lock().process.forget_request(request);
        }
        // Not under the lock: there may be many rows.
        answer.map(|inspected| inspected.read())
    }
}

fn unix_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}
