//! The control service's shell: what `helio-control` does around the control machine. Its durable
//! records outlive it.

use std::collections::BTreeMap;

use helio_control_state::{Action, Control, Event, Note};
use helio_proto::cluster::{ControlToNode, NodeToControl};
use helio_proto::{decode, encode};
use helio_types::NodeId;

use crate::core::{Core, Event as Next};
use crate::net::{End, What};

pub(crate) struct ControlHost {
    pub(crate) life: u32,
    pub(crate) control: Control,
    /// The newest connection of each node.
    open: BTreeMap<NodeId, u64>,
    /// When the last tick was.
    ticked: u64,
}

impl ControlHost {
    /// A first start, or one from what was persisted.
    pub(crate) fn start(life: u32, core: &mut Core) -> Self {
        let entries: Vec<(Vec<u8>, Vec<u8>)> =
            core.durable.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let (control, actions) = Control::recover("session", entries, &[], core.control_now());
        core.control = Some(life);
        let mut host = Self { life, control, open: BTreeMap::new(), ticked: core.now };
        host.execute_actions(core, actions);
        let wait = host.control.next_tick();
        core.after(wait, Next::ControlTick { life });
        host
    }

    fn me(&self) -> End {
        End::Control(self.life)
    }

    fn apply(&mut self, core: &mut Core, event: Event) {
        let before = self.control.next_tick();
        let actions = self.control.apply(event, core.control_now());
        self.execute_actions(core, actions);
        if let Err(text) = self.control.check() {
            core.violation(format!("STATE-2: the control service disagrees with itself: {text}"));
        }
        let after = self.control.next_tick();
        if after < before {
            core.at(self.ticked + after, Next::ControlTick { life: self.life });
        }
    }

    pub(crate) fn tick(&mut self, core: &mut Core) {
        let due = self.ticked + self.control.next_tick();
        if core.now < due {
            return core.at(due, Next::ControlTick { life: self.life });
        }
        self.ticked = core.now;
        self.apply(core, Event::Tick);
        core.after(self.control.next_tick(), Next::ControlTick { life: self.life });
    }

    /// One commit, then the sends, as the real shell does.
    fn execute_actions(&mut self, core: &mut Core, actions: Vec<Action>) {
        if !actions.is_empty() && core.is_torn_at_once(self.me()) {
            return;
        }
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
                    if let ControlToNode::LaunchActor(launch) = &message {
                        let actor = launch.spec.actor_id;
                        core.facts.history.actor_placed(actor, node_id);
                    }
                    if let Some(link) = self.open.get(&node_id) {
                        core.send(*link, self.me(), encode(&message));
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
                        core.declared_dead.push(node_id);
                    }
                }
                Action::End { reason } => core.note(|| format!("control ends: {reason}")),
            }
        }
    }

    pub(crate) fn arrived(&mut self, core: &mut Core, link: u64, what: What) {
        let Some(End::Node(node)) = core.net.get(link).map(|link| link.ends[0]) else { return };
        let node_id = core.daemons[node].address.node_id;
        let is_newest = self.open.get(&node_id) == Some(&link);
        match what {
            What::Opened => {
                if let Some(older) = self.open.insert(node_id, link) {
                    core.close(older, self.me());
                }
            }
            What::Bytes(bytes) if is_newest => match decode::<NodeToControl>(&bytes) {
                Ok(message) => self.apply(core, Event::Node { node_id, message }),
                Err(_) => core.violation("a node's message cannot be read".to_owned()),
            },
            What::Closed => {
                core.close(link, self.me());
                if is_newest {
                    self.open.remove(&node_id);
                    self.apply(core, Event::Disconnected { node_id });
                }
            }
            What::Bytes(_) => {}
        }
    }
}
