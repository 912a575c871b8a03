//! `drain-node`: has a node hand over what it has, and leave.

use std::path::Path;

use helio_proto::control::{ControlResponse, DrainNode};
use helio_types::NodeId;

use crate::args;
use crate::{folder, locate, observer, output};

pub(crate) fn run(args: &args::DrainNode) -> Result<(), String> {
    let found = locate::choose(&folder::temp_dir(None), args.cluster.address.as_deref())?;
    let id = args.node_id.as_deref().unwrap_or_else(|| found.text("node_id"));
    let node_id = NodeId::from_hex(id)
        .map_err(|_| format!("{id:?} is not a node's id: it has 56 hexadecimal digits."))?;
    let grace_ms = match args.deadline_remaining_seconds {
        // On the wire 0 means "without a deadline".
        Some(0) => 1,
        Some(seconds) => seconds.saturating_mul(1000),
        None => 0,
    };
    let drain = DrainNode {
        node_id,
        reason: args.reason_message.clone().unwrap_or_default(),
        grace_ms,
        is_cancelled: args.cancel,
    };
    let socket = Path::new(found.text("node_socket"));
    match observer::ask(socket, &locate::token()?, drain)? {
        ControlResponse::Failed(failure) => {
            Err(format!("The node {id} is not drained: {}.", failure.message))
        }
        _ if args.cancel => {
            output::line(&format!("The node {id} takes work again, unless it is leaving already."));
            Ok(())
        }
        _ => {
            output::line(&format!(
                "The node {id} takes no new work. It leaves when what runs there has ended."
            ));
            Ok(())
        }
    }
}
