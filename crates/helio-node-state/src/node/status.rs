//! The status that the node reports to the control service.

use helio_config::control::status_gather_ms;
use helio_proto::cluster::{NodeStatus, NodeToControl, RegisterNode, StatusUnchanged};
use helio_proto::control::{NodeInfo, PendingDemand};
use helio_scheduler::taken;
use helio_types::{NodeAddress, Quantity, mutant};

use super::{Node, US_A_MS};

/// The name of the resource that stands for the object store.
const STORE: &str = "object_store_memory";

/// Maximum number of shapes of waiting requests that a node reports.
const SHAPES_MAX: usize = 100;

impl Node {
    /// Returns the first message of the node on a connection to the control service, at `now`.
    pub fn registration(&mut self, now: u64) -> RegisterNode {
        let info = self.info();
        self.reported = Some(info.clone());
        RegisterNode {
            info,
            actors: self.running_actors(),
            bundles: self.held_bundles(),
            clients: self.clients(),
            clients_known: true,
            sent_ms: now,
            session_name: self.ctx.setup().session_name.clone(),
        }
    }

    /// Returns the milliseconds for which changes are gathered before a heartbeat reports them.
    #[must_use]
    pub fn status_gather_ms(&self) -> u64 {
        status_gather_ms(self.cluster.size())
    }

    /// Returns the message that the node sends once a second, at `now` (microseconds): most of the time that nothing has
    /// changed.
    pub fn heartbeat(&mut self, now: u64) -> NodeToControl {
        let (info, sent_ms) = (self.info(), now / US_A_MS);
        if self.reported.as_ref() == Some(&info) {
            return NodeToControl::Unchanged(StatusUnchanged { sent_ms });
        }
        self.reported = Some(info.clone());
        NodeToControl::Status(NodeStatus { info, sent_ms })
    }

    /// A message to the control service was not taken: the next heartbeat says everything.
    pub fn on_heartbeat_unsent(&mut self) {
        self.reported = None;
    }

    /// Returns the status of the node; **WHY-1**: with the requests that wait here, and the reason of each.
    #[must_use]
    pub fn info(&self) -> NodeInfo {
        let mut pending: Vec<PendingDemand> = Vec::new();
        let shapes_max = if mutant!("tasks-are-no-demand") { 0 } else { SHAPES_MAX };
        for (class, count) in self.leases.demand().take(shapes_max) {
            let why = self.why_class(class);
            pending.push(PendingDemand {
                resources: class.resources.clone(),
                count: count as u64,
                why,
                may_spill: true,
                strategy: class.strategy.clone(),
            });
        }
        for spec in self.actors.demand().take(SHAPES_MAX) {
            let need = &spec.placement_resources;
            // The actor was placed here: other nodes are out of the question.
            let why = self.cluster.why_here(&taken(need, &spec.strategy));
            pending.push(PendingDemand {
                resources: need.clone(),
                count: 1,
                why,
                ..PendingDemand::default()
            });
        }
        let mut available = self.ledger.available().clone();
        // Requests do not lend the store; objects use it.
        let unused = self.ctx.setup().store_size.saturating_sub(self.store.used());
        if self.ledger.total().get(STORE).0 > 0 {
            available.set(STORE, Quantity::from_f64(unused as f64));
        }
        NodeInfo {
            address: self.ctx.setup().address.clone(),
            alive: true,
            total: self.ledger.total().clone(),
            available,
            labels: self.ctx.setup().labels.clone(),
            name: self.ctx.setup().name.clone(),
            pid: self.ctx.setup().pid,
            is_head: self.ctx.setup().is_head,
            pending,
            session_dir: self.ctx.setup().session_dir.clone(),
            hostname: self.ctx.setup().hostname.clone(),
            cause: String::new(),
            version: self.version,
            object_store_used: self.store.used(),
            workers: self.pool.len() as u32,
            metrics_port: self.ctx.setup().metrics_port,
            gpus: self.gpus.all().to_vec(),
            is_draining: self.drain.is_ordered(),
            heir: NodeAddress::default(),
            ended_ms: 0,
            instance_id: self.ctx.setup().instance_id.clone(),
            is_idle: self.is_idle(),
            drain_deadline_ms: 0,
            drain_reason: String::new(),
            is_guest: self.ctx.setup().is_guest,
        }
    }

    /// Whether the machine could be given back. Objects do not keep it: a node that is drained hands them over.
    fn is_idle(&self) -> bool {
        self.leases.len() + self.leases.waiting_len() + self.actors.len() == 0
            && self.bundles.held().is_empty()
            && !self.clients.has_driver()
    }
}
