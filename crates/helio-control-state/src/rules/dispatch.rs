//! The door: one event in, the actions that follow from it out.

use helio_config::control::{RECONNECT_MS_MAX, STALL_HEARTBEATS};
use helio_proto::cluster::{NodeToControl, ShutDown};
use helio_proto::control::ControlRequest;
use helio_types::{NodeId, mutant};

use super::Control;
use crate::event::{Action, Event};

/// Whether the event may change what [`helio_proto::control::Changes`] counts.
fn is_change(event: &Event) -> bool {
    match event {
        Event::Node { message, .. } => match message {
            NodeToControl::FromClient(from) => match &from.call.request {
                ControlRequest::CreateActor(_)
                | ControlRequest::KillActor(_)
                | ControlRequest::KvPut(_)
                | ControlRequest::KvDel(_)
                | ControlRequest::StartJob(_)
                | ControlRequest::StopCluster(_)
                | ControlRequest::DrainNode(_)
                | ControlRequest::CreateGroup(_)
                | ControlRequest::RemoveGroup(_) => true,
                ControlRequest::GetNamedActor(_)
                | ControlRequest::ListNamedActors(_)
                | ControlRequest::SubscribeActor(_)
                | ControlRequest::UnsubscribeActor(_)
                | ControlRequest::KvGet(_)
                | ControlRequest::KvKeys(_)
                | ControlRequest::KvEntries(_)
                | ControlRequest::ListNodes(_)
                | ControlRequest::ListActors(_)
                | ControlRequest::ListJobs(_)
                | ControlRequest::CountChanges(_)
                | ControlRequest::AwaitNodes(_)
                | ControlRequest::AwaitGroup(_)
                | ControlRequest::GetGroup(_)
                | ControlRequest::ListGroups(_)
                | ControlRequest::Unknown => false,
            },
            NodeToControl::Status(_)
            | NodeToControl::Unchanged(_)
            | NodeToControl::AskGroup(_)
            | NodeToControl::JobLogs(_)
            | NodeToControl::FlushLogs(_)
            | NodeToControl::LogsFlushed(_)
            | NodeToControl::Probed(_)
            | NodeToControl::Unknown => false,
            NodeToControl::Register(_)
            | NodeToControl::ClientGone(_)
            | NodeToControl::ActorStarted(_)
            | NodeToControl::ActorEnded(_)
            | NodeToControl::BundlesHeld(_)
            | NodeToControl::Preempted(_)
            | NodeToControl::Leaving(_) => true,
        },
        Event::Tick | Event::Link { .. } => false,
        Event::Disconnected { .. } | Event::Disk { .. } | Event::Stop { .. } => true,
    }
}

impl Control {
    /// Takes an event and answers what to do, in order. `now` is in microseconds and never goes back;
    /// limits and intervals of this machine are whole milliseconds.
    #[must_use]
    pub fn apply(&mut self, event: Event, now: u64) -> Vec<Action> {
        let stood_ms = self.out.set_now(now / 1000);
        if stood_ms >= self.health.heartbeat_ms * STALL_HEARTBEATS
            && !mutant!("heads-standstill-taken-for-silence")
        {
            self.reset_heartbeats(stood_ms);
        } else if stood_ms >= RECONNECT_MS_MAX / 2 {
            // While a node is awaited the time is told every [`LOOK_AGAIN_MS`]: the control service did not run,
            // and could not be connected to.
            self.nodes.await_lost_again(now / 1000);
        }
        // The time goes on over restarts, and more quickly than events come.
        if self.n_changes == 0 {
            self.n_changes = now;
        }
        let (is_change, waited) = (is_change(&event), self.has_waiting());
        let membership = self.nodes.membership();
        match event {
            Event::Node { node_id, message } => self.on_node(node_id, message),
            Event::Disconnected { node_id } => {
                self.nodes.on_disconnected(node_id, self.out.now_ms());
            }
            Event::Link { is_up } => self.verdict.on_link(is_up),
            Event::Disk { full } => self.on_disk(full),
            Event::Stop { reason } => self.on_stop(&reason),
            Event::Tick => self.on_tick(),
        }
        self.follow_up();
        self.tell_of_membership();
        // What waits may have been placed or explained, by whatever event.
        if is_change || waited || self.has_waiting() || membership != self.nodes.membership() {
            self.n_changes += 1;
        }
        self.take_actions()
    }

