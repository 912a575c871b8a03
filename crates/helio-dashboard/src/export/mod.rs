//! The export of events: changes of the cluster are posted in Ray's form to the address that a variable names, as
//! KubeRay's collector for its history server expects. The head posts for all nodes.
//!
//! Nothing records for it: each second the rows of the state API are read, and what is new in them is told. Readings
//! take a tenth of the time at most. **LIMIT-1** [`WAITING_MAX`] events wait for a collector that does not answer;
//! then the oldest are dropped, and the log says how many.
//!
//! Reading order: [`Export`], [`diary`] (from rows to events), [`failures`] (a file that the collector takes with the logs).

mod diary;
mod events;
mod failures;

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use helio_config::table::{EVENTS_EXPORT_ADDRESS, EVENTS_EXPORT_TYPES, EVENTS_EXPORT_TYPES_OLD};
use helio_env::{clock, settings};
use helio_observer::Asker;
use helio_observer::collector::{Address, Failure};
use helio_report::Resource;

use self::diary::{Diary, Reading};
use self::events::Event;
use self::failures::Failures;

const EVERY: Duration = Duration::from_secs(1);
/// The pause after a reading is at least this many times as long as the reading took.
const PAUSE: u32 = 9;
const BATCH_MAX: usize = 1_000;
pub(crate) const WAITING_MAX: usize = 100_000;
/// The longest pause before a collector that does not answer is tried again.
const RETRY_MAX: Duration = Duration::from_secs(5);
/// Time that the last events of a head that ends may take.
const LAST_MAX: Duration = Duration::from_millis(1500);

/// The collector of events, and the types that it gets.
#[derive(Debug)]
pub struct Export {
    address: Address,
    types: String,
}

impl Export {
    /// The export that the environment asks for; `None`: there is none.
    ///
    /// # Errors
    /// A sentence for the user: that is not an address to which events can go.
    pub fn from_environment() -> Result<Option<Self>, String> {
        let Some(url) = settings::text(&EVENTS_EXPORT_ADDRESS) else { return Ok(None) };
        let wrong = |error| format!("{}: {error}", EVENTS_EXPORT_ADDRESS.row.name);
        let address = Address::parse(url.trim()).map_err(wrong)?;
        let types = settings::text(&EVENTS_EXPORT_TYPES)
            .or_else(|| settings::text(&EVENTS_EXPORT_TYPES_OLD))
            .unwrap_or_default();
        Ok(Some(Self { address, types }))
    }

    pub(crate) fn begin(
        self,
        asker: Asker,
        session_name: &str,
        node_id: &str,
        session_dir: &Path,
    ) -> Exporter {
        Exporter {
            failures: Failures::in_session(session_dir),
            address: self.address,
            asker,
            diary: Diary::new(session_name, node_id, &self.types),
            waiting: VecDeque::new(),
            dropped: 0,
            is_told: false,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Exporter {
    address: Address,
    asker: Asker,
    diary: Diary,
    failures: Failures,
    waiting: VecDeque<Event>,
    dropped: u64,
    /// The log has said that the collector does not answer.
    is_told: bool,
}

impl Exporter {
    /// Reads and posts for as long as the runtime lives.
    pub(crate) async fn keep(&mut self) {
        let mut rest = EVERY;
        loop {
            let began = Instant::now();
            self.read().await;
            let took = began.elapsed();
            rest = match self.post().await {
                Ok(()) => EVERY,
                Err(error) => {
                    if !std::mem::replace(&mut self.is_told, true) {
                        let to = self.address.url();
                        tracing::warn!(to, error, "events wait: the collector does not take them");
                    }
                    (rest * 2).min(RETRY_MAX)
                }
            };
            tokio::time::sleep(rest.max(took * PAUSE)).await;
        }
    }

    /// Tells what happened since the last reading; the head is about to end.
    pub(crate) async fn end(&mut self) {
        let last = async {
            self.read().await;
            // Events that the collector does not take now are lost with this head.
            let _ = self.post().await;
        };
        let _ = tokio::time::timeout(LAST_MAX, last).await;
    }

    async fn read(&mut self) {
        if let Ok(told) = self.asker.rows(Resource::Events).await {
            self.failures.write(&told.rows);
        }
        let Some(reading) = read(&self.asker).await else { return };
        self.waiting.extend(self.diary.enter(&reading, clock::unix_ms()));
        let over = self.waiting.len().saturating_sub(WAITING_MAX);
        if over > 0 {
            self.waiting.drain(..over);
            self.dropped += over as u64;
            tracing::warn!(
                dropped = self.dropped,
                "events are dropped: too many wait for the collector"
            );
        }
    }

    async fn post(&mut self) -> Result<(), String> {
        while !self.waiting.is_empty() {
            let count = self.waiting.len().min(BATCH_MAX);
            let (front, _) = self.waiting.make_contiguous().split_at(count);
            let body = serde_json::to_vec(front).map_err(|error| error.to_string())?;
            match self.address.post(&body).await {
                Ok(()) => {
                    if std::mem::take(&mut self.is_told) {
                        tracing::info!(to = self.address.url(), "the collector takes events again");
                    }
                }
                // The batch is dropped: the collector would refuse it again.
                Err(Failure::Refused(error)) => {
                    tracing::warn!(count, error, "the collector refuses events");
                }
                Err(Failure::Unanswered(error)) => return Err(error),
            }
            // Only when the collector has them: without an answer they are sent again.
            self.waiting.drain(..count);
        }
        Ok(())
    }
}

/// `None`: the cluster does not answer now.
async fn read(asker: &Asker) -> Option<Reading> {
    let rows = async |resource| asker.rows(resource).await.ok().map(|told| told.rows);
    Some(Reading {
        nodes: rows(Resource::Nodes).await?,
        jobs: rows(Resource::Jobs).await?,
        actors: rows(Resource::Actors).await?,
        tasks: rows(Resource::Tasks).await?,
    })
}
