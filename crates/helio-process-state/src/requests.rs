//! The one table of pending requests: what this process asked its daemon, the control service or a peer,
//! and who the answer is for.
//!
//! A request of the front ends in an [`Answer`], which the thread that waits takes out. A thread that
//! gives up calls [`Requests::forget`]; an answer that nobody waits for is dropped.

use std::collections::BTreeMap;
use std::sync::Arc;

use helio_proto::control::{ControlResponse, Failure};
use helio_proto::inspect::Inspected;
use helio_types::{ActorId, NodeAddress, ObjectId, PlacementGroupId, WorkerAddress, WorkerId};

use crate::questions::Explanation;

/// The purpose of a pending request.
#[derive(Debug)]
pub(crate) enum Pending {
    /// A thread waits for the control service's answer.
    Control,
    /// The control service makes an actor; `awaited`: a thread waits to hear whether its name was free.
    Creation { actor: ActorId, awaited: bool },
    /// The control service is to say what has become of an actor, now and from now on.
    ActorNews,
    /// The object becomes `value` when the control service agrees, else the refusal as an error.
    Promise { object: ObjectId, value: Vec<u8>, group: PlacementGroupId },
    /// The control service is to say what a placement group waits for, on behalf of this explanation.
    GroupExplanation { explanation: u64 },
    /// A daemon or a peer continues an explanation.
    Explanation(Explanation),
    /// A thread waits for room in the object store; not `awaited`: it has given up, and the room goes
    /// back when it comes.
    Grant { object: ObjectId, size: u64, awaited: bool },
    /// The daemon brings an object's bytes to this node; `copy_of`: from another one, and whose object it is.
    Fetch { object: ObjectId, copy_of: Option<Arc<WorkerAddress>> },
    /// The daemon is to say when there is room for the arguments of a task; these have to be fetched then.
    Arguments { fetches: Vec<(ObjectId, Vec<NodeAddress>)> },
    /// The daemon is to say whether a process lives.
    Liveness { worker: WorkerId },
    /// A thread waits for rows of the state API.
    Inspection,
    /// A thread waits until something has happened: workers are ready, logs were flushed.
    Notice,
}

/// The answer to a request that a thread waits for.
#[derive(Debug)]
pub enum Answer {
    /// The control service's answer.
    Control(ControlResponse),
    /// The offset of the room in the object store, or why there is none.
    Grant(Result<u64, Failure>),
    /// Rows of the state API.
    Inspected(Box<Inspected>),
    /// An explanation.
    Text(String),
    /// The awaited event has happened.
    Done,
}

/// The requests that have no answer yet, and the answers that nobody has taken out.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    newest: u64,
    pending: BTreeMap<u64, Pending>,
    answers: BTreeMap<u64, Answer>,
    /// Objects whose room was granted to a thread that has not taken the answer yet, by request.
    granted: BTreeMap<u64, ObjectId>,
    explanations: usize,
}

impl Requests {
    /// A number that tells the answer of one request from those of others.
    pub(crate) fn mint(&mut self) -> u64 {
        self.newest += 1;
        self.newest
    }

    pub(crate) fn insert(&mut self, request: u64, pending: Pending) {
        self.explanations += usize::from(matches!(pending, Pending::Explanation(_)));
        let before = self.pending.insert(request, pending);
        assert!(before.is_none(), "a request's answer would go to another one");
    }

    /// A new request.
    pub(crate) fn begin(&mut self, pending: Pending) -> u64 {
        let request = self.mint();
        self.insert(request, pending);
        request
    }

    /// Takes out a pending request whose answer has come, and returns its purpose.
    pub(crate) fn close(&mut self, request: u64) -> Option<Pending> {
        let pending = self.pending.remove(&request)?;
        let is_explanation = matches!(pending, Pending::Explanation(_));
        assert!(self.explanations > 0 || !is_explanation, "an open explanation was counted");
        self.explanations -= usize::from(is_explanation);
        Some(pending)
    }

    pub(crate) fn get(&self, request: u64) -> Option<&Pending> {
        self.pending.get(&request)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Pending)> {
        self.pending.iter().map(|(request, pending)| (*request, pending))
    }

    /// The oldest explanation, when more than `max` are open.
    pub(crate) fn surplus_explanation(&self, max: usize) -> Option<u64> {
        let is_one = |(request, pending): (&u64, &Pending)| {
            matches!(pending, Pending::Explanation(_)).then_some(*request)
        };
        (self.explanations > max).then(|| self.pending.iter().find_map(is_one)).flatten()
    }

    pub(crate) fn answer(&mut self, request: u64, answer: Answer) {
        let before = self.answers.insert(request, answer);
        assert!(before.is_none(), "a thread would miss the first of two answers to one request");
    }

    /// Answers a request for room in the object store with the place that was granted.
    pub(crate) fn grant(&mut self, request: u64, object: ObjectId, offset: u64) {
        self.granted.insert(request, object);
        self.answer(request, Answer::Grant(Ok(offset)));
    }

    /// The answer, for the thread that waits for it.
    pub(crate) fn take(&mut self, request: u64) -> Option<Answer> {
        self.granted.remove(&request);
        self.answers.remove(&request)
    }

    /// Forgets a request that no thread waits for any more: its answer is dropped when it comes. Returns the object
    /// whose room has come and was not claimed.
    #[must_use]
    pub(crate) fn forget(&mut self, request: u64) -> Option<ObjectId> {
        self.answers.remove(&request);
        match self.pending.get_mut(&request) {
            // The owner machine needs the answer; room that nobody fills has to go back.
            Some(Pending::Creation { awaited, .. } | Pending::Grant { awaited, .. }) => {
                *awaited = false;
            }
            _ => drop(self.close(request)),
        }
        self.granted.remove(&request)
    }

    /// Whether a copy of an object is being fetched.
    pub(crate) fn has_copies(&self) -> bool {
        self.pending.values().any(|one| matches!(one, Pending::Fetch { copy_of: Some(_), .. }))
    }

    /// Returns a line for each request without an answer and each answer that no thread took; at rest there is none.
    pub(crate) fn open(&self) -> Vec<String> {
        let pending = self.pending.iter().map(|(number, pending)| format!("{number} {pending:?}"));
        let answers = self.answers.iter().map(|(number, answer)| format!("{number} {answer:?}"));
        pending.chain(answers).collect()
    }
}
