//! The end of the cluster: every node is told, those that are away for a moment, too.
//!
//! The order does not reach a node whose connection is broken, whether or not this service knows of the break, nor one that
//! has not come back since this service started anew. A node that is told says that it leaves, before it ends its workers;
//! one that was not told connects again soon ([`RECONNECT_MS_MAX`]). So the service stays until all have said so, that long at
//! most, takes no node in, and tells each that comes that the cluster is over. The end is not durable: a service that dies
//! meanwhile and starts again was started by somebody.

use std::collections::BTreeSet;

use helio_config::control::{LATE_NODES_MS, LOOK_AGAIN_MS, RECONNECT_MS_MAX, RECOVERY_MS_MAX};
use helio_proto::cluster::{NodeAccepted, ShutDown};
use helio_types::{NodeId, mutant};

use super::Control;
use crate::event::Note;

/// The progress of the cluster's end.
#[derive(Debug)]
pub(crate) struct Ending {
    reason: String,
    /// The nodes that have neither said that they leave nor come back since the order.
    awaited: BTreeSet<NodeId>,
    /// The time until which the service waits for these nodes.
    awaited_until_ms: u64,
    /// The time until which, after a restart, the service waits for nodes that it does not know
    /// yet.
    unknown_until_ms: u64,
    /// The shell was told to end the service.
    is_over: bool,
}

impl Ending {
    /// Returns how long the next look may be away, in milliseconds; `None`: none is needed.
    pub(crate) fn next_look_ms(&self) -> Option<u64> {
        (!self.is_over).then_some(LOOK_AGAIN_MS)
    }
}

impl Control {
    /// Ends the cluster: tells every node, and waits for those that cannot hear it now.
    pub(crate) fn on_stop(&mut self, reason: &str) {
        if self.ending.is_some() {
            return;
        }
        // A node that joined again would go on in a cluster that has ended.
        let may_rejoin = mutant!("nodes-of-a-stopped-cluster-join-anew");
        let mut nodes = self.nodes.alive_ids();
        if mutant!("stop-forgets-a-node") {
            nodes.pop();
        }
        self.out.send_to_many(nodes, ShutDown { reason: reason.to_owned(), may_rejoin });
        let now_ms = self.now_ms();
        let awaited = self.nodes.alive_ids().into_iter().chain(self.former.keys().copied());
        let awaited: BTreeSet<NodeId> = awaited.collect();
        // After a restart of the service there may be nodes that it has not heard of yet.
        let began_ms = self.recovering_until_ms.map(|until_ms| until_ms - RECOVERY_MS_MAX);
        let is_over = mutant!("stop-awaits-nobody");
        self.ending = Some(Ending {
            reason: reason.to_owned(),
            awaited,
            awaited_until_ms: now_ms + RECONNECT_MS_MAX,
            unknown_until_ms: began_ms.map_or(0, |began_ms| began_ms + LATE_NODES_MS),
            is_over,
        });
        if is_over {
            return self.out.end(reason);
        }
        self.check_ending();
    }

    /// Notes that a node says that it leaves: the order has reached it.
    pub(crate) fn leaves_at_the_end(&mut self, node_id: NodeId) {
        if let Some(ending) = &mut self.ending {
            ending.awaited.remove(&node_id);
        }
        self.check_ending();
    }

    /// Sends a node away that registers after the order. Returns whether the cluster is ending.
    pub(crate) fn turn_away(&mut self, node_id: NodeId, sent_ms: u64) -> bool {
        let Some(ending) =
            self.ending.as_mut().filter(|_| !mutant!("stopped-cluster-takes-nodes-in"))
        else {
            return false;
        };
        // It has heard of the end, so nobody waits for it any more.
        ending.awaited.remove(&node_id);
        let reason = format!("the cluster has ended: {}", ending.reason);
        let accepted = NodeAccepted {
            refused: reason.clone(),
            session_name: self.session_name.clone(),
            sent_ms,
            epoch: self.epoch,
            ..NodeAccepted::default()
        };
        self.out.send(node_id, accepted);
        self.out.log(Note::NodeRefused { node_id, reason });
        self.out.disconnect(node_id);
        self.check_ending();
        true
    }

    /// Ends the service when no node is awaited any more.
    pub(crate) fn check_ending(&mut self) {
        let now_ms = self.now_ms();
        let Some(ending) = self.ending.as_mut().filter(|ending| !ending.is_over) else { return };
        let is_awaited = !ending.awaited.is_empty() && now_ms < ending.awaited_until_ms;
        if is_awaited || now_ms < ending.unknown_until_ms {
            return;
        }
        ending.is_over = true;
        self.out.end(&ending.reason);
    }
}
