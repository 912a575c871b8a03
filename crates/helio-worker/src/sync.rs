//! The locks and the clock of what threads hand to each other (`poll_right`, `memory`). `tests/model` compiles those
//! files with the types of a model checker in place of these.

pub(crate) use std::sync::Arc as Shared;
pub(crate) use std::time::Instant;

pub(crate) use parking_lot::{Condvar, Mutex};
