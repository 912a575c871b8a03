//! Questions to the processes of this node and to other nodes, put together into one answer.
//!
//! Nothing but [`LastWords`] is kept here between questions: a process makes its rows when it is asked.
//! A process that does not answer in time counts as silent, and the answer goes out without it.
//! **LIMIT-1** [`INSPECTIONS_MAX`] questions are open at a time; more are answered at once, without
//! asking anybody.

use std::collections::{BTreeMap, BTreeSet};

use helio_proto::cluster::NodeToNode;
use helio_proto::inspect::{Answer, Answered, Asked, Inspected, Question, Topic};
use helio_proto::raw::Raw;
use helio_types::{NodeAddress, NodeId};

use crate::context::Context;
use crate::event::{Action, Conn};
use crate::last_words::LastWords;
use crate::limits::INSPECTIONS_MAX;
use crate::timers::Timer;

/// The connection that asked, and the number of the question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Requester {
    Client(Conn, u64),
    Peer(Conn, u64),
    /// The shell, for a reader of the node's measurements.
    Shell(u64),
}

/// A question, and whom it goes to.
#[derive(Debug)]
pub(crate) struct Inquiry<'a> {
    pub(crate) requester: Requester,
    pub(crate) question: &'a Question,
    /// The answer of the daemon itself.
    pub(crate) own: Answer,
    /// The clients to ask.
    pub(crate) clients: BTreeSet<Conn>,
    /// The daemons to ask.
    pub(crate) nodes: Vec<NodeAddress>,
    /// Milliseconds that the answers may take.
    pub(crate) wait_ms: u64,
}

#[derive(Debug)]
struct Inspection {
    requester: Requester,
    /// The asker reads them: a process that runs many calls has many rows.
    answers: Vec<Raw<Answer>>,
    /// Processes that have not answered.
    clients: BTreeSet<Conn>,
    /// Daemons that have not answered.
    nodes: BTreeSet<NodeId>,
    silent: u32,
    until: u64,
    /// The last words of processes that have ended since then belong into the answer.
    last_words_since: Option<u64>,
}

/// The questions that are being answered, and the answers that have come for each.
#[derive(Debug, Default)]
pub(crate) struct Inspections {
    open: BTreeMap<u64, Inspection>,
    count: u64,
    last_words: LastWords,
}

impl Inspections {
    /// Returns the number of open questions.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// A process that is about to end reports its calls.
    pub(crate) fn on_last_words(&mut self, answer: Answer, ctx: &Context) {
        self.last_words.add(answer, ctx.now());
    }

    pub(crate) fn on_inquiry(&mut self, inquiry: Inquiry<'_>, ctx: &mut Context) {
        let Inquiry { requester, question, own, clients, nodes, wait_ms } = inquiry;
        let mut inspection = Inspection {
            requester,
            answers: vec![Raw::of(&own)],
            clients,
            nodes: nodes.iter().map(|node| node.node_id).collect(),
            silent: 0,
            until: ctx.now() + wait_ms,
            last_words_since: (question.topic == Topic::Tasks).then(|| match question.within_ms {
                0 => 0,
                within => ctx.now().saturating_sub(within.into()),
            }),
        };
        // Answered at once, as if one had stayed silent: whoever reads it sees that something is missing.
        if self.open.len() >= INSPECTIONS_MAX {
            inspection.silent = 1;
            return self.end(inspection, ctx);
        }
        self.count += 1;
        let request_id = self.count;
        let asked = Asked { request_id, question: question.clone() };
        for conn in &inspection.clients {
            ctx.send(*conn, asked.clone());
        }
        for to in nodes {
            ctx.ask_node(to, NodeToNode::Asked(asked.clone()));
        }
        ctx.set_timer(inspection.until, Timer::Inspection);
        let before = self.open.insert(request_id, inspection);
        assert!(before.is_none(), "an answer would go to who has not asked");
        self.end_if_complete(request_id, ctx);
    }

    pub(crate) fn on_client_answer(&mut self, conn: Conn, answered: Answered, ctx: &mut Context) {
        let Some(inspection) = self.open.get_mut(&answered.request_id) else { return };
        if inspection.clients.remove(&conn) {
            inspection.answers.push(answered.answer);
            self.end_if_complete(answered.request_id, ctx);
        }
    }

    pub(crate) fn on_peer_answer(&mut self, node_id: NodeId, told: Inspected, ctx: &mut Context) {
        let Some(inspection) = self.open.get_mut(&told.request_id) else { return };
        if inspection.nodes.remove(&node_id) {
            inspection.answers.extend(told.answers);
            inspection.silent += told.silent;
            self.end_if_complete(told.request_id, ctx);
        }
    }

    /// A client is gone: it neither asks nor answers any more.
    pub(crate) fn on_client_gone(&mut self, conn: Conn, ctx: &mut Context) {
        let asked = |open: &Inspection| matches!(open.requester, Requester::Client(of, _) | Requester::Peer(of, _) if of == conn);
        self.open.retain(|_, open| !asked(open));
        let waiting = self.open.iter().filter(|(_, open)| open.clients.contains(&conn));
        for number in waiting.map(|(number, _)| *number).collect::<Vec<_>>() {
            if let Some(open) = self.open.get_mut(&number) {
                open.clients.remove(&conn);
            }
            self.end_if_complete(number, ctx);
        }
    }

