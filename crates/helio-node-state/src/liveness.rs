//! Questions whether a process is alive.
//!
//! The asking process has seen its connection to the other one break, and the news of its death may be a moment
//! behind. So a question about a living process is left open for a while; the answer "not known dead"
//! is given only when nothing came. Questions about processes of other nodes go to their daemons.
//! **LIMIT-1** [`LIVENESS_ASKED_MAX`] questions are open; more are answered "not known dead".

use std::collections::BTreeMap;

use helio_proto::cluster::{AskLiveness, NodeToNode, TellLiveness};
use helio_proto::node::LivenessReply;
use helio_types::{DeathCause, DeathKind, NodeAddress, NodeId, WorkerAddress, WorkerId, mutant};

use crate::context::Context;
use crate::event::Conn;
use crate::exits::{Exits, node_died};
use crate::limits::{LIVENESS_ASKED_MAX, LIVENESS_MS};
use crate::timers::Timer;

/// The connection that asked, and the number of the question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Requester {
    Client(Conn, u64),
    Peer(Conn, u64),
}

/// The stage of the life of a process of this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Life {
    /// The process runs, as far as is known.
    Runs,
    /// The process has ended, and its connection is being read out.
    Ends,
    /// The process is not there.
    Over,
}

/// The origin of a question about a process of another node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asker {
    Client(Conn, u64),
    /// The node itself, which has objects of the process.
    Node(WorkerId),
}

#[derive(Debug)]
struct Question {
    requester: Requester,
    worker_id: WorkerId,
    answer_at: u64,
}

/// The open questions whether a process lives: about this node's, and forwarded to other nodes.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    /// Questions about processes of this node that are held open.
    open: Vec<Question>,
    /// Questions that another node answers: the node, and who asks.
    forwarded: BTreeMap<u64, (NodeId, Asker)>,
    /// The last number that was given to another node.
    count: u64,
}

impl Liveness {
    /// Returns the number of open questions.
    pub(crate) fn len(&self) -> usize {
        self.open.len() + self.forwarded.len()
    }

    /// Answers a question about a process of this node, or holds it open.
    pub(crate) fn on_question(
        &mut self,
        requester: Requester,
        worker_id: WorkerId,
        life: Life,
        exits: &Exits,
        ctx: &mut Context,
    ) {
        if let Some(cause) = exits.get(worker_id) {
            return reply(requester, Some(cause.clone()), ctx);
        }
        match life {
            // **LIMIT-1** That one is told at once what is known, and asks again.
            Life::Runs if self.open.len() >= LIVENESS_ASKED_MAX => reply(requester, None, ctx),
            Life::Runs | Life::Ends => self.hold_open(requester, worker_id, ctx),
            // Its cause is forgotten, but that the process is gone is certain.
            Life::Over => {
                let cause = DeathCause::new(
                    DeathKind::Unknown,
                    "The process has ended; its node does not remember how.",
                );
                reply(requester, Some(cause), ctx);
            }
        }
    }

    /// A client asks about a process of another node; `to` is that node, if it is alive.
    pub(crate) fn on_question_elsewhere(
        &mut self,
        conn: Conn,
        request_id: u64,
        worker: &WorkerAddress,
        to: Option<NodeAddress>,
        ctx: &mut Context,
    ) {
        let requester = Requester::Client(conn, request_id);
        let Some(to) = to else {
            // The node is dead, or so long ago that nobody remembers it.
            return reply(requester, Some(node_died(worker.node_id, &worker.host)), ctx);
        };
        if self.forwarded.len() >= LIVENESS_ASKED_MAX {
            return reply(requester, None, ctx);
        }
        self.forward(to, worker.worker_id, Asker::Client(conn, request_id), ctx);
    }

