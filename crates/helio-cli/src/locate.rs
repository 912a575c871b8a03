//! The choice of the daemon of this machine that speaks for a cluster.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use helio_config::table::ADDRESS;

use crate::own_ip::own_ip;
use crate::session::{self, Found};
use crate::{folder, names, observer, output, values};

/// Time that a node that was started a moment ago may take to join.
const JOIN_MAX: Duration = Duration::from_secs(1);
const JOIN_PAUSE: Duration = Duration::from_millis(20);

/// `locate`: what drivers need to know of that daemon.
pub(crate) fn run(address: &str) -> Result<(), String> {
    let found = choose(&folder::temp_dir(None), Some(address))?;
    output::line(&found.ready().to_string());
    Ok(())
}

/// The session through which the cluster is asked: of that address, else of the one in the environment,
/// else of the cluster that was started last on this machine.
pub(crate) fn choose(temp_dir: &Path, address: Option<&str>) -> Result<Found, String> {
    let named = address.map(str::to_owned).or_else(|| helio_env::settings::text(&ADDRESS));
    let named = named.filter(|address| !matches!(address.as_str(), "" | "auto" | "local"));
    let mut alive = session::find(temp_dir);
    alive.retain(|found| found.is_alive() && !found.text("node_socket").is_empty());
    let wanted = named.clone().or_else(|| folder::current_cluster(temp_dir));
    // The head knows most: it answers even when the way between the nodes is broken.
    alive.sort_by_key(|found| !found.is_head());
    let of_wanted = |wanted: &str| {
        alive.iter().position(|found| match of_server(wanted) {
            Some(server) => is_same(found.text("webui_url"), server),
            None => is_same(found.text("control_address"), wanted),
        })
    };
    let index = match wanted.as_deref().and_then(of_wanted) {
        Some(index) => Some(index),
        None => match &named {
            Some(url) if of_server(url).is_some() => return Err(not_here(url)),
            Some(named) => return elsewhere(named),
            None => (!alive.is_empty()).then_some(0),
        },
    };
    index.map(|index| alive.swap_remove(index)).ok_or_else(|| {
        "ConnectionError: Could not find any running Ray instance. Please specify the one to connect to by setting \
         the `--address` flag or `RAY_ADDRESS` environment variable, or start one here with `ray start --head`."
            .to_owned()
    })
}

/// Host and port of the URL of a head's HTTP server, which Ray's commands take as an address, too.
fn of_server(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))?;
    rest.split('/').next()
}

fn not_here(url: &str) -> String {
    format!(
        "ConnectionError: The head of no cluster on this machine answers at {url}. Give the host:port by which this \
         machine joined the cluster, run this on the head's machine, or ask from Python: \
         ray.util.state.list_nodes(address={url:?})."
    )
}

/// The session of a daemon on this machine whose folder is not where one looks first: the cluster
/// knows where. A node that has just started may not have joined yet, so it is asked for a while.
fn elsewhere(address: &str) -> Result<Found, String> {
    let (host, port) = values::address(address)?;
    let token = token()?;
    let began = Instant::now();
    loop {
        let mut nodes = observer::cluster(&host, port, &token, None)?.nodes;
        nodes.sort_by_key(|node| !node.is_head);
        let folders =
            nodes.iter().filter(|node| node.alive).map(|node| Path::new(&node.session_dir));
        let here = folders.filter_map(session::look_at).find(|found| {
            // Another machine may have a folder of the same name.
            found.is_alive() && is_same(found.text("control_address"), address)
        });
        match here {
            Some(found) => return Ok(found),
            None if began.elapsed() < JOIN_MAX => thread::sleep(JOIN_PAUSE),
            None => {
                return Err(format!(
                    "ConnectionError: No node of the cluster at {address} runs on this machine. Run this on one of \
                     its nodes, or join it with `{} start --address={address}`.",
                    names::command()
                ));
            }
        }
    }
}

/// The token that an existing cluster wants.
pub(crate) fn token() -> Result<String, String> {
    let token = helio_env::token::load()
        .map_err(|error| format!("The authentication token cannot be read: {error}"))?;
    token.ok_or_else(|| {
        format!(
            "There is no authentication token. Use the one of the head node: set HELIOSTAT_AUTH_TOKEN to what \
             `{} get-auth-token` prints there.",
            names::command()
        )
    })
}

/// Whether two addresses name the same port, as seen from this machine.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    let own = own_ip().to_string();
    let here = |host: &str| host == own || matches!(host, "127.0.0.1" | "localhost" | "0.0.0.0");
    match (values::address(one), values::address(other)) {
        (Ok((one, port)), Ok((other, other_port))) => {
            port == other_port && (one == other || (here(&one) && here(&other)))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_the_server_of_a_head() {
        assert_eq!(of_server("http://localhost:8265/"), Some("localhost:8265"));
        assert_eq!(of_server("https://[::1]:8265/api?x=1"), Some("[::1]:8265"));
        assert_eq!(of_server("10.0.0.1:6379"), None);
        assert!(is_same("127.0.0.1:8265", of_server("http://localhost:8265").unwrap()));
    }
}
