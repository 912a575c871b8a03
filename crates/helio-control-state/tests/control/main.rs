//! The control service's state, event by event.

#![allow(clippy::unwrap_used, reason = "tests")]

mod actors;
mod cluster;
mod disk;
mod groups;
mod harness;
mod logs;
mod membership;
mod views;
