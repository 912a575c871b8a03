//! Proof of scale: the control service's machine, the one that ships, with up to 10,000 nodes and a
//! million actors, in simulated time.
//!
//! The machine is real, and what a call of it costs is measured while it runs (CPU time of this thread).
//! The costs of its surroundings were measured on real processes ([`costs`]): reading and writing a
//! message, the way of a message, making state durable, starting an actor. The nodes answer control as
//! daemons do ([`cluster`]), and each keeps what a daemon keeps to answer with. Some of them have a daemon's own machine,
//! too, which hears what control tells the node ([`daemon`]): each knows every other node, and 10,000 would need 100 million entries.
//!
//! ```text
//! cargo xtask scale --measure        writes the costs of this machine
//! cargo xtask scale                  writes the figures and the pictures
//! ```
//!
//! A small version runs in `cargo test` and asserts the shape of the curves: counts of messages and of
//! steps, never times.
//!
//! Reading order: [`spread`], [`costs`], [`cluster`] and its [`agenda`], [`scenario`], [`daemon`], [`figures`], [`chart`], [`measure`], [`idle`].

#![forbid(unsafe_code)]

pub mod agenda;
pub mod chart;
pub mod cluster;
pub mod costs;
pub mod daemon;
pub mod figures;
pub mod idle;
pub mod measure;
mod nodes;
pub mod scenario;
pub mod spread;
