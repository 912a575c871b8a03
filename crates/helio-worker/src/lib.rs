//! The runtime in every driver and worker: a shell around `helio-owner-state`.
//!
//! The front (Python) calls [`Runtime`]; nothing here knows Python. Values are opaque bytes
//! ([`Payload`]), work comes out of [`Runtime::next_work`] and goes back through
//! [`Runtime::finish`].
//!
//! **Whoever waits polls.** A thread that waits in `get`, `wait` or `next_work` reads the process's
//! connections itself; the net thread does so only when nobody has for a millisecond (module
//! `duty`). So a call's answer wakes one thread, the one that wants it. No thread of this crate
//! takes the GIL (GIL-1).
//!
//! Reading order: `api`, `runtime`, `duty`, `polling`, `values`, `submit`, `execute`, `state`,
//! `actions`, `messages`, `calls`, `templates`, `inbox`, `connect`, `conn`, `why`, `inspect`, `metrics`.

#![forbid(unsafe_code)]

mod actions;
mod api;
mod calls;
mod conn;
mod connect;
mod driver;
mod duty;
mod event_loop;
mod execute;
mod inbox;
mod inspect;
mod messages;
pub mod metrics;
mod polling;
mod runtime;
mod state;
mod submit;
mod templates;
mod values;
mod why;

pub use api::*;
pub use event_loop::LoopTurn;
pub use runtime::Runtime;
pub use values::Created;
pub use why::Subject;
