//! The inputs of the loop of the control service.

use helio_proto::cluster::NodeToControl;
use helio_rpc::service::Writer;
use helio_types::NodeId;

/// All that can come to the loop from outside.
#[derive(Debug)]
pub(crate) enum Input {
    /// A node has passed the handshake.
    Connected { node_id: NodeId, number: u64, writer: Writer },
    /// The node sent a message.
    Message { node_id: NodeId, number: u64, message: NodeToControl },
    /// The node's connection ended.
    Closed { node_id: NodeId, number: u64 },
    /// A process that asks what cluster this is.
    Observer { writer: Writer },
    /// The cluster is to end.
    Stop { reason: String },
    /// The order to end this head, while the cluster waits for another one.
    Leave,
}
