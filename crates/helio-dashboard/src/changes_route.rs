//! Changes of the cluster's lists, told as they happen: `/api/v0/changes`, server-sent events.
//!
//! A page that is seen keeps one such answer open and asks anew for what it shows of what has changed. So nothing is
//! asked while nothing changes, and what changes is seen within [`EVERY`] where that is cheap.
//!
//! **LIMIT-1** What a page asks for costs a two-hundredth of a core at most ([`SHARE`]): when an answer took long the next
//! change is said as much later. Lists that have to be made to see whether they have changed are made as rarely. What the
//! control service lists is made only when its count of changes ([`helio_proto::control::Changes`]) has grown.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Extension;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderValue, Response, header};
use bytes::Bytes;
use futures_util::stream;
use helio_observer::{Following, read};
use helio_proto::control::{KvEntries, NodeInfo};
use helio_report::{Resource, Row};
use serde_json::json;
use tokio::sync::Mutex;

use crate::access::Verdict;
use crate::fields::Fields;
use crate::reply::{Refusal, Reply};
use crate::{App, job_routes, told_routes, train_routes};

/// Time between two looks at a list that somebody follows.
const EVERY: Duration = Duration::from_millis(200);
/// Time between two looks, as a multiple of the time that the one before, and the answers after it, took.
const SHARE: u32 = 200;
/// The time that one row takes which is made to see whether it has changed.
const FOR_EACH: Duration = Duration::from_micros(5);
/// A round of questions about calls that is not older is new: another one comes soon.
const ROUND: Duration = Duration::from_millis(400);
/// A page that has gone away is noticed when something is sent.
const ALIVE_EVERY: Duration = Duration::from_secs(15);
/// The time that one byte takes of what drivers tell of their runs, which is read to see whether it has changed.
const FOR_EACH_BYTE: Duration = Duration::from_nanos(5);
/// The use of nodes, which changes with each call, is said no more often.
const USE_EVERY: Duration = Duration::from_secs(1);
/// The columns that change without news, by being told.
const VOLATILE: [&str; 2] = ["end_time_ms", "time"];

/// A list that somebody follows: of the state API, or of what drivers tell of their runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Followed {
    List(Resource),
    /// The name, and where drivers tell.
    Runs(&'static str, &'static str),
}

const RUNS: [Followed; 4] = [
    Followed::Runs("training", train_routes::TOLD),
    Followed::Runs("tuning", told_routes::TUNING),
    Followed::Runs("datasets", told_routes::DATASETS),
    Followed::Runs("serving", told_routes::SERVING),
];

impl Followed {
    fn all() -> impl Iterator<Item = Self> {
        Resource::ALL.into_iter().map(Self::List).chain(RUNS)
    }

    fn name(self) -> String {
        match self {
            Self::List(of) => of.name().replace('-', "_"),
            Self::Runs(name, _) => name.to_owned(),
        }
    }

    fn named(name: &str) -> Option<Self> {
        let of_runs = RUNS.into_iter().find(|one| one.name() == name);
        of_runs.or_else(|| Resource::named(name).map(Self::List))
    }
}

/// The last reading of a list.
#[derive(Debug, Default)]
struct Seen {
    /// The time of the next look; `None`: at once.
    next: Option<Instant>,
    print: u64,
    /// The control service's count of changes before the last reading, and the time of that; `None`: it is not known.
    count: Option<u64>,
    read_at: Option<Instant>,
    /// The print of what is used, and the time of the last look at it.
    use_print: u64,
    use_at: Option<Instant>,
    /// Number of changes that were seen.
    version: u64,
}

impl Seen {
    /// Whether another reading would find the same. Nodes tell of themselves what the control service does not count.
    fn is_current(&self, of: Followed, count: Option<u64>, now: Instant) -> bool {
        let is_old = of == Followed::List(Resource::Nodes)
            && self.read_at.is_none_or(|at| now >= at + USE_EVERY);
        count.is_some() && count == self.count && !is_old
    }

    /// Notes what a list has now, and what is used.
    fn note(&mut self, print: u64, use_print: u64, now: Instant) {
        let is_other = print != self.print;
        let is_due = self.use_at.is_none_or(|at| now >= at + USE_EVERY);
        if is_other || (use_print != self.use_print && is_due) {
            (self.print, self.use_print, self.use_at) = (print, use_print, Some(now));
            self.version += 1;
        }
    }
}

/// The lists that pages follow, and the cost of following them.
#[derive(Debug)]
pub(crate) struct Changes {
    of: BTreeMap<String, Mutex<Seen>>,
    followers: AtomicU32,
    /// The control service's count of changes, and when it was asked for.
    count: Mutex<Option<(Instant, Option<u64>)>>,
    /// Microseconds in which answers for pages were made.
    spent_us: AtomicU64,
}

impl Changes {
    pub(crate) fn new() -> Self {
        Self {
            of: Followed::all().map(|one| (one.name(), Mutex::default())).collect(),
            followers: AtomicU32::new(0),
            count: Mutex::default(),
            spent_us: AtomicU64::new(0),
        }
    }

