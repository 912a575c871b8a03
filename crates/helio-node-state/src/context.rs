//! The context in which a sub-machine handles an event: the time, the node's setup, and the places for
//! effects. A sub-machine has no other way to act on the outside.

use helio_proto::cluster::{NodeToControl, NodeToNode};
use helio_proto::node::NodeToClient;
use helio_types::{NodeAddress, NodeId, WorkerId};

use crate::event::{Action, Conn};
use crate::setup::Setup;
use crate::timers::{Timer, Timers};

/// The time, the setup and the outgoing effects that a handler of an event works with.
#[derive(Debug)]
pub(crate) struct Context {
    setup: Setup,
    now: u64,
    actions: Vec<Action>,
    timers: Timers,
    /// Number of ids that were made.
    ids: u64,
    capacity_changed: bool,
    others_changed: bool,
    status_changed: bool,
}

impl Context {
    pub(crate) fn new(setup: Setup, now_ms: u64) -> Self {
        Self {
            setup,
            now: now_ms,
            actions: Vec::new(),
            timers: Timers::default(),
            ids: 0,
            capacity_changed: false,
            others_changed: false,
            status_changed: false,
        }
    }

    /// Begins an event at `now_ms`. Returns the milliseconds since the one before. Time never goes back, whatever the
    /// shell's clock does.
    pub(crate) fn begin(&mut self, now_ms: u64) -> u64 {
        let before = self.now;
        self.now = before.max(now_ms);
        self.now - before
    }

    /// The event has been handled: hands over its effects, in their order.
    pub(crate) fn finish(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// The time of the event, in milliseconds.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Returns the facts of the node that hold from its start on.
    pub(crate) fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The control service is there from now on.
    pub(crate) fn on_head_moved(&mut self, address: String) {
        self.setup.control_address = address;
    }

    pub(crate) fn node_id(&self) -> NodeId {
        self.setup.address.node_id
    }

    /// A new id: unique on this node by its first eight bytes, everywhere by the rest.
    pub(crate) fn new_worker_id(&mut self) -> WorkerId {
        self.ids += 1;
        let mut bytes = self.setup.seed;
        let (head, _) = bytes.split_first_chunk_mut::<8>().expect("28 bytes");
        // A bijection of the counter (splitmix64), so that no two ids of a node begin alike.
        let mut mixed =
            u64::from_le_bytes(*head).wrapping_add(self.ids.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        *head = (mixed ^ (mixed >> 31)).to_le_bytes();
        WorkerId(bytes)
    }

    pub(crate) fn push(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// Sends a message to a client.
    pub(crate) fn send(&mut self, conn: Conn, message: impl Into<NodeToClient>) {
        self.actions.push(Action::Send { conn, message: message.into() });
    }

    /// Sends a message to the control service.
    pub(crate) fn tell_control(&mut self, message: impl Into<NodeToControl>) {
        self.actions.push(Action::Control(message.into()));
    }

    /// Sends a message to another daemon.
    pub(crate) fn ask_node(&mut self, to: NodeAddress, message: NodeToNode) {
        self.actions.push(Action::Ask { to, message });
    }

    /// Answers another daemon on the connection that it asked over.
    pub(crate) fn answer_node(&mut self, conn: Conn, message: NodeToNode) {
        self.actions.push(Action::Answer { conn, message });
    }

    pub(crate) fn set_timer(&mut self, at_ms: u64, timer: Timer) {
        self.timers.set(at_ms, timer);
    }

    /// Takes out the first timer that is due.
    pub(crate) fn due_timer(&mut self) -> Option<Timer> {
        self.timers.due(self.now)
    }

    /// Returns the time at which the first timer is due.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.timers.next()
    }

    /// Resources or workers were freed, or requests came or went: waiting requests may have a place now.
    pub(crate) fn capacity_changed(&mut self) {
        self.capacity_changed = true;
    }

    pub(crate) fn take_capacity_changed(&mut self) -> bool {
        std::mem::take(&mut self.capacity_changed)
    }

    /// Notes that other nodes have changed: waiting requests may have a place there now.
    pub(crate) fn others_changed(&mut self) {
        self.others_changed = true;
    }

    pub(crate) fn take_others_changed(&mut self) -> bool {
        std::mem::take(&mut self.others_changed)
    }

    /// The status that the node reports has changed.
    pub(crate) fn status_changed(&mut self) {
        self.status_changed = true;
    }

    pub(crate) fn take_status_changed(&mut self) -> bool {
        std::mem::take(&mut self.status_changed)
    }
}

/// A client broke the protocol, with what; its connection is to be closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Violation(pub(crate) &'static str);
