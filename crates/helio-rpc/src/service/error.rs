//! The reasons why a connection ends or does not begin.

use std::time::Duration;

use helio_proto::frame::TooLong;
use helio_proto::hello::Refusal;

/// Time that a peer may take to say who it is.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// The reason why a connection ended or did not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system says so.
    #[error("{0}")]
    Io(#[source] std::io::Error),
    /// The peer announced a frame that is too long here.
    #[error("{0}")]
    TooLong(#[from] TooLong),
    /// The frame is not a message of the expected kind.
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
    /// More than [`HANDSHAKES_MAX`](super::HANDSHAKES_MAX) peers owe their greeting, and this one for longest.
    #[error("too many connections are being opened")]
    Crowded,
    /// The connection was to be encrypted and is not, for this reason.
    #[error("{0}")]
    Tls(String),
    /// The other side refused the connection, with its reason.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// The connection was refused here, with this reason.
    #[error("peer refused: {0}")]
    Unwelcome(String),
}

/// A refusal keeps its kind; every other error has none.
impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::Refused(refusal) => Self { text, ..refusal },
            _ => text.into(),
        }
    }
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
