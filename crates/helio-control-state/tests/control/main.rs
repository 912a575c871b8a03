//! The control service's state, event by event.

mod actors;
mod cluster;
mod desk;
