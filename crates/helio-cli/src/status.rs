//! `status`: what the cluster has and does.

use std::fs;
use std::path::Path;

use helio_config::session::CURRENT_CLUSTER_FILE;
use helio_proto::control::{ControlResponse, ListNodes};

use crate::args::Status;
use crate::clock::Moment;
use crate::session::{self, Found};
use crate::{daemon, names, observer, output, report, values};

pub(crate) fn run(args: &Status) -> Result<(), String> {
    let temp_dir = session::temp_dir(None);
    let found = choose(&temp_dir, args.address.as_deref())?;
    let token = helio_env::token::load()
        .map_err(|error| format!("The authentication token cannot be read: {error}"))?;
    let token = token.ok_or_else(|| {
        format!(
            "There is no authentication token. Use the one of the head node: `{} get-auth-token`.",
            names::command()
        )
    })?;
    let socket = Path::new(found.text("node_socket"));
    match observer::ask(socket, &token, ListNodes {}.into())? {
        ControlResponse::Nodes(nodes) if !nodes.nodes.is_empty() => {
            output::print(&report::report(&Moment::now().to_string(), &nodes, args.verbose));
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

/// The session through which the cluster is asked: of that address, else of the one in the environment,
/// else of the cluster that was started last on this machine.
pub(crate) fn choose(temp_dir: &Path, address: Option<&str>) -> Result<Found, String> {
    let set = |name| std::env::var(name).ok();
    let named = address
        .map(str::to_owned)
        .or_else(|| set("HELIOSTAT_ADDRESS"))
        .or_else(|| set("RAY_ADDRESS"));
    let named = named.filter(|address| !matches!(address.as_str(), "" | "auto" | "local"));
    let mut alive = session::find(temp_dir);
    alive.retain(|found| found.is_alive() && !found.text("node_socket").is_empty());
    let current = || fs::read_to_string(temp_dir.join(CURRENT_CLUSTER_FILE)).ok();
    let wanted = named.clone().or_else(current);
    // The head knows most: it answers even when the way between the nodes is broken.
    alive.sort_by_key(|found| !found.is_head());
    let of_wanted = |wanted: &str| {
        alive.iter().position(|found| is_same(found.text("control_address"), wanted))
    };
    let index = match wanted.as_deref().and_then(|wanted| of_wanted(wanted.trim())) {
        Some(index) => Some(index),
        None => match &named {
            Some(named) => return Err(not_here(named)),
            None => (!alive.is_empty()).then_some(0),
        },
    };
    index.map(|index| alive.swap_remove(index)).ok_or_else(|| {
        "ConnectionError: Could not find any running Ray instance. Please specify the one to connect to by setting \
         the `--address` flag or `RAY_ADDRESS` environment variable."
            .to_owned()
    })
}

fn not_here(address: &str) -> String {
    match values::address(address) {
        Err(malformed) => malformed,
        Ok(_) => format!(
            "ConnectionError: No node of a cluster at {address} runs on this machine. Run this on one of its nodes, or \
             join it with `{} start --address={address}`.",
            names::command()
        ),
    }
}

/// Whether two addresses name the same port, as seen from this machine.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    let own = daemon::own_ip().to_string();
    let here = |host: &str| host == own || matches!(host, "127.0.0.1" | "localhost" | "0.0.0.0");
    match (values::address(one), values::address(other)) {
        (Ok((one, port)), Ok((other, other_port))) => {
            port == other_port && (one == other || (here(&one) && here(&other)))
        }
        _ => false,
    }
}
