//! `serve-ingress`: the HTTP server of Serve on this node, started by Serve's controller.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use helio_config::session::{PID_FILE, READY_FILE, TOKEN_FILE};
use helio_ingress::{Options, ready_line, run as serve};
use serde_json::Value;

pub(crate) fn run(
    session_dir: &Path,
    host: &str,
    port: u16,
    keep_alive_s: u64,
) -> Result<(), String> {
    let read = |name: &str| {
        let path = session_dir.join(name);
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    helio_tls::join(session_dir);
    let outcome = (|| {
        let ready: Value = serde_json::from_str(&read(READY_FILE)?).unwrap_or_default();
        let options = Options {
            host: host.to_owned(),
            port,
            // Not among the sockets: those are removed with a daemon that was killed.
            control_socket: session_dir.join("serve.sock"),
            daemon_pid_file: session_dir.join(PID_FILE),
            // A session of one machine is not taken up again.
            daemon_may_return: ready["port"].as_u64().is_some_and(|port| port != 0),
            token: read(TOKEN_FILE)?,
            keep_alive: Duration::from_secs(keep_alive_s),
        };
        serve(&options, |port| say(&ready_line(Ok(port))))
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
