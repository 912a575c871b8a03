//! Questions whether a process is alive: the facts that answer them.

use helio_proto::node::Liveness;
use helio_types::{DeathCause, WorkerId};

use super::Node;
use crate::event::Conn;
use crate::exits::{self, End};
use crate::liveness::{Life, Requester};

impl Node {
    pub(super) fn on_liveness_question(&mut self, conn: Conn, question: &Liveness) {
        let Liveness { request_id, worker } = question;
        if worker.node_id == self.ctx.node_id() {
            return self.on_local_liveness(Requester::Client(conn, *request_id), worker.worker_id);
        }
        let to = self.cluster.address(worker.node_id);
        let to = to.filter(|(_, is_alive)| *is_alive).map(|(address, _)| address);
        self.liveness.on_question_elsewhere(conn, *request_id, worker, to, &mut self.ctx);
    }

    pub(super) fn on_local_liveness(&mut self, requester: Requester, worker_id: WorkerId) {
        let life = if self.clients.local(worker_id).is_some() || self.pool.is_alive(worker_id) {
            Life::Runs
        } else if self.pool.contains(worker_id) {
            Life::Ends
        } else {
            Life::Over
        };
        self.liveness.on_question(requester, worker_id, life, &self.exits, &mut self.ctx);
    }

    /// A process has ended: questions about it can be answered.
    pub(super) fn remember_exit(
        &mut self,
        worker_id: WorkerId,
        cause: DeathCause,
        is_driver: bool,
        life: exits::Life,
    ) {
        self.exits.add(worker_id, End { cause, is_driver, life, at: self.ctx.now() });
        self.liveness.answer(&self.exits, &mut self.ctx);
        self.on_owner_dead(worker_id);
    }
}