    /// A daemon cannot be reached: its answer will not come.
    pub(crate) fn on_node_gone(&mut self, node_id: NodeId, ctx: &mut Context) {
        let waiting = self.open.iter().filter(|(_, open)| open.nodes.contains(&node_id));
        for number in waiting.map(|(number, _)| *number).collect::<Vec<_>>() {
            if let Some(open) = self.open.get_mut(&number) {
                open.nodes.remove(&node_id);
                open.silent += 1;
            }
            self.end_if_complete(number, ctx);
        }
    }

    /// Ends the questions that have been open for their whole time.
    pub(crate) fn on_timer(&mut self, ctx: &mut Context) {
        let late = self.open.iter().filter(|(_, open)| open.until <= ctx.now());
        for number in late.map(|(number, _)| *number).collect::<Vec<_>>() {
            if let Some(mut open) = self.open.remove(&number) {
                open.silent += (open.clients.len() + open.nodes.len()) as u32;
                self.end(open, ctx);
            }
        }
    }

    fn end_if_complete(&mut self, number: u64, ctx: &mut Context) {
        let complete = |open: &Inspection| open.clients.is_empty() && open.nodes.is_empty();
        if self.open.get(&number).is_some_and(complete)
            && let Some(open) = self.open.remove(&number)
        {
            self.end(open, ctx);
        }
    }

    fn end(&self, open: Inspection, ctx: &mut Context) {
        assert!(!open.answers.is_empty(), "the daemon's own answer is missing");
        let Inspection { requester, mut answers, silent, last_words_since, .. } = open;
        if let Some(since) = last_words_since {
            // The rows of ended processes come after those of living ones, should there be more rows than are wanted.
            answers.extend(self.last_words.answers(since).map(|answer| Raw::of(&answer)));
        }
        let told = |request_id| Inspected { request_id, answers, silent };
        match requester {
            Requester::Client(conn, request_id) => ctx.send(conn, told(request_id)),
            Requester::Peer(conn, request_id) => {
                ctx.answer_node(conn, NodeToNode::Inspected(told(request_id)));
            }
            Requester::Shell(number) => {
                let answers = told(number).read().answers;
                ctx.push(Action::Scraped { number, answers });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::Setup;
    use helio_proto::inspect::TaskRow;
    use helio_proto::node::NodeToClient;

    fn inquiry<'a>(question: &'a Question, clients: &[u64]) -> Inquiry<'a> {
        Inquiry {
            requester: Requester::Client(Conn(1), 9),
            question,
            own: Answer { is_daemon: true, ..Answer::default() },
            clients: clients.iter().map(|conn| Conn(*conn)).collect(),
            nodes: Vec::new(),
            wait_ms: 100,
        }
    }

    /// (pids, silent) of the answers that went out.
    fn answers(ctx: &mut Context) -> Vec<(Vec<u32>, u32)> {
        let told = |action| match action {
            Action::Send { message: NodeToClient::Inspected(told), .. } => {
                Some((told.read().answers.iter().map(|answer| answer.pid).collect(), told.silent))
            }
            _ => None,
        };
        ctx.finish().into_iter().filter_map(told).collect()
    }

    fn answered(pid: u32) -> Answered {
        Answered { request_id: 1, answer: Raw::of(&Answer { pid, ..Answer::default() }) }
    }

    #[test]
    fn an_answer_waits_for_all_and_counts_the_silent() {
        let (mut all, mut ctx) = (Inspections::default(), Context::new(Setup::default(), 0));
        all.on_inquiry(inquiry(&Question::default(), &[2, 3, 4]), &mut ctx);
        all.on_client_answer(Conn(2), answered(22), &mut ctx);
        all.on_client_answer(Conn(2), answered(22), &mut ctx);
        all.on_client_gone(Conn(3), &mut ctx);
        assert!(answers(&mut ctx).is_empty());
        ctx.begin(100);
        all.on_timer(&mut ctx);
        assert_eq!(answers(&mut ctx), [(vec![0, 22], 1)]);
        assert_eq!(all.len(), 0);
    }

    #[test]
    fn a_requester_that_is_gone_gets_no_answer() {
        let (mut all, mut ctx) = (Inspections::default(), Context::new(Setup::default(), 0));
        all.on_inquiry(inquiry(&Question::default(), &[2]), &mut ctx);
        all.on_client_gone(Conn(1), &mut ctx);
        all.on_client_answer(Conn(2), answered(22), &mut ctx);
        assert_eq!((answers(&mut ctx), all.len()), (vec![], 0));
    }

    #[test]
    fn one_question_too_many_is_answered_by_the_daemon_alone() {
        let (mut all, mut ctx) = (Inspections::default(), Context::new(Setup::default(), 0));
        for _ in 0..=INSPECTIONS_MAX {
            all.on_inquiry(inquiry(&Question::default(), &[2]), &mut ctx);
        }
        assert_eq!(answers(&mut ctx), [(vec![0], 1)]);
        assert_eq!(all.len(), INSPECTIONS_MAX);
    }

    #[test]
    fn last_words_are_told_to_those_who_ask_for_tasks() {
        let (mut all, mut ctx) = (Inspections::default(), Context::new(Setup::default(), 0));
        let tasks = vec![TaskRow::default()];
        all.on_last_words(Answer { pid: 77, tasks, ..Answer::default() }, &ctx);
        for topic in [Topic::Tasks, Topic::Workers] {
            let question = Question { topic, ..Question::default() };
            all.on_inquiry(inquiry(&question, &[]), &mut ctx);
        }
        assert_eq!(answers(&mut ctx), [(vec![0, 77], 0), (vec![0], 0)]);
    }
}
