//! The control service: a shell around [`helio_control_state`].
//!
//! Nodes connect over its socket file, those of other machines by way of the daemon, which accepts for it
//! (decision 37); each connection has a task that reads. Everything meets in one loop over a
//! closed list of inputs ([`service`]), which applies them to the machine, makes durable what must be,
//! and sends. Clients and observers never connect here: they ask through their node's daemon.
//!
//! Start: 1. the store is opened and read, 2. the machine recovers from it, 3. the socket is opened. So a
//! node that gets through finds what was acknowledged before.
//! A store that other heads reach as well is this one's for as long as it knows that. When it does not, it falls silent at
//! once: connections end, and nothing is answered; nodes go on without a head. When it knows again, it starts anew from
//! what the store holds; when another head has the store, the daemon ends.
//!
//! End (`StopCluster`, or [`Handle::stop`]): 1. every node is told, 2. what was sent is written out, at
//! most [`FLUSH_MAX`], 3. connections close. A node that was not reached notices the closed connection.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod calls;
mod connections;
mod input;
mod service;

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use helio_storage::Storage;
use helio_tls::Identity;
use helio_types::NodeId;

pub use helio_control_state::Health;
pub use service::{Handle, run};

/// Time that nodes have to take the news that the cluster ends.
pub const FLUSH_MAX: Duration = Duration::from_secs(1);

/// Maximum number of inputs that wait for the loop; beyond it the readers of connections wait.
pub const INPUTS_MAX: usize = 4096;

/// Maximum number of inputs that are applied before their changes are made durable and their
/// messages sent.
pub const BATCH_MAX: usize = 1024;

/// The options of the control service.
pub struct Options {
    /// The socket file to listen at: nodes of this machine connect there, and the daemon hands over the
    /// connections of others.
    pub socket: PathBuf,
    /// The address at which other machines reach this one: its link tells whether this head is cut off.
    pub host: IpAddr,
    /// The port at which they reach it.
    pub port: u16,
    /// The cluster's token.
    pub token: String,
    /// The certificate for other machines, which have to encrypt; `None`: they speak in the clear.
    pub identity: Option<Arc<Identity>>,
    /// The session's name, which joining nodes take over.
    pub session_name: String,
    /// The limits by which the control service tells whether nodes are alive.
    pub health: Health,
    /// The store of the durable state.
    pub storage: Box<dyn Storage>,
    /// Nodes of before that are known to have ended: the head's own, when its daemon died.
    pub gone: Vec<NodeId>,
}

/// The control service takes connections.
#[derive(Debug)]
pub struct Ready {
    /// The session's name: that of before, when the store held one.
    pub session_name: String,
    /// The handle that ends the service.
    pub handle: Handle,
}

/// The reason why the control service did not start, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The socket cannot be made, or the runtime.
    #[error("cannot listen at {}: {source}", socket.display())]
    Listen {
        /// The path of the socket file.
        socket: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Durable state could not be read or written: nothing can be acknowledged any more.
    #[error("durable state: {0}")]
    Storage(#[from] helio_storage::Error),
}
