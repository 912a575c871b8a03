//! Events and actions of the machine of a process.

use std::sync::Arc;

use helio_owner_state::{Event as OwnerEvent, Outcome, Outgoing};
use helio_proto::control::ControlRequest;
use helio_proto::inspect::{Answer, Asked, Question};
use helio_proto::node::{ClientToNode, LogLine, Notice};
use helio_types::{ActorId, ObjectId, TaskId, WorkerAddress};

use crate::links::Peer;
use crate::questions::Subject;

/// An event, as the shell tells the machine.
#[derive(Debug)]
pub enum Event<'a> {
    /// A connection was opened from outside, and has to greet.
    Opened {
        /// The link's number, from [`crate::Links::mint`].
        link: u64,
    },
    /// A process opened a connection and proved that it belongs to the cluster.
    Accepted {
        /// The link's number, from [`crate::Links::mint`].
        link: u64,
        /// The process at its end.
        from: WorkerAddress,
        /// The connector's [`crate::Links::epoch`] at the time it connected.
        epoch: u32,
    },
    /// The other end of a connection that this process opened has answered the greeting.
    Greeted {
        /// The link.
        link: u64,
    },
    /// A connection could not be made.
    Unreached {
        /// The link.
        link: u64,
    },
    /// A connection ended.
    Closed {
        /// The link.
        link: u64,
        /// The shell has handed in all that the other end had sent.
        is_complete: bool,
    },
    /// A frame arrived.
    Frame {
        /// The link.
        link: u64,
        /// The frame without its length.
        bytes: &'a [u8],
    },
    /// The shell has handed in all that had arrived on the link when [`Action::Drain`] was carried
    /// out.
    Drained {
        /// The link.
        link: u64,
    },
    /// The front did something that concerns objects, calls, actors or streams that this process owns.
    Owner(OwnerEvent),
    /// The front dropped handles of these objects.
    Dropped(&'a [ObjectId]),
    /// The last views of these pinned objects were dropped.
    Released(Vec<ObjectId>),
    /// The front asks the control service; the answer is for `request`.
    Ask {
        /// From [`crate::Process::mint_request`].
        request: u64,
        /// The question.
        message: Box<ControlRequest>,
    },
    /// The front tells the control service something whose answer does not matter.
    Tell(Box<ControlRequest>),
    /// The front asks the control service for something that becomes an object, of which it holds one
    /// handle.
    Promise {
        /// A fresh id.
        object: ObjectId,
        /// The question.
        message: Box<ControlRequest>,
        /// The object's value when the answer is not a refusal.
        value: Vec<u8>,
    },
    /// A thread waits to hear whether the name of an actor that it is about to create was free; the
    /// answer is for `request`.
    AwaitCreation {
        /// From [`crate::Process::mint_request`].
        request: u64,
        /// The actor.
        actor: ActorId,
    },
    /// The front is done with the extent that it was granted for an object.
    Written {
        /// The object.
        object: ObjectId,
        /// Whether it is written whole: no byte changes any more (SHM-1). Otherwise the extent is given back.
        is_whole: bool,
    },
    /// The front wants room in the object store; the answer is for `request`.
    Create {
        /// From [`crate::Process::mint_request`].
        request: u64,
        /// The object that is to be written.
        object: ObjectId,
        /// The size of the object, in bytes.
        size: u64,
    },
    /// The front asks for rows of the state API; the answer is for `request`.
    Inspect {
        /// From [`crate::Process::mint_request`].
        request: u64,
        /// The question.
        question: Question,
        /// Only the processes of this node are asked.
        own_node_only: bool,
    },
    /// The front asks what something waits for; the answer is for `request`.
    Explain {
        /// From [`crate::Process::mint_request`].
        request: u64,
        /// The object, call or actor that is waited for.
        subject: Subject,
    },
    /// The front waits until the daemon confirms a message that carries `request`.
    Confirm {
        /// From [`crate::Process::mint_request`].
        request: u64,
        /// The message.
        message: Box<ClientToNode>,
    },
    /// The answer to [`Action::Report`].
    Report {
        /// The daemon's request.
        request: u64,
        /// The rows.
        answer: Box<Answer>,
    },
    /// The front tells the daemon something.
    TellNode(Box<ClientToNode>),
    /// The front has run a call.
    Finished {
        /// The call.
        task: TaskId,
        /// The outcome of the call.
        outcome: Outcome,
    },
    /// A generator that the front runs has made an item.
    ItemMade {
        /// The call.
        task: TaskId,
        /// The index of the item, from 0.
        index: u32,
        /// The item.
        item: Outgoing,
    },
    /// A call of an actor that runs several at once has found its place among them.
    Runs(TaskId),
    /// A thread has waited for longer than a moment.
    Blocked {
        /// The thread.
        thread: u64,
        /// The object that it lacks, if it waits for one.
        awaited: Option<ObjectId>,
    },
    /// A thread that was blocked goes on.
    Unblocked {
        /// The thread.
        thread: u64,
    },
    /// A thread of the front asks that the process end; the main loop is handed [`crate::Work::Exit`].
    AskExit {
        /// The cause that the cluster is told.
        reason: String,
    },
    /// Time has passed; see [`crate::Process::next_tick`].
    Tick,
}

/// An effect for the shell to carry out. What goes over links is not among the actions: it stands
/// in the links' output.
#[derive(Debug)]
pub enum Action {
    /// Open a connection, which [`Event::Greeted`], [`Event::Unreached`] or [`Event::Closed`] answers.
    Connect {
        /// The link.
        link: u64,
        /// The other end.
        to: Peer,
    },
    /// End a connection that has not greeted, as if its other end had; [`Event::Closed`] follows.
    Refuse {
        /// The link.
        link: u64,
        /// The reason, for the log.
        reason: &'static str,
    },
    /// Close the connection; the machine knows that the link is over.
    Close {
        /// The link.
        link: u64,
        /// The fault of the connection; `None`: none.
        reason: Option<String>,
    },
    /// Hand in everything that has arrived on the link, then [`Event::Drained`]: the process at its end
    /// has died, and what it said before comes first.
    Drain {
        /// The link.
        link: u64,
    },
    /// Views of pinned objects may have been dropped: hand in [`Event::Released`] before anything else.
    CollectReleased,
    /// Interrupt the call if it runs on a thread that can be interrupted.
    Interrupt(TaskId),
    /// The process must end even if the user's code does not let go of the main thread.
    ForceExit {
        /// The cause that the cluster is told.
        reason: String,
    },
    /// The session is over for this process.
    End {
        /// The cause, for the user.
        reason: String,
    },
    /// Lines that workers of this driver's job printed.
    ShowLines(Vec<LogLine>),
    /// A sentence for the user.
    Notify(Notice),
    /// Show an exception that went away without anybody having seen it.
    ShowUnseen(Arc<Vec<u8>>),
    /// Make the rows that the daemon asks for; [`Event::Report`] follows.
    Report(Asked),
    /// The process is about to end: tell the daemon what is known of calls.
    LastWords,
    /// Much memory is free that was in use: the system can have it back.
    ReturnMemory,
}

/// Changes for threads that wait, since the shell looked last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Signals {
    /// A change happened that a waiting thread may wait for.
    pub news: bool,
    /// An event loop has to look: a watched object is ready.
    pub wake_loop: bool,
    /// Work arrived.
    pub work: bool,
}
