//! The node daemon: a shell around [`helio_node_state`].
//!
//! One thread runs one loop ([`core`]) over a closed set of inputs; every other file of the crate owns
//! one kind of thing that the loop talks to and turns it into inputs. The loop hands each input to the
//! state machine and carries out what it returns.
//!
//! **NODE-1** The daemon never runs user code and never loads Python: workers are processes, made by
//! the zygote ([`zygote`]), and what passes through is bytes.
//!
//! Start: sockets are bound, the memory file is made, the zygote is started and not waited for; when the
//! control service has accepted the node, and so shows it to everyone, `on_ready` is called. End, in this order, for whatever reason: (1) the control service is
//! told; (2) workers and zygote are killed, then every child that is left; (3) the socket files go.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod agent;
mod bulk;
mod control;
mod core;
mod door;
mod gpus;
mod hardware;
mod head;
mod http;
mod input;
mod listen;
mod log_server;
mod logs;
mod making;
mod memory;
mod metrics;
mod options;
mod output_files;
mod packages;
mod peers;
mod processes;
mod spill;
mod start;
mod zygote;

pub use head::Head;
pub use options::{GuestNode, Options, Reach, Ready};
pub use output_files::Bounds;

/// The reason why the daemon could not start, or had to end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The port is taken or the address is not this machine's.
    #[error("cannot listen on {host}:{port}: {source}")]
    Listen {
        /// The address that was to be listened on.
        host: String,
        /// The port that was to be listened on.
        port: u16,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file or folder of the session.
    #[error("{path}: {source}")]
    Path {
        /// The file or folder that could not be used.
        path: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The memory for the object store cannot be had.
    #[error("the object store of {size} bytes: {source}")]
    Store {
        /// The size of the store, in bytes.
        size: u64,
        /// The error of the operating system.
        source: helio_store::Error,
    },
    /// The control service did not accept the node, or it was told to end before that.
    #[error("the node ended before it was ready: {0}")]
    NotReady(String),
    /// Any other error of the operating system.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// The end of a daemon that was ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The daemon was told to end.
    Over,
    /// The cluster goes on without this node, for this reason; it may join again as another one.
    Rejoin(String),
}

/// Runs a node's daemon until it is told to end; `on_ready` is called once, when clients can connect and
/// the cluster knows the node.
///
/// # Errors
/// When it cannot start, or ends before it was ready.
pub fn run(options: Options, on_ready: impl FnOnce(&Ready)) -> Result<Ended, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (daemon, ready) = start::start(options).await?;
        daemon.run(|| on_ready(&ready)).await
    })
}
