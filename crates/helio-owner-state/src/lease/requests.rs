//! The requests for workers that are under way: how many there are, for which calls, and what was said of them.

use helio_proto::control::StrategyKind;
use helio_proto::node::LeaseClass;
use helio_types::{NodeAddress, NodeId, mutant};

use super::Class;
use super::choice::PATIENCE_US;
use crate::Owner;
use crate::event::Action;

/// How many requests of one class are under way at most for calls that may run anywhere, and for those that
/// are best run on one node each.
pub(super) const REQUESTS_MAX: usize = 16;

/// The purpose of a requested worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Goal {
    /// The calls that may run anywhere.
    Any,
    /// The calls that are best run on this node.
    Near(NodeId),
    /// Calls that go round the nodes: it is to be on a node on which there is none yet.
    Another,
}

/// A request that was not granted yet.
#[derive(Debug)]
pub(super) struct Asked {
    /// Where it was sent; `None`: to this node's daemon.
    pub(super) at: Option<NodeAddress>,
    pub(super) goal: Goal,
    /// No node has room that would do, its daemon said; it will be granted when one has.
    pub(super) is_full: bool,
}

impl Goal {
    /// The calls that it is for, as in [`super::line::Line::len_of`].
    fn line(self) -> Option<NodeId> {
        match self {
            Self::Near(node) => Some(node),
            Self::Any | Self::Another => None,
        }
    }
}

/// Whether calls of the class are best run where their arguments are.
pub(super) fn follows_arguments(class: &LeaseClass) -> bool {
    class.strategy.kind == StrategyKind::Default && class.strategy.labels.is_empty()
}

impl Class {
    /// How many requests are to be under way for calls of that line.
    fn wanted(&self, line: Option<NodeId>) -> usize {
        self.queue.len_of(line).min(REQUESTS_MAX)
    }

    /// How many requests with that goal are under way.
    fn asked(&self, goal: Goal) -> usize {
        self.requests.values().filter(|asked| asked.goal == goal).count()
    }

    /// Whether one more call for that node (`None`: for any) makes one more request.
    pub(super) fn lacks_requests(&self, near: Option<NodeId>) -> bool {
        self.asked(near.map_or(Goal::Any, Goal::Near)) < self.wanted(near)
    }

    /// Requests that may still bring a worker at once: nobody has said yet that there is no room.
    pub(super) fn open_requests(&self) -> usize {
        self.requests.values().filter(|asked| !asked.is_full).count()
    }

    /// Whether a worker comes from another node as soon as one has room.
    pub(super) fn knows_no_room(&self) -> bool {
        self.requests.values().any(|asked| asked.is_full)
    }
}

impl Owner {
    /// The daemon of a request says that there is no room now.
    pub(crate) fn lease_pending(&mut self, request: u64) {
        let Some(index) = self.leases.class_of_request(request) else { return };
        let class = &mut self.leases.classes[index];
        let Some(first) = class.requests.get(&request) else { return };
        let (at, goal) = (first.at.as_ref().map(|at| at.node_id), first.goal);
        // The other requests with that goal at that node wait as well.
        for asked in class.requests.values_mut() {
            if asked.goal == goal && asked.at.as_ref().map(|at| at.node_id) == at {
                asked.is_full = true;
            }
        }
        if let Goal::Near(node) = goal {
            class.queue.on_full(node, self.ctx.now() + PATIENCE_US);
        }
        self.pump(index);
    }

    /// Withdraws the requests whose calls are gone.
    pub(super) fn cancel_useless(&mut self, index: usize) {
        let class = &self.leases.classes[index];
        let (queue, has_leases) = (&class.queue, !class.leases.is_empty());
        let useless = |asked: &Asked| {
            // One for another node tells when there is room, as long as there is a worker without it.
            let tells = asked.goal == Goal::Another && asked.is_full && has_leases;
            !tells && queue.len_of(asked.goal.line()) == 0
        };
        let gone: Vec<u64> = class
            .requests
            .iter()
            .filter(|(_, asked)| useless(asked))
            .map(|(request, _)| *request)
            .collect();
        self.withdraw(index, gone);
    }

    /// A node has no worker of the class any more: what was asked of the others is not the whole truth now.
    pub(super) fn ask_anew_for_others(&mut self, index: usize) {
        let requests = self.leases.classes[index].requests.iter();
        let others = requests.filter(|(_, asked)| asked.goal == Goal::Another);
        let others = others.map(|(request, _)| *request).collect();
        self.withdraw(index, others);
    }

    fn withdraw(&mut self, index: usize, requests: Vec<u64>) {
        for request in requests {
            if let Some(asked) = self.leases.classes[index].requests.remove(&request)
                && !mutant!("request-withdrawn-in-silence")
            {
                self.ctx.push(Action::CancelLease { node: asked.at, request });
            }
        }
    }

    /// Asks for workers for the calls that are left.
    pub(super) fn ask(&mut self, index: usize) {
        let lacks_any = |class: &Class| class.lacks_requests(None) && class.may_ask_any();
        while lacks_any(&self.leases.classes[index]) {
            self.request(index, Goal::Any, None);
        }
        let own = self.ctx.me().node_id;
        let nodes: Vec<NodeAddress> = self.leases.classes[index].queue.nodes().cloned().collect();
        for node in nodes {
            let goal = Goal::Near(node.node_id);
            while self.leases.classes[index].lacks_requests(Some(node.node_id)) {
                let at = (node.node_id != own).then(|| node.clone());
                self.request(index, goal, at);
            }
        }
    }

    /// Asks a daemon for a worker.
    pub(super) fn request(&mut self, index: usize, goal: Goal, at: Option<NodeAddress>) {
        let class = &self.leases.classes[index];
        let (line, asked) = (goal.line(), class.asked(goal));
        let first = class.queue.nth(line, asked).or_else(|| class.queue.nth(line, 0));
        let first = first.and_then(|task| self.tasks.get(&task));
        let is_retriable = first.is_some_and(|task| task.retries_left != 0);
        let touched = match goal {
            Goal::Another => self.leases.nodes_of(index),
            // To the policy "spread" they would be nodes to pass over.
            _ if at.is_some() || class.class.strategy.kind == StrategyKind::Spread => Vec::new(),
            _ => first.map(|task| self.locality(&task.spec)).unwrap_or_default(),
        };
        self.leases.next_request += 1;
        let request = self.leases.next_request;
        let class = &mut self.leases.classes[index];
        // Behind one that waits there it waits, too.
        let is_there = |other: &Asked| other.goal == goal && other.at == at;
        let is_full = class.requests.values().any(|other| is_there(other) && other.is_full);
        class.requests.insert(request, Asked { at: at.clone(), goal, is_full });
        self.ctx.push(Action::RequestLease {
            node: at,
            request,
            class: class.class.clone(),
            backlog: class.queue.len() as u64,
            touched,
            is_retriable,
        });
    }
}
