//! The rules for nodes that join, report and die, and the news for the others.

use std::collections::BTreeSet;

use helio_proto::cluster::{Heard, NodeAccepted, Probe, RegisterNode};
use helio_proto::control::NodeInfo;
use helio_types::{DeathCause, DeathKind, NodeId, WorkerId, mutant};

use super::Control;
use crate::durable;
use crate::event::Note;
use crate::verdict::Verdicts;

impl Control {
    /// Whether a node belongs to a session that ended before this one began at the same address.
    fn is_of_another_session(&self, session_name: &str) -> bool {
        let is_known = session_name.is_empty() || session_name == self.session_name;
        !is_known && !mutant!("node-of-another-session-joins")
    }

    fn another_session(&self, session_name: &str) -> String {
        format!(
            "it belongs to the session {session_name}, which has ended: at this address is the session {} now. Start \
             the node again to have it join that one",
            self.session_name
        )
    }

    pub(crate) fn on_register(&mut self, node_id: NodeId, register: RegisterNode) {
        if self.turn_away(node_id, register.sent_ms) {
            return;
        }
        let is_strange = self.is_of_another_session(&register.session_name);
        let refused = match is_strange {
            true => self.another_session(&register.session_name),
            false => self.nodes.refusal(node_id, &register.info),
        };
        let accepted = NodeAccepted {
            refused: refused.clone(),
            session_name: self.session_name.clone(),
            heartbeat_ms: self.health.heartbeat_ms,
            silence_ms: self.health.silence_ms_max,
            // A node of an ended session has nothing to come back to; one that was given up only begins anew.
            may_rejoin: !is_strange && self.nodes.was_declared_dead(node_id),
            sent_ms: register.sent_ms,
            epoch: self.epoch,
        };
        self.out.send(node_id, accepted);
        if !refused.is_empty() {
            self.out.log(Note::NodeRefused { node_id, reason: refused });
            // After the answer, which says why.
            self.out.disconnect(node_id);
            return;
        }
        let RegisterNode { info, actors, clients, clients_known, bundles, .. } = register;
        let (now_ms, first_silence_ms) = (self.now_ms(), self.health.first_silence_ms);
        let (address, has_heard) = (info.address.clone(), info.is_draining);
        let is_new = self.nodes.register(node_id, info, now_ms, first_silence_ms);
        let is_known = self.former.remove(&node_id).is_some_and(|former| former == address);
        // Only where heads take each other's place does the next one have to look for the nodes.
        if self.epoch > 0 && is_new && !is_known {
            self.out.persist(durable::node(&address));
        }
        self.publish_members();
        if is_new {
            let (host, port) = (address.host, address.port);
            self.out.log(Note::NodeJoined { node_id, host, port });
        }
        // The connection may have broken with the order on it.
        if !has_heard && !mutant!("lost-order-to-leave-not-repeated") {
            self.drain_again(node_id);
        }
        if has_heard
            && self.nodes.is_staying(node_id)
            && !mutant!("lost-order-to-stay-not-repeated")
        {
            self.tell_to_stay(node_id);
        }
        // Before the actors, which may live in them.
        self.reconcile_bundles(node_id, &bundles);
        self.reconcile_actors(node_id, &actors);
        if clients_known && !mutant!("clients-that-ended-meanwhile-forgotten") {
            self.reconcile_clients(node_id, &clients);
        }
        // A job that ended while it was away may still have workers there.
        for ended in self.jobs.recently_finished(now_ms) {
            self.out.send(node_id, ended);
        }
        self.follow_ups.has_room = true;
    }

    /// Ends what belonged to clients of the node that ended while it was away.
    fn reconcile_clients(&mut self, node_id: NodeId, clients: &[WorkerId]) {
        let here: BTreeSet<WorkerId> = clients.iter().copied().collect();
        // Their ends were told over the connection that broke, or not at all.
        let drivers = self.jobs.drivers_on(node_id).into_iter();
        for driver in drivers.filter(|driver| !here.contains(driver)) {
            self.driver_gone(driver);
        }
        let cause = "its owner ended while its node had no connection to the control service";
        self.end_owned_on(node_id, |owner| !here.contains(&owner), cause);
    }

    pub(crate) fn on_status(&mut self, node_id: NodeId, info: NodeInfo, sent_ms: u64) {
        self.answer(node_id, sent_ms);
        if self.nodes.report(node_id, info) {
            self.follow_ups.has_room = true;
        }
    }

