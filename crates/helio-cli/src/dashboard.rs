//! The head's HTTP server as part of the daemon, and the links that let a browser in.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use helio_storage::outside::Copies;
use helio_tls::Identity;

use helio_config::dashboard::{HOST, PORT};

use crate::args::{Dashboard, DashboardAddress};
use crate::session::{self, Found};
use crate::{folder, locate, output, settings};

/// Returns the address of the dashboard that `start` asks of the daemon; `None`: no server.
pub(crate) fn wanted(args: &Dashboard) -> Option<DashboardAddress> {
    (args.include_dashboard != Some(false)).then(|| DashboardAddress {
        dashboard: Some(format!(
            "{}:{}",
            args.dashboard_host.as_deref().unwrap_or(HOST),
            args.dashboard_port.unwrap_or(PORT)
        )),
        // A port that was named is taken or an error; only the default may move.
        dashboard_port_moves: args.dashboard_port.is_none(),
        dashboard_allowed_hosts: args.dashboard_allowed_hosts.clone(),
    })
}

/// `dashboard`: a link that logs a browser in. A head that opens no port, as that of a script's own cluster, is served by
/// this process, at that port or the next free one, until the session or this process ends.
pub(crate) fn run(address: Option<&str>, port: Option<u16>) -> Result<(), String> {
    let temp_dir = folder::temp_dir(None);
    let found = locate::choose(&temp_dir, address)?;
    let url = found.text("webui_url");
    if !url.is_empty() {
        output::line(&link(url, &locate::token()?)?);
        return Ok(());
    }
    if !found.is_head() {
        return Err(
            "The daemon of this machine is not the head's, and serves no dashboard: ask on the head."
                .to_owned(),
        );
    }
    serve_until_it_ends(&temp_dir, &found, port)
}

/// Time between two looks whether the session has ended.
const LOOK: Duration = Duration::from_millis(500);

/// A server of this command's own, at that port or at the usual one or the next free one.
pub(crate) fn open_here(port: Option<u16>) -> Result<Server, String> {
    let wanted = DashboardAddress {
        dashboard: Some(format!("{HOST}:{}", port.unwrap_or(PORT))),
        dashboard_port_moves: port.is_none(),
        dashboard_allowed_hosts: Vec::new(),
    };
    let absent = "This build of the command has no dashboard: its feature `dashboard` is off.";
    Server::open(&wanted, HOST)?.ok_or_else(|| absent.to_owned())
}

fn serve_until_it_ends(temp_dir: &Path, found: &Found, port: Option<u16>) -> Result<(), String> {
    let server = open_here(port)?;
    let (token, url) = (locate::token()?, server.url.clone());
    let python: String = helio_env::settings::read(&helio_config::table::PYTHON)?;
    let identity = helio_tls::current().map_err(|error| error.to_string())?;
    let _served = server.serve(Serving {
        token: &token,
        session_name: found.text("session_name"),
        session_dir: Path::new(found.text("session_dir")),
        // The cluster of a script: nobody takes it over.
        packages: None,
        job_logs: None,
        node_socket: Path::new(found.text("node_socket")),
        node_id: found.text("node_id").to_owned(),
        control_address: found.text("control_address"),
        python: Path::new(&python),
        job_grace: settings::job_grace()?,
        identity,
        may_be_plain: false,
        history: None,
    });
    output::line(&link(&url, &token)?);
    output::line("Serving until Ctrl-C, or until the session ends.");
    let is_there = |one: &Found| one.dir == found.dir && one.is_alive();
    while session::find(temp_dir).iter().any(is_there) {
        std::thread::sleep(LOOK);
    }
    output::line("The session has ended.");
    Ok(())
}

/// The facts of the daemon that the dashboard's server needs.
pub(crate) struct Serving<'a> {
    pub(crate) token: &'a str,
    pub(crate) session_name: &'a str,
    pub(crate) session_dir: &'a Path,
    pub(crate) packages: Option<Copies>,
    pub(crate) job_logs: Option<Copies>,
    pub(crate) node_socket: &'a Path,
    pub(crate) node_id: String,
    pub(crate) control_address: &'a str,
    pub(crate) python: &'a Path,
    pub(crate) job_grace: Duration,
    pub(crate) identity: Option<Arc<Identity>>,
    pub(crate) may_be_plain: bool,
    /// The folder of the cluster's history.
    pub(crate) history: Option<PathBuf>,
}

/// Returns the scheme of the head's HTTP server at that address: of another machine only what is encrypted is
/// answered, where that is on.
pub(crate) fn scheme(url: &str, is_auto: bool) -> &'static str {
    let is_encrypted = is_auto || helio_tls::current().is_ok_and(|identity| identity.is_some());
    if is_encrypted && !url.starts_with("127.0.0.1:") { "https" } else { "http" }
}

#[cfg(feature = "dashboard")]
pub(crate) use served::{Handle, Server, link};

#[cfg(feature = "dashboard")]
mod served {
    use std::net::TcpListener;
    use std::path::{Path, PathBuf};

    use helio_config::table::DASHBOARD_NAMES;
    use helio_dashboard::Export;
    pub(crate) use helio_dashboard::Handle;

    use super::Serving;
    use helio_observer::history::Recorded;
    use helio_rpc::http::Entrance;
    use helio_types::address::host_port;

    use crate::args::DashboardAddress;
    use crate::kubernetes;

