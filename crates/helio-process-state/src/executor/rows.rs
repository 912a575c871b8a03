//! Rows of the calls that run here, and of the latest that did, for who asks after their callers have ended.

use std::collections::BTreeMap;

use helio_proto::inspect::{TaskPhase, TaskRow};
use helio_types::{TaskId, WorkerAddress};

use super::Executor;
use super::running::Begun;

impl<P: Clone> Executor<P> {
    /// The calls that were sent here and do not run.
    pub(crate) fn queued(&self) -> impl Iterator<Item = TaskId> {
        self.inbox.queued()
    }

    /// The class of the actor that lives here ("": none does), and how many calls of each name run.
    pub(crate) fn running_calls(&self) -> (&str, BTreeMap<&str, u64>) {
        let mut names = BTreeMap::new();
        for begun in self.inbox.running().iter().filter(|one| one.is_running) {
            if !begun.template.is_unlisted {
                *names.entry(begun.template.name.as_str()).or_default() += 1;
            }
        }
        (&self.identity.class, names)
    }

    /// Rows of the calls that run here, and of the latest that did, the latest first: of those whose caller
    /// is to be spoken for. `wall` makes microseconds since 1970 of the machine's time.
    pub(crate) fn rows(
        &self,
        me: &WorkerAddress,
        speaks_for: impl Fn(&WorkerAddress) -> bool,
        wall: impl Fn(u64) -> u64,
    ) -> Vec<TaskRow> {
        let is_told = |begun: &&Begun| !begun.template.is_unlisted && speaks_for(&begun.caller);
        let row = |begun: &Begun, phase: TaskPhase| TaskRow {
            task_id: begun.task,
            name: begun.template.name.clone(),
            phase,
            actor_id: self.identity.actor,
            node_id: me.node_id,
            worker_id: me.worker_id,
            started_us: wall(begun.at),
            is_hearsay: true,
            maker: begun.caller.worker_id,
            ..TaskRow::default()
        };
        let runs = self.inbox.running().iter().filter(is_told).map(|one| row(one, TaskPhase::Sent));
        let ran = self.recent.latest().filter(|one| is_told(&&one.begun)).map(|one| {
            let phase = if one.failed { TaskPhase::Failed } else { TaskPhase::Finished };
            let raised = if one.failed { "TASK_EXECUTION_EXCEPTION" } else { "" };
            TaskRow {
                ended_us: wall(one.ended),
                error_type: raised.to_owned(),
                ..row(&one.begun, phase)
            }
        });
        runs.chain(ran).collect()
    }
}
