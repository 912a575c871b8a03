//! The control service's shell: what `helio-control` does around the control machine. Its durable
//! records outlive it.

use std::collections::BTreeMap;

use helio_control_state::held::WantedChanges;
use helio_control_state::{Action, Control, Event, Note};
use helio_proto::cluster::{ControlToNode, FromClient, NodeToControl};
use helio_proto::control::{ControlRequest, DrainNode, StopCluster};
use helio_proto::node::ControlCall;
use helio_proto::{decode, encode};
use helio_types::NodeId;

use crate::core::{Core, Event as Next};
use crate::evidence::Evidence;
use crate::net::{End, What};
use crate::plan::Order;

pub(crate) struct ControlHost {
    pub(crate) life: u32,
    pub(crate) control: Control,
    /// The newest connection of each node.
    open: BTreeMap<NodeId, u64>,
    /// The time of the last tick.
    ticked: u64,
    /// The time of the last tick on the machine's clock, in whole milliseconds as the machine counts.
    ticked_us: u64,
    /// Events that wait for room on the disk.
    held: WantedChanges,
    /// Whether the machine was told last that there is no room on the disk.
    is_said_full: bool,
    evidence: Evidence,
}

/// Whether the order goes with its connection: so it does once.
fn is_to_be_lost(core: &mut Core, message: &ControlToNode) -> bool {
    let order = match message {
        ControlToNode::LaunchActor(_) => Order::Launch,
        ControlToNode::StopActor(_) => Order::Stop,
        ControlToNode::ReturnBundles(_) => Order::Return,
        ControlToNode::Drain(order) if order.is_cancelled => Order::Stay,
        ControlToNode::Drain(_) => Order::Leave,
        _ => return false,
    };
    let Some(place) = core.lost_orders.iter().position(|wanted| *wanted == order) else {
        return false;
    };
    core.lost_orders.swap_remove(place);
    core.facts.count("faults: lost order");
    true
}

impl ControlHost {
    /// A first start, or one from what was persisted.
    pub(crate) fn start(life: u32, core: &mut Core) -> Self {
        let entries: Vec<(Vec<u8>, Vec<u8>)> =
            core.durable.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        if life > 1 {
            core.set_control_clock();
        }
        let (control, actions) =
            Control::recover(&core.session_name(), entries, &[], core.control_now());
        core.control = Some(life);
        let (open, evidence) = (BTreeMap::new(), Evidence::new(core.now, core.plan.drift_ppm_max));
        let (ticked, ticked_us) = (core.now, core.control_now() / 1_000 * 1_000);
        let held = WantedChanges::default();
        let mut host =
            Self { life, control, open, ticked, ticked_us, held, is_said_full: false, evidence };
        host.execute_events(core, vec![actions]);
        core.after(host.wait(), Next::ControlTick { life });
        host
    }

    fn me(&self) -> End {
        End::Control(self.life)
    }

    /// Returns the microseconds from the last tick to the next one.
    fn wait(&self) -> u64 {
        self.control.next_tick().map_or(u64::MAX, |at| at - self.ticked_us)
    }

    fn apply(&mut self, core: &mut Core, event: Event) {
        let before = self.wait();
        if matches!(event, Event::Tick) {
            (self.ticked, self.ticked_us) = (core.now, core.control_now() / 1_000 * 1_000);
        }
        // Before the request is looked at, so that it is refused rather than left waiting.
        let news = self.look_at_disk(core, matches!(event, Event::Tick));
        let (count, lists) = self.control.listed();
        let actions = self.control.apply(event, core.control_now());
        self.execute_events(core, vec![news, actions]);
        let (count_now, lists_now) = self.control.listed();
        if count_now <= count && lists_now != lists {
            core.violation("STATE-2: a list of the control service has changed, and the count of changes has not".to_owned());
        }
        if let Err(text) = self.control.check() {
            core.violation(format!("STATE-2: the control service disagrees with itself: {text}"));
        }
        let after = self.wait();
        if after < before {
            core.at(self.ticked + after, Next::ControlTick { life: self.life });
        }
    }

    pub(crate) fn tick(&mut self, core: &mut Core) {
        let due = self.ticked + self.wait();
        if core.now < due {
            return core.at(due, Next::ControlTick { life: self.life });
        }
        self.apply(core, Event::Tick);
        core.after(self.wait(), Next::ControlTick { life: self.life });
    }

    /// News of the room on the disk; with room, what waited for it is done. As the real shell does it.
    fn look_at_disk(&mut self, core: &mut Core, is_tick: bool) -> Vec<Action> {
        if !self.held.is_due(is_tick) {
            return Vec::new();
        }
        let has_room = core.seems_to_have_room();
        if has_room && !self.held.is_empty() {
            let events = self.held.take();
            self.execute_events(core, events);
        }
        self.say_disk(core, !has_room || !self.held.is_empty())
    }