    /// Asks another node after a process there, of which this one has objects.
    pub(crate) fn ask_after_owner(
        &mut self,
        worker_id: WorkerId,
        to: NodeAddress,
        ctx: &mut Context,
    ) {
        if self.forwarded.len() < LIVENESS_ASKED_MAX {
            self.forward(to, worker_id, Asker::Node(worker_id), ctx);
        }
    }

    fn forward(&mut self, to: NodeAddress, worker_id: WorkerId, asker: Asker, ctx: &mut Context) {
        self.count += 1;
        let before = self.forwarded.insert(self.count, (to.node_id, asker));
        assert!(before.is_none(), "who asked before would never hear whether the process lives");
        let ask = AskLiveness { request_id: self.count, worker_id };
        ctx.ask_node(to, NodeToNode::AskLiveness(ask));
    }

    /// Takes the answer of another node. Returns the owner that is dead, if this node has asked
    /// after it.
    pub(crate) fn on_answer(&mut self, told: TellLiveness, ctx: &mut Context) -> Option<WorkerId> {
        match self.forwarded.remove(&told.request_id)?.1 {
            Asker::Node(worker_id) => told.dead.then_some(worker_id),
            Asker::Client(conn, request_id) => {
                let cause = told.dead.then_some(told.cause);
                reply(Requester::Client(conn, request_id), cause, ctx);
                None
            }
        }
    }

    /// A node cannot be reached, or is known to be dead: questions to it get the answer that is known.
    pub(crate) fn on_node_lost(&mut self, node_id: NodeId, is_dead: bool, ctx: &mut Context) {
        let lost = self.forwarded.iter().filter(|(_, asked)| asked.0 == node_id);
        let lost: Vec<u64> = lost.map(|(number, _)| *number).collect();
        for number in lost {
            let Some((_, asker)) = self.forwarded.remove(&number) else { continue };
            let Asker::Client(conn, request_id) = asker else { continue };
            let requester = Requester::Client(conn, request_id);
            if is_dead {
                reply(requester, Some(node_died(node_id, "")), ctx);
            } else {
                // Nobody knows. A client that is told so at once asks again at once, until the news come.
                self.hold_open(requester, WorkerId::NIL, ctx);
            }
        }
    }

    fn hold_open(&mut self, requester: Requester, worker_id: WorkerId, ctx: &mut Context) {
        let answer_at = ctx.now() + LIVENESS_MS;
        let is_last = self.open.last().is_none_or(|one| one.answer_at <= answer_at);
        assert!(is_last, "a question would be open longer than a later one");
        self.open.push(Question { requester, worker_id, answer_at });
        ctx.set_timer(answer_at, Timer::Liveness);
    }

    /// Processes have ended, or time has passed: answers the questions about the dead, and those that
    /// were open for long enough.
    pub(crate) fn answer(&mut self, exits: &Exits, ctx: &mut Context) {
        for question in std::mem::take(&mut self.open) {
            let cause = exits.get(question.worker_id).cloned();
            let cause = cause.filter(|_| !mutant!("nobody-hears-that-a-process-is-gone"));
            if cause.is_some() || question.answer_at <= ctx.now() {
                reply(question.requester, cause, ctx);
            } else {
                self.open.push(question);
            }
        }
    }

    /// A client is gone and wants no answers any more.
    pub(crate) fn on_client_gone(&mut self, conn: Conn) {
        let is_its =
            |one: &Question| matches!(one.requester, Requester::Client(asker, _) if asker == conn);
        self.open.retain(|question| !is_its(question));
        self.forwarded
            .retain(|_, (_, asker)| !matches!(asker, Asker::Client(one, _) if *one == conn));
    }
}

