//! Rows of the state API, from those who know them.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use helio_config::dashboard::{DRIVERS_NAMESPACE, SUBMISSIONS_NAMESPACE};
use helio_env::clock::unix_ms;
use helio_proto::control::{
    ActorInfo, ControlResponse, CountChanges, KvEntries, KvPair, ListActors, ListJobs, ListNodes,
    Nodes,
};
use helio_proto::group::ListGroups;
use helio_proto::inspect::{Answers, Question, Topic};
use helio_report::calls::{Calls, Found};
use helio_report::summary::More;
use helio_report::{Resource, Row, rows};

use crate::Asker;

/// A table of calls that one may read while another adds to it.
pub type Table = Arc<RwLock<Calls>>;

/// Returns the present rows of a table.
pub fn read(table: &Table) -> RwLockReadGuard<'_, Calls> {
    table.read().unwrap_or_else(PoisonError::into_inner)
}

/// Rows, and the number of those asked that did not answer in time.
#[derive(Debug, Default)]
pub struct Told {
    /// The rows, in the columns of the state API.
    pub rows: Vec<Row>,
    /// Number of processes or nodes that did not answer: their rows are missing.
    pub silent: u32,
    /// Number of rows without the bounds of those who answered.
    pub total: u64,
    /// Counts of calls of which there are no rows.
    pub more: Vec<More>,
    /// Calls that are too many for rows: `rows` is empty then.
    pub calls: Option<Table>,
    /// Sentences about the parts that are missing.
    pub notes: Vec<String>,
}

impl Told {
    /// All rows that there are.
    #[must_use]
    pub fn all(rows: Vec<Row>, silent: u32) -> Self {
        Self { total: rows.len() as u64, rows, silent, ..Self::default() }
    }