    fn say_disk(&mut self, core: &mut Core, is_full: bool) -> Vec<Action> {
        if !self.held.is_news(is_full) {
            return Vec::new();
        }
        self.is_said_full = is_full;
        let full = is_full.then(|| "the disk has no room left for control.redb".to_owned());
        self.control.apply(Event::Disk { full }, core.control_now())
    }

    /// Executes the actions of the events, as far as they can be made durable.
    fn execute_events(&mut self, core: &mut Core, mut events: Vec<Vec<Action>>) {
        let is_change = |action: &Action| matches!(action, Action::Persist(_));
        let has_changes = events.iter().flatten().any(is_change);
        if !self.held.is_empty() || has_changes && core.is_head_disk_full() {
            let before = self.held.len();
            match self.held.hold(events) {
                Ok(rest) => events = rest,
                Err(most) => return core.violation(format!("LIMIT-1: {most:?} events wait")),
            }
            if self.held.len() > before {
                core.facts.count("changes held for want of room");
            }
        }
        let is_durable = !has_changes || !core.is_head_disk_full();
        let done = events.into_iter().flatten();
        let done = done.filter(|action| is_durable || !is_change(action));
        self.execute_actions(core, done.collect());
        if !self.held.is_empty() {
            let news = self.say_disk(core, true);
            if !news.is_empty() {
                self.execute_events(core, vec![news]);
            }
        }
    }

    /// Commits once, then sends, as the real shell does.
    fn execute_actions(&mut self, core: &mut Core, actions: Vec<Action>) {
        // The service dies before its first action: nothing of this batch has happened.
        if !actions.is_empty() && core.is_torn_at_once(self.me()) {
            return;
        }
        // Changes first: whoever hears an answer may rely on what it says (STATE-2).
        let (changes, rest): (Vec<Action>, Vec<Action>) =
            actions.into_iter().partition(|action| matches!(action, Action::Persist(_)));
        for action in changes.into_iter().chain(rest) {
            match action {
                Action::Persist(change) => {
                    match change.value {
                        Some(value) => core.durable.insert(change.key, value),
                        None => core.durable.remove(&change.key),
                    };
                }
                Action::SendToMany { to, message } => {
                    let bytes = encode(&message);
                    for link in to.iter().filter_map(|node_id| self.open.get(node_id)) {
                        core.send(*link, self.me(), bytes.clone());
                    }
                }
                Action::Send { node_id, message } => {
                    if matches!(message, ControlToNode::View(_)) {
                        core.facts.count("views");
                    }
                    let mut is_new = true;
                    if let ControlToNode::LaunchActor(launch) = &message {
                        let (actor, number) = (launch.spec.actor_id, launch.incarnation);
                        // The same order may be sent again when its answer was lost.
                        is_new = !core.facts.history.was_placed(actor, node_id, number);
                        let placed = core.facts.history.actor_placed(actor, node_id, number);
                        if let Err(text) = placed {
                            core.violation(text);
                        }
                    }
                    if let Some(link) = self.open.get(&node_id).copied() {
                        if is_to_be_lost(core, &message) {
                            core.cut_link(link);
                        }
                        core.send(link, self.me(), encode(&message));
                    }
                    // What a service sends after its death arrives nowhere, and proves nothing.
                    if core.is_dead(self.me()) {
                        continue;
                    }
                    if let Err(text) = self.evidence.sent(node_id, &message, is_new) {
                        core.violation(text);
                    }
                    if let ControlToNode::Drain(order) = &message
                        && let Some(node) = core.daemon(node_id)
                    {
                        let told = ["nodes told to leave", "nodes told to stay"];
                        core.facts.count(told[usize::from(order.is_cancelled)]);
                        core.daemons[node].is_draining = !order.is_cancelled;
                        core.daemons[node].stays_since = order.is_cancelled.then_some(core.now);
                        core.facts.history.node_drained(node_id);
                    }
                }
                Action::Disconnect { node_id } => {
                    if let Some(link) = self.open.remove(&node_id) {
                        core.close(link, self.me());
                    }
                }
                Action::Log(note) => {
                    core.note(|| format!("control: {note:?}"));
                    if let Note::NodeGone { node_id, .. } = note {
                        let head = core.daemons[core.head].address.node_id;
                        let now = core.now;
                        match self.evidence.declared_dead(node_id, head, now) {
                            Ok(verdict) => core.declared_dead.push((node_id, verdict)),
                            Err(text) => {
                                core.violation(format!("node {node_id} is declared dead: {text}"));
                            }
                        }
                    }
                }
                Action::End { reason } => {
                    core.note(|| format!("control ends: {reason}"));
                    core.is_control_over = true;
                }
            }
        }
        self.judge_places(core);
    }

