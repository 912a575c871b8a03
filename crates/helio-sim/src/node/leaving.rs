//! A daemon that is told to leave, and what it may do then.

use helio_proto::cluster::{Drain, NodeLeaving, NodeToControl};
use helio_proto::encode;

use super::NodeHost;
use crate::core::Core;

/// Microseconds that an order takes at most that is given again after it was lost with its connection.
const HEARD_US: u64 = 8_000_000;

impl NodeHost {
    /// The control service orders it to leave, or to stay after all: which it does unless it hands over what it has.
    pub(super) fn told_to_leave(&mut self, core: &Core, order: &Drain) {
        if order.grace_ms > 0 && !order.is_cancelled {
            self.due_ms = Some(core.daemon_ms(self.index) + order.grace_ms);
        }
        if !order.is_cancelled {
            (self.has_offered, self.is_to_stay) = (self.has_offered && self.is_to_leave, false);
            self.is_to_leave = true;
        } else if !self.has_offered {
            (self.is_to_leave, self.is_to_stay) = (false, true);
            self.due_ms = None;
        }
    }

    /// The node begins to leave: not where the control service said long ago that it is to stay, also where that order was lost
    /// with its connection.
    pub(super) fn check_stay(&self, core: &mut Core, what: &str) {
        let is_away = core.facts.control_restarts > 0 || core.facts.silenced.contains(&self.index);
        let since = core.daemons[self.index].stays_since.filter(|_| !is_away);
        if since.is_some_and(|since| core.now - since > HEARD_US) {
            let index = self.index;
            core.violation(format!("node {index} {what}, and the control service had it stay"));
        }
    }

    /// A node whose grace is over waits for nothing that runs there.
    pub(super) fn check_grace(&self, core: &mut Core) {
        let is_over = self.due_ms.is_some_and(|due| core.daemon_ms(self.index) > due);
        if is_over && !self.has_offered && !self.has_left && !self.is_down {
            core.violation(format!("node {} stays longer than its grace", self.index));
        }
    }

    /// Whether it takes new work.
    pub(crate) fn is_open(&self) -> bool {
        !self.node.info().is_draining
    }

    /// The node is told to end, and tells the control service, as the real shell does.
    pub(crate) fn say_goodbye(&mut self, core: &mut Core) {
        if let Some(control) = self.control {
            let reason = "it was told to end".to_owned();
            let leaving = NodeLeaving { reason, ..NodeLeaving::default() };
            core.send(control, self.me(), encode(&NodeToControl::Leaving(leaving)));
        }
    }
}
