//! Calls and actors as they are asked for, and what calls give back.

use std::sync::Arc;

use helio_proto::control::ActorSpec;
use helio_proto::node::LeaseClass;
use helio_proto::peer::STREAMING;
use helio_proto::template::Template;
use helio_types::{ActorId, NodeAddress, ObjectId, TaskId};

/// The index of item 0 among a call's returns.
pub(crate) const FIRST_ITEM: u32 = 2;

/// A call's arguments, as the front serialized them.
#[derive(Clone, Debug, Default)]
pub struct CallArgs {
    /// Placeholders stand where an argument is itself a reference.
    pub body: Vec<u8>,
    /// The object that holds the arguments, if they are larger than a frame; `body` is empty then.
    pub stored_body: Option<ObjectId>,
    /// The arguments that are references, in placeholder order.
    pub deps: Vec<ObjectId>,
    /// References inside other arguments.
    pub contained: Vec<ObjectId>,
}

/// The options of a call's retries: their number, and the failures that are retried.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retry {
    /// After the worker died (or, with `on_error`, the call raised): so often, -1 for no end.
    pub max: i32,
    /// Whether an exception counts; the executor decides which (see [`Outcome::retryable`]).
    pub on_error: bool,
}

/// A value on its way out, with the references inside it.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The serialized value.
    pub value: OutgoingValue,
    /// References inside the value; the front holds a handle of each for the time being.
    pub contained: Vec<ObjectId>,
}

/// The place of an outgoing value's bytes.
#[derive(Clone, Debug)]
pub enum OutgoingValue {
    /// At most [`helio_proto::frame::INLINE_MAX`] bytes.
    Inline(Vec<u8>),
    /// A serialized exception.
    Error(Vec<u8>),
    /// In this node's object store.
    Stored {
        /// The length of the value, in bytes.
        size: u64,
        /// The address of this node.
        location: NodeAddress,
    },
}

/// The end of a call: its values, or an error in their place.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The value of each return.
    pub returns: Vec<Outgoing>,
    /// Whether it raised (then each return is the error).
    pub failed: bool,
    /// Whether the exception is one that the call's options retry.
    pub retryable: bool,
    /// The worker takes no more tasks (its `max_calls` are done).
    pub leaving: bool,
    /// For a generator: the number of its items.
    pub items: u32,
}

/// The place where a call runs: an actor, or any worker of a class.
#[derive(Clone, Debug)]
pub enum Target {
    /// On any worker of this class.
    Class(Arc<LeaseClass>),
    /// The call runs in this actor.
    Actor(ActorId),
}

/// A call.
#[derive(Debug)]
pub struct TaskSpec {
    /// The id of the call.
    pub id: TaskId,
    /// The template: the function or method that is called.
    pub template: Arc<Template>,
    /// The actor, or the kind of worker, that runs the call.
    pub target: Target,
    /// The arguments.
    pub args: CallArgs,
    /// Number of values that the call returns, or [`STREAMING`].
    pub returns: u32,
    /// The options of the call's retries.
    pub retry: Retry,
    /// The call in which it was made, for recursive cancellation.
    pub parent: TaskId,
    /// Methods: the object that stands for the actor's handles. A call keeps its actor alive even if
    /// the handle is dropped at once.
    pub handle: Option<ObjectId>,
}

/// An actor to be made.
#[derive(Debug)]
pub struct Creation {
    /// The actor's specification; the arguments are filled in when they are known.
    pub spec: ActorSpec,
    /// The constructor's arguments.
    pub args: CallArgs,
    /// The object that stands for its handles; `None`: it is detached, its life is its own.
    pub handle: Option<ObjectId>,
}

impl CallArgs {
    /// The references that a call waits for.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.stored_body.iter().chain(&self.deps).copied()
    }

    pub(crate) fn held(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.stored_body.iter().chain(&self.deps).chain(&self.contained).copied()
    }
}

impl TaskSpec {
    /// Returns the number of the call's objects that are known from the start.
    pub(crate) fn return_count(&self) -> u32 {
        if self.returns == STREAMING { 1 } else { self.returns }
    }

    pub(crate) fn return_ids(&self) -> impl Iterator<Item = ObjectId> + use<> {
        let task = self.id;
        (1..=self.return_count()).map(move |index| task.object(index))
    }

    /// Returns the ids of the call's returns and, for a generator, of the given number of items.
    pub(crate) fn made(&self, items: u32) -> impl Iterator<Item = ObjectId> + use<> {
        let task = self.id;
        self.return_ids().chain((0..items).map(move |index| task.object(FIRST_ITEM + index)))
    }

    pub(crate) fn held(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.args.held().chain(self.handle)
    }

    pub(crate) fn is_method(&self) -> bool {
        matches!(self.target, Target::Actor(_))
    }

    pub(crate) fn awaited(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.args.awaited()
    }
}

/// The stand-in "task" under which a constructor waits for its arguments.
pub(crate) fn creation_task(actor: ActorId) -> TaskId {
    TaskId::new(0, actor)
}

/// The object that stands for an actor's handles.
#[must_use]
pub fn handle_object(actor: ActorId) -> ObjectId {
    creation_task(actor).object(0)
}

/// The actor for whose handles an object stands, if it does.
pub(crate) fn actor_of_handle(object: ObjectId) -> Option<ActorId> {
    let actor = object.task().actor();
    (object == handle_object(actor)).then_some(actor)
}
