//! The jobs that have changed since their records were written.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

#[derive(Debug, Default)]
struct Marks {
    ids: BTreeSet<String>,
    /// Number of marks so far.
    count: u64,
}

/// The jobs whose records are to be written.
#[derive(Debug)]
pub(crate) struct Marked {
    marks: Mutex<Marks>,
    woken: Notify,
    /// Number of marks that are done with.
    done: watch::Sender<u64>,
}

impl Default for Marked {
    fn default() -> Self {
        Self { marks: Mutex::default(), woken: Notify::new(), done: watch::Sender::new(0) }
    }
}

impl Marked {
    pub(crate) fn add(&self, id: &str) {
        let mut marks = self.marks();
        marks.ids.insert(id.to_owned());
        marks.count += 1;
        self.woken.notify_one();
    }

    pub(crate) fn take(&self) -> (BTreeSet<String>, u64) {
        let mut marks = self.marks();
        (std::mem::take(&mut marks.ids), marks.count)
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next mark.
    pub(crate) async fn wait(&self) {
        self.woken.notified().await;
    }

    /// Notes the number of marks that are done with.
    pub(crate) fn set_done(&self, count: u64) {
        self.done.send_replace(count);
    }

    /// Waits until the marks up to now are done with.
    pub(crate) async fn all_done(&self) {
        let count = self.marks().count;
        let mut done = self.done.subscribe();
        let _ = done.wait_for(|done| *done >= count).await;
    }
}
