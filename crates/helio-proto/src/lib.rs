//! Wire messages and framing; encode and decode on bytes, no sockets.
//!
//! **WIRE-1** Only the types of this crate cross a process boundary. Every connection starts with
//! [`hello`]; after it, frames of [`frame`]. The body of a frame is either a Protobuf message
//! ([`node`], [`control`], [`cluster`], [`group`]) or, between drivers and workers, a hot frame of fixed layout
//! ([`peer`]). Unknown Protobuf fields are skipped and missing ones take their default, so that
//! neighbouring releases understand each other.
//!
//! The messages of each link:
//!
//! | link | transport | messages |
//! |---|---|---|
//! | driver, worker ↔ their node's daemon (and daemons that lend workers) | UNIX, TCP | [`node::ClientToNode`], [`node::NodeToClient`] |
//! | driver, worker ↔ driver, worker | UNIX, TCP | [`peer::Frame`] |
//! | daemon ↔ control service | TCP | [`cluster::NodeToControl`], [`cluster::ControlToNode`] |
//! | daemon ↔ daemon | TCP | [`cluster::NodeToNode`] |
//! | a driver's machine outside the cluster ↔ gateway | TCP | [`gateway::Message`] |
//! | ingress of Serve ↔ replica | UNIX, TCP | [`serve`] |

#![forbid(unsafe_code)]

mod opcode;
mod wire;

pub mod cluster;
pub mod columns;
pub mod control;
pub mod document;
pub mod environment;
pub mod error;
pub mod frame;
pub mod gateway;
pub mod group;
pub mod hello;
pub mod history;
pub mod inspect;
mod labels;
pub mod logs;
pub mod node;
pub mod peer;
pub mod raw;
pub mod reader;
pub mod references;
pub mod serve;
pub mod tally;
pub mod template;

pub use bytes;
pub use wire::{Wire, decode, encode};
