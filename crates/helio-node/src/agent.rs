//! Whether this node is well, for the probes of Kubernetes: `GET /api/healthz` and `/api/local_raylet_healthz`, on
//! every node at the port that `--dashboard-agent-listen-port` names.
//!
//! **AUTH-1** Whoever asks learns nothing but that: kubelets have no token.
//!
//! A daemon that answers does its work: the answer passes through its loop. A node without its head is well, too: it
//! waits for the head, and leaves by itself after a while; to end it sooner would lose what runs there.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use helio_rpc::http::Entrance;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::http::{self, Answer, Answers};
use crate::input::{Input, Inputs};

/// Time that the daemon's loop may take to answer; less than a probe waits.
const ANSWER_MAX: Duration = Duration::from_millis(1500);

struct Agent {
    is_head: bool,
    inputs: Inputs,
}

/// Opens the port at every address of the machine: probes ask by the pod's address and by `localhost`.
pub(crate) async fn listen(port: u16) -> io::Result<TcpListener> {
    match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
        // A machine without IPv6.
        Err(_) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await,
    }
}

pub(crate) fn serve(listener: TcpListener, is_head: bool, inputs: Inputs) {
    // Nothing that it says needs to be kept from anybody.
    http::serve(listener, Entrance::default(), Agent { is_head, inputs });
}

impl Answers for Agent {
    async fn answer(&self, head: &str) -> Answer {
        let (method, path) = http::target(head);
        let show = match (method, path) {
            ("GET" | "HEAD", "/api/local_raylet_healthz") => |outcome: &str, _| outcome.to_owned(),
            ("GET" | "HEAD", "/api/healthz") => both,
            ("GET" | "HEAD", _) => return refusal("404 Not Found", "", NOT_HERE),
            _ => return refusal("405 Method Not Allowed", "Allow: GET\r\n", "Only GET.\n"),
        };
        let (reply, answered) = oneshot::channel();
        let asked = async {
            self.inputs.send(Input::Probe { reply }).await.ok()?;
            answered.await.ok()
        };
        // The answer of the loop itself: a thread that lives says nothing of a loop that hangs.
        let (status, outcome) = match tokio::time::timeout(ANSWER_MAX, asked).await {
            Ok(Some(())) => ("200 OK", "success"),
            Ok(None) => ("503 Service Unavailable", "the node is ending"),
            Err(_) => ("503 Service Unavailable", "the node's daemon does not answer"),
        };
        let body = if method == "HEAD" { String::new() } else { show(outcome, self.is_head) };
        Answer { status, more: "", body }
    }
}

const NOT_HERE: &str =
    "This port says whether the node is well: /api/healthz, /api/local_raylet_healthz.\n";

/// Returns the text of `/api/healthz`. The control service is a thread of the head's daemon, and ends with it.
fn both(outcome: &str, is_head: bool) -> String {
    let control = if is_head { outcome } else { "success (no local gcs)" };
    format!("raylet: {outcome}\ngcs: {control}")
}

fn refusal(status: &'static str, more: &'static str, body: &str) -> Answer {
    Answer { status, more, body: body.to_owned() }
}
