//! The context in which a sub-machine handles an event: this process, the time, and the place for effects. A
//! sub-machine has no other way to act on the outside.

use std::sync::Arc;

use helio_proto::peer::Frame;
use helio_types::{NodeId, WorkerAddress};

use crate::event::Action;

/// **LIMIT-1** Number of actions for which room is kept between events.
const ACTIONS_KEPT: usize = 1 << 12;

/// The process, the time and the outgoing effects that a handler of an event works with.
#[derive(Debug)]
pub(crate) struct Context {
    me: Arc<WorkerAddress>,
    now: u64,
    out: Vec<Action>,
}

impl Context {
    pub(crate) fn new(me: WorkerAddress) -> Self {
        Self { me: Arc::new(me), now: 0, out: Vec::new() }
    }

    /// An event happens at that time.
    #[inline]
    pub(crate) fn begin(&mut self, now: u64) {
        debug_assert!(self.out.is_empty(), "the effects of an event are taken before the next one");
        self.now = now;
    }

    /// The event has been handled: hands over its effects, in their order.
    #[inline]
    pub(crate) fn finish(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.out)
    }

    /// Takes back a list of effects that have been executed: the next event's have room in it.
    #[inline]
    pub(crate) fn reuse(&mut self, executed: Vec<Action>) {
        debug_assert!(executed.is_empty(), "effects are executed before their list is used again");
        debug_assert_eq!(self.out.capacity(), 0, "one list is kept");
        if executed.capacity() <= ACTIONS_KEPT {
            // The list of before was handed over: what is here owns nothing, and to drop it would be a call.
            std::mem::forget(std::mem::replace(&mut self.out, executed));
        }
    }

    /// Returns the address of this process.
    pub(crate) fn me(&self) -> &Arc<WorkerAddress> {
        &self.me
    }

    /// The node of this process.
    pub(crate) fn node_id(&self) -> NodeId {
        self.me.node_id
    }

    /// The time of the event, in microseconds.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    pub(crate) fn push(&mut self, action: Action) {
        self.out.push(action);
    }

    /// Sends a frame to a process.
    pub(crate) fn send(&mut self, to: Arc<WorkerAddress>, frame: Frame<'static>) {
        self.out.push(Action::Send { to, frame });
    }
}