    pub(crate) fn on_unchanged(&mut self, node_id: NodeId, sent_ms: u64) {
        self.answer(node_id, sent_ms);
        if self.nodes.report_unchanged(node_id) {
            self.follow_ups.has_room = true;
        }
    }

    /// Tells the node that it is heard: a node that is not has to find out why. It counts from when it sent
    /// what is answered, and this service from when that came, so the node is always the first to doubt.
    fn answer(&mut self, node_id: NodeId, sent_ms: u64) {
        let every_ms = self.health.heartbeat_ms / 2;
        if self.nodes.is_answer_due(node_id, self.out.now_ms(), every_ms) {
            self.out.send(node_id, Heard { sent_ms });
        }
    }

    /// For `stood_ms` the control service did not run: the nodes have as long again to be heard.
    pub(crate) fn reset_heartbeats(&mut self, stood_ms: u64) {
        self.nodes.reset_heartbeats(self.out.now_ms());
        // The nodes could not come back in that time, either.
        self.recovering_until_ms = self.recovering_until_ms.map(|until_ms| until_ms + stood_ms);
    }

    /// Declares nodes dead that did not connect again, or whose silence is evidence.
    pub(crate) fn check_nodes(&mut self) {
        let now_ms = self.now_ms();
        for node_id in self.nodes.disconnected_for_long(now_ms) {
            self.node_died(node_id, "its connection broke and it did not come back");
        }
        let patience = self.health.patience();
        let is_calm = self.verdict.is_calm();
        if let Some(sights) = self.nodes.sights(now_ms, patience.suspect_ms(), is_calm) {
            let verdicts = self.verdict.look(now_ms, patience, &sights);
            self.on_verdicts(verdicts);
        }
    }

    fn on_verdicts(&mut self, verdicts: Verdicts) {
        if let Some(in_doubt) = verdicts.doubt {
            self.out.log(Note::HeadInDoubt(in_doubt));
        }
        for (witness, about) in verdicts.questions {
            if let Some(node) = self.nodes.address(about) {
                self.out.send(witness, Probe { node });
            }
        }
        for (node_id, cause) in verdicts.dead {
            self.node_died(node_id, &cause);
        }
    }

    pub(crate) fn node_died(&mut self, node_id: NodeId, cause: &str) {
        let Some(info) = self.nodes.mark_dead(node_id, cause, self.out.now_ms()) else { return };
        self.verdict.forget(node_id);
        self.forget_place(node_id);
        let (host, reason) = (info.address.host.clone(), cause.to_owned());
        self.out.log(Note::NodeGone { node_id, host, reason });
        self.out.disconnect(node_id);
        self.publish_members();
        let sentence =
            format!("the node it ran on, {} ({node_id}), is gone: {cause}", info.address.host);
        self.node_gone(node_id, &DeathCause::new(DeathKind::NodeDied, sentence));
        // Last: what follows from the death still asks for the node's host.
        self.nodes.bound_dead(node_id);
        self.follow_ups.has_room = true;
    }

    /// Forgets where the node is reached: no later head is to look for it.
    pub(crate) fn forget_place(&mut self, node_id: NodeId) {
        self.former.remove(&node_id);
        if self.epoch > 0 {
            self.out.persist(durable::no_node(node_id));
        }
    }

    /// Handles the end of a node, or its absence after a restart of this service.
    pub(crate) fn node_gone(&mut self, node_id: NodeId, cause: &DeathCause) {
        // Owners before processes: what ends with its owner is not made again elsewhere first.
        for driver in self.jobs.drivers_on(node_id) {
            self.driver_gone(driver);
        }
        self.end_owned_on(node_id, |_| true, "its owner's node is gone");
        self.subscriptions.remove_node(node_id);
        self.groups.drop_waiters(|requester| requester.node_id == node_id);
        self.nodes.drop_waiters(|requester| requester.node_id == node_id);
        for asker in self.log_flushes.on_node_gone(node_id) {
            self.tell_flushed(asker);
        }
        self.lose_bundles_on(node_id);
        self.end_processes_on(node_id, cause);
    }

    /// Tells all nodes of joins and deaths, unless these are gathered for a while.
    fn publish_members(&mut self) {
        if self.nodes.is_members_due(self.out.now_ms()) {
            self.publish_views();
        }
    }

    /// Tells the nodes what is new and due.
    pub(crate) fn publish_views(&mut self) {
        let (shared, own) = self.nodes.publish(self.now_ms()).into_parts();
        for (to, view) in shared {
            self.out.send_to_many(to, view);
        }
        for (node_id, view) in own {
            self.out.send(node_id, view);
        }
    }
}
