//! Connections of the daemons.
//!
//! A connection begins with the handshake ([`accept`], [`connect_tcp`], [`connect_unix`]) and is then
//! a [`Reader`] and a [`Writer`]. A listener lets its peers in through a [`Gate`]; one that accepts for
//! other processes too hands an [`Arrival`] over.
//!
//! **AUTH-1** Nothing of a peer is believed before its [`Hello`](helio_proto::hello::Hello) is: until then a frame has at most
//! `HELLO_MAX` bytes, the whole handshake [`HANDSHAKE_MAX`], and only [`HANDSHAKES_MAX`] peers may be
//! in it at a time: the oldest makes room.
//!
//! **LIMIT-1** What waits to be written is bounded in bytes ([`QUEUE_MAX`]); a full queue hands the
//! message back to its sender, who knows what to drop.

mod arrival;
mod bulk;
mod gate;
mod handshake;
mod read;
mod secure;
mod stream;
mod write;

pub use arrival::Arrival;
pub use bulk::{Memory, Target};
pub use gate::{Gate, HANDSHAKES_MAX};
pub use handshake::{
    HANDSHAKE_MAX, accept, connect_by_token, connect_directly, connect_encrypted, connect_tcp,
    connect_unix, listen_unix,
};
pub use read::Reader;
pub use stream::Stream;
pub use write::{Encoded, QUEUE_MAX, SendError, Writer};

use helio_proto::frame::TooLong;

/// Why a connection ended or did not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system says so.
    #[error("{0}")]
    Io(#[source] std::io::Error),
    /// The peer announced a frame that is too long here.
    #[error("{0}")]
    TooLong(#[from] TooLong),
    /// The frame is no message of the expected kind.
    #[error("malformed message: {0}")]
    Malformed(#[from] prost::DecodeError),
    /// The connection ended inside a frame or inside the handshake.
    #[error("the connection ended in the middle of a message")]
    Truncated,
    /// The peer closed the connection without having said anything.
    #[error("the peer hung up without a word")]
    Left,
    /// The peer took longer than [`HANDSHAKE_MAX`] to say who it is.
    #[error("no greeting within {} s", HANDSHAKE_MAX.as_secs())]
    Silent,
    /// More than [`HANDSHAKES_MAX`] peers owe their greeting, and this one for longest.
    #[error("too many connections are being opened")]
    Crowded,
    /// The connection was to be encrypted and is not, for this reason.
    #[error("{0}")]
    Tls(String),
    /// The other side said no, and why.
    #[error("refused: {0}")]
    Refused(String),
    /// This side said no, and why.
    #[error("peer refused: {0}")]
    Unwelcome(String),
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        let of_session = error.get_ref().and_then(|inner| inner.downcast_ref::<helio_tls::Error>());
        match of_session {
            Some(helio_tls::Error(why)) => Self::Tls(why.clone()),
            None => Self::Io(error),
        }
    }
}
