//! Leases that end because their worker, its node or the connection is gone, and the calls on them.

use helio_proto::peer::Frame;
use helio_types::{DeathCause, DeathKind, LeaseId, NodeId, TaskId, WorkerId, mutant};

use super::{Lease, Leases};
use crate::context::Context;

/// The calls of an ended lease that can have begun.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begun {
    None,
    /// The first call alone: a worker that begins the second has replied to the first.
    First,
    All,
}

impl Lease {
    fn begun(&self) -> Begun {
        match self {
            Lease { is_unreached: true, .. } => Begun::None,
            Lease { lacks_replies: true, .. } => Begun::All,
            _ => Begun::First,
        }
    }
}

/// The cause of the end of calls that ran on a node that is gone.
pub(crate) fn node_lost(node: NodeId) -> DeathCause {
    DeathCause::new(DeathKind::NodeDied, format!("the node that it ran on, {node}, has died"))
}

/// A lease that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The class of its calls.
    pub(crate) class: usize,
    /// The calls of the lease, each with whether it can have begun.
    pub(crate) calls: Vec<(TaskId, bool)>,
}

impl Leases {
    /// The lease with that number of the daemon's, by its request.
    pub(crate) fn find(&self, node: NodeId, lease: LeaseId) -> Option<u64> {
        self.by_lease.get(&(node, lease)).copied()
    }

    pub(crate) fn node_of(&self, request: u64) -> Option<NodeId> {
        self.leases.get(&request).map(|lease| lease.node)
    }

    /// Ends a lease. Which of its calls can have begun follows from how its connection ended, unless `begun`
    /// says so.
    pub(crate) fn end(
        &mut self,
        request: u64,
        begun: Option<Begun>,
        ctx: &mut Context,
    ) -> Option<Ended> {
        let lease = self.leases.remove(&request)?;
        let begun = begun.unwrap_or_else(|| lease.begun());
        self.by_lease.remove(&(lease.node, lease.id));
        let class = &mut self.classes[lease.class];
        class.leases.retain(|other| *other != request);
        class.idle.retain(|other| *other != request);
        self.node_may_lack_leases(lease.class, lease.node, ctx);
        let has_begun = |place: usize| match begun {
            _ if mutant!("begun-call-does-not-count") => false,
            Begun::None => false,
            Begun::First => place == 0,
            Begun::All => true,
        };
        let calls = lease.sent.into_iter().enumerate();
        let calls = calls.map(|(place, task)| (task, has_begun(place))).collect();
        Some(Ended { class: lease.class, calls })
    }

    /// No connection to a process could be made.
    pub(crate) fn on_unreached(&mut self, worker: WorkerId) {
        for lease in self.leases.values_mut() {
            // Calls that went over a connection that broke since may have begun.
            lease.is_unreached |= lease.worker.worker_id == worker && lease.broken.is_none();
        }
    }

    /// The frames that a process had sent before its connection broke are lost: replies may be among them.
    pub(crate) fn on_peer_torn(&mut self, worker: WorkerId) {
        for lease in self.leases.values_mut() {
            lease.lacks_replies |= lease.worker.worker_id == worker;
        }
    }

    /// The connection to a process broke: its leases will be ended by their daemon's word, or by time. Returns those
    /// of which no word is to be expected.
    pub(crate) fn on_link_broken(&mut self, worker: WorkerId, now: u64) -> Vec<u64> {
        let mut over = Vec::new();
        for (request, lease) in &mut self.leases {
            if lease.worker.worker_id == worker {
                lease.broken.get_or_insert(now);
                if lease.is_orphaned {
                    over.push(*request);
                }
            }
        }
        // The table has no order of its own, and equal histories are to give equal actions (STATE-1).
        over.sort_unstable();
        over
    }

    /// Notes that the connection to a daemon that lent workers broke: the daemon is dead, or ends those workers
    /// when it notices. Until then they go on: calls that have not begun are asked back, so that nothing runs
    /// twice, and replies that still come count. Returns the leases that are over at once.
    pub(crate) fn on_daemon_lost(&mut self, node: NodeId, ctx: &mut Context) -> Vec<u64> {
        let mut lost = Vec::new();
        let mut orphans = Vec::new();
        for (request, lease) in self.leases.iter().filter(|(_, lease)| lease.node == node) {
            // Nothing runs there, or nothing can be heard of it any more: no word of it will come.
            let is_over = lease.sent.is_empty() || lease.broken.is_some();
            if is_over { &mut lost } else { &mut orphans }.push(*request);
        }
        lost.sort_unstable();
        orphans.sort_unstable();
        for request in orphans {
            let Some(lease) = self.leases.get_mut(&request) else { continue };
            // As if the worker's own connection were gone: no call goes to it, and its end is not awaited for ever.
            lease.broken = Some(ctx.now());
            lease.is_orphaned = true;
            if lease.sent.len() > 1 {
                lease.stealing = true;
                ctx.send(lease.worker.clone(), Frame::Steal { max: u32::MAX });
            }
        }
        lost
    }

    /// Returns the number of classes of calls that are kept.
    pub(crate) fn class_count(&self) -> usize {
        self.classes.len()
    }

    /// Requests that calls of the class had made of the node are lost, and none of the calls waits for it.
    pub(crate) fn drop_requests(&mut self, index: usize, node: NodeId, now: u64) {
        let class = &mut self.classes[index];
        let asked = class.requests.len();
        class.requests.retain(|_, asked| asked.at.as_ref().is_none_or(|at| at.node_id != node));
        class.queue.on_node_gone(node);
        // The next requests wait a while: they may be sent to the same node until its death is known.
        if class.requests.len() < asked {
            self.pauses.on_loss(index, now);
        }
    }

    /// The leases on a node.
    pub(crate) fn on_node(&self, node: NodeId) -> Vec<u64> {
        let on_it = self.leases.iter().filter(|(_, lease)| lease.node == node);
        let mut on_it: Vec<u64> = on_it.map(|(request, _)| *request).collect();
        on_it.sort_unstable();
        on_it
    }
}
