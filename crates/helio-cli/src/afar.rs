//! Drivers outside the cluster: the gateway of a head, and the daemon of such a driver's machine (decision 0052).

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use helio_config::session::GATEWAY_SOCKET;
use helio_config::table::CLIENT_RECONNECT_GRACE_PERIOD;
use helio_env::settings::read;
use helio_env::{detour, random};
use helio_gateway::guest::{self, Guest};
use helio_gateway::server::{self, Handle};
use helio_node::GuestNode;
use helio_proto::hello::Refusal;
use helio_tls::Identity;
use helio_types::NodeId;
use helio_types::address::host_port;

use crate::args::Node;
use crate::port::Port;
use crate::{authority, values};

/// The port of a gateway that does not serve yet.
pub(crate) struct Gateway {
    listener: Arc<TcpListener>,
    /// The address to which drivers connect.
    pub(crate) address: String,
}

/// The options that the gateway serves with.
pub(crate) struct Serving<'a> {
    pub(crate) session_dir: &'a Path,
    pub(crate) token: &'a str,
    pub(crate) identity: Option<Arc<Identity>>,
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    pub(crate) python: &'a Path,
}

impl Gateway {
    /// Opens the port, where the head is to have one.
    pub(crate) fn open(args: &Node, host: &str) -> Result<Option<Self>, String> {
        let Some(wanted) = args.gateway_port else { return Ok(None) };
        let port = match Port::open(host, wanted, true) {
            Err(_) if args.gateway_port_moves => Port::open(host, 0, true),
            opened => opened,
        }?;
        let address = host_port(host, port.number());
        Ok(port.listener().map(|listener| Self { listener, address }))
    }

    /// Serves, on a thread of its own.
    pub(crate) fn serve(self, of: Serving<'_>) -> Result<Handle, String> {
        let failed = |error: std::io::Error| format!("the gateway for drivers: {error}");
        let options = server::Options {
            listener: self.listener.try_clone().map_err(failed)?,
            socket: of.session_dir.join(GATEWAY_SOCKET),
            token: of.token.to_owned(),
            identity: of.identity,
            host: of.host.to_owned(),
            port: of.port,
            python: PathBuf::from(of.python),
            // A tenth longer than promised: the two ends notice a break at different times, and coming back takes a
            // moment.
            grace: Duration::from_secs(read(&CLIENT_RECONNECT_GRACE_PERIOD)?).mul_f64(1.1),
        };
        server::start(options).map_err(failed)
    }
}

/// Takes this machine into the cluster behind the gateway; from then on this process reaches other machines through it.
pub(crate) fn join(
    gateway: &str,
    token: &str,
    session_dir: &Path,
    python: &str,
    door: &Port,
    on_end: impl FnOnce() + Send + 'static,
) -> Result<(Guest, GuestNode), Refusal> {
    let (host, port) = values::address(gateway)?;
    let node_id = NodeId(random::bytes());
    let options = guest::Options {
        host,
        port,
        token: token.to_owned(),
        node_id,
        python: python.to_owned(),
        door: door.number(),
        by_token: authority::of_guest(session_dir, token)?,
    };
    let joined = guest::join(options, |why| {
        tracing::error!(fatal = true, reason = why, "the session with the cluster is over");
        on_end();
    });
    let guest = joined.map_err(|why| {
        why.told(|why| format!("the cluster behind {gateway} is not reached: {why}"))
    })?;
    detour::take(guest.entrance, token);
    let node = GuestNode { node_id, port: guest.port };
    Ok((guest, node))
}
