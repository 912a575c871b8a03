//! Addresses of processes and nodes.

use crate::id::{NodeId, WorkerId};

/// `host:port`, with an IPv6 address in brackets.
///
/// ```
/// use helio_types::address::host_port;
///
/// assert_eq!(host_port("10.0.0.1", 6379), "10.0.0.1:6379");
/// assert_eq!(host_port("::1", 6379), "[::1]:6379");
/// ```
#[must_use]
pub fn host_port(host: &str, port: impl std::fmt::Display) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// The host, without brackets, and the rest behind the last colon.
///
/// ```
/// use helio_types::address::split_host_port;
///
/// assert_eq!(split_host_port("head:6379"), Some(("head", "6379")));
/// assert_eq!(split_host_port("[::1]:6379"), Some(("::1", "6379")));
/// assert_eq!(split_host_port("::1"), None, "a bare IPv6 address has no port");
/// ```
#[must_use]
pub fn split_host_port(text: &str) -> Option<(&str, &str)> {
    let (host, port) = text.rsplit_once(':')?;
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(host) => Some((host, port)),
        // A bare IPv6 address is no host and port.
        None => (!host.contains(':')).then_some((host, port)),
    }
}

/// A daemon: who it is and where it listens on TCP.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct NodeAddress {
    /// The daemon's id.
    pub node_id: NodeId,
    /// The address other machines reach it at.
    pub host: String,
    /// The TCP port; 0: there is none.
    pub port: u32,
}

/// A driver or worker. On its own node it is reached by the UNIX socket
/// `<session>/sockets/<worker id, first 16 hex digits>`, from elsewhere through its node's TCP port.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct WorkerAddress {
    /// The process.
    pub worker_id: WorkerId,
    /// The node it runs on.
    pub node_id: NodeId,
    /// The node's address.
    pub host: String,
    /// The node's TCP port; 0: other machines do not reach the process.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_address_stands_in_brackets_before_its_port() {
        for (host, text) in [("10.0.0.1", "10.0.0.1:7"), ("fd00::1", "[fd00::1]:7")] {
            assert_eq!(host_port(host, 7), text);
            assert_eq!(split_host_port(text), Some((host, "7")));
        }
        assert_eq!(split_host_port("fd00::1"), None);
    }
}
