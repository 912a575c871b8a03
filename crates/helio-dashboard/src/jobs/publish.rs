//! The records of submitted jobs in the cluster's key-value table: so every node lists them, not the head's server
//! alone.
//!
//! A change marks its job; one task writes what is marked, the newest record of each. After a restart of the head it
//! first compares all of them: a change may have been cut short. One that has taken the cluster over on another machine
//! takes over what is listed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use helio_config::dashboard::SUBMISSIONS_NAMESPACE;
use helio_env::clock::unix_ms;
use helio_observer::Asker;
use helio_proto::control::{ControlRequest, ControlResponse, KvDel, KvEntries, KvPut};

use super::Jobs;
use super::record::Job;

/// Time for which whoever has changed a job waits until others can see it.
const SEEN_MAX: Duration = Duration::from_secs(2);

/// Time after a failed write until the next try.
const RETRY: Duration = Duration::from_secs(1);

impl Jobs {
    /// Waits until others can see the changes up to now, but not for ever.
    pub(crate) async fn published(&self) {
        let _ = tokio::time::timeout(SEEN_MAX, self.marked.all_done()).await;
    }

    /// Writes changes as they come.
    pub(crate) async fn publish(self: Arc<Self>, asker: Asker, address: String) {
        while let Err(why) = self.compare(&asker, &address).await {
            tracing::warn!(why, "submitted jobs cannot be listed yet");
            tokio::time::sleep(RETRY).await;
        }
        loop {
            let (ids, count) = self.marked.take();
            let mut failed = None;
            for id in ids {
                if let Err(why) = self.write(&asker, &id, &address).await {
                    // Its new mark is a later one: those who wait in `published` wait for one try only.
                    self.marked.add(&id);
                    failed = Some(why);
                }
            }
            self.marked.set_done(count);
            match failed {
                None => self.marked.wait().await,
                Some(why) => {
                    tracing::warn!(why, "what is known of a job cannot be listed yet");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Marks the jobs of which something else is listed.
    async fn compare(&self, asker: &Asker, address: &str) -> Result<(), String> {
        let entries =
            KvEntries { namespace: SUBMISSIONS_NAMESPACE.to_owned(), ..KvEntries::default() };
        let listed: BTreeMap<Vec<u8>, Vec<u8>> =
            asker.entries(entries).await?.into_iter().map(|pair| (pair.key, pair.value)).collect();
        for job in self.all() {
            if listed.get(job.id.as_bytes())
                != Some(&job.published(address).to_string().into_bytes())
            {
                self.marked.add(&job.id);
            }
        }
        if self.is_new {
            let told = listed.values().filter_map(|value| serde_json::from_slice(value).ok());
            for job in told.filter_map(|told| Job::from_details(&told, unix_ms())) {
                self.adopt(job).map_err(|error| error.to_string())?;
            }
        }
        for id in listed.keys().map(|key| String::from_utf8_lossy(key).into_owned()) {
            if self.get(&id).is_none() {
                self.marked.add(&id);
            }
        }
        Ok(())
    }

    async fn write(&self, asker: &Asker, id: &str, address: &str) -> Result<(), String> {
        let (namespace, key) = (SUBMISSIONS_NAMESPACE.to_owned(), id.as_bytes().to_vec());
        let request = match self.get(id) {
            Some(job) => {
                // The log before the record: a head that takes over looks for the log of what is listed as ended.
                if job.status.is_terminal() {
                    let (shelf, ended) = (self.shelf.clone(), id.to_owned());
                    // `copy_log` logs its failures itself.
                    let _ = tokio::task::spawn_blocking(move || shelf.copy_log(&ended)).await;
                }
                let value = job.published(address).to_string().into_bytes();
                ControlRequest::KvPut(KvPut { namespace, key, value, overwrite: true })
            }
            None => ControlRequest::KvDel(KvDel { namespace, key }),
        };
        match asker.ask(request).await? {
            ControlResponse::Failed(failure) => Err(failure.message),
            _ => Ok(()),
        }
    }
}
