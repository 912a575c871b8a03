//! The calls that have come for an actor, by the judge's own account: which of them have what they need, and whom each
//! waits behind.

use helio_proto::decode;
use helio_proto::node::NodeToClient;
use helio_proto::peer::{Args, Value};
use helio_types::TaskId;

use super::actors::{group, is_unordered};
use crate::value::Body;

/// A call that came.
#[derive(Debug)]
struct Came {
    task: TaskId,
    /// The concurrency group of the call; `None`: not known, because its arguments lie in an object store.
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
    pub(super) fn came(&mut self, task: TaskId, args: &[u8]) {
        let Ok(args) = Args::get(args) else { return };
        let is_stored = |value: &Value| matches!(value, Value::Stored { .. });
        let is_complete = !args.deps.iter().any(|dep| is_stored(&dep.value));
        let body = (!args.stored_body).then(|| Body::decode(&args.body).ok()).flatten();
        let group = body.map(|body| group(task.actor(), body.salt));
        self.calls.retain(|other| other.task != task);
        self.calls.push(Came { task, group, is_complete });
    }

    /// Whether every call that came has begun, or the process was told to end.
    pub(super) fn is_done(&self) -> bool {
        self.is_ending || self.calls.is_empty()
    }

    /// A call has begun.
    pub(super) fn begun(&mut self, task: TaskId) {
        self.calls.retain(|other| other.task != task);
    }

    /// A call that lacks nothing, and that nothing of its group came before.
    pub(super) fn first_open(&self, is_waiting: impl Fn(TaskId) -> bool) -> Option<TaskId> {
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
