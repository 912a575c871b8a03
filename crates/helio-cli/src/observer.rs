//! Asking a cluster, as any client could.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use helio_proto::cluster::ControlToNode;
use helio_proto::control::{ControlRequest, ControlResponse, NodeInfo};
use helio_proto::hello::{Hello, Role};
use helio_proto::inspect::{Inspect, Inspected, Question};
use helio_proto::node::{ClientToNode, ControlCall, NodeToClient, Register};
use helio_rpc::service::{Error, connect_tcp, connect_unix};
use helio_types::WorkerId;

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// How long a control service that does not answer yet is tried.
const REACH_MAX: Duration = Duration::from_secs(3);
const REACH_PAUSE: Duration = Duration::from_millis(100);

fn block_on<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    Ok(runtime.map_err(|error| error.to_string())?.block_on(future))
}

fn hello(token: &str) -> Hello {
    Hello {
        token: token.to_owned(),
        role: Role::Observer as u32,
        worker_id: WorkerId(helio_env::random::bytes()),
        pid: std::process::id(),
        ..Hello::default()
    }
}

/// What a control service says of its cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) session_name: String,
    pub(crate) nodes: Vec<NodeInfo>,
}

/// The cluster whose control service is there.
pub(crate) fn cluster(host: &str, port: u16, token: &str) -> Result<Cluster, String> {
    let began = Instant::now();
    let asked = block_on(async {
        loop {
            match introduction(host, port, token).await {
                Err(Error::Io(error)) if is_passing(&error) && began.elapsed() < REACH_MAX => {
                    tokio::time::sleep(REACH_PAUSE).await;
                }
                outcome => return outcome,
            }
        }
    })?;
    asked.map_err(|error| match error {
        Error::Refused(reason) => format!("The cluster at {host}:{port} refuses this node: {reason}"),
        Error::Io(error) => format!(
            "Failed to connect to the cluster at {host}:{port}: {error}. Is the head node running, and can its port \
             be reached from this machine?"
        ),
        other => format!("What answers at {host}:{port} is no cluster of this release: {other}"),
    })
}

/// Worth another try: the head may be starting.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset)
}

async fn introduction(host: &str, port: u16, token: &str) -> Result<Cluster, Error> {
    let (mut reader, _writer, _) = connect_tcp(host, port, hello(token)).await?;
    let said = async { Ok::<_, Error>((reader.next().await?, reader.next().await?)) };
    match tokio::time::timeout(ANSWER_MAX, said).await.map_err(|_| Error::Silent)?? {
        (Some(ControlToNode::Accepted(accepted)), Some(ControlToNode::View(view))) => {
            Ok(Cluster { session_name: accepted.session_name, nodes: view.nodes })
        }
        _ => Err(Error::Truncated),
    }
}

/// Asks the control service through a node's daemon.
pub(crate) fn ask(
    node_socket: &Path,
    token: &str,
    request: impl Into<ControlRequest>,
) -> Result<ControlResponse, String> {
    block_on(ask_on(node_socket, token, request))?
}

/// The same on a running loop. An answer also says that the node is in the cluster.
pub(crate) async fn ask_on(
    node_socket: &Path,
    token: &str,
    request: impl Into<ControlRequest>,
) -> Result<ControlResponse, String> {
    let answer = tokio::time::timeout(ANSWER_MAX, request_on(node_socket, token, request.into()));
    match answer.await {
        Ok(Ok(ControlResponse::Failed(failure))) => Err(failure.message),
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error)) => {
            Err(format!("The daemon at {} cannot be asked: {error}", node_socket.display()))
        }
        Err(_) => Err(format!(
            "No cluster status. It may take a few seconds for the cluster to be ready, or the head node cannot be \
             reached (asked {} for {} s).",
            node_socket.display(),
            ANSWER_MAX.as_secs()
        )),
    }
}

async fn request_on(
    node_socket: &Path,
    token: &str,
    request: ControlRequest,
) -> Result<ControlResponse, Error> {
    let message = ControlCall { request_id: 1, request };
    say(node_socket, token, message.into(), |answer| match answer {
        NodeToClient::ControlReply(reply) => Some(reply.response),
        _ => None,
    })
    .await
}

/// Asks the processes of the cluster through a node's daemon.
pub(crate) fn inspect(
    node_socket: &Path,
    token: &str,
    question: Question,
) -> Result<Inspected, String> {
    let message = Inspect { request_id: 1, question, own_node_only: false };
    let told = say(node_socket, token, message.into(), |answer| match answer {
        NodeToClient::Inspected(told) => Some(told),
        _ => None,
    });
    let told = block_on(async { tokio::time::timeout(ANSWER_MAX, told).await })?;
    told.map_err(|_| "the daemon did not answer in time".to_owned())?.map_err(|error| {
        format!("The daemon at {} cannot be asked: {error}", node_socket.display())
    })
}

/// Registers with a daemon, says one thing and waits for its answer.
async fn say<T>(
    node_socket: &Path,
    token: &str,
    message: ClientToNode,
    answer: impl Fn(NodeToClient) -> Option<T>,
) -> Result<T, Error> {
    let hello = hello(token);
    let worker_id = hello.worker_id;
    let (mut reader, writer, _) = connect_unix(node_socket, hello).await?;
    let pid = std::process::id();
    let register = Register { worker_id, pid, observer: true, ..Register::default() };
    // What cannot be sent is reported by the read.
    let _ = writer.send(&ClientToNode::Register(register));
    let _ = writer.send(&message);
    loop {
        match reader.next::<NodeToClient>().await? {
            Some(NodeToClient::Registered(registered)) if registered.failed => {
                return Err(Error::Refused(registered.failure.message));
            }
            Some(message) => {
                if let Some(answer) = answer(message) {
                    return Ok(answer);
                }
            }
            None => return Err(Error::Truncated),
        }
    }
}
