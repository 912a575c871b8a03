//! The control service's state, event by event.

#![allow(clippy::unwrap_used, reason = "tests")]

mod actors;
mod cluster;
mod desk;
mod disk;
mod groups;
mod logs;
mod membership;
mod views;