    /// A link that logs a browser in, once.
    pub(crate) fn link(url: &str, token: &str) -> Result<String, String> {
        let scheme = super::scheme(url, false);
        if token == helio_types::OPEN_TOKEN {
            return Ok(format!("{scheme}://{url}/"));
        }
        let nonce = u64::from_le_bytes(helio_env::random::bytes());
        let key = helio_dashboard::link_key(token, helio_env::clock::unix_ms(), nonce);
        Ok(format!("{scheme}://{url}/login?key={key}"))
    }

    /// The server, which has its port and does not serve yet.
    pub(crate) struct Server {
        listener: TcpListener,
        /// The address at which a browser on this machine finds it: `host:port`.
        pub(crate) url: String,
        /// Names by which browsers may ask for it, as they were given.
        names: Vec<String>,
        export: Option<Export>,
    }

    impl Server {
        /// Opens the port that is asked for.
        pub(crate) fn open(wanted: &DashboardAddress, host: &str) -> Result<Option<Self>, String> {
            let Some(address) = &wanted.dashboard else { return Ok(None) };
            // Port 0 is any, so this is no address of a cluster.
            let wrong = || format!("`--dashboard` is `host:port`, not {address:?}");
            let (given, port) = address.rsplit_once(':').ok_or_else(wrong)?;
            let port = port.parse().map_err(|_| wrong())?;
            let listener = helio_dashboard::listen(given, port, wanted.dashboard_port_moves)?;
            let bound = listener.local_addr().map_err(|error| error.to_string())?;
            let shown = match bound.ip() {
                ip if ip.is_unspecified() => host.to_owned(),
                ip => ip.to_string(),
            };
            let url = host_port(&shown, bound.port());
            let (names, export) =
                (wanted.dashboard_allowed_hosts.clone(), Export::from_environment()?);
            Ok(Some(Self { listener, url, names, export }))
        }

        /// Serves the page of a cluster that is gone.
        pub(crate) fn serve_past(
            self,
            token: &str,
            recorded: Recorded,
            figures: Option<PathBuf>,
            own_dir: &Path,
        ) -> Result<Handle, String> {
            let options = helio_dashboard::PastOptions {
                listener: self.listener,
                token: token.to_owned(),
                address: self.url,
                recorded,
                figures,
                own_dir: own_dir.to_owned(),
            };
            helio_dashboard::start_past(options).map_err(|error| error.to_string())
        }

        /// Serves until the handle is told to stop.
        pub(crate) fn serve(self, serving: Serving<'_>) -> Option<Handle> {
            let set = helio_env::settings::text(&DASHBOARD_NAMES).unwrap_or_default();
            let names = self.names.into_iter().chain(set.split(',').map(str::to_owned));
            let names = names.map(|name| name.trim().to_owned()).chain(kubernetes::names());
            let options = helio_dashboard::Options {
                listener: self.listener,
                token: serving.token.to_owned(),
                names: names.filter(|name| !name.is_empty()).collect(),
                session_name: serving.session_name.to_owned(),
                session_dir: serving.session_dir.to_owned(),
                packages: serving.packages,
                job_logs: serving.job_logs,
                node_socket: serving.node_socket.to_owned(),
                node_id: serving.node_id,
                address: self.url,
                control_address: serving.control_address.to_owned(),
                python: serving.python.to_owned(),
                job_grace: serving.job_grace,
                export: self.export,
                entrance: Entrance {
                    identity: serving.identity,
                    may_be_plain: serving.may_be_plain,
                },
                history: serving.history,
            };
            let started = helio_dashboard::start(options);
            started.inspect_err(|error| tracing::error!(%error, "no HTTP server")).ok()
        }
    }
}

#[cfg(not(feature = "dashboard"))]
pub(crate) use absent::{Handle, Server, link};

#[cfg(not(feature = "dashboard"))]
mod absent {
    use std::path::{Path, PathBuf};

    use helio_observer::history::Recorded;

    use super::Serving;
    use crate::args::DashboardAddress;
    use crate::entry_points::ABSENT;

    pub(crate) fn link(_: &str, _: &str) -> Result<String, String> {
        Err(ABSENT.to_owned())
    }

    pub(crate) struct Server {
        pub(crate) url: String,
    }

    pub(crate) struct Handle;

    impl Handle {
        pub(crate) fn stop(self) {}
    }

    impl Server {
        pub(crate) fn open(wanted: &DashboardAddress, _: &str) -> Result<Option<Self>, String> {
            match wanted.dashboard {
                Some(_) => Err(ABSENT.to_owned()),
                None => Ok(None),
            }
        }

        pub(crate) fn serve(self, _: Serving<'_>) -> Option<Handle> {
            None
        }

        pub(crate) fn serve_past(
            self,
            _: &str,
            _: Recorded,
            _: Option<PathBuf>,
            _: &Path,
        ) -> Result<Handle, String> {
            Err(ABSENT.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        include: Option<bool>,
        host: Option<&str>,
        port: Option<u16>,
        expect: Option<(&str, bool)>,
    ) {
        let args = Dashboard {
            include_dashboard: include,
            dashboard_host: host.map(str::to_owned),
            dashboard_port: port,
            ..Dashboard::default()
        };
        let found = wanted(&args);
        let found = found.as_ref().map(|found| {
            (found.dashboard.as_deref().unwrap_or_default(), found.dashboard_port_moves)
        });
        assert_eq!(found, expect);
    }

    #[test]
    fn a_head_has_a_dashboard_unless_told_otherwise() {
        check(None, None, None, Some(("127.0.0.1:8265", true)));
        check(Some(true), Some("0.0.0.0"), Some(9000), Some(("0.0.0.0:9000", false)));
        check(Some(false), Some("0.0.0.0"), None, None);
    }
}
