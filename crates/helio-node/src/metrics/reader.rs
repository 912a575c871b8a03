//! Reading all measurements of a node: of its processes, of the machine, and on the head of the cluster.

use std::sync::Arc;

use helio_observer::Asker;
use helio_proto::inspect;
use tokio::sync::oneshot;

use super::cluster;
use super::machine::Watch;
use crate::input::{Input, Inputs};

/// The places that measurements are read from.
#[derive(Clone)]
pub(super) struct Reader {
    pub(super) token: String,
    pub(super) session_name: String,
    pub(super) machine: Arc<Watch>,
    /// On the head: whom to ask about the cluster.
    pub(super) cluster: Option<Asker>,
    pub(super) inputs: Inputs,
}

impl Reader {
    /// Returns the measurements of the node's processes; the daemon's come first and include the machine's usage.
    pub(super) async fn scrape(&self) -> Option<Vec<inspect::Answer>> {
        let (reply, answers) = oneshot::channel();
        self.inputs.send(Input::Scrape { reply }).await.ok()?;
        let mut answers = answers.await.ok()?;
        let watch = Arc::clone(&self.machine);
        // Files of /proc: not on the thread that serves the node.
        let reading = tokio::task::spawn_blocking(move || {
            let measured = watch.measure(&answers);
            if let Some(own) = answers.iter_mut().find(|answer| answer.is_daemon) {
                own.metrics.extend(measured);
            }
            answers
        });
        answers = reading.await.ok()?;
        if let Some(asker) = &self.cluster {
            let measured = cluster::measure(asker).await;
            if let Some(own) = answers.iter_mut().find(|answer| answer.is_daemon) {
                own.metrics.extend(measured);
            }
        }
        Some(answers)
    }
}
