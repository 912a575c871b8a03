//! How other machines are reached: directly, or from a machine outside the cluster through an entrance on the own one,
//! behind which a gateway of the cluster makes the connection.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};

use helio_proto::frame;
use helio_proto::gateway::Dial;

static CURRENT: Mutex<Option<Entrance>> = Mutex::new(None);

#[derive(Debug, Clone)]
struct Entrance {
    port: u16,
    token: String,
}

/// How a connection to another machine is made.
#[derive(Debug, Clone)]
pub struct Detour {
    /// Where to connect instead.
    pub at: SocketAddr,
    /// What to send first.
    pub preface: Vec<u8>,
}

/// From now on this process reaches other machines through the entrance at that port of this one, which asks for the
/// token.
pub fn take(port: u16, token: &str) {
    set(Some(Entrance { port, token: token.to_owned() }));
}

/// From now on this process reaches other machines directly.
pub fn leave() {
    set(None);
}

fn set(entrance: Option<Entrance>) {
    *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = entrance;
}

/// The way to `host:port`; `None`: directly.
#[must_use]
pub fn to(host: &str, port: u16) -> Option<Detour> {
    let entrance = CURRENT.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
    let dial = Dial { token: entrance.token, host: host.to_owned(), port: u32::from(port) };
    let mut preface = Vec::new();
    frame::put(&mut preface, |out| out.extend_from_slice(&helio_proto::encode(&dial)));
    Some(Detour { at: (Ipv4Addr::LOCALHOST, entrance.port).into(), preface })
}
