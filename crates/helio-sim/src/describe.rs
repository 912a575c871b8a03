//! Descriptions of arrivals for a trace.

use helio_proto::cluster::{ControlToNode, NodeToControl, NodeToNode};
use helio_proto::decode;
use helio_proto::node::{ClientToNode, NodeToClient};
use helio_proto::peer::Frame;

use crate::net::{Kind, Net, What};

/// Maximum length of a message that is shown, in bytes.
const SHOWN_MAX: usize = 1400;

/// Returns the line for a message that arrives at a side of a link.
pub(crate) fn arrival(net: &Net, number: u64, side: usize, what: &What) -> String {
    let Some(link) = net.get(number) else { return format!("link {number}") };
    let (from, to) = (link.ends[1 - side], link.ends[side]);
    let mut text = match what {
        What::Opened => "opened".to_owned(),
        What::Closed => "closed".to_owned(),
        What::Bytes(bytes) => match (link.kind, side) {
            (Kind::Peer, _) => format!("{:?}", Frame::get(bytes)),
            (Kind::Local | Kind::Remote, 1) => show(decode::<ClientToNode>(bytes)),
            (Kind::Local | Kind::Remote, _) => show(decode::<NodeToClient>(bytes)),
            (Kind::Control, 1) => match decode::<NodeToControl>(bytes) {
                Ok(NodeToControl::Status(status)) => {
                    format!("Status, {} is free", status.info.available)
                }
                other => show(other),
            },
            (Kind::Control, _) => show(decode::<ControlToNode>(bytes)),
            (Kind::Daemon, _) => show(decode::<NodeToNode>(bytes)),
        },
    };
    if let Some((cut, _)) = text.char_indices().nth(SHOWN_MAX) {
        text.truncate(cut);
    }
    format!("{from:?} -> {to:?} #{number}: {text}")
}

fn show<T: std::fmt::Debug, E: std::fmt::Debug>(message: Result<T, E>) -> String {
    match message {
        Ok(message) => format!("{message:?}"),
        Err(error) => format!("{error:?}"),
    }
}