    /// The control service's count of changes, as it was at this time or a little later.
    async fn count(&self, app: &App, at: Instant) -> Option<u64> {
        let mut told = self.count.lock().await;
        if let Some((_, count)) = told.filter(|(asked, _)| *asked >= at) {
            return count;
        }
        let asked = Instant::now();
        let count = app.asker.changes().await;
        *told = Some((asked, count));
        count
    }

    /// Makes an answer, and counts the CPU's time.
    pub(crate) fn counted<T>(&self, make: impl FnOnce() -> T) -> T {
        let began = helio_env::clock::of_thread();
        let made = make();
        let took = helio_env::clock::of_thread().saturating_sub(began);
        self.spent_us.fetch_add(took.as_micros() as u64, Ordering::Relaxed);
        made
    }
}

/// Returns the number of changes of a list, as far as it was looked at. `asked` is the time at which the page's lists were
/// begun to be looked at.
async fn version(
    app: &App,
    of: Followed,
    verdict: Verdict,
    asked: Instant,
) -> Result<u64, Refusal> {
    let mut seen = app.changes.of[&of.name()].lock().await;
    let began = Instant::now();
    if seen.next.is_some_and(|next| next > began) {
        return Ok(seen.version);
    }
    let count = match of {
        // Processes tell of these, or a reading is a number.
        Followed::List(
            Resource::Tasks
            | Resource::Objects
            | Resource::Workers
            | Resource::Envs
            | Resource::Events,
        ) => None,
        Followed::List(Resource::Actors | Resource::Nodes | Resource::Groups | Resource::Jobs)
        | Followed::Runs(..) => app.changes.count(app, asked).await,
    };
    if seen.is_current(of, count, began) {
        seen.next = Some(began + EVERY / 2);
        return Ok(seen.version);
    }
    let (print, use_print, takes) = match of {
        Followed::List(Resource::Tasks) => {
            let told = app.answers.calls(app, Some(ROUND)).await?;
            let version = told.calls.as_ref().map_or(0, |calls| read(calls).version());
            (print(&(version, told.silent)), 0, Duration::ZERO)
        }
        // Of nodes pages show more than the list has.
        Followed::List(Resource::Nodes) => {
            let told = app.answers.nodes(app).await?;
            let whole =
                |node: &NodeInfo| NodeInfo { version: 0, pending: Vec::new(), ..node.clone() };
            let lasting = |node: &NodeInfo| NodeInfo {
                available: Default::default(),
                object_store_used: 0,
                workers: 0,
                gpus: Vec::new(),
                is_idle: false,
                ..whole(node)
            };
            let encoded = |of: &dyn Fn(&NodeInfo) -> NodeInfo| {
                told.nodes.iter().map(|node| helio_proto::encode(&of(node))).collect::<Vec<_>>()
            };
            let pending = told.pending.iter().chain(told.nodes.iter().flat_map(|one| &one.pending));
            let waiting = pending.map(|one| (one.count, one.why.as_str())).collect::<Vec<_>>();
            let lasting = print(&(encoded(&lasting), waiting));
            (lasting, print(&encoded(&whole)), FOR_EACH * told.nodes.len() as u32)
        }
        Followed::List(Resource::Jobs) => {
            let rows = job_routes::details(app, verdict).await?;
            let takes = FOR_EACH * rows.len() as u32;
            (print(&json!(rows).to_string()), 0, takes)
        }
        Followed::List(other) => {
            let told = app.answers.rows(app, other).await?;
            (print_rows(&told.rows), 0, FOR_EACH * told.rows.len() as u32)
        }
        Followed::Runs(_, namespace) => {
            let entries = KvEntries { namespace: namespace.to_owned(), ..KvEntries::default() };
            let pairs = app.asker.entries(entries).await.map_err(Refusal::unavailable)?;
            let bytes: usize = pairs.iter().map(|pair| pair.value.len()).sum();
            let pairs = pairs.iter().map(|pair| (&pair.key, &pair.value)).collect::<Vec<_>>();
            (print(&pairs), 0, FOR_EACH_BYTE * bytes as u32)
        }
    };
    (seen.count, seen.read_at) = (count, Some(began));
    seen.note(print, use_print, began);
    // A little less, so that who looks each time sees something new each time.
    seen.next = Some(began + (EVERY / 2).max(takes * SHARE));
    Ok(seen.version)
}