    /// The calls of a table.
    #[must_use]
    pub fn of_calls(table: Table, silent: u32, notes: Vec<String>) -> Self {
        let calls = read(&table);
        let more = calls.more();
        let total = calls.len() as u64 + more.iter().map(|one| one.count).sum::<u64>();
        drop(calls);
        Self { total, silent, more, calls: Some(table), notes, ..Self::default() }
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.calls.as_ref().map_or(self.rows.len(), |calls| read(calls).len())
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows for which `wanted` holds where there is a table, the latest `most` of them, and all other rows.
    #[must_use]
    pub fn latest(&self, most: usize, wanted: impl Fn(&Found<'_>) -> bool) -> Cow<'_, [Row]> {
        let Some(calls) = &self.calls else { return Cow::Borrowed(&self.rows) };
        let calls = read(calls);
        let mut found: Vec<Found<'_>> = calls.all().filter(wanted).collect();
        found.sort_unstable_by_key(|one| std::cmp::Reverse((one.times_us().0, one.key)));
        Cow::Owned(found.iter().take(most).map(Found::row).collect())
    }

    /// The rows of the calls that have failed: of a table's the latest `most`, of others all rows.
    #[must_use]
    pub fn failed(&self, most: usize) -> Cow<'_, [Row]> {
        let Some(calls) = &self.calls else { return Cow::Borrowed(&self.rows) };
        Cow::Owned(read(calls).failed(most).iter().map(Found::row).collect())
    }
}

impl Asker {
    /// The rows of a resource.
    ///
    /// # Errors
    /// A sentence for the user: the daemon or the control service does not answer.
    pub async fn rows(&self, resource: Resource) -> Result<Told, String> {
        let known = |rows| Told::all(rows, 0);
        Ok(match resource {
            Resource::Tasks if self.past().is_some() => match self.past() {
                Some(past) => Told::of_calls(past.calls(), 0, past.notes.clone()),
                None => Told::default(),
            },
            Resource::Tasks => {
                let told = self.topic(Topic::Tasks).await?;
                let processes = self.topic(Topic::Workers).await?;
                let actors = self.actors().await?;
                let rows: Vec<Row> =
                    rows::tasks(&told.answers, &processes.answers, &actors).collect();
                let more = rows::more(&told.answers, &actors);
                let total = rows.len() as u64 + more.iter().map(|one| one.count).sum::<u64>();
                Told { total, more, ..Told::all(rows, told.silent) }
            }
            Resource::Objects => {
                let told = self.topic(Topic::Objects).await?;
                let total = told.answers.iter().map(|answer| answer.total).sum();
                let rows = rows::objects(&told.answers).collect();
                Told { total, ..Told::all(rows, told.silent) }
            }
            Resource::Workers => self.workers().await?,
            Resource::Envs => {
                let told = self.topic(Topic::Workers).await?;
                let jobs = self.submissions().await?;
                Told::all(rows::environments(&told.answers, &jobs), told.silent)
            }
            Resource::Events => {
                let workers = self.workers().await?;
                let nodes = rows::nodes(&self.nodes().await?.nodes);
                Told::all(rows::events(&workers.rows, &nodes), workers.silent)
            }
            Resource::Actors => known(rows::actors(&self.actors().await?)),
            Resource::Nodes => known(rows::nodes(&self.nodes().await?.nodes)),
            Resource::Groups => match self.ask(ListGroups {}).await? {
                ControlResponse::Groups(list) => known(rows::groups(&list.groups)),
                _ => return Err(unexpected()),
            },
            Resource::Jobs => known(self.jobs().await?),
        })
    }

    async fn jobs(&self) -> Result<Vec<Row>, String> {
        let drivers = KvEntries { namespace: DRIVERS_NAMESPACE.to_owned(), ..KvEntries::default() };
        let ControlResponse::Jobs(list) = self.ask(ListJobs {}).await? else {
            return Err(unexpected());
        };
        let drivers = self.entries(drivers).await?.into_iter().map(|pair| pair.key);
        let drivers: Vec<Vec<u8>> = drivers.collect();
        Ok(rows::jobs(&list.jobs, &drivers, &self.submissions().await?))
    }

    /// The records of submitted jobs.
    async fn submissions(&self) -> Result<Vec<KvPair>, String> {
        let all = KvEntries { namespace: SUBMISSIONS_NAMESPACE.to_owned(), ..KvEntries::default() };
        self.entries(all).await
    }

    /// Entries of the key-value table.
    ///
    /// # Errors
    /// As [`Asker::ask`].
    pub async fn entries(&self, entries: KvEntries) -> Result<Vec<KvPair>, String> {
        match self.ask(entries).await? {
            ControlResponse::KvPairs(found) => Ok(found.pairs),
            _ => Err(unexpected()),
        }
    }

    /// The nodes, and what waits for one.
    ///
    /// # Errors
    /// As [`Asker::ask`].
    pub async fn nodes(&self) -> Result<Nodes, String> {
        match self.ask(ListNodes {}).await? {
            ControlResponse::Nodes(nodes) => Ok(nodes),
            _ => Err(unexpected()),
        }
    }

    /// The number that grows whenever what the control service lists may have changed; `None`: it cannot be asked, or is
    /// of a release that does not count.
    pub async fn changes(&self) -> Option<u64> {
        match self.ask(CountChanges {}).await {
            Ok(ControlResponse::Changes(told)) => Some(told.count),
            _ => None,
        }
    }

    pub(crate) async fn actors(&self) -> Result<Vec<ActorInfo>, String> {
        match self.ask(ListActors {}).await? {
            ControlResponse::Actors(list) => Ok(list.actors),
            _ => Err(unexpected()),
        }
    }

    async fn workers(&self) -> Result<Told, String> {
        let told = self.topic(Topic::Workers).await?;
        Ok(Told::all(rows::workers(&told.answers, unix_ms()), told.silent))
    }

    async fn topic(&self, topic: Topic) -> Result<Answers, String> {
        self.inspect(Question { topic, ..Question::default() }).await
    }
}

fn unexpected() -> String {
    "the control service gave an unexpected answer".to_owned()
}
