//! `serve-ingress`: the HTTP server of Serve on this node, started by Serve's controller.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use helio_config::session::{PID_FILE, TOKEN_FILE};
use helio_ingress::{Options, ready_line, run as serve};

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
        let pid = read(PID_FILE)?;
        let options = Options {
            host: host.to_owned(),
            port,
            control_socket: session_dir.join("sockets").join("serve"),
            daemon_pid: pid.trim().parse().map_err(|_| format!("{PID_FILE} has no process id"))?,
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