fn print(of: &impl std::hash::Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

fn print_rows(rows: &[Row]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for row in rows {
        for (column, value) in row.iter().filter(|(column, _)| !VOLATILE.contains(&&***column)) {
            column.hash(&mut hasher);
            value.to_string().hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// A page that follows some lists.
struct Follower {
    app: Arc<App>,
    verdict: Verdict,
    /// The lists, each with the number of its changes that the page was told last; none: it was told nothing yet.
    of: Vec<(Followed, Option<u64>)>,
    /// The rounds of questions about calls, for a page that shows some.
    calls: Option<Following>,
    said: Instant,
    /// The cost of all answers when the last event was sent.
    spent_us: u64,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.app.changes.followers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Follower {
    /// The next event.
    async fn next(&mut self) -> Bytes {
        let changes = &self.app.changes;
        let mut is_first = self.of.iter().all(|(_, version)| version.is_none());
        loop {
            if !is_first {
                match &mut self.calls {
                    Some(calls) => {
                        let _ = tokio::time::timeout(2 * EVERY, calls.round()).await;
                    }
                    None => tokio::time::sleep(EVERY).await,
                }
                // The answers that the page has asked for since the last event count.
                let spent = changes.spent_us.load(Ordering::Relaxed).saturating_sub(self.spent_us);
                let among = changes.followers.load(Ordering::Relaxed).max(1);
                let rest = Duration::from_micros(spent) / among * SHARE;
                tokio::time::sleep_until((self.said + rest).into()).await;
            }
            let mut news = Vec::new();
            let asked = Instant::now();
            for (of, said) in &mut self.of {
                // A list that cannot be read is left out here: the page gets the error when it asks for the list.
                let Ok(now) = version(&self.app, *of, self.verdict, asked).await else { continue };
                if *said != Some(now) {
                    *said = Some(now);
                    news.push(of.name());
                }
            }
            if !news.is_empty() || is_first || self.said.elapsed() >= ALIVE_EVERY {
                self.said = Instant::now();
                self.spent_us = changes.spent_us.load(Ordering::Relaxed);
                return match news.is_empty() && !is_first {
                    true => Bytes::from_static(b":\n\n"),
                    false => format!("data: {}\n\n", json!(news)).into(),
                };
            }
            is_first = false;
        }
    }
}

/// `GET /api/v0/changes?of=tasks,actors`: an event for each change of one of these lists, `data` is a list of the names
/// of those that have changed; the first one has all of them.
pub(crate) async fn changes(
    State(app): State<Arc<App>>,
    Extension(verdict): Extension<Verdict>,
    RawQuery(query): RawQuery,
) -> Result<Reply, Refusal> {
    let fields = Fields::parse(&query.unwrap_or_default());
    let named = |name: &str| {
        let known: Vec<String> = Followed::all().map(Followed::name).collect();
        let text = format!("There is no list {name:?} to follow, only {}.", known.join(", "));
        Followed::named(name).map(|one| (one, None)).ok_or_else(|| Refusal::bad(text))
    };
    let of = fields.get("of").ok_or_else(|| {
        Refusal::bad("`of` must name lists whose changes are wanted: `of=tasks,actors`.")
    })?;
    let mut of = of.split(',').map(named).collect::<Result<Vec<_>, _>>()?;
    of.sort_by_key(|(one, _)| one.name());
    of.dedup();
    app.changes.followers.fetch_add(1, Ordering::Relaxed);
    let has_calls = of.iter().any(|(one, _)| *one == Followed::List(Resource::Tasks));
    let calls = (has_calls && app.asker.past().is_none()).then(|| app.mirror.follow());
    let follower = Follower { app, verdict, of, calls, said: Instant::now(), spent_us: 0 };
    let events = stream::unfold(follower, |mut follower| async move {
        let event = follower.next().await;
        Some((Ok::<_, std::convert::Infallible>(event), follower))
    });
    let mut reply = Response::new(Body::from_stream(events));
    let kind = HeaderValue::from_static("text/event-stream");
    reply.headers_mut().insert(header::CONTENT_TYPE, kind);
    // A proxy that gathers answers would keep them.
    reply.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_again_when_something_was_counted_and_nodes_once_a_second() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let seen = Seen { count: Some(7), read_at: Some(begun), ..Seen::default() };
        let (actors, nodes) = (Followed::List(Resource::Actors), Followed::List(Resource::Nodes));
        assert!(seen.is_current(actors, Some(7), at(5_000)));
        assert!(!seen.is_current(actors, Some(8), at(1)));
        assert!(
            seen.is_current(nodes, Some(7), at(900)) && !seen.is_current(nodes, Some(7), at(1_000))
        );
        // The head is of a release that does not count, or does not answer.
        assert!(!Seen::default().is_current(actors, None, at(1)));
    }

    #[test]
    fn how_much_is_used_is_said_once_a_second_and_everything_else_at_once() {
        let mut seen = Seen::default();
        let begun = Instant::now();
        let mut at = |ms: u64, print, use_print| {
            seen.note(print, use_print, begun + Duration::from_millis(ms));
            seen.version
        };
        assert_eq!(at(0, 1, 1), 1);
        assert_eq!(at(200, 1, 2), 1);
        assert_eq!(at(400, 2, 3), 2, "a node has come");
        assert_eq!(at(1_200, 2, 4), 2);
        assert_eq!(at(1_400, 2, 5), 3);
        assert_eq!(at(2_400, 2, 5), 3, "nothing is other");
    }
}
