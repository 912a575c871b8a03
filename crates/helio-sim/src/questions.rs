//! Questions to a daemon whether a process lives: who has seen the end of a process says so.

use std::collections::{BTreeMap, BTreeSet};

use helio_types::WorkerId;

use crate::core::Core;

/// The questions to one daemon, by the judge's own account.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    /// The process that each is about, by connection and number.
    open: BTreeMap<(u64, u64), WorkerId>,
    /// Workers of this node whose process has ended, and whose last words are read.
    ended: BTreeSet<WorkerId>,
}

impl Questions {
    /// A question whether a worker lives, under way on a link.
    pub(crate) fn asked(&mut self, link: u64, request: u64, worker: WorkerId) {
        self.open.insert((link, request), worker);
    }

    /// The daemon has seen the end of a worker.
    pub(crate) fn ended(&mut self, worker: WorkerId) {
        self.ended.insert(worker);
    }

    /// The daemon answers.
    pub(crate) fn answered(&mut self, core: &mut Core, link: u64, request: u64, is_dead: bool) {
        let Some(worker) = self.open.remove(&(link, request)) else { return };
        core.facts.count(if is_dead {
            "ends that were asked after"
        } else {
            "lives that were asked after"
        });
        if !is_dead && self.ended.contains(&worker) {
            core.violation(format!(
                "who asks after the process {worker} is not told that it is gone, and its daemon knows it"
            ));
        }
    }
}
