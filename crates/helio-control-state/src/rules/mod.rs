//! The rules: what an event changes in which parts, and what is sent.
//!
//! A file may call those above it in this list, and none below it.

mod publishing;

mod actor_life;

mod actor_placement;

mod group_waiting;

mod group_placement;

mod group_life;

mod room;

mod job_life;

pub(crate) mod ending;

mod node_life;

mod draining;

mod recovery;

mod requests;

mod dispatch;
