//! Asking a cluster and waiting for the answer, on a loop of this thread's own.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use helio_observer::{Asker, Cluster, introduction};
use helio_proto::control::{ControlRequest, ControlResponse};
use helio_proto::hello::Refusal;
use helio_proto::inspect::{Answers, Question};
use helio_rpc::service::Error;
use helio_types::address::host_port;

use crate::names;

/// Time for which a control service that does not answer yet is tried.
const REACH_MAX: Duration = Duration::from_secs(3);
const REACH_PAUSE: Duration = Duration::from_millis(100);

/// Time between two lines of a machine that says that it waits for its head.
const SAY_EVERY: Duration = Duration::from_secs(30);

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    Ok(runtime.map_err(|error| error.to_string())?.block_on(future))
}

/// The cluster whose control service is there; for a node that is about to join, see [`introduction`].
pub(crate) fn cluster(
    host: &str,
    port: u16,
    token: &str,
    joining: Option<(&str, u16)>,
) -> Result<Cluster, Refusal> {
    let began = Instant::now();
    let asked = block_on(async {
        loop {
            match introduction(host, port, token, joining).await {
                // A service that has just been started may not listen yet.
                Err(error) if is_passing(&error) && began.elapsed() < REACH_MAX => {
                    tokio::time::sleep(REACH_PAUSE).await;
                }
                outcome => return outcome,
            }
        }
    })?;
    let address = host_port(host, port);
    let text = match asked {
        Ok(cluster) => return Ok(cluster),
        Err(Error::Refused(refusal)) => {
            return Err(
                refusal.told(|text| format!("The cluster at {address} refuses this node: {text}"))
            );
        }
        Err(error) => not_reached(error, &address),
    };
    Err(text.into())
}

/// The sentence for a cluster that did not answer, or not as one does.
fn not_reached(error: Error, address: &str) -> String {
    match error {
        Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => format!(
            "Failed to connect to the cluster at {address}: {error}. Is the head node running, and does a firewall \
             let this machine reach its port? A cluster that a driver's `init()` started takes no further machines: \
             begin it with `{} start --head`.",
            names::command()
        ),
        Error::Io(error) => format!(
            "Failed to connect to the cluster at {address}: {error}. Is the head node running, and can its port \
             be reached from this machine?"
        ),
        Error::Tls(why) => format!("No encrypted connection to the cluster at {address}: {why}."),
        other => format!("The server at {address} is not a cluster of this release: {other}"),
    }
}

/// Waits until somebody answers at the address of a cluster that this machine is to join: machines are started in any
/// order. What is waited for is said by `say`, at once and every [`SAY_EVERY`]. Whether the answer is the right one, or
/// why none came in time, is told by whoever joins. Returns the name of the cluster's session, where it was told.
pub(crate) fn await_head(
    host: &str,
    port: u16,
    token: &str,
    at_most: Duration,
    mut say: impl FnMut(&str),
) -> Result<Option<String>, String> {
    let began = Instant::now();
    let mut said: Option<Instant> = None;
    block_on(async {
        loop {
            let why = match introduction(host, port, token, None).await {
                Ok(cluster) => return Some(cluster.session_name),
                Err(Error::Io(error)) if may_come(&error) => error.to_string(),
                Err(Error::Silent) => "it accepts connections and does not answer".to_owned(),
                Err(Error::Left) => "it hangs up: a head without its lease, or no head".to_owned(),
                // Somebody answers: the join itself tells what is wrong with it.
                Err(_) => return None,
            };
            let waited = began.elapsed();
            if waited >= at_most {
                return None;
            }
            if said.is_none_or(|said| said.elapsed() >= SAY_EVERY) {
                said = Some(Instant::now());
                say(&format!(
                    "Waiting for the head at {} ({why}). This node joins as soon as it answers; {} of {} s are over \
                     (HELIOSTAT_JOIN_WAIT_S sets how long).",
                    host_port(host, port),
                    waited.as_secs(),
                    at_most.as_secs(),
                ));
            }
            tokio::time::sleep(REACH_PAUSE).await;
        }
    })
}

/// Whether a connection may succeed later: nobody listens there yet, the machine is not up, or its name is not known
/// yet.
fn may_come(error: &io::Error) -> bool {
    !matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput)
}

/// Worth another try: the head may be starting, or has fallen silent for a moment.
fn is_passing(error: &Error) -> bool {
    match error {
        Error::Left => true,
        Error::Io(error) => {
            matches!(
                error.kind(),
                io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset
            )
        }
        _ => false,
    }
}

/// Asks the control service through a node's daemon.
pub(crate) fn ask(
    node_socket: &Path,
    token: &str,
    request: impl Into<ControlRequest>,
) -> Result<ControlResponse, String> {
    block_on(Asker::new(node_socket, token).ask(request))?
}

/// Asks the control service through a node's daemon, and waits no longer than so.
pub(crate) fn ask_within(
    node_socket: &Path,
    token: &str,
    request: impl Into<ControlRequest>,
    at_most: Duration,
) -> Result<ControlResponse, String> {
    block_on(async {
        let answer =
            tokio::time::timeout(at_most, Asker::new(node_socket, token).ask(request)).await;
        answer.unwrap_or_else(|_| {
            Err(format!("its head did not answer within {} s", at_most.as_secs()))
        })
    })?
}

/// Asks the processes of the cluster through a node's daemon.
pub(crate) fn inspect(
    node_socket: &Path,
    token: &str,
    question: Question,
) -> Result<Answers, String> {
    block_on(Asker::new(node_socket, token).inspect(question))?
}
