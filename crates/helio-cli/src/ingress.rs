//! `serve-ingress`: the HTTP server of Serve on this node, started by Serve's controller.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use helio_config::session::{PID_FILE, READY_FILE, TOKEN_FILE};
use helio_ingress::{Options, ready_line, run as serve};
use helio_tls::{Key, PublicFiles};
use serde_json::Value;

/// The address at which the ingress listens, and what it shows there.
#[derive(Debug, clap::Args)]
pub(crate) struct Listening {
    #[arg(long, value_name = "IP")]
    host: String,
    #[arg(long, value_name = "PORT")]
    port: u16,
    #[arg(long, value_name = "PORT")]
    grpc_port: Option<u16>,
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// A file, or `-`: the key comes by the standard input.
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    #[arg(long, value_name = "FILE")]
    tls_clients: Option<PathBuf>,
    #[arg(long, value_name = "SECONDS")]
    keep_alive_s: u64,
}

impl Listening {
    fn tls(&self) -> Result<Option<PublicFiles>, String> {
        let (Some(certificate), Some(key)) = (&self.tls_certificate, &self.tls_key) else {
            return Ok(None);
        };
        let key = if key.as_os_str() == "-" {
            let mut pem = Vec::new();
            let read = std::io::stdin().read_to_end(&mut pem);
            read.map_err(|error| format!("the key of TLS: {error}"))?;
            Key::Given(pem)
        } else {
            Key::File(key.clone())
        };
        let (certificate, clients) = (certificate.clone(), self.tls_clients.clone());
        Ok(Some(PublicFiles { certificate, key, clients }))
    }
}

pub(crate) fn run(session_dir: &Path, listening: &Listening) -> Result<(), String> {
    let read = |name: &str| {
        let path = session_dir.join(name);
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    helio_tls::join(session_dir);
    let outcome = (|| {
        let ready: Value = serde_json::from_str(&read(READY_FILE)?).unwrap_or_default();
        let options = Options {
            host: listening.host.clone(),
            port: listening.port,
            grpc_port: listening.grpc_port,
            tls: listening.tls()?,
            // Not among the sockets: those are removed with a daemon that was killed.
            control_socket: session_dir.join("serve.sock"),
            daemon_pid_file: session_dir.join(PID_FILE),
            // A session of one machine is not taken up again.
            daemon_may_return: ready["port"].as_u64().is_some_and(|port| port != 0),
            token: read(TOKEN_FILE)?,
            keep_alive: Duration::from_secs(listening.keep_alive_s),
        };
        serve(&options, |ports| say(&ready_line(Ok(ports))))
    })();
    if let Err(error) = &outcome {
        say(&ready_line(Err(error)));
    }
    outcome
}

/// A starter that has gone away needs no word.
fn say(line: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
