//! Frames of user code: what one runs, what it holds, and what it waits for.

use std::collections::{BTreeMap, VecDeque};

use helio_owner_state::{Outcome, Outgoing};
use helio_types::{ActorId, ObjectId, PlacementGroupId, TaskId, WorkerId};

use super::memory::Payload;
use crate::ops::{OPENED, Op, Slot};
use crate::value::{Body, Expect};

/// The value of a variable.
#[derive(Clone, Debug)]
pub(crate) enum Held {
    Ref { id: ObjectId, expect: Expect },
    Actor { id: ActorId, handle: Option<ObjectId> },
    Stream { id: ObjectId, body: Box<Body>, next: u32 },
    Group { id: PlacementGroupId },
}

/// The code that a frame runs.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Main,
    Call { task: TaskId, caller: WorkerId, returns: u32, backpressure: u32 },
    Construct { actor: ActorId },
}

/// The thing that a frame waits for.
#[derive(Debug, Default)]
pub(crate) enum Wait {
    #[default]
    Nothing,
    Until(u64),
    /// Room in the object store.
    Room(u64),
    /// An answer of the control service.
    Answer(u64),
    /// The control service's word on a named actor, for that request.
    Creation(ActorId, u64),
    /// Values, an item, or room for one: looked for at every turn.
    News,
}

/// A running function, method or driver: the rest of its script, its values, and what it waits for.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    pub(super) body: Body,
    /// Values of arguments, held while it runs.
    pub(super) payloads: Vec<Payload>,
    pub(crate) script: VecDeque<Op>,
    pub(super) slots: BTreeMap<Slot, Held>,
    pub(super) wait: Wait,
    pub(super) since: u64,
    /// The time at which the frame began to read.
    pub(super) read_since: u64,
    /// The time at which a read or a wait is given up.
    pub(super) deadline: Option<u64>,
    /// The thread that it runs on.
    pub(super) thread: u64,
    pub(super) is_blocked: bool,
    /// Returns that are made already.
    pub(super) made: Vec<Outgoing>,
    pub(super) opened: Slot,
    /// Bytes that wait for room, and what they become.
    pub(super) writing: Option<(ObjectId, Vec<u8>)>,
}

/// The state of an actor's process.
#[derive(Debug)]
pub(crate) struct ActorState {
    pub(crate) concurrency: usize,
    pub(super) is_ready: bool,
    pub(super) kept: Vec<Held>,
    /// The last first attempt of each caller in each concurrency group.
    pub(super) order: BTreeMap<(WorkerId, &'static str), u64>,
}

/// The outcome of an operation.
pub(super) enum Step {
    /// The operation is done.
    Next,
    /// The operation is to be tried again when something has changed.
    Stay,
    /// The frame ends so.
    End(Box<Outcome>),
    /// The frame ends and has nobody to tell.
    Leave,
}

impl ActorState {
    /// Whether it takes calls.
    pub(super) fn is_open(&self) -> bool {
        self.is_ready
    }
}

impl Frame {
    pub(crate) fn main(script: Vec<Op>) -> Self {
        Self::new(Kind::Main, Body::default(), script)
    }

    pub(super) fn new(kind: Kind, body: Body, script: Vec<Op>) -> Self {
        Self {
            kind,
            body,
            payloads: Vec::new(),
            script: script.into(),
            slots: BTreeMap::new(),
            wait: Wait::Nothing,
            since: 0,
            read_since: 0,
            deadline: None,
            thread: 0,
            is_blocked: false,
            made: Vec::new(),
            opened: OPENED,
            writing: None,
        }
    }

    pub(super) fn task(&self) -> TaskId {
        match &self.kind {
            Kind::Call { task, .. } => *task,
            Kind::Main | Kind::Construct { .. } => TaskId::NIL,
        }
    }

    /// Returns the place at which the frame is, for reports of hangs.
    pub(crate) fn whereabouts(&self) -> String {
        format!(
            "{:?} at {:?} waiting for {:?} since {} us",
            self.kind,
            self.script.front(),
            self.wait,
            self.since
        )
    }
}
