//! The actions that one event causes, in order, and the time at which the event happens.

use helio_proto::cluster::{ControlToNode, ToClient};
use helio_proto::control::ControlResponse;
use helio_proto::node::{ControlReply, NodeToClient};
use helio_types::{NodeId, WorkerId};

use crate::event::{Action, Change, Note, Requester};

/// Collects the actions of one event.
///
/// **STATE-2** A change that is persisted stands before every send that is pushed after it.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    now_ms: u64,
    actions: Vec<Action>,
    /// Changes on which no send rests: they become durable with the next change, or with the next tick.
    deferred: Vec<Change>,
    /// The cluster was ended.
    is_over: bool,
}

impl Outbox {
    /// The time of the present event, in milliseconds.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Sets the time. Returns the milliseconds since the event before.
    pub(crate) fn set_now(&mut self, now_ms: u64) -> u64 {
        assert!(now_ms >= self.now_ms, "time never goes back");
        now_ms - std::mem::replace(&mut self.now_ms, now_ms)
    }

    pub(crate) fn send(&mut self, node_id: NodeId, message: impl Into<ControlToNode>) {
        self.actions.push(Action::Send { node_id, message: message.into() });
    }

    /// Sends one message to several nodes.
    pub(crate) fn send_to_many(&mut self, to: Vec<NodeId>, message: impl Into<ControlToNode>) {
        if !to.is_empty() {
            self.actions.push(Action::SendToMany { to, message: message.into() });
        }
    }

    pub(crate) fn send_to_client(
        &mut self,
        node_id: NodeId,
        worker_id: WorkerId,
        message: impl Into<NodeToClient>,
    ) {
        self.send(node_id, ToClient { worker_id, message: message.into() });
    }

    pub(crate) fn reply(&mut self, to: Requester, response: impl Into<ControlResponse>) {
        let reply = ControlReply { request_id: to.request_id, response: response.into() };
        self.send_to_client(to.node_id, to.worker_id, reply);
    }

    pub(crate) fn persist(&mut self, change: Change) {
        self.persist_deferred();
        self.actions.push(Action::Persist(change));
    }

    /// For a change on which no send rests: this saves a write to disk.
    pub(crate) fn persist_later(&mut self, change: Change) {
        self.deferred.push(change);
    }

    pub(crate) fn persist_deferred(&mut self) {
        self.actions.extend(self.deferred.drain(..).map(Action::Persist));
    }

    pub(crate) fn disconnect(&mut self, node_id: NodeId) {
        self.actions.push(Action::Disconnect { node_id });
    }

    pub(crate) fn log(&mut self, note: Note) {
        self.actions.push(Action::Log(note));
    }

    pub(crate) fn end(&mut self, reason: &str) {
        assert!(!std::mem::replace(&mut self.is_over, true), "a cluster ends once");
        self.actions.push(Action::End { reason: reason.to_owned() });
    }

    pub(crate) fn take(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }
}
