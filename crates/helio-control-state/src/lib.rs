//! The control service's state: which nodes, jobs and actors there are, and a key-value table.
//!
//! Think of the front desk of a large hotel. Guests (drivers) and staff (nodes) report to it; it knows
//! who is in, gives every newcomer (actor) a room, and tells those who asked when somebody moves or
//! leaves. What guests do among themselves it never hears.
//!
//! **STATE-1** [`Control::apply`] is the only way to change it, is total and deterministic, and returns
//! every effect as an [`Action`]. Time comes as an argument; there are no clocks, no random numbers,
//! no hash maps whose order could differ between two runs.
//!
//! **STATE-2** What was acknowledged can be rebuilt: every [`Action::Persist`] stands before the sends
//! that rest on it (the places of a group on a single node are the exception: that node knows them),
//! [`Control::recover`] makes the state of before from the persisted entries, and
//! what is known only to the nodes (who runs where) comes back when they register again.
//!
//! **CTL-1** In steady state the control service is on no task submission, actor call or object read:
//! its events are the closed list of [`helio_proto::cluster::NodeToControl`], none of which these cause.
//! A heartbeat changes nothing but that the node is heard, and causes only the answer that it is.
//!
//! Every table is bounded (LIMIT-1), see [`helio_config::control`]; waiting actors tell what they wait
//! for (WHY-1), see [`helio_scheduler::why`].
//!
//! The parts (`nodes`, `verdict`, `jobs`, `actors`, `queue`, `subscriptions`, `groups`, `kv`, `disk`; `watches` is a part of `nodes`) each own a table with
//! private fields and know nothing of each other. The `rules` say what an event changes in which parts.
//! `docs/internals/control.md` has the pictures. Reading order: `event`, `rules`, the parts,
//! `rules::dispatch`, the other rules, `durable`.

#![forbid(unsafe_code)]

mod actors;
pub mod check;
mod disk;
mod durable;
mod event;
mod groups;
mod heartbeats;
pub mod held;
mod jobs;
mod kv;
mod log_flushes;
mod nodes;
mod outbox;
mod queue;
mod rules;
mod sets;
mod specs;
mod subscriptions;
mod verdict;
mod watches;

pub use event::{Action, Change, Event, Health, Note};
pub use rules::Control;
