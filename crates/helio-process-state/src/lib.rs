//! The machine of a process: everything that a driver or worker decides.
//!
//! ```text
//!   front ──Owner, Create, Ask, Finished, Blocked…─►┌───────────────────────────────┐──Work, Answer──► front
//!   links ──Accepted, Frame, Closed────────────────►│ links     who is where        │──Output────────► links
//!   time ───Tick───────────────────────────────────►│ requests  what is asked       │
//!                                                   │ store     what is pinned here │──Action────────► shell
//!                                                   │ executor  what runs for others│
//!                                                   │ owner     what is owned here  │
//!                                                   └───────────────────────────────┘
//! ```
//!
//! **STATE-1** [`Process::apply`] takes one event at a time and is total and deterministic. Effects come
//! out in three forms: bytes in the links' [`Output`], [`Action`]s, and [`Signals`] for threads that wait.
//! The shell carries the actions out before it hands in the next event. **LAYER-1** There is no clock,
//! socket, thread or randomness here. `helio-worker` is the shell in production; `helio-sim` runs this
//! same machine in a simulated cluster.
//!
//! Each sub-machine owns its fields: [`Links`] (connections and what both ends defined by number),
//! `requests` (the one table of pending requests), `store` (pins and fetches), `executor` (calls of
//! others), `watches` (objects that event loops wait for), `strangers` (connections without a greeting), and [`Owner`] in its own crate. [`Process`]
//! passes events between them.
//!
//! Reading order: [`event`](Event), `creation`, the folder `process`, `links`, `requests`, `executor`, `store`, `questions`, `value`,
//! `watches`, `strangers`, `ids`.

#![forbid(unsafe_code)]

mod creation;
mod event;
mod executor;
mod ids;
mod links;
mod process;
mod questions;
mod requests;
mod store;
mod strangers;
mod value;
mod watches;

pub use creation::CreationOutcome;
pub use event::{Action, Event, Signals};
pub use executor::{Call, Construct, Lease, Work};
pub use links::{Links, Output, Peer, Urgency};
pub use process::{Identity, Process};
pub use questions::Subject;
pub use requests::Answer;
pub use value::{Bytes, Memory, Payload};
pub use watches::Readiness;
