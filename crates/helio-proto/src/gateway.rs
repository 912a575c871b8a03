//! Between a driver's machine outside the cluster (the guest) and the gateway on the head: all connections of the
//! guest with the cluster, in both directions, as streams over one connection.
//!
//! The guest connects, greets, and sends [`Begin`]; the gateway answers [`Began`]. Then both send [`Message`]s. Those
//! of a stream are numbered by their order, and each side keeps what the other has not confirmed ([`Ack`]): when the
//! connection breaks, the guest makes another one, each side says in [`Begin`] and [`Began`] how many it has, and the
//! other sends the rest again. So the ends of a stream notice nothing but a pause. With a gateway that has taken the
//! place of one that died the guest begins anew: all streams break, and their ends connect again.
//!
//! A side may have sent [`WINDOW`] bytes of a stream that the other has not passed on ([`Credit`]).

use bytes::Bytes;
use helio_types::NodeId;

use crate::wire::messages;

/// Bytes of a stream that may be on their way.
pub const WINDOW: u64 = 1 << 20;

/// The most bytes of one [`Data`].
pub const PIECE_MAX: usize = 64 << 10;

messages! {
    /// Guest → gateway, first on each connection.
    pub struct Begin {
        /// The session that goes on; empty: a new one.
        1 session: Vec<u8>,
        /// Number of the session's messages that have come.
        2 received: u64,
        /// The guest's node: by it the cluster's processes name the guest.
        3 node_id: NodeId,
        /// The Python that the driver runs, such as `3.12.4`; empty: not known.
        4 python: String,
    }
    /// Gateway → guest, the answer.
    pub struct Began {
        /// Empty, or why not and what to do about it.
        1 refused: String,
        /// The session's secret name.
        2 session: Vec<u8>,
        /// Number of the session's messages that have come.
        3 received: u64,
        /// The head's address, as the cluster's machines know it.
        4 host: String,
        5 port: u32,
        /// Milliseconds that the gateway keeps a session without a connection.
        6 grace_ms: u64,
        /// The id of this gateway: another one, at the same address, has none of the sessions of the one before.
        7 gateway: Vec<u8>,
    }
    /// A stream begins: to that address; from the gateway: to the guest's node.
    pub struct Open { 1 stream: u64, 2 host: String, 3 port: u32 }
    /// Bytes of a stream.
    pub struct Data { 1 stream: u64, 2 bytes: Bytes }
    /// Tells the number of further bytes of the stream that have been passed on.
    pub struct Credit { 1 stream: u64, 2 bytes: u64 }
    /// The sender's side of the stream has ended.
    pub struct End { 1 stream: u64 }
    /// The stream is broken, in both directions.
    pub struct Reset { 1 stream: u64 }
    /// Tells the number of numbered messages that have come. It has no number itself; it also answers
    /// [`Ping`].
    pub struct Ack { 1 received: u64 }
    /// Asks for an [`Ack`]: whether the connection still works. It has no number.
    pub struct Ping {}
    /// Guest → gateway: the session is over, and all its streams. It has no number.
    pub struct Leave {}
    /// The begin of a connection to the guest's own entrance: its destination.
    pub struct Dial { 1 token: String, 2 host: String, 3 port: u32 }
    /// A message of either side after the beginning.
    pub enum Message {
        1 Open(Open),
        2 Data(Data),
        3 Credit(Credit),
        4 End(End),
        5 Reset(Reset),
        6 Ack(Ack),
        7 Ping(Ping),
        8 Leave(Leave),
    }
}

impl Message {
    /// Whether it counts among those that are confirmed and, after a break, sent again.
    #[must_use]
    pub fn is_numbered(&self) -> bool {
        // An Ack with a number would have to be confirmed by another one, without end.
        !matches!(self, Self::Ack(_) | Self::Ping(_) | Self::Leave(_) | Self::Unknown)
    }

    /// Returns the number of bytes that the message takes.
    #[must_use]
    pub fn length(&self) -> usize {
        prost::Message::encoded_len(self)
    }
}
