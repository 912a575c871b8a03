//! Owners on other nodes that have objects here and no connection: whether they live.
//!
//! An object goes with its owner, also a copy of it. Where the owner lives here its end is seen; one of
//! another node is seen by the end of its connection, which may also only be broken, or not be needed any more.
//! So its node is asked, again and again while there are objects of it. **LIMIT-1** There are at most as many as
//! objects.

use std::collections::BTreeMap;

use helio_types::{NodeId, WorkerId, mutant};

use crate::context::Context;
use crate::limits::OWNERS_ASK_MS;
use crate::store::Owner;
use crate::timers::Timer;

/// The owners on other nodes that have objects here and no connection, each with its node.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    /// The node of each owner.
    absent: BTreeMap<WorkerId, NodeId>,
    is_timer_set: bool,
}

impl Owners {
    pub(crate) fn len(&self) -> usize {
        self.absent.len()
    }

    /// Whether the process is such an owner.
    pub(crate) fn contains(&self, worker_id: WorkerId) -> bool {
        self.absent.contains_key(&worker_id)
    }

    /// An owner with objects here has no connection.
    pub(crate) fn add(&mut self, owner: Owner, ctx: &mut Context) {
        self.absent.insert(owner.worker_id, owner.node_id);
        self.set_timer(ctx);
        assert!(
            self.is_timer_set,
            "objects of an owner that nobody asks after would stay for ever"
        );
    }

    /// Returns the owners that may be dead.
    pub(crate) fn all(&self) -> Vec<Owner> {
        let all = self.absent.iter();
        all.map(|(worker_id, node_id)| Owner { worker_id: *worker_id, node_id: *node_id }).collect()
    }

    fn set_timer(&mut self, ctx: &mut Context) {
        if !self.is_timer_set && !self.absent.is_empty() {
            self.is_timer_set = true;
            ctx.set_timer(ctx.now() + OWNERS_ASK_MS, Timer::Owners);
        }
    }

    /// Time has passed: those that are to be asked after, without those that `is_over` says need not be.
    pub(crate) fn on_timer(
        &mut self,
        is_over: impl Fn(Owner) -> bool,
        ctx: &mut Context,
    ) -> Vec<Owner> {
        assert!(self.is_timer_set, "an owner would be asked after more often than it need be");
        self.is_timer_set = false;
        self.absent.retain(|worker_id, node_id| {
            !is_over(Owner { worker_id: *worker_id, node_id: *node_id })
        });
        self.set_timer(ctx);
        // Again each time: an owner that lives today may die later, and nobody else would tell.
        if mutant!("owner-asked-after-once") { Vec::new() } else { self.all() }
    }

    /// An owner is dead.
    pub(crate) fn remove(&mut self, worker_id: WorkerId) {
        self.absent.remove(&worker_id);
    }

    /// A node is dead, and with it its processes.
    pub(crate) fn on_node_died(&mut self, node_id: NodeId) {
        self.absent.retain(|_, home| *home != node_id);
    }
}
