//! The one TCP port of a node, and what a session of one machine has instead of it.
//!
//! Nodes of a cluster listen at every address of their machine (containers and hosts with several addresses are
//! reached at others than they know of), a node at a loopback address only there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use helio_types::address::host_port;
use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

/// The port number of a node, with the socket that listens at it or only keeps it taken.
#[derive(Debug)]
pub(crate) enum Port {
    /// The port is open: other machines connect there.
    Open(Arc<TcpListener>),
    /// A port without a listener: the number only names the session, and no other gets it while the socket is open.
    Name { number: u16, _socket: OwnedFd },
}

impl Port {
    /// Opens the port; 0: any.
    pub(crate) fn open(host: &str, port: u16, is_head: bool) -> Result<Self, String> {
        let given = (host, port).to_socket_addrs().map_err(|error| format!("{host:?}: {error}"))?;
        let given = given.map(|address| address.ip()).next();
        let given = given.ok_or_else(|| format!("{host:?} has no address"))?;
        let at = match given {
            // A cluster of several nodes on one machine is reached at its loopback address, too.
            ip if ip.is_loopback() && !is_head => ip,
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let listener = TcpListener::bind((at, port)).map_err(|error| match error.kind() {
            std::io::ErrorKind::AddrInUse => format!("{} is in use", SocketAddr::new(at, port)),
            _ => format!("cannot listen on {}: {error}", host_port(host, port)),
        })?;
        listener.set_nonblocking(true).map_err(|error| error.to_string())?;
        Ok(Self::Open(Arc::new(listener)))
    }

    /// A number for a session that no other machine reaches.
    pub(crate) fn name() -> Result<Self, String> {
        let reserve = || {
            let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
            bind(&socket, &SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))?;
            let number = SocketAddr::try_from(getsockname(&socket)?)?.port();
            Ok::<_, rustix::io::Errno>(Self::Name { number, _socket: socket })
        };
        reserve().map_err(|error| format!("no number for the session: {error}"))
    }

    pub(crate) fn number(&self) -> u16 {
        match self {
            // The system knows where a socket of its own listens.
            Self::Open(listener) => listener.local_addr().map_or(0, |address| address.port()),
            Self::Name { number, .. } => *number,
        }
    }

    pub(crate) fn listener(&self) -> Option<Arc<TcpListener>> {
        match self {
            Self::Open(listener) => Some(Arc::clone(listener)),
            Self::Name { .. } => None,
        }
    }
}
