//! **WHY-1** Explanations of what waits: sentences, and whom to ask for the rest.

use std::sync::Arc;

use helio_types::{ActorId, NodeAddress, NodeId, ObjectId, TaskId, WorkerAddress};

/// An explanation, and the process that knows more.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Why {
    /// The explanation in one or more sentences, each with its full stop.
    pub text: String,
    /// The process or service to ask for the rest.
    pub next: Option<NextHop>,
}

/// The process or service that knows more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NextHop {
    /// The object's owner.
    Owner {
        /// The owner's address.
        to: Arc<WorkerAddress>,
        /// The object.
        object: ObjectId,
    },
    /// The process to which the call was sent.
    Executor {
        /// The address of the process that has the call.
        to: Arc<WorkerAddress>,
        /// The call.
        task: TaskId,
    },
    /// The daemon at which a lease request waits; `None`: our own node's.
    Daemon {
        /// The address of the daemon's node.
        node: Option<NodeAddress>,
        /// The number of the lease request.
        request: u64,
        /// The calls of this process that hold workers of other kinds.
        running: String,
    },
    /// The daemon of the node on which an actor is being made.
    Home {
        /// The node chosen for the actor.
        node: NodeId,
        /// The actor.
        actor: ActorId,
    },
    /// Our own daemon, at which a task waits for room for its arguments.
    Arguments {
        /// The number of the request for room.
        request: u64,
    },
    /// Our own daemon, which brings the object here.
    Store {
        /// The object.
        object: ObjectId,
        /// The nodes that are said to hold the value.
        nodes: Vec<NodeId>,
    },
}

impl Why {
    pub(crate) fn known(text: impl Into<String>) -> Self {
        Self { text: text.into(), next: None }
    }

    /// The answer with another sentence before it.
    pub(crate) fn after(self, first: String) -> Self {
        Self { text: join(first, &self.text), next: self.next }
    }
}

/// Sentences after each other.
#[must_use]
pub fn join(first: String, second: &str) -> String {
    match (first.is_empty(), second.is_empty()) {
        (true, _) => second.to_owned(),
        (_, true) => first,
        _ => format!("{first} {second}"),
    }
}

/// A length of time for people.
#[must_use]
pub fn time(us: u64) -> String {
    match us / 1_000_000 {
        0 => format!("{} ms", us / 1000),
        s @ 1..=119 => format!("{s}.{} s", us / 100_000 % 10),
        s @ 120..=7199 => format!("{} min", s / 60),
        s => format!("{} h", s / 3600),
    }
}

/// `text` as a sentence: with a capital, and a dot at its end.
#[must_use]
pub fn sentence(text: &str) -> String {
    let text = text.trim();
    let mut letters = text.chars();
    let Some(first) = letters.next() else { return String::new() };
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{}{}{end}", first.to_uppercase(), letters.as_str())
}
