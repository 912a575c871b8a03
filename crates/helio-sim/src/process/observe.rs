//! What a run has reached, read off the messages that a process receives and sends.

use helio_proto::decode;
use helio_proto::node::{ClientToNode, NodeToClient};
use helio_proto::peer::{Frame, STREAMING};
use helio_types::WorkerId;

use crate::core::Core;

/// A daemon's message has arrived.
pub(super) fn received(core: &mut Core, bytes: &[u8]) {
    let Ok(message) = decode::<NodeToClient>(bytes) else { return };
    let what = match message {
        NodeToClient::LeaseSpillback(_) => "spills",
        NodeToClient::RevokeLease(_) => "revocations",
        NodeToClient::NodeDied(_) => "nodes declared dead",
        NodeToClient::RoomWanted(_) => "pins asked for",
        NodeToClient::LesseeGone(_) => "lessees gone",
        NodeToClient::ObjectMissing(_) => "missing",
        NodeToClient::ObjectRefused(_) => "refused",
        _ => return,
    };
    core.facts.count(what);
}

/// The process has sent a message to a process or, `to` being `None`, to a daemon.
pub(super) fn sent(core: &mut Core, (from, to): (WorkerId, Option<WorkerId>), bytes: &[u8]) {
    let what = if let Some(to) = to {
        let frame = Frame::get(bytes);
        if let Ok(Frame::Call { task, .. }) = &frame {
            core.facts.history.sent(*task, from, to);
        }
        match frame {
            Ok(Frame::LocationLost { .. }) => "arguments recovered",
            Ok(Frame::Unstarted { .. }) => "tasks given back",
            Ok(Frame::Call { returns: STREAMING, flags, .. }) if flags.is_retry => {
                "generators run again"
            }
            _ => return,
        }
    } else {
        match decode::<ClientToNode>(bytes) {
            Ok(ClientToNode::Stays(_)) => "workers that stayed",
            Ok(ClientToNode::Blocked(_)) => "blocks",
            _ => return,
        }
    };
    core.facts.count(what);
}