fn reply(requester: Requester, cause: Option<DeathCause>, ctx: &mut Context) {
    let dead = cause.is_some();
    let cause = cause.unwrap_or_default();
    match requester {
        Requester::Client(conn, request_id) => {
            ctx.send(conn, LivenessReply { request_id, dead, cause })
        }
        Requester::Peer(conn, request_id) => {
            let told = TellLiveness { request_id, dead, cause };
            ctx.answer_node(conn, NodeToNode::TellLiveness(told));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Action;
    use crate::exits::End;
    use crate::setup::Setup;
    use helio_proto::node::NodeToClient;

    const ASKER: Requester = Requester::Client(Conn(1), 5);

    fn replies(ctx: &mut Context) -> Vec<bool> {
        let dead = |action| match action {
            Action::Send { message: NodeToClient::LivenessReply(reply), .. } => Some(reply.dead),
            _ => None,
        };
        ctx.finish().into_iter().filter_map(dead).collect()
    }

    #[test]
    fn a_question_about_a_living_process_waits_for_the_news_of_its_death() {
        let (mut liveness, mut exits) = (Liveness::default(), Exits::default());
        let mut ctx = Context::new(Setup::default(), 0);
        let worker_id = WorkerId([3; 28]);
        liveness.on_question(ASKER, worker_id, Life::Runs, &exits, &mut ctx);
        assert!(replies(&mut ctx).is_empty());
        assert_eq!(ctx.deadline(), Some(LIVENESS_MS));
        let cause = DeathCause::new(DeathKind::Signaled, "It was killed.");
        exits.add(worker_id, End { cause, is_driver: false, life: Default::default(), at: 0 });
        liveness.answer(&exits, &mut ctx);
        assert_eq!(replies(&mut ctx), [true]);
        assert_eq!(liveness.len(), 0);
    }

    #[test]
    fn without_such_news_the_answer_is_not_known_dead() {
        let (mut liveness, exits) = (Liveness::default(), Exits::default());
        let mut ctx = Context::new(Setup::default(), 0);
        liveness.on_question(ASKER, WorkerId([3; 28]), Life::Ends, &exits, &mut ctx);
        ctx.begin(LIVENESS_MS - 1);
        liveness.answer(&exits, &mut ctx);
        assert!(replies(&mut ctx).is_empty());
        ctx.begin(LIVENESS_MS);
        liveness.answer(&exits, &mut ctx);
        assert_eq!(replies(&mut ctx), [false]);
    }

    #[test]
    fn a_process_that_nobody_remembers_is_dead() {
        let (mut liveness, exits) = (Liveness::default(), Exits::default());
        let mut ctx = Context::new(Setup::default(), 0);
        liveness.on_question(ASKER, WorkerId([3; 28]), Life::Over, &exits, &mut ctx);
        assert_eq!(replies(&mut ctx), [true]);
    }

    #[test]
    fn a_lost_node_answers_no_more_and_a_dead_one_is_the_answer() {
        let (mut liveness, exits) = (Liveness::default(), Exits::default());
        let mut ctx = Context::new(Setup::default(), 0);
        let to = NodeAddress { node_id: NodeId([2; 28]), ..NodeAddress::default() };
        let worker = WorkerAddress { node_id: to.node_id, ..WorkerAddress::default() };
        for number in [1, 2] {
            liveness.on_question_elsewhere(Conn(1), number, &worker, Some(to.clone()), &mut ctx);
        }
        let told = TellLiveness { request_id: 1, dead: false, cause: DeathCause::default() };
        liveness.on_answer(told, &mut ctx);
        assert_eq!(replies(&mut ctx), [false]);
        liveness.on_node_lost(to.node_id, false, &mut ctx);
        assert!(replies(&mut ctx).is_empty(), "the question stays open for a while");
        liveness.on_question_elsewhere(Conn(1), 3, &worker, Some(to.clone()), &mut ctx);
        liveness.on_node_lost(to.node_id, true, &mut ctx);
        assert_eq!(replies(&mut ctx), [true]);
        liveness.on_client_gone(Conn(1));
        assert_eq!(liveness.len(), 0);
        liveness.answer(&exits, &mut ctx);
        assert!(replies(&mut ctx).is_empty());
    }
}
