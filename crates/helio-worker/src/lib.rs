//! The runtime in every driver and worker: the shell of `helio_process_state::Process`.
//!
//! The front (Python) calls [`Runtime`]; nothing here knows Python. Values are opaque bytes
//! ([`Payload`]), work comes out of [`Runtime::next_work`] and goes back through
//! [`Runtime::finish`]. What follows from what is decided in the machine; this crate has the sockets, the
//! polling, the threads that wait, and the mapped object store.
//!
//! **Whoever waits polls.** A thread that waits in `get`, `wait` or `next_work` reads the process's
//! connections itself; the net thread does so only when nobody has for a millisecond (module
//! `poll_right`). So a call's answer wakes one thread, the one that wants it. No thread of this crate
//! takes the GIL (GIL-1).
//!
//! Reading order: `api`, `runtime`, `poll_right`, `polling`, `state`, `actions`, `conn`, `connect`, `memory`, `values`,
//! `submit`, `execute`, `event_loop`, `driver`, `terminal`, `why`, `inspect`, `metrics`, `sites`.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod actions;
mod api;
pub mod chunks;
mod conn;
mod connect;
mod driver;
mod event_loop;
mod execute;
mod inspect;
mod looking;
mod memory;
pub mod metrics;
pub mod packages;
mod poll_right;
mod polling;
mod runtime;
pub mod sites;
mod state;
mod submit;
mod sync;
mod terminal;
mod values;
mod why;

pub use api::*;
pub use event_loop::LoopTurn;
pub use helio_process_state::{Lease, Readiness, Subject};
pub use memory::Pin;
pub use runtime::Runtime;
pub use values::Created;
