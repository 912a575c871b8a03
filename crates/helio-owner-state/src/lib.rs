//! The owner state machine: what a driver or worker knows of its objects, calls, leases and actors.
//!
//! **STATE-1** [`Owner`] changes only in [`Owner::apply`], which is total and deterministic and
//! returns every effect as an [`Action`]. **LAYER-1** Time arrives as an argument, in microseconds;
//! there is no I/O, clock or randomness here.
//!
//! **OWN-1** Every object has one owner: the process that called `.remote()` or `put`. It alone
//! knows the value's place, who borrows the object, and how to make it again. A process that holds a
//! reference to somebody else's object is a *borrower* and has told the owner so. The owner lets go
//! when nobody holds it; when the owner dies, its borrowers read `OwnerDiedError`.
//!
//! How a reference is handed on without ever falling to zero in between:
//!
//! 1. A caller holds every reference in a call's arguments until the call's reply.
//! 2. A process that takes a reference over sends [`AddBorrow`](helio_proto::peer::Frame::AddBorrow)
//!    at once. Whatever could make the giver let go (a reply, a `RemoveBorrow`, a `ReturnsHeld`) goes
//!    out only after the owner has confirmed the borrow, or on the same connection behind it
//!    (module `borrows`).
//! 3. A worker holds the references in a call's returns until the caller says `ReturnsHeld`.
//!
//! The sub-machines keep their state to themselves and act on the outside through a context only: `objects`, `calls`,
//! `leases`, `actors`, `borrows`, `streams`, `lineages`, `history`. The folder `owner` passes events to them, and what
//! follows in one from the news of another.

#![forbid(unsafe_code)]

mod actors;
mod borrows;
mod calls;
mod check;
mod context;
mod event;
mod history;
mod lazy;
mod leases;
mod lineages;
mod objects;
mod owner;
mod past;
mod room;
mod spec;
mod streams;
mod value;
mod why;

pub use actors::Actor;
pub use check::Census;
pub use event::{Action, Event};
pub use history::without_large_function;
pub use objects::Object;
pub use owner::Owner;
pub use spec::{
    CallArgs, Creation, Outcome, Outgoing, OutgoingValue, Retry, Target, TaskSpec, handle_object,
};
pub use streams::Stream;
pub use value::Stored;
pub use why::{NextHop, Why, join, sentence, time};
