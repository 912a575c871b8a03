//! The gateway: a driver's machine outside the cluster (the *guest*: a laptop, a notebook's server) takes part in it
//! through one port of the head (decision 0052).
//!
//! ```text
//!   driver ─┐ entrance                                                    ┌─▶ daemons, workers, control service
//!   guest's ├─▶ [`guest`] ══ one connection, made again when it breaks ══ [`server`]
//!   daemon ◀┘                                                             └◀─ head's port: whom is it for? a guest
//! ```
//!
//! The guest runs an ordinary driver and an ordinary daemon; each of their connections with the cluster
//! is a stream of a [`session`]. Neither end of a stream notices that the connection below broke, as long as it comes
//! back within the grace period.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod guest;
mod link;
pub mod server;
mod session;

use std::time::Duration;

/// Time between two questions of each side whether the connection still works.
const PING: Duration = Duration::from_secs(3);

/// Silence after which the connection is given up.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// Time that a connection to another machine, or to the gateway, may take to be made.
const DIAL_MAX: Duration = Duration::from_secs(10);
