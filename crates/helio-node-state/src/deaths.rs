//! Ends of processes: their causes, how long they are remembered, and who asks about them.

use std::collections::{BTreeMap, VecDeque};

use helio_proto::cluster::{AskLiveness, NodeToNode, TellLiveness};
use helio_proto::node::{Liveness, LivenessReply};
use helio_types::cause::signal_name;
use helio_types::{DeathCause, DeathKind, NodeId, WorkerId};

use crate::limits::{DEATHS_MAX, LIVENESS_ASKED_MAX, LIVENESS_MS};
use crate::timers::Timer;
use crate::{Action, Conn, Exit, Node};

/// Who wants to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asker {
    Client(Conn, u64),
    Peer(Conn, u64),
}

#[derive(Debug)]
struct Question {
    asker: Asker,
    worker_id: WorkerId,
    answer_at: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Deaths {
    causes: BTreeMap<WorkerId, DeathCause>,
    order: VecDeque<WorkerId>,
    /// Questions about living processes of this node, held open for a moment.
    open: Vec<Question>,
    /// Questions that another node answers.
    asked: BTreeMap<u64, (NodeId, Conn, u64)>,
    count: u64,
}

impl Deaths {
    /// Those that are remembered, the latest first.
    pub(crate) fn all(&self) -> impl Iterator<Item = (WorkerId, &DeathCause)> {
        self.order.iter().rev().filter_map(|id| Some((*id, self.causes.get(id)?)))
    }

    pub(crate) fn questions_count(&self) -> usize {
        self.open.len() + self.asked.len()
    }
}

/// Why a process ended: what was known before, else what its status says.
pub(crate) fn cause(
    known: Option<DeathCause>,
    pid: u32,
    exit: Exit,
    log_tail: String,
) -> DeathCause {
    if let Some(known) = known {
        let pid = if known.pid == 0 { pid } else { known.pid };
        let log_tail = if known.is_intended() { String::new() } else { log_tail };
        return DeathCause { pid, log_tail, ..known };
    }
    let (kind, code, message) = match exit {
        Exit::Code(code) => (
            DeathKind::Exited,
            code,
            format!("The worker process (pid {pid}) exited with code {code}."),
        ),
        Exit::Signal(signal) => (
            DeathKind::Signaled,
            signal,
            format!(
                "The worker process (pid {pid}) was killed by signal {signal} ({}).",
                signal_name(signal)
            ),
        ),
        Exit::Unknown => (
            DeathKind::Unknown,
            0,
            format!("The worker process (pid {pid}) ended; nobody saw how."),
        ),
    };
    DeathCause { kind, code, pid, message, log_tail, ..DeathCause::default() }
}

impl Node {
    pub(crate) fn deaths_add(&mut self, worker_id: WorkerId, cause: DeathCause) {
        if self.deaths.causes.insert(worker_id, cause).is_none() {
            self.deaths.order.push_back(worker_id);
        }
        if self.deaths.order.len() > DEATHS_MAX
            && let Some(oldest) = self.deaths.order.pop_front()
        {
            self.deaths.causes.remove(&oldest);
        }
        self.answer_liveness();
    }

    pub(crate) fn ask_liveness(&mut self, conn: Conn, question: Liveness) {
        let Liveness { request_id, worker } = question;
        if worker.node_id == self.setup.address.node_id {
            return self.liveness_here(Asker::Client(conn, request_id), worker.worker_id);
        }
        match self.cluster.address(worker.node_id) {
            Some((to, true)) if self.deaths.asked.len() < LIVENESS_ASKED_MAX => {
                self.deaths.count += 1;
                let number = self.deaths.count;
                self.deaths.asked.insert(number, (worker.node_id, conn, request_id));
                let message = NodeToNode::AskLiveness(AskLiveness {
                    request_id: number,
                    worker_id: worker.worker_id,
                });
                self.out.push(Action::Ask { to, message });
            }
            Some((_, true)) => self.reply_liveness(Asker::Client(conn, request_id), None),
            // A node that is dead, or that nobody remembers.
            Some((_, false)) | None => {
                let cause = node_died(worker.node_id, &worker.host);
                self.reply_liveness(Asker::Client(conn, request_id), Some(cause));
            }
        }
    }

