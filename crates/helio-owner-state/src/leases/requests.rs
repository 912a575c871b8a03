//! The requests for workers that are under way: how many there are, for which calls, and what was said of them.

use helio_proto::control::StrategyKind;
use helio_proto::node::LeaseClass;
use helio_types::{NodeAddress, NodeId, mutant};

use super::choice::PATIENCE_US;
use super::env::Env;
use super::goal::{Asked, Goal};
use super::{Class, Leases};
use crate::calls::Task;
use crate::context::Context;
use crate::event::Action;

/// Most open requests of one class: for calls that may run anywhere, and for those of each best node.
pub(super) const REQUESTS_MAX: usize = 16;

/// Whether calls of the class are best run where their arguments are.
pub(super) fn follows_arguments(class: &LeaseClass) -> bool {
    class.strategy.kind == StrategyKind::Default && class.strategy.labels.is_empty()
}

impl Class {
    /// Returns the number of requests that should be open for the calls of that line.
    fn wanted(&self, line: Option<NodeId>) -> usize {
        self.queue.len_of(line).min(REQUESTS_MAX)
    }

    /// Returns the number of open requests with that goal.
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

    /// Whether a request waits because no node has room: then a worker comes as soon as one has.
    pub(super) fn knows_no_room(&self) -> bool {
        self.requests.values().any(|asked| asked.is_full)
    }
}

impl Leases {
    /// The daemon of a request says that there is no room now. Returns the class of calls that may go elsewhere.
    pub(crate) fn on_lease_pending(&mut self, request: u64, now: u64) -> Option<usize> {
        let index = self.class_of_request(request)?;
        let class = &mut self.classes[index];
        let first = class.requests.get(&request)?;
        let (at, goal) = (first.at.as_ref().map(|at| at.node_id), first.goal);
        // The other requests with that goal at that node wait as well.
        for asked in class.requests.values_mut() {
            if asked.goal == goal && asked.at.as_ref().map(|at| at.node_id) == at {
                asked.is_full = true;
            }
        }
        if let Goal::Near(node) = goal {
            class.queue.on_full(node, now + PATIENCE_US);
        }
        Some(index)
    }

    /// Withdraws the requests whose calls are gone.
    pub(super) fn cancel_useless(&mut self, index: usize, ctx: &mut Context) {
        let class = &self.classes[index];
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
        self.withdraw(index, gone, ctx);
    }

    /// Requests workers again for calls that go round the nodes, since a node has no worker of the class any more:
    /// the requests under way named it as having one.
    pub(super) fn ask_anew_for_others(&mut self, index: usize, ctx: &mut Context) {
        let requests = self.classes[index].requests.iter();
        let others = requests.filter(|(_, asked)| asked.goal == Goal::Another);
        let others = others.map(|(request, _)| *request).collect();
        self.withdraw(index, others, ctx);
    }

    fn withdraw(&mut self, index: usize, requests: Vec<u64>, ctx: &mut Context) {
        for request in requests {
            if let Some(asked) = self.classes[index].requests.remove(&request)
                && !mutant!("request-withdrawn-in-silence")
            {
                ctx.push(Action::CancelLease { node: asked.at, request });
            }
        }
    }

    /// Asks for workers for the calls that are left.
    pub(super) fn ask(&mut self, index: usize, env: &mut Env<'_>) {
        let lacks_any = |class: &Class| class.lacks_requests(None) && class.may_ask_any();
        while lacks_any(&self.classes[index]) {
            self.request(index, Goal::Any, None, env);
        }
        let own = env.ctx.node_id();
        let nodes: Vec<NodeAddress> = self.classes[index].queue.nodes().cloned().collect();
        for node in nodes {
            let goal = Goal::Near(node.node_id);
            while self.classes[index].lacks_requests(Some(node.node_id)) {
                let at = (node.node_id != own).then(|| node.clone());
                self.request(index, goal, at, env);
            }
        }
    }

    /// Asks a daemon for a worker.
    pub(super) fn request(
        &mut self,
        index: usize,
        goal: Goal,
        at: Option<NodeAddress>,
        env: &mut Env<'_>,
    ) {
        let class = &self.classes[index];
        let (line, asked) = (goal.line(), class.asked(goal));
        // Each request speaks for a call of its own: the nodes of that one's arguments are named, not of the first
        // one's every time.
        let first = class.queue.nth(line, asked).or_else(|| class.queue.nth(line, 0));
        let first = first.and_then(|task| env.calls.get(task));
        let is_retriable = first.is_some_and(|task| task.retries_left() != 0);
        let touched = match goal {
            Goal::Another => self.nodes_of(index),
            // To the policy "spread" they would be nodes to pass over.
            _ if at.is_some() || class.class.strategy.kind == StrategyKind::Spread => Vec::new(),
            _ => {
                let locality = |task: &Task| env.objects.locality(task.spec(), env.ctx.node_id());
                first.map(locality).unwrap_or_default()
            }
        };
        self.next_request += 1;
        let request = self.next_request;
        let class = &mut self.classes[index];
        // Behind one that waits there it waits, too.
        let is_there = |other: &Asked| other.goal == goal && other.at == at;
        let is_full = class.requests.values().any(|other| is_there(other) && other.is_full);
        class.requests.insert(request, Asked { at: at.clone(), goal, is_full });
        env.ctx.push(Action::RequestLease {
            node: at,
            request,
            class: class.class.clone(),
            backlog: class.queue.len() as u64,
            touched,
            is_retriable,
        });
    }
}