    fn judge_places(&mut self, core: &mut Core) {
        if !self.evidence.is_asking() {
            return;
        }
        let unused: BTreeMap<NodeId, f64> = core
            .daemons
            .iter()
            .filter(|daemon| daemon.is_alive && !daemon.is_draining)
            .map(|daemon| (daemon.address.node_id, daemon.room))
            .filter(|(node_id, _)| !core.facts.nodes_with_bundles.contains(node_id))
            .collect();
        for text in self.evidence.judge_places(&core.facts.groups, &unused) {
            core.violation(text);
        }
        core.facts.nodes_with_bundles.extend(self.evidence.take_asked());
    }

    /// A client of the head's node asks for the end of a node, which waits for what runs there, so many milliseconds
    /// at most (0: as long as it takes), or, without that, has it stay. Whether it could ask.
    pub(crate) fn asked_to_drain(
        &mut self,
        core: &mut Core,
        head: NodeId,
        node_id: NodeId,
        grace_ms: Option<u64>,
    ) -> bool {
        let is_in = |node| self.open.contains_key(&node) && self.evidence.knows(node);
        if !is_in(head) || !is_in(node_id) {
            return false;
        }
        let reason = "it is not needed any more".to_owned();
        let (is_cancelled, grace_ms) = (grace_ms.is_none(), grace_ms.unwrap_or_default());
        let request = DrainNode { node_id, reason, grace_ms, is_cancelled }.into();
        let call = ControlCall { request, ..ControlCall::default() };
        let message = FromClient { call, ..FromClient::default() }.into();
        self.apply(core, Event::Node { node_id: head, message });
        true
    }

    /// The cluster is to end: a client of the head's node asks for it, or, where that has no connection, the head's
    /// process does.
    pub(crate) fn asked_to_stop(&mut self, core: &mut Core, head: NodeId) {
        let reason = "the user ends it".to_owned();
        if !self.open.contains_key(&head) || !self.evidence.knows(head) {
            return self.apply(core, Event::Stop { reason });
        }
        let request = StopCluster { reason }.into();
        let call = ControlCall { request, ..ControlCall::default() };
        let message = FromClient { call, ..FromClient::default() }.into();
        self.apply(core, Event::Node { node_id: head, message });
    }

    /// Notes that a request may be refused which comes while nothing can be kept.
    fn may_refuse(&self, core: &mut Core, message: &NodeToControl) {
        if !core.is_head_disk_full() && !self.is_said_full {
            return;
        }
        let NodeToControl::FromClient(FromClient { call, .. }) = message else { return };
        match &call.request {
            ControlRequest::CreateActor(spec) => {
                core.facts.history.actor_over(spec.actor_id);
                core.facts.refusable_actors.insert(spec.actor_id);
            }
            ControlRequest::KvPut(put) => drop(core.facts.refusable_keys.insert(put.key.clone())),
            ControlRequest::KvDel(del) => drop(core.facts.refusable_keys.insert(del.key.clone())),
            ControlRequest::CreateGroup(spec) => {
                core.facts.history.group_may_be_refused(spec.group_id)
            }
            _ => {}
        }
    }

    pub(crate) fn arrived(&mut self, core: &mut Core, link: u64, what: What) {
        let Some(End::Node(node)) = core.net.get(link).map(|link| link.ends[0]) else { return };
        let node_id = core.daemons[node].address.node_id;
        let is_newest = self.open.get(&node_id) == Some(&link);
        match what {
            What::Opened => {
                // A node connects again before it has noticed that the older connection is gone.
                if let Some(older) = self.open.insert(node_id, link) {
                    core.close(older, self.me());
                }
            }
            What::Bytes(bytes) if is_newest => match decode::<NodeToControl>(&bytes) {
                Ok(message) => {
                    self.may_refuse(core, &message);
                    self.evidence.heard(node_id, &message, core.now);
                    self.apply(core, Event::Node { node_id, message });
                    // A control service that can make nothing durable sends nothing, either.
                    let can_act =
                        self.held.is_empty() && !core.is_dead(self.me()) && !core.facts.is_stopped;
                    if can_act && self.evidence.awaits_the_gone(node_id) {
                        core.violation(format!(
                            "node {node_id} has left, and is not declared dead"
                        ));
                    }
                }
                Err(_) => core.violation("a node's message cannot be read".to_owned()),
            },
            What::Closed => {
                core.close(link, self.me());
                if is_newest {
                    self.open.remove(&node_id);
                    self.evidence.disconnected(node_id, core.now);
                    self.apply(core, Event::Disconnected { node_id });
                }
            }
            // Of an older connection: the node says it again over the newest.
            What::Bytes(_) => {}
        }
    }
}
