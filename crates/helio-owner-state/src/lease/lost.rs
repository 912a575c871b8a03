//! Leases that end because their worker, its node or the connection is gone, and the calls on them.

use helio_proto::peer::Frame;
use helio_types::{
    DeathCause, DeathKind, LeaseId, NodeAddress, NodeId, WorkerAddress, WorkerId, mutant,
};

use crate::Owner;
use crate::lease::Lease;

/// The calls of an ended lease that can have begun.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Begun {
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

fn node_lost(node: NodeId) -> DeathCause {
    DeathCause::new(DeathKind::NodeDied, format!("the node that it ran on, {node}, has died"))
}

impl Owner {
    /// The leased worker has ended.
    pub(crate) fn lease_lost(&mut self, node: NodeId, id: LeaseId, cause: &DeathCause) {
        if let Some(request) = self.leases.by_lease.get(&(node, id)).copied() {
            self.drop_lease(request, None, cause);
        }
    }

    /// A lease ends because its node is gone.
    pub(super) fn drop_with_node(&mut self, request: u64) {
        if let Some(node) = self.leases.leases.get(&request).map(|lease| lease.node) {
            self.drop_lease(request, None, &node_lost(node));
        }
    }

    /// Ends a lease. Which of its calls can have begun follows from how its connection ended, unless `begun`
    /// says so.
    pub(super) fn drop_lease(&mut self, request: u64, begun: Option<Begun>, cause: &DeathCause) {
        let Some(lease) = self.leases.leases.remove(&request) else { return };
        let begun = begun.unwrap_or_else(|| lease.begun());
        self.leases.by_lease.remove(&(lease.node, lease.id));
        let class = &mut self.leases.classes[lease.class];
        class.leases.retain(|other| *other != request);
        class.idle.retain(|other| *other != request);
        self.node_may_lack_leases(lease.class, lease.node);
        for (place, task) in lease.sent.into_iter().enumerate() {
            let has_begun = match begun {
                _ if mutant!("begun-call-does-not-count") => false,
                Begun::None => false,
                Begun::First => place == 0,
                Begun::All => true,
            };
            self.worker_lost(task, has_begun, cause);
        }
        self.pump(lease.class);
    }

    /// No connection to a process could be made.
    pub(crate) fn leases_unreached(&mut self, worker: WorkerId) {
        for lease in self.leases.leases.values_mut() {
            // Calls that went over a connection that broke since may have begun.
            lease.is_unreached |= lease.worker.worker_id == worker && lease.broken.is_none();
        }
    }

    /// The frames that a process had sent before its connection broke are lost: replies may be among them.
    pub(crate) fn leases_torn(&mut self, worker: WorkerId) {
        for lease in self.leases.leases.values_mut() {
            lease.lacks_replies |= lease.worker.worker_id == worker;
        }
    }

    /// The connection to a process broke: its leases will be ended by their daemon's word, or by time.
    pub(crate) fn leases_broken(&mut self, worker: &WorkerAddress) {
        let mut over = Vec::new();
        for (request, lease) in &mut self.leases.leases {
            if lease.worker.worker_id == worker.worker_id {
                lease.broken.get_or_insert(self.ctx.now());
                if lease.is_orphaned {
                    over.push(*request);
                }
            }
        }
        over.sort_unstable();
        for request in over {
            self.drop_with_node(request);
        }
    }

    /// A daemon that lent us workers is gone, or only the connection to it is. In that case it will end
    /// those workers, but they go on until then: what they have not begun is asked back, so that nothing
    /// begins here and there, and their replies count as long as they come.
    pub(crate) fn node_lost(&mut self, node: NodeId) {
        let mut lost = Vec::new();
        let mut orphans = Vec::new();
        for (request, lease) in self.leases.leases.iter().filter(|(_, lease)| lease.node == node) {
            let is_over = lease.sent.is_empty() || lease.broken.is_some();
            if is_over { &mut lost } else { &mut orphans }.push(*request);
        }
        lost.sort_unstable();
        orphans.sort_unstable();
        for request in orphans {
            let Some(lease) = self.leases.leases.get_mut(&request) else { continue };
            lease.broken = Some(self.ctx.now());
            lease.is_orphaned = true;
            if lease.sent.len() > 1 {
                lease.stealing = true;
                let frame = Frame::Steal { max: u32::MAX };
                self.ctx.send(lease.worker.clone(), frame);
            }
        }
        for request in lost {
            self.drop_with_node(request);
        }
        for index in 0..self.leases.classes.len() {
            let class = &mut self.leases.classes[index];
            let asked = class.requests.len();
            class.requests.retain(|_, asked| asked.at.as_ref().is_none_or(|at| at.node_id != node));
            class.queue.on_node_gone(node);
            if class.requests.len() < asked {
                self.leases.pauses.on_loss(index, self.ctx.now());
            }
            self.pump(index);
        }
        for id in self.located_on(node) {
            // Perhaps only the connection is gone, and the node's copy is the only one there is.
            if self.can_spare(id) {
                self.location_lost(id, node);
            }
        }
    }

    /// A node was declared dead. Its workers may live on, if only its daemon hangs; what they still reply
    /// does not count.
    pub(crate) fn node_died(&mut self, node: NodeId, heir: Option<NodeAddress>) {
        let is_gone = heir.is_none();
        if let Some(heir) = heir {
            self.moved(node, &heir);
        }
        let on_it = self.leases.leases.iter().filter(|(_, lease)| lease.node == node);
        let mut over: Vec<u64> = on_it.map(|(request, _)| *request).collect();
        over.sort_unstable();
        for request in over {
            // **OWN-1** A worker that lives on may begin each of the calls that it was sent.
            self.drop_lease(request, Some(Begun::All), &node_lost(node));
        }
        for id in self.located_on(node) {
            if self.is_elsewhere(id, node) {
                self.location_lost(id, node);
            }
        }
        self.node_lost(node);
        if is_gone {
            self.forget_strays(node);
        }
    }
}
