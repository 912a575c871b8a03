//! Where processes are reached.

use crate::id::{NodeId, WorkerId};

/// A daemon: who it is and where it listens on TCP.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct NodeAddress {
    /// The daemon's id.
    pub node_id: NodeId,
    /// The address other machines reach it at.
    pub host: String,
    /// Its TCP port.
    pub port: u32,
}

/// A driver or worker. On its own node it is reached by the UNIX socket
/// `<session>/sockets/<worker id, first 16 hex digits>`, from elsewhere by TCP.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct WorkerAddress {
    /// The process.
    pub worker_id: WorkerId,
    /// The node it runs on.
    pub node_id: NodeId,
    /// The node's address.
    pub host: String,
    /// The process's own TCP port.
    pub port: u32,
}

impl WorkerId {
    /// The file name of the worker's socket in its session's `sockets` folder.
    #[must_use]
    pub fn socket_name(&self) -> String {
        let mut name = self.hex();
        name.truncate(16);
        name
    }
}
