//! `status`: what the cluster has and does.

use std::path::Path;

use helio_proto::control::{ControlResponse, ListNodes};

use crate::args::Status;
use crate::clock::Moment;
use crate::plans::Plans;
use crate::{folder, locate, observer, output, report};

pub(crate) fn run(args: &Status) -> Result<(), String> {
    let temp_dir = folder::temp_dir(None);
    let found = locate::choose(&temp_dir, args.cluster.address.as_deref())?;
    let token = locate::token()?;
    let socket = Path::new(found.text("node_socket"));
    match observer::ask(socket, &token, ListNodes {})? {
        ControlResponse::Nodes(nodes) if !nodes.nodes.is_empty() => {
            let plans = Plans::read(|request| observer::ask(socket, &token, request));
            let now = Moment::now().to_string();
            output::print(&report::report(&now, &nodes, &plans, args.verbose));
            Ok(())
        }
        _ => {
            output::line(
                "No cluster status. It may take a few seconds for the cluster to be ready.",
            );
            Ok(())
        }
    }
}
