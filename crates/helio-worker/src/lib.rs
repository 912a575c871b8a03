//! The runtime in every driver and worker: a shell around `helio-owner-state`.
//!
//! The front (Python) calls [`Runtime`]; nothing here knows Python. Values are opaque bytes
//! ([`Payload`]), work comes out of [`Runtime::next_work`] and goes back through
//! [`Runtime::finish`].
//!
//! **Whoever waits polls.** A thread that waits in `get`, `wait` or `next_work` reads the process's
//! connections itself; the net thread does so only when nobody has for a millisecond (module
//! [`duty`]). So a call's answer wakes one thread, the one that wants it. No thread of this crate
//! takes the GIL (GIL-1).
//!
//! Reading order: [`api`], [`runtime`], [`state`], [`actions`], [`inbox`], [`conn`], [`duty`].

#![forbid(unsafe_code)]

mod actions;
mod api;
mod calls;
mod conn;
mod connect;
mod duty;
mod inbox;
mod messages;
mod runtime;
mod state;

pub use api::*;
pub use runtime::{Created, Runtime};
