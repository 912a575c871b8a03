//! The node state machine: what the daemon of one machine knows and decides.
//!
//! **STATE-1** [`Node`] changes only in [`Node::apply`], which is total and deterministic and returns
//! every effect. It does no I/O and reads no clock; worker ids are made from a seed that the shell
//! draws ([`Setup::seed`]).
//!
//! **NODE-1** Nothing here runs user code: specs, arguments and values pass through as bytes.
//!
//! **LIMIT-1** Every table has a bound in [`limits`]. **WHY-1** Every request that waits can say for
//! what ([`explain`](Node::info)).
//!
//! Each sub-machine is a type with private fields in a file or folder of its own. It handles events in
//! methods `on_<event>`, acts through its [`context`] and knows no other sub-machine. [`Node`] owns them
//! all and passes events from one to the other; the folder `node` has a file for each kind of event.
//!
//! Reading order: [`event`], `node`, then the sub-machines.

#![forbid(unsafe_code)]

pub mod event;
pub mod limits;

mod actors;
mod arguments;
mod bundles;
mod census;
mod clients;
mod cluster;
mod contact;
mod context;
mod control_calls;
mod drain;
mod environments;
mod exits;
mod gpus;
mod groups;
mod inspections;
mod jobs;
mod kept;
mod keys;
mod last_words;
mod leases;
mod ledger;
mod liveness;
mod memory;
mod node;
mod owners;
mod pool;
mod preload;
mod setup;
mod store;
mod timers;

pub use census::Census;
pub use event::{Action, Conn, DiskError, Event, Exit, Spawn};
pub use memory::MemoryUse;
pub use node::Node;
pub use setup::Setup;
