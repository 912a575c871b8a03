//! The calls that have come for an actor, by the judge's own account: which of them have what they need, and whom each
//! waits behind.

use helio_proto::decode;
use helio_proto::node::NodeToClient;
use helio_proto::peer::{Args, Frame, Value};
use helio_types::TaskId;

use super::Process;
use super::submit::{group, is_unordered};
use crate::core::Core;
use crate::value::Body;

/// A call that came.
#[derive(Debug)]
struct Came {
    task: TaskId,
    /// Its concurrency group; `None`: its body lies elsewhere.
    group: Option<&'static str>,
    /// Whether every argument is here.
    is_complete: bool,
}

/// The calls that came and have not begun, in their order.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    calls: Vec<Came>,
    /// The process was told to end: what comes then waits for nothing any more.
    is_ending: bool,
}

impl Inbox {
    /// A message of the daemon.
    pub(super) fn daemon_said(&mut self, bytes: &[u8]) {
        self.is_ending |= matches!(decode::<NodeToClient>(bytes), Ok(NodeToClient::Exit(_)));
    }

    /// A call came for an actor.
    fn came(&mut self, task: TaskId, args: &[u8]) {
        let Ok(args) = Args::get(args) else { return };
        let is_stored = |value: &Value| matches!(value, Value::Stored { .. });
        let is_complete = !args.deps.iter().any(|dep| is_stored(&dep.value));
        let body = (!args.stored_body).then(|| Body::decode(&args.body).ok()).flatten();
        let group = body.map(|body| group(task.actor(), body.salt));
        self.calls.retain(|other| other.task != task);
        self.calls.push(Came { task, group, is_complete });
    }

    /// A call has begun.
    pub(super) fn begun(&mut self, task: TaskId) {
        self.calls.retain(|other| other.task != task);
    }

    /// A call that lacks nothing, and that nothing of its group came before.
    fn first_open(&self, is_waiting: impl Fn(TaskId) -> bool) -> Option<TaskId> {
        let waiting = || self.calls.iter().filter(|call| is_waiting(call.task));
        let is_free = |(place, call): &(usize, &Came)| {
            let mut before = waiting().take(*place);
            call.is_complete
                && call.group.is_some()
                && (is_unordered(call.task.actor())
                    || before.all(|other| other.group.is_some_and(|of| Some(of) != call.group)))
        };
        waiting().enumerate().find(is_free).map(|(_, call)| call.task)
    }
}

impl Process {
    /// A frame of another process came.
    pub(super) fn frame_came(&mut self, bytes: &[u8]) {
        match Frame::get(bytes) {
            Ok(Frame::Call { task, lease, args, .. }) if lease.0 == 0 => {
                self.inbox.came(task, args);
            }
            Ok(Frame::Cancel { task, force: true, .. })
                if self.code.iter().any(|frame| frame.task() == task) =>
            {
                self.forced.insert(task);
            }
            _ => {}
        }
    }

    /// All that could begin has begun: no call of an actor with room for it waits that lacks nothing, but behind one of
    /// its own group.
    pub(super) fn check_inbox(&self, core: &mut Core) {
        let (Some(actor), Some(machine)) = (&self.actor, &self.machine) else { return };
        let has_room = actor.is_open() && self.code.len() < actor.concurrency;
        if !has_room || self.inbox.is_ending || self.exits || self.inbox.calls.is_empty() {
            return;
        }
        let queued: Vec<TaskId> = machine.queued_calls().collect();
        if let Some(task) = self.inbox.first_open(|task| queued.contains(&task)) {
            core.violation(format!(
                "{task:?} has all it needs, waits behind nothing, and does not begin"
            ));
        }
    }
}
