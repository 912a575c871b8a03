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
mod error;
mod gate;
mod handshake;
mod read;
mod secure;
mod stream;
mod unix;
mod write;

pub use arrival::Arrival;
pub use bulk::{Memory, Target};
pub use error::{Error, HANDSHAKE_MAX};
pub use gate::{Gate, HANDSHAKES_MAX};
pub use handshake::{
    accept, connect_by_token, connect_directly, connect_encrypted, connect_tcp, connect_unix,
};
pub use read::Reader;
pub use stream::Stream;
pub use unix::listen_unix;
pub use write::{Encoded, QUEUE_MAX, SendError, Writer};