    pub(crate) fn peer_asks_liveness(&mut self, conn: Conn, ask: &AskLiveness) {
        self.liveness_here(Asker::Peer(conn, ask.request_id), ask.worker_id);
    }

    pub(crate) fn peer_tells_liveness(&mut self, told: TellLiveness) {
        if let Some((_, conn, request_id)) = self.deaths.asked.remove(&told.request_id) {
            self.reply_liveness(Asker::Client(conn, request_id), told.dead.then_some(told.cause));
        }
    }

    /// A node cannot be reached, or is known to be dead: questions to it get what is known.
    pub(crate) fn liveness_of_lost_node(&mut self, node_id: NodeId, is_dead: bool) {
        let lost: Vec<u64> = self
            .deaths
            .asked
            .iter()
            .filter(|(_, asked)| asked.0 == node_id)
            .map(|(number, _)| *number)
            .collect();
        for number in lost {
            let Some((_, conn, request_id)) = self.deaths.asked.remove(&number) else { continue };
            let asker = Asker::Client(conn, request_id);
            if is_dead {
                self.reply_liveness(asker, Some(node_died(node_id, "")));
            } else {
                // Nobody knows. Who is told so at once asks again at once, until the news come.
                let answer_at = self.now + LIVENESS_MS;
                self.deaths.open.push(Question { asker, worker_id: WorkerId::NIL, answer_at });
                self.timers.set(answer_at, Timer::Liveness);
            }
        }
    }

    fn liveness_here(&mut self, asker: Asker, worker_id: WorkerId) {
        let is_here = self.clients.local(worker_id).is_some() || self.pool.is_alive(worker_id);
        if let Some(cause) = self.deaths.causes.get(&worker_id).cloned() {
            self.reply_liveness(asker, Some(cause));
        } else if is_here && self.deaths.open.len() < LIVENESS_ASKED_MAX {
            let answer_at = self.now + LIVENESS_MS;
            self.deaths.open.push(Question { asker, worker_id, answer_at });
            self.timers.set(answer_at, Timer::Liveness);
        } else if is_here {
            self.reply_liveness(asker, None);
        } else if !self.pool.workers.contains_key(&worker_id) {
            let cause = DeathCause::new(
                DeathKind::Unknown,
                "The process has ended; its node does not remember how.",
            );
            self.reply_liveness(asker, Some(cause));
        } else {
            // Its process has ended and its connection is being read out.
            let answer_at = self.now + LIVENESS_MS;
            self.deaths.open.push(Question { asker, worker_id, answer_at });
            self.timers.set(answer_at, Timer::Liveness);
        }
    }

    /// Answers what can be answered: about the dead, and what has been open for long enough.
    pub(crate) fn answer_liveness(&mut self) {
        for question in std::mem::take(&mut self.deaths.open) {
            let cause = self.deaths.causes.get(&question.worker_id).cloned();
            if cause.is_some() || question.answer_at <= self.now {
                self.reply_liveness(question.asker, cause);
            } else {
                self.deaths.open.push(question);
            }
        }
    }

    fn reply_liveness(&mut self, asker: Asker, cause: Option<DeathCause>) {
        let dead = cause.is_some();
        let cause = cause.unwrap_or_default();
        match asker {
            Asker::Client(conn, request_id) => {
                self.send(conn, LivenessReply { request_id, dead, cause })
            }
            Asker::Peer(conn, request_id) => {
                let message = NodeToNode::TellLiveness(TellLiveness { request_id, dead, cause });
                self.out.push(Action::Answer { conn, message });
            }
        }
    }

    /// A client is gone and wants no answers any more.
    pub(crate) fn forget_questions(&mut self, conn: Conn) {
        self.deaths
            .open
            .retain(|question| !matches!(question.asker, Asker::Client(c, _) if c == conn));
        self.deaths.asked.retain(|_, asked| asked.1 != conn);
    }
}

fn node_died(node_id: NodeId, host: &str) -> DeathCause {
    let at = if host.is_empty() { String::new() } else { format!(" ({host})") };
    DeathCause::new(
        DeathKind::NodeDied,
        format!("The node {node_id}{at} on which it ran has died."),
    )
}