    fn has_waiting(&self) -> bool {
        !self.queue.is_empty() || self.groups.has_waiting() || self.recovering_until_ms.is_some()
    }

    fn on_node(&mut self, node_id: NodeId, message: NodeToControl) {
        if let NodeToControl::Register(register) = message {
            self.on_register(node_id, register);
            return;
        }
        if self.ending.is_some() {
            // Nothing else is decided any more.
            if matches!(message, NodeToControl::Leaving(_)) {
                self.leaves_at_the_end(node_id);
            }
            return;
        }
        if !self.nodes.is_heard(node_id, self.out.now_ms()) {
            // The node was declared dead and its actors live elsewhere now: it must not go on as it is.
            let reason = self.nodes.sentence(node_id);
            self.out.send(node_id, ShutDown { reason, may_rejoin: true });
            self.out.disconnect(node_id);
            return;
        }
        match message {
            NodeToControl::Register(_) | NodeToControl::Unknown => {}
            NodeToControl::Status(status) => self.on_status(node_id, status.info, status.sent_ms),
            NodeToControl::Unchanged(same) => self.on_unchanged(node_id, same.sent_ms),
            NodeToControl::FromClient(from) => self.on_request(node_id, from.worker_id, from.call),
            NodeToControl::ClientGone(gone) => self.on_client_gone(node_id, &gone),
            NodeToControl::ActorStarted(started) => self.on_actor_started(node_id, started),
            NodeToControl::ActorEnded(ended) => self.on_actor_ended(node_id, ended),
            NodeToControl::BundlesHeld(held) => self.on_bundles_held(node_id, &held),
            NodeToControl::AskGroup(ask) => self.on_ask_group(node_id, &ask),
            NodeToControl::JobLogs(logs) => self.on_job_logs(logs),
            NodeToControl::FlushLogs(flush) => self.on_flush_logs(node_id, flush),
            NodeToControl::LogsFlushed(flush) => self.on_logs_flushed(node_id, &flush),
            NodeToControl::Probed(probed) => {
                self.verdict.on_probed(node_id, probed.node_id, probed.is_reached);
            }
            NodeToControl::Preempted(preempted) => self.on_preempted(node_id, preempted),
            NodeToControl::Leaving(leaving) => {
                self.on_leaving(node_id, leaving);
            }
        }
    }

    fn on_disk(&mut self, full: Option<String>) {
        if let Some(note) = self.disk.on_room(full) {
            self.out.log(note);
        }
    }

    fn on_tick(&mut self) {
        self.ticked_ms = self.now_ms();
        if self.ending.is_some() {
            return self.check_ending();
        }
        if !self.disk.is_full() {
            // With it would wait what else is to be sent now.
            self.out.persist_deferred();
        }
        self.check_nodes();
        self.check_recovery();
        if self.nodes.expire_reservations(self.out.now_ms()) {
            self.follow_ups.has_room = true;
        }
        self.expire_unknown();
        self.follow_up();
        if self.is_explaining_due() {
            self.explain_groups();
            self.explain_actors();
            self.ask_for_room();
        }
        self.publish_views();
    }

    /// Does what rules have left for others, until nothing is left.
    pub(crate) fn follow_up(&mut self) {
        loop {
            // Ends come first, for they make room; room is given out once for all of them.
            if let Some(actor_id) = self.follow_ups.group_creators.pop_front() {
                self.end_groups_of_actor(actor_id);
            } else if let Some(actor_id) = self.follow_ups.restarts.pop_front() {
                if !self.queue.contains(actor_id) {
                    self.enqueue_actor(actor_id);
                }
            } else if std::mem::take(&mut self.follow_ups.has_room) {
                self.place_groups();
                self.place_actors();
            } else {
                return;
            }
        }
    }
}
