//! Connections to other machines: direct, or from a machine outside the cluster through an entrance on the own one,
//! behind which a gateway of the cluster makes the connection.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};

use helio_proto::frame;
use helio_proto::gateway::Dial;

static CURRENT: Mutex<Option<Entrance>> = Mutex::new(None);

/// A port of this machine that leads to the machines of a cluster.
#[derive(Debug, Clone)]
pub struct Entrance {
    port: u16,
    token: String,
}

/// The way around to another machine, through an entrance.
#[derive(Debug, Clone)]
pub struct Detour {
    /// The address to connect to in place of the machine's.
    pub at: SocketAddr,
    /// The bytes to send first.
    pub preface: Vec<u8>,
}

impl Entrance {
    /// The entrance at that port, which asks for the token; `None` for port 0: there is none.
    #[must_use]
    pub fn at(port: u16, token: &str) -> Option<Self> {
        (port > 0).then(|| Self { port, token: token.to_owned() })
    }

    /// The way to `host:port`.
    #[must_use]
    pub fn to(&self, host: &str, port: u16) -> Detour {
        let (host, token) = (host.to_owned(), self.token.clone());
        let dial = Dial { token, host, port: u32::from(port) };
        let mut preface = Vec::new();
        frame::put(&mut preface, |out| out.extend_from_slice(&helio_proto::encode(&dial)));
        Detour { at: (Ipv4Addr::LOCALHOST, self.port).into(), preface }
    }
}

/// From now on the daemon that this process is reaches other machines through the entrance at that port of this one,
/// which asks for the token.
pub fn take(port: u16, token: &str) {
    *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = Entrance::at(port, token);
}

/// The way of this daemon to `host:port`; `None`: directly.
#[must_use]
pub fn to(host: &str, port: u16) -> Option<Detour> {
    let entrance = CURRENT.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
    Some(entrance.to(host, port))
}
